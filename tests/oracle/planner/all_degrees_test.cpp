// SPDX-License-Identifier: Apache-2.0
// The degrees that a framework launches against all there are, of which its rules are asked one by one.
#include "core/planner/degrees/all_degrees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/planner/method/stage_layout.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::all_degrees_test {
namespace {

using Texts = std::set<std::string>;

std::string key_of(Degrees degrees) {
  degrees.split = {};
  return text_of(degrees) + (degrees.sequence_parallel ? " sp" : "");
}

// What the header says of degrees, beside the framework's rules. Among all schedules dualpipe-v is not: it is searched
// by name alone.
bool is_wanted(const Framework& framework, const PlanRequest& request, const ModelShape& shape, const Degrees& d) {
  const HostGroup& hosts = request.cluster.only();
  const bool has_whole = framework.whole_experts && d.ep > 1;
  const std::int64_t replica = request.training.batch / d.dp;
  return d.dp * d.tp * d.pp * d.cp == hosts.devices() && d.tp <= hosts.devices_per_host &&
         request.training.batch == replica * d.dp && replica == d.micro_batch * d.micro_batches &&
         d.pp <= std::max<std::int64_t>(1, shape.blocks) && (shape.seq > 0 || d.cp == 1) &&
         (!d.whole_experts || (has_whole && d.tp > 1)) && (!d.folded_experts || (has_whole && d.cp > 1)) &&
         (d.pp > 1 || d.schedule == ScheduleKind::OneFOneB) && d.schedule != ScheduleKind::DualPipeV &&
         (d.cp > 1 || d.context == framework.context_exchanges.front()) && (d.zero == 0 || d.dp * d.cp > 1);
}

// Stages of each rank: as many as the schedule has, or so many that the stages are equal, the embedding and the loss
// counted among the blocks or not.
bool is_even(const ModelShape& shape, const Degrees& d) {
  if (const auto fixed = traits_of(d.schedule).chunks) return d.chunks == *fixed;
  return d.chunks > 1 && (shape.blocks % d.stages() == 0 || (shape.blocks + 2) % d.stages() == 0);
}

// Every combination of degrees of up to 8 devices that some rule might allow, in turn.
Texts legal_of(const Framework& framework, const PlanRequest& request) {
  const ModelShape shape = shape_of(request.model);
  const int devices = request.cluster.devices();
  Texts found;
  const auto try_states = [&](Degrees d) {
    for (const ScheduleKind schedule : framework.schedules)
      for (d.chunks = 1; d.chunks <= 8; ++d.chunks) {
        // One stage has one order alone.
        d.schedule = d.pp == 1 && schedule == framework.schedules.front() ? ScheduleKind::OneFOneB : schedule;
        if (!is_even(shape, d)) continue;
        for (const int zero : d.pp > 1 ? framework.zero_in_pipes : framework.zero)
          for (const Recompute recompute : framework.recompute) {
            d.zero = zero;
            d.recompute = recompute;
            if (!is_wanted(framework, request, shape, d)) continue;
            if (broken_rules(framework, shape, d).empty()) found.insert(key_of(d));
          }
      }
  };
  const auto try_experts = [&](Degrees d) {
    for (d.ep = 1; d.ep <= std::max<std::int64_t>(1, shape.experts); ++d.ep)
      for (const bool whole : {false, true})
        for (const bool folded : {false, true})
          for (const ContextExchange exchange : framework.context_exchanges) {
            if (shape.experts > 0 && shape.experts % d.ep != 0) continue;
            d.whole_experts = whole;
            d.folded_experts = folded;
            d.context = exchange;
            try_states(d);
          }
  };
  for (int tp = 1; tp <= devices; ++tp)
    for (int cp = 1; tp * cp <= devices; ++cp)
      for (int pp = 1; tp * cp * pp <= devices; ++pp)
        for (std::int64_t micro_batch = 1; micro_batch <= kMaxMicroBatch; ++micro_batch) {
          Degrees d{.dp = devices / (tp * cp * pp), .tp = tp, .pp = pp, .cp = cp};
          d.sequence_parallel = framework.sequences != Framework::Sequences::Never && tp > 1;
          d.micro_batch = micro_batch;
          d.micro_batches = request.training.batch / d.dp / micro_batch;
          try_experts(d);
        }
  return found;
}

Texts texts_of(const AllDegrees& all) {
  Texts found;
  for (const Degrees& degrees : all.legal) found.insert(key_of(degrees));
  return found;
}

PlanRequest request_for(const std::string& model, int hosts, int devices_per_host, std::int64_t batch) {
  PlanRequest request = ask(model, "p3.16xlarge:1", "pipeshard", batch, Auto{});
  request.cluster.only().hosts = hosts;
  request.cluster.only().devices_per_host = devices_per_host;
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  return request;
}

constexpr const char* kDense = "llama:layers=6,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=16,vocab=64";
constexpr const char* kExperts = "moe:layers=2,hidden=32,heads=4,seq=16,vocab=64,experts=4";

TEST(AllDegrees, AreThoseAmongAllThatTheFrameworksRulesAllow) {
  for (const char* name : {"megatron", "torchtitan", "deepspeed", "fsdp", "maxtext", "nnscaler"}) {
    const Framework& framework = find_framework(name);
    for (const PlanRequest& request : {request_for(kDense, 1, 4, 24), request_for(kDense, 2, 3, 6),
                                       request_for(kExperts, 2, 2, 8), request_for(kExperts, 1, 8, 8)}) {
      SCOPED_TRACE(fmt::format("{}, {} devices, batch {}", name, request.cluster.devices(), request.training.batch));
      const AllDegrees all = all_degrees(framework, request);
      const Texts found = texts_of(all), legal = legal_of(framework, request);
      for (const std::string& text : found) EXPECT_TRUE(legal.contains(text)) << text;
      for (const std::string& text : legal) EXPECT_TRUE(found.contains(text)) << text;
      EXPECT_EQ(found.size(), all.legal.size());
      std::int64_t broken = 0;
      for (const auto& [rule, count] : all.broken) {
        broken += count;
        // What the framework has no setting for is not tried.
        EXPECT_EQ(rule.find("has no whole experts"), std::string::npos) << rule;
        EXPECT_EQ(rule.find("has no experts of ep="), std::string::npos) << rule;
      }
      EXPECT_EQ(all.tried, static_cast<std::int64_t>(all.legal.size()) + broken);
    }
  }
}

// What the request gives leaves those that have it.
TEST(AllDegrees, HaveWhatTheRequestGives) {
  const Framework& framework = find_framework("megatron");
  PlanRequest request = request_for(kDense, 1, 4, 24);
  const AllDegrees free = all_degrees(framework, request);
  const auto left = [&](const auto& keep) {
    Texts found;
    for (const Degrees& degrees : free.legal)
      if (keep(degrees)) found.insert(key_of(degrees));
    EXPECT_GT(found.size(), 0u);
    EXPECT_LT(found.size(), free.legal.size());
    return found;
  };
  PlanRequest given = request;
  given.search.microbatches = std::int64_t{6};
  EXPECT_EQ(texts_of(all_degrees(framework, given)), left([](const Degrees& d) { return d.micro_batches == 6; }));
  given = request;
  given.search.chunks = 3;
  EXPECT_EQ(texts_of(all_degrees(framework, given)),
            left([](const Degrees& d) { return d.schedule != ScheduleKind::Interleaved || d.chunks == 3; }));
  given = request;
  given.search.recompute = Recompute::Selective;
  EXPECT_EQ(texts_of(all_degrees(framework, given)),
            left([](const Degrees& d) { return d.recompute == Recompute::Selective; }));
  given = request;
  given.search.schedule = ScheduleKind::OneFOneB;
  EXPECT_EQ(texts_of(all_degrees(framework, given)),
            left([](const Degrees& d) { return d.schedule == ScheduleKind::OneFOneB; }));
}

// A module for a further token is beside the loss, on the last stage of a layout that parts the blocks alone.
TEST(AllDegrees, HaveFurtherModulesBesideTheLossOfEveryPipeline) {
  const PlanRequest request = request_for(
      "decoder:layers=4,hidden=16,heads=4,kv_heads=2,head_dim=4,intermediate=8,seq=8,vocab=16,mtp=1", 1, 4, 8);
  const AllDegrees all = all_degrees(find_framework("megatron"), request);
  int pipelines = 0, chunked = 0;
  for (const Degrees& degrees : all.legal) {
    if (degrees.pp == 1) {
      EXPECT_FALSE(degrees.split.uneven()) << text_of(degrees);
      continue;
    }
    ++pipelines;
    chunked += degrees.chunks > 1 ? 1 : 0;
    const std::vector<std::string> stages = stages_of_layout(degrees.split.layout, "test");
    ASSERT_EQ(stages.size(), static_cast<std::size_t>(degrees.stages())) << text_of(degrees);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const std::string blocks(static_cast<std::size_t>(4 / degrees.stages()), 't');
      EXPECT_EQ(stages[s], (s == 0 ? "E" : "") + blocks + (s + 1 == stages.size() ? "mL" : "")) << text_of(degrees);
    }
  }
  EXPECT_GT(pipelines, 0);
  EXPECT_GT(chunked, 0);
}

}  // namespace
}  // namespace meshwright::all_degrees_test
