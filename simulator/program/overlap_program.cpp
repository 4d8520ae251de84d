// SPDX-License-Identifier: Apache-2.0
// The graph with overlap: Runs in pieces, on the compute, communication and host streams of a device. What a piece
// waits for follows from its buffers: which task wrote a buffer last, which tasks have read it since, which messages
// bring and take it. Nothing else orders tasks of different streams.
#include <algorithm>
#include <array>
#include <optional>

#include "core/base/errors.h"
#include "simulator/program/buffer_uses.h"
#include "simulator/program/collective_groups.h"
#include "simulator/program/program_tasks.h"

namespace meshwright {

namespace {

using Side = BufferUses::Side;
using enum BufferUses::Side;
constexpr std::size_t kSides = BufferUses::kSides;

Side side_of(const Piece& piece) {
  if (piece.kind == Piece::Kind::Compute) return kCompute;
  if (piece.kind == Piece::Kind::HostCopy) return kHost;
  return piece.of_gradients ? kGradients : kPasses;
}

class RunsInPieces final : public ProgramWalk {
 public:
  explicit RunsInPieces(ProgramTasks& tasks)
      : ProgramWalk(tasks),
        pieces_(*tasks.options.overlap),
        uses_(tasks),
        groups_(tasks),
        device_(tasks.program.devices.size()) {
    MW_CHECK(pieces_.size() == tasks.program.executables.size(), "pieces of {} executables for {}", pieces_.size(),
             tasks.program.executables.size());
    for (const std::vector<Piece>& pieces : pieces_) classes_.emplace_back(pieces.size());
    for (const DeviceId device : devices_)
      device_[device].stream[kCompute] = tasks.add_stream(Stream::Kind::Compute, device, device);
  }

 private:
  struct Device {
    std::array<std::optional<StreamId>, kSides> stream;
    std::array<std::optional<TaskId>, kSides> last;  // on each of them
    std::vector<TaskId> computations;
    std::vector<TaskId> issued;  // dispatches that the next Run waits for
    std::int64_t freed = 0;      // since the latest Run, while its list is read
    std::vector<TaskId> run;     // [piece] of the current Run
    std::size_t values = 0;      // of the current Run's stage: BufferUses::At
    int first_computation = 0;   // of the current Run
  };
  struct KnownClass {
    std::int64_t begin = 0, end = 0;
    std::optional<TaskClassId> known;
  };
  // Bytes that change in addition to those of the pieces: at the begin of a Run's first piece and at the end of its
  // last one. For an Exchange that no Run precedes: the bytes it receives.
  struct StopBytes {
    std::int64_t begin = 0, end = 0;
  };

  void add_last(DeviceId device, std::vector<TaskId>& last) const override {
    for (const auto& task : device_[device].last)
      if (task) last.push_back(*task);
  }

  StreamId stream(DeviceId id, Side side) {
    std::optional<StreamId>& known = device_[id].stream[side];
    if (!known) known = tasks_.add_stream(Stream::Kind::Communication, id, id);
    return *known;
  }

  // --- bytes, in the order of a list ---

  // Up to which instruction the bytes of the list are already counted.
  struct InstructionCounts {
    std::size_t frees = 0, received = 0;  // instructions
  };

  void prepare(DeviceId id, int first) override {
    Device& device = device_[id];
    const std::vector<Instruction>& list = tasks_.program.devices[id.index()];
    InstructionCounts counted;
    std::vector<std::pair<BufferId, MicrobatchId>> leaving;  // freed when messages of the latest Exchange end
    stop_bytes_.resize(stops_.size());
    int stop = first;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Instruction& instruction = list[i];
      switch (instruction.kind) {
        case Instruction::Kind::Run:
          stop_bytes_[stop++] = {device.freed, bytes_behind(list, i, counted)};
          device.freed = 0;
          break;
        case Instruction::Kind::Exchange:
          stop_bytes_[stop++].begin = i < counted.received ? 0 : bytes_of(instruction.buffers);
          counted.received = std::max(counted.received, i + 1);
          find_leaving(list, i, leaving);
          break;
        case Instruction::Kind::Await:
          ++stop;
          break;
        case Instruction::Kind::Free:
          if (i < counted.frees) break;
          for (const BufferId buffer : instruction.buffers)
            if (std::find(leaving.begin(), leaving.end(), std::pair(buffer, instruction.microbatch)) == leaving.end())
              device.freed -= bytes_[buffer];
          break;
      }
    }
  }

