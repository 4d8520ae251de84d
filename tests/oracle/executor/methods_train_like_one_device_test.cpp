// SPDX-License-Identifier: Apache-2.0
// Every parallel method, and every way to narrow the search, gives programs that train the weights one device trains
// when it runs the same microbatches without any plan, and that take the memory that was predicted, to the byte. In
// f64 only the order of sums differs. Adam divides a gradient by its own size, so where the true gradient is zero (the
// bias of attention's keys) it makes rounding as large as a step: cases with such a parameter train by momentum.
#include <gtest/gtest.h>

#include <cctype>
#include <ostream>

#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/deviation.h"
#include "tests/refusal.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::methods_train_like_one_device_test {
namespace {

constexpr double kSame = 1e-12;
const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

const char* const kLlama = "llama:layers=2,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=8,vocab=32";
// With as many heads of keys as of queries.
const char* const kHeads = "llama:layers=2,hidden=32,heads=4,kv_heads=4,intermediate=64,seq=8,vocab=32";
const char* const kMixtral =
    "mixtral:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=4,top_k=2";
const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=32";
const char* const kNeox = "gpt_neox:layers=2,hidden=32,heads=4,seq=8,vocab=32";
const char* const kBert = "bert:layers=1,hidden=32,heads=4,seq=8,vocab=32";
// With an expert that every token meets.
const char* const kShared =
    "mixtral:layers=1,hidden=64,heads=4,kv_heads=4,intermediate=64,seq=32,vocab=32,experts=4,top_k=2,"
    "shared_intermediate=64";

struct Case {
  std::string name;
  const char* model;
  int devices;
  std::string method;
  int microbatches = 1;
  Optimizer optimizer = {.kind = Optimizer::Kind::Momentum, .learning_rate = 1e-2};
  Recompute recompute = Recompute::None;
  LossReduction loss = LossReduction::Mean;
  std::vector<int> logical_mesh = {};
  std::optional<int> batch_axis = {};
  std::vector<std::string> forced = {};
  std::int64_t batch = 16;
  Offload offload = Offload::None;
  int layers = 2;  // of methods with several stages
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

PlanRequest request_of(const Case& c) {
  const bool specs = c.method == "specs";
  PlanRequest request =
      ask(c.model, fmt::format("cpu:{}", c.devices), specs ? "shard" : c.method, c.batch, c.microbatches);
  request.training.dtype = DType::F32;
  request.training.optimizer = c.optimizer;
  request.search.recompute = c.recompute;
  request.training.loss = c.loss;
  request.training.offload = c.offload;
  request.cluster.only().device.host_memory = Bytes(1e9);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e10);
  if (!c.logical_mesh.empty()) request.search.logical_mesh = c.logical_mesh;
  request.search.batch_axis = c.batch_axis;
  if (specs) request.search.method.kind = Method::Kind::Specs;
  for (const std::string& text : c.forced)
    add_forced(specs ? request.search.method.forced : request.search.forced, text);
  if (!request.search.method.one_stage()) request.search.layers = c.layers;
  return request;
}

class MethodProgram : public testing::TestWithParam<Case> {};

TEST_P(MethodProgram, TrainsLikeOneDevice) {
  const PlanRequest request = request_of(GetParam());
  const Planned planned = meshwright::planned(request);
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  const RunResult run = run_program(planned.graph, planned.program, planned.check, kTwoSteps);
  const RunResult truth =
      run_reference(build_training_graph(request.model, request.training_with(GetParam().microbatches)), kTwoSteps);
  EXPECT_LE(deviation(run, truth), kSame);
  EXPECT_EQ(run.peak_memory, planned.check.peak_memory);
}

// Each method on 4 devices with two microbatches and on 8 with one.
void add_methods(std::vector<Case>& cases, const char* name, const char* model,
                 const std::vector<std::string>& methods) {
  for (const std::string& method : methods)
    for (const auto& [devices, microbatches] : {std::pair{4, 2}, std::pair{8, 1}})
      cases.push_back({fmt::format("{}_{}_{}", name, method, devices), model, devices, method, microbatches});
}

std::vector<Case> methods() {
  std::vector<Case> cases;
  add_methods(cases, "llama", kLlama,
              {"data",
               "zero1",
               "zero2",
               "zero3",
               "largest",
               "shard",
               "context:cp=2",
               "context:cp=4",
               "context:cp=2,cp-comm=a2a",
               "megatron:cp=2,pp=2,cp-comm=a2a",
               "context:cp=2,cp-comm=p2p",
               "context:cp=4,cp-comm=p2p",
               "megatron:tp=2,cp=2,cp-comm=p2p",
               "megatron:cp=2,pp=2,cp-comm=p2p",
               "megatron:tp=2,cp=2",
               "megatron:tp=2,sp=1",
               "megatron:tp=2,cp=2,sp=1",
               "megatron:cp=2,pp=2",
               "rules:batch=0,kv_heads=1,mlp=1",
               "rules:seq=0,batch=1"});
  add_methods(cases, "mixtral", kMixtral,
              {"data",
               "zero1",
               "zero2",
               "zero3",
               "largest",
               "shard",
               "expert:ep=2",
               "expert:ep=4",
               "context:cp=2",
               "megatron:tp=2,ep=2",
               "megatron:tp=2,cp=2",
               "megatron:ep=2,cp=2",
               "megatron:tp=2,ep=2,sp=1",
               "megatron:ep=2,pp=2",
               "megatron:ep=2,exact=1",
               "megatron:ep=4,exact=1,zero=1",
               "megatron:tp=2,ep=2,exact=1,sp=1",
               "megatron:tp=2,ep=4,exact=1,etp=1,sp=1",
               "megatron:ep=2,cp=2,exact=1",
               "megatron:ep=2,cp=2,cp-comm=a2a,exact=1,zero=1",
               "megatron:ep=2,cp=2,exact=1,fold=1",
               "megatron:tp=2,cp=2,ep=4,exact=1,etp=1,fold=1,sp=1,zero=1",
               "rules:batch=0,expert=1",
               "rules:expert=0,mlp=1,vocab=0"});
  add_methods(
      cases, "gpt", kGpt,
      {"context:cp=4,cp-comm=a2a", "zero1", "zero2", "megatron:tp=2,sp=1", "rules:batch=0,heads=1,mlp=1,vocab=1"});
  add_methods(
      cases, "bert", kBert,
      {"zero1", "zero3", "context:cp=2", "context:cp=4,cp-comm=a2a", "megatron:tp=2,sp=1", "rules:batch=0,seq=1"});
  add_methods(cases, "neox", kNeox, {"zero2", "shard", "context:cp=2", "megatron:tp=4", "megatron:tp=2,sp=1"});
  add_methods(cases, "shared", kShared, {"megatron:tp=2", "megatron:tp=2,ep=2", "expert:ep=2"});
  return cases;
}

std::vector<Case> shapes_and_axes() {
  std::vector<Case> cases;
  for (const char* model : {kLlama, kMixtral, kGpt, kBert, kNeox}) {
    const std::string family = std::string(model).substr(0, std::string(model).find(':'));
    const auto add = [&](const char* name, int devices, std::vector<int> mesh, int microbatches) -> Case& {
      cases.push_back({fmt::format("{}_{}", family, name), model, devices, "shard", microbatches});
      cases.back().logical_mesh = std::move(mesh);
      return cases.back();
    };
    add("2x2x2", 8, {2, 2, 2}, 2);
    add("1x4", 4, {1, 4}, 1);
    add("batch_on_axis_0", 4, {}, 2).batch_axis = 0;
    add("batch_on_axis_1", 4, {2, 2}, 1).batch_axis = 1;
    add("batch_on_axis_2", 8, {2, 2, 2}, 1).batch_axis = 2;
  }
  // So many stages that the loss is cut: its backward reads what an earlier stage made, and no forward op reads there.
  cases.push_back({"llama_cut_within_the_loss",
                   "llama:layers=2,hidden=40,heads=2,seq=32,vocab=32,kv_heads=2,intermediate=64", 24,
                   "megatron:tp=1,pp=24", 4});
  cases.back().layers = 24;
  return cases;
}

// All pairs of loss, recomputation and optimizer meet under each method.
std::vector<Case> ways_of_training() {
  const LossReduction losses[] = {LossReduction::Mean, LossReduction::Sum, LossReduction::TokenWeighted};
  const Recompute recomputations[] = {Recompute::None, Recompute::Selective, Recompute::Full};
  const Optimizer::Kind optimizers[] = {Optimizer::Kind::Sgd, Optimizer::Kind::Momentum, Optimizer::Kind::Adam};
  std::vector<Case> cases;
  for (const char* method :
       {"zero1", "zero2", "zero3", "shard", "context:cp=2", "context:cp=2,cp-comm=a2a", "context:cp=4,cp-comm=p2p"})
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        Case c{fmt::format("{}_{}_{}", method, i, j), kLlama, 4, method, static_cast<int>(cases.size() % 2) + 1};
        c.loss = losses[i];
        c.recompute = recomputations[j];
        // Clipping takes hold: the norm of these gradients is above 0.5.
        c.optimizer = {.kind = optimizers[(i + j) % 3],
                       .learning_rate = 1e-3,
                       .momentum = 0.5,
                       .weight_decay = 0.125,
                       .max_norm = 0.5};
        cases.push_back(std::move(c));
      }
  return cases;
}

