// SPDX-License-Identifier: Apache-2.0
// Parts of a GPU from rates that can be divided in one's head.
#include "costmodel/occupancy.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace meshwright::occupancy_test {
namespace {

namespace fs = std::filesystem;

class OccupancyTest : public testing::Test {
 protected:
  OccupancyTest()
      : path_(fs::path(testing::TempDir()) /
              (std::string("occupancy_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".db")) {
    fs::remove(path_);
  }
  ~OccupancyTest() override { fs::remove(path_); }

  // Ops of a GPU of 989 TFLOPS and 4.8 TB/s.
  [[nodiscard]] Occupancy measured(const std::vector<OpProfile>& ops) const {
    ProfileDb db(path_, ProfileDb::Mode::ReadWrite);
    const std::int64_t id =
        db.add_session({"NVIDIA H200", "host", "", "2026-11-27T01:00:00Z", "", find_cluster("dgx-h200:1")});
    for (const OpProfile& op : ops) db.put(id, op);
    return Occupancy(db);
  }
  static OpProfile op(const std::string& signature, double flops, double bytes, double seconds) {
    return {signature, 1, flops, bytes, {Seconds(seconds), Seconds(0), 7}};
  }
  static OpWork work(OpKind kind, const std::string& signature, double flops, double bytes) {
    return {kind, DType::BF16, Flops(flops), Bytes(bytes), signature};
  }

 private:
  fs::path path_;
};

TEST_F(OccupancyTest, OfASmallProductIsItsRateOverThatOfLargeOnes) {
  // 600 and 400 TFLOPS: 16 of work in 0.03 s are 533. What is less than an eighth of the largest counts for nothing.
  const Occupancy occupancy =
      measured({op("contract bf16 [a=8]", 12e12, 1, 0.02), op("contract bf16 [a=4]", 4e12, 1, 0.01),
                op("contract bf16 [a=1]", 1e12, 1, 1.0)});
  const auto of = [&](double flops, double seconds) {
    return occupancy.of(work(OpKind::Contract, "contract bf16 [a=2]", flops, 1), Seconds(seconds));
  };
  EXPECT_NEAR(of(16e12, 0.06), 0.5, 1e-12);
  EXPECT_NEAR(of(1.6e12, 0.012), 0.25, 1e-12);
  EXPECT_EQ(of(16e12, 0.02), 1.0);  // faster than large ones
}

TEST_F(OccupancyTest, OfASlowKindIsAllOfTheDevice) {
  const Occupancy occupancy =
      measured({op("contract bf16 [a=8]", 600e12, 1, 1), op("attention bf16 [a=8]", 100e12, 1, 1)});
  EXPECT_EQ(occupancy.of(work(OpKind::Attention, "attention bf16 [a=8]", 100e12, 1), Seconds(1)), 1.0);
}

TEST_F(OccupancyTest, OfWhatHasNoFlopsGoesByBytesAndNotByWhatAnAdditionTook) {
  // 3 TB/s alone; 30 TB/s is what a bias added to its product.
  const Occupancy occupancy = measured({op("bias_add bf16 [a=8]", 0, 3e12, 1), op("bias_add bf16 [a=9]", 0, 30e12, 1)});
  EXPECT_NEAR(occupancy.of(work(OpKind::BiasAdd, "bias_add bf16 [a=1]", 0, 0.3e12), Seconds(0.2)), 0.5, 1e-12);
}

TEST_F(OccupancyTest, OfWhatWasNotMeasuredIsAllOfTheDevice) {
  const Occupancy occupancy = measured({op("contract bf16 [a=8]", 600e12, 1, 1)});
  EXPECT_EQ(occupancy.of(work(OpKind::Gelu, "gelu bf16 [a=8]", 0, 1), Seconds(1)), 1.0);
  EXPECT_EQ(occupancy.of(work(OpKind::Contract, "", 1, 1), Seconds(1)), 1.0);
}

}  // namespace
}  // namespace meshwright::occupancy_test
