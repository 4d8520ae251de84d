// SPDX-License-Identifier: Apache-2.0
#include "core/planner/ways_out.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/changed_requests.h"
#include "core/planner/search/stage_space.h"

namespace meshwright {

namespace {

constexpr int kFewDevices = 8;    // with at most so many devices, a small request is planned as it is
constexpr int kMaxSimulated = 6;  // plans of a narrow request that are simulated whole

bool is_planned_in_full(const PlanRequest& request) {
  return request.cluster.devices() <= kFewDevices && is_small(request);
}

// Divisors of the batch that leave few samples in a micro-batch; the first leaves the fewest. Methods that split the
// samples need some for every device that does.
std::vector<std::int64_t> many_microbatches(const PlanRequest& request) {
  constexpr std::int64_t kMaxMicrobatches = 1024;
  const Method& method = request.search.method;
  const std::int64_t batch = request.training.batch;
  std::int64_t split = method.one_stage() ? request.cluster.devices() : 1;
  if (method.kind == Method::Kind::Megatron) split = request.cluster.devices() / (method.tp * method.cp * method.pp);
  std::int64_t most = 1, fewer = 1;
  for (const std::int64_t m : divisors(batch, kMaxMicrobatches)) {
    if (m > 1 && batch / m % std::max<std::int64_t>(split, 1) != 0) continue;
    most = m;
    if (4 * m <= batch) fewer = m;
  }
  return fewer == most ? std::vector{most} : std::vector{most, fewer};
}

// Parts of the request's space in which there are plans of little memory, if there are any, the least first:
// micro-batches of few samples, one schedule, and on many hosts stages of whole hosts with tensor parallelism inside
// them. A plan of any of them is a plan of the request.
std::vector<PlanRequest> narrow_requests(const PlanRequest& request) {
  PlanRequest narrow = request;
  narrow.search.schedule = request.first_schedule();
  if (request.search.layers == LayerCount(Auto{})) narrow.search.layers = ModelDefault{};
  constexpr int kFewHosts = 4;
  if (request.search.method.kind == Method::Kind::Pipeshard &&
      std::holds_alternative<SubmeshSpace>(request.search.submeshes) && request.cluster.hosts() > kFewHosts) {
    narrow.search.submeshes = whole_host_submeshes(request.cluster, {1, 2, 4});
    narrow.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;
  }
  if (!is_auto(request.search.microbatches)) return {narrow};
  std::vector<PlanRequest> requests;
  for (const std::int64_t microbatches : many_microbatches(request)) {
    narrow.search.microbatches = microbatches;
    requests.push_back(narrow);
  }
  return requests;
}

// The evaluator of a narrow search, which is to stop when it has simulated so many plans that fit.
class CountingEvaluator : public PlanEvaluator {
 public:
  explicit CountingEvaluator(PlanEvaluator& by) : by_(by) {}
  [[nodiscard]] bool enough() const { return simulated_ >= kMaxSimulated; }

  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override {
    return by_.step_time(schedule, microbatches, times, chunks);
  }
  [[nodiscard]] std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made) const override {
    return std::make_unique<Counted>(by_.trial(made), simulated_);
  }
  [[nodiscard]] PlanOutcome outcome(const PlanOfGraph& made) const override { return by_.outcome(made); }
  [[nodiscard]] bool hides_communication() const override { return by_.hides_communication(); }
  [[nodiscard]] int gathers_ahead() const override { return by_.gathers_ahead(); }
  [[nodiscard]] bool steps_run_into_each_other() const override { return by_.steps_run_into_each_other(); }
  [[nodiscard]] std::unique_ptr<PlanEvaluator> plain() const override { return by_.plain(); }
  [[nodiscard]] std::optional<SoftwareMemory> software_memory(const Plan& plan, const Graph& graph) const override {
    return by_.software_memory(plan, graph);
  }

