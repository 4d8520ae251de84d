// SPDX-License-Identifier: Apache-2.0
// Files that say meshes of their own, for nnScaler, JAX and Alpa: what is read of them, and what is refused.
#include <gtest/gtest.h>

#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_meshes_test {
namespace {

const LaunchAnswers kModel{.model = find_builtin_model("llama:layers=4,hidden=64,heads=4,kv_heads=4,seq=32,vocab=64,"
                                                       "intermediate=128"),
                           .batch = 32};

LaunchReading read(const std::string& name, const std::string& text) {
  return read_launch(read_launch_text({.files = {{name, text}}}), {1, 8}, kModel);
}
std::string refused(const std::string& name, const std::string& text) {
  return refusal([&] { (void)read(name, text); });
}

const std::string kUnits =
    "compute_config:\n  plan_ngpus: 4\n  runtime_ngpus: 8\n  use_zero: true\n  use_end2end: true\n  pas_config:\n"
    "    max_partition_degree: 2\n    pipeline_nstages: 2\n    pipeline_pivots: StageStart\n"
    "pas_policy: autodist\nprecision: bf16\nmicro_batch_size: 4\ngrad_accumulation_steps: 4\n";

// Two units of 2 x 2 devices; 4 samples x 4 micro-batches x 2 units are 32.
TEST(NnScaler, CountsScaleUnitsAsReplicas) {
  const LaunchReading reading = read("train.yaml", kUnits + "model:\n  args:\n    stage_starts: [1]\n");
  EXPECT_EQ(reading.setup.target, "nnscaler");
  EXPECT_EQ(method_text(reading.setup.degrees), "megatron:tp=2,pp=2,zero=1,exact=1");
  EXPECT_EQ(reading.setup.stage_blocks, (std::vector<int>{1, 3}));
  EXPECT_EQ(reading.setup.degrees.micro_batches, 4);
  EXPECT_EQ(reading.why_no_plan, "");
}

TEST(NnScaler, RefusesWhatContradictsItself) {
  EXPECT_NE(read("t.yaml", kUnits + "model:\n  args:\n    stage_starts: [1, 2]\n").why_no_plan.find("makes 3 stages"),
            std::string::npos);
  EXPECT_NE(read("t.yaml", kUnits + "global_batch_size: 33\n").why_no_plan.find("global_batch_size 33"),
            std::string::npos);
  EXPECT_NE(refused("t.yaml", kUnits + "model:\n  args:\n    stage_starts: [9]\n").find("'9' is no block"),
            std::string::npos);
  EXPECT_NE(refused("t.yaml", "compute_config: 3\n").find("no map"), std::string::npos);
  EXPECT_NE(refused("t.yaml", "compute_config:\n  use_zero: true\n").find("plan_ngpus"), std::string::npos);
}

TEST(Jax, ReadsTheMeshOfAProgram) {
  const std::string program = "import jax\nfrom jax.sharding import PartitionSpec as P\n";
  const LaunchReading reading =
      read("t.py", program + "mesh = jax.make_mesh((4, 2), ('data', 'model'))\nspec = P('data', None)\n");
  EXPECT_EQ(reading.setup.target, "jax");
  EXPECT_EQ(reading.setup.degrees.dp, 4);
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_NE(refused("t.py", program + "mesh = jax.make_mesh((4, 2), ('data', 'moon'))\n").find("'moon'"),
            std::string::npos);
  EXPECT_NE(refused("t.py", program + "mesh = jax.make_mesh((4,\n").find("t.py:3: a bracket"), std::string::npos);
  EXPECT_NE(refused("t.py", program + "STAGES = 3\nDIMENSIONS = {}\n").find("no list of stages"), std::string::npos);
}

// The bias by which experts are selected follows their loads: no optimizer keeps anything of it.
TEST(Jax, ForcesNoStatesOfParametersThatHaveNone) {
  const auto specs = [](const std::string& without) {
    const LaunchReading reading =
        read("t.py", "import jax\nfrom jax.sharding import PartitionSpec as P\nLAYER_STARTS = ['a']\n" + without +
                         "STAGES = [{'mesh': (2,), 'axes': ('x0',), 'devices': (0, 1), 'layers': (0, 0),\n"
                         "           'parameters': {'w': P('x0'), 'bias': P()}, 'states': {}, 'results': {}}]\n"
                         "DIMENSIONS = {'w': [('in', 4)], 'bias': [('out', 4)]}\n");
    std::vector<std::string> names;
    for (const auto& [name, spec] : reading.setup.meshes->specs) names.push_back(name);
    return names;
  };
  const std::vector<std::string> of_bias = {"bias", "bias.adam_m", "bias.adam_v", "bias.master"};
  const std::vector<std::string> of_w = {"w", "w.adam_m", "w.adam_v", "w.master"};
  std::vector<std::string> all = of_bias, without_bias = {"bias"};
  all.insert(all.end(), of_w.begin(), of_w.end());
  without_bias.insert(without_bias.end(), of_w.begin(), of_w.end());
  EXPECT_EQ(specs(""), all);
  EXPECT_EQ(specs("WITHOUT_STATES = ['bias']\n"), without_bias);
}

TEST(Alpa, ReadsStagesOfWholeRunsOfLayers) {
  const auto stages = [](const std::string& layers) {
    return "import alpa\nLAYER_STARTS = ['a', 'b', 'c']\nOPTION = alpa.ManualStageOption(\n    "
           "forward_stage_layer_ids=" +
           layers +
           ",\n    submesh_physical_shapes=[(1, 4), (1, 4)],\n    submesh_logical_shapes=[(2, 2), (4, 1)],\n"
           "    submesh_autosharding_option_dicts=[{}, {'force_batch_dim_to_mesh_dim': 0}],\n)\n"
           "method = alpa.PipeshardParallel(num_micro_batches=8, stage_option=OPTION)\n";
  };
  const LaunchReading reading = read("t.py", stages("[[0, 1], [2]]"));
  ASSERT_TRUE(reading.setup.meshes.has_value());
  ASSERT_EQ(reading.setup.meshes->stages.size(), 2U);
  EXPECT_EQ(reading.setup.meshes->stages[0].last_layer, 1);
  EXPECT_EQ(reading.setup.meshes->stages[1].logical_shape, (std::vector<int>{4, 1}));
  EXPECT_EQ(reading.setup.meshes->stages[1].batch_axis, 0);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 8);
  EXPECT_NE(refused("t.py", stages("[[0, 2], [1]]")).find("layer 2 stands where 1 is next"), std::string::npos);
}

