// SPDX-License-Identifier: Apache-2.0
// NeMo Automodel (36044ad3): recipes that train models of Hugging Face over FSDP2. Defaults are those of
// nemo_automodel/components/distributed and nemo_automodel/recipes/llm/train_ft.py.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/adapters.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

class AutomodelReader {
 public:
  explicit AutomodelReader(ReadingJob& job) : job_(job), s_(job.settings()), d_(job.degrees()) {}

  void read() {
    LaunchSetup& setup = job_.reading.setup;
    setup.release = "NeMo Automodel 36044ad3";
    setup.dialect = "automodel";
    expect_plain_recipe();
    // Files of before had the pipeline's settings, and what is computed again, in maps of their own.
    for (const char* key :
         {"pp_schedule", "pp_microbatch_size", "layers_per_stage", "round_virtual_stages_to_pp_multiple"})
      s_.rename({{std::string("autopipeline.") + key, std::string("distributed.pipeline.") + key}});
    s_.rename({{"parallelizer.activation_checkpointing", "distributed.activation_checkpointing"},
               {"parallelizer.reshard_after_forward", "distributed.reshard_after_forward"}});
    read_degrees();
    read_model();
    read_splits();
    read_precision();
    read_schedule();
    // Over FSDP2 as its settings can say it, and the file's own.
    std::vector<int> levels = {2, 3};
    if (d_.zero < 2) levels.insert(levels.begin(), d_.zero);
    job_.reading.framework.zero = job_.reading.framework.zero_in_pipes = levels;
    read_batch();
    read_optimizer_keys();
    s_.no_effect([](const std::string& key) {
      return begins_with_any(key, {"dist_env.",
                                   "seed",
                                   "rng.",
                                   "checkpoint.",
                                   "loss_fn.",
                                   "dataset.",
                                   "dataloader.",
                                   "validation_",
                                   "_validation_",
                                   "lr_scheduler",
                                   "ci.",
                                   "wandb.",
                                   "mlflow",
                                   "comet",
                                   "benchmark.",
                                   "nvtx",
                                   "moe_metrics",
                                   "tokenizer",
                                   "optimizer.",
                                   "packed_sequence.",
                                   "skypilot",
                                   "step_scheduler.",
                                   "model.backend.",
                                   "model._target_",
                                   "model.trust_remote",
                                   "model.attn_implementation",
                                   "model.use_cache",
                                   "model.output_hidden",
                                   "model.use_liger",
                                   "model.use_sdpa",
                                   "model.sdpa_method",
                                   "model.force_hf",
                                   "model.cache_dir",
                                   "model.load_base_model",
                                   "model.config._target_",
                                   "model.config.trust_remote",
                                   "model.config.output_hidden",
                                   "model.config.attn_implementation",
                                   "model.config.use_cache",
                                   "model.torch_dtype",
                                   "model.config.torch_dtype",
                                   "model.text_config.output_hidden",
                                   "model.text_config.use_cache",
                                   "model.config.name_or_path",
                                   "model.experts_implementation",
                                   "distributed._target_",
                                   "distributed.backend",
                                   "distributed.mp_policy.",
                                   "distributed.autocast",
                                   "distributed.pipeline.scale_grads",
                                   "distributed.pipeline.patch",
                                   "distributed.pipeline.dtype",
                                   "distributed.pipeline.pp_seq_len",
                                   "distributed.moe.",
                                   "distributed.enable_fsdp2_prefetch",
                                   "distributed.fsdp2_",
                                   "distributed.patch_is_packed",
                                   "performance.",
                                   "log_",
                                   "max_grad_norm",
                                   "recipe",
                                   "fp8.",
                                   "autopipeline.",
                                   "parallelizer.",
                                   "tool_call_eval.",
                                   "distributed_config._target_",
                                   "compile."});
    });
  }

