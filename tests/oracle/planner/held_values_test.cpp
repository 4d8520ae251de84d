// SPDX-License-Identifier: Apache-2.0
// What micro-batches hold: the heaviest chain of ops and what waits beside it, against all there is to ask of a graph.
#include "core/planner/bounds/held_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/random.h"
#include "core/graph/recomputation.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::held_values_test {
namespace {

// Which ops need which, directly or not.
class Needs {
 public:
  explicit Needs(const Graph& graph) : of_(graph.ops().size()) {
    for (const Op& op : graph.ops())
      for (const TensorId input : op.inputs)
        if (const auto maker = graph.tensor(input).producer) {
          of_[op.id.index()].insert(maker->index());
          of_[op.id.index()].insert(of_[maker->index()].begin(), of_[maker->index()].end());
        }
  }
  [[nodiscard]] bool of(OpId op, OpId other) const { return of_[op.index()].contains(other.index()); }

 private:
  std::vector<std::set<std::size_t>> of_;
};

// The most that a chain of ops up to each weighs.
double heaviest(const Graph& graph, const std::vector<double>& weight) {
  std::vector<double> until(graph.ops().size(), 0.0);
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Update) continue;
    for (const TensorId input : op.inputs)
      if (const auto maker = graph.tensor(input).producer)
        until[op.id.index()] = std::max(until[op.id.index()], until[maker->index()]);
    until[op.id.index()] += weight[op.id.index()];
  }
  return *std::max_element(until.begin(), until.end());
}

bool is_among(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

struct Setting {
  Graph graph;
  // [op] of 1 to 9; of products and some forward ops ten times that; of what only adds up gradients or
  // begins with those of the loss, nothing.
  std::vector<double> weight;
  Needs needs;
  HeldValues held;

  Setting(const char* model, std::uint64_t seed)
      : graph(build_training_graph(find_model(model), {.batch = 8, .microbatches = 2})),
        weight(weights(graph, seed)),
        needs(graph),
        held(find_held_values(graph, weight)) {}
  static std::vector<double> weights(const Graph& graph, std::uint64_t seed) {
    Random random(seed);
    std::vector<double> found;
    const OpId loss = forward_ops(graph).back();
    for (const Op& op : graph.ops()) {
      const bool alone =
          op.phase == Phase::Backward && (!op.forward || op.kind == OpKind::Accumulate || is_gradient_sum(graph, op) ||
                                          graph.op(*op.forward).id == loss);
      const double tens =
          op.kind == OpKind::Contract || (op.phase == Phase::Forward && random.below(20) == 0) ? 10.0 : 1.0;
      found.push_back(alone ? 0.0 : tens * (1.0 + random.below(9)));
    }
    return found;
  }
  // The trunk in its order, of all pairs.
  [[nodiscard]] std::vector<OpId> trunk() const {
    std::vector<OpId> ops;
    for (const HeldValues::Pair& pair : held.pairs) ops.insert(ops.end(), pair.of_trunk.begin(), pair.of_trunk.end());
    std::sort(ops.begin(), ops.end());
    return ops;
  }
};

// Through a gate or the product beside it: forward on one way, back on the other.
constexpr const char* kTwoWays = "llama:layers=2,hidden=16,heads=2,kv_heads=1,intermediate=32,seq=4,vocab=16";
// What attention adds and what the MLP adds meet at one op, which alone reads either.
constexpr const char* kSideBySide = "gpt_neox:layers=2,hidden=16,heads=2,seq=4,vocab=16";
constexpr const char* kModels[] = {"mlp:layers=3,hidden=16", "gpt:layers=2,hidden=16,heads=2,seq=4,vocab=16", kTwoWays};

// The trunk goes forward and back through the same ops, so that all of it has pairs, but for the gradient at its end:
// of two embeddings one alone is where it begins.
TEST(HeldValues, HaveTheHeaviestChainOfOpsForTheirTrunk) {
  for (const char* model : kModels)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Setting of(model, seed);
      const std::vector<OpId> trunk = of.trunk();
      double sum = 0.0;
      for (const OpId op : trunk) sum += of.weight[op.index()];
      for (std::size_t i = 1; i < trunk.size(); ++i) EXPECT_TRUE(of.needs.of(trunk[i], trunk[i - 1]));
      const double most = heaviest(of.graph, of.weight);
      EXPECT_LE(sum, most) << model << " " << seed;
      if (model != kTwoWays) {
        EXPECT_GE(sum, most - 9.0) << model << " " << seed;
      }
      for (const HeldValues::Pair& pair : of.held.pairs) {
        EXPECT_EQ(pair.of_trunk.front(), pair.forward);
        for (const OpId op : pair.of_trunk)
          EXPECT_TRUE(op == pair.forward || of.graph.op(op).forward == pair.forward) << model << " " << seed;
      }
    }
}

