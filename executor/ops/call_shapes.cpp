// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/call_shapes.h"

#include <algorithm>

namespace meshwright {

namespace {

using AxesOf = std::vector<int>;

std::int64_t entry(const std::vector<std::int64_t>& given, std::size_t spatial, std::int64_t usual) {
  return given.empty() ? usual : given[spatial];
}

// Windows along spatial dimension 0 or 1, from the axes that data and result walk.
kernels::Windows windows(const ShardCall& o, const AxesOf& x, const AxesOf& y, std::size_t spatial, std::int64_t size) {
  return {o.size(x[spatial + 1]), o.size(y[spatial + 1]), size, entry(o.attributes().stride, spatial, 1),
          entry(o.attributes().pad_before, spatial, 0)};
}

kernels::PoolShape pool_shape_of(const ShardCall& o, const AxesOf& x, const AxesOf& y) {
  std::int64_t channels = 1;
  for (std::size_t d = 3; d < x.size(); ++d) channels *= o.size(x[d]);
  const std::vector<std::int64_t>& size = o.attributes().window;
  return {o.size(x[0]), channels, windows(o, x, y, 0, size[0]), windows(o, x, y, 1, size[1])};
}

}  // namespace

StridedShape strided_shape(const ShardCall& o) {
  const std::vector<int>&from = o.call.space.inputs[0], &to = o.call.space.outputs[0];
  StridedShape shape{{}, std::vector<std::int64_t>(to.size(), 0)};
  for (const int axis : to) shape.sizes.push_back(o.size(axis));
  std::int64_t stride = 1;
  for (std::size_t d = from.size(); d > 0; stride *= o.in_size(0, --d)) {
    const auto at = std::find(to.begin(), to.end(), from[d - 1]) - to.begin();
    shape.strides[static_cast<std::size_t>(at)] = stride;
  }
  return shape;
}

ChangedDim changed_dim(const ShardCall& o) {
  const std::vector<int>&from = o.call.space.inputs[0], &to = o.call.space.outputs[0];
  const auto dim = static_cast<std::size_t>(std::mismatch(from.begin(), from.end(), to.begin()).first - from.begin());
  ChangedDim found{dim, 1, 1};
  for (std::size_t d = 0; d < dim; ++d) found.rows *= o.in_size(0, d);
  for (std::size_t d = dim + 1; d < from.size(); ++d) found.inner *= o.in_size(0, d);
  return found;
}

ReducedShape reduced_shape(const ShardCall& o, const std::vector<int>& kept) {
  ReducedShape shape;
  for (const int axis : o.call.space.inputs[0]) {
    shape.sizes.push_back(o.size(axis));
    shape.kept.push_back(std::find(kept.begin(), kept.end(), axis) == kept.end() ? 0 : 1);
  }
  return shape;
}

std::vector<kernels::MomentDim> moment_dims(const ShardCall& o, std::size_t gradient) {
  std::vector<kernels::MomentDim> dims;
  for (const int axis : o.call.space.inputs[gradient]) {
    kernels::MomentDim dim{o.size(axis), {0, 0, 0}};
    for (std::size_t m = 0; m < (o.attributes().factored ? 3 : 1); ++m) {
      const AxesOf& of = o.call.space.inputs[gradient + 1 + m];
      std::int64_t stride = 1;
      for (std::size_t d = of.size(); d > 0; stride *= o.size(of[--d]))
        if (of[d - 1] == axis) dim.strides[m] = stride;
    }
    dims.push_back(dim);
  }
  if (dims.empty()) dims.push_back({1, {0, 0, 0}});
  return dims;
}

PartShape part_shape(const ShardCall& o) {
  PartShape shape;
  for (const int axis : o.call.space.inputs[0]) {
    shape.local.push_back(o.size(axis));
    shape.whole.push_back(o.whole(axis));
    shape.begin.push_back(o.begin(axis));
  }
  return shape;
}

BiasShape bias_shape(const ShardCall& o, const std::vector<int>& bias) {
  const std::vector<int>& x = o.call.space.inputs[0];
  std::int64_t bias_width = 1;
  for (const int axis : bias) bias_width *= o.size(axis);
  std::int64_t width = bias_width;
  if (o.attributes().bias_select) width *= o.size(x[x.size() - bias.size() - 1]);
  return {o.elements(0) / width, width, bias_width};
}

kernels::ConvolutionShape convolution_shape(const ShardCall& o) {
  const std::vector<AxesOf>&from = o.call.space.inputs, &to = o.call.space.outputs;
  const bool makes_x = o.call.kind == OpKind::ConvolutionBackwardInput;        // (w, dy) -> dx
  const bool makes_weight = o.call.kind == OpKind::ConvolutionBackwardWeight;  // (x, dy) -> dw
  const AxesOf& x = makes_x ? to[0] : from[0];
  const AxesOf& w = makes_x ? from[0] : makes_weight ? to[0] : from[1];
  const AxesOf& y = makes_x || makes_weight ? from[1] : to[0];
  const std::size_t rank = w.size();
  return {o.size(x[0]),
          rank == 5 ? o.size(w[0]) : 1,
          o.size(w[rank - 2]),
          o.size(w[rank - 1]),
          windows(o, x, y, 0, o.size(w[rank - 4])),
          windows(o, x, y, 1, o.size(w[rank - 3]))};
}

kernels::PoolShape pool_shape(const ShardCall& o) {
  return pool_shape_of(o, o.call.space.inputs[0], o.call.space.outputs[0]);
}
kernels::PoolShape pool_backward_shape(const ShardCall& o) {
  return pool_shape_of(o, o.call.space.outputs[0], o.call.space.inputs.back());
}

}  // namespace meshwright