 private:
  // Recipes that train all weights of one model for its next tokens.
  void expect_plain_recipe() {
    std::string recipe = s_.text_or_nothing("recipe");
    if (recipe.empty()) recipe = s_.text_or_nothing("recipe._target_");
    recipe = recipe.substr(recipe.rfind('.') + 1);
    const bool known =
        recipe == "TrainFinetuneRecipeForNextTokenPrediction" || recipe == "BenchmarkingRecipeForNextTokenPrediction";
    const std::string builder = s_.text_or_nothing("model._target_");
    require(known || (recipe.empty() && builder.find("AutoModelForCausalLM") != std::string::npos),
            "{}: the recipe {} trains with images, further models or other losses, or is not known, and only "
            "trainings of one model for its next tokens are predicted.",
            job_.text.program, recipe.empty() ? "that is left out" : "'" + printable(recipe) + "'");
    if (const std::string kind = s_.text_or_nothing("peft._target_");
        kind.find("lora.PeftConfig") != std::string::npos) {
      std::vector<std::string> targets = listed_words(s_, "peft.target_modules");
      if (switched_on(s_, "peft.match_all_linear") || targets.empty()) targets = {"all-linear"};
      if (switched_on(s_, "peft.use_dora"))
        expect_whole_model(job_, "peft.use_dora", "adapters of another kind than LoRA");
      take_adapters(job_, "peft._target_", s_.integer("peft.dim").value_or(8), std::move(targets));
    }
    for (const Setting& setting : s_.all()) {
      if (setting.key.starts_with("peft.") && !job_.adapters) expect_whole_model(job_, setting.key, "adapters");
      if (setting.key.starts_with("freeze_config.") && setting.value.is_scalar() &&
          truth_value(setting.value.text).value_or(true))
        expect_whole_model(job_, setting.key, "a part of the weights");
    }
    for (const char* key : {"quantization.load_in_4bit", "quantization.load_in_8bit", "qat.enabled"})
      if (switched_on(s_, key)) expect_whole_model(job_, key, "a quantised model");
  }

  int degree(const char* name) {
    const std::string text = lower_case(s_.text_or_nothing(std::string("distributed.") + name));
    if (text.empty() || text == "none" || text == "null") return 1;
    return std::max(1, degree_of(job_, std::string("distributed.") + name));
  }

  void read_degrees() {
    d_.tp = degree("tp_size");
    d_.pp = degree("pp_size");
    d_.cp = degree("cp_size");
    d_.ep = degree("ep_size");
    if (d_.cp > 1) d_.context = ContextExchange::PointToPoint;
    d_.sequence_parallel = switched_on(s_, "distributed.sequence_parallel") && d_.tp > 1;
    share_devices(job_);
    const int replicas = degree("dp_size");
    if (replicas > 1 && replicas != d_.dp && job_.reading.why_no_plan.empty()) {
      const std::string why =
          fmt::format("dp_size {} x tp_size {} x cp_size {} x pp_size {} is not the number of devices, {}", replicas,
                      d_.tp, d_.cp, d_.pp, job_.devices.devices());
      job_.broken_without_plan(why, "; give --cluster or --nodes with as many");
    }
    const std::int64_t ranks = std::int64_t{d_.dp} * d_.cp * d_.tp;
    if (ranks % d_.ep != 0) job_.broken(fmt::format("ep_size {} does not divide dp x cp x tp = {}", d_.ep, ranks));
    d_.whole_experts = d_.tp > 1 && d_.ep % d_.tp == 0;
    d_.folded_experts = d_.ep > 1 && d_.cp > 1 && d_.ep % (d_.cp * (d_.whole_experts ? d_.tp : 1)) == 0;
    if (d_.ep > 1 && d_.cp > 1 && !d_.folded_experts)
      job_.assume("experts of a group on different replicas, not on the ranks of cp");
    Framework& framework = job_.reading.framework;
    framework.name = "automodel";
    framework.pipelines = framework.contexts = framework.experts = true;
    framework.whole_experts = d_.whole_experts || d_.folded_experts;
    framework.context_exchanges = {ContextExchange::PointToPoint};
    framework.sequences = Framework::Sequences::Either;
    framework.zero_in_pipes = framework.zero = {0, 1, 2, 3};
    framework.recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
    framework.uneven_stages = framework.splits_ends = true;
    job_.reading.software = "fsdp2";
  }

  std::optional<std::int64_t> sequence() {
    if (job_.answers.seq) return job_.answers.seq;
    if (const auto packed = s_.integer("packed_sequence.packed_sequence_size", 0); packed && *packed > 0) return packed;
    const std::string kind = lower_case(s_.text_or_nothing("dataset._target_"));
    const bool whole = kind.find("mock") != std::string::npos || kind.find("pretraining") != std::string::npos ||
                       kind.find("nanogpt") != std::string::npos;
    for (const char* key : {"dataset.seq_len", "dataset.seq_length", "dataset.block_size", "dataset.max_seq_length"})
      if (const auto length = s_.integer(key)) {
        if (!whole) job_.assume(fmt::format("samples of {} tokens each, as the longest are ({})", *length, key));
        return length;
      }
    return std::nullopt;
  }

