// SPDX-License-Identifier: Apache-2.0
// No list of ready runs: each schedule has a loop order in which every run comes after what it waits for.
//
//   gpipe, inference: F(0,m) F(1,m) ... F(n-1,m) for every microbatch m, then B(n-1,m) ... B(0,m).
//   1f1b: in round k, F(0,k) ... F(n-1,k), then every B(s, k - (n-1-s)). Stage s is n-1-s forwards ahead of its
//   backwards, so
//     within its round F(s,k) precedes the backward that the schedule alternates it with, and B(s,m) follows B(s+1,m)
//     by one round.
#include <algorithm>

#include "core/base/errors.h"
#include "simulator/simulate.h"

namespace meshwright {

namespace {

class PipelineRun {
 public:
  PipelineRun(int microbatches, const PipelineTimes& times)
      : times_(times),
        stages_(times.forward.size()),
        microbatches_(static_cast<std::size_t>(microbatches)),
        clock_(stages_),
        free_forward_(stages_),
        free_backward_(stages_),
        gradient_(stages_) {
    first_begin_.reserve(stages_);
  }

  // F of one microbatch on every stage.
  void forward_wave() {
    SimTime arrival{0};
    for (std::size_t s = 0; s < stages_; ++s) {
      const SimTime begin = std::max(clock_[s], arrival);
      if (first_begin_.size() == s) first_begin_.push_back(begin);
      clock_[s] = begin + times_.forward[s];
      if (s + 1 < stages_) arrival = send(free_forward_[s], clock_[s], times_.send_forward[s]);
    }
  }

  // B of one microbatch on one stage; REQUIRES: the gradient from stage s + 1 was the last one sent to s.
  void backward(std::size_t s) {
    clock_[s] = std::max(clock_[s], gradient_[s]) + times_.backward[s];
    if (s > 0) gradient_[s - 1] = send(free_backward_[s - 1], clock_[s], times_.send_backward[s - 1]);
  }

  void run_phases(bool with_backward) {
    for (std::size_t m = 0; m < microbatches_; ++m) forward_wave();
    for (std::size_t m = 0; with_backward && m < microbatches_; ++m)
      for (std::size_t s = stages_; s-- > 0;) backward(s);
  }

  void run_alternating() {
    const std::size_t last = stages_ - 1;
    for (std::size_t round = 0; round < microbatches_ + last; ++round) {
      if (round < microbatches_) forward_wave();
      // Ascending: stage s takes its gradient before stage s + 1 sends the next one.
      const std::size_t from = round < last ? last - round : 0;
      const std::size_t to = std::min(stages_, microbatches_ + last - round);
      for (std::size_t s = from; s < to; ++s) backward(s);
    }
  }

  PipelineResult result(bool with_update) {
    PipelineResult result{{0}, std::move(first_begin_), std::move(clock_)};
    for (std::size_t s = 0; s < stages_; ++s)
      result.step = std::max(result.step, with_update ? result.last_end[s] + times_.update[s] : result.last_end[s]);
    return result;
  }

 private:
  static SimTime send(SimTime& channel_free, SimTime ready, SimTime duration) {
    return channel_free = std::max(channel_free, ready) + duration;
  }

  const PipelineTimes& times_;
  const std::size_t stages_, microbatches_;
  std::vector<SimTime> clock_;                         // [stage] end of its latest run
  std::vector<SimTime> free_forward_, free_backward_;  // [stage] when the channel to, from stage + 1 is free
  std::vector<SimTime> gradient_;                      // [stage] arrival of the latest gradient from stage + 1
  std::vector<SimTime> first_begin_;
};

}  // namespace

PipelineResult simulate_pipeline(ScheduleKind schedule, int microbatches, const PipelineTimes& times) {
  const std::size_t stages = times.forward.size();
  MW_CHECK(stages >= 1 && microbatches >= 1, "a pipeline of {} stages and {} microbatches", stages, microbatches);
  MW_CHECK(times.send_forward.size() == stages - 1, "{} times of activations between {} stages",
           times.send_forward.size(), stages);
  const bool trains = schedule != ScheduleKind::Inference;
  MW_CHECK(!trains || (times.backward.size() == stages && times.update.size() == stages &&
                       times.send_backward.size() == stages - 1),
           "{} backward, {} update and {} gradient times for {} stages", times.backward.size(), times.update.size(),
           times.send_backward.size(), stages);
  PipelineRun run(microbatches, times);
  if (schedule == ScheduleKind::OneFOneB) {
    run.run_alternating();
  } else {
    run.run_phases(trains);
  }
  return run.result(trains);
}

}  // namespace meshwright
