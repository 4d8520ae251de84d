// SPDX-License-Identifier: Apache-2.0
// What a Program runs on: the memory and kernels of each logical device, the collectives of each group, the messages of
// each channel. DeviceRunner interprets instructions through these interfaces.
//
// A device does its work in the order of the calls. Calls may return before their work is done; finish() and read()
// wait for it. Pointers are into the device's memory unless they are called `host`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/graph/graph.h"
#include "executor/base/abort.h"
#include "executor/base/clock.h"
#include "executor/base/gpu_memory.h"
#include "executor/base/memory_pool.h"
#include "executor/base/scratch.h"
#include "executor/base/work_recorder.h"
#include "executor/ops/attention_blocks.h"
#include "executor/ops/op_kernels.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

// A box inside a row-major array, in elements.
struct BoxView {
  std::span<const std::int64_t> shape;   // of the array
  std::span<const std::int64_t> offset;  // of the box
  std::span<const std::int64_t> extent;

  [[nodiscard]] std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t size : extent) product *= size;
    return product;
  }
  // Where it begins in the array, whose strides are given.
  [[nodiscard]] std::int64_t first(std::span<const std::int64_t> strides) const {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) at += offset[d] * strides[d];
    return at;
  }
};

// A box of elements that goes from one array to another. Both pointers are of the box's first element; strides are in
// elements, the last one 1.
struct BoxCopy {
  DType dtype;
  std::span<const std::int64_t> extent;
  const void* from;
  std::span<const std::int64_t> from_strides;
  void* to;
  std::span<const std::int64_t> to_strides;
};

// One logical device, used by one thread at a time.
class Device : public Storage {
 public:
  virtual void clear(void* data, std::size_t size) = 0;
  virtual void copy(void* to, const void* from, std::size_t size) = 0;
  virtual void write(void* to, const void* host, std::size_t size) = 0;
  // What kernels and libraries hold beside tensors, and what its GPU says is in use; nullopt: it is of the host.
  [[nodiscard]] virtual std::optional<GpuMemory> gpu_memory() const { return std::nullopt; }
  // Whether the device's memory is the host's, who may write it without asking.
  [[nodiscard]] virtual bool is_host() const { return false; }
  virtual void read(void* host, const void* from, std::size_t size) = 0;  // waits
  // Memory of the host that the device's ops read and write where it lies; for a device of the host its own.
  [[nodiscard]] virtual Storage& storage_on_host() { return *this; }
  // Operands have the types that Backend::stored gives for their own. REQUIRES: `call` outlives the work, as a device
  // may hold an op back to run it together with the next.
  virtual void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
                      const OpMoment& moment) = 0;
  // As run_op, for a block of the keys of an attention. REQUIRES: Backend::runs_blocks().
  virtual void run_attention_block(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                                   std::span<void* const> outputs, const OpMoment& moment);
  virtual void copy_box(const BoxCopy& box) = 0;
  // Adds the elements to those of the destination.
  virtual void add_box(const BoxCopy& box) = 0;
  // out (n) = the sum or maximum of the parts in their order, rounded once; `out` may be one of them.
  virtual void reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
                      kernels::Reduction reduction) = 0;
  // Memory for collectives and messages of this device.
  [[nodiscard]] virtual Scratch& scratch() = 0;
  // Writes the number to `into` by the next finish().
  virtual void read_later(double* into, DType stored, const void* scalar) = 0;

  // Names the work that follows, for recordings (executor/base/work_names.h). Work does not nest.
  virtual void begin_work(const std::string&) {}
  virtual void end_work() {}

  // Marks the moment at which all work so far is done. The mark's number is valid until the second finish() from now.
  virtual int mark() = 0;
  virtual void finish() = 0;  // waits; the marks since the finish() before can then be asked for
  // finish() throws Aborted once `abort` is raised: after another device has failed, this one may wait for data that
  // never comes.
  virtual void watch_abort(const Abort& /*abort*/) {}
  // The device calls `release` when it finds no memory for its own work: its user then returns memory kept for later.
  virtual void on_out_of_memory(std::function<void()> /*release*/) {}
  // The run has failed. Waits briefly for work under way, and then no longer.
  virtual void cancel() noexcept {}
  [[nodiscard]] virtual Clock::time_point time_of(int mark) const = 0;
};

// What one member brings to a collective: its device, and arrays of `dtype` in that device's memory.
struct CollectiveCall {
  int member;
  Device& device;
  DType dtype;
  const void* in;
  void* out;

  // The same call with other arrays, or as a member of another group.
  [[nodiscard]] CollectiveCall with(const void* other_in, void* other_out) const {
    return {member, device, dtype, other_in, other_out};
  }
  [[nodiscard]] CollectiveCall as(int other_member) const { return {other_member, device, dtype, in, out}; }
};

