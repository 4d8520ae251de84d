// SPDX-License-Identifier: Apache-2.0
// Best-first search from the first stage to the last. What a beginning of a pipeline can still become is known from F:
// with stages of at most m its remainder takes at least F(class, i, d), and exactly that for some remainder that fits.
//
// The pipelines are told apart by their largest stage time, in intervals [low, high]. In an interval,
//  * sum(high) + w low bounds every cost, where a bound of the sum is cheap (Solver::bound_sum). A wide interval whose
//    turn it is is halved, so that F is computed only for narrow ones near the costs that are asked for.
//  * Once F is known for m = high, let W have the least sum, and s be its largest stage time. [low, s) goes back to the
//    queue with W's sum as its bound; for [s, high] the search starts, with W itself as a tight bound.
//  * A beginning with sum S and largest stage time t is bounded by S + F + w max(t, low). Whole pipelines faster than
//    `low` belong to another interval and are left out; they cost less than that bound, so there are no more of them
//    than pipelines already given.
//  * Beginnings that look better than what they come to are many when low and high are far apart for the table at hand.
//    A search that takes long to come to a pipeline is given up, and the halves go to the queue; what it gave already
//    is passed over when it comes again.
// Every pipeline belongs to one interval and is put together in one way, so none comes twice. Beginnings of bounds
// equal up to rounding are taken up longest first: one more pipeline of equal cost is a matter of few steps, however
// many there are.
#include "core/planner/pipeline/stage_dp_ranking.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/planner/pipeline/stage_dp_solver.h"

namespace meshwright {

using stage_dp::Keep;
using stage_dp::kNever;
using stage_dp::kRounding;
using stage_dp::Shape;
using stage_dp::Solver;
using stage_dp::Space;

namespace {

constexpr std::size_t kBatch = 32;  // continuations of a beginning that are kept at a time
constexpr int kPatience = 8;        // per layer, of a first search; its halves have twice as much
constexpr int kMaxPatience = 1 << 28;
constexpr double kNarrow = 1.0 / 16;  // of the cost: an interval that is searched

// Equal for costs that differ by rounding, but for the unlucky ones on both sides of a step.
double coarse(double cost) { return std::bit_cast<double>(std::bit_cast<std::uint64_t>(cost) & ~std::uint64_t{0xfff}); }

struct RankedInterval {
  double low, high, sum;
  int patience;                                     // stages added without a pipeline before the search is given up
  std::unique_ptr<Solver> solver = nullptr;         // while it is searched
  int idle = 0;                                     // stages added since the last pipeline
  std::vector<std::vector<TableStage>> given = {};  // its pipelines so far
};

// One more stage.
struct Continuation {
  double bound;
  TableStage stage;
  int rest;  // class of what follows, 0: nothing
  [[nodiscard]] auto key() const { return std::tuple(bound, stage, rest); }
};

// Stages chosen from the first on; `parent` is without the last of them.
struct Beginning {
  RankedInterval* interval;
  const Beginning* parent;
  TableStage stage;
  int depth, rest, first, devices;  // what follows: its class, first layer and devices
  double sum, slowest;
  std::vector<Continuation> batch;  // best last
  Continuation last;                // taken last
  bool more;                        // there are worse ones than in the batch
};

}  // namespace

struct PipelineRanking::State {
  State(const StageTable& given, StageDpRequest wanted, double the_weight, double max_slowest);

  std::optional<TablePipeline> next();
  void open(RankedInterval& interval);
  void search(RankedInterval& interval);
  // Whether the interval was given up for its halves.
  bool give_up(RankedInterval& interval);
  void begin(Beginning beginning);
  // The best continuations beyond `after`, which is the last one taken.
  void fill(Beginning& beginning, const Continuation* after) const;
  void push(Beginning& beginning);
  void push(RankedInterval interval);
  std::optional<TablePipeline> take(Beginning& beginning);

  struct Entry {
    double bound;
    int depth;  // 0: an interval
    std::size_t number;
    Beginning* beginning;
    RankedInterval* interval;
    bool operator<(const Entry& other) const {  // later in the queue
      return std::tuple(-bound, depth, other.number) < std::tuple(-other.bound, other.depth, number);
    }
  };

