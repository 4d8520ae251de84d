// SPDX-License-Identifier: Apache-2.0
// The modules of a Python configuration: its own file, and those that it imports, each read once and only where a name
// of it is asked for.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "launch/syntax/python/python_config.h"
#include "launch/syntax/python/python_lines.h"
#include "launch/syntax/python/python_object.h"

namespace meshwright {

struct PythonModule {
  PythonFile file;
  std::vector<PythonLine> lines = {};
  std::map<std::string, PythonRef> globals = {};
  std::vector<PythonImport> all_of = {};  // from M import *
  bool is_run = false;                    // its statements, outside of functions
};

class PythonModules {
 public:
  explicit PythonModules(const PythonSurroundings& around) : around_(around) {}

  PythonModule& add(PythonFile file);
  // nullptr: it is not there. Throws InputError where the module cannot be read, or there are too many.
  PythonModule* find(const PythonModule& importer, int dots, const std::string& module);
  [[nodiscard]] const std::deque<PythonModule>& all() const { return modules_; }

 private:
  const PythonSurroundings& around_;
  std::deque<PythonModule> modules_;
  std::map<std::string, PythonModule*> found_;  // by importer, dots and name; of nullptr: not there
  std::size_t bytes_ = 0;
};

}  // namespace meshwright
