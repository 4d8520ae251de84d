// SPDX-License-Identifier: Apache-2.0
// The walk over a plan's ops against the formulas of the literature (V. Korthikanti et al., arXiv:2205.05198; S.
// Rajbhandari et al., arXiv:1910.02054), which know nothing of plans.
#include "costmodel/framework_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/planner/given_plan.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::framework_memory_test {
namespace {

constexpr double kHidden = 256, kHeads = 8, kKvHeads = 4, kFfn = 1024, kSeq = 128, kMicroBatch = 2;
constexpr double kTokens = kSeq * kMicroBatch;

std::string gpt(int layers) { return fmt::format("gpt2:layers={},hidden=256,heads=8,seq=128,vocab=1024", layers); }
std::string llama(int layers) {
  return fmt::format("llama:layers={},hidden=256,heads=8,kv_heads=4,intermediate=1024,seq=128,vocab=1024", layers);
}

// Four devices; micro-batches of two samples on each replica, unless data parallelism has them.
PlanRequest request_of(const std::string& model, const std::string& degrees, std::int64_t batch = 8,
                       std::int64_t microbatches = 4) {
  PlanRequest request = ask(model, "dgx-a100:1", "megatron:" + degrees, batch, microbatches);
  request.cluster.only().devices_per_host = 4;
  request.training.dtype = DType::F16;
  request.search.schedule = ScheduleKind::OneFOneB;
  request.search.recompute = Recompute::None;
  request.search.layer_cut.cut = LayerOptions::Cut::Blocks;
  return request;
}

struct Case {
  Plan plan;
  Graph graph;
};
Case planned_case(const PlanRequest& request) {
  const auto costs = make_analytic_cost_model(request.cluster);
  Plan plan = given_plan(request, *costs).plan;
  Graph graph = build_training_graph(plan.model, plan.training);
  return {std::move(plan), std::move(graph)};
}

std::vector<KeptActivations> kept_of(const PlanRequest& request, const SoftwareProfile& software) {
  const Case made = planned_case(request);
  return kept_activations(made.plan, made.graph, software);
}
FrameworkMemory memory_of(const PlanRequest& request, const SoftwareProfile& software) {
  const Case made = planned_case(request);
  return framework_memory(made.plan, made.graph, software);
}

// What one more layer keeps of a micro-batch.
template <class Model>
double layer_bytes(const Model& model, const std::string& degrees, const SoftwareProfile& software,
                   Recompute recompute = Recompute::None) {
  const auto kept = [&](int layers) {
    PlanRequest request = request_of(model(layers), degrees);
    request.search.recompute = recompute;
    return kept_of(request, software)[0].kept.si();
  };
  return kept(3) - kept(2);
}

// Moments of the request's own optimizer in the place of Adam's: master copies stay.
TEST(FrameworkMemory, KeepsTheStateOfTheOptimizer) {
  PlanRequest request = request_of(gpt(2), "tp=4");
  const SoftwareProfile software;
  const auto bytes = [&](Optimizer::Kind kind) {
    request.training.optimizer.kind = kind;
    return memory_of(request, software).optimizer.si();
  };
  const double adam = bytes(Optimizer::Kind::Adam), elements = adam / 12.0;
  EXPECT_NEAR(bytes(Optimizer::Kind::Momentum), 8.0 * elements, 1e-6 * adam);
  EXPECT_NEAR(bytes(Optimizer::Kind::Sgd), 4.0 * elements, 1e-6 * adam);
  const double adafactor = bytes(Optimizer::Kind::Adafactor);
  EXPECT_GT(adafactor, 4.0 * elements);
  EXPECT_LT(adafactor, 4.3 * elements);
}

SoftwareProfile unfused() {
  SoftwareProfile software;
  software.fused_attention = false;
  software.dropout = true;
  return software;
}

std::string degrees(int tp, bool sequence_parallel) {
  return fmt::format("tp={},pp=1,dp={}{},zero=0", tp, 4 / tp, sequence_parallel ? ",sp=1" : "");
}

// Batches of 8 in 4 micro-batches: two samples, shared by the replicas.
double tokens_of(int tp) { return kTokens * tp / 4.0; }

}  // namespace

