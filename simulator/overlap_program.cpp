// SPDX-License-Identifier: Apache-2.0
// Runs in pieces, on the compute and communication streams of a device. What waits for what follows from buffers: who
// wrote a buffer last, who has read it since, which messages bring and take it.
#include <algorithm>
#include <array>
#include <optional>

#include "core/base/errors.h"
#include "simulator/buffer_uses.h"
#include "simulator/program_tasks.h"

namespace meshwright {

namespace {

using Side = BufferUses::Side;
using enum BufferUses::Side;
constexpr std::size_t kSides = BufferUses::kSides;

Side side_of(const Piece& piece) {
  if (piece.kind == Piece::Kind::Compute) return kCompute;
  return piece.of_gradients ? kGradients : kPasses;
}

class RunsInPieces final : public ProgramWalk {
 public:
  explicit RunsInPieces(ProgramTasks& tasks)
      : ProgramWalk(tasks),
        pieces_(*tasks.options.overlap),
        issuer_(tasks),
        uses_(tasks),
        device_(tasks.program.devices.size()),
        groups_(tasks.program.stages.size()) {
    MW_CHECK(pieces_.size() == tasks.program.executables.size(), "pieces of {} executables for {}", pieces_.size(),
             tasks.program.executables.size());
    for (const std::vector<Piece>& pieces : pieces_) classes_.emplace_back(pieces.size());
    for (const Buffer& buffer : tasks.program.buffers)
      bytes_.push_back(buffer.persistent ? 0 : static_cast<std::int64_t>(buffer.local.bytes().si()));
    for (const DeviceId device : devices_)
      device_[device.index()].stream[kCompute] = tasks.add_stream(Stream::Kind::Compute, device, device);
  }

  void build() {
    ProgramGraph& made = tasks_.made;
    made.first_of_step = {0};
    for (int step = 0; step < tasks_.options.steps; ++step) {
      issuer_.begin_step();
      for (const DeviceId device : devices_)
        device_[device.index()].settled = device_[device.index()].received_until = 0;
      walk_step();
      std::vector<std::vector<TaskId>> done(device_.size());
      for (const DeviceId device : devices_)
        for (const auto& last : device_[device.index()].last)
          if (last) done[device.index()].push_back(*last);
      issuer_.end_step(step, done);
      made.first_of_step.push_back(static_cast<std::int32_t>(made.graph.size()));
    }
  }

 private:
  struct Device {
    std::array<std::optional<StreamId>, kSides> stream;
    std::array<std::optional<TaskId>, kSides> last;  // on each of them
    std::vector<TaskId> computations;
    std::vector<TaskId> issued;                              // what the next Run waits for
    std::vector<std::pair<BufferId, MicrobatchId>> leaving;  // freed by messages of the latest Exchange
    std::int64_t freed = 0;                                  // since the latest Run
    int settled = 0;                                         // instructions whose Frees are counted
    int received_until = 0;                                  // instructions whose received bytes are counted
    std::vector<TaskId> run;                                 // [piece] of the current Run
  };
  struct KnownClass {
    std::int64_t begin = 0, end = 0;
    std::optional<TaskClassId> known;
  };

  std::int64_t sum(const std::vector<BufferId>& buffers) const {
    std::int64_t bytes = 0;
    for (const BufferId buffer : buffers) bytes += bytes_[buffer.index()];
    return bytes;
  }

  StreamId stream(DeviceId id, Side side) {
    std::optional<StreamId>& known = device_[id.index()].stream[side];
    if (!known) known = tasks_.add_stream(Stream::Kind::Communication, id, id);
    return *known;
  }