// On numbers of devices that divide no dimension of the models: parameters, gradients and states are padded. Some have
// fewer rows than there are devices.
std::vector<Case> padded_parameters() {
  std::vector<Case> cases;
  for (const char* method : {"zero1", "zero2", "zero3"})
    for (const auto& [name, model] :
         {std::pair{"gpt", kGpt}, std::pair{"llama", kLlama}, std::pair{"mixtral", kMixtral}})
      for (const auto& [devices, microbatches] : {std::pair{3, 2}, std::pair{5, 1}, std::pair{7, 2}}) {
        Case c{fmt::format("{}_{}_{}", name, method, devices), model, devices, method, microbatches};
        c.batch = 2 * devices;
        // The norm is of the gradients alone, whatever is behind them.
        c.optimizer.max_norm = 0.5;
        cases.push_back(std::move(c));
      }
  for (const Optimizer::Kind kind : {Optimizer::Kind::Sgd, Optimizer::Kind::Adam})
    for (const char* method : {"zero1", "zero2", "zero3"}) {
      Case c{fmt::format("llama_{}_{}", method, kind == Optimizer::Kind::Adam ? "adam" : "sgd"), kLlama, 3, method, 2};
      c.batch = 6;
      c.optimizer = {.kind = kind, .learning_rate = 1e-3, .weight_decay = 0.125};
      cases.push_back(std::move(c));
    }
  return cases;
}

