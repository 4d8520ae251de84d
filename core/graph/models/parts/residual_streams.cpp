// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/residual_streams.h"

#include <numeric>
#include <vector>

namespace meshwright {

TensorId ResidualStreams::begin(const std::string& name, TensorId x) const {
  return builder.add(OpKind::Broadcast, name, {x},
                     {.result_dims = {builder.batch, builder.seq, streams, builder.embed}});
}

TensorId ResidualStreams::mixes(const std::string& name, TensorId x, const std::vector<std::int64_t>& parts) const {
  const Dim all{"all_streams", streams.size * builder.embed.size};
  const Dim made{"mixes", std::accumulate(parts.begin(), parts.end(), std::int64_t{0})};
  const Dim factors{"mix_parts", static_cast<std::int64_t>(parts.size())};
  const TensorId flat =
      builder.add(OpKind::Reshape, name + ".all", {x}, {.result_dims = {builder.batch, builder.seq, all}});
  const TensorId read = builder.plain_norm(name + ".norm", flat, builder.transformer.epsilon);
  TensorId y = builder.project(name + ".mix", read, {made, all}, {"batch", "seq", made.name});
  // Each part has one factor.
  std::vector<double> of_part;
  for (std::int64_t p = 0; p < factors.size; ++p)
    for (std::int64_t q = 0; q < factors.size; ++q)
      of_part.insert(of_part.end(), static_cast<std::size_t>(parts[static_cast<std::size_t>(q)]), p == q ? 1.0 : 0.0);
  const TensorId places = builder.constant(fmt::format("mix_parts.{}", made.size), {factors, made}, of_part);
  TensorId scale =
      builder.add(OpKind::Contract, name + ".factors", {builder.parameter(name + ".scale.gamma", {factors}), places},
                  {.result_names = {made.name}});
  scale = builder.add(OpKind::Broadcast, name + ".factors.tokens", {scale},
                      {.result_dims = {builder.batch, builder.seq, made}});
  y = builder.add(OpKind::Multiply, name + ".mix.scaled", {y, scale});
  return builder.add_bias(name + ".mix", y, {made});
}

TensorId ResidualStreams::part(const std::string& name, TensorId mixes, std::int64_t start, std::int64_t size) const {
  return builder.add(OpKind::Slice, name, {mixes},
                     {.result_dims = {builder.batch, builder.seq, {size == streams.size ? "streams" : "pairs", size}},
                      .start = start});
}

TensorId ResidualStreams::weighed_sum(const std::string& name, TensorId x, TensorId logits) const {
  TensorId weights = builder.add(OpKind::Sigmoid, name + ".sigmoid", {logits});
  weights = builder.add(OpKind::Shift, name + ".weights", {weights}, {.value = epsilon});
  return builder.add(OpKind::Contract, name, {x, weights}, {.result_names = {"batch", "seq", "embed"}});
}

ResidualStreams::Reading ResidualStreams::read(const std::string& name, TensorId x) const {
  const std::int64_t n = streams.size;
  const TensorId all = mixes(name, x, turns > 0 ? std::vector{n, n, n * n} : std::vector{n, n});
  const TensorId read = weighed_sum(name + ".read", x, part(name + ".pre", all, 0, n));
  TensorId post = builder.add(OpKind::Sigmoid, name + ".post.sigmoid", {part(name + ".post", all, n, n)});
  post = builder.add(OpKind::Scale, name + ".post.scaled", {post}, {.scale = magnitude});
  if (least > 0.0) post = builder.add(OpKind::Shift, name + ".post.shifted", {post}, {.value = least});
  if (turns == 0) return {read, post};
  TensorId mixing = builder.add(OpKind::Reshape, name + ".matrix", {part(name + ".pairs", all, 2 * n, n * n)},
                                {.result_dims = {builder.batch, builder.seq, streams, {"streams_out", n}}});
  mixing = builder.add(OpKind::Sinkhorn, name + ".sinkhorn", {mixing},
                       {.epsilon = epsilon, .value = static_cast<double>(turns)});
  return {read, post, mixing};
}

TensorId ResidualStreams::add(const std::string& name, TensorId x, const Reading& reading, TensorId made) const {
  const TensorId expanded = builder.add(OpKind::Contract, name + ".expanded", {made, reading.post},
                                        {.result_names = {"batch", "seq", "streams", "embed"}});
  if (!reading.mixing) return builder.add(OpKind::Add, name + ".sum", {x, expanded});
  TensorId mixed = builder.add(OpKind::Contract, name + ".mixed", {x, *reading.mixing},
                               {.result_names = {"batch", "seq", "streams_out", "embed"}});
  mixed = builder.add(OpKind::Reshape, name + ".mixed.streams", {mixed},
                      {.result_dims = {builder.batch, builder.seq, streams, builder.embed}});
  return builder.add(OpKind::Add, name + ".sum", {mixed, expanded});
}

TensorId ResidualStreams::end(const std::string& name, TensorId x) const {
  const TensorId logits = mixes(name, x, {streams.size});
  return weighed_sum(name + ".read", x, part(name + ".pre", logits, 0, streams.size));
}

}  // namespace meshwright
