// SPDX-License-Identifier: Apache-2.0
// A device among others, or one that does not answer any more: that must not keep the program from saying so. The last
// test leaves memory for good.
#include <gtest/gtest.h>

#include <thread>

#include "core/base/errors.h"
#include "executor/cuda/cuda_device.h"
#include "kernels/cuda_on_cpu/threads.h"

namespace meshwright::device_on_cpu_test {
namespace {

namespace cuda = kernels::cuda;

class DeviceOnCpu : public testing::Test {
 protected:
  ~DeviceOnCpu() override { cuda::on_cpu::is_stuck = false; }
  CudaDevice device_{0, false, [](DType type) { return type; }};
  Abort abort_;
};

TEST_F(DeviceOnCpu, EndsTheWaitOfADeviceThatHeedsOthers) {
  device_.watch_abort(abort_);
  cuda::on_cpu::is_stuck = true;
  std::thread other([&] { abort_.raise(); });
  EXPECT_THROW(device_.finish(), Aborted);
  other.join();
}

TEST_F(DeviceOnCpu, WaitsForWorkThatIsDoneInTheEnd) {
  device_.watch_abort(abort_);
  cuda::on_cpu::is_stuck = true;
  std::thread other([&] { cuda::on_cpu::is_stuck = false; });
  const int mark = device_.mark();
  device_.finish();
  other.join();
  EXPECT_LE(device_.time_of(mark), Clock::now());
}

TEST_F(DeviceOnCpu, EndsTheWaitForWorkThatACheckSaysHasFailed) {
  device_.watch_abort(abort_);
  int times = 0;
  device_.check_while_waiting([&] {
    if (++times == 3) throw SystemError("a cable was cut");
  });
  cuda::on_cpu::is_stuck = true;
  EXPECT_THROW(device_.finish(), SystemError);
  EXPECT_EQ(times, 3);
  // Work that has ended is asked about, too: it may have ended because it failed.
  cuda::on_cpu::is_stuck = false;
  times = 2;
  EXPECT_THROW(device_.finish(), SystemError);
}

TEST_F(DeviceOnCpu, AsksItsUserForMemoryBeforeItSaysThatThereIsNone) {
  const std::size_t too_much = cuda::free_memory().total + 1;
  EXPECT_THROW((void)device_.arena().take(too_much), cuda::OutOfMemory);
  int asked = 0;
  device_.on_out_of_memory([&] { ++asked; });
  EXPECT_THROW((void)device_.arena().take(too_much), cuda::OutOfMemory);
  EXPECT_EQ(asked, 1);
  EXPECT_NE(device_.arena().take(4096), nullptr);
  EXPECT_EQ(asked, 1);
}

TEST_F(DeviceOnCpu, GivesBackWhatADeviceThatStillAnswersHad) {
  const std::size_t free = cuda::free_memory().free;
  void* data = device_.allocate(4096);
  device_.cancel();
  device_.release(data);
  EXPECT_EQ(cuda::free_memory().free, free);
}

TEST_F(DeviceOnCpu, GivesNothingBackWhereThatWouldWaitForEver) {
  static void* data = nullptr;  // still known at the end, so that what a stuck device keeps is no leak
  data = device_.allocate(4096);
  const std::size_t free = cuda::free_memory().free;
  cuda::on_cpu::is_stuck = true;
  device_.cancel();
  device_.release(data);
  EXPECT_EQ(cuda::free_memory().free, free);
}

}  // namespace
}  // namespace meshwright::device_on_cpu_test
