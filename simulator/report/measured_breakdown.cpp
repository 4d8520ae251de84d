// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/measured_breakdown.h"

#include <map>
#include <utility>

#include "core/base/errors.h"
#include "simulator/report/periods.h"

namespace meshwright {

namespace {

struct MeasuredDevice {
  std::vector<Period> runs;  // in order
  Periods sends;
};

std::vector<MeasuredDevice> measured_devices(const Program& program, const Timeline& timeline) {
  std::vector<MeasuredDevice> devices(program.devices.size());
  for (const Span& span : timeline.spans) {
    MeasuredDevice& own = devices[span.device.index()];
    const Period when{span.begin.ps, span.end.ps};
    if (is_compute(span.kind)) own.runs.push_back(when);
    if (span.kind == Span::Kind::Send) own.sends.push_back(when);
  }
  return devices;
}

// [Run of the device] its executable.
std::vector<int> runs_of(const std::vector<Instruction>& list) {
  std::vector<int> runs;
  for (const Instruction& instruction : list)
    if (instruction.kind == Instruction::Kind::Run) runs.push_back(instruction.executable);
  return runs;
}

TimeParts measured_parts(const RunParts& parts, const std::vector<int>& executables, const MeasuredDevice& device,
                         SimTime step, const MeasuredOpTimes& op_times) {
  struct Total {
    std::int64_t time = 0, runs = 0;
  };
  std::map<int, Total> totals;  // by executable
  for (std::size_t r = 0; r < executables.size(); ++r) {
    Total& own = totals[executables[r]];
    own.time += device.runs[r].end - device.runs[r].begin;
    ++own.runs;
  }
  TimeParts all;
  for (const auto& [executable, total] : totals) {
    std::vector<Seconds> times = op_times[static_cast<std::size_t>(executable)];
    for (Seconds& time : times) time = static_cast<double>(total.runs) * time;
    add_parts(all, parts.of_measured_run(executable, times, SimTime{total.time}));
  }
  Periods waiting{{0, step.ps}};
  const Periods computing = united_periods(device.runs);
  const std::int64_t computed = take_out(waiting, computing);
  // Runs on queues that do not wait for each other share the time that they take together.
  if (exposed_of(all).ps != computed) all = scaled_to(all, SimTime{computed});
  all[{.kind = TimeKind::Message}].exposed.ps += take_out(waiting, united_periods(device.sends));
  for (const Period gap : waiting) {
    const bool between = !computing.empty() && gap.begin >= computing.front().begin && gap.end <= computing.back().end;
    all[{.kind = between ? TimeKind::Bubble : TimeKind::Idle}].exposed.ps += gap.end - gap.begin;
  }
  return all;
}

}  // namespace

StepBreakdown measured_breakdown(const Program& program, const RunParts& parts, const Timeline& timeline,
                                 const MeasuredOpTimes& op_times) {
  MW_CHECK(op_times.size() == program.executables.size(), "op times of another program");
  const std::vector<MeasuredDevice> devices = measured_devices(program, timeline);
  StepBreakdown found;
  found.step = timeline.end;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::vector<int> executables = runs_of(program.devices[d]);
    MW_CHECK(executables.size() == devices[d].runs.size(), "device {} has {} Runs, but {} were measured", d,
             executables.size(), devices[d].runs.size());
    const DeviceBreakdown& device = found.devices.emplace_back(
        DeviceBreakdown{DeviceId(static_cast<int>(d)), 1, program.stage_of_device[d],
                        measured_parts(parts, executables, devices[d], found.step, op_times)});
    MW_CHECK(exposed_of(device.parts) == found.step, "the parts of device {} are {} ps of a step of {} ps", d,
             exposed_of(device.parts).ps, found.step.ps);
  }
  return found;
}

}  // namespace meshwright
