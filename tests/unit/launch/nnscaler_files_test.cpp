// SPDX-License-Identifier: Apache-2.0
// What nnScaler's trainer and its autodist policy are told of a plan.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "launch/setup/setup_of_plan.h"
#include "launch/syntax/yaml.h"
#include "launch/write/write_launch.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::nnscaler_files_test {
namespace {

constexpr const char* kModel = "llama:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128";

// The file of that name of an export for 2 hosts of 8 devices, of 32 samples in 2 micro-batches; "" where there is
// none. `change` is made to the setup before.
std::string file_of(
    const std::string& method, const std::string& name,
    const std::function<void(LaunchSetup&)>& change = [](LaunchSetup&) {}) {
  PlanRequest request = ask(kModel, "p3.16xlarge:2", method, 32, std::int64_t{2});
  request.training.dtype = DType::F16;
  const PlanningResult made = planned(request);
  require(made.plan.has_value(), "{}", made.reason);
  const LaunchTarget& to = find_launch_target("nnscaler");
  LaunchSetup setup = setup_of(*made.plan, made.graph, to);
  change(setup);
  for (const LaunchFile& file : launch_files({to, setup, {}, *made.plan, made.graph, Launcher::Torchrun}))
    if (file.name == name) return file.text;
  return "";
}

std::string arguments(const std::string& text, const char* key) {
  const ConfigValue root = value_from_yaml(text, "train.yaml");
  const ConfigValue* found = root.find(key);
  return found == nullptr ? "" : to_text(*found);
}

constexpr const char* kBoth = "megatron:tp=2,pp=2,zero=1,exact=1";

// 4 scale units of 2 x 2 devices; 4 samples, twice, in each of them are 32.
TEST(NnscalerFiles, ScaleUnitsAreReplicasOfTensorsTimesStages) {
  const std::string text = file_of(kBoth, "train.yaml");
  for (const char* line : {"\n  plan_ngpus: 4 ", "\n  runtime_ngpus: 16 ", "\n  use_zero: true\n",
                           "\n  zero_ngroups: 1 ", "\n    max_partition_degree: 2 ", "\n    pipeline_nstages: 2\n",
                           "\n    pipeline_pivots: StageStart\n", "\n    pipeline_scheduler: 1f1b\n",
                           "\n    partition_constraints_path: partition.yaml\n", "\n    use_fp16: true\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  EXPECT_EQ(arguments(text, "micro_batch_size"), "4");
  EXPECT_EQ(arguments(text, "grad_accumulation_steps"), "2");
  EXPECT_EQ(arguments(text, "global_batch_size"), "32");
  EXPECT_EQ(arguments(text, "model"), "{type: job.Model, args: {stage_starts: [2]}}");
}

// Optimizer state in two groups of 2 replicas each; without ZeRO the policy is told of no groups.
TEST(NnscalerFiles, GroupsOfReplicasSplitOptimizerState) {
  const std::string halves = file_of(kBoth, "train.yaml", [](LaunchSetup& setup) { setup.shard = 2; });
  EXPECT_NE(halves.find("zero_ngroups: 2"), std::string::npos);
  const std::string none = file_of("megatron:tp=2,pp=2,zero=0,exact=1", "train.yaml");
  EXPECT_NE(none.find("use_zero: false"), std::string::npos);
  EXPECT_EQ(none.find("zero_ngroups"), std::string::npos);
}

TEST(NnscalerFiles, OfOneStageHaveNoPivots) {
  const std::string text = file_of("megatron:tp=2,pp=1,zero=1,exact=1", "train.yaml");
  EXPECT_NE(text.find("pipeline_nstages: 1"), std::string::npos);
  EXPECT_EQ(text.find("pipeline_pivots"), std::string::npos);
  EXPECT_EQ(arguments(text, "model"), "{type: job.Model, args: {stage_starts: []}}");
}

// Columns are split over the outputs of a linear layer, dimension 0 of its weight; rows over its inputs.
TEST(NnscalerFiles, ConstraintsLeaveEachKindOfProductOneDimension) {
  const std::string text = file_of(kBoth, "partition.yaml");
  const auto allowed = [&](const std::string& module) {
    const std::size_t at = text.find("parent_module: " + module + "\n  allowed_partition_dims: ");
    return at == std::string::npos ? "none" : text.substr(text.find('[', at), 7);
  };
  EXPECT_EQ(allowed("ColumnLinear"), "[\"1,0\"]");
  EXPECT_EQ(allowed("RowLinear"), "[\"1,1\"]");
  EXPECT_EQ(allowed("Embedding"), "[\"1,0\"]");
  EXPECT_EQ(allowed("Head"), "[\"1,0\"]");
  EXPECT_EQ(file_of("megatron:tp=1,pp=2,zero=1,exact=1", "partition.yaml"), "");
}

// States in 32 bits beside weights of 16 are nnScaler's own optimizer; weights of 32 bits take PyTorch's.
TEST(NnscalerFiles, TheOptimizerIsThatOfTheWeights) {
  EXPECT_NE(file_of(kBoth, "train.yaml").find("type: nnscaler.runtime.f16_optimizer.MixedPrecisionAdamW"),
            std::string::npos);
  const std::string single = file_of(kBoth, "train.yaml", [](LaunchSetup& setup) { setup.dtype = DType::F32; });
  EXPECT_NE(single.find("type: torch.optim.AdamW"), std::string::npos);
  EXPECT_EQ(arguments(single, "precision"), "fp32");
}

}  // namespace
}  // namespace meshwright::nnscaler_files_test
