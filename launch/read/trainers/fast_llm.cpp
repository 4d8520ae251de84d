// SPDX-License-Identifier: Apache-2.0
// Fast-LLM (7d61a1ba): YAML of `fast-llm train gpt`. Micro-batches are counted in tokens, of documents that follow one
// another; defaults are those of its configuration classes, and of a pretrained model its own sizes.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

const std::string kBase = "model.base_model.", kBlock = kBase + "decoder.block.", kMixer = kBlock + "mixer.",
                  kMlp = kBlock + "mlp.";

// Blocks of one kind, of attention and a feed-forward layer or experts, are read.
void expect_plain_blocks(ReadingJob& job) {
  Settings& s = job.settings();
  if (job.answers.model) return;
  const auto expect = [&](const std::string& key, std::initializer_list<const char*> known) {
    const std::string kind = s.text(key).value_or(*known.begin());
    require(std::any_of(known.begin(), known.end(), [&](const char* one) { return kind == one; }),
            "{}: '{}' is of a model that no family of ours has, or of several kinds of blocks; give --model.",
            s.where(key), printable(kind));
  };
  expect(kBase + "decoder.type", {"fixed"});
  expect(kMixer + "type", {"attention"});
  expect(kMlp + "type", {"mlp", "moe"});
  for (const Setting& setting : s.all())
    for (const std::string& part : {kBase + "peft.", kBase + "vision_encoder", kBase + "decoder.blocks."})
      require(
          !setting.key.starts_with(part) || setting.key.ends_with(".type"),
          "{}: {}: is of adapters, images or several kinds of blocks, which are not read; give a plain training, or "
          "--model.",
          setting.place, setting.shown);
}

ModelFacts fast_llm_facts(ReadingJob& job, std::int64_t seq) {
  Settings& s = job.settings();
  ModelFacts facts;
  facts.seq = seq;
  facts.hidden = s.integer(kBase + "hidden_size").value_or(1024);
  facts.layers = s.integer(kBase + "decoder.num_blocks").value_or(12);
  facts.heads = s.integer(kMixer + "heads").value_or(8);
  facts.kv_heads = s.integer(kMixer + "head_groups").value_or(1);
  facts.head_dim = s.integer(kMixer + "head_size").value_or(128);
  if (*facts.head_dim * facts.heads == facts.hidden) facts.head_dim.reset();
  facts.ffn = s.integer(kMlp + "intermediate_size").value_or(4096);
  facts.gated = switched_on(s, kMlp + "gated");
  const std::string activation = s.text(kMlp + "activation").value_or(facts.gated ? "silu" : "gelu");
  using Activation = ModelFacts::Activation;
  facts.activation = activation == "silu"                                   ? Activation::Silu
                     : activation == "relu" || activation == "squared_relu" ? Activation::Relu
                                                                            : Activation::Gelu;
  const bool of_attention = switched_on(s, kMixer + "add_linear_biases", true);
  facts.bias = switched_on(s, kMlp + "add_linear_biases", true);
  facts.qkv_bias = of_attention;
  if (facts.bias != of_attention)
    job.assume(
        "biases of attention's queries, keys and values, and of the other products, as add_linear_biases has them");
  facts.rms_norm = s.text(kBlock + "normalization.type").value_or("layer_norm") == "rms_norm";
  facts.epsilon = s.number(kBlock + "normalization.epsilon");
  const std::string rotary = s.text(kMixer + "rotary.type").value_or("none");
  facts.positions = rotary == "none" ? ModelFacts::Positions::Learned : ModelFacts::Positions::Rotary;
  facts.rotary_base = s.number(kMixer + "rotary.theta").value_or(10000.0);
  facts.window = s.integer(kMixer + "window_size").value_or(0);
  facts.qk_norm = s.has(kMixer + "query_norm.type");
  facts.tied = switched_on(s, kBase + "tied_embedding_weight");
  facts.vocab = job.answers.vocab.value_or(s.integer(kBase + "embeddings.vocab_size").value_or(49152));
  if (s.text(kMlp + "type").value_or("mlp") != "moe") return facts;
  facts.experts = s.integer(kMlp + "experts").value_or(2);
  facts.top_k = s.integer(kMlp + "experts_per_token").value_or(1);
  facts.expert_ffn = facts.ffn;
  if (const std::int64_t shared = s.integer(kMlp + "shared_experts", 0).value_or(0); shared > 0)
    facts.shared_ffn = shared * *facts.ffn;
  return facts;
}

void read_fast_llm_recompute(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string level = s.text(kMlp + "recompute_level").value_or("none");
  if (level == "none") return;
  job.degrees().recompute = Recompute::Selective;
  job.assume(fmt::format("norms and activations recomputed for recompute_level: {}", printable(level)));
}

}  // namespace

