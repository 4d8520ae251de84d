// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/folded_plan.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/lowering/lower.h"
#include "core/plan/program/program_walks.h"

namespace meshwright {

namespace {

void expect_sound(const Program& program) {
  const ProgramCheck check = check_program(program);
  MW_CHECK(check.violations.empty(), "the plan lowers to a bad program: {}", check.violations.front());
}

std::vector<bool> representatives(const FoldedDevices& folded) {
  std::vector<bool> devices(folded.representative.size());
  for (std::size_t d = 0; d < devices.size(); ++d) devices[d] = folded.representative[d].index() == d;
  return devices;
}

// [transfer of the part] the transfer that stands for it: in each microbatch the same one as in the program of one.
std::vector<int> messages_of(const PartialProgram& part, const FoldedDevices& of_one) {
  constexpr int kNone = -1;
  const std::vector<Transfer>& transfers = part.program.transfers;
  const auto microbatches = static_cast<std::size_t>(part.program.microbatches);
  std::vector<int> row(of_one.message.size(), kNone);  // [transfer of one microbatch] its row of `number`
  std::vector<int> number;                             // [row][microbatch] transfer of the part
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    int& own = row[static_cast<std::size_t>(part.like[t])];
    if (own == kNone) {
      own = static_cast<int>(number.size() / microbatches);
      number.resize(number.size() + microbatches, kNone);
    }
    number[static_cast<std::size_t>(own) * microbatches + transfers[t].microbatch.index()] = static_cast<int>(t);
  }
  std::vector<int> messages;
  messages.reserve(transfers.size());
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    const int like = of_one.message[static_cast<std::size_t>(part.like[t])];
    const int own = row[static_cast<std::size_t>(like)];
    MW_CHECK(own != kNone, "transfer {} stands for others, but the part has none like it", like);
    messages.push_back(number[static_cast<std::size_t>(own) * microbatches + transfers[t].microbatch.index()]);
    MW_CHECK(messages.back() != kNone, "transfer {} has none of its microbatch to stand for it", t);
  }
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

// What is found in the program of one microbatch.
struct OneMicrobatch {
  FoldedFlows folded;
  std::optional<NetworkFlows> network;
};
OneMicrobatch fold_one(const Plan& plan, const Program& one, const CostModel& costs, const NetworkToFold* network) {
  const ProgramTimes times = program_costs(one, costs).times;
  if (network == nullptr) return {{fold_devices(one, times), {}}, {}};
  const std::vector<std::vector<Piece>> pieces = cut_executables(one, times, costs, network->cut);
  OneMicrobatch found{{}, program_flows(one, devices_in_cluster(plan, one), network->topology, &pieces)};
  found.folded = fold_devices(one, times, found.network->flows);
  return found;
}

// Program::stood_for of the part that is kept of this program of one microbatch.
std::vector<Transfer> stood_for(const Program& one, const KeptPart& kept) {
  std::vector<bool> first(one.devices.size());
  for (const ProgramStage& stage : one.stages) first[stage.devices.front().index()] = true;
  std::vector<Transfer> found;
  for (std::size_t t = 0; t < one.transfers.size(); ++t) {
    const Transfer& transfer = one.transfers[t];
    if (!kept.transfers[t] && (first[transfer.source.index()] || first[transfer.destination.index()]))
      found.push_back(transfer);
  }
  return found;
}

// `wrong`: what check_plan says.
FoldedPlan load_checked(const Plan& plan, std::shared_ptr<const Graph> graph, const std::vector<std::string>& wrong,
                        const CostModel& costs, const NetworkToFold* network = nullptr) {
  if (!wrong.empty()) throw InputError(wrong.front());
  FoldedPlan result;
  LoweredStages stages(plan, *graph, costs);
  // The classes of devices do not depend on the number of microbatches.
  const Program& one = stages.of_one_microbatch();
  expect_sound(one);
  const OneMicrobatch found = fold_one(plan, one, costs, network);
  const FoldedDevices& of_one = found.folded.devices;
  const KeptPart kept{representatives(of_one), transfers_of_representatives(one, of_one)};
  std::vector<Transfer> others = stood_for(one, kept);
  PartialProgram part = std::move(stages).take_part(kept);
  part.program.stood_for = std::move(others);

  result.folded = {of_one.representative, messages_of(part, of_one), of_one.classes};
  result.events = count_events(part, result.folded, of_one);
  result.loaded.check.peak_memory = peak_memory_of(part.program, result.folded);
  if (found.network)
    result.network = {on_folded_links(found.network->flows, found.folded.link, part.like), found.network->link_of};
  result.loaded.program = std::move(part.program);
  result.loaded.graph = std::move(graph);
  return result;
}

}  // namespace

bool can_fold(const Plan& plan) {
  return plan.schedule != ScheduleKind::Custom && !traits_of(plan.schedule).splits_backward;
}

bool worth_folding(const Plan& plan) {
  return can_fold(plan) && static_cast<std::size_t>(plan.cluster.devices()) >= kMinDevicesToFold;
}

std::vector<DeviceId> devices_in_cluster(const Plan& plan, const Program& program) {
  std::vector<DeviceId> numbers(program.devices.size(), DeviceId(0));
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (std::size_t rank = 0; rank < plan.stages[s].devices.size(); ++rank)
      numbers[program.stages[s].devices[rank].index()] = DeviceId(plan.stages[s].devices[rank]);
  return numbers;
}

FoldedPlan load_folded_plan(const Plan& plan, const CostModel& costs, const NetworkToFold* network) {
  const auto graph = std::make_shared<const Graph>(build_step_graph(plan.model, plan.training, plan.schedule));
  return load_checked(plan, graph, check_plan(plan, *graph), costs, network);
}

FoldedPlan load_folded_plan(const PlanOfGraph& made, const CostModel& costs, const NetworkToFold* network) {
  return load_checked(made.plan, made.graph, check_plan(made.plan, *made.graph, made.plan.graph_fingerprint), costs,
                      network);
}

}  // namespace meshwright
