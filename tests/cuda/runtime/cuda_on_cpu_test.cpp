// SPDX-License-Identifier: Apache-2.0
// What stands in for the GPU in tests must behave like one where kernels can tell.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/blocks/launch.h"
#include "kernels/cuda/blocks/mma.h"
#include "kernels/cuda/runtime/graph.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::cuda_on_cpu_test {
namespace {

__global__ void number_threads(std::int32_t* out) {
  const auto block = (std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const auto thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const std::int64_t at = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[at] = static_cast<std::int32_t>(at);
}

TEST(CudaOnCpu, RunsEveryThreadOfEveryBlockOnce) {
  auto out = DeviceArray<std::int32_t>::of_size(2 * 3 * 4 * 64);
  launch("number_threads", number_threads, {2, 3, 4}, {8, 4, 2}, 0, kNoStream, out.data());
  std::vector<std::int32_t> expected(2 * 3 * 4 * 64);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(out.raw(), expected);
}

// Each thread hands its number to the one `step` behind it, `rounds` times, through shared memory.
__global__ void hand_on(std::int32_t* out, int step, int rounds) {
  MW_SHARED std::int32_t box[96];
  const int threads = static_cast<int>(blockDim.x), own = static_cast<int>(threadIdx.x);
  std::int32_t value = own;
  for (int round = 0; round < rounds; ++round) {
    box[(own + step) % threads] = value;
    __syncthreads();
    value = box[own];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

TEST(CudaOnCpu, KeepsThreadsInStepAtBarriers) {
  auto out = DeviceArray<std::int32_t>::of_size(2 * 96);
  launch("hand_on", hand_on, {2, 1, 1}, {96, 1, 1}, 0, kNoStream, out.data(), 5, 7);
  const std::vector<std::int32_t> found = out.raw();
  for (int i = 0; i < 2 * 96; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], (i % 96 + 96 - 35) % 96);
}

// The number of the thread `step` behind, whose write nothing waits for.
__global__ void read_without_barrier(std::int32_t* out, int step) {
  MW_SHARED std::int32_t box[96];
  const int own = static_cast<int>(threadIdx.x);
  box[own] = -1;
  __syncthreads();
  box[own] = own;
  out[own] = box[(own + step + 96) % 96];
}
// Each warp hands its lanes' numbers on by shuffles, and may be through with all of them before another one begins.
__global__ void read_of_other_warp(std::int32_t* out, int step) {
  MW_SHARED std::int32_t box[3];
  const int own = static_cast<int>(threadIdx.x), warp = own / kWarp;
  if (own < 3) box[own] = -1;
  __syncthreads();
  const std::int32_t last = __shfl_sync(kAllLanes, own, kWarp - 1);
  if (own % kWarp == 0) box[warp] = last;
  __syncwarp();
  out[own] = box[(warp + step + 3) % 3];
}

TEST(CudaOnCpu, FindsOutWhatLacksABarrier) {
  for (const auto kernel : {read_without_barrier, read_of_other_warp})
    for (const int step : {-1, 1}) {
      int stale = 0;
      for (int launches = 0; launches < 2; ++launches) {
        auto out = DeviceArray<std::int32_t>::of_size(96);
        launch("racing", kernel, {1, 1, 1}, {96, 1, 1}, 0, kNoStream, out.data(), step);
        for (const std::int32_t value : out.raw()) stale += value == -1 ? 1 : 0;
      }
      EXPECT_GT(stale, 0) << step;
    }
}

__global__ void add_up(const float* x, float* sums, float* largest) {
  MW_SHARED float scratch[kWarp];
  const float value = x[blockIdx.x * blockDim.x + threadIdx.x];
  sums[blockIdx.x * blockDim.x + threadIdx.x] = block_sum(value, scratch);
  largest[blockIdx.x * blockDim.x + threadIdx.x] = block_max(value, scratch);
}

TEST(CudaOnCpu, AddsUpABlockForAllItsThreads) {
  std::vector<double> x(3 * 160);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 160) - 200.0;
  DeviceArray<float> in(x), sums = DeviceArray<float>::of_size(480), largest = DeviceArray<float>::of_size(480);
  launch("add_up", add_up, {3, 1, 1}, {160, 1, 1}, 0, kNoStream, in.data(), sums.data(), largest.data());
  EXPECT_EQ(sums.values(), std::vector<double>(480, 159.0 * 160 / 2 - 200.0 * 160));
  EXPECT_EQ(largest.values(), std::vector<double>(480, -41.0));
}

__global__ void shift(std::int32_t* out) {
  const int own = static_cast<int>(threadIdx.x);
  out[own] = __shfl_up_sync(kAllLanes, own, 1) + 100 * __shfl_down_sync(kAllLanes, own, 4) +
             10000 * __shfl_sync(kAllLanes, own, 7);
}

TEST(CudaOnCpu, ShufflesWithinAWarp) {
  auto out = DeviceArray<std::int32_t>::of_size(64);
  launch("shift", shift, {1, 1, 1}, {64, 1, 1}, 0, kNoStream, out.data());
  const std::vector<std::int32_t> found = out.raw();
  for (int t = 0; t < 64; ++t) {
    const int up = t % 32 == 0 ? t : t - 1, down = t % 32 < 28 ? t + 4 : t, seventh = t < 32 ? 7 : 39;
    EXPECT_EQ(found[static_cast<std::size_t>(t)], up + 100 * down + 10000 * seventh);
  }
}

__global__ void sum_dynamic(std::int32_t* out) {
  MW_DYNAMIC_SHARED(std::int32_t, values);
  values[threadIdx.x] = static_cast<std::int32_t>(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned t = 0; t < blockDim.x; ++t) atomicAdd(out, values[t]);
}

TEST(CudaOnCpu, SharesTheLaunchsMemoryWithinABlock) {
  DeviceArray<std::int32_t> out(std::vector<double>{0.0});
  launch("sum_dynamic", sum_dynamic, {5, 1, 1}, {64, 1, 1}, 64 * sizeof(std::int32_t), kNoStream, out.data());
  EXPECT_EQ(out.raw()[0], 5 * 63 * 64 / 2);
}

TEST(CudaOnCpu, RefusesABlockThatNoGpuHas) {
  auto out = DeviceArray<std::int32_t>::of_size(1);
  EXPECT_THROW(launch("shift", shift, {1, 1, 1}, {2048, 1, 1}, 0, kNoStream, out.data()), Failure);
  EXPECT_THROW(launch("shift", shift, {1, 1, 1}, {1, 1, 96}, 0, kNoStream, out.data()), Failure);
  EXPECT_THROW(launch("shift", shift, {0, 1, 1}, {32, 1, 1}, 0, kNoStream, out.data()), Failure);
  EXPECT_THROW(launch("shift", shift, {std::int64_t{1} << 31, 1, 1}, {32, 1, 1}, 0, kNoStream, out.data()), Failure);
}

__global__ void leave_early(std::int32_t* out) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  out[0] = 1;
}
__global__ void part_ways(std::int32_t* out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    out[0] = __shfl_sync(kAllLanes, 1, 0);
}

TEST(CudaOnCpu, RefusesABarrierThatNotAllComeTo) {
  auto out = DeviceArray<std::int32_t>::of_size(1);
  for (const auto kernel : {leave_early, part_ways}) {
    try {
      launch("apart", kernel, {1, 1, 1}, {64, 1, 1}, 0, kNoStream, out.data());
      ADD_FAILURE();
    } catch (const Failure& failure) {
      EXPECT_STREQ(failure.what(), "kernel 'apart': not all threads of a block, or of a warp, come to a barrier");
    }
  }
  // What waited is forgotten.
  launch("shift", shift, {1, 1, 1}, {32, 1, 1}, 0, kNoStream, DeviceArray<std::int32_t>::of_size(32).data());
}

// Half of the lanes meet in one place of the source, half in another.
__global__ void part_lanes(std::int32_t* out) {
  if (threadIdx.x < 16)
    out[0] = __shfl_sync(kAllLanes, 1, 0);
  else
    out[1] = __shfl_sync(kAllLanes, 2, 0);
}

TEST(CudaOnCpu, RefusesLanesThatWaitInDifferentPlaces) {
  auto out = DeviceArray<std::int32_t>::of_size(2);
  EXPECT_THROW(launch("part_lanes", part_lanes, {1, 1, 1}, {32, 1, 1}, 0, kNoStream, out.data()), Failure);
}

__global__ void load_four(const float* from, float* to) {
  struct alignas(16) Four {
    float of[4];
  };
  *at_once<Four>(to + 4 * threadIdx.x) = *at_once<Four>(from + 4 * threadIdx.x);
}

TEST(CudaOnCpu, RefusesAnAddressThatIsNotAligned) {
  const DeviceArray<float> from(std::vector<double>(132, 7.0));
  auto to = DeviceArray<float>::of_size(132);
  launch("load_four", load_four, {1, 1, 1}, {32, 1, 1}, 0, kNoStream, from.data() + 4, to.data());
  EXPECT_EQ(to.raw()[127], 7.0f);
  EXPECT_THROW(launch("load_four", load_four, {1, 1, 1}, {32, 1, 1}, 0, kNoStream, from.data() + 2, to.data()),
               Failure);
  EXPECT_THROW(launch("load_four", load_four, {1, 1, 1}, {32, 1, 1}, 0, kNoStream, from.data(), to.data() + 1),
               Failure);
}

// `waits`: before it reads what it copies.
__global__ void copy_and_read(const float* from, float* to, bool waits) {
  MW_DYNAMIC_SHARED(float, held);
  begin_copy<4>(held + threadIdx.x, from + threadIdx.x, true);
  if (waits) finish_copies();
  to[threadIdx.x] = held[threadIdx.x];
}

TEST(CudaOnCpu, HasNothingOfACopyBeforeItIsFinished) {
  const DeviceArray<float> from(std::vector<double>(32, 7.0));
  auto to = DeviceArray<float>::of_size(32);
  launch("copy", copy_and_read, {1, 1, 1}, {32, 1, 1}, 32 * sizeof(float), kNoStream, from.data(), to.data(), false);
  for (const float found : to.raw()) EXPECT_TRUE(std::isnan(found));
  launch("copy", copy_and_read, {1, 1, 1}, {32, 1, 1}, 32 * sizeof(float), kNoStream, from.data(), to.data(), true);
  EXPECT_EQ(to.values(), std::vector<double>(32, 7.0));
}

// --- the 16-bit types ---

template <class T>
void expect_round_trip(double value, double expected) {
  EXPECT_EQ(static_cast<double>(static_cast<float>(T(static_cast<float>(value)))), expected) << value;
}

TEST(SixteenBits, RoundToTheNearestAndOfTwoToTheEven) {
  expect_round_trip<Bf16>(1.0 + 0x1p-8, 1.0);           // between 1 and 1 + 2^-7
  expect_round_trip<Bf16>(1.0 + 0x3p-8, 1.0 + 0x1p-6);  // between 1 + 2^-7 and 1 + 2^-6
  expect_round_trip<Bf16>(1.0 + 0x1.01p-8, 1.0 + 0x1p-7);
  expect_round_trip<Bf16>(-3.0, -3.0);
  expect_round_trip<F16>(1.0 + 0x1p-11, 1.0);
  expect_round_trip<F16>(1.0 + 0x3p-11, 1.0 + 0x1p-9);
  expect_round_trip<F16>(65504.0, 65504.0);
  expect_round_trip<F16>(65519.0, 65504.0);
  expect_round_trip<F16>(65520.0, std::numeric_limits<double>::infinity());
  expect_round_trip<F16>(-70000.0, -std::numeric_limits<double>::infinity());
  expect_round_trip<F16>(0x1p-24, 0x1p-24);
  expect_round_trip<F16>(0x1p-25, 0.0);
  expect_round_trip<F16>(0x1.8p-24, 0x1p-23);
  expect_round_trip<F16>(-0x1.ff8p-15, -0x1.ff8p-15);  // the next to 2^-14
  EXPECT_TRUE(std::isnan(static_cast<float>(F16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::nanf("")))));
  expect_round_trip<Bf16>(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity());
}

