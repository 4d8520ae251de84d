// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"
#include "core/plan/lowering/lowering.h"
#include "core/plan/lowering/message_ticks.h"

namespace meshwright {

namespace {

// Lists of transfer numbers by what makes or needs them, [stage][device of the stage].
using PerDevice = IndexedVector<int, IndexedVector<int, std::vector<int>>>;
// The transfers of one copy: all copies of a crossing follow one another, microbatch by microbatch.
struct Port {
  int first;  // of microbatch 0, or where it would be
  int stride;
  int peer;   // the stage at the other end
  int round;  // TileMessage::round
  [[nodiscard]] int transfer(int microbatch) const { return first + microbatch * stride; }
};
struct Ports {
  // [stage][phase: 0 forward, 1 backward][place_of the stage's device]
  IndexedVector<int, std::array<IndexedVector<int, std::vector<Port>>, 2>> sends, receives;
  // The same of rounds after the first, within the stage that receives (core/plan/lowering/tile_messages.h).
  IndexedVector<int, std::array<IndexedVector<int, std::vector<Port>>, 2>> passed_on, taken_over;
  // Once per step.
  PerDevice copy_sends, copy_receives;  // the gradients of stages' copies
  PerDevice gradient_sends, gradient_receives, weight_sends, weight_receives;
  PerDevice part_sends, part_receives, norm_sends, norm_receives;  // between ranks
  PerDevice part_copies, norm_copies;                              // within one
};

class InstructionBuilder {
 public:
  InstructionBuilder(LoweringState& state, int microbatches, const KeptPart* part)
      : state_(state),
        part_(part),
        program_(state.program),
        stages_(static_cast<int>(program_.stages.size())),
        ticks_(state.plan, state.stages, microbatches) {
    program_.microbatches = microbatches;
    program_.transfers.clear();
    program_.devices.assign(program_.stage_of_device.size(), {});
  }

  // The result is PartialProgram::like.
  std::vector<int> build() {
    find_hosts();
    find_places();
    make_ports();
    find_last_uses();
    // All stages of a rank are on the same devices, which have one list of instructions each.
    for (std::size_t rank = 0; rank < ticks_.schedule().size(); ++rank) {
      std::vector<int> stages;
      for (int stage = 0; stage < stages_; ++stage)
        if (state_.stages.rank_of_stage[static_cast<std::size_t>(stage)] == static_cast<int>(rank))
          stages.push_back(stage);
      const Ends ends = find_ends(rank);
      for (int d = 0; d < devices(stages.front()); ++d)
        if (place_of(stages.front(), d) != kLeftOut) build_device(rank, stages, d, ends);
    }
    return std::move(like_);
  }

 private:
  static constexpr int kLeftOut = -1;
  // Where ports of the stage's device number d are: devices that a part leaves out have none.
  int place_of(int stage, int d) const { return place_[stage][d]; }
  const ProgramStage& stage_at(int stage) const { return program_.stages[static_cast<std::size_t>(stage)]; }
  const Transfer& transfer_at(int number) const { return program_.transfers[static_cast<std::size_t>(number)]; }
  int devices(int stage) const { return static_cast<int>(stage_at(stage).devices.size()); }
  DeviceId device(int stage, int d) const { return stage_at(stage).devices[static_cast<std::size_t>(d)]; }

  void find_places() {
    for (int stage = 0; stage < stages_; ++stage) {
      place_.emplace_back(static_cast<std::size_t>(devices(stage)), kLeftOut);
      int next = 0;
      for (int d = 0; d < devices(stage); ++d)
        if (part_ == nullptr || part_->devices[device(stage, d).index()]) place_.back()[d] = next++;
      places_.push_back(next);
    }
  }

  // The plan says which device of the cluster each device of the program is.
  void find_hosts() {
    host_.resize(program_.devices.size());
    for (int stage = 0; stage < stages_; ++stage)
      for (int d = 0; d < devices(stage); ++d)
        host_[device(stage, d).index()] =
            state_.plan.cluster.host_of_device(state_.stage_plan(stage).devices[static_cast<std::size_t>(d)]);
  }

