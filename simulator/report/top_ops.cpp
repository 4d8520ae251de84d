// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/top_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace meshwright {

namespace {

// [executable] how often it runs on all devices together.
std::vector<std::int64_t> count_all_runs(const Program& program, const FoldedDevices* folded) {
  const std::vector<int> counts = folded == nullptr ? std::vector<int>{} : folded->counts();
  std::vector<std::int64_t> runs(program.executables.size(), 0);
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    const int count = counts.empty() ? 1 : counts[d];
    if (count == 0) continue;
    for (const Instruction& instruction : program.devices[d])
      if (instruction.kind == Instruction::Kind::Run) runs[static_cast<std::size_t>(instruction.executable)] += count;
  }
  return runs;
}

}  // namespace

std::vector<TopOp> top_ops(const Program& program, const Graph& graph, const RunParts& parts, const CostModel& costs,
                           const FoldedDevices* folded) {
  const std::vector<std::int64_t> runs = count_all_runs(program, folded);
  struct Known {
    TopOp top;
    std::set<OpId> ops;
  };
  std::map<std::tuple<std::string, TimePart, int>, Known> known;  // by work, part and group of hosts
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
    const CostModel& own_costs = costs.on(mesh.of.group);
    for (const LocalOp& op : executable.ops) {
      if (op.kind != LocalOp::Kind::Compute || runs[e] == 0) continue;
      const TimePart part = parts.part_of(executable, op);
      Known& own = known[{op.work.signature, part, mesh.of.group}];
      if (own.ops.empty()) {
        const TimeEstimate time = own_costs.compute(op.work);
        const Seconds roofline = parts.roofline_of(executable, op);
        own.top = {.name = graph.op(op.op).name, .part = part, .work = op.work, .time = time.time, .basis = time.basis};
        own.top.roofline = time.time > Seconds(0.0) ? roofline / time.time : 0.0;
      }
      own.ops.insert(op.op);
      own.top.runs += runs[e];
      own.top.device_time += static_cast<double>(runs[e]) * own.top.time;
    }
  }
  std::vector<TopOp> found;
  for (auto& [key, own] : known) {
    own.top.others = static_cast<int>(own.ops.size()) - 1;
    found.push_back(std::move(own.top));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const TopOp& a, const TopOp& b) { return a.device_time > b.device_time; });
  return found;
}

}  // namespace meshwright
