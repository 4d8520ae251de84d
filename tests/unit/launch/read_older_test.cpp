// SPDX-License-Identifier: Apache-2.0
// Launch files of older releases and of forks, whose flags have other names and defaults.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_older_test {
namespace {

LaunchReading read(const std::string& name, const std::string& text, LaunchDevices devices = {1, 8}) {
  return read_launch(read_launch_text({.files = {{name, text}}}), devices, LaunchAnswers{});
}
std::string refused(const std::string& name, const std::string& text) {
  return refusal([&] { (void)read(name, text); });
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
std::int64_t parameters(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return parameter_count(build_forward_graph(reading.setup.model, options));
}
std::vector<std::string> unread(const LaunchReading& reading) {
  std::vector<std::string> names;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) names.push_back(setting.key);
  return names;
}

const std::string kSizes =
    "--num-layers 8 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 "
    "--micro-batch-size 2 --global-batch-size 32 --vocab-size 1024 ";
LaunchReading read_gpt(const std::string& flags, const std::string& launcher = "torchrun --nproc_per_node 8") {
  return read("run.sh", launcher + " pretrain_gpt.py " + kSizes + flags + "\n");
}

// --- Megatron-LM before core ---

TEST(OlderMegatron, RecomputesByItsOlderFlags) {
  EXPECT_EQ(read_gpt("--fp16").setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(read_gpt("--checkpoint-activations").setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(read_gpt("--checkpoint-activations --checkpoint-num-layers 1").setup.degrees.recompute, Recompute::Full);
  EXPECT_EQ(read_gpt("--activations-checkpoint-method uniform").setup.degrees.recompute, Recompute::Full);
  EXPECT_TRUE(says(read_gpt("--checkpoint-activations").broken, "no longer flags"));
  // The first two blocks of a stage of four.
  const LaunchReading block = read_gpt(
      "--activations-checkpoint-method block --activations-checkpoint-num-layers 2 --pipeline-model-parallel-size 2");
  EXPECT_EQ(block.setup.degrees.recompute, Recompute::None);
  ASSERT_EQ(block.setup.recompute_layers.size(), 2u);
  EXPECT_EQ(block.setup.recompute_layers[1].first, 4);
  EXPECT_EQ(block.setup.recompute_layers[1].last, 5);
}

TEST(OlderMegatron, ForksNameTheSamePartsOtherwise) {
  const LaunchReading reading = read_gpt(
      "--RMSNorm --swiglu --disable-bias-linear --use-rotary-position-embeddings --no_tie_embed_logits "
      "--num_attention_heads_kv 2 --overlapped-distributed-optimizer --reduce-bucket-size=2e8 --causal-lm --bf16");
  EXPECT_EQ(reading.setup.model.family, "llama");
  EXPECT_EQ(reading.setup.model.more.at("kv_heads"), 2);
  EXPECT_EQ(reading.setup.model.more.at("tied"), 0);
  EXPECT_EQ(reading.setup.degrees.zero, 1);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(OlderMegatron, WordsOfAFileOfAnotherMakerAreAssumed) {
  const auto words = [](const std::string& file) {
    return says(read("run.sh",
                     "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 "
                     "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
                     "--micro-batch-size 1 --tokenizer-type GPT2BPETokenizer --vocab-file " +
                         file + "\n")
                    .assumed,
                "50257 words, as of gpt2");
  };
  EXPECT_TRUE(words("tokenizers/nordic_131072/vocab.json"));
  EXPECT_FALSE(words("data/gpt2-vocab.json"));
  EXPECT_FALSE(words("$VOCAB_FILE"));
}

TEST(OlderMegatron, SizesOfACheckpointAreSaid) {
  EXPECT_TRUE(says(read_gpt("--use-checkpoint-args").assumed, "which those of the checkpoint replace"));
}

TEST(OlderMegatron, ProgramsThatDoNotTrainAModelOfTokensAreRefused) {
  const auto task = [](const std::string& flags) {
    return refused("run.sh", "torchrun tasks/main.py " + kSizes + flags + "\n");
  };
  EXPECT_NE(task("--task MNLI").find("BERT"), std::string::npos);
  EXPECT_NE(task("--task LAMBADA").find("does not train"), std::string::npos);
  EXPECT_NE(refused("run.sh", "python analyze.py " + kSizes + "--analyzing-task map\n").find("does not train"),
            std::string::npos);
}

// An encoder of images has sequences of its own.
TEST(OlderMegatron, TheLanguageModelHasTheLengthOfTheDecoder) {
  const LaunchReading reading =
      read("run.sh", "torchrun --nproc_per_node 8 examples/multimodal/train.py " + kSizes +
                         "--decoder-seq-length 64 --img-h 336 --img-w 336 --patch-dim 14 --freeze-ViT\n");
  EXPECT_EQ(reading.setup.model.seq, 64);
  EXPECT_TRUE(says(reading.assumed, "the language model alone"));
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(OlderMegatron, LayoutsMayEscapeTheirBars) {
  const LaunchReading reading =
      read("model_config.yaml",
           "MODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: 256\n  --num-attention-heads: 8\n  --seq-length: 128\n"
           "  --micro-batch-size: 1\n  --global-batch-size: 32\n  --vocab-size: 1024\n"
           "  --pipeline-model-parallel-size: 4\n"
           "  --pipeline-model-parallel-layout: Et*2\\|t*2\\|t*2\\|t*2L\n");
  EXPECT_EQ(reading.setup.stage_blocks, (std::vector<int>{2, 2, 2, 2}));
}

// --- words of scripts ---

TEST(OlderMegatron, TorchrunStartsOneProcessWhereItIsToldOfNoMore) {
  const auto devices = [](const std::string& launcher) {
    return devices_of(read_launch_text({.files = {{"run.sh", launcher + " pretrain_gpt.py " + kSizes + "\n"}}}));
  };
  EXPECT_EQ(devices("torchrun")->devices(), 1);
  EXPECT_EQ(devices("python -m torch.distributed.launch --master_port 6000")->devices(), 1);
  EXPECT_EQ(devices("torchrun --nproc_per_node 4")->devices(), 4);
  EXPECT_EQ(devices("torchrun $DISTRIBUTED_ARGS")->devices(), 8);  // not known: a usual host
}

TEST(OlderMegatron, AValueMayHoldAnEqualsSignAndAVariableFurtherFlags) {
  const LaunchReading reading = read_gpt("--wandb-name 7b-TP=2-PP=2 --bf16 $MORE --tensor-model-parallel-size 2 $VPP");
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  EXPECT_NE(refused("run.sh", "torchrun pretrain_gpt.py " + kSizes + "--tensor-model-parallel-size $4\n")
                .find("give --args with at least 4 words"),
            std::string::npos);
}

TEST(OlderMegatron, SlurmSaysTheDevicesOfAHostByTasksToo) {
  const auto of_host = [](const std::string& options) {
    return read_launch_text({.files = {{"job.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH " + options +
                                                          "\nsrun python pretrain_gpt.py " + kSizes + "\n"}}});
  };
  EXPECT_EQ(of_host("--ntasks-per-node=8 --gpus-per-task=1").devices_per_host, 8);
  EXPECT_EQ(of_host("--ntasks-per-node=4").devices_per_host, 4);
  EXPECT_EQ(of_host("--gres=gpu:a100:4,tmpfs:1T").devices_per_host, 4);
  EXPECT_EQ(of_host("--gpus-per-node=mi250:8").device, "mi250");
  EXPECT_EQ(of_host("--gpus 16").devices, 16);
}

// A program that is not known, with a file that is.
TEST(OtherPrograms, ScriptsMayNameAFileOfSettings) {
  const std::string file =
      "general: {project: p, run: r}\nmodel: {model_config: {is_llama_config: true, hidden_size: 256,\n"
      "  intermediate_size: 1024, num_attention_heads: 8, num_hidden_layers: 4, num_key_value_heads: 8,\n"
      "  vocab_size: 512, max_position_embeddings: 64}}\nparallelism: {dp: 4, pp: 1, tp: 2}\n"
      "tokens: {sequence_length: 64, train_steps: 1, micro_batch_size: 2, batch_accumulation_per_replica: 1}\n";
  const LaunchText text = read_launch_text(
      {.files = {{"run.sh", "torchrun --nproc_per_node 8 run_train.py --config-file job.yaml --lr 1\n"},
                 {"job.yaml", file}}});
  EXPECT_EQ(text.variant, "nanotron");
  EXPECT_EQ(text.devices_per_host, 8);
  EXPECT_EQ(text.program, "run.sh:1: job.yaml");
  const LaunchReading reading = read_launch(text, {1, 8}, LaunchAnswers{});
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(unread(reading), (std::vector<std::string>{"program:lr"}));
}

// --- Megatron-DeepSpeed ---

// Every second layer has experts: 4 x 16 of them in 8 layers; an expert and a dense layer of 4 x 256 have 525,568
// weights each.
TEST(MegatronDeepspeed, ExpertsAreInEverySecondLayer) {
  const std::string moe = "--deepspeed --num-experts 16 --topk 1 ";
  const std::int64_t every = parameters(read_gpt(moe + "--expert-interval 1"));
  const std::int64_t second = parameters(read_gpt(moe));
  EXPECT_EQ(parameters(read_gpt(moe + "--expert-interval 2")), second);
  const std::int64_t router = 256 * 16;
  EXPECT_NEAR(static_cast<double>(every - second), 4.0 * (15 * 2 * 256 * 1024 + router), 4.0 * 16 * 2048);
  EXPECT_NE(refused("run.sh", "torchrun pretrain_gpt.py " + kSizes + "--deepspeed --num-experts 16 16 32 32\n")
                .find("unequal numbers of experts"),
            std::string::npos);
  EXPECT_TRUE(says(read_gpt(moe + "--mlp-type residual").assumed, "--mlp-type residual"));
}

TEST(MegatronDeepspeed, TeachersAreRefusedAndItsPipelineSplitsBackwards) {
  EXPECT_NE(refused("run.sh", "torchrun pretrain_gpt.py " + kSizes + "--deepspeed --kd --num-layers-teacher 12\n")
                .find("against a teacher"),
            std::string::npos);
  const LaunchReading split =
      read_gpt("--deepspeed --pipeline-model-parallel-size 2 --enable-zbh1-pipeline --cpu-optimizer");
  EXPECT_EQ(split.setup.degrees.schedule, ScheduleKind::ZeroBubbleH1);
  EXPECT_TRUE(has(split.setup.offload, Offload::Optimizer));
  EXPECT_TRUE(split.broken.empty()) << split.broken.front();
}

// --- torchtitan before 0.2 ---

const std::string kOlderTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\nnorm_type = \"rmsnorm\"\n"
    "[training]\nbatch_size = 8\nseq_len = 2048\nwarmup_steps = 2\ncompile = true\ntensor_parallel_degree = 2\n";

TEST(OlderTorchtitan, DegreesAreAmongTrainingAndExperimental) {
  const LaunchReading reading =
      read("job.toml",
           kOlderTitan +
               "data_parallel_shard_degree = -1\n[experimental]\npipeline_parallel_degree = 4\n"
               "pipeline_parallel_split_points = [\"layers.9\", \"layers.17\", \"layers.25\"]\n"
               "[float8]\nenable_float8_linear = true\n",
           {2, 8});
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ((std::vector<int>{d.tp, d.pp, d.dp}), (std::vector<int>{2, 4, 2}));
  EXPECT_EQ(reading.setup.stage_blocks, (std::vector<int>{9, 8, 8, 7}));
  EXPECT_EQ(d.micro_batch, 2);  // a micro-batch for each stage: 8 / 4
  EXPECT_EQ(d.micro_batches, 4);
  EXPECT_EQ(reading.setup.global_batch(), 16);
  EXPECT_EQ(reading.setup.matmul_dtype, "fp8");
  EXPECT_EQ(reading.software, "torchtitan");  // compiled
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(OlderTorchtitan, DegreesThatLeaveNothingOpenSayHowManyDevicesThereAre) {
  const auto devices = [](const std::string& more) {
    return devices_of(read_launch_text({.files = {{"job.toml", kOlderTitan + more}}}));
  };
  EXPECT_EQ(devices("data_parallel_degree = 8\n")->devices(), 16);
  EXPECT_FALSE(devices("data_parallel_degree = -1\n").has_value());
  EXPECT_FALSE(devices("").has_value());
}

// --- others ---

TEST(OtherPrograms, TrainingsForTrainiumAreRefusedByName) {
  EXPECT_NE(refused("job.yaml",
                    "name: m\nmodel_source: hf\ntrainer: {devices: 32, num_nodes: 4}\n"
                    "distributed_strategy: {tensor_model_parallel_size: 8}\n"
                    "model: {num_layers: 8, encoder_seq_length: 128}\n")
                .find("NxD Training"),
            std::string::npos);
}

// NeMo's first trainer has other models than GPTs, and models without their trainer.
TEST(OtherPrograms, NemosOtherModelsAreRefused) {
  const auto nemo = [](const std::string& more) {
    return refused("nemo.yaml",
                   "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel: {encoder_seq_length: 128, num_layers: "
                   "2, hidden_size: 64, num_attention_heads: 4, micro_batch_size: 1, global_batch_size: 8, " +
                       more + "}\n");
  };
  EXPECT_EQ(nemo("max_position_embeddings: 128"), "not refused");
  for (const char* part :
       {"hyena: {short_conv_L: 3}", "mamba_ssm_ngroups: 8", "activations_checkpoint_recurrent: false"})
    EXPECT_NE(nemo(part).find("no plain GPT"), std::string::npos) << part;
  EXPECT_NE(nemo("mcore_customization_config: {parallel_attention: true}").find("no plain GPT"), std::string::npos);
  EXPECT_EQ(nemo("mcore_customization_config: {new_decoder_architecture: false, parallel_attention: false}"),
            "not refused");
  EXPECT_NE(nemo("kd_teacher_restore_from_path: null").find("against a teacher"), std::string::npos);
  EXPECT_NE(refused("model_config.yaml", "mcore_gpt: true\nencoder_seq_length: 128\nnum_layers: 2\n")
                .find("model of NeMo's first trainer alone"),
            std::string::npos);
}

// NeMo's launcher calls it the T5 of 3 billion parameters; 2.8 as it counts them.
TEST(OtherPrograms, NemosT5HasTheSizesOfItsStacks) {
  const auto t5 = [](const std::string& decoder) {
    return "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel:\n  micro_batch_size: 1\n  global_batch_size: "
           "8\n"
           "  megatron_amp_O2: true\n  seq_length: 512\n  max_position_embeddings: ${.seq_length}\n"
           "  encoder: {num_layers: 24, hidden_size: 2048, ffn_hidden_size: 5120, num_attention_heads: 32, arch: "
           "transformer, "
           "activation: geglu, position_embedding_type: learned_absolute}\n"
           "  decoder: {num_layers: 24, hidden_size: 2048, ffn_hidden_size: 5120, num_attention_heads: 32, arch: " +
           decoder +
           ", activation: geglu}\n  tokenizer: {type: BertWordPieceCase, num_sentinel_tokens: 100}\n"
           "  data: {seq_length: 512, seq_length_dec: 128}\n";
  };
  const LaunchReading reading = read_launch(read_launch_text({.files = {{"t5.yaml", t5("transformer")}}}), {1, 8}, {});
  TrainingOptions options;
  options.batch = 1;
  EXPECT_EQ(reading.setup.model.seq, 128);
  EXPECT_EQ(reading.setup.model.more.at("encoder_seq"), 512);
  EXPECT_NEAR(static_cast<double>(parameter_count(build_forward_graph(reading.setup.model, options))), 2.78e9, 5e6);
  EXPECT_NE(refused("t5.yaml", t5("perceiver")).find("'perceiver'"), std::string::npos);
}

// A file that the script writes, with a number that it does not have.
TEST(OtherPrograms, WrittenJsonMayHoldWhatIsNotKnown) {
  const std::string script =
      "cat <<EOT > ds.json\n{\n  \"train_batch_size\" : $GBS,\n  \"zero_optimization\": {\"stage\": 2}\n}\nEOT\n"
      "deepspeed --num_gpus 8 train.py --model_name_or_path facebook/opt-1.3b --deepspeed ds.json\n";
  EXPECT_NE(refused("run.sh", script).find("ds.json:2: train_batch_size: its value '${GBS}' is a variable"),
            std::string::npos);
  EXPECT_EQ(read("run.sh", "GBS=32\n" + script).setup.global_batch(), 32);
}

// DeepSpeed's file among the trainer's arguments, where accelerate starts the processes.
TEST(OtherPrograms, AcceleratesProgramMayNameTheFileOfDeepspeed) {
  const std::string call =
      "accelerate launch --num_processes 8 --multi_gpu train.py --model_name_or_path facebook/opt-1.3b "
      "--per_device_train_batch_size 2 --bf16 True --deepspeed ds.json\n";
  EXPECT_NE(refused("run.sh", call).find("names DeepSpeed's file 'ds.json'"), std::string::npos);
  const LaunchReading reading = read_launch(
      read_launch_text({.files = {{"run.sh", call}, {"ds.json", "{\"zero_optimization\": {\"stage\": 2}}"}}}), {1, 8},
      LaunchAnswers{});
  EXPECT_EQ(reading.setup.target, "deepspeed");
  EXPECT_EQ(reading.setup.degrees.zero, 2);
  EXPECT_EQ(reading.setup.global_batch(), 16);
}

}  // namespace
}  // namespace meshwright::read_older_test
