// SPDX-License-Identifier: Apache-2.0
// Walks over the text of an MLIR module, piece by piece, without copying it.
//
// Every piece is a view of the text. Space and comments between pieces are passed over. What does not fit throws
// InputError, "PLACE:LINE: ...".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshwright::mlir {

// A value that an op reads: "%8#1" is name "8", element 1; "%8" is its element 0.
struct Use {
  std::string_view name;
  std::int64_t element = 0;
};

class Scanner {
 public:
  // `first_line`: of the text in its file.
  Scanner(std::string_view text, std::string place, int first_line = 1)
      : text_(text), place_(std::move(place)), counted_line_(first_line) {}

  [[nodiscard]] bool done();
  [[nodiscard]] char peek();  // '\0' at the end
  [[nodiscard]] bool at(std::string_view text);
  bool accept(std::string_view text);       // punctuation
  bool accept_word(std::string_view word);  // a whole word
  void expect(std::string_view text);

  [[nodiscard]] bool at_word();  // a letter or '_' comes next
  std::string_view word();       // letters, digits, '_', '$' and '.', from a letter or '_' on
  std::string_view string();     // between its quotes, escapes as they stand
  std::string_view symbol();     // behind '@', without quotes
  Use use();
  std::int64_t integer();
  std::optional<std::int64_t> maybe_integer();

  // An attribute's value: one piece, or brackets with all they hold, or several that 'x' and '->' join.
  std::string_view value();
  // From here to `end` on the level of brackets where this begins; `end` is not passed.
  std::string_view until(std::string_view ends);
  // The rest of an op of unknown form: to the end of its line, or of what is open there.
  std::string_view rest_of_op();
  void skip_past(std::string_view mark);  // to the end of the text where there is none

  [[nodiscard]] std::size_t position();  // of the next piece
  [[nodiscard]] std::string_view between(std::size_t from, std::size_t to) const {
    return text_.substr(from, to - from);
  }
  [[nodiscard]] int line();
  [[nodiscard]] const std::string& place() const { return place_; }
  [[noreturn]] void fail(std::string_view sentence);

 private:
  void space();
  void bracket();  // one, with all it holds
  void piece();    // a bracket, a string, or one character
  void quoted();   // a string with its quotes

  std::string_view text_;
  std::string place_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // up to here lines are counted
  int counted_line_;
};

// "a\"b" of what stands between quotes.
[[nodiscard]] std::string unescaped(std::string_view text);

}  // namespace meshwright::mlir