  void prepared() override {
    const auto steps = static_cast<std::size_t>(tasks_.options.steps);
    std::size_t tasks = sends_.size();
    for (const Stop& stop : stops_)
      if (stop.executable >= 0) tasks += pieces_[static_cast<std::size_t>(stop.executable)].size();
    if (tasks_.made.graph.size() == 0) tasks_.made.graph.reserve(steps * tasks, 2 * steps * tasks);
  }

  // What the end of the Run at `i` changes in addition to its own bytes: Frees up to the first Exchange, and buffers
  // that are received before the next Run. They are counted here because an Exchange has no task of its own.
  std::int64_t bytes_behind(const std::vector<Instruction>& list, std::size_t i, InstructionCounts& counted) const {
    std::int64_t bytes = 0;
    bool exchanged = false;
    for (++i; i < list.size() && list[i].kind != Instruction::Kind::Run; ++i) {
      if (list[i].kind == Instruction::Kind::Exchange) {
        bytes += bytes_of(list[i].buffers);
        exchanged = true;
      } else if (!exchanged) {
        bytes -= bytes_of(list[i].buffers);
        counted.frees = i + 1;
      }
    }
    counted.received = i;
    return bytes;
  }

  // A buffer that is freed right after the Exchange at `i` may still be on its way: its bytes go when the last message
  // that sends it ends, not when the Free is reached.
  void find_leaving(const std::vector<Instruction>& list, std::size_t i,
                    std::vector<std::pair<BufferId, MicrobatchId>>& leaving) {
    leaving.clear();
    sent_.clear();
    for (const int t : list[i].sends)
      if (tasks_.message_for(t) == t) sent_.push_back({t, 0});
    for (++i; i < list.size() && list[i].kind == Instruction::Kind::Free; ++i)
      for (const BufferId buffer : list[i].buffers) {
        const auto last = std::find_if(sent_.rbegin(), sent_.rend(), [&](const auto& sent) {
          const Transfer& transfer = tasks_.program.transfers[static_cast<std::size_t>(sent.first)];
          return transfer.source_buffer == buffer && transfer.microbatch == list[i].microbatch;
        });
        if (last == sent_.rend()) continue;
        last->second = -bytes_[buffer];
        leaving.emplace_back(buffer, list[i].microbatch);
      }
    // The same in each step.
    if (tasks_.made.first_of_step.size() > 1) return;
    for (const auto& [t, bytes] : sent_) messages_.push_back(tasks_.message(t, bytes));
  }

  // --- Runs ---

  void run(std::span<const AtStop> places) override {
    const Stop& stop = at(places.front());
    const auto e = static_cast<std::size_t>(stop.executable);
    const std::vector<Piece>& pieces = pieces_[e];
    // The last computation counts as the end of the Run: collectives behind it end at times of their own.
    std::size_t final = pieces.size() - 1;
    while (final > 0 && pieces[final].kind != Piece::Kind::Compute) --final;
    if (pieces[final].kind != Piece::Kind::Compute) final = pieces.size() - 1;

    for (const AtStop& place : places) {
      Device& device = device_[place.device];
      if (tasks_.options.controller) issuer_.issue(instruction(place), device.issued);
      device.run.clear();
      device.values = uses_.first_of(place.device, tasks_.program.executables[e].stage);
      device.first_computation = static_cast<int>(device.computations.size());
    }
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (pieces[p].kind != Piece::Kind::Collective) {
        for (const AtStop& place : places) {
          after_.clear();
          wait_for_piece(place, pieces[p], after_);
          add_piece(place, p, p == final, after_);
        }
      } else {
        for (const CollectiveGroups::Group& group : groups_.of(places, stop.executable, p, pieces[p].axis))
          add_collective(places, group, p, p == final);
      }
    }
    for (const AtStop& place : places) device_[place.device].issued.clear();
  }

  void wait_for_piece(const AtStop& place, const Piece& piece, std::vector<TaskId>& after) const {
    const Device& device = device_[place.device];
    const MicrobatchId microbatch = at(place).microbatch;
    after.insert(after.end(), device.issued.begin(), device.issued.end());
    for (const int p : piece.after) after.push_back(device.run[static_cast<std::size_t>(p)]);
    for (const BufferId buffer : piece.reads) uses_.wait_to_read({device.values, buffer, microbatch}, after);
    for (const BufferId buffer : piece.writes) uses_.wait_to_write({device.values, buffer, microbatch}, after);
    // A gather may not run further ahead than `prefetch` computations: otherwise all weights would be gathered at once.
    if (!piece.not_before) return;
    const int number = device.first_computation + *piece.not_before;
    if (0 <= number && static_cast<std::size_t>(number) < device.computations.size())
      after.push_back(device.computations[static_cast<std::size_t>(number)]);
  }

