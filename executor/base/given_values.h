// SPDX-License-Identifier: Apache-2.0
// Numbers that a run is given instead of making them: the values it starts from, and its samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/graph/graph.h"

namespace meshwright {

// What parameters, and maybe states, start from.
class GivenStart {
 public:
  virtual ~GivenStart() = default;
  // Writes a tile, at `offset` of the whole tensor, as numbers of `precision`; false where it has no values for the
  // tensor. Called by many threads at the same time.
  [[nodiscard]] virtual bool fill(const Tensor& tensor, std::span<const std::int64_t> offset,
                                  std::span<const std::int64_t> shape, DType precision, void* out) const = 0;
};

// What inputs are fed with.
class GivenSamples {
 public:
  virtual ~GivenSamples() = default;
  // Writes a tile of an Input whose first sample is `first`, counted from the run's first step, and whose other
  // dimensions begin at `offset`; I32 or numbers of `precision`. False where it has no values for the tensor. Called by
  // many threads at the same time. Throws InputError for a number that the tensor cannot hold.
  [[nodiscard]] virtual bool fill(const Tensor& input, std::int64_t first, std::span<const std::int64_t> offset,
                                  std::span<const std::int64_t> shape, DType precision, void* out) const = 0;
  // The integers of inputs that index something are from 0 to below a bound; throws InputError for others.
  virtual void check_bound(const Tensor& input, std::int64_t bound) const = 0;
  // What stands for a number of the graph's constants that are no integers.
  [[nodiscard]] virtual double constant(double number) const { return number; }
};

struct GivenValues {
  std::shared_ptr<const GivenStart> start = {};
  std::shared_ptr<const GivenSamples> samples = {};
  // What labels of tokens are made: Random ones teach nothing; FollowingWord is learnable, as each is the word that
  // follows its token in the vocabulary (the k-th one for modules that predict the k-th further token).
  enum class Labels { Random, FollowingWord } labels = Labels::Random;
};

}  // namespace meshwright
