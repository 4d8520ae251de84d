// SPDX-License-Identifier: Apache-2.0
// What every step of one search works with: the request, the costs, the evaluator, what it has found and lowered so
// far, the step log and the tally.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/planner/intra_op/known_ops.h"
#include "core/planner/plan_request.h"
#include "core/planner/search/known_graphs.h"
#include "core/planner/search/known_trials.h"
#include "core/solver/elimination/elimination_steps.h"

namespace meshwright {

class SearchContext {
 public:
  SearchContext(const PlanRequest& of, const CostModel& cost_model, PlanEvaluator& by)
      : request(of), costs(cost_model), evaluator(by) {}
  // For a point that is searched beside others. It has its own log and its own costs of ops, and shares everything else
  // that is known.
  SearchContext(const PlanRequest& of, const SearchContext& beside)
      : request(of),
        costs(beside.costs),
        evaluator(beside.evaluator),
        trials(beside.trials),
        graphs(beside.graphs),
        eliminations(beside.eliminations),
        best(beside.best),
        least_beside(beside.least_beside) {}

  const PlanRequest& request;
  const CostModel& costs;
  PlanEvaluator& evaluator;
  std::shared_ptr<KnownTrials> trials = std::make_shared<KnownTrials>();
  std::int64_t simulated = 0;  // steps of trials that its evaluator was asked for
  KnownGraphs graphs;
  // Of the latest graphs that were asked for.
  [[nodiscard]] std::shared_ptr<KnownOps> ops_of(const std::shared_ptr<const ModelGraphs>& of) {
    if (ops_ == nullptr || ops_of_ != of) ops_ = std::make_shared<KnownOps>();
    ops_of_ = of;
    return ops_;
  }
  // Cuts and numbers of micro-batches have layers of the same structure.
  std::shared_ptr<elimination::KnownSteps> eliminations = std::make_shared<elimination::KnownSteps>();
  SearchLog log;
  std::optional<Seconds> best;  // the lowest step time that any point has found
  // The most that a plan's devices hold beside their tensors (PlanTrial::beside), and of the plans that were lowered
  // the least of that.
  std::optional<Bytes> least_beside;
  // Tells it of what another context, or a trial, has found.
  void note_best(Seconds step) { best = std::min(step, best.value_or(step)); }
  void note_beside(Bytes most) { least_beside = std::min(most, least_beside.value_or(most)); }

  // Runs one step and returns what it made. The step log hears its name and summary_of the result, a function beside
  // the result's type, or `describe` of it.
  template <class Run>
  auto step(const char* name, const Run& run) const {
    return step(name, run, [](const auto& result) { return summary_of(result); });
  }
  template <class Run, class Describe>
  auto step(const char* name, const Run& run, const Describe& describe) const {
    if (request.steps == nullptr) return run();
    request.steps->begin(name);
    auto result = run();
    request.steps->end(describe(result));
    return result;
  }
  // "; best 3.769 s" once there is a plan: the end of every line that is said.
  [[nodiscard]] std::string best_so_far() const { return best ? "; best " + human_seconds(*best) : std::string(); }
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) const {
    if (request.progress) request.progress(fmt::format(text, std::forward<Args>(args)...));
  }

  // The caller wants no more than the best plan found so far. True forever once it was true.
  [[nodiscard]] bool stopped() {
    if (!log.interrupted && is_to_stop()) log.interrupted = true;
    return log.interrupted;
  }
  // The same asked by any thread. Whoever begins the threads asks stopped() when they have ended.
  [[nodiscard]] bool is_to_stop() {
    if (!is_to_stop_ && request.stop && request.stop()) is_to_stop_ = true;
    return is_to_stop_;
  }

 private:
  std::shared_ptr<const ModelGraphs> ops_of_;
  std::shared_ptr<KnownOps> ops_;
  std::atomic<bool> is_to_stop_ = false;
};

}  // namespace meshwright
