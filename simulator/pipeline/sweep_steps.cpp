// SPDX-License-Identifier: Apache-2.0
#include "simulator/pipeline/sweep_steps.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/parallel.h"

namespace meshwright {

namespace {

// What two candidates of one shape agree in.
struct ShapeKey {
  ScheduleKind schedule;
  int microbatches, chunks, stages;
  std::vector<std::pair<int, int>> edges;
  auto operator<=>(const ShapeKey&) const = default;
};

ShapeKey key_of(const PipelineCandidate& candidate) {
  const PipelineTimes& times = candidate.step.times;
  ShapeKey key{
      candidate.schedule, candidate.microbatches, candidate.chunks, static_cast<int>(times.forward.size()), {}};
  key.edges.reserve(times.edges.size());
  for (const auto& edge : times.edges) key.edges.emplace_back(edge.from, edge.to);
  return key;
}

SweptStep simulate(const PipelineShape& shape, const PipelineCandidate& candidate, LinkDiscipline discipline) {
  if (!candidate.step.nics) {
    const bool counts = !candidate.step.activations.empty();
    return {simulate_pipeline(shape, candidate.step.times).step,
            counts ? peak_activations(shape, candidate.step.activations) : std::vector<std::int64_t>{}};
  }
  Conditions conditions;
  conditions.discipline = discipline;
  TaskTimes times = run_tasks(pipeline_graph(shape, candidate.step), conditions).times;
  times.peak_memory.resize(candidate.step.activations.empty() ? 0 : static_cast<std::size_t>(shape.ranks));
  return {times.step, std::move(times.peak_memory)};
}

}  // namespace

std::vector<SweptStep> sweep_steps(const std::vector<PipelineCandidate>& candidates, int threads,
                                   LinkDiscipline discipline) {
  std::map<ShapeKey, std::size_t> numbers;
  std::vector<std::size_t> shape_of;    // [candidate]
  std::vector<std::size_t> first_with;  // [shape] a candidate
  shape_of.reserve(candidates.size());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const auto [entry, added] = numbers.emplace(key_of(candidates[c]), numbers.size());
    shape_of.push_back(entry->second);
    if (added) first_with.push_back(c);
  }
  std::vector<PipelineShape> shapes(first_with.size());
  for_each_index(shapes.size(), threads, [&](std::size_t s) {
    const PipelineCandidate& candidate = candidates[first_with[s]];
    const PipelineTimes& times = candidate.step.times;
    shapes[s] = pipeline_shape(candidate.schedule, static_cast<int>(times.forward.size()), candidate.microbatches,
                               times.edges, candidate.chunks);
  });
  std::vector<SweptStep> swept(candidates.size());
  for_each_index(candidates.size(), threads,
                 [&](std::size_t c) { swept[c] = simulate(shapes[shape_of[c]], candidates[c], discipline); });
  return swept;
}

}  // namespace meshwright
