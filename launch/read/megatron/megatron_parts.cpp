// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_parts.h"

#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/megatron/megatron_model.h"
#include "launch/setup/decoder.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

const std::map<std::string, std::string>& bridge_names() {
  static const std::map<std::string, std::string> names = {
      {"virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank"},
      {"num-layers-in-first-pipeline-stage", "decoder-first-pipeline-num-layers"},
      {"num-layers-in-last-pipeline-stage", "decoder-last-pipeline-num-layers"},
      {"account-for-embedding-in-pipeline-split", "account-for-embedding-in-pipeline-split"},
      {"num-moe-experts", "num-experts"},
      {"moe-router-topk", "moe-router-topk"},
      {"layernorm-epsilon", "norm-epsilon"},
      {"pipeline-dtype", "log-pipeline-dtype"},
      {"recipe", "recipe"},
      {"sequence-length", "seq-length"},
      {"max-steps", "train-iters"}};
  return names;
}

// Groups whose keys are those of Megatron-LM.
bool is_plain_group(const std::string& group) {
  return group == "model" || group == "train" || group == "ddp" || group == "optimizer" || group == "mixed-precision" ||
         group == "dist" || group == "comm-overlap" || group == "strategy" || group == "data" || group == "dataset";
}

std::string megatron_name(const std::string& given) {
  std::string key = given;
  std::replace(key.begin(), key.end(), '_', '-');
  const std::size_t dot = key.rfind('.');
  if (dot == std::string::npos) return key;
  const std::string group = key.substr(0, key.find('.')), name = key.substr(dot + 1);
  if (!is_plain_group(group)) return "log-" + key;  // checkpoint, logger, scheduler, tokenizer, profiling: no effect
  const auto known = bridge_names().find(name);
  return known == bridge_names().end() ? name : known->second;
}

}  // namespace

void name_as_megatron(Settings& settings) {
  Settings renamed;
  for (const Setting& setting : settings.all()) {
    ConfigValue value = setting.value;
    const std::string key = megatron_name(setting.key);
    if (value.is_scalar() && (value.text == "None" || value.text == "null")) {
      // No number that a recipe may have is 0.
      const bool counts =
          key == "moe-shared-expert-intermediate-size" || key == "mtp-num-layers" || key == "q-lora-rank";
      if (counts) renamed.add(key, setting.shown, ConfigValue::scalar("0", value.line), setting.place);
      continue;
    }
    const bool off = value.is_scalar() && lower_case(value.text) == "false";
    // A flag that is off is not given, but where the recipe may have it on.
    if (!off || key == "share-embeddings-and-output-weights" || key == "qk-layernorm" || key == "add-bias-linear" ||
        key == "fp8")
      renamed.add(key, setting.shown, std::move(value), setting.place);
  }
  // Megatron-Bridge splits states where either setting is on, so that a recipe's is off only by both.
  const Setting* ddp = nullptr;
  const Setting* optimizer = nullptr;
  for (const Setting& setting : settings.all()) {
    if (setting.key == "ddp.use_distributed_optimizer") ddp = &setting;
    if (setting.key == "optimizer.use_distributed_optimizer") optimizer = &setting;
  }
  const auto is_off = [](const Setting* one) {
    return one != nullptr && one->value.is_scalar() && lower_case(one->value.text) == "false";
  };
  if (is_off(ddp) && is_off(optimizer)) renamed.add("use-distributed-optimizer", ddp->shown, ddp->value, ddp->place);
  const bool groups = renamed.has("num-query-groups") && !renamed.has("group-query-attention");
  if (groups) renamed.add("group-query-attention", "num_query_groups", {}, "");
  settings = std::move(renamed);
  settings.no_effect(
      [](const std::string& key) { return key == "mode" || key == "config-file" || key.starts_with("log-"); });
  settings.no_effect_of_words();
}