  // The copies of a crossing that a partial program keeps, each with its transfer's number in the whole program of one
  // microbatch: in that order, so that kept_copies must be called once per crossing and in the same order as there.
  struct Copies {
    std::vector<const TileMessage*> kept;
    std::vector<int> like;  // [kept]
  };
  Copies kept_copies(const Crossing& crossing) {
    Copies copies;
    for (const TileMessage& message : state_.messages_of(crossing)) {
      const int like = next_like_++;
      if (part_ != nullptr && !part_->transfers[static_cast<std::size_t>(like)]) continue;
      copies.kept.push_back(&message);
      copies.like.push_back(like);
    }
    return copies;
  }

  // Their numbers.
  std::vector<int> add_transfers(const Crossing& crossing, int microbatch, const Copies& copies) {
    std::vector<int> numbers;
    numbers.reserve(copies.kept.size());
    const DType dtype = state_.graph.tensor(crossing.tensor).dtype;
    if (part_ != nullptr) like_.insert(like_.end(), copies.like.begin(), copies.like.end());
    const CrossMesh form = state_.form_of(crossing);
    for (const TileMessage* message : copies.kept) {
      const TileCopy& copy = message->copy;
      const bool within = message->round > 0;
      double elements = 1;
      for (const std::int64_t size : copy.extent) elements *= static_cast<double>(size);
      const DeviceId from = device(within ? crossing.to : crossing.from, copy.source_rank);
      const DeviceId to = device(crossing.to, copy.destination_rank);
      numbers.push_back(static_cast<int>(program_.transfers.size()));
      program_.transfers.push_back({from, to, within ? crossing.destination : crossing.source, crossing.destination,
                                    MicrobatchId(microbatch), copy.source_offset, copy.destination_offset, copy.extent,
                                    false, Bytes(elements * size_of(dtype)), host_[from.index()] != host_[to.index()],
                                    form});
    }
    return numbers;
  }

  void make_room_for_ports() {
    const auto per_device = [&](int stage) {
      return IndexedVector<int, std::vector<int>>(static_cast<std::size_t>(places_[stage]));
    };
    for (int stage = 0; stage < stages_; ++stage) {
      const IndexedVector<int, std::vector<Port>> none(static_cast<std::size_t>(places_[stage]));
      for (auto* ports : {&ports_.sends, &ports_.receives, &ports_.passed_on, &ports_.taken_over})
        ports->push_back({none, none});
      for (auto* once : {&ports_.copy_sends, &ports_.copy_receives, &ports_.gradient_sends, &ports_.gradient_receives,
                         &ports_.weight_sends, &ports_.weight_receives, &ports_.part_sends, &ports_.part_receives,
                         &ports_.norm_sends, &ports_.norm_receives, &ports_.part_copies, &ports_.norm_copies})
        once->push_back(per_device(stage));
    }
  }

  void make_ports() {
    make_room_for_ports();
    const auto add = [&](auto& ports, int stage, int d, const auto& port) {
      if (place_of(stage, d) != kLeftOut) ports[place_of(stage, d)].push_back(port);
    };
    const bool trains = program_.schedule != ScheduleKind::Inference;
    for (const Crossing& crossing : state_.crossings) {
      if (!trains && crossing.phase != Phase::Forward) continue;
      const std::size_t phase = crossing.phase == Phase::Forward ? 0 : 1;
      // The copies are the same for every microbatch.
      const Copies copies = kept_copies(crossing);
      const MicrobatchRange own = microbatches_of(program_.schedule, crossing.from, stages_, program_.microbatches);
      const int stride = static_cast<int>(copies.kept.size());
      const int first = static_cast<int>(program_.transfers.size()) - own.first * stride;
      for (int m = own.first; m < own.first + own.count; ++m) (void)add_transfers(crossing, m, copies);
      for (int i = 0; i < stride; ++i) {
        const auto& [copy, round] = *copies.kept[static_cast<std::size_t>(i)];
        const Port send{first + i, stride, crossing.to, round}, receive{first + i, stride, crossing.from, round};
        if (round == 0) {
          add(ports_.sends[crossing.from][phase], crossing.from, copy.source_rank, send);
          add(ports_.receives[crossing.to][phase], crossing.to, copy.destination_rank, receive);
        } else {
          add(ports_.passed_on[crossing.to][phase], crossing.to, copy.source_rank, send);
          add(ports_.taken_over[crossing.to][phase], crossing.to, copy.destination_rank, receive);
        }
      }
    }
    if (!trains) return;
    // `within`: where copies between stages of one rank go instead.
    const auto once = [&](const std::vector<Crossing>& crossings, PerDevice& sends, PerDevice& receives,
                          PerDevice* within) {
      for (const Crossing& crossing : crossings) {
        const Copies copies = kept_copies(crossing);
        const auto numbers = add_transfers(crossing, 0, copies);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const TileCopy& copy = copies.kept[i]->copy;
          if (within != nullptr && state_.stages.on_one_rank(crossing.from, crossing.to)) {
            add((*within)[crossing.from], crossing.from, copy.source_rank, numbers[i]);
            continue;
          }
          add(sends[crossing.from], crossing.from, copy.source_rank, numbers[i]);
          add(receives[crossing.to], crossing.to, copy.destination_rank, numbers[i]);
        }
      }
    };
    const std::size_t first_of_copies = program_.transfers.size();
    once(state_.copy_crossings, ports_.copy_sends, ports_.copy_receives, nullptr);
    for (std::size_t t = first_of_copies; t < program_.transfers.size(); ++t) program_.transfers[t].accumulate = true;
    once(state_.gradient_crossings, ports_.gradient_sends, ports_.gradient_receives, nullptr);
    once(state_.weight_crossings, ports_.weight_sends, ports_.weight_receives, nullptr);
    if (!state_.norm_exchange) return;
    const std::size_t first_part = program_.transfers.size();
    once(state_.norm_exchange->gathered, ports_.part_sends, ports_.part_receives, &ports_.part_copies);
    // Parts of the norm are added to the receiver's own part.
    for (std::size_t t = first_part; t < program_.transfers.size(); ++t) program_.transfers[t].accumulate = true;
    once(state_.norm_exchange->spread, ports_.norm_sends, ports_.norm_receives, &ports_.norm_copies);
  }

