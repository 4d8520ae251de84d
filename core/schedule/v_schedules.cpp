// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <tuple>

#include "core/base/errors.h"
#include "core/schedule/schedule_rules.h"

namespace meshwright {

namespace {

constexpr int kChunks = 2;

// The chunk of a rank that is nearer to the input (0) or to the loss (1).
StageId stage_of(int chunk, int rank, int ranks) { return StageId(chunk == 0 ? rank : 2 * ranks - 1 - rank); }

// Appends the next run of a kind and chunk to a rank. Microbatches that do not exist are counted but leave no run.
class Rank {
 public:
  Rank(int rank, int ranks, int microbatches)
      : Rank({stage_of(0, rank, ranks), stage_of(1, rank, ranks)}, {0, 0}, microbatches) {}
  // `first`: the number of each chunk's first microbatch, of `microbatches`.
  Rank(std::array<StageId, kChunks> stages, std::array<int, kChunks> first, int microbatches)
      : stages_(stages), first_(first), microbatches_(microbatches) {}

  void run(Pass pass, int chunk) {
    const auto c = static_cast<std::size_t>(chunk);
    const int microbatch = next(pass, chunk)++;
    if (microbatch < microbatches_) runs_.push_back({pass, MicrobatchId(first_[c] + microbatch), stages_[c]});
  }
  void backward(int chunk) {
    run(Pass::BackwardInput, chunk);
    run(Pass::BackwardWeight, chunk);
  }
  [[nodiscard]] int& next(Pass pass, int chunk) {
    return next_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(pass)];
  }
  [[nodiscard]] std::vector<ScheduledRun> take() { return std::move(runs_); }

 private:
  std::array<StageId, kChunks> stages_;
  std::array<int, kChunks> first_;
  int microbatches_;
  std::array<std::array<int, 4>, kChunks> next_ = {};  // [chunk][pass] the microbatch of its next run, from 0
  std::vector<ScheduledRun> runs_;
};

}  // namespace

// With unit times rank r begins at tick r and is never idle: the first microbatch is back from the turn 2 (ranks - r) -
// 1 ticks after it left, which its own forwards fill; the r microbatches that turn next are taken in between, and then
// every backward is ready when its turn comes. Weight gradients run at once while forwards are left; the last ones
// wait, so that the ranks before the turn get their gradients early.
//
// The rule is that of 2 ranks - 1 microbatches or more; of fewer, the runs of those that do not exist are left out.
Schedule zero_bubble_v(int ranks, int microbatches) {
  const int all = std::max(microbatches, 2 * ranks - 1);
  Schedule schedule;
  for (int r = 0; r < ranks; ++r) {
    Rank rank(r, ranks, microbatches);
    for (int i = 0; i < 2 * (ranks - r) - 1; ++i) rank.run(Pass::Forward, 0);
    for (int i = 0; i < r; ++i) {
      rank.run(Pass::Forward, 1);
      rank.run(Pass::Forward, 0);
    }
    for (int i = 0; i < ranks - r; ++i) {
      rank.run(Pass::Forward, 1);
      rank.backward(1);
    }
    while (rank.next(Pass::Forward, 1) < all) {
      if (rank.next(Pass::Forward, 0) < all) rank.run(Pass::Forward, 0);
      rank.backward(0);
      rank.run(Pass::Forward, 1);
      rank.backward(1);
    }
    for (int i = 0; i < r; ++i) {
      rank.run(Pass::BackwardInput, 0);
      rank.run(Pass::BackwardInput, 1);
    }
    for (int i = 0; i < ranks - r; ++i) rank.backward(0);
    for (const int chunk : {1, 0})
      while (rank.next(Pass::BackwardWeight, chunk) < all) rank.run(Pass::BackwardWeight, chunk);
    schedule.push_back(rank.take());
  }
  return schedule;
}

