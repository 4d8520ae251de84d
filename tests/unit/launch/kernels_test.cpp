// SPDX-License-Identifier: Apache-2.0
// By which kernels files say that attention and the loss are taken, in the words of every program: whether scores and
// logits are ever whole in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "launch/advise/kernel_changes.h"
#include "launch/read/launch_reading.h"
#include "launch/rules/launch_rules.h"
#include "tests/refusal.h"

namespace meshwright::kernels_test {
namespace {

LaunchReading read(const std::string& name, const std::string& text, int hosts = 1) {
  return read_launch(read_launch_text({.files = {{name, text}}}), {hosts, 8}, {});
}
int chunks_of(const std::string& name, const std::string& text) {
  return read(name, text).setup.software_setup.loss_chunks;
}
constexpr int kWhole = 1;

const std::string kFactory =
    "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ncutoff_len: 4096\n"
    "output_dir: o\nper_device_train_batch_size: 2\nbf16: true\n";
const std::string kAxolotl =
    "base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 8192\nsample_packing: true\nmicro_batch_size: 1\n"
    "bf16: auto\n";
const std::string kMegatron =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
    "--seq-length 128 --max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 8 --bf16 ";

// --- the loss ---

TEST(LossChunks, OfFineTuningAreThoseOfLigersKernels) {
  EXPECT_EQ(chunks_of("a.yaml", kFactory), kWhole);
  EXPECT_EQ(chunks_of("a.yaml", kFactory + "enable_liger_kernel: false\n"), kWhole);
  const LaunchReading factory = read("a.yaml", kFactory + "enable_liger_kernel: true\n");
  EXPECT_EQ(factory.setup.software_setup.loss_chunks, kFittingLossChunks);
  EXPECT_NE(std::find(factory.assumed.begin(), factory.assumed.end(),
                      "a model whose loss Liger's kernels take in chunks (enable_liger_kernel)"),
            factory.assumed.end());
  const std::string swift = "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --train_type full ";
  EXPECT_EQ(chunks_of("a.sh", swift + "\n"), kWhole);
  EXPECT_EQ(chunks_of("a.sh", swift + "--use_liger_kernel true\n"), kFittingLossChunks);
  const std::string trl =
      "accelerate launch --num_processes 8 sft.py --per_device_train_batch_size 1 --model_name_or_path Qwen/Qwen3-8B ";
  EXPECT_EQ(chunks_of("a.sh", trl + "\n"), kWhole);
  EXPECT_EQ(chunks_of("a.sh", trl + "--use_liger_kernel\n"), kFittingLossChunks);
}

TEST(LossChunks, OfAxolotlAreItsPluginsOrItsKeys) {
  const std::string liger = "plugins:\n  - axolotl.integrations.liger.LigerPlugin\n";
  const std::string cut = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  EXPECT_EQ(chunks_of("a.yaml", kAxolotl), kWhole);
  // The plugin alone replaces other kernels.
  EXPECT_EQ(chunks_of("a.yaml", kAxolotl + liger + "liger_rms_norm: true\n"), kWhole);
  EXPECT_EQ(chunks_of("a.yaml", kAxolotl + liger + "liger_fused_linear_cross_entropy: true\n"), kFittingLossChunks);
  EXPECT_EQ(chunks_of("a.yaml", kAxolotl + cut), kFittingLossChunks);
  EXPECT_EQ(chunks_of("a.yaml", kAxolotl + cut + "cut_cross_entropy: false\n"), kWhole);
}

TEST(LossChunks, OfTorchtitanAreOfItsWrapper) {
  const auto file = [](const std::string& loss) {
    return "from torchtitan.trainer import Trainer\ndef llama3_8b() -> Trainer.Config:\n    return Trainer.Config(\n"
           "        loss=" +
           loss +
           ",\n        model_spec=model_registry(\"8B\"),\n"
           "        training=TrainingConfig(local_batch_size=1, seq_len=8192),\n    )\n";
  };
  EXPECT_EQ(chunks_of("a.py", file("CrossEntropyLoss.Config()")), kWhole);
  EXPECT_EQ(chunks_of("a.py", file("ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config())")), 8);
  EXPECT_EQ(chunks_of("a.py", file("ChunkedLossWrapper.Config(num_chunks=4, loss_fn=CrossEntropyLoss.Config())")), 4);
}

TEST(LossChunks, OfMaxtextAreItsTilesAndHaveAsManyTokens) {
  const std::string model =
      "base_config: base.yml\nbase_emb_dim: 64\nbase_num_query_heads: 4\nbase_num_kv_heads: 4\n"
      "base_num_decoder_layers: 2\nbase_mlp_dim: 128\nhead_dim: 16\nmax_target_length: 32\nper_device_batch_size: 1\n";
  EXPECT_EQ(chunks_of("m.yml", model), kWhole);
  EXPECT_EQ(chunks_of("m.yml", model + "num_vocab_tiling: 8\n"), 8);
  EXPECT_TRUE(read("m.yml", model + "num_vocab_tiling: 8\n").broken.empty());
  EXPECT_EQ(read("m.yml", model + "num_vocab_tiling: 5\n").broken,
            (std::vector<std::string>{
                "MaxText needs as many tokens in every chunk of the loss: 32 on each device, and the plan has 5 "
                "chunks"}));
}

TEST(LossChunks, OfOtherProgramsAreInTheirWords) {
  const std::string veomni =
      "model:\n  model_path: Qwen3-8B-Base\n{}data:\n  max_seq_len: 2048\ntrain:\n"
      "  data_parallel_mode: fsdp2\n  global_batch_size: 16\n  micro_batch_size: 1\n";
  const auto of_veomni = [&](const std::string& kernel) {
    std::string text = veomni;
    return text.replace(
        text.find("{}"), 2,
        kernel.empty() ? "" : "  ops_implementation:\n    cross_entropy_loss_implementation: " + kernel + "\n");
  };
  EXPECT_EQ(chunks_of("a.yaml", of_veomni("")), kFittingLossChunks);  // its default
  EXPECT_EQ(chunks_of("a.yaml", of_veomni("chunk_loss")), 2);         // 2,048 tokens
  EXPECT_EQ(chunks_of("a.yaml", of_veomni("eager")), kWhole);
  const std::string actor =
      "python3 -m verl.trainer.main_ppo data.max_prompt_length=1024 data.max_response_length=3072 "
      "actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.actor.ppo_mini_batch_size=256 "
      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.n_gpus_per_node=8 ";
  EXPECT_EQ(chunks_of("a.sh", actor + "\n"), kWhole);
  EXPECT_EQ(chunks_of("a.sh", actor + "actor_rollout_ref.model.use_fused_kernels=True\n"), 4 * 4096 / 512);
  EXPECT_EQ(chunks_of("a.sh", kMegatron + "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te\n"), kWhole);
  EXPECT_EQ(chunks_of("a.sh", kMegatron + "--cross-entropy-loss-fusion --cross-entropy-fusion-impl linear\n"),
            kFittingLossChunks);
}

// --- attention ---

std::optional<bool> fused(const std::string& name, const std::string& text) {
  return read(name, text).setup.software_setup.fused_attention;
}

TEST(AttentionKernels, OfFineTuningAreFusedUnlessTheyAreEager) {
  EXPECT_EQ(fused("a.yaml", kFactory + "flash_attn: fa2\n"), std::nullopt);
  EXPECT_EQ(fused("a.yaml", kFactory + "flash_attn: disabled\n"), false);
  EXPECT_EQ(fused("a.yaml", kAxolotl + "flash_attention: true\n"), std::nullopt);
  EXPECT_EQ(fused("a.yaml", kAxolotl + "eager_attention: true\n"), false);
  EXPECT_EQ(fused("a.yaml", kAxolotl + "attn_implementation: eager\n"), false);
  const std::string trl =
      "accelerate launch --num_processes 8 sft.py --per_device_train_batch_size 1 --model_name_or_path Qwen/Qwen3-8B ";
  EXPECT_EQ(fused("a.sh", trl + "--attn_implementation flash_attention_2\n"), std::nullopt);
  EXPECT_EQ(fused("a.sh", trl + "--attn_implementation eager\n"), false);
  const std::string swift = "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --train_type full ";
  EXPECT_EQ(fused("a.sh", swift + "--attn_impl eager\n"), false);
}

TEST(AttentionKernels, OfMegatronAreThoseOfTransformerEngineOrAskedFor) {
  EXPECT_EQ(fused("a.sh", kMegatron + "\n"), std::nullopt);
  EXPECT_EQ(fused("a.sh", kMegatron + "--transformer-impl transformer_engine\n"), std::nullopt);
  EXPECT_EQ(fused("a.sh", kMegatron + "--transformer-impl local\n"), false);
  EXPECT_EQ(fused("a.sh", kMegatron + "--transformer-impl local --use-flash-attn\n"), true);
  EXPECT_EQ(fused("a.sh", kMegatron + "--attention-backend unfused\n"), false);
  EXPECT_EQ(fused("a.sh", kMegatron + "--attention-backend auto\n"), std::nullopt);
}

TEST(AttentionKernels, OfNeoxAreFusedWhereItsLayersAreFlash) {
  const auto file = [](const std::string& kind) {
    return "{\n  \"num_layers\": 4, \"hidden_size\": 256, \"num_attention_heads\": 4, \"seq_length\": 256,\n"
           "  \"max_position_embeddings\": 256, \"train_micro_batch_size_per_gpu\": 4,\n"
           "  \"pipe_parallel_size\": 1, \"model_parallel_size\": 1, \"attention_config\": [[[\"" +
           kind + "\"], 4]]\n}\n";
  };
  EXPECT_EQ(fused("a.yml", file("global")), std::nullopt);  // the profile's own: unfused
  EXPECT_EQ(fused("a.yml", file("flash")), true);
}

// --- states ---

SoftwareSetup setup_of(const std::string& name, const std::string& text) {
  return read(name, text).setup.software_setup;
}

TEST(States, OfFineTuningAreInSixteenBitsWhereNothingKeepsThemInMore) {
  EXPECT_FALSE(setup_of("a.yaml", kFactory).narrow_states);
  EXPECT_TRUE(setup_of("a.yaml", kFactory + "pure_bf16: true\n").narrow_states);
  const std::string swift =
      "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --train_type full --torch_dtype bfloat16 ";
  EXPECT_TRUE(setup_of("a.sh", swift + "\n").narrow_states);
  EXPECT_FALSE(setup_of("a.sh", swift + "--deepspeed zero3\n").narrow_states);
}

TEST(States, OfMomentsAreAsNarrowAsTheOptimizersName) {
  EXPECT_EQ(setup_of("a.yaml", kAxolotl + "optimizer: adamw_torch_fused\n").moment_bits, 32);
  EXPECT_EQ(setup_of("a.yaml", kAxolotl + "optimizer: adamw_bnb_8bit\n").moment_bits, 8);
  const std::string trl =
      "accelerate launch --num_processes 8 sft.py --per_device_train_batch_size 1 --model_name_or_path Qwen/Qwen3-8B ";
  EXPECT_EQ(setup_of("a.sh", trl + "--optim paged_adamw_8bit\n").moment_bits, 8);
}

TEST(States, OfMegatronsMomentsAreOfTheirFlags) {
  const std::string aware = kMegatron + "--use-distributed-optimizer --use-precision-aware-optimizer ";
  EXPECT_EQ(setup_of("a.sh", aware + "\n").moment_bits, 32);
  EXPECT_EQ(setup_of("a.sh", aware + "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16\n").moment_bits, 16);
  EXPECT_EQ(setup_of("a.sh", aware + "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8\n").moment_bits, 8);
  const LaunchReading unlike = read("a.sh", aware + "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp16\n");
  EXPECT_EQ(unlike.setup.software_setup.moment_bits, 16);
  EXPECT_NE(std::find(unlike.assumed.begin(), unlike.assumed.end(), "both moments of 16 bits"), unlike.assumed.end());
}

// --- what other kernels a job could take ---

std::vector<std::string> changes_of(const std::string& name, const std::string& text) {
  std::vector<std::string> changes;
  for (const KernelChange& change : kernel_changes(read(name, text).setup)) changes.push_back(change.to);
  return changes;
}
using Changes = std::vector<std::string>;

TEST(KernelChanges, AreThoseThatTheJobDoesWithout) {
  EXPECT_EQ(changes_of("a.yaml", kFactory), (Changes{"enable_liger_kernel: true"}));
  EXPECT_EQ(changes_of("a.yaml", kFactory + "flash_attn: disabled\n"),
            (Changes{"flash_attn: fa2", "enable_liger_kernel: true"}));
  EXPECT_EQ(changes_of("a.yaml", kFactory + "enable_liger_kernel: true\n"), Changes{});
  EXPECT_EQ(changes_of("a.sh", kMegatron + "\n"), Changes{});
  EXPECT_EQ(changes_of("a.sh", kMegatron + "--transformer-impl local\n"),
            (Changes{"--transformer-impl transformer_engine"}));
}

TEST(KernelChanges, LeaveTheRestOfTheSetupAsItIs) {
  const LaunchSetup now = read("a.yaml", kAxolotl + "optimizer: adamw_bnb_8bit\neager_attention: true\n").setup;
  const std::vector<KernelChange> changes = kernel_changes(now);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].setup.software_setup, (SoftwareSetup{.moment_bits = 8, .fused_attention = true}));
  EXPECT_EQ(changes[1].setup.software_setup,
            (SoftwareSetup{.moment_bits = 8, .fused_attention = false, .loss_chunks = kFittingLossChunks}));
  EXPECT_EQ(changes[1].setup.degrees, now.degrees);
}

