// SPDX-License-Identifier: Apache-2.0
// A place in HLO text, and the small pieces found there: words, balanced brackets, numbers, types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

class HloCursor {
 public:
  HloCursor(std::string_view text, const std::string& place, int line = 1) : text_(text), place_(place), line_(line) {}

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] std::string_view rest_of_line() const { return text_.substr(at_, text_.find('\n', at_) - at_); }
  [[nodiscard]] const std::string& place() const { return place_; }

  void advance(std::size_t count);
  void skip_space();  // and line ends, and /* comments */
  void skip_line();
  bool take(std::string_view word);  // skips it where it is next
  // Letters, digits and "_.-"; a leading '%' is skipped.
  [[nodiscard]] std::string_view name();
  // From the opening bracket that is next to its closing one, without both. Strings may hold anything.
  [[nodiscard]] std::string_view balanced();
  // Up to a comma, a closing bracket or a line's end, outside of brackets and strings.
  [[nodiscard]] std::string_view value();
  [[nodiscard]] Type type(int depth = 0);

  // Throws InputError: "<place>:<line>: <why>; ...".
  [[noreturn]] void fail(const std::string& why) const;

 private:
  // The end of the bracket or string that begins at `from`; text_.size() where there is none.
  [[nodiscard]] std::size_t end_of(std::size_t from) const;

  std::string_view text_;
  const std::string& place_;
  std::size_t at_ = 0;
  int line_;
};

// The pieces between commas outside of brackets and strings, without space around them.
[[nodiscard]] std::vector<std::string_view> pieces_of(std::string_view list);
[[nodiscard]] std::string_view trimmed(std::string_view text);
// A decimal integer that fills the text; false where it is none.
[[nodiscard]] bool integer_of(std::string_view text, std::int64_t& value);
// "{1,2}" or "1,2"; what is no number is left out.
[[nodiscard]] std::vector<std::int64_t> integers_of(std::string_view list);

}  // namespace meshwright::xla
