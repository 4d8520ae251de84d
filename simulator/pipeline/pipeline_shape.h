// SPDX-License-Identifier: Apache-2.0
// What all steps of one pipeline have in common, whatever their times: every run and message, in an order in which each
// can be timed. Found once per schedule, number of stages and of micro-batches, and used for thousands of candidates.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/program/pipeline_times.h"
#include "core/schedule/schedule.h"
#include "simulator/pipeline/simulate_pipeline.h"

namespace meshwright {

struct PipelineShape {
  // A rank waits for a message, then runs a pass, then posts a message. Where a run has more than one message to wait
  // for, or more than one to post, operations that lack a pass stand before and after it.
  struct Operation {
    std::uint16_t rank;
    std::uint16_t run;        // run_number, or no_run()
    std::uint16_t message;    // 2 edge for a forward's, 2 edge + 1 for a backward's, or no_message()
    std::uint16_t mark;       // kFirst: the stage's first run; kLast: its last
    std::uint32_t waits_for;  // slot of the message; kNoWait
    std::uint32_t posts_to;   // slot of the message; kNowhere
  };
  static constexpr std::uint16_t kFirst = 1, kLast = 2;
  // Slots are used again when the message has been read. The first two are never those of a message.
  static constexpr std::uint32_t kNoWait = 0, kNowhere = 1;

  int stages = 0, ranks = 0, microbatches = 0;
  bool trains = false, splits_backward = false;
  std::vector<int> rank_of_stage;        // [stage]
  std::vector<int> from, to;             // [edge]
  std::vector<Operation> operations;     // those of a rank in the order of its schedule
  std::vector<std::int32_t> microbatch;  // [operation]
  std::uint32_t slots = 2;
  struct Channel {
    int from, to;  // ranks
  };
  std::vector<Channel> channels;          // between ranks that exchange messages, one per direction
  std::vector<std::uint16_t> channel_of;  // [message] the last: number of channels, where there is no message
  std::vector<int> endings;               // stages in the order of their last runs

  [[nodiscard]] static constexpr std::uint16_t run_number(int stage, Pass pass) {
    return static_cast<std::uint16_t>(4 * stage + static_cast<int>(pass));
  }
  [[nodiscard]] std::uint16_t no_run() const { return static_cast<std::uint16_t>(4 * stages); }
  [[nodiscard]] std::uint16_t no_message() const { return static_cast<std::uint16_t>(2 * from.size()); }
};

// When a message between stages leaves: AtOnce, when its run has ended; InStep, under 1f1b, when its sender has ended
// the runs of the ticks (tick_of) before the one in which it is read (core/plan/lowering/build_instructions.cpp), which
// between stages that are one apart is the same.
enum class MessagesLeave { AtOnce, InStep };

// Only `from` and `to` of edges are read. Throws InternalError where runs wait for each other for ever, or a pass is
// missing or there twice. REQUIRES: what make_schedule does; at most 16000 stages and 32000 edges.
[[nodiscard]] PipelineShape pipeline_shape(ScheduleKind kind, int stages, int microbatches,
                                           const std::vector<PipelineTimes::Edge>& edges, int chunks = 1);
// Any schedule. `after` [stage]: stages_after of core/schedule/schedule.h; read for InStep only. `copies`: of its
// traits.
[[nodiscard]] PipelineShape pipeline_shape(const Schedule& schedule, const std::vector<int>& rank_of_stage,
                                           const std::vector<PipelineTimes::Edge>& edges,
                                           MessagesLeave leave = MessagesLeave::AtOnce,
                                           const std::vector<int>& after = {}, int copies = 1);
// [stage] of stages that feed one another as `edges` say.
[[nodiscard]] std::vector<int> stages_after_of(int stages, const std::vector<PipelineTimes::Edge>& edges);

// Same meaning as the other simulate_pipeline, for any schedule: one pass over the operations. REQUIRES: times of the
// shape's stages and edges, these in the shape's order.
[[nodiscard]] PipelineResult simulate_pipeline(const PipelineShape& shape, const PipelineTimes& times);

// Throws InternalError where `times` are not of this shape, or backward_weight is not a part of backward.
void check_times(const PipelineShape& shape, const PipelineTimes& times);

// What comes after the last runs: the rings and the updates. `clock` [rank]: end of its last run. Returns the end of
// the step.
[[nodiscard]] SimTime end_of_step(const PipelineShape& shape, const PipelineTimes& times, std::vector<SimTime> clock,
                                  const std::vector<SimTime>& last_end);

}  // namespace meshwright
