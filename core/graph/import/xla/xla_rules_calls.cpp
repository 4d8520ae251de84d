// SPDX-License-Identifier: Apache-2.0
// Custom calls: hints of shardings and places change nothing; some compilers keep whole layers as one call.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/xla/library_calls.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

using primitive::Kind;
using primitive::Shape;

// Everything that is handed to the target, as text.
std::string options_of(const FlatOp& op) {
  std::string text = op.instruction->attributes.backend;
  for (const auto& [key, value] : op.instruction->attributes.other) text += " " + key + " = " + value;
  return text;
}

// The number behind "key = ", "key": or key=[; whatever stands between is skipped.
std::optional<double> option(const FlatOp& op, const std::string& key) {
  const std::string text = options_of(op);
  std::size_t at = text.find(key);
  if (at == std::string::npos) return std::nullopt;
  at = text.find_first_not_of(" \"\\=:[{", at + key.size());
  if (at == std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str() + at, &end);
  return end == text.c_str() + at ? std::nullopt : std::optional(value);
}

void identity(Lowering& l, const FlatOp& op) {
  l.b.expect(op.operands.size() >= op.results.size(), "it makes more than it is given");
  for (std::size_t k = 0; k < op.results.size(); ++k) {
    const Lowered x = l.operand(op, k);
    l.b.expect(l.type(op.results[k]).sizes == l.type(op.operands[k]).sizes, "it changes the shape of its operand");
    l.set(op.results[k], x);
  }
}

template <Kind kind>
void activation(Lowering& l, const FlatOp& op) {
  l.b.expect(!op.operands.empty(), "it has no operand");
  const Lowered& x = l.operand(op, 0);
  l.set(op, l.b.unary(kind, x.node), x.shape);
}

void gelu(Lowering& l, const FlatOp& op) {
  const bool by_tanh = options_of(op).find("tanh") != std::string::npos;
  by_tanh ? activation<Kind::Gelu>(l, op) : activation<Kind::GeluErf>(l, op);
}

std::size_t axis_of(Lowering& l, const FlatOp& op, std::size_t rank, const char* key) {
  const double axis = option(op, key).value_or(-1.0);
  const double from_front = axis < 0.0 ? axis + static_cast<double>(rank) : axis;
  l.b.expect(from_front >= 0.0 && from_front < static_cast<double>(rank),
             fmt::format("its axis {} is outside of its operand's, 0 to {}", axis, static_cast<int>(rank) - 1));
  return static_cast<std::size_t>(from_front);
}

void softmax(Lowering& l, const FlatOp& op) {
  const Lowered& x = l.operand(op, 0);
  const auto axis = static_cast<std::int64_t>(axis_of(l, op, x.shape.size(), "axis"));
  l.set(op, l.b.softmax(l.whole(x), axis), x.shape);
}

void log_softmax(Lowering& l, const FlatOp& op) {
  const Lowered& x = l.operand(op, 0);
  const auto axis = static_cast<std::int64_t>(axis_of(l, op, x.shape.size(), "axis"));
  l.set(op, l.b.unary(Kind::Log, l.b.softmax(l.whole(x), axis)), x.shape);
}