  // Bytes that the end of a Run changes beyond its own: Frees up to the first Exchange, and what is received before the
  // next Run.
  std::int64_t settle(const AtInstruction& place) {
    Device& device = device_[place.device.index()];
    const std::vector<Instruction>& instructions = tasks_.program.devices[place.device.index()];
    std::int64_t bytes = 0;
    bool exchanged = false;
    int next = place.index + 1;
    for (; static_cast<std::size_t>(next) < instructions.size(); ++next) {
      const Instruction& instruction = instructions[static_cast<std::size_t>(next)];
      if (instruction.kind == Instruction::Kind::Run) break;
      if (instruction.kind == Instruction::Kind::Exchange) {
        bytes += sum(instruction.buffers);
        exchanged = true;
      } else if (!exchanged) {
        bytes -= sum(instruction.buffers);
        device.settled = next + 1;
      }
    }
    device.received_until = next;
    return bytes;
  }

  void run(const std::vector<AtInstruction>& places) override {
    const Instruction& instruction = tasks_.at(places.front());
    const auto e = static_cast<std::size_t>(instruction.executable);
    const std::vector<Piece>& pieces = pieces_[e];
    // The piece that the Run ends with.
    std::size_t final = pieces.size() - 1;
    while (final > 0 && pieces[final].kind != Piece::Kind::Compute) --final;
    if (pieces[final].kind != Piece::Kind::Compute) final = pieces.size() - 1;

    for (const AtInstruction& place : places) {
      Device& device = device_[place.device.index()];
      issuer_.issue(place, device.issued);
      device.run.clear();
      first_computation_.resize(device_.size());
      first_computation_[place.device.index()] = static_cast<int>(device.computations.size());
    }
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (pieces[p].kind == Piece::Kind::Compute) {
        for (const AtInstruction& place : places) {
          wait_for_piece(place, pieces[p], after_);
          add_piece(place, p, p == final, after_);
        }
      } else {
        for (const std::vector<std::size_t>& group : groups(places, instruction.executable, pieces[p].axis))
          add_collective(places, group, p, p == final);
      }
    }
    for (const AtInstruction& place : places) device_[place.device.index()].issued.clear();
  }

  void wait_for_piece(const AtInstruction& place, const Piece& piece, std::vector<TaskId>& after) {
    Device& device = device_[place.device.index()];
    const MicrobatchId microbatch = tasks_.at(place).microbatch;
    after.assign(device.issued.begin(), device.issued.end());
    for (const int p : piece.after) after.push_back(device.run[static_cast<std::size_t>(p)]);
    for (const BufferId buffer : piece.reads) uses_.wait_to_read({place.device, buffer, microbatch}, after);
    for (const BufferId buffer : piece.writes) uses_.wait_to_write({place.device, buffer, microbatch}, after);
    if (!piece.not_before) return;
    const int number = first_computation_[place.device.index()] + *piece.not_before;
    if (0 <= number && static_cast<std::size_t>(number) < device.computations.size())
      after.push_back(device.computations[static_cast<std::size_t>(number)]);
  }

  void add_piece(const AtInstruction& place, std::size_t p, bool final, const std::vector<TaskId>& after) {
    Device& device = device_[place.device.index()];
    const Instruction& instruction = tasks_.at(place);
    const auto e = static_cast<std::size_t>(instruction.executable);
    const Piece& piece = pieces_[e][p];
    const Side side = side_of(piece);
    std::int64_t begin = piece.memory_at_begin, end = piece.memory_at_end;
    if (p == 0) {
      begin += device.freed;
      end += device.freed;
      device.freed = 0;
    }
    if (final) end += settle(place);
    const TaskId task = tasks_.add(class_of(e, p, begin, end), stream(place.device, side), instruction.microbatch,
                                   after, {place.device.value, place.index, -1, static_cast<int>(p)});
    device.last[side] = task;
    device.run.push_back(task);
    if (side == kCompute) device.computations.push_back(task);
    for (const BufferId buffer : piece.reads) uses_.read({place.device, buffer, instruction.microbatch}, side, task);
    for (const BufferId buffer : piece.writes) uses_.write({place.device, buffer, instruction.microbatch}, task);
  }