  const std::optional<int>& executable_of(const ScheduledRun& run) const {
    const ProgramStage& stage = program_.stages[run.stage.index()];
    switch (run.pass) {
      case Pass::Forward:
        return stage.forward;
      case Pass::Backward:
        return stage.backward;
      case Pass::BackwardInput:
        return stage.backward_input;
      case Pass::BackwardWeight:
        break;
    }
    return stage.backward_weight;
  }

  // The last pass that uses a value of one microbatch on its stage, if the stage's backward is whole and if it is
  // split, and the stages to which the pass that makes the value sends it.
  struct LastUse {
    Pass whole = Pass::Forward, halves = Pass::Forward;
    std::size_t made = 0;           // phase
    std::vector<int> sent_to = {};  // stages
  };
  void find_last_uses() {
    last_use_.resize(program_.buffers.size());
    const auto note = [&](const std::optional<int>& executable, Pass LastUse::*last, Pass pass) {
      if (!executable) return;
      for (const auto& slot : program_.executables[static_cast<std::size_t>(*executable)].slots)
        if (slot.buffer) last_use_[slot.buffer->index()].*last = pass;
    };
    for (const ProgramStage& stage : program_.stages) {
      note(stage.backward, &LastUse::whole, Pass::Backward);
      note(stage.backward_input, &LastUse::halves, Pass::BackwardInput);
      note(stage.backward_weight, &LastUse::halves, Pass::BackwardWeight);
    }
    for (const Crossing& crossing : state_.crossings) {
      LastUse& use = last_use_[crossing.source.index()];
      use.sent_to.push_back(crossing.to);
      use.made = crossing.phase == Phase::Forward ? 0 : 1;
    }
  }

  // Per-microbatch buffers of a stage whose last use is the given pass. A value that no backward uses ends with the
  // forward, whether the backward is whole or split: both read the same values of the forward.
  std::vector<BufferId> ending(int stage, Pass pass) const {
    const bool trains = program_.schedule != ScheduleKind::Inference;
    const bool splits = pass == Pass::Forward ? state_.stages.splits(stage) : pass != Pass::Backward;
    std::vector<BufferId> found;
    for (auto at = state_.values.lower_bound({stage, TensorId(0)});
         at != state_.values.end() && at->first.first == stage; ++at) {
      const auto& [key, id] = *at;
      const Buffer& buffer = program_.buffers[id.index()];
      if (buffer.persistent || (!trains && made_in_backward(key.second))) continue;
      const LastUse& use = last_use_[id.index()];
      if ((splits ? use.halves : use.whole) == pass) found.push_back(id);
    }
    return found;
  }
  bool made_in_backward(TensorId tensor) const {
    const auto producer = state_.graph.tensor(tensor).producer;
    return producer && state_.graph.op(*producer).phase == Phase::Backward;
  }

