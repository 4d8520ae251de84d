// SPDX-License-Identifier: Apache-2.0
// What the devices of one run share. Internal to the executor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/plan/program/program.h"
#include "executor/base/initial_values.h"
#include "executor/base/run_options.h"
#include "executor/device/backend.h"
#include "executor/runner/kept_tiles.h"
#include "executor/runner/prepared_program.h"

namespace meshwright {

// By axis and rank in a stage's mesh: the group of that rank's device along that axis. Members share one object.
using StageGroups = IndexedVector<int, IndexedVector<int, std::shared_ptr<Group>>>;

// [op]: the name of its work, empty for work without one.
using WorkNames = IndexedVector<int, std::string>;

// Immutable once the threads run, except for members that synchronise themselves.
struct RunContext {
  RunContext(const Graph& graph, const Program& program, const RunOptions& options, Backend& backend);

  const Graph& graph;
  const Program& program;
  const RunOptions options;
  Backend& backend;
  const InitialValues initial_values;
  const std::map<OpId, KeptOperand> kept;  // of the last step
  const IndexedVector<int, PreparedExecutable> executables;
  const IndexedVector<int, WorkNames> work_names;  // [executable]; empty where work is not named
  Abort abort;
  const Channels channels;
  const IndexedVector<int, std::unique_ptr<Messages>> messages;  // [channel]
  IndexedVector<StageId, StageGroups> groups;

  // Null where work is not named, and for work without a name.
  [[nodiscard]] const std::string* work_name(int executable, int op) const;
  [[nodiscard]] Messages& messages_of(int transfer) const;
};

}  // namespace meshwright
