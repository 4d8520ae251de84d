// SPDX-License-Identifier: Apache-2.0
// How long each task takes alone, under the conditions of a simulation: the same number for both engines.
#pragma once

#include <cmath>
#include <numbers>

#include "core/base/random.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

// What a task does to the clock and the memory of its stream, in one place of 32 bytes per class.
struct TaskCost {
  std::int64_t duration = 0, latency = 0;        // ps
  std::int64_t memory_at_begin = 0, at_end = 0;  // bytes that appear at its begin, and then at its end
};

class TaskDurations {
 public:
  // Keeps the references.
  TaskDurations(const TaskGraph& graph, const Conditions& conditions)
      : graph_(graph), conditions_(conditions), varies_(conditions.jitter > 0.0 || !conditions.compute_scale.empty()) {
    costs_.reserve(graph.classes.size());
    for (const TaskClass& own : graph.classes)
      costs_.push_back({own.duration.ps, own.latency.ps, own.memory_at_begin, own.memory_at_end - own.memory_at_begin});
  }

  // Whether tasks of a class may take different times.
  [[nodiscard]] bool varies() const { return varies_; }
  [[nodiscard]] const std::vector<TaskCost>& costs() const { return costs_; }  // [class]

  // The duration of any task, also where durations vary: what is beyond the latency, times the scale of the device and
  // the jitter.
  [[nodiscard]] std::int64_t duration(std::size_t task, std::int32_t task_class, std::int32_t stream) const {
    const TaskCost& cost = costs_[static_cast<std::size_t>(task_class)];
    double factor = 1.0;
    if (!conditions_.compute_scale.empty() && is_compute(graph_.classes[static_cast<std::size_t>(task_class)].kind))
      factor = conditions_.compute_scale[graph_.streams[static_cast<std::size_t>(stream)].device.index()];
    if (conditions_.jitter > 0.0) factor *= jitter(task);
    // Positive, so that the cut after adding a half rounds to the nearest.
    return cost.latency + static_cast<std::int64_t>(static_cast<double>(cost.duration - cost.latency) * factor + 0.5);
  }

 private:
  // Task t takes the numbers 2 t and 2 t + 1 of the generator's sequence, and a normal deviate of them (Box and Muller,
  // Annals of Mathematical Statistics 29, 1958).
  [[nodiscard]] double jitter(std::size_t task) const {
    Random random(conditions_.seed + 2 * 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(task));
    const double radius = std::sqrt(-2.0 * std::log(1.0 - random.unit()));
    return std::exp(conditions_.jitter * radius * std::cos(2.0 * std::numbers::pi * random.unit()));
  }

  const TaskGraph& graph_;
  const Conditions& conditions_;
  const bool varies_;
  std::vector<TaskCost> costs_;
};

}  // namespace meshwright
