// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/search_zero_bubble.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr SimTime kNever{std::numeric_limits<std::int64_t>::max()};

// What a rank does where its input leaves it a choice.
struct Rule {
  // Whether a weight gradient runs in a gap that is too short for it, before the next thing that is known to arrive.
  // What is late by the rest delays others; a rank that waits is idle. Balance: when waiting would leave the rank idle
  // for longer in all than the most idle rank is (arXiv:2401.10241, section 3.1).
  enum class ShortGap { Balance, Fill, Wait } short_gap;
  // Before its first backward a rank begins no forward that would end after that may begin.
  bool first_backward_on_time;
  // By how many forwards fewer than the rank before it a rank runs before its first backward, at least.
  int fewer_ahead;
};

// One rank while a rule is played.
struct Rank {
  std::vector<SimTime> forward_ready, gradient_ready;  // [microbatch] when a run may begin; kNever: not known yet
  int forwards = 0, gradients = 0, weights = 0;        // runs begun
  SimTime now{0};                                      // when the last of them ends
  SimTime begin{0}, idle{0};                           // of its first run; between its runs so far
  SimTime wake{0};                                     // when it decides next
  int most_ahead = 0;                                  // forwards before its first backward
};

class Player {
 public:
  Player(const ZeroBubbleProblem& problem, const Rule& rule)
      : problem_(problem), rule_(rule), ranks_(problem.forward.size()), schedule_(problem.forward.size()) {
    const auto all = static_cast<std::size_t>(problem.microbatches);
    for (Rank& rank : ranks_) {
      rank.forward_ready.assign(all, kNever);
      rank.gradient_ready.assign(all, kNever);
      rank.wake = kNever;
    }
    ranks_.front().forward_ready.assign(all, SimTime{0});
    ranks_.front().wake = SimTime{0};
    limit_forwards_ahead();
  }

  FoundSchedule play() {
    for (;;) {
      std::size_t next = 0;
      for (std::size_t r = 1; r < ranks_.size(); ++r)
        if (ranks_[r].wake < ranks_[next].wake) next = r;
      if (ranks_[next].wake == kNever) break;
      decide(next, ranks_[next].wake);
    }
    SimTime step{0}, span{0};
    for (const Rank& rank : ranks_) {
      MW_CHECK(rank.weights == problem_.microbatches, "a rank ends after {} of {} microbatches", rank.weights,
               problem_.microbatches);
      step = std::max(step, rank.now);
      span = std::max(span, rank.now - rank.begin);
    }
    return {std::move(schedule_), step, span};
  }

 private:
  // What fits between the first forward and the first backward of each rank if nothing delays the first microbatch.
  void limit_forwards_ahead() {
    std::vector<SimTime> forward_begin;
    SimTime time{0};
    for (const SimTime forward : problem_.forward) {
      forward_begin.push_back(time);
      time += forward + problem_.message;
    }
    time = time - problem_.message;
    for (std::size_t r = ranks_.size(); r-- > 0;) {
      const std::int64_t between = (time - forward_begin[r]).ps,
                         one = std::max<std::int64_t>(problem_.forward[r].ps, 1);
      const std::int64_t fit = rule_.first_backward_on_time ? between / one : (between + one - 1) / one;
      ranks_[r].most_ahead = static_cast<int>(std::clamp<std::int64_t>(fit, 1, problem_.microbatches));
      time += problem_.backward_input[r] + problem_.message;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      int& most = ranks_[r].most_ahead;
      most = std::min(most, static_cast<int>(std::min(problem_.memory_limit[r], 1e9)));
      if (r > 0) most = std::min(most, std::max(1, ranks_[r - 1].most_ahead - rule_.fewer_ahead));
    }
  }

  [[nodiscard]] bool has_room(std::size_t r) const {
    const Rank& rank = ranks_[r];
    const double kept = (rank.forwards - rank.gradients) + problem_.kept_for_weights * (rank.gradients - rank.weights);
    return kept + 1.0 <= problem_.memory_limit[r] + 1e-9;
  }

  [[nodiscard]] SimTime next_forward(const Rank& rank) const {
    if (rank.forwards == problem_.microbatches) return kNever;
    return rank.forward_ready[static_cast<std::size_t>(rank.forwards)];
  }
  [[nodiscard]] SimTime next_gradient(const Rank& rank) const {
    if (rank.gradients == problem_.microbatches) return kNever;
    return rank.gradient_ready[static_cast<std::size_t>(rank.gradients)];
  }

  void decide(std::size_t r, SimTime now) {
    Rank& rank = ranks_[r];
    const SimTime gradient = next_gradient(rank);
    const SimTime forward = rank.gradients > 0 || rank.forwards < rank.most_ahead ? next_forward(rank) : kNever;
    const bool room = has_room(r);
    if (gradient <= now) return begin(r, Pass::BackwardInput, now);
    if (forward <= now && room) return begin(r, Pass::Forward, now);
    const bool has_weight = rank.weights < rank.gradients;
    if (has_weight && forward <= now) return begin(r, Pass::BackwardWeight, now);  // makes room
    const SimTime next = std::min(gradient, room ? forward : kNever);
    if (has_weight && fills(r, now, next)) return begin(r, Pass::BackwardWeight, now);
    rank.wake = next;
  }

  [[nodiscard]] bool fills(std::size_t r, SimTime now, SimTime next) const {
    if (next == kNever || now + problem_.backward_weight[r] <= next) return true;
    if (rule_.short_gap != Rule::ShortGap::Balance) return rule_.short_gap == Rule::ShortGap::Fill;
    SimTime most_idle{0};
    for (const Rank& rank : ranks_) most_idle = std::max(most_idle, rank.idle);
    return next - now > most_idle - ranks_[r].idle;
  }

