// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/considered.h"

#include <utility>

#include "core/base/text.h"

namespace meshwright {

std::vector<ConsideredStage> considered_stages(const Point& point, const TablePipeline& pipeline) {
  const StageSearch& search = *point.spans.search;
  std::vector<ConsideredStage> stages;
  for (const TableStage& stage : pipeline.stages) {
    const StageChoice choice = search.choice(stage.slice, stage.config);
    const StageSearch::MeshRequest& mesh = search.meshes()[static_cast<std::size_t>(choice.mesh)];
    const StagePlace place{stage.first, stage.last, search.submeshes()[static_cast<std::size_t>(mesh.submesh)],
                           mesh.shape, mesh.batch_axis};
    const StageBoundary boundary = stage_boundary(*point.structure->own, stage.first, stage.last);
    stages.push_back(
        {{place, choice.option}, modelled_profile(search.cost(stage.first, stage.last, choice), boundary)});
  }
  return stages;
}

ConsideredPlan considered_pipeline(const Point& point, const TablePipeline& pipeline, ScheduleKind schedule,
                                   const Candidate* candidate) {
  ConsideredPlan considered;
  considered.layer_starts = point.cut->layer_starts();
  considered.microbatches = point.microbatches();
  considered.schedule = schedule;
  considered.chunks = pipeline.chunks;
  considered.stages = considered_stages(point, pipeline);
  if (candidate != nullptr) considered.estimated = candidate->step;
  return considered;
}

ConsideredPlan considered_point(std::vector<int> layer_starts, std::int64_t microbatches, ScheduleKind schedule,
                                Seconds estimated, std::string why) {
  ConsideredPlan considered;
  considered.layer_starts = std::move(layer_starts);
  considered.microbatches = microbatches;
  considered.schedule = schedule;
  considered.estimated = estimated;
  considered.why = std::move(why);
  return considered;
}

void add_verdict(ConsideredPlan& considered, const Verdict& verdict) {
  using Fate = ConsideredPlan::Fate;
  if (verdict.kind == Verdict::Kind::NoPlace) {
    considered.fate = Fate::NoPlace;
    return;
  }
  considered.needs = verdict.peak;
  if (verdict.kind == Verdict::Kind::TooLarge) {
    considered.fate = Fate::TooLarge;
    if (verdict.software) {
      considered.needs = verdict.software->needs;
      considered.why = fmt::format("its fullest device needs {} of {}", human_bytes(verdict.software->needs),
                                   human_bytes(verdict.software->usable));
      return;
    }
    considered.needs = verdict.worst->needs;
    considered.why = fmt::format("stage {} {}", verdict.worst->stage, verdict.worst->text());
    return;
  }
  considered.simulated = verdict.step;
  if (verdict.kind == Verdict::Kind::MissesGoal) {
    considered.fate = Fate::MissesGoal;
    considered.why = fmt::format("latency {}, {:.6g} samples/s", human_seconds(verdict.latency), verdict.throughput);
    return;
  }
  considered.fate = Fate::Fits;
  considered.score = verdict.score;
}

}  // namespace meshwright
