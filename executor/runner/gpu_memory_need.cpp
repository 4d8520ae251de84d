// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/gpu_memory_need.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/runner/prepared_program.h"
#include "kernels/cuda/products/products.h"

namespace meshwright {

namespace {

// What a MemoryPool has of its device, of which a block is known by its size alone.
class PoolModel {
 public:
  // The number of a size.
  int number_of(double size) {
    const auto [at, is_new] = numbers_.try_emplace(size, static_cast<int>(sizes_.size()));
    if (is_new) sizes_.push_back({size, in_pages(size)});
    return at->second;
  }
  void take(int number) {
    OfSize& own = sizes_[static_cast<std::size_t>(number)];
    own.most = std::max(own.most, ++own.live);
    live_ += own.size;
    live_pages_ += own.pages;
    if (live_ > peak_) {
      peak_ = live_;
      peak_pages_ = live_pages_;
    }
  }
  void give(int number) {
    OfSize& own = sizes_[static_cast<std::size_t>(number)];
    --own.live;
    live_ -= own.size;
    live_pages_ -= own.pages;
  }
  [[nodiscard]] double peak() const { return peak_; }
  [[nodiscard]] double peak_pages() const { return peak_pages_; }
  [[nodiscard]] double owned_pages() const {
    double all = 0.0;
    for (const OfSize& of : sizes_) all += static_cast<double>(of.most) * of.pages;
    return all;
  }

 private:
  struct OfSize {
    double size, pages;
    std::int64_t live = 0, most = 0;
  };
  std::map<double, int> numbers_;
  std::vector<OfSize> sizes_;
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
      : graph_(graph),
        program_(program),
        device_(device),
        stored_(stored),
        blocks_(program.executables.size()),
        number_of_(program.buffers.size(), -1) {}

  GpuMemoryNeed run(const MessageBuffers& messages) {
    for (const Buffer& buffer : program_.buffers)
      if (buffer.persistent && !buffer.on_host && program_.lies_on(buffer.stage, device_))
        pool_.take(pool_.number_of(size(buffer.local)));
    for (const Instruction& instruction : program_.devices[device_.index()]) {
      if (instruction.kind == Instruction::Kind::Run)
        for (const Block& block : blocks_of(instruction.executable))
          block.taken ? pool_.take(block.number) : pool_.give(block.number);
      if (instruction.kind == Instruction::Kind::Exchange) exchange(instruction);
      if (instruction.kind == Instruction::Kind::Free)
        for (const BufferId buffer : instruction.buffers)
          if (!program_.buffers[buffer.index()].on_host) pool_.give(number_of(buffer));
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
  [[nodiscard]] double size(const LocalTensor& local) const {
    return static_cast<double>(local.elements() * size_of(stored_(local.dtype)));
  }
  [[nodiscard]] const Transfer& transfer(int number) const {
    return program_.transfers[static_cast<std::size_t>(number)];
  }

  [[nodiscard]] int number_of(BufferId buffer) {
    int& number = number_of_[buffer.index()];
    if (number < 0) number = pool_.number_of(size(program_.buffers[buffer.index()].local));
    return number;
  }

  // What a Run takes and gives back, in its order.
  struct Block {
    int number;  // of its size
    bool taken;
  };
  const std::vector<Block>& blocks_of(int executable) {
    std::optional<std::vector<Block>>& known = blocks_[executable];
    if (!known) known = walk(program_.executables[static_cast<std::size_t>(executable)]);
    return *known;
  }

  // As DeviceRunner::run. What its ops work in is the same in each Run: the arena has it after the first.
  std::vector<Block> walk(const StageExecutable& executable) {
    const PreparedExecutable how = prepare(graph_, executable);
    const auto slot = [&](int s) -> const StageExecutable::Slot& {
      return executable.slots[static_cast<std::size_t>(s)];
    };
    std::vector<Block> blocks;
    const auto add = [&](int s, bool taken) { blocks.push_back({pool_.number_of(size(slot(s).local)), taken}); };
    double squares = 0.0;  // sums of several gradients' squares run together
    for (const int s : how.inputs) add(s, true);
    for (int i = 0; i < how.ops.count(); ++i) {
      const PreparedOp& op = how.ops[i];
      for (const int s : op.allocate)
        if (!slot(s).on_host) add(s, true);
      if (op.call) {
        const double own = gpu_workspace(*op.call, stored_).si();
        if (op.call->kind == OpKind::SumSquares) squares += own;
        arena_.take(own);
        multiplies_ = multiplies_ || multiplies_by_library(op.call->kind);
      } else if (const LocalOp& local = executable.ops[static_cast<std::size_t>(i)];
                 local.is_collective() && !local.step->ring) {
        arena_.take(packed(local, slot(local.inputs[0]).local, slot(local.outputs[0]).local));
      }
      for (const int s : op.release) add(s, false);
    }
    arena_.take(squares);
    return blocks;
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
      for (std::size_t i = 0; i < defined.size(); ++i) pool_.take(number_of(buffer));
    }
  }

  // A message from another GPU is fetched as it was packed.
  void fetch(int number) {
    if (transfer(number).source != device_) arena_.take(message_bytes(program_, transfer(number), stored_));
  }

  const Graph& graph_;
  const Program& program_;
  const DeviceId device_;
  const StoredType& stored_;
  PoolModel pool_;
  IndexedVector<int, std::optional<std::vector<Block>>> blocks_;  // [executable]
  std::vector<int> number_of_;                                    // [buffer] of its size; -1: not known yet
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