// Moments of parts of a weight's dimensions, whose means go over all devices that split the weight.
std::vector<Case> adafactor() {
  std::vector<Case> cases;
  for (const auto& [model, method, devices] :
       {std::tuple{kLlama, "data", 4}, std::tuple{kLlama, "zero1", 4}, std::tuple{kLlama, "zero2", 4},
        std::tuple{kLlama, "zero3", 4}, std::tuple{kLlama, "zero1", 3}, std::tuple{kLlama, "zero3", 7},
        std::tuple{kLlama, "shard", 4}, std::tuple{kLlama, "megatron:tp=2,sp=1", 4},
        std::tuple{kLlama, "megatron:tp=2,pp=2,zero=1", 8}, std::tuple{kLlama, "megatron:pp=2,zero=3", 6},
        std::tuple{kMixtral, "zero3", 5}, std::tuple{kMixtral, "megatron:ep=2,exact=1,zero=1", 4}})
    for (const double max_norm : {0.0, 0.5}) {
      Case c{fmt::format("{}_{}_{}_{}", model == kLlama ? "llama" : "mixtral", method, devices,
                         max_norm > 0.0 ? "clipped" : "plain"),
             model, devices, method, 2};
      c.batch = 4 * devices;
      c.optimizer = {
          .kind = Optimizer::Kind::Adafactor, .learning_rate = 1e-2, .weight_decay = 0.125, .max_norm = max_norm};
      cases.push_back(std::move(c));
    }
  return cases;
}

