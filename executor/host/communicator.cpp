// SPDX-License-Identifier: Apache-2.0
#include "executor/host/communicator.h"

#include <algorithm>

#include "executor/base/exchange_shape.h"
#include "executor/base/padded_row.h"
#include "executor/base/segments.h"

namespace meshwright {

namespace {

// Up to here every rank reduces everything itself: one barrier less than sharing the work.
constexpr std::int64_t kSmall = 1024;
// Elements that stay in the first cache between their reduction and their copies.
constexpr std::int64_t kBlock = 4096;

}  // namespace

Communicator::Communicator(int ranks, Abort& abort)
    : inputs_(static_cast<std::size_t>(ranks), nullptr),
      outputs_(static_cast<std::size_t>(ranks), nullptr),
      barrier_(ranks, abort) {}

void Communicator::publish(int rank, const void* in, void* out) {
  inputs_[rank] = in;
  outputs_[rank] = out;
  barrier_.arrive_and_wait();
}

template <class T>
std::vector<const T*> Communicator::inputs_at(std::int64_t offset) const {
  std::vector<const T*> parts;
  for (const void* in : inputs_) parts.push_back(static_cast<const T*>(in) + offset);
  return parts;
}

template <class T>
void Communicator::all_reduce(int rank, const T* in, T* out, std::int64_t n, kernels::Reduction reduction) {
  publish(rank, in, out);
  if (n <= kSmall) {
    T result[kSmall];
    kernels::reduce<T>(inputs_at<T>(0), result, n, reduction);
    barrier_.arrive_and_wait();  // `out` may be an input that others still read
    std::copy_n(result, n, out);
    return;
  }
  // Each rank reduces its segment and gives it to all: nobody else reads that part of the inputs, which may be outputs.
  const std::int64_t end = segment_begin(n, rank + 1, ranks());
  for (std::int64_t at = segment_begin(n, rank, ranks()); at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    kernels::reduce<T>(inputs_at<T>(at), out + at, count, reduction);
    for (int step = 1; step < ranks(); ++step) {
      const int other = (rank + step) % ranks();  // not all to the same rank at once
      std::copy_n(out + at, count, static_cast<T*>(outputs_[other]) + at);
    }
  }
  barrier_.arrive_and_wait();
}

template <class T>
void Communicator::reduce_scatter(int rank, const T* in, T* out, std::int64_t outer, std::int64_t inner,
                                  kernels::Reduction reduction, std::int64_t padding) {
  publish(rank, in, out);
  const PaddedRow row(ranks(), inner, padding);
  const std::int64_t count = row.count(rank);
  std::vector<const T*> parts = inputs_at<T>(row.begin(rank));
  for (std::int64_t o = 0; o < outer; ++o) {
    kernels::reduce<T>(parts, out + o * inner, count, reduction);
    std::fill_n(out + o * inner + count, inner - count, T(0));
    for (const T*& part : parts) part += row.length;
  }
  barrier_.arrive_and_wait();
}

template <class T>
void Communicator::all_gather(int rank, const T* in, T* out, std::int64_t outer, std::int64_t inner,
                              std::int64_t padding) {
  publish(rank, in, out);
  const PaddedRow row(ranks(), inner, padding);
  for (int step = 0; step < ranks(); ++step) {
    const int other = (rank + step) % ranks();
    const T* part = static_cast<const T*>(inputs_[other]);
    for (std::int64_t o = 0; o < outer; ++o)
      std::copy_n(part + o * inner, row.count(other), out + o * row.length + row.begin(other));
  }
  barrier_.arrive_and_wait();
}

template <class T>
void Communicator::all_to_all(int rank, const T* in, T* out, std::span<const std::int64_t> in_shape, int split_dim,
                              int join_dim) {
  const ExchangeShape shape(in_shape, split_dim, join_dim, ranks());
  publish(rank, in, out);
  for (int step = 0; step < ranks(); ++step) {
    const int other = (rank + step) % ranks();
    const T* part = static_cast<const T*>(inputs_[other]);
    kernels::copy_tile<T>(shape.tile, part + rank * shape.in_step, shape.in_strides, out + other * shape.out_step,
                          shape.out_strides);
  }
  barrier_.arrive_and_wait();
}

template <class T>
void Communicator::broadcast(int rank, T* data, std::int64_t n, int root) {
  publish(rank, data, data);
  if (rank != root) std::copy_n(static_cast<const T*>(inputs_[root]), n, data);
  barrier_.arrive_and_wait();
}

template <class T>
void Communicator::fetch(int rank, const T* in, T* out, std::int64_t n, int from) {
  publish(rank, in, out);
  std::copy_n(static_cast<const T*>(inputs_[from]), n, out);
  barrier_.arrive_and_wait();
}

#define MW_INSTANTIATE(T)                                                                                          \
  template void Communicator::all_reduce<T>(int, const T*, T*, std::int64_t, kernels::Reduction);                  \
  template void Communicator::reduce_scatter<T>(int, const T*, T*, std::int64_t, std::int64_t, kernels::Reduction, \
                                                std::int64_t);                                                     \
  template void Communicator::all_gather<T>(int, const T*, T*, std::int64_t, std::int64_t, std::int64_t);          \
  template void Communicator::all_to_all<T>(int, const T*, T*, std::span<const std::int64_t>, int, int);           \
  template void Communicator::broadcast<T>(int, T*, std::int64_t, int);                                            \
  template void Communicator::fetch<T>(int, const T*, T*, std::int64_t, int);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(std::int32_t)
#undef MW_INSTANTIATE

}  // namespace meshwright
