// SPDX-License-Identifier: Apache-2.0
// Every executable meets its micro-batches in their order, on every device: the n-th time an executable runs, a message
// leaves or comes, or a buffer is freed, it is that of micro-batch n.
#include "simulator/fold/repeat_microbatches.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/errors.h"
#include "simulator/fold/folded_program.h"

namespace meshwright {

namespace {

using Kind = Instruction::Kind;

class Repetition {
 public:
  Repetition(const Program& program, int microbatches)
      : program_(program), made_(program), more_(microbatches - program.microbatches) {
    made_.microbatches = microbatches;
    find_kinds();
    for (std::size_t d = 0; d < program.devices.size(); ++d) made_.devices[d] = repeated(program.devices[d]);
  }

  Program take() { return std::move(made_); }

  // Transfers of a kind take the same time, and messages of the same kind stand for theirs.
  ProgramTimes times(const ProgramTimes& few) const {
    ProgramTimes made{few.executable, {}};
    for_each_transfer([&](std::size_t kind, int) { made.transfer.push_back(few.transfer[first_of_few_[kind]]); });
    return made;
  }
  FoldedDevices folded(const FoldedDevices& few) const {
    FoldedDevices made{few.representative, {}, few.classes};
    for (std::size_t t = 0; t < kind_.size(); ++t) {
      const auto message = static_cast<std::size_t>(few.message[t]);
      MW_CHECK(kind_[static_cast<std::size_t>(few.message[first_of_few_[kind_[t]]])] == kind_[message] &&
                   program_.transfers[t].microbatch == program_.transfers[message].microbatch,
               "the message of transfer {} stands for transfer {}, which is of another kind", message, t);
    }
    for_each_transfer([&](std::size_t kind, int microbatch) {
      const std::size_t other = kind_[static_cast<std::size_t>(few.message[first_of_few_[kind]])];
      made.message.push_back(first_of_kind_[other] + microbatch);
    });
    return made;
  }

 private:
  // In their new order.
  template <class Visit>
  void for_each_transfer(Visit visit) const {
    for (std::size_t kind = 0; kind < first_of_few_.size(); ++kind)
      for (int m = 0; m < (of_each_[kind] ? made_.microbatches : 1); ++m) visit(kind, m);
  }

  // Transfers that differ in their micro-batch only are of one kind.
  void find_kinds() {
    using Key = std::tuple<DeviceId, DeviceId, BufferId, BufferId, std::vector<std::int64_t>, std::vector<std::int64_t>,
                           std::vector<std::int64_t>>;
    std::map<Key, std::size_t> known;
    std::vector<int> members;  // [kind]
    for (const Transfer& transfer : program_.transfers) {
      const auto [kind, is_new] =
          known.try_emplace({transfer.source, transfer.destination, transfer.source_buffer, transfer.destination_buffer,
                             transfer.source_offset, transfer.destination_offset, transfer.extent},
                            members.size());
      if (is_new) {
        members.push_back(0);
        first_of_few_.push_back(kind_.size());
      }
      ++members[kind->second];
      kind_.push_back(kind->second);
    }
    made_.transfers.clear();
    for (std::size_t kind = 0; kind < members.size(); ++kind) {
      const bool each = members[kind] == program_.microbatches;
      MW_CHECK(each || members[kind] == 1, "{} transfers of {} micro-batches differ in these alone", members[kind],
               program_.microbatches);
      first_of_kind_.push_back(static_cast<int>(made_.transfers.size()));
      of_each_.push_back(each);
      for (int m = 0; m < (each ? made_.microbatches : 1); ++m) {
        made_.transfers.push_back(program_.transfers[first_of_few_[kind]]);
        if (each) made_.transfers.back().microbatch = MicrobatchId(m);
      }
    }
  }

  Phase phase_of(const Instruction& run) const {
    return program_.executables[static_cast<std::size_t>(run.executable)].phase;
  }

  // Positions after the Runs of the passes, of one phase or (absent) of both.
  std::vector<std::size_t> ends_of_runs(const std::vector<Instruction>& list, Phase phase) const {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].kind == Kind::Run && phase_of(list[i]) == phase) ends.push_back(i + 1);
    return ends;
  }

  // What happens from the end of the Run number n - 1 to that of the Run number n.
  struct Period {
    std::size_t begin, end;
  };
  Period period_after(const std::vector<Instruction>& list, const std::vector<std::size_t>& ends, int n) const {
    const auto at = static_cast<std::size_t>(n);
    MW_CHECK(1 <= n && at + 1 < ends.size(), "a list of {} Runs has none number {} that repeats", ends.size(), n);
    const Period period{ends[at - 1], ends[at]}, next{ends[at], ends[at + 1]};
    MW_CHECK(signature(list, period) == signature(list, next), "Run number {} is not as the one after it", n);
    return period;
  }
  std::vector<std::vector<int>> signature(const std::vector<Instruction>& list, const Period& period) const {
    std::vector<std::vector<int>> found;
    for (std::size_t i = period.begin; i < period.end; ++i) {
      found.push_back({static_cast<int>(list[i].kind), list[i].executable});
      for (const auto* transfers : {&list[i].sends, &list[i].receives}) {
        for (const int t : *transfers) found.back().push_back(static_cast<int>(kind_[static_cast<std::size_t>(t)]));
        found.back().push_back(-1);
      }
      for (const BufferId buffer : list[i].buffers) found.back().push_back(buffer.value);
    }
    return found;
  }

