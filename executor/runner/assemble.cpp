// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/assemble.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "executor/base/tile_place.h"
#include "executor/runner/held_tiles.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

namespace {

using Names = std::map<TensorId, std::string>;

// A tensor's own buffer: a tied parameter has copies, by other names, in other stages.
const std::string* name_in(const Names& names, const Graph& graph, const Buffer& buffer) {
  const Tensor& tensor = graph.tensor(buffer.local.tensor);
  const auto found = names.find(tensor.id);
  return buffer.persistent && found != names.end() && buffer.name == tensor.name ? &found->second : nullptr;
}

void add_parts(const Graph& graph, const Program& program, const Names& names, std::vector<WantedTile>& wanted) {
  for (const Buffer& buffer : program.buffers) {
    if (name_in(names, graph, buffer) == nullptr) continue;
    // Replicas hold the same tile: the first device with it is enough.
    std::set<std::vector<std::int64_t>> seen;
    for (const DeviceId device : program.stages[buffer.stage.index()].devices) {
      const TilePlace place = tile_place(program, graph, buffer.stage, device, buffer.local);
      if (!place.is_empty() && seen.insert(place.offset).second) wanted.push_back({buffer.id, device});
    }
  }
}

void place(const Graph& graph, const Program& program, const Buffer& buffer, DeviceId device,
           const std::vector<double>& tile, std::vector<double>& whole) {
  const Tensor& tensor = graph.tensor(buffer.local.tensor);
  // Tiles may come in any order: the first one makes the whole tensor.
  whole.resize(static_cast<std::size_t>(tensor.elements()));
  std::vector<std::int64_t> shape;
  for (const Dim& dim : tensor.dims) shape.push_back(dim.size);
  const std::vector<std::int64_t> strides = kernels::row_major_strides(shape);
  const TilePlace place = tile_place(program, graph, buffer.stage, device, buffer.local);
  std::int64_t first = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) first += place.offset[d] * strides[d];
  kernels::copy_tile<double>(place.extent, tile.data(), kernels::row_major_strides(buffer.local.shape),
                             whole.data() + first, strides);
}

Timeline timeline_of(const std::vector<RunPart>& parts, int step, SimTime end) {
  Timeline timeline;
  timeline.end = end;
  for (const RunPart& part : parts)
    for (const RunPart::OfDevice& device : part.devices)
      for (const RunPart::StepSpan& span : device.spans)
        if (span.step == step) timeline.spans.push_back(span.span);
  // A fixed order, whichever processes the devices are in.
  std::sort(timeline.spans.begin(), timeline.spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.begin, a.device, a.end) < std::tie(b.begin, b.device, b.end);
  });
  return timeline;
}

void add_times(const std::vector<RunPart>& parts, const RunOptions& options, RunResult& result) {
  for (int step = 0; step < options.steps; ++step) {
    // A step ends when its last device does.
    SimTime end{0};
    for (const RunPart& part : parts)
      for (const RunPart::OfDevice& device : part.devices)
        end = std::max(end, device.times[static_cast<std::size_t>(step)].end);
    result.step_times.push_back(to_seconds(end));
    if (step + options.recorded_steps >= options.steps) result.timelines.push_back(timeline_of(parts, step, end));
  }
  result.timeline = result.timelines.back();
}

}  // namespace

void add_op_times(const OpTimes& part, OpTimes& all) {
  if (all.empty()) all.resize(part.size());
  for (std::size_t e = 0; e < part.size(); ++e) {
    all[e].resize(part[e].size());
    for (std::size_t o = 0; o < part[e].size(); ++o) {
      all[e][o].total += part[e][o].total;
      all[e][o].runs += part[e][o].runs;
    }
  }
}

std::map<TensorId, std::string> parameters_of(const Graph& graph) {
  Names names;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) names[tensor.id] = tensor.name;
  return names;
}

std::map<TensorId, std::string> second_moments_of(const Graph& graph) {
  Names names;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::AdamUpdate) continue;
    // The place of v depends on the attributes, as a master copy is an operand as well.
    const std::vector<std::string> operands = operand_names(op.kind, op.inputs.size(), op.attributes);
    const auto at = std::find(operands.begin(), operands.end(), "v") - operands.begin();
    names[op.inputs[static_cast<std::size_t>(at)]] = graph.tensor(op.inputs[0]).name;
  }
  return names;
}

