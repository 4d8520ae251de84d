// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/searched_points.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/considered.h"
#include "core/planner/search/expected_share.h"

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

bool SearchedPoints::is_ruled_out(const Point& point) const {
  if (context_.request.goal.objective != Goal::Objective::StepTime || !incumbent_.score()) return false;
  Seconds beat = *incumbent_.score() / incumbent_.near_share();
  // Programs may take less than their stages alone.
  const Programs programs{is_large(context_.request, point.microbatches()), context_.evaluator.hides_communication()};
  if (context_.costs.run_depends_on_work())
    for (const ScheduleKind schedule : schedules_) beat = std::max(beat, *to_beat(programs, schedule, incumbent_));
  return point.bounds.known >= beat;
}

bool SearchedPoints::search(const SearchPoint& at, PointSearch& of, const std::vector<ScheduleKind>& schedules) {
  if (!first_layers_) first_layers_ = of.point().layers();
  searched_.push_back(at);
  if (is_ruled_out(of.point())) {
    ++context_.log.points_ruled_out;
    note_ruled_out(of.point().cut->layer_starts(), at.microbatches, of.point().bounds.known,
                   "no plan of these takes less");
    return false;
  }
  bool better = false;
  const bool several = schedules_.size() > 1;
  for (const ScheduleKind schedule : several ? of.rank(schedules) : schedules) {
    if (context_.stopped()) break;
    if (several && !of.is_promising(schedule, incumbent_)) continue;
    if (of.run(schedule, incumbent_)) better = true;
    if (context_.request.goal.front) of.widen(schedule, incumbent_);
  }
  for (const ScheduleKind schedule : schedules)
    if (const auto promised = of.promised(schedule)) {
      Seconds& least = promised_.try_emplace(schedule, *promised).first->second;
      least = std::min(least, *promised);
    }
  note_profile(of);  // one-stage methods may have asked for other memory
  if (of.fits()) fitting_.push_back(at);
  if (better) {
    best_ = at;
    covered_ = of.point().coarser ? std::optional(of.point().coarser->layers) : std::nullopt;
  }
  if (context_.request.stage_profile.keep && incumbent_.plan() && (better || !stage_profile_))
    stage_profile_ = stage_profile_of(context_.request, of.point());
  return better;
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
