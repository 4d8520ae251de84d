// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "executor/exact/residue.h"
#include "executor/exact/treatments.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cpu/elementwise/dropout.h"

namespace meshwright::exact {

namespace {

// Where the indices of some axes lie in two arrays.
struct PairOfOffsets {
  std::vector<std::int64_t> first = {0}, second = {0};

  void add_axis(std::int64_t size, std::int64_t first_stride, std::int64_t second_stride) {
    std::vector<std::int64_t> a, b;
    for (std::size_t before = 0; before < first.size(); ++before)
      for (std::int64_t i = 0; i < size; ++i) {
        a.push_back(first[before] + i * first_stride);
        b.push_back(second[before] + i * second_stride);
      }
    first = std::move(a);
    second = std::move(b);
  }
};

std::vector<std::int64_t> strides_by_axis(const Call& o, const std::vector<int>& axes) {
  std::vector<std::int64_t> strides(o.call.sizes.size(), 0);
  std::int64_t step = 1;
  for (std::size_t d = axes.size(); d > 0; step *= o.size(axes[--d]))
    strides[static_cast<std::size_t>(axes[d - 1])] = step;
  return strides;
}

// In the order of the result, each element the sum over all indices that it lacks.
void contract(const Call& o) {
  const std::vector<Residue> a = read(o.in(0), o.elements(0)), b = read(o.in(1), o.elements(1));
  const std::vector<std::int64_t> in_a = strides_by_axis(o, o.call.space.inputs[0]),
                                  in_b = strides_by_axis(o, o.call.space.inputs[1]);
  PairOfOffsets results, terms;
  for (const int axis : o.call.space.outputs[0])
    results.add_axis(o.size(axis), in_a[static_cast<std::size_t>(axis)], in_b[static_cast<std::size_t>(axis)]);
  for (std::size_t axis = 0; axis < o.call.sizes.size(); ++axis)
    if (o.call.space.axes[axis].reduction) terms.add_axis(o.call.sizes[axis], in_a[axis], in_b[axis]);
  double* result = o.out(0);
  for (std::size_t r = 0; r < results.first.size(); ++r) {
    const Residue* of_a = a.data() + results.first[r];
    const Residue* of_b = b.data() + results.second[r];
    std::uint64_t sum = 0;  // below 2^63: a product is below 2^62
    for (std::size_t t = 0; t < terms.first.size(); ++t) {
      sum += of_a[terms.first[t]] * of_b[terms.second[t]];
      sum = (sum & kPrime) + (sum >> 31);
    }
    result[r] = stored(reduced(sum));
  }
}

void scale(const Call& o) {
  const std::vector<Residue> x = read(o.in(0), o.elements(0));
  const Residue factor = of_constant(o.attributes().scale);
  for (std::size_t i = 0; i < x.size(); ++i) o.out(0)[i] = stored(times(x[i], factor));
}

void shift(const Call& o) {
  const std::vector<Residue> x = read(o.in(0), o.elements(0));
  const Residue by = of_constant(o.attributes().value);
  for (std::size_t i = 0; i < x.size(); ++i) o.out(0)[i] = stored(plus(x[i], by));
}

void reduce_sum(const Call& o) {
  OpCallPlan plain = o.call;
  plain.attributes.scale = 1.0;
  meshwright::run_op<double>(plain, o.inputs, o.outputs, o.moment);
  const Residue factor = of_constant(o.attributes().scale);
  for (std::int64_t i = 0; i < o.out_elements(0); ++i) o.out(0)[i] = stored(times(of_stored(o.out(0)[i]), factor));
}

// Each position and pair of elements has constants of its own, as it has an angle.
void rotary(const Call& o) {
  const std::vector<int>& dims = o.call.space.inputs[0];
  const std::int64_t batch = o.in_size(0, 0), seq = o.in_size(0, 1), width = o.width(0),
                     between = o.elements(0) / (batch * seq * width), half = width / 2;
  const std::vector<Residue> x = read(o.in(0), o.elements(0));
  const auto kind = static_cast<std::uint64_t>(o.call.kind);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t s = 0; s < seq; ++s)
      for (std::int64_t c = 0; c < between; ++c, at += static_cast<std::size_t>(width))
        for (std::int64_t i = 0; i < width; ++i) {
          const auto position = static_cast<std::uint64_t>(o.begin(dims[1]) + s),
                     element = static_cast<std::uint64_t>(i);
          const std::int64_t partner = (i + half) % width;
          const Residue own = times(x[at + static_cast<std::size_t>(i)], scrambled(kind, position, 2 * element)),
                        other = times(x[at + static_cast<std::size_t>(partner)],
                                      scrambled(kind, position, 2 * element + 1));
          o.out(0)[at + static_cast<std::size_t>(i)] = stored(plus(own, other));
        }
}

// The mask is that of a run in numbers.
void dropout(const Call& o) {
  const auto [local, whole, begin] = part_shape(o);
  const kernels::Part part{static_cast<int>(local.size()), local.data(), whole.data(), begin.data()};
  const std::vector<Residue> x = read(o.in(0), o.elements(0));
  const std::vector<double> ones(x.size(), 1.0);
  std::vector<double> mask(x.size());
  kernels::dropout(ones.data(), mask.data(), part,
                   {o.attributes().probability, o.attributes().seed, o.moment.step, o.moment.microbatch});
  const Residue factor = plus(1, of_constant(o.attributes().probability));
  for (std::size_t i = 0; i < x.size(); ++i) o.out(0)[i] = mask[i] == 0.0 ? 0.0 : stored(times(x[i], factor));
}

}  // namespace

OpKernel<double> linear_op(OpKind kind) {
  using K = OpKind;
  static const KernelTable<OpKernel<double>> table = {
      {K::Contract, contract}, {K::Scale, scale},           {K::Shift, shift},     {K::ReduceSum, reduce_sum},
      {K::Rotary, rotary},     {K::RotaryBackward, rotary}, {K::Dropout, dropout}, {K::DropoutBackward, dropout},
  };
  return table.of(kind);
}

}  // namespace meshwright::exact