  std::vector<Instruction> repeated(const std::vector<Instruction>& list) const {
    if (list.empty()) return {};  // another device stands for this one
    const std::vector<std::size_t> forwards = ends_of_runs(list, Phase::Forward);
    const std::vector<std::size_t> backwards = ends_of_runs(list, Phase::Backward);
    std::vector<Period> periods;
    if (program_.schedule == ScheduleKind::OneFOneB && !backwards.empty()) {
      // Forwards ahead of the first backward; then each backward comes with a forward, but for as many at the end.
      const auto ahead =
          std::count_if(forwards.begin(), forwards.end(), [&](std::size_t end) { return end < backwards[0]; });
      periods.push_back(period_after(list, backwards, (program_.microbatches - static_cast<int>(ahead)) / 2));
    } else {
      periods.push_back(period_after(list, forwards, program_.microbatches / 2));
      if (!backwards.empty()) periods.push_back(period_after(list, backwards, program_.microbatches / 2));
    }
    std::vector<Instruction> made;
    std::size_t next = 0;
    for (const Period& period : periods) {
      made.insert(made.end(), list.begin() + static_cast<std::ptrdiff_t>(next),
                  list.begin() + static_cast<std::ptrdiff_t>(period.end));
      for (int i = 0; i < more_; ++i)
        made.insert(made.end(), list.begin() + static_cast<std::ptrdiff_t>(period.begin),
                    list.begin() + static_cast<std::ptrdiff_t>(period.end));
      next = period.end;
    }
    made.insert(made.end(), list.begin() + static_cast<std::ptrdiff_t>(next), list.end());
    number(list, made);
    return made;
  }

  void number(const std::vector<Instruction>& list, std::vector<Instruction>& made) const {
    std::map<BufferId, int> freed_once;  // of the old list
    for (const Instruction& instruction : list)
      if (instruction.kind == Kind::Free)
        for (const BufferId buffer : instruction.buffers) ++freed_once[buffer];
    std::map<int, int> runs;
    std::map<BufferId, int> freed;
    std::map<std::size_t, int> sent, received;
    const auto renumber = [&](std::vector<int>& transfers, std::map<std::size_t, int>& so_far) {
      for (int& t : transfers) {
        const std::size_t kind = kind_[static_cast<std::size_t>(t)];
        t = first_of_kind_[kind] + (of_each_[kind] ? so_far[kind]++ : 0);
      }
    };
    for (Instruction& instruction : made) {
      if (instruction.kind == Kind::Run && phase_of(instruction) != Phase::Update)
        instruction.microbatch = MicrobatchId(runs[instruction.executable]++);
      renumber(instruction.sends, sent);
      renumber(instruction.receives, received);
      if (!instruction.receives.empty())
        instruction.microbatch = made_.transfers[static_cast<std::size_t>(instruction.receives.back())].microbatch;
      if (instruction.kind != Kind::Free || freed_once[instruction.buffers.front()] != program_.microbatches) continue;
      instruction.microbatch = MicrobatchId(freed[instruction.buffers.front()]);
      for (const BufferId buffer : instruction.buffers)
        MW_CHECK(freed[buffer]++ == instruction.microbatch.value, "buffer '{}' is not freed with others of its Free",
                 program_.buffers[buffer.index()].name);
    }
  }

  const Program& program_;
  Program made_;
  int more_;
  std::vector<std::size_t> kind_;          // [transfer of program_]
  std::vector<std::size_t> first_of_few_;  // [kind] its first transfer of program_
  std::vector<int> first_of_kind_;         // [kind] its first transfer of made_
  std::vector<bool> of_each_;              // [kind] one for each micro-batch
};

}  // namespace

int microbatches_that_repeat(const Program& program) {
  int longest = 0;
  for (const ProgramStage& stage : program.stages) longest = std::max(longest, stage.stages_after);
  return 3 * longest + 4;
}

namespace {

void check_repeats(const Program& program, int microbatches) {
  MW_CHECK(program.schedule == ScheduleKind::OneFOneB || program.schedule == ScheduleKind::GPipe ||
               program.schedule == ScheduleKind::Inference,
           "{} does not repeat", name_of(program.schedule));
  MW_CHECK(program.microbatches >= microbatches_that_repeat(program) && microbatches >= program.microbatches,
           "{} micro-batches from {}, of at least {}", microbatches, program.microbatches,
           microbatches_that_repeat(program));
}

}  // namespace

Program repeat_microbatches(const Program& program, int microbatches) {
  check_repeats(program, microbatches);
  return Repetition(program, microbatches).take();
}

FoldedProgram repeat_microbatches(const FoldedProgram& folded, int microbatches) {
  check_repeats(folded.program, microbatches);
  Repetition repetition(folded.program, microbatches);
  ProgramTimes times = repetition.times(folded.times);
  FoldedDevices devices = repetition.folded(folded.folded);
  return {repetition.take(), std::move(times), std::move(devices)};
}

}  // namespace meshwright
