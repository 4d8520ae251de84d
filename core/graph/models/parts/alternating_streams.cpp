// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/alternating_streams.h"

#include <vector>

namespace meshwright {

namespace {

constexpr double kLeastSquare = 1e-5;  // the mean square of what is made as long as the first stream

}  // namespace

TensorId AlternatingStreams::length(const std::string& name, TensorId x, double minimum) const {
  TensorId square =
      builder.add(OpKind::ReduceSum, name + ".mean", {builder.add(OpKind::Multiply, name + ".squares", {x, x})},
                  {.result_names = {"batch", "seq"}, .scale = 1.0 / static_cast<double>(builder.embed.size)});
  if (minimum > 0.0) square = builder.add(OpKind::Clamp, name + ".at_least", {square}, {.low = minimum});
  return builder.add(OpKind::Sqrt, name, {square});
}

TensorId AlternatingStreams::as_long_as(const std::string& name, TensorId x, TensorId length_of_first) const {
  TensorId times =
      builder.add(OpKind::Divide, name + ".ratio", {length_of_first, length(name + ".length", x, kLeastSquare)});
  times = builder.add(OpKind::Broadcast, name + ".ratio.wide", {times}, {.result_dims = builder.graph.tensor(x).dims});
  return builder.add(OpKind::Multiply, name + ".scaled", {x, times});
}

TensorId AlternatingStreams::stream(const std::string& name, TensorId all, std::int64_t which) const {
  const Dim one{"stream", 1};
  const TensorId part = builder.add(OpKind::Slice, name + ".part", {all},
                                    {.result_dims = {builder.batch, builder.seq, one, builder.embed}, .start = which});
  return builder.add(OpKind::Reshape, name, {part}, {.result_dims = {builder.batch, builder.seq, builder.embed}});
}

TensorId AlternatingStreams::first(const std::string& name, TensorId all) const { return stream(name, all, 0); }

TensorId AlternatingStreams::begin(TensorId x) const {
  const Dim one{"stream", 1}, to{"further_embed", builder.embed.size};
  const std::vector<Dim> alone = {builder.batch, builder.seq, one, builder.embed};
  const TensorId own = length("streams.length", x, 0.0);
  std::vector<TensorId> all = {builder.add(OpKind::Reshape, "streams.0", {x}, {.result_dims = alone})};
  for (std::int64_t which = 1; which < streams.size; ++which) {
    const std::string name = fmt::format("streams.{}.in", which);
    TensorId y = builder.project(name, x, {builder.embed, to}, {"batch", "seq", to.name});
    y = builder.add(OpKind::Reshape, name + ".embed", {y},
                    {.result_dims = {builder.batch, builder.seq, builder.embed}});
    y = as_long_as(name, y, own);
    all.push_back(builder.add(OpKind::Reshape, name + ".stream", {y}, {.result_dims = alone}));
  }
  return builder.add(OpKind::Concat, "streams", all,
                     {.result_dims = {builder.batch, builder.seq, streams, builder.embed}});
}

AlternatingStreams::Router AlternatingStreams::router(const std::string& name) const {
  return {builder.parameter(name + ".router_norm.gamma", {builder.embed}),
          builder.parameter(name + ".router.weight", {builder.embed, {"mode", streams.size}})};
}

TensorId AlternatingStreams::modes(const std::string& name, TensorId x, const Router& by) const {
  TensorId y =
      builder.add(OpKind::RmsNorm, name + ".router_norm", {x, by.gamma}, {.epsilon = builder.transformer.epsilon});
  y = builder.add(OpKind::Scale, name + ".router_norm.scaled", {y},
                  {.scale = 1.0 / static_cast<double>(builder.embed.size)});
  y = builder.add(OpKind::Contract, name + ".router", {y, by.weight}, {.result_names = {"batch", "seq", "mode"}});
  return builder.add(OpKind::Tanh, name + ".modes", {y});
}

TensorId AlternatingStreams::predict(const std::string& name, TensorId all, const Router& by) const {
  const Dim mode{"mode", streams.size}, to{"streams_out", streams.size};
  const TensorId mixing = builder.project(name + ".prediction", modes(name, first(name + ".read", all), by),
                                          {mode, to, streams}, {"batch", "seq", to.name, streams.name});
  TensorId mixed = builder.add(OpKind::Contract, name + ".mixed", {all, mixing},
                               {.result_names = {"batch", "seq", to.name, builder.embed.name}});
  mixed = builder.add(OpKind::Reshape, name + ".mixed.streams", {mixed},
                      {.result_dims = {builder.batch, builder.seq, streams, builder.embed}});
  return builder.add(OpKind::Add, name + ".predicted", {all, mixed});
}

TensorId AlternatingStreams::correct(const std::string& name, TensorId predicted, TensorId made,
                                     const Router& by) const {
  const Dim mode{"mode", streams.size};
  const TensorId change =
      builder.add(OpKind::Subtract, name + ".change", {made, first(name + ".predicted.first", predicted)});
  TensorId weights = builder.project(name + ".correction", modes(name + ".made", made, by), {mode, streams},
                                     {"batch", "seq", streams.name});
  weights = builder.add(OpKind::Shift, name + ".correction.weights", {weights}, {.value = 1.0});
  const TensorId changes = builder.add(OpKind::Contract, name + ".changes", {change, weights},
                                       {.result_names = {"batch", "seq", streams.name, builder.embed.name}});
  return builder.add(OpKind::Add, name + ".corrected", {predicted, changes});
}

TensorId AlternatingStreams::add_to_further(const std::string& name, TensorId all, TensorId x) const {
  std::vector<double> places(static_cast<std::size_t>(streams.size), 1.0);
  places.front() = 0.0;
  TensorId wide =
      builder.add(OpKind::Broadcast, name + ".further", {builder.constant("further_streams", {streams}, places)},
                  {.result_dims = {builder.batch, builder.seq, streams}});
  wide = builder.add(OpKind::Contract, name + ".wide", {x, wide},
                     {.result_names = {"batch", "seq", streams.name, builder.embed.name}});
  return builder.add(OpKind::Add, name + ".sum", {all, wide});
}

TensorId AlternatingStreams::end(TensorId all) const {
  const Dim from{"further_embed", builder.embed.size};
  TensorId sum = stream("streams.first", all, 0);
  const TensorId own = length("streams.first.length", sum, 0.0);
  for (std::int64_t which = 1; which < streams.size; ++which) {
    const std::string name = fmt::format("streams.{}.out", which);
    TensorId x = stream(name + ".read", all, which);
    x = builder.add(OpKind::Reshape, name + ".from", {x}, {.result_dims = {builder.batch, builder.seq, from}});
    x = builder.project(name, x, {from, builder.embed}, {"batch", "seq", builder.embed.name});
    sum = builder.add(OpKind::Add, name + ".sum", {sum, as_long_as(name, x, own)});
  }
  return builder.add(OpKind::Scale, "streams.mean", {sum}, {.scale = 1.0 / static_cast<double>(streams.size)});
}

}  // namespace meshwright
