// SPDX-License-Identifier: Apache-2.0
// Products over any dimensions - a dot of XLA, an Einsum - as the products of matrices that patterns are told by.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// An operand: which of its dimensions are the batch of both, which are its own, and which are summed over. All of them
// are named once. Batches and sums of two operands are in one order.
struct ContractionSide {
  int node;
  std::vector<std::int64_t> batch = {}, own = {}, summed = {};
};

// (batch, own of x, own of y), or, where `swapped`, (batch, own of y, own of x): a weight is the right factor, and of
// two activations the one with more dimensions of its own the left one.
struct Contraction {
  int node;
  bool swapped;
};

// Throws InputError, as Builder does, where the sizes do not fit.
[[nodiscard]] Contraction contract(Builder& b, const ContractionSide& x, const ContractionSide& y);

}  // namespace meshwright::primitive