TEST(FrameworkMemory, OfAGptLayerIsKorthikantisFormula) {
  for (const int tp : {2, 4})
    for (const bool sp : {false, true}) {
      const double t = tokens_of(tp);
      const double expected = t * kHidden * (10.0 / (sp ? tp : 1) + 24.0 / tp + 5.0 * kHeads * kSeq / kHidden / tp);
      EXPECT_DOUBLE_EQ(layer_bytes(gpt, degrees(tp, sp), unfused()), expected) << tp << sp;
    }
}

TEST(FrameworkMemory, OfAGptLayerWithSelectiveRecomputationHasNoScores) {
  for (const bool sp : {false, true})
    EXPECT_DOUBLE_EQ(layer_bytes(gpt, degrees(4, sp), unfused(), Recompute::Selective),
                     tokens_of(4) * kHidden * (10.0 / (sp ? 4 : 1) + 24.0 / 4));
}

TEST(FrameworkMemory, OfAFullyRecomputedLayerIsItsInput) {
  EXPECT_DOUBLE_EQ(layer_bytes(gpt, degrees(4, false), unfused(), Recompute::Full), 2 * tokens_of(4) * kHidden);
  EXPECT_DOUBLE_EQ(layer_bytes(gpt, degrees(4, true), unfused(), Recompute::Full), 2 * tokens_of(4) * kHidden / 4);
}

TEST(FrameworkMemory, OfALayerAtWorkIsAllThatRecomputationDrops) {
  PlanRequest request = request_of(gpt(2), degrees(4, false));
  request.search.recompute = Recompute::Full;
  const double dropped = layer_bytes(gpt, degrees(4, false), unfused()) - 2 * tokens_of(4) * kHidden;
  EXPECT_DOUBLE_EQ(kept_of(request, unfused())[0].working.si(), dropped);
}

TEST(FrameworkMemory, OfALlamaLayerWithFusedAttentionHasGateUpAndProduct) {
  for (const int tp : {2, 4})
    for (const bool sp : {false, true}) {
      const double t = tokens_of(tp), kv = kHidden / kHeads * kKvHeads;
      const double expected =
          8 * t * kHidden / (sp ? tp : 1) + (2 * t * (2 * kHidden + 2 * kv + 3 * kFfn) + 4 * t * kHeads) / tp;
      EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(tp, sp), {}), expected) << tp << sp;
    }
}

// The bounds, the slope and the shift of gpt-oss's gates are computed on the way.
TEST(FrameworkMemory, OfABoundedGateIsThatOfAPlainOne) {
  const auto mixture = [](const char* more) {
    return [more](int layers) {
      return fmt::format(
          "mixtral:layers={},hidden=256,heads=8,kv_heads=4,intermediate=1024,experts=4,top_k=2,seq=128,vocab=1024{}",
          layers, more);
    };
  };
  const auto plain = mixture(""), bounded = mixture(",clipped_gate=1");
  EXPECT_DOUBLE_EQ(layer_bytes(bounded, degrees(4, false), {}), layer_bytes(plain, degrees(4, false), {}));
  SoftwareProfile apart;
  apart.fused_activation = false;
  EXPECT_GT(layer_bytes(bounded, degrees(4, false), apart), layer_bytes(plain, degrees(4, false), apart));
}

TEST(FrameworkMemory, OfInputsThatStayGatheredIsWhole) {
  SoftwareProfile gathered;
  gathered.keeps_gathered_inputs = true;
  // What the two norms give, of which sequence parallelism would keep a quarter.
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, true), gathered) - layer_bytes(llama, degrees(4, true), {}),
                   2 * 2 * tokens_of(4) * kHidden * (1.0 - 1.0 / 4));
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), gathered), layer_bytes(llama, degrees(4, false), {}));
}

TEST(FrameworkMemory, OfAnActivationOfItsOwnIsKeptToo) {
  SoftwareProfile apart;
  apart.fused_activation = false;
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), apart) - layer_bytes(llama, degrees(4, false), {}),
                   2 * tokens_of(4) * kFfn / 4);
}

