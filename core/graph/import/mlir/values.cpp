// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/mlir/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/base/errors.h"

namespace meshwright::mlir {

namespace {

constexpr int kMaxTypeDepth = 64;  // of types and lists within each other

// HLO's name of an element.
std::string element_name(std::string_view name) {
  static const std::map<std::string_view, const char*> kSpecial{{"i1", "pred"}, {"index", "s64"}, {"none", "token"}};
  if (const auto special = kSpecial.find(name); special != kSpecial.end()) return special->second;
  std::string text;
  if (name.size() > 1 && name[0] == 'i' && name[1] >= '0' && name[1] <= '9') return "s" + std::string(name.substr(1));
  for (const std::string_view prefix : {"ui", "si"})
    if (name.size() > 2 && name.starts_with(prefix) && name[2] >= '0' && name[2] <= '9')
      return (prefix == "ui" ? "u" : "s") + std::string(name.substr(2));
  for (const char c : name) text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::vector<xla::Type> read_types(Scanner& scanner, Aliases& aliases, int depth);

xla::Type read_type(Scanner& scanner, Aliases& aliases, int depth) {
  if (depth > kMaxTypeDepth) scanner.fail("a type of fewer levels is expected");
  if (--aliases.types_left < 0) scanner.fail("a module with fewer types is expected");
  if (scanner.accept("!")) {
    const std::string_view name = scanner.word();
    if (name.ends_with(".token")) return {"token"};
    if (const auto alias = aliases.types.find(name); alias != aliases.types.end()) {
      if ((aliases.types_left -= alias->second.count) < 0) scanner.fail("a module with fewer types is expected");
      return alias->second.type;
    }
    if (scanner.peek() == '<') (void)scanner.value();
    return {std::string(name)};
  }
  if (scanner.peek() == '(') {  // a function's
    (void)read_types(scanner, aliases, depth + 1);
    scanner.expect("->");
    (void)read_types(scanner, aliases, depth + 1);
    return {"function"};
  }
  const std::string_view name = scanner.word();
  if (name == "tuple") {
    xla::Type tuple;
    scanner.expect("<");
    if (!scanner.accept(">")) {
      do tuple.parts.push_back(read_type(scanner, aliases, depth + 1));
      while (scanner.accept(","));
      scanner.expect(">");
    }
    return tuple;
  }
  if (name == "complex") {
    scanner.expect("<");
    const xla::Type part = read_type(scanner, aliases, depth + 1);
    scanner.expect(">");
    return {part.element == "f64" ? "c128" : "c64"};
  }
  if (name != "tensor" && name != "vector" && name != "memref") return {element_name(name)};
  scanner.expect("<");
  xla::Type type;
  std::vector<std::int64_t> sizes;
  if (scanner.accept("*")) scanner.fail("a tensor of known rank is expected");
  for (;;) {
    // "2x?x3xf32" is no list of words: a size ends where its 'x' begins.
    if (scanner.accept("?")) {
      sizes.push_back(kOpenSize);
    } else if (const std::optional<std::int64_t> size = scanner.maybe_integer()) {
      if (*size < 0) scanner.fail("a size that is not negative is expected");
      sizes.push_back(*size);
    } else {
      break;
    }
    scanner.expect("x");
  }
  type = read_type(scanner, aliases, depth + 1);
  if (type.is_tuple() || !type.sizes.empty()) scanner.fail("a tensor of numbers is expected");
  type.sizes = std::move(sizes);
  if (scanner.accept(",")) (void)scanner.until(">");  // an encoding
  scanner.expect(">");
  return type;
}

std::vector<xla::Type> read_types(Scanner& scanner, Aliases& aliases, int depth) {
  std::vector<xla::Type> types;
  const bool bracketed = scanner.accept("(");
  if (bracketed && scanner.accept(")")) return types;
  do types.push_back(read_type(scanner, aliases, depth));
  while (scanner.accept(","));
  if (bracketed) scanner.expect(")");
  return types;
}

double float_of_bits(std::uint64_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << mantissa_bits) - 1);
  const std::int64_t all = (std::int64_t{1} << exponent_bits) - 1;
  const std::int64_t exponent = static_cast<std::int64_t>(bits >> mantissa_bits) & all;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1.0 : 1.0;
  if (exponent == all)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  const int bias = static_cast<int>(all / 2);
  const double fraction = static_cast<double>(mantissa) / std::ldexp(1.0, mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
}

// How many bits an element has, and how to read them; 0: not here.
int bits_of(const std::string& element) {
  static const std::map<std::string, int> kBits{{"f64", 64}, {"f32", 32}, {"f16", 16}, {"bf16", 16}, {"s8", 8},
                                                {"s16", 16}, {"s32", 32}, {"s64", 64}, {"u8", 8},    {"u16", 16},
                                                {"u32", 32}, {"u64", 64}, {"pred", 8}};
  const auto bits = kBits.find(element);
  return bits == kBits.end() ? 0 : bits->second;
}

double number_of_bits(std::uint64_t bits, const std::string& element) {
  if (element == "f64") return float_of_bits(bits, 11, 52);
  if (element == "f32") return float_of_bits(bits, 8, 23);
  if (element == "f16") return float_of_bits(bits, 5, 10);
  if (element == "bf16") return float_of_bits(bits, 8, 7);
  if (element == "pred") return bits != 0 ? 1.0 : 0.0;
  if (element[0] == 'u') return static_cast<double>(bits);
  const int unused = 64 - bits_of(element);
  return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
}

std::optional<std::vector<double>> of_blob(std::string_view digits, const xla::Type& type, std::size_t most) {
  const int bits = bits_of(type.element);
  if (!digits.starts_with("0x") || bits == 0) return std::nullopt;
  digits.remove_prefix(2);
  const std::size_t letters = static_cast<std::size_t>(bits) / 4;
  const std::size_t count = digits.size() / letters;
  if (count == 0 || count > most || digits.size() % letters != 0) return std::nullopt;
  // Truths lie bit by bit where there are several.
  if (type.element == "pred" && count == 1 && digits != "00" && digits != "01" && digits != "FF") return std::nullopt;
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t number = 0;
    for (std::size_t byte = letters / 2; byte-- > 0;) {
      unsigned part = 0;
      const char* at = digits.data() + i * letters + 2 * byte;
      if (std::from_chars(at, at + 2, part, 16).ptr != at + 2) return std::nullopt;
      number = number << 8 | part;
    }
    values.push_back(number_of_bits(number, type.element));
  }
  return values;
}

std::optional<double> number_of(std::string_view text, const std::string& element) {
  if (text == "true" || text == "false") return text == "true" ? 1.0 : 0.0;
  const char* end = text.data() + text.size();
  const bool negative = text.starts_with("-");
  if (text.substr(negative ? 1 : 0).starts_with("0x")) {
    std::uint64_t bits = 0;
    if (bits_of(element) == 0 || std::from_chars(text.data() + (negative ? 3 : 2), end, bits, 16).ptr != end) return {};
    return negative ? -static_cast<double>(bits) : number_of_bits(bits, element);
  }
  double value = 0.0;
  const char* begin = text.data() + (text.starts_with("+") ? 1 : 0);
  const auto [rest, error] = std::from_chars(begin, end, value);
  if (rest != end || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return text.find("e-") != std::string_view::npos ? 0.0 : HUGE_VAL;
  if (error != std::errc{}) return std::nullopt;
  return value;
}

// Words of digits, points, signs and letters between brackets and commas; none beyond `most`.
std::optional<std::vector<std::string_view>> leaves(std::string_view text, std::size_t most) {
  std::vector<std::string_view> found;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > begin) found.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::string_view("[](), \n\r\t").find(text[i]) != std::string_view::npos) end_word(i);
    if (found.size() > most) return std::nullopt;
  }
  end_word(text.size());
  if (found.size() > most) return std::nullopt;
  return found;
}

}  // namespace

