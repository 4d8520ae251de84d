// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/stage_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::stage_split_test {
namespace {

using Stages = std::vector<std::string>;
using Layers = std::vector<int>;

Stages stages(const std::string& layout) { return stages_of_layout(layout, "here"); }
std::string broken(const StageSplit& split, std::int64_t blocks, int pp, int chunks) {
  const std::vector<std::string> all = broken_split_rules(split, blocks, pp, chunks);
  return all.empty() ? "" : all.front();
}

// The second is an example of Megatron-LM's own: 14 blocks in 8 stages.
TEST(Layout, IsWrittenOut) {
  EXPECT_EQ(stages("Et|tL"), (Stages{"Et", "tL"}));
  EXPECT_EQ(stages("Et*2|(tt|)*5t|tL"), (Stages{"Ett", "tt", "tt", "tt", "tt", "tt", "t", "tL"}));
  EXPECT_EQ(stages("E|t*3|L"), (Stages{"E", "ttt", "L"}));
  EXPECT_EQ(stages("E(tt|t)*2L"), (Stages{"Ett", "ttt", "tL"}));
  EXPECT_EQ(stages("Et|tm*2L"), (Stages{"Et", "tmmL"}));
  EXPECT_EQ(stages("Et|m|L"), (Stages{"Et", "m", "L"}));
}

TEST(Layout, IsRefusedUnlessTheEndsAreEAndL) {
  EXPECT_EQ(refusal([] { stages("t|EtL"); }),
            "here: layout: E stands once, and first; write one such as Et*3|t*4|t*4|t*3L.");
  EXPECT_EQ(refusal([] { stages("EtL|t"); }),
            "here: layout: L stands once, and last; write one such as Et*3|t*4|t*4|t*3L.");
  EXPECT_EQ(refusal([] { stages(""); }),
            "here: layout: E stands once, and first; write one such as Et*3|t*4|t*4|t*3L.");
  EXPECT_EQ(refusal([] { stages("Et|nL"); }).find("here: layout: 'n' is unknown; expected E"), 0U);
  for (const char* apart : {"Em|tL", "Etm|mL", "E|mt|L"})
    EXPECT_EQ(refusal([&] { stages(apart); }),
              "here: layout: modules for further tokens (m) stand in one stage, behind all blocks; write it as Et|tmL.")
        << apart;
  EXPECT_EQ(refusal([] { stages("Et||tL"); }),
            "here: layout: stage 1 is empty, and a plan's stages are not; give it a layer.");
  EXPECT_EQ(refusal([] { stages("E(t|L"); }), "here: layout: '(' without ')'; close it, as in (tt|)*3.");
  EXPECT_EQ(refusal([] { stages("E((t|)*2)*2L"); }), "here: layout: parentheses are not nested; write one pair.");
  EXPECT_NE(refusal([] { stages("Et*0|L"); }), "");
  EXPECT_NE(refusal([] { stages("Et*|L"); }), "");
  EXPECT_NE(refusal([] { stages("E(t*65536)*65536L"); }).find("more than 65536 letters"), std::string::npos);
}

// 10 blocks on 4 ranks: 2, 3, 3, 2, with the embedding and the loss.
TEST(StageSplit, GivesTheRanksBetweenTheEndsWhatIsLeft) {
  EXPECT_EQ(layers_of_stages({2, 2, ""}, 10, 4, 1), (Layers{3, 3, 3, 3}));
  EXPECT_EQ(layers_of_stages({1, 0, ""}, 10, 4, 1), (Layers{2, 3, 3, 4}));
  EXPECT_EQ(layers_of_stages({0, 1, ""}, 10, 4, 1), (Layers{4, 3, 3, 2}));
  // Two stages on each rank: every stage has half of its rank's 2, 4, 4, 4 blocks.
  EXPECT_EQ(layers_of_stages({2, 0, ""}, 14, 4, 2), (Layers{2, 2, 2, 2, 1, 2, 2, 3}));
  EXPECT_EQ(layers_of_stages({0, 0, "E|t*3|L"}, 3, 3, 1), (Layers{1, 3, 1}));
}

TEST(StageSplit, BreaksMegatronsRulesByTheirNumbers) {
  EXPECT_EQ(broken({2, 2, ""}, 10, 4, 1), "");
  EXPECT_EQ(broken({3, 2, ""}, 10, 4, 1),
            "2 ranks x vpp=1 do not divide the 5 of 10 blocks that first=3 and last=2 leave");
  EXPECT_EQ(broken({3, 3, ""}, 14, 4, 2), "vpp=2 does not divide first=3");
  EXPECT_EQ(broken({4, 5, ""}, 10, 2, 1), "first=4 and last=5 leave 1 of 10 blocks for 0 ranks");
  EXPECT_EQ(broken({6, 6, ""}, 10, 4, 1), "first=6 and last=6 are more than the 10 blocks");
  EXPECT_EQ(broken({0, 0, "Et|t|tL"}, 4, 3, 1), "the layout names 3 blocks, and there are 4");
  EXPECT_EQ(broken({0, 0, "Et|t|tL"}, 3, 2, 1), "the layout's 3 stages are not pp=2 x vpp=1");
}

// Two modules count as a layer each, and have their place beside the loss or in a stage of the last round before it.
TEST(StageSplit, ALayoutNamesTheModulesForFurtherTokens) {
  const auto with_two = [](const StageSplit& split, int pp, int chunks) {
    const std::vector<std::string> all = broken_split_rules(split, 4, pp, chunks, 2);
    return all.empty() ? "" : all.front();
  };
  EXPECT_EQ(with_two({0, 0, "Et*3|tm*2L"}, 2, 1), "");
  EXPECT_EQ(further_modules_of({0, 0, "Et*3|tm*2L"}), 2);
  EXPECT_EQ(layers_of_stages({0, 0, "Et*3|tm*2L"}, 4, 2, 1), (Layers{4, 4}));
  EXPECT_EQ(with_two({0, 0, "Et*2|t*2|m*2|L"}, 2, 2), "");
  EXPECT_EQ(broken_split_rules({0, 0, "Et*4m*2|L"}, 4, 1, 2, 2).front(),
            "modules for further tokens (m) are in the last stage of their rank");
  EXPECT_EQ(with_two({0, 0, "Et*3|tmL"}, 2, 1), "the layout names 1 modules for further tokens (m), and there are 2");
  EXPECT_EQ(with_two({3, 0, ""}, 2, 1),
            "first= and last= give modules for further tokens no place, which a layout does, as Et|tmL");
  // The last rank may have three blocks fewer where it has a module.
  const std::vector<StageSplit> lighter = lighter_ends(13, 4, 1, 1);
  EXPECT_NE(std::find(lighter.begin(), lighter.end(), StageSplit{0, 1, ""}), lighter.end());
}

TEST(StageSplit, LighterEndsHaveOneOrTwoBlocksFewerInEveryStage) {
  EXPECT_EQ(lighter_ends(10, 4, 1), (std::vector<StageSplit>{{0, 1, ""}, {2, 2, ""}, {1, 0, ""}}));
  EXPECT_EQ(lighter_ends(14, 4, 2), (std::vector<StageSplit>{{0, 2, ""}, {2, 0, ""}}));
  EXPECT_EQ(lighter_ends(8, 2, 1), (std::vector<StageSplit>{{0, 3, ""}, {3, 0, ""}}));
  EXPECT_TRUE(lighter_ends(8, 1, 1).empty());
  for (const int blocks : {12, 13, 32, 61, 80, 126})
    for (const int pp : {2, 3, 4, 8, 16})
      for (const int chunks : {1, 2, 3}) {
        for (const StageSplit& split : lighter_ends(blocks, pp, chunks)) {
          EXPECT_EQ(broken(split, blocks, pp, chunks), "") << blocks << ' ' << pp << ' ' << chunks;
          const Layers layers = layers_of_stages(split, blocks, pp, chunks);
          EXPECT_EQ(layers.size(), static_cast<std::size_t>(pp * chunks));
          EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), blocks + 2);
        }
      }
}