TEST(FrameworkMemory, OfSelectionByOpHasTheInputAttentionAndEverySecondProduct) {
  SoftwareProfile software;
  software.selective_by_op = true;
  const double t = tokens_of(4), kv = kHidden / kHeads * kKvHeads;
  // Queries, values, the gate's product and the last one, whose result is whole.
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), software, Recompute::Selective),
                   2 * t * (kHidden + (2 * kHidden + kv + kFfn) / 4 + kHidden));
}

TEST(FrameworkMemory, OfSelectionByCostHasNoResultsOfNormsAndActivations) {
  SoftwareProfile software;
  software.selective_by_cost = true;
  const double t = tokens_of(4);
  const double all = layer_bytes(llama, degrees(4, false), software);
  EXPECT_DOUBLE_EQ(all, layer_bytes(llama, degrees(4, false), {}));
  // Two norms, and the product of activation and gate.
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), software, Recompute::Selective),
                   all - 2 * t * (2 * kHidden + kFfn / 4));
}

TEST(FrameworkMemory, OfLogitsIsOnTheLastStageAlone) {
  const auto kept = kept_of(request_of(gpt(4), "tp=2,pp=2,zero=0"), {});
  EXPECT_EQ(kept[0].logits, Bytes(0));
  EXPECT_DOUBLE_EQ(kept[1].logits.si(), 10 * kTokens * 1024 / 2);
}

TEST(FrameworkMemory, OfALossInChunksIsThatOfOneAndTheGradientsOfHiddenStatesAndWeights) {
  SoftwareProfile quarters, fitting;
  quarters.loss_chunks = 4;
  fitting.loss_chunks = kFittingLossChunks;
  const PlanRequest request = request_of(gpt(4), "tp=2,pp=2,zero=0");
  const double words = 1024.0 / 2, beside = 2 * (kTokens * kHidden + words * kHidden);
  EXPECT_DOUBLE_EQ(kept_of(request, quarters)[1].logits.si(), 10 * kTokens * words / 4 + beside);
  // Two chunks, of as many logits as there are hidden states.
  EXPECT_DOUBLE_EQ(kept_of(request, fitting)[1].logits.si(), 10 * kTokens * kHidden + beside);
  EXPECT_EQ(kept_of(request, fitting)[0].logits, Bytes(0));
}

// Liger-Kernel ead96b61, benchmark/data/all_benchmark_data.csv: the last product of 4,096 to 128,256 words and its
// loss, in bf16, forward and backward, in MiB at the peak.
TEST(FrameworkMemory, OfALossInChunksGrowsWithTheTokensAsMeasured) {
  const std::map<double, double> measured = {{4096, 4245.55}, {8192, 4466.97}, {16384, 4910.44}, {32768, 5794.63}};
  SoftwareProfile fitting;
  fitting.loss_chunks = kFittingLossChunks;
  const auto predicted = [&](double tokens) {
    const std::string model = "llama:layers=1,hidden=4096,heads=32,intermediate=4096,seq=4096,vocab=128256";
    PlanRequest request = request_of(model, "tp=1,pp=1,zero=0", static_cast<std::int64_t>(tokens) / 4096 * 4, 1);
    const double hidden = 2 * tokens * 4096;  // which the benchmark counts, too, and a plan elsewhere
    return (kept_of(request, fitting)[0].logits.si() + hidden) / (1024 * 1024);
  };
  const double first = predicted(4096);
  for (const auto& [tokens, peak] : measured)
    EXPECT_NEAR(predicted(tokens) - first, peak - measured.at(4096), 0.02 * (peak - measured.at(4096))) << tokens;
}

