// SPDX-License-Identifier: Apache-2.0
// For one bound m on the stage times, the recurrence is a dynamic program; this file is about looking at few bounds.
//
// Let W(m, s) be the pipeline of s stages with the least sum among those whose stage times are all <= m, and sum(m, s)
// its sum.
//  (1) T* = min over m, s of T(W(m, s)): the best pipeline's own largest stage time is one of the bounds.
//  (2) sum(m, s) does not grow with m. So once m2 has been examined, the bounds in [m0, m2) give only pipelines of
//  their own
//      (largest stage time >= m0) with T >= min over s of sum(m2, s) + (B-1) m0; an interval where this exceeds the
//      best T so far is left out.
//  (3) W(m2, s) is also W(m, s) for every m down to its largest stage time: those bounds need no look.
//  (4) A stage that covers [i, k] with s-1 stages after it takes the cheapest option whose max_successors allows s-1;
//  when that
//      one exceeds m, so do the others. The table of these is made once, for all m.
// Intervals are taken up by their lower bound, least first, and split in the middle. Rounding keeps the argument: + and
// * of non-negative doubles are monotone.
#include "core/planner/choose_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr double kInfeasible = std::numeric_limits<double>::infinity();  // inside the tables only
constexpr int kManySuccessors = 1 << 20;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A submesh that fits the cluster.
struct Shape {
  int submesh;  // in StageTable
  int devices;
};

// Solves the recurrence for one bound at a time. States f(s, i, d) as in the header.
class StageDp {
 public:
  StageDp(const StageTable& table, const PipelineSearch& search);

  // Distinct times that a stage of some pipeline can take, ascending.
  [[nodiscard]] const std::vector<double>& bounds() const { return bounds_; }
  // Numbers of stages asked for.
  [[nodiscard]] int fewest_stages() const { return fewest_stages_; }
  [[nodiscard]] int most_stages() const { return most_stages_; }

  void solve(double largest_time);
  // The least largest stage time of any pipeline; infinite: there is none.
  [[nodiscard]] double least_largest_time();
  // After solve: the least sum with `stages` stages, infinite when there is none; and the pipeline that attains it,
  // lexicographically first. Its time is left to the caller.
  [[nodiscard]] double sum(int stages) const { return row(stages, 0)[at(devices_)]; }
  [[nodiscard]] std::vector<ChosenStage> pipeline(int stages) const;

 private:
  [[nodiscard]] const double* row(int s, int i) const { return f_.data() + (at(s) * at(layers_ + 1) + at(i)) * width_; }
  [[nodiscard]] double* row(int s, int i) { return f_.data() + (at(s) * at(layers_ + 1) + at(i)) * width_; }
  // Cheapest time of [first, last] with `successors` stages after it, per shape.
  [[nodiscard]] const double* cheapest(int successors, int first, int last) const {
    return cheapest_.data() + ((at(successors) * at(layers_) + at(first)) * at(layers_) + at(last)) * shapes_.size();
  }
  void fill_cheapest();
  template <class Combine>
  void run(double largest_time, Combine combine);
  template <class Combine>
  void relax(int s, int i, double largest_time, Combine combine);
  // The first stage of the lexicographically first pipeline that attains f(s, i, d).
  [[nodiscard]] ChosenStage first_stage(int s, int i, int d) const;
  [[nodiscard]] std::optional<int> first_option(int s, int i, int last, const Shape& shape, double after,
                                                double total) const;

  const StageTable& table_;
  int layers_, devices_, fewest_stages_, most_stages_;
  std::size_t width_;  // doubles per row of f
  std::vector<Shape> shapes_;
  std::vector<double> cheapest_, bounds_, f_;
  double largest_time_ = kInfeasible;  // of the last solve
};

StageDp::StageDp(const StageTable& table, const PipelineSearch& search)
    : table_(table),
      layers_(table.layers),
      devices_(search.devices),
      fewest_stages_(search.stages.value_or(1)),
      most_stages_(std::min({table.layers, search.devices, search.stages.value_or(table.layers)})),
      width_(at(search.devices) + 1) {
  for (std::size_t m = 0; m < table.submeshes.size(); ++m)
    if (table.submeshes[m].devices() <= devices_)
      shapes_.push_back({static_cast<int>(m), table.submeshes[m].devices()});
  fill_cheapest();
  f_.resize(at(most_stages_ + 1) * at(layers_ + 1) * width_);
}

