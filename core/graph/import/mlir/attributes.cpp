// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/mlir/attributes.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::mlir {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kMaxKept = 4096;  // bytes of an attribute that is kept as it stands

class Filler {
 public:
  Filler(const Op& op, const AttributeContext& context) : op_(op), context_(context) {}

  xla::Attributes fill(const std::string& opcode, const std::vector<const xla::Type*>& operands);

 private:
  [[nodiscard]] bool has(std::string_view name) const { return !op_.find(name).empty(); }
  [[nodiscard]] Numbers numbers(std::string_view name) const {
    return has(name) ? context_.value(op_, name).integers() : Numbers{};
  }
  [[nodiscard]] std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    return has(name) ? context_.value(op_, name).integer() : otherwise;
  }
  [[noreturn]] void fail(std::string_view sentence) const {
    throw InputError(
        fmt::format("{}:{}: {}: {}; print the module again.", context_.place, op_.line, op_.name, sentence));
  }

  void slice();
  void dot(const std::vector<const xla::Type*>& operands);
  void gather(std::string_view attribute);
  void convolution(const std::vector<const xla::Type*>& operands);
  void window();
  void padding(const Numbers& pairs);
  void custom_call();
  void collective();
  void rest();

  const Op& op_;
  const AttributeContext& context_;
  xla::Attributes made_;
};

// start:limit:stride of each dimension, or three lists.
void Filler::slice() {
  made_.start = numbers("start_indices");
  made_.limit = numbers("limit_indices");
  made_.stride = numbers("strides");
  if (!has("ranges")) return;
  Scanner at = context_.value(op_, "ranges").scanner();
  at.expect("[");
  while (!at.accept("]")) {
    made_.start.push_back(at.integer());
    at.expect(":");
    made_.limit.push_back(at.integer());
    made_.stride.push_back(at.accept(":") ? at.integer() : 1);
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
}

void Filler::dot(const std::vector<const xla::Type*>& operands) {
  const auto pair = [&](std::string_view name, Numbers& left, Numbers& right) {
    if (!has(name)) return;
    const Value value = context_.value(op_, name);
    const std::size_t middle = value.text.find('x');
    if (middle == std::string_view::npos) fail("'[...] x [...]' is expected");
    left = context_.value(value.text.substr(0, middle), op_.line).integers();
    right = context_.value(value.text.substr(middle + 1), op_.line).integers();
  };
  pair("batching_dims", made_.lhs_batch, made_.rhs_batch);
  pair("contracting_dims", made_.lhs_contracting, made_.rhs_contracting);
  if (has("dot_dimension_numbers"))
    for (const Field& part : parts_of(context_.value(op_, "dot_dimension_numbers"))) {
      Numbers* to = part.name == "lhs_batching_dimensions"      ? &made_.lhs_batch
                    : part.name == "rhs_batching_dimensions"    ? &made_.rhs_batch
                    : part.name == "lhs_contracting_dimensions" ? &made_.lhs_contracting
                    : part.name == "rhs_contracting_dimensions" ? &made_.rhs_contracting
                                                                : nullptr;
      if (to != nullptr) *to = context_.value(part.text, op_.line).integers();
    }
  if (op_.short_name() == "dot" && operands.size() == 2) {
    made_.lhs_contracting = {static_cast<std::int64_t>(operands[0]->sizes.size()) - 1};
    made_.rhs_contracting = {0};
  }
}

void Filler::gather(std::string_view attribute) {
  for (const Field& part : parts_of(context_.value(op_, attribute))) {
    const Value value = context_.value(part.text, op_.line);
    const std::string_view name = part.name;
    if (name == "index_vector_dim") {
      made_.index_vector_dim = value.integer();
    } else if (Numbers* to = name == "offset_dims" || name == "update_window_dims"              ? &made_.offset_dims
                             : name == "collapsed_slice_dims" || name == "inserted_window_dims" ? &made_.collapsed_dims
                             : name == "start_index_map" || name == "scatter_dims_to_operand_dims" ? &made_.index_map
                             : name == "operand_batching_dims" || name == "input_batching_dims" ? &made_.operand_batch
                             : name == "start_indices_batching_dims" || name == "scatter_indices_batching_dims"
                                 ? &made_.index_batch
                                 : nullptr;
               to != nullptr) {
      *to = value.integers();
    }
  }
}

void Filler::padding(const Numbers& pairs) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    made_.window.before.push_back(pairs[i]);
    made_.window.after.push_back(pairs[i + 1]);
  }
}

