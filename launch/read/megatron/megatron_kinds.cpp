// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_kinds.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/adapters.h"
#include "launch/syntax/shell.h"

namespace meshwright {

namespace {

// "pretrain_gpt.py" of "run.sh:80: pretrain_gpt.py".
std::string program_name(const ReadingJob& job) {
  const std::string& program = job.text.program;
  const std::size_t colon = program.rfind(": ");
  return lower_case(colon == std::string::npos ? program : program.substr(colon + 2));
}

bool names_any(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

[[noreturn]] void refuse_without_training(const ReadingJob& job) {
  throw InputError(
      fmt::format("{}: the program does not train, and only training steps are predicted; give the launch of a "
                  "training.",
                  job.text.program));
}

// tasks/main.py of Megatron-LM: some of its tasks train a model further, the others measure one.
void expect_task_that_trains(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string task = s.name_or_nothing("task");
  require(
      !task.empty() || !s.has("task") || job.answers.model,
      "{}: nothing tells which of its tasks the program is for, and most train no model that is here; give --set or "
      "--args, or --model.",
      s.where("task"));
  if (task.empty()) return;
  const auto is_one_of = [&](std::initializer_list<const char*> tasks) {
    return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
  };
  const bool trains = is_one_of({"RACE", "MNLI", "QQP", "CoLA", "STS-B", "SST-2", "QNLI", "RTE", "MRPC", "GLUE"});
  require(!trains || job.answers.model,
          "{}: trains BERT to tell classes of texts, with a head that no model here has; give --model with a built-in "
          "model, sizes or a config.json.",
          s.where("task"));
  if (!trains) refuse_without_training(job);
}

void leave_out_images(ReadingJob& job) {
  job.assume("the language model alone, without what reads images");
  job.settings().no_effect([](const std::string& key) {
    static const std::vector<std::string> kImages = {"img-h",
                                                     "img-w",
                                                     "patch-dim",
                                                     "vision-model-type",
                                                     "disable-vision-class-token",
                                                     "pixel-shuffle",
                                                     "use-tiling",
                                                     "max-num-tiles",
                                                     "use-thumbnail",
                                                     "image-tag-type",
                                                     "use-tile-tags",
                                                     "num-frames",
                                                     "freeze-ViT",
                                                     "language-model-type",
                                                     "recompute-vision",
                                                     "prompt-path",
                                                     "processor-path",
                                                     "vlm-data-config-path",
                                                     "use-te"};
    return std::find(kImages.begin(), kImages.end(), key) != kImages.end();
  });
}

}  // namespace

namespace {

void read_flags_of_adapters(ReadingJob& job) {
  Settings& s = job.settings();
  if (s.has("qlora")) expect_whole_model(job, "qlora", "adapters of a quantised model");
  for (const char* key : {"lora-r", "lora-rank"})
    if (const auto rank = s.integer(key); rank && !job.adapters)
      take_adapters(job, key, *rank, listed_words(s, "lora-target-modules"));
  if (!job.adapters && s.has("lora-target-modules")) expect_whole_model(job, "lora-target-modules", "adapters");
}

}  // namespace

void expect_all_weights(ReadingJob& job) {
  Settings& s = job.settings();
  read_flags_of_adapters(job);
  for (const char* key : {"freeze-LM", "dsa-freeze-base"})
    if (s.has(key)) expect_whole_model(job, key, "beside a model that stays as it is");
  for (const char* key : {"export-kd-teacher-load", "export-kd-cfg", "kd", "mos", "num-layers-teacher"})
    if (s.has(key)) expect_whole_model(job, key, "against a teacher");
  if (s.has("soft-mask")) expect_whole_model(job, "soft-mask", "several sub-models at once");
  require(!s.has("perform-rl-step") || !s.flag("perform-rl-step"),
          "{}: learns by reinforcement, from samples that it makes itself, and only trainings of one model on given "
          "samples are predicted.",
          s.where("perform-rl-step"));
  if (s.has("retro-tasks")) refuse_without_training(job);  // they make the data that RETRO retrieves
  for (const char* key : {"dataset-provider", "moe-latent-size", "retro-add-retriever", "use-lf-gate"})
    require(
        !s.has(key) || job.answers.model,
        "{}: says of the model what this reader does not know; give --model with a built-in model or a config.json.",
        s.where(key));
  // Gated Delta Nets have the gate; plain attention here does not.
  require(
      !s.has("attention-output-gate") || s.has("experimental-attention-variant") || job.answers.model,
      "{}: adds a gate to attention, which no model of these flags has here; give --model with a built-in model or a "
      "config.json.",
      s.where("attention-output-gate"));
  // MindSpeed-LLM's stages of a training: others hold the model against a second one.
  const std::string stage = s.text_or_nothing("stage");
  require(stage.empty() || stage == "sft" || stage == "pretrain",
          "{}: '{}' trains with further models or samples, and only trainings of one model are predicted; give the "
          "launch of one.",
          s.where("stage"), printable(stage));
  (void)s.take("stage");
  for (const char* key :
       {"num-tokens-to-generate", "max-tokens-to-oom", "analyzing-task", "indexer-batch-size", "embedding-path"})
    if (s.has(key)) refuse_without_training(job);
  expect_task_that_trains(job);
}

void expect_whole_recipe(ReadingJob& job) {
  Settings& s = job.settings();
  // The program's own words for what a step trains on: "llm-pretrain", "vlm-energon"; "gpt_step", "vlm_step".
  const std::string data = lower_case(s.name_or_nothing("dataset")), step = lower_case(s.name_or_nothing("step-func"));
  require((!data.starts_with("vlm") && (step.empty() || step.starts_with("gpt"))) || job.answers.model,
          "{}: the recipe trains with images or steps of its own, and only trainings of one model for its next tokens "
          "are predicted; give --model for its language model alone.",
          s.where(data.starts_with("vlm") ? "dataset" : "step-func"));
  read_flags_of_adapters(job);
  // Its LoRA has this rank unless it is told another, of every product.
  constexpr std::int64_t kUsualRank = 32;
  if (lower_case(s.text_or_nothing("peft")) == "lora")
    take_adapters(job, "peft", kUsualRank, {"all-linear"});
  else if (s.has("peft"))
    expect_whole_model(job, "peft", "adapters");
  for (const std::string& scheme : s.words("peft-scheme")) {
    const std::string name = lower_case(scheme);
    if (name == "lora")
      take_adapters(job, "peft-scheme", kUsualRank, {"all-linear"});
    else if (is_resolved(scheme) && name != "none" && name != "null")
      expect_whole_model(job, "peft-scheme", "adapters");
  }
  const std::string recipe = lower_case(s.name_or_nothing("recipe"));
  // A recipe in Python says itself whether it has adapters.
  for (const char* word : {"_peft", "_lora", "_dora"})
    if (job.text.variant != "Python" && recipe.find(word) != std::string::npos)
      expect_whole_model(job, "recipe", "adapters");
}

void expect_decoder_sizes(ReadingJob& job) {
  const Settings& s = job.settings();
  for (const char* key :
       {"crossattn-emb-size", "in-channels", "patch-spatial", "num-single-layers", "num-joint-layers"})
    require(!s.has(key),
            "{}: describes a model that makes images or video, and no model here does; give --model with a built-in "
            "model, sizes or a config.json.",
            s.where(key));
  job.assume("layers as Megatron-LM's flags have them by default, as no recipe is named");
}

void expect_training(ReadingJob& job) {
  expect_all_weights(job);
  if (job.settings().flag("use-checkpoint-args"))
    job.assume("sizes as the flags say them, which those of the checkpoint replace (--use-checkpoint-args)");
  const std::string name = program_name(job);
  const bool trains =
      names_any(name, {"train", "finetune", "sft", "the command"}) || name.find('.') == std::string::npos;
  const bool other = trains && names_any(name, {"_ict", "_retro", "_vision", "_realm", "_rwkv"});
  // Forks call a program of their own after its model.
  if (job.text.variant.empty() && name.starts_with("pretrain_") &&
      !names_any(name,
                 {"gpt", "bert", "t5", "llama", "mamba", "hybrid", "qwen", "mixtral", "mistral", "deepseek", "vlm"}))
    job.assume(fmt::format("layers as pretrain_gpt.py makes them of these flags, which {} may not do", name));
  const bool two_stacks = job.settings().has("decoder-num-layers") && !trains_t5(job);
  require((!other && !two_stacks) || job.answers.model,
          "{}: its flags describe no model of ours; give --model with a built-in model, sizes or a config.json.",
          job.text.program);
  const bool sees = job.settings().has("img-h") || job.settings().has("vision-model-type");
  if (sees || (trains && names_any(name, {"vlm", "multimodal", "_omni", "_vl.", "_vl_", "llava"})))
    leave_out_images(job);
  if (trains) return;
  if (names_any(name, {"generat", "inference", "server", "convert", "export", "quantize", "prune", "mmlu", "validate",
                       "extract", "preprocess", "eval", "merge", "checkpoint"}))
    refuse_without_training(job);
}

namespace {

// Megatron-LM's own order (_allocate_auto of megatron/core/ssm/mamba_hybrid_layer_allocation.py): attention in even
// distances with Mamba layers at both ends, then feed-forward layers in the place of Mamba layers, as late as may be.
std::string shared_out(std::int64_t layers, double attention_share, double feed_forward_share) {
  // Python rounds halves to even numbers.
  const auto part = [&](double share) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(layers) * share));
  };
  std::string pattern(static_cast<std::size_t>(layers), 'M');
  const auto place = [&](char kind, double distance) {
    double left = distance;
    for (char& layer : pattern) {
      if (layer != 'M') continue;
      if (left < 0.5) {
        layer = kind;
        left += distance;
      } else {
        left -= 1.0;
      }
    }
  };
  const std::int64_t attention = part(attention_share), feed_forward = part(feed_forward_share);
  const std::int64_t others = layers - attention;
  place('*', static_cast<double>(others) / static_cast<double>(attention + 1));
  if (feed_forward > 0) place('-', static_cast<double>(others - feed_forward) / static_cast<double>(feed_forward));
  return pattern;
}

