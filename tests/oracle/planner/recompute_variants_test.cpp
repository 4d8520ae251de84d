// SPDX-License-Identifier: Apache-2.0
// What each layer recomputes, chosen by the search, against every mixture of choices built as a graph of its own.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "core/graph/import/find_model.h"
#include "core/planner/layers/layer_recompute.h"
#include "core/planner/spans/stage_search.h"
#include "core/solver/solve_between.h"
#include "executor/check/check_run.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::recompute_variants_test {
namespace {

constexpr std::array<Recompute, 3> kAll = {Recompute::None, Recompute::Selective, Recompute::Full};
constexpr std::array<double, 5> kPrices = {0.0, 0.03, 0.3, 3.0, 100.0};  // of MeshSpans
constexpr std::int64_t kMicrobatches = 2;

TrainingOptions training_of(Recompute recompute) {
  return {.batch = 16, .microbatches = kMicrobatches, .recompute = recompute};
}

struct Cut {
  Cut(const ModelConfig& model, const TrainingOptions& training, const std::vector<int>& starts)
      : graph(build_training_graph(model, training)), layers(assign_layers(graph, starts)) {}
  Cut(const Cut&) = delete;
  Graph graph;
  Layers layers;
  StepStructure structure{graph, layers};
};

// A model cut into layers, once for each choice that holds for all of them.
struct Setting {
  Setting(const std::string& name, std::vector<int> cut, const std::vector<int>& mesh_shape)
      : model(find_model(name)), starts(std::move(cut)), shape(mesh_shape) {
    for (const int size : shape) devices *= size;
    for (const Recompute recompute : kAll) pure.push_back(std::make_unique<Cut>(model, training_of(recompute), starts));
  }

  [[nodiscard]] const StepStructure& structure() const { return pure.front()->structure; }
  [[nodiscard]] int last() const { return static_cast<int>(starts.size()) - 1; }
  [[nodiscard]] LogicalMesh mesh() const { return make_logical_mesh(cluster, {1, devices}, shape); }
  [[nodiscard]] StageSearchOptions options(Bytes memory, bool one_stage) const {
    return {.microbatches = kMicrobatches, .usable_memory = memory, .one_stage = one_stage};
  }
  [[nodiscard]] MeshSpans priced(Bytes memory, bool one_stage = false) const {
    StageSearchOptions all = options(memory, one_stage);
    for (std::size_t v = 0; v < kAll.size(); ++v) all.variants.push_back({kAll[v], &pure[v]->structure});
    return {structure(), mesh(), *costs, all};
  }
  [[nodiscard]] TrainingOptions training(const std::vector<Recompute>& per_layer) const {
    TrainingOptions mixed = training_of(Recompute::None);
    set_recompute(mixed, pure.front()->layers, pure.front()->graph, per_layer);
    return mixed;
  }
  // The least that layers with these choices cost, by the models of the mixed graph itself.
  [[nodiscard]] double least(const std::vector<Recompute>& per_layer, const CostWeights& weights) const {
    const Cut cut(model, training(per_layer), starts);
    const LogicalMesh on = mesh();
    ReshardingCosts prices(on, *costs);
    std::vector<double> before = {0.0};
    for (int layer = 0; layer <= last(); ++layer) {
      const LayerModel of(cut.structure, layer, on, *costs, prices, {});
      const auto matrix = BetweenSolver(of.problem(weights), of.in_node(), of.out_node()).costs();
      std::vector<double> after(matrix.size() / before.size(), std::numeric_limits<double>::infinity());
      for (std::size_t i = 0; i < matrix.size(); ++i)
        if (matrix[i])
          after[i % after.size()] = std::min(after[i % after.size()], before[i / after.size()] + matrix[i]->si());
      before = std::move(after);
    }
    return *std::min_element(before.begin(), before.end());
  }
  [[nodiscard]] std::vector<std::vector<Recompute>> mixtures() const {
    std::vector<std::vector<Recompute>> found = {{}};
    for (int layer = 0; layer <= last(); ++layer) {
      std::vector<std::vector<Recompute>> longer;
      for (const auto& one : found)
        for (const Recompute recompute : kAll) {
          longer.push_back(one);
          longer.back().push_back(recompute);
        }
      found = std::move(longer);
    }
    return found;
  }

