// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as pure functions: the order in which each rank runs the passes of each microbatch.
//
// A rank is what runs one pass at a time: the devices of one submesh. Under most schedules it has one stage; where it
// has several (chunks), each is a stage of its own. A backward is one pass, or two: the gradient of the stage's input,
// which the stage before waits for, and those of its weights, which nobody waits for until the update.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace meshwright {

enum class ScheduleKind {
  OneFOneB,
  GPipe,
  Inference,      // forwards only
  EagerOneFOneB,  // 1f1b with twice the forwards ahead, so that messages pass while something else runs
  Interleaved,    // several chunks per rank, stage s on rank s mod ranks (arXiv:2104.04473)
  ZeroBubbleH1,   // arXiv:2401.10241: no more memory than 1f1b
  ZeroBubbleH2,   // arXiv:2401.10241: no bubble where passes take equally long, about twice the memory of 1f1b
  ZeroBubbleV,    // arXiv:2405.15362: two chunks per rank, down and up again; the memory of 1f1b
  VHalf,          // arXiv:2405.15362: the same placement, about half that memory
  Custom,         // given run by run; make_schedule and all_schedules have none
};
// "1f1b", "gpipe", "inference", "eager-1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "custom"
[[nodiscard]] const char* name_of(ScheduleKind kind);
// All but "custom". Throws InputError with the nearest names.
[[nodiscard]] ScheduleKind schedule_from_name(const std::string& name);
[[nodiscard]] std::vector<ScheduleKind> all_schedules();

// What a kind asks of a pipeline.
struct ScheduleTraits {
  bool splits_backward = false;  // BackwardInput and BackwardWeight in the place of Backward; Custom: it may
  bool trains = true;
  bool line = false;              // stages must feed one the next; otherwise they may form any directed acyclic graph
  std::optional<int> chunks = 1;  // per rank; absent: any number of at least 2; Custom: any
};
[[nodiscard]] ScheduleTraits traits_of(ScheduleKind kind);

enum class Pass : std::uint8_t { Forward, Backward, BackwardInput, BackwardWeight };

struct ScheduledRun {
  using Pass = meshwright::Pass;
  Pass pass;
  MicrobatchId microbatch;
  StageId stage{0};
  bool operator==(const ScheduledRun&) const = default;
};

// [rank] -> runs in order.
//
// Stages need not form a line: those of independent branches of a model do not wait for one another. What a schedule
// asks of a stage is `stages_after`: how many stages there are on the longest way from it to a stage that feeds nobody
// (0 for those; core/plan/stage_graph.h finds it for a plan). It falls along every way, so nothing waits for ever.
using Schedule = std::vector<std::vector<ScheduledRun>>;
// REQUIRES: at least one stage, stages_after >= 0, microbatches >= 1; `chunks` as the kind's traits have it and a
// divisor of the number of stages; a line of stages where the traits say so.
[[nodiscard]] Schedule make_schedule(ScheduleKind kind, const std::vector<int>& stages_after, int microbatches,
                                     int chunks = 1);
// The stages_after of `stages` stages that feed one the next: stages - 1, ..., 1, 0.
[[nodiscard]] std::vector<int> line_of(int stages);
// [stage] the rank it lies on: s; with interleaved chunks s mod ranks; in a V s down and 2 ranks - 1 - s up.
[[nodiscard]] std::vector<int> ranks_of_stages(ScheduleKind kind, int stages, int chunks = 1);

// Largest number of microbatches whose forward has run and whose backward has not, at a stage with `stages_after`, of
// the kinds with one stage per rank: 1f1b min(stages_after + 1, microbatches); eager-1f1b min(2 stages_after + 1,
// microbatches); gpipe microbatches; inference 1 (nothing is kept). zb-h1 and zb-h2 count a microbatch until the
// gradients of its weights are made and have as many in flight at every stage: min(deepest + 1, microbatches) and
// min(2 deepest + 1, microbatches), where `deepest` is the most stages after any stage; these two need it. The kinds of
// several stages per rank: core/schedule/schedule_facts.h.
[[nodiscard]] int in_flight(ScheduleKind kind, int stages_after, int microbatches,
                            std::optional<int> deepest = std::nullopt);

// 1f1b in step: the tick in which a run of a stage with `stages_after` begins if every run takes one tick, forwards
// begin as late as they may, and the first backward of a stage that feeds nobody is at 1: forwards 2 m - stages_after,
// backwards 2 m + stages_after + 1. The runs of a stage have their ticks in the order of its schedule, and what a run
// reads is made in ticks before its own.
[[nodiscard]] constexpr int tick_of(const ScheduledRun& run, int stages_after) {
  return 2 * run.microbatch.value + (run.pass == Pass::Forward ? -stages_after : stages_after + 1);
}

// [stage] those that wait for its forwards and that its backwards wait for.
using Feeds = std::vector<std::vector<int>>;
[[nodiscard]] Feeds line_feeds(int stages);  // {1}, {2}, ..., {}

// [rank][run] the tick in which each run begins when every run takes one tick and begins as early as it may. What a run
// reads was made in ticks before its own. Throws InternalError when runs wait for each other for ever.
[[nodiscard]] std::vector<std::vector<int>> unit_ticks(const Schedule& schedule, const Feeds& feeds);

// "3F0": stage, pass (F, B, I or W), microbatch.
[[nodiscard]] std::string text_of(const ScheduledRun& run);
[[nodiscard]] std::optional<ScheduledRun> run_from_text(const std::string& text);  // nothing: it is none

// "rank 0 | F0 F1 B0 ..." for people and golden tests: one column per tick, equal ticks for every run. `feeds`: without
// it the stages are a line. The two halves of a backward are I and W; where a rank has several stages, a run begins
// with its stage: "3F0". Where rank r has stage r alone, its row is "stage r |".
[[nodiscard]] std::string draw(const Schedule& schedule);
[[nodiscard]] std::string draw(const Schedule& schedule, const Feeds& feeds);

}  // namespace meshwright
