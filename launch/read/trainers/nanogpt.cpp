// SPDX-License-Identifier: Apache-2.0
// nanoGPT (3adf61e1): the assignments that its train.py is given. Defaults are those of train.py.
#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"

namespace meshwright {

namespace {

// GPT-2 of the hub, from which a training may go on.
ModelConfig begun_from(ReadingJob& job, const std::string& name) {
  require(name.starts_with("gpt2"), "{}: '{}' is unknown; expected scratch or one of gpt2's.",
          job.settings().where("init_from"), name);
  job.reading.setup.model_name = name;
  return model_by_name(name, job.settings().where("init_from"));
}

ModelConfig from_scratch(ReadingJob& job, std::int64_t seq) {
  Settings& s = job.settings();
  ModelFacts facts;
  facts.layers = s.integer("n_layer").value_or(12);
  facts.heads = s.integer("n_head").value_or(12);
  facts.hidden = s.integer("n_embd").value_or(768);
  facts.seq = seq;
  facts.bias = s.boolean("bias").value_or(false);
  facts.vocab = job.answers.vocab.value_or(50304);
  if (!job.answers.vocab)
    job.assume("a vocabulary of 50304 words, which the meta.pkl of its data may say otherwise (--vocab)");
  return model_of(facts, "", job.text.program, job.reading.assumed);
}

}  // namespace

void read_nanogpt(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "nanoGPT 3adf61e1", "nanogpt");
  require(!switched_on(s, "eval_only"), "{}: measures a model and does not train it; give a file that trains.",
          s.where("eval_only"));
  share_devices(job);
  const auto given = s.integer("block_size");
  const std::int64_t seq = job.answers.seq ? *job.answers.seq : given.value_or(1024);
  const std::string begun = s.text("init_from").value_or("scratch");
  if (!take_given_model(job, seq)) {
    setup.model = begun == "scratch" || begun == "resume" ? from_scratch(job, seq) : begun_from(job, begun);
    setup.model.seq = seq;
  }
  job.degrees().zero = 0;
  keep_to(job, {}, {});
  setup.overlap_gradients = true;
  const std::string type = s.text("dtype").value_or("bfloat16");
  setup.dtype = type == "float32" ? DType::F32 : type == "float16" ? DType::F16 : DType::BF16;
  setup.optimizer.weight_decay = std::max(0.0, s.number("weight_decay").value_or(0.1));
  setup.optimizer.max_norm = std::max(0.0, s.number("grad_clip").value_or(1.0));
  if (switched_on(s, "compile", true)) job.assume("blocks that are not compiled");
  if (s.number("dropout").value_or(0.0) > 0.0) job.assume("no dropout");
  // The accumulation is that of all devices together.
  const std::int64_t micro = s.integer("batch_size").value_or(12);
  const std::int64_t steps = s.integer("gradient_accumulation_steps").value_or(40);
  share_batch(job, job.answers.micro_batch.value_or(micro), micro * steps);
  s.no_effect([](const std::string& key) {
    return begins_with_any(
        key, {"wandb_", "out_dir", "dataset", "eval_", "log_interval", "always_save", "max_iters", "lr_decay",
              "learning_rate", "min_lr", "beta", "decay_lr", "warmup_iters", "backend", "device"});
  });
}

}  // namespace meshwright
