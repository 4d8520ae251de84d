// SPDX-License-Identifier: Apache-2.0
// Configurations written in Python, as far as they only say values: functions of assignments to members
// (`c.parallelism.tensor_parallel_degree = 8`, `p.a, p.b = 2, 4`, `p = c.parallelism`), and of constructors with named
// arguments (`return Trainer.Config(parallelism=ParallelismConfig(tensor_parallel_degree=8))`), with the functions that
// they call, of the same file or of modules that it imports.
//
// Nothing is executed: statements are followed one by one, with what is known of each name. What depends on anything
// else stays an expression, and says on which.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/syntax/config_value.h"

namespace meshwright {

struct PythonFile {
  std::string path;   // by which it is asked for what it imports
  std::string place;  // by which it is named to the user
  std::string text;
};

// What a call of a function that is not there returns ("torch.cuda.is_available"; `of` is ""), or a member that the
// result of a call has, `of` being the first text that it was given ("org/model"), or its name; nullopt: not known.
using PythonKnown = std::function<std::optional<ConfigValue>(const std::string& of, const std::string& name)>;

// What lies around a Python file, and what its reader knows of libraries. Either may be empty.
struct PythonSurroundings {
  // The module that the file of `importer` imports: "a.b" with 0 dots, or relative to it with dots as Python has them;
  // nullopt: it is not there.
  std::function<std::optional<PythonFile>(const std::string& importer, int dots, const std::string& module)> module =
      {};
  PythonKnown known = {};
  std::string path = {};  // of the file itself, as an importer
};

struct PythonConfig {
  std::string function;  // whose statements these are
  // The function whose result it changes ("llama3_70b"), and that is not there, so that its values are not known; or
  // "".
  std::string base;
  std::string name_of_model = {};         // "" or the function that it begins with
  ConfigValue values;                     // a map of maps
  std::vector<std::string> ignored;       // "config.py:12: for x in y:"
  std::vector<std::string> missing = {};  // "a.b (f, g)": modules that are not there, and what is called of them
  std::vector<std::string> modules = {};  // places of those that were read
};

// The functions of a file, in its order; of a file without any, those that it has from others. Throws InputError as
// below.
[[nodiscard]] std::vector<std::string> functions_of_python(const std::string& text, const std::string& place);

// Of the function `name`; "": the last one of the file. What it calls is read with the arguments of the call, where the
// file has it or a module that it imports. A branch whose condition is known to be false is left out; of one whose
// condition is not known, what it sets is an expression ("2 if x > 1 else 1"), and the condition is in `ignored`.
// Throws InputError "PLACE:LINE: ..." where the file has no such function, a bracket or text has no end, the function
// raises, or it takes more files, steps or values than any configuration.
[[nodiscard]] PythonConfig config_from_python(const std::string& text, const std::string& name,
                                              const std::string& place, const PythonSurroundings& around = {});

// A statement `NAME = value`, one of the names of `NAME, NAME = value, value`, or a value alone (a call, a decorator),
// of a module or of its functions.
struct PythonValue {
  std::string name;  // "": the value stands alone or is returned
  ConfigValue value;
  int line = 0;
};
// All of them, in the order of the file; statements of another form are left out. Throws InputError as above.
[[nodiscard]] std::vector<PythonValue> values_from_python(const std::string& text, const std::string& place);

}  // namespace meshwright
