// SPDX-License-Identifier: Apache-2.0
// One logical device: interprets its instruction list on its own thread, with its own memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan/program/program.h"
#include "core/plan/program/timeline.h"
#include "executor/base/memory_pool.h"
#include "executor/base/run_result.h"
#include "executor/device/step_replayer.h"
#include "executor/runner/run_context.h"
#include "executor/weights/checkpoint.h"

namespace meshwright {

struct TimedSpan {
  int step;
  Span::Kind kind;
  StageId stage;
  MicrobatchId microbatch;
  Clock::time_point begin, end;
};

// A step of a run: its number, from 0, whether its times are kept, and whether no other comes after it.
struct StepTurn {
  int step;
  bool recorded, last;
};

class DeviceRunner {
 public:
  DeviceRunner(RunContext& context, DeviceId device);

  // On the device's own thread: the memory it will use is then first touched there.
  void initialise();
  void run_step(const StepTurn& turn);
  // After a first run_step: captures the work of one step without doing it (device_replay.cpp). False if the step
  // allocated new memory: then it must not be replayed, and a later call may capture it again.
  // `number`: the device's among those of its process.
  [[nodiscard]] bool capture_step(StepReplayer& replayer, int number);
  void replay_step(StepReplayer& replayer, int number, const StepTurn& turn);
  void cancel() noexcept { backend_->cancel(); }  // after a failed run

  // After the run.
  [[nodiscard]] const std::vector<TimedSpan>& spans() const { return spans_; }
  // [microbatch] of the last step; empty unless this device reports the loss: the first of the stage that owns it.
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  [[nodiscard]] DeviceId device() const { return device_; }
  [[nodiscard]] Bytes peak_memory() const { return pool_.peak(); }
  [[nodiscard]] std::optional<GpuMemory> gpu_memory() const { return backend_->gpu_memory(); }
  [[nodiscard]] const std::vector<KeptTile>& kept() const { return kept_; }  // of the last step
  [[nodiscard]] const OpTimes& op_times() const { return op_times_; }        // by RunOptions::op_times
  // Between steps: what the device is about, such as "writing a checkpoint".
  void begin_other(const char* what) { other_ = what; }
  // What it does, or did when its thread ended: "device 1 was receiving 'x' of micro-batch 2 from device 0, in step 4".
  // REQUIRES: called by its own thread, or after it.
  [[nodiscard]] std::string where() const;
  // The parts of parameters and states that no device before this one has. Waits for the device.
  [[nodiscard]] std::vector<StateTile> state() const;
  // The elements of a persistent buffer's tile. Waits for the device.
  [[nodiscard]] std::vector<double> persistent(BufferId buffer) const;

 private:
  // A buffer's value for one microbatch.
  struct Value {
    std::optional<Block> block;
    bool clear = false;  // an accumulator that counts as zero whatever its storage holds: its first use overwrites it
  };

  // The device's place in the mesh of one of its stages. Stages may have meshes of different shapes.
  struct Place {
    StageId stage;
    int rank;
    std::vector<int> coordinates;
  };

  // A graph input of one microbatch.
  struct Input {
    const LocalTensor* local;
    StageId stage;
    MicrobatchId microbatch;
  };

  template <class Fill>
  void write(const LocalTensor& local, void* to, Fill fill);
  template <class Fill>
  void make(const LocalTensor& local, Fill fill, std::vector<std::byte>& bytes) const;
  void fill_initially(const Buffer& buffer, void* host) const;
  void make_input(const Input& input, int step, void* numbers) const;
  void make_input(const Input& input, int step, std::vector<std::byte>& bytes) const;  // as it is stored
  void write_input(const Input& input, void* to);
  [[nodiscard]] int host_threads() const;  // that a device may have for its inputs
  void capture_input(const Input& input, void* to);
  void make_captured_inputs(int step);
  [[nodiscard]] std::vector<void*> addresses() const;  // of all values, null for those that do not exist