TEST(FrameworkMemory, OfParametersIsTheSoftwaresBytesForEach) {
  struct Claim {
    const char* software;
    DType dtype;
    int zero;
    double bytes;
  };
  // On four replicas.
  for (const Claim& claim : {Claim{"megatron", DType::F16, 0, 18}, Claim{"megatron", DType::BF16, 1, 6 + 12.0 / 4},
                             Claim{"megatron-deepspeed", DType::F16, 1, 4 + 16.0 / 4},
                             Claim{"megatron-deepspeed", DType::BF16, 1, 8 + 12.0 / 4},
                             Claim{"megatron", DType::F32, 0, 16}, Claim{"torchtitan", DType::BF16, 3, 16.0 / 4},
                             // Weights, gradients and two moments, of two bytes each.
                             Claim{"torchtitan+16-bit-states", DType::BF16, 3, 8.0 / 4},
                             Claim{"megatron-deepspeed+16-bit-states", DType::BF16, 0, 8},
                             Claim{"torchtitan+16-bit-states+8-bit-moments", DType::BF16, 3, 6.0 / 4},
                             Claim{"megatron+16-bit-moments", DType::BF16, 1, 6 + 8.0 / 4},
                             Claim{"megatron+8-bit-moments", DType::F32, 0, 10}}) {
    PlanRequest request = request_of(gpt(2), fmt::format("tp=1,pp=1,dp=4,zero={}", claim.zero), 16);
    request.training.dtype = claim.dtype;
    const Case made = planned_case(request);
    const FrameworkMemory memory = framework_memory(made.plan, made.graph, find_software_profile(claim.software));
    const double parameters = static_cast<double>(parameter_count(made.graph));
    EXPECT_NEAR((memory.weights + memory.gradients + memory.optimizer).si() / parameters, claim.bytes, 1e-9)
        << claim.software << claim.zero;
    EXPECT_EQ(memory.gathered.si() > 0, claim.zero == 3);
  }
}

TEST(FrameworkMemory, OfNarrowMomentsIsNothingWhereTheOptimizerHasNone) {
  PlanRequest request = request_of(gpt(2), "tp=1,pp=1,dp=4,zero=0", 16);
  request.training.dtype = DType::BF16;
  request.training.optimizer.kind = Optimizer::Kind::Sgd;
  const Case made = planned_case(request);
  const auto bytes = [&](const char* software) {
    return framework_memory(made.plan, made.graph, find_software_profile(software)).optimizer.si() /
           static_cast<double>(parameter_count(made.graph));
  };
  EXPECT_NEAR(bytes("megatron"), 4, 1e-9);  // the weights in 32 bits
  EXPECT_NEAR(bytes("megatron+8-bit-moments"), 4, 1e-9);
  EXPECT_NEAR(bytes("megatron+16-bit-states"), 0, 1e-9);
}

TEST(FrameworkMemory, OfStatesIsSplitWhateverTheDimensions) {
  // No dimension of the model divides by three.
  PlanRequest request = request_of(gpt(2), "tp=1,pp=1,dp=3,zero=1", 12, 2);
  request.cluster.only().devices_per_host = 3;
  const Case made = planned_case(request);
  const FrameworkMemory memory = framework_memory(made.plan, made.graph, find_software_profile("megatron"));
  EXPECT_NEAR(memory.optimizer.si() / static_cast<double>(parameter_count(made.graph)), 12.0 / 3, 1e-9);
}

TEST(FrameworkMemory, OfAPipelineHasAMicroBatchInFlightForEachLaterStage) {
  for (const std::int64_t microbatches : {2, 4, 8}) {
    const Case made = planned_case(request_of(gpt(4), "tp=1,pp=4,zero=0", 2 * microbatches, microbatches));
    const double first = kept_activations(made.plan, made.graph, unfused())[0].kept.si();
    const double in_flight = static_cast<double>(std::min<std::int64_t>(microbatches, 4));
    EXPECT_DOUBLE_EQ(framework_memory(made.plan, made.graph, unfused()).activations.si(), in_flight * first);
  }
}

TEST(FrameworkMemory, OfSplitBackwardsIsAllMicroBatchesUntilTheirWeightGradients) {
  // Four ranks and enough micro-batches: 4 under zb-h1 and 7 under zb-h2, on every rank.
  for (const auto& [schedule, in_flight] :
       {std::pair{ScheduleKind::ZeroBubbleH1, 4}, std::pair{ScheduleKind::ZeroBubbleH2, 7}}) {
    PlanRequest request = request_of(gpt(4), "tp=1,pp=4,zero=0", 16, 8);
    request.search.schedule = schedule;
    const Case made = planned_case(request);
    const auto kept = kept_activations(made.plan, made.graph, unfused());
    const double activations = framework_memory(made.plan, made.graph, unfused()).activations.si();
    const double first = in_flight * kept[0].kept.si();
    const double last = in_flight * kept[3].kept.si() + kept[3].logits.si();
    EXPECT_TRUE(activations == first || activations == last) << activations << " " << first << " " << last;
  }
}

