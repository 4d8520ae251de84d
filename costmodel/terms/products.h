// SPDX-License-Identifier: Apache-2.0
// The time of one matrix product on one GPU, from its shape: tiles, waves of tiles, depth, cache and memory traffic.
//
// A product of [m,k] by [k,n] is cut into tiles of a x c results; a tile is worked on by one multiprocessor, and a wave
// is as many tiles as there are multiprocessors. For every tile size, and with k cut into s parts,
//
//   T  = batch s ceil(m/a) ceil(n/c)                                   tiles
//   w  = (1 - q) max(T/M, 1) + q ceil(T/M)                             waves; q = 0.6 of a last, partly filled wave
//   counts tc = D w 2 a c (ceil(k/s) + k0) / (e P / M)                        arithmetic; k0: filling and emptying the
//   pipeline tl = T (a + c) ceil(k/s) element / cache                           traffic between the cache and the
//   multiprocessors tm = bytes / (h W) + [s > 1] (8 s m n batch / cache + 1 us)        memory; partial sums are written
//   and read once
//
// and the time is t0 + the smallest (tc^4 + tl^4 + tm^4)^(1/4): vendors' libraries choose well among tiles, and the
// fourth power lets the longest of the three decide with a soft corner. D = 1 + droop max(0, log2(bytes / 32 MiB)):
// large products run at lower clocks. P is the dense peak, W the memory bandwidth, M the number of multiprocessors.
#pragma once

#include <cstdint>

#include "core/base/units.h"

namespace meshwright {

// batch results [m,n] = [m,k] x [k,n].
struct ProductShape {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  Bytes operand_element{2.0}, result_element{2.0};

  [[nodiscard]] Flops flops() const;
  [[nodiscard]] Bytes bytes() const;  // operands read once, results written once
};

// What a data sheet says of the unit that computes products.
struct ProductUnit {
  FlopsPerSecond peak{0.0};  // dense, of the operands' type
  BytesPerSecond memory_bandwidth{0.0};
  int multiprocessors = 1;
};

// Fitted; they trade off against each other, so they are used as one set.
struct ProductConstants {
  double peak_share = 0.9;      // e: of the peak, inside a full tile
  double memory_share = 0.8;    // h: of the memory bandwidth
  BytesPerSecond cache{10e12};  // between the cache and all multiprocessors
  Seconds start{4e-6};          // t0
  double depth_overhead = 128;  // k0, in elements of k
  double droop = 0.01;          // lower clock per doubling of the bytes

  friend bool operator==(const ProductConstants&, const ProductConstants&) = default;
};

// REQUIRES: positive sizes, peak, bandwidth and multiprocessors.
[[nodiscard]] Seconds product_time(const ProductShape& shape, const ProductUnit& unit,
                                   const ProductConstants& constants);

}  // namespace meshwright