  // Bytes of a piece, with what changes beyond pieces.
  StopBytes piece_bytes(const AtStop& place, std::size_t p, bool final) const {
    const Piece& piece = pieces_[static_cast<std::size_t>(at(place).executable)][p];
    const StopBytes& beyond = stop_bytes_[place.stop];
    const std::int64_t before = p == 0 ? beyond.begin : 0;
    return {piece.memory_at_begin + before, piece.memory_at_end + before + (final ? beyond.end : 0)};
  }

  TaskId append(const AtStop& place, Side side, TaskClassId task_class, std::size_t p, std::span<const TaskId> after) {
    const Stop& stop = at(place);
    const TaskId task = tasks_.add(task_class, stream(place.device, side), stop.microbatch, after,
                                   {place.device.value, stop.instruction, -1, static_cast<int>(p)});
    device_[place.device].last[side] = task;
    return task;
  }

  void add_piece(const AtStop& place, std::size_t p, bool final, std::span<const TaskId> after) {
    const auto e = static_cast<std::size_t>(at(place).executable);
    const StopBytes bytes = piece_bytes(place, p, final);
    note_piece(place, p, append(place, side_of(pieces_[e][p]), class_of(e, p, bytes), p, after));
  }

  // Records that `task` is the piece, or ends it.
  void note_piece(const AtStop& place, std::size_t p, TaskId task) {
    Device& device = device_[place.device];
    const Stop& stop = at(place);
    const Piece& piece = pieces_[static_cast<std::size_t>(stop.executable)][p];
    const Side side = side_of(piece);
    device.run.push_back(task);
    if (side == kCompute) device.computations.push_back(task);
    for (const BufferId buffer : piece.reads) uses_.read({device.values, buffer, stop.microbatch}, side, task);
    for (const BufferId buffer : piece.writes) uses_.write({device.values, buffer, stop.microbatch}, task);
  }

  TaskClass class_of_piece(std::size_t e, std::size_t p, const StopBytes& bytes) const {
    const Piece& piece = pieces_[e][p];
    const StageExecutable& executable = tasks_.program.executables[e];
    const bool computes = piece.kind == Piece::Kind::Compute;
    const TaskKind moves = piece.kind == Piece::Kind::HostCopy ? TaskKind::HostCopy : TaskKind::Collective;
    TaskClass wanted{computes ? kind_of(executable) : moves, executable.stage, piece.duration};
    if (!computes) wanted.part_of = kind_of(executable);
    wanted.memory_at_begin = bytes.begin;
    wanted.memory_at_end = bytes.end;
    return wanted;
  }
  TaskClassId class_of(std::size_t e, std::size_t p, const StopBytes& bytes) {
    KnownClass& latest = classes_[e][p];
    // Most Runs of an executable repeat the bytes of the one before: the latest class saves the search for it.
    if (!latest.known || latest.begin != bytes.begin || latest.end != bytes.end)
      latest = {bytes.begin, bytes.end, tasks_.class_for(class_of_piece(e, p, bytes))};
    return *latest.known;
  }

  // --- collectives ---

  void add_collective(std::span<const AtStop> places, const CollectiveGroups::Group& group, std::size_t p, bool final) {
    const AtStop& first = places[group.members.front()];
    const auto e = static_cast<std::size_t>(at(first).executable);
    const Piece& piece = pieces_[e][p];
    const Side side = side_of(piece);
    after_.clear();
    for (const std::size_t member : group.members) {
      wait_for_piece(places[member], piece, after_);
      if (group.members.size() == 1) continue;
      // The Join is on the first member's stream only, so it must wait for the streams of all members.
      if (const auto& last = device_[places[member].device].last[side]) after_.push_back(*last);
    }
    if (group.members.size() > 1) {
      const StageId stage = tasks_.program.executables[e].stage;
      const TaskId join = append(first, side, tasks_.class_for({TaskKind::Join, stage}), p, after_);
      after_.assign(1, join);
    }
    if (group.route == TaskClass::kNoRoute) {
      for (const std::size_t member : group.members) add_piece(places[member], p, final, after_);
    } else {
      add_on_links(places, group, p, final);
    }
  }

