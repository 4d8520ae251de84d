// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as pure functions: the order in which each rank runs the passes of each microbatch.
//
// A rank is a set of devices (a submesh) that runs one pass at a time. Under most schedules it has one stage; under
// others several (chunks). A backward is one pass, or two: the gradient of the stage's input, which the stage before
// waits for, and those of its weights, which are not needed until the update.
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
  EagerOneFOneB,  // 1f1b with twice the forwards ahead, so that messages overlap with computation
  Interleaved,    // several chunks per rank, stage s on rank s mod ranks (arXiv:2104.04473)
  ZeroBubbleH1,   // arXiv:2401.10241: no more memory than 1f1b
  ZeroBubbleH2,   // arXiv:2401.10241: no bubble if passes take equally long, about twice the memory of 1f1b
  ZeroBubbleV,    // arXiv:2405.15362: two chunks per rank, placed in a V; the memory of 1f1b
  VHalf,          // arXiv:2405.15362: the same placement, about half that memory
  DualPipeV,  // DeepSeek-AI, DualPipe (github.com/deepseek-ai/DualPipe): the same placement; in the steady state each
              // forward is next to the backward of another microbatch, for runtimes that overlap the two
  DualPipe,   // DeepSeek-V3 (arXiv:2412.19437), the same repository: microbatches enter at both ends of the pipeline.
              // The second half of the stages repeats the layers of the first, placed in a V: rank r has stage r, and
              // stage 2 ranks - 1 - r, the copy of stage ranks - 1 - r
  Custom,     // given run by run, so not part of make_schedule and all_schedules
};
// "1f1b", "gpipe", "inference", "eager-1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half",
// "dualpipe-v", "dualpipe", "custom"
[[nodiscard]] const char* name_of(ScheduleKind kind);
// All but "custom". Throws InputError with the nearest names.
[[nodiscard]] ScheduleKind schedule_from_name(const std::string& name);
[[nodiscard]] std::vector<ScheduleKind> all_schedules();

// What a kind asks of a pipeline.
struct ScheduleTraits {
  bool splits_backward = false;  // BackwardInput and BackwardWeight instead of Backward; Custom: per run
  bool trains = true;
  bool line = false;              // stages must form a line; otherwise any directed acyclic graph
  std::optional<int> chunks = 1;  // per rank; absent: any number of at least 2; Custom: any
  // How often the stages repeat all layers, each time with weights of their own: stage s + k stages / copies is the
  // k-th copy of stage s. Each copy runs an equal share of the microbatches, the first of them those that come first.
  int copies = 1;
};
[[nodiscard]] ScheduleTraits traits_of(ScheduleKind kind);
// Why a kind cannot run so many microbatches on so many ranks, as a clause ("an even number of ranks"); nullopt: it
// can. dualpipe takes an even number of ranks, and an even number of microbatches, at least two for each rank.
[[nodiscard]] std::optional<std::string> unmet_by(ScheduleKind kind, int ranks, std::int64_t microbatches);

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
// Stages need not form a line: independent branches of a model do not wait for each other. A schedule depends only on
// each stage's `stages_after`: the number of stages on the longest path from it to a last stage (0 for those;
// core/plan/stage_graph.h computes it for a plan). It decreases along every path, so there is no deadlock.
using Schedule = std::vector<std::vector<ScheduledRun>>;
// REQUIRES: at least one stage, stages_after >= 0, microbatches >= 1; `chunks` allowed by the kind's traits and a
// divisor of the number of stages; a line of stages if the traits require it, one per copy; nothing unmet_by the kind.
[[nodiscard]] Schedule make_schedule(ScheduleKind kind, const std::vector<int>& stages_after, int microbatches,
                                     int chunks = 1);
// The stages_after of a line of `stages` stages: stages - 1, ..., 1, 0; of `copies` lines: that of stages / copies, so
// many times.
[[nodiscard]] std::vector<int> line_of(int stages, int copies = 1);
// [stage] its rank: s; with interleaved chunks s mod ranks; in a V s on the way down and 2 ranks - 1 - s on the way up.
[[nodiscard]] std::vector<int> ranks_of_stages(ScheduleKind kind, int stages, int chunks = 1);
// The microbatches `first` to `first + count - 1` that a stage runs: all but where stages have copies.
struct MicrobatchRange {
  int first, count;
  bool operator==(const MicrobatchRange&) const = default;
};
[[nodiscard]] MicrobatchRange microbatches_of(ScheduleKind kind, int stage, int stages, int microbatches);

// The maximum number of microbatches in flight (forward done, backward not) at a stage with `stages_after`, under kinds
// with one stage per rank: 1f1b min(stages_after + 1, microbatches); eager-1f1b min(2 stages_after + 1, microbatches);
// gpipe microbatches; inference 1 (nothing is kept). Under zb-h1 and zb-h2 a microbatch is in flight until its weight
// gradients are computed, and every stage has as many: min(deepest + 1, microbatches) and min(2 deepest + 1,
// microbatches), where `deepest` is the maximum of stages_after; these two kinds need it.
[[nodiscard]] int in_flight(ScheduleKind kind, int stages_after, int microbatches,
                            std::optional<int> deepest = std::nullopt);
// [rank] the maximum number of chunk activations that it keeps at once: each from its forward to its backward, or to
// the second half of it. For a rank without backwards, 1.
[[nodiscard]] std::vector<int> max_in_flight(const Schedule& schedule);

// 1f1b in lockstep: the tick in which a run of a stage with `stages_after` begins if every run takes one tick, forwards
// begin as late as possible, and the first backward of a last stage is at 1: forwards 2 m - stages_after, backwards
// 2 m + stages_after + 1. The ticks of a stage ascend in the order of its schedule, and a run's inputs are produced in
// earlier ticks.
[[nodiscard]] constexpr int tick_of(const ScheduledRun& run, int stages_after) {
  return 2 * run.microbatch.value + (run.pass == Pass::Forward ? -stages_after : stages_after + 1);
}

// [stage] the stages that its forwards send to and its backwards receive from.
using Feeds = std::vector<std::vector<int>>;
[[nodiscard]] Feeds line_feeds(int stages, int copies = 1);  // {1}, {2}, ..., {}, for each copy

// [rank][run] the tick in which each run begins if every run takes one tick and begins as early as possible. A run's
// inputs are produced in earlier ticks. Throws InternalError when runs deadlock.
[[nodiscard]] std::vector<std::vector<int>> unit_ticks(const Schedule& schedule, const Feeds& feeds);

// "3F0": stage, pass (F, B, I or W), microbatch.
[[nodiscard]] std::string text_of(const ScheduledRun& run);
[[nodiscard]] std::optional<ScheduledRun> run_from_text(const std::string& text);  // nullopt: not a run

}  // namespace meshwright
