// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/gpu_memory_need.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"
#include "executor/runner/prepared_program.h"
#include "kernels/cuda/products/products.h"

namespace meshwright {

namespace {

// What a MemoryPool has of its device, of which a block is known by its size alone.
class PoolModel {
 public:
  void take(double size) {
    OfSize& own = sizes_[size];
    own.most = std::max(own.most, ++own.live);
    live_ += size;
    live_pages_ += in_pages(size);
    if (live_ > peak_) {
      peak_ = live_;
      peak_pages_ = live_pages_;
    }
  }
  void give(double size) {
    --sizes_[size].live;
    live_ -= size;
    live_pages_ -= in_pages(size);
  }
  [[nodiscard]] double peak() const { return peak_; }
  [[nodiscard]] double peak_pages() const { return peak_pages_; }
  [[nodiscard]] double owned_pages() const {
    double all = 0.0;
    for (const auto& [size, of] : sizes_) all += static_cast<double>(of.most) * in_pages(size);
    return all;
  }

 private:
  struct OfSize {
    std::int64_t live = 0, most = 0;
  };
  std::map<double, OfSize> sizes_;
  double live_ = 0.0, live_pages_ = 0.0, peak_ = 0.0, peak_pages_ = 0.0;
};

// An arena's chunks: one is added where no chunk has room for what an op takes.
class ArenaModel {
 public:
  void take(double size) {
    if (size <= largest_) return;
    largest_ = std::max(size, kMinChunk);
    all_ += largest_;
  }
  [[nodiscard]] double all() const { return all_; }

 private:
  static constexpr double kMinChunk = 1 << 20;
  double largest_ = 0.0, all_ = 0.0;
};

class DeviceWalk {
 public:
  DeviceWalk(const Graph& graph, const Program& program, DeviceId device, const StoredType& stored)
      : graph_(graph), program_(program), device_(device), stored_(stored), prepared_(program.executables.size()) {}

  GpuMemoryNeed run(const MessageBuffers& messages) {
    for (const Buffer& buffer : program_.buffers)
      if (buffer.persistent && !buffer.on_host && program_.lies_on(buffer.stage, device_))
        pool_.take(size(buffer.local));
    for (const Instruction& instruction : list(device_)) {
      if (instruction.kind == Instruction::Kind::Run) run(instruction);
      if (instruction.kind == Instruction::Kind::Exchange) exchange(instruction);
      if (instruction.kind == Instruction::Kind::Free)
        for (const BufferId buffer : instruction.buffers)
          if (!program_.buffers[buffer.index()].on_host) pool_.give(size(program_.buffers[buffer.index()].local));
      for (const int transfer : instruction.receives) fetch(transfer);
    }
    GpuMemoryNeed need;
    need.tensors = Bytes(pool_.peak());
    need.pages = Bytes(pool_.peak_pages() - pool_.peak());
    need.kept = Bytes(pool_.owned_pages() - pool_.peak_pages());
    need.workspace = Bytes(arena_.all() + (multiplies_ ? static_cast<double>(kernels::cuda::kProductWorkspace) : 0.0));
    need.messages = messages.of(device_);
    return need;
  }

 private:
  using List = std::vector<Instruction>;
  [[nodiscard]] const List& list(DeviceId device) const { return program_.devices[device.index()]; }
  [[nodiscard]] double size(const LocalTensor& local) const {
    return static_cast<double>(local.elements() * size_of(stored_(local.dtype)));
  }
  [[nodiscard]] double size(const Transfer& transfer) const {
    double elements = 1.0;
    for (const std::int64_t extent : transfer.extent) elements *= static_cast<double>(extent);
    return elements * size_of(stored_(program_.buffers[transfer.source_buffer.index()].local.dtype));
  }
  [[nodiscard]] const Transfer& transfer(int number) const {
    return program_.transfers[static_cast<std::size_t>(number)];
  }

  const PreparedExecutable& prepared(int executable) {
    std::optional<PreparedExecutable>& known = prepared_[executable];
    if (!known) known = prepare(graph_, program_.executables[static_cast<std::size_t>(executable)]);
    return *known;
  }

  // As DeviceRunner::run.
  void run(const Instruction& instruction) {
    const StageExecutable& executable = program_.executables[static_cast<std::size_t>(instruction.executable)];
    const PreparedExecutable& how = prepared(instruction.executable);
    const auto slot = [&](int s) -> const StageExecutable::Slot& {
      return executable.slots[static_cast<std::size_t>(s)];
    };
    double squares = 0.0;  // sums of several gradients' squares run together
    for (const int s : how.inputs) pool_.take(size(slot(s).local));
    for (int i = 0; i < how.ops.count(); ++i) {
      const PreparedOp& op = how.ops[i];
      for (const int s : op.allocate)
        if (!slot(s).on_host) pool_.take(size(slot(s).local));
      if (op.call) {
        const double own = gpu_workspace(*op.call, stored_).si();
        if (op.call->kind == OpKind::SumSquares) squares += own;
        arena_.take(own);
        multiplies_ = multiplies_ || multiplies_by_library(op.call->kind);
      } else if (const LocalOp& local = executable.ops[static_cast<std::size_t>(i)];
                 local.is_collective() && !local.step->ring) {
        arena_.take(packed(local, slot(local.inputs[0]).local, slot(local.outputs[0]).local));
      }
      for (const int s : op.release) pool_.give(size(slot(s).local));
    }
    arena_.take(squares);
  }

  // Parts that are not contiguous are packed before a collective, and unpacked after it.
  [[nodiscard]] double packed(const LocalOp& op, const LocalTensor& in, const LocalTensor& out) const {
    switch (op.step->kind) {
      case ReshardStep::Kind::ReduceScatter:
      case ReshardStep::Kind::AllGather:
      case ReshardStep::Kind::AllToAll:
        return size(in) + size(out);  // the whole, with its padding, or what leaves and what comes
      default:
        return 0.0;
    }
  }

  // As DeviceRunner::define_received.
  void exchange(const Instruction& instruction) {
    for (const BufferId buffer : instruction.buffers) {
      const Buffer& of = program_.buffers[buffer.index()];
      if (of.persistent) continue;
      std::vector<MicrobatchId> defined;
      for (const int number : instruction.receives)
        if (const Transfer& t = transfer(number);
            t.destination_buffer == buffer && std::find(defined.begin(), defined.end(), t.microbatch) == defined.end())
          defined.push_back(t.microbatch);
      for (std::size_t i = 0; i < defined.size(); ++i) pool_.take(size(of.local));
    }
  }

  // A message from another GPU is fetched as it was packed.
  void fetch(int number) {
    if (transfer(number).source != device_) arena_.take(size(transfer(number)));
  }

  const Graph& graph_;
  const Program& program_;
  const DeviceId device_;
  const StoredType& stored_;
  IndexedVector<int, std::optional<PreparedExecutable>> prepared_;  // [executable]
  PoolModel pool_;
  ArenaModel arena_;
  bool multiplies_ = false;
};

}  // namespace

GpuMemoryNeed gpu_memory_need(const Graph& graph, const Program& program, DeviceId device, const StoredType& stored,
                              const MessageBuffers& messages) {
  return DeviceWalk(graph, program, device, stored).run(messages);
}

GpuMemoryNeed gpu_memory_need(const Graph& graph, const Program& program, DeviceId device, const StoredType& stored) {
  return gpu_memory_need(graph, program, device, stored, MessageBuffers(program, {device}, stored));
}

}  // namespace meshwright
