// SPDX-License-Identifier: Apache-2.0
// Megatron-LM: one command line of pretrain_gpt.py.
#include "launch/write/megatron_flags.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

std::vector<FlagGroup> groups_of(const LaunchJob& job, const Decoder& decoder) {
  std::vector<FlagGroup> groups = {megatron_model_flags(decoder), megatron_expert_flags(decoder, job.setup),
                                   megatron_parallel_flags(job.setup)};
  if (job.target.name == "megatron" && job.setup.degrees.chunks > 1 && !megatron_layout(job.setup).empty())
    groups.back().comment += " The layout names the stages of all ranks, rank by rank, then those of the next round.";
  groups.push_back(megatron_recompute_flags(job.setup));
  groups.push_back(megatron_training_flags(job.setup));
  groups.push_back(megatron_data_flags(decoder));
  return groups;
}

}  // namespace

WrittenJob write_megatron(const LaunchJob& job) {
  const Decoder decoder = decoder_of(job.setup.model);
  const std::vector<FlagGroup> groups = groups_of(job, decoder);
  WrittenJob made;
  made.script.site = {{"MEGATRON_PATH", "a clone of NVIDIA/Megatron-LM", "/path/to/Megatron-LM"}};
  // Overlap of tensor and context parallelism needs one queue to the device before Blackwell (asserted).
  if (job.setup.degrees.tp > 1 || job.setup.degrees.cp > 1)
    made.script.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  made.script.environment.emplace_back("PYTORCH_ALLOC_CONF", "expandable_segments:True");
  made.script.arguments = bash_arrays(groups);
  made.script.command = torchrun_command("\"$MEGATRON_PATH/pretrain_gpt.py\"" + expanded(groups));
  made.measure = {
      "step: `elapsed time per iteration (ms)` of the log; take the mean of iterations 5 to 20, after warm-up",
      "TFLOPS per device: `throughput per GPU (TFLOP/s/GPU)`, whose count of the model's work differs a little from "
      "this "
      "program's: compare steps first",
      "memory: `max allocated` of the memory report after the first iteration"};
  made.differences = decoder.differences;
  for (std::string& line : megatron_rotation_difference(decoder)) made.differences.push_back(std::move(line));
  if (job.setup.degrees.recompute == Recompute::Selective)
    made.differences.emplace_back(
        "selective recomputation: the plan recomputes norms and activations; Megatron-LM is told core_attn, whose "
        "memory is what the prediction counts");
  return made;
}

}  // namespace meshwright