std::vector<WantedTile> wanted_tiles(const Graph& graph, const Program& program, const RunOptions& options) {
  std::vector<WantedTile> wanted;
  if (options.keep_tensors) {
    add_parts(graph, program, parameters_of(graph), wanted);
    add_parts(graph, program, second_moments_of(graph), wanted);
  }
  // RunResult::loss_scales has the state of every device.
  if (graph.loss_scaling)
    for (const Buffer& buffer : program.buffers)
      if (buffer.local.tensor == graph.loss_scaling->state)
        for (const DeviceId device : program.stages[buffer.stage.index()].devices)
          wanted.push_back({buffer.id, device});
  return wanted;
}

std::vector<WantedTile> state_tiles(const Graph& graph, const Program& program) {
  std::vector<WantedTile> wanted;
  std::set<std::pair<TensorId, std::vector<std::int64_t>>> seen;
  for (const Buffer& buffer : program.buffers) {
    const Tensor& tensor = graph.tensor(buffer.local.tensor);
    const bool lasts = tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState ||
                       tensor.kind == TensorKind::StepState;
    if (!buffer.persistent || !lasts) continue;
    // A tied parameter has copies in other stages, which may be cut in other ways: its own buffer counts.
    if (tensor.kind != TensorKind::StepState && buffer.name != tensor.name) continue;
    for (const DeviceId device : program.stages[buffer.stage.index()].devices) {
      const TilePlace place = tile_place(program, graph, buffer.stage, device, buffer.local);
      if (!place.is_empty() && seen.insert({tensor.id, place.offset}).second) wanted.push_back({buffer.id, device});
    }
  }
  return wanted;
}

RunResult assemble(const Graph& graph, const Program& program, const RunOptions& options, std::vector<RunPart>& parts) {
  RunResult result;
  std::vector<RunPart*> part_of(program.devices.size(), nullptr);
  result.peak_memory.assign(program.devices.size(), Bytes(0.0));
  int speaking = 0;  // processes, for the loss
  for (RunPart& part : parts) {
    for (const RunPart::OfDevice& device : part.devices) {
      part_of[device.device.index()] = &part;
      result.peak_memory[device.device.index()] = device.peak;
      if (!device.on_gpu) continue;
      result.gpu_memory.resize(program.devices.size());
      result.gpu_memory[device.device.index()] = device.memory;
    }
    // Only the processes whose stages compute the loss have any: one, or one for each copy of the stage.
    if (part.losses.empty()) continue;
    if (result.losses.empty()) result.losses.assign(part.losses.size(), 0.0);
    MW_CHECK(result.losses.size() == part.losses.size() && ++speaking <= traits_of(program.schedule).copies,
             "the loss of '{}' must be made, whole, by one stage", graph.name);
    for (std::size_t step = 0; step < part.losses.size(); ++step) result.losses[step] += part.losses[step];
  }
  MW_CHECK(result.losses.empty() != graph.loss.has_value(), "the loss of '{}' must be made, whole, by one stage",
           graph.name);
  if (!graph.loss) result.losses.assign(static_cast<std::size_t>(options.steps), 0.0);
  add_times(parts, options, result);
  for (const RunPart& part : parts) add_op_times(part.op_times, result.op_times);

  const std::map<OpId, KeptOperand> kept = kept_operands(graph, options);
  for (const RunPart& part : parts)
    for (const KeptTile& tile : part.kept) place_kept(graph, kept, tile, result);
  if (options.keep_held)
    for (RunPart& part : parts) take_held(graph, kept, part, result.held);
  const Names parameters = parameters_of(graph), moments = second_moments_of(graph);
  // wanted_tiles gives the same order in every process, so that tiles travel without names: a part's next one is meant.
  std::map<const RunPart*, std::size_t> taken;
  for (const WantedTile& wanted : wanted_tiles(graph, program, options)) {
    RunPart* part = part_of[wanted.device.index()];
    MW_CHECK(part != nullptr && taken[part] < part->tiles.size(), "a process did not send its tiles");
    const std::vector<double> tile = std::move(part->tiles[taken[part]++]);
    const Buffer& buffer = program.buffers[wanted.buffer.index()];
    if (const std::string* name = name_in(parameters, graph, buffer))
      place(graph, program, buffer, wanted.device, tile, result.weights[*name]);
    else if (const std::string* of = name_in(moments, graph, buffer))
      place(graph, program, buffer, wanted.device, tile, result.second_moments[*of]);
    else
      result.loss_scales.push_back(std::ldexp(graph.loss_scaling->first, static_cast<int>(tile[0])));
  }
  return result;
}

}  // namespace meshwright