 private:
  class Counted final : public PlanTrial {
   public:
    Counted(std::unique_ptr<PlanTrial> of, std::atomic<int>& simulated) : of_(std::move(of)), simulated_(simulated) {
      peaks = of_->peaks;
      on_host = of_->on_host;
      beside = of_->beside;
    }
    [[nodiscard]] StepOutcome step() override {
      ++simulated_;
      return of_->step();
    }

   private:
    const std::unique_ptr<PlanTrial> of_;
    std::atomic<int>& simulated_;
  };

  PlanEvaluator& by_;
  mutable std::atomic<int> simulated_ = 0;  // several threads may ask
};

class Explorer {
 public:
  Explorer(const PlanRequest& request, const CostContextOf& cost_context_of, const WaysOutLimits& limits)
      : request_(request), cost_context_of_(cost_context_of), limits_(limits) {}

  // Every ladder's first step before any second, so that the limit cuts all alike. Of large requests the largest change
  // of a ladder comes before that: where it is in vain, all are.
  WaysOut climb(std::vector<ChangeLadder> ladders) {
    for (ChangeLadder& ladder : ladders) {
      if (is_at_end()) return std::move(found_);
      probe(ladder);
    }
    for (std::size_t rung = 0;; ++rung) {
      bool higher = false;
      for (ChangeLadder& ladder : ladders) {
        if (rung >= ladder.steps.size()) continue;
        if (is_at_end()) return std::move(found_);
        higher = true;
        if (try_step(ladder, std::move(ladder.steps[rung])) == Outcome::Fits) ladder.steps.clear();
      }
      if (!higher) return std::move(found_);
    }
  }

 private:
  enum class Outcome { Fits, TooLarge, Unsuitable };

  [[nodiscard]] bool stopped() const { return limits_.stop && limits_.stop(); }
  [[nodiscard]] bool is_at_end() const { return calls_ >= limits_.planning_calls || stopped(); }

  // Tries the last step of a ladder of several. More hosts are not probed: the most take the longest to plan.
  void probe(ChangeLadder& ladder) {
    if (ladder.kind == WayOut::Kind::Recomputation && full_is_in_vain_) {
      // Where no layer's activations fit that are all recomputed, none fit that a few keep.
      give_up(ladder);
      return;
    }
    if (ladder.kind == WayOut::Kind::MoreDevices || ladder.steps.size() < 2 ||
        is_planned_in_full(ladder.steps.back().request))
      return;
    const Outcome outcome = try_step(ladder, ladder.steps.back());
    if (outcome == Outcome::TooLarge) {
      full_is_in_vain_ = full_is_in_vain_ || ladder.kind == WayOut::Kind::Recomputation;
      found_.in_vain.pop_back();  // with the others, in their order
      give_up(ladder);
    } else {
      ladder.steps.pop_back();
    }
  }

  void give_up(ChangeLadder& ladder) {
    for (const RequestChange& left : ladder.steps) found_.in_vain.push_back(left.change);
    ladder.steps.clear();
  }

  // A way that fits takes the place of a larger change of its ladder.
  void note(ChangeLadder& ladder, WayOut way) {
    if (ladder.way) {
      found_.ways[*ladder.way] = std::move(way);
      return;
    }
    ladder.way = found_.ways.size();
    found_.ways.push_back(std::move(way));
  }

  Outcome try_step(ChangeLadder& ladder, RequestChange tried) {
    const bool in_full = is_planned_in_full(tried.request);
    ++calls_;
    const CostContext context = cost_context_of_(tried.request.cluster);
    try {
      std::optional<Seconds> fastest;
      for (PlanRequest& asked : in_full ? std::vector{tried.request} : narrow_requests(tried.request)) {
        const PlanningResult result = plan(asked, in_full, tried.change, context);
        // What keeps more does not fit either.
        if (!result.plan && result.too_large) break;
        if (result.plan)
          fastest = std::min(fastest.value_or(result.plan->predicted.step_time), result.plan->predicted.step_time);
      }
      if (fastest) {
        note(ladder, {ladder.kind, tried.change, std::move(tried.request), *fastest, !in_full});
        return Outcome::Fits;
      }
      if (stopped()) return Outcome::Unsuitable;
      found_.in_vain.push_back(tried.change);
      return Outcome::TooLarge;
    } catch (const InputError&) {
      return Outcome::Unsuitable;  // the change does not suit this model, method or cluster
    }
  }

