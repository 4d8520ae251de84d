// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "core/plan/lowering.h"

namespace meshwright {

namespace {

// Lists of transfer numbers by what makes or needs them.
struct Ports {
  // [stage][phase: 0 forward, 1 backward][microbatch][rank]
  std::vector<std::array<std::vector<std::vector<std::vector<int>>>, 2>> sends, receives;
  // Once per step: [stage][rank]
  std::vector<std::vector<std::vector<int>>> gradient_sends, gradient_receives, weight_sends, weight_receives;
  std::vector<std::vector<std::vector<int>>> part_sends, part_receives, norm_sends, norm_receives;
};

class InstructionBuilder {
 public:
  explicit InstructionBuilder(LoweringState& state)
      : state_(state), program_(state.program), stages_(static_cast<int>(program_.stages.size())) {}

  void build() {
    // Program devices are numbered over the stages' devices in order; the plan says which device of the cluster each
    // one is.
    for (const StagePlan& stage : state_.plan.stages)
      for (const int number : stage.devices) host_.push_back(state_.plan.cluster.host_of_device(number));
    make_ports();
    find_last_uses();
    const Schedule schedule =
        make_schedule(program_.schedule, state_.stages.feeding.stages_after, program_.microbatches);
    for (int stage = 0; stage < stages_; ++stage) {
      const std::vector<ScheduledRun>& runs = schedule[index(stage)];
      const auto ends = ends_after_exchanges(stage, runs);
      for (int rank = 0; rank < devices(stage); ++rank) build_device(stage, rank, runs, ends);
    }
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int devices(int stage) const { return static_cast<int>(program_.stages[index(stage)].devices.size()); }
  DeviceId device(int stage, int rank) const { return program_.stages[index(stage)].devices[index(rank)]; }

  std::vector<int> add_transfers(const Crossing& crossing, int microbatch, const std::vector<TileCopy>& copies) {
    std::vector<int> numbers;
    const DType dtype = state_.graph.tensor(crossing.tensor).dtype;
    for (const TileCopy& copy : copies) {
      double elements = 1;
      for (const std::int64_t size : copy.extent) elements *= static_cast<double>(size);
      const DeviceId from = device(crossing.from, copy.source_rank), to = device(crossing.to, copy.destination_rank);
      numbers.push_back(static_cast<int>(program_.transfers.size()));
      program_.transfers.push_back({from, to, crossing.source, crossing.destination, MicrobatchId(microbatch),
                                    copy.source_offset, copy.destination_offset, copy.extent, false,
                                    Bytes(elements * size_of(dtype)), host_[from.index()] != host_[to.index()]});
    }
    return numbers;
  }

  std::vector<TileCopy> copies_of(const Crossing& crossing) const {
    const auto& source = program_.buffers[crossing.source.index()].local.spec;
    const auto& destination = program_.buffers[crossing.destination.index()].local.spec;
    return tile_copies(state_.graph.tensor(crossing.tensor).dims, source, state_.mesh(crossing.from), destination,
                       state_.mesh(crossing.to));
  }

  void make_ports() {
    const auto per_rank = [&](int stage) { return std::vector<std::vector<int>>(index(devices(stage))); };
    for (int stage = 0; stage < stages_; ++stage) {
      const std::vector<std::vector<std::vector<int>>> phase(index(program_.microbatches), per_rank(stage));
      ports_.sends.push_back({phase, phase});
      ports_.receives.push_back({phase, phase});
      for (auto* once :
           {&ports_.gradient_sends, &ports_.gradient_receives, &ports_.weight_sends, &ports_.weight_receives,
            &ports_.part_sends, &ports_.part_receives, &ports_.norm_sends, &ports_.norm_receives})
        once->push_back(per_rank(stage));
    }
    const bool trains = program_.schedule != ScheduleKind::Inference;
    for (const Crossing& crossing : state_.crossings) {
      if (!trains && crossing.phase != Phase::Forward) continue;
      const std::size_t phase = crossing.phase == Phase::Forward ? 0 : 1;
      const auto copies = copies_of(crossing);
      for (int m = 0; m < program_.microbatches; ++m) {
        const auto numbers = add_transfers(crossing, m, copies);
        for (std::size_t i = 0; i < copies.size(); ++i) {
          ports_.sends[index(crossing.from)][phase][index(m)][index(copies[i].source_rank)].push_back(numbers[i]);
          ports_.receives[index(crossing.to)][phase][index(m)][index(copies[i].destination_rank)].push_back(numbers[i]);
        }
      }
    }
    if (!trains) return;
    const auto once = [&](const std::vector<Crossing>& crossings, auto& sends, auto& receives) {
      for (const Crossing& crossing : crossings) {
        const auto copies = copies_of(crossing);
        const auto numbers = add_transfers(crossing, 0, copies);
        for (std::size_t i = 0; i < copies.size(); ++i) {
          sends[index(crossing.from)][index(copies[i].source_rank)].push_back(numbers[i]);
          receives[index(crossing.to)][index(copies[i].destination_rank)].push_back(numbers[i]);
        }
      }
    };
    once(state_.gradient_crossings, ports_.gradient_sends, ports_.gradient_receives);
    once(state_.weight_crossings, ports_.weight_sends, ports_.weight_receives);
    if (!state_.norm_exchange) return;
    const std::size_t first_part = program_.transfers.size();
    once(state_.norm_exchange->gathered, ports_.part_sends, ports_.part_receives);
    for (std::size_t t = first_part; t < program_.transfers.size(); ++t) program_.transfers[t].accumulate = true;
    once(state_.norm_exchange->spread, ports_.norm_sends, ports_.norm_receives);
  }

  // When a value of one microbatch may go on its stage: after which Run, and whether only after that Run's results were
  // sent.
  struct LastUse {
    bool backward = false;
    bool after_send = false;
    std::vector<int> sent_to = {};  // stages
  };
  void find_last_uses() {
    last_use_.resize(program_.buffers.size());
    const bool trains = program_.schedule != ScheduleKind::Inference;
    for (const ProgramStage& stage : program_.stages)
      if (trains && stage.backward)
        for (const auto& slot : program_.executables[index(*stage.backward)].slots)
          if (slot.buffer) last_use_[slot.buffer->index()].backward = true;
    for (const Crossing& crossing : state_.crossings) {
      LastUse& use = last_use_[crossing.source.index()];
      use.sent_to.push_back(crossing.to);
      if (crossing.phase == Phase::Backward || !use.backward) use.after_send = true;
    }
  }

  // Per-microbatch buffers of a stage that end with the given pass, before or after its results are sent.
  std::vector<BufferId> ending(int stage, bool backward, bool after_send) const {
    const bool trains = program_.schedule != ScheduleKind::Inference;
    std::vector<BufferId> found;
    for (const auto& [key, id] : state_.values) {
      const Buffer& buffer = program_.buffers[id.index()];
      if (key.first != stage || buffer.persistent || (!trains && made_in_backward(key.second))) continue;
      const LastUse& use = last_use_[id.index()];
      if (use.backward == backward && use.after_send == after_send) found.push_back(id);
    }
    return found;
  }
  bool made_in_backward(TensorId tensor) const {
    const auto producer = state_.graph.tensor(tensor).producer;
    return producer && state_.graph.op(*producer).phase == Phase::Backward;
  }

  void exchange(std::vector<Instruction>& list, std::vector<int> sends, std::vector<int> receives) {
    if (sends.empty() && receives.empty()) return;
    Instruction instruction{Instruction::Kind::Exchange, -1, MicrobatchId(0), std::move(sends),
                            std::move(receives),         {}};
    for (const int number : instruction.receives) {
      const Transfer& transfer = program_.transfers[index(number)];
      instruction.microbatch = transfer.microbatch;
      if (transfer.accumulate) continue;
      auto& defined = instruction.buffers;
      if (std::find(defined.begin(), defined.end(), transfer.destination_buffer) == defined.end())
        defined.push_back(transfer.destination_buffer);
    }
    list.push_back(std::move(instruction));
  }
  static void free(std::vector<Instruction>& list, int microbatch, std::vector<BufferId> buffers) {
    if (!buffers.empty())
      list.push_back({Instruction::Kind::Free, -1, MicrobatchId(microbatch), {}, {}, std::move(buffers)});
  }
  static void run(std::vector<Instruction>& list, const std::optional<int>& executable, int microbatch) {
    if (executable) list.push_back({Instruction::Kind::Run, *executable, MicrobatchId(microbatch), {}, {}, {}});
  }

  // The Exchange in which what the run number `i` of a stage has made goes to stage `to`; number e is before the run
  // number e, and the last one after all runs.
  //
  // An Exchange may wait for all its peers, so a message must be at both ends where neither keeps the other from
  // getting there. Under 1f1b that is the tick in which the receiver's run begins: each Exchange has the ticks after
  // the begin of the run before it, up to that of the run after it, so whatever one waits for has earlier ticks.
  // Between stages that are one apart it is the next Exchange, between others a later one. Under the other schedules
  // every message goes one way for a whole phase, and the next Exchange will do.
  std::size_t exchange_of(int stage, const std::vector<ScheduledRun>& runs, std::size_t i, int to) const {
    std::size_t e = i + 1;
    if (program_.schedule != ScheduleKind::OneFOneB) return e;
    const std::vector<int>& after = state_.stages.feeding.stages_after;
    const int read = tick_of(runs[i], after[index(to)]);
    while (e < runs.size() && tick_of(runs[e], after[index(stage)]) < read) ++e;
    return e;
  }

  // Buffers of a microbatch that end with an Exchange.
  struct Ending {
    int microbatch;
    std::vector<BufferId> buffers;
  };
  // [exchange]
  std::vector<std::vector<Ending>> ends_after_exchanges(int stage, const std::vector<ScheduledRun>& runs) const {
    std::vector<std::vector<Ending>> ends(runs.size() + 1);
    const std::array<std::vector<BufferId>, 2> sent = {ending(stage, false, true), ending(stage, true, true)};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const int m = runs[i].microbatch.value;
      for (const BufferId buffer : sent[runs[i].pass == ScheduledRun::Pass::Backward]) {
        std::size_t last = i + 1;
        for (const int to : last_use_[buffer.index()].sent_to) last = std::max(last, exchange_of(stage, runs, i, to));
        if (ends[last].empty() || ends[last].back().microbatch != m) ends[last].push_back({m, {}});
        ends[last].back().buffers.push_back(buffer);
      }
    }
    return ends;
  }

