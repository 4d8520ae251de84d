// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/folded_plan.h"

#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/plan/lowering/lower.h"
#include "core/plan/program/program_walks.h"

namespace meshwright {

namespace {

// The same plan with one microbatch of the same size: the classes of devices do not depend on their number.
Plan with_one_microbatch(Plan plan) {
  plan.training.batch /= plan.training.microbatches;
  plan.training.microbatches = 1;
  return plan;
}

Program lower_soundly(const Plan& plan, const Graph& graph, const CostModel& costs) {
  Program program = lower(plan, graph, costs);
  const ProgramCheck check = check_program(program);
  MW_CHECK(check.violations.empty(), "the plan lowers to a bad program: {}", check.violations.front());
  return program;
}

std::vector<bool> representatives(const FoldedDevices& folded) {
  std::vector<bool> devices(folded.representative.size());
  for (std::size_t d = 0; d < devices.size(); ++d) devices[d] = folded.representative[d].index() == d;
  return devices;
}

// [transfer of the part] the transfer that stands for it: in each microbatch the same one as in the program of one.
std::vector<int> messages_of(const PartialProgram& part, const FoldedDevices& of_one) {
  std::map<std::pair<int, MicrobatchId>, int> number;  // by what it is like
  const std::vector<Transfer>& transfers = part.program.transfers;
  for (std::size_t t = 0; t < transfers.size(); ++t)
    number.emplace(std::pair{part.like[t], transfers[t].microbatch}, static_cast<int>(t));
  std::vector<int> messages;
  for (std::size_t t = 0; t < transfers.size(); ++t)
    messages.push_back(number.at({of_one.message[static_cast<std::size_t>(part.like[t])], transfers[t].microbatch}));
  return messages;
}

// The peak of every device is that of its representative: their lists are the same.
std::vector<Bytes> peak_memory_of(const Program& part, const FoldedDevices& folded) {
  Findings findings;
  std::vector<Bytes> peaks = check_buffers(part, findings);
  MW_CHECK(findings.empty(), "the plan lowers to a bad program: {}", findings.take().front());
  for (std::size_t d = 0; d < peaks.size(); ++d) peaks[d] = peaks[folded.representative[d].index()];
  return peaks;
}

// Runs and messages of the whole program. A message of the one-microbatch program occurs as often as the message that
// stands for it occurs in the part.
std::int64_t count_events(const PartialProgram& part, const FoldedDevices& folded, const FoldedDevices& of_one) {
  std::vector<int> times(of_one.message.size(), 0);  // [transfer of one microbatch]
  for (const int like : part.like) ++times[static_cast<std::size_t>(like)];
  std::int64_t events = 0;
  for (const int message : of_one.message) events += times[static_cast<std::size_t>(message)];
  const std::vector<int> counts = folded.counts();
  for (std::size_t d = 0; d < counts.size(); ++d)
    events += counts[d] *
              std::count_if(part.program.devices[d].begin(), part.program.devices[d].end(),
                            [](const Instruction& instruction) { return instruction.kind == Instruction::Kind::Run; });
  return events;
}

}  // namespace

bool can_fold(const Plan& plan) {
  return plan.schedule != ScheduleKind::Custom && !traits_of(plan.schedule).splits_backward;
}

bool worth_folding(const Plan& plan) {
  return can_fold(plan) && static_cast<std::size_t>(plan.cluster.devices()) >= kMinDevicesToFold;
}

FoldedPlan load_folded_plan(const Plan& plan, const CostModel& costs) {
  FoldedPlan result;
  Graph& graph = result.loaded.graph = build_step_graph(plan.model, plan.training, plan.schedule);
  const std::vector<std::string> wrong = check_plan(plan, graph);
  if (!wrong.empty()) throw InputError(wrong.front());

  const Program one = lower_soundly(with_one_microbatch(plan), graph, costs);
  const FoldedDevices of_one = fold_devices(one, program_costs(one, costs).times);
  PartialProgram part =
      lower_part(plan, graph, costs, {representatives(of_one), transfers_of_representatives(one, of_one)});

  result.folded = {of_one.representative, messages_of(part, of_one), of_one.classes};
  result.events = count_events(part, result.folded, of_one);
  result.loaded.check.peak_memory = peak_memory_of(part.program, result.folded);
  result.loaded.program = std::move(part.program);
  return result;
}

}  // namespace meshwright
