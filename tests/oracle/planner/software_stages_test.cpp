// SPDX-License-Identifier: Apache-2.0
// What the search takes stages for, before it lowers them, beside their lowered programs, where a software hides a part
// of its communication, waits for messages, and issues its work from a host.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "costmodel/sheets/software_profile.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::software_stages_test {
namespace {

// For each plan that the search simulated: its step over that of its stages alone.
class Shares : public SearchRecord {
 public:
  void add(ConsideredPlan plan) override {
    if (plan.estimated && plan.simulated) found.push_back(*plan.simulated / *plan.estimated);
  }
  std::vector<double> found;
};

struct Searched {
  std::vector<double> shares;
  PlanningResult result;
};
Searched search(PlanRequest request, const SoftwareProfile& software) {
  const auto costs = make_physical_cost_model(request.cluster, software);
  SimulatedStep evaluator(*costs);
  Shares shares;
  request.record = &shares;
  PlanningResult result = make_plan(request, *costs, evaluator);
  return {std::move(shares.found), std::move(result)};
}

SoftwareProfile plain_software() {
  SoftwareProfile software;
  software.fused_projections = false;
  software.dispatch_us = software.dispatch_collective_us = software.dispatch_peer_us = software.dispatch_run_us = 0.0;
  software.step_ms = software.blocking = 0.0;
  return software;
}

PlanRequest gpt(const std::string& cluster, const std::string& method) {
  PlanRequest request = ask("gpt:layers=4,hidden=1024,heads=16,seq=512,vocab=8192", cluster, method, 64, 8);
  request.training.dtype = DType::F16;
  request.search.layers = 4;
  return request;
}

// Everything that a stage waits for is in its price. Weights gathered at full price, messages for nothing or work that
// issues itself would leave programs at 0.9 to 1.6 of it.
TEST(SoftwareStages, TakeWhatTheirProgramsTake) {
  for (const char* name : fewer_of<const char*>({"megatron", "nemo", "torchtitan", "deepspeed", "fsdp"}))
    for (const char* cluster : fewer_of<const char*>({"p3.16xlarge:2", "dgx-a100:1"})) {
      const std::vector<double> shares = search(gpt(cluster, "pipeshard"), find_software_profile(name)).shares;
      ASSERT_GE(shares.size(), 2u);
      double off = 0.0;
      for (const double share : shares) {
        EXPECT_NEAR(share, 1.0, 0.2) << name << ' ' << cluster;
        off += std::abs(share - 1.0);
      }
      EXPECT_LE(off / static_cast<double>(shares.size()), 0.04) << name << ' ' << cluster;
    }
}

// Between hosts of 25 Gbit/s messages take longer than passes: programs would take 1.5 to 3.3 times what stages do that
// wait for none. However much of a message devices wait for, and whether what several devices hold alike crosses once,
// the price of a pipeline has it.
TEST(SoftwareStages, WaitForTheirMessages) {
  int compared = 0;
  for (const double blocking : fewer_of<double>({0.45, 1.0}))
    for (const bool scattered : {false, true}) {
      SoftwareProfile software = plain_software();
      software.blocking = blocking;
      software.scatter_gather = scattered;

      for (const double share : search(gpt("p3.16xlarge:2", "pipeshard"), software).shares) {
        EXPECT_NEAR(share, 1.0, 0.12) << blocking << ' ' << scattered;
        ++compared;
      }
    }
  EXPECT_GE(compared, fewer(8));
}

// With two micro-batches sums of gradients are a large part of a step, here of tensors as large as a bucket. In a
// software's own type and buckets, and with what it hides of them, they take from a quarter of what a collective of the
// plan's type would to nearly six times.
TEST(SoftwareStages, PayForSumsOfGradientsAsTheSoftwareMovesThem) {
  int compared = 0;
  for (const double bytes : {2.0, 4.0})
    for (const double overlap : fewer_of<double>({0.75, 0.0}))
      for (const double factor : fewer_of<double>({0.7, 1.0, 1.4})) {
        SoftwareProfile software = plain_software();
        software.gradient_bytes = bytes;
        software.gradient_overlap = overlap;
        software.collective_factor = factor;
        PlanRequest request =
            ask("gpt:layers=2,hidden=4096,heads=32,seq=512,vocab=8192", "p3.16xlarge:1", "pipeshard", 16, 2);
        request.training.dtype = DType::F16;
        request.search.layers = 2;
        for (const double share : search(request, software).shares) {
          EXPECT_NEAR(share, 1.0, 0.1) << bytes << ' ' << overlap << ' ' << factor;
          ++compared;
        }
      }
  EXPECT_GE(compared, fewer(24));
}

// A program may take less than its stages are priced at: there is no bound from them.
TEST(SoftwareStages, AreNoBound) {
  const PlanRequest request = gpt("dgx-a100:1", "zero3");
  const Searched searched = search(request, find_software_profile("fsdp"));
  ASSERT_TRUE(searched.result.plan);
  EXPECT_LE(searched.result.lower_bound_within_layers, searched.result.plan->predicted.lower_bound);
  EXPECT_LT(searched.result.lower_bound_within_layers, searched.result.plan->predicted.step_time);
}

}  // namespace
}  // namespace meshwright::software_stages_test
