// SPDX-License-Identifier: Apache-2.0
// FlagScale: Megatron-LM with a mesh for every run of equal stages, as two YAML files.
#include <algorithm>
#include <tuple>

#include "core/base/json.h"
#include "core/base/text.h"
#include "launch/write/megatron_flags.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

// A run of equal stages.
struct ProcessMesh {
  StageSetup of;
  int stages;
};

std::vector<ProcessMesh> meshes_of(const LaunchSetup& setup) {
  std::vector<ProcessMesh> meshes;
  for (const StageSetup& stage : setup.stages) {
    const auto alike = [&](const StageSetup& other) {
      return std::tie(stage.tp, stage.cp, stage.ep, stage.dp, stage.device) ==
             std::tie(other.tp, other.cp, other.ep, other.dp, other.device);
    };
    if (!meshes.empty() && alike(meshes.back().of))
      ++meshes.back().stages;
    else
      meshes.push_back({stage, 1});
  }
  return meshes;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.e-+") == std::string::npos &&
         text.find_first_of("0123456789") == 0;
}

// A flag of the command line is a key with underscores.
std::string as_keys(const FlagGroup& group) {
  std::string text;
  for (const auto& [flag, value] : group.flags) {
    std::string key = flag.substr(2);
    std::replace(key.begin(), key.end(), '-', '_');
    text += fmt::format("{}: {}\n", key, value.empty() ? "true" : is_number(value) ? value : "\"" + value + "\"");
  }
  return text;
}

std::string hetero(const LaunchSetup& setup) {
  const std::vector<ProcessMesh> meshes = meshes_of(setup);
  std::string numbers, devices, blocks, experts;
  for (const ProcessMesh& mesh : meshes) {
    numbers += fmt::format("{}{}, {}, {}, {}, {}", numbers.empty() ? "" : ", ", mesh.of.tp, mesh.of.cp, mesh.of.ep,
                           mesh.of.dp, mesh.stages);
    devices += fmt::format("{}{}", devices.empty() ? "" : ", ", json_text(mesh.of.device));
    experts += fmt::format("{}{}", experts.empty() ? "" : ", ", setup.degrees.whole_experts ? 1 : mesh.of.tp);
  }
  for (const StageSetup& stage : setup.stages) blocks += fmt::format("{}{}", blocks.empty() ? "" : ", ", stage.blocks);
  std::string text = "hetero:\n  enable_hetero: true\n";
  text += "  # tp, cp, ep, dp and stages of each mesh, one mesh after the other\n";
  text += fmt::format("  hetero_process_meshes: [{}]\n", numbers);
  text += fmt::format("  hetero_pipeline_layer_split: [{}]\n", blocks);
  text += fmt::format("  hetero_device_types: [{}]\n", devices);
  text += "  # --- the site: each host is started with the type of its own devices ---\n";
  text += fmt::format("  hetero_current_device_type: {}\n", json_text(setup.stages.front().device));
  text += "  standalone_embedding_stage: false\n";
  if (decoder_of(setup.model).experts)
    text += fmt::format("  expert_tensor_parallel_size_per_process_mesh: [{}]\n", experts);
  if (decoder_of(setup.model).tied && setup.stages.front().dp != setup.stages.back().dp)
    text += "  use_partial_reduce_for_shared_embedding: true\n";
  return text;
}

// One row for each run of stages: how many, then (micro-batches, value) pairs.
std::string recompute_rows(const LaunchSetup& setup, int on, int off) {
  std::string text;
  for (std::size_t s = 0; s < setup.stages.size();) {
    std::size_t end = s;
    while (end < setup.stages.size() && setup.stages[end].recompute == setup.stages[s].recompute) ++end;
    text += fmt::format("    - [{}, {}, {}]\n", end - s, setup.degrees.micro_batches,
                        setup.stages[s].recompute == Recompute::Full ? on : off);
    s = end;
  }
  return text;
}

std::string recompute(const LaunchSetup& setup) {
  const bool any = std::any_of(setup.stages.begin(), setup.stages.end(),
                               [](const StageSetup& stage) { return stage.recompute == Recompute::Full; });
  if (setup.degrees.recompute_modules != RecomputeModules::None)
    return fmt::format("recompute:\n  recompute_granularity: selective\n  recompute_modules: [{}]\n",
                       join(split(name_of(setup.degrees.recompute_modules), ','), ", "));
  if (!any) return "";
  std::string text =
      "recompute:\n  recompute_granularity: full\n  recompute_method: uniform\n  recompute_num_layers: 1\n";
  text += "  # stages, micro-batches, on or off\n";
  text += "  recompute_granularity_per_stage_micro_batch:\n" + recompute_rows(setup, 1, 0);
  text += "  recompute_method_per_stage_micro_batch:\n" + recompute_rows(setup, 0, 0);
  text += "  recompute_num_layers_per_stage_micro_batch:\n" + recompute_rows(setup, 1, 1);
  return text;
}