TEST(FrameworkMemory, OfWhatIsSentCountsOnceForEachMicroBatch) {
  SoftwareProfile keeps;
  keeps.keeps_sent = true;
  const PlanRequest request = request_of(gpt(4), "tp=2,pp=2,zero=0");
  const auto with = kept_of(request, keeps), without = kept_of(request, {});
  EXPECT_DOUBLE_EQ((with[0].kept - without[0].kept).si(), 2 * kTokens * kHidden);
  EXPECT_EQ(with[1].kept, without[1].kept);
}

TEST(FrameworkMemory, CountsTheAllocatorsLossAndTheDriversOwn) {
  SoftwareProfile software;
  software.allocator_factor = 1.0;
  software.driver_gib = 0.0;
  const PlanRequest request = request_of(gpt(2), degrees(4, false));
  const Bytes plain = memory_of(request, software).with_driver();
  software.allocator_factor = 1.5;
  software.driver_gib = 2.0;
  const FrameworkMemory more = memory_of(request, software);
  EXPECT_DOUBLE_EQ(more.allocated().si(), 1.5 * plain.si());
  EXPECT_DOUBLE_EQ((more.with_driver() - more.allocated()).si(), gibibytes(2).si());
}

TEST(FrameworkMemory, OfDropoutIsItsMasksInTheFirstLayerToo) {
  SoftwareProfile dropout;
  dropout.dropout = true;
  const PlanRequest request = request_of(gpt(1), degrees(4, false));
  // A byte for each element of both residual sums.
  EXPECT_DOUBLE_EQ((kept_of(request, dropout)[0].kept - kept_of(request, {})[0].kept).si(), 2 * tokens_of(4) * kHidden);
}

TEST(FrameworkMemory, OfCopiesOfQueriesKeysAndValuesIsAShareOfThem) {
  SoftwareProfile copies;
  copies.attention_copies = 0.5;
  const double kv = kHidden / kHeads * kKvHeads;
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), copies) - layer_bytes(llama, degrees(4, false), {}),
                   0.5 * 2 * tokens_of(4) * (kHidden + 2 * kv) / 4);
}

TEST(FrameworkMemory, OfSelectionByCostHasNoRectifiersEither) {
  const auto opt = [](int layers) {
    return fmt::format("gpt2:layers={},hidden=256,heads=8,seq=128,vocab=1024,relu=1", layers);
  };
  SoftwareProfile software;
  software.selective_by_cost = true;
  // Two norms, and what the rectifier leaves of four times the width.
  EXPECT_DOUBLE_EQ(layer_bytes(opt, degrees(4, false), software) -
                       layer_bytes(opt, degrees(4, false), software, Recompute::Selective),
                   2 * tokens_of(4) * (2 * kHidden + 4 * kHidden / 4));
}

// 12 h^2 weights and 13 h of biases and norms in each layer.
constexpr double kGptLayer = 12 * kHidden * kHidden + 13 * kHidden;

TEST(FrameworkMemory, OfGatheredParametersIsALayerAtATimeAndWhatIsOutsideOfLayers) {
  SoftwareProfile software;
  software.gathered_layers = 3.0;
  const Case made = planned_case(request_of(gpt(2), "tp=1,pp=1,dp=4,zero=3", 16));
  const FrameworkMemory memory = framework_memory(made.plan, made.graph, software);
  const double outside = static_cast<double>(parameter_count(made.graph)) - 2 * kGptLayer;
  // Two bytes each: embeddings with their gradients, three layers with the gradients of one.
  EXPECT_NEAR(memory.gathered.si(), 2 * (2 * outside + (3 + 1) * kGptLayer), 1.0);
}

