// SPDX-License-Identifier: Apache-2.0
// The Program: one instruction list per device. It is what both the simulator predicts and the executor runs.
//
// A Run refers to a StageExecutable: the local op list, with collectives, that every device of the stage executes on
// its own shard (SPMD). Buffers are values that outlive a Run; each has a size, so memory can be followed to the byte.
// A transfer is named at both ends. There is no blocking send: an Exchange is a set of sends and receives that progress
// together. The device waits in it until what it receives has come, or, where an Await follows, there.
//
// Threads of a stage meet in the collectives of a Run; everything else between devices is an Exchange.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/graph/graph.h"
#include "core/plan/cross_mesh.h"
#include "core/schedule/schedule.h"
#include "core/sharding/resharding.h"

namespace meshwright {

// The shard of a tensor on every device of one stage.
struct LocalTensor {
  TensorId tensor;  // of the Graph
  DType dtype;
  ShardingSpec spec;
  std::vector<std::int64_t> shape;  // of one device's tile
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] Bytes bytes() const;
};

// A value that outlives a Run on the devices of one stage.
struct Buffer {
  BufferId id;
  StageId stage;
  LocalTensor local;
  // Persistent buffers (parameters, optimizer state, accumulators) exist once; the others once per microbatch in
  // flight.
  bool persistent;
  std::string name;      // "blk3.mlp.up.weight", for messages and traces
  bool on_host = false;  // in the memory of the device's host
};

struct LocalOp {
  enum class Kind {
    Compute,
    Reshard,
    HostCopy,  // inputs[0] -> outputs[0], the same tile, of which one is on the host
  } kind;
  // Slots of the executable. In-place ops (accumulate, updates) list the overwritten slots as outputs too.
  std::vector<int> inputs, outputs;
  // Compute
  OpId op{0};
  std::vector<std::int64_t> axis_sizes;  // local, in the order of iteration_space(op).axes
  std::vector<AxisMask> axis_masks;      // mesh axes that split each of them
  OpWork work{OpKind::Add, DType::F32, Flops(0.0), Bytes(0.0), ""};
  // Reshard: inputs[0] -> outputs[0]
  std::optional<ReshardStep> step;
  std::optional<IterationSpace::Reduce> reduce;  // for AllReduce and ReduceScatter
  [[nodiscard]] bool is_collective() const {
    return kind == Kind::Reshard && step && step->kind != ReshardStep::Kind::Slice;
  }
};

struct StageExecutable {
  StageId stage{0};
  Phase phase = Phase::Forward;
  struct Slot {
    LocalTensor local;
    std::optional<BufferId> buffer;  // bound to a buffer: read before, or kept after, the Run; unset: temporary
    bool input = false;              // the buffer is defined before the Run
    bool output = false;             // the buffer is (also) defined after the Run
    std::optional<int> alias_of;     // in-place result: shares the storage of that slot
    int last_use = -1;     // index of the last local op that reads or writes it; temporaries are freed after it
    bool on_host = false;  // the buffer's: read and written across the link to the host
  };
  std::vector<Slot> slots;
  std::vector<LocalOp> ops;
  // Largest sum over time of live temporaries and buffers newly defined by this Run, per device: what the Run needs on
  // top of what is live when it starts.
  Bytes peak_extra{0.0};
  Pass backward_part = Pass::Backward;  // of phase Backward: the whole, or one of its halves
  [[nodiscard]] bool has_collectives() const;
};

// One tile of one buffer, from a device to another. Offsets and extents are in the source's and destination's local
// tiles. Where both are the same device (between stages of one rank) it is a copy: sent and received by one Exchange.
// Where both devices are of one stage, and the buffers the same, a part of a tile is passed on (CrossMesh).
struct Transfer {
  DeviceId source, destination;
  BufferId source_buffer, destination_buffer;
  MicrobatchId microbatch;  // 0 for transfers in the update
  std::vector<std::int64_t> source_offset, destination_offset, extent;
  bool accumulate = false;  // add onto the destination, which is defined before, instead of overwriting
  Bytes bytes{0.0};
  bool hosts_apart = false;
  CrossMesh form = CrossMesh::Send;  // in which a tile gets from mesh to mesh of which this brings a part
  bool operator==(const Transfer&) const = default;
};

struct Instruction {
  enum class Kind {
    Run,       // executable of a stage of this device; microbatch
    Exchange,  // sends and receives (indices into Program::transfers)
    Await,     // what an Exchange that does not wait receives
    Free,      // buffers of one microbatch
  } kind;
  int executable = -1;               // Run: index into Program::executables
  MicrobatchId microbatch{0};        // Run, Free
  std::vector<int> sends, receives;  // Exchange; Await: receives only
  // Free; for Exchange: buffers that its receives define, whole or in part. Later Exchanges bring what is left.
  std::vector<BufferId> buffers;
  bool waits = true;  // Exchange: until its receives have come
};

struct ProgramStage {
  LogicalMesh mesh;
  std::vector<DeviceId> devices;  // in the mesh's row-major order
  // Executables. `sync` (phase Update) runs after the last backward and sums the gradients that other stages wait for.
  std::optional<int> forward, backward, sync, update;
  // (phase Update) Of a step whose updates on several stages read one norm: runs when the gradients of other stages
  // have come, and leaves the stage's part of the norm, and its gradients, summed, for `update`.
  std::optional<int> norm = {};
  int stages_after = 0;  // see core/plan/stage_graph.h
  // In the place of `backward`, or beside it, where the schedule splits the backwards of all microbatches or of some:
  // the gradients that other stages wait for with all they need (absent if none does), and the rest.
  std::optional<int> backward_input = {}, backward_weight = {};
};

struct Program {
  std::vector<ProgramStage> stages;
  std::vector<Buffer> buffers;
  std::vector<StageExecutable> executables;
  std::vector<Transfer> transfers;
  std::vector<std::vector<Instruction>> devices;  // [device]
  // [device] its stage; of several (a rank's), which then have the same devices in the same order, the first.
  std::vector<StageId> stage_of_device;
  int microbatches = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  std::vector<Bytes> persistent_bytes;  // [device] of its own memory
  std::vector<Bytes> host_bytes = {};   // [device] the most that its buffers on its host have; empty: there are none
  // Where this is a part of a program (core/plan/lowering/lower.h): messages of the first microbatch from or to a
  // stage's first device for which others stand.
  std::vector<Transfer> stood_for = {};

  // The first stage on the devices of `stage`: equal for stages of one rank. REQUIRES: it has devices.
  [[nodiscard]] StageId first_of_rank(StageId stage) const {
    return stage_of_device[stages[stage.index()].devices.front().index()];
  }
  [[nodiscard]] bool lies_on(StageId stage, DeviceId device) const {
    return first_of_rank(stage) == stage_of_device[device.index()];
  }
};

// The channel (ordered pair of devices) of every transfer. Messages on one channel keep their order.
struct Channels {
  std::vector<int> of_transfer;  // [transfer]
  int count = 0;
};
// REQUIRES: every transfer's devices exist.
[[nodiscard]] Channels find_channels(const Program& program);

}  // namespace meshwright
