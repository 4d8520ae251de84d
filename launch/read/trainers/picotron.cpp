// SPDX-License-Identifier: Apache-2.0
// picotron (59714b1): the JSON that its train.py is given. A Llama of the sizes of the named model, some of which the
// file changes; all degrees are said, and weights, gradients and states are whole on every replica.
#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/setup/decoder.h"

namespace meshwright {

namespace {

ModelConfig picotron_model(ReadingJob& job, std::int64_t seq) {
  Settings& s = job.settings();
  const std::string name = s.text_or_nothing("model.name");
  require(!name.empty(), "{}: 'model.name' is missing, and no plan can be made without it; add it, or give --model.",
          job.text.program);
  const ModelConfig named = model_by_name(name, s.where("model.name"));
  const Decoder decoder = decoder_of(named);
  ModelFacts facts;
  facts.layers = s.integer("model.num_hidden_layers").value_or(decoder.layers);
  facts.heads = s.integer("model.num_attention_heads").value_or(decoder.heads);
  facts.kv_heads = s.integer("model.num_key_value_heads").value_or(decoder.kv_heads);
  facts.hidden = decoder.hidden;
  facts.ffn = decoder.ffn;
  facts.vocab = job.answers.vocab.value_or(decoder.vocab);
  facts.seq = seq;
  facts.positions = ModelFacts::Positions::Rotary;
  facts.rotary_base = 500000.0;
  facts.activation = ModelFacts::Activation::Silu;
  facts.gated = facts.rms_norm = true;
  facts.bias = facts.tied = false;
  if (decoder.tied) job.assume("a head of its own, which picotron's model has and " + named.name + " has not");
  require(!decoder.experts && !decoder.latent, "{}: '{}' is no Llama, which alone picotron has; give --model.",
          s.where("model.name"), name);
  job.reading.setup.model_name = name;
  job.assume(fmt::format("the sizes of {} for '{}', where the file says none", named.name, name));
  return model_of(facts, "", job.text.program, job.reading.assumed);
}

// The first stages have a block more where they do not come out even.
void read_picotron_stages(ReadingJob& job) {
  LaunchSetup& setup = job.reading.setup;
  const std::int64_t layers = setup.model.layers, stages = setup.degrees.pp;
  if (stages == 1 || layers % stages == 0) return;
  if (layers < stages) return job.broken_without_plan(fmt::format("{} layers do not fill {} stages", layers, stages));
  for (std::int64_t stage = 0; stage < stages; ++stage)
    setup.stage_blocks.push_back(static_cast<int>(layers / stages + (stage < layers % stages ? 1 : 0)));
}

}  // namespace

void read_picotron(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "picotron 59714b1", "picotron");
  Framework& framework = job.reading.framework;
  framework.pipelines = true;
  framework.tensors = framework.contexts = framework.uneven_stages = framework.divides_kv_heads = true;
  framework.context_exchanges = {ContextExchange::PointToPoint};
  framework.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe};
  framework.zero_in_pipes = {0};
  d.tp = degree_of(job, "distributed.tp_size");
  d.cp = degree_of(job, "distributed.cp_size");
  d.pp = degree_of(job, "distributed.pp_size");
  if (d.cp > 1) d.context = ContextExchange::PointToPoint;
  share_devices(job);
  const int dp = degree_of(job, "distributed.dp_size");
  if (dp != d.dp && job.reading.why_no_plan.empty())
    job.broken_without_plan(
        fmt::format("tp_size {} x cp_size {} x pp_size {} x dp_size {} is not the number of devices, {}", d.tp, d.cp,
                    d.pp, dp, job.devices.devices()),
        "; give --cluster or --nodes with as many");
  const std::string engine = s.text("distributed.pp_engine").value_or("1f1b");
  require(engine == "1f1b" || engine == "afab", "{}: '{}' is unknown; expected 1f1b or afab.",
          s.where("distributed.pp_engine"), printable(engine));
  d.schedule = engine == "afab" ? ScheduleKind::GPipe : ScheduleKind::OneFOneB;
  require(!switched_on(s, "distributed.use_cpu"), "{}: trains on processors, and only devices are predicted.",
          s.where("distributed.use_cpu"));
  const auto length = sequence_of(job, "training.seq_length");
  require(length.has_value(), "{}: 'training.seq_length' is missing; add it, or give --seq.", job.text.program);
  if (*length % d.cp != 0) job.broken(fmt::format("seq_length {} is not divisible by cp_size {}", *length, d.cp));
  if (!take_given_model(job, *length)) setup.model = picotron_model(job, *length);
  read_picotron_stages(job);
  d.zero = 0;
  keep_to(job, {}, {});
  setup.overlap_gradients = true;
  setup.dtype = DType::BF16;
  job.assume("weights and optimizer state of 32 bits, which picotron keeps in 16, in less room");
  setup.optimizer.weight_decay = 0.01;
  const std::int64_t micro = job.answers.micro_batch.value_or(s.integer("training.micro_batch_size").value_or(1));
  share_batch(job, micro, micro * s.integer("training.gradient_accumulation_steps").value_or(1) * d.dp);
  s.no_effect([](const std::string& key) {
    return begins_with_any(
        key, {"dataset.", "checkpoint.", "logging.", "environment.", "slurm.", "training.seed",
              "training.learning_rate", "training.total_train_steps", "training.num_samples", "training.max_tokens",
              "distributed.backend", "model.dtype", "model.use_flash_attention", "model.use_fused_adam"});
  });
}

}  // namespace meshwright