TEST(Alpa, RecomputesTheLayersThatItMarks) {
  const auto recompute = [](const std::string& layers, const std::string& constants = "") {
    return read("t.py", "import alpa\n" + constants +
                            "BATCH, MICRO_BATCHES = 32, 8\nmethod = alpa.PipeshardParallel(num_micro_batches=8, "
                            "layer_option=alpa." +
                            layers + ")\n")
        .setup.degrees.recompute;
  };
  EXPECT_EQ(recompute("ManualLayerOption(remat_layer=True)"), Recompute::Full);
  EXPECT_EQ(recompute("ManualLayerOption(remat_layer=False)"), Recompute::None);
  EXPECT_EQ(recompute("AutoLayerOption(layer_num=2, remat_mode='coarse_grained_remat')"), Recompute::Full);
  EXPECT_EQ(recompute("AutoLayerOption(layer_num=2, remat_mode='none')"), Recompute::None);
  EXPECT_EQ(recompute("ManualLayerOption(remat_layer=True)", "RECOMPUTE = 'none'\n"), Recompute::None);
}

TEST(Alpa, RunsForwardsAheadWhereMessagesOverlap) {
  const auto schedule = [](const std::string& name) {
    return read("t.py",
                "import alpa\nmethod = alpa.PipeshardParallel(num_micro_batches=8, pipeline_schedule='" + name + "')\n")
        .setup.degrees.schedule;
  };
  EXPECT_EQ(schedule("1f1b"), ScheduleKind::OneFOneB);
  EXPECT_EQ(schedule("1f1b_overlap_friendly"), ScheduleKind::EagerOneFOneB);
}

}  // namespace
}  // namespace meshwright::read_meshes_test