  TaskClassId class_of(std::size_t e, std::size_t p, std::int64_t begin, std::int64_t end) {
    KnownClass& latest = classes_[e][p];
    if (latest.known && latest.begin == begin && latest.end == end) return *latest.known;
    const Piece& piece = pieces_[e][p];
    const StageExecutable& executable = tasks_.program.executables[e];
    TaskClass wanted{piece.kind == Piece::Kind::Compute ? kind_of(executable) : TaskKind::Collective, executable.stage,
                     piece.duration};
    wanted.memory_at_begin = begin;
    wanted.memory_at_end = end;
    latest = {begin, end, tasks_.class_for(wanted)};
    return *latest.known;
  }

  // --- collectives ---

  // Those of `places` that meet along the axis, each group once. Devices are alike where their groups are: the
  // representatives of a group's devices are a group.
  const std::vector<std::vector<std::size_t>>& groups(const std::vector<AtInstruction>& places, int executable,
                                                      int axis) {
    const StageId id = tasks_.program.executables[static_cast<std::size_t>(executable)].stage;
    const ProgramStage& stage = tasks_.program.stages[id.index()];
    auto& of_stage = groups_[id.index()];
    if (of_stage.empty()) of_stage.resize(static_cast<std::size_t>(std::max(1, stage.mesh.rank())));
    auto& known = of_stage[static_cast<std::size_t>(axis)];
    if (!known.empty()) return known;
    std::vector<bool> grouped(places.size(), false);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (grouped[i]) continue;
      const auto rank = std::find(stage.devices.begin(), stage.devices.end(), places[i].device) - stage.devices.begin();
      std::vector<std::size_t> group;
      for (const int member : stage.mesh.group(static_cast<int>(rank), axis)) {
        const DeviceId device = tasks_.folded.representative[stage.devices[static_cast<std::size_t>(member)].index()];
        const auto place = std::find_if(places.begin(), places.end(),
                                        [&](const AtInstruction& other) { return other.device == device; });
        MW_CHECK(place != places.end(), "device {} stands for one of another stage", device.value);
        group.push_back(static_cast<std::size_t>(place - places.begin()));
      }
      std::sort(group.begin(), group.end());
      group.erase(std::unique(group.begin(), group.end()), group.end());
      for (const std::size_t member : group) grouped[member] = true;
      known.push_back(std::move(group));
    }
    return known;
  }

  void add_collective(const std::vector<AtInstruction>& places, const std::vector<std::size_t>& group, std::size_t p,
                      bool final) {
    const AtInstruction& first = places[group.front()];
    const Instruction& instruction = tasks_.at(first);
    const Piece& piece = pieces_[static_cast<std::size_t>(instruction.executable)][p];
    const Side side = side_of(piece);
    if (group.size() == 1) {
      wait_for_piece(first, piece, after_);
      add_piece(first, p, final, after_);
      return;
    }
    together_.clear();
    for (const std::size_t member : group) {
      wait_for_piece(places[member], piece, after_);
      together_.insert(together_.end(), after_.begin(), after_.end());
      if (const auto& last = device_[places[member].device.index()].last[side]) together_.push_back(*last);
    }
    const StageId stage = tasks_.executable_of(instruction).stage;
    const TaskId join =
        tasks_.add(tasks_.class_for({TaskKind::Join, stage}), stream(first.device, side), instruction.microbatch,
                   together_, {first.device.value, first.index, -1, static_cast<int>(p)});
    after_.assign(1, join);
    for (const std::size_t member : group) add_piece(places[member], p, final, after_);
  }

  // --- messages ---

