// SPDX-License-Identifier: Apache-2.0
#include "launch/write/torchtitan_python.h"

#include "core/base/text.h"
#include "launch/write/script.h"

namespace meshwright {

namespace {

constexpr const char* kRelease = "torchtitan 0.3.0";

std::string base_import(const Decoder& decoder, const TorchtitanParts& parts) {
  if (!parts.flavor.empty())
    return fmt::format("from torchtitan.models.llama3.config_registry import llama3_{}\n", lower_case(parts.flavor));
  return fmt::format(
      "# --- the site: change this ---\n"
      "# torchtitan's tables lack these sizes. plan_model is a function of yours that returns the Trainer.Config of a\n"
      "# model of {} layers, width {}, {} heads and {} of keys and values, feed-forward width {}, {} words{}.\n"
      "from plan_model import plan_model\n",
      decoder.layers, decoder.hidden, decoder.heads, decoder.kv_heads, decoder.ffn, decoder.vocab,
      decoder.experts ? fmt::format(", {} experts of width {}, {} of them for each token", decoder.experts->count,
                                    decoder.experts->ffn, decoder.experts->top_k)
                      : std::string());
}

std::string modules_text(const TorchtitanParts& parts) {
  std::string text = "    p.module_fqns_per_model_part = [\n";
  for (const std::vector<std::string>& stage : parts.modules) {
    std::vector<std::string> names;
    // The head has another name than in v0.2.2.
    for (const std::string& name : stage) names.push_back("\"" + (name == "output" ? "lm_head" : name) + "\"");
    text += "        [" + join(names, ", ") + "],\n";
  }
  return text + "    ]\n";
}

// 0.3.0 counts samples, trees of August 2026 (b5bcd76c) tokens.
enum class Batch { InSamples, InTokens };

std::string parallelism(const LaunchSetup& setup, const TorchtitanParts& parts, Batch batch) {
  const Degrees& d = setup.degrees;
  const int shard = d.zero == 0 ? 1 : setup.shard.value_or(d.dp);
  std::string text = "    p = c.parallelism\n";
  text += fmt::format(
      "    p.data_parallel_replicate_degree, p.data_parallel_shard_degree = {}, {}\n"
      "    p.fsdp_reshard_after_forward = \"{}\"\n"
      "    p.tensor_parallel_degree, p.context_parallel_degree = {}, {}\n    p.expert_parallel_degree = {}\n"
      "    p.pipeline_parallel_degree = {}\n",
      d.dp / shard, shard,
      d.zero == 3   ? "always"
      : d.zero == 2 ? "never"
                    : "default",
      d.tp, d.cp, d.ep, d.pp);
  if (d.tp > 1) text += "    p.enable_sequence_parallel = True\n";
  if (d.pp == 1) return text;
  text += fmt::format("    p.pipeline_parallel_schedule = \"{}\"\n", parts.schedule);
  text += batch == Batch::InSamples ? fmt::format("    p.pipeline_parallel_microbatch_size = {}\n", d.micro_batch)
                                    : fmt::format("    p.num_pp_microbatches = {}\n", d.micro_batches);
  if (parts.schedule_from_csv) text += "    p.pipeline_parallel_schedule_csv = \"schedule.csv\"\n";
  return text + modules_text(parts) +
         "    c.training.disable_cuda_graphs = True  # graphs and stages exclude each other\n";
}

const char* checkpointing(Recompute recompute) {
  switch (recompute) {
    case Recompute::Full:
      return "FullAC.Config()";
    case Recompute::Selective:
      return "SelectiveAC.Config()";
    case Recompute::None:
      break;
  }
  return "None";
}

std::string batch_text(const LaunchSetup& setup, const Decoder& decoder, Batch batch) {
  const Degrees& d = setup.degrees;
  if (batch == Batch::InTokens)
    return fmt::format(
        "    c.training.max_context_length = {0}\n"
        "    c.training.num_tokens_per_microbatch_per_dp_rank = {1} * {0}  # samples times their tokens\n"
        "    c.training.num_tokens_per_train_step = {2} * {0}\n",
        decoder.seq, d.micro_batch, setup.global_batch());
  // In a pipeline the local batch is cut into micro-batches; without one gradients are accumulated.
  const std::int64_t local = d.pp > 1 ? d.micro_batch * d.micro_batches : d.micro_batch;
  return fmt::format(
      "    c.training.seq_len = {}\n    c.training.local_batch_size, c.training.global_batch_size = {}, {}\n",
      decoder.seq, local, setup.global_batch());
}

std::string function_text(const LaunchSetup& setup, const Decoder& decoder, const TorchtitanParts& parts, Batch batch) {
  const std::string base = parts.flavor.empty() ? std::string("plan_model") : "llama3_" + lower_case(parts.flavor);
  std::string text =
      fmt::format("def {}():\n    c = {}()\n", batch == Batch::InSamples ? "plan" : "plan_in_tokens", base);
  text += batch_text(setup, decoder, batch);
  text += fmt::format(
      "    c.training.steps = {}\n    c.training.max_norm = {}\n    c.training.mixed_precision_param = \"{}\"\n",
      setup.steps, setup.optimizer.max_norm > 0 ? decimal(setup.optimizer.max_norm) : "1.0",
      setup.dtype == DType::BF16 ? "bfloat16" : "float32");
  if (setup.software_setup.narrow_states) text += "    c.training.dtype = \"bfloat16\"\n";
  text += fmt::format("    c.optimizer = default_adamw(lr={}, weight_decay={})\n",
                      decimal(setup.optimizer.learning_rate), decimal(setup.optimizer.weight_decay));
  text += parallelism(setup, parts, batch);
  text += fmt::format("    c.activation_checkpoint = {}\n", checkpointing(setup.degrees.recompute));
  text += fmt::format("    c.compile.enable = {}\n", parts.compiled ? "True" : "False");
  if (decoder.experts) text += "    c.debug.moe_force_load_balance = True  # an even load, as it is predicted\n";
  return text + "    return c\n";
}

}  // namespace

std::string why_no_python(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  if (d.cp > 1)
    return "torchtitan 0.3.0 splits sequences (cp) only in models with FlexAttention, which a model of this kind need "
           "not be";
  if (d.ep > 1 && d.tp > 1) return "torchtitan 0.3.0 has no degree that splits an expert over tp beside ep";
  if (!setup.matmul_dtype.empty()) return "products of 8 bits are part of the model in torchtitan 0.3.0";
  return "";
}

LaunchFile torchtitan_python(const LaunchJob& job, const Decoder& decoder, const TorchtitanParts& parts) {
  const LaunchSetup& setup = job.setup;
  LaunchTarget newer = job.target;
  newer.release = kRelease;
  const LaunchJob as_newer{newer, setup, job.figures, job.plan, job.graph, job.launcher};
  std::string text = commented(heading(as_newer));
  text +=
      "#\n# In the place of plan.toml: torchrun ... -m torchtitan.train --module plan --config plan, with this folder "
      "on "
      "PYTHONPATH.\n# Trees of August 2026 (b5bcd76c) count the batch in tokens: --config plan_in_tokens.\n\n";
  text += "from torchtitan.components.optimizer import default_adamw\n";
  if (setup.degrees.recompute != Recompute::None)
    text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n",
                        setup.degrees.recompute == Recompute::Full ? "FullAC" : "SelectiveAC");
  text += base_import(decoder, parts);
  text += "\n\n" + function_text(setup, decoder, parts, Batch::InTokens);
  text += "\n\n" + function_text(setup, decoder, parts, Batch::InSamples);
  return {"plan.py", text, false,
          std::string("the same settings for ") + kRelease + ", whose configurations are Python"};
}

}  // namespace meshwright
