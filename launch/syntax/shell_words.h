// SPDX-License-Identifier: Apache-2.0
// Words expanded as bash does it, with what is not known left in them as a mark (kUnresolved).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/syntax/shell.h"
#include "launch/syntax/shell_tree.h"

namespace meshwright {

struct ShellVariable {
  std::vector<ShellWord> values;  // one, unless it is an array
  bool array = false;
  bool named = false;                   // its elements have names (declare -A)
  std::vector<std::string> names = {};  // of these, in the order of values
};

[[nodiscard]] std::string joined_words(const std::vector<ShellWord>& words);  // with blanks between

class ShellWords {
 public:
  ShellWords(ShellResult& result, const std::string& place) : result_(result), place_(place) {}

  std::map<std::string, ShellVariable> variables;
  std::vector<ShellWord> arguments;  // $1, $2, ...
  std::string called, source;        // $0, and the file that runs, as they were named; "": the script itself
  std::map<std::string, const ShellNode*> functions;
  // What a call of one of them prints; nullopt: that is not known.
  std::function<std::optional<std::string>(const ShellNode& call)> output_of_call;
  // The text of a file that is given, that the script has written or that lies beside it.
  std::function<std::optional<std::string>(const std::string& path)> text_of_file;

  // Fields of an unquoted word: as many as it expands to.
  [[nodiscard]] std::vector<ShellWord> fields(const RawWord& word);
  // One text, without splitting.
  [[nodiscard]] std::string text(const RawWord& word);
  // Of a here document, in which quotes mean nothing.
  [[nodiscard]] std::string document(const std::string& body, int line);
  // nullopt: it depends on something that is not known, or is no expression.
  [[nodiscard]] std::optional<std::int64_t> arithmetic(const std::string& expression, int line);

  // What commands between pipes print, without the line breaks at its end; nullopt: not known without running them.
  [[nodiscard]] std::optional<std::string> piped(std::span<const ShellNode> pipe, int line);

  void set(const std::string& name, const std::string& value, int line);
  // All variables and arguments as texts, to tell whether something changed.
  [[nodiscard]] std::vector<std::string> state() const;

 private:
  enum class Quotes { None, Double, Document };
  // Pieces of a word in the making: fields that are finished, and the one that grows.
  struct Growing {
    std::vector<ShellWord> done;
    std::string text;
    bool begun = false, splits = true;
    int line = 0;
  };

  void expand(const std::string& raw, int line, Quotes quotes, Growing& into, int depth);
  void add_split(const std::string& value, int line, Growing& into);
  void add_value(const std::vector<ShellWord>& values, bool each, Quotes quotes, int line, Growing& into);
  std::size_t dollar(const std::string& raw, std::size_t at, int line, Quotes quotes, Growing& into, int depth);
  void parameter(const std::string& inner, int line, Quotes quotes, Growing& into, int depth);
  [[nodiscard]] std::vector<ShellWord> values_of(const std::string& name, const std::string& index, int line,
                                                 bool& set);
  [[nodiscard]] std::string text_at_depth(const std::string& raw, int line, int depth);
  [[nodiscard]] std::string cut(std::string text, const std::string& rest, int line, int depth);
  [[nodiscard]] std::optional<std::string> printed(const std::string& inner, int line);
  [[nodiscard]] std::optional<std::string> printed_by(const ShellNode& node, int line);
  [[nodiscard]] std::optional<std::string> printed_by_test(std::span<const ShellNode> nodes, int line);
  [[nodiscard]] std::optional<std::string> printed_of_file(const ShellNode& node);
  [[nodiscard]] std::optional<std::string> printed_of_path(const ShellNode& node);
  [[nodiscard]] std::optional<std::string> printed_by_moving(std::span<const ShellNode> nodes);
  [[nodiscard]] std::optional<std::string> echoed_words(const ShellNode& node);
  [[nodiscard]] std::vector<ShellWord> fields_of(const ShellNode& node);  // of all words
  void add_escaped(char c, int line, Quotes quotes, Growing& into);
  std::size_t double_quoted(const std::string& raw, std::size_t at, int line, Growing& into, int depth);
  // What the caller says that a command prints, or its mark.
  void add_unknown(const char* kind, const std::string& inner, int line, Quotes quotes, Growing& into);
  std::vector<ShellWord> unset(const std::string& name, int line);
  void grow(std::size_t more);

  ShellResult& result_;
  const std::string& place_;
  std::size_t grown_ = 0;
  std::map<std::string, std::string> commands_by_mark_;  // each mark stands for one command
};

}  // namespace meshwright
