// SPDX-License-Identifier: Apache-2.0
// What the time of a Run is spent on: its computations by what bounds them, its collectives by what they move.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/mesh/cluster.h"
#include "core/plan/program/program.h"
#include "core/sharding/cost_model.h"
#include "simulator/program/executable_pieces.h"

namespace meshwright {

// An op counts to Launch where its kernel's launch takes longer than its FLOPs and bytes would at the device's peaks,
// and otherwise to one of the first four: products are contractions and convolutions; Attention, and OtherCompute with
// FLOPs of its own, such as scans; MemoryBound all that only moves numbers. What a Run costs beyond its ops is Launch.
enum class TimeKind : std::uint8_t {
  Products,
  Attention,
  OtherCompute,
  MemoryBound,
  Launch,
  TensorCollective,    // of activations and their gradients: tensor, sequence and context parallelism
  ExpertCollective,    // all-to-alls that bring tokens to experts and back
  GradientCollective,  // sums of gradients of parameters
  WeightGather,        // all-gathers of parameters
  HostCopy,            // between a device and its host
  Message,             // between stages
  Bubble,              // waiting between the first and the last computation of a device
  Idle,                // before the first and after the last
};
inline constexpr int kTimeKinds = 13;
[[nodiscard]] const char* name_of(TimeKind kind);  // "products", "tensor collectives", ...
[[nodiscard]] bool is_collective(TimeKind kind);

enum class TimePass : std::uint8_t { Forward, Recompute, Backward, Update, None };  // None: messages, bubble, idle
[[nodiscard]] const char* name_of(TimePass pass);                                   // "forward", ..., "": None

struct TimePart {
  TimePass pass = TimePass::None;
  TimeKind kind = TimeKind::Idle;
  CollectiveKind collective = CollectiveKind::AllReduce;  // of a collective
  int axis = -1;                                          // of a collective: of the stage's logical mesh
  auto operator<=>(const TimePart&) const = default;
};
struct PartTime {
  SimTime exposed{0};  // the device waits for it, or does it
  SimTime hidden{0};   // goes on beside computation
};
using TimeParts = std::map<TimePart, PartTime>;

// Adds `more` to `sum`, `times` times.
void add_parts(TimeParts& sum, const TimeParts& more, std::int64_t times = 1);
[[nodiscard]] SimTime exposed_of(const TimeParts& parts);
// The same parts, whose exposed times add up to `whole`, in proportion. REQUIRES: they add up to more than 0, or
// `whole` is 0.
[[nodiscard]] TimeParts scaled_to(const TimeParts& parts, SimTime whole);

class RunParts {
 public:
  // REQUIRES: all outlive this; the program is of the graph and the cluster's devices.
  RunParts(const Program& program, const Graph& graph, const Cluster& cluster, const CostModel& costs)
      : program_(program), graph_(graph), cluster_(cluster), costs_(costs) {}

  // The exposed times add up to `whole`, which is times.executable of program_costs. What that holds beyond the ops and
  // the overhead of the Run are messages that block the device or, in an update, sums of gradients over replicas. What
  // a software hides is taken off the collectives of parameters as far as it is theirs, else off the computations.
  [[nodiscard]] TimeParts of_run(int executable, SimTime whole) const;
  // The same of a Run that was measured: in proportion to `op_times`, what its ops took one by one, and what it took
  // beyond them is Launch; or, where `op_times` is empty, in proportion to what its ops would cost.
  [[nodiscard]] TimeParts of_measured_run(int executable, const std::vector<Seconds>& op_times, SimTime whole) const;
  // The exposed times add up to the piece's duration.
  [[nodiscard]] TimeParts of_piece(int executable, const Piece& piece) const;

  [[nodiscard]] TimePart part_of(const StageExecutable& executable, const LocalOp& op) const;
  // What the op would take at the peaks of its device: the larger of its arithmetic and its bytes.
  [[nodiscard]] Seconds roofline_of(const StageExecutable& executable, const LocalOp& op) const;

 private:
  struct Amount {
    double exposed = 0.0, hidden = 0.0;  // seconds
  };
  using Amounts = std::map<TimePart, Amount>;

  [[nodiscard]] const LogicalMesh& mesh_of(const StageExecutable& executable) const {
    return program_.stages[executable.stage.index()].mesh;
  }
  [[nodiscard]] Seconds add_op(const StageExecutable& executable, const LocalOp& op, Amounts& amounts) const;
  void add_overhead(const StageExecutable& executable, const std::vector<Seconds>& times, Amounts& amounts) const;

  const Program& program_;
  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
};

}  // namespace meshwright