  // Only weights arrive so (declare_parameter_exchange), which are there from the beginning.
  [[nodiscard]] bool is_padded(BufferId id) const {
    const Buffer& buffer = program_.buffers[id.index()];
    return buffer.persistent && !divides(state_.graph.tensor(buffer.local.tensor).dims, buffer.local.spec,
                                         program_.stages[buffer.stage.index()].mesh);
  }

  void exchange(std::vector<Instruction>& list, std::vector<int> sends, std::vector<int> receives,
                bool waits = true) const {
    if (sends.empty() && receives.empty()) return;
    Instruction instruction{
        Instruction::Kind::Exchange, -1, MicrobatchId(0), std::move(sends), std::move(receives), {}, waits};
    for (const int number : instruction.receives) {
      const Transfer& transfer = transfer_at(number);
      instruction.microbatch = transfer.microbatch;
      // What is added to a buffer does not define it, nor does what leaves its padding as it is.
      if (transfer.accumulate || is_padded(transfer.destination_buffer)) continue;
      auto& defined = instruction.buffers;
      if (std::find(defined.begin(), defined.end(), transfer.destination_buffer) == defined.end())
        defined.push_back(transfer.destination_buffer);
    }
    list.push_back(std::move(instruction));
  }
  static void await(std::vector<Instruction>& list, int microbatch, std::vector<int> receives) {
    if (!receives.empty())
      list.push_back({Instruction::Kind::Await, -1, MicrobatchId(microbatch), {}, std::move(receives), {}});
  }
  static void free(std::vector<Instruction>& list, int microbatch, std::vector<BufferId> buffers) {
    if (!buffers.empty())
      list.push_back({Instruction::Kind::Free, -1, MicrobatchId(microbatch), {}, {}, std::move(buffers)});
  }
  static void run(std::vector<Instruction>& list, const std::optional<int>& executable, int microbatch) {
    if (executable) list.push_back({Instruction::Kind::Run, *executable, MicrobatchId(microbatch), {}, {}, {}});
  }

  // Buffers of a microbatch that end with an Exchange.
  struct Ending {
    int microbatch;
    std::vector<BufferId> buffers;
  };
  // Buffers that end on the devices of a rank.
  struct Ends {
    std::vector<std::vector<BufferId>> after_run;     // [run] of its microbatch
    std::vector<std::vector<Ending>> after_exchange;  // [exchange] sent there, after their last use
  };
  Ends find_ends(std::size_t rank) const {
    // There is one more Exchange than there are runs: the last follows the last run.
    const std::vector<ScheduledRun>& runs = ticks_.schedule()[rank];
    Ends ends{std::vector<std::vector<BufferId>>(runs.size()), std::vector<std::vector<Ending>>(runs.size() + 1)};
    // What ends with a run depends on its stage and pass alone.
    std::map<std::pair<int, Pass>, std::vector<BufferId>> known;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const int stage = runs[i].stage.value, m = runs[i].microbatch.value;
      const auto [entry, is_new] = known.try_emplace({stage, runs[i].pass});
      if (is_new) entry->second = ending(stage, runs[i].pass);
      for (const BufferId buffer : entry->second) {
        const LastUse& use = last_use_[buffer.index()];
        std::size_t sent = 0;
        for (const int to : use.sent_to) sent = std::max(sent, ticks_.sent_before(stage, use.made, m, to));
        // Sent before its last use has ended, so nothing but the use keeps it alive.
        if (sent <= i) {
          ends.after_run[i].push_back(buffer);
          continue;
        }
        std::vector<Ending>& after = ends.after_exchange[sent];
        if (after.empty() || after.back().microbatch != m) after.push_back({m, {}});
        after.back().buffers.push_back(buffer);
      }
    }
    return ends;
  }