// --- how tokens get to experts ---

const std::string kExperts = kMegatron + "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8 ";

SoftwareSetup setup_of(const std::string& text) { return read("a.sh", text).setup.software_setup; }

TEST(TokenDispatch, OfMegatronIsItsFlagOrAGatherOfAll) {
  EXPECT_EQ(setup_of(kExperts + "\n"), (SoftwareSetup{.dispatch = TokenDispatch::ToAll, .experts_per_token = 2}));
  EXPECT_EQ(setup_of(kExperts + "--moe-token-dispatcher-type alltoall\n"), SoftwareSetup());
  EXPECT_EQ(setup_of(kExperts + "--moe-token-dispatcher-type flex\n"),
            (SoftwareSetup{.dispatch = TokenDispatch::ToHosts, .experts_per_token = 2}));
  // Experts that every device has meet no dispatcher.
  EXPECT_EQ(setup_of(kMegatron + "--num-experts 8 --moe-router-topk 2\n"), SoftwareSetup());
}

TEST(TokenDispatch, MayBeChangedToOneThatMovesLess) {
  const std::string flag = "--moe-token-dispatcher-type ";
  EXPECT_EQ(changes_of("a.sh", kExperts + "\n"), (Changes{flag + "alltoall", flag + "flex"}));
  EXPECT_EQ(changes_of("a.sh", kExperts + flag + "alltoall\n"), (Changes{flag + "flex"}));
  EXPECT_EQ(changes_of("a.sh", kExperts + flag + "flex\n"), Changes{});
}

