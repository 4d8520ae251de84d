// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layout/box_dims.h"

namespace meshwright::kernels {

std::vector<BoxDim> merged(std::span<const BoxDim> dims) {
  std::vector<BoxDim> found;
  for (const BoxDim& dim : dims) {
    if (dim.extent == 1) continue;
    if (!found.empty() && found.back().a == dim.a * dim.extent && found.back().b == dim.b * dim.extent)
      found.back() = {found.back().extent * dim.extent, dim.a, dim.b};
    else
      found.push_back(dim);
  }
  if (found.empty()) found.push_back({1, 1, 1});
  return found;
}

std::vector<BoxDim> beside_dense(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  std::vector<BoxDim> dims(sizes.size());
  std::int64_t dense = 1;
  for (std::size_t d = sizes.size(); d > 0; dense *= sizes[--d]) dims[d - 1] = {sizes[d - 1], strides[d - 1], dense};
  return dims;
}

std::vector<BoxDim> beside_kept(const KeptDims& kept_dims) {
  const auto& [sizes, kept] = kept_dims;
  std::vector<BoxDim> dims(sizes.size());
  std::int64_t of_x = 1, of_kept = 1;
  for (std::size_t d = sizes.size(); d > 0; --d) {
    dims[d - 1] = {sizes[d - 1], of_x, kept[d - 1] != 0 ? of_kept : 0};
    of_x *= sizes[d - 1];
    if (kept[d - 1] != 0) of_kept *= sizes[d - 1];
  }
  return merged(dims);
}

}  // namespace meshwright::kernels