  struct Lowered {
    Plan plan;
    Graph graph;
    Program program;
    ProgramCheck check;
  };
  [[nodiscard]] Lowered lowered(const MeshSpans& spans, int price) const {
    Lowered made;
    made.plan.model = model;
    made.plan.training = training(spans.recompute(0, last(), price));
    made.plan.cluster = cluster;
    made.plan.layer_starts = starts;
    made.plan.stages = {spans.plan(0, last(), price)};
    for (int d = 0; d < devices; ++d) made.plan.stages.front().devices.push_back(d);
    made.graph = build_training_graph(model, made.plan.training);
    made.plan.graph_fingerprint = fingerprint_of(made.graph);
    EXPECT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
    made.program = lower(made.plan, made.graph, *costs);
    made.check = check_program(made.program);
    return made;
  }

  ModelConfig model;
  std::vector<int> starts, shape;
  int devices = 1;
  Cluster cluster = find_cluster("cpu:8");
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);
  std::vector<std::unique_ptr<Cut>> pure;  // [kAll]
};

// Term by term over all strategies and pairs of strategies.
double min_excess(const ShardingProblem& one, const ShardingProblem& other) {
  double total = 0.0;
  const auto add = [&](const auto& costs, const auto& others) {
    double smallest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < costs.size(); ++i)
      if (costs[i])
        smallest =
            std::min(smallest, others[i] ? (*costs[i] - *others[i]).si() : -std::numeric_limits<double>::infinity());
    total += smallest;
  };
  for (std::size_t i = 0; i < one.nodes.size(); ++i) add(one.nodes[i].cost, other.nodes[i].cost);
  for (std::size_t i = 0; i < one.edges.size(); ++i) add(one.edges[i].cost, other.edges[i].cost);
  return total;
}

TEST(RecomputeVariants, DifferByAtLeastWhatTheirTermsDo) {
  const Setting setting("gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32", {0}, {2, 2});
  const LogicalMesh on = setting.mesh();
  ReshardingCosts prices(on, *setting.costs);
  std::vector<LayerModel> models;
  for (const auto& cut : setting.pure)
    models.emplace_back(cut->structure, 0, on, *setting.costs, prices, IntraOpRules{});
  const std::vector<Bytes> working = models.front().working_values();
  int finite = 0;
  for (const double memory_price : {0.0, 1e-9})
    for (const std::optional<Bytes>& most : {std::optional<Bytes>(), std::optional(working[working.size() / 2])})
      for (const LayerModel& one : models)
        for (const LayerModel& other : models) {
          const CostWeights weights{2.0, memory_price, 1.0};
          ShardingProblem a = one.problem(weights, most), b = other.problem(weights, most);
          one.charge_recomputed(a, memory_price);
          other.charge_recomputed(b, memory_price);
          const double truth = min_excess(a, b), found = one.min_excess(other, weights, most, memory_price);
          EXPECT_TRUE(found == truth || (std::isnan(found) && std::isnan(truth))) << found << " for " << truth;
          finite += std::isfinite(truth) ? 1 : 0;
        }
  EXPECT_GT(finite, 0);
}

// Of one stage in ever less memory the last option is a mixture of the ways, where mixtures are faster.
TEST(RecomputePerLayer, OfOneWayIsOnlyWhatRecomputesEveryLayerInIt) {
  const Setting setting("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", {0, 14, 27}, {2});
  const auto is_of = [&](const MeshSpans& spans, int option, std::size_t way) {
    const std::vector<Recompute> layers = spans.recompute(0, setting.last(), option);
    return std::all_of(layers.begin(), layers.end(), [&](Recompute layer) { return layer == kAll[way]; });
  };
  const StepCost free = setting.priced(Bytes(1e18), true).cost(0, setting.last(), 0);
  const Bytes most = free.resident + free.saved + free.working;
  int mixtures = 0, of_ways = 0;
  for (int twentieths = 19; twentieths > 6; --twentieths) {
    const double share = 0.05 * twentieths;
    const MeshSpans spans = setting.priced(share * most, twentieths % 4 != 0);
    for (int option = 0; option < spans.options(); ++option) {
      const std::optional<int> way = spans.way(option);
      if (way) {
        ++of_ways;
        EXPECT_TRUE(is_of(spans, option, static_cast<std::size_t>(*way))) << share << ", " << option;
      }
      bool mixed = true;
      for (std::size_t each = 0; each < kAll.size(); ++each) mixed = mixed && !is_of(spans, option, each);
      if (!mixed) continue;
      ++mixtures;
      EXPECT_FALSE(way) << share << ", " << option;
    }
  }
  EXPECT_GT(mixtures, 3);
  EXPECT_GT(of_ways, 3);
}