// A value is held while a pair runs if, of some backward op that reads it, the pair's forward needs what the op's
// forward makes (or is it, where that is read), and the last op of the pair comes before the backward op can run. From
// `first` on that holds of every pair, and of the one before it does not.
TEST(HeldValues, AreHeldByThePairsBetweenTheirForwardAndTheirBackward) {
  int values = 0, inside = 0;
  for (const char* model : kModels)
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Setting of(model, seed);
      const auto& pairs = of.held.pairs;
      const auto covers = [&](const Op& reader, TensorId tensor, const HeldValues::Pair& pair) {
        const Op& forward = of.graph.op(*reader.forward);
        const bool read = is_among(forward.inputs, tensor);
        if (!read && !is_among(forward.outputs, tensor)) return false;
        const bool begins = of.needs.of(pair.forward, forward.id) || (read && pair.forward == forward.id);
        const OpId last = pair.of_trunk.back();
        return begins && (last == reader.id || of.needs.of(reader.id, last));
      };
      // [pair] whether it and all after it run while the tensor is held for one of its readers.
      const auto first_of = [&](TensorId tensor) {
        std::size_t least = pairs.size();
        for (const Op& reader : of.graph.ops()) {
          if (reader.phase != Phase::Backward || !reader.forward || is_gradient_sum(of.graph, reader) ||
              !is_among(reader.inputs, tensor))
            continue;
          std::size_t first = pairs.size();
          while (first > 0 && covers(reader, tensor, pairs[first - 1])) --first;
          least = std::min(least, first);
        }
        return static_cast<int>(least);
      };
      std::size_t results = 0;
      for (const Op& maker : of.graph.ops()) {
        if (maker.phase != Phase::Forward) continue;
        std::vector<std::pair<int, double>> wanted, found;  // first pair, bytes at most
        for (const TensorId output : maker.outputs)
          if (const int first = first_of(output); first < static_cast<int>(pairs.size()))
            wanted.emplace_back(first, of.graph.tensor(output).bytes().si());
        if (wanted.empty()) continue;
        ASSERT_LT(results, of.held.results.size());
        const HeldResult& result = of.held.results[results++];
        EXPECT_TRUE(result.again.empty() || result.again.front() == maker.id);
        EXPECT_EQ(result.again.empty(), maker.block < 0 || result.again.empty());
        ASSERT_EQ(result.values.size(), wanted.size());
        for (std::size_t v = 0; v < wanted.size(); ++v) {
          ++values;
          inside += wanted[v].first > 0 ? 1 : 0;
          EXPECT_EQ(result.values[v].first, wanted[v].first) << model << " " << seed << " " << maker.name;
          EXPECT_LE(result.values[v].bytes.si(), wanted[v].second);
          EXPECT_TRUE(result.values[v].of_samples);
          if (result.again.size() < 2) {
            EXPECT_EQ(result.values[v].bytes.si(), wanted[v].second);
          }
        }
      }
      EXPECT_EQ(results, of.held.results.size());
    }
  EXPECT_GT(values, 300);
  EXPECT_GT(inside, 200);
}

// What is made again is a chain of which nothing else reads a part: each op reads what the next of `again` makes, which
// no backward op reads. The smallest of what it makes is what is held.
TEST(HeldValues, AreMadeAgainByAChainOfWhichNothingElseReadsAPart) {
  int longer = 0, of_several = 0;
  for (const char* model : {kModels[0], kModels[1], kModels[2], kSideBySide})
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Setting of(model, seed);
      for (const HeldResult& result : of.held.results) {
        Bytes least(1e18);
        for (std::size_t i = 0; i + 1 < result.again.size(); ++i) {
          const Op &op = of.graph.op(result.again[i]), &next = of.graph.op(result.again[i + 1]);
          ASSERT_EQ(next.outputs.size(), 1u);
          const TensorId between = next.outputs.front();
          EXPECT_TRUE(is_among(op.inputs, between));
          EXPECT_GE(op.block, 0);
          for (const Op& reader : of.graph.ops())
            EXPECT_TRUE(reader.id == op.id || !is_among(reader.inputs, between)) << model << " " << reader.name;
          least = std::min(least, of.graph.tensor(between).bytes());
          // Where there are several, the one whose maker weighs the most is followed.
          for (const TensorId input : op.inputs) {
            const auto maker = of.graph.tensor(input).producer;
            if (!maker || input == between) continue;
            const bool alone = std::none_of(of.graph.ops().begin(), of.graph.ops().end(), [&](const Op& reader) {
              return reader.id != op.id && is_among(reader.inputs, input);
            });
            if (alone && std::count(op.inputs.begin(), op.inputs.end(), input) == 1) {
              ++of_several;
              EXPECT_LE(of.weight[maker->index()], of.weight[next.id.index()]);
            }
          }
        }
        if (result.again.size() < 2 || result.values.size() != 1) continue;
        ++longer;
        const Bytes own = of.graph.tensor(of.graph.op(result.again.front()).outputs.front()).bytes();
        EXPECT_EQ(result.values.front().bytes, std::min(own, least));
      }
    }
  EXPECT_GT(longer, 30);
  EXPECT_GT(of_several, 10);
}

}  // namespace
}  // namespace meshwright::held_values_test
