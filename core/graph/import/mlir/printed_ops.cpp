// SPDX-License-Identifier: Apache-2.0
// The forms that dialects print their ops in. Most are made of few parts (values, "key = value", words, brackets, an
// attribute list, types) and one reader takes them all; the others have a reader each.
#include "core/base/errors.h"
#include "core/graph/import/mlir/reader.h"

namespace meshwright::mlir {

namespace {

bool is_known(std::string_view dialect) {
  for (const std::string_view known : {"stablehlo", "mhlo", "chlo", "sdy", "func", "call", "return", "arith"})
    if (dialect == known) return true;
  return false;
}

// The generic form's names of what ops print under shorter ones.
std::string_view generic_name(std::string_view op, std::string_view key) {
  struct Name {
    std::string_view op, printed, generic;
  };
  static constexpr Name kNames[] = {
      {"broadcast_in_dim", "dims", "broadcast_dimensions"},
      {"dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"},
      {"broadcast", "sizes", "broadcast_sizes"},
      {"transpose", "dims", "permutation"},
      {"reverse", "dims", "dimensions"},
      {"concatenate", "dim", "dimension"},
      {"iota", "dim", "iota_dimension"},
      {"dynamic_iota", "dim", "iota_dimension"},
      {"get_dimension_size", "dim", "dimension"},
      {"set_dimension_size", "dim", "dimension"},
      {"dynamic_slice", "sizes", "slice_sizes"},
      {"pad", "low", "edge_padding_low"},
      {"pad", "high", "edge_padding_high"},
      {"pad", "interior", "interior_padding"},
      {"convolution", "dim_numbers", "dimension_numbers"},
      {"fft", "type", "fft_type"},
      {"fft", "length", "fft_length"},
      {"rng", "distribution", "rng_distribution"},
      {"rng_bit_generator", "algorithm", "rng_algorithm"},
  };
  for (const Name& name : kNames)
    if (name.op == op && name.printed == key) return name.generic;
  return key;
}

}  // namespace

void Reader::read_printed(Op& op) {
  const std::string_view name = op.short_name();
  if (!is_known(op.dialect())) {
    (void)scanner_.rest_of_op();
  } else if (name == "constant" && op.dialect() != "sdy") {
    read_constant(op);
  } else if (name == "while") {
    read_while(op);
  } else if (name == "reduce") {
    read_reduce(op);
  } else if (name == "call" || op.name == "call" || name == "custom_call") {
    read_call(op);
  } else if (op.name == "sdy.manual_computation" || op.name == "sdy.named_computation") {
    read_computation(op);
  } else {
    read_any(op);
  }
}

// stablehlo.constant dense<0> : tensor<i32>; the value's type is the result's.
void Reader::read_constant(Op& op) {
  if (scanner_.accept("(")) scanner_.expect(")");
  if (scanner_.at("{")) read_fields_of(op);
  if (op.find("value").empty()) op.attributes.push_back({"value", scanner_.value()});
  read_types_of(op);
}

// %8:2 = stablehlo.while(%a = %1, %b = %2) : t, t attributes {...} cond { ... } do { ... }
void Reader::read_while(Op& op) {
  std::vector<std::string_view> names;
  scanner_.expect("(");
  while (!scanner_.accept(")")) {
    names.push_back(scanner_.use().name);
    scanner_.expect("=");
    op.operands.push_back(scanner_.use());
    if (!scanner_.accept(",") && !scanner_.at(")")) scanner_.fail("',' or ')' is expected");
  }
  if (scanner_.accept(":") && !names.empty()) op.types = read_types(scanner_, tree_.aliases);
  if (op.types.size() != names.size()) scanner_.fail(fmt::format("{} types are expected before this", names.size()));
  if (scanner_.accept_word("attributes")) read_fields_of(op);
  for (const std::string_view part : {"cond", "do"}) {
    if (!scanner_.accept_word(part)) scanner_.fail(fmt::format("'{}' is expected", part));
    Region region = read_region();
    for (std::size_t i = 0; i < names.size(); ++i) region.arguments.push_back({names[i], op.types[i]});
    op.regions.push_back(std::move(region));
  }
}

// stablehlo.reduce(%x init: %0), (%y init: %1) applies stablehlo.add across dimensions = [0] : (...) -> t, or instead
// of "applies", behind the types: reducer(%a: t, %c: t) (%b: t, %d: t) { ... }, one pair for each operand.
void Reader::read_reduce(Op& op) {
  std::vector<Use> starts;
  do {
    scanner_.expect("(");
    op.operands.push_back(scanner_.use());
    if (!scanner_.accept_word("init")) scanner_.fail("'init' is expected");
    scanner_.expect(":");
    starts.push_back(scanner_.use());
    scanner_.expect(")");
  } while (scanner_.accept(","));
  const std::size_t count = op.operands.size();
  op.operands.insert(op.operands.end(), starts.begin(), starts.end());
  std::string_view applied;
  if (scanner_.accept_word("applies")) applied = scanner_.word();
  if (!scanner_.accept_word("across")) scanner_.fail("'across' is expected");
  if (!scanner_.accept_word("dimensions")) scanner_.fail("'dimensions' is expected");
  scanner_.expect("=");
  op.attributes.push_back({"dimensions", scanner_.value()});
  if (scanner_.at("{")) read_fields_of(op);
  read_types_of(op);
  read_location(op.location);
  if (!applied.empty()) {
    op.attributes.push_back({"applies", applied});
    return;
  }
  if (!scanner_.accept_word("reducer")) scanner_.fail("'reducer' is expected");
  std::vector<Argument> lefts, rights;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Argument> pair;
    read_arguments(pair, "(", ")");
    if (pair.size() != 2) scanner_.fail("two arguments are expected before this");
    lefts.push_back(std::move(pair[0]));
    rights.push_back(std::move(pair[1]));
  }
  Region region = read_region();
  region.arguments = std::move(lefts);
  region.arguments.insert(region.arguments.end(), rights.begin(), rights.end());
  op.regions.push_back(std::move(region));
}