// Where no pattern is given; "": nothing tells of Mamba layers.
std::string pattern_of_shares(ReadingJob& job) {
  Settings& s = job.settings();
  const std::vector<std::string> spec = s.words("spec");
  const bool own = !spec.empty() && spec.front().find("mamba_layer_specs") != std::string::npos;
  const auto share = [&](const char* key) {
    const double value = s.number(key).value_or(0.0);
    require(value >= 0.0 && value <= 1.0, "{}: {} is no share of the layers; give a number from 0 to 1.", s.where(key),
            value);
    return value;
  };
  const bool told = s.has("hybrid-attention-ratio") || s.has("hybrid-mlp-ratio");
  const double attention = share("hybrid-attention-ratio"), feed_forward = share("hybrid-mlp-ratio");
  const bool typed = s.text_or_nothing("model-type") == "mamba";  // Primus
  const bool mamba = names_any(program_name(job), {"pretrain_mamba"}) || own || typed;
  if (!s.flag("is-hybrid-model") && !told && !mamba) {
    require(
        !names_any(program_name(job), {"pretrain_hybrid"}),
        "{}: without --hybrid-layer-pattern the order of its layers is not known; add the pattern, or give --model.",
        job.text.program);
    return "";
  }
  require(spec.empty() || own, "{}: layers of '{}' are in no model that these flags are read as; give --model.",
          s.where("spec"), spec.front());
  require(attention + feed_forward <= 1.0,
          "{}: the shares of attention and of feed-forward layers, {} and {}, are more than all layers; give shares "
          "that leave Mamba layers.",
          s.where("hybrid-attention-ratio"), attention, feed_forward);
  return shared_out(needed(job, "num-layers", "--num-layers"), attention, feed_forward);
}

}  // namespace

