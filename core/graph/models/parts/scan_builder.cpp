// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/scan_builder.h"

#include <algorithm>

namespace meshwright {

namespace {

std::int64_t chunk_of(std::int64_t seq, std::int64_t wanted) {
  std::int64_t chunk = std::min(seq, wanted);
  while (seq % chunk != 0) --chunk;
  return chunk;
}

}  // namespace

ScanBuilder::ScanBuilder(Graph& into, const ModelConfig& model, const Transformer& what, std::int64_t wanted_chunk)
    : TransformerBuilder(into, model, what),
      chunk{"chunk", chunk_of(model.seq, wanted_chunk)},
      chunks{"chunks", model.seq / chunk.size} {}

TensorId ScanBuilder::widen(const std::string& name, TensorId x, const std::vector<Dim>& dims, bool bias) {
  std::vector<Dim> weight = {embed};
  std::vector<std::string> result = {"batch", "seq"};
  for (const Dim& dim : dims) {
    weight.push_back(dim);
    result.push_back(dim.name);
  }
  const TensorId made = project(name, x, weight, result);
  return bias ? add_bias(name, made, dims) : made;
}

TensorId ScanBuilder::convolution(const std::string& name, TensorId x, std::int64_t kernel, bool bias) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim one{"image_width", 1}, in{"channel_in", 1}, out{"channel_out", 1};
  const Dim channel{"channel", graph.tensor(x).elements() / (batch.size * seq.size)};
  const TensorId image = add(OpKind::Reshape, name + ".channels", {x}, {.result_dims = {batch, seq, one, channel, in}});
  const TensorId weight = parameter(name + ".conv.weight", {channel, {"kernel", kernel}, {"kernel_width", 1}, in, out});
  TensorId y = add(OpKind::Convolution, name + ".conv", {image, weight},
                   {.result_dims = {seq, one}, .stride = {1, 1}, .pad_before = {kernel - 1, 0}, .pad_after = {0, 0}});
  if (bias) y = add_bias(name + ".conv", y, {channel, out});
  return add(OpKind::Reshape, name + ".parted", {y}, {.result_dims = dims});
}

TensorId ScanBuilder::convolve(const std::string& name, TensorId x, std::int64_t kernel, bool bias) {
  return add(OpKind::Silu, name + ".silu", {convolution(name, x, kernel, bias)});
}

TensorId ScanBuilder::in_chunks(const std::string& name, TensorId x) {
  std::vector<Dim> dims = graph.tensor(x).dims;
  dims[1] = chunk;
  dims.insert(dims.begin() + 1, chunks);
  return add(OpKind::Reshape, name + ".chunks", {x}, {.result_dims = dims});
}

}  // namespace meshwright
