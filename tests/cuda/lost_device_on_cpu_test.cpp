// SPDX-License-Identifier: Apache-2.0
// A GPU that does not answer any more must not keep the program from saying so. The last test leaves memory for good.
#include <gtest/gtest.h>

#include <thread>

#include "executor/cuda/cuda_device.h"
#include "kernels/cuda_on_cpu/threads.h"

namespace meshwright {
namespace {

namespace cuda = kernels::cuda;

class LostDeviceOnCpu : public testing::Test {
 protected:
  ~LostDeviceOnCpu() override { cuda::on_cpu::is_stuck = false; }
  CudaDevice device_{0, false, [](DType type) { return type; }};
  Abort abort_;
};

TEST_F(LostDeviceOnCpu, EndsTheWaitOfADeviceThatHeedsOthers) {
  device_.heed(abort_);
  cuda::on_cpu::is_stuck = true;
  std::thread other([&] { abort_.raise(); });
  EXPECT_THROW(device_.finish(), Aborted);
  other.join();
}

TEST_F(LostDeviceOnCpu, WaitsForWorkThatIsDoneInTheEnd) {
  device_.heed(abort_);
  cuda::on_cpu::is_stuck = true;
  std::thread other([&] { cuda::on_cpu::is_stuck = false; });
  const int mark = device_.mark();
  device_.finish();
  other.join();
  EXPECT_LE(device_.time_of(mark), Clock::now());
}

TEST_F(LostDeviceOnCpu, GivesBackWhatADeviceThatStillAnswersHad) {
  const std::size_t free = cuda::free_memory().free;
  void* data = device_.allocate(4096);
  device_.abandon();
  device_.release(data);
  EXPECT_EQ(cuda::free_memory().free, free);
}

TEST_F(LostDeviceOnCpu, GivesNothingBackWhereThatWouldWaitForEver) {
  void* data = device_.allocate(4096);
  const std::size_t free = cuda::free_memory().free;
  cuda::on_cpu::is_stuck = true;
  device_.abandon();
  device_.release(data);
  EXPECT_EQ(cuda::free_memory().free, free);
}

}  // namespace
}  // namespace meshwright