// func.call @f(%0) : (t) -> t, stablehlo.custom_call @target(%0) {...} : (t) -> t
void Reader::read_call(Op& op) {
  const bool custom = op.short_name() == "custom_call";
  const std::size_t begin = scanner_.position();
  (void)scanner_.symbol();
  op.attributes.push_back({custom ? "call_target_name" : "callee", scanner_.between(begin, scanner_.position())});
  op.operands = read_uses("(", ")");
  if (scanner_.at("{")) read_fields_of(op);
  read_types_of(op);
}

// sdy.manual_computation(%0) in_shardings=[...] out_shardings=[...] manual_axes={...} (%a: t) { ... } : (t) -> t,
// sdy.named_computation<"name">(%0) (%a: t) { ... } : (t) -> t
void Reader::read_computation(Op& op) {
  if (scanner_.at("<")) op.attributes.push_back({"name", scanner_.value()});
  op.operands = read_uses("(", ")");
  while (scanner_.at_word()) {
    const std::string_view key = scanner_.word();
    scanner_.expect("=");
    op.attributes.push_back({key, scanner_.value()});
  }
  std::vector<Argument> arguments;
  read_arguments(arguments, "(", ")");
  Region region = read_region();
  region.arguments = std::move(arguments);
  op.regions.push_back(std::move(region));
  read_types_of(op);
}

// Values, "key = value", words, brackets, an attribute list, types: in any order, with or without commas.
void Reader::read_any(Op& op) {
  const std::string_view name = op.short_name();
  int brackets = 0;
  for (bool open = true; open;) {
    switch (scanner_.peek()) {
      case '%':
        op.operands.push_back(scanner_.use());
        break;
      case '(':
        scanner_.expect("(");
        ++brackets;
        break;
      case ')':
        open = brackets-- > 0 && scanner_.accept(")");
        break;
      case ',':
        scanner_.expect(",");
        break;
      case '{':
        read_fields_of(op);
        break;
      case '<':  // of Shardy: a sharding
        op.attributes.push_back({"sharding", scanner_.value()});
        break;
      case '[':  // "slice %0 [0:1, 2:4]", "get_tuple_element %0[1]"
        op.attributes.push_back({name == "get_tuple_element" ? "index" : "ranges", scanner_.value()});
        break;
      case '@':
        op.attributes.push_back({"symbol", scanner_.value()});
        break;
      case '"':
        op.attributes.push_back({"name", scanner_.value()});
        break;
      case '=':  // of a mesh
        scanner_.expect("=");
        op.attributes.push_back({"mesh", scanner_.value()});
        break;
      case ':':
        read_types_of(op);
        open = false;
        break;
      default: {
        // A word without a value is the direction of a comparison; behind ops without types, the next line's op.
        if (!scanner_.at_word() || scanner_.at("loc(") || op.name.ends_with("return") || !op.find("mesh").empty()) {
          open = false;
          break;
        }
        const std::string_view word = scanner_.word();
        if (scanner_.accept("="))
          op.attributes.push_back({generic_name(name, word), scanner_.value()});
        else if (name == "compare")
          op.attributes.push_back(
              {op.find("comparison_direction").empty() ? "comparison_direction" : "compare_type", word});
        else
          scanner_.fail(fmt::format("'=' is expected in {}", op.name));
      }
    }
  }
}

}  // namespace meshwright::mlir
