// SPDX-License-Identifier: Apache-2.0
// What main and a verb tell each other: the work that parsing has found to do, and how errors are reported.
#pragma once

#include <functional>
#include <string>

namespace meshwright {

struct Context {
  std::function<void()> action;
  std::string command_line;         // "meshwright profile --backend cpu ...": provenance of what is measured
  bool quiet = false;               // what went wrong has been said, or another process says it
  std::function<void()> say_error;  // says the exception that is being handled at once, not when the command ends
};

}  // namespace meshwright
