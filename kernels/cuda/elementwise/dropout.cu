// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise/dropout.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise/counters.h"
#include "kernels/cuda/blocks/groups.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kMaxDims = 16;

// A part whose last dimension is a run of elements that lie in one piece in the whole tensor as well.
struct Runs {
  int rank = 0;  // of the dimensions before the run
  std::int64_t local[kMaxDims] = {}, begin[kMaxDims] = {}, stride[kMaxDims] = {};
  std::int64_t run = 1, first = 0;  // length; place of its first element along the last dimension
};

struct Mask {
  std::uint64_t key;
  std::uint32_t high0, high1, threshold;
};

// Four words of the stream that kernels/cpu/elementwise/random.h defines.
MW_DEVICE void philox(const Mask& mask, std::uint64_t block, std::uint32_t* words) {
  words[0] = static_cast<std::uint32_t>(block), words[1] = static_cast<std::uint32_t>(block >> 32);
  words[2] = mask.high0, words[3] = mask.high1;
  PhiloxKey key(mask.key);
  MW_UNROLL
  for (int round = 0; round < kPhiloxRounds; ++round, key.move_on())
    philox_round(words[0], words[1], words[2], words[3], key);
}

// Words first .. first + n - 1. Shifts by constants, so that `words` stays in registers.
template <int n>
MW_DEVICE void words_from(const Mask& mask, std::int64_t first, std::uint32_t (&words)[n + 4]) {
  const auto block = static_cast<std::uint64_t>(first) / 4;
  const int skip = static_cast<int>(first & 3);
  MW_UNROLL
  for (int k = 0; k < n / 4; ++k) philox(mask, block + static_cast<std::uint64_t>(k), words + 4 * k);
  if (skip == 0) return;
  philox(mask, block + n / 4, words + n);
  MW_UNROLL
  for (int i = 0; i < n + 3; ++i) words[i] = skip % 2 == 1 ? words[i + 1] : words[i];
  MW_UNROLL
  for (int i = 0; i < n + 2; ++i) words[i] = skip >= 2 ? words[i + 2] : words[i];
}

// `narrow`: both are below 2^32, where a quotient takes a fifth of the time.
MW_DEVICE std::int64_t divided(std::int64_t n, std::int64_t by, bool narrow) {
  return narrow ? static_cast<std::int64_t>(static_cast<std::uint32_t>(n) / static_cast<std::uint32_t>(by)) : n / by;
}

template <class T>
constexpr int kGroup = group_of<T>() < 4 ? 4 : group_of<T>();

template <class T>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 4 : 5)
    drop(const T* x, T* out, Runs runs, std::int64_t groups_of_run, std::int64_t groups, Mask mask, Wide<T> factor,
         bool well, const std::int64_t* step) {
  if (step != nullptr) mask.high0 = static_cast<std::uint32_t>(*step);
  const std::int64_t stride = threads_of_grid();
  const bool narrow = groups < std::int64_t{1} << 32;
  for (std::int64_t g = thread_of_grid(); g < groups; g += stride) {
    const std::int64_t run = runs.rank == 0 ? 0 : divided(g, groups_of_run, narrow);
    const std::int64_t along = (g - run * groups_of_run) * kGroup<T>, local = run * runs.run + along;
    std::int64_t place = runs.first + along, rest = run;
    for (int d = runs.rank - 1; d >= 0; --d) {
      const std::int64_t before = divided(rest, runs.local[d], narrow);
      place += runs.stride[d] * (runs.begin[d] + rest - before * runs.local[d]);
      rest = before;
    }
    const std::int64_t left = runs.run - along;
    const int count = left < kGroup<T> ? static_cast<int>(left) : kGroup<T>;
    T values[kGroup<T>];
    load_group(x + local, values, count, well);
    std::uint32_t words[kGroup<T> + 4];
    words_from<kGroup<T>>(mask, place, words);
    MW_UNROLL
    for (int i = 0; i < kGroup<T>; ++i)
      values[i] = T(words[i] >= mask.threshold ? factor * static_cast<Wide<T>>(values[i]) : Wide<T>(0));
    store_group(out + local, values, count, well);
  }
}

// Dimensions that are whole, or of which there is one index only before them, are one with the dimension before them.
Runs runs_of(const Part& part) {
  Runs runs;
  std::int64_t whole = 1, stride = 1;  // of the last dimension and of what lies behind it
  bool in_run = true;
  const auto end_dimension = [&](std::int64_t local, std::int64_t begin) {
    if (in_run) {
      runs.run = local, runs.first = begin;
    } else {
      if (runs.rank == kMaxDims) throw Failure("dropout: a part of more than 16 dimensions that are split");
      runs.local[runs.rank] = local, runs.begin[runs.rank] = begin, runs.stride[runs.rank++] = stride;
    }
    in_run = false;
    stride *= whole;
  };
  std::int64_t local = 1, begin = 0;
  for (int d = part.rank - 1; d >= 0; --d) {
    if (local != whole && part.local[d] != 1) {
      end_dimension(local, begin);
      local = whole = 1, begin = 0;
    }
    begin += part.begin[d] * whole;
    local *= part.local[d], whole *= part.whole[d];
  }
  end_dimension(local, begin);
  std::reverse(runs.local, runs.local + runs.rank);
  std::reverse(runs.begin, runs.begin + runs.rank);
  std::reverse(runs.stride, runs.stride + runs.rank);
  return runs;
}

}  // namespace

template <class T>
void dropout(Stream stream, const T* x, T* out, Part part, DropoutMask mask, const std::int64_t* step_on_device) {
  std::int64_t elements = 1;
  for (int d = 0; d < part.rank; ++d) elements *= part.local[d];
  if (mask.probability == 0.0) {
    if (x != out) copy(out, x, static_cast<std::size_t>(elements) * sizeof(T), stream);
    return;
  }
  const Mask device_mask{mask.seed, static_cast<std::uint32_t>(mask.step), static_cast<std::uint32_t>(mask.microbatch),
                         static_cast<std::uint32_t>(std::min(std::floor(mask.probability * 0x1p32), 0x1p32 - 1))};
  const auto factor = static_cast<Wide<T>>(1.0 / (1.0 - mask.probability));
  const Runs runs = runs_of(part);
  const std::int64_t groups_of_run = ceil_div(runs.run, kGroup<T>);
  const std::int64_t groups = elements / runs.run * groups_of_run;
  const bool well =
      lies_well<kGroup<T>>(x) && lies_well<kGroup<T>>(out) && (runs.rank == 0 || runs.run % kGroup<T> == 0);
  launch("dropout", drop<T>, blocks_for(groups, 256), {256, 1, 1}, 0, stream, x, out, runs, groups_of_run, groups,
         device_mask, factor, well, step_on_device);
}

template void dropout<float>(Stream, const float*, float*, Part, DropoutMask, const std::int64_t*);
template void dropout<double>(Stream, const double*, double*, Part, DropoutMask, const std::int64_t*);
template void dropout<Bf16>(Stream, const Bf16*, Bf16*, Part, DropoutMask, const std::int64_t*);
template void dropout<F16>(Stream, const F16*, F16*, Part, DropoutMask, const std::int64_t*);

}  // namespace meshwright::kernels::cuda
