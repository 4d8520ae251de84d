// SPDX-License-Identifier: Apache-2.0
// torchtitan: a TOML file for 0.2.2, a Python module that registers the model's sizes, and for pipelines the module
// names of every stage and the schedule as a CSV file; beside them the Python configuration of later trees.
#include <cmath>

#include "core/plan/ranks.h"
#include "core/plan/software_name.h"
#include "core/plan/stage_graph.h"
#include "core/schedule/schedule_csv.h"
#include "launch/write/script.h"
#include "launch/write/torchtitan_python.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

// What the plan's costs are of: the profile torchtitan is that of compiled blocks, however it is set up.
bool compiles_blocks(const Plan& plan) { return software_name_from_text(plan.software).profile == "torchtitan"; }

// Which of torchtitan's models has the parts: llama3 of plain sizes, qwen3 of other heads and experts.
std::string model_of(const Decoder& d) {
  if (d.latent) return "deepseek_v3";
  const bool plain = !d.experts && !d.qk_norm && !d.tied && d.head_dim * d.heads == d.hidden;
  return plain ? "llama3" : "qwen3";
}

// The name that torchtitan's own table has for these sizes of llama3; "": it has none.
std::string known_flavor(const Decoder& d) {
  struct Flavor {
    const char* name;
    std::int64_t layers, hidden, heads, ffn;
  };
  constexpr Flavor kFlavors[] = {
      {"8B", 32, 4096, 32, 14336}, {"70B", 80, 8192, 64, 28672}, {"405B", 126, 16384, 128, 53248}};
  if (model_of(d) != "llama3" || d.kv_heads != 8 || d.vocab != 128256 || d.rotary_base != 500000.0 || d.epsilon != 1e-5)
    return "";
  for (const Flavor& flavor : kFlavors)
    if (d.layers == flavor.layers && d.hidden == flavor.hidden && d.heads == flavor.heads && d.ffn == flavor.ffn)
      return flavor.name;
  return "";
}

std::string toml_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "\"" : ", \"") + item + "\"";
  return "[" + text + "]";
}

// [stage] its modules.
std::vector<std::vector<std::string>> modules_of_stages(const LaunchSetup& setup) {
  std::vector<std::vector<std::string>> stages;
  int layer = 0;
  for (std::size_t s = 0; s < setup.stage_blocks.size(); ++s) {
    std::vector<std::string>& names = stages.emplace_back();
    if (s == 0) names.emplace_back("tok_embeddings");
    for (int b = 0; b < setup.stage_blocks[s]; ++b) names.push_back(fmt::format("layers.{}", layer++));
    if (s + 1 == setup.stage_blocks.size()) names.insert(names.end(), {"norm", "output"});
  }
  return stages;
}

std::string toml_modules(const std::vector<std::vector<std::string>>& stages) {
  std::string text = "module_fqns_per_model_part = [\n";
  for (const std::vector<std::string>& names : stages) text += "  " + toml_list(names) + ",\n";
  return text + "]\n";
}

// Its class in torch.distributed.pipelining; of a schedule that has none, the class whose stages lie as its own.
struct ScheduleClass {
  const char* name;
  bool from_csv;
};
ScheduleClass class_of(ScheduleKind kind, int chunks) {
  switch (kind) {
    case ScheduleKind::OneFOneB:
      return {"1F1B", false};
    case ScheduleKind::GPipe:
      return {"GPipe", false};
    case ScheduleKind::Interleaved:
      return {"Interleaved1F1B", false};
    case ScheduleKind::ZeroBubbleV:
      return {"ZBVZeroBubble", false};
    case ScheduleKind::DualPipeV:
      return {"DualPipeV", false};
    default:
      return {chunks == 1 ? "PipelineScheduleSingle" : "PipelineScheduleMulti", true};
  }
}