  void read_model() {
    const auto seq = sequence();
    require(seq.has_value(),
            "{}: says no length of the samples (dataset.seq_len, packed_sequence.packed_sequence_size); give --seq.",
            job_.text.program);
    if (!job_.answers.model) expect_named_model();
    const bool below = s_.has("model.config.pretrained_model_name_or_path");
    take_tuned_model(job_,
                     below                    ? "model.config.pretrained_model_name_or_path"
                     : s_.has("model.config") ? "model.config"
                                              : "model.pretrained_model_name_or_path",
                     "(sequence)", *seq);
  }

  // Sizes that are changed beside the name, or given without one.
  void expect_named_model() {
    for (const Setting& setting : s_.all()) {
      const bool count = setting.key.starts_with("model.") && setting.value.is_scalar() &&
                         whole_number(setting.value.text).value_or(0) != 0;
      const bool size = count && std::any_of(std::begin(kSizes), std::end(kSizes), [&](const char* part) {
                          return setting.key.find(part) != std::string::npos;
                        });
      require(!size,
              "{}: {}: sets a size of the model itself, which is read by its name; give --model with a config.json.",
              setting.place, setting.shown);
    }
  }

  void read_splits() {
    const std::string strategy = s_.text("distributed.strategy").value_or("fsdp2");
    require(strategy == "fsdp2" || strategy == "ddp" || strategy == "megatron_fsdp",
            "{}: '{}' is unknown; expected fsdp2, megatron_fsdp or ddp.", s_.where("distributed.strategy"), strategy);
    const std::string reshard = s_.text_or_nothing("distributed.reshard_after_forward");
    bool keeps = d_.pp > 1;  // weights stay gathered from forward to backward
    if (truth_value(reshard).has_value()) keeps = !*truth_value(reshard);
    if (d_.ep > 1) keeps = !switched_on(s_, "distributed.moe.reshard_after_forward");
    d_.zero = strategy == "ddp" || d_.dp * d_.cp == 1 ? 0 : strategy == "fsdp2" && keeps ? 2 : 3;
    const int copies = degree("dp_replicate_size");
    if (copies > 1 && d_.dp % copies != 0) {
      const std::string why = fmt::format("dp_replicate_size {} does not divide the {} replicas", copies, d_.dp);
      return job_.broken_without_plan(why);
    }
    if (copies > 1 && d_.zero > 0) {
      job_.reading.setup.shard = d_.dp / copies;
      if (d_.tp * d_.cp * d_.pp * d_.ep > 1)
        job_.assume(fmt::format("weights split over all {} replicas, not over groups of {}", d_.dp, d_.dp / copies));
    }
    if (s_.has("distributed.offload_policy._target_")) {
      (void)s_.take("distributed.offload_policy._target_");
      offload_shards(job_);
    }
    job_.reading.setup.overlap_gradients = job_.reading.setup.overlap_weights = d_.zero > 0;
    job_.reading.setup.overlap_tensor_parallel = switched_on(s_, "distributed.enable_async_tensor_parallel");
  }

  void read_precision() {
    const std::string kept = s_.text_or_nothing("distributed.mp_policy.param_dtype");
    job_.reading.setup.dtype = kept.find("float32") != std::string::npos ? DType::F32 : DType::BF16;
    if (switched_on(s_, "fp8.enabled")) job_.reading.setup.matmul_dtype = "fp8";
    for (const Setting& setting : s_.all())
      if (setting.key.starts_with("model.backend.te_fp8")) job_.reading.setup.matmul_dtype = "fp8";
    std::string stored = s_.text_or_nothing("model.torch_dtype");
    if (stored.empty()) stored = s_.text_or_nothing("model.config.torch_dtype");
    job_.reading.setup.software_setup.narrow_states = job_.reading.setup.dtype == DType::BF16 &&
                                                      stored.find("float32") == std::string::npos &&
                                                      !switched_on(s_, "optimizer.master_weights");
    const std::string again = lower_case(s_.text_or_nothing("distributed.activation_checkpointing"));
    d_.recompute = again == "selective"                                    ? Recompute::Selective
                   : again == "full" || truth_value(again).value_or(false) ? Recompute::Full
                                                                           : Recompute::None;
    if (switched_on(s_, "compile.enabled")) job_.assume("blocks that are not compiled");
    take_attention_kernel(job_, "model.attn_implementation");
    take_attention_kernel(job_, "model.config.attn_implementation");
    if (s_.text_or_nothing("loss_fn._target_").find("FusedLinearCrossEntropy") != std::string::npos)
      job_.reading.setup.software_setup.loss_chunks = kFittingLossChunks;
  }