xla::Type read_type(Scanner& scanner, Aliases& aliases) { return read_type(scanner, aliases, 0); }
std::vector<xla::Type> read_types(Scanner& scanner, Aliases& aliases) { return read_types(scanner, aliases, 0); }

std::vector<Field> read_fields(Scanner& scanner, std::string_view open, std::string_view close) {
  std::vector<Field> fields;
  scanner.expect(open);
  while (!scanner.accept(close)) {
    const std::string_view name = scanner.peek() == '"' ? scanner.string() : scanner.word();
    fields.push_back({name, scanner.accept("=") ? scanner.until(",>}") : "unit"});
    if (!scanner.accept(",") && !scanner.at(close)) scanner.fail(fmt::format("',' or '{}' is expected", close));
  }
  return fields;
}

std::string_view Value::inside() const {
  const std::size_t open = text.find('<');
  if (open == std::string_view::npos || text.empty() || (text[0] != '#' && open != 0)) return text;
  const std::size_t close = text.rfind('>');
  if (close == std::string_view::npos || close < open) return text;
  return text.substr(open + 1, close - open - 1);
}

std::vector<std::int64_t> Value::integers() const {
  std::string_view list = text;
  for (const std::string_view name : {"dense<", "array<"}) {
    if (!list.starts_with(name)) continue;
    list = list.substr(0, list.find('>')).substr(name.size());
    if (name == "array<") list = list.find(':') == std::string_view::npos ? "" : list.substr(list.find(':') + 1);
  }
  const bool splat = text.starts_with("dense<") && list.find('[') == std::string_view::npos && !list.empty();
  const auto words = leaves(list, std::size_t{1} << 20);
  Scanner at = scanner();
  if (!words) at.fail("a list of fewer numbers is expected");
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < words->size(); ++i) {
    std::string_view word = (*words)[i];
    if (word == ":") break;  // "[1, 2] : i64", "3 : i64": the rest is their type
    std::int64_t number = word == "true" ? 1 : 0;
    if (word != "true" && word != "false" &&
        std::from_chars(word.data(), word.data() + word.size(), number).ptr != word.data() + word.size())
      at.fail("a list of whole numbers is expected");
    numbers.push_back(number);
  }
  // "dense<1> : tensor<2xi64>" has the number once.
  if (splat && numbers.size() == 1)
    if (const std::size_t type = text.rfind("tensor<"); type != std::string_view::npos) {
      Scanner rest(text.substr(type), *place, line);
      Aliases none;
      std::int64_t count = 1;
      for (const std::int64_t size : read_type(rest, none).sizes) {
        if (size < 0 || size > 1024 || (count *= std::max<std::int64_t>(size, 0)) > 1024)
          at.fail("a list of at most 1024 numbers is expected");
      }
      numbers.assign(static_cast<std::size_t>(count), numbers[0]);
    }
  return numbers;
}

