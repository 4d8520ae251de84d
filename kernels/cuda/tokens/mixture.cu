// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tokens/mixture.h"

#include <limits>

#include "kernels/cuda/blocks/packs.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int32_t kNoSlot = -1;

// Rows of `experts` elements. A warp has one, or several side by side where that many of their elements fit.
int lanes_of_row(std::int64_t experts) {
  int lanes = 1;
  while (lanes < kWarp && lanes < experts) lanes *= 2;
  return lanes;
}
Size3 blocks_of_rows(std::int64_t rows, int lanes) { return blocks_for(rows, kThreads / lanes); }

// Calls action(row, lane, exists) for each row that this thread has a part in; as often by all lanes of a warp, which
// may thus exchange values in it: the last rows may not exist, and the last row stands for them.
template <class Action>
MW_DEVICE void each_row(std::int64_t rows, int lanes, Action action) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t mine = thread_of_grid() / lanes, stride = threads_of_grid() / lanes;
  const std::int64_t of_warp = thread_of_grid() / kWarp * (kWarp / lanes);
  for (std::int64_t first = of_warp; first < rows; first += stride) {
    const std::int64_t row = first + mine - of_warp;
    action(row < rows ? row : rows - 1, lane, row < rows);
  }
}
template <class W>
MW_DEVICE W sum_of_lanes(W value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

// --- slots ---

template <class W>
struct Candidate {
  W score;
  std::int32_t expert;  // -1: none
};
// Among equals the first.
template <class W>
MW_DEVICE bool is_better(const Candidate<W>& a, const Candidate<W>& b) {
  if (a.expert < 0 || b.expert < 0) return b.expert < 0 && a.expert >= 0;
  return a.score > b.score || (a.score == b.score && a.expert < b.expert);
}
template <class W>
MW_DEVICE Candidate<W> best_of_lanes(Candidate<W> own, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const Candidate<W> other{__shfl_xor_sync(kAllLanes, own.score, distance),
                             __shfl_xor_sync(kAllLanes, own.expert, distance)};
    if (is_better(other, own)) own = other;
  }
  return own;
}

// choices (batch, k, seq): the token's expert of rank k. Clears the slots.
template <class T>
__global__ void __launch_bounds__(kThreads)
    choose_experts(const T* scores, std::int32_t* slots, std::int32_t* choices, std::int64_t batch, std::int64_t seq,
                   std::int32_t experts, std::int64_t top_k, int lanes) {
  using W = Wide<T>;
  each_row(batch * seq, lanes, [&](std::int64_t token, int lane, bool exists) {
    const T* row = scores + token * experts;
    // The ranks of a token are seq apart: take_slots then walks over all first choices before the second ones.
    const std::int64_t b = token / seq;
    std::int32_t* chosen = choices + b * top_k * seq + token - b * seq;
    for (std::int32_t e = lane; exists && e < experts; e += lanes) slots[token * experts + e] = kNoSlot;
    // Which of this lane's first 64 experts are chosen; of later ones the choices are read again.
    std::uint64_t gone = 0;
    const auto is_free = [&](std::int32_t e, std::int64_t k) {
      const std::int32_t own = (e - lane) / lanes;
      if (own < 64) return (gone >> own & 1) == 0;
      bool free = true;
      for (std::int64_t j = 0; j < k; ++j) free = free && chosen[j * seq] != e;
      return free;
    };
    // One pass over the experts for each rank: top_k is small, and a sort would move all of them.
    for (std::int64_t k = 0; k < top_k; ++k) {
      Candidate<W> best{-std::numeric_limits<W>::infinity(), -1};
      std::int32_t first = std::numeric_limits<std::int32_t>::max();  // that is not chosen yet
      for (std::int32_t e = lane; e < experts; e += lanes) {
        if (!is_free(e, k)) continue;
        first = e < first ? e : first;
        const Candidate<W> candidate{widened(row[e]), e};
        // Comparing a score with itself leaves out what is not a number; that is handled below.
        if (candidate.score == candidate.score && is_better(candidate, best)) best = candidate;
      }
      best = best_of_lanes(best, lanes);
      for (int distance = lanes / 2; distance > 0; distance /= 2) {
        const std::int32_t other = __shfl_xor_sync(kAllLanes, first, distance);
        first = other < first ? other : first;
      }
      // Nothing is greater than what is not a number, and that is greater than nothing: it is chosen where it is first.
      const W of_first = widened(row[first]);
      if (of_first != of_first) best.expert = first;
      if (best.expert % lanes == lane && best.expert / lanes < 64) gone |= std::uint64_t{1} << (best.expert / lanes);
      if (lane == 0 && exists) chosen[k * seq] = best.expert;
      // The next pass may read, in all lanes, what lane 0 has written.
      __syncwarp();
    }
  });
}

