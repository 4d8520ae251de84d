// SPDX-License-Identifier: Apache-2.0
// The plans of Alpa's OSDI'22 artifact in examples/alpa_osdi22: every file is a method for the model it is named after.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "core/graph/op_table.h"
#include "core/planner/placement/placement.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::recorded_plans_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(__FILE__).parent_path() / "../../../examples/alpa_osdi22";

struct Recorded {
  const char* model;
  int devices, layers, stages;
  std::int64_t microbatches;
};
std::ostream& operator<<(std::ostream& out, const Recorded& row) { return out << row.model; }

const std::vector<Recorded> kRecorded = {
    {"gpt-350m", 1, 1, 1, 512},     {"gpt-760m", 2, 6, 2, 128},      {"gpt-1.3b", 4, 6, 2, 128},
    {"gpt-2.6b", 8, 8, 3, 128},     {"gpt-6.7b", 16, 8, 2, 64},      {"gpt-15b", 32, 16, 4, 128},
    {"gpt-39b", 64, 16, 16, 1024},  {"moe-380m", 1, 1, 1, 512},      {"moe-690m", 2, 8, 1, 32},
    {"moe-1.3b", 4, 8, 2, 32},      {"moe-2.4b", 8, 8, 2, 32},       {"moe-10b", 16, 8, 2, 16},
    {"moe-27b", 32, 8, 8, 128},     {"moe-70b", 64, 8, 8, 64},       {"wresnet-250m", 1, 16, 1, 24},
    {"wresnet-500m", 2, 16, 1, 24}, {"wresnet-1b", 4, 16, 1, 24},    {"wresnet-2b", 8, 16, 2, 24},
    {"wresnet-4b", 16, 16, 3, 32},  {"wresnet-6.8b", 32, 16, 4, 32}, {"wresnet-13b", 64, 33, 8, 38},
};

TEST(RecordedPlans, AreTheFilesOfTheirFolder) {
  std::set<std::string> files, rows;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") files.insert(entry.path().stem().string());
  for (const Recorded& row : kRecorded) rows.insert(row.model);
  EXPECT_EQ(files, rows);
}

class RecordedPlan : public testing::TestWithParam<Recorded> {
 protected:
  static PlanRequest request() {
    const Recorded& row = GetParam();
    const std::string hosts = std::to_string(std::max(1, row.devices / 8));
    PlanRequest request = ask(row.model, "p3.16xlarge:" + hosts,
                              "manual:" + (kFolder / (std::string(row.model) + ".json")).string(), 0, row.microbatches);
    request.cluster = take_part(request.cluster, std::stoi(hosts), std::min(8, row.devices));
    request.training.batch = request.model.default_batch;
    request.training.dtype = request.model.default_dtype;
    request.search.recompute = Recompute::Full;
    // Momentum with the residual networks; the experts were trained by Adafactor, whose state is as good as none.
    const std::string& family = request.model.family;
    request.training.optimizer.kind = family == "gpt"   ? Optimizer::Kind::Adam
                                      : family == "moe" ? Optimizer::Kind::Sgd
                                                        : Optimizer::Kind::Momentum;
    request.search.layers = row.layers;
    return request;
  }
};

TEST_P(RecordedPlan, CoversTheLayersAndTakesEveryDevice) {
  const Method method = request().search.method;
  EXPECT_EQ(static_cast<int>(method.stages.size()), GetParam().stages);
  int layers = 0, devices = 0;
  std::vector<Submesh> submeshes;
  for (const Method::ManualStage& stage : method.stages) {
    EXPECT_EQ(stage.first_layer, layers);
    layers = stage.last_layer + 1;
    devices += stage.submesh.devices();
    submeshes.push_back(stage.submesh);
  }
  EXPECT_EQ(layers, GetParam().layers);
  EXPECT_EQ(devices, GetParam().devices);
  EXPECT_TRUE(place_stages(request().cluster, {submeshes, {}, {}}));
}

// The memory of a V100 is enough, as it was; and a stage with a batch axis splits its batches over that axis alone.
TEST_P(RecordedPlan, IsAPlanOfItsModel) {
  if (kSanitized && GetParam().devices > 16) GTEST_SKIP() << "plans of smaller models run under a sanitizer";
  const PlanRequest asked = request();
  const PlanningResult made = planned(asked);
  ASSERT_TRUE(made.plan) << made.reason;
  ASSERT_EQ(made.plan->stages.size(), asked.search.method.stages.size());
  for (std::size_t s = 0; s < asked.search.method.stages.size(); ++s) {
    const Method::ManualStage& wanted = asked.search.method.stages[s];
    const StagePlan& stage = made.plan->stages[s];
    EXPECT_EQ(stage.first_layer, wanted.first_layer);
    EXPECT_EQ(stage.last_layer, wanted.last_layer);
    EXPECT_EQ(stage.submesh, wanted.submesh);
    EXPECT_EQ(stage.logical_shape, wanted.logical_shape);
    if (!wanted.batch_axis) continue;
    ASSERT_EQ(*wanted.batch_axis, 0);
    const AxisMask expected = wanted.logical_shape[0] > 1 ? AxisMask{1} : AxisMask{0};
    int ops = 0;
    for (const Op& op : made.graph.ops()) {
      const auto sharding = stage.ops.find(op.name);
      if (sharding == stage.ops.end()) continue;
      const IterationSpace space = iteration_space(made.graph, op);
      const auto batch = space.find("batch");
      if (!batch) continue;
      const bool splittable = space.axes[static_cast<std::size_t>(*batch)].splittable;  // not a batch of one sample
      const auto axes = sharding->second.axes.find("batch");
      EXPECT_EQ(axes == sharding->second.axes.end() ? AxisMask{0} : axes->second, splittable ? expected : AxisMask{0})
          << op.name;
      ++ops;
    }
    EXPECT_GT(ops, 0);
  }
}

std::string name_of_row(const testing::TestParamInfo<Recorded>& info) {
  std::string name = info.param.model;
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Alpa, RecordedPlan, testing::ValuesIn(kRecorded), name_of_row);

}  // namespace
}  // namespace meshwright::recorded_plans_test
