// SPDX-License-Identifier: Apache-2.0
// No list of ready runs is needed: three schedules have a loop order in which every run comes after the runs it waits
// for. For any other schedule the order is found first (pipeline_shape.h).
//
//   gpipe, inference: every microbatch goes down all stages in their order, then every microbatch up again. A message
//     is posted when its run ends.
//   1f1b: by the ticks of tick_of. In one tick a stage runs one pass at most, and what it reads was made before that
//     tick. A message is posted when its sender has ended the runs of the ticks before the one in which it is read
//     (core/plan/lowering/build_instructions.cpp), which between stages that are one apart is when its run ends.
#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "simulator/pipeline/pipeline_shape.h"
#include "simulator/pipeline/simulate_pipeline.h"

namespace meshwright {

namespace {

// The edges at one end of every stage, in one array.
struct EdgeLists {
  struct Link {
    std::size_t other;  // the sender
    SimTime duration;
  };
  std::vector<Link> links;
  std::vector<std::size_t> begin;  // [stage], and one beyond the last

  template <class Receiver, class Describe>
  EdgeLists(const std::vector<PipelineTimes::Edge>& edges, std::size_t stages, Receiver receiver, Describe describe)
      : links(edges.size()), begin(stages + 1, 0) {
    for (const auto& edge : edges) ++begin[receiver(edge) + 1];
    for (std::size_t s = 0; s < stages; ++s) begin[s + 1] += begin[s];
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    for (const auto& edge : edges) links[next[receiver(edge)]++] = describe(edge);
  }
};

SimTime ring_time(const PipelineTimes& times, std::size_t stage) {
  if (times.ring_step.empty()) return SimTime{0};
  return {2 * (times.replicas - 1) * times.ring_step[stage].ps};
}

std::size_t first(const PipelineTimes::Edge& edge) { return static_cast<std::size_t>(edge.from); }
std::size_t second(const PipelineTimes::Edge& edge) { return static_cast<std::size_t>(edge.to); }

class PipelineRun {
 public:
  PipelineRun(int microbatches, const PipelineTimes& times)
      : times_(times),
        stages_(times.forward.size()),
        microbatches_(microbatches),
        down_(times.edges, stages_, second,
              [](const auto& edge) {
                return EdgeLists::Link{first(edge), edge.forward};
              }),
        up_(times.edges, stages_, first,
            [](const auto& edge) {
              return EdgeLists::Link{second(edge), edge.backward};
            }),
        down_free_(times.edges.size()),
        up_free_(times.edges.size()),
        clock_(stages_),
        first_begin_(stages_) {}

  void run_phases(bool with_backward) {
    for (int m = 0; m < microbatches_; ++m)
      for (std::size_t s = 0; s < stages_; ++s) clock_[s] = forward_end(s, m);
    for (int m = 0; with_backward && m < microbatches_; ++m)
      for (std::size_t s = stages_; s-- > 0;) clock_[s] = backward_end(s);
  }

  void run_alternating() {
    std::vector<int> after(stages_, 0);
    for (std::size_t s = stages_; s-- > 0;)
      for (std::size_t l = up_.begin[s]; l < up_.begin[s + 1]; ++l)
        after[s] = std::max(after[s], after[up_.links[l].other] + 1);
    const int most = *std::max_element(after.begin(), after.end());
    std::vector<SimTime> next(stages_);
    for (int tick = -most; tick <= 2 * microbatches_ - 1 + most; ++tick) {
      // What is sent in this tick is what its senders had made before it: their clocks move on after all have read
      // them.
      for (std::size_t s = 0; s < stages_; ++s) {
        // tick_of, solved for the microbatch: floored halves, of which the forward's is exact in every second tick and
        // the backward's in the others.
        const bool forward = ((tick + after[s]) & 1) == 0;
        const int m = (forward ? tick + after[s] : tick - after[s]) >> 1;
        const bool runs = 0 <= m && m < microbatches_;
        next[s] = !runs ? clock_[s] : forward ? forward_end(s, m) : backward_end(s);
      }
      std::swap(clock_, next);
    }
  }

  // The end of the step is the caller's to find.
  PipelineResult result() { return {{0}, std::move(first_begin_), std::move(clock_)}; }

 private:
  // Posts what a stage reads, and returns when it has it and is free.
  SimTime ready(std::size_t s, const EdgeLists& edges, std::vector<SimTime>& free) const {
    SimTime begin = clock_[s];
    for (std::size_t l = edges.begin[s]; l < edges.begin[s + 1]; ++l) {
      free[l] = std::max(free[l], clock_[edges.links[l].other]) + edges.links[l].duration;
      begin = std::max(begin, free[l]);
    }
    return begin;
  }
  SimTime forward_end(std::size_t s, int m) {
    const SimTime begin = ready(s, down_, down_free_);
    if (m == 0) first_begin_[s] = begin;
    return begin + times_.forward[s];
  }
  SimTime backward_end(std::size_t s) { return ready(s, up_, up_free_) + times_.backward[s]; }

