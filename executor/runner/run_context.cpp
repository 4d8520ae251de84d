// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/run_context.h"

#include "executor/base/work_names.h"

namespace meshwright {

namespace {

IndexedVector<int, PreparedExecutable> prepare_all(const Graph& graph, const Program& program) {
  IndexedVector<int, PreparedExecutable> prepared;
  for (const StageExecutable& executable : program.executables) prepared.push_back(prepare(graph, executable));
  return prepared;
}

IndexedVector<int, WorkNames> names_of_work(const Program& program) {
  IndexedVector<int, WorkNames> names;
  for (const StageExecutable& executable : program.executables) {
    WorkNames& of_ops = names.emplace_back();
    for (const LocalOp& op : executable.ops)
      of_ops.push_back(work_name(program.stages[executable.stage.index()], executable, op));
  }
  return names;
}

IndexedVector<int, std::unique_ptr<Messages>> open_channels(const Program& program, const Channels& channels,
                                                            Backend& backend, Abort& abort) {
  IndexedVector<int, std::unique_ptr<Messages>> messages(static_cast<std::size_t>(channels.count));
  for (std::size_t t = 0; t < program.transfers.size(); ++t)
    // Transfers of one channel have the same source and destination: the first one opens it.
    if (auto& channel = messages[channels.of_transfer[t]]; channel == nullptr)
      channel = backend.make_messages(program.transfers[t].source, program.transfers[t].destination, abort);
  return messages;
}

// One group for each line of devices along each mesh axis, shared by its members.
StageGroups groups_of(const ProgramStage& stage, Backend& backend, Abort& abort) {
  StageGroups groups(static_cast<std::size_t>(stage.mesh.rank()));
  for (int axis = 0; axis < stage.mesh.rank(); ++axis) {
    groups[axis].resize(static_cast<std::size_t>(stage.mesh.devices()));
    for (int rank = 0; rank < stage.mesh.devices(); ++rank) {
      const std::vector<int> members = stage.mesh.group(rank, axis);
      if (rank != members.front()) continue;  // the first member makes the group for all
      std::vector<DeviceId> devices;
      for (const int member : members) devices.push_back(stage.devices[static_cast<std::size_t>(member)]);
      const std::shared_ptr<Group> group = backend.make_group(devices, abort);
      for (const int member : members) groups[axis][member] = group;
    }
  }
  return groups;
}

IndexedVector<StageId, StageGroups> groups_of_stages(const Program& program, Backend& backend, Abort& abort) {
  IndexedVector<StageId, StageGroups> groups;
  for (const ProgramStage& stage : program.stages) groups.push_back(groups_of(stage, backend, abort));
  return groups;
}

}  // namespace

// The order of messages and groups is the same in every process: peers number them as they are made.
RunContext::RunContext(const Graph& g, const Program& p, const RunOptions& o, Backend& b)
    : graph(g),
      program(p),
      options(o),
      backend(b),
      initial_values(g, o.seed, o.precision, o.given),
      kept(kept_operands(g, o)),
      executables(prepare_all(g, p)),
      work_names(b.names_work() ? names_of_work(p) : IndexedVector<int, WorkNames>{}),
      channels(find_channels(p)),
      messages(open_channels(p, channels, b, abort)),
      groups(groups_of_stages(p, b, abort)) {}

const std::string* RunContext::work_name(int executable, int op) const {
  if (work_names.empty()) return nullptr;
  const std::string& name = work_names[executable][op];
  return name.empty() ? nullptr : &name;
}

Messages& RunContext::messages_of(int transfer) const {
  return *messages[channels.of_transfer[static_cast<std::size_t>(transfer)]];
}

}  // namespace meshwright
