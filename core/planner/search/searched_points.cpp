// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/searched_points.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/expected_share.h"
#include "core/planner/search/side_by_side.h"

namespace meshwright {

namespace {

constexpr double kNear = 1.1;  // times the best by stages alone

std::vector<ScheduleKind> schedules_of(const PlanRequest& request) {
  if (!request.any_schedule()) return {request.first_schedule()};
  std::vector<ScheduleKind> schedules = all_schedules();
  // Passes of a rank run one at a time here. Unless a pass hides the exchange of tokens beside it, zb-v mostly takes
  // less time and memory than dualpipe-v, which large requests search by name alone.
  const bool large = is_large(request, request.training.batch);
  std::erase_if(schedules, [large](ScheduleKind kind) {
    return !traits_of(kind).trains || (large && kind == ScheduleKind::DualPipeV);
  });
  return schedules;
}

}  // namespace

SearchedPoints::SearchedPoints(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                               NearPlans* near)
    : context_(request, costs, evaluator), incumbent_(request, near), schedules_(schedules_of(request)) {}

bool SearchedPoints::has(const SearchPoint& at) const {
  return std::find(searched_.begin(), searched_.end(), at) != searched_.end();
}

std::unique_ptr<PointSearch> SearchedPoints::prepare(const SearchPoint& at, std::optional<Seconds> to_beat) {
  auto search = std::make_unique<PointSearch>(context_, prepare_point(context_, at, to_beat));
  note_profile(*search);
  return search;
}

bool SearchedPoints::is_ruled_out(const SearchContext& context, const PlanIncumbent& incumbent,
                                  const Point& point) const {
  if (context.request.goal.objective != Goal::Objective::StepTime || !incumbent.score()) return false;
  Seconds beat = *incumbent.score() / incumbent.near_share();
  // Programs may take less than their stages alone.
  const Programs programs{is_large(context.request, point.microbatches()), context.evaluator.hides_communication()};
  if (context.costs.run_depends_on_work())
    for (const ScheduleKind schedule : schedules_) beat = std::max(beat, *to_beat(programs, schedule, incumbent));
  return point.bounds.known >= beat;
}

SearchedPoints::Looked SearchedPoints::look(SearchContext& context, PlanIncumbent& incumbent, PointSearch& of,
                                            const std::vector<ScheduleKind>& schedules) const {
  Looked looked;
  looked.ruled_out = is_ruled_out(context, incumbent, of.point());
  if (looked.ruled_out) return looked;
  const bool several = schedules_.size() > 1;
  for (const ScheduleKind schedule : several ? of.rank(schedules) : schedules) {
    if (context.stopped()) break;
    if (several && !of.is_promising(schedule, incumbent)) continue;
    if (of.run(schedule, incumbent)) looked.better = true;
    if (context.request.goal.front) of.widen(schedule, incumbent);
  }
  return looked;
}

bool SearchedPoints::search(const SearchPoint& at, PointSearch& of, const std::vector<ScheduleKind>& schedules) {
  const Looked looked = look(context_, incumbent_, of, schedules);
  note(at, of, schedules, looked);
  return looked.better;
}

void SearchedPoints::note(const SearchPoint& at, const PointSearch& of, const std::vector<ScheduleKind>& schedules,
                          const Looked& looked) {
  if (!first_layers_) first_layers_ = of.point().layers();
  searched_.push_back(at);
  if (!of.point().to_beat && !context_.log.interrupted)
    cuts_.emplace(of.point().cut->layer_starts(), of.point().microbatches());
  if (looked.ruled_out) {
    ++context_.log.points_ruled_out;
    note_ruled_out(of.point().cut->layer_starts(), at.microbatches, of.point().bounds.known,
                   "no plan of these takes less");
    return;
  }
  for (const ScheduleKind schedule : schedules)
    if (const auto promised = of.promised(schedule)) {
      Seconds& least = promised_.try_emplace(schedule, *promised).first->second;
      least = std::min(least, *promised);
    }
  note_profile(of);  // one-stage methods may have asked for other memory
  if (of.fits()) fitting_.push_back(at);
  if (looked.better) {
    best_ = at;
    covered_ = of.point().coarser ? std::optional(of.point().coarser->layers) : std::nullopt;
  }
  if (context_.request.stage_profile.keep && incumbent_.plan() && (looked.better || !stage_profile_))
    stage_profile_ = stage_profile_of(context_.request, of.point());
}

// A point that is searched beside others.
struct SearchedPoints::Beside {
  Beside(const SearchedPoints& searched, const SearchPoint& point, GivenModel of_point, SideBySide& beside)
      : at(point),
        model(std::move(of_point)),
        part(searched.context_.request, beside),
        context(part.request, searched.context_),
        incumbent(searched.incumbent_.beside(&near)) {}

