// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/library_calls.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/errors.h"
#include "core/base/json.h"

namespace meshwright::xla {

namespace {

using Numbers = std::vector<std::int64_t>;

// What the call hands to the library; an empty object where it is none.
Json config_of(const std::string& backend) {
  std::string text;
  const bool escaped = backend.find("\\\"") != std::string::npos;
  for (std::size_t i = 0; i < backend.size(); ++i)
    if (!escaped || backend[i] != '\\') text += backend[i];
  const Json whole = Json::parse(text, nullptr, false);
  if (!whole.is_object()) return Json::object();
  for (const char* inner : {"gemm_backend_config", "cudnn_conv_backend_config", "cudnn_fmha_backend_config"})
    if (whole.contains(inner) && whole.at(inner).is_object()) return whole.at(inner);
  return whole;
}

double number_in(const Json& config, const char* key, double otherwise) {
  return config.contains(key) && config.at(key).is_number() ? config.at(key).get<double>() : otherwise;
}
std::string text_in(const Json& config, const char* key) {
  return config.contains(key) && config.at(key).is_string() ? config.at(key).get<std::string>() : std::string();
}

// Dimensions are written as texts, as 64 bits are in JSON of protocol buffers.
Numbers dims_in(const Json& config, const char* key) {
  Numbers dims;
  if (!config.contains(key) || !config.at(key).is_array()) return dims;
  for (const Json& dim : config.at(key)) {
    const std::string text = dim.is_string() ? dim.get<std::string>() : brief(dim);
    if (text.empty() || text.size() > 2 || text.find_first_not_of("0123456789") != std::string::npos) return {-1};
    dims.push_back(std::stoll(text));
  }
  return dims;
}

// Writes one computation anew: instructions of calls in place of each call.
class Expander {
 public:
  explicit Expander(Computation& of) : of_(of) {}

  void run() {
    for (const Instruction& instruction : of_.instructions) {
      Instruction moved = instruction;
      bool behind = true;  // its operands are written already
      for (int& operand : moved.operands) {
        behind = behind && operand >= 0 && static_cast<std::size_t>(operand) < at_.size();
        if (behind) operand = at_[static_cast<std::size_t>(operand)];
      }
      const bool call = behind && moved.opcode == "custom-call" && !result_of(moved).is_tuple();
      line_ = &instruction;
      const std::optional<int> made = call ? expanded(moved) : std::nullopt;
      at_.push_back(made ? finished(moved, *made) : write(std::move(moved)));
    }
    for (int& parameter : of_.parameters)
      if (parameter >= 0) parameter = at_[static_cast<std::size_t>(parameter)];
    if (of_.root >= 0) of_.root = at_[static_cast<std::size_t>(of_.root)];
    of_.instructions = std::move(made_);
  }

 private:
  static const Type& result_of(const Instruction& call) {
    return call.type.is_tuple() && !call.type.parts.empty() ? call.type.parts[0] : call.type;
  }
  // By value: what is added moves the others.
  [[nodiscard]] Type type(int i) const { return made_[static_cast<std::size_t>(i)].type; }

  int write(Instruction instruction) {
    made_.push_back(std::move(instruction));
    return static_cast<int>(made_.size()) - 1;
  }
  int add(const std::string& opcode, const Type& of, Numbers operands_of, Attributes attributes = {}) {
    Instruction made;
    made.name = line_->name;
    made.opcode = opcode;
    made.type = of;
    for (const std::int64_t operand : operands_of) made.operands.push_back(static_cast<int>(operand));
    made.attributes = std::move(attributes);
    made.op_name = line_->op_name;
    made.line = line_->line;
    return write(std::move(made));
  }