// (x, gamma[, beta]) over `axis`; other results have no use but in a backward.
void norm(Lowering& l, const FlatOp& op, std::size_t axis, bool has_beta, double epsilon) {
  const Lowered& x = l.operand(op, 0);
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (d != axis) order.push_back(static_cast<std::int64_t>(d));
  order.push_back(static_cast<std::int64_t>(axis));
  std::vector<std::int64_t> back(order.size());
  for (std::size_t k = 0; k < order.size(); ++k)
    back[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
  const int rows = l.b.transpose(l.whole(x), order), gamma = l.whole(l.operand(op, 1));
  const int made =
      has_beta ? l.b.layer_norm(rows, gamma, l.whole(l.operand(op, 2)), epsilon) : l.b.rms_norm(rows, gamma, epsilon);
  l.set(op, l.b.transpose(made, back), x.shape);
}

void layer_norm(Lowering& l, const FlatOp& op) {
  l.b.expect(op.operands.size() >= 3, "it lacks its scale or bias");
  norm(l, op, axis_of(l, op, l.operand(op, 0).shape.size(), "axis"), true, option(op, "epsilon").value_or(1e-5));
}

void rms_norm(Lowering& l, const FlatOp& op) {
  l.b.expect(op.operands.size() >= 2, "it lacks its scale");
  const auto epsilon = op.operands.size() > 2 ? l.b.scalar_of(l.operand(op, 2).node) : std::nullopt;
  const Lowered& x = l.operand(op, 0);
  const double axis = std::strtod(op.instruction->attributes.backend.c_str(), nullptr);
  l.b.expect(
      axis >= 0.0 && axis < static_cast<double>(x.shape.size()),
      fmt::format("its dimension {} is outside of its operand's, 0 to {}", axis, static_cast<int>(x.shape.size()) - 1));
  norm(l, op, static_cast<std::size_t>(axis), false, epsilon.value_or(1e-5));
}

// The mean of what labels pick of logarithms of probabilities.
void nll_loss(Lowering& l, const FlatOp& op) {
  l.b.expect(op.operands.size() >= 2, "it lacks its labels");
  const int picked = l.b.pick_label(l.whole(l.operand(op, 0)), l.whole(l.operand(op, 1)));
  const int mean = l.b.reduce(Kind::ReduceMean, picked, {}, false);
  l.set(op, l.b.negated(mean), {});
}

// Queries, keys and values (batch, positions, heads, width).
void fused_attention(Lowering& l, const FlatOp& op) {
  l.b.expect(op.operands.size() >= 3, "it lacks queries, keys or values");
  const std::vector<std::int64_t> by_heads = {0, 2, 1, 3};
  int parts[3];
  for (const std::size_t k : {0u, 1u, 2u}) {
    const Lowered& x = l.operand(op, k);
    l.b.expect(x.shape.size() == 4, "queries, keys and values in one tensor have no equal here");
    parts[k] = l.b.transpose(l.whole(x), by_heads);
  }
  // Masks: 0 none, 1 padding, 2 causal, 3 both; 4 and 5 causal from the last position.
  const double mask = option(op, "mask_type").value_or(0.0), scale = option(op, "scaling_factor").value_or(0.0);
  const double usual = 1.0 / std::sqrt(static_cast<double>(l.operand(op, 0).shape[3]));
  const int made = l.b.attention(parts[0], parts[1], parts[2], std::abs(scale - usual) < 1e-4 * usual ? 0.0 : scale,
                                 {.causal = mask >= 2.0});
  const int turned = l.b.transpose(made, by_heads);
  l.set(op, turned, l.b.shape(turned));
}

const std::map<std::string, Rule>& call_rules() {
  static const std::map<std::string, Rule> kRules = {
      {"Sharding", identity},
      {"TopK", choice_rule("topk")},
      {"mhlo.topk", choice_rule("topk")},
      {"SPMDFullToShardShape", identity},
      {"SPMDShardToFullShape", identity},
      {"xla.sdy.FuncResultSharding", identity},
      {"xla.sdy.Sharding", identity},
      {"LayoutConstraint", identity},
      {"MoveToDevice", identity},
      {"MoveToHost", identity},
      {"annotate_device_placement", identity},
      {"pipeline_marker", identity},
      {"AwsNeuronTransferWithStaticRing", identity},
      {"AwsNeuronGelu", activation<Kind::GeluErf>},
      {"AwsNeuronGeluApprxTanh", activation<Kind::Gelu>},
      {"AwsNeuronSilu", activation<Kind::Silu>},
      {"AwsNeuronErf", activation<Kind::Erf>},
      {"AwsNeuronRmsNorm", rms_norm},
      {"byteir.layer_norm", layer_norm},
      {"byteir.softmax", softmax},
      {"byteir.log_softmax", log_softmax},
      {"byteir.gelu", gelu},
      {"byteir.erf", activation<Kind::Erf>},
      {"byteir.nll_loss_forward", nll_loss},
      {"mhlo.erf", activation<Kind::Erf>},
      {"chlo.erf", activation<Kind::Erf>},
      {"te_fused_attn_forward_ffi", fused_attention},
      {kAttentionCall, fused_attention},
      {kGeluCall, activation<Kind::Gelu>},
  };
  return kRules;
}

}  // namespace

bool is_elementwise_call(const std::string& target) {
  const Rule rule = call_rule(target);
  const Rule kElementwise[] = {
      identity, gelu, activation<Kind::Gelu>, activation<Kind::GeluErf>, activation<Kind::Silu>, activation<Kind::Erf>};
  return std::find(std::begin(kElementwise), std::end(kElementwise), rule) != std::end(kElementwise);
}

Rule call_rule(const std::string& target) {
  const auto found = call_rules().find(target);
  return found == call_rules().end() ? nullptr : found->second;
}

}  // namespace meshwright::xla
