// SPDX-License-Identifier: Apache-2.0
#include "executor/exact/exact_values.h"

#include <memory>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/exact/residue.h"

namespace meshwright::exact {

namespace {

// out[i] of a tile at `begin` in an array whose rows have `sizes` elements; the first size is not read.
void fill_tile(std::uint64_t key, const std::vector<Dim>& sizes, std::span<const std::int64_t> begin,
               std::span<const std::int64_t> shape, double* out) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = 0, rest = i, stride = 1;
    for (std::size_t d = shape.size(); d > 0; --d) {
      place += (begin[d - 1] + rest % shape[d - 1]) * stride;
      rest /= shape[d - 1];
      stride *= sizes[d - 1].size;
    }
    out[i] = stored(scrambled(key, static_cast<std::uint64_t>(place)));
  }
}

class ExactStart final : public GivenStart {
 public:
  explicit ExactStart(std::uint64_t seed) : seed_(seed) {}
  bool fill(const Tensor& tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
            DType precision, void* out) const override {
    if (tensor.kind != TensorKind::Parameter) return false;
    MW_CHECK(precision == DType::F64, "residues in {}", name_of(precision));
    fill_tile(stable_hash(fmt::format("{}/{}", seed_, tensor.name)), tensor.dims, offset, shape,
              static_cast<double*>(out));
    return true;
  }

 private:
  std::uint64_t seed_;
};

class ExactSamples final : public GivenSamples {
 public:
  explicit ExactSamples(std::uint64_t seed) : seed_(seed) {}
  bool fill(const Tensor& input, std::int64_t first, std::span<const std::int64_t> offset,
            std::span<const std::int64_t> shape, DType precision, void* out) const override {
    if (input.dtype == DType::I32) return false;
    MW_CHECK(precision == DType::F64, "residues in {}", name_of(precision));
    std::vector<std::int64_t> begin(offset.begin(), offset.end());
    if (!begin.empty()) begin[0] = first;
    fill_tile(stable_hash(fmt::format("{}/input/{}", seed_, input.name)), input.dims, begin, shape,
              static_cast<double*>(out));
    return true;
  }
  void check_bound(const Tensor&, std::int64_t) const override {}  // gives no integers
  double constant(double number) const override { return static_cast<double>(of_constant(number)); }

 private:
  std::uint64_t seed_;
};

}  // namespace

GivenValues exact_values(std::uint64_t seed) {
  return {std::make_shared<const ExactStart>(seed), std::make_shared<const ExactSamples>(seed)};
}

}  // namespace meshwright::exact
