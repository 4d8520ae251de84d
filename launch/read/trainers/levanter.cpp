// SPDX-License-Identifier: Apache-2.0
// Levanter (9263f81e): YAML of its trainings of language models (train_lm, sft). JAX splits weights and states over
// all replicas (fsdp_axis), and tensors over model_axis_size.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

// "p=f32,c=bfloat16" or "compute=bfloat16,params=float32": the type of products.
DType type_of(const std::string& policy) {
  for (const char* name : {"compute=", "c="})
    for (const std::string& part : split(policy, ','))
      if (part.starts_with(name)) {
        const std::string type = part.substr(std::string(name).size());
        return type == "f32" || type == "float32"   ? DType::F32
               : type == "f16" || type == "float16" ? DType::F16
                                                    : DType::BF16;
      }
  return policy.empty() || policy == "f32" ? DType::F32 : DType::BF16;
}

ModelConfig levanter_model(ReadingJob& job, const std::string& kind, std::int64_t seq) {
  Settings& s = job.settings();
  const auto need = [&](const char* name) {
    const std::string key = std::string("model.") + name;
    return needed(job, key, key);
  };
  const bool gpt = kind == "gpt2";
  require(gpt || kind == "llama" || kind == "mistral" || kind == "mixtral" || kind == "qwen",
          "{}: models of '{}' are not read of Levanter; give --model with a built-in model, sizes or a config.json.",
          s.where("model.type"), printable(kind));
  ModelFacts facts;
  facts.hidden = need("hidden_dim");
  facts.layers = need("num_layers");
  facts.heads = need("num_heads");
  facts.seq = seq;
  if (gpt) {
    facts.ffn = s.integer("model.mlp_scale").value_or(4) * facts.hidden;
    facts.bias = switched_on(s, "model.use_bias", true);
  } else {
    facts.ffn = need("intermediate_dim");
    facts.kv_heads = s.integer("model.num_kv_heads").value_or(facts.heads);
    facts.gated = facts.rms_norm = true;
    facts.activation = ModelFacts::Activation::Silu;
    facts.bias = switched_on(s, "model.use_bias");
    facts.qkv_bias = kind == "qwen";
    facts.tied = switched_on(s, "model.tie_word_embeddings");
    facts.positions = ModelFacts::Positions::Rotary;
    facts.rotary_base = s.number("model.rope.theta").value_or(s.number("model.rope_theta").value_or(10000.0));
    if (kind == "mixtral") {
      facts.experts = s.integer("model.n_routed_experts").value_or(8);
      facts.top_k = s.integer("model.num_experts_per_tok").value_or(2);
      job.assume("tokens evenly spread over the experts");
    }
  }
  std::string tokenizer;
  for (const char* key : {"data.tokenizer", "supervised_data.tokenizer", "tokenizer", "model_name_or_path"})
    if (tokenizer.empty()) tokenizer = s.name_or_nothing(key);
  std::optional<std::int64_t> words;
  if (tokenizer == "gpt2" || (gpt && tokenizer.empty())) words = 50257;
  if (!words && !tokenizer.empty() && !job.answers.vocab) try {
      const ModelConfig model = model_by_name(tokenizer.substr(tokenizer.rfind('/') + 1), "");
      words = model.vocab;
      job.assume(fmt::format("the {} words of {} for the tokenizer {}", model.vocab, model.name, tokenizer));
    } catch (const InputError&) {  // no built-in model's
    }
  facts.vocab = vocabulary(job, words, 128);
  return model_of(facts, "", job.text.program, job.reading.assumed);
}

}  // namespace

void read_levanter(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "Levanter 9263f81e", "levanter");
  job.reading.framework.tensors = true;
  d.tp = degree_of(job, "trainer.model_axis_size");
  const auto axes = s.words("trainer.tensor_parallel_axes");
  if (d.tp > 1 && axes.empty()) job.assume("heads and feed-forward layers split over trainer.model_axis_size");
  share_devices(job);
  const std::string kind = s.text_or_nothing("model.type");
  const auto length = sequence_of(job, s.has("model.seq_len") ? "model.seq_len" : "train_seq_len");
  if (!take_given_model(job, length)) {
    require(length.has_value(), "{}: says no length of the samples (model.seq_len); give --seq.", job.text.program);
    setup.model = levanter_model(job, kind.empty() ? "gpt2" : kind, *length);
  }
  d.zero = d.dp > 1 ? 3 : 0;
  d.recompute = switched_on(s, "model.gradient_checkpointing", true) ? Recompute::Full : Recompute::None;
  keep_to(job, {}, {Recompute::None, Recompute::Full});
  setup.overlap_gradients = setup.overlap_weights = true;
  job.reading.software = "";
  job.assume("costs without a profile: nobody measured Levanter on these devices");
  setup.dtype = type_of(s.text_or_nothing("trainer.mp"));
  const std::string optimizer = s.text_or_nothing("optimizer.type");
  if (!optimizer.empty() && optimizer.find("adam") == std::string::npos)
    job.assume(fmt::format("Adam in the place of {}", printable(optimizer)));
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.weight_decay").value_or(0.1));
  setup.optimizer.max_norm = std::max(0.0, s.number("optimizer.max_grad_norm").value_or(1.0));
  const std::int64_t global = needed(job, "trainer.train_batch_size", "trainer.train_batch_size");
  const std::int64_t given = s.integer("trainer.per_device_parallelism", -1).value_or(-1);
  const std::int64_t micro = given > 0 ? given : std::max<std::int64_t>(1, global / std::max(1, d.dp));
  share_batch(job, job.answers.micro_batch.value_or(micro), global);
  s.no_effect([](const std::string& key) {
    return begins_with_any(key, {"data", "optimizer.", "trainer.", "model.", "hf_", "use_hf_model_config", "eval_",
                                 "initialize_from", "supervised_data", "tokenizer", "epoch", "out_dir", "z_loss",
                                 "log_", "max_", "chat_", "messages_", "dataset", "cache_dir"});
  });
}

}  // namespace meshwright