namespace {

// The eight steps of dualpipe.py and dualpipev.py of the DeepSeek-AI repository, with their numbers of runs, for rank r
// of `ranks` in a V; every backward is in two halves. In the main step a forward of one chunk is next to the backward
// of the other: both belong to different microbatches and wait for nothing of each other. Where the repository delays
// weight gradients, they wait here, too. `all`: microbatches of each chunk.
void append_dual_steps(Rank& rank, int r, int ranks, int all) {
  const int behind = ranks - r - 1;
  std::vector<int> waiting;  // chunks whose weight gradients wait, first come first
  std::size_t ended = 0;
  const auto input = [&](int chunk) {
    rank.run(Pass::BackwardInput, chunk);
    waiting.push_back(chunk);
  };
  const auto weight = [&] { rank.run(Pass::BackwardWeight, waiting.at(ended++)); };
  const auto pair = [&](int forward) {
    rank.run(Pass::Forward, forward);
    rank.backward(1 - forward);
  };
  for (int i = 0; i < 2 * behind; ++i) rank.run(Pass::Forward, 0);
  for (int i = 0; i < r + 1; ++i)
    for (const int chunk : {0, 1}) rank.run(Pass::Forward, chunk);
  for (int i = 0; i < behind; ++i) {
    rank.backward(1);
    rank.run(Pass::Forward, 1);
  }
  for (int i = 0; i < all - 2 * ranks + r + 1; ++i)
    for (const int chunk : {0, 1}) pair(chunk);
  for (int i = 0; i < behind; ++i) {
    rank.backward(1);
    pair(1);
  }
  // Of these 2 (r + 1) backwards the second half leaves its weight gradients for the end.
  for (int i = 0; i < 2 * (r + 1); ++i) {
    const int chunk = 1 - i % 2;
    if (i < r + 1)
      rank.backward(chunk);
    else
      input(chunk);
  }
  for (int i = 0; i < behind; ++i) {
    weight();
    input(0);
  }
  while (ended < waiting.size()) weight();
}

}  // namespace

// The rule is that of 2 ranks microbatches or more; of fewer, the runs of those that do not exist are left out.
Schedule dual_pipe_v(int ranks, int microbatches) {
  const int all = std::max(microbatches, 2 * ranks);
  Schedule schedule;
  for (int r = 0; r < ranks; ++r) {
    Rank rank(r, ranks, microbatches);
    append_dual_steps(rank, r, ranks, all);
    schedule.push_back(rank.take());
  }
  return schedule;
}

// dualpipe-v on half of the ranks, twice: what turns there at the last rank goes on here to the other half, whose ranks
// do the same from the other end. The first chunk is that whose microbatches enter at the nearer end.
Schedule dual_pipe(int ranks, int microbatches) {
  const int half = ranks / 2, each = microbatches / 2;
  Schedule schedule;
  for (int r = 0; r < ranks; ++r) {
    std::array<StageId, kChunks> stages = {StageId(r), StageId(2 * ranks - 1 - r)};
    std::array<int, kChunks> first = {0, each};
    if (r >= half) {
      std::swap(stages[0], stages[1]);
      std::swap(first[0], first[1]);
    }
    Rank rank(stages, first, each);
    append_dual_steps(rank, std::min(r, ranks - 1 - r), half, each);
    schedule.push_back(rank.take());
  }
  return schedule;
}

namespace {

// The block that v-half repeats every 6 ticks (arXiv:2405.15362): when, relative to the others of the same microbatch,
// each pass of a rank begins. Forwards go down the ranks at half speed and back up at full speed, and so do gradients,
// which keeps a microbatch about half as long as 1f1b does.
class HalfBlock {
 public:
  HalfBlock(int ranks, int rank) {
    const int gap = ranks % 2 == 0 ? 3 : 0;  // without it two passes of an even number of ranks would fall together
    forward = {2 * rank, 3 * ranks - rank - 2};
    gradient = {6 * ranks + gap - rank - 2, 3 * ranks + gap + 2 * rank - 1};
  }
  std::array<int, kChunks> forward, gradient;