  void issue();
  void complete();
  void run(const Instruction& instruction);
  void bind(const StageExecutable& executable, const PreparedExecutable& prepared, MicrobatchId microbatch);
  void compute(const StageExecutable& executable, const LocalOp& op, const PreparedOp& prepared,
               std::span<const std::int64_t> begin, std::int64_t microbatch);
  void keep(const StageExecutable& executable, const LocalOp& op, MicrobatchId microbatch);
  void reshard(const StageExecutable& executable, const LocalOp& op);
  // Attention whose keys and values travel around a ring (ring_attention.cpp). REQUIRES: inputs_ and outputs_ are set.
  void attend_in_ring(const StageExecutable& executable, const LocalOp& op, const PreparedOp& prepared,
                      const OpMoment& moment);
  void exchange(const Instruction& instruction);
  void await(const std::vector<int>& receives);
  void define_received(BufferId buffer, const std::vector<int>& receives);
  void send(int transfer);
  void receive(int transfer);
  [[nodiscard]] int begin_span();
  void end_span(Span::Kind kind, StageId stage, MicrobatchId microbatch, int begin);
  [[nodiscard]] std::string text_of(const Instruction& instruction) const;
  void date_spans();
  [[nodiscard]] static std::vector<Place> places_of(const Program& program, DeviceId device);
  [[nodiscard]] const Place& place_in(StageId stage) const;
  [[nodiscard]] std::vector<std::int64_t> begin_of(int executable, int op) const;

  [[nodiscard]] std::size_t stored_size(const LocalTensor& local) const;
  [[nodiscard]] Block allocate(const LocalTensor& local);
  [[nodiscard]] Value& value(BufferId buffer, MicrobatchId microbatch);
  [[nodiscard]] void* defined(BufferId buffer, MicrobatchId microbatch);  // cleared if it counts as zero
  [[nodiscard]] const StageExecutable& executable_of(int number) const {
    return program_.executables[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] const Transfer& transfer_of(int number) const {
    return program_.transfers[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] static const LocalTensor& local_of(const StageExecutable& executable, int slot) {
    return executable.slots[static_cast<std::size_t>(slot)].local;
  }
  [[nodiscard]] static BufferId buffer_of(const StageExecutable& executable, int slot) {
    return *executable.slots[static_cast<std::size_t>(slot)].buffer;
  }
  [[nodiscard]] int root(int slot) const { return (*roots_)[slot]; }
  [[nodiscard]] void* data(int slot) const { return storage_[root(slot)].data; }

  RunContext& context_;
  const Program& program_;
  const DeviceId device_;
  const std::vector<Place> places_;  // its stages, ascending
  std::unique_ptr<Device> backend_;
  MemoryPool pool_, host_pool_;                                        // host_pool_: of buffers on the host
  IndexedVector<BufferId, std::vector<Value>> values_;                 // [microbatch], empty for other devices' buffers
  IndexedVector<int, std::vector<std::vector<std::int64_t>>> begins_;  // [executable][op][axis]
  // For the current Run, by slot: the slot whose storage it shares; the storage; its value (null for temporaries).
  const IndexedVector<int, int>* roots_ = nullptr;
  IndexedVector<int, Block> storage_;
  IndexedVector<int, Value*> bound_;
  std::vector<void*> inputs_, outputs_;  // operands of the current op
  int step_ = 0;
  bool record_ = false, last_ = false;
  std::vector<TimedSpan> spans_;
  // A span of this step, whose times are still marks.
  struct MarkedSpan {
    Span::Kind kind;
    StageId stage;
    MicrobatchId microbatch;
    int begin, end;
  };
  std::vector<MarkedSpan> marked_;
  // An op of this step, whose times are still marks.
  struct MarkedOp {
    int executable, op, begin, end;
  };
  std::vector<MarkedOp> marked_ops_;
  OpTimes op_times_;
  // What where() tells of: null and -1 between steps and between ops.
  const Instruction* at_ = nullptr;
  int at_op_ = -1, at_transfer_ = -1;
  const char* other_ = "making the initial values";
  struct CapturedInput {
    Input input;
    void* host;                   // each replay copies from here to the device
    std::vector<std::byte> next;  // the elements for the next replay
  };
  StepReplayer* replayer_ = nullptr;  // while it captures
  std::vector<CapturedInput> captured_inputs_;
  std::vector<MarkedSpan> captured_spans_;
  int made_inputs_of_ = -1;         // the step whose inputs are in captured_inputs_
  std::vector<std::byte> staging_;  // elements on the way from the host to the device
  std::vector<double> losses_;
  std::vector<KeptTile> kept_;
};

}  // namespace meshwright