namespace {

// Sizes of the file in the place of those of the recipe's model.
void override_sizes(Settings& s, ModelConfig& model) {
  static const std::map<std::string, std::string> sizes = {
      {"ffn-hidden-size", "intermediate"},
      {"num-query-groups", "kv_heads"},
      {"kv-channels", "head_dim"},
      {"num-experts", "experts"},
      {"moe-router-topk", "top_k"},
      {"moe-ffn-hidden-size", "expert_intermediate"},
      {"moe-shared-expert-intermediate-size", "shared_intermediate"},
      {"q-lora-rank", "q_rank"},
      {"kv-lora-rank", "kv_rank"},
      {"qk-head-dim", "nope_dim"},
      {"qk-pos-emb-head-dim", "rope_dim"},
      {"v-head-dim", "value_dim"},
      {"mtp-num-layers", "mtp"}};
  for (const auto& [key, name] : sizes)
    if (const auto value = s.integer(key, 0); value && model.more.contains(name)) model.more[name] = *value;
  const auto set = [&](const char* key, std::int64_t& into) {
    if (const auto value = s.integer(key)) into = *value;
  };
  set("num-layers", model.layers);
  set("hidden-size", model.hidden);
  set("num-attention-heads", model.heads);
  set("vocab-size", model.vocab);
  set("seq-length", model.seq);
  if (const auto tied = s.boolean("share-embeddings-and-output-weights"); tied && model.more.contains("tied"))
    model.more["tied"] = *tied ? 1 : 0;
  if (const auto norm = s.boolean("qk-layernorm"); norm && model.more.contains("qk_norm"))
    model.more["qk_norm"] = *norm ? 1 : 0;
  if (const auto base = s.number("rotary-base"); base && model.factors.contains("rotary_base"))
    model.factors["rotary_base"] = *base;
  if (const auto weight = s.number("mtp-loss-scaling-factor"); weight && model.factors.contains("mtp_weight"))
    model.factors["mtp_weight"] = *weight;
  for (const char* key : {"position-embedding-type", "norm-epsilon", "group-query-attention", "add-qkv-bias",
                          "max-position-embeddings", "normalization", "swiglu", "make-vocab-size-divisible-by"})
    (void)s.take(key);
}

bool gives_sizes(const Settings& s) {
  for (const char* key : {"num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-experts",
                          "position-embedding-type", "seq-length", "vocab-size"})
    if (s.has(key)) return true;
  return false;
}

// The flags of Megatron-LM for the recipe's model with what the file has in the place of its sizes.
void say_as_megatron(ReadingJob& job, const Decoder& d) {
  Settings& s = job.settings();
  const std::string place = s.where("recipe");
  const auto flag = [&](const char* key, bool on) {
    if (on && !s.has(key)) s.add(key, key, {}, place);
  };
  const auto size = [&](const char* key, const std::string& value) {
    if (!s.has(key)) s.add(key, key, ConfigValue::scalar(value, 0), place);
  };
  const auto number = [&](const char* key, std::int64_t value) { size(key, fmt::format("{}", value)); };
  number("num-layers", d.layers);
  number("hidden-size", d.hidden);
  number("ffn-hidden-size", d.ffn);
  number("num-attention-heads", d.heads);
  number("num-query-groups", d.kv_heads);
  flag("group-query-attention", true);
  number("kv-channels", d.head_dim);
  number("seq-length", d.seq);
  number("vocab-size", d.vocab);
  // As many words as it says.
  number("padded-vocab-size", s.integer("vocab-size").value_or(d.vocab));
  // GPT as Megatron-LM makes it has learned positions, as many as tokens.
  const bool rotary = d.positions == Decoder::Positions::Rotary;
  size("position-embedding-type", rotary ? "rope" : "learned_absolute");
  number("max-position-embeddings", job.answers.seq.value_or(s.integer("seq-length").value_or(d.seq)));
  if (rotary) size("rotary-base", fmt::format("{}", d.rotary_base));
  size("normalization", d.rms_norm ? "RMSNorm" : "LayerNorm");
  flag("swiglu", d.gated);
  flag("disable-bias-linear", !s.boolean("add-bias-linear").value_or(d.bias));
  flag("add-qkv-bias", d.qkv_bias && !d.bias);
  const bool norms = s.boolean("qk-layernorm").value_or(d.qk_norm);
  flag("qk-layernorm", norms);
  flag("untie-embeddings-and-output-weights", !s.boolean("share-embeddings-and-output-weights").value_or(d.tied));
  if (!d.experts) return;
  number("num-experts", d.experts->count);
  number("moe-router-topk", d.experts->top_k);
  number("moe-ffn-hidden-size", d.experts->ffn);
}

// What no override gives is the recipe's own: a file without any says nothing of the step.
void expect_degrees_of_recipe(ReadingJob& job) {
  const Settings& s = job.settings();
  bool says_step = job.text.variant == "Python" || job.answers.batch.has_value();
  for (const char* key :
       {"tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
        "expert-model-parallel-size", "global-batch-size", "micro-batch-size", "step-batch-size-schedule"})
    says_step = says_step || s.has(key);
  require(says_step,
          "{}: its degrees and batch are those of the recipe, not in the file; add overrides "
          "(model.tensor_model_parallel_size=...) or --batch, or give the recipe's Python file and its --function.",
          s.where("recipe"));
}

// "llama3_8b_16k_pretrain_config": samples of 16 x 1,024 tokens. 0: its name has no length.
std::int64_t length_in_name(const std::string& recipe) {
  for (const std::string& part : split(recipe, '_')) {
    const auto thousands = part.ends_with('k') ? whole_number(part.substr(0, part.size() - 1)) : std::nullopt;
    if (thousands && *thousands >= 1 && *thousands <= 4096) return *thousands * 1024;
  }
  return 0;
}

// Samples are as long as an override says, or the recipe, of which only the name is here.
void take_length_of_recipe(ReadingJob& job, const std::string& name, ModelConfig& model) {
  const std::int64_t named = length_in_name(name);
  if (named > 0) model.seq = named;
  job.assume(named > 0 ? fmt::format("samples of {} tokens, as the recipe is named", named)
                       : fmt::format("samples of {} tokens: no override says how long they are (--seq)", model.seq));
}

}  // namespace

