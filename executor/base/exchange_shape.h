// SPDX-License-Identifier: Apache-2.0
// How an all-to-all cuts its arrays into tiles. Internal to the executor.
//
//   in   has one tile for each member, side by side along split_dim
//   out  has one tile from each member, side by side along join_dim
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

struct ExchangeShape {
  // REQUIRES: `members` divides in_shape[split_dim].
  ExchangeShape(std::span<const std::int64_t> in_shape, int split_dim, int join_dim, int members)
      : tile(in_shape.begin(), in_shape.end()), in_strides(kernels::row_major_strides(in_shape)) {
    const auto split = static_cast<std::size_t>(split_dim), join = static_cast<std::size_t>(join_dim);
    tile[split] /= members;
    std::vector<std::int64_t> out_shape = tile;
    out_shape[join] *= members;
    out_strides = kernels::row_major_strides(out_shape);
    in_step = tile[split] * in_strides[split];
    out_step = tile[join] * out_strides[join];
  }
  [[nodiscard]] std::int64_t tile_elements() const {
    std::int64_t product = 1;
    for (const std::int64_t size : tile) product *= size;
    return product;
  }

  std::vector<std::int64_t> tile;                     // its shape
  std::vector<std::int64_t> in_strides, out_strides;  // of the arrays, in elements
  std::int64_t in_step, out_step;                     // from a member's tile to the next member's, in elements
};

}  // namespace meshwright