  // From the forward until weight gradients that follow at once: so many ticks, of which 6 belong to each microbatch.
  [[nodiscard]] int most_alive(int chunk) const {
    const auto c = static_cast<std::size_t>(chunk);
    return (gradient[c] + 2 - forward[c] + 5) / 6;
  }
};

// Runs v-half in unit time: each rank begins, of the runs that are ready, the one that comes first in the repeated
// block; weight gradients when there is nothing else. A chunk holds no more activations than in the repeated block,
// which meets every such limit in microbatch order: there is no deadlock.
class HalfClock {
 public:
  HalfClock(int ranks, int microbatches) : ranks_(ranks), microbatches_(microbatches), schedule_(as_size(ranks)) {
    for (int r = 0; r < ranks; ++r) blocks_.emplace_back(ranks, r);
    const std::size_t stages = as_size(kChunks * ranks);
    forward_end_.assign(stages, {});
    gradient_end_.assign(stages, {});
    weights_.assign(stages, 0);
  }

  Schedule run() {
    int left = 3 * kChunks * ranks_ * microbatches_;
    for (int tick = 0; left > 0; ++tick) {
      bool any = false;
      for (int r = 0; r < ranks_; ++r) {
        const std::optional<ScheduledRun> run = first_ready(r, tick);
        if (!run) continue;
        any = true;
        --left;
        begin(r, *run, tick);
      }
      MW_CHECK(any, "nothing is ready in tick {} with {} runs left", tick, left);
    }
    return std::move(schedule_);
  }

 private:
  static std::size_t as_size(int n) { return static_cast<std::size_t>(n); }

  // Whether the stage next to `stage` has ended its run of the same microbatch by `tick`.
  static bool ended(const std::vector<int>& ends, int microbatch, int tick) {
    return as_size(microbatch) < ends.size() && ends[as_size(microbatch)] <= tick;
  }

  [[nodiscard]] std::optional<ScheduledRun> first_ready(int rank, int tick) const {
    std::optional<ScheduledRun> best;
    std::tuple<bool, int> best_turn;
    const auto offer = [&](Pass pass, int microbatch, StageId stage, int turn) {
      const std::tuple<bool, int> it(pass == Pass::BackwardWeight, turn + 6 * microbatch);
      if (best && best_turn <= it) return;
      best = ScheduledRun{pass, MicrobatchId(microbatch), stage};
      best_turn = it;
    };
    const HalfBlock& block = blocks_[as_size(rank)];
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const StageId stage = stage_of(chunk, rank, ranks_);
      const std::size_t s = stage.index();
      const int forwards = static_cast<int>(forward_end_[s].size());
      const int gradients = static_cast<int>(gradient_end_[s].size());
      if (forwards < microbatches_ && forwards - weights_[s] < block.most_alive(chunk) &&
          (s == 0 || ended(forward_end_[s - 1], forwards, tick)))
        offer(Pass::Forward, forwards, stage, block.forward[as_size(chunk)]);
      if (gradients < microbatches_ && ended(forward_end_[s], gradients, tick) &&
          (s + 1 == forward_end_.size() || ended(gradient_end_[s + 1], gradients, tick)))
        offer(Pass::BackwardInput, gradients, stage, block.gradient[as_size(chunk)]);
      if (weights_[s] < gradients) offer(Pass::BackwardWeight, weights_[s], stage, block.gradient[as_size(chunk)]);
    }
    return best;
  }

  void begin(int rank, const ScheduledRun& run, int tick) {
    schedule_[as_size(rank)].push_back(run);
    const std::size_t s = run.stage.index();
    if (run.pass == Pass::Forward) forward_end_[s].push_back(tick + 1);
    if (run.pass == Pass::BackwardInput) gradient_end_[s].push_back(tick + 1);
    if (run.pass == Pass::BackwardWeight) ++weights_[s];
  }

  int ranks_, microbatches_;
  std::vector<HalfBlock> blocks_;                             // [rank]
  std::vector<std::vector<int>> forward_end_, gradient_end_;  // [stage][microbatch] the tick after the run
  std::vector<int> weights_;                                  // [stage] weight gradients begun
  Schedule schedule_;
};

}  // namespace

Schedule v_half(int ranks, int microbatches) { return HalfClock(ranks, microbatches).run(); }

}  // namespace meshwright
