// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/compressed_attention.h"

#include <algorithm>

namespace meshwright {

namespace {

constexpr double kNoWeight = -1e30;  // a logit whose exponential is 0

using Extra = Attributes::Extra;

}  // namespace

// Layers that compress rotate by a base of their own, more slowly where the model's rotation is scaled.
TensorId CompressedAttention::rotate(const std::string& name, TensorId x, const Use& use, std::int64_t rate,
                                     Turn turn) const {
  Attributes attributes{.rotary_base = use.rate > 0 ? part.compressed_rotary_base : part.rotary_base,
                        .rotary_dims = part.rope,
                        .rotary_interleaved = true};
  if (use.rate > 0 && builder.rotary_scaling) {
    attributes.rotary_divisors =
        rotary_divisors(*builder.rotary_scaling, attributes.rotary_base, part.rope, builder.seq.size);
    attributes.rotary_amplitude = builder.rotary_scaling->amplitude;
  }
  if (rate > 1) {
    if (attributes.rotary_divisors.empty())
      attributes.rotary_divisors.assign(static_cast<std::size_t>(part.rope / 2), 1.0);
    for (double& divisor : attributes.rotary_divisors) divisor /= static_cast<double>(rate);
  }
  const bool back = turn == Turn::Backwards;
  return builder.add(back ? OpKind::RotaryBackward : OpKind::Rotary, name + (back ? ".rotary_back" : ".rotary"), {x},
                     attributes);
}

TensorId CompressedAttention::in_windows(const std::string& name, TensorId x, const Use& use) const {
  std::vector<Dim> dims = builder.graph.tensor(x).dims;
  const std::int64_t used = windows(use).size * use.rate;
  if (used < builder.seq.size) {
    dims[1] = {"used", used};
    x = builder.add(OpKind::Slice, name + ".used", {x}, {.result_dims = dims});
  }
  dims[1] = windows(use);
  dims.insert(dims.begin() + 2, {"slot", use.rate});
  return builder.add(OpKind::Reshape, name + ".windows", {x}, {.result_dims = dims});
}

TensorId CompressedAttention::overlapped(const std::string& name, TensorId x, double none) const {
  const std::vector<Dim> all = builder.graph.tensor(x).dims;  // (batch, windows, slot, series, width)
  const std::vector<Dim> rows = {all[0], all[1], all[2], all[4]};
  const auto series = [&](const std::string& which, std::int64_t number) {
    std::vector<Dim> one = all;
    one[3] = {"one", 1};
    const TensorId found = builder.add(OpKind::Slice, name + which, {x}, {.result_dims = one, .start = number});
    return builder.add(OpKind::Reshape, name + which + ".rows", {found}, {.result_dims = rows});
  };
  const TensorId own = series(".own", 1);
  if (all[1].size == 1) return own;
  std::vector<Dim> dims = rows;
  dims[1] = {"earlier", all[1].size - 1};
  TensorId before = builder.add(OpKind::Slice, name + ".earlier", {series(".before", 0)}, {.result_dims = dims});
  before = builder.add(OpKind::Pad, name + ".shifted", {before}, {.result_dims = rows, .start = 1, .value = none});
  dims = rows;
  dims[2] = {"slots", 2 * all[2].size};
  return builder.add(OpKind::Concat, name + ".slots", {before, own}, {.result_dims = dims});
}

TensorId CompressedAttention::compress(const std::string& name, TensorId x, const Dim& width, const Use& use) const {
  const Dim slot{"slot", use.rate};
  std::vector<Dim> weight = {builder.embed}, bias = {slot};
  std::vector<std::string> made = {"batch", "seq"};
  if (use.overlap) {
    weight.push_back({"series", 2});
    bias.push_back({"series", 2});
    made.emplace_back("series");
  }
  weight.push_back(width);
  bias.push_back(width);
  made.push_back(width.name);
  TensorId kv = in_windows(name + ".kv", builder.project(name + ".kv", x, weight, made), use);
  TensorId gate = in_windows(name + ".gate", builder.project(name + ".gate", x, weight, made), use);
  gate = builder.add_bias(name + ".gate", gate, bias);
  if (use.overlap) {
    kv = overlapped(name + ".kv", kv, 0.0);
    gate = overlapped(name + ".gate", gate, kNoWeight);
  }
  const std::string slots = builder.graph.tensor(gate).dims[2].name;
  gate = builder.add(OpKind::Transpose, name + ".gate.channels", {gate},
                     {.result_names = {"batch", "windows", width.name, slots}});
  gate = builder.add(OpKind::Softmax, name + ".softmax", {gate});
  const TensorId sum =
      builder.add(OpKind::Contract, name + ".sum", {kv, gate}, {.result_names = {"batch", "windows", width.name}});
  return rotate(name, builder.norm(name + ".norm", sum, width), use, use.rate);
}

TensorId CompressedAttention::keys(const std::string& name, TensorId x, TensorId low_rank, const Use& use) const {
  const Dim compressed = windows(use), rank{"q_rank", part.q_rank}, heads{"index_heads", part.index.heads},
            width{"index_dim", part.index.dim};
  const std::int64_t window = std::min(part.window, builder.seq.size);
  const auto chosen = [&](TensorId scores, std::int64_t top_k) {
    return builder.add(OpKind::TopKKeys, name + ".keys", {scores},
                       {.stride = {use.rate}, .attention_window = window, .top_k = top_k});
  };
  if (!use.chooses) {  // all that are complete
    const std::vector<double> equal(static_cast<std::size_t>(compressed.size), 0.0);
    const TensorId scores =
        builder.add(OpKind::Broadcast, name + ".scores",
                    {builder.constant(fmt::format("zeros.windows.{}", use.rate), {compressed}, equal)},
                    {.result_dims = {builder.batch, builder.seq, compressed}});
    return chosen(scores, compressed.size);
  }
  // The scale of the scores changes no order.
  TensorId q =
      builder.project(name + ".index.q", low_rank, {rank, heads, width}, {"batch", "seq", "index_heads", "index_dim"});
  q = rotate(name + ".index.q", q, use);
  const TensorId k = compress(name + ".index.compress", x, width, use);
  const TensorId weights =
      builder.project(name + ".index.weights", x, {builder.embed, heads}, {"batch", "seq", "index_heads"});
  return chosen(builder.add(OpKind::IndexScores, name + ".index.scores", {q, k, weights}),
                std::min(part.index.top_k, compressed.size));
}

TensorId CompressedAttention::attend(const std::string& name, TensorId x, const Use& use) const {
  const Dim rank{"q_rank", part.q_rank}, &kv_heads = builder.kv_heads, &group = builder.group,
                                         &head_dim = builder.head_dim;
  const TensorId low_rank = builder.norm(
      name + ".q_norm", builder.project(name + ".q_down", x, {builder.embed, rank}, {"batch", "seq", "q_rank"}), rank);
  TensorId q = builder.project(name + ".q", low_rank, {rank, kv_heads, group, head_dim},
                               {"batch", "seq", "kv_heads", "group", "head_dim"});
  q = rotate(name + ".q", builder.plain_norm(name + ".q_plain_norm", q, builder.transformer.epsilon), use);
  TensorId kv = builder.project(name + ".kv", x, {builder.embed, head_dim}, {"batch", "seq", "head_dim"});
  kv = rotate(name + ".kv", builder.norm(name + ".kv_norm", kv, head_dim), use);
  const TensorId sinks = builder.parameter(name + ".sinks", {kv_heads, group});
  const auto as_heads = [&](const std::string& which, TensorId rows, const Dim& positions) {
    return builder.add(OpKind::Reshape, name + which, {rows},
                       {.result_dims = {builder.batch, positions, kv_heads, head_dim}});
  };
  TensorId core = q;
  if (use.rate == 0 || builder.seq.size < use.rate) {
    const TensorId seen = as_heads(".kv.keys", kv, {"kv_seq", builder.seq.size});
    const std::int64_t window = part.window < builder.seq.size ? part.window : 0;
    core = builder.add(OpKind::GroupedAttention, name + ".core", {q, seen, seen, sinks},
                       {.causal = true, .attention_window = window, .extra = Extra::Sink});
  } else {
    const TensorId compressed = compress(name + ".compress", x, head_dim, use);
    const Dim both{"kv_seq", windows(use).size + builder.seq.size};
    const TensorId rows = builder.add(OpKind::Concat, name + ".kv.all", {compressed, kv},
                                      {.result_dims = {builder.batch, both, head_dim}});
    const TensorId seen = as_heads(".kv.keys", rows, both);
    core = builder.add(OpKind::SelectedAttention, name + ".core", {q, seen, seen, keys(name, x, low_rank, use), sinks},
                       {.extra = Extra::Sink});
  }
  core = rotate(name + ".core", core, use, 1, Turn::Backwards);
  const Dim groups{"out_groups", part.out_groups}, members{"out_heads", group.size / part.out_groups},
      out_rank{"out_rank", part.out_rank};
  core = builder.add(OpKind::Reshape, name + ".core.groups", {core},
                     {.result_dims = {builder.batch, builder.seq, groups, members, head_dim}});
  const TensorId narrow = builder.project(name + ".out_down", core, {groups, members, head_dim, out_rank},
                                          {"batch", "seq", "out_groups", "out_rank"});
  return builder.project(name + ".out", narrow, {groups, out_rank, builder.embed}, {"batch", "seq", "embed"});
}

}  // namespace meshwright
