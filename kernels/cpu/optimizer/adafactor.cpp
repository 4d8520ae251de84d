// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/optimizer/adafactor.h"

#include "kernels/cpu/layout/box_dims.h"

namespace meshwright::kernels {

namespace {

// Calls visit(first element, offsets in the moments) for every row of the gradient: what its last dimension holds.
template <class Visit>
void for_each_row(const std::vector<MomentDim>& dims, Visit visit) {
  std::vector<std::int64_t> at(dims.size(), 0);
  std::int64_t offsets[3] = {};
  for (std::int64_t first = 0;; first += dims.back().extent) {
    visit(first, offsets);
    std::size_t d = dims.size() - 1;
    while (d > 0) {
      const MomentDim& dim = dims[--d];
      for (int m = 0; m < 3; ++m) offsets[m] += dim.strides[m];
      if (++at[d] < dim.extent) break;
      for (int m = 0; m < 3; ++m) offsets[m] -= dim.extent * dim.strides[m];
      at[d] = 0;
      if (d == 0) return;
    }
    if (dims.size() == 1) return;
  }
}

// Calls visit(element, its move).
template <class T, class Visit>
void for_each_move(const T* gradient, const Moments<T>& moments, T factor, Visit visit) {
  const MomentDim& inner = moments.dims.back();
  for_each_row(moments.dims, [&](std::int64_t first, const std::int64_t(&offsets)[3]) {
    for (std::int64_t i = 0; i < inner.extent; ++i) {
      const auto moment = [&](const T* of, int m) { return of[offsets[m] + i * inner.strides[m]]; };
      const T g = factor * gradient[first + i];
      visit(first + i, moments.c == nullptr
                           ? move_of(g, moment(moments.r, 0))
                           : move_of(g, moment(moments.r, 0), moment(moments.c, 1), moment(moments.mean, 2)));
    }
  });
}

}  // namespace

template <class T>
void mean_squares(const T* gradient, T* out, const KeptDims& kept_dims, double scale) {
  std::vector<BoxDim> dims = beside_kept(kept_dims);
  std::int64_t results = 1, elements = 1;
  for (const BoxDim& dim : dims) {
    elements *= dim.extent;
    if (dim.b != 0) results *= dim.extent;
  }
  std::vector<double> sums(static_cast<std::size_t>(results), 0.0);
  // In the order of the elements, by an odometer over their dimensions.
  std::vector<std::int64_t> at(dims.size(), 0);
  std::int64_t result = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto g = static_cast<double>(gradient[i]);
    sums[static_cast<std::size_t>(result)] += g * g;
    for (std::size_t d = dims.size(); d-- > 0;) {
      result += dims[d].b;
      if (++at[d] < dims[d].extent) break;
      result -= dims[d].extent * dims[d].b;
      at[d] = 0;
    }
  }
  for (std::size_t k = 0; k < sums.size(); ++k) out[k] = static_cast<T>(scale * sums[k]);
}

template <class T>
void decay_mean(T* mean, const T* now, std::int64_t n, double kept, double factor, double epsilon) {
  for (std::int64_t i = 0; i < n; ++i)
    mean[i] = static_cast<T>(kept * static_cast<double>(mean[i]) +
                             (1 - kept) * (factor * static_cast<double>(now[i]) + epsilon));
}

template <class T>
double move_squares(const T* gradient, const Moments<T>& moments, T factor) {
  double sum = 0.0;
  for_each_move(gradient, moments, factor, [&](std::int64_t, T move) {
    const auto u = static_cast<double>(move);
    sum += u * u;
  });
  return sum;
}

template <class T>
void follow_move(T* weight, const T* gradient, const Moments<T>& moments, T factor, const AdafactorStep& step) {
  const auto rate = static_cast<T>(step.rate), rest = static_cast<T>(step.rest);
  for_each_move(gradient, moments, factor, [&](std::int64_t i, T move) { weight[i] = rest * weight[i] - rate * move; });
}

#define MW_INSTANTIATE(T)                                                          \
  template void mean_squares<T>(const T*, T*, const KeptDims&, double);            \
  template void decay_mean<T>(T*, const T*, std::int64_t, double, double, double); \
  template double move_squares<T>(const T*, const Moments<T>&, T);                 \
  template void follow_move<T>(T*, const T*, const Moments<T>&, T, const AdafactorStep&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