TEST(FrameworkMemory, OfAPipelineThatKeepsItsStageGatheredIsAllOfTheStage) {
  SoftwareProfile keeps;
  keeps.keeps_gathered_stage = true;
  keeps.gathered_layers = 1.0;
  const auto gathered = [&](const char* degrees, const SoftwareProfile& software) {
    const Case made = planned_case(request_of(gpt(8), degrees, 16));
    return framework_memory(made.plan, made.graph, software).gathered.si();
  };
  SoftwareProfile frees = keeps;
  frees.keeps_gathered_stage = false;
  // Four layers of each stage with their gradients, in the place of one and its gradients.
  EXPECT_NEAR(gathered("tp=1,pp=2,dp=2,zero=3", keeps) - gathered("tp=1,pp=2,dp=2,zero=3", frees),
              2 * 2 * (4 - 1) * kGptLayer, 1.0);
  EXPECT_EQ(gathered("tp=1,pp=1,dp=4,zero=3", keeps), gathered("tp=1,pp=1,dp=4,zero=3", frees));
}

TEST(FrameworkMemory, OfWeightsThatAreGatheredFromTheMasterCopyIsNone) {
  SoftwareProfile software;
  software.weights_from_master = true;
  const auto weights = [&](int zero) {
    const Case made = planned_case(request_of(gpt(2), fmt::format("tp=1,pp=1,dp=4,zero={}", zero), 16));
    return framework_memory(made.plan, made.graph, software).weights.si() /
           static_cast<double>(parameter_count(made.graph));
  };
  EXPECT_EQ(weights(3), 0.0);
  EXPECT_NEAR(weights(2), 2.0, 1e-9);
}

TEST(FrameworkMemory, OfStatesOnTheHostIsNone) {
  PlanRequest request = request_of(gpt(2), "tp=4");
  request.training.dtype = DType::BF16;
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  EXPECT_GT(memory_of(request, {}).optimizer, Bytes(0));
  request.training.offload = Offload::Optimizer;
  EXPECT_EQ(memory_of(request, {}).optimizer, Bytes(0));
}

// ZeRO 3 gathers them from there, a layer at a time; without it a pass has all of them.
TEST(FrameworkMemory, OfWeightsOnTheHostIsNoneWhereTheyAreGathered) {
  const auto weights = [&](int zero, Offload offload) {
    PlanRequest request = request_of(gpt(2), fmt::format("tp=1,pp=1,dp=4,zero={}", zero), 16);
    request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
    request.cluster.only().device.host_memory = Bytes(1e12);
    request.training.offload = offload;
    const Case made = planned_case(request);
    return framework_memory(made.plan, made.graph, {}).weights;
  };
  EXPECT_GT(weights(3, Offload::None), Bytes(0));
  EXPECT_EQ(weights(3, Offload::Weights), Bytes(0));
  EXPECT_EQ(weights(2, Offload::Weights), weights(2, Offload::None));
}

TEST(FrameworkMemory, OfLayersThatRecomputeIsTheirInputAndOfOthersAll) {
  const Case three = planned_case(request_of(gpt(3), degrees(4, false)));
  const double all = kept_activations(three.plan, three.graph, unfused())[0].kept.si();
  const double layer = layer_bytes(gpt, degrees(4, false), unfused());
  // The forward ops of the second layer.
  RecomputeRange second{-1, -1, Recompute::Full};
  const std::vector<OpId> forward = forward_ops(three.graph);
  for (int i = 0; i < static_cast<int>(forward.size()); ++i)
    if (three.graph.op(forward[static_cast<std::size_t>(i)]).block == 1) {
      if (second.first < 0) second.first = i;
      second.last = i;
    }
  Plan plan = three.plan;
  plan.training.recompute_ranges = {second};
  EXPECT_DOUBLE_EQ(kept_activations(plan, three.graph, unfused())[0].kept.si(),
                   all - layer + 2 * tokens_of(4) * kHidden);
}

