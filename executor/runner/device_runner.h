// SPDX-License-Identifier: Apache-2.0
// One logical device: interprets its instruction list on its own thread, with its own memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/plan/program/program.h"
#include "core/plan/program/timeline.h"
#include "executor/base/initial_values.h"
#include "executor/base/memory_pool.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"
#include "executor/device/backend.h"
#include "executor/device/step_replayer.h"
#include "executor/runner/prepared_program.h"

namespace meshwright {

// What the devices of one run share. Immutable once the threads run, except for what synchronises itself.
struct RunContext {
  RunContext(const Graph& graph, const Program& program, const RunOptions& options, Backend& backend);

  const Graph& graph;
  const Program& program;
  const RunOptions options;
  Backend& backend;
  const InitialValues initial_values;
  std::vector<PreparedExecutable> executables;
  std::vector<std::vector<std::string>> work_names;  // [executable][op]; empty where work is not named
  Abort abort;
  Channels channels;
  std::vector<std::unique_ptr<Messages>> messages;  // [channel]
  // [stage][axis][rank]: the group of the device of that rank along that axis; members share one.
  std::vector<std::vector<std::vector<std::shared_ptr<Group>>>> groups;
};

struct TimedSpan {
  int step;
  Span::Kind kind;
  StageId stage;
  MicrobatchId microbatch;
  Clock::time_point begin, end;
};

class DeviceRunner {
 public:
  DeviceRunner(RunContext& context, DeviceId device);

  // On the device's own thread: the memory it will use is then first touched there.
  void initialise();
  void run_step(int step, bool record);
  // Instead of run_step, once one was run (device_replay.cpp): what all later steps ask for is captured. False where
  // that took new memory: then it must not be replayed, and is to be captured anew after another step.
  [[nodiscard]] bool capture_step(StepReplayer& replayer);
  void replay_step(StepReplayer& replayer, int step, bool record);
  void abandon() noexcept { backend_->abandon(); }  // after a failed run

  // After the run.
  [[nodiscard]] const std::vector<TimedSpan>& spans() const { return spans_; }
  // [microbatch] of the last step; empty unless this is the device that speaks for the stage owning the loss.
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  [[nodiscard]] Bytes live_memory() const { return pool_.live(); }
  [[nodiscard]] Bytes peak_memory() const { return pool_.peak(); }
  // The elements of a persistent buffer's tile, waiting for what is still to be done.
  [[nodiscard]] std::vector<double> persistent(BufferId buffer) const;

 private:
  // A buffer's value for one microbatch.
  struct Value {
    std::optional<Block> block;
    bool clear = false;  // an accumulator that counts as zero whatever its storage holds: its first use overwrites it
  };

  // The device in the mesh of one of its stages, which may have other axes than those of others.
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
  void make_input(const Input& input, int step, void* numbers) const;
  void make_input(const Input& input, int step, std::vector<std::byte>& bytes) const;  // as it is stored
  void capture_input(const Input& input, void* to);
  void make_captured_inputs(int step);
  [[nodiscard]] std::vector<void*> places() const;  // of all values there are

  void issue();
  void complete();
  void run(const Instruction& instruction);
  void bind(const StageExecutable& executable, const PreparedExecutable& prepared, MicrobatchId microbatch);
  void compute(const LocalOp& op, const PreparedOp& prepared, std::span<const std::int64_t> begin,
               std::int64_t microbatch);
  void reshard(const StageExecutable& executable, const LocalOp& op);
  void exchange(const Instruction& instruction);
  void await(const std::vector<int>& receives);
  void define_received(BufferId buffer, const std::vector<int>& receives);
  void send(int transfer);
  void receive(int transfer);
  [[nodiscard]] int begin_span();
  void end_span(Span::Kind kind, StageId stage, MicrobatchId microbatch, int begin);
  void date_spans();
  [[nodiscard]] const Place& place_in(StageId stage) const;

  [[nodiscard]] Block allocate(const LocalTensor& local);
  [[nodiscard]] Value& value(BufferId buffer, MicrobatchId microbatch);
  [[nodiscard]] void* defined(BufferId buffer, MicrobatchId microbatch);  // cleared if it counts as zero
  [[nodiscard]] std::size_t root(int slot) const {
    return static_cast<std::size_t>(roots_[static_cast<std::size_t>(slot)]);
  }
  [[nodiscard]] void* data(int slot) const { return storage_[root(slot)].data; }

  RunContext& context_;
  const Program& program_;
  const DeviceId device_;
  std::vector<Place> places_;  // its stages, ascending
  std::unique_ptr<Device> backend_;
  MemoryPool pool_;
  std::vector<std::vector<Value>> values_;  // [buffer][microbatch], empty for other devices' buffers
  std::vector<std::vector<std::vector<std::int64_t>>> begins_;  // [executable][op][axis]
  // Of the current Run, by slot: whose storage it shares; the storage; the value this belongs to (null for others).
  std::span<const int> roots_;
  std::vector<Block> storage_;
  std::vector<Value*> bound_;
  std::vector<void*> inputs_, outputs_;  // operands of the current op
  int step_ = 0;
  bool record_ = false;
  std::vector<TimedSpan> spans_;
  // Of this step: spans whose times are still marks.
  struct MarkedSpan {
    Span::Kind kind;
    StageId stage;
    MicrobatchId microbatch;
    int begin, end;
  };
  std::vector<MarkedSpan> marked_;
  // Of what was captured.
  struct CapturedInput {
    Input input;
    void* host;                   // what each replay brings to the device
    std::vector<std::byte> next;  // what is to be there in the next
  };
  StepReplayer* replayer_ = nullptr;  // while it captures
  std::vector<CapturedInput> captured_inputs_;
  std::vector<MarkedSpan> captured_spans_;
  int made_inputs_of_ = -1;         // the step
  std::vector<std::byte> staging_;  // host numbers on their way to the device
  std::vector<double> losses_;
};

}  // namespace meshwright