// --- modules that are recomputed ---

RecomputeModules modules_of(const std::string& text) { return read("a.sh", text).setup.degrees.recompute_modules; }

TEST(RecomputedModules, AreThoseThatTheModelHas) {
  const std::string selective = "--recompute-granularity selective ";
  const auto some = RecomputeModules::Norms | RecomputeModules::ExpertActivations;
  EXPECT_EQ(modules_of(kExperts + selective + "--recompute-modules layernorm moe_act mla_up_proj mlp\n"), some);
  EXPECT_EQ(modules_of(kMegatron + selective + "--recompute-modules layernorm moe_act mlp\n"),
            RecomputeModules::Norms | RecomputeModules::FeedForward);
  // Without the granularity they have no effect.
  EXPECT_EQ(modules_of(kExperts + "--recompute-modules layernorm moe_act\n"), RecomputeModules::None);
  // Attention alone is what selective means.
  const LaunchSetup usual = read("a.sh", kExperts + selective + "--recompute-modules core_attn\n").setup;
  EXPECT_EQ(usual.degrees.recompute_modules, RecomputeModules::None);
  EXPECT_EQ(usual.degrees.recompute, Recompute::Selective);
  const LaunchReading unknown = read("a.sh", kExperts + selective + "--recompute-modules moe_act router\n");
  EXPECT_NE(std::find(unknown.broken.begin(), unknown.broken.end(), "--recompute-modules knows no router"),
            unknown.broken.end());
}

// --- what files can be told ---

TEST(ToldSetup, IsWhatTheTargetsFilesHaveASettingFor) {
  const SoftwareSetup all{true, true, 8, false, TokenDispatch::ToHosts, 2, 8};
  const auto told = [&](const char* target) { return told_setup(find_launch_target(target), all); };
  EXPECT_EQ(
      told("megatron"),
      (SoftwareSetup{
          .eight_bit_products = true, .moment_bits = 8, .dispatch = TokenDispatch::ToHosts, .experts_per_token = 2}));
  EXPECT_EQ(told("megatron-bridge"),
            (SoftwareSetup{.eight_bit_products = true, .dispatch = TokenDispatch::ToHosts, .experts_per_token = 2}));
  EXPECT_EQ(told("torchtitan"), (SoftwareSetup{.eight_bit_products = true, .narrow_states = true}));
  EXPECT_EQ(told("maxtext"), (SoftwareSetup{.eight_bit_products = true, .loss_chunks = 8}));
  EXPECT_EQ(told("deepspeed"), SoftwareSetup());
  EXPECT_EQ(told_setup(find_launch_target("maxtext"), {.loss_chunks = kFittingLossChunks}), SoftwareSetup());
}

}  // namespace
}  // namespace meshwright::kernels_test