  void read_schedule() {
    const std::string name = lower_case(s_.text("distributed.pipeline.pp_schedule").value_or("1f1b"));
    const auto per_stage = s_.integer("distributed.pipeline.layers_per_stage");
    const std::string round = s_.text_or_nothing("distributed.pipeline.round_virtual_stages_to_pp_multiple");
    if (d_.pp == 1) return;
    const bool several = name == "interleaved1f1b";
    require(several || name == "1f1b" || name == "gpipe",
            "{}: the schedule '{}' is not read; expected 1f1b, gpipe or interleaved1f1b.",
            s_.where("distributed.pipeline.pp_schedule"), name);
    d_.schedule = several ? ScheduleKind::Interleaved : name == "gpipe" ? ScheduleKind::GPipe : ScheduleKind::OneFOneB;
    job_.reading.framework.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Interleaved};
    const std::int64_t layers = job_.reading.setup.model.layers;
    std::int64_t stages = std::int64_t{d_.pp} * (several ? 2 : 1);
    if (per_stage) {
      stages = (layers + *per_stage - 1) / *per_stage;
      const std::int64_t over = stages % d_.pp;
      if (over != 0 && round == "up") stages += d_.pp - over;
      if (over != 0 && round == "down") stages -= over;
    }
    if (stages < d_.pp || stages % d_.pp != 0 || stages > layers || several != (stages / d_.pp > 1)) {
      const std::string why =
          fmt::format("{} layers make {} stages, which {} of pp={} does not take", layers, stages, name, d_.pp);
      return job_.broken_without_plan(why);
    }
    d_.chunks = static_cast<int>(stages / d_.pp);
    for (std::int64_t s = 0; s < stages; ++s)
      job_.reading.setup.stage_blocks.push_back(static_cast<int>(layers / stages + (s < layers % stages ? 1 : 0)));
  }

  void read_batch() {
    const std::int64_t global = needed(job_, "step_scheduler.global_batch_size", "step_scheduler.global_batch_size");
    const std::int64_t local = s_.integer("step_scheduler.local_batch_size").value_or(1);
    const std::int64_t of_pipe = s_.integer("distributed.pipeline.pp_microbatch_size").value_or(1);
    if (d_.pp > 1 && local % of_pipe != 0)
      job_.broken(fmt::format("pp_microbatch_size {} does not divide local_batch_size {}", of_pipe, local));
    share_batch(job_, job_.answers.micro_batch.value_or(d_.pp > 1 ? of_pipe : local), global);
    const std::int64_t batch = *job_.reading.setup.batch, at_once = local * d_.dp;
    if (d_.pp > 1 && batch > at_once)
      job_.no_plan(fmt::format(
          "its step is {} pipelines of {} samples one after another (gradient accumulation), and a plan's step is one; "
          "give --batch {} for one of them",
          batch / std::max<std::int64_t>(1, at_once), at_once, at_once));
    const bool defers = switched_on(s_, "distributed.defer_fsdp_grad_sync", true);
    if (defers && d_.zero > 1 && d_.micro_batches > 1 && d_.pp == 1)
      job_.assume(
          "gradients summed over the replicas in every micro-batch, not in the last alone "
          "(defer_fsdp_grad_sync)");
  }

  void read_optimizer_keys() {
    const std::string kind = s_.text_or_nothing("optimizer._target_");
    const std::string name = lower_case(kind.substr(kind.rfind('.') + 1));
    if (name == "sgd")
      job_.reading.setup.optimizer.kind = Optimizer::Kind::Sgd;
    else if (!name.empty() && name.find("adam") == std::string::npos)
      job_.assume(fmt::format("Adam in the place of {}", name));
    job_.reading.setup.optimizer.weight_decay = std::max(0.0, s_.number("optimizer.weight_decay").value_or(0.0));
    job_.reading.setup.optimizer.max_norm = std::max(0.0, s_.number("clip_grad_norm.max_norm").value_or(1.0));
  }

  // Parts of the names of sizes that a file may set.
  static constexpr const char* kSizes[] = {
      "num_hidden_layers", "num_layers",    "n_layer", "hidden_size", "n_embd",     "num_experts", "n_head",
      "intermediate_size", "num_attention", "num_key", "nextn",       "vocab_size", "n_routed",    "mtp_"};

  ReadingJob& job_;
  Settings& s_;
  Degrees& d_;
};

}  // namespace

void read_automodel(ReadingJob& job) { AutomodelReader(job).read(); }

}  // namespace meshwright
