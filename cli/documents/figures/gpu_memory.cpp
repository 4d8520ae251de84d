// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/figures/gpu_memory.h"

#include <algorithm>
#include <map>
#include <optional>

#include "cli/documents/figures/report.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// [stage] of those that are the first of a rank, whose devices CUDA runs on; of no other plans than this program's own.
// All devices of a stage allocate alike, and of several stages on one rank the first has them all.
std::vector<std::optional<GpuMemoryUse>> uses_of_stages(const Plan& plan, const Graph& graph, const Program& program,
                                                        const FoldedDevices* folded) {
  std::vector<std::optional<GpuMemoryUse>> uses(plan.stages.size());
  if (!plan.software.empty()) return uses;
  std::vector<std::size_t> firsts;
  std::vector<DeviceId> devices;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const DeviceKind& kind = plan.cluster.group(plan.stages[s].submesh.group).device;
    const DeviceId device = program.stages[s].devices.front();
    if (kind.name == kAnyProcessor || kind.memory <= kCudaContext ||
        program.stage_of_device[device.index()].index() != s)
      continue;
    firsts.push_back(s);
    devices.push_back(device);
  }
  const StoredType stored = [](DType type) { return type; };
  const MessageBuffers messages(program, devices, stored, folded);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const int group = plan.stages[firsts[i]].submesh.group;
    const DeviceKind& kind = plan.cluster.group(group).device;
    uses[firsts[i]] = {group, kind.name, kind.memory, gpu_memory_need(graph, program, devices[i], stored, messages)};
  }
  return uses;
}

}  // namespace

std::vector<GpuMemoryUse> gpu_memory_use(const Plan& plan, const Graph& graph, const Program& program,
                                         const FoldedDevices* folded) {
  std::map<int, GpuMemoryUse> uses;  // by group
  for (std::optional<GpuMemoryUse>& found : uses_of_stages(plan, graph, program, folded)) {
    if (!found) continue;
    const auto [known, is_new] = uses.try_emplace(found->group, *found);
    if (!is_new && found->needed() > known->second.needed()) known->second = *std::move(found);
  }
  std::vector<GpuMemoryUse> all;
  for (auto& [group, use] : uses) all.push_back(std::move(use));
  return all;
}

std::vector<Bytes> memory_beside_tensors(const Plan& plan, const Graph& graph, const Program& program,
                                         const FoldedDevices* folded) {
  std::vector<Bytes> beside(plan.stages.size(), Bytes(0.0));
  const auto uses = uses_of_stages(plan, graph, program, folded);
  for (std::size_t s = 0; s < uses.size(); ++s) {
    if (!uses[s]) continue;
    const Bytes left = uses[s]->memory - plan.cluster.group(uses[s]->group).usable_memory();
    beside[s] = std::max(Bytes(0.0), uses[s]->needed() - uses[s]->need.tensors - left);
  }
  return beside;
}

std::string gpu_memory_line(const std::vector<GpuMemoryUse>& uses) {
  std::string text;
  for (const GpuMemoryUse& use : uses)
    text += fmt::format(
        "# beside it on a GPU{}, in GiB: workspaces {}, messages {}, pages {}, CUDA {}; {} in all of {}, and up to {} "
        "of "
        "blocks kept for reuse{}\n",
        uses.size() > 1 ? " of " + use.device : "", in_gibibytes(use.need.workspace), in_gibibytes(use.need.messages),
        in_gibibytes(use.need.pages), in_gibibytes(kCudaContext), in_gibibytes(use.needed()), in_gibibytes(use.memory),
        in_gibibytes(use.need.kept), use.fits() ? "" : ": it does not fit");
  return text;
}

void add_gpu_memory(Json& json, const std::vector<GpuMemoryUse>& uses) {
  if (uses.empty()) return;
  Json& list = json["gpu_memory"] = Json::array();
  for (const GpuMemoryUse& use : uses)
    list.push_back({{"device", use.device},
                    {"memory_bytes", bytes_json(use.memory)},
                    {"tensor_bytes", bytes_json(use.need.tensors)},
                    {"workspace_bytes", bytes_json(use.need.workspace)},
                    {"message_bytes", bytes_json(use.need.messages)},
                    {"page_bytes", bytes_json(use.need.pages)},
                    {"cuda_bytes", bytes_json(kCudaContext)},
                    {"needed_bytes", bytes_json(use.needed())},
                    {"kept_bytes", bytes_json(use.need.kept)},
                    {"fits", use.fits()}});
}

}  // namespace meshwright