  // A number, or a vector along one dimension, as wide as `like`.
  int wide(int x, const Type& like, Numbers along) {
    return add("broadcast", {type(x).element, like.sizes}, {x}, {.dimensions = std::move(along)});
  }
  int number(double value, const Type& like) {
    const int one = add("constant", {like.element, {}}, {}, {.values = std::vector<double>{value}});
    return wide(one, like, {});
  }
  int scaled(int x, double by) { return by == 1.0 ? x : add("multiply", type(x), {x, number(by, type(x))}); }
  int plus(int x, int y) { return add("add", type(x), {x, y}); }
  int with_bias(int x, int bias, std::size_t dim) {
    return plus(x, wide(bias, type(x), {static_cast<std::int64_t>(dim)}));
  }
  [[nodiscard]] bool is_vector(int x, std::int64_t size) const { return type(x).sizes == Numbers{size}; }
  int rectified(int x) { return add("maximum", type(x), {x, number(0.0, type(x))}); }

  // The result alone, or with the rest of the call's tuple, which nothing reads but another call.
  int finished(const Instruction& call, int result) {
    if (!call.type.is_tuple()) return result;
    Numbers parts = {result};
    for (std::size_t k = 1; k < call.type.parts.size(); ++k) {
      const bool second = k == 1 && second_ && type(*second_).sizes == call.type.parts[k].sizes;
      parts.push_back(second ? *second_ : add("constant", call.type.parts[k], {}));
    }
    second_.reset();
    return add("tuple", call.type, parts);
  }

  std::optional<int> expanded(const Instruction& call) {
    const std::string& target = call.attributes.target;
    if (target == "__cublas$gemm" || target == "__cublas$lt$matmul") return product(call);
    if (target == "__cudnn$convForward" || target == "__cudnn$convBiasActivationForward") return convolution(call);
    if (target == "__cudnn$fmhaSoftmax" || target == "__cudnn$fmhaSoftmaxDropout") return attention(call);
    return std::nullopt;
  }

  std::optional<int> product(const Instruction& call) {
    const Json config = config_of(call.attributes.backend);
    const Type& of = result_of(call);
    if (call.operands.size() < 2 || !config.contains("dot_dimension_numbers") || of.sizes.empty()) return std::nullopt;
    const Json& dims = config.at("dot_dimension_numbers");
    const double beta = number_in(config, "beta", 0.0);
    std::string epilogue = text_in(config, "epilogue");
    const bool keeps = epilogue.ends_with("_AUX");  // what the activation reads, for a backward
    if (keeps) epilogue.resize(epilogue.size() - 4);
    const bool bias = epilogue.starts_with("BIAS");
    const std::string activation = bias ? epilogue.substr(epilogue.size() > 5 ? 5 : 4) : epilogue;
    const std::size_t given = 2 + (beta != 0.0 ? 1 : 0) + (bias ? 1 : 0);
    const bool known = activation.empty() || activation == "DEFAULT" || activation == "RELU" || activation == "GELU";
    if (!known || (keeps && activation != "GELU") || call.operands.size() != given) return std::nullopt;
    if (bias && !is_vector(call.operands.back(), of.sizes.back())) return std::nullopt;
    if (beta != 0.0 && type(call.operands[2]).sizes != of.sizes) return std::nullopt;
    int made = add("dot", of, {call.operands[0], call.operands[1]},
                   {.lhs_contracting = dims_in(dims, "lhs_contracting_dimensions"),
                    .rhs_contracting = dims_in(dims, "rhs_contracting_dimensions"),
                    .lhs_batch = dims_in(dims, "lhs_batch_dimensions"),
                    .rhs_batch = dims_in(dims, "rhs_batch_dimensions")});
    made = scaled(made, number_in(config, "alpha_real", 1.0));
    if (beta != 0.0) made = plus(made, scaled(call.operands[2], beta));
    if (bias) made = with_bias(made, call.operands.back(), of.sizes.size() - 1);
    if (keeps) second_ = made;
    if (activation == "RELU") made = rectified(made);
    if (activation == "GELU") made = add("custom-call", of, {made}, {.target = kGeluCall});
    return made;
  }