std::int64_t Value::integer() const {
  Scanner at = scanner();
  if (at.accept_word("true")) return 1;
  if (at.accept_word("false")) return 0;
  if (text.starts_with("dense<") || text.starts_with("array<") || text.starts_with("[")) {
    const std::vector<std::int64_t> numbers = integers();
    if (numbers.size() != 1) at.fail("one whole number is expected");
    return numbers[0];
  }
  return at.integer();
}

std::string Value::string() const {
  Scanner at = scanner();
  return at.peek() == '"' ? unescaped(at.string()) : std::string(text);
}

std::string_view Value::symbol() const {
  Scanner at = scanner();
  return at.symbol();
}

std::string_view Value::word() const {
  std::string_view found = inside();
  if (const std::size_t space = found.rfind(' '); space != std::string_view::npos) found.remove_prefix(space + 1);
  return found;
}

std::vector<std::string_view> Value::items() const {
  std::vector<std::string_view> found;
  Scanner at = scanner();
  at.expect("[");
  while (!at.accept("]")) {
    found.push_back(at.until(",]"));
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
  return found;
}

std::optional<std::vector<double>> constant_values(const Value& value, const xla::Type& type, std::size_t most) {
  std::string_view list = value.text;
  if (list.starts_with("dense<")) {
    list = list.substr(0, list.find('>')).substr(6);
    if (list.starts_with("\"")) return of_blob(list.substr(1, list.size() < 2 ? 0 : list.size() - 2), type, most);
  } else if (list.find_first_of("<\"(") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto words = leaves(list, most);
  if (!words) return std::nullopt;
  std::vector<double> values;
  for (const std::string_view word : *words) {
    if (word == ":") break;
    const std::optional<double> number = number_of(word, type.element);
    if (!number) return std::nullopt;
    values.push_back(*number);
  }
  return values;
}

}  // namespace meshwright::mlir
