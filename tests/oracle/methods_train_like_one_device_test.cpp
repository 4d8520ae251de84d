// SPDX-License-Identifier: Apache-2.0
// Every parallel method, and every way to narrow the search, gives programs that train the weights one device trains
// when it runs the same microbatches without any plan, and that take the memory that was predicted, to the byte. In
// f64 only the order of sums differs. Adam divides a gradient by its own size, so where the true gradient is zero (the
// bias of attention's keys) it makes rounding as large as a step: cases with such a parameter train by momentum.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <limits>
#include <ostream>

#include "executor/executor.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {
namespace {

constexpr double kSame = 1e-12;
constexpr RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

const char* const kLlama = "llama:layers=2,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=8,vocab=32";
const char* const kMixtral =
    "mixtral:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=4,top_k=2";
const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=32";
const char* const kNeox = "gpt_neox:layers=2,hidden=32,heads=4,seq=8,vocab=32";
const char* const kBert = "bert:layers=1,hidden=32,heads=4,seq=8,vocab=32";
const char* const kMlp = "mlp:layers=2,hidden=16";

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
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

PlanRequest request_of(const Case& c) {
  PlanRequest request = ask(c.model, fmt::format("cpu:{}", c.devices), c.method, 16, c.microbatches);
  request.training.dtype = DType::F32;
  request.training.optimizer = c.optimizer;
  request.training.recompute = c.recompute;
  request.training.loss = c.loss;
  request.logical_mesh = c.logical_mesh;
  request.batch_axis = c.batch_axis;
  for (const std::string& text : c.forced) add_forced(request.forced, text);
  request.layers = request.method.one_stage() ? 0 : 2;
  return request;
}

// Largest deviation of a loss or a weight, relative to the largest number of its tensor; infinite for no number.
double deviation(const RunResult& run, const RunResult& truth) {
  double worst = 0.0;
  const auto note = [&](double apart, double scale) {
    const double relative = scale > 0.0 ? apart / scale : apart;
    worst = std::max(worst, std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative);
  };
  EXPECT_EQ(run.losses.size(), truth.losses.size());
  EXPECT_EQ(run.weights.size(), truth.weights.size());
  for (std::size_t step = 0; step < truth.losses.size(); ++step)
    note(std::abs(run.losses[step] - truth.losses[step]), std::abs(truth.losses[step]));
  for (const auto& [name, values] : truth.weights) {
    const std::vector<double>& other = run.weights.at(name);
    double scale = 0.0;
    for (const double value : values) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < values.size(); ++i) note(std::abs(other.at(i) - values[i]), scale);
  }
  return worst;
}

class MethodProgram : public testing::TestWithParam<Case> {};

TEST_P(MethodProgram, TrainsLikeOneDevice) {
  const PlanRequest request = request_of(GetParam());
  const PlanningResult planned = meshwright::planned(request);
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  const RunResult run = run_program(planned.graph, planned.program, planned.check, kTwoSteps);
  const RunResult truth = run_reference(build_training_graph(request.model, request.training), kTwoSteps);
  EXPECT_LE(deviation(run, truth), kSame);
  EXPECT_EQ(run.peak_memory, planned.check.peak_memory);
}

std::vector<Case> methods() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const char* model, int devices, const std::string& method,
                       int microbatches = 1) -> Case& {
    cases.push_back({fmt::format("{}_{}", name, microbatches), model, devices, method, microbatches});
    return cases.back();
  };
  const auto all = [&](const char* name, const char* model, const std::vector<std::string>& methods) {
    for (const int devices : {4, 8})
      for (const std::string& method : methods)
        for (const int m : {1, 2}) add(fmt::format("{}_{}_{}", name, method, devices), model, devices, method, m);
  };
  all("llama", kLlama, {"data", "zero1", "zero2", "zero3", "shard", "context:cp=2", "context:cp=4", "megatron:tp=2", "megatron:tp=2,cp=2", "megatron:tp=2,sp=1", "megatron:tp=2,cp=2,sp=1", "rules:batch=0,heads=1,mlp=1,kv_heads=1"});
  all("mixtral", kMixtral, {"data", "zero1", "zero2", "zero3", "shard", "expert:ep=2", "expert:ep=4", "context:cp=2", "megatron:tp=2,ep=2", "megatron:tp=2,cp=2", "megatron:ep=2,cp=2", "megatron:tp=2,ep=2,sp=1", "megatron:ep=2,pp=2", "rules:batch=0,expert=1"});
  all("gpt", kGpt, {"data", "zero1", "zero2", "zero3", "shard", "megatron:tp=2", "megatron:tp=2,sp=1", "megatron:tp=2,pp=2", "expert:ep=2", "rules:batch=0,heads=1,mlp=1,vocab=1"});
  all("bert", kBert, {"zero1", "zero3", "shard", "context:cp=2", "megatron:tp=2,sp=1", "rules:batch=0,seq=1"});
  all("neox", kNeox, {"zero2", "shard", "context:cp=2", "megatron:tp=4", "megatron:tp=2,sp=1"});
  for (const char* model : {kLlama, kMixtral, kGpt, kBert, kNeox}) {
    const std::string name = std::string(model).substr(0, std::string(model).find(':'));
    for (const int m : {1, 2}) {
      add(name + "_2x2x2", model, 8, "shard", m).logical_mesh = {2, 2, 2};
      add(name + "_1x4", model, 4, "shard", m).logical_mesh = {1, 4};
      add(name + "_batch_axis", model, 4, "shard", m).batch_axis = 0;
      Case& c = add(name + "_batch_axis_1", model, 4, "shard", m);
      c.batch_axis = 1;
      c.logical_mesh = {2, 2};
    }
  }
  for (const auto loss : {LossReduction::Mean, LossReduction::Sum, LossReduction::TokenWeighted})
    for (const auto recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
      for (const auto kind : {Optimizer::Kind::Sgd, Optimizer::Kind::Momentum, Optimizer::Kind::Adam})
        for (const char* method : {"zero1", "zero2", "zero3", "shard", "context:cp=2"})
          for (const int m : {1, 2}) {
            Case& c = add(fmt::format("options_{}_{}_{}_{}", name_of(loss), static_cast<int>(recompute), static_cast<int>(kind), method), kLlama, 4, method, m);
            c.loss = loss;
            c.recompute = recompute;
            c.optimizer = {.kind = kind, .learning_rate = 1e-3, .momentum = 0.5, .weight_decay = 0.125, .max_norm = 0.5};
          }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodProgram, testing::ValuesIn(methods()), [](const auto& test) {
  std::string name = test.param.name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

}  // namespace
}  // namespace meshwright