  // (x, weight, [bias, [what is added]]).
  std::optional<int> convolution(const Instruction& call) {
    const Json config = config_of(call.attributes.backend);
    const Type& of = result_of(call);
    const std::string& labels = call.attributes.dim_labels;
    const std::size_t arrow = labels.find("->"), feature = labels.find('f', arrow == std::string::npos ? 0 : arrow);
    const std::string activation = text_in(config, "activation_mode");
    const double beside = number_in(config, "side_input_scale", 0.0);
    const std::size_t given = call.operands.size();
    const bool known = activation.empty() || activation == "kNone" || activation == "kRelu";
    if (arrow == std::string::npos || feature == std::string::npos || !known || given < 2 || given > 4)
      return std::nullopt;
    const std::size_t dim = feature - arrow - 2;
    if (dim >= of.sizes.size() || (given > 2 && !is_vector(call.operands[2], of.sizes[dim]))) return std::nullopt;
    if ((given == 4) != (beside != 0.0) || (given == 4 && type(call.operands[3]).sizes != of.sizes))
      return std::nullopt;
    Attributes attributes = call.attributes;
    attributes.target.clear();
    attributes.backend.clear();
    int made = add("convolution", of, {call.operands[0], call.operands[1]}, std::move(attributes));
    made = scaled(made, number_in(config, "conv_result_scale", 1.0));
    if (given == 4) made = plus(made, scaled(call.operands[3], beside));
    if (given > 2) made = with_bias(made, call.operands[2], dim);
    return activation == "kRelu" ? rectified(made) : made;
  }

  // Queries, keys and values (batch, heads, positions, width) or (batch, positions, heads, width), as the batch
  // dimensions of the first product tell; the result is laid out as the queries, or as its type says.
  std::optional<int> attention(const Instruction& call) {
    const Json config = config_of(call.attributes.backend);
    if (call.operands.size() != 3 || !config.contains("bmm1_dot_dimension_numbers")) return std::nullopt;
    const Numbers batch = dims_in(config.at("bmm1_dot_dimension_numbers"), "lhs_batch_dimensions");
    const bool by_heads = batch == Numbers{0, 1};
    if (!by_heads && batch != Numbers{0, 2}) return std::nullopt;
    const std::string mask = text_in(config, "mask_type");
    if (mask != "CAUSAL" && mask != "NO_MASK" && !mask.empty()) return std::nullopt;
    const Numbers swapped = {0, 2, 1, 3};
    Numbers parts;
    for (const int operand : call.operands) {
      if (type(operand).sizes.size() != 4) return std::nullopt;
      parts.push_back(by_heads ? turned(operand, swapped) : operand);
    }
    Type by_position = type(static_cast<int>(parts[0]));
    by_position.sizes[3] = type(static_cast<int>(parts[2])).sizes[3];
    const std::string options =
        fmt::format("mask_type={} scaling_factor={}", mask == "CAUSAL" ? 2 : 0, number_in(config, "fmha_scale", 1.0));
    const int made = add("custom-call", by_position, parts, {.target = kAttentionCall, .backend = options});
    const Type& wanted = result_of(call);
    if (wanted.sizes == by_position.sizes && !by_heads) return made;
    const int heads_first = turned(made, swapped);
    return type(heads_first).sizes == wanted.sizes ? std::optional(heads_first) : std::nullopt;
  }
  int turned(int x, const Numbers& axes) {
    Type to = type(x);
    for (std::size_t d = 0; d < axes.size(); ++d) to.sizes[d] = type(x).sizes[static_cast<std::size_t>(axes[d])];
    return add("transpose", to, {x}, {.dimensions = axes});
  }

  Computation& of_;
  std::vector<Instruction> made_;
  std::vector<int> at_;  // [instruction before]: where it is now
  const Instruction* line_ = nullptr;
  std::optional<int> second_;  // what the call being written keeps beside its result
};

bool calls_a_library(const Instruction& instruction) {
  return instruction.opcode == "custom-call" && (instruction.attributes.target.starts_with("__cublas$") ||
                                                 instruction.attributes.target.starts_with("__cudnn$"));
}

}  // namespace

void expand_library_calls(Program& program) {
  for (Computation& computation : program.computations)
    if (std::any_of(computation.instructions.begin(), computation.instructions.end(), calls_a_library))
      Expander(computation).run();
}

}  // namespace meshwright::xla
