// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_arithmetic.h"

#include <vector>

#include "launch/syntax/config_value.h"

namespace meshwright {

namespace {

class Arithmetic {
 public:
  Arithmetic(const std::string& text, const ShellLookup& lookup) : text_(text), lookup_(lookup) {}

  std::optional<std::int64_t> value() {
    const std::optional<std::int64_t> found = choice(0);
    skip();
    return at_ == text_.size() ? found : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view symbol) {
    skip();
    if (text_.compare(at_, symbol.size(), symbol) != 0) return false;
    at_ += symbol.size();
    return true;
  }

  Number choice(int depth) {
    if (depth > kMaxLaunchDepth) return std::nullopt;
    const Number condition = binary(0, depth);
    if (!take("?")) return condition;
    const Number yes = choice(depth + 1);
    if (!take(":")) return std::nullopt;
    const Number no = choice(depth + 1);
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }

  struct Level {
    std::vector<const char*> symbols;
  };
  Number binary(std::size_t level, int depth) {
    static const std::vector<Level> kLevels = {
        {{"||"}},       {{"&&"}},     {{"|"}},          {{"^"}}, {{"&"}}, {{"==", "!="}}, {{"<=", ">=", "<", ">"}},
        {{"<<", ">>"}}, {{"+", "-"}}, {{"*", "/", "%"}}};
    if (level == kLevels.size()) return power(depth);
    Number left = binary(level + 1, depth);
    for (;;) {
      const char* found = nullptr;
      for (const char* symbol : kLevels[level].symbols) {
        skip();
        const std::string_view wanted = symbol;
        const char after = at_ + wanted.size() < text_.size() ? text_[at_ + wanted.size()] : ' ';
        const bool longer =
            wanted.size() == 1 && ((after == wanted[0] && wanted != "-" && wanted != "+") || after == '=');
        if (text_.compare(at_, wanted.size(), wanted) == 0 && !longer) {
          found = symbol;
          break;
        }
      }
      if (found == nullptr) return left;
      at_ += std::string_view(found).size();
      const Number right = binary(level + 1, depth);
      left = left && right ? apply(*left, found, *right) : std::nullopt;
    }
  }

  static Number apply(std::int64_t a, const std::string& op, std::int64_t b) {
    std::int64_t result = 0;
    const bool divides = op == "/" || op == "%";
    if (divides && (b == 0 || b == -1)) return b == 0 ? Number{} : Number{op == "%" ? 0 : -a};
    if (op == "*") return __builtin_mul_overflow(a, b, &result) ? Number{} : result;
    if (op == "+") return __builtin_add_overflow(a, b, &result) ? Number{} : result;
    if (op == "-") return __builtin_sub_overflow(a, b, &result) ? Number{} : result;
    if (op == "/") return a / b;
    if (op == "%") return a % b;
    if (op == "<<" || op == ">>") {
      if (b < 0 || b > 62 || a < 0) return std::nullopt;
      if (op == ">>") return a >> b;
      return __builtin_mul_overflow(a, std::int64_t{1} << b, &result) ? Number{} : result;
    }
    if (op == "==") return a == b ? 1 : 0;
    if (op == "!=") return a != b ? 1 : 0;
    if (op == "<=") return a <= b ? 1 : 0;
    if (op == ">=") return a >= b ? 1 : 0;
    if (op == "<") return a < b ? 1 : 0;
    if (op == ">") return a > b ? 1 : 0;
    if (op == "&&") return a != 0 && b != 0 ? 1 : 0;
    if (op == "||") return a != 0 || b != 0 ? 1 : 0;
    if (op == "&") return a & b;
    if (op == "|") return a | b;
    return a ^ b;
  }

  Number power(int depth) {
    const Number base = unary(depth);
    if (!take("**")) return base;
    const Number exponent = depth < kMaxLaunchDepth ? power(depth + 1) : std::nullopt;
    if (!base || !exponent || *exponent < 0 || *exponent > 64) return std::nullopt;
    std::int64_t result = 1;
    for (std::int64_t i = 0; i < *exponent; ++i)
      if (__builtin_mul_overflow(result, *base, &result)) return std::nullopt;
    return result;
  }

  Number unary(int depth) {
    if (depth > kMaxLaunchDepth) return std::nullopt;
    if (take("!")) {
      const Number of = unary(depth + 1);
      return of ? Number{*of == 0 ? 1 : 0} : Number{};
    }
    if (take("-")) {
      const Number of = unary(depth + 1);
      return of && *of != INT64_MIN ? Number{-*of} : Number{};
    }
    if (take("+")) return unary(depth + 1);
    if (take("(")) {
      const Number inner = choice(depth + 1);
      return take(")") ? inner : std::nullopt;
    }
    skip();
    std::string word;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      word += text_[at_++];
    if (word.empty()) return std::nullopt;
    return std::isdigit(static_cast<unsigned char>(word[0])) != 0 ? number(word) : lookup_(word);
  }

  static Number number(const std::string& word) {
    int base = 10;
    std::size_t from = 0;
    if (word.starts_with("0x") || word.starts_with("0X")) {
      base = 16;
      from = 2;
    } else if (word.size() > 1 && word[0] == '0') {
      base = 8;
    }
    std::int64_t value = 0;
    for (const char c : word.substr(from)) {
      const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
      if (digit < 0 || digit >= base || __builtin_mul_overflow(value, base, &value) ||
          __builtin_add_overflow(value, digit, &value))
        return std::nullopt;
    }
    return value;
  }

  const std::string& text_;
  const ShellLookup& lookup_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(const std::string& text, const ShellLookup& lookup) {
  return Arithmetic(text, lookup).value();
}

}  // namespace meshwright
