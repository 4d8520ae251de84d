// SPDX-License-Identifier: Apache-2.0
// Files of trainers over FSDP that stand alone (llm-foundry, NeMo Automodel, torchtune, LitGPT),
// of NeMo's first trainer, and programs that are known and not read.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

namespace meshwright::trainer_files_test {
namespace {

LaunchReading read_files(std::vector<GivenFile> files, LaunchDevices devices = {1, 8}, LaunchAnswers answers = {}) {
  return read_launch(read_launch_text({.files = std::move(files)}), devices, answers);
}
LaunchReading read(const std::string& text, LaunchDevices devices = {1, 8}, LaunchAnswers answers = {}) {
  return read_files({{"run.yaml", text}}, devices, std::move(answers));
}
// lora_rank and lora_targets of the model.
using Lora = std::pair<std::int64_t, std::int64_t>;
Lora lora_of(const LaunchReading& reading) {
  const auto& more = reading.setup.model.more;
  return {more.at("lora_rank"), more.at("lora_targets")};
}
std::string refused(const std::string& text) {
  return refusal([&] { (void)read(text); });
}
std::string refused_script(const std::string& text) {
  return refusal([&] { (void)read_files({{"run.sh", text}}); });
}
std::string without(std::string text, const std::string& part) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? "the text has no '" + part + "'" : text.erase(at, part.size());
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
std::int64_t parameters_of(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return parameter_count(build_forward_graph(reading.setup.model, options));
}

// --- llm-foundry ---

const std::string kFoundry =
    "variables:\n  max_seq_len: 2048\n  global_seed: 17\nmax_seq_len: ${variables.max_seq_len}\n"
    "model:\n  name: mpt_causal_lm\n  init_device: meta\n  d_model: 4096\n  n_heads: 32\n  n_layers: 32\n"
    "  expansion_ratio: 4\n  max_seq_len: ${max_seq_len}\n  vocab_size: 50368\n  attn_config:\n    attn_impl: flash\n"
    "train_loader:\n  name: text\n  num_workers: 8\n"
    "optimizer:\n  name: decoupled_adamw\n  lr: 1.2e-4\n  weight_decay: 0.5\n"
    "algorithms:\n  gradient_clipping:\n    clipping_type: norm\n    clipping_threshold: 2.0\n"
    "global_train_batch_size: 1024\ndevice_train_microbatch_size: 8\nprecision: amp_bf16\n"
    "fsdp_config:\n  sharding_strategy: FULL_SHARD\n  mixed_precision: PURE\n  activation_checkpointing: true\n";

// llm-foundry's table of measured runs says 6,658,859,008 parameters of MPT 7B.
TEST(Foundry, HasTheParametersThatItsAuthorsCount) {
  const LaunchReading reading = read(kFoundry);
  EXPECT_EQ(parameters_of(reading), 6'658'859'008);
  EXPECT_EQ(reading.setup.model.seq, 2048);
  EXPECT_EQ(reading.setup.release, "llm-foundry 8c8dd48f");
  EXPECT_EQ(reading.software, "fsdp");
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

// The file of a job on MosaicML's platform holds that of its program.
TEST(Foundry, IsReadWithinAJobOfItsPlatform) {
  std::string job = "name: mpt\ncompute:\n  gpus: 8\nparameters:\n  ";
  for (const char c : kFoundry) job += c == '\n' ? std::string("\n  ") : std::string(1, c);
  const LaunchReading reading = read(job);
  EXPECT_EQ(parameters_of(reading), 6'658'859'008);
  EXPECT_EQ(reading.setup.model.seq, 2048);
}

TEST(Foundry, SplitsStatesAndCutsTheBatchAsComposer) {
  const LaunchReading reading = read(kFoundry);
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.dp, 8);
  EXPECT_EQ(d.zero, 3);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(d.micro_batch, 8);
  EXPECT_EQ(d.micro_batches, 16);  // 1024 of 8 devices x 8
  EXPECT_EQ(reading.setup.optimizer.weight_decay, 0.5);
  EXPECT_EQ(reading.setup.optimizer.max_norm, 2.0);
  // On 256 devices each has 4 samples, which are one micro-batch.
  EXPECT_EQ(read(kFoundry, {32, 8}).setup.degrees.micro_batch, 4);
  // Without FSDP there are replicas.
  EXPECT_EQ(read(kFoundry.substr(0, kFoundry.find("fsdp_config"))).setup.degrees.zero, 0);
}

TEST(Foundry, RefusesWhatItDoesNotKnowOfTheModel) {
  std::string other = kFoundry;
  other.replace(other.find("mpt_causal_lm"), 13, "tml_causal_lm");
  EXPECT_SAYS(refused(other), "models of 'tml_causal_lm' are not read");
  std::string overrides = kFoundry;
  overrides.replace(overrides.find("  d_model: 4096\n"), 16, "  block_overrides:\n    order: []\n");
  EXPECT_SAYS(refused(overrides), "blocks that differ from one another");
  EXPECT_SAYS(refused(kFoundry + "peft_config:\n  r: 16\n"), "adapters");
  std::string found = kFoundry;
  found.replace(found.find("size: 8\nprec"), 12, "size: auto\nprec");
  EXPECT_SAYS(refused(found), "give --micro-batch");
  EXPECT_SAYS(refused(without(kFoundry, "global_train_batch_size: 1024\n")), "global_train_batch_size is missing");
}

TEST(Foundry, TakesModelsOfTheHubByTheirNames) {
  std::string named = kFoundry;
  const std::size_t begin = named.find("  name: mpt"), end = named.find("train_loader");
  named.replace(begin, end - begin,
                "  name: hf_causal_lm\n  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n"
                "  config_overrides:\n    max_position_embeddings: 2048\n");
  EXPECT_EQ(read(named).setup.model.name, "llama-3.1-8b");
  named.insert(named.find("    max_position"), "    num_hidden_layers: 4\n");
  EXPECT_SAYS(refused(named), "may change the sizes of the model");
}

// --- NeMo Automodel ---

const std::string kAutomodel =
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
    "step_scheduler:\n  global_batch_size: 64\n  local_batch_size: 2\n  ckpt_every_steps: 10\n"
    "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
    "  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n  torch_dtype: float32\n"
    "distributed:\n  strategy: fsdp2\n  dp_size: none\n  tp_size: 2\n  cp_size: 1\n  sequence_parallel: true\n"
    "  activation_checkpointing: true\n"
    "packed_sequence:\n  packed_sequence_size: 4096\n"
    "optimizer:\n  _target_: torch.optim.Adam\n  lr: 1.0e-5\n  weight_decay: 0\n";

TEST(Automodel, ReadsDegreesBatchAndLength) {
  const LaunchReading reading = read(kAutomodel);
  const Degrees& d = reading.setup.degrees;
  EXPECT_EQ(d.tp, 2);
  EXPECT_EQ(d.dp, 4);
  EXPECT_EQ(d.zero, 3);
  EXPECT_TRUE(d.sequence_parallel);
  EXPECT_EQ(d.recompute, Recompute::Full);
  EXPECT_EQ(d.micro_batch, 2);
  EXPECT_EQ(d.micro_batches, 8);  // 64 of 4 replicas x 2
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.optimizer.max_norm, 1.0);  // its own
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Automodel, KeepsStatesInTheModelsType) {
  EXPECT_FALSE(read(kAutomodel).setup.software_setup.narrow_states);
  EXPECT_TRUE(read(without(kAutomodel, "  torch_dtype: float32\n")).setup.software_setup.narrow_states);
}

TEST(Automodel, CountsDevicesWhereItSaysAllDegrees) {
  std::string text = kAutomodel;
  text.replace(text.find("dp_size: none"), 13, "dp_size: 8\n  pp_size: 2");
  const auto devices = devices_of(read_launch_text({.files = {{"run.yaml", text}}}));
  ASSERT_TRUE(devices.has_value());
  EXPECT_EQ(devices->devices(), 32);  // 8 x 2 x 2
  EXPECT_SAYS(read(text).why_no_plan, "is not the number of devices");
}

TEST(Automodel, RefusesOtherRecipesAdaptersAndSizes) {
  std::string kd = kAutomodel;
  kd.replace(kd.find("TrainFinetuneRecipe"), 19, "KnowledgeDistillationRecipe");
  EXPECT_SAYS(refused(kd), "'KnowledgeDistillationRecipeForNextTokenPrediction' trains with images");
  EXPECT_SAYS(refused(kAutomodel + "peft:\n  dim: 8\n"), "adapters");
  const std::string lora = "peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n  dim: 16\n";
  EXPECT_EQ(lora_of(read(kAutomodel + lora + "  target_modules: \"*_proj\"\n")), (Lora{16, 0}));
  EXPECT_SAYS(refused(without(kAutomodel, "  packed_sequence_size: 4096\n")), "give --seq");
  std::string smaller = kAutomodel;
  smaller.replace(smaller.find("  torch_dtype: float32\n"), 23, "  num_hidden_layers: 4\n");
  EXPECT_SAYS(refused(smaller), "sets a size of the model itself");
}

// Of 64 samples the pipeline has 2 of each of 2 replicas at once.
TEST(Automodel, HasNoPlanForSeveralPipelinesInAStep) {
  std::string text = kAutomodel;
  text.replace(text.find("  tp_size: 2\n"), 13, "  tp_size: 2\n  pp_size: 2\n");
  const LaunchReading reading = read(text);
  EXPECT_SAYS(reading.why_no_plan, "16 pipelines of 4 samples one after another");
  EXPECT_SAYS(reading.why_no_plan, "give --batch 4");
  LaunchAnswers one;
  one.batch = 4;
  EXPECT_EQ(read(text, {1, 8}, one).why_no_plan, "");
}

TEST(Automodel, CutsStagesAndRoundsThem) {
  std::string text = kAutomodel;
  text.replace(text.find("  tp_size: 2\n"), 13,
               "  tp_size: 2\n  pp_size: 2\n  pipeline:\n    pp_schedule: interleaved1f1b\n    pp_microbatch_size: 1\n"
               "    layers_per_stage: 7\n    round_virtual_stages_to_pp_multiple: up\n");
  // 32 layers in sevens are 5 stages, which become 6.
  const LaunchReading up = read(text);
  EXPECT_EQ(up.setup.degrees.chunks, 3);
  EXPECT_EQ(up.setup.stage_blocks, (std::vector<int>{6, 6, 5, 5, 5, 5}));
  text.replace(text.find("multiple: up"), 12, "multiple: down");
  EXPECT_EQ(read(text).setup.degrees.chunks, 2);
}

// --- torchtune ---

const std::string kTune =
    "output_dir: o\ntokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: 4096\n"
    "dataset:\n  packed: True\nmodel:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
    "batch_size: 2\ngradient_accumulation_steps: 4\noptimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n"
    "enable_activation_checkpointing: True\ndtype: bf16\n";

TEST(Torchtune, ReadsTheModelOfItsBuilder) {
  const LaunchReading reading = read(kTune);
  EXPECT_EQ(reading.setup.model.name, "llama-3.1-8b");
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.global_batch(), 64);  // 2 x 4 x 8 devices
  EXPECT_EQ(reading.setup.degrees.zero, 3);
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::Full);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(Torchtune, RefusesAdaptersFurtherModelsAndProgramsThatDoNotTrain) {
  std::string lora = kTune;
  lora.replace(lora.find("llama3_1_8b"), 11, "lora_llama3_1_8b");
  EXPECT_EQ(lora_of(read(lora)), (Lora{8, 3}));
  const std::string modules = "  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']\n  lora_rank: 64\n";
  std::string more = lora;
  more.insert(more.find('\n', more.find("lora_llama3_1_8b")) + 1, modules);
  EXPECT_EQ(lora_of(read(more)), (Lora{64, 1}));
  more.insert(more.find(modules), "  apply_lora_to_mlp: True\n");
  EXPECT_EQ(lora_of(read(more)), (Lora{64, 0}));
  lora.replace(lora.find("lora_llama"), 10, "qlora_llama");
  EXPECT_SAYS(refused(lora), "adapters of another kind");
  EXPECT_SAYS(refused(kTune + "ref_checkpointer:\n  _component_: c\n"), "against further models");
  EXPECT_SAYS(refused(kTune + "quantizer:\n  _component_: q\n"), "a quantised model");
  EXPECT_SAYS(refused(without(kTune, "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n")), "trains nothing");
  EXPECT_SAYS(refused(without(kTune, "  max_seq_len: 4096\n")), "give --seq");
}

// --- LitGPT ---

TEST(LitGpt, SplitsWithinHostsInPretrainingAndOverAllInFineTuning) {
  const std::string train = "train:\n  global_batch_size: 128\n  micro_batch_size: 4\n  max_seq_length: 2048\n";
  const LaunchReading tuned =
      read("checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf\nout_dir: o\n" + train, {2, 8});
  EXPECT_EQ(tuned.setup.model.name, "llama-7b");
  EXPECT_EQ(tuned.setup.degrees.recompute, Recompute::Full);
  EXPECT_FALSE(tuned.setup.shard.has_value());
  EXPECT_EQ(tuned.setup.degrees.micro_batches, 2);  // 128 of 16 x 4
  const LaunchReading pretrained = read("model_name: Llama-2-7b-hf\nout_dir: o\n" + train, {2, 8});
  EXPECT_EQ(pretrained.setup.shard, 8);
  EXPECT_EQ(pretrained.setup.degrees.recompute, Recompute::None);
  const std::string low_rank = "checkpoint_dir: c/Llama-2-7b-hf\nout_dir: o\nlora_r: 8\n";
  EXPECT_EQ(lora_of(read(low_rank + train)), (Lora{8, 3}));
  EXPECT_EQ(lora_of(read(low_rank + "lora_mlp: true\n" + train)), (Lora{8, 0}));
}

// --- nanoGPT ---

// 12 samples x 40 are those of all devices together: five micro-batches of each of eight.
TEST(NanoGpt, AccumulatesOverAllDevices) {
  const LaunchReading reading = read_files(
      {{"train_gpt2.py",
        "# GPT-2\nwandb_log = True\nbatch_size = 12\nblock_size = 1024\ngradient_accumulation_steps = 5 * 8\n"
        "max_iters = 600000\neval_iters = 200\nweight_decay = 1e-1\n"}});
  EXPECT_EQ(reading.setup.global_batch(), 480);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 5);
  EXPECT_EQ(reading.setup.degrees.zero, 0);
  EXPECT_EQ(reading.setup.model.layers, 12);
  EXPECT_EQ(reading.setup.optimizer.max_norm, 1.0);
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
  const LaunchReading more = read_files(
      {{"finetune.py", "init_from = 'gpt2-xl'\nbatch_size = 1\ngradient_accumulation_steps = 32\nmax_iters = 20\n"}});
  EXPECT_EQ(more.setup.model.layers, 48);
  EXPECT_SAYS(
      refusal([&] {
        (void)read_files({{"eval.py", "batch_size = 8\neval_iters = 5\neval_only = True\ninit_from = 'gpt2'\n"}});
      }),
      "does not train it");
}

// --- NeMo's first trainer ---

const std::string kNemo =
    "trainer:\n  num_nodes: 16\n  devices: 8\n  precision: bf16\n  gradient_clip_val: 1.0\n"
    "model:\n  micro_batch_size: 1\n  global_batch_size: 2048\n  tensor_model_parallel_size: 2\n"
    "  sequence_parallel: true\n  encoder_seq_length: 4096\n  num_layers: 32\n  hidden_size: 4096\n"
    "  ffn_hidden_size: 14336\n  num_attention_heads: 32\n  num_query_groups: 8\n  activation: fast-swiglu\n"
    "  normalization: rmsnorm\n  bias: false\n  position_embedding_type: rope\n"
    "  share_embeddings_and_output_weights: false\n  activations_checkpoint_granularity: null\n"
    "  activations_checkpoint_method: block\n  activations_checkpoint_num_layers: 0\n"
    "  tokenizer:\n    library: huggingface\n    type: meta-llama/Meta-Llama-3-8B\n"
    "  optim:\n    name: mcore_distributed_optim\n    weight_decay: 0.1\n";

TEST(NemoFiles, NameMegatronsSettingsOtherwise) {
  const LaunchText text = read_launch_text({.files = {{"n.yaml", kNemo}}});
  EXPECT_EQ(devices_of(text)->devices(), 128);
  const LaunchReading reading = read_launch(text, {16, 8}, {});
  EXPECT_EQ(parameters_of(reading), 8'030'261'248);  // of Llama 3 8B
  EXPECT_EQ(reading.setup.degrees.tp, 2);
  EXPECT_EQ(reading.setup.degrees.zero, 1);
  EXPECT_EQ(reading.setup.degrees.micro_batches, 32);  // 2048 of 64 replicas
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(reading.setup.dtype, DType::BF16);
  EXPECT_EQ(reading.software, "nemo");
  EXPECT_TRUE(unread(reading).empty()) << unread(reading).front();
}

TEST(NemoFiles, MultiplyTheWidthThatTheyName) {
  std::string text = kNemo;
  text.replace(text.find("ffn_hidden_size: 14336"), 22, "ffn_hidden_size: ${multiply:4, ${.hidden_size}}");
  LaunchReading reading = read(text, {16, 8});
  EXPECT_EQ(parameters_of(reading), 8'030'261'248 + 32 * 3 * 4096 * (16384 - 14336));
}

TEST(NemoFiles, AdaptersAreOfQueriesKeysAndValuesUnlessTheyNameOthers) {
  const std::string lora = kNemo + "  peft:\n    peft_scheme: lora\n";
  EXPECT_EQ(read(lora).setup.model.more.at("lora_rank"), 32);
  EXPECT_EQ(read(lora).setup.model.more.at("lora_targets"), 2);
  const std::string tuning = "    lora_tuning:\n      adapter_dim: 16\n      target_modules: [attention, mlp]\n";
  EXPECT_EQ(read(lora + tuning).setup.model.more.at("lora_rank"), 16);
  EXPECT_EQ(read(lora + tuning).setup.model.more.at("lora_targets"), 0);
}

TEST(NemoFiles, OfOtherModelsAndAdaptersAreRefused) {
  EXPECT_SAYS(refused(kNemo + "  encoder:\n    num_layers: 4\n"), "the sizes of both");
  EXPECT_SAYS(refused(kNemo + "  img_h: 224\n"), "no plain GPT");
  EXPECT_SAYS(refused(kNemo + "  peft:\n    peft_scheme: ptuning\n"), "trains ptuning");
  EXPECT_SAYS(refused(kNemo + "  fsdp: true\n"), "NeMo's FSDP");
  std::string reglu = kNemo;
  reglu.replace(reglu.find("fast-swiglu"), 11, "fast-reglu");
  EXPECT_SAYS(refused(reglu), "'reglu'");
}

// --- known programs that are not read ---

TEST(ProgramsThatAreNotRead, SayWhy) {
  EXPECT_SAYS(refused_script("python3 -m verl.trainer.main_ppo trainer.nnodes=1\n"),
              "run.sh:1: verl.trainer.main_ppo learns by reinforcement");
  EXPECT_SAYS(refused_script("torchrun train.py --model_id x --plan_ngpus=4 --runtime_ngpus=8\n"),
              "is split by nnScaler's search");
  EXPECT_SAYS(refused_script("ray job submit -- python3 train.py --num-layers 36 --rollout-batch-size 32\n"),
              "learns by reinforcement");
  EXPECT_SAYS(refused_script("python3 -m maxtext.inference.decode model_name=llama3-8b per_device_batch_size=4\n"),
              "trains no model from given samples");
  EXPECT_SAYS(refused_script("python3 -m benchmarks.benchmark_runner xpk --model_name=llama3_1_70b\n"),
              "takes the model and its settings from a table of its own");
  EXPECT_SAYS(refused_script("xpk workload create --device-type=v6e-256 --command=\"python3 -m MaxText.train\"\n"),
              "on a cluster of TPUs");
  EXPECT_SAYS(refused("actor_rollout_ref:\n  actor: {}\n"), "'actor_rollout_ref.model.path' is missing");
  EXPECT_SAYS(refused("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"), "manifest of Kubernetes");
}

// A script of several of MaxText's programs is read for the one that trains, however many words the others have.
TEST(ProgramsThatAreNotRead, LeaveTheTrainingOfTheSameScript) {
  const LaunchReading reading = read_files(
      {{"run.sh",
        "python3 -m maxtext.inference.decode model_name=llama3-8b per_device_batch_size=9 a=1 b=2 c=3 d=4\n"
        "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3-8b per_device_batch_size=2\n"}});
  EXPECT_EQ(reading.setup.global_batch(), 16);
}

TEST(ProgramsThatAreNotRead, TrainAdapters) {
  EXPECT_SAYS(refused_script("python3 -m maxtext.trainers.post_train.sft.train_sft base.yml model_name=llama3-8b "
                             "lora.enable_lora=True\n"),
              "adapters");
}

TEST(ProgramsThatAreNotRead, NeedTheFilesThatSayHowStatesAreSplit) {
  const std::string program = "train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 1\n";
  EXPECT_SAYS(refused_script("accelerate launch --config_file configs/fsdp.yaml " + program),
              "names accelerate's file 'configs/fsdp.yaml'");
  EXPECT_SAYS(refused_script("accelerate launch --use_deepspeed --deepspeed_config_file ds.conf " + program),
              "names DeepSpeed's file 'ds.conf'");
}

TEST(ProgramsThatAreNotRead, TrainParts) {
  EXPECT_SAYS(refused_script("accelerate launch train.py --model_name_or_path Llama-3.1-8B --use_lisa 1 "
                             "--per_device_train_batch_size 1\n"),
              "a part of the weights");
  const std::string megatron =
      "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 ";
  EXPECT_SAYS(refused_script(megatron + "--perform-rl-step\n"), "learns by reinforcement");
  EXPECT_SAYS(refused_script(megatron + "--export-kd-teacher-load t\n"), "against a teacher");
  EXPECT_SAYS(refused_script(megatron + "--moe-latent-size 8\n"), "give --model");
}

// --- torchtitan ---

const std::string kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n"
    "[parallelism]\npipeline_parallel_degree = 2\n";

// 4 replicas of 8 samples are in the pipeline at once.
TEST(TorchtitanFiles, HaveNoPlanForSeveralPipelinesInAStep) {
  EXPECT_EQ(read_files({{"t.toml", kTitan}}).why_no_plan, "");
  std::string text = kTitan;
  text.replace(text.find("seq_len"), 0, "global_batch_size = 64\n");
  EXPECT_SAYS(read_files({{"t.toml", text}}).why_no_plan, "2 pipelines of 32 samples one after another");
}

TEST(TorchtitanFiles, OfReinforcementAndOfOthersFunctionsAreRefused) {
  const auto refused_python = [](const std::string& body) {
    return refusal([&] { (void)read_files({{"c.py", "def plan():\n" + body}}); });
  };
  EXPECT_SAYS(refused_python("    return Controller.Config(async_loop=Loop.Config(num_training_steps=5))\n"),
              "learns by reinforcement");
  EXPECT_SAYS(refused_python("    config = to_other_config(llama3_8b(), registry)\n"
                             "    config.training.seq_len = 2048\n    return config\n"),
              "begins with llama3_8b()");
}

// --- states on hosts ---

const std::string kOffload =
    R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": true},
 "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "DEVICE"}}})";

TEST(Offload, IsToHostsAndNotToDrives) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("llama-3.1-8b");
  const auto of = [&](const char* device) {
    std::string text = kOffload;
    text.replace(text.find("DEVICE"), 6, device);
    return read_files({{"ds.json", text}}, {1, 8}, answers);
  };
  EXPECT_EQ(of("cpu").setup.offload, Offload::Optimizer);
  EXPECT_EQ(of("cpu").why_no_plan, "");
  EXPECT_TRUE(says(of("cpu").assumed, "not by the host's processors"));
  EXPECT_EQ(of("none").setup.offload, Offload::None);
  EXPECT_SAYS(of("nvme").why_no_plan, "NVMe");
}

// DeepSpeed keeps weights on hosts where ZeRO 3 splits them; FSDP keeps both there.
TEST(Offload, OfWeightsGoesWithTheirSplit) {
  LaunchAnswers answers;
  answers.model = find_builtin_model("llama-3.1-8b");
  const auto offload = [&](const char* stage) {
    return read_files({{"ds.json", std::string(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8,
 "bf16": {"enabled": true}, "zero_optimization": {"offload_param": {"device": "cpu"}, "stage": )") +
                                       stage + "}}"}},
                      {1, 8}, answers)
        .setup.offload;
  };
  EXPECT_EQ(offload("3"), Offload::Weights);
  EXPECT_EQ(offload("2"), Offload::None);
  std::string fsdp = kTune;
  fsdp += "fsdp_cpu_offload: True\n";
  EXPECT_EQ(read(fsdp).setup.offload, Offload::Optimizer | Offload::Weights);
}

TEST(Torchtune, RunsSingleDeviceRecipesOnOne) {
  const LaunchText text = read_launch_text({.files = {{"8B_full_single_device.yaml", kTune}}});
  EXPECT_EQ(devices_of(text)->devices(), 1);
}

}  // namespace
}  // namespace meshwright::trainer_files_test
