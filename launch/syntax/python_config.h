// SPDX-License-Identifier: Apache-2.0
// Configurations written in Python, as far as they only say values: functions of assignments to members
// (`c.parallelism.tensor_parallel_degree = 8`, `p.a, p.b = 2, 4`, `p = c.parallelism`), and of constructors with named
// arguments (`return Trainer.Config(parallelism=ParallelismConfig(tensor_parallel_degree=8))`).
//
// Nothing is executed. Numbers may be sums and products; a statement of another form is left out and listed.
#pragma once

#include <string>
#include <vector>

#include "launch/syntax/config_value.h"

namespace meshwright {

struct PythonConfig {
  std::string function;  // whose statements these are
  // The function whose result it changes ("llama3_70b"), and that is not in the file, so that its values are not known;
  // or "".
  std::string base;
  std::string name_of_model = {};    // "" or the function of this file that it begins with
  ConfigValue values;                // a map of maps
  std::vector<std::string> ignored;  // "config.py:12: for x in y:"
};

// The functions of a file, in its order. Throws InputError as below.
[[nodiscard]] std::vector<std::string> functions_of_python(const std::string& text, const std::string& place);

// Of the function `name`; "": the last one of the file. What it calls and the file has is read with the arguments of
// the call; a branch whose condition is known to be false is left out. Throws InputError "PLACE:LINE: ..." where the
// file has no such function, or a bracket or text without an end.
[[nodiscard]] PythonConfig config_from_python(const std::string& text, const std::string& name,
                                              const std::string& place);

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
