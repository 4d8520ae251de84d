// SPDX-License-Identifier: Apache-2.0
// What the builders of a program's graph share: classes and streams made when they are first needed, messages, the
// issuing of work, and the walk through all instruction lists at once.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/base/indexed_vector.h"
#include "simulator/program/program_graph.h"

namespace meshwright {

// A device at an instruction of its list.
struct AtInstruction {
  DeviceId device;
  int index;
};

// Where a device stops on the way through its list: at a Run, an Exchange, or an Await, which is an Exchange that sends
// nothing and receives what one that does not wait has left to it. Small and side by side, as walks go through all
// lists at once.
struct Stop {
  enum class Kind : std::uint8_t {
    Run,
    Meeting,  // a Run with collectives
    Exchange,
    Await,
  } kind;
  int instruction;
  int executable;                 // of a Run
  MicrobatchId microbatch;        // of a Run
  std::uint32_t sends, receives;  // its first, in ProgramStops; they end where those of the next stop begin
};
struct AtStop {
  DeviceId device;
  int stop;
};

[[nodiscard]] TaskKind kind_of(const StageExecutable& executable);

class ProgramTasks {
 public:
  ProgramTasks(const Program& program, const ProgramTimes& times, const ProgramGraphOptions& options);

  [[nodiscard]] const Instruction& at(const AtInstruction& place) const {
    return program.devices[place.device.index()][static_cast<std::size_t>(place.index)];
  }
  [[nodiscard]] const StageExecutable& executable_of(const Instruction& run) const {
    return program.executables[static_cast<std::size_t>(run.executable)];
  }
  [[nodiscard]] DeviceId representative(DeviceId device) const {
    return options.folded == nullptr ? device : options.folded->representative[device.index()];
  }
  [[nodiscard]] bool represents_itself(DeviceId device) const { return representative(device) == device; }
  // The transfer whose message stands for that of `transfer`.
  [[nodiscard]] int message_for(int transfer) const {
    return options.folded == nullptr ? transfer : options.folded->message[static_cast<std::size_t>(transfer)];
  }

  // The transfer whose message that of `transfer` goes along with, or itself.
  [[nodiscard]] int leader_of(int transfer) const {
    return options.flows == nullptr || options.flows->along.empty()
               ? transfer
               : options.flows->along[static_cast<std::size_t>(transfer)];
  }

  StreamId add_stream(Stream::Kind kind, DeviceId device, DeviceId peer);
  TaskClassId class_for(const TaskClass& wanted);
  // `of` is kept where options.name_tasks asks for it.
  TaskId add(TaskClassId task_class, StreamId stream, MicrobatchId microbatch, std::span<const TaskId> after,
             const ProgramTask& of) {
    if (options.name_tasks) made.of.push_back(of);
    return made.graph.add(task_class, stream, microbatch, after);
  }

  // What all messages of one transfer are. `memory_at_end`: see TaskClass.
  struct Message {
    TaskClassId task_class;
    StreamId stream;
    MicrobatchId microbatch;
  };
  Message message(int transfer, std::int64_t memory_at_end = 0);

  const Program& program;
  const ProgramTimes& times;
  const ProgramGraphOptions& options;
  ProgramGraph made;

 private:
  struct Hash {
    std::size_t operator()(const TaskClass& key) const;
  };
  struct Equal {
    bool operator()(const TaskClass& a, const TaskClass& b) const;
  };

  std::unordered_map<TaskClass, int, Hash, Equal> classes_;
  std::array<int, 256> recent_{};  // classes that were asked for, or -1
  Channels channels_;
  std::vector<int> channel_stream_;  // [channel] or -1
  std::vector<int> latest_class_;    // [channel] of its latest message, or -1
};

// Tells devices what to do (simulator/program/dispatch.h). Does nothing without a controller.
class Issuer {
 public:
  explicit Issuer(ProgramTasks& tasks);
  void begin_step();
  // Adds to `after` what an instruction has to wait for.
  void issue(const AtInstruction& place, std::vector<TaskId>& after);
  // `done` [device]: what the whole step of the device waits for.
  void end_step(int step, const std::vector<std::vector<TaskId>>& done);

 private:
  struct Host {
    std::optional<DeviceId> first;   // its first device
    std::optional<StreamId> stream;  // its own issuing
    std::optional<TaskId> call;      // of this step
    std::vector<DeviceId> loss;      // devices whose result is fetched
  };
  struct Device {
    int host = 0, runs = 0, exchanges = 0;  // of this step so far; exchanges since the last Run
    bool called = false;
  };
  TaskId add(StreamId stream, SimTime duration, const AtInstruction* place, const std::vector<TaskId>& after);
  StreamId stream_of(int host);
  StreamId own_stream_of(int host);

