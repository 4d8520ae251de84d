// SPDX-License-Identifier: Apache-2.0
// The commands of a script before anything is expanded.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

// A word as it is written, with its quotes.
struct RawWord {
  std::string text;
  int line = 0;
};

struct ShellNode {
  enum class Kind {
    Simple,      // assignments, then words
    If,          // lists: condition, body, condition, body, ..., and the body of `else` if their number is odd
    For,         // words: those of `in`; lists: body
    Loop,        // lists: condition, body; words: none of while, "until", or the three parts of for ((;;))
    Case,        // words: the subject; patterns and lists: one each
    Function,    // name; lists: body
    Group,       // { } or ( ); lists: body
    Test,        // [[ ]]: words
    Arithmetic,  // (( )): words: the expression
  };
  struct Assignment {
    std::string name, index;
    bool append = false, array = false;
    RawWord value = {};
    std::vector<RawWord> items = {};  // of an array
  };

  Kind kind = Kind::Simple;
  int line = 0;
  char before = ';';  // what joins it to the node before: ';', '|', '&' for &&, 'o' for ||
  bool negated = false;
  std::string name = {};  // Function, For: of the variable
  std::vector<Assignment> assignments = {};
  std::vector<RawWord> words = {};
  std::vector<std::vector<std::string>> patterns = {};
  std::vector<std::vector<ShellNode>> lists = {};
  std::string input = {};     // here document, or the raw word of a here string
  bool has_document = false;  // it is a document
  bool input_quoted = false;  // nothing in it is expanded
  std::string output = {};    // raw name of the file behind > or >>
};

struct ShellTree {
  std::vector<ShellNode> nodes;
  std::vector<RawWord> directives;  // of lines "#SBATCH ..."
};

// Throws InputError "PLACE:LINE: ...". `first_line`: the number of the text's first line.
[[nodiscard]] ShellTree parse_shell(const std::string& text, const std::string& place, int first_line);

}  // namespace meshwright
