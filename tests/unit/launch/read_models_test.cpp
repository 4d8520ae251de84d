// SPDX-License-Identifier: Apache-2.0
// The models that launch files describe. Numbers of parameters are those that the models' makers publish.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_models_test {
namespace {

LaunchReading read(const std::string& name, const std::string& text, const LaunchAnswers& answers = {}) {
  return read_launch(read_launch_text({.files = {{name, text}}}), {1, 8}, answers);
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
double billions(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return static_cast<double>(parameter_count(build_forward_graph(reading.setup.model, options))) * 1e-9;
}

LaunchReading read_maxtext(const std::string& keys) { return read("run.yml", "per_device_batch_size: 1\n" + keys); }

// Gemma 2 27B has 27.2 billion parameters in 46 layers.
const std::string kGemma2 =
    "base_emb_dim: 4608\nbase_num_query_heads: 32\nbase_num_kv_heads: 16\nbase_mlp_dim: 36864\n"
    "base_num_decoder_layers: 23\nhead_dim: 128\nmlp_activations: [gelu, linear]\nvocab_size: 256128\n"
    "decoder_block: gemma2\nlogits_via_embedding: true\nsliding_window_size: 4096\nattn_logits_soft_cap: 50.0\n";

TEST(MaxtextModels, ALayerOfGemma2IsAPairOfWhichOneHasAWindow) {
  const LaunchReading reading = read_maxtext(kGemma2);
  EXPECT_EQ(reading.setup.model.layers, 46);
  EXPECT_EQ(reading.setup.model.more.at("full_every"), 2);
  EXPECT_EQ(reading.setup.model.more.at("window"), 4096);
  EXPECT_NEAR(billions(reading), 27.2, 0.1);
  EXPECT_TRUE(says(reading.assumed, "without attn_logits_soft_cap"));
}

TEST(MaxtextModels, TheSequenceOfAFileThatNamesNoneIsThatOfBaseYml) {
  EXPECT_EQ(read_maxtext(kGemma2).setup.model.seq, 2048);
  EXPECT_EQ(read_maxtext(kGemma2 + "max_target_length: 512\n").setup.model.seq, 512);
}

// Llama 4 Maverick: 400 billion parameters, experts in every other layer.
TEST(MaxtextModels, Llama4HasExpertsInEveryOtherLayer) {
  const LaunchReading reading = read_maxtext(
      "decoder_block: llama4\nbase_emb_dim: 5120\nbase_num_decoder_layers: 48\nbase_num_query_heads: 40\n"
      "base_num_kv_heads: 8\nbase_mlp_dim: 16384\nbase_moe_mlp_dim: 8192\nvocab_size: 202048\nnum_experts: 128\n"
      "shared_experts: 1\nnum_experts_per_tok: 1\nnope_layer_interval: 4\ninterleave_moe_layer_step: 2\n"
      "chunk_attn_window_size: 8192\n");
  EXPECT_EQ(reading.setup.model.more.at("attention_chunk"), 8192);
  EXPECT_NEAR(billions(reading), 400.7, 0.1);
}

LaunchReading read_bridge(const std::string& recipe, const std::string& overrides) {
  return read("run.sh", "torchrun run_recipe.py --recipe " + recipe + " --mode pretrain train.micro_batch_size=1 " +
                            "train.global_batch_size=8 " + overrides + "\n");
}

// Its GPT has learned positions and three biases of queries, keys and values; the recipe's name says nothing of these.
TEST(BridgeModels, RecipesOfGptAreGptWithLearnedPositions) {
  const std::string sizes =
      "model.num_layers=4 model.hidden_size=128 model.ffn_hidden_size=512 model.num_attention_heads=4 "
      "model.num_query_groups=4 model.kv_channels=32 model.vocab_size=512 model.seq_length=64 ";
  const auto model = [&](const std::string& more) {
    return read_bridge("gpt3_175b_pretrain_config", sizes + more).setup.model;
  };
  const ModelConfig gpt2 = find_builtin_model("gpt2:layers=4,hidden=128,heads=4,seq=64,vocab=512");
  EXPECT_EQ(model("").family, "gpt2");
  EXPECT_EQ(model("").more, gpt2.more);
  EXPECT_EQ(model("model.share_embeddings_and_output_weights=false model.add_bias_linear=false").more,
            find_builtin_model("gpt2:layers=4,hidden=128,heads=4,seq=64,vocab=512,tied=0,bias=0").more);
  EXPECT_EQ(model("model.position_embedding_type=rope model.rotary_percent=0.25").family, "gpt_neox");
  EXPECT_EQ(model("model.position_embedding_type=none").family, "gpt");
  // Longer sequences have as many positions.
  const LaunchReading longer = read_launch(
      read_launch_text({.files = {{"run.sh", "torchrun run_recipe.py --recipe gpt3_175b_pretrain_config " + sizes}}}),
      {1, 8}, {.batch = 8, .micro_batch = 1, .seq = 128});
  EXPECT_EQ(longer.setup.model.more.at("positions"), 128);
  EXPECT_TRUE(longer.broken.empty()) << longer.broken.front();
  EXPECT_NE(refusal([&] { (void)model("model.vocab_size=99999999999999999999"); }).find(": model.vocab_size is "),
            std::string::npos);
}

TEST(BridgeModels, OverridesNameTheFamily) {
  const std::string sizes =
      "model.num_layers=4 model.hidden_size=128 model.num_attention_heads=8 model.vocab_size=512 "
      "model.seq_length=64 ";
  EXPECT_EQ(read_bridge("llama31_8b_pretrain_config", sizes).setup.model.family, "llama");
  EXPECT_EQ(read_bridge("llama31_8b_pretrain_config", sizes + "model.rotary_percent=0.5").setup.model.family,
            "decoder");
  EXPECT_EQ(read_bridge("qwen3_30b_a3b_pretrain_config", sizes).setup.model.family, "mixtral");
  EXPECT_EQ(read_bridge("qwen3_30b_a3b_pretrain_config", sizes + "model.moe_router_enable_expert_bias=true")
                .setup.model.family,
            "decoder_moe");
  // Without sizes it is the recipe's own.
  EXPECT_EQ(read_bridge("qwen3_30b_a3b_pretrain_config", "").setup.model.name, "qwen3-30b-a3b");
}

// A recipe of Megatron-Bridge: the model is of a hub, and the values are members of a configuration that begins with
// what another file has.
TEST(PythonRecipes, OfMegatronBridgeSetMembersOfAConfiguration) {
  const std::string text =
      "from megatron.bridge import AutoBridge\n"
      "def _common():\n  return f()\n"
      "def llama3_70b_pretrain_32gpu_h100_config():\n"
      "  \"\"\"TP=4, PP=2.\"\"\"\n  cfg = _pretrain_common()\n"
      "  cfg.model = AutoBridge.from_hf_pretrained(\"meta-llama/Meta-Llama-3-70B\").get_model_config()\n"
      "  cfg.model.tensor_model_parallel_size = 4\n  cfg.model.pipeline_model_parallel_size = 2\n"
      "  cfg.model.pipeline_model_parallel_layout = None\n  cfg.model.sequence_parallel = True\n"
      "  cfg.model.recompute_granularity = None\n  cfg.train.global_batch_size = 64\n"
      "  cfg.train.micro_batch_size = 2\n  cfg.mixed_precision = bf16_mixed()\n  return cfg\n"
      "def llama3_8b_sft_config():\n  return g()\n";
  const LaunchText recipe = read_launch_text({.files = {{"llama3.py", text}}});
  const LaunchReading reading = read_launch(recipe, {4, 8}, LaunchAnswers{});
  EXPECT_EQ(recipe.target, "megatron-bridge");
  EXPECT_EQ(recipe.devices, 32);
  EXPECT_NEAR(billions(reading), 70.55, 0.01);
  EXPECT_EQ(reading.setup.degrees.tp, 4);
  EXPECT_EQ(reading.setup.degrees.pp, 2);
  EXPECT_EQ(reading.setup.degrees.dp, 4);
  EXPECT_EQ(reading.setup.degrees.micro_batch, 2);
  EXPECT_EQ(reading.setup.batch, 64);
  EXPECT_TRUE(says(recipe.notes, "has 2 recipes, of which llama3_70b_pretrain_32gpu_h100_config is read"));
  EXPECT_TRUE(says(recipe.notes, "_pretrain_common() is not in the file"));
}

// Those of a function that is not in the file may be of any kind.
TEST(PythonRecipes, OfAdaptersTrainThemAloneWhereTheirClassIsLora) {
  const std::string begin =
      "from megatron.bridge import AutoBridge\ndef llama3_8b_peft_config():\n  cfg = _peft_common()\n";
  const auto read_recipe = [&](const char* peft) {
    return read("llama3.py", begin + "  cfg.peft = " + peft + "\n  return cfg\n");
  };
  const auto lora_of = [&](const char* peft) {
    const auto& more = read_recipe(peft).setup.model.more;
    return std::pair(more.at("lora_rank"), more.at("lora_targets"));
  };
  using Lora = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(lora_of("LoRA(dim=8)"), (Lora{8, 0}));
  EXPECT_EQ(lora_of("LoRA(dim=16, target_modules=[\"linear_qkv\"])"), (Lora{16, 2}));
  EXPECT_EQ(lora_of("LoRA()"), (Lora{32, 0}));
  for (const char* peft : {"DoRA(dim=8)", "default_peft_config(\"lora\")", "dora()"})
    EXPECT_EQ(
        refusal([&] { return read_recipe(peft); }),
        "llama3.py:4: peft: trains adapters, and only trainings of all weights are predicted; give a file without "
        "it.");
  EXPECT_NEAR(billions(read_recipe("None")), 8.03, 0.01);
  const auto run_recipe = [](const std::string& words) {
    return refusal(
        [&] { (void)read("run.sh", "torchrun run_recipe.py --recipe " + words + " train.global_batch_size=8\n"); });
  };
  EXPECT_NE(run_recipe("llama3_8b_sft_config --peft_scheme dora").find("--peft_scheme: trains adapters"),
            std::string::npos);
  EXPECT_EQ(run_recipe("llama3_8b_sft_config --peft_scheme lora"), "not refused");
  EXPECT_NE(run_recipe("llama3_8b_peft_config").find("--recipe: trains adapters"), std::string::npos);
  EXPECT_EQ(run_recipe("llama3_8b_sft_config --peft_scheme none"), "not refused");
}

// Settings that a command prints stay apart from the value of the flag in front of them: they may be degrees.
TEST(BridgeScripts, RefuseWhatACommandPrintsBehindAFlag) {
  EXPECT_EQ(refusal([&] {
              (void)read("run.sh",
                         "torchrun run_recipe.py --recipe llama3_8b_sft_config --peft_scheme none "
                         "$(make_overrides) train.global_batch_size=8\n");
            }),
            "run.sh:1: what '${output_of_make_overrides}' prints are arguments, which may change the step and are not "
            "known without running it; give them by --set output_of_make_overrides=\"...\".");
}

// Sizes without a recipe may be those of a model that makes video.
TEST(BridgeSettings, OfNoRecipeAreThoseOfADecoderOrRefused) {
  const std::string sizes =
      "model:\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n  seq_length: 32\n"
      "  tensor_model_parallel_size: 1\ntrain:\n  global_batch_size: 8\n  micro_batch_size: 1\n";
  EXPECT_TRUE(says(read("wan.yaml", sizes).assumed,
                   "layers as Megatron-LM's flags have them by default, as no recipe is named"));
  EXPECT_NE(refusal([&] {
              (void)read("wan.yaml", sizes + "dataset: {}\nmodel.crossattn_emb_size: 64\n");
            }).find("makes images or video"),
            std::string::npos);
}

// A recipe of NeMo 2: the trainer's function has defaults, and the recipe's own branch for speed is not taken. The name
// of the file is that of the model.
TEST(PythonRecipes, OfNemoConstructAModelATrainerAndData) {
  const std::string text =
      "import nemo_run as run\nfrom nemo.collections import llm\n"
      "def model():\n  return run.Config(LlamaModel, config=run.Config(Llama3Config8B, "
      "recompute_granularity=\"full\"))\n"
      "def trainer(tensor_parallelism: int = 2, virtual: Optional[int] = None, num_nodes: int = 1, devices=8):\n"
      "  strategy = run.Config(\n    nl.MegatronStrategy,\n    tensor_model_parallel_size=tensor_parallelism,\n"
      "    virtual_pipeline_model_parallel_size=virtual,\n    ddp=run.Config(D, overlap_grad_reduce=True))\n"
      "  trainer = run.Config(nl.Trainer, num_nodes=num_nodes, devices=devices, strategy=strategy,\n"
      "    plugins=bf16_mixed(), max_steps=7)\n  return trainer\n"
      "def pretrain_recipe(name=\"default\", num_nodes: int = 2, performance_mode: bool = False):\n"
      "  recipe = run.Partial(pretrain, model=model(), trainer=trainer(num_nodes=num_nodes),\n"
      "    data=run.Config(MockDataModule, seq_length=8192, global_batch_size=16, micro_batch_size=1))\n"
      "  if performance_mode:\n    recipe.trainer.strategy.tensor_model_parallel_size = 8\n  return recipe\n"
      "def finetune_recipe():\n  return f()\n";
  const LaunchText recipe = read_launch_text({.files = {{"llama3_8b.py", text}}});
  const LaunchReading reading = read_launch(recipe, {2, 8}, LaunchAnswers{});
  EXPECT_EQ(recipe.variant, "NeMo");
  EXPECT_EQ(recipe.hosts, 2);
  EXPECT_EQ(recipe.devices, 16);
  EXPECT_NEAR(billions(reading), 8.03, 0.01);
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(reading.setup.degrees.dp, 8);
  EXPECT_EQ(reading.setup.model.seq, 8192);
  EXPECT_EQ(reading.setup.batch, 16);
  EXPECT_EQ(reading.setup.steps, 7);
}

// Qwen3-Next 80B-A3B: three of four layers are gated delta rules.
TEST(MaxtextModels, Qwen3NextScansInThreeOfFourLayers) {
  const LaunchReading reading = read_maxtext(
      "decoder_block: qwen3_next\nbase_emb_dim: 2048\nbase_num_decoder_layers: 48\nbase_num_query_heads: 16\n"
      "base_num_kv_heads: 2\nhead_dim: 256\nvocab_size: 151936\nbase_mlp_dim: 512\nbase_moe_mlp_dim: 512\n"
      "num_experts: 512\nshared_experts: 1\nnum_experts_per_tok: 10\ninhomogeneous_layer_cycle_interval: 4\n"
      "gdn_num_value_heads: 32\npartial_rotary_factor: 0.25\n");
  EXPECT_EQ(reading.setup.model.family, "delta");
  EXPECT_EQ(reading.setup.model.more.at("full_every"), 4);
  EXPECT_EQ(reading.setup.model.more.at("rotary_dims"), 64);
  EXPECT_NEAR(billions(reading), 79.7, 0.1);
}

TEST(MaxtextModels, BlocksWithoutAnEqualAreRefused) {
  EXPECT_NE(refusal([] { (void)read_maxtext(kGemma2 + "decoder_block: deepseek4\n"); }).find("'deepseek4'"),
            std::string::npos);
}

LaunchReading read_megatron(const std::string& program, const std::string& flags) {
  return read("run.sh", "torchrun " + program +
                            " --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
                            "--vocab-size 128 --make-vocab-size-divisible-by 1 --micro-batch-size 1 " +
                            flags + "\n");
}

TEST(MegatronModels, WindowsInAllLayersButEverySecond) {
  const ModelConfig model = read_megatron("pretrain_gpt.py",
                                          "--num-layers 2 --swiglu --normalization RMSNorm --disable-bias-linear "
                                          "--position-embedding-type rope --window-size 15,0 --window-attn-skip-freq 2")
                                .setup.model;
  EXPECT_EQ(model.more.at("window"), 16);  // 15 keys before, and its own
  EXPECT_EQ(model.more.at("full_every"), 2);
}

TEST(MegatronModels, MegatronDeepspeedsGatesAndSequences) {
  const LaunchReading reading = read_megatron(
      "pretrain_gpt.py",
      "--num-layers 2 --glu-activation swiglu --ffn-hidden-size 96 --ds-sequence-parallel-size 4 --deepspeed");
  EXPECT_EQ(reading.setup.model.more.at("gated"), 1);
  EXPECT_EQ(reading.setup.model.more.at("intermediate"), 96);
  EXPECT_EQ(reading.setup.degrees.cp, 4);
  EXPECT_EQ(reading.setup.degrees.dp, 2);
  EXPECT_EQ(reading.setup.degrees.context, ContextExchange::AllToAll);
}

// DeepSpeed splits states and weights at every level; Megatron-LM at the first alone.
TEST(MegatronModels, MegatronDeepspeedHasEveryLevelOfZero) {
  for (const char* level : {"2", "3"}) {
    const LaunchReading reading =
        read_megatron("pretrain_gpt.py", std::string("--num-layers 2 --deepspeed --zero-stage ") + level);
    EXPECT_EQ(reading.setup.degrees.zero, level[0] - '0');
    EXPECT_TRUE(reading.broken.empty()) << reading.broken[0];
  }
}

// torchtitan prints 6,163,712 parameters of its smallest Llama.
TEST(TorchtitanModels, OfItsTestsHaveTheSizesOfItsTables) {
  const auto parameters_of = [](const std::string& name, const std::string& flavor) {
    const LaunchReading reading =
        read("debug_model.toml", "[model]\nname = \"" + name + "\"\nflavor = \"" + flavor +
                                     "\"\n[training]\nlocal_batch_size = 8\nseq_len = 2048\n");
    EXPECT_TRUE(says(reading.assumed, "torchtitan 0.2.2's own tables")) << name;
    return billions(reading) * 1e9;
  };
  EXPECT_NEAR(parameters_of("llama3", "debugmodel"), 6'163'712, 0.5);
  EXPECT_NEAR(parameters_of("llama3", "debugmodel_flex_attn"), 6'163'712, 0.5);
  // A table, and in each layer 3 products of 3072, those of 16 and 2 times 8 heads of 128, and norms.
  EXPECT_NEAR(parameters_of("qwen3", "debugmodel"),
              2048 * 256 + 8 * (3 * 256 * 3072 + 256 * 128 * (2 * 16 + 2 * 8) + 2 * 256 + 2 * 128) + 256, 0.5);
  EXPECT_GT(parameters_of("qwen3", "debugmodel_moe"), 3e8);
  EXPECT_GT(parameters_of("deepseek_v3", "debugmodel"), 1e7);
}

// What our files cannot say of a model is no rule for a framework's own.
TEST(TorchtitanModels, OfItsOwnTablesBreakNoRuleOfOurFiles) {
  const LaunchReading reading =
      read("llama4.toml",
           "[model]\nname = \"llama4\"\nflavor = \"17bx128e\"\n[training]\n"
           "local_batch_size = 4\nseq_len = 128\n[parallelism]\ntensor_parallel_degree = 8\n");
  EXPECT_EQ(reading.setup.model.name, "llama4-maverick");
  EXPECT_TRUE(reading.broken.empty()) << reading.broken[0];
}

// Megatron-LM reads the groups of queries only beside a second flag.
TEST(MegatronModels, GroupsOfQueriesWithoutTheirFlagAreSaidToBeDropped) {
  const std::string flags = "--num-layers 2 --num-query-groups 2 ";
  EXPECT_TRUE(says(read_megatron("pretrain_gpt.py", flags).broken,
                   "--num-query-groups 2 has no effect without --group-query-attention"));
  EXPECT_TRUE(read_megatron("pretrain_gpt.py", flags + "--group-query-attention").broken.empty());
}

// FlagScale's files name no program either.
TEST(MegatronModels, FilesOfModelsWithAnEyeSayThatItIsLeftOut) {
  const LaunchReading reading =
      read("7b.yaml",
           "system:\n  tensor_model_parallel_size: 1\nmodel:\n  num_layers: 2\n  hidden_size: 64\n"
           "  num_attention_heads: 4\n  seq_length: 32\n  max_position_embeddings: 32\n  micro_batch_size: 1\n"
           "  img_h: 384\n  vision_model_type: siglip\n");
  EXPECT_TRUE(says(reading.assumed, "the language model alone, without what reads images"));
}

// The file of --yaml-cfg has the fields of Megatron-core in groups, and the command's own flags count for nothing.
TEST(MegatronModels, ArgumentsMayBeInAFile) {
  const std::string yaml =
      "language_model:\n  num_layers: 4\n  hidden_size: 64\n  num_attention_heads: 4\n  add_bias_linear: False\n"
      "  activation_func: swiglu\n  ffn_hidden_size: 96\n  normalization: RMSNorm\n"
      "model_parallel:\n  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 2\n  bf16: True\n"
      "micro_batch_size: 2\nglobal_batch_size: 16\nseq_length: 32\nmax_position_embeddings: 32\n"
      "encoder_seq_length: null\nmake_vocab_size_divisible_by: 128\nposition_embedding_type: rope\nvocab_size: 1000\n";
  const auto expect = [](const LaunchReading& reading) {
    EXPECT_EQ(reading.setup.model.layers, 4);
    EXPECT_EQ(reading.setup.model.more.at("intermediate"), 96);
    EXPECT_EQ(reading.setup.model.family, "llama");
    EXPECT_EQ(reading.setup.degrees.tp, 2);
    EXPECT_EQ(reading.setup.degrees.pp, 2);
    EXPECT_EQ(reading.setup.batch, 16);
  };
  expect(read("gpt_config.yaml", yaml));
  const std::string fusions = "masked_softmax_fusion: False\nbias_dropout_fusion: True\napply_rope_fusion: True\n";
  EXPECT_EQ(read("gpt_config.yaml", yaml + fusions).settings.count(Setting::State::Unread), 0);
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg conf/gpt_config.yaml --num-layers 8\n";
  const LaunchText both = read_launch_text({.files = {{"run.sh", script}, {"gpt_config.yaml", yaml}}});
  expect(read_launch(both, {1, 8}, LaunchAnswers{}));
  EXPECT_TRUE(says(both.notes, "the flags beside --yaml-cfg are not read"));
  EXPECT_NE(refusal([&] { (void)read("run.sh", script); }).find("--yaml-cfg names the file"), std::string::npos);
}

// numactl's memory is no module of Python.
TEST(MegatronModels, AProgramBehindNumactlIsFound) {
  const LaunchText text = read_launch_text(
      {.files = {{"run.sh", "numactl -m 4-7 -N 4-7 python pretrain_gpt.py --num-layers 2 --hidden-size 64\n"}}});
  EXPECT_EQ(text.program, "run.sh:1: pretrain_gpt.py");
}

// MindSpeed-LLM's.
TEST(MegatronModels, AdaptersAreOfTheModulesThatAreNamed) {
  const auto& more = read_megatron("pretrain_gpt.py",
                                   "--num-layers 2 --lora-r 8 --lora-alpha 16 --lora-target-modules "
                                   "query_key_value dense")
                         .setup.model.more;
  EXPECT_EQ(more.at("lora_rank"), 8);
  EXPECT_EQ(more.at("lora_targets"), 1);
}

TEST(MegatronModels, WhatTrainsOtherWeightsIsRefused) {
  const auto refused = [](const std::string& flags) {
    return refusal([&] { (void)read_megatron("pretrain_gpt.py", "--num-layers 2 " + flags); });
  };
  EXPECT_NE(refused("--lora-target-modules query_key_value").find("trains adapters"), std::string::npos);
  EXPECT_NE(refused("--freeze-LM").find("--freeze-LM: trains beside a model"), std::string::npos);
  EXPECT_NE(refused("--stage dpo").find("'dpo' trains with further models"), std::string::npos);
  EXPECT_EQ(refused("--stage sft"), "not refused");
}

TEST(MegatronModels, TasksThatMeasureAModelAreRefused) {
  const auto refused = [](const std::string& task) {
    return refusal([&] { (void)read_megatron("tasks/main.py", "--num-layers 2 --task " + task); });
  };
  EXPECT_NE(refused("WIKITEXT103").find("does not train"), std::string::npos);
  EXPECT_NE(refused("RACE").find("BERT"), std::string::npos);
  EXPECT_NE(refused("").find("nothing tells which of its tasks"), std::string::npos);
  EXPECT_NE(refusal([] { (void)read_megatron("tools/merge_mp_partitions.py", "--num-layers 2"); }).find("does not"),
            std::string::npos);
}

// Qwen3.5 35B-A3B: 34.7 billion parameters in its layers, embedding and head.
TEST(MegatronModels, GatedDeltaRulesInThreeOfFourLayers) {
  const std::string flags =
      "torchrun pretrain_gpt.py --num-layers 40 --hidden-size 2048 --ffn-hidden-size 512 --num-attention-heads 16 "
      "--num-query-groups 2 --group-query-attention --kv-channels 256 --qk-layernorm --seq-length 4096 "
      "--position-embedding-type rope --rotary-percent 0.25 --disable-bias-linear --normalization RMSNorm --swiglu "
      "--untie-embeddings-and-output-weights --vocab-size 248320 --make-vocab-size-divisible-by 1 "
      "--experimental-attention-variant gated_delta_net --linear-attention-freq 4 --linear-key-head-dim 128 "
      "--linear-value-head-dim 128 --linear-num-key-heads 16 --linear-num-value-heads 32 --num-experts 256 "
      "--moe-router-topk 8 --moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 --micro-batch-size 1 ";
  const LaunchReading reading = read("run.sh", flags + "--attention-output-gate\n");
  EXPECT_EQ(reading.setup.model.more.at("full_every"), 4);
  EXPECT_NEAR(billions(reading), 34.7, 0.05);
  const std::string without = refusal([&] { (void)read("run.sh", flags + "\n"); });
  EXPECT_NE(without.find("--experimental-attention-variant: asks for layers"), std::string::npos) << without;
}

TEST(MegatronModels, LayersThatNoFlagDescribesAreRefused) {
  for (const char* flag : {"--experimental-attention-variant kda", "--heterogeneous-layers-config-path l.json",
                           "--num-zero-experts 2", "--spec mindspeed_llm.tasks.models.spec.longcat_spec layer_spec"}) {
    const std::string why =
        refusal([&] { (void)read_megatron("pretrain_gpt.py", std::string("--num-layers 2 ") + flag); });
    EXPECT_NE(why.find("give --model"), std::string::npos) << flag << why;
  }
}

// DeepSeek-V3's sizes in one layer: an indexer of 64 heads of 128 that reads the 1536 of the queries and the hidden
// 7168.
TEST(MegatronModels, AnIndexerIsReadByTheFlagsOfBothPrograms) {
  const std::string latent =
      "torchrun pretrain_gpt.py --num-layers 1 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--seq-length 128 --position-embedding-type rope --disable-bias-linear --normalization RMSNorm --swiglu "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --untie-embeddings-and-output-weights "
      "--vocab-size 128 --make-vocab-size-divisible-by 1 --num-experts 2 --moe-router-topk 1 --moe-ffn-hidden-size "
      "2048 "
      "--micro-batch-size 1 ";
  const double plain = billions(read("run.sh", latent + "\n"));
  const double indexer = (1536.0 * 64 * 128 + 7168.0 * 128 + 7168.0 * 64) * 1e-9;
  for (const char* flags : {"--experimental-attention-variant dsa --dsa-indexer-n-heads 64 --dsa-indexer-head-dim 128 "
                            "--dsa-indexer-topk 64\n",
                            "--enable-dsa-indexer --index-n-heads 64 --index-head-dim 128 --index-topk 64\n"}) {
    const LaunchReading reading = read("run.sh", latent + flags);
    EXPECT_EQ(reading.setup.model.more.at("index_top_k"), 64);
    EXPECT_NEAR(billions(reading) - plain, indexer, 1e-6) << flags;  // and a norm of 256 numbers
  }
}

// --- MindSpeed-LLM ---

LaunchReading read_mindspeed(const std::string& flags) {
  return read_megatron("pretrain_gpt.py",
                       "--use-fused-rmsnorm --swiglu --normalization RMSNorm --disable-bias-linear "
                       "--position-embedding-type rope " +
                           flags);
}

// There are eight layers, two on each device. Layers 0 and 7 do nothing; layer 2 is the first one that has experts.
TEST(Mindspeed, SomeLayersDoNothingAndEvenOutTheStages) {
  const LaunchReading reading = read_mindspeed(
      "--num-layers 8 --noop-layers 0,7 --pipeline-model-parallel-size 4 --num-experts 8 --moe-intermediate-size 16 "
      "--n-shared-experts 2 --first-k-dense-replace 2 --moe-layer-freq -1");
  EXPECT_EQ(reading.setup.release, "MindSpeed-LLM c77308a1");
  EXPECT_EQ(reading.setup.model.layers, 6);
  EXPECT_EQ(reading.setup.stage_blocks, (std::vector<int>{1, 2, 2, 1}));
  EXPECT_EQ(reading.setup.model.more.at("dense_layers"), 1);
  EXPECT_EQ(reading.setup.model.more.at("expert_intermediate"), 16);
  EXPECT_EQ(reading.setup.model.more.at("shared_intermediate"), 32);
  EXPECT_NE(refusal([] { (void)read_mindspeed("--num-layers 2 --noop-layers 0,1"); }).find("name fewer"),
            std::string::npos);
}

TEST(Mindspeed, AListSaysTheLayersOfEveryStage) {
  EXPECT_EQ(read_mindspeed("--num-layers 6 --num-layer-list 1,5 --pipeline-model-parallel-size 2").setup.stage_blocks,
            (std::vector<int>{1, 5}));
  const LaunchReading wrong = read_mindspeed("--num-layers 6 --num-layer-list 1,4 --pipeline-model-parallel-size 2");
  EXPECT_TRUE(says(wrong.broken, "--num-layer-list 1,4 are not the 6 layers of 2 stages"));
}

TEST(Mindspeed, SaysDegreesInWordsOfItsOwn) {
  const LaunchReading reading = read_mindspeed(
      "--num-layers 8 --pipeline-model-parallel-size 2 --schedules-method dualpipev --context-parallel-size 2 "
      "--context-parallel-algo ulysses_cp_algo --global-batch-size 16");
  EXPECT_EQ(reading.setup.degrees.schedule, ScheduleKind::DualPipeV);
  EXPECT_EQ(reading.setup.degrees.chunks, 2);
  EXPECT_EQ(reading.setup.degrees.context, ContextExchange::AllToAll);
  const LaunchReading experts = read_mindspeed(
      "--num-layers 2 --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 "
      "--moe-tp-extend-ep --num-experts 8");
  EXPECT_EQ(experts.setup.degrees.ep, 4);  // whole experts, over the two ranks of tp as well
  EXPECT_TRUE(experts.setup.degrees.whole_experts);
}

// Gemma 2 9B has 9.24 billion parameters, GLM-4 9B (0414) 9.4 billion; both have a norm behind every part.
TEST(Mindspeed, OneSpecificationIsOfGemma2AndOfGlm4) {
  const std::string spec = "--spec mindspeed_llm.tasks.models.spec.gemma2_spec layer_spec --post-norm ";
  const auto sized = [&](const std::string& flags) {
    return billions(read("run.sh", "torchrun pretrain_gpt.py " + spec + flags +
                                       " --seq-length 4096 --position-embedding-type rope --disable-bias-linear "
                                       "--normalization RMSNorm --group-query-attention --micro-batch-size 1 "
                                       "--make-vocab-size-divisible-by 1\n"));
  };
  EXPECT_NEAR(sized("--gelu-tanh --interleave-sliding-window 4096 --num-layers 42 --hidden-size 3584 "
                    "--ffn-hidden-size 14336 --num-attention-heads 16 --num-query-groups 8 --kv-channels 256 "
                    "--vocab-size 256000"),
              9.24, 0.01);
  EXPECT_NEAR(sized("--swiglu --num-layers 40 --hidden-size 4096 --ffn-hidden-size 13696 --num-attention-heads 32 "
                    "--num-query-groups 2 --add-qkv-bias --rotary-percent 0.5 --vocab-size 151552 "
                    "--untie-embeddings-and-output-weights"),
              9.4, 0.01);
}

}  // namespace
}  // namespace meshwright::read_models_test