// The same numbers, in other memory: moments of every optimizer, whole, split and padded, in one stage and in several.
std::vector<Case> states_on_hosts() {
  std::vector<Case> cases;
  for (const Optimizer::Kind kind : {Optimizer::Kind::Momentum, Optimizer::Kind::Adam, Optimizer::Kind::Adafactor})
    for (const auto& [method, devices] : {std::pair{"data", 4}, std::pair{"zero1", 3}, std::pair{"zero3", 4},
                                          std::pair{"megatron:tp=2,pp=2,zero=1", 8}}) {
      Case c{fmt::format("{}_{}", name_of(kind), method), kLlama, devices, method, 2};
      c.batch = 4 * devices;
      c.optimizer = {.kind = kind, .learning_rate = 1e-3, .max_norm = 0.5};
      c.offload = Offload::Optimizer;
      cases.push_back(std::move(c));
    }
  return cases;
}

// What passes read is copied to the device first, and what the backward needs to the host: of every schedule's halves,
// of recomputed layers, of weights that are gathered from their parts, and of both stages of a tied table.
std::vector<Case> passes_from_hosts() {
  std::vector<Case> cases;
  for (const Offload offload :
       {Offload::Activations, Offload::Weights, Offload::Optimizer | Offload::Activations | Offload::Weights})
    for (const auto& [model, method, devices] :
         {std::tuple{kLlama, "data", 4}, std::tuple{kLlama, "zero1", 3}, std::tuple{kLlama, "zero3", 4},
          std::tuple{kLlama, "shard", 4}, std::tuple{kMixtral, "megatron:ep=2,pp=2", 4},
          std::tuple{kGpt, "megatron:tp=2,pp=2,zero=1", 8}, std::tuple{kLlama, "context:cp=4,cp-comm=p2p", 4}})
      for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
        Case c{fmt::format("{}_{}_{}_{}", name_of(offload),
                           model == kLlama ? "llama"
                           : model == kGpt ? "gpt"
                                           : "mixtral",
                           method, name_of(recompute)),
               model, devices, method, 2};
        c.batch = 4 * devices;
        c.optimizer = {.kind = Optimizer::Kind::Adam, .learning_rate = 1e-3, .max_norm = 0.5};
        c.offload = offload;
        c.recompute = recompute;
        cases.push_back(std::move(c));
      }
  return cases;
}

// Two samples for each device, and gradients whose norm is above what it is clipped to: the norm needs every shard.
Case clipped(const std::string& method, const char* model, int devices) {
  Case c{fmt::format("{}_of_{}", method, devices), model, devices, method, 2};
  c.batch = 2 * devices;
  c.optimizer.max_norm = 0.5;
  return c;
}

// Over the data-parallel axis of Megatron, whose other axes split the same parameters, in one stage and in several: of
// the latter the first and the last read one table.
std::vector<Case> padded_in_megatron() {
  std::vector<Case> cases;
  for (const char* zero : {"zero=1", "zero=2", "zero=3"})
    for (const auto& [model, degrees, devices] :
         {std::tuple{kLlama, "tp=2", 6}, std::tuple{kGpt, "pp=2", 6}, std::tuple{kGpt, "tp=2,pp=2,sp=1,exact=1", 12},
          std::tuple{kMixtral, "ep=2,exact=1", 6}, std::tuple{kMixtral, "pp=2", 10}}) {
      const std::string method = fmt::format("megatron:{},{}", degrees, zero);
      cases.push_back(clipped(method, model, devices));
    }
  return cases;
}

// Copies of groups that split within themselves.
std::vector<Case> hybrid_sharding() {
  std::vector<Case> cases;
  for (const char* level : {"zero1", "zero2", "zero3"})
    for (const auto& [devices, shard] :
         {std::pair{4, 2}, std::pair{8, 4}, std::pair{6, 3}, std::pair{4, 4}, std::pair{3, 1}}) {
      const std::string method = fmt::format("{}:shard={}", level, shard);
      cases.push_back(clipped(method, devices == 6 ? kMixtral : kLlama, devices));
    }
  return cases;
}