  const PipelineTimes& times_;
  const std::size_t stages_;
  const int microbatches_;
  EdgeLists down_, up_;                       // activations to a stage, gradients to a stage
  std::vector<SimTime> down_free_, up_free_;  // [link] when its channel is free
  std::vector<SimTime> clock_;                // [stage] end of its latest run
  std::vector<SimTime> first_begin_;
};

}  // namespace

void check_times(const PipelineShape& shape, const PipelineTimes& times) {
  const auto stages = static_cast<std::size_t>(shape.stages);
  MW_CHECK(times.forward.size() == stages, "{} forward times for {} stages", times.forward.size(), stages);
  MW_CHECK(!shape.trains || (times.backward.size() == stages && times.update.size() == stages),
           "{} backward and {} update times for {} stages", times.backward.size(), times.update.size(), stages);
  MW_CHECK(times.backward_weight.empty() || times.backward_weight.size() == stages,
           "{} times of the weights' gradients for {} stages", times.backward_weight.size(), stages);
  MW_CHECK(times.replicas >= 1 && (times.ring_step.empty() || times.ring_step.size() == stages),
           "{} replicas, {} times of a ring's step for {} stages", times.replicas, times.ring_step.size(), stages);
  MW_CHECK(times.edges.size() == shape.from.size(), "{} edges instead of {}", times.edges.size(), shape.from.size());
  for (std::size_t e = 0; e < shape.from.size(); ++e)
    MW_CHECK(times.edges[e].from == shape.from[e] && times.edges[e].to == shape.to[e],
             "edge {} goes from stage {} to {} instead of from {} to {}", e, times.edges[e].from, times.edges[e].to,
             shape.from[e], shape.to[e]);
  for (std::size_t s = 0; s < times.backward_weight.size(); ++s)
    MW_CHECK(SimTime{0} <= times.backward_weight[s] && times.backward_weight[s] <= times.backward[s],
             "{} ps of the {} ps of stage {}'s backward are its weights'", times.backward_weight[s].ps,
             times.backward[s].ps, s);
}

SimTime end_of_step(const PipelineShape& shape, const PipelineTimes& times, std::vector<SimTime> clock,
                    const std::vector<SimTime>& last_end) {
  if (shape.trains) {
    std::vector<SimTime> ring(clock.size());  // [rank] when its rings are free
    for (const int stage : shape.endings) {
      const auto s = static_cast<std::size_t>(stage), rank = static_cast<std::size_t>(shape.rank_of_stage[s]);
      ring[rank] = std::max(ring[rank], last_end[s]) + ring_time(times, s);
      clock[rank] = std::max(clock[rank], ring[rank]) + times.update[s];
    }
  }
  return *std::max_element(clock.begin(), clock.end());
}

PipelineResult simulate_pipeline(const PipelineShape& shape, const PipelineTimes& times) {
  check_times(shape, times);
  const auto stages = static_cast<std::size_t>(shape.stages);
  // One past the last run and message: nothing, which takes no time.
  std::vector<SimTime> runs(4 * stages + 1), messages(shape.channel_of.size());
  for (std::size_t s = 0; s < stages; ++s) {
    const SimTime weight = times.backward_weight.empty() ? SimTime{0} : times.backward_weight[s];
    const auto run = [&](Pass pass) -> SimTime& { return runs[4 * s + static_cast<std::size_t>(pass)]; };
    run(Pass::Forward) = times.forward[s];
    if (!shape.trains) continue;
    run(Pass::Backward) = times.backward[s];
    run(Pass::BackwardInput) = times.backward[s] - weight;
    run(Pass::BackwardWeight) = weight;
  }
  for (std::size_t e = 0; e < times.edges.size(); ++e) {
    messages[2 * e] = times.edges[e].forward;
    messages[2 * e + 1] = times.edges[e].backward;
  }
  std::vector<SimTime> slots(shape.slots), channels(shape.channels.size() + 1);
  std::vector<SimTime> clock(static_cast<std::size_t>(shape.ranks));
  PipelineResult result{{0}, std::vector<SimTime>(stages), std::vector<SimTime>(stages)};
  for (const PipelineShape::Operation& operation : shape.operations) {
    const SimTime begin = std::max(clock[operation.rank], slots[operation.waits_for]);
    const SimTime end = begin + runs[operation.run];
    clock[operation.rank] = end;
    SimTime& channel = channels[shape.channel_of[operation.message]];
    channel = std::max(channel, end) + messages[operation.message];
    slots[operation.posts_to] = channel;
    if (operation.mark == 0) continue;
    const std::size_t stage = operation.run / 4U;
    if ((operation.mark & PipelineShape::kFirst) != 0) result.first_begin[stage] = begin;
    if ((operation.mark & PipelineShape::kLast) != 0) result.last_end[stage] = end;
  }
  result.step = end_of_step(shape, times, std::move(clock), result.last_end);
  return result;
}

PipelineResult simulate_pipeline(ScheduleKind schedule, int microbatches, const PipelineTimes& times, int chunks) {
  const std::size_t stages = times.forward.size();
  MW_CHECK(stages >= 1 && microbatches >= 1, "a pipeline of {} stages and {} microbatches", stages, microbatches);
  if (schedule != ScheduleKind::OneFOneB && schedule != ScheduleKind::GPipe && schedule != ScheduleKind::Inference)
    return simulate_pipeline(pipeline_shape(schedule, static_cast<int>(stages), microbatches, times.edges, chunks),
                             times);
  MW_CHECK(chunks == 1, "{} stages per rank under {}", chunks, name_of(schedule));
  for (const PipelineTimes::Edge& edge : times.edges)
    MW_CHECK(0 <= edge.from && edge.from < edge.to && static_cast<std::size_t>(edge.to) < stages,
             "stage {} of {} feeds stage {}", edge.from, stages, edge.to);
  const bool trains = schedule != ScheduleKind::Inference;
  MW_CHECK(!trains || (times.backward.size() == stages && times.update.size() == stages),
           "{} backward and {} update times for {} stages", times.backward.size(), times.update.size(), stages);
  PipelineRun run(microbatches, times);
  if (schedule == ScheduleKind::OneFOneB) {
    run.run_alternating();
  } else {
    run.run_phases(trains);
  }
  PipelineResult result = run.result();
  for (std::size_t s = 0; s < stages; ++s)
    result.step =
        std::max(result.step, trains ? result.last_end[s] + ring_time(times, s) + times.update[s] : result.last_end[s]);
  return result;
}

}  // namespace meshwright
