// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/stage_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace meshwright {
namespace stage_layout_test {

// Blocks of each stage of a layout, written out.
std::vector<int> expand(const std::string& layout) {
  std::vector<int> blocks;
  for (const std::string& stage : stages_of_layout(layout, "layout"))
    blocks.push_back(static_cast<int>(std::count(stage.begin(), stage.end(), 't')));
  return blocks;
}

TEST(StageLayout, IsWrittenWithRepetitions) {
  EXPECT_EQ(layout_of({3, 4, 4, 3}), "Et*3(|t*4)*2|t*3L");
  EXPECT_EQ(layout_of({8}), "Et*8L");
  EXPECT_EQ(layout_of({1, 2, 1}), "Et|t*2|tL");
  EXPECT_EQ(layout_of({0, 2, 2, 2, 0}), "E(|t*2)*3|L");
}

TEST(StageLayout, HasModulesForFurtherTokensBesideTheLossOrWhereItIsTold) {
  EXPECT_EQ(layout_of({3, 4, 3}, {1}), "Et*3|t*4|t*3mL");
  EXPECT_EQ(layout_of({2, 2, 2, 0, 0}, {2, 3}), "Et*2(|t*2)*2|m*2|L");
  EXPECT_EQ(layout_of({4}, {1}), "Et*4mL");
  EXPECT_EQ(with_further_modules({}, 30, 4, 1, 1).layout, "Et*7(|t*8)*2|t*7mL");
  EXPECT_EQ(with_further_modules({0, 1, ""}, 10, 4, 1, 1).layout, "Et*3(|t*3)*2|tmL");
}

TEST(StageLayout, ExpandsToTheBlocksItWasMadeOf) {
  for (int a = 0; a < 4; ++a)
    for (int b = 1; b < 4; ++b)
      for (int c = 1; c < 4; ++c)
        for (int d = 0; d < 4; ++d) {
          const std::vector<int> blocks = {a, b, c, c, d};
          EXPECT_EQ(expand(layout_of(blocks)), blocks) << layout_of(blocks);
        }
}

TEST(StageLayout, PartsBlocksAsTheSearchDoes) {
  EXPECT_EQ(blocks_of_stages({}, 32, 4, 2), std::vector<int>(8, 4));
  EXPECT_EQ(blocks_of_stages({}, 11, 3, 1), (std::vector<int>{3, 4, 4}));
  // 30 blocks and the two ends are four times eight.
  EXPECT_EQ(blocks_of_stages({}, 30, 4, 1), (std::vector<int>{7, 8, 8, 7}));
  EXPECT_EQ(blocks_of_stages({.first = 2, .last = 4}, 14, 4, 1), (std::vector<int>{2, 4, 4, 4}));
}

}  // namespace stage_layout_test
}  // namespace meshwright
