// SPDX-License-Identifier: Apache-2.0
// Types and values of attributes, read from their text.
//
// An attribute is kept as the text that the file has, and read where its op is translated: "[0, 1]", "array<i64: 0,
// 1>" and "dense<[0, 1]> : tensor<2xi64>" are all the same list. What does not fit throws InputError.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/graph/import/mlir/scanner.h"
#include "core/graph/import/xla/xla_module.h"

namespace meshwright::mlir {

inline constexpr std::int64_t kOpenSize = -1;  // "?"

// What the module's lines "#name = ..." and "!name = ..." stand for, and how much may still be made of its text.
struct Aliases {
  struct NamedType {
    xla::Type type;
    std::int64_t count;  // of types in it
  };
  std::map<std::string_view, std::string_view> attributes;
  std::map<std::string_view, NamedType> types;
  std::int64_t types_left = std::int64_t{1} << 22;  // tuples of tuples grow without end
};

[[nodiscard]] xla::Type read_type(Scanner& scanner, Aliases& aliases);
// "t, t" or "(t, t)".
[[nodiscard]] std::vector<xla::Type> read_types(Scanner& scanner, Aliases& aliases);

// One attribute: its name and the text of its value.
struct Field {
  std::string_view name, text;
};
// "{a = 1, b}", "<{a = 1}>" and the insides of "#dialect.struct<a = 1>"; the closing text is passed.
[[nodiscard]] std::vector<Field> read_fields(Scanner& scanner, std::string_view open, std::string_view close);

// The text of a value, with the line where its op stands.
struct Value {
  std::string_view text;
  const std::string* place;
  int line;

  [[nodiscard]] Scanner scanner() const { return {text, *place, line}; }
  [[nodiscard]] std::vector<std::int64_t> integers() const;  // true is 1
  [[nodiscard]] std::int64_t integer() const;                // "1 : i64", "true"
  [[nodiscard]] std::string string() const;                  // unescaped, without quotes; any other text as it stands
  [[nodiscard]] std::string_view symbol() const;             // "@name"
  // The word in "#stablehlo<comparison_direction LT>", "#stablehlo.comparison<LT>", and "LT" alone.
  [[nodiscard]] std::string_view word() const;
  // The insides of "#dialect.name<...>", or all of it.
  [[nodiscard]] std::string_view inside() const;
  [[nodiscard]] std::vector<std::string_view> items() const;  // of "[a, b]"
};

// The numbers of a constant: all elements or one for all, a complex one as its two parts; none where there are more
// than `most`, or where the text has none that are numbers (resources).
[[nodiscard]] std::optional<std::vector<double>> constant_values(const Value& value, const xla::Type& type,
                                                                 std::size_t most);

}  // namespace meshwright::mlir