// The sum of `value` over the threads before, and over all of the block. `scratch`: of 32.
struct Running {
  std::int64_t before, all;
};
MW_DEVICE Running running_sum(std::int64_t value, std::int64_t* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  std::int64_t sum = value;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int64_t before = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == kWarp - 1) scratch[warp] = sum;
  __syncthreads();
  Running running{sum - value, 0};
  for (int w = 0; w < warps; ++w) {
    if (w < warp) running.before += scratch[w];
    running.all += scratch[w];
  }
  __syncthreads();
  return running;
}

// A block has an expert of a batch row; each thread a part of the row's choices, one after the other. The choices that
// earlier threads have counted say where a thread's first slot is, so that slots are taken in the order of the choices,
// as if one thread took them all.
__global__ void __launch_bounds__(kThreads)
    take_slots(const std::int32_t* choices, std::int32_t* slots, std::int64_t pairs, std::int64_t seq,
               std::int64_t experts, std::int64_t capacity, std::int64_t top_k) {
  MW_SHARED std::int64_t scratch[kWarp];
  const auto count = static_cast<std::uint32_t>(seq * top_k), each = (count + blockDim.x - 1) / blockDim.x;
  const std::uint32_t begin = threadIdx.x * each < count ? threadIdx.x * each : count;
  const std::uint32_t end = count - begin < each ? count : begin + each;
  for (std::int64_t pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
    const std::int64_t b = pair / experts, expert = pair % experts;
    const std::int32_t* row = choices + b * count;
    std::int64_t own = 0;
    for (std::uint32_t i = begin; i < end; ++i) own += row[i] == expert ? 1 : 0;
    std::int64_t slot = running_sum(own, scratch).before;
    // Beyond the capacity a token gets no slot of this expert.
    for (std::uint32_t i = begin; i < end && slot < capacity; ++i)
      if (row[i] == expert)
        slots[(b * seq + i % static_cast<std::uint32_t>(seq)) * experts + expert] = static_cast<std::int32_t>(slot++);
  }
}

// --- weights ---