  // What passes before a run, or after the last one, in one tick or in all of them together.
  struct Passing {
    std::vector<int> sends, receives;
  };
  using Exchanges = std::vector<std::map<int, Passing>>;  // [run] by tick
  Exchanges exchanges_of(std::size_t rank, int d) const {
    const std::vector<ScheduledRun>& runs = ticks_.schedule()[rank];
    Exchanges exchanges(runs.size() + 1);
    const auto passing = [&](std::size_t before, int tick) -> Passing& {
      return exchanges[before][ticks_.together() ? 0 : tick];
    };
    // Adds a run's transfers to what passes with each peer. Those of one peer are mostly neighbours.
    const auto pass = [](const std::vector<Port>& ports, int m, std::vector<int> Passing::*list,
                         const auto& with_peer) {
      Passing* found = nullptr;
      for (std::size_t i = 0; i < ports.size(); ++i) {
        if (i == 0 || ports[i].peer != ports[i - 1].peer) found = &with_peer(ports[i].peer);
        (found->*list).push_back(ports[i].transfer(m));
      }
    };
    for (const ScheduledRun& run : runs) {
      const std::optional<std::size_t> phase = MessageTicks::phase_of(run.pass);
      if (!phase) continue;
      const int stage = run.stage.value, m = run.microbatch.value;
      const int place = place_of(stage, d);
      pass(ports_.receives[stage][*phase][place], m, &Passing::receives, [&](int from) -> Passing& {
        return passing(ticks_.received_before(from, *phase, m, stage), ticks_.tick(from, *phase, m, stage));
      });
      pass(ports_.sends[stage][*phase][place], m, &Passing::sends, [&](int to) -> Passing& {
        return passing(ticks_.sent_before(stage, *phase, m, to), ticks_.tick(stage, *phase, m, to));
      });
    }
    if (ticks_.together()) return exchanges;
    // Both ends sort by transfer number: on a channel messages must be sent in the order in which they are received.
    for (auto& by_tick : exchanges)
      for (auto& [tick, all] : by_tick) {
        std::sort(all.sends.begin(), all.sends.end());
        std::sort(all.receives.begin(), all.receives.end());
      }
    return exchanges;
  }

  static void end_sent(std::vector<Instruction>& list, const std::vector<Ending>& endings) {
    for (const Ending& ending : endings) free(list, ending.microbatch, ending.buffers);
  }

  void build_device(std::size_t rank, const std::vector<int>& stages, int d, const Ends& ends) {
    const std::vector<ScheduledRun>& runs = ticks_.schedule()[rank];
    auto& list = program_.devices[device(stages.front(), d).index()];
    Exchanges exchanges = exchanges_of(rank, d);
    for (std::size_t i = 0; i <= runs.size(); ++i) {
      bool ended = false;
      for (auto& [tick, passing] : exchanges[i]) {
        exchange(list, std::move(passing.sends), std::move(passing.receives), ticks_.together());
        // Only the first of several Exchanges sends anything: the results of the run before.
        if (!std::exchange(ended, true)) end_sent(list, ends.after_exchange[i]);
      }
      if (!ended) end_sent(list, ends.after_exchange[i]);
      if (i == runs.size()) break;
      if (!ticks_.together()) await_for(runs[i], d, list);
      pass_on_for(runs[i], d, list);
      run(list, executable_of(runs[i]), runs[i].microbatch.value);
      free(list, runs[i].microbatch.value, ends.after_run[i]);
    }
    if (program_.schedule != ScheduleKind::Inference) finish_step(stages, d, list);
  }

  // The Exchanges before the run have posted all that it reads; the device waits only where it needs the data.
  void await_for(const ScheduledRun& run, int d, std::vector<Instruction>& list) const {
    const std::optional<std::size_t> phase = MessageTicks::phase_of(run.pass);
    if (!phase) return;
    std::vector<int> receives;
    for (const Port& port : ports_.receives[run.stage.value][*phase][place_of(run.stage.value, d)])
      receives.push_back(port.transfer(run.microbatch.value));
    await(list, run.microbatch.value, std::move(receives));
  }

  // What the run reads has come in parts, which the devices of its stage now bring to each other, all in the same
  // place of their lists: round by round, each in one Exchange. What first comes so defines its buffer.
  void pass_on_for(const ScheduledRun& run, int d, std::vector<Instruction>& list) const {
    const std::optional<std::size_t> phase = MessageTicks::phase_of(run.pass);
    if (!phase) return;
    const int stage = run.stage.value, place = place_of(stage, d), m = run.microbatch.value;
    std::map<int, Passing> rounds;
    for (const Port& port : ports_.passed_on[stage][*phase][place])
      rounds[port.round].sends.push_back(port.transfer(m));
    for (const Port& port : ports_.taken_over[stage][*phase][place])
      rounds[port.round].receives.push_back(port.transfer(m));
    if (rounds.empty()) return;
    std::set<BufferId> defined;
    for (const Port& port : ports_.receives[stage][*phase][place])
      defined.insert(transfer_at(port.transfer(m)).destination_buffer);
    for (auto& [round, passing] : rounds) {
      exchange(list, std::move(passing.sends), std::move(passing.receives));
      std::vector<BufferId>& defines = list.back().buffers;
      std::erase_if(defines, [&](BufferId buffer) { return !defined.insert(buffer).second; });
    }
  }