  void build_device(int stage, int rank, const std::vector<ScheduledRun>& runs,
                    const std::vector<std::vector<Ending>>& ends) {
    const ProgramStage& own = program_.stages[index(stage)];
    auto& list = program_.devices[device(stage, rank).index()];
    const std::array<std::vector<BufferId>, 2> used = {ending(stage, false, false), ending(stage, true, false)};
    std::vector<std::vector<int>> sends(runs.size() + 1);  // [exchange]
    const auto exchange_number = [&](std::size_t e, const std::vector<int>& receives) {
      exchange(list, std::move(sends[e]), receives);
      for (const Ending& ending : ends[e]) free(list, ending.microbatch, ending.buffers);
    };
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const bool backward = runs[i].pass == ScheduledRun::Pass::Backward;
      const int m = runs[i].microbatch.value;
      exchange_number(i, ports_.receives[index(stage)][backward][index(m)][index(rank)]);
      run(list, backward ? own.backward : own.forward, m);
      free(list, m, used[backward]);
      for (const int t : ports_.sends[index(stage)][backward][index(m)][index(rank)]) {
        const StageId to = program_.stage_of_device[program_.transfers[index(t)].destination.index()];
        sends[exchange_of(stage, runs, i, to.value)].push_back(t);
      }
    }
    exchange_number(runs.size(), {});
    if (program_.schedule == ScheduleKind::Inference) return;
    finish_step(stage, rank, list);
  }

