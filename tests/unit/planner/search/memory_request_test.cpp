// SPDX-License-Identifier: Apache-2.0
// What the stage table is asked for after plans that take more or less than it says.
#include "core/planner/search/memory_request.h"

#include <gtest/gtest.h>

namespace meshwright::memory_request_test {
namespace {

constexpr Bytes kUsable(1000);

TEST(MemoryRequest, StartsWithAllThatIsUsable) { EXPECT_EQ(MemoryRequest(kUsable).asked(), kUsable); }

TEST(MemoryRequest, IsLessByWhatThePlanTakesBeyondItsEstimate) {
  MemoryRequest memory(kUsable);
  EXPECT_TRUE(memory.again({Bytes(990), Bytes(1010), false, true}));
  EXPECT_EQ(memory.asked(), Bytes(980));  // so that a plan of 20 more than its estimate fits
}

TEST(MemoryRequest, LeavesMoreFreeAfterTheSecondPlanThatIsTooLarge) {
  MemoryRequest memory(kUsable);
  EXPECT_TRUE(memory.again({Bytes(990), Bytes(1010), false, true}));
  EXPECT_TRUE(memory.again({Bytes(978), Bytes(1001), false, true}));
  EXPECT_EQ(memory.asked(), Bytes(977 - 0.5));
  EXPECT_TRUE(memory.again({Bytes(975), Bytes(1002), false, true}));
  EXPECT_EQ(memory.asked(), Bytes(973 - 1.0));
  EXPECT_FALSE(memory.again({Bytes(971), Bytes(1003), false, true}));
}

TEST(MemoryRequest, NeverRisesAfterAPlanThatIsTooLarge) {
  MemoryRequest memory(kUsable);
  EXPECT_TRUE(memory.again({Bytes(940), Bytes(990), true, true}) == false);
  MemoryRequest other(kUsable);
  EXPECT_TRUE(other.again({Bytes(1000), Bytes(950), true, true}));
  EXPECT_EQ(other.asked(), Bytes(1050));
  EXPECT_TRUE(other.again({Bytes(1045), Bytes(1005), true, true}));
  EXPECT_EQ(other.asked(), Bytes(1040));
}

TEST(MemoryRequest, RisesByWhatThePlanTakesLessOnlyWhereMemoryBinds) {
  MemoryRequest binding(kUsable);
  EXPECT_TRUE(binding.again({Bytes(998), Bytes(958), true, true}));
  EXPECT_EQ(binding.asked(), Bytes(1040));
  MemoryRequest free(kUsable);
  EXPECT_FALSE(free.again({Bytes(998), Bytes(958), true, false}));
}

TEST(MemoryRequest, IsNotRepeatedForNextToNothing) {
  MemoryRequest memory(kUsable);
  EXPECT_FALSE(memory.again({Bytes(998), Bytes(997.6), true, true}));
}

TEST(MemoryRequest, EndsWhereMoreThanAllIsTakenBeyondTheEstimate) {
  MemoryRequest memory(kUsable);
  EXPECT_FALSE(memory.again({Bytes(990), Bytes(2000), false, true}));
  EXPECT_EQ(memory.asked(), kUsable);
}

}  // namespace
}  // namespace meshwright::memory_request_test
