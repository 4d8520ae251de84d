// SPDX-License-Identifier: Apache-2.0
// What ONNX's Fourier transforms are in primitive ops: complex numbers are pairs in the last dimension.
#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"

namespace meshwright::onnx {

using Made = std::vector<int>;

namespace {

Made transformed(const NodeReader& r) {
  const int pairs = r.in(0);
  const auto rank = std::ssize(r.b.shape(pairs));
  const std::int64_t parts = rank == 0 ? 0 : r.b.shape(pairs).back();
  r.b.expect(rank >= 2 && (parts == 1 || parts == 2), "its last dimension has no real and imaginary parts");
  const auto part = [&](std::int64_t k) { return r.b.squeeze(r.b.slice(pairs, -1, k, k + 1), {rank - 1}); };
  const std::int64_t given =
      r.has(2) ? r.b.integers_of(r.in(2), "axis").at(0) : r.number("axis", r.opset < 20 ? 1 : -2);
  const std::int64_t axis = r.b.axis_of(pairs, given);
  r.b.expect(axis + 1 < rank, "it transforms the real and imaginary parts");
  const std::int64_t n = r.b.shape(pairs)[static_cast<std::size_t>(axis)];
  r.b.expect(!r.has(1) || r.b.integers_of(r.in(1), "dft_length").at(0) == n,
             "a Fourier transform of fewer or more elements than its operand has has no equal here");
  const bool inverse = r.number("inverse", 0) != 0, half = r.number("onesided", 0) != 0;
  const int first = part(0), x = parts == 2 ? r.b.complex(first, part(1)) : first;
  const int made = r.b.fourier(x, axis, half ? n / 2 + 1 : n, inverse, inverse ? 1.0 / static_cast<double>(n) : 1.0);
  const int real = r.b.real_of(made);
  return {r.b.stack({real, r.b.imaginary_of(made)}, -1)};
}

}  // namespace

std::map<std::string, Rule> fourier_rules() { return {{"DFT", transformed}}; }

}  // namespace meshwright::onnx