std::string parallelism(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  // Weights split (ZeRO 3) are gathered anew in the backward; gradients and states alone (ZeRO 2) are FSDP that never
  // reshards after the forward; nothing split is replicas.
  const int shard = d.zero == 0 ? 1 : setup.shard.value_or(d.dp);
  std::string text = "[parallelism]\n";
  text += fmt::format("data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n", d.dp / shard, shard);
  text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", d.zero == 3   ? "always"
                                                               : d.zero == 2 ? "never"
                                                                             : "default");
  text += fmt::format("tensor_parallel_degree = {}\ncontext_parallel_degree = {}\n", d.tp, d.cp);
  if (d.cp > 1) text += "context_parallel_rotate_method = \"allgather\"\n";
  text += fmt::format("expert_parallel_degree = {}\n", d.ep);
  if (d.ep > 1) text += fmt::format("expert_tensor_parallel_degree = {}\n", d.tp);
  text += fmt::format("pipeline_parallel_degree = {}\n", d.pp);
  if (d.pp == 1) return text;
  const ScheduleClass schedule = class_of(d.schedule, d.chunks);
  text += fmt::format("pipeline_parallel_schedule = \"{}\"\n", schedule.name);
  text += schedule.from_csv
              ? "# The schedule is read from this file.\npipeline_parallel_schedule_csv = \"schedule.csv\"\n"
              : "# schedule.csv is the same schedule run by run; to run it as written there, add\n"
                "# pipeline_parallel_schedule_csv = \"schedule.csv\"\n";
  text += fmt::format("pipeline_parallel_microbatch_size = {}\n", d.micro_batch);
  return text + toml_modules(modules_of_stages(setup));
}

std::string config(const LaunchJob& job, const Decoder& decoder) {
  const LaunchSetup& setup = job.setup;
  const Degrees& d = setup.degrees;
  // In a pipeline the local batch is cut into micro-batches; without one gradients are accumulated.
  const std::int64_t local = d.pp > 1 ? d.micro_batch * d.micro_batches : d.micro_batch;
  std::string text = commented(heading(job));
  text += "\n[job]\ndump_folder = \"./outputs\"\n";
  text += fmt::format("description = \"{} as planned\"\n", job_name(setup));
  const std::string flavor = known_flavor(decoder);
  if (flavor.empty()) {
    text +=
        "\n[experimental]\n# model.py in this folder, which registers the plan's model.\ncustom_import = \"model\"\n";
    text += fmt::format("\n[model]\nname = \"meshwright_{}\"\nflavor = \"plan\"\n", model_of(decoder));
  } else {
    text += fmt::format("\n[model]\nname = \"llama3\"\nflavor = \"{}\"\n", flavor);
  }
  text += "# torchtitan's own test tokenizer; the vocabulary is the model's.\n";
  text += "hf_assets_path = \"./tests/assets/tokenizer\"\n";
  if (setup.matmul_dtype == "fp8")
    text += "converters = [\"float8\"]\n\n[quantize.linear.float8]\nfilter_fqns = [\"output\"]\n";
  text += fmt::format("\n[optimizer]\nname = \"{}\"\nlr = {}\nweight_decay = {}\n",
                      setup.optimizer.weight_decay > 0 ? "AdamW" : "Adam", decimal(setup.optimizer.learning_rate),
                      decimal(setup.optimizer.weight_decay));
  text += "\n[lr_scheduler]\nwarmup_steps = 0\n";
  text += fmt::format("\n[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n", local,
                      setup.global_batch(), decoder.seq);
  text += fmt::format("max_norm = {}\nsteps = {}\ndataset = \"c4_test\"\n",
                      setup.optimizer.max_norm > 0 ? decimal(setup.optimizer.max_norm) : "1.0", setup.steps);
  text += fmt::format("mixed_precision_param = \"{}\"\n", setup.dtype == DType::BF16 ? "bfloat16" : "float32");
  if (setup.software_setup.narrow_states) text += "dtype = \"bfloat16\"\n";
  text += "\n" + parallelism(setup);
  const char* mode = d.recompute == Recompute::Full        ? "full"
                     : d.recompute == Recompute::Selective ? "selective"
                                                           : "none";
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", mode);
  if (d.recompute == Recompute::Selective) text += "selective_ac_option = \"op\"\n";
  text += fmt::format("\n[compile]\nenable = {}\n", compiles_blocks(job.plan));
  text += "\n[checkpoint]\nenable = false\n\n[metrics]\nlog_freq = 1\n";
  if (decoder.experts)
    text += "\n[debug]\n# The router's load is forced even, as it is predicted.\nmoe_force_load_balance = true\n";
  return text;
}

