// SPDX-License-Identifier: Apache-2.0
// A lowered Program as tasks.
//
// Without options the meaning is that of the Program itself: a device runs its instructions in order; a Run with
// collectives begins on all devices of its stage together; an Exchange posts its sends and receives at once, a message
// starts when it is posted and its channel (ordered pair of devices) is free, and the Exchange, or the Await that waits
// in its place, ends when what it receives has arrived.
//
// With `overlap` a device has a compute stream and two communication streams (one for what its passes wait for, one for
// gradients), each in the order of its pieces (simulator/program/executable_pieces.h). A piece waits for the pieces and
// messages whose buffers it reads and for nothing else: a message leaves when it is made and the Run before its
// Exchange has ended, and stops no Run that does not read it. A collective begins on all devices along its mesh axis
// together.
//
// With `flows` messages and collectives that meet on a link slow each other. One member of a collective's group has its
// route; the others begin with it and end when it does. A message that goes along with another takes no time of its
// own, and has come when that one has and its channel is free.
//
// Memory. In the order of the instructions, its peak to the byte as check_program has it: what a Run needs appears when
// it begins, what an Exchange receives when the device posts it; what a Free ends goes with the end of what comes
// before it. With `overlap` each piece takes and leaves its own when it begins and ends, and what is sent goes when it
// has been sent.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/program/folded_devices.h"
#include "simulator/engine/task_graph.h"
#include "simulator/program/dispatch.h"
#include "simulator/program/executable_pieces.h"

namespace meshwright {

// A message over links that others use, too (TaskClass has the meaning); without a route it takes its duration.
struct SharedFlow {
  int route = TaskClass::kNoRoute;
  SimTime latency{0}, duration{0};
};
// Devices of the Program that are in a collective together, in order; with a route several groups along the mesh axis
// may be, which share links, so that their cost counts them as beginning together.
struct CollectiveGroup {
  std::vector<DeviceId> devices;
  int route = TaskClass::kNoRoute;
};
// A collective piece: its time stays what the piece takes, of which the last `on_links` are on the links of its groups.
struct CollectiveFlow {
  int groups = kOnNoLink;  // index into ProgramFlows::groups
  SimTime on_links{0};
  static constexpr int kOnNoLink = -1;
};
struct ProgramFlows {
  SharedLinks links;
  std::vector<SharedFlow> transfer;                          // [transfer]
  std::vector<std::vector<CollectiveGroup>> groups = {};     // each a partition of a stage's devices
  std::vector<std::vector<CollectiveFlow>> collective = {};  // [executable][piece]; empty: no collective is on links
  // [transfer] the one whose message it goes along with: an earlier one of the same Exchange, with a duration of its
  // own; or itself. Empty: each has its own.
  std::vector<int> along = {};
};

struct ProgramGraphOptions {
  int steps = 1;  // one after the other on each device; at least 1
  const ProgramFlows* flows = nullptr;
  // [executable] from cut_executables. Null: a Run is one piece, and nothing overlaps.
  const std::vector<std::vector<Piece>>* overlap = nullptr;
  // Without overlap: the pieces (cut in order) that flows->collective is of. A Run with collectives on links then is
  // its pieces one after the other; in memory it stays one.
  const std::vector<std::vector<Piece>>* in_order = nullptr;
  bool name_tasks = false;                    // fill ProgramGraph::of
  std::optional<Controller> controller = {};  // absent: everything is issued in time
  std::vector<int> host = {};                 // [device]; empty: hosts_of(program)
  const FoldedDevices* folded = nullptr;
};

// What a task does.
struct ProgramTask {
  int device = -1;       // of the Program; of a message the source; -1: a controller's
  int instruction = -1;  // of that device's list; Run or Exchange. -1: none (a fetch, a call)
  int transfer = -1;     // of a message
  int piece = -1;        // of an overlapped Run
};

struct ProgramGraph {
  TaskGraph graph;
  std::vector<ProgramTask> of;              // [task]; empty unless asked for
  std::vector<std::int32_t> first_of_step;  // [step + 1] tasks of a step have numbers of their own
};

// REQUIRES: the program is sound (throws InternalError where devices wait for each other for ever), `times` is of it;
// controllers only where nothing is folded; flows of a folded program are those of its folded links
// (simulator/fold/fold_devices.h).
[[nodiscard]] ProgramGraph program_graph(const Program& program, const ProgramTimes& times,
                                         const ProgramGraphOptions& options = {});

// The last steps of several: from the end of the step before them to the end of the last. A step ends with the last
// task of a device in it.
struct LastSteps {
  SimTime begin, end;
  int steps = 1;
  [[nodiscard]] SimTime each() const { return {(end - begin).ps / steps}; }  // rounded down
};
// REQUIRES: more than `period` steps.
[[nodiscard]] LastSteps last_steps(const ProgramGraph& graph, const TaskTimes& times, int period = 1);
// The time of a step among many, on average over the last `period` of them (Controller::fetch_every, or 1).
// REQUIRES: as last_steps.
[[nodiscard]] SimTime step_among_many(const ProgramGraph& graph, const TaskTimes& times, int period = 1);

}  // namespace meshwright
