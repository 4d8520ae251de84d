// SPDX-License-Identifier: Apache-2.0
// Plans are the single-device program to the bit: over integers modulo a prime, losses, gradients, parameters and
// states of every device are those of one device alone.
//
// EXACT_PLANS and EXACT_SEED draw another number of plans, and others (experiments/exact).
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "tests/oracle/exact/drawn_plan.h"

namespace meshwright::exact_plans_test {
namespace {

struct Tally {
  std::map<std::string, int> families, methods, schedules;
  int plans = 0, requests = 0, tiles = 0;

  void add(const DrawnPlan& drawn, const ExactCheck& check) {
    ++plans;
    ++families[drawn.family];
    ++methods[drawn.method.substr(0, drawn.method.find(':'))];
    ++schedules[drawn.has_pipeline() ? drawn.schedule : "one stage"];
    for (const ExactClass& of : check.classes) tiles += static_cast<int>(of.tiles);
  }
  void print() const {
    const auto list = [](const char* what, const std::map<std::string, int>& of) {
      std::cout << what;
      for (const auto& [name, count] : of) std::cout << " " << name << " " << count;
      std::cout << "\n";
    };
    std::cout << plans << " plans of " << requests << " requests, " << tiles << " tiles compared\n";
    list("families:", families);
    list("methods:", methods);
    list("schedules:", schedules);
  }
};

TEST(ExactPlans, DrawnOnesAreTheSingleDeviceProgram) {
  const std::uint64_t count = number_given("EXACT_PLANS", 60), seed = number_given("EXACT_SEED", 1);
  Tally tally;
  const std::uint64_t first = number_given("EXACT_FIRST", 0);
  for (std::uint64_t number = first; static_cast<std::uint64_t>(tally.plans) < count; ++number) {
    ASSERT_LT(number, first + 20 * count + 100) << "hardly a request has a plan";
    Drawing draw(seed * 1'000'000 + number);
    ++tally.requests;
    const std::optional<DrawnPlan> drawn = drawn_plan(draw);
    if (!drawn) continue;
    if (std::getenv("EXACT_WHY")) std::cout << "number " << number << " " << drawn->text << std::endl;
    try {
      const RunResult run = run_exactly(drawn->planned.graph, drawn->planned.program, drawn->planned.check, seed);
      const ExactCheck check = compare_exactly(drawn->planned.graph, run, reference_of(*drawn, seed));
      tally.add(*drawn, check);
      EXPECT_EQ(difference_in(check), "") << "number " << number << ": " << drawn->text;
      for (const ExactClass& of : check.classes)
        EXPECT_TRUE(of.tiles > 0 || of.name == "optimizer states") << of.name << " of number " << number;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "number " << number << ": " << drawn->text << ": " << error.what();
      ++tally.plans;
    }
  }
  tally.print();
}

// Copies of stages: weights that are split, padded or read by two stages, a norm of all gradients, tokens that choose
// experts, sums that are scaled by a loss, and what recomputes or waits on the host.
TEST(ExactPlans, WithCopiesOfTheirStagesAreTheSingleDeviceProgram) {
  struct Case {
    std::string model, method;
    int devices, microbatches, parts_of_batch, layers;
    Optimizer::Kind optimizer = Optimizer::Kind::Adam;
    Recompute recompute = Recompute::None;
    Offload offload = Offload::None;
    LossReduction loss = LossReduction::Mean;
  };
  using enum Optimizer::Kind;
  const std::string gpt = "gpt:layers=4,hidden=16,heads=4,seq=8,vocab=33";
  const std::string llama = "llama:layers=4,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=33";
  const std::string mixtral =
      "mixtral:layers=2,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=4,vocab=16,experts=4,top_k=2";
  const std::vector<Case> cases = {
      {"mlp:layers=8,hidden=16", "megatron:pp=2", 2, 4, 1, 2},
      {"mlp:layers=8,hidden=20", "megatron:pp=4", 4, 10, 1, 5, Momentum},
      {gpt, "megatron:pp=2", 2, 4, 1, 3, Adam, Recompute::Full},
      {gpt, "megatron:tp=2,pp=2", 4, 6, 1, 2, Adafactor},
      {gpt, "megatron:tp=1,pp=2,zero=1", 6, 4, 3, 2},
      {gpt, "megatron:tp=1,pp=2,zero=3,sp=1", 4, 4, 2, 2, Adam, Recompute::Selective},
      {gpt, "megatron:tp=2,pp=4,zero=2", 8, 8, 1, 4, Adam, Recompute::None, Offload::Optimizer},
      {llama, "megatron:pp=2,cp=2,cp-comm=p2p", 4, 4, 1, 2, Adam, Recompute::None, Offload::Weights},
      {mixtral, "megatron:tp=1,pp=2,ep=2", 4, 4, 2, 2, Sgd, Recompute::None, Offload::None,
       LossReduction::TokenWeighted},
      {gpt, "pipeshard", 4, 8, 2, 4, Adam, Recompute::None, Offload::Activations, LossReduction::Sum},
  };
  for (const Case& c : cases) {
    DrawnPlan drawn;
    drawn.text = fmt::format("{} by {} on {} devices", c.model, c.method, c.devices);
    SCOPED_TRACE(drawn.text);
    drawn.request =
        ask(c.model, fmt::format("cpu:{}", c.devices), c.method, c.microbatches * c.parts_of_batch, c.microbatches);
    PlanRequest& request = drawn.request;
    request.training.dtype = DType::F32;
    request.training.optimizer = {.kind = c.optimizer, .learning_rate = 0.125, .max_norm = 0.5};
    request.training.loss = c.loss;
    request.training.offload = c.offload;
    request.search.recompute = c.recompute;
    request.search.layers = c.layers;
    request.search.schedule = ScheduleKind::DualPipe;
    if (c.offload != Offload::None) {
      request.cluster.only().device.host_memory = Bytes(1e9);
      request.cluster.only().device.host_bandwidth = BytesPerSecond(1e10);
    }
    drawn.planned = planned(request);
    ASSERT_TRUE(drawn.planned.plan.has_value()) << drawn.planned.reason;
    EXPECT_EQ(drawn.planned.plan->schedule, ScheduleKind::DualPipe);
    const RunResult run = run_exactly(drawn.planned.graph, drawn.planned.program, drawn.planned.check, 1);
    const ExactCheck check = compare_exactly(drawn.planned.graph, run, reference_of(drawn, 1));
    EXPECT_EQ(difference_in(check), "");
    for (const ExactClass& of : check.classes) EXPECT_TRUE(of.tiles > 0 || of.name == "optimizer states") << of.name;
  }
}

}  // namespace
}  // namespace meshwright::exact_plans_test