  // The flow is that of the whole group, so only the first member's task is on the links. The tasks of the other
  // members take as long as they would alone; a Join then keeps their memory until the flow has ended.
  void add_on_links(std::span<const AtStop> places, const CollectiveGroups::Group& group, std::size_t p, bool final) {
    std::optional<TaskId> flow;
    for (const std::size_t member : group.members) {
      const AtStop& place = places[member];
      const auto e = static_cast<std::size_t>(at(place).executable);
      const Side side = side_of(pieces_[e][p]);
      const StopBytes bytes = piece_bytes(place, p, final);
      TaskClass own = class_of_piece(e, p, bytes);
      if (!flow) {
        own.route = group.route;
        own.latency = own.duration - group.on_links;
        flow = append(place, side, tasks_.class_for(own), p, after_);
        note_piece(place, p, *flow);
        continue;
      }
      own.memory_at_end = bytes.begin;
      append(place, side, tasks_.class_for(own), p, after_);
      TaskClass end{TaskKind::Join, own.stage};
      end.memory_at_end = bytes.end - bytes.begin;
      end.part_of = own.part_of;
      const TaskId last = *flow;
      note_piece(place, p, append(place, side, tasks_.class_for(end), p, {&last, 1}));
    }
  }

  // --- messages ---

  void post(const AtStop& place) override {
    if (at(place).kind == Stop::Kind::Await) return;
    Device& device = device_[place.device];
    const int stop = place.stop;
    begin_with(place, stop_bytes_[stop].begin);
    issued_.clear();
    if (tasks_.options.controller) issuer_.issue(instruction(place), issued_);
    for (std::size_t send = stops_[stop].sends; send < stops_[stop + 1].sends; ++send) {
      const Transfer& transfer = tasks_.program.transfers[static_cast<std::size_t>(sends_[send])];
      const StageId stage = tasks_.program.buffers[transfer.source_buffer.index()].stage;
      const BufferUses::At from{uses_.first_of(place.device, stage), transfer.source_buffer, transfer.microbatch};
      after_.assign(issued_.begin(), issued_.end());
      if (const std::optional<TaskId> leader = goes_along_with(sends_[send])) after_.push_back(*leader);
      if (device.last[kCompute]) after_.push_back(*device.last[kCompute]);
      uses_.wait_to_read(from, after_);
      const ProgramTasks::Message& own = messages_[send];
      const TaskId message = tasks_.add(own.task_class, own.stream, own.microbatch, after_,
                                        {place.device.value, at(place).instruction, sends_[send], -1});
      sent(sends_[send], message);
      uses_.send(from, message);
    }
  }

  // The device's first Exchange has no Run before it that could count what it receives.
  void begin_with(const AtStop& place, std::int64_t bytes) {
    if (bytes == 0) return;
    TaskClass wanted{TaskKind::Join, tasks_.program.stage_of_device[place.device.index()]};
    wanted.memory_at_end = bytes;
    device_[place.device].last[kCompute] =
        tasks_.add(tasks_.class_for(wanted), stream(place.device, kCompute), MicrobatchId(0), {},
                   {place.device.value, at(place).instruction, -1, -1});
  }

  void arrive(const AtStop& place) override {
    for (const int t : receives(place.stop)) {
      const Transfer& transfer = tasks_.program.transfers[static_cast<std::size_t>(t)];
      const StageId stage = tasks_.program.buffers[transfer.destination_buffer.index()].stage;
      uses_.receive({uses_.first_of(place.device, stage), transfer.destination_buffer, transfer.microbatch},
                    message_of(t));
    }
  }

  void end(DeviceId) override {}

  const std::vector<std::vector<Piece>>& pieces_;
  BufferUses uses_;
  CollectiveGroups groups_;
  IndexedVector<DeviceId, Device> device_;
  std::vector<std::vector<KnownClass>> classes_;  // [executable][piece] the latest
  IndexedVector<int, StopBytes> stop_bytes_;      // [stop]
  std::vector<ProgramTasks::Message> messages_;   // [send]
  std::vector<TaskId> after_, issued_;
  std::vector<std::pair<int, std::int64_t>> sent_;  // by one Exchange: transfer, bytes
};

}  // namespace

ProgramGraph overlapped_graph(ProgramTasks& tasks) {
  RunsInPieces(tasks).build();
  return std::move(tasks.made);
}

}  // namespace meshwright
