// SPDX-License-Identifier: Apache-2.0
// State on disk, and the way of the learning rate.
#include "executor/weights/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "executor/base/learning_rate.h"
#include "tests/refusal.h"

namespace meshwright::checkpoint_test {
namespace {

namespace fs = std::filesystem;

class Kept {
 public:
  explicit Kept(const std::string& name) : options{(fs::path(testing::TempDir()) / ("checkpoint_" + name)).string()} {
    fs::remove_all(options.folder);
  }
  ~Kept() { fs::remove_all(options.folder); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  // (4, 6) numbers 0 to 23, in one tile per device of 2 rows and 3 columns.
  void write(int step, std::uint64_t seed = 18446744073709551615U) const {
    begin_checkpoint(options, step);
    for (int device = 0; device < 4; ++device) {
      const std::int64_t row = device / 2 * 2, column = device % 2 * 3;
      StateTile tile{"w", {row, column}, {2, 3}, {}, DType::F32};
      for (std::int64_t r = row; r < row + 2; ++r)
        for (std::int64_t c = column; c < column + 3; ++c) tile.values.push_back(static_cast<double>(6 * r + c));
      write_checkpoint_part(options, step, device, {tile});
    }
    finish_checkpoint(options, {step, seed, DType::F32, Json::object()});
  }
  [[nodiscard]] std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options.folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  CheckpointOptions options;
};

Tensor matrix() { return {TensorId(0), "w", TensorKind::Parameter, DType::F32, {{"row", 4}, {"column", 6}}, {}, {}}; }

// Rows 1 to 3 and columns 2 to 3 lie in four tiles.
TEST(Checkpoint, ATileOfAnotherPlanIsPutTogetherFromSeveral) {
  const Kept kept("tiles");
  kept.write(12);
  std::vector<std::string> passed_over;
  const auto read = Checkpoint::newest(kept.options.folder, passed_over);
  EXPECT_TRUE(passed_over.empty());
  EXPECT_EQ(read->head().step, 12);
  EXPECT_EQ(read->head().seed, 18446744073709551615U);
  const std::vector<std::int64_t> offset = {1, 2}, shape = {3, 2};
  std::vector<float> tile(6);
  EXPECT_TRUE(read->fill(matrix(), offset, shape, DType::F32, tile.data()));
  EXPECT_EQ(tile, (std::vector<float>{8, 9, 14, 15, 20, 21}));
  Tensor other = matrix();
  other.name = "v";
  EXPECT_FALSE(read->fill(other, offset, shape, DType::F32, tile.data()));
}

TEST(Checkpoint, ADamagedOneGivesWayToTheOneBefore) {
  const Kept kept("damaged");
  kept.write(1);
  kept.write(2);
  fs::resize_file(fs::path(kept.options.folder) / "step-00000002" / "device-00003.safetensors", 8);
  std::vector<std::string> passed_over;
  EXPECT_EQ(Checkpoint::newest(kept.options.folder, passed_over)->head().step, 1);
  ASSERT_EQ(passed_over.size(), 1U);
  EXPECT_NE(passed_over[0].find("device-00003.safetensors: the file is damaged"), std::string::npos) << passed_over[0];
}

TEST(Checkpoint, WhatIsNotFinishedIsNone) {
  const Kept kept("half");
  begin_checkpoint(kept.options, 3);
  write_checkpoint_part(kept.options, 3, 0, {});
  std::vector<std::string> passed_over;
  EXPECT_NE(refusal([&] { return Checkpoint::newest(kept.options.folder, passed_over); }).find("no whole checkpoint"),
            std::string::npos);
}

TEST(Checkpoint, OnlyTheNewestAreKept) {
  Kept kept("keep");
  kept.options.keep = 2;
  for (const int step : {1, 2, 10}) kept.write(step);
  EXPECT_EQ(kept.there(), (std::vector<std::string>{"step-00000002", "step-00000010"}));
}

TEST(Checkpoint, AShapeOfAnotherModelIsRefused) {
  const Kept kept("shape");
  kept.write(1);
  std::vector<std::string> passed_over;
  const auto read = Checkpoint::newest(kept.options.folder, passed_over);
  Graph graph;
  graph.add_tensor("w", TensorKind::Parameter, DType::F32, {{"row", 4}, {"column", 6}});
  EXPECT_NO_THROW(read->expect_state_of(graph));
  Graph larger;
  larger.add_tensor("w", TensorKind::Parameter, DType::F32, {{"row", 5}, {"column", 6}});
  EXPECT_NE(refusal([&] {
              read->expect_state_of(larger);
              return 0;
            }).find("'w' has 24 elements, but the plan's has 30"),
            std::string::npos);
  Graph more;
  const TensorId w = more.add_tensor("w", TensorKind::Parameter, DType::F32, {{"row", 4}, {"column", 6}});
  more.add_tensor("v", TensorKind::OptimizerState, DType::F32, {{"row", 4}, {"column", 6}}, w);
  EXPECT_NE(refusal([&] {
              read->expect_state_of(more);
              return 0;
            }).find("no 'v'"),
            std::string::npos);
}

TEST(LearningRate, GrowsThenFalls) {
  LearningRate rate{LearningRate::Fall::Linear, 4, 14, 0.5};
  EXPECT_DOUBLE_EQ(rate.factor(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.factor(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.factor(9), 0.75);
  EXPECT_DOUBLE_EQ(rate.factor(14), 0.5);
  EXPECT_DOUBLE_EQ(rate.factor(1000), 0.5);
  rate.fall = LearningRate::Fall::Cosine;
  EXPECT_DOUBLE_EQ(rate.factor(9), 0.75);  // half of the way
  EXPECT_GT(rate.factor(6), 0.9);          // slow at first
  EXPECT_DOUBLE_EQ(LearningRate{}.factor(7), 1.0);
}

}  // namespace
}  // namespace meshwright::checkpoint_test
