// SPDX-License-Identifier: Apache-2.0
// Python's expressions as trees. Nothing is evaluated.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace meshwright {

struct PythonExpression {
  enum class Kind {
    Number,     // text: as it is written, in decimal digits
    Text,       // text: without quotes
    Format,     // f"...": parts are its texts and values; names say "=" of a value, "!" of one that is laid out
    Name,       // text
    Attribute,  // parts: of what; text: which
    Call,       // parts: what is called, then the arguments; names: of each argument, "", "*" or "**"
    Subscript,  // parts: of what, which
    List,
    Tuple,
    Set,
    Dict,           // parts: key, value, key, value; a key of kind Starred: all of the value's
    Unary,          // text: "-", "+", "~", "not"
    Binary,         // text: "+", "-", "*", "/", "//", "%", "**", "|", "&", "^", "<<", ">>", "and", "or"
    Compare,        // names: the operators between the parts: "==", "not in", "is"
    Choice,         // parts: value, condition, value otherwise
    Comprehension,  // text: "[", "{", "{:" or "("; parts, and names: "" what each makes, "for", "in", "if"
    Starred,
    Other  // of a form that is not read: a lambda, a slice
  } kind = Kind::Other;
  std::string text = {};
  std::size_t begin = 0, end = 0;  // where it stands in the text of its statement
  std::vector<PythonExpression> parts = {};
  std::vector<std::string> names = {};
};

[[nodiscard]] bool is_python_name_part(char c);

// The expression, or several with commas between them, that begins at `from` and ends with the text. What a bracket
// holds and is of another form is Kind::Other; nullopt: the whole is.
[[nodiscard]] std::optional<PythonExpression> python_expression(const std::string& text, std::size_t from);

}  // namespace meshwright
