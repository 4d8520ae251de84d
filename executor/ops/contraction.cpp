// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/contraction.h"

#include <algorithm>

#include "kernels/cpu/products/gemm.h"

namespace meshwright {

namespace {

// One axis of the loop nest with its stride in each operand; absent: not an axis of it.
struct Axis {
  std::int64_t size;
  std::optional<std::int64_t> a, b, c;
};
using Axes = std::vector<Axis>;
using Stride = std::optional<std::int64_t> Axis::*;

Loop loop_of(const Axis& axis) { return {axis.size, axis.a.value_or(0), axis.b.value_or(0), axis.c.value_or(0)}; }

void set_strides(Axes& axes, const std::vector<int>& dims, Stride stride) {
  std::int64_t step = 1;
  for (std::size_t d = dims.size(); d > 0; --d) {
    Axis& axis = axes[static_cast<std::size_t>(dims[d - 1])];
    axis.*stride = step;
    step *= axis.size;
  }
}

// Outermost first, as operand `stride` has them. Axes of size 1 need no loop.
Axes take_group(const Axes& axes, bool in_a, bool in_b, bool in_c, Stride order) {
  Axes group;
  for (const Axis& axis : axes)
    if (axis.size > 1 && axis.a.has_value() == in_a && axis.b.has_value() == in_b && axis.c.has_value() == in_c)
      group.push_back(axis);
  std::sort(group.begin(), group.end(), [order](const Axis& x, const Axis& y) { return *(x.*order) > *(y.*order); });
  return group;
}

// Does the group walk this operand like one axis?
bool is_one_axis(const Axes& group, Stride stride) {
  for (std::size_t i = 0; i + 1 < group.size(); ++i)
    if (*(group[i].*stride) != *(group[i + 1].*stride) * group[i + 1].size) return false;
  return true;
}

Axis merge(const Axes& group) {
  Axis merged{1, 0, 0, 0};
  for (const Axis& axis : group) merged.size *= axis.size;
  if (!group.empty()) merged = {merged.size, group.back().a, group.back().b, group.back().c};
  return merged;
}

struct Layout {
  bool transposed;
  std::int64_t leading;
};

// How a (rows, columns) matrix with these strides is handed to a product; nullopt when neither stride is 1.
std::optional<Layout> layout_of(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                                std::int64_t column_stride) {
  if (columns == 1) return Layout{false, std::max<std::int64_t>(row_stride, 1)};
  if (rows == 1) return column_stride == 1 ? Layout{false, columns} : Layout{true, column_stride};
  if (column_stride == 1) return Layout{false, row_stride};
  if (row_stride == 1) return Layout{true, column_stride};
  return std::nullopt;
}

std::optional<MatrixProduct> product_of(const Axis& m, const Axis& n, const Axis& k) {
  const std::optional<Layout> a = layout_of(m.size, k.size, *m.a, *k.a);
  const std::optional<Layout> b = layout_of(k.size, n.size, *k.b, *n.b);
  const std::optional<Layout> c = layout_of(m.size, n.size, *m.c, *n.c);
  if (!a || !b || !c) return std::nullopt;
  return MatrixProduct{a->transposed, b->transposed, c->transposed, m.size,    n.size,
                       k.size,        a->leading,    b->leading,    c->leading};
}

}  // namespace

Contraction plan_contraction(const IterationSpace& space, const std::vector<std::int64_t>& sizes) {
  Axes axes;
  for (const std::int64_t size : sizes) axes.push_back({size, std::nullopt, std::nullopt, std::nullopt});
  set_strides(axes, space.inputs[0], &Axis::a);
  set_strides(axes, space.inputs[1], &Axis::b);
  set_strides(axes, space.outputs[0], &Axis::c);

  Contraction plan;
  plan.result_elements = 1;
  for (const Axis& axis : axes)
    if (axis.c) plan.result_elements *= axis.size;

  Axes m = take_group(axes, true, false, true, &Axis::c), n = take_group(axes, false, true, true, &Axis::c);
  const Axes k = take_group(axes, true, true, false, &Axis::a);
  for (const Axis& axis : take_group(axes, true, true, true, &Axis::c)) plan.loops.push_back(loop_of(axis));
  const auto loop_over_outermost = [&plan](Axes& group) {
    plan.loops.push_back(loop_of(group.front()));
    group.erase(group.begin());
  };
  while (!is_one_axis(m, &Axis::a) || !is_one_axis(m, &Axis::c)) loop_over_outermost(m);
  while (!is_one_axis(n, &Axis::b) || !is_one_axis(n, &Axis::c)) loop_over_outermost(n);
  if (is_one_axis(k, &Axis::a) && is_one_axis(k, &Axis::b)) plan.product = product_of(merge(m), merge(n), merge(k));
  if (plan.product) return plan;

  plan.loops.clear();
  for (const bool in_c : {true, false})
    for (const Axis& axis : axes)
      if (axis.c.has_value() == in_c) plan.loops.push_back(loop_of(axis));
  return plan;
}

namespace {

template <class T>
void run_product(const MatrixProduct& p, const T* a, const T* b, T* c) {
  if (p.exchanged)
    kernels::gemm<T>({!p.transpose_b, !p.transpose_a, p.n, p.m, p.k, p.ldb, p.lda, p.ldc}, b, a, c);
  else
    kernels::gemm<T>({p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.lda, p.ldb, p.ldc}, a, b, c);
}

template <class T>
void run_loops(const Contraction& plan, std::size_t depth, const T* a, const T* b, T* c) {
  if (depth == plan.loops.size()) return run_product(*plan.product, a, b, c);
  const Loop& loop = plan.loops[depth];
  for (std::int64_t i = 0; i < loop.size; ++i)
    run_loops(plan, depth + 1, a + i * loop.a, b + i * loop.b, c + i * loop.c);
}

template <class T>
void run_by_element(const Contraction& plan, const T* a, const T* b, T* c) {
  std::vector<std::int64_t> sizes, a_strides, b_strides, c_strides;
  for (const Loop& loop : plan.loops) {
    sizes.push_back(loop.size);
    a_strides.push_back(loop.a);
    b_strides.push_back(loop.b);
    c_strides.push_back(loop.c);
  }
  kernels::contract_strided<T>({static_cast<int>(sizes.size()), sizes.data(), a_strides.data(), b_strides.data(),
                                c_strides.data(), plan.result_elements},
                               a, b, c);
}

}  // namespace

template <class T>
void run_contraction(const Contraction& contraction, const T* a, const T* b, T* c) {
  if (contraction.product)
    run_loops(contraction, 0, a, b, c);
  else
    run_by_element(contraction, a, b, c);
}

template void run_contraction<float>(const Contraction&, const float*, const float*, float*);
template void run_contraction<double>(const Contraction&, const double*, const double*, double*);

}  // namespace meshwright
