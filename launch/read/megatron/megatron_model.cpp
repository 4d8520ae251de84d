// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_model.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/megatron/megatron_kinds.h"
#include "launch/read/megatron/megatron_older.h"
#include "launch/read/megatron/megatron_parts.h"
#include "launch/read/megatron/megatron_variants.h"
#include "launch/read/megatron/mindspeed.h"
#include "launch/read/megatron/pai_megatron.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

ExpertLayers expert_layers(ReadingJob& job, const std::string& text, std::int64_t layers) {
  const std::string where = job.settings().where("moe-layer-freq");
  if (text.find('[') == std::string::npos) {
    // A layer has experts where its number is a multiple, of a negative number as of its absolute value.
    const std::int64_t every = std::abs(parse_integer(text, where, -10'000, 10'000));
    require(every > 0, "{}: 0 is out of range; give a number from 1 to 10000.", where);
    return {0, every};
  }
  std::vector<int> pattern;
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at)) {
    const std::size_t close = text.find(']', at);
    require(close != std::string::npos, "{}: '{}' has no ']'; write a list such as [0]*3+[1]*58.", where, text);
    std::vector<int> part;
    for (const std::string& item : split(text.substr(at + 1, close - at - 1), ','))
      part.push_back(item.find('1') != std::string::npos ? 1 : 0);
    std::int64_t times = 1;
    at = close + 1;
    if (at < text.size() && text[at] == '*') {
      std::size_t end = at + 1;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
      times = parse_integer(text.substr(at + 1, end - at - 1), where, 0, 10'000);
      at = end;
    }
    for (std::int64_t i = 0; i < times && pattern.size() < 20'000; ++i)
      pattern.insert(pattern.end(), part.begin(), part.end());
  }
  if (static_cast<std::int64_t>(pattern.size()) != layers)
    job.broken(fmt::format("--moe-layer-freq names {} layers, and --num-layers {}", pattern.size(), layers));
  const auto first = std::find(pattern.begin(), pattern.end(), 1);
  const ExpertLayers found{first - pattern.begin(), 1};
  if (std::find(first, pattern.end(), 0) != pattern.end())
    job.assume("experts in every layer behind the first one that has them");
  return found;
}

namespace {

void read_experts(ReadingJob& job, ModelFacts& facts) {
  Settings& s = job.settings();
  // Megatron-DeepSpeed takes a number for each layer.
  if (const std::vector<std::string> counts = s.words("num-experts"); !counts.empty())
    facts.experts = parse_integer(counts.back(), s.where("num-experts"), 0, 100'000);
  if (facts.experts == 1 && !s.has("moe-router-topk")) facts.experts = 0;
  const std::string pattern = s.has("moe-layer-freq") ? to_text(s.take("moe-layer-freq")->value) : "1";
  if (facts.experts == 0) return;
  facts.top_k = s.integer("moe-router-topk").value_or(job.text.variant.empty() ? 2 : 1);
  facts.expert_ffn = s.integer("moe-ffn-hidden-size");
  facts.shared_ffn = s.integer("moe-shared-expert-intermediate-size", 0);
  facts.sigmoid = s.text("moe-router-score-function").value_or("softmax") == "sigmoid";
  facts.selection_bias = s.flag("moe-router-enable-expert-bias");
  // The choice is made of scores that are softmaxed behind it, or sigmoids that are divided by their sum.
  facts.normalized = facts.sigmoid || !s.flag("moe-router-pre-softmax");
  facts.routed_scale = real_number(s.name_or_nothing("moe-router-topk-scaling-factor"));
  // MindSpeed-LLM: so many times as wide as an expert.
  if (const auto shared = s.integer("n-shared-experts", 0); shared && !facts.shared_ffn)
    facts.shared_ffn = *shared * facts.expert_ffn.value_or(facts.ffn.value_or(4 * facts.hidden));
  const std::vector<std::int64_t> noops = noop_layers(job);
  const ExpertLayers layers = expert_layers(job, pattern, facts.layers + std::ssize(noops));
  facts.dense_layers = layers.dense;
  // MindSpeed-LLM: of the first layers, those that do something.
  if (const auto first = s.integer("first-k-dense-replace", -1); first && *first > 0)
    facts.dense_layers = *first - (std::lower_bound(noops.begin(), noops.end(), *first) - noops.begin());
  facts.mixture_every = layers.every;
  read_old_experts(job, facts);
  if (!s.flag("moe-router-force-load-balancing")) job.assume("tokens evenly spread over the experts");
}

void read_latent(ReadingJob& job, ModelFacts& facts) {
  Settings& s = job.settings();
  facts.latent = s.flag("multi-latent-attention");
  if (!facts.latent) return;
  facts.q_rank = s.integer("q-lora-rank", 0).value_or(0);
  facts.kv_rank = s.integer("kv-lora-rank").value_or(32);
  facts.nope_dim = s.integer("qk-head-dim").value_or(128);
  facts.rope_dim = s.integer("qk-pos-emb-head-dim").value_or(64);
  facts.value_dim = s.integer("v-head-dim").value_or(128);
  (void)s.take("kv-channels");
}

void read_positions(ReadingJob& job, ModelFacts& facts) {
  using Positions = ModelFacts::Positions;
  Settings& s = job.settings();
  std::string type = s.text("position-embedding-type").value_or("learned_absolute");
  if (s.flag("use-rotary-position-embeddings")) type = "rope";
  facts.positions_learned = s.integer("max-position-embeddings");
  if (facts.positions_learned && *facts.positions_learned < facts.seq)
    job.broken(
        fmt::format("--max-position-embeddings {} is less than --seq-length {}", *facts.positions_learned, facts.seq));
  facts.positions = type == "learned_absolute"                                                ? Positions::Learned
                    : type == "rope" || type == "yarn" || type == "mrope" || type == "rotary" ? Positions::Rotary
                    : type == "alibi"                                                         ? Positions::Alibi
                                                                                              : Positions::None;
  facts.rotary_base = s.number("rotary-base").value_or(10000.0);
  facts.rotary_share = s.number("rotary-percent").value_or(1.0);
}

// --window-size 127,0: the keys before a query that it sees beside its own. --window-attn-skip-freq N: of N layers the
// last one sees all.
void read_windows(ReadingJob& job, ModelFacts& facts) {
  Settings& s = job.settings();
  if (s.text("softmax-type").value_or("vanilla") == "learnable" || s.flag("enable-gpt-oss")) facts.sinks = true;
  // Pai-Megatron-Patch: windows that hold a whole sequence are none.
  if (const auto seen = s.integer("sliding-window"); seen && *seen < facts.seq) facts.window = *seen;
  const Setting* size = s.take("window-size");
  if (size == nullptr) return;
  std::string text = to_text(size->value);
  text.erase(0, text.find_first_not_of("([ "));
  const std::int64_t before =
      parse_integer(text.substr(0, text.find_first_of(", ")), s.where("window-size"), 0, 1 << 30);
  facts.window = before + 1;
  const std::string skip = s.has("window-attn-skip-freq") ? to_text(s.take("window-attn-skip-freq")->value) : "";
  if (skip.empty()) return;
  require(skip.find('[') == std::string::npos,
          "{}: a list of layers is not read; give a number, of so many layers the last one sees all.",
          s.where("window-attn-skip-freq"));
  facts.full_every = parse_integer(skip, s.where("window-attn-skip-freq"), 1, 10'000);
}

ModelFacts model_facts(ReadingJob& job, const std::string& pattern) {
  Settings& s = job.settings();
  ModelFacts facts;
  const auto need = [&](const char* key) { return needed(job, key, fmt::format("--{}", key)); };
  facts.layers = pattern.empty() ? need("num-layers") : std::ssize(pattern);
  (void)s.take("num-layers");
  const std::vector<std::int64_t> noops = noop_layers(job);
  require(noops.empty() || (std::ssize(noops) < facts.layers && noops.back() < facts.layers),
          "{}: names layers that --num-layers {} does not have, or all of them; name fewer.", s.where("noop-layers"),
          facts.layers);
  facts.layers -= std::ssize(noops);
  facts.hidden = need("hidden-size");
  facts.heads = need("num-attention-heads");
  facts.seq = job.answers.seq ? *job.answers.seq : need("seq-length");
  (void)s.take("seq-length");
  // Where --seq-length is that of an encoder of images.
  if (const auto text = s.integer("decoder-seq-length"); text && !job.answers.seq) facts.seq = *text;
  facts.gated = s.flag("swiglu") || s.flag("geglu") || s.flag("quick-geglu");
  facts.activation = s.flag("swiglu") ? ModelFacts::Activation::Silu : ModelFacts::Activation::Gelu;
  if (s.flag("squared-relu") || s.flag("relu")) facts.activation = ModelFacts::Activation::Relu;
  if (const auto gate = s.text("glu-activation")) {  // Megatron-DeepSpeed: two halves, each as wide as is written
    facts.gated = true;
    facts.activation = *gate == "swiglu"  ? ModelFacts::Activation::Silu
                       : *gate == "reglu" ? ModelFacts::Activation::Relu
                                          : ModelFacts::Activation::Gelu;
  }
  facts.ffn = s.integer("ffn-hidden-size");
  if (!facts.ffn && s.flag("swiglu")) facts.ffn = static_cast<std::int64_t>(8 * facts.hidden / 3) / 64 * 64;
  if (const auto unit = s.integer("multiple-of"); unit && s.flag("swiglu") && !s.has("ffn-hidden-size")) {
    const auto factor = s.number("hidden-dim-multiplier").value_or(1.0);  // FlagScale: as Llama rounds it
    const auto width = static_cast<std::int64_t>(factor * static_cast<double>(8 * facts.hidden / 3));
    facts.ffn = (width + *unit - 1) / *unit * *unit;
  }
  facts.head_dim = s.integer("kv-channels");
  if (facts.head_dim && *facts.head_dim * facts.heads == facts.hidden) facts.head_dim.reset();
  const auto groups = s.integer("num-query-groups");
  if (s.flag("group-query-attention") || !job.text.variant.empty())
    facts.kv_heads = groups;
  else if (groups && *groups < facts.heads && !s.flag("multi-latent-attention"))
    job.broken(
        fmt::format("--num-query-groups {} has no effect without --group-query-attention: Megatron drops it "
                    "silently",
                    *groups));
  facts.rms_norm = s.text("normalization").value_or("LayerNorm") == "RMSNorm" || s.flag("rmsnorm");
  facts.epsilon = real_number(s.name_or_nothing("norm-epsilon"));
  facts.tied = !s.flag("untie-embeddings-and-output-weights");
  facts.bias = !s.flag("disable-bias-linear");
  facts.qkv_bias = s.flag("add-qkv-bias");
  facts.qk_norm = s.flag("qk-layernorm");
  read_positions(job, facts);
  read_windows(job, facts);
  read_latent(job, facts);
  read_experts(job, facts);
  if (facts.latent && s.flag("group-query-attention") && job.text.target != "flagscale")
    job.broken("--multi-latent-attention and --group-query-attention exclude each other");
  facts.further = s.integer("mtp-num-layers", 0).value_or(0);
  if (facts.further > 0 && !job.reading.setup.stages.empty()) {
    job.assume(
        fmt::format("without the {} modules that predict further tokens, beside meshes of stages", facts.further));
    facts.further = 0;
  }
  if (const auto weight = s.number("mtp-loss-scaling-factor"); weight && *weight > 0.0) facts.further_weight = *weight;
  return facts;
}

// GPT-2's and Llama 2's own are of known size; that of a model that is built in has the model's words. Other tokenizers
// are files whose names say nothing.
std::optional<std::int64_t> words_of_tokenizer(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string type = s.name_or_nothing("tokenizer-type");
  // Files of other makers have other words.
  const auto own = [&](const char* key, std::string_view name, std::int64_t words) {
    const std::string file = lower_case(s.name_or_nothing(key));
    if (!file.empty() && file.find(name) == std::string::npos)
      job.assume(fmt::format("{} words, as of {}, in {} (--vocab)", words, name, printable(file)));
    return words;
  };
  if (type.starts_with("GPT2BPE") || (type.empty() && s.has("merge-file"))) return own("vocab-file", "gpt2", 50257);
  if (type == "Llama2Tokenizer") return own("tokenizer-model", "llama", 32000);
  // BERT's own words, and those that mark what T5 leaves out.
  if (type.starts_with("BertWordPiece"))
    return own("vocab-file", "bert", type == "BertWordPieceCase" ? 28996 : 30522) +
           s.integer("vocab-extra-ids", 0).value_or(0);
  if (type != "HuggingFaceTokenizer") return std::nullopt;
  const std::string name = s.name_or_nothing("tokenizer-model");
  try {
    const ModelConfig model = model_by_name(name.substr(name.rfind('/') + 1), "");
    job.assume(fmt::format("the {} words of {} for the tokenizer {}", model.vocab, model.name, name));
    return model.vocab;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::int64_t words_of(ReadingJob& job) {
  Settings& s = job.settings();
  const std::int64_t unit = s.integer("make-vocab-size-divisible-by").value_or(128) * job.degrees().tp;
  auto padded = s.integer("padded-vocab-size");
  if (!padded) padded = s.integer("pad-vocab-size-to");
  const auto given = s.integer("vocab-size");
  if (padded && !job.answers.vocab) return *padded;
  if (!given && !job.answers.vocab)
    if (const auto words = words_of_patch(job)) return *words;
  std::optional<std::int64_t> known = given;
  if (!known && !job.answers.vocab) known = words_of_tokenizer(job);
  return vocabulary(job, known, unit);
}

}  // namespace

ModelConfig megatron_model(ReadingJob& job) {
  // A fork that takes the model of the hub, whatever the flags say of it.
  if (Settings& s = job.settings(); s.has("bridge-hf-model")) {
    const std::string name = s.name_or_nothing("bridge-hf-model");
    if (name.empty()) expect_resolved(to_text(s.take("bridge-hf-model")->value), s.where("bridge-hf-model"));
    ModelConfig model = model_by_name(name.substr(name.rfind('/') + 1), s.where("bridge-hf-model"));
    model.seq = job.answers.seq ? *job.answers.seq : needed(job, "seq-length", "--seq-length");
    return model;
  }
  const std::int64_t words = words_of(job);
  const std::string pattern = hybrid_pattern(job);
  ModelFacts facts = model_facts(job, pattern);
  facts.vocab = words;
  if (!pattern.empty()) return hybrid_model(job, pattern, facts);
  if (trains_t5(job)) return t5_model(job, facts);
  if (auto variant = variant_model(job, facts)) return *std::move(variant);
  if (trains_bert(job)) return model_of_text(bert_text(facts), job.text.program);
  return model_of(facts, "", job.text.program, job.reading.assumed);
}

}  // namespace meshwright
