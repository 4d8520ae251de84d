// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launch/read/launch_reading.h"
#include "launch/setup/setup_of_plan.h"
#include "launch/write/script.h"
#include "launch/write/write_launch.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {
namespace launcher_files_test {

constexpr const char* kModel = "llama:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128";

// The file of that name of an export; "" where there is none.
std::string file_of(const PlanningResult& made, const std::string& target, Launcher launcher, const std::string& name) {
  const LaunchTarget& to = find_launch_target(target);
  const LaunchSetup setup = setup_of(*made.plan, made.graph, to);
  LaunchFigures figures;
  figures.step = Seconds(0.25);
  for (const LaunchFile& file : launch_files({to, setup, figures, *made.plan, made.graph, launcher}))
    if (file.name == name) return file.text;
  return "";
}

PlanningResult made_of(const std::string& method, const std::string& model = kModel, DType dtype = DType::F32) {
  PlanRequest request = ask(model, "p3.16xlarge:2", method, 32, std::int64_t{2});
  request.training.dtype = dtype;
  PlanningResult made = planned(request);
  require(made.plan.has_value(), "{}", made.reason);
  return made;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(LauncherFiles, RunTheSameScriptOnEveryHost) {
  const PlanningResult made = made_of("megatron:tp=4,pp=1,zero=1,exact=1");
  const std::string script = file_of(made, "megatron", Launcher::Torchrun, "run.sh");
  EXPECT_TRUE(holds(script, "NNODES=${NNODES:-2}"));
  EXPECT_TRUE(holds(script, "# predicted step: 250.000 ms"));
  EXPECT_TRUE(holds(file_of(made, "megatron", Launcher::Slurm, "job.sbatch"), "#SBATCH --nodes=2\n"));
  EXPECT_TRUE(holds(file_of(made, "megatron", Launcher::Mpi, "mpirun.sh"), "OMPI_COMM_WORLD_RANK"));
  EXPECT_TRUE(holds(file_of(made, "megatron", Launcher::Kubernetes, "trainjob.yaml"), "    numNodes: 2\n"));
  EXPECT_EQ(file_of(made, "megatron", Launcher::Torchrun, "job.sbatch"), "");
}

TEST(LauncherFiles, SayHowThePlansSoftwareIsSetUp) {
  PlanningResult made = made_of("megatron:tp=1,pp=1,zero=1,exact=1");
  made.plan->software = "nemo+16-bit-moments";
  const std::string script = file_of(made, "megatron", Launcher::Torchrun, "run.sh");
  EXPECT_TRUE(holds(script, "  --use-precision-aware-optimizer\n  --exp-avg-dtype bf16\n  --exp-avg-sq-dtype bf16\n"));
  EXPECT_NE(refusal([&] {
              (void)file_of(made, "deepspeed", Launcher::Torchrun, "run.sh");
            }).find("keep moments in 32 bits, and the plan in 16"),
            std::string::npos);
  made = made_of("megatron:tp=1,pp=1,zero=3,exact=1");
  const auto compiles = [&](const char* software) {
    made.plan->software = software;
    return holds(file_of(made, "torchtitan", Launcher::Torchrun, "plan.toml"), "[compile]\nenable = true\n");
  };
  EXPECT_TRUE(compiles("torchtitan"));
  EXPECT_TRUE(compiles("torchtitan+fused-attention"));
  EXPECT_FALSE(compiles("torchtitan-eager"));
}

// Megatron-Bridge splits states if either of two settings is on, and a recipe's own settings hold where no override
// changes them.
TEST(LauncherFiles, OfMegatronBridgeChangeWhatTheRecipeHasOfItsOwn) {
  const std::string dense = file_of(made_of("megatron:tp=2,pp=1,zero=0,exact=1", kModel, DType::F16), "megatron-bridge",
                                    Launcher::Torchrun, "run.sh");
  EXPECT_TRUE(holds(dense, "  ddp.use_distributed_optimizer=false\n  optimizer.use_distributed_optimizer=false\n"));
  EXPECT_TRUE(holds(dense, "  model.rope_scaling=false\n"));  // Llama 3.1's
  EXPECT_TRUE(holds(dense, "  optimizer.use_precision_aware_optimizer=false\n"));
  const std::string mixture = file_of(
      made_of("megatron:tp=1,pp=1,zero=1,exact=1",
              "mixtral:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2",
              DType::F16),
      "megatron-bridge", Launcher::Torchrun, "run.sh");
  for (const char* line : {"model.moe_token_dispatcher_type=alltoall", "model.moe_router_num_groups=null",
                           "model.moe_router_load_balancing_type=none", "model.cuda_graph_impl=none"})
    EXPECT_TRUE(holds(mixture, fmt::format("  {}\n", line))) << line;
}

// FlagScale's meshes have no groups of replicas, which its files would leave out.
TEST(LauncherFiles, OfFlagscaleSplitStatesOverAllReplicas) {
  const PlanningResult made = made_of("zero1:shard=4", kModel, DType::F16);
  EXPECT_TRUE(
      holds(file_of(made, "megatron", Launcher::Torchrun, "run.sh"), "--num-distributed-optimizer-instances 4\n"));
  EXPECT_NE(refusal([&] {
              (void)file_of(made, "flagscale", Launcher::Torchrun, "run.sh");
            }).find("splits states over all replicas, and the plan over groups of 4"),
            std::string::npos);
}

// MaxText's cudnn_flash_te wants a number of packed samples where they are packed; its block llama2 takes no notice of
// attention_bias.
TEST(LauncherFiles, OfMaxtextNameTheBlockThatHasTheModelsBiases) {
  const std::string plain = file_of(made_of("data"), "maxtext", Launcher::Torchrun, "plan.yml");
  EXPECT_TRUE(holds(plain, "decoder_block: \"llama2\"\n"));
  EXPECT_TRUE(holds(plain, "packing: false\n"));
  const std::string biased =
      file_of(made_of("data", std::string(kModel) + ",qkv_bias=1"), "maxtext", Launcher::Torchrun, "plan.yml");
  EXPECT_TRUE(holds(biased, "decoder_block: \"qwen2\"\n"));
  EXPECT_TRUE(holds(biased, "attention_bias: true\n"));
}

// Each of them starts run.sh, which names what lies beside it.
TEST(LauncherFiles, AreReadBackFromEveryLauncher) {
  const std::pair<const char*, const char*> targets[] = {{"megatron", "megatron:tp=4,pp=1,zero=1,exact=1"},
                                                         {"deepspeed", "megatron:tp=4,pp=1,zero=1,exact=1"},
                                                         {"deepspeed", "megatron:tp=2,pp=2,zero=1,exact=1"},
                                                         {"deepspeed", "zero3"}};
  const std::pair<Launcher, const char*> launchers[] = {
      {Launcher::Torchrun, "run.sh"}, {Launcher::Slurm, "job.sbatch"}, {Launcher::Mpi, "mpirun.sh"}};
  for (const auto& [target, method] : targets)
    for (const auto& [launcher, name] : launchers) {
      SCOPED_TRACE(fmt::format("{} {} {}", target, method, name));
      const PlanningResult made = made_of(method);
      LaunchInput input{.files = {{name, file_of(made, target, launcher, name)}}};
      input.beside = [&, of = launcher, to = target](const std::string& other) -> std::optional<std::string> {
        const std::string text = file_of(made, to, of, other);
        return text.empty() ? std::nullopt : std::optional(text);
      };
      const LaunchReading reading = read_launch(read_launch_text(input), {2, 8}, {.model = made.plan->model});
      const LaunchSetup setup = setup_of(*made.plan, made.graph, find_launch_target(target));
      EXPECT_EQ(reading.setup.degrees.tp, setup.degrees.tp);
      EXPECT_EQ(reading.setup.degrees.pp, setup.degrees.pp);
      EXPECT_EQ(reading.setup.degrees.dp, setup.degrees.dp);
      EXPECT_EQ(reading.setup.degrees.zero, setup.degrees.zero);
      EXPECT_EQ(reading.setup.degrees.micro_batches, 2);
      EXPECT_EQ(reading.setup.global_batch(), 32);
      EXPECT_EQ(reading.setup.optimizer.kind, setup.optimizer.kind);
      if (!setup.stage_blocks.empty() && !reading.setup.stage_blocks.empty()) {
        EXPECT_EQ(reading.setup.stage_blocks, setup.stage_blocks);
      }
    }
}

// The Python configurations name the model's function or the user's own; one of them counts tokens.
TEST(LauncherFiles, OfTorchtitanSayTheSameInPython) {
  for (const char* method :
       {"zero3", "zero2:shard=4", "megatron:tp=2,pp=2,sp=1,zero=2,exact=1", "megatron:tp=4,pp=1,sp=1,zero=0,exact=1"}) {
    SCOPED_TRACE(method);
    const PlanningResult made = made_of(method);
    const LaunchSetup setup = setup_of(*made.plan, made.graph, find_launch_target("torchtitan"));
    const std::string text = file_of(made, "torchtitan", Launcher::Torchrun, "plan.py");
    EXPECT_TRUE(holds(text, "# torchtitan 0.3.0: llama on 2 x 8"));
    for (const bool tokens : {false, true}) {
      // The last function of a file is read.
      const std::string one = tokens ? text.substr(0, text.find("def plan():")) : text;
      const LaunchReading reading =
          read_launch(read_launch_text({.files = {{"plan.py", one}}}), {2, 8}, {.model = made.plan->model});
      for (const Setting& setting : reading.settings.all())
        EXPECT_NE(setting.state, Setting::State::Unread) << setting.shown;
      EXPECT_TRUE(reading.why_no_plan.empty()) << reading.why_no_plan;
      EXPECT_EQ(method_text(reading.setup.degrees), method_text(setup.degrees));
      EXPECT_EQ(reading.setup.stage_blocks.empty() ? setup.stage_blocks : reading.setup.stage_blocks,
                setup.stage_blocks);
      EXPECT_EQ(reading.setup.shard, setup.degrees.zero == 0 ? std::nullopt : setup.shard);
      EXPECT_EQ(reading.setup.degrees.micro_batches, 2);
      EXPECT_EQ(reading.setup.degrees.recompute, setup.degrees.recompute);
      EXPECT_EQ(reading.setup.global_batch(), 32);
      EXPECT_EQ(reading.setup.optimizer.kind, setup.optimizer.kind);
      if (!setup.stage_blocks.empty() && !reading.setup.stage_blocks.empty()) {
        EXPECT_EQ(reading.setup.stage_blocks, setup.stage_blocks);
      }
      EXPECT_EQ(reading.setup.model.seq, 32);
    }
  }
  const PlanningResult context = made_of("megatron:tp=1,pp=1,cp=2,zero=3,exact=1");
  EXPECT_EQ(file_of(context, "torchtitan", Launcher::Torchrun, "plan.py"), "");
  EXPECT_TRUE(holds(file_of(context, "torchtitan", Launcher::Torchrun, "README.md"), "no Python configuration"));
}

TEST(LauncherFiles, AreNoneOfAModuleForTheUsersProgram) {
  const PlanningResult made = made_of("data");
  EXPECT_EQ(file_of(made, "jax", Launcher::Torchrun, "run.sh"), "");
  EXPECT_TRUE(
      holds(refusal([&] { return file_of(made, "alpa", Launcher::Mpi, "run.sh"); }), "--launcher mpi: the module"));
}

TEST(LauncherFiles, TellZeroThreeOfFsdpFromZeroTwo) {
  EXPECT_TRUE(holds(file_of(made_of("zero3"), "accelerate", Launcher::Torchrun, "accelerate.yaml"),
                    "fsdp_reshard_after_forward: true"));
  EXPECT_TRUE(holds(file_of(made_of("zero2"), "accelerate", Launcher::Torchrun, "accelerate.yaml"),
                    "fsdp_reshard_after_forward: false"));
  EXPECT_TRUE(holds(file_of(made_of("zero1:shard=8"), "megatron", Launcher::Torchrun, "run.sh"),
                    "--num-distributed-optimizer-instances 2\n"));
  const std::string copies = file_of(made_of("zero3:shard=8"), "torchtitan", Launcher::Torchrun, "plan.toml");
  EXPECT_TRUE(holds(copies, "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 8\n"));
}

TEST(Script, QuotesWhatBashWouldRead) {
  EXPECT_EQ(shell_word("Et*3|tL"), "'Et*3|tL'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("--bf16"), "--bf16");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Script, WritesNumbersThatYamlTakesForNumbers) {
  EXPECT_EQ(decimal(1e-5), "1.0e-05");
  EXPECT_EQ(decimal(1.0), "1.0");
  EXPECT_EQ(decimal(0.125), "0.125");
}

}  // namespace launcher_files_test
}  // namespace meshwright
