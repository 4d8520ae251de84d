// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/hlo_attributes.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "core/graph/import/xla/hlo_cursor.h"

namespace meshwright::xla {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kMaxValues = 1 << 16;

std::string_view without_brackets(std::string_view text) {
  return text.size() >= 2 && (text.front() == '{' || text.front() == '[') ? trimmed(text.substr(1, text.size() - 2))
                                                                          : text;
}

// "3x3" or "1_1x0_2", each number between separators.
bool split_numbers(std::string_view text, std::string_view separators, Numbers& numbers) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    std::int64_t number = 0;
    if (!integer_of(text.substr(begin, end - begin), number)) return false;
    numbers.push_back(number);
    begin = end + 1;
  }
  return true;
}

// "{[0:16], [0:2048:2]}"
bool read_slice(std::string_view text, Attributes& into) {
  for (const std::string_view piece : pieces_of(without_brackets(text))) {
    Numbers numbers;
    if (!split_numbers(without_brackets(piece), ":", numbers) || numbers.size() < 2 || numbers.size() > 3) return false;
    into.start.push_back(numbers[0]);
    into.limit.push_back(numbers[1]);
    into.stride.push_back(numbers.size() == 3 ? numbers[2] : 1);
  }
  return true;
}

// "0_0x1_1_2": low, high, and interior where it is not 0; a piece for each dimension
bool read_padding(std::string_view text, Attributes& into) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    Numbers numbers;
    if (!split_numbers(text.substr(begin, end - begin), "_", numbers) || numbers.size() < 2 || numbers.size() > 3)
      return false;
    into.low.push_back(numbers[0]);
    into.high.push_back(numbers[1]);
    into.interior.push_back(numbers.size() == 3 ? numbers[2] : 0);
    begin = end + 1;
  }
  return true;
}

// "{size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=2x2 rhs_dilate=1x1 rhs_reversal=1x1}"
bool read_window(std::string_view text, Window& into) {
  text = without_brackets(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size()), equals = text.find('=');
    if (equals == std::string_view::npos || equals > end) return false;
    const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1, end - equals - 1);
    Numbers numbers;
    if (key == "pad") {
      Attributes pads;
      if (!read_padding(value, pads)) return false;
      into.before = pads.low;
      into.after = pads.high;
    } else if (!split_numbers(value, "x", numbers)) {
      return false;
    }
    if (key == "size") into.size = numbers;
    if (key == "stride") into.stride = numbers;
    if (key == "lhs_dilate") into.base_dilation = numbers;
    if (key == "rhs_dilate") into.window_dilation = numbers;
    if (key == "rhs_reversal") into.reversed.assign(numbers.begin(), numbers.end());
    text = trimmed(text.substr(end));
  }
  return true;
}

