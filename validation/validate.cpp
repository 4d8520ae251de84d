// SPDX-License-Identifier: Apache-2.0
#include "validation/validate.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "validation/memory_interval.h"
#include "validation/prepared_run.h"

namespace meshwright {

namespace {

ValidatedRun predict_run(const PublishedRun& run, const std::string& software) {
  ValidatedRun result{.run = &run};
  if (const auto why = run.why_not_a_run()) {
    result.reason = *why;
    return result;
  }
  try {
    const PreparedRun prepared = prepare_run(run, software);
    result.software = prepared.request.software.name;
    result.assumed = prepared.request.assumed;
    result.device_memory = prepared.request.plan.cluster.only().device.memory;
    const FrameworkMemory memory = memory_of(prepared);
    result.memory = run.memory_by_driver ? memory.with_driver() : memory.allocated();
    result.memory_interval = memory_interval(*result.memory, prepared.request.software);
    // What was chosen to fit says nothing about whether it does.
    if (!prepared.recompute_from_memory) {
      result.fits = fits_on(memory.allocated(), result.device_memory);
      result.fit_probability = fit_probability(memory.allocated(), result.device_memory, prepared.request.software);
    }
    result.step = predicted_step(prepared);
    result.interval = interval_of(prepared, *result.step);
  } catch (const ContradictionError& error) {
    result.reason = error.what();
    result.wrong = true;
  } catch (const InputError& error) {
    result.reason = error.what();
  }
  return result;
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (std::size_t i = first; i <= last; ++i) ranks[order[i]] = 0.5 * static_cast<double>(first + last);
    first = last + 1;
  }
  return ranks;
}

}  // namespace

std::vector<ValidatedRun> predict_runs(const std::vector<PublishedRun>& runs, const std::string& software, int threads,
                                       const std::function<void(std::size_t)>& progress) {
  std::vector<ValidatedRun> results(runs.size());
  std::mutex one_at_a_time;
  std::size_t done = 0;
  for_each_index(runs.size(), threads, [&](std::size_t i) {
    results[i] = predict_run(runs[i], software);
    const std::lock_guard lock(one_at_a_time);
    ++done;
    if (progress) progress(done);
  });
  return results;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  MW_CHECK(a.size() == b.size(), "lists of {} and {} values", a.size(), b.size());
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double middle = 0.5 * (static_cast<double>(a.size()) - 1.0);
  double xy = 0.0, xx = 0.0, yy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0.0;
}

std::vector<ValidationSummary> summarize(const std::vector<ValidatedRun>& results, SummaryKey key) {
  struct Sums {
    Residuals step, memory;
    int covered = 0;
    ValidationSummary::Fits fits;
  };
  std::map<std::string, Sums> by_name;
  Sums all;
  const auto add = [](Sums& sums, const ValidatedRun& result) {
    const PublishedRun& run = *result.run;
    if (result.step && run.step && !run.out_of_memory) {
      sums.step.add(*result.step, *run.step);
      if (result.interval && result.interval->low <= *run.step && *run.step <= result.interval->high) ++sums.covered;
    }
    if (!result.memory) return;
    // Residuals are of ratios, so bytes serve as well as seconds.
    if (run.memory && !run.out_of_memory) sums.memory.add(Seconds(result.memory->si()), Seconds(run.memory->si()));
    if (!result.fits) return;
    const bool fits = *result.fits;
    if (fits == !run.out_of_memory)
      ++sums.fits.right;
    else
      ++(fits ? sums.fits.wrongly_fitting : sums.fits.wrongly_too_large);
  };
  for (const ValidatedRun& result : results) {
    add(by_name[key == SummaryKey::Source ? result.run->source : result.run->group], result);
    add(all, result);
  }
  std::vector<ValidationSummary> summaries;
  const auto note = [&](const std::string& name, const Sums& sums) {
    summaries.push_back({name, sums.step.summary(), sums.covered, sums.memory.summary(), sums.fits});
  };
  for (const auto& [name, sums] : by_name) note(name, sums);
  if (by_name.size() > 1) note("all", all);
  return summaries;
}

std::vector<RankingSummary> rank_within_groups(const std::vector<ValidatedRun>& results) {
  struct Group {
    std::vector<double> predicted, published;
  };
  std::map<std::string, std::map<std::string, Group>> groups;  // by source, then group
  for (const ValidatedRun& result : results) {
    const PublishedRun& run = *result.run;
    if (!result.step || !run.step || run.out_of_memory || run.group.empty()) continue;
    Group& group = groups[run.source][run.group];
    // Plans of one group may do different amounts of work: times are per sample.
    const double samples = static_cast<double>(run.global_batch.value_or(1));
    group.predicted.push_back(result.step->si() / samples);
    group.published.push_back(run.step->si() / samples);
  }
  std::vector<RankingSummary> summaries;
  for (const auto& [source, own] : groups) {
    RankingSummary summary{.name = source};
    for (const auto& [name, group] : own) {
      if (group.predicted.size() < 3) continue;
      ++summary.groups;
      summary.spearman += spearman(group.predicted, group.published);
      const auto chosen = std::min_element(group.predicted.begin(), group.predicted.end()) - group.predicted.begin();
      const double best = *std::min_element(group.published.begin(), group.published.end());
      const double regret = group.published[static_cast<std::size_t>(chosen)] / best - 1.0;
      summary.mean_regret += regret;
      summary.max_regret = std::max(summary.max_regret, regret);
    }
    if (summary.groups == 0) continue;
    summary.spearman /= summary.groups;
    summary.mean_regret /= summary.groups;
    summaries.push_back(summary);
  }
  return summaries;
}

}  // namespace meshwright