  void finish_step(int stage, int rank, std::vector<Instruction>& list) {
    const ProgramStage& own = program_.stages[index(stage)];
    run(list, own.sync, 0);
    exchange(list, ports_.gradient_sends[index(stage)][index(rank)],
             ports_.gradient_receives[index(stage)][index(rank)]);
    std::vector<BufferId> done;
    if (state_.norm_exchange && state_.norm_exchange->whole.contains(stage)) exchange_norm(stage, rank, list, done);
    run(list, own.update, 0);
    for (const Crossing& crossing : state_.gradient_crossings) {
      if (crossing.from == stage && !program_.buffers[crossing.source.index()].persistent)
        done.push_back(crossing.source);
      if (crossing.to == stage) done.push_back(crossing.destination);
    }
    free(list, 0, std::move(done));
    exchange(list, ports_.weight_sends[index(stage)][index(rank)], ports_.weight_receives[index(stage)][index(rank)]);
  }

  // The parts of the stages below come first; the own one then goes up, and the sum of all down again. `done`: what
  // ends with the update.
  void exchange_norm(int stage, int rank, std::vector<Instruction>& list, std::vector<BufferId>& done) {
    const NormExchange& norm = *state_.norm_exchange;
    const BufferId whole = norm.whole.at(stage);
    const auto part = norm.part.find(stage);
    run(list, program_.stages[index(stage)].norm, 0);
    exchange(list, {}, ports_.part_receives[index(stage)][index(rank)]);
    exchange(list, ports_.part_sends[index(stage)][index(rank)], ports_.norm_receives[index(stage)][index(rank)]);
    if (part != norm.part.end() && part->second != whole) free(list, 0, {part->second});
    exchange(list, ports_.norm_sends[index(stage)][index(rank)], {});
    done.push_back(whole);
    for (const auto& [key, gradient] : norm.gradients)
      if (key.first == stage) done.push_back(gradient);
  }

  LoweringState& state_;
  Program& program_;
  int stages_;
  Ports ports_;
  std::vector<LastUse> last_use_;
  std::vector<int> host_;  // [device]
};

}  // namespace

void build_instructions(LoweringState& state) { InstructionBuilder(state).build(); }

}  // namespace meshwright
