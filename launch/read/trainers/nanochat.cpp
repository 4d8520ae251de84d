// SPDX-License-Identifier: Apache-2.0
// nanochat (92d63d4): the flags of its scripts/base_train.py. Sizes follow from --depth, and the batch from a rule of
// the program where it is not given; replicas hold all weights, and each a part of the optimizer's states.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

struct NanochatSizes {
  std::int64_t depth = 20, aspect = 64, head = 128, vocab = 32768;

  [[nodiscard]] std::int64_t width() const { return (depth * aspect + head - 1) / head * head; }
  [[nodiscard]] std::int64_t heads() const { return width() / head; }
  [[nodiscard]] std::int64_t value_embeddings() const { return (depth + 1) / 2; }  // every second layer, and the last
  // Matrices of the blocks, with the gates of value embeddings, and the head: what its rule of the batch counts.
  [[nodiscard]] double scaled() const {
    const auto w = static_cast<double>(width());
    return static_cast<double>(depth) * 12.0 * w * w + static_cast<double>(value_embeddings() * 12 * heads()) +
           w * static_cast<double>(vocab);
  }
};

// Tokens of a step that grow with the weights from those of depth 12, as a power of two.
std::int64_t tokens_of_step(const NanochatSizes& sizes) {
  constexpr double kOfDepth12 = 524288.0, kPower = 0.383;
  NanochatSizes known = sizes;
  known.depth = 12;
  const double tokens = kOfDepth12 * std::pow(sizes.scaled() / known.scaled(), kPower);
  return std::int64_t{1} << std::lround(std::log2(tokens));
}

// "SSSL": three layers of a short window before each that sees all, and the last sees all.
void read_windows(ReadingJob& job, ModelFacts& facts) {
  std::string pattern = job.settings().text("window-pattern").value_or("SSSL");
  std::transform(pattern.begin(), pattern.end(), pattern.begin(), [](unsigned char c) { return std::toupper(c); });
  if (pattern.find_first_not_of('L') == std::string::npos) return;
  const bool known = pattern.find('L') + 1 == pattern.size() && pattern.find_first_not_of("SL") == std::string::npos;
  require(known, "{}: '{}' is no pattern of windows that is read; give one such as L, SL or SSSL.",
          job.settings().where("window-pattern"), pattern);
  constexpr std::int64_t kTile = 128;
  const std::int64_t quarter = (facts.seq + 3) / 4;
  facts.window = (quarter + kTile - 1) / kTile * kTile;
  facts.full_every = static_cast<std::int64_t>(pattern.size());
  if (facts.layers % facts.full_every != 0) job.assume("a short window in the last layer, too, which sees all");
}

void read_nanochat_model(ReadingJob& job, const NanochatSizes& sizes, std::int64_t seq) {
  ModelFacts facts;
  facts.layers = sizes.depth;
  facts.hidden = sizes.width();
  facts.heads = sizes.heads();
  facts.seq = seq;
  facts.vocab = sizes.vocab;
  facts.positions = ModelFacts::Positions::Rotary;
  facts.rotary_base = 100000.0;
  facts.activation = ModelFacts::Activation::Relu;
  facts.rms_norm = facts.qk_norm = true;
  facts.bias = facts.tied = false;
  read_windows(job, facts);
  job.reading.setup.model = model_of(facts, "", job.text.program, job.reading.assumed);
  const std::int64_t left_out = sizes.value_embeddings() * sizes.vocab * sizes.width();
  job.assume(fmt::format("without the {} embeddings that are added to values, {:.3g} billion parameters",
                         sizes.value_embeddings(), static_cast<double>(left_out) * 1e-9));
}

}  // namespace

void read_nanochat(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "nanochat 92d63d4", "nanochat");
  for (const Setting& setting : s.all())
    require(setting.key.find('_') == std::string::npos,
            "{}: {} is a flag of nanochat's releases of 2025, whose model was another one; those with dashes are read.",
            setting.place, setting.shown);
  NanochatSizes sizes;
  sizes.depth = s.integer("depth").value_or(20);
  sizes.aspect = s.integer("aspect-ratio").value_or(64);
  sizes.head = s.integer("head-dim").value_or(128);
  require(sizes.depth <= 10'000 && sizes.aspect <= 100'000 && sizes.head <= 100'000,
          "{}: --depth, --aspect-ratio or --head-dim is larger than any model's.", job.text.program);
  constexpr std::int64_t kUnit = 64;
  sizes.vocab = (job.answers.vocab.value_or(32768) + kUnit - 1) / kUnit * kUnit;
  if (!job.answers.vocab) job.assume("a vocabulary of 32768 words, which its tokenizer may have otherwise (--vocab)");
  const std::int64_t seq = sequence_of(job, "max-seq-len").value_or(2048);
  share_devices(job);
  if (!take_given_model(job, seq)) read_nanochat_model(job, sizes, seq);
  job.degrees().zero = job.degrees().dp > 1 ? 1 : 0;
  keep_to(job, {}, {});
  setup.dtype = DType::BF16;
  if (s.flag("fp8")) setup.matmul_dtype = "fp8";
  setup.optimizer.weight_decay = std::max(0.0, s.number("weight-decay").value_or(0.28));
  job.assume("Adam in the place of Muon, for the matrices of the blocks");
  job.assume("blocks that are not compiled");
  const std::int64_t given = s.integer("total-batch-size", -1).value_or(-1);
  const std::int64_t tokens = given > 0 ? given : tokens_of_step(sizes);
  if (given <= 0) job.assume(fmt::format("{} tokens a step, as its rule has them for this depth", tokens));
  if (tokens % seq != 0)
    job.broken_without_plan(fmt::format("{} tokens a step are no whole samples of {} tokens", tokens, seq));
  share_batch(job, job.answers.micro_batch.value_or(s.integer("device-batch-size").value_or(32)),
              std::max<std::int64_t>(1, tokens / seq));
  s.no_effect([](const std::string& key) {
    return key == "run" || key == "model-tag" ||
           begins_with_any(key, {"device-type", "num-iterations", "target-", "embedding-lr", "unembedding-lr",
                                 "matrix-lr", "scalar-lr", "warmup", "warmdown", "final-lr", "resume-from", "eval-",
                                 "core-metric", "sample-every", "save-every", "fp8-recipe"});
  });
}

}  // namespace meshwright