void recipe_model(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string name = s.name_or_nothing("recipe");
  require(!name.empty(), "{}: neither a recipe nor the sizes of a model are given; give --model.", job.text.program);
  expect_degrees_of_recipe(job);
  const bool says_length = s.has("seq-length") || job.answers.seq;
  job.reading.setup.model_name = name;
  ModelConfig& model = job.reading.setup.model = model_by_name(name, s.where("recipe"));
  const ModelConfig named = model;
  const bool plain = model.family == "gpt" || model.family == "llama" || model.family == "mixtral";
  if (plain && gives_sizes(s) && decoder_of(model).unusual.empty()) {
    say_as_megatron(job, decoder_of(model));
    model = megatron_model(job);
  } else {
    override_sizes(s, model);
  }
  const auto further = model.more.find("mtp"), kinds = model.more.find("mtp_layers");
  if (further != model.more.end() && further->second > 0 && kinds != model.more.end() && kinds->second == 0) {
    further->second = 0;
    job.assume("without the layers that predict further tokens: the recipe does not say what they are made of");
  }
  if (const Setting* layers = s.take("moe-layer-freq"); layers != nullptr && model.more.contains("dense_layers")) {
    const ExpertLayers of = expert_layers(job, to_text(layers->value), model.layers);
    model.more["dense_layers"] = of.dense;
    model.more["mixture_every"] = of.every;
  }
  if (job.answers.seq) model.seq = *job.answers.seq;
  if (!says_length) take_length_of_recipe(job, name, model);
  if (job.answers.vocab) model.vocab = *job.answers.vocab;
  job.assume(model == named ? fmt::format("the sizes of {} for the recipe '{}'", named.name, name)
                            : fmt::format("a model of the kind of {} for the recipe '{}'", named.name, name));
  job.assume("degrees of 1 where no override gives them");
  if (name.find("fp8") != std::string::npos) job.reading.setup.matmul_dtype = "fp8";
  if (!s.has("use-distributed-optimizer"))
    s.add("use-distributed-optimizer", "use_distributed_optimizer", {}, s.where("recipe"));
}

namespace {

std::vector<int> numbers_of(ReadingJob& job, const char* key) {
  std::vector<int> numbers;
  for (const std::string& word : job.settings().words(key)) {
    const auto number = whole_number(word);
    require(number && *number >= 0 && *number <= 1 << 20, "{}: '{}' is no degree.", job.settings().where(key), word);
    numbers.push_back(static_cast<int>(*number));
  }
  return numbers;
}

}  // namespace

