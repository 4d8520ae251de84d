// SPDX-License-Identifier: Apache-2.0
// Which pipelines of a point are lowered, and what is said where none fits.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/point_search.h"

namespace meshwright {

namespace {

constexpr std::int64_t kLarge = 2048;  // devices times microbatches of a program that takes long to lower
constexpr double kTwin = 1e-3;
constexpr double kSpareMemory = 1.1;  // of small programs: what the prices' memory may be too large by
constexpr int kMostMemoryTries = 5;   // how often the prices are asked for smaller plans
constexpr std::size_t kMostLike = 8;  // candidates of one schedule that others are tried with

// How far the lists of candidates are lowered.
struct Patience {
  std::size_t lowered;  // of one request for prices, at most
  std::size_t few;      // the same, of a schedule that is one of several
  double expected;      // a whole program's step as a share of its stages' alone, before one was seen
  double doubt;         // of the least share seen: the next may be less
};
constexpr Patience kForLarge{6, 2, 0.97, 0.995}, kForSmall{32, 6, 0.94, 0.96};

}  // namespace

CandidateRequest PointSearch::candidate_request(ScheduleKind schedule) const {
  CandidateRequest wanted{.schedule = schedule,
                          .microbatches = training_.microbatches,
                          .samples = training_.batch / training_.microbatches,
                          .objective = request_.objective,
                          .stages = space_.stages,
                          .devices = {},
                          .stop = [this] { return incumbent_.stopped(); },
                          .chunks = request_.chunks};
  for (const HostGroup& group : request_.cluster.groups) wanted.devices.push_back(group.devices());
  return wanted;
}

std::optional<TablePipeline> PointSearch::best_pipeline(const StageTable& prices, ScheduleKind schedule,
                                                        std::int64_t microbatches) const {
  CandidateRequest wanted = candidate_request(schedule);
  wanted.microbatches = microbatches;
  return ranking_->first_by_cost(prices, wanted);
}

Candidates PointSearch::find(const StageTable& prices, const CandidateRequest& wanted) {
  Candidates candidates = ranking_->find(prices, wanted);
  incumbent_.result.log.ranked += candidates.looked_at;
  incumbent_.result.log.ranked_all = incumbent_.result.log.ranked_all && candidates.all;
  return candidates;
}

std::vector<ScheduleKind> PointSearch::rank(const std::vector<ScheduleKind>& schedules) {
  if (search_->interrupted() || request_.method.one_stage()) return {schedules.front()};
  const StageTable priced = prices(1.0);
  std::vector<TablePipeline> like;
  std::vector<std::pair<Seconds, ScheduleKind>> order;
  for (const ScheduleKind schedule : schedules) {
    if (why_unsuitable(schedule) || incumbent_.stopped()) continue;
    CandidateRequest wanted = candidate_request(schedule);
    wanted.few = schedule != schedules.front();
    wanted.like = like;
    Candidates candidates = find(priced, wanted);
    if (candidates.ranked.empty()) continue;
    if (like.empty() && schedule == schedules.front())
      for (std::size_t c = 0; c < std::min(kMostLike, candidates.ranked.size()); ++c)
        like.push_back(candidates.ranked[c].pipeline);
    order.emplace_back(candidates.ranked.front().step, schedule);
    incumbent_.say("{} layers, {} micro-batches, {}: {} by its stages alone", layers_.count, training_.microbatches,
                   name_of(schedule), human_seconds(order.back().first));
    found_.insert_or_assign(schedule, std::move(candidates));
  }
  const auto others = order.begin() + (!order.empty() && order.front().second == schedules.front() ? 1 : 0);
  std::stable_sort(others, order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ScheduleKind> ranked;
  for (const auto& [step, schedule] : order) ranked.push_back(schedule);
  if (ranked.empty()) ranked.push_back(schedules.front());  // says why
  return ranked;
}

bool PointSearch::is_promising(ScheduleKind schedule) const {
  const auto found = found_.find(schedule);
  if (found == found_.end() || !incumbent_.score || !incumbent_.result.plan) return true;
  const auto& ranked = found->second.ranked;
  return std::any_of(ranked.begin(), ranked.end(), [&](const Candidate& candidate) {
    return least_share(schedule, candidate.pipeline.chunks) * candidate.step < *incumbent_.score;
  });
}

double PointSearch::least_share(ScheduleKind schedule, int chunks) const {
  const Patience& patience = large() ? kForLarge : kForSmall;
  const auto seen = incumbent_.least_seen.find({schedule, chunks});
  return seen != incumbent_.least_seen.end() ? patience.doubt * seen->second : patience.expected;
}

std::optional<Seconds> PointSearch::predict(const PointSearch& other, std::int64_t microbatches, ScheduleKind schedule,
                                            double memory_share) const {
  if (search_->interrupted() || other.search_->interrupted()) return std::nullopt;
  StageTable own = this->prices(memory_share, StageSearch::Keep::All);
  const StageTable others = other.prices(memory_share, StageSearch::Keep::All);
  MW_CHECK(own.layers() == others.layers(), "points of {} and {} layers", own.layers(), others.layers());
  const double own_samples = 1.0 / static_cast<double>(training_.microbatches);
  const double other_samples = 1.0 / static_cast<double>(other.training_.microbatches);
  const double samples = 1.0 / static_cast<double>(microbatches);
  const double towards = (samples - own_samples) / (other_samples - own_samples);
  // Never less than in proportion to the smaller of the two; in proportion to the larger where that takes less than the
  // smaller, which no line through both explains.
  const auto between = [&](auto from, auto to) {
    const auto [less, more] = std::minmax(own_samples, other_samples);
    const auto &small = own_samples < other_samples ? from : to, &large = own_samples < other_samples ? to : from;
    if (samples > more && large < small) return samples / more * large;
    return std::max((1.0 - towards) * from + towards * to, std::min(1.0, samples / less) * small);
  };
  for (int slice = 0; slice < static_cast<int>(own.slices().size()); ++slice)
    for (int config = 0; config < own.configs(); ++config) {
      const auto other_config = other.search_->config_of(slice, search_->choice(slice, config));
      for (int first = 0; first < own.layers(); ++first)
        for (int last = first; last < own.layers(); ++last) {
          auto& price = own.at(first, last, slice, config);
          if (!price) continue;
          if (!other_config || !others.at(first, last, slice, *other_config)) {
            price.reset();
            continue;
          }
          const StageCost& there = *others.at(first, last, slice, *other_config);
          price->time = between(price->time, there.time);
          price->saved = between(price->saved, there.saved);
          price->working = between(price->working, there.working);
        }
    }
  const auto pipeline = best_pipeline(own, schedule, microbatches);
  if (!pipeline) return std::nullopt;
  return pipeline->sum + static_cast<double>(microbatches - 1) * pipeline->slowest;
}

bool PointSearch::run_pipeline(ScheduleKind schedule) {
  double share = 1.0;
  bool better = false;
  for (int tries = 0; tries < kMostMemoryTries; ++tries) {
    incumbent_.least_excess.reset();
    better = run_memory_share(schedule, share);
    const std::optional<Bytes> least_excess = incumbent_.least_excess;
    if (tries == 0 && (better || !large()) && !incumbent_.stopped() && run_memory_share(schedule, share_left(better)))
      better = true;
    if (incumbent_.result.plan || !least_excess || incumbent_.stopped()) break;
    // Ask for plans that take as much less as the least hungry one was too large.
    const Bytes usable = request_.cluster.usable_memory_of(0);
    share *= 0.99 * (usable / (usable + *least_excess));
  }
  if (!incumbent_.result.plan && !incumbent_.stopped()) {
    explain_failure(schedule);
    better = incumbent_.result.plan.has_value();
  }
  return better;
}

double PointSearch::spare_share() const { return large() ? 1.0 : kSpareMemory; }

// How much more than the prices' estimate may be given, seeing what the best plan takes if it is one of these.
double PointSearch::share_left(bool better) const {
  const double least = spare_share();
  if (!better) return least;
  double most = 0.0;
  for (const StagePlan& stage : incumbent_.result.plan->stages)
    most = std::max(most, stage.peak_memory / request_.cluster.group(stage.submesh.group).usable_memory());
  return std::clamp(0.99 / most, least, 1.5);
}

bool PointSearch::large() const { return request_.cluster.devices() * training_.microbatches > kLarge; }

bool PointSearch::run_memory_share(ScheduleKind schedule, double share) {
  CandidateRequest wanted = candidate_request(schedule);
  wanted.few = request_.any_schedule && schedule != ScheduleKind::OneFOneB;
  const Patience& patience = large() ? kForLarge : kForSmall;
  std::size_t budget = wanted.few ? patience.few : patience.lowered;
  const auto look = [&](StageSearch::Keep keep) {
    const auto known = found_.find(schedule);
    if (known != found_.end() && share == 1.0 && keep == StageSearch::Keep::Best)
      return lower_candidates(known->second, schedule, budget);
    return lower_candidates(find(prices(share, keep), wanted), schedule, budget);
  };
  const auto least_excess = std::exchange(incumbent_.least_excess, std::nullopt);
  bool better = look(StageSearch::Keep::Best);
  // Plans that turned out too large may have hidden others that fit.
  if (incumbent_.least_excess && !large() && !incumbent_.stopped()) {
    wanted.beyond_best = true;
    if (look(StageSearch::Keep::All)) better = true;
  }
  // Among the shardings that are no better by the table, one may suit the stages beside it better.
  for (bool found = better && !large(); found && !incumbent_.stopped();)
    found = lower_candidates(ranking_->around(*best_, prices(share, StageSearch::Keep::All), wanted), schedule, budget);
  if (least_excess) incumbent_.least_excess = std::min(*least_excess, incumbent_.least_excess.value_or(*least_excess));
  return better;
}

// In order of their stages' own times, until the next is no longer expected to win: as a share of that, no whole
// program has taken less than the least seen. Where programs are large, of candidates with as many stages that take the
// same by their stages alone, to a thousandth, one is lowered.
bool PointSearch::lower_candidates(const Candidates& candidates, ScheduleKind schedule, std::size_t& budget) {
  bool better = false;
  const bool by_latency = request_.objective.kind == Objective::Kind::Latency;
  const bool large = this->large();
  bool any = false;
  for (const Candidate& candidate : candidates.ranked) {
    if (budget == 0 || (any && incumbent_.stopped())) break;
    const Seconds quick = by_latency ? candidate.alone : candidate.step;
    const double least = least_share(schedule, candidate.pipeline.chunks);
    if (incumbent_.score && least * quick >= *incumbent_.score && incumbent_.result.plan) continue;
    if (!lowered_.emplace(schedule, candidate.pipeline.chunks, candidate.pipeline.stages).second) continue;
    auto& alike = quick_[{schedule, candidate.pipeline.stages.size()}];
    const bool twin = large && std::any_of(alike.begin(), alike.end(),
                                           [&](Seconds other) { return std::abs(quick / other - 1.0) < kTwin; });
    if (twin) continue;
    auto program = lower_pipeline(candidate.pipeline, schedule);
    if (!program) continue;
    alike.push_back(quick);
    --budget;
    any = true;
    if (!judge(std::move(*program), &candidate)) continue;
    better = true;
    best_ = candidate.pipeline;
  }
  return better;
}

// Nothing fits by the prices' estimate, which errs on the large side. The least hungry pipeline is lowered and counted
// exactly: either it fits after all, or the reason names what it lacks.
void PointSearch::explain_failure(ScheduleKind schedule) {
  const auto at_share = [&](double share) { return best_pipeline(prices(share), schedule, training_.microbatches); };
  double low = 1.0, high = 2.0;
  std::optional<TablePipeline> least = at_share(high);
  for (; !least && high < 1e6; least = at_share(high)) low = high, high *= 4.0;
  if (!least) {
    incumbent_.result.reason =
        search_->reasons().empty()
            ? fmt::format("no way to use the {} devices of {}", request_.cluster.devices(), request_.cluster.name)
            : fmt::format("method '{}': {}", request_.method.text, search_->reasons().front());
    return;
  }
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    if (auto found = at_share(middle)) {
      least = std::move(found);
      high = middle;
    } else {
      low = middle;
    }
  }
  if (auto lowered = lower_pipeline(*least, schedule)) judge(std::move(*lowered));
}

bool PointSearch::run_one_stage(ScheduleKind schedule) {
  MemoryRequest memory(request_.cluster.usable_memory());
  bool better = false;
  for (bool again = true; again;) {
    const StageTable priced = prices(memory.asked() / request_.cluster.usable_memory());
    const auto pipeline = best_pipeline(priced, schedule, training_.microbatches);
    if (!pipeline) {
      if (!incumbent_.result.plan) explain_failure(schedule);
      break;
    }
    auto lowered = lower_pipeline(*pipeline, schedule);
    if (!lowered) break;
    const StepCost& cost = search_->cost(0, layers_.count - 1, search_->choice(0, pipeline->stages.front().config));
    const Bytes peak = lowered->check.largest_peak();
    const Seconds free = bound_ / static_cast<double>(training_.microbatches);
    const MemoryRequest::Outcome outcome{search_->estimate(cost), peak,
                                         incumbent_.result.plan || peak <= request_.cluster.usable_memory(),
                                         search_->per_microbatch(cost) > (1.0 + 1e-9) * free};
    if (judge(std::move(*lowered))) {
      better = true;
      const Seconds time = search_->per_microbatch(cost);
      incumbent_.result.sharding = {{time, std::min(time, search_->sharding_bound())}};
    }
    again = memory.again(outcome);
    if (again) price(memory.asked());
  }
  return better;
}

// Fewer devices, and less memory: the best pipeline of each.
void PointSearch::widen(ScheduleKind schedule) {
  if (search_->interrupted() || request_.method.one_stage() || !space_.fixed.empty()) return;
  CandidateRequest wanted = candidate_request(schedule);
  wanted.stages.reset();
  for (bool some = true; some && !incumbent_.stopped();) {
    for (const double share : {1.0, 0.7, 0.5, 0.35, 0.25}) {
      const auto pipeline = ranking_->first_by_cost(prices(share), wanted);
      if (!pipeline || incumbent_.stopped()) break;
      if (auto lowered = lower_pipeline(*pipeline, schedule)) judge(std::move(*lowered));
    }
    some = false;
    for (int& count : wanted.devices) {
      count /= 2;
      some = some || count > 0;
    }
  }
}

}  // namespace meshwright
