// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as pure functions: the order in which each stage runs the forward and backward of each microbatch.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"

namespace meshwright {

enum class ScheduleKind { OneFOneB, GPipe, Inference };
[[nodiscard]] const char* name_of(ScheduleKind kind);                    // "1f1b", "gpipe", "inference"
[[nodiscard]] ScheduleKind schedule_from_name(const std::string& name);  // throws InputError with the nearest names

struct ScheduledRun {
  enum class Pass { Forward, Backward } pass;
  MicrobatchId microbatch;
  bool operator==(const ScheduledRun&) const = default;
};

// [stage] -> runs in order.
//
// Stages need not form a line: those of independent branches of a model do not wait for one another. What a schedule
// asks of a stage is `stages_after`: how many stages there are on the longest way from it to a stage that feeds nobody
// (0 for those; core/plan/stage_graph.h finds it for a plan). It falls along every way, so nothing waits for ever.
using Schedule = std::vector<std::vector<ScheduledRun>>;
// REQUIRES: at least one stage, stages_after >= 0, microbatches >= 1.
[[nodiscard]] Schedule make_schedule(ScheduleKind kind, const std::vector<int>& stages_after, int microbatches);
// The stages_after of `stages` stages that feed one the next: stages - 1, ..., 1, 0.
[[nodiscard]] std::vector<int> line_of(int stages);

// Largest number of microbatches whose forward has run and whose backward has not, at a stage with `stages_after`:
// 1f1b min(stages_after + 1, microbatches); gpipe microbatches; inference 1 (nothing is kept).
[[nodiscard]] int in_flight(ScheduleKind kind, int stages_after, int microbatches);

// 1f1b in step: the tick in which a run of a stage with `stages_after` begins if every run takes one tick, forwards
// begin as late as they may, and the first backward of a stage that feeds nobody is at 1: forwards 2 m - stages_after,
// backwards 2 m + stages_after + 1. The runs of a stage have their ticks in the order of its schedule, and what a run
// reads is made in ticks before its own.
[[nodiscard]] constexpr int tick_of(const ScheduledRun& run, int stages_after) {
  return 2 * run.microbatch.value + (run.pass == ScheduledRun::Pass::Forward ? -stages_after : stages_after + 1);
}

// "stage 0 | F0 F1 B0 ..." for people and golden tests: one column per tick, equal ticks for every run. `feeds`: of
// each stage, those that wait for its forwards and that its backwards wait for; without it the stages are a line.
[[nodiscard]] std::string draw(const Schedule& schedule);
[[nodiscard]] std::string draw(const Schedule& schedule, const std::vector<std::vector<int>>& feeds);

}  // namespace meshwright