void StageDp::fill_cheapest() {
  cheapest_.assign(at(most_stages_) * at(layers_) * at(layers_) * shapes_.size(), kInfeasible);
  for (int first = 0; first < layers_; ++first)
    for (int last = first; last < layers_; ++last) {
      // A stage that ends the model has no successor, any other has at least one and at most one per layer left.
      const int layers_left = layers_ - 1 - last;
      for (int successors = std::min(layers_left, 1); successors <= std::min(layers_left, most_stages_ - 1);
           ++successors) {
        const std::size_t cell = ((at(successors) * at(layers_) + at(first)) * at(layers_) + at(last)) * shapes_.size();
        for (std::size_t p = 0; p < shapes_.size(); ++p) {
          double& time = cheapest_[cell + p];
          for (const StageOption& option : table_.at(first, last, shapes_[p].submesh))
            if (option.max_successors >= successors) time = std::min(time, option.time.si());
          if (time < kInfeasible) bounds_.push_back(time);
        }
      }
    }
  std::sort(bounds_.begin(), bounds_.end());
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
}

template <class Combine>
void StageDp::relax(int s, int i, double largest_time, Combine combine) {
  double* best = row(s, i);
  const int last_end = s == 1 ? layers_ : layers_ - s + 1;
  for (int k = s == 1 ? layers_ : i + 1; k <= last_end; ++k) {
    const double* time = cheapest(s - 1, i, k - 1);
    const double* after = row(s - 1, k);
    for (std::size_t p = 0; p < shapes_.size(); ++p) {
      if (!(time[p] <= largest_time) || time[p] == kInfeasible) continue;
      const std::size_t used = at(shapes_[p].devices);
      const double t = time[p];
      for (std::size_t d = used; d < width_; ++d) best[d] = std::min(best[d], combine(after[d - used], t));
    }
  }
}

template <class Combine>
void StageDp::run(double largest_time, Combine combine) {
  std::fill(f_.begin(), f_.end(), kInfeasible);
  row(0, layers_)[0] = 0.0;
  for (int s = 1; s <= most_stages_; ++s)
    for (int i = layers_ - s; i >= 0; --i) relax(s, i, largest_time, combine);
}

void StageDp::solve(double largest_time) {
  largest_time_ = largest_time;
  run(largest_time, [](double after, double t) { return after + t; });
}

double StageDp::least_largest_time() {
  run(kInfeasible, [](double after, double t) { return std::max(after, t); });
  double least = kInfeasible;
  for (int s = fewest_stages_; s <= most_stages_; ++s) least = std::min(least, sum(s));
  return least;
}

std::optional<int> StageDp::first_option(int s, int i, int last, const Shape& shape, double after, double total) const {
  const std::vector<StageOption>& options = table_.at(i, last, shape.submesh);
  for (std::size_t c = 0; c < options.size(); ++c) {
    const double time = options[c].time.si();
    if (time <= largest_time_ && options[c].max_successors >= s - 1 && after + time == total)
      return static_cast<int>(c);
  }
  return std::nullopt;
}

ChosenStage StageDp::first_stage(int s, int i, int d) const {
  const double total = row(s, i)[at(d)];
  for (int last = s == 1 ? layers_ - 1 : i; last < layers_; ++last)
    for (const Shape& shape : shapes_) {
      if (shape.devices > d) continue;
      const double after = row(s - 1, last + 1)[at(d - shape.devices)];
      if (after == kInfeasible) continue;
      if (const std::optional<int> option = first_option(s, i, last, shape, after, total))
        return {i, last, shape.submesh, *option};
    }
  MW_CHECK(false, "f({}, {}, {}) = {} is attained by no stage", s, i, d, total);
}

std::vector<ChosenStage> StageDp::pipeline(int stages) const {
  std::vector<ChosenStage> chosen;
  for (int s = stages, i = 0, d = devices_; s > 0; --s) {
    chosen.push_back(first_stage(s, i, d));
    i = chosen.back().last + 1;
    d -= table_.submeshes[at(chosen.back().submesh)].devices();
  }
  return chosen;
}

