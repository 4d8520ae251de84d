// SPDX-License-Identifier: Apache-2.0
// The inter-operator dynamic program (Alpa, OSDI'22, section 5.2): which spans of layers become stages, on which
// submeshes, with which option, so that  T = sum of stage times + (B - 1) * largest stage time  is least.
//
//   f(s, i, d) = min over k > i, (submesh p, option c) of f(s-1, k, d - |p|) + t(i, k-1, p, c)
//                subject to t <= t_max and s-1 <= max_successors(i, k-1, p, c)
//   f(0, L, 0) = 0;  T(t_max) = f(s*, 0, D) + (B - 1) * (largest stage time used)
//
// t_max ranges over the distinct stage times; intervals of it that cannot win are left out unexamined
// (choose_pipeline.cpp proves it). Stage times are added from the last stage to the first in doubles (no gap, no
// float32), so the result equals enumeration. Ties: fewer stages, then the lexicographically smaller list of (first,
// last, submesh, option).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/mesh/submesh.h"

namespace meshwright {

// One way to run layers [first, last] on a submesh; everything the search needs to know about it.
struct StageOption {
  Seconds time{0.0};  // forward + backward of one microbatch
  // Largest number of stages that may follow so that the memory still fits under the schedule; see max_successors.
  int max_successors = 0;
  int id = 0;  // meaning belongs to the caller (logical mesh, sharding choice)
};

struct StageTable {
  int layers = 0;
  std::vector<Submesh> submeshes;
  // options[(first * layers + last) * submeshes + submesh]: empty = infeasible.
  std::vector<std::vector<StageOption>> options;

  StageTable(int layers, std::vector<Submesh> submeshes);
  [[nodiscard]] const std::vector<StageOption>& at(int first, int last, int submesh) const;
  [[nodiscard]] std::vector<StageOption>& at(int first, int last, int submesh);
};

struct ChosenStage {
  int first, last, submesh, option;  // option: index into StageTable::at(first, last, submesh)
  bool operator==(const ChosenStage&) const = default;
};
struct ChosenPipeline {
  std::vector<ChosenStage> stages;
  Seconds time{0.0};  // T above
};

struct PipelineSearch {
  int devices = 1;  // all of them are used
  std::int64_t microbatches = 1;
  // Exactly this many stages when set.
  std::optional<int> stages = std::nullopt;
};

// nullopt: no pipeline fits.
[[nodiscard]] std::optional<ChosenPipeline> choose_pipeline(const StageTable& table, const PipelineSearch& search);

// Up to `count` different pipelines, best first: the winners for different t_max and different numbers of stages. The
// first one equals choose_pipeline's. Input of re-ranking by simulation.
[[nodiscard]] std::vector<ChosenPipeline> choose_pipelines(const StageTable& table, const PipelineSearch& search,
                                                           int count);

// Alpa's memory rule: the largest number of succeeding stages under a schedule that keeps (successors + 1) microbatches
// in flight: floor((available - peak - initial) / max(intermediate, 1e-8)) - 1, clipped to [-1, 2^20]. -1: does not fit
// at all. (get_merged_stages_memory_stats in alpa/pipeline_parallel/stage_profiling.py; peak 3.3, initial 4,
// intermediate 1.4 of 15 -> 4.)
[[nodiscard]] int max_successors_1f1b(Bytes available, Bytes peak, Bytes initial, Bytes intermediate);
// For schedules whose in-flight count does not depend on the position (GPipe: all microbatches; inference: 1): 2^20 or
// -1.
[[nodiscard]] int max_successors_fixed(Bytes available, Bytes peak, Bytes initial, Bytes intermediate,
                                       std::int64_t in_flight);

}  // namespace meshwright
