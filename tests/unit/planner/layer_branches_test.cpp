// SPDX-License-Identifier: Apache-2.0
// Which layers stand side by side: hand-made reads, every chain of segments of few layers, the built-in models, and
// layers that begin where towers meet.
#include "core/planner/layers/layer_branches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <tuple>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/plan/stage_graph.h"
#include "tests/oracle/enumeration.h"

namespace meshwright::layer_branches_test {
namespace {

using Reads = std::vector<std::vector<int>>;
using Segments = std::vector<std::vector<LayerRun>>;

LayerBranches line_of_layers(int layers) { return {{{{0, layers - 1}}}}; }

TEST(LayerBranches, OfALineAreOne) {
  const LayerBranches branches = branches_of({{}, {0}, {1}, {2}});
  EXPECT_EQ(branches, line_of_layers(4));
  EXPECT_TRUE(branches.is_line());
  EXPECT_EQ(branches.layers(), 4);
}

TEST(LayerBranches, OfTwoTowersStandSideBySide) {
  // 0..2 and 3..4, joined by 5; then 6.
  const LayerBranches branches = branches_of({{}, {0}, {1}, {}, {3}, {2, 4}, {5}});
  EXPECT_EQ(branches.segments, (Segments{{{0, 2}, {3, 4}}, {{5, 6}}}));
  EXPECT_FALSE(branches.is_line());
}

TEST(LayerBranches, FollowTheirStem) {
  // 0 is read by three branches, 4 joins them.
  EXPECT_EQ(branches_of({{}, {0}, {0}, {0}, {1, 2, 3}}).segments,
            (Segments{{{0, 0}}, {{1, 1}, {2, 2}, {3, 3}}, {{4, 4}}}));
}

TEST(LayerBranches, MayBeReadBehindTheirSegment) {
  // The encoder 0..2 stands beside the decoder's first layer 3, which does not read it; 4 and 5 do.
  EXPECT_EQ(branches_of({{}, {0}, {1}, {}, {2, 3}, {2, 4}}).segments, (Segments{{{0, 2}, {3, 3}}, {{4, 5}}}));
}

TEST(LayerBranches, MergeInALayerWithPartsOfBoth) {
  // 2 holds the end of the first tower and the beginning of the second.
  EXPECT_EQ(branches_of({{}, {0}, {1}, {2}, {2, 3}}), line_of_layers(5));
}

TEST(LayerBranches, EndWhereLayersReadAcross) {
  // 1..2 and 3..4 after 0, but 4 looks at 1: only 3 is beside them. Where 3 looks at 2 nothing is left.
  EXPECT_EQ(branches_of({{}, {0}, {1}, {0}, {1, 3}, {2, 4}}).segments,
            (Segments{{{0, 0}}, {{1, 2}, {3, 3}}, {{4, 5}}}));
  EXPECT_EQ(branches_of({{}, {0}, {1}, {0, 2}, {1, 3}, {2, 4}}), line_of_layers(6));
}

TEST(LayerBranches, OfLittleWorkJoinTheirNeighbours) {
  // Towers 0..1 and 3..4, and 2, which only 5 reads.
  const Reads reads = {{}, {0}, {}, {}, {3}, {1, 2, 4}};
  EXPECT_EQ(branches_of(reads).segments, (Segments{{{0, 1}, {2, 2}, {3, 4}}, {{5, 5}}}));
  EXPECT_EQ(branches_of(reads, {1, 1, 1, 1, 1, 1}, 2).segments, (Segments{{{0, 1}, {2, 4}}, {{5, 5}}}));
  EXPECT_EQ(branches_of(reads, {1, 1, 1, 1, 1, 1}, 4), line_of_layers(6));
}

TEST(LayerBranches, RefuseReadsOutOfOrder) {
  EXPECT_THROW((void)branches_of({}), InputError);
  EXPECT_THROW((void)branches_of({{}, {1}}), InputError);
  EXPECT_THROW((void)branches_of({{}, {-1}}), InputError);
  EXPECT_THROW((void)branches_of({{}, {0}}, {1.0}), InputError);
}

// Visits every chain of segments of branches of layers first.. .
void for_each_chain(int first, int layers, Segments& segments, const std::function<void()>& visit) {
  if (first == layers) return visit();
  for (int last = first; last < layers; ++last) {
    segments.push_back({{first, last}});
    for_each_chain(last + 1, layers, segments, visit);
    segments.pop_back();
    if (segments.empty()) continue;
    segments.back().push_back({first, last});
    for_each_chain(last + 1, layers, segments, visit);
    segments.back().pop_back();
  }
}

struct Length {
  double longest = 0.0;
  int ordered = 0;
  bool smaller = false,
       wrong = false;  // a branch with less than the least work; something does not follow what it reads
};
Length measure(const Segments& segments, const Reads& reads, const std::vector<double>& work, double least) {
  Length length;
  const int layers = static_cast<int>(reads.size());
  std::vector<std::pair<int, int>> place;  // segment and branch of each layer
  for (std::size_t g = 0; g < segments.size(); ++g) {
    double longest = 0.0;
    for (std::size_t r = 0; r < segments[g].size(); ++r) {
      double sum = 0.0;
      for (int i = segments[g][r].first; i <= segments[g][r].last; ++i) {
        sum += work[static_cast<std::size_t>(i)];
        place.emplace_back(g, r);
      }
      longest = std::max(longest, sum);
      length.smaller = length.smaller || (segments[g].size() > 1 && sum < least);
    }
    length.longest += longest;
  }
  const auto beside = [&](int a, int b) {
    const auto &pa = place[static_cast<std::size_t>(a)], &pb = place[static_cast<std::size_t>(b)];
    return pa.first == pb.first && pa.second != pb.second;
  };
  for (int b = 0; b < layers; ++b) {
    for (int a = 0; a < b; ++a) length.ordered += beside(a, b) ? 0 : 1;
    for (const int a : reads[static_cast<std::size_t>(b)]) length.wrong = length.wrong || beside(a, b);
  }
  return length;
}

TEST(LayerBranches, AreTheShortestOfAllChains) {
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int lines = 0;
  for (int n = 0; n < 400; ++n) {
    SCOPED_TRACE(testing::Message() << "seed 11, case " << n);
    const int layers = draw(1, 7), most_reads = draw(1, 2);
    Reads reads;
    std::vector<double> work;
    for (int i = 0; i < layers; ++i) {
      reads.emplace_back();
      work.push_back(n % 2 == 0 ? 1.0 : draw(0, 3));
      for (int r = draw(0, most_reads); i > 0 && r > 0; --r) reads.back().push_back(draw(std::max(0, i - 4), i - 1));
    }
    const double least = n % 4 == 3 ? 2.0 : 0.0;  // may join more than is needed
    std::optional<Length> best;
    int first_of_last = 0;  // segment, in the best chain that has the longest one
    Segments segments;
    for_each_chain(0, layers, segments, [&] {
      const Length length = measure(segments, reads, work, least);
      if (length.wrong || length.smaller) return;
      const int first = segments.back().front().first;
      const auto key = [](const Length& of) { return std::tuple(of.longest, of.ordered); };
      if (best && key(length) == key(*best)) first_of_last = std::min(first_of_last, first);
      if (!best || key(length) < key(*best)) best = length, first_of_last = first;
    });
    const LayerBranches found = branches_of(reads, work, least);
    const Length length = measure(found.segments, reads, work, least);
    EXPECT_FALSE(length.wrong || length.smaller);
    EXPECT_GE(length.longest, best->longest);
    if (least == 0.0) {
      EXPECT_EQ(length.longest, best->longest);
      EXPECT_EQ(length.ordered, best->ordered);
      EXPECT_EQ(found.segments.back().front().first, first_of_last);
    }
    require_branches_of(found, layers);
    lines += found.is_line();
  }
  EXPECT_GT(lines, 40);
  EXPECT_LT(lines, 360);
}

TEST(FollowingStages, AreThoseWithALayerThatFollows) {
  const LayerBranches towers{{{{0, 1}, {2, 3}}, {{4, 4}}}};
  // Side by side; the second with the tail; one over the first's end.
  const auto apart = following_stages(towers, {{0, 1}, {2, 3}, {4, 4}});
  EXPECT_EQ(apart, (std::vector<std::vector<int>>{{2}, {2}, {}}));
  EXPECT_EQ(stages_after(apart), (std::vector<int>{1, 1, 0}));
  const auto with_tail = following_stages(towers, {{0, 1}, {2, 2}, {3, 4}});
  EXPECT_EQ(with_tail, (std::vector<std::vector<int>>{{2}, {2}, {}}));
  const auto over = following_stages(towers, {{0, 0}, {1, 2}, {3, 3}, {4, 4}});
  EXPECT_EQ(over, (std::vector<std::vector<int>>{{1}, {2, 3}, {3}, {}}));
  EXPECT_EQ(stages_after(over), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_THROW((void)following_stages(towers, {{0, 1}, {2, 3}}), InputError);
  EXPECT_THROW((void)following_stages(towers, {{0, 1}, {3, 4}}), InputError);
  EXPECT_THROW((void)following_stages(towers, {{0, 1}, {2, 1}, {2, 3}, {4, 4}}), InputError);
}

Graph forward_graph(const std::string& model) {
  return build_forward_graph(find_model(model), {.batch = 8, .dtype = DType::F16});
}

TEST(LayerBranches, OfATwoTowerModelAreItsTowers) {
  const Graph graph = forward_graph("clip-b32");
  // The scores and the loss are too little for a layer: they go with the last of the text's layers.
  EXPECT_EQ(find_branches(graph, layers_of_blocks(graph)).segments, (Segments{{{0, 11}, {12, 22}}, {{23, 23}}}));
  for (const int layers : {6, 8, 12, 16})
    for (const LayerWork work : {LayerWork::ForwardFlops, LayerWork::HeldBytes, LayerWork::OpCount}) {
      const LayerBranches found = find_branches(graph, make_layers(graph, layers, work));
      ASSERT_EQ(found.segments.size(), 2U) << layers;
      ASSERT_EQ(found.segments[0].size(), 2U) << layers;
      EXPECT_EQ(found.segments[1], (std::vector<LayerRun>{{layers - 1, layers - 1}}));
    }
}

TEST(LayerBranches, OfOtherModelsAreOne) {
  for (const char* const model : {"gpt-125m", "bert-base", "moe-380m", "wresnet-250m", "vit-b16"}) {
    const Graph graph = forward_graph(model);
    for (const int layers : {1, 4, 16}) {
      EXPECT_TRUE(tower_borders(layer_clustering_input(graph, layers, 0.5)).empty()) << model;
      EXPECT_TRUE(find_branches(graph, make_layers(graph, layers)).is_line()) << model;
    }
  }
}

TEST(LayerBranches, OfAnEncoderAndADecoderAreALineOfBlocks) {
  // Every block of the decoder reads the encoder's result.
  const Graph graph = forward_graph("t5:layers=3,hidden=64,heads=4,intermediate=128,seq=32,vocab=128");
  EXPECT_TRUE(find_branches(graph, layers_of_blocks(graph)).is_line());
}

// What comes before the first block and after the last are layers of their own, of one block as of three.
TEST(BlockStarts, AreWithTheirEndsThoseOfOpsBeforeAndAfterThem) {
  for (const int blocks : {1, 3})
    for (const char* model : {"gpt:layers={},hidden=32,heads=4,seq=8,vocab=64", "mlp:layers={},hidden=4"}) {
      const Graph graph = forward_graph(fmt::format(fmt::runtime(model), blocks));
      std::vector<int> wanted = {0};
      int before = -1;  // the block of the op before
      const std::vector<OpId> ops = forward_ops(graph);
      for (std::size_t p = 0; p < ops.size(); ++p) {
        const int block = graph.op(ops[p]).block;
        if (p > 0 && block != before) wanted.push_back(static_cast<int>(p));
        before = block;
      }
      EXPECT_EQ(block_starts_with_ends(graph), wanted) << model << " " << blocks;
      if (graph.op(ops.front()).block < 0) wanted.erase(wanted.begin());
      if (before < 0) wanted.pop_back();
      EXPECT_EQ(block_starts(graph), wanted) << model << " " << blocks;
    }
}

// Eight ops of work 1: 0..3 and 4..6 side by side, 7 joins them. Tensors of a byte.
LayerClusteringInput towers_of_ops(int layers) {
  LayerClusteringInput input{std::vector<Flops>(8, Flops(1)), {}, layers, 4.0};
  for (int op = 0; op < 7; ++op)
    if (op != 3) input.uses.push_back({op, {op + 1}, Bytes(1)});
  input.uses.push_back({3, {7}, Bytes(1)});
  return input;
}

TEST(TowerBorders, AreWhereTowersHoldALayerEach) {
  EXPECT_EQ(tower_borders(towers_of_ops(8)), (std::vector<int>{4, 7}));
  EXPECT_EQ(tower_borders(towers_of_ops(3)), (std::vector<int>{4}));  // the last op is less than a layer
  EXPECT_EQ(tower_borders(towers_of_ops(2)), std::vector<int>());     // so are the second tower's three
  EXPECT_EQ(tower_borders(towers_of_ops(1)), std::vector<int>());
}

TEST(TowerBorders, AreCuts) {
  LayerClusteringInput input = towers_of_ops(3);
  input.starts = {4};
  // The best of all cuts that begin a layer with op 4.
  std::optional<RankedLayerCut> best;
  for (int a = 1; a < 8; ++a)
    for (int b = a + 1; b < 8; ++b) {
      const auto cut = rank_layer_cut(input, {0, a, b});
      if (cut && (a == 4 || b == 4) && (!best || cut->largest < best->largest)) best = cut;
    }
  const auto found = cluster_layers(input);
  ASSERT_TRUE(found && best);
  EXPECT_TRUE(std::count(found->begin(), found->end(), 4));
  EXPECT_EQ(rank_layer_cut(input, *found)->largest, best->largest);
  input.starts = {4, 4};
  EXPECT_THROW((void)cluster_layers(input), InputError);
  input.starts = {8};
  EXPECT_THROW((void)cluster_layers(input), InputError);
}

}  // namespace
}  // namespace meshwright::layer_branches_test