std::vector<Case> forced_specs() {
  std::vector<Case> cases;
  const std::vector<std::vector<std::string>> some = {
      {"blk0.mlp.up=S0RR"},                        // a result
      {"blk0.mlp.up=RRS01", "blk1.mlp.up=S01RR"},  // of equal layers, differently
      {"blk0.mlp.up.weight=S1S0"},                 // a weight
      {"blk0.mlp.residual=RS0S1"},                 // between two layers
      {"embed=RRR", "wte=S01R", "blk1.attn.q=S0RS1RR", "head.weight=RS1"},
  };
  for (std::size_t i = 0; i < some.size(); ++i)
    for (const char* method : {"shard", "specs"}) {
      Case c{fmt::format("{}_{}", method, i), kLlama, 4, method, 2};
      c.logical_mesh = {2, 2};
      c.forced = some[i];
      cases.push_back(std::move(c));
    }
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodProgram, testing::ValuesIn(methods()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Shapes, MethodProgram, testing::ValuesIn(shapes_and_axes()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Training, MethodProgram, testing::ValuesIn(ways_of_training()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Adafactor, MethodProgram, testing::ValuesIn(adafactor()), name_of_case);
INSTANTIATE_TEST_SUITE_P(StatesOnHosts, MethodProgram, testing::ValuesIn(states_on_hosts()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Padded, MethodProgram, testing::ValuesIn(padded_parameters()), name_of_case);
INSTANTIATE_TEST_SUITE_P(PaddedInMegatron, MethodProgram, testing::ValuesIn(padded_in_megatron()), name_of_case);
INSTANTIATE_TEST_SUITE_P(PassesFromHosts, MethodProgram, testing::ValuesIn(passes_from_hosts()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Hybrid, MethodProgram, testing::ValuesIn(hybrid_sharding()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Forced, MethodProgram, testing::ValuesIn(forced_specs()), name_of_case);

// --- the cases above hold what they are there for ---

int count_ops(const Plan& plan, bool (*is)(const OpSharding&)) {
  int count = 0;
  for (const StagePlan& stage : plan.stages)
    for (const auto& [name, sharding] : stage.ops) count += is(sharding) ? 1 : 0;
  return count;
}

// Routed and shared experts are each summed over the tensor-parallel devices: one all-reduce behind their sum.
TEST(PartialSums, GoThroughTheSumOfRoutedAndSharedExperts) {
  const Planned planned = meshwright::planned(request_of({"", kShared, 4, "megatron:tp=2", 2}));
  ASSERT_TRUE(planned.plan) << planned.reason;
  EXPECT_EQ(count_ops(*planned.plan, [](const OpSharding& op) { return op.partial != 0; }), 1);
  EXPECT_EQ(planned.plan->stages.at(0).ops.at("blk0.moe.sum").partial, 2);
}
// No dimension of these models is a multiple of 7.
TEST(PaddedParameters, AreSplitOverAllDevices) {
  for (const char* model : {kGpt, kLlama, kMixtral}) {
    Case c{"", model, 7, "zero3", 2};
    c.batch = 14;
    const Planned planned = meshwright::planned(request_of(c));
    ASSERT_TRUE(planned.plan) << planned.reason;
    for (const auto& [name, sharding] : planned.plan->stages.at(0).parameters) {
      EXPECT_EQ(sharding.weight.used(), 1) << name;
      EXPECT_EQ(sharding.state, sharding.weight) << name;
    }
  }
}
TEST(EagerGradients, AreSynchronisedInBothMicrobatchesOfZero2) {
  const Planned planned = meshwright::planned(request_of({"", kLlama, 4, "zero2", 2}));
  ASSERT_TRUE(planned.plan) << planned.reason;
  int eager = 0, split = 0;
  for (const auto& [name, sharding] : planned.plan->stages.at(0).parameters) {
    eager += sharding.eager ? 1 : 0;
    split += sharding.state.used() != 0 ? 1 : 0;
  }
  EXPECT_GT(eager, 0);
  EXPECT_EQ(eager, split);
}

}  // namespace
}  // namespace meshwright::methods_train_like_one_device_test
