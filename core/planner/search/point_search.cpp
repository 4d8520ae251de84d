// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/point_search.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/planner/pipeline/pipeline_bound.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/memory_request.h"

namespace meshwright {

namespace {

// Relative difference of times that are taken for equal; where programs are small they are, to their rounding, and
// so many of them are lowered.
constexpr double kTwin = 1e-3, kSmallTwin = 1e-6;
constexpr std::ptrdiff_t kMaxSmallTwins = 4;
constexpr double kSpareMemory = 1.1;    // small programs: the table's estimate may be too large by this factor
constexpr int kMaxMemoryTries = 5;      // stage tables for ever less memory
constexpr double kWorthRanking = 1.01;  // times the memory
constexpr double kLeastWhole = 0.5;     // of the memory, with which a large point begins at least

// Candidates that are lowered for one stage table.
constexpr std::size_t kLoweredOfLarge = 6, kLoweredOfSmall = 32;
constexpr std::size_t kMaxFew = 2;  // large programs of a schedule that is one of several: so many are lowered
constexpr std::int64_t kOpsOfPatience = 500;  // small programs of n times as many ops: 1/(n + 1) of them are lowered

}  // namespace

void PointSearch::Progress::add(const Progress& more) {
  better = better || more.better;
  any = any || more.any;
  if (more.best) note(*more.best);
  if (more.min_excess) min_excess = std::min(min_excess.value_or(*more.min_excess), *more.min_excess);
}

void PointSearch::Progress::note(const Fitting& fitting) {
  if (!best || fitting.score < best->score) best = fitting;
}

Programs PointSearch::programs() const { return {is_large(), context_.evaluator.hides_communication()}; }

bool PointSearch::is_large() const { return meshwright::is_large(context_.request, point_.microbatches()); }

std::size_t PointSearch::most_lowered() const {
  if (is_large()) return kLoweredOfLarge;
  const std::size_t parts = 1 + point_.cut->graph->ops().size() / kOpsOfPatience;
  return std::max(kLoweredOfLarge, kLoweredOfSmall / parts);
}

double PointSearch::spare_share() const { return is_large() ? 1.0 : kSpareMemory; }

double PointSearch::whole_share() const {
  const Cluster& cluster = context_.request.cluster;
  const bool prunes = context_.request.search.prune && is_large();
  if (!prunes || !context_.least_beside || !cluster.uniform()) return 1.0;
  return std::max(kLeastWhole, 1.0 - *context_.least_beside / cluster.usable_memory());
}

// --- one pipeline ---

void PointSearch::note(const Candidate& candidate, ScheduleKind schedule, ConsideredPlan::Fate fate) const {
  if (context_.request.record == nullptr) return;
  ConsideredPlan considered = considered_pipeline(point_, candidate.pipeline, schedule, &candidate);
  considered.fate = fate;
  context_.request.record->add(std::move(considered));
}

void PointSearch::note(const TablePipeline& pipeline, ScheduleKind schedule, const Candidate* candidate,
                       const Verdict& verdict) const {
  if (context_.request.record == nullptr) return;
  ConsideredPlan considered = considered_pipeline(point_, pipeline, schedule, candidate);
  add_verdict(considered, verdict);
  context_.request.record->add(std::move(considered));
}

Verdict PointSearch::try_pipeline(const TablePipeline& pipeline, ScheduleKind schedule, const Candidate* candidate,
                                  PlanIncumbent& incumbent) {
  const PlanRequest& request = context_.request;
  auto lowered =
      context_.step("lower", [&] { return lower_pipeline(context_, point_, graphs_, pipeline, schedule, incumbent); });
  if (lowered.too_large) {
    note(pipeline, schedule, candidate, *lowered.too_large);
    return *lowered.too_large;
  }
  if (!lowered.program) {
    incumbent.explain_if_unknown(fmt::format("the stages' submeshes have no place side by side on the {} hosts of {}",
                                             request.cluster.hosts(), request.cluster.name));
    note(pipeline, schedule, candidate, Verdict{});
    return {};
  }
  PlanProgram& found = *lowered.program;
  if (const auto& beside = found.trial->beside; !beside.empty())
    context_.note_beside(*std::max_element(beside.begin(), beside.end()));
  const std::int64_t simulated = context_.simulated;
  const Verdict verdict =
      context_.step("judge", [&] { return judge(context_, found, point_.bounds, candidate, incumbent); });
  // An equal plan was simulated before.
  const bool known = request.search.prune && context_.simulated == simulated;
  if (verdict.kind != Verdict::Kind::TooLarge && !known) ++context_.log.simulations;
  note(pipeline, schedule, candidate, verdict);
  if (verdict.kind == Verdict::Kind::Better) context_.note_best(verdict.score);
  if (!known && (verdict.kind == Verdict::Kind::Better || verdict.kind == Verdict::Kind::NotBetter))
    context_.say("{} layers, {} micro-batches, {}: {} stages, {}{}{}", point_.layers(), point_.microbatches(),
                 name_of(schedule), found.plan.stages.size(), human_seconds(verdict.score), context_.best_so_far(),
                 point_.bounds.known > Seconds(0.0)
                     ? ", here at least " + human_seconds(std::min(verdict.score, point_.bounds.known))
                     : std::string());
  incumbent.apply(std::move(found), verdict);
  return verdict;
}

// --- candidates ---

bool PointSearch::is_beaten(const Subspace& of, ScheduleKind schedule, const PlanIncumbent& incumbent) {
  const auto beat = to_beat(schedule, incumbent);
  if (!beat || context_.request.goal.objective == Goal::Objective::Latency) return false;
  const auto [known, is_new] = busy_.try_emplace({of.meshes, of.way, of.cut}, std::nullopt);
  // No search asks for more memory, unless nothing fits into this.
  constexpr double kMaxShare = 2.0;
  if (is_new) known->second = least_busy_time(table_of(of, kMaxShare, StageSearch::Keep::Best), point_.microbatches());
  if (!known->second) return false;
  int devices = 0;
  for (const int of_group : candidate_request(context_, point_, schedule, of).devices) devices += of_group;
  return *known->second / static_cast<double>(devices) >= *beat;
}

std::optional<Seconds> PointSearch::to_beat(ScheduleKind schedule, const PlanIncumbent& incumbent) const {
  return context_.request.search.prune ? meshwright::to_beat(programs(), schedule, incumbent) : std::nullopt;
}

double PointSearch::expected_share(ScheduleKind schedule, int chunks, const PlanIncumbent& incumbent) const {
  return meshwright::expected_share(programs(), schedule, chunks, incumbent);
}

bool PointSearch::is_promising(ScheduleKind schedule, const PlanIncumbent& incumbent) const {
  const auto found = candidates_.find(schedule);
  if (found == candidates_.end() || !incumbent.plan()) return true;
  // `rank` looked at no subspace and no memory but what the table counts.
  if (!is_large()) return true;
  const auto& ranked = found->second.ranked;
  const bool promising = std::any_of(ranked.begin(), ranked.end(), [&](const Candidate& candidate) {
    return expected_share(schedule, candidate.pipeline.chunks, incumbent) * candidate.step < *incumbent.score();
  });
  if (!promising)
    for (const Candidate& candidate : ranked) note(candidate, schedule, ConsideredPlan::Fate::Bound);
  return promising;
}

// In order of the time of their stages alone, until the next is not expected to win: no whole program has taken a
// smaller share of that time than the minimum seen. Candidates with as many stages whose times are equal (kTwin) are
// twins: where programs are large one of them is lowered, else kMaxSmallTwins.
PointSearch::Progress PointSearch::try_candidates(const Candidates& candidates, const Subspace& of,
                                                  ScheduleKind schedule, std::size_t& budget,
                                                  PlanIncumbent& incumbent) {
  Progress progress;
  // With several stages per rank, those that were left out need not fit.
  progress.any = !candidates.ranked.empty() || (candidates.beaten && traits_of(schedule).chunks == 1);
  const bool by_latency = context_.request.goal.objective == Goal::Objective::Latency;
  bool any = false;
  for (const Candidate& candidate : candidates.ranked) {
    if (budget == 0 || (any && context_.stopped())) {
      if (context_.request.record == nullptr) break;
      note(candidate, schedule, ConsideredPlan::Fate::Limit);
      continue;
    }
    const TablePipeline& pipeline = candidate.pipeline;
    const Seconds alone = by_latency ? candidate.alone : candidate.step;
    // Several stage tables of a point give the same pipeline.
    const std::tuple key{same_order(schedule, pipeline.stages.size()), pipeline.chunks, pipeline.stages};
    if (const auto known = tried_.find(key); known != tried_.end()) {
      progress.add(known->second);
      continue;
    }
    // The list is sorted, but the expected share depends on the number of chunks: a later candidate may still win.
    // Until one fits, nobody knows how much less memory programs take than their stages in the table, nor what a
    // refinement can make of them.
    const bool tells_more = incumbent.near_share() < 1.0 && !fitting_.contains({schedule, of.way});
    if (incumbent.score() && !tells_more &&
        expected_share(schedule, pipeline.chunks, incumbent) * alone >= *incumbent.score()) {
      note(candidate, schedule, ConsideredPlan::Fate::Bound);
      continue;
    }
    auto& times = times_tried_[{schedule, pipeline.stages.size()}];
    const double equal = is_large() ? kTwin : kSmallTwin;
    const auto twins =
        std::count_if(times.begin(), times.end(), [&](Seconds other) { return std::abs(alone / other - 1.0) < equal; });
    if (twins >= (is_large() ? 1 : kMaxSmallTwins)) {
      note(candidate, schedule, ConsideredPlan::Fate::Twin);
      continue;
    }
    const Verdict verdict = try_pipeline(pipeline, schedule, &candidate, incumbent);
    Progress& tried = tried_[key];
    // Without a place nothing was lowered, so it costs no budget.
    if (verdict.kind == Verdict::Kind::NoPlace) continue;
    times.push_back(alone);
    --budget;
    any = true;
    if (verdict.kind == Verdict::Kind::TooLarge) tried.min_excess = verdict.excess;
    if (verdict.kind == Verdict::Kind::Better || verdict.kind == Verdict::Kind::NotBetter) {
      tried.best = Fitting{pipeline, verdict.score, verdict.fullest};
      fitting_.emplace(schedule, of.way);
    }
    progress.add(tried);
    if (verdict.better()) progress.better = true;
  }
  return progress;
}

// --- the search of one schedule ---

bool PointSearch::run(ScheduleKind schedule, PlanIncumbent& incumbent) {
  if (point_.spans.search->interrupted()) return false;
  return context_.request.search.method.one_stage() ? search_one_stage(schedule, incumbent)
                                                    : search_pipelines(schedule, incumbent);
}

// The table's memory is an estimate; the lowered program's is exact. Each try asks for a share of the memory at which
// the smallest plan of the last one would have fitted.
bool PointSearch::search_pipelines(ScheduleKind schedule, PlanIncumbent& incumbent) {
  // Stages that the method gives and puts several of on each rank leave nothing to rank.
  if (!point_.space.fixed.empty() && traits_of(schedule).chunks != 1 && !point_.spans.search->reasons().empty()) {
    incumbent.explain_unless_too_large(
        fmt::format("method '{}': {}", context_.request.search.method.text, point_.spans.search->reasons().front()));
    return false;
  }
  if (!point_.space.fixed.empty() && traits_of(schedule).chunks != 1)
    return try_pipeline(given_pipeline(context_.request, point_), schedule, nullptr, incumbent).better();
  Progress progress;
  // What a narrower request would find is looked for first, as if it were asked for alone: among many more stages its
  // pipelines would not all be looked at. Where programs are large only its best pipelines are (find_candidates).
  for (const Subspace& of : subspaces_) {
    if (is_large() && !of.is_whole()) continue;
    if (progress.best && context_.stopped()) break;
    progress.add(search_subspace(of, schedule, incumbent));
  }
  // Many pipelines that leave devices out are nearly equal by their stages' times.
  if (progress.best && devices_of(progress.best->pipeline) < context_.request.cluster.devices() && !is_large())
    progress.add(search_fewer_hosts(schedule, incumbent));
  if (!incumbent.plan() && !context_.stopped() && is_large())
    progress.better = explain_failure(subspaces_.back(), schedule, incumbent);
  return progress.better;
}

int PointSearch::devices_of(const TablePipeline& pipeline) const {
  int devices = 0;
  for (const TableStage& stage : pipeline.stages) devices += point_.space.submeshes[stage.slice].devices();
  return devices / pipeline.chunks;
}

PointSearch::Progress PointSearch::search_fewer_hosts(ScheduleKind schedule, PlanIncumbent& incumbent) {
  int hosts = 0;  // of the kind that has the most
  for (const HostGroup& group : context_.request.cluster.groups) hosts = std::max(hosts, group.hosts);
  Progress progress;
  for (int fewer = 2; fewer <= hosts; fewer *= 2)
    for (Subspace of : subspaces_) {
      if (context_.stopped()) return progress;
      of.fewer_hosts = fewer;
      progress.add(search_subspace(of, schedule, incumbent));
    }
  return progress;
}

PointSearch::Progress PointSearch::search_subspace(const Subspace& of, ScheduleKind schedule,
                                                   PlanIncumbent& incumbent) {
  if (is_beaten(of, schedule, incumbent)) return {};
  found_.clear();
  Progress all;
  double share = whole_;
  for (int tries = 0; tries < kMaxMemoryTries; ++tries) {
    const Progress progress = search_within(of, share, schedule, incumbent);
    all.add(progress);
    // The table's estimate is mostly too large: a little more memory may hold better plans.
    if (tries == 0 && (progress.better || !is_large()) && !context_.stopped())
      all.add(search_within(of, share_left(progress.best), schedule, incumbent));
    if (all.best || !progress.min_excess || context_.stopped()) break;
    // Ask for plans that take less by what the smallest one was too large.
    const Bytes usable = context_.request.cluster.usable_memory_of(0);
    share *= 0.99 * (usable / (usable + *progress.min_excess));
  }
  // Where the table has candidates, the pipeline of the least memory is none that could win.
  if (!all.best && !(all.any && context_.request.search.prune) && !is_large() && of.fewer_hosts == 1 &&
      !context_.stopped())
    all.better = explain_failure(of, schedule, incumbent);
  return all;
}

// The share of the memory at which the table's estimate is right for the plan; without a plan: what is spare.
double PointSearch::share_left(const std::optional<Fitting>& best) const {
  if (!best) return whole_ * spare_share();
  const double left = 0.99 / best->fullest;
  // So little more is not worth another ranking of large programs.
  if (is_large() && left < kWorthRanking) return whole_;
  return whole_ * std::clamp(left, spare_share(), 1.5);
}

bool PointSearch::fit_alike(const Subspace& of, StageSearch::Keep keep, const CandidateRequest& wanted, double share,
                            double other) {
  if (share == other) return true;
  // The stages of a rank share its memory.
  if (traits_of(wanted.schedule).chunks != 1) return false;
  const auto [less, more] = std::minmax(share, other);
  int devices = 0;
  for (const int of_group : wanted.devices) devices += of_group;
  // No schedule but GPipe keeps more than two for each stage from here to the end.
  const std::int64_t most = wanted.schedule == ScheduleKind::GPipe
                                ? wanted.microbatches
                                : std::min<std::int64_t>(2 * std::min(point_.layers(), devices), wanted.microbatches);
  return meshwright::fit_alike(table_of(of, less, keep), more / less, most);
}

// Since it was found the best plan may have become faster, so that less would be looked at now: what is not expected to
// win is not tried all the same.
template <class Find>
const Candidates& PointSearch::find_once(const Subspace& of, double memory_share, StageSearch::Keep keep,
                                         const CandidateRequest& wanted, const std::vector<TableStage>& around,
                                         const Find& find) {
  for (const Found& found : found_)
    if (found.keep == keep && found.around == around && fit_alike(of, keep, wanted, found.memory_share, memory_share))
      return *found.candidates;
  found_.push_back({memory_share, keep, around, std::make_unique<const Candidates>(find())});
  return *found_.back().candidates;
}

PointSearch::Progress PointSearch::search_within(const Subspace& of, double memory_share, ScheduleKind schedule,
                                                 PlanIncumbent& incumbent) {
  using enum StageSearch::Keep;
  CandidateRequest wanted = candidate_request(context_, point_, schedule, of);
  wanted.few = context_.request.any_schedule() && schedule != ScheduleKind::OneFOneB && is_large();
  wanted.to_beat = to_beat(schedule, incumbent);
  std::size_t budget = wanted.few ? kMaxFew : most_lowered();
  const auto known = candidates_.find(schedule);
  // `rank` used the table with whole_.
  const bool ranked = known != candidates_.end() && of.is_whole() && of.fewer_hosts == 1 &&
                      (memory_share == whole_ || (!is_large() && fit_alike(of, Best, wanted, whole_, memory_share)));
  const auto find_best = [&] { return find_candidates(of, memory_share, wanted); };
  Progress progress = try_candidates(ranked ? known->second : find_once(of, memory_share, Best, wanted, {}, find_best),
                                     of, schedule, budget, incumbent);
  // Configurations that the table leaves out as no better may fit where the others turned out too large.
  if (progress.min_excess && !is_large() && !context_.stopped()) {
    wanted.beyond_best = true;
    const auto find_all = [&] { return find_candidates(table_of(of, memory_share, All), wanted); };
    progress.add(
        try_candidates(find_once(of, memory_share, All, wanted, {}, find_all), of, schedule, budget, incumbent));
  }
  // They may also suit the stages beside them better.
  for (bool better = progress.best && !is_large(); better && !context_.stopped();) {
    const Seconds before = progress.best->score;
    const TablePipeline around = progress.best->pipeline;
    const auto find_around = [&] { return neighbours(around, table_of(of, memory_share, All), wanted); };
    progress.add(try_candidates(find_once(of, memory_share, All, wanted, around.stages, find_around), of, schedule,
                                budget, incumbent));
    better = progress.best->score < before;
  }
  return progress;
}

// Nothing fits by the table's estimate, which errs on the large side. The pipeline that needs the least memory is
// lowered and counted exactly: either it fits after all, or the reason names what it lacks.
bool PointSearch::explain_failure(const Subspace& of, ScheduleKind schedule, PlanIncumbent& incumbent) {
  const PlanRequest& request = context_.request;
  const CandidateRequest wanted = candidate_request(context_, point_, schedule);
  const auto at_share = [&](double share) {
    return best_pipeline(table_of(of, share, StageSearch::Keep::Best), wanted);
  };
  double low = 1.0, high = 2.0;
  std::optional<TablePipeline> smallest = at_share(high);
  for (; !smallest && high < 1e6; smallest = at_share(high)) low = high, high *= 4.0;
  if (!smallest) {
    const std::vector<std::string>& reasons = point_.spans.search->reasons();
    incumbent.explain_unless_too_large(
        reasons.empty()
            ? fmt::format("no way to use the {} devices of {}", request.cluster.devices(), request.cluster.name)
            : fmt::format("method '{}': {}", request.search.method.text, reasons.front()));
    return false;
  }
  // Less memory admits no faster pipelines.
  const auto beat = to_beat(schedule, incumbent);
  if (beat && traits_of(schedule).chunks == 1 &&
      CandidateRanking::least_share(table_of(of, 1.0, StageSearch::Keep::Best), wanted) * smallest->cost >= *beat)
    return false;
  // Invariant: `smallest` is the best pipeline with `high` times the memory. The middle is geometric, as the range may
  // span orders of magnitude.
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    if (auto found = at_share(middle)) {
      smallest = std::move(found);
      high = middle;
    } else {
      low = middle;
    }
  }
  return try_pipeline(*smallest, schedule, nullptr, incumbent).better();
}