std::vector<int> block_starts_of(const std::string& name) {
  const Graph graph = build_training_graph(find_model(name), training_of(Recompute::None));
  std::vector<int> starts = block_starts(graph);
  starts.front() = 0;
  return starts;
}

// In the middle of each block, where the residual is all that enters.
std::vector<int> between_blocks(const std::string& name) {
  const Graph graph = build_training_graph(find_model(name), training_of(Recompute::None));
  const std::vector<OpId> forward = forward_ops(graph);
  std::vector<int> starts = {0};
  for (std::size_t at = 1; at < forward.size(); ++at)
    if (graph.op(forward[at]).name.ends_with(".ln2")) starts.push_back(static_cast<int>(at));
  starts.pop_back();
  return starts;
}

constexpr const char* kMlp = "mlp:layers=3,hidden=64";
constexpr const char* kGpt = "gpt:layers=3,hidden=32,heads=4,seq=16,vocab=64";

std::vector<Setting> settings() {
  std::vector<Setting> found;
  for (const char* name : fewer_of<const char*>({kMlp, kGpt}))
    for (const std::vector<int>& shape : {std::vector<int>{1}, {2}})
      found.emplace_back(name, block_starts_of(name), shape);
  found.emplace_back(kGpt, between_blocks(kGpt), std::vector<int>{2});
  return found;
}

std::string text(const std::vector<Recompute>& per_layer) {
  std::string names;
  for (const Recompute recompute : per_layer) names += std::string(name_of(recompute)) + " ";
  return names;
}

CostWeights weights_at(std::size_t price, const MeshSpans& spans, int last, Bytes memory) {
  return {kMicrobatches, kPrices[price] * spans.min_time(0, last).si() / memory.si(),
          static_cast<double>(kMicrobatches)};
}

// At every memory price: as cheap as the cheapest of all mixtures, and that is the mixture it names.
TEST(RecomputePerLayer, IsTheBestMixtureAtEveryMemoryPrice) {
  for (const Setting& of : settings()) {
    const Bytes memory(of.model.family == "mlp" ? 400e3 : 600e3);
    const MeshSpans spans = of.priced(memory);
    ASSERT_EQ(spans.impossible(), std::nullopt);
    for (std::size_t price = 0; price < (of.devices > 1 ? kPrices.size() : 1); ++price) {
      const CostWeights weights = weights_at(price, spans, of.last(), memory);
      const int option = static_cast<int>(price);
      const auto chosen = spans.recompute(0, of.last(), option);
      const std::string place =
          fmt::format("{} on {} devices, price {}: {}", of.model.family, of.devices, price, text(chosen));
      double best = std::numeric_limits<double>::infinity();
      for (const auto& mixture : of.mixtures()) best = std::min(best, of.least(mixture, weights));
      const double found = weights.total(spans.cost(0, of.last(), option)).si();
      EXPECT_NEAR(found, best, 1e-9 * best) << place;
      EXPECT_NEAR(of.least(chosen, weights), best, 1e-9 * best) << place;
      if (price == 0) {
        EXPECT_EQ(chosen, std::vector<Recompute>(chosen.size(), Recompute::None)) << place;
      }
    }
  }
}

// Equal layers change their choice at one price; what lies between is offered too, each as cheap as its own graph is.
TEST(RecomputePerLayer, IsOfferedInMixturesOfEqualLayers) {
  for (const Setting& of : settings()) {
    const Bytes memory(of.model.family == "mlp" ? 400e3 : 600e3);
    const MeshSpans spans = of.priced(memory);
    std::set<std::vector<Recompute>> offered;
    for (int option = 0; option < spans.options(); ++option) {
      const auto chosen = spans.recompute(0, of.last(), option);
      offered.insert(chosen);
      const std::string place =
          fmt::format("{} on {} devices, option {}: {}", of.model.family, of.devices, option, text(chosen));
      // At some price, in units of the fastest time of all recomputations or of these.
      const double units[] = {spans.min_time(0, of.last()).si(), of.least(chosen, {kMicrobatches, 0.0, 1.0})};
      bool is_least = false;
      for (const double unit : units)
        for (std::size_t price = 0; price < kPrices.size() && !is_least; ++price) {
          const CostWeights weights{kMicrobatches, kPrices[price] * unit / memory.si(),
                                    static_cast<double>(kMicrobatches)};
          const double found = weights.total(spans.cost(0, of.last(), option)).si(), least = of.least(chosen, weights);
          EXPECT_GE(found, (1.0 - 1e-9) * least) << place;
          is_least = found <= (1.0 + 1e-9) * least;
        }
      EXPECT_TRUE(is_least) << place;
    }
    // 0 to 3 layers that recompute everything, the others what costs little.
    for (std::ptrdiff_t full = 0; full <= 3; ++full)
      EXPECT_TRUE(std::any_of(offered.begin(), offered.end(),
                              [&](const std::vector<Recompute>& one) {
                                return std::count(one.begin(), one.end(), Recompute::Full) == full &&
                                       std::count(one.begin(), one.end(), Recompute::Selective) == 3 - full;
                              }))
          << of.model.family << " " << full;
  }
}