std::string train_file(const LaunchJob& job, const Decoder& decoder) {
  const LaunchSetup& setup = job.setup;
  std::string system = fmt::format(
      "# of the first mesh; the meshes below say what holds\ntensor_model_parallel_size: {}\n"
      "pipeline_model_parallel_size: {}\ncontext_parallel_size: {}\nexpert_model_parallel_size: {}\n",
      setup.degrees.tp, setup.stages.size(), setup.degrees.cp, setup.degrees.ep);
  if (setup.degrees.sequence_parallel) system += "sequence_parallel: true\n";
  if (setup.degrees.zero > 0) system += "use_distributed_optimizer: true\n";
  if (setup.overlap_gradients) system += "overlap_grad_reduce: true\n";
  if (setup.overlap_weights) system += "overlap_param_gather: true\n";
  system += setup.dtype == DType::BF16  ? "precision:\n  bf16: true\n"
            : setup.dtype == DType::F16 ? "precision:\n  fp16: true\n"
                                        : "";
  system += "logging:\n  log_interval: 1\n  log_throughput: true\n";
  system += hetero(setup) + recompute(setup);
  FlagGroup experts = megatron_expert_flags(decoder, setup);
  std::erase_if(experts.flags, [](const auto& flag) { return flag.first.find("parallel-size") != std::string::npos; });
  FlagGroup training = megatron_training_flags(setup);
  std::erase_if(training.flags, [](const auto& flag) {
    return flag.first == "--bf16" || flag.first == "--fp16" || flag.first.starts_with("--log-");
  });
  std::string data = "data_path: null\nmock_data: true\ntokenizer:\n  tokenizer_type: NullTokenizer\n";
  data += fmt::format("  vocab_size: {}\n", decoder.vocab);
  return commented(heading(job)) + "system:\n" + indented(system, 2) + "\nmodel:\n" +
         indented(as_keys(megatron_model_flags(decoder)) + as_keys(experts) + as_keys(training), 2) + "\ndata:\n" +
         indented(data, 2);
}

std::string experiment_file(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  std::string text = commented(heading(job));
  text += "defaults:\n  - _self_\n  - train: plan\n\nexperiment:\n";
  text += fmt::format("  exp_name: {}\n", job_name(setup));
  text += "  # --- the site: change these ---\n  exp_dir: ./outputs\n";
  text += "  runner:\n    backend: torchrun\n";
  text += fmt::format("    nnodes: {}\n    nproc_per_node: {}\n", setup.hosts, setup.devices_per_host);
  text += setup.hosts > 1 ? "    hostfile: hostfile  # a line \"ADDRESS slots=8 type=DEVICE\" for each host\n"
                          : "    hostfile: null\n";
  text += "  task:\n    type: train\n    backend: megatron\n    entrypoint: flagscale/train/train_gpt.py\n";
  text += "  envs:\n    CUDA_DEVICE_MAX_CONNECTIONS: 1\n";
  text += "\naction: run\n\nhydra:\n  run:\n    dir: ${experiment.exp_dir}/hydra\n";
  return text;
}

}  // namespace

WrittenJob write_flagscale(const LaunchJob& job) {
  const Decoder decoder = decoder_of(job.setup.model);
  WrittenJob made;
  made.files = {{"plan.yaml", experiment_file(job), false, "the experiment: runner and environment"},
                {"train/plan.yaml", train_file(job, decoder), false, "the model, the meshes and the training"}};
  made.script.site = {{"FLAGSCALE_PATH", "a clone of flagos-ai/FlagScale", "/path/to/FlagScale"}};
  made.script.arguments = "CONFIG=$PWD\ncd \"$FLAGSCALE_PATH\"\n";
  made.script.command =
      "# FlagScale starts the processes of all hosts of its hostfile.\n"
      "python run.py --config-path \"$CONFIG\" --config-name plan action=run\n";
  made.script.starts_all_hosts = true;
  made.measure = {
      "step: `elapsed time per iteration (ms)` of the log of the last rank; the mean of iterations 5 to 20",
      "TFLOPS per device: `throughput per GPU (TFLOP/s/GPU)`, whose count of the work differs a little from this "
      "program's",
      "memory: the memory report after the first iteration"};
  made.differences = decoder.differences;
  for (std::string& line : megatron_rotation_difference(decoder)) made.differences.push_back(std::move(line));
  return made;
}

}  // namespace meshwright