// "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" is "b01f_01io->b01f".
void Filler::convolution(const std::vector<const xla::Type*>& operands) {
  std::string_view inside = context_.value(op_, "dimension_numbers").inside();
  if (inside.starts_with("raw ")) fail("dimension numbers as '[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]' are expected");
  for (const char c : inside) {
    if (c == 'x')
      made_.dim_labels += '_';
    else if (c == '-' || c == '>' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '?')
      made_.dim_labels += c;
  }
  made_.feature_groups = number("feature_group_count", 1);
  made_.batch_groups = number("batch_group_count", 1);
  made_.window.stride = numbers("window_strides");
  made_.window.base_dilation = numbers("lhs_dilation");
  made_.window.window_dilation = numbers("rhs_dilation");
  padding(numbers("padding"));
  Numbers reversed = numbers("window_reversal");
  if (has("window"))
    for (const Field& part : parts_of(context_.value(op_, "window"))) {
      const Numbers read = context_.value(part.text, op_.line).integers();
      if (part.name == "stride") made_.window.stride = read;
      if (part.name == "pad") padding(read);
      if (part.name == "lhs_dilate") made_.window.base_dilation = read;
      if (part.name == "rhs_dilate") made_.window.window_dilation = read;
      if (part.name == "reverse") reversed = read;
    }
  // The kernel's sizes, by the numbers in its labels.
  const std::size_t begin = made_.dim_labels.find('_'), end = made_.dim_labels.find("->");
  if (operands.size() != 2 || begin == std::string::npos || end == std::string::npos || end < begin)
    fail("its dimension numbers do not fit");
  const std::string kernel = made_.dim_labels.substr(begin + 1, end - begin - 1);
  const std::size_t spatial = kernel.size() < 2 ? 0 : kernel.size() - 2;
  if (kernel.size() != operands[1]->sizes.size() || spatial > 8) fail("its dimension numbers do not fit its operands");
  made_.window.size.assign(spatial, 1);
  for (std::size_t d = 0; d < kernel.size(); ++d)
    if (const auto at = static_cast<std::size_t>(kernel[d] - '0'); kernel[d] >= '0' && kernel[d] <= '9' && at < spatial)
      made_.window.size[at] = operands[1]->sizes[d];
  for (Numbers* list : {&made_.window.stride, &made_.window.base_dilation, &made_.window.window_dilation})
    if (list->empty()) list->assign(spatial, 1);
  if (made_.window.before.empty()) made_.window.before = made_.window.after = Numbers(spatial, 0);
  for (const std::int64_t flag : reversed) made_.window.reversed.push_back(flag != 0);
  made_.window.reversed.resize(spatial);
}

void Filler::window() {
  made_.window.size = numbers("window_dimensions");
  made_.window.stride = numbers("window_strides");
  made_.window.base_dilation = numbers("base_dilations");
  made_.window.window_dilation = numbers("window_dilations");
  padding(numbers("padding"));
  const std::size_t rank = made_.window.size.size();
  for (Numbers* list : {&made_.window.stride, &made_.window.base_dilation, &made_.window.window_dilation})
    if (list->empty()) list->assign(rank, 1);
  if (made_.window.before.empty()) made_.window.before = made_.window.after = Numbers(rank, 0);
  made_.window.reversed.resize(rank);
}

void Filler::custom_call() {
  if (op_.short_name() == "top_k" || op_.short_name() == "topk") {
    made_.target = "TopK";
    made_.index = number("k", 0);
    return;
  }
  if (op_.dialect() == "sdy") {
    made_.target = "Sharding";
    return;
  }
  if (!has("call_target_name")) fail("it names no target");
  const Value target = context_.value(op_, "call_target_name");
  made_.target = target.text.starts_with("@") ? std::string(target.symbol()) : target.string();
  for (const std::string_view name : {"backend_config", "mhlo.backend_config"})
    if (has(name) && made_.backend.empty()) made_.backend = context_.value(op_, name).string();
  // Some hand their arguments on in a list of their own.
  for (const Field& field : op_.attributes)
    if (made_.backend.empty() && field.name.ends_with("_attrs"))
      made_.backend = std::string(field.text.substr(0, kMaxKept));
}