  StageDpRequest request;
  Space space;
  double weight;
  std::unique_ptr<Solver> bounds;  // for cheap bounds of sums
  std::deque<RankedInterval> intervals;
  std::deque<Beginning> beginnings;
  std::priority_queue<Entry> queue;
  std::set<std::vector<TableStage>> again;  // given by searches that were given up
  std::size_t pushed = 0;
};

PipelineRanking::State::State(const StageTable& given, StageDpRequest wanted, double the_weight, double max_slowest)
    : request(std::move(wanted)), space(given, request, Keep::All), weight(the_weight) {
  if (!space.can_be_used()) return;
  bounds = std::make_unique<Solver>(space);
  const double low = bounds->min_slowest(), high = std::min(max_slowest, space.largest_time());
  // The bound of the sum does not see that no pipeline has the given number of stages.
  if (low <= high && bounds->can_finish(high))
    push({low, high, bounds->bound_sum(high) * (1.0 - kRounding), kPatience * space.layers()});
}

void PipelineRanking::State::push(RankedInterval interval) {
  if (interval.low > interval.high || interval.sum == kNever) return;
  intervals.push_back(std::move(interval));
  RankedInterval& kept = intervals.back();
  queue.push({coarse(kept.sum + weight * kept.low), 0, pushed++, nullptr, &kept});
}

void PipelineRanking::State::push(Beginning& beginning) {
  if (beginning.batch.empty() && beginning.more) {
    const Continuation last = beginning.last;
    fill(beginning, &last);
  }
  if (!beginning.batch.empty())
    queue.push({coarse(beginning.batch.back().bound), beginning.depth, pushed++, &beginning, nullptr});
}

void PipelineRanking::State::open(RankedInterval& interval) {
  const auto [low, high, sum] = std::tuple(interval.low, interval.high, interval.sum);
  const double middle = low + (high - low) / 2;
  if (weight * (high - low) <= kNarrow * (sum + weight * low) || middle <= low || middle >= high) {
    search(interval);
    return;
  }
  push({low, middle, std::max(sum, bounds->bound_sum(middle) * (1.0 - kRounding)), interval.patience});
  push({std::nextafter(middle, kNever), high, sum, interval.patience});
}

void PipelineRanking::State::search(RankedInterval& interval) {
  bounds->bound_sum(interval.high);
  if (!bounds->can_finish(interval.high)) return;
  interval.solver = std::make_unique<Solver>(space);
  Solver& solver = *interval.solver;
  solver.bound_sum(interval.high);
  solver.can_finish(interval.high);
  solver.solve(kNever);
  int best = space.first_whole_class();
  for (int c = best; c <= space.classes(); ++c)
    if (solver.sum(c) < solver.sum(best)) best = c;
  const TablePipeline fastest = solver.pipeline(best);
  const double slowest = fastest.slowest.si();
  // Without a weight every pipeline costs its sum, so that one search finds all in order.
  if (weight > 0.0 && slowest > interval.low) {
    push({interval.low, std::nextafter(slowest, 0.0), fastest.sum.si() * (1.0 - kRounding), interval.patience});
    interval.low = slowest;
  }
  interval.sum = fastest.sum.si() * (1.0 - kRounding);
  for (int c = space.first_whole_class(); c <= space.classes(); ++c)
    if (solver.sum(c) < kNever) begin({&interval, nullptr, {}, 1, c, 0, space.all_devices(), 0.0, 0.0, {}, {}, true});
}

bool PipelineRanking::State::give_up(RankedInterval& interval) {
  const double middle = interval.low + (interval.high - interval.low) / 2;
  if (interval.idle <= interval.patience || middle <= interval.low || middle >= interval.high) return false;
  interval.solver.reset();
  again.insert(interval.given.begin(), interval.given.end());
  interval.given.clear();
  const int patience = interval.patience < kMaxPatience ? 2 * interval.patience : interval.patience;
  push({interval.low, middle, interval.sum, patience});
  push({std::nextafter(middle, kNever), interval.high, interval.sum, patience});
  return true;
}

void PipelineRanking::State::begin(Beginning beginning) {
  beginnings.push_back(std::move(beginning));
  fill(beginnings.back(), nullptr);
  push(beginnings.back());
}

void PipelineRanking::State::fill(Beginning& beginning, const Continuation* after) const {
  const RankedInterval& interval = *beginning.interval;
  const int layers = space.layers(), c = beginning.rest, i = beginning.first;
  std::vector<Continuation>& batch = beginning.batch;
  const auto add = [&](const TableStage& stage, int rest, double remainder) {
    const Space::Config config = space.config(stage.first, stage.last, stage.slice, stage.config);
    if (config.time > interval.high || config.level < space.level_after(rest)) return;
    const double slowest = std::max(beginning.slowest, config.time);
    if (rest == 0 && slowest < interval.low) return;
    const double sum = beginning.sum + config.time + remainder;
    const Continuation found{sum + weight * std::max(slowest, interval.low), stage, rest};
    if (!after || after->key() < found.key()) batch.push_back(found);
  };
  for (const Shape& shape : space.shapes()) {
    TableStage stage{i, layers - 1, shape.slice, 0};
    if (c == 1 && space.may_be_last(shape, beginning.devices))
      for (stage.config = 0; stage.config < space.configs(); ++stage.config) add(stage, 0, 0.0);
    if (shape.shift >= beginning.devices) continue;
    for (int rest = std::max(1, c - 1); rest <= c; ++rest) {
      if (space.class_before(rest) != c) continue;
      for (stage.last = i; stage.last + 1 < layers; ++stage.last) {
        const double remainder = interval.solver->value(rest, stage.last + 1, beginning.devices - shape.shift);
        if (remainder == kNever) continue;
        for (stage.config = 0; stage.config < space.configs(); ++stage.config) add(stage, rest, remainder);
      }
    }
  }
  const auto better = [](const Continuation& a, const Continuation& b) { return a.key() < b.key(); };
  beginning.more = batch.size() > kBatch;
  if (beginning.more) {
    std::nth_element(batch.begin(), batch.begin() + kBatch, batch.end(), better);
    batch.resize(kBatch);
    batch.shrink_to_fit();
  }
  std::sort(batch.begin(), batch.end(), [&](const auto& a, const auto& b) { return better(b, a); });
}

std::optional<TablePipeline> PipelineRanking::State::take(Beginning& beginning) {
  const Continuation taken = beginning.batch.back();
  beginning.batch.pop_back();
  beginning.last = taken;
  push(beginning);
  const double time = space.config(taken.stage.first, taken.stage.last, taken.stage.slice, taken.stage.config).time;
  RankedInterval& interval = *beginning.interval;
  if (taken.rest > 0) {
    ++interval.idle;
    const int depth = beginning.depth + 1, next = taken.stage.last + 1;
    const int devices = beginning.devices - space.shift_of(taken.stage.slice);
    const double sum = beginning.sum + time, slowest = std::max(beginning.slowest, time);
    begin({&interval, &beginning, taken.stage, depth, taken.rest, next, devices, sum, slowest, {}, {}, true});
    return std::nullopt;
  }
  TablePipeline whole;
  whole.stages.push_back(taken.stage);
  for (const Beginning* b = &beginning; b->parent; b = b->parent) whole.stages.push_back(b->stage);
  std::reverse(whole.stages.begin(), whole.stages.end());
  space.time(whole);
  whole.cost = Seconds(whole.sum.si() + weight * whole.slowest.si());
  interval.idle = 0;
  interval.given.push_back(whole.stages);
  return whole;
}

std::optional<TablePipeline> PipelineRanking::State::next() {
  while (!queue.empty()) {
    const Entry entry = queue.top();
    queue.pop();
    if (entry.interval)
      open(*entry.interval);
    else if (RankedInterval& interval = *entry.beginning->interval; !interval.solver || give_up(interval))
      continue;  // its halves are in the queue
    else if (auto whole = take(*entry.beginning); whole && again.erase(whole->stages) == 0)
      return whole;
  }
  return std::nullopt;
}

PipelineRanking::PipelineRanking(std::unique_ptr<State> state) : state_(std::move(state)) {}
PipelineRanking::~PipelineRanking() = default;
PipelineRanking::PipelineRanking(PipelineRanking&&) noexcept = default;

PipelineRanking PipelineRanking::by_training_time(const StageTable& table, const StageDpRequest& request) {
  return PipelineRanking(
      std::make_unique<State>(table, request, static_cast<double>(request.microbatches - 1), kNever));
}

PipelineRanking PipelineRanking::by_latency(const StageTable& table, const StageDpRequest& request, Seconds slowest) {
  return PipelineRanking(std::make_unique<State>(table, request, 0.0, slowest.si()));
}

std::optional<TablePipeline> PipelineRanking::next() { return state_->next(); }

}  // namespace meshwright
