// SPDX-License-Identifier: Apache-2.0
// What a Program runs on: the memory and kernels of each logical device, the collectives of each group, the messages of
// each channel. DeviceRunner interprets instructions in these terms, whatever stands behind them.
//
// A device's work is done in the order in which it was asked for, at the latest when finish() or read() returns; work
// that is queued may be done later than the call. Pointers are of the device's memory unless they are called `host`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/graph/graph.h"
#include "executor/base/abort.h"
#include "executor/base/clock.h"
#include "executor/base/memory_pool.h"
#include "executor/base/scratch.h"
#include "executor/base/work_recorder.h"
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

// One logical device, used by one thread at a time.
class Device : public Storage {
 public:
  virtual void clear(void* data, std::size_t size) = 0;
  virtual void copy(void* to, const void* from, std::size_t size) = 0;
  virtual void write(void* to, const void* host, std::size_t size) = 0;
  // Whether the device's memory is the host's, who may write it without asking.
  [[nodiscard]] virtual bool is_host() const { return false; }
  virtual void read(void* host, const void* from, std::size_t size) = 0;  // waits
  // Operands lie as Backend::stored says of their types. `call` stays where it is until the work is done: ops may wait
  // for those that come next.
  virtual void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
                      const OpMoment& moment) = 0;
  virtual void copy_box(DType stored, std::span<const std::int64_t> extent, const void* from,
                        std::span<const std::int64_t> from_strides, void* to,
                        std::span<const std::int64_t> to_strides) = 0;
  // The same, adding to what is there.
  virtual void add_box(DType stored, std::span<const std::int64_t> extent, const void* from,
                       std::span<const std::int64_t> from_strides, void* to,
                       std::span<const std::int64_t> to_strides) = 0;
  // out (n) = the sum or maximum of the parts in their order, rounded once; `out` may be one of them.
  virtual void reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
                      kernels::Reduction reduction) = 0;
  // For what is done on this device and with others, between calls of it.
  [[nodiscard]] virtual Scratch& scratch() = 0;
  // Writes the number to `into` by the next finish().
  virtual void read_later(double* into, DType stored, const void* scalar) = 0;

  // What follows is this work (executor/base/work_names.h), for whoever records; no work is inside another.
  virtual void begin_work(const std::string&) {}
  virtual void end_work() {}

  // The moment at which all that was asked for so far is done: its number until the next finish() but one.
  virtual int mark() = 0;
  virtual void finish() = 0;  // waits; the marks since the finish() before can then be asked for
  // Other devices work with this one: finish() ends with Aborted where one of them has failed, since what this one
  // waits for may then never come.
  virtual void heed(const Abort&) {}
  // How its user gives back memory that it keeps for later: asked where the device finds none for its own work.
  virtual void when_short(std::function<void()>) {}
  // The run has failed. What is still under way has a moment to end; where it does not, nothing is waited for any more.
  virtual void abandon() noexcept {}
  [[nodiscard]] virtual Clock::time_point time_of(int mark) const = 0;
};

// The devices along one axis of a mesh; members call the same operations in the same order, each with its own Device.
// Shapes are those of Communicator (executor/host/communicator.h). `out` may be `in` of an all_reduce.
class Group {
 public:
  virtual ~Group() = default;
  virtual void all_reduce(int member, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                          kernels::Reduction reduction) = 0;
  virtual void reduce_scatter(int member, Device& device, DType stored, const void* in, void* out, std::int64_t outer,
                              std::int64_t inner, kernels::Reduction reduction) = 0;
  virtual void all_gather(int member, Device& device, DType stored, const void* in, void* out, std::int64_t outer,
                          std::int64_t inner) = 0;
  virtual void all_to_all(int member, Device& device, DType stored, const void* in, void* out,
                          std::span<const std::int64_t> in_shape, int split_dim, int join_dim) = 0;
  // The n elements of member `root`, to all.
  virtual void broadcast(int member, Device& device, DType stored, void* data, std::int64_t n, int root) = 0;
};

// Messages from one device to another. Sending waits for nobody; the box is free again when the sender's work so far is
// done. What is received is there for all work of the receiver that is asked for later.
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

// Of the devices of a run; null where their steps are issued op by op, and why, where there is something to say of it.
struct MadeReplayer {
  std::shared_ptr<StepReplayer> replayer;
  std::string why_none;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Whether this process runs the device; its peers run the others. Null where there are none.
  [[nodiscard]] virtual bool runs_here(DeviceId) const { return true; }
  [[nodiscard]] virtual Peers* peers() { return nullptr; }
  // How the elements of a tensor lie in memory.
  [[nodiscard]] virtual DType stored(DType type) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Device> make_device(DeviceId device) = 0;
  // Groups and messages, whose devices may all be those of others: peers make the same ones in the same order. Null
  // where no device of them runs here.
  [[nodiscard]] virtual std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) = 0;
  // The leaders of a group's parts, one in each of `processes`, joined by something faster than messages of their
  // hosts; null where there is nothing. `leader`: of this process. `number`: of the group, as every process counts
  // them.
  [[nodiscard]] virtual std::shared_ptr<Group> join_leaders([[maybe_unused]] DeviceId leader,
                                                            [[maybe_unused]] const std::vector<int>& processes,
                                                            [[maybe_unused]] std::uint64_t number,
                                                            [[maybe_unused]] Peers& peers) {
    return nullptr;
  }
  // Whether work is to be named.
  [[nodiscard]] virtual bool names_work() const { return false; }
  // Who sees what its devices do; nullptr where nobody can.
  [[nodiscard]] virtual WorkRecorder* recorder() { return nullptr; }
  [[nodiscard]] virtual std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) = 0;
  // See executor/device/step_replayer.h.
  [[nodiscard]] virtual MadeReplayer make_replayer(int /*devices*/, Abort&) { return {}; }
};

}  // namespace meshwright
