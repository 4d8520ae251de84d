// SPDX-License-Identifier: Apache-2.0
// No list of ready runs: each schedule has a loop order in which every run comes after what it waits for.
//
//   gpipe, inference: every microbatch goes down all stages in their order, then every microbatch up again. A message
//     is posted when its run ends.
//   1f1b: by the ticks of tick_of. In one tick a stage runs one pass at most, and what it reads was made before that
//     tick. A message is posted when its sender has ended the runs of the ticks before the one in which it is read
//     (core/plan/build_instructions.cpp), which between stages that are one apart is when its run ends.
#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "simulator/simulate.h"

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

  PipelineResult result(bool with_update) {
    PipelineResult result{{0}, std::move(first_begin_), std::move(clock_)};
    for (std::size_t s = 0; s < stages_; ++s)
      result.step = std::max(result.step, with_update ? result.last_end[s] + times_.update[s] : result.last_end[s]);
    return result;
  }

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

PipelineResult simulate_pipeline(ScheduleKind schedule, int microbatches, const PipelineTimes& times) {
  const std::size_t stages = times.forward.size();
  MW_CHECK(stages >= 1 && microbatches >= 1, "a pipeline of {} stages and {} microbatches", stages, microbatches);
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
  return run.result(trains);
}

}  // namespace meshwright