template <class T>
__global__ void __launch_bounds__(kThreads)
    gate_weights_kernel(const T* scores, const std::int32_t* slots, T* weights, std::int64_t rows, std::int64_t experts,
                        bool normalize, int lanes) {
  using W = Wide<T>;
  each_row(rows, lanes, [&](std::int64_t row, int lane, bool exists) {
    const std::int64_t begin = row * experts;
    W sum = W(0);
    for (std::int64_t e = lane; normalize && e < experts; e += lanes)
      if (slots[begin + e] >= 0) sum += widened(scores[begin + e]);
    sum = normalize ? sum_of_lanes(sum, lanes) : W(1);
    for (std::int64_t e = lane; exists && e < experts; e += lanes)
      weights[begin + e] = slots[begin + e] >= 0 ? T(widened(scores[begin + e]) / sum) : T(W(0));
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gate_weights_backward_kernel(const T* scores, const std::int32_t* slots, const T* dy, T* dscores, std::int64_t rows,
                                 std::int64_t experts, bool normalize, int lanes) {
  using W = Wide<T>;
  each_row(rows, lanes, [&](std::int64_t row, int lane, bool exists) {
    const std::int64_t begin = row * experts;
    W sum = W(0), product = W(0);
    for (std::int64_t e = lane; normalize && e < experts; e += lanes) {
      if (slots[begin + e] < 0) continue;
      sum += widened(scores[begin + e]);
      product += widened(scores[begin + e]) * widened(dy[begin + e]);
    }
    sum = normalize ? sum_of_lanes(sum, lanes) : W(1);
    product = normalize ? sum_of_lanes(product, lanes) : W(0);
    // With w = s / S: ds = (dw - sum(s dw) / S) / S. Without `normalize` S is 1 and the product 0, so that ds = dw.
    for (std::int64_t e = lane; exists && e < experts; e += lanes)
      dscores[begin + e] = slots[begin + e] >= 0 ? T((widened(dy[begin + e]) - product / sum) / sum) : T(W(0));
  });
}

// Rows of the mask go to the blocks in turns. A thread has the same places of each of its rows, so that it divides once
// for all of them. Index: of the elements of a row.
template <class T, int n, class Index>
__global__ void __launch_bounds__(kThreads) one_hot_kernel(const std::int32_t* slots, T* mask, std::int64_t rows,
                                                           Index size, Index experts, std::int64_t first) {
  for (Index begin = static_cast<Index>(threadIdx.x) * n; begin < size; begin += static_cast<Index>(blockDim.x) * n) {
    Index expert[n];
    std::int32_t wanted[n];  // slots of the whole are 32 bits
    Index slot = begin / experts, next = begin % experts;
    MW_UNROLL
    for (int i = 0; i < n; ++i) {
      expert[i] = next;
      wanted[i] = static_cast<std::int32_t>(first + static_cast<std::int64_t>(slot));
      if (++next == experts) {
        next = 0;
        ++slot;
      }
    }
#ifdef __CUDACC__
#pragma unroll 2
#endif
    for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
      const std::int32_t* given = slots + row * experts;
      T hot[n];
      MW_UNROLL
      for (int i = 0; i < n; ++i) hot[i] = T(Wide<T>(given[expert[i]] == wanted[i] ? 1 : 0));
      store_pack<n>(mask + row * static_cast<std::int64_t>(size) + begin, hot);
    }
  }
}

}  // namespace

template <class T>
void top_k_slots(Stream stream, const T* scores, std::int32_t* slots, MixtureShape shape, std::int64_t top_k,
                 std::int32_t* workspace) {
  const int lanes = lanes_of_row(shape.experts);
  launch("choose_experts", choose_experts<T>, blocks_of_rows(shape.batch * shape.seq, lanes), {kThreads}, 0, stream,
         scores, slots, workspace, shape.batch, shape.seq, static_cast<std::int32_t>(shape.experts), top_k, lanes);
  const std::int64_t pairs = shape.batch * shape.experts;
  launch("take_slots", take_slots, blocks_for(pairs, 1), {kThreads}, 0, stream, workspace, slots, pairs, shape.seq,
         shape.experts, shape.capacity, top_k);
}

template <class T>
void gate_weights(Stream stream, const T* scores, const std::int32_t* slots, T* weights, const GateShape& shape) {
  const int lanes = lanes_of_row(shape.experts);
  launch("gate_weights", gate_weights_kernel<T>, blocks_of_rows(shape.rows, lanes), {kThreads}, 0, stream, scores,
         slots, weights, shape.rows, shape.experts, shape.normalize, lanes);
}

template <class T>
void gate_weights_backward(Stream stream, const T* scores, const std::int32_t* slots, const T* dy, T* dscores,
                           const GateShape& shape) {
  const int lanes = lanes_of_row(shape.experts);
  launch("gate_weights_backward", gate_weights_backward_kernel<T>, blocks_of_rows(shape.rows, lanes), {kThreads}, 0,
         stream, scores, slots, dy, dscores, shape.rows, shape.experts, shape.normalize, lanes);
}

template <class T>
void one_hot_slots(Stream stream, const std::int32_t* slots, T* mask, const SlotPart& part) {
  const std::int64_t size = part.capacity * part.experts;
  with_packs<T>(size, mask, mask, [&](auto n) {
    constexpr int kN = decltype(n)::value;
    const auto start = [&]<class Index>(Index) {
      launch("one_hot_slots", one_hot_kernel<T, kN, Index>, blocks_for(part.rows, 1), {kThreads}, 0, stream, slots,
             mask, part.rows, size, part.experts, part.first);
    };
    if (size < std::int64_t{1} << 30)
      start(std::int32_t{});
    else
      start(std::int64_t{});
  });
}

#define MW_INSTANTIATE(T)                                                                                        \
  template void top_k_slots<T>(Stream, const T*, std::int32_t*, MixtureShape, std::int64_t, std::int32_t*);      \
  template void gate_weights<T>(Stream, const T*, const std::int32_t*, T*, const GateShape&);                    \
  template void gate_weights_backward<T>(Stream, const T*, const std::int32_t*, const T*, T*, const GateShape&); \
  template void one_hot_slots<T>(Stream, const std::int32_t*, T*, const SlotPart&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