// The number that stands behind the key in JSON or in HLO's own form: {"n":"8"}, {n=8}.
std::optional<std::int64_t> number_behind(std::string_view text, std::string_view key) {
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  at += key.size();
  while (at < text.size() && (text[at] < '0' || text[at] > '9')) {
    if (text[at] == '}') return std::nullopt;
    ++at;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<double> real_of(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "true") return 1.0;
  if (text == "false") return 0.0;
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  if (text.starts_with("nan") || text.starts_with("-nan")) return std::numeric_limits<double>::quiet_NaN();
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return text.front() == '-' ? -kInfinity : kInfinity;
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

using Member = Numbers Attributes::*;
const std::map<std::string_view, Member>& lists() {
  static const std::map<std::string_view, Member> kLists = {
      {"dimensions", &Attributes::dimensions},
      {"lhs_contracting_dims", &Attributes::lhs_contracting},
      {"rhs_contracting_dims", &Attributes::rhs_contracting},
      {"lhs_batch_dims", &Attributes::lhs_batch},
      {"rhs_batch_dims", &Attributes::rhs_batch},
      {"dynamic_slice_sizes", &Attributes::sizes},
      {"slice_sizes", &Attributes::sizes},
      {"offset_dims", &Attributes::offset_dims},
      {"update_window_dims", &Attributes::offset_dims},
      {"collapsed_slice_dims", &Attributes::collapsed_dims},
      {"inserted_window_dims", &Attributes::collapsed_dims},
      {"start_index_map", &Attributes::index_map},
      {"scatter_dims_to_operand_dims", &Attributes::index_map},
      {"operand_batching_dims", &Attributes::operand_batch},
      {"input_batching_dims", &Attributes::operand_batch},
      {"start_indices_batching_dims", &Attributes::index_batch},
      {"scatter_indices_batching_dims", &Attributes::index_batch},
  };
  return kLists;
}

std::int64_t Attributes::*number_of(std::string_view key) {
  if (key == "index" || key == "iota_dimension") return &Attributes::index;
  if (key == "index_vector_dim") return &Attributes::index_vector_dim;
  if (key == "feature_group_count") return &Attributes::feature_groups;
  if (key == "batch_group_count") return &Attributes::batch_groups;
  return nullptr;
}

bool names_computations(std::string_view key) {
  return key == "to_apply" || key == "calls" || key == "condition" || key == "body" || key == "branch_computations" ||
         key == "true_computation" || key == "false_computation" || key == "called_computations" || key == "select" ||
         key == "scatter";
}

}  // namespace

std::string unquoted(std::string_view value) {
  return std::string(value.size() >= 2 && value.front() == '"' ? value.substr(1, value.size() - 2) : value);
}

GroupSizes group_sizes(std::string_view groups) {
  GroupSizes sizes;
  if (groups.starts_with("[")) {  // [groups, devices of each]<=[all]
    const Numbers numbers = integers_of(
        groups.substr(1, groups.find(']') == std::string_view::npos ? std::string_view::npos : groups.find(']') - 1));
    if (numbers.empty() || numbers.size() > 8) return sizes;
    sizes.one = numbers.back();
    sizes.all = 1;
    for (const std::int64_t number : numbers) {
      if (number <= 0 || number > 1 << 24 || sizes.all > 1 << 24) return {};
      sizes.all *= number;
    }
    return sizes;
  }
  for (const std::string_view group : pieces_of(without_brackets(groups))) {
    const auto devices = static_cast<std::int64_t>(integers_of(group).size());
    sizes.one = std::max(sizes.one, devices);
    sizes.all += devices;
  }
  return sizes;
}

bool read_attribute(std::string_view key, std::string_view value, Instruction& into,
                    std::vector<std::string_view>& called) {
  Attributes& attributes = into.attributes;
  if (const auto list = lists().find(key); list != lists().end()) {
    attributes.*list->second = integers_of(value);
    return value.size() >= 2 && value.front() == '{';
  }
  if (std::int64_t Attributes::*number = number_of(key)) return integer_of(value, attributes.*number);
  if (names_computations(key)) {
    for (std::string_view name :
         value.starts_with("{") ? pieces_of(without_brackets(value)) : std::vector<std::string_view>{value}) {
      if (name.starts_with("%")) name.remove_prefix(1);
      called.push_back(name);
    }
    return !value.empty();
  }
  if (key == "slice") return read_slice(value, attributes);
  if (key == "padding") return into.opcode != "pad" || read_padding(value, attributes);
  if (key == "window") return read_window(value, attributes.window);
  if (key == "dim_labels") attributes.dim_labels = std::string(value);
  if (key == "direction") attributes.direction = std::string(value);
  if (key == "custom_call_target") attributes.target = unquoted(value);
  if (key == "sharding") attributes.sharding = std::string(value);
  if (key == "replica_groups") attributes.group_size = group_sizes(value).one;
  if (key == "source_target_pairs") attributes.group_size = 2;
  if (key == "backend_config") {
    if (into.opcode == "custom-call") attributes.backend = unquoted(value);
    if (into.opcode == "while") attributes.trip_count = number_behind(value, "known_trip_count");
  }
  if (key == "known_trip_count") attributes.trip_count = number_behind(value, "n");
  if (key == "metadata") {
    constexpr std::string_view kName = "op_name=\"";
    const std::size_t at = value.find(kName);
    if (at != std::string_view::npos) {
      const std::size_t begin = at + kName.size(), end = value.find('"', begin);
      if (end != std::string_view::npos) into.op_name = std::string(value.substr(begin, end - begin));
    }
    return true;
  }
  constexpr std::string_view kKept[] = {"replica_groups",
                                        "epsilon",
                                        "fft_length",
                                        "fft_type",
                                        "feature_index",
                                        "is_stable",
                                        "distribution",
                                        "algorithm",
                                        "exponent_bits",
                                        "mantissa_bits",
                                        "largest",
                                        "type",
                                        "k",
                                        "lower",
                                        "unit_diagonal",
                                        "source_target_pairs",
                                        "channel_id",
                                        "transpose_a",
                                        "output_to_operand_aliasing"};
  for (const std::string_view kept : kKept)
    if (key == kept) attributes.other.emplace(key, value);
  return true;
}

std::optional<std::vector<double>> constant_values(std::string_view literal) {
  std::vector<double> values;
  std::size_t begin = std::string_view::npos;
  const auto add = [&](std::size_t end) {
    if (begin == std::string_view::npos) return true;
    const std::optional<double> value = real_of(literal.substr(begin, end - begin));
    begin = std::string_view::npos;
    if (!value || values.size() == kMaxValues) return false;
    values.push_back(*value);
    return true;
  };
  for (std::size_t i = 0; i < literal.size(); ++i) {
    const char letter = literal[i];
    if (letter == '/' && literal.compare(i, 2, "/*") == 0) {  // /*i0=0*/
      const std::size_t end = literal.find("*/", i);
      if (end == std::string_view::npos) return std::nullopt;
      i = end + 1;
      continue;
    }
    const bool between = letter == '{' || letter == '}' || letter == ',' || letter == ' ' || letter == '\n' ||
                         letter == '\t' || letter == '\r' || letter == '(' || letter == ')';
    if (!between && begin == std::string_view::npos) begin = i;
    if (between && !add(i)) return std::nullopt;
  }
  if (!add(literal.size())) return std::nullopt;
  return values;
}

}  // namespace meshwright::xla