TEST(StageSplit, LighterEndsAreAllThatThereAre) {
  for (const int blocks : {1, 2, 5, 8, 10, 12, 14, 24})
    for (const int pp : {2, 3, 4})
      for (const int chunks : {1, 2, 3})
        for (const int further : {0, 1, 2}) {
          // `each`: blocks of a stage between the ends; the ends have `at_first` and `at_last` fewer.
          std::set<std::pair<int, int>> expected, found;
          for (int each = 1; each <= blocks + 10; ++each)
            for (int at_first = 0; at_first <= 2; ++at_first)
              for (int at_last = 0; at_last <= 2 + further; ++at_last) {
                if (chunks * (pp * each - at_first - at_last) != blocks || at_first + at_last == 0) continue;
                if (each <= at_first || each <= at_last || (pp == 2 && at_first == at_last)) continue;
                expected.emplace(at_first > 0 ? (each - at_first) * chunks : 0,
                                 at_last > 0 ? (each - at_last) * chunks : 0);
              }
          for (const StageSplit& split : lighter_ends(blocks, pp, chunks, further))
            found.emplace(split.first, split.last);
          EXPECT_EQ(found, expected) << blocks << ' ' << pp << ' ' << chunks << ' ' << further;
        }
}

TEST(StageSplit, IsThatOfThePlan) {
  const auto layers_of = [](const std::string& method) {
    const PlanningResult made = planned(ask("gpt:layers=10,hidden=16,heads=2,seq=8,vocab=32", "cpu:4", method, 16, 4));
    Layers layers;
    for (const StagePlan& stage : made.plan->stages) layers.push_back(stage.last_layer - stage.first_layer + 1);
    return layers;
  };
  EXPECT_EQ(layers_of("megatron:pp=4,first=2,last=2"), (Layers{3, 3, 3, 3}));
  EXPECT_EQ(layers_of("megatron:pp=4,last=1"), (Layers{4, 3, 3, 2}));
  EXPECT_EQ(layers_of("megatron:pp=4,layout=E|t*5|t*5|L"), (Layers{1, 5, 5, 1}));
  EXPECT_EQ(refusal([&] { layers_of("megatron:pp=4,first=3,last=2"); }),
            "method 'megatron:pp=4,first=3,last=2': 2 ranks x vpp=1 do not divide the 5 of 10 blocks that first=3 and "
            "last=2 leave; give the model's blocks to the stages, and leave --layers out.");
  EXPECT_NE(refusal([] {
              planned(ask("mlp:layers=6,hidden=16", "cpu:4", "megatron:pp=4,last=1", 16, 4));
            }).find("mlp has no embedding before its blocks"),
            std::string::npos);
  EXPECT_EQ(refusal([] { static_cast<void>(method_from_text("megatron:tp=2,first=3")); }),
            "method 'megatron:tp=2,first=3': first=, last= and layout= are of pipeline stages; give pp=2 or more.");
  EXPECT_EQ(
      refusal([] { static_cast<void>(method_from_text("megatron:pp=2,layout=Et|t|tL")); }),
      "method 'megatron:pp=2,layout=Et|t|tL': the layout has 3 stages, which are not pp=2 x vpp=1; give it as many.");
  EXPECT_EQ(refusal([] { static_cast<void>(method_from_text("megatron:pp=2,first=1,layout=Et|tL")); }),
            "method 'megatron:pp=2,first=1,layout=Et|tL': a layout names the blocks of all stages; leave first= and "
            "last= out.");
}

}  // namespace
}  // namespace meshwright::stage_split_test