void read_fast_llm(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "Fast-LLM 7d61a1ba", "fast-llm");
  Framework& framework = job.reading.framework;
  framework.pipelines = true;
  framework.context_exchanges = {ContextExchange::AllGather};
  framework.tensors = framework.contexts = framework.uneven_stages = true;
  framework.sequences = Framework::Sequences::Either;
  framework.zero = framework.zero_in_pipes = {1, 2, 3};
  framework.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe};
  expect_plain_blocks(job);
  const std::string kDegrees = "model.distributed.";
  d.tp = degree_of(job, kDegrees + "tensor_parallel");
  d.pp = degree_of(job, kDegrees + "pipeline_parallel");
  d.cp = degree_of(job, kDegrees + "sequence_data_parallel");
  d.sequence_parallel = switched_on(s, kDegrees + "sequence_tensor_parallel") && d.tp > 1;
  share_devices(job);
  // A micro-batch is one row of tokens, in which documents end.
  const std::int64_t row = s.integer("data.micro_batch_size").value_or(2048);
  const std::int64_t longest = s.integer("data.maximum_document_length").value_or(row);
  const std::int64_t seq = job.answers.seq.value_or(row % longest == 0 ? longest : row);
  job.assume(fmt::format("documents of {} tokens each, {} of them in a micro-batch of {} tokens", seq, row / seq, row));
  if (s.has("pretrained.path") && !s.has(kBase + "hidden_size"))
    take_tuned_model(job, "pretrained.path", "(sequence)", seq);
  else if (!take_given_model(job, seq))
    setup.model = model_of(fast_llm_facts(job, seq), "", job.text.program, job.reading.assumed);
  if (d.pp > 1 && setup.model.layers % d.pp != 0) job.assume("stages of nearly equal numbers of blocks");
  const std::int64_t zero = s.integer("model.multi_stage.zero_stage").value_or(1);
  require(zero <= 3, "{}: {} is no ZeRO level; give 1, 2 or 3.", s.where("model.multi_stage.zero_stage"), zero);
  d.zero = d.dp * d.cp > 1 ? static_cast<int>(zero) : 0;
  read_fast_llm_recompute(job);
  keep_to(job, {1, 2, 3}, {Recompute::None, Recompute::Selective});
  const std::string type = s.text(kDegrees + "compute_dtype").value_or("float32");
  setup.dtype = type == "bf16" || type == "bfloat16"  ? DType::BF16
                : type == "fp16" || type == "float16" ? DType::F16
                                                      : DType::F32;
  setup.overlap_gradients = setup.overlap_weights = true;
  setup.optimizer.weight_decay = std::max(0.0, s.number("optimizer.weight_decay").value_or(0.01));
  setup.optimizer.max_norm = std::max(0.0, s.number("optimizer.gradient_norm_clipping").value_or(1.0));
  const std::int64_t deep = s.integer("schedule.depth_first_micro_batches").value_or(1),
                     broad = s.integer("schedule.breadth_first_micro_batches").value_or(1);
  if (s.integer("schedule.micro_batch_splits").value_or(1) > 1)
    job.assume("micro-batches that are not split (schedule.micro_batch_splits)");
  if (d.pp > 1) d.schedule = ScheduleKind::GPipe;
  if (d.pp > 1 && deep > 1)
    job.no_plan(
        fmt::format("its step is {} pipelines one after another (depth_first_micro_batches), and a plan's step "
                    "is one; give --batch for one of them",
                    deep));
  const std::int64_t samples = std::max<std::int64_t>(1, row / seq);
  share_batch(job, job.answers.micro_batch.value_or(samples), samples * deep * broad * d.dp);
  for (const Setting& setting : s.all())
    if (setting.key.ends_with("cross_entropy_splits"))
      setup.software_setup.loss_chunks = as_degree(std::max<std::int64_t>(1, s.integer(setting.key).value_or(1)));
  s.no_effect([](const std::string& key) {
    return begins_with_any(key,
                           {"training.", "data.", "optimizer.", "run.", "callbacks", "pretrained", "reference_models",
                            "model.distributed.seed", "model.distributed.timeout", "model.distributed.backend",
                            "model.distributed.nproc", "schedule.", "version", "model.multi_stage."}) ||
           key == "type" || key.ends_with(".dropout") || key.ends_with(".lr_scale") ||
           key.ends_with(".implementation") || key.ends_with(".epsilon") || key.ends_with(".initialization.type") ||
           key.ends_with(".std") || key.ends_with(".loss_implementation") ||
           key.starts_with(kBase + "head.normalization.");
  });
}

}  // namespace meshwright
