// SPDX-License-Identifier: Apache-2.0
// The statements of a Python file by what they do, with the blocks of those that have one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/syntax/python/python_tree.h"

namespace meshwright {

struct PythonParameter {
  std::string name;  // "*args", "**more" with their stars
  std::optional<PythonExpression> otherwise;
};

struct PythonLine {
  enum class Kind {
    Assign,   // targets = value
    Augment,  // targets[0] sign= value
    Call,     // value stands alone
    Return,
    Raise,
    Assert,
    Delete,
    Import,
    Pass,  // and texts that stand alone
    Break,
    Continue,
    If,
    Elif,
    Else,
    For,  // targets[0] in value
    While,
    With,
    Try,
    Except,
    Finally,
    Function,
    Class,
    Decorator,
    Other  // of a form that is not read
  } kind = Kind::Other;
  std::string text;
  int line = 0, indent = 0;
  std::size_t end = 0;  // behind its block, in the order of the file
  // --- what parse_line() adds ---
  bool is_parsed = false;
  std::string sign = {};
  std::vector<PythonExpression> targets = {};
  std::optional<PythonExpression> value = {};
  std::vector<PythonParameter> parameters = {};
  bool makes_a_sequence = false;  // a function with `yield`
};

// One statement each, also where several stand on one line. Throws InputError as python_statements.
[[nodiscard]] std::vector<PythonLine> python_lines(const std::string& text, const std::string& place);
// What stands in line `at`: its targets, value and parameters, once.
void parse_line(std::vector<PythonLine>& lines, std::size_t at);
// "def NAME(" and "class NAME(": NAME.
[[nodiscard]] std::string defined_name(const std::string& text);

// `import MODULE as ALIAS`, `from MODULE import NAME as ALIAS`.
struct PythonImport {
  std::string module;
  int dots = 0;       // of a relative one
  std::string name;   // "": the module itself; "*": all
  std::string alias;  // what it is called here
};
[[nodiscard]] std::vector<PythonImport> imports_of(const std::string& text);

}  // namespace meshwright
