// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/pages/what_if_points.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/plan/lowering/adapt_plan.h"
#include "report/page/html.h"
#include "simulator/what_if/device_speed.h"

namespace meshwright {

namespace {

constexpr std::size_t kMaxWhatIfTasks = 1 << 20;
constexpr double kMicrobatchFactors[] = {0.25, 0.5, 1.0, 2.0, 4.0};
constexpr double kLinkSpeeds[] = {0.25, 0.5, 1.0, 2.0, 4.0};
constexpr double kDeviceSpeeds[] = {0.5, 0.75, 1.0, 1.5, 2.0};

class WhatIfs {
 public:
  WhatIfs(const Plan& plan, const SimulatedPlan& simulated, const Costs& costs, const StepRequest& request,
          const CostChoice& choice)
      : plan_(plan), simulated_(simulated), costs_(costs), request_(request), choice_(choice) {
    request_.name_tasks = false;
    request_.failures.reset();
  }

  [[nodiscard]] WhatIfAxis microbatches() const {
    WhatIfAxis axis{"Micro-batches", "simulate --micro-batches N", {}};
    for (const double factor : kMicrobatchFactors) {
      const double count = factor * static_cast<double>(plan_.training.microbatches);
      if (count < 1.0 || count != static_cast<double>(static_cast<std::int64_t>(count))) continue;
      if (count > static_cast<double>(plan_.training.batch)) continue;
      axis.points.push_back(factor == 1.0 ? own_point(grouped(plan_.training.microbatches))
                                          : with_microbatches(static_cast<std::int64_t>(count)));
    }
    return axis;
  }

  // Links between hosts, where the plan has several hosts.
  [[nodiscard]] WhatIfAxis links() const {
    const bool several = std::any_of(plan_.cluster.groups.begin(), plan_.cluster.groups.end(),
                                     [](const HostGroup& group) { return group.hosts > 1; });
    const std::string kind = several ? "between-hosts" : "within-host";
    WhatIfAxis axis{
        several ? "Links between hosts" : "Links within a host", fmt::format("simulate --slow-links {}=X", kind), {}};
    for (const double speed : kLinkSpeeds) {
      if (speed == 1.0) {
        axis.points.push_back(own_point(speed_text(speed)));
        continue;
      }
      StepRequest request = request_;
      request.slow_links.push_back({kind, speed});
      const Costs costs = costs_for(cluster_of_step(plan_.cluster, request), choice_.profile, choice_.software);
      axis.points.push_back(
          {speed_text(speed),
           simulated_plan(plan_, "--html", costs, request, DeviceFolding::WherePossible).prediction.step});
    }
    return axis;
  }

  // Computations alone: launches, links and memory stay.
  [[nodiscard]] WhatIfAxis devices() const {
    WhatIfAxis axis{"Speed of all devices", "computations alone", {}};
    const Program& program = simulated_.loaded.program;
    const RunParts parts(program, *simulated_.loaded.graph, plan_.cluster, *costs_.model);
    for (const double speed : kDeviceSpeeds) {
      if (speed == 1.0) {
        axis.points.push_back(own_point(speed_text(speed)));
        continue;
      }
      const SimTime step = request_.plain()
                               ? plain_step(program, with_device_speed(simulated_.prediction.costs.times, parts, speed),
                                            simulated_.alike())
                               : step_at_device_speed(simulated_.step, speed);
      axis.points.push_back({speed_text(speed), to_seconds(step)});
    }
    return axis;
  }

 private:
  static std::string speed_text(double speed) { return fmt::format("{} x", speed); }
  [[nodiscard]] WhatIfPoint own_point(std::string value) const {
    return {std::move(value), simulated_.prediction.step, "", true};
  }

  [[nodiscard]] WhatIfPoint with_microbatches(std::int64_t count) const {
    PlanChanges changes;
    changes.microbatches = count;
    WhatIfPoint point{grouped(count), std::nullopt};
    try {
      const AdaptedPlan adapted = adapt_plan(plan_, changes);
      if (!adapted.broken.empty()) {
        point.note = adapted.broken.front();
        return point;
      }
      const SimulatedPlan simulated =
          simulated_plan(adapted.plan, "--html", costs_, request_, DeviceFolding::WherePossible);
      point.step = simulated.prediction.step;
      point.note = fit_note(adapted.plan, simulated);
    } catch (const InputError& error) {
      point.note = error.what();  // no such plan: the page says why
    }
    return point;
  }

  static std::string fit_note(const Plan& plan, const SimulatedPlan& simulated) {
    for (const StageFit& fit : stage_fits(plan, simulated.loaded.program, simulated.loaded.check))
      if (!fit.fits())
        return fmt::format("does not fit: a device needs {} of {} GiB", gibibytes_text(fit.needs),
                           gibibytes_text(fit.usable));
    return "";
  }

  const Plan& plan_;
  const SimulatedPlan& simulated_;
  const Costs& costs_;
  StepRequest request_;
  const CostChoice& choice_;
};

}  // namespace

std::vector<WhatIfAxis> what_if_axes(const Plan& plan, const SimulatedPlan& simulated, const Costs& costs,
                                     const StepRequest& request, const CostChoice& choice) {
  const bool single = simulated.step.steps() == 1 && simulated.step.samples.empty() && request.replicas == 1;
  if (!single || simulated.step.tasks.graph.size() > kMaxWhatIfTasks) return {};
  const WhatIfs what_if(plan, simulated, costs, request, choice);
  return {what_if.microbatches(), what_if.links(), what_if.devices()};
}

}  // namespace meshwright
