// SPDX-License-Identifier: Apache-2.0
#include "simulator/what_if/variations.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/parallel.h"

namespace meshwright {

std::vector<SimTime> sample_steps(const TaskGraph& graph, const Conditions& conditions, int samples, int threads,
                                  const std::function<SimTime(const TaskTimes&)>& step_of) {
  MW_CHECK(samples >= 1 && threads >= 1, "{} samples on {} threads", samples, threads);
  std::vector<SimTime> steps(static_cast<std::size_t>(samples));
  for_each_index(steps.size(), threads, [&](std::size_t i) {
    Conditions own = conditions;
    // By the sample's number: the same samples on any number of threads.
    own.seed = conditions.seed + i;
    steps[i] = step_of(run_tasks(graph, own).times);
  });
  std::sort(steps.begin(), steps.end());
  return steps;
}

SimTime mean_of(const std::vector<SimTime>& steps) {
  MW_CHECK(!steps.empty(), "the mean of no steps");
  double total = 0.0;
  for (const SimTime step : steps) total += static_cast<double>(step.ps);
  return SimTime{std::llround(total / static_cast<double>(steps.size()))};
}

SimTime quantile(const std::vector<SimTime>& sorted, double share) {
  MW_CHECK(!sorted.empty() && 0.0 < share && share <= 1.0, "the {} quantile of {} samples", share, sorted.size());
  // Nearest rank: the smallest value that at least this share of the samples does not exceed.
  const auto above = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(above, 1) - 1];
}

Cluster with_slower_links(Cluster cluster, const std::string& kind, double speed) {
  require(std::isfinite(speed) && speed > 0.0, "links at {} times their speed; give a number above 0.", speed);
  require(kind == "within-host" || kind == "between-hosts",
          "there are no links '{}'; give within-host or between-hosts.", kind);
  for (HostGroup& group : cluster.groups) {
    LinkCost& link = kind == "within-host" ? group.within_host : group.between_hosts;
    // Latencies stay: speed is bandwidth.
    link.beta = link.beta / speed;
  }
  return cluster;
}

}  // namespace meshwright