// Which neighbour gets what a member passes on: the next one, of the last the first; or the one before.
enum class Around { Forwards, Backwards };
// The neighbour to whom it goes, and the one from whom it comes.
[[nodiscard]] constexpr int next_in_ring(int member, int members, Around way) {
  return (member + (way == Around::Forwards ? 1 : members - 1)) % members;
}
[[nodiscard]] constexpr int previous_in_ring(int member, int members, Around way) {
  return next_in_ring(member, members, way == Around::Forwards ? Around::Backwards : Around::Forwards);
}

// The devices along one axis of a mesh; members call the same operations in the same order, each with its own Device.
// Shapes are those of Communicator (executor/host/communicator.h). `out` may be `in` of an all_reduce. `padding`: by
// how many elements the members' parts of a row are together longer than the row.
class Group {
 public:
  virtual ~Group() = default;
  virtual void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) = 0;
  virtual void reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner,
                              kernels::Reduction reduction, std::int64_t padding = 0) = 0;
  virtual void all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner,
                          std::int64_t padding = 0) = 0;
  virtual void all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                          int join_dim) = 0;
  // The n elements in `out` of member `root`, to `out` of all; `in` is not read.
  virtual void broadcast(const CollectiveCall& call, std::int64_t n, int root) = 0;
  // `in` (n) of each member, to `out` (n) of its neighbour in the ring of members.
  virtual void pass_on(const CollectiveCall& call, std::int64_t n, Around way) = 0;
};

// Messages from one device to another. Sending waits for nobody; the box is free again when the sender's work so far is
// done. Received data is there for all later work of the receiver.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual void send(Device& device, int transfer, DType stored, const void* array, const BoxView& box) = 0;
  // Overwrites the box, or adds to it. Messages of one transfer come in the order they were sent.
  virtual void receive(Device& device, int transfer, DType stored, void* array, const BoxView& box,
                       bool accumulate) = 0;
};

class Peers;

class StepReplayer;

// What replays the steps of a run's devices. Null: steps are issued op by op; why_none says the reason if the backend
// could replay steps in other circumstances, and is empty otherwise.
struct ReplayerResult {
  std::shared_ptr<StepReplayer> replayer;
  std::string why_none;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Whether this process runs the device; its peers run the others. Null where there are none.
  [[nodiscard]] virtual bool runs_here(DeviceId) const { return true; }
  [[nodiscard]] virtual Peers* peers() { return nullptr; }
  // Whether its devices run attention to keys that come in blocks.
  [[nodiscard]] virtual bool runs_blocks() const { return false; }
  // How the elements of a tensor lie in memory.
  [[nodiscard]] virtual DType stored(DType type) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Device> make_device(DeviceId device) = 0;
  // Groups and messages; all their devices may belong to other processes. Every process makes the same ones in the same
  // order. Null where none of the devices runs here.
  [[nodiscard]] virtual std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) = 0;
  // A group whose members are in several processes, over something faster than messages between hosts; null, in every
  // process alike, where there is none. `processes` [member]: where it runs, that of some in this one. `number`: the
  // group's, the same in every process.
  [[nodiscard]] virtual std::shared_ptr<Group> join_group([[maybe_unused]] const std::vector<DeviceId>& members,
                                                          [[maybe_unused]] const std::vector<int>& processes,
                                                          [[maybe_unused]] std::uint64_t number,
                                                          [[maybe_unused]] Peers& peers,
                                                          [[maybe_unused]] Abort& abort) {
    return nullptr;
  }
  // This end of the messages between a device of this process and one of `process`, over something faster than messages
  // between hosts; null where there is none. `sends`: they come from `own`. `number`: the channel's, the same in every
  // process.
  [[nodiscard]] virtual std::unique_ptr<Messages> join_channel([[maybe_unused]] DeviceId own,
                                                               [[maybe_unused]] int process,
                                                               [[maybe_unused]] bool sends,
                                                               [[maybe_unused]] std::uint64_t number,
                                                               [[maybe_unused]] Peers& peers) {
    return nullptr;
  }
  // Whether begin_work has any effect.
  [[nodiscard]] virtual bool names_work() const { return false; }
  // Records what the devices do; nullptr where nothing can.
  [[nodiscard]] virtual WorkRecorder* recorder() { return nullptr; }
  [[nodiscard]] virtual std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) = 0;
  // See executor/device/step_replayer.h.
  [[nodiscard]] virtual ReplayerResult make_replayer(int /*devices*/, Abort&) { return {}; }
};

}  // namespace meshwright