void read_meshes(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::vector<int> meshes = numbers_of(job, "hetero-process-meshes"),
                         split = numbers_of(job, "hetero-pipeline-layer-split");
  require(!meshes.empty() && meshes.size() % 5 == 0, "{}: has {} numbers; every mesh has five: tp, cp, ep, dp, pp.",
          s.where("hetero-process-meshes"), meshes.size());
  std::vector<StageSetup>& stages = job.reading.setup.stages;
  std::int64_t ranks = 0;
  for (std::size_t m = 0; m < meshes.size(); m += 5) {
    for (std::size_t i = m; i < m + 5; ++i)
      require(meshes[i] >= 1, "{}: a degree is 0; give at least 1.", s.where("hetero-process-meshes"));
    ranks += std::int64_t{meshes[m]} * meshes[m + 1] * meshes[m + 3] * meshes[m + 4];
    require(ranks <= 1 << 20, "{}: has more ranks than any cluster.", s.where("hetero-process-meshes"));
    for (int stage = 0; stage < meshes[m + 4]; ++stage)
      stages.push_back({.dp = meshes[m + 3], .tp = meshes[m], .cp = meshes[m + 1], .ep = meshes[m + 2]});
  }
  if (split.size() != stages.size()) {
    const std::string why =
        fmt::format("hetero_pipeline_layer_split names {} stages, and the meshes have {}", split.size(), stages.size());
    job.broken_without_plan(why);
  }
  for (std::size_t i = 0; i < std::min(split.size(), stages.size()); ++i) stages[i].blocks = split[i];
  if (d.pp != static_cast<int>(stages.size()))
    job.broken(fmt::format("pipeline_model_parallel_size {} is not the {} stages of the meshes", d.pp, stages.size()));
  if (ranks != job.devices.devices()) {
    const std::string why =
        fmt::format("the meshes have {} ranks, and there are {} devices", ranks, job.devices.devices());
    job.no_plan(why + "; give --cluster, --nodes or --devices-per-node with as many");
  }
  d.tp = stages.front().tp;
  d.dp = stages.front().dp;
  d.cp = stages.front().cp;
  d.pp = static_cast<int>(stages.size());
  d.ep = stages.front().ep;
  // Every mesh says 1 where experts are whole on each rank of tp.
  const std::vector<int> split_experts = numbers_of(job, "expert-tensor-parallel-size-per-process-mesh");
  const bool whole = !split_experts.empty() &&
                     std::all_of(split_experts.begin(), split_experts.end(), [](int of_mesh) { return of_mesh == 1; });
  d.whole_experts = whole && d.tp > 1 && d.ep % d.tp == 0;
  d.folded_experts = d.ep > 1 && d.cp > 1 && d.ep % (d.cp * (d.whole_experts ? d.tp : 1)) == 0;
  for (const char* key : {"hetero-device-types", "hetero-current-device-type", "standalone-embedding-stage",
                          "expert-model-parallel-size", "expert-tensor-parallel-size",
                          "use-partial-reduce-for-shared-embedding", "recompute-method-per-stage-micro-batch",
                          "recompute-num-layers-per-stage-micro-batch", "hetero-use-cpu-communication"})
    (void)s.take(key);
  const auto dp_of = [&](const StageSetup& stage) { return stage.dp != d.dp || stage.tp != d.tp || stage.ep != d.ep; };
  if (std::any_of(stages.begin(), stages.end(), dp_of))
    job.assume("the fastest sharding of each stage on a mesh of its dp and tp");
  // Stages in order; of micro-batches that differ the first ones count.
  if (const Setting* rows = s.take("recompute-granularity-per-stage-micro-batch");
      rows != nullptr && rows->value.is_list()) {
    std::size_t stage = 0;
    for (const ConfigValue& row : rows->value.items) {
      if (!row.is_list() || row.items.size() < 3) continue;
      const auto count = whole_number(row.items[0].text), flag = whole_number(row.items[2].text);
      for (std::int64_t i = 0; i < count.value_or(0) && stage < stages.size(); ++i)
        stages[stage++].recompute = flag.value_or(0) == 1 ? Recompute::Full : Recompute::None;
    }
    job.assume("each stage recomputes as in its first micro-batches");
  }
}

void join_meshes(ReadingJob& job) {
  if (job.reading.why_no_plan.empty()) join_stages(job.reading.setup);
}

}  // namespace meshwright