auto order_of(const ChosenStage& stage) { return std::tuple(stage.first, stage.last, stage.submesh, stage.option); }

// Smaller T, then fewer stages, then lexicographic.
bool is_better(const ChosenPipeline& a, const ChosenPipeline& b) {
  if (a.time != b.time) return a.time < b.time;
  if (a.stages.size() != b.stages.size()) return a.stages.size() < b.stages.size();
  return std::lexicographical_compare(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                                      [](const auto& x, const auto& y) { return order_of(x) < order_of(y); });
}

// Bounds [low, high] (positions in StageDp::bounds) not examined yet.
struct Interval {
  int low, high;
  double least_sum;   // of an examined bound above them: by (2) a lower bound of theirs
  double least_time;  // lower bound of T in the interval
};
struct LaterInQueue {
  bool operator()(const Interval& a, const Interval& b) const {
    return a.least_time != b.least_time ? a.least_time > b.least_time : a.low > b.low;
  }
};

class PipelineChooser {
 public:
  PipelineChooser(const StageTable& table, const PipelineSearch& search, int count)
      : table_(table), search_(search), count_(at(count)), dp_(table, search) {}

  std::vector<ChosenPipeline> run();

 private:
  // Examines bound number `n`; what is below it in [low, n) goes to the queue.
  void examine(int low, int n);
  void push(int low, int high, double least_sum);
  void keep(ChosenPipeline pipeline);
  [[nodiscard]] double largest_time_of(const std::vector<ChosenStage>& stages) const;
  // T beyond which a pipeline is of no interest; equal ones still are, for the sake of ties.
  [[nodiscard]] double limit() const { return best_.size() < count_ ? kInfeasible : best_.back().time.si(); }
  [[nodiscard]] double waiting_time(double largest_time) const {
    return static_cast<double>(search_.microbatches - 1) * largest_time;
  }

  const StageTable& table_;
  const PipelineSearch& search_;
  std::size_t count_;
  StageDp dp_;
  std::priority_queue<Interval, std::vector<Interval>, LaterInQueue> queue_;
  std::vector<ChosenPipeline> best_;  // best first, at most count_
};

double PipelineChooser::largest_time_of(const std::vector<ChosenStage>& stages) const {
  double largest = 0.0;
  for (const ChosenStage& stage : stages)
    largest = std::max(largest, table_.at(stage.first, stage.last, stage.submesh)[at(stage.option)].time.si());
  return largest;
}

void PipelineChooser::keep(ChosenPipeline pipeline) {
  const auto place = std::lower_bound(best_.begin(), best_.end(), pipeline, is_better);
  if (place != best_.end() && place->stages == pipeline.stages) return;
  best_.insert(place, std::move(pipeline));
  if (best_.size() > count_) best_.pop_back();
}

void PipelineChooser::push(int low, int high, double least_sum) {
  if (low > high || least_sum == kInfeasible) return;
  queue_.push({low, high, least_sum, least_sum + waiting_time(dp_.bounds()[at(low)])});
}

void PipelineChooser::examine(int low, int n) {
  const std::vector<double>& bounds = dp_.bounds();
  dp_.solve(bounds[at(n)]);
  double least_sum = kInfeasible;
  double largest_of_winners = -kInfeasible;
  for (int s = dp_.fewest_stages(); s <= dp_.most_stages(); ++s) {
    const double sum = dp_.sum(s);
    least_sum = std::min(least_sum, sum);
    if (sum == kInfeasible || sum + waiting_time(bounds[at(low)]) > limit()) continue;
    std::vector<ChosenStage> stages = dp_.pipeline(s);
    const double largest = largest_time_of(stages);
    largest_of_winners = std::max(largest_of_winners, largest);
    keep({std::move(stages), Seconds(sum + waiting_time(largest))});
  }
  // By (3) the bounds from the winners' largest time up to this one have the same winners.
  const auto end = std::lower_bound(bounds.begin(), bounds.end(), largest_of_winners) - bounds.begin();
  push(low, std::min(static_cast<int>(end), n) - 1, least_sum);
}