// Every row of the groups is one group.
void Filler::collective() {
  for (const char* name : {"all_gather_dim", "scatter_dimension", "split_dimension"})
    if (has(name)) made_.dimensions = {number(name, 0)};
  const std::string_view groups = op_.find("replica_groups");
  if (const std::size_t type = groups.rfind("tensor<"); type != std::string_view::npos) {
    Scanner at(groups.substr(type), context_.place, op_.line);
    Aliases none;
    const xla::Type read = read_type(at, none);
    if (read.sizes.size() == 2) made_.group_size = read.sizes[1];
  }
}

// What has no member of its own.
void Filler::rest() {
  for (const Field& field : op_.attributes)
    if (field.name != "value" && field.text.size() <= kMaxKept)
      made_.other.emplace(field.name, context_.value(field.text, op_.line).text);
}

xla::Attributes Filler::fill(const std::string& opcode, const std::vector<const xla::Type*>& operands) {
  const std::string_view name = op_.short_name();
  if (name == "transpose") {
    made_.dimensions = numbers("permutation");
  } else if (opcode == "reduce" || name == "reverse" || name == "map") {
    made_.dimensions = numbers("dimensions");
  } else if (opcode == "broadcast") {
    made_.dimensions = numbers("broadcast_dimensions");
  } else if (name == "concatenate" || name == "sort" || name == "get_dimension_size") {
    made_.dimensions = {number("dimension", name == "sort" ? -1 : 0)};
  } else if (opcode == "iota" || name == "dynamic_iota") {
    made_.index = number("iota_dimension", 0);
  } else if (opcode == "get-tuple-element") {
    const Numbers index = numbers("index");
    made_.index = index.empty() ? 0 : index[0];
  } else if (name == "slice") {
    slice();
  } else if (name == "dynamic_slice") {
    made_.sizes = numbers("slice_sizes");
  } else if (name == "pad") {
    made_.low = numbers("edge_padding_low");
    made_.high = numbers("edge_padding_high");
    made_.interior = numbers("interior_padding");
    made_.interior.resize(made_.low.size());
  } else if (opcode == "dot") {
    dot(operands);
  } else if (name == "gather" || name == "dynamic_gather") {
    gather("dimension_numbers");
    made_.sizes = numbers("slice_sizes");
  } else if (opcode == "scatter") {
    gather("scatter_dimension_numbers");
  } else if (opcode == "convolution") {
    convolution(operands);
  } else if (opcode == "reduce-window" || opcode == "select-and-scatter") {
    window();
  } else if (opcode == "compare") {
    made_.direction = std::string(context_.value(op_, "comparison_direction").word());
  } else if (opcode == "custom-call") {
    custom_call();
  } else if (has("replica_groups") || opcode == "all-gather" || opcode == "reduce-scatter" || opcode == "all-to-all") {
    collective();
  } else if (opcode == "rng") {
    const std::string_view distribution = context_.value(op_, "rng_distribution").word();
    made_.other["distribution"] = distribution == "NORMAL" ? "rng_normal" : "rng_uniform";
  }
  rest();
  return std::move(made_);
}

}  // namespace

Value AttributeContext::value(std::string_view text, int line) const {
  // Aliases of aliases end.
  for (int k = 0; k < 8 && text.starts_with("#") && text.find('<') == std::string_view::npos; ++k) {
    const auto alias = tree.aliases.attributes.find(text.substr(1));
    if (alias == tree.aliases.attributes.end()) break;
    text = alias->second;
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  }
  return {text, &place, line};
}

std::vector<Field> parts_of(const Value& value) {
  Scanner at = value.scanner();
  if (at.at("{")) return read_fields(at, "{", "}");
  std::vector<Field> parts;
  Scanner inside(value.inside(), *value.place, value.line);
  while (!inside.done()) {
    const std::string_view name = inside.word();
    parts.push_back({name, inside.accept("=") ? inside.until(",") : "unit"});
    if (!inside.accept(",") && !inside.done()) inside.fail("',' is expected");
  }
  return parts;
}

xla::Attributes attributes_of(const Op& op, const std::string& opcode, const std::vector<const xla::Type*>& operands,
                              const AttributeContext& context) {
  return Filler(op, context).fill(opcode, operands);
}

}  // namespace meshwright::mlir
