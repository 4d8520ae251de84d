// SPDX-License-Identifier: Apache-2.0
// Collectives between the threads of one group, through shared memory: each rank publishes the addresses of its arrays,
// and the others read them. Every element is summed in rank order by one rank, so all ranks get the same bits, in every
// run.
//
// Parts of a row are equally long; where `padding` is not 0, the row is that much shorter than its parts together, and
// the last of them end in elements that are not of the row: zeros in what a rank gets, never read in what it gives.
//
// Members call the same operations in the same order. An operation returns when no other rank needs this rank's input
// any more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/base/abort.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

class Communicator {
 public:
  Communicator(int ranks, Abort& abort);
  [[nodiscard]] int ranks() const { return inputs_.count(); }

  // out (n) = sum or maximum of every rank's in (n). `out` may be `in`.
  template <class T>
  void all_reduce(int rank, const T* in, T* out, std::int64_t n, kernels::Reduction reduction);

  // in (outer, ranks x inner - padding) -> out (outer, inner): this rank's part of the reduced whole.
  template <class T>
  void reduce_scatter(int rank, const T* in, T* out, std::int64_t outer, std::int64_t inner,
                      kernels::Reduction reduction, std::int64_t padding = 0);

  // in (outer, inner) -> out (outer, ranks x inner - padding).
  template <class T>
  void all_gather(int rank, const T* in, T* out, std::int64_t outer, std::int64_t inner, std::int64_t padding = 0);

  // Each rank's tile of shape `in_shape`, whole along `split_dim` and one part of `join_dim`, becomes whole along
  // `join_dim` and one part of `split_dim`. REQUIRES: ranks() divides in_shape[split_dim].
  template <class T>
  void all_to_all(int rank, const T* in, T* out, std::span<const std::int64_t> in_shape, int split_dim, int join_dim);

  // data (n) of rank `root`, to all.
  template <class T>
  void broadcast(int rank, T* data, std::int64_t n, int root);

  // in (n) of rank `from` -> out (n).
  template <class T>
  void fetch(int rank, const T* in, T* out, std::int64_t n, int from);

 private:
  void publish(int rank, const void* in, void* out);
  template <class T>
  [[nodiscard]] std::vector<const T*> inputs_at(std::int64_t offset) const;

  IndexedVector<int, const void*> inputs_;  // [rank]
  IndexedVector<int, void*> outputs_;       // [rank]
  Barrier barrier_;
};

}  // namespace meshwright