  void begin(std::size_t r, Pass pass, SimTime now) {
    Rank& rank = ranks_[r];
    if (rank.forwards == 0)
      rank.begin = now;
    else
      rank.idle += now - rank.now;
    int& microbatch = pass == Pass::Forward         ? rank.forwards
                      : pass == Pass::BackwardInput ? rank.gradients
                                                    : rank.weights;
    schedule_[r].push_back({pass, MicrobatchId(microbatch), StageId(static_cast<int>(r))});
    const auto m = static_cast<std::size_t>(microbatch++);
    switch (pass) {
      case Pass::Forward:
        rank.now = now + problem_.forward[r];
        if (r + 1 < ranks_.size())
          arrives(r + 1, ranks_[r + 1].forward_ready[m], rank.now + problem_.message);
        else
          rank.gradient_ready[m] = rank.now;
        break;
      case Pass::BackwardInput:
        rank.now = now + problem_.backward_input[r];
        if (r > 0) arrives(r - 1, ranks_[r - 1].gradient_ready[m], rank.now + problem_.message);
        break;
      default:
        rank.now = now + problem_.backward_weight[r];
    }
    rank.wake = rank.weights < problem_.microbatches ? rank.now : kNever;
  }

  // A rank that waits decides anew when it learns of something earlier.
  void arrives(std::size_t r, SimTime& ready, SimTime time) {
    ready = time;
    ranks_[r].wake = std::min(ranks_[r].wake, std::max(time, ranks_[r].now));
  }

  const ZeroBubbleProblem& problem_;
  const Rule rule_;
  std::vector<Rank> ranks_;
  Schedule schedule_;
};

// The handcrafted schedules play their own order.
FoundSchedule in_order(const ZeroBubbleProblem& problem, Schedule schedule) {
  const std::size_t ranks = schedule.size();
  const auto all = static_cast<std::size_t>(problem.microbatches);
  std::vector<std::vector<SimTime>> forward(ranks, std::vector<SimTime>(all, kNever)), gradient = forward;
  std::vector<std::size_t> done(ranks, 0);
  std::vector<SimTime> now(ranks), begin(ranks);
  const auto run_next = [&](std::size_t r) {
    if (done[r] == schedule[r].size()) return false;
    const ScheduledRun& run = schedule[r][done[r]];
    const std::size_t m = run.microbatch.index();
    std::optional<SimTime> sent;
    if (run.pass == Pass::Forward && r > 0) sent = forward[r - 1][m];
    if (run.pass == Pass::BackwardInput && r + 1 < ranks) sent = gradient[r + 1][m];
    if (sent == kNever) return false;
    if (sent) now[r] = std::max(now[r], *sent + problem.message);
    if (done[r]++ == 0) begin[r] = now[r];
    switch (run.pass) {
      case Pass::Forward:
        forward[r][m] = now[r] += problem.forward[r];
        break;
      case Pass::BackwardInput:
        gradient[r][m] = now[r] += problem.backward_input[r];
        break;
      default:
        now[r] += problem.backward_weight[r];
    }
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < ranks; ++r)
      while (run_next(r)) progress = true;
  }
  FoundSchedule found{std::move(schedule), SimTime{0}, SimTime{0}};
  for (std::size_t r = 0; r < ranks; ++r) {
    found.step = std::max(found.step, now[r]);
    found.rank_span = std::max(found.rank_span, now[r] - begin[r]);
  }
  return found;
}

void check_problem(const ZeroBubbleProblem& problem) {
  const std::size_t ranks = problem.forward.size();
  MW_CHECK(ranks >= 1 && problem.microbatches >= 1, "{} ranks, {} microbatches", ranks, problem.microbatches);
  MW_CHECK(problem.backward_input.size() == ranks && problem.backward_weight.size() == ranks &&
               problem.memory_limit.size() == ranks,
           "{} ranks with {} and {} times and {} limits", ranks, problem.backward_input.size(),
           problem.backward_weight.size(), problem.memory_limit.size());
  MW_CHECK(problem.kept_for_weights >= 0.0 && problem.kept_for_weights <= 1.0, "{} of an activation kept",
           problem.kept_for_weights);
}

}  // namespace

std::optional<FoundSchedule> search_zero_bubble(const ZeroBubbleProblem& problem, ZeroBubbleGoal goal) {
  check_problem(problem);
  const double least = *std::min_element(problem.memory_limit.begin(), problem.memory_limit.end());
  if (least < 1.0) return std::nullopt;

  std::optional<FoundSchedule> best;
  const auto offer = [&](FoundSchedule found) {
    const auto key = [&](const FoundSchedule& f) {
      return goal == ZeroBubbleGoal::Step ? std::pair(f.step, f.rank_span) : std::pair(f.rank_span, f.step);
    };
    if (!best || key(found) < key(*best)) best = std::move(found);
  };
  const int ranks = static_cast<int>(problem.forward.size());
  for (const ScheduleKind kind : {ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleH2})
    if (in_flight(kind, 0, problem.microbatches, ranks - 1) <= least)
      offer(in_order(problem, make_schedule(kind, line_of(ranks), problem.microbatches)));
  for (const auto gap : {Rule::ShortGap::Balance, Rule::ShortGap::Fill, Rule::ShortGap::Wait})
    for (const bool on_time : {true, false})
      for (const int fewer : {0, 1, 2}) offer(Player(problem, {gap, on_time, fewer}).play());
  return best;
}

}  // namespace meshwright
