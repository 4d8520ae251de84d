// SPDX-License-Identifier: Apache-2.0
// Launches that several files make together (settings that are sourced first, YAML with variables, words of Hydra over
// it, a script beside its command), and arguments that are written in part.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_composed_test {
namespace {

LaunchText text_of(std::vector<GivenFile> files, std::map<std::string, std::string> variables = {}) {
  return read_launch_text({.files = std::move(files), .variables = std::move(variables)});
}
LaunchReading read(std::vector<GivenFile> files, LaunchDevices devices = {1, 8}, LaunchAnswers answers = {}) {
  return read_launch(text_of(std::move(files)), devices, std::move(answers));
}
std::string refused(std::vector<GivenFile> files) {
  return refusal([&] { (void)read(std::move(files)); });
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
std::vector<std::string> unread(const LaunchReading& reading) {
  std::vector<std::string> names;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) names.push_back(setting.key);
  return names;
}

const std::string kGpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 256 --num-attention-heads 8 "
    "--seq-length 128 --max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 32 --bf16 ";
LaunchReading read_gpt(const std::string& flags) { return read({{"run.sh", kGpt + flags + "\n"}}); }

// --- abbreviations ---

TEST(Abbreviations, AreTheFlagThatAddsSizeOrTheOnlyOne) {
  const LaunchReading reading =
      read_gpt("--vocab-size 1024 --tensor-model-parallel 2 --pipeline-model-parallel 2 --recompute-gran selective");
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(reading.setup.degrees.pp, 2);
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Selective);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_TRUE(says(reading.broken, "--tensor-model-parallel is read as --tensor-model-parallel-size"));
  EXPECT_TRUE(says(reading.broken, "takes no abbreviations"));
}

TEST(Abbreviations, OfSeveralFlagsAreNone) {
  const LaunchReading reading = read_gpt("--vocab-size 1024 --recompute full --decoder 2");
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(unread(reading), (std::vector<std::string>{"recompute", "decoder"}));
  EXPECT_TRUE(says(reading.broken, "--recompute is no flag, and --recompute-activations"));
}

TEST(Abbreviations, WholeFlagsAreNone) {
  EXPECT_FALSE(says(read_gpt("--vocab-size 1024 --num-layers 8 --optimizer adam --save x --seed 1 --load y").broken,
                    "is read as"));
}

const std::string kAccelerate =
    "accelerate launch --num_processes 8 --use_fsdp sft.py --model_name_or_path meta-llama/Llama-3.1-8B "
    "--max_seq_length 4096 ";

// Behind a flag, also behind one that takes no value, what a command prints may be further flags.
TEST(PrintedFlags, AreRefusedAsTheyMayChangeTheStep) {
  for (const char* flags :
       {"--vocab-size 50304 $(more)", "--vocab-size 50304 --untie-embeddings-and-output-weights $(more)"})
    EXPECT_NE(refusal([&] { (void)read_gpt(flags); }).find("give them by --set output_of_more=\"...\""),
              std::string::npos)
        << flags;
  EXPECT_TRUE(unread(read_gpt("--vocab-size 50304 $MORE")).empty());
}

TEST(Abbreviations, OfTheTrainerAreItsArguments) {
  const LaunchReading reading =
      read({{"run.sh", kAccelerate + "--per_device_train_batch 2 --gradient_accumulation 4 --bf16\n"}});
  EXPECT_EQ(reading.setup.degrees.micro_batch, 2);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 4);
  EXPECT_TRUE(says(reading.assumed, "--gradient_accumulation as --gradient_accumulation_steps"));
}

TEST(Abbreviations, DegreesOfAProgramAreNotPassedOver) {
  const LaunchReading reading =
      read({{"run.sh", kAccelerate + "--per_device_train_batch_size 2 --tp_size 4 --seed 4 --optim adafactor\n"}});
  EXPECT_EQ(unread(reading), (std::vector<std::string>{"program.tp_size"}));
  EXPECT_TRUE(says(reading.assumed, "Adam in the place of adafactor"));
}

// --- Pai-Megatron-Patch ---