std::string hybrid_pattern(ReadingJob& job) {
  Settings& s = job.settings();
  std::string pattern;
  for (const char* key : {"hybrid-override-pattern", "hybrid-layer-pattern"})
    if (const auto given = s.text(key)) pattern = *given;
  if (pattern.empty()) return pattern_of_shares(job);
  if (const std::size_t further = pattern.find('/'); further != std::string::npos) {
    job.assume("without the layers that predict further tokens, behind '/' in the pattern");
    pattern.resize(further);
  }
  std::erase(pattern, '|');
  return pattern;
}

ModelConfig hybrid_model(ReadingJob& job, const std::string& pattern, const ModelFacts& facts) {
  Settings& s = job.settings();
  const char* key = s.has("hybrid-layer-pattern") ? "hybrid-layer-pattern" : "hybrid-override-pattern";
  require(pattern.find_first_not_of("M*-E") == std::string::npos,
          "{}: '{}' has layers that no model here has; M, *, - and E are known. Give --model for another.",
          s.where(key), pattern);
  const std::int64_t width = s.integer("mamba-head-dim").value_or(64);
  Json config = config_of(facts, "nemotron_h");
  config["hybrid_override_pattern"] = pattern;
  config["head_dim"] = facts.head_dim.value_or(std::max<std::int64_t>(1, facts.hidden / facts.heads));
  config["mamba_num_heads"] =
      s.integer("mamba-num-heads").value_or(std::max<std::int64_t>(1, 2 * facts.hidden / width));
  config["mamba_head_dim"] = width;
  config["ssm_state_size"] = s.integer("mamba-state-dim").value_or(128);
  config["n_groups"] = s.integer("mamba-num-groups").value_or(8);
  config["conv_kernel"] = 4;
  config["chunk_size"] = 128;
  config["mamba_hidden_act"] = "silu";
  config["mlp_hidden_act"] = "relu2";
  config["mlp_bias"] = config["attention_bias"] = config["use_bias"] = config["mamba_proj_bias"] = facts.bias;
  if (facts.experts > 0) {
    config["n_routed_experts"] = facts.experts;
    config["num_experts_per_tok"] = facts.top_k;
    config["moe_intermediate_size"] = facts.expert_ffn.value_or(facts.ffn.value_or(4 * facts.hidden));
    config["n_shared_experts"] = facts.shared_ffn.value_or(0) > 0 ? 1 : 0;
    if (facts.shared_ffn.value_or(0) > 0) config["moe_shared_expert_intermediate_size"] = *facts.shared_ffn;
  }
  const auto has_layers = [&](char kind) { return pattern.find(kind) != std::string::npos; };
  require(!facts.latent || !has_layers('*'),
          "{}: latent attention between Mamba layers is in no model here; give --model.", job.text.program);
  const bool feed_forward = has_layers('-') || has_layers('E');
  require(!facts.gated || !feed_forward,
          "{}: gated feed-forward layers between Mamba layers are in no model here; give --model.", job.text.program);
  if (facts.activation != ModelFacts::Activation::Relu && feed_forward)
    job.assume("squared ReLU in the place of the feed-forward layers' own activation");
  if (facts.positions == ModelFacts::Positions::Rotary && has_layers('*'))
    job.assume("attention without rotated positions");
  return model_of_config(config, "nemotron_h", facts, s.where(key));
}

