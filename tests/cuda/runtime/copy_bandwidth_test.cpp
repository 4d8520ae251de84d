// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/measure/copy_bandwidth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::copy_bandwidth_test {
namespace {

TEST(CudaCopyBandwidth, CopiesEveryByteAndNoOther) {
  std::vector<double> values;
  for (int i = 0; i < 20000; ++i) values.push_back(i % 251);
  const DeviceArray<std::int32_t> from(values);
  for (const std::size_t size : {0, 1, 15, 16, 17, 4096, 16384, 16399, 65536, 79999, 80000}) {
    DeviceArray<std::int32_t> to(std::vector<double>(20000, -1));
    copy_by_kernel(kNoStream, from.data(), to.data(), size);
    const std::vector<std::int32_t> found = to.raw(), copied = from.raw();
    const auto* bytes = reinterpret_cast<const unsigned char*>(found.data());
    const auto* expected = reinterpret_cast<const unsigned char*>(copied.data());
    EXPECT_TRUE(std::equal(bytes, bytes + size, expected)) << size;
    EXPECT_TRUE(std::all_of(bytes + size, bytes + 80000, [](unsigned char byte) { return byte == 0xff; })) << size;
  }
}

TEST(CudaCopyBandwidth, IsMeasured) { EXPECT_GT(copy_bandwidth(1 << 16), 0); }

}  // namespace
}  // namespace meshwright::kernels::cuda::copy_bandwidth_test