  ProgramTasks& tasks_;
  const Controller* controller_ = nullptr;
  std::vector<Host> hosts_;
  std::vector<Device> devices_;
  std::optional<StreamId> single_;
  // By host, stage of the device's lists, and numbers of Runs and Exchanges.
  std::map<std::tuple<int, int, int, int>, TaskId> issued_;
};

// Goes through all lists at once, devices in turn and each up to its next Run, so that tasks come in about the order in
// which they begin. A device passes an Exchange when all it receives has been sent; Runs with collectives are met by
// all devices of their stage.
class ProgramWalk {
 public:
  explicit ProgramWalk(ProgramTasks& tasks);
  virtual ~ProgramWalk() = default;
  void build();  // all steps

 protected:
  // Called for each device before a step, while its list is at hand: its stops are those from `first` on.
  virtual void prepare(DeviceId device, int first) = 0;
  virtual void prepared() = 0;  // all of them
  // `places`: of one device, or of all (representatives) of a stage that are at the same Run.
  virtual void run(std::span<const AtStop> places) = 0;
  // An Exchange or an Await: it sends; all that it receives is sent.
  virtual void post(const AtStop& exchange) = 0;
  virtual void arrive(const AtStop& exchange) = 0;
  virtual void end(DeviceId device) = 0;
  // What the whole step of a device waits for; asked for where a controller issues the work.
  virtual void add_last(DeviceId device, std::vector<TaskId>& last) const = 0;
  virtual void end_step() {}  // all devices are at the end of their lists

  // The bytes of those buffers that do not persist.
  [[nodiscard]] std::int64_t bytes_of(const std::vector<BufferId>& buffers) const {
    std::int64_t bytes = 0;
    for (const BufferId buffer : buffers) bytes += bytes_[buffer];
    return bytes;
  }

  [[nodiscard]] const Stop& at(const AtStop& place) const { return stops_[place.stop]; }
  [[nodiscard]] AtInstruction instruction(const AtStop& place) const { return {place.device, at(place).instruction}; }
  // Transfers, those that have a message of their own only.
  [[nodiscard]] std::span<const int> sends(int stop) const {
    return {sends_.data() + stops_[stop].sends, sends_.data() + stops_[stop + 1].sends};
  }
  [[nodiscard]] std::span<const int> receives(int stop) const {
    return {receives_.data() + stops_[stop].receives, receives_.data() + stops_[stop + 1].receives};
  }
  // The message that one of `transfer`, which its Exchange posts next, goes along with; none: it goes by itself.
  [[nodiscard]] std::optional<TaskId> goes_along_with(int transfer) const;
  // To be called for everything that an Exchange sends.
  void sent(int transfer, TaskId message);
  // The message that brings what `transfer` says. REQUIRES: it is sent.
  [[nodiscard]] TaskId message_of(int transfer) const { return TaskId(message_[tasks_.message_for(transfer)]); }

  ProgramTasks& tasks_;
  Issuer issuer_;
  IndexedVector<BufferId, std::int64_t> bytes_;  // 0 of persistent ones
  std::vector<DeviceId> devices_;                // representatives
  IndexedVector<int, Stop> stops_;               // of all devices, and one behind the last
  std::vector<int> sends_, receives_;
  std::size_t members_met_ = 0;  // by all meetings of a step

 private:
  void walk_step();  // once through all lists
  void find_stops();
  void advance(DeviceId device);
  bool all_sent(const AtStop& exchange);
  void meet(const AtStop& place);
  void enqueue(DeviceId device);

  struct Device {
    int next = 0, end = 0;  // stops
    int missing = 0;        // messages that its Exchange still waits for
    bool posted = false;
  };
  struct Waiting {  // for a message
    DeviceId device;
    std::int32_t next;  // as Waiting's number in message_
  };
  static constexpr std::int32_t kNotSent = -1;
  std::vector<bool> meets_;                              // [executable]
  IndexedVector<StageId, std::size_t> members_;          // [stage] representatives
  IndexedVector<StageId, std::vector<AtStop>> arrived_;  // [stage]
  IndexedVector<DeviceId, Device> device_;
  // [transfer] the task of this step; kNotSent; or kNotSent - 1 - w: not sent, and waiting_[w] waits for it.
  IndexedVector<int, std::int32_t> message_;
  std::vector<Waiting> waiting_;
  std::vector<DeviceId> queue_;  // a ring; a device is in it once at most
  std::size_t first_ = 0, queued_ = 0;
};

// Runs in pieces: program_graph with options.overlap.
[[nodiscard]] ProgramGraph overlapped_graph(ProgramTasks& tasks);

}  // namespace meshwright