  PlanningResult plan(PlanRequest& asked, bool in_full, const std::string& change, const CostContext& context) {
    CountingEvaluator counting(*context.evaluator);
    asked.stop = [&] { return stopped() || (request_.stop && request_.stop()) || (!in_full && counting.enough()); };
    if (request_.progress) asked.progress = [&](const std::string& text) { request_.progress(change + ": " + text); };
    return make_plan(asked, *context.costs, counting);
  }

  const PlanRequest& request_;
  const CostContextOf& cost_context_of_;
  const WaysOutLimits& limits_;
  WaysOut found_;
  int calls_ = 0;
  bool full_is_in_vain_ = false;  // recomputation of every layer
};

// The fastest of each kind, at most `max`; equally fast: the earlier, which changes less.
void keep_best(std::vector<WayOut>& ways, std::size_t max) {
  std::stable_sort(ways.begin(), ways.end(),
                   [](const WayOut& a, const WayOut& b) { return a.per_sample() < b.per_sample(); });
  std::set<WayOut::Kind> kinds;
  ways.erase(
      std::remove_if(ways.begin(), ways.end(), [&](const WayOut& way) { return !kinds.insert(way.kind).second; }),
      ways.end());
  if (ways.size() > max) ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(max), ways.end());
}

}  // namespace

WaysOut find_ways_out(const PlanRequest& request, const PlanningResult& failed, const CostContextOf& cost_context_of,
                      const WaysOutLimits& limits) {
  if (failed.plan || !failed.too_large) return {};
  WaysOut found = Explorer(request, cost_context_of, limits).climb(change_ladders(request));
  keep_best(found.ways, limits.ways);
  const Seconds before = failed.too_large->step_time / static_cast<double>(request.training.batch);
  if (before.si() > 0.0)
    for (WayOut& way : found.ways) way.slower = (way.per_sample() - before) / before;
  return found;
}

std::string PlanningResult::TooLarge::text() const {
  if (likely)
    return fmt::format("needs {} per device, and no more than {} is likely to fit", human_bytes(needs),
                       human_bytes(usable));
  return fmt::format("needs {}{} of {}{} per device", human_bytes(needs),
                     beside.si() > 0.0 ? fmt::format(" ({} beside its tensors)", human_bytes(beside)) : "",
                     human_bytes(usable), of_host ? " of its host's memory" : "");
}

std::string sentence(const PlanningResult& failed, const WaysOut& ways_out) {
  if (!failed.too_large) return failed.reason;
  const PlanningResult::TooLarge& stage = *failed.too_large;
  const std::string text = fmt::format("stage {} of {} (layers {}..{}) {}", stage.stage, stage.stages,
                                       stage.first_layer, stage.last_layer, stage.text());
  if (!ways_out.ways.empty()) {
    std::vector<std::string> ways;
    for (const WayOut& way : ways_out.ways)
      ways.push_back(fmt::format("{} ({}{})", way.change, way.at_most ? "at most " : "",
                                 way.slower ? fmt::format("{:+.1f} %", 100.0 * *way.slower)
                                            : human_seconds(way.per_sample()) + " per sample"));
    return fmt::format("{}; cheapest ways out, with what they change in time per sample: {}", text, join(ways, ", "));
  }
  const std::string memory = fmt::format("it would fit devices with {} usable each", human_bytes(stage.needs));
  if (!ways_out.in_vain.empty())
    return fmt::format("{}; {}; not enough alone: {}", text, memory, join(ways_out.in_vain, ", "));
  return fmt::format("{}; {}; use more or larger devices, or a smaller model", text, memory);
}

}  // namespace meshwright