bool PointSearch::search_one_stage(ScheduleKind schedule, PlanIncumbent& incumbent) {
  const int variants = static_cast<int>(point_.structure->variants.size());
  bool better = search_one_stage(schedule, std::nullopt, incumbent);
  if (variants == 0) return better;
  // Each way to recompute alone, so that the choice of each layer is no worse than any of them.
  PointSpans own = std::move(point_.spans);
  for (int way = 0; way <= variants && !context_.stopped(); ++way) {
    set_spans(cost_spans(context_, *point_.cut, *point_.structure, point_.space,
                         context_.request.cluster.usable_memory(), {}, way));
    if (point_.spans.search->interrupted()) break;
    better = search_one_stage(schedule, way, incumbent) || better;
  }
  if (better) incumbent.bound_sharding(own.search->sharding_bound());
  set_spans(std::move(own));
  return better;
}

bool PointSearch::run_first(ScheduleKind schedule, PlanIncumbent& incumbent) {
  if (point_.spans.search->interrupted()) return false;
  const auto pipeline =
      best_pipeline(stage_table(context_, point_, whole_), candidate_request(context_, point_, schedule));
  return pipeline && try_pipeline(*pipeline, schedule, nullptr, incumbent).better();
}

// The one stage is asked for again while its program takes more, or less, memory than the table says.
bool PointSearch::search_one_stage(ScheduleKind schedule, std::optional<int> way, PlanIncumbent& incumbent) {
  const Bytes usable = context_.request.cluster.usable_memory();
  const CandidateRequest wanted = candidate_request(context_, point_, schedule);
  MemoryRequest memory(usable);
  bool better = false, found = false;
  for (bool again = true; again;) {
    const auto pipeline = best_pipeline(stage_table(context_, point_, memory.asked() / usable), wanted);
    if (!pipeline) {
      if (!found && (!is_large() || !incumbent.plan()))
        better = explain_failure(subspaces_.back(), schedule, incumbent) || better;
      break;
    }
    const StageSearch& search = *point_.spans.search;
    const StepCost& cost = search.cost(0, point_.layers() - 1, search.choice(0, pipeline->stages.front().config));
    const Seconds time = search.per_microbatch(cost);
    const Verdict verdict = try_pipeline(*pipeline, schedule, nullptr, incumbent);
    if (verdict.kind == Verdict::Kind::NoPlace) break;
    if (verdict.better()) {
      better = true;
      incumbent.set_sharding({time, std::min(time, search.sharding_bound())});
    }
    // At the bound no amount of memory can make the plan faster.
    const Seconds free = point_.bounds.known / static_cast<double>(point_.microbatches());
    found = found || verdict.peak <= usable;
    again = memory.again({search.estimate(cost), verdict.peak, found, time > (1.0 + 1e-9) * free});
    // The strategies of the one stage were chosen under the old memory limit: the spans are solved again.
    if (again) set_spans(cost_spans(context_, *point_.cut, *point_.structure, point_.space, memory.asked(), {}, way));
    if (point_.spans.search->interrupted()) break;
  }
  return better;
}

// --- the front ---

void PointSearch::widen(ScheduleKind schedule, PlanIncumbent& incumbent) {
  if (point_.spans.search->interrupted() || context_.request.search.method.one_stage() || !point_.space.fixed.empty())
    return;
  CandidateRequest wanted = candidate_request(context_, point_, schedule);
  wanted.stages.reset();
  for (bool some = true; some && !context_.stopped();) {
    for (const double share : {1.0, 0.7, 0.5, 0.35, 0.25}) {
      const auto pipeline = best_pipeline(stage_table(context_, point_, share), wanted);
      // Less memory admits no more pipelines, so the smaller shares fail too.
      if (!pipeline || context_.stopped()) break;
      try_pipeline(*pipeline, schedule, nullptr, incumbent);
    }
    some = false;
    for (int& count : wanted.devices) {
      count /= 2;
      some = some || count > 0;
    }
  }
}

}  // namespace meshwright
