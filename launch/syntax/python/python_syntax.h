// SPDX-License-Identifier: Apache-2.0
// Python's statements and the values of its expressions, as far as they only say values. Nothing is executed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/syntax/config_value.h"

namespace meshwright {

struct PythonStatement {
  std::string text;  // on one line, without comments
  int line, indent;
};
// Lines are joined where a bracket is open or a backslash stands at the end. Throws InputError "PLACE:LINE: ..." at a
// bracket or text without an end.
[[nodiscard]] std::vector<PythonStatement> python_statements(const std::string& text, const std::string& place);

// The expression that begins at `from` and ends with the text: a number (also a sum or product of whole ones), text,
// name, list or dictionary. A call is a map of its named arguments, others as "#0", "#1", with the function as its
// text; "f(x).g(y)" is the call of g with that of f as "(of)". nullopt: it is of another form.
[[nodiscard]] std::optional<ConfigValue> python_value(const std::string& text, int line, std::size_t from);

}  // namespace meshwright