TEST(PaiMegatron, WordsAreThoseOfTheTokenizerAndFurtherOnes) {
  const LaunchReading reading = read_gpt(
      "--patch-tokenizer-type Qwen2Tokenizer --extra-vocab-size 421 --swiglu --use-llama2-rotary-position-embeddings");
  EXPECT_EQ(reading.setup.model.vocab, 152'064);  // 151643 + 421
  EXPECT_TRUE(says(reading.assumed, "151643 words of Qwen2Tokenizer and 421 more"));
  // Two makers' sizes of one tokenizer.
  EXPECT_EQ(read_gpt("--patch-tokenizer-type DeepSeekV2Tokenizer --extra-vocab-size 2400").setup.model.vocab, 102'400);
  EXPECT_EQ(read_gpt("--patch-tokenizer-type DeepSeekV2Tokenizer --extra-vocab-size 467").setup.model.vocab, 129'280);
}

TEST(PaiMegatron, ItsOptimizersKeepStatesOnTheHost) {
  EXPECT_EQ(read_gpt("--vocab-size 1024 --optimizer hybridadam --optimizer-offload-policy static").setup.offload,
            Offload::Optimizer);
  EXPECT_EQ(read_gpt("--vocab-size 1024 --optimizer cpu-adam").setup.offload, Offload::Optimizer);
  EXPECT_EQ(read_gpt("--vocab-size 1024 --optimizer adam").setup.offload, Offload::None);
}

// --- NeMo's first trainer ---

const std::string kNemoWords =
    "python examples/nlp/language_modeling/megatron_gpt_pretraining.py trainer.devices=8 trainer.num_nodes=2 "
    "model.micro_batch_size=2 model.global_batch_size=64 model.tensor_model_parallel_size=4 "
    "model.pipeline_model_parallel_size=2 +model.sequence_parallel=True model.num_layers=24 model.hidden_size=1024 "
    "model.ffn_hidden_size=4096 model.num_attention_heads=16 model.encoder_seq_length=2048 "
    "model.optim.name=distributed_fused_adam ";

TEST(NemoCommand, WordsOfHydraAreSettings) {
  const LaunchText text = text_of({{"run.sh", kNemoWords + "\n"}});
  EXPECT_EQ(text.variant, "NeMo");
  EXPECT_EQ(text.hosts, 2);
  EXPECT_EQ(text.devices_per_host, 8);
  const LaunchReading reading = read_launch(text, {2, 8}, {});
  EXPECT_EQ(reading.setup.degrees.tp, 4);
  EXPECT_EQ(reading.setup.degrees.pp, 2);
  EXPECT_EQ(reading.setup.degrees.dp, 2);
  EXPECT_EQ(reading.setup.degrees.zero, 1);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 16);  // 64 of 2 replicas x 2
  EXPECT_TRUE(reading.setup.degrees.sequence_parallel);
  EXPECT_EQ(reading.setup.model.seq, 2048);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_TRUE(says(text.notes, "megatron_gpt_config.yaml is not there"));
}

TEST(NemoCommand, ChangesTheFileThatItNames) {
  const std::string file =
      "trainer:\n  devices: 8\n  num_nodes: 1\n  precision: bf16\nmodel:\n  micro_batch_size: 1\n"
      "  global_batch_size: 32\n  tensor_model_parallel_size: ${oc.env:TP,2}\n  encoder_seq_length: 512\n"
      "  num_layers: 4\n  hidden_size: 256\n  ffn_hidden_size: ${multiply:4,${.hidden_size}}\n"
      "  num_attention_heads: 8\n  megatron_amp_O2: true\n";
  const std::string command =
      "export TP=4\npython megatron_gpt_pretraining.py --config-path=conf --config-name=mine model.hidden_size=512\n";
  const LaunchReading reading = read({{"run.sh", command}, {"conf/mine.yaml", file}});
  EXPECT_EQ(reading.setup.degrees.tp, 4);
  EXPECT_EQ(reading.setup.model.hidden, 512);
  EXPECT_EQ(reading.setup.model.more.at("intermediate"), 2048);
  EXPECT_NE(refused({{"run.sh", command}}).find("names NeMo's file 'mine.yaml'"), std::string::npos);
}

// --- settings that are sourced before ---

const std::string kSettings =
    "export DGXNNODES=4\nexport TP=4\nexport PP=2\nexport MINIBS=8\nexport MICRO=2\nexport DGXSYSTEM=x\n";
const std::string kVariables =
    "trainer:\n  devices: ${oc.decode:${oc.env:DGXNGPU,8}}\n  num_nodes: ${oc.decode:${oc.env:DGXNNODES,1}}\n"
    "  precision: bf16\nmodel:\n  micro_batch_size: ${oc.decode:${oc.env:MICRO}}\n"
    "  tensor_model_parallel_size: ${oc.decode:${oc.env:TP}}\n"
    "  pipeline_model_parallel_size: ${oc.decode:${oc.env:PP}}\n"
    "  global_batch_size: ${multiply:${oc.decode:${oc.env:MINIBS}},${floor_div:${multiply:${trainer.devices},"
    "${trainer.num_nodes}},${multiply:${model.tensor_model_parallel_size},${model.pipeline_model_parallel_size}}}}\n"
    "  encoder_seq_length: 512\n  num_layers: 4\n  hidden_size: 256\n  num_attention_heads: 8\n"
    "  megatron_amp_O2: true\n  optim:\n    use_distributed_optimizer: True\n    overlap_grad_reduce: True\n";

TEST(SourcedSettings, FillTheVariablesOfAFile) {
  for (const auto& files : {std::vector<GivenFile>{{"config_x.sh", kSettings}, {"conf/custom.yaml", kVariables}},
                            std::vector<GivenFile>{{"conf/custom.yaml", kVariables}, {"config_x.sh", kSettings}}}) {
    const LaunchText text = text_of(files);
    EXPECT_EQ(text.hosts, 4);
    const LaunchReading reading = read_launch(text, {4, 8}, {});
    EXPECT_EQ(reading.setup.degrees.tp, 4);
    EXPECT_EQ(reading.setup.degrees.pp, 2);
    EXPECT_EQ(reading.setup.global_batch(), 32);  // 8 x (8 x 4) / (4 x 2)
    EXPECT_EQ(reading.setup.degrees.zero, 1);
    EXPECT_TRUE(reading.setup.overlap_gradients);
  }
  EXPECT_NE(refused({{"conf/custom.yaml", kVariables}}).find("a variable whose value is not known; give --set"),
            std::string::npos);
}

TEST(SourcedSettings, FillTheVariablesOfAScriptThatDoesNotNameThem) {
  const std::string run = kGpt + "--vocab-size 1024 --tensor-model-parallel-size $TP\n";
  EXPECT_EQ(read({{"run.sh", run}, {"config_x.sh", kSettings}}).setup.degrees.tp, 4);
  EXPECT_EQ(
      read_launch(text_of({{"run.sh", run}, {"config_x.sh", kSettings}}, {{"TP", "8"}}), {1, 8}, {}).setup.degrees.tp,
      8);
  // What sources its settings itself decides when.
  EXPECT_EQ(read({{"run.sh", "TP=2\n" + run + "# then config_x.sh\n"}, {"config_x.sh", kSettings}}).setup.degrees.tp,
            2);
}

// --- overrides of recipes ---

TEST(RecipeOverrides, FsdpSplitsStatesAsRecipesDo) {
  const std::string run =
      "torchrun --nproc_per_node 8 run_recipe.py --recipe llama3_8b_pretrain_config train.global_batch_size=16 "
      "train.micro_batch_size=1 ddp.use_megatron_fsdp=True ";
  EXPECT_EQ(read({{"run.sh", run + "\n"}}).setup.degrees.zero, 3);
  EXPECT_TRUE(says(read({{"run.sh", run + "\n"}}).assumed, "which recipes have by default"));
  EXPECT_EQ(read({{"run.sh", run + "ddp.data_parallel_sharding_strategy=optim\n"}}).setup.degrees.zero, 1);
}

// --- scripts that export writes, beside the command that starts them ---

const std::string kProgram =
    "import torch\nfrom accelerate import Accelerator\nimport model\n\nDP_REPLICATE, DP_SHARD, CP, TP, PP, EP = "
    "1, 8, 1, 1, 1, 1\nZERO = 3\nMICRO_BATCH, MICRO_BATCHES, STEPS = 2, 4, 20\nDTYPE = torch.bfloat16\n"
    "RECOMPUTE = False\nLEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 0.0003, 0.1, 1.0\n"
    "OPTIMIZER = functools.partial(torch.optim.AdamW, lr=LEARNING_RATE)\n";
const std::string kFsdpYaml =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_reshard_after_forward: true\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n";

TEST(WrittenScripts, HoldTheBatchThatAccelerateStarts) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("llama:layers=4,hidden=256,heads=8,intermediate=512,seq=512,vocab=1024");
  const LaunchReading reading = read({{"run.sh", "accelerate launch --config_file accelerate.yaml train.py\n"},
                                      {"accelerate.yaml", kFsdpYaml},
                                      {"train.py", kProgram}},
                                     {1, 8}, answers);
  EXPECT_EQ(reading.setup.degrees.micro_batch, 2);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 4);
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.optimizer.weight_decay, 0.1);
  EXPECT_EQ(reading.setup.optimizer.max_norm, 1.0);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

}  // namespace
}  // namespace meshwright::read_composed_test
