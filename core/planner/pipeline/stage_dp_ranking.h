// SPDX-License-Identifier: Apache-2.0
// Pipelines one by one, best first: for a loop that simulates them and stops when the next one cannot win any more.
#pragma once

#include <memory>
#include <optional>

#include "core/planner/pipeline/stage_dp.h"

namespace meshwright {

// All pipelines that fit, different in a stage's layers, slice or configuration, in order of their cost; dominated
// configurations are among them. Costs that differ by less than 1e-12 of them come in a fixed order, not always theirs.
// REQUIRES: the table stays where it is and as it is, as long as the ranking.
class PipelineRanking {
 public:
  // In order of T (stage_dp.h).
  static PipelineRanking by_training_time(const StageTable& table, const StageDpRequest& request);
  // In order of the sum, among the pipelines whose stages take at most `slowest`.
  static PipelineRanking by_latency(const StageTable& table, const StageDpRequest& request, Seconds slowest);
  static PipelineRanking by_training_time(StageTable&&, const StageDpRequest&) = delete;
  static PipelineRanking by_latency(StageTable&&, const StageDpRequest&, Seconds) = delete;
  ~PipelineRanking();
  PipelineRanking(PipelineRanking&&) noexcept;

  // The next one; nullopt: there are no more.
  [[nodiscard]] std::optional<TablePipeline> next();

 private:
  struct State;
  explicit PipelineRanking(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
