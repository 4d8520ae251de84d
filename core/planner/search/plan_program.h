// SPDX-License-Identifier: Apache-2.0
// One pipeline as a whole program: lower, judge. Each is a step that returns a value.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/planner/search/point.h"

namespace meshwright {

class PlanIncumbent;

struct PlanProgram {
  std::shared_ptr<const Graph> graph;
  Plan plan;
  std::unique_ptr<PlanTrial> trial;
};

// Lowered and checked by the evaluator, so that the plan knows its peak memory. Throws InputError as its trial.
[[nodiscard]] PlanProgram on_trial(Plan plan, std::shared_ptr<const Graph> graph, const PlanEvaluator& evaluator);

// The time of one micro-batch from end to end, alone on the devices. Throws InputError as the evaluator's trial.
[[nodiscard]] Seconds latency_of(const Plan& plan, const std::shared_ptr<const Graph>& graph,
                                 const PlanEvaluator& evaluator);

// The graphs of a point's plans, one for each recomputation. REQUIRES: the point outlives this.
class PlanGraphs {
 public:
  PlanGraphs(const PlanRequest& request, const Point& point) : request_(request), point_(point) {}

  struct GraphOfPlan {
    std::shared_ptr<const Graph> graph;
    std::string fingerprint;
  };
  [[nodiscard]] const GraphOfPlan& of(const TrainingOptions& training);

 private:
  const PlanRequest& request_;
  const Point& point_;
  std::map<std::string, GraphOfPlan> graphs_;  // by recomputation
};

// The plan of a pipeline, without its peak memory and prediction. nullopt: as lower_pipeline.
[[nodiscard]] std::optional<Plan> plan_of_pipeline(const PlanRequest& request, const Point& point, PlanGraphs& graphs,
                                                   const TablePipeline& pipeline, ScheduleKind schedule);

// The plan knows these peaks of its stages, too: those of a step under conditions (StepOutcome::peaks) may be above
// those of the plain one.
void take_peaks(Plan& plan, const std::vector<Bytes>& peaks);
// Whether the memory that the plan knows of fits into its devices, with what the trial says to lie beside tensors.
[[nodiscard]] bool fits_devices(const Plan& plan, const PlanTrial& trial);

// The plan with its step and memory as the search finds them of every plan. Throws InputError as the evaluator's trial.
[[nodiscard]] Plan with_step_and_memory(Plan plan, const std::shared_ptr<const Graph>& graph,
                                        const PlanEvaluator& evaluator);
// The same of a plan that fits its devices and their hosts, as `judge` counts that; nullopt: it does not.
[[nodiscard]] std::optional<Plan> with_step_if_it_fits(Plan plan, const std::shared_ptr<const Graph>& graph,
                                                       const PlanEvaluator& evaluator);

// What is to be done with a plan. PlanIncumbent::apply acts on it.
struct Verdict {
  enum class Kind {
    Better,      // fits, and beats the incumbent
    NotBetter,   // fits
    TooLarge,    // for the memory of one of its stages' devices
    MissesGoal,  // fits, but is too slow for the goal's limits
    NoPlace,     // was not lowered: its submeshes do not fit on the hosts side by side
  } kind = Kind::NoPlace;

  Bytes peak{0.0};  // of the device that holds the most; all kinds but NoPlace
  // Better, NotBetter:
  Seconds step{0.0}, lower_bound{0.0};
  Seconds score{0.0};              // what the goal minimizes
  std::optional<Seconds> to_beat;  // the incumbent's score
  std::optional<double> share;     // candidates: the score as a share of the time of the stages alone
  int chunks = 1;                  // candidates: stages of each rank
  double fullest = 0.0;            // the largest share of its usable memory that a device fills
  std::vector<Bytes> peaks = {};   // StepOutcome::peaks
  // TooLarge:
  std::optional<PlanningResult::TooLarge>
      worst;  // of all stages, the one that lacks the most memory; not lowered: none
  std::optional<PlanEvaluator::SoftwareMemory> software;  // not lowered: what the plan's software keeps
  Bytes excess{0.0};                                      // the bytes that it lacks
  // MissesGoal:
  double throughput = 0.0;  // samples per second
  Seconds latency{0.0};

  [[nodiscard]] bool better() const { return kind == Kind::Better; }
};

// A pipeline's program, or why there is none.
struct LoweredPipeline {
  std::optional<PlanProgram> program;  // its plan has no prediction but its peak memory
  // Without a program: the plan's software keeps more than there is, and no answer will speak of this plan; nullopt:
  // its submeshes do not fit on the hosts side by side.
  std::optional<Verdict> too_large;
};
// The step `lower`.
[[nodiscard]] LoweredPipeline lower_pipeline(SearchContext& context, const Point& point, PlanGraphs& graphs,
                                             const TablePipeline& pipeline, ScheduleKind schedule,
                                             const PlanIncumbent& incumbent);

// The step `judge`. It changes nothing; `candidate` is unset for pipelines that were not ranked.
[[nodiscard]] Verdict judge(const SearchContext& context, const PlanProgram& found, const PointBounds& bounds,
                            const Candidate* candidate, const PlanIncumbent& incumbent);

// What the step log is told of `lower` and `judge`: "1.201 s, better than 1.245 s", "too large by 1.2 GiB".
[[nodiscard]] std::string summary_of(const LoweredPipeline& lowered);
[[nodiscard]] std::string summary_of(const Verdict& verdict);

}  // namespace meshwright