TEST(SixteenBits, EveryHalfIsItself) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    F16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float wide = half;
    if (std::isnan(wide)) continue;
    EXPECT_EQ(F16(wide).bits, half.bits);
  }
}

// As CUDA may, or may not: the copy would be of what lies there at the time of a launch.
TEST(CudaOnCpu, CapturesNoCopyOfMemoryThatIsNotPinned) {
  const Stream stream = make_stream();
  auto x = DeviceArray<float>::of_size(2);
  float host[2] = {};
  auto* pinned = static_cast<float*>(allocate_pinned(2 * sizeof(float)));
  begin_capture(stream);
  copy_to_host(pinned + 1, x.data(), sizeof(float), stream);
  EXPECT_THROW(copy_to_host(pinned + 1, x.data(), 2 * sizeof(float), stream), Failure);  // beyond its end
  abandon_capture(stream);
  begin_capture(stream);
  EXPECT_THROW(copy_to_device(x.data(), host, sizeof host, stream), Failure);
  EXPECT_THROW(clear(x.data(), sizeof host, stream), Failure);  // the capture is lost
  abandon_capture(stream);
  release_pinned(pinned);
  destroy(stream);
}

// Of two streams that do not wait for each other, the one that was asked first comes last here.
TEST(CudaOnCpu, OrdersAGraphByWhatStreamsWaitForAlone) {
  const Stream first = make_stream(), second = make_stream();
  const Event fork = make_event(false), join = make_event(false);
  DeviceArray<float> x(std::vector<double>{1.0}), y(std::vector<double>{2.0});
  begin_capture(first);
  record(fork, first);
  wait(second, fork);
  copy(y.data(), x.data(), sizeof(float), first);
  clear(x.data(), sizeof(float), second);  // nobody has said that it is to come after the copy
  record(join, second);
  wait(first, join);
  const Graph graph = end_capture(first);
  launch_graph(graph, first);
  EXPECT_EQ(y.values()[0], 0.0);
  destroy(graph);
  for (const Event event : {fork, join}) destroy(event);
  for (const Stream stream : {first, second}) destroy(stream);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::cuda_on_cpu_test