std::vector<ChosenPipeline> PipelineChooser::run() {
  const std::vector<double>& bounds = dp_.bounds();
  const double least = dp_.least_largest_time();
  if (least == kInfeasible) return {};
  const int low = static_cast<int>(std::lower_bound(bounds.begin(), bounds.end(), least) - bounds.begin());
  const int high = static_cast<int>(bounds.size()) - 1;
  examine(low, low);  // a good pipeline early: with many microbatches the largest stage time is what counts
  if (low < high) examine(low + 1, high);
  while (!queue_.empty() && queue_.top().least_time <= limit()) {
    Interval interval = queue_.top();
    queue_.pop();
    while (interval.least_sum + waiting_time(bounds[at(interval.high)]) > limit()) --interval.high;
    const int middle = interval.low + (interval.high - interval.low) / 2;
    push(middle + 1, interval.high, interval.least_sum);
    examine(interval.low, middle);
  }
  return std::move(best_);
}

void require_sound(const StageTable& table, const PipelineSearch& search) {
  require(table.layers >= 1, "choose_pipeline: there must be at least one layer, not {}.", table.layers);
  require(search.devices >= 1, "choose_pipeline: there must be at least one device, not {}.", search.devices);
  require(search.microbatches >= 1, "choose_pipeline: there must be at least one microbatch, not {}.",
          search.microbatches);
  require(!search.stages || *search.stages >= 1, "choose_pipeline: there must be at least one stage, not {}.",
          search.stages.value_or(1));
  for (const Submesh& submesh : table.submeshes)
    require(submesh.devices() >= 1, "choose_pipeline: submesh {}x{} has no devices.", submesh.hosts,
            submesh.devices_per_host);
  for (const std::vector<StageOption>& options : table.options)
    for (const StageOption& option : options)
      require(std::isfinite(option.time.si()) && option.time.si() >= 0.0,
              "choose_pipeline: a stage time of {} s; leave an infeasible option out.", option.time.si());
}

int clip_successors(double successors) {
  return static_cast<int>(std::clamp(successors, -1.0, static_cast<double>(kManySuccessors)));
}

}  // namespace

StageTable::StageTable(int layer_count, std::vector<Submesh> meshes)
    : layers(layer_count),
      submeshes(std::move(meshes)),
      options(static_cast<std::size_t>(layer_count) * static_cast<std::size_t>(layer_count) * submeshes.size()) {}

const std::vector<StageOption>& StageTable::at(int first, int last, int submesh) const {
  MW_CHECK(first >= 0 && first <= last && last < layers && submesh >= 0 && submesh < static_cast<int>(submeshes.size()),
           "no entry for layers {}..{} on submesh {}", first, last, submesh);
  return options[static_cast<std::size_t>((first * layers + last) * static_cast<int>(submeshes.size()) + submesh)];
}
std::vector<StageOption>& StageTable::at(int first, int last, int submesh) {
  return const_cast<std::vector<StageOption>&>(std::as_const(*this).at(first, last, submesh));
}

std::optional<ChosenPipeline> choose_pipeline(const StageTable& table, const PipelineSearch& search) {
  std::vector<ChosenPipeline> best = choose_pipelines(table, search, 1);
  if (best.empty()) return std::nullopt;
  return std::move(best.front());
}

std::vector<ChosenPipeline> choose_pipelines(const StageTable& table, const PipelineSearch& search, int count) {
  require_sound(table, search);
  require(count >= 1, "choose_pipelines: asked for {} pipelines; ask for at least one.", count);
  if (search.stages && *search.stages > std::min(table.layers, search.devices)) return {};
  return PipelineChooser(table, search, count).run();
}

int max_successors_1f1b(Bytes available, Bytes peak, Bytes initial, Bytes intermediate) {
  const double per_microbatch = std::max(intermediate.si(), 1e-8);
  return clip_successors(std::floor((available - peak - initial).si() / per_microbatch) - 1.0);
}

int max_successors_fixed(Bytes available, Bytes peak, Bytes initial, Bytes intermediate, std::int64_t in_flight) {
  return peak + initial + static_cast<double>(in_flight) * intermediate <= available ? kManySuccessors : -1;
}

}  // namespace meshwright