  // The transfers of several stages on device `d` of their rank, by number: the order is one at both ends.
  std::vector<int> all_of(const PerDevice& ports, const std::vector<int>& stages, int d) const {
    std::vector<int> all;
    for (const int stage : stages) {
      const std::vector<int>& own = ports[stage][place_of(stage, d)];
      all.insert(all.end(), own.begin(), own.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  void finish_step(const std::vector<int>& stages, int d, std::vector<Instruction>& list) {
    const auto has = [&](int stage) { return std::find(stages.begin(), stages.end(), stage) != stages.end(); };
    // What a stage updates has to count for all its copies before it is summed any further.
    exchange(list, all_of(ports_.copy_sends, stages, d), all_of(ports_.copy_receives, stages, d));
    for (const int stage : stages) run(list, stage_at(stage).sync, 0);
    exchange(list, all_of(ports_.gradient_sends, stages, d), all_of(ports_.gradient_receives, stages, d));
    std::vector<BufferId> done;
    if (state_.norm_exchange) exchange_norm(stages, d, list, done);
    for (const int stage : stages) run(list, stage_at(stage).update, 0);
    for (const Crossing& crossing : state_.gradient_crossings) {
      if (has(crossing.from) && !program_.buffers[crossing.source.index()].persistent) done.push_back(crossing.source);
      if (has(crossing.to)) done.push_back(crossing.destination);
    }
    free(list, 0, std::move(done));
    // Copies of the weights on other stages follow the update.
    exchange(list, all_of(ports_.weight_sends, stages, d), all_of(ports_.weight_receives, stages, d));
  }

  // The norm of all gradients is summed along the ranks: parts of this rank's other stages and of the ranks that send
  // to it come first, then its own sum goes on, and the total comes back the same way. `done`: buffers that end with
  // the update.
  void exchange_norm(const std::vector<int>& stages, int d, std::vector<Instruction>& list,
                     std::vector<BufferId>& done) {
    const NormExchange& norm = *state_.norm_exchange;
    const auto of = [&](const PerDevice& ports) { return all_of(ports, stages, d); };
    for (const int stage : stages)
      if (norm.whole.contains(stage)) run(list, stage_at(stage).norm, 0);
    exchange(list, of(ports_.part_copies), of(ports_.part_copies));
    exchange(list, {}, of(ports_.part_receives));
    exchange(list, of(ports_.part_sends), of(ports_.norm_receives));
    std::vector<BufferId> parts;
    for (const int stage : stages) {
      const auto part = norm.part.find(stage);
      if (part != norm.part.end() && part->second != norm.whole.at(stage)) parts.push_back(part->second);
    }
    free(list, 0, std::move(parts));
    exchange(list, of(ports_.norm_sends), {});
    exchange(list, of(ports_.norm_copies), of(ports_.norm_copies));
    for (const int stage : stages) {
      if (norm.whole.contains(stage)) done.push_back(norm.whole.at(stage));
      for (auto at = norm.gradients.lower_bound({stage, TensorId(0)});
           at != norm.gradients.end() && at->first.first == stage; ++at)
        done.push_back(at->second);
    }
  }

  LoweringState& state_;
  const KeptPart* part_;  // null: all of the program
  Program& program_;
  int stages_;
  MessageTicks ticks_;
  Ports ports_;
  int next_like_ = 0;                                  // the next copy's number in the whole program of one microbatch
  std::vector<int> like_;                              // [transfer] of a part: PartialProgram::like
  std::vector<LastUse> last_use_;                      // [buffer]
  std::vector<int> host_;                              // [device]
  IndexedVector<int, IndexedVector<int, int>> place_;  // [stage][its device] among those with ports
  IndexedVector<int, int> places_;                     // [stage] how many these are
};

}  // namespace

std::vector<int> build_instructions(LoweringState& state, int microbatches, const KeptPart* part) {
  return InstructionBuilder(state, microbatches, part).build();
}

}  // namespace meshwright
