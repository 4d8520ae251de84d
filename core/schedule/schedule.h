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
using Schedule = std::vector<std::vector<ScheduledRun>>;
// REQUIRES: stages >= 1, microbatches >= 1.
[[nodiscard]] Schedule make_schedule(ScheduleKind kind, int stages, int microbatches);

// Largest number of microbatches whose forward has run and whose backward has not, at stage `stage` (0 = first):
// 1f1b min(stages - stage, microbatches); gpipe microbatches; inference 1 (nothing is kept).
[[nodiscard]] int in_flight(ScheduleKind kind, int stage, int stages, int microbatches);

// "stage 0 | F0 F1 B0 ..." for people and golden tests: one column per tick, equal ticks for every run.
[[nodiscard]] std::string draw(const Schedule& schedule);

}  // namespace meshwright
