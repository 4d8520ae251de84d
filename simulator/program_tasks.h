// SPDX-License-Identifier: Apache-2.0
// What the builders of a program's graph share: classes and streams made when they are first needed, messages, the
// issuing of work, and the walk through all instruction lists at once.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "simulator/program_graph.h"

namespace meshwright {

// A device at an instruction of its list.
struct AtInstruction {
  DeviceId device;
  int index;
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
  [[nodiscard]] bool represents_itself(DeviceId device) const {
    return folded.representative[device.index()] == device;
  }

  StreamId add_stream(Stream::Kind kind, DeviceId device, DeviceId peer);
  TaskClassId class_for(const TaskClass& wanted);
  TaskId add(TaskClassId task_class, StreamId stream, MicrobatchId microbatch, const std::vector<TaskId>& after,
             const ProgramTask& of);

  void begin_step();
  // The message of a transfer; absent where that of another transfer, which is alike, stands for it. `memory_at_end`:
  // see TaskClass.
  std::optional<TaskId> send(int transfer, int instruction, const std::vector<TaskId>& after,
                             std::int64_t memory_at_end = 0);
  // The message that brings a device what `transfer` says; absent: not sent yet in this step.
  [[nodiscard]] std::optional<TaskId> message_of(int transfer) const;

  const Program& program;
  const ProgramTimes& times;
  const ProgramGraphOptions& options;
  const FoldedDevices folded;
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
  std::vector<std::optional<StreamId>> channel_;          // [channel]
  std::vector<std::optional<TaskClassId>> latest_class_;  // [channel] of its latest message
  std::vector<int> message_;                              // [transfer] task of this step, or -1
};

// Tells devices what to do (simulator/dispatch.h). Does nothing without a controller.
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
  void walk_step();  // once through all lists

 protected:
  // `places`: of one device, or of all (representatives) of a stage that are at the same Run.
  virtual void run(const std::vector<AtInstruction>& places) = 0;
  virtual void post(const AtInstruction& exchange) = 0;    // sends
  virtual void arrive(const AtInstruction& exchange) = 0;  // all that it receives is sent
  virtual void free(const AtInstruction& place) = 0;
  virtual void end(DeviceId device) = 0;

  ProgramTasks& tasks_;
  std::vector<DeviceId> devices_;  // representatives

 private:
  void advance(DeviceId device);
  bool all_sent(DeviceId device, const Instruction& exchange);
  void notify(const Instruction& exchange);
  void meet(const AtInstruction& place);

  struct Device {
    int next = 0;
    int missing = 0;  // messages that its Exchange still waits for
    bool posted = false;
  };
  struct Waiting {  // for a message
    DeviceId device;
    int next;  // in the same list, or -1
  };
  std::vector<bool> meets_;                          // [executable]
  std::vector<std::size_t> members_;                 // [stage] representatives
  std::vector<std::vector<AtInstruction>> arrived_;  // [stage]
  std::vector<Device> device_;
  std::vector<int> first_waiting_;  // [transfer] in waiting_, or -1
  std::vector<Waiting> waiting_;
  std::deque<DeviceId> queue_;
  std::vector<AtInstruction> alone_;
};

// Runs in pieces: program_graph with options.overlap.
[[nodiscard]] ProgramGraph overlapped_graph(ProgramTasks& tasks);

}  // namespace meshwright