// Of a layer, see OfALlamaLayerWithFusedAttentionHasGateUpAndProduct.
TEST(FrameworkMemory, OfModulesThatRecomputeIsWhatEntersThem) {
  const double t = tokens_of(4);
  const double norms = 2 * 2 * t * kHidden, inner = 3 * 2 * t * kFfn / 4, rows = 4 * t * kHeads / 4;
  const auto dropped = [&](RecomputeModules modules) {
    PlanRequest request = request_of(llama(1), degrees(4, false));
    const Bytes all = kept_of(request, {})[0].kept;
    request.search.recompute_modules = modules;
    return (all - kept_of(request, {})[0].kept).si();
  };
  using M = RecomputeModules;
  EXPECT_DOUBLE_EQ(dropped(M::Norms), norms);
  EXPECT_DOUBLE_EQ(dropped(M::FeedForward), inner);
  // Queries, keys and values enter it, and its result leaves it.
  EXPECT_DOUBLE_EQ(dropped(M::Attention), rows);
  EXPECT_DOUBLE_EQ(dropped(M::Norms | M::FeedForward | M::Attention), norms + inner + rows);
  // One module at a time is made again.
  PlanRequest request = request_of(llama(1), degrees(4, false));
  request.search.recompute_modules = M::FeedForward | M::Attention;
  const double attention = 2 * t * kHidden / 4 + rows;  // its result, and what belongs to it
  EXPECT_DOUBLE_EQ(kept_of(request, {})[0].working.si(), std::max(inner, attention));
}

// Results of norms and of the gate are kept in 8 bits for the products that read them, and that of attention, which
// keeps it itself, once more.
TEST(FrameworkMemory, OfProductsInEightBitsIsTheirInputsInEightBits) {
  const double t = tokens_of(4);
  SoftwareProfile software;
  const double wide = layer_bytes(llama, degrees(4, false), software);
  software.product_dtype = "f8";
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), software), wide);
  software.keeps_eight_bit_inputs = true;
  EXPECT_DOUBLE_EQ(layer_bytes(llama, degrees(4, false), software),
                   wide - 2 * t * kHidden + (t * kHidden - t * kFfn) / 4);
}

TEST(FrameworkMemory, OfExpertsThatWeighWithinIsWithoutTheirResults) {
  const PlanRequest request = request_of(
      "mixtral:layers=1,hidden=256,heads=8,kv_heads=4,intermediate=1024,seq=128,vocab=1024,experts=8,top_k=2",
      degrees(4, false));
  SoftwareProfile software;
  const Bytes kept = kept_of(request, software)[0].kept;
  software.weighs_within_experts = true;
  EXPECT_DOUBLE_EQ((kept - kept_of(request, software)[0].kept).si(), 2 * 2 * tokens_of(4) * kHidden);
}

TEST(FrameworkMemory, FitsBesideWhatTheDriverHolds) {
  EXPECT_EQ(allocator_room(gibibytes(80)), gibibytes(78));
  EXPECT_TRUE(fits_on(gibibytes(78), gibibytes(80)));
  EXPECT_FALSE(fits_on(gibibytes(78) + Bytes(1), gibibytes(80)));
  SoftwareProfile software;
  software.memory_spread = 0.5;  // four in five logarithms lie below 0.84 deviations
  EXPECT_NEAR(safe_room(gibibytes(80), software) / gibibytes(78), std::exp(-0.5 * 0.84), 1e-3);
}

TEST(FrameworkMemory, IsKnownOfTrainingOnOneKindOfDevice) {
  const Case made = planned_case(request_of(gpt(2), "tp=4"));
  SoftwareProfile software;
  EXPECT_TRUE(knows_memory(software, made.plan));
  const auto knows = [&](auto change) {
    Plan plan = made.plan;
    change(plan);
    return knows_memory(software, plan);
  };
  EXPECT_TRUE(knows([](Plan& plan) { plan.training.offload = Offload::Optimizer; }));
  EXPECT_FALSE(knows([](Plan& plan) { plan.training.offload = Offload::Activations; }));
  EXPECT_TRUE(knows([](Plan& plan) { plan.training.offload = Offload::Weights; }));
  EXPECT_FALSE(knows([](Plan& plan) { plan.schedule = ScheduleKind::Inference; }));
  EXPECT_FALSE(knows([](Plan& plan) { plan.cluster.groups.push_back(plan.cluster.groups.front()); }));
  software.memory_spread = 0.0;
  EXPECT_FALSE(knows_memory(software, made.plan));
}

}  // namespace meshwright::framework_memory_test