  SearchPoint at;
  GivenModel model;
  SideBySide::Part part;
  SearchContext context;
  NearPlans near;
  PlanIncumbent incumbent;
  std::unique_ptr<PointSearch> search;  // nullptr: nobody waits for its answer
  Looked looked;
};

// What one-stage methods, other goals and fronts keep of each plan is not joined.
bool SearchedPoints::may_search_side_by_side() const {
  const Goal& goal = context_.request.goal;
  return searches_stages(context_.request) && goal.objective == Goal::Objective::StepTime && !goal.front;
}

bool SearchedPoints::has_cut(const ModelCut& cut) const {
  return cuts_.contains({cut.layer_starts(), cut.training.microbatches});
}

bool SearchedPoints::search_round(const std::vector<SearchPoint>& points) {
  if (points.empty()) return false;
  bool better = false;
  if (!may_search_side_by_side()) {
    for (const SearchPoint& at : points)
      if (!context_.stopped() && search(at)) better = true;
    return better;
  }
  SideBySide beside(context_.request, points.size());
  std::vector<std::unique_ptr<Beside>> round;
  for (const SearchPoint& at : points) {
    if (context_.stopped()) break;
    GivenModel model = given_model(context_, at);
    if (has_cut(*model.cut)) {
      searched_.push_back(at);
      continue;
    }
    round.push_back(std::make_unique<Beside>(*this, at, std::move(model), beside));
  }
  // Those with the most layers take the longest.
  std::vector<Beside*> longest_first;
  for (const auto& of : round) longest_first.push_back(of.get());
  std::stable_sort(longest_first.begin(), longest_first.end(), [](const Beside* a, const Beside* b) {
    return a->model.cut->layers.count > b->model.cut->layers.count;
  });
  beside.run(round.size(), [&](std::size_t i) {
    Beside& of = *longest_first[i];
    if (of.context.is_to_stop()) return;
    of.search = std::make_unique<PointSearch>(of.context, prepare_point(of.context, of.at, std::move(of.model)));
    of.looked = look(of.context, of.incumbent, *of.search, schedules_);
    const StageProfileRequest& profile = of.context.request.stage_profile;
    if (profile.file == nullptr && !profile.keep) of.search->forget_stages();
  });
  (void)context_.stopped();  // a point may have seen it first
  for (const auto& of : round) {
    if (!of->search) continue;
    context_.log.join(of->context.log);
    of->part.tell_record();
    if (of->context.best) context_.note_best(*of->context.best);
    if (of->context.least_beside) context_.note_beside(*of->context.least_beside);
    const std::optional<Seconds> before = incumbent_.score();
    const bool had_plan = incumbent_.plan() != nullptr;
    incumbent_.join(std::move(of->incumbent), std::move(of->near));
    of->looked.better = incumbent_.plan() && (!had_plan || *incumbent_.score() < *before);
    note(of->at, *of->search, schedules_, of->looked);
    better = better || of->looked.better;
  }
  return better;
}

std::vector<std::vector<SearchPoint>> rounds_of(const std::vector<SearchPoint>& points) {
  std::vector<std::vector<SearchPoint>> rounds;
  for (const SearchPoint& at : points) {
    if (rounds.empty() || rounds.back().size() == SearchedPoints::kRound) rounds.emplace_back();
    rounds.back().push_back(at);
  }
  return rounds;
}

void SearchedPoints::note_ruled_out(std::vector<int> layer_starts, std::int64_t microbatches, Seconds estimated,
                                    const char* why) const {
  if (context_.request.record != nullptr)
    context_.request.record->add(
        considered_point(std::move(layer_starts), microbatches, schedules_.front(), estimated, why));
}

std::vector<ScheduleKind> SearchedPoints::near_schedules() const {
  if (promised_.empty()) return schedules_;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const Seconds best = std::min_element(promised_.begin(), promised_.end(), less)->second;
  std::vector<ScheduleKind> near;
  for (const ScheduleKind schedule : schedules_) {
    const auto promised = promised_.find(schedule);
    if (promised != promised_.end() && promised->second <= kNear * best) near.push_back(schedule);
  }
  return near;
}

void SearchedPoints::note_profile(const PointSearch& search) {
  if (context_.request.stage_profile.file == nullptr) return;
  const StageProfileTable& known = *search.point().spans.known;
  if (known.empty())
    unused_key_ = known.key();
  else
    profile_used_ = true;
}

std::string SearchedPoints::how_it_stopped() const {
  const SearchLog& log = context_.log;
  std::vector<std::string> parts;
  if (log.interrupted) parts.push_back("interrupted: the best plan found so far");
  if (log.points + log.points_ruled_out > 1)
    parts.push_back(searches_stages(context_.request) ? "numbers of micro-batches by predicted step time"
                                                      : "numbers of micro-batches one after the other");
  if (schedules_.size() > 1) parts.push_back("schedules by the time of their stages alone");
  if (log.ranked > 0)
    parts.push_back(log.ranked_all ? "every pipeline that could win by its stages' times"
                                   : "the best pipelines by stage times and the best of each number of stages");
  parts.push_back(log.points + log.ranked > 1 ? "stopped when no remaining candidate could beat the best"
                                              : "the method leaves one pipeline");
  return join(parts, ", ");
}

PlanningResult SearchedPoints::take_result() {
  if (context_.request.stage_profile.file != nullptr && !profile_used_ && unused_key_)
    throw InputError(context_.request.stage_profile.file->why_unused(*unused_key_));
  context_.log.how = how_it_stopped();
  PlanningResult result = incumbent_.take_result();
  result.log = context_.log;
  result.stage_profile = std::move(stage_profile_);
  return result;
}

}  // namespace meshwright