// The table's estimate is on the large side.
TEST(RecomputePerLayer, NeedsNoMoreMemoryLoweredThanEstimated) {
  for (const Setting& of : settings()) {
    const MeshSpans spans = of.priced(Bytes(400e3));
    for (int price = 0; price < spans.options(); ++price) {
      const StepCost& cost = spans.cost(0, of.last(), price);
      const Bytes estimate = cost.resident + cost.saved + cost.working + cost.recomputed_at_once;
      EXPECT_LE(of.lowered(spans, price).check.largest_peak().si(), estimate.si())
          << of.model.family << " on " << of.devices << ", price " << price;
    }
  }
}

TEST(RecomputePerLayer, FitsOneStageAtLeastAsWellAsOneChoiceForAll) {
  for (const char* name : {kMlp, kGpt}) {
    const Setting of(name, block_starts_of(name), {2});
    const auto time = [](const StepCost& cost) {
      return (cost.forward + cost.backward + cost.step / static_cast<double>(kMicrobatches)).si();
    };
    const auto bytes = [&](const StepCost& cost) {
      return cost.resident + cost.saved + cost.working + cost.recomputed_at_once;
    };
    const auto fastest = [&](const MeshSpans& spans, Bytes memory) {
      double best = std::numeric_limits<double>::infinity();
      for (int option = 0; option < spans.options(); ++option)
        if (bytes(spans.cost(0, of.last(), option)) <= memory)
          best = std::min(best, time(spans.cost(0, of.last(), option)));
      return best;
    };
    const Bytes roomy =
        bytes(MeshSpans(of.structure(), of.mesh(), *of.costs, of.options(Bytes(1e12), true)).cost(0, of.last(), 0));
    for (const double share : {0.8, 0.5}) {
      const Bytes memory = share * roomy;
      const MeshSpans spans = of.priced(memory, true);
      const double found = fastest(spans, memory);
      EXPECT_GE(found, (1.0 - 1e-9) * spans.bound().si()) << name << " " << share;
      for (const auto& cut : of.pure) {
        const MeshSpans alone(cut->structure, of.mesh(), *of.costs, of.options(memory, true));
        EXPECT_LE(found, (1.0 + 1e-3) * fastest(alone, memory)) << name << " " << share;
        EXPECT_LE(spans.bound().si(), (1.0 + 1e-9) * fastest(alone, memory)) << name << " " << share;
      }
    }
  }
}

// Three steps on four devices with layers that choose differently, against one device that keeps everything.
TEST(RecomputePerLayer, TrainsLikeOneDevice) {
  const RunOptions kThreeSteps{.steps = 3, .seed = 7, .precision = DType::F32};
  int runs = 0;
  for (const char* name : {kMlp, kGpt}) {
    const Setting of(name, block_starts_of(name), {2, 2});
    const MeshSpans spans = of.priced(Bytes(400e3));
    for (int price = 1; price < spans.options(); ++price) {
      const Setting::Lowered made = of.lowered(spans, price);
      if (made.plan.training.recompute_ranges.empty()) continue;
      ++runs;
      const RunResult run = run_program(made.graph, made.program, made.check, kThreeSteps);
      EXPECT_NO_THROW((void)check_run({of.model, made.plan.training}, kThreeSteps, run)) << name << " " << price;
    }
  }
  EXPECT_GT(runs, 0);
}

}  // namespace
}  // namespace meshwright::recompute_variants_test
