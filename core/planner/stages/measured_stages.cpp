// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/measured_stages.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright {

namespace {

struct SampleStatistics {
  Seconds median{0.0}, spread{0.0};
  int samples = 0;
};

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

SampleStatistics statistics_of(const std::vector<double>& times) {
  if (times.empty()) return {};
  const double median = middle(times);
  std::vector<double> away;
  for (const double time : times) away.push_back(std::abs(time - median));
  return {Seconds(median), Seconds(middle(away)), static_cast<int>(times.size())};
}

// What one stage did in one step: per device and microbatch.
struct StageStep {
  std::map<MicrobatchId, std::map<DeviceId, SimTime>> forward, backward;
  std::map<DeviceId, SimTime> once;

  void add(const Span& span) {
    const SimTime time = span.end - span.begin;
    if (span.kind == Span::Kind::Forward) forward[span.microbatch][span.device] += time;
    if (span.kind == Span::Kind::Backward || span.kind == Span::Kind::BackwardInput ||
        span.kind == Span::Kind::BackwardWeight)
      backward[span.microbatch][span.device] += time;
    if (span.kind == Span::Kind::Update) once[span.device] += time;
  }
};

double slowest(const std::map<DeviceId, SimTime>& devices) {
  SimTime most;
  for (const auto& [device, time] : devices) most = std::max(most, time);
  return to_seconds(most).si();
}

struct Samples {
  std::vector<double> forward, backward, step;
};

// [stage]
std::vector<Samples> samples_of(const std::vector<Timeline>& steps, std::size_t stages) {
  std::vector<Samples> samples(stages);
  for (const Timeline& timeline : steps) {
    std::vector<StageStep> did(stages);
    for (const Span& span : timeline.spans) did.at(span.stage.index()).add(span);
    for (std::size_t s = 0; s < stages; ++s) {
      for (const auto& [microbatch, devices] : did[s].forward) samples[s].forward.push_back(slowest(devices));
      for (const auto& [microbatch, devices] : did[s].backward) samples[s].backward.push_back(slowest(devices));
      samples[s].step.push_back(slowest(did[s].once));
    }
  }
  return samples;
}

}  // namespace

StageProfileTable measured_stages(const Plan& plan, const Graph& graph, const std::vector<Timeline>& steps) {
  MW_CHECK(!steps.empty(), "no step was measured");
  const Layers layers = assign_layers(graph, plan.layer_starts);
  const StepStructure structure(graph, layers);
  const std::vector<Samples> samples = samples_of(steps, plan.stages.size());
  StageProfileTable table(stage_profile_key(plan));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const SampleStatistics forward = statistics_of(samples[s].forward), backward = statistics_of(samples[s].backward),
                           step = statistics_of(samples[s].step);
    MW_CHECK(forward.samples > 0, "stage {} ran no forward", s);
    StageProfile entry;
    entry.forward = forward.median;
    entry.backward = backward.median;
    entry.step = step.median;
    const StageBoundary boundary = stage_boundary(structure, stage.first_layer, stage.last_layer);
    entry.boundary_in = boundary.in;
    entry.boundary_out = boundary.out;
    entry.measured = StageProfile::Measured{forward.samples, forward.spread, backward.spread, step.spread};
    table.add(
        {{stage.first_layer, stage.last_layer, stage.submesh, stage.logical_shape}, 0, sharding_fingerprint(stage)},
        entry);
  }
  return table;
}

}  // namespace meshwright