std::string moe_args(const Decoder::Experts& e) {
  std::string text = "MoEArgs(\n";
  text += fmt::format("    num_experts={},\n    num_shared_experts={},\n    top_k={},\n", e.count,
                      e.ffn == 0 ? 0 : e.shared_ffn / e.ffn, e.top_k);
  text +=
      fmt::format("    score_func=\"{}\",\n    route_norm={},\n    route_scale={},\n    score_before_experts=False,\n)",
                  e.sigmoid ? "sigmoid" : "softmax", e.normalized ? "True" : "False", decimal(e.scale));
  return text;
}

std::string llama3_args(const Decoder& d) {
  // torchtitan rounds 2 * 4 * dim / 3 * ffn_dim_multiplier up to a multiple of multiple_of; so half the width becomes
  // the width.
  const double plain = std::floor(2.0 * 4.0 * static_cast<double>(d.hidden) / 3.0);
  return fmt::format(
      "TransformerModelArgs(\n    dim={},\n    n_layers={},\n    n_heads={},\n    n_kv_heads={},\n    vocab_size={},\n"
      "    multiple_of={},  # the feed-forward layer's width, with the factor below\n    ffn_dim_multiplier={},\n"
      "    norm_eps={},\n    rope_theta={},\n)",
      d.hidden, d.layers, d.heads, d.kv_heads, d.vocab, d.ffn, decimal(0.5 * static_cast<double>(d.ffn) / plain),
      decimal(d.epsilon), decimal(d.rotary_base));
}

std::string qwen3_args(const Decoder& d) {
  std::string text = fmt::format(
      "Qwen3ModelArgs(\n    dim={},\n    n_layers={},\n    n_heads={},\n    n_kv_heads={},\n    head_dim={},\n"
      "    vocab_size={},\n    hidden_dim={},\n    norm_eps={},\n    rope_theta={},\n    qk_norm={},\n"
      "    enable_weight_tying={},\n",
      d.hidden, d.layers, d.heads, d.kv_heads, d.head_dim, d.vocab, d.ffn, decimal(d.epsilon), decimal(d.rotary_base),
      d.qk_norm ? "True" : "False", d.tied ? "True" : "False");
  if (d.experts)
    text += fmt::format("    moe_enabled=True,\n    moe_inter_dim={},\n    moe_args={},\n", d.experts->ffn,
                        moe_args(*d.experts));
  return text + ")";
}

std::string deepseek_args(const Decoder& d) {
  const Decoder::Latent& l = *d.latent;
  return fmt::format(
      "DeepSeekV3ModelArgs(\n    vocab_size={},\n    dim={},\n    inter_dim={},\n    moe_inter_dim={},\n    "
      "n_layers={},\n"
      "    n_dense_layers={},\n    n_heads={},\n    norm_eps={},\n    q_lora_rank={},\n    kv_lora_rank={},\n"
      "    qk_nope_head_dim={},\n    qk_rope_head_dim={},\n    v_head_dim={},\n    rope_theta={},\n    moe_args={},\n)",
      d.vocab, d.hidden, d.ffn, d.experts->ffn, d.layers, d.experts->dense_layers, d.heads, decimal(d.epsilon),
      l.q_rank, l.kv_rank, l.nope, l.rope, l.value, decimal(d.rotary_base), moe_args(*d.experts));
}