bool trains_bert(ReadingJob& job) {
  const std::string name = program_name(job);
  if (names_any(name, {"pretrain_bert"})) return true;
  if (job.text.variant == "NeMo" &&
      (job.settings().has("bert-binary-head") || job.settings().has("bert-no-binary-head")))
    return true;
  // Files of flags alone name no program, as Megatron-LM's tests, which have its data.
  const bool flags_alone = name.ends_with(".yaml") || name.ends_with(".yml");
  // The folder may be a variable's.
  const bool bert =
      flags_alone && std::any_of(job.settings().all().begin(), job.settings().all().end(), [](const Setting& setting) {
        const std::string data = lower_case(to_text(setting.value));
        return setting.key == "data-path" && data.find("bert", data.rfind('/') + 1) != std::string::npos;
      });
  if (bert) job.assume("a BERT, as its data are named (--data-path)");
  return bert;
}

bool trains_t5(ReadingJob& job) {
  const std::string name = program_name(job);
  return names_any(name, {"pretrain_t5", "train_t5", "_t5."}) ||
         (job.text.variant == "NeMo" && job.settings().has("decoder-num-layers"));
}

ModelConfig t5_model(ReadingJob& job, const ModelFacts& facts) {
  Settings& s = job.settings();
  require(
      job.degrees().pp == 1,
      "{}: an encoder and a decoder in {} stages are split as no plan here splits them; give one stage, or --model.",
      job.text.program, job.degrees().pp);
  const std::int64_t decoder = s.integer("decoder-num-layers").value_or(facts.layers);
  const std::int64_t read = s.integer("seq-length").value_or(facts.seq);
  if (facts.rms_norm) job.assume("layer norms in the place of RMS norms");
  if (!facts.bias) job.assume("biases in all layers");
  if (facts.positions != ModelFacts::Positions::Learned) job.assume("learned positions");
  (void)s.take("encoder-pipeline-model-parallel-size");
  (void)s.take("pipeline-model-parallel-split-rank");
  return model_of_text(t5_text(facts, decoder, read), job.text.program);
}

}  // namespace meshwright