  void post(const AtInstruction& place) override {
    Device& device = device_[place.device.index()];
    const Instruction& exchange = tasks_.at(place);
    if (place.index >= device.received_until) begin_with(place);
    std::vector<TaskId> issued;
    issuer_.issue(place, issued);
    find_leaving(place);
    for (std::size_t i = 0; i < exchange.sends.size(); ++i) {
      const Transfer& transfer = tasks_.program.transfers[static_cast<std::size_t>(exchange.sends[i])];
      const BufferUses::At sent{place.device, transfer.source_buffer, transfer.microbatch};
      after_ = issued;
      if (device.last[kCompute]) after_.push_back(*device.last[kCompute]);
      uses_.wait_to_read(sent, after_);
      const std::int64_t left = last_of_[i] ? -bytes_[transfer.source_buffer.index()] : 0;
      if (const auto message = tasks_.send(exchange.sends[i], place.index, after_, left)) uses_.send(sent, *message);
    }
  }

  // The device's first Exchange has no Run before it that could count what it receives.
  void begin_with(const AtInstruction& place) {
    Device& device = device_[place.device.index()];
    device.received_until = place.index + 1;
    TaskClass wanted{TaskKind::Join, tasks_.program.stage_of_device[place.device.index()]};
    wanted.memory_at_end = sum(tasks_.at(place).buffers);
    if (wanted.memory_at_end == 0) return;
    device.last[kCompute] = tasks_.add(tasks_.class_for(wanted), stream(place.device, kCompute), MicrobatchId(0), {},
                                       {place.device.value, place.index, -1, -1});
  }

  // Which sends of the Exchange are the last of a buffer that is freed after it.
  void find_leaving(const AtInstruction& place) {
    Device& device = device_[place.device.index()];
    const std::vector<Instruction>& instructions = tasks_.program.devices[place.device.index()];
    const std::vector<int>& sends = tasks_.at(place).sends;
    device.leaving.clear();
    last_of_.assign(sends.size(), false);
    for (auto next = static_cast<std::size_t>(place.index) + 1;
         next < instructions.size() && instructions[next].kind == Instruction::Kind::Free; ++next)
      for (const BufferId buffer : instructions[next].buffers)
        for (std::size_t i = sends.size(); i-- > 0;) {
          const Transfer& transfer = tasks_.program.transfers[static_cast<std::size_t>(sends[i])];
          if (transfer.source_buffer != buffer || transfer.microbatch != instructions[next].microbatch ||
              tasks_.folded.message[static_cast<std::size_t>(sends[i])] != sends[i])
            continue;
          last_of_[i] = true;
          device.leaving.emplace_back(buffer, transfer.microbatch);
          break;
        }
  }

  void arrive(const AtInstruction& place) override {
    for (const int t : tasks_.at(place).receives) {
      const Transfer& transfer = tasks_.program.transfers[static_cast<std::size_t>(t)];
      uses_.receive({place.device, transfer.destination_buffer, transfer.microbatch}, *tasks_.message_of(t));
    }
  }

  void free(const AtInstruction& place) override {
    Device& device = device_[place.device.index()];
    if (place.index < device.settled) return;
    const Instruction& instruction = tasks_.at(place);
    for (const BufferId buffer : instruction.buffers)
      if (std::find(device.leaving.begin(), device.leaving.end(), std::pair(buffer, instruction.microbatch)) ==
          device.leaving.end())
        device.freed -= bytes_[buffer.index()];
  }

  void end(DeviceId) override {}

  const std::vector<std::vector<Piece>>& pieces_;
  Issuer issuer_;
  BufferUses uses_;
  std::vector<Device> device_;
  std::vector<std::int64_t> bytes_;                                         // [buffer]; 0 of persistent ones
  std::vector<std::vector<KnownClass>> classes_;                            // [executable][piece] the latest
  std::vector<std::vector<std::vector<std::vector<std::size_t>>>> groups_;  // [stage][axis]
  std::vector<int> first_computation_;                                      // [device] of the current Run
  std::vector<TaskId> after_, together_;
  std::vector<bool> last_of_;  // [send of the Exchange]
};

}  // namespace

ProgramGraph overlapped_graph(ProgramTasks& tasks) {
  RunsInPieces(tasks).build();
  return std::move(tasks.made);
}

}  // namespace meshwright