std::string model_module(const LaunchJob& job, const Decoder& decoder) {
  const std::string name = model_of(decoder);
  std::string text = commented(heading(job));
  text += "\n\"\"\"The plan's model: torchtitan's " + name +
          " with other sizes, registered under a name of its own.\"\"\"\n";
  text += "from dataclasses import replace\n\nfrom torchtitan.distributed.pipeline_parallel import pipeline_llm\n";
  if (name == "llama3") text += "from torchtitan.models.llama3 import TransformerModelArgs\n";
  if (name == "qwen3") text += "from torchtitan.models.qwen3 import Qwen3ModelArgs\n";
  if (name == "deepseek_v3") text += "from torchtitan.models.deepseek_v3 import DeepSeekV3ModelArgs\n";
  if (decoder.experts) text += "from torchtitan.models.moe import MoEArgs\n";
  text += "from torchtitan.protocols.train_spec import get_train_spec, register_train_spec\n\n";
  text += "PLAN = " + (name == "llama3"  ? llama3_args(decoder)
                       : name == "qwen3" ? qwen3_args(decoder)
                                         : deepseek_args(decoder));
  text += fmt::format(
      "\n\n# Blocks are cut into stages by their names, as in every model of torchtitan.\n"
      "register_train_spec(\n    \"meshwright_{0}\",\n    replace(\n        get_train_spec(\"{0}\"),\n"
      "        model_args={{\"plan\": PLAN}},\n        pipelining_fn=pipeline_llm,\n    ),\n)\n",
      name);
  return text;
}

TorchtitanParts parts_of(const LaunchJob& job, const Decoder& decoder) {
  TorchtitanParts parts;
  parts.flavor = known_flavor(decoder);
  parts.compiled = compiles_blocks(job.plan);
  if (job.setup.degrees.pp == 1) return parts;
  const ScheduleClass schedule = class_of(job.setup.degrees.schedule, job.setup.degrees.chunks);
  parts.schedule = schedule.name;
  parts.schedule_from_csv = schedule.from_csv;
  parts.modules = modules_of_stages(job.setup);
  return parts;
}

}  // namespace

WrittenJob write_torchtitan(const LaunchJob& job) {
  const Decoder decoder = decoder_of(job.setup.model);
  WrittenJob made;
  made.files = {{"plan.toml", config(job, decoder), false, "torchtitan's settings"}};
  if (known_flavor(decoder).empty())
    made.files.push_back(
        {"model.py", model_module(job, decoder), false, "registers the model's sizes with torchtitan"});
  if (job.setup.degrees.pp > 1) {
    const Schedule schedule = schedule_of(job.plan, stage_graph(job.plan, job.graph));
    made.files.push_back({"schedule.csv", schedule_to_csv(schedule), false,
                          "the schedule, one row for each pipeline rank, as torch.distributed.pipelining reads it"});
  }
  const std::string why_not = why_no_python(job.setup);
  if (why_not.empty()) made.files.push_back(torchtitan_python(job, decoder, parts_of(job, decoder)));
  made.script.site = {{"TORCHTITAN_PATH", "a clone of pytorch/torchtitan at v0.2.2", "/path/to/torchtitan"}};
  made.script.environment = {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"},
                             {"PYTHONPATH", "\"$PWD:$TORCHTITAN_PATH:${PYTHONPATH:-}\""}};
  made.script.arguments =
      "# The tokenizer and the data of the benchmark are torchtitan's own.\nln -sfn \"$TORCHTITAN_PATH/tests\" "
      "tests\n\n";
  made.script.command = torchrun_command("-m torchtitan.train --job.config_file plan.toml");
  made.measure = {
      "step: batch x sequence / (`tps` x devices), where `tps` of the log is tokens per second and device; after step "
      "5",
      "TFLOPS per device and MFU: `tflops` and `mfu` of the log",
      "memory: `memory` of the log, the reserved peak of a device"};
  made.differences = decoder.differences;
  for (std::string& line : plain_rotation_difference(decoder)) made.differences.push_back(std::move(line));
  if (!why_not.empty()) made.differences.push_back("no Python configuration is written: " + why_not);
  if (job.setup.optimizer.max_norm == 0)
    made.differences.emplace_back("torchtitan always clips gradients; the plan does not");
  return made;
}

}  // namespace meshwright
