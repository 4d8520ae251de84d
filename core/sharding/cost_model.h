// SPDX-License-Identifier: Apache-2.0
// The abstract CostModel: the time of a piece of work, and whether it was measured. Implemented in costmodel/
// (analytic, profiled) and by hand in tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/mesh/submesh.h"

namespace meshwright {

enum class CollectiveKind { AllReduce, ReduceScatter, AllGather, AllToAll };
[[nodiscard]] const char* name_of(CollectiveKind kind);  // "all-reduce"

enum class Basis { Measured, Interpolated, Modelled };
[[nodiscard]] const char* name_of(Basis basis);

struct TimeEstimate {
  Seconds time;
  Basis basis;
};

// One op on one device: what is computed, not on which data.
//
// `signature` is its canonical text and the profile database's key: kind, then each operand and result with axis
// letters in order of first appearance and local sizes, e.g. "contract f32 [a=1024,b=2048][b,c=8192]->[a,c]". `dtype`
// is that of the first floating-point tensor; a tensor of another floating type is marked "[a,b]:f16", and what
// changes the work without changing a shape ends the text: " select" (a bias that acts on one index), " stride 2,2",
// " causal", " window 128".
struct OpWork {
  OpKind kind;
  DType dtype;
  Flops flops;  // contraction flops of the local shard
  Bytes bytes;  // operands read + results written, local
  std::string signature;
};
// The work of `op` on a shard whose axes have the given local sizes (order of IterationSpace::axes).
[[nodiscard]] OpWork op_work(const Graph& graph, const Op& op, const std::vector<std::int64_t>& local_sizes);
// The same where the op's iteration space is known.
[[nodiscard]] OpWork op_work(const Graph& graph, const Op& op, const IterationSpace& space,
                             const std::vector<std::int64_t>& local_sizes);

// Collectives of one kind on one mesh axis, each of which gathers a parameter or sums its gradient.
struct ParameterCollectives {
  CollectiveKind kind;
  MeshAxis axis;
  Bytes bytes{0.0};       // of all, as CostModel::collective counts them
  double elements = 0.0;  // of these bytes
  Seconds time{0.0};      // of all, one after the other
  int count = 0;
};

// What one Run of a stage does on each of its devices.
struct RunWork {
  Phase phase = Phase::Forward;
  bool once_per_step = false;  // of a device: what the host does once per step belongs to this Run
  Seconds ops{0.0};            // of its ops, one after the other
  Seconds fused{0.0};          // what products that are computed as one save of it
  Seconds collectives{0.0};    // of activations and their gradients, which ops wait for
  Seconds exchanges{0.0};      // those of them that are all-to-alls
  bool interleaved = false;    // passes of several stages take turns on the device
  std::vector<ParameterCollectives> parameters = {};
  int op_count = 0;     // of those that take time
  int token_moves = 0;  // of tokens to their experts and back, and of their gradients
  int collective_count = 0;
  int collective_peers = 0;  // of all collectives, the members beyond two
};

// What it takes a software's host to issue a Run ahead of the device.
struct HostTimes {
  Seconds run{0.0}, step{0.0};         // a step: once on every device, in its update
  Seconds op{0.0}, token_move{0.0};    // an op that takes time, and more where it moves tokens to experts or back
  Seconds collective{0.0}, peer{0.0};  // a collective, and more for each member beyond two
};

// What it takes a software to move parameters or their gradients, as shares of what `collective` says of them: it may
// move another type, in buckets, and hide a part behind computation.
struct MoveShares {
  double alone = 1.0;       // with nothing beside
  double in_passes = 1.0;   // by this a pass takes longer that computes for longer than that
  double in_updates = 1.0;  // by this the update takes longer
};

// How a software sends messages between stages.
struct MessageTraits {
  double blocking = 0.0;   // share of a message's time that keeps its sender and its receiver from computing
  bool scattered = false;  // what several devices of a host hold alike is sent in parts and gathered on the other side
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  // The model for the devices of one of the cluster's groups of hosts: this one where all hosts are alike, and on a
  // group's own model (so calling it twice is harmless). A model of several groups answers the functions below for the
  // first; callers that know the mesh use on(mesh.of.group).
  [[nodiscard]] virtual const CostModel& on(int /*group*/) const { return *this; }
  [[nodiscard]] virtual TimeEstimate compute(const OpWork& work) const = 0;
  // `bytes` is the size of the whole tensor taking part per group: the gathered side of an all-gather, the scattered
  // (input) side of a reduce-scatter, the local tensor of an all-reduce, the local tensor of an all-to-all.
  [[nodiscard]] virtual TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const = 0;
  // One message from a device to another, `hosts_apart` when it crosses hosts; `concurrent` messages leave the host at
  // once.
  [[nodiscard]] virtual TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const = 0;
  // Between a device and the memory of its host, one way; 0 for a model that knows of no host.
  [[nodiscard]] virtual TimeEstimate host_transfer(Bytes /*bytes*/) const { return {Seconds(0.0), Basis::Modelled}; }
  [[nodiscard]] virtual MessageTraits messages() const { return {}; }
  [[nodiscard]] virtual MoveShares gathers() const { return {}; }
  // The same for sums of gradients, in the type in which a plan has them.
  [[nodiscard]] virtual MoveShares sums(DType /*of*/) const { return {}; }
  [[nodiscard]] virtual HostTimes host_times() const { return {}; }
  // A Run that the device computes for so long and the host issues for so long.
  [[nodiscard]] virtual Seconds beside_host(Seconds device, Seconds /*host*/) const { return device; }
  // The time of products that a software computes as one: they read one activation and their results lie side by side,
  // or (`summed`) their results are added up. nullopt: it computes each for itself.
  [[nodiscard]] virtual std::optional<Seconds> as_one_product(const std::vector<const OpWork*>& /*products*/,
                                                              bool /*summed*/) const {
    return std::nullopt;
  }
  // What one Run of a stage costs beyond its ops (dispatch, bookkeeping).
  [[nodiscard]] virtual Seconds run_overhead() const = 0;
  // The same of a Run whose work is known, where that matters; negative where a software hides part of the work behind
  // another.
  [[nodiscard]] virtual bool run_depends_on_work() const { return false; }
  [[nodiscard]] virtual Seconds run_overhead(const RunWork& /*work*/) const { return run_overhead(); }
};

}  // namespace meshwright
