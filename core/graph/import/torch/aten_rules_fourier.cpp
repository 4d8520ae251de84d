// SPDX-License-Identifier: Apache-2.0
// What ATen's Fourier transforms are in primitive ops.
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Shape;
using Made = std::vector<int>;

namespace {

enum class Fourier {
  All,
  Half,
  Real
};  // complex numbers of all, the first half of real ones' sums, and real ones back

std::vector<std::int64_t> axes_of_transform(const AtenNode& a, std::int64_t dimensions) {
  if (a.has("dim") && a.find("dim", "as_int") != nullptr) return {a.integer("dim", -1)};
  std::vector<std::int64_t> axes = a.integers("dim");
  if (axes.empty() && a.has("dim") == false && dimensions > 0)
    for (std::int64_t d = dimensions; d > 0; --d) axes.push_back(-d);
  if (axes.empty())
    for (std::int64_t d = 0; d < std::ssize(a.b.shape(a.tensor("self"))); ++d) axes.push_back(d);
  return axes;
}

// What sums are multiplied by: 1 / sqrt(n) in both directions, or 1 / n in one of them.
double factor_of_transform(const AtenNode& a, std::int64_t n, bool inverse) {
  const double size = static_cast<double>(n);
  if (a.has("normalization")) {
    const std::int64_t kind = a.integer("normalization", 0);
    return kind == 0 ? 1.0 : kind == 1 ? 1.0 / std::sqrt(size) : 1.0 / size;
  }
  const std::string norm = a.text("norm", "backward");
  if (norm == "ortho") return 1.0 / std::sqrt(size);
  return (norm == "forward") == inverse ? 1.0 : 1.0 / size;
}

Made transformed(const AtenNode& a, Fourier kind, bool inverse, std::int64_t dimensions) {
  int x = a.tensor("self");
  std::vector<std::int64_t> axes = axes_of_transform(a, dimensions);
  a.b.expect(!axes.empty(), "it transforms no dimension");
  for (std::int64_t& axis : axes) axis = a.b.axis_of(x, axis);
  const auto size = [&](std::int64_t axis) { return a.b.shape(x)[static_cast<std::size_t>(axis)]; };
  const bool to_reals = kind == Fourier::Real;
  std::int64_t last = to_reals ? 2 * (size(axes.back()) - 1) : size(axes.back());
  if (a.has("last_dim_size")) last = a.integer("last_dim_size", last);
  std::vector<std::int64_t> given = a.find("n", "as_int") != nullptr ? Shape{a.integer("n", 0)} : a.integers("s");
  if (to_reals && !given.empty()) last = given.back();
  if (to_reals && !given.empty()) given.back() = size(axes.back());
  for (std::size_t k = 0; k < given.size(); ++k)
    a.b.expect(given.size() == axes.size() && given[k] == size(axes[k]),
               "a Fourier transform of fewer or more elements than its operand has has no equal here");
  // The half is that of the last dimension, which is transformed first, or back at the end.
  if (kind == Fourier::Half)
    x = a.b.fourier(x, axes.back(), last / 2 + 1, inverse, factor_of_transform(a, last, inverse));
  for (std::size_t k = 0; k + (kind == Fourier::All ? 0 : 1) < axes.size(); ++k)
    x = a.b.fourier(x, axes[k], size(axes[k]), inverse, factor_of_transform(a, size(axes[k]), inverse));
  if (to_reals) x = a.b.real_fourier_inverse(x, axes.back(), last, factor_of_transform(a, last, inverse));
  return {x};
}
template <Fourier kind, bool inverse, std::int64_t dimensions>
Made transform(const AtenNode& a) {
  return transformed(a, kind, inverse, dimensions);
}
Made transform_to_complex(const AtenNode& a) { return transformed(a, Fourier::All, !a.flag("forward", true), 1); }
Made transform_of_reals(const AtenNode& a) {
  return transformed(a, a.flag("onesided", true) ? Fourier::Half : Fourier::All, false, 1);
}

}  // namespace

std::map<std::string, Rule> fourier_rules() {
  constexpr Fourier kAll = Fourier::All, kHalf = Fourier::Half, kReal = Fourier::Real;
  return {{"fft_fft", transform<kAll, false, 1>},    {"fft_ifft", transform<kAll, true, 1>},
          {"fft_fft2", transform<kAll, false, 2>},   {"fft_ifft2", transform<kAll, true, 2>},
          {"fft_fftn", transform<kAll, false, 0>},   {"fft_ifftn", transform<kAll, true, 0>},
          {"fft_rfft", transform<kHalf, false, 1>},  {"fft_irfft", transform<kReal, true, 1>},
          {"fft_rfft2", transform<kHalf, false, 2>}, {"fft_irfft2", transform<kReal, true, 2>},
          {"fft_rfftn", transform<kHalf, false, 0>}, {"fft_irfftn", transform<kReal, true, 0>},
          {"_fft_c2c", transform_to_complex},        {"_fft_r2c", transform_of_reals},
          {"_fft_c2r", transform<kReal, true, 1>}};
}

}  // namespace meshwright::torch
