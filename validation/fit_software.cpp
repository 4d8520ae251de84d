// SPDX-License-Identifier: Apache-2.0
#include "validation/fit_software.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "costmodel/calibration/minimize.h"
#include "validation/interval.h"

namespace meshwright {

namespace {

constexpr double kPriorDeviation = 0.35;
// Clocks under load differ little from device to device.
constexpr double kPriorOfSustained = 0.12;
// A number of a list that moves predictions by less than this, for a factor of e, is not determined.
constexpr double kDetermined = 0.01;
constexpr double kDifference = 0.05;  // of a logarithm, for slopes
constexpr int kMaxSteps = 8;
constexpr double kFirstRegion = 0.5, kLeastRegion = 0.02;  // of a logarithm
constexpr double kLeastGain = 1e-3;                        // of the loss
constexpr double kLeastShare = 0.02;                       // of what is exposed, and of a number's own start

const std::vector<std::string>& list_of_numbers(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> lists = {
      {"launch", {"dispatch_us", "dispatch_collective_us", "dispatch_run_us", "step_ms"}},
      {"steps",
       {"sustained", "pass_factor", "score_factor", "attention_factor", "collective_factor", "network_share",
        "message_share", "gradient_overlap"}},
  };
  static const std::vector<std::string> none;
  const auto found = lists.find(name);
  return found == lists.end() ? none : found->second;
}

const SoftwareNumber& number_of(const std::string& key) {
  const std::vector<SoftwareNumber>& all = software_numbers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SoftwareNumber& n) { return key == n.key; });
  if (found != all.end()) return *found;
  std::vector<std::string> known = {"launch", "steps"};
  for (const SoftwareNumber& number : all) known.emplace_back(number.key);
  throw InputError("--fit: " + unknown_name("number", key, known, "docs/cost-model.md lists all."));
}

// A number as the positive parameter that is fitted. An overlap becomes the share that stays exposed, of which
// predictions are made.
class FittedScale {
 public:
  FittedScale(const SoftwareNumber& number, double start)
      : number_(&number), exposed_(std::string(number.key) == "gradient_overlap") {
    start_ = to_parameter(start);
  }
  [[nodiscard]] const SoftwareNumber& number() const { return *number_; }
  [[nodiscard]] double start() const { return start_; }
  [[nodiscard]] double prior_deviation() const {
    return std::string(number_->key) == "sustained" ? kPriorOfSustained : kPriorDeviation;
  }
  [[nodiscard]] double low() const { return exposed_ ? kLeastShare : std::max(number_->low, kLeastShare * start_); }
  [[nodiscard]] double high() const { return exposed_ ? 1.0 : number_->high; }
  [[nodiscard]] double to_parameter(double number) const {
    return exposed_ ? std::max(1.0 - number, kLeastShare) : number;
  }
  [[nodiscard]] double to_number(double parameter) const { return exposed_ ? 1.0 - parameter : parameter; }

 private:
  const SoftwareNumber* number_;
  bool exposed_;
  double start_ = 0.0;
};

using Logs = std::vector<double>;

SoftwareProfile with_numbers(SoftwareProfile software, const std::vector<FittedScale>& scales, const Logs& at) {
  for (std::size_t j = 0; j < scales.size(); ++j)
    software.*scales[j].number().member = scales[j].to_number(std::exp(at[j]));
  return software;
}

class SoftwareFitter {
 public:
  SoftwareFitter(std::vector<const PreparedRun*> runs, const SoftwareFitOptions& options)
      : runs_(std::move(runs)), threads_(options.threads), corner_(options.corner) {
    std::map<std::string, int> rows;
    for (const PreparedRun* run : runs_) ++rows[run->run->source];
    for (const PreparedRun* run : runs_) weights_.push_back(1.0 / std::sqrt(rows.at(run->run->source)));
  }

  [[nodiscard]] int predictions() const { return predictions_; }

  // log(predicted / published) [run]
  [[nodiscard]] Logs residuals(const std::vector<FittedScale>& scales, const Logs& at) {
    ++predictions_;
    Logs logs(runs_.size());
    for_each_index(runs_.size(), threads_, [&](std::size_t i) {
      const PreparedRun& run = *runs_[i];
      const Seconds step = predicted_step(run, with_numbers(run.request.software, scales, at));
      logs[i] = std::log(step / *run.run->step);
    });
    return logs;
  }

  // deviation_of_parts [run]
  [[nodiscard]] Logs parts(const std::vector<FittedScale>& scales, const Logs& at) const {
    Logs parts(runs_.size());
    for_each_index(runs_.size(), threads_, [&](std::size_t i) {
      parts[i] = deviation_of_parts(*runs_[i], with_numbers(runs_[i]->request.software, scales, at));
    });
    return parts;
  }

  // [number][run]
  [[nodiscard]] std::vector<Logs> slopes(const std::vector<FittedScale>& scales, const Logs& at, const Logs& there) {
    std::vector<Logs> slopes;
    for (std::size_t j = 0; j < scales.size(); ++j) {
      Logs moved = at;
      const double step = at[j] + kDifference <= std::log(scales[j].high()) ? kDifference : -kDifference;
      moved[j] += step;
      Logs slope = residuals(scales, moved);
      for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = (slope[i] - there[i]) / step;
      slopes.push_back(std::move(slope));
    }
    return slopes;
  }

  [[nodiscard]] double loss(const std::vector<FittedScale>& scales, const Logs& at, const Logs& residuals) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
      const double corners = residuals[i] / corner_;
      sum += weights_[i] * (std::sqrt(1.0 + corners * corners) - 1.0);
    }
    for (std::size_t j = 0; j < scales.size(); ++j) {
      const double deviations = (at[j] - std::log(scales[j].start())) / scales[j].prior_deviation();
      sum += 0.5 * deviations * deviations;
    }
    return sum;
  }

  [[nodiscard]] Logs fit(const std::vector<FittedScale>& scales) {
    Logs at;
    for (const FittedScale& scale : scales) at.push_back(std::log(scale.start()));
    Logs here = residuals(scales, at);
    double best = loss(scales, at, here), region = kFirstRegion;
    for (int step = 0; step < kMaxSteps && region >= kLeastRegion; ++step) {
      const std::vector<Logs> slope = slopes(scales, at, here);
      double gain = 0.0;
      for (; gain <= 0 && region >= kLeastRegion; region = gain > 0 ? region : region / 3) {
        const Logs next = minimum_of_linear(scales, at, here, slope, region);
        const Logs there = residuals(scales, next);
        gain = best - loss(scales, next, there);
        if (gain <= 0) continue;
        at = next;
        here = there;
        best -= gain;
      }
      if (gain <= kLeastGain * best) break;
    }
    return at;
  }

 private:
  [[nodiscard]] Logs minimum_of_linear(const std::vector<FittedScale>& scales, const Logs& at, const Logs& here,
                                       const std::vector<Logs>& slope, double region) const {
    std::vector<FitParameter> parameters;
    for (std::size_t j = 0; j < scales.size(); ++j)
      parameters.push_back({scales[j].number().key, std::exp(at[j]),
                            std::min(std::exp(at[j]), std::max(scales[j].low(), std::exp(at[j] - region))),
                            std::max(std::exp(at[j]), std::min(scales[j].high(), std::exp(at[j] + region)))});
    const auto logs_of = [](const std::vector<double>& values) {
      Logs logs;
      for (const double value : values) logs.push_back(std::log(value));
      return logs;
    };
    const auto linear_loss = [&](const std::vector<double>& values) {
      const Logs next = logs_of(values);
      Logs there = here;
      for (std::size_t j = 0; j < slope.size(); ++j)
        for (std::size_t i = 0; i < there.size(); ++i) there[i] += slope[j][i] * (next[j] - at[j]);
      return loss(scales, next, there);
    };
    return logs_of(minimize(linear_loss, parameters).values);
  }

  std::vector<const PreparedRun*> runs_;
  std::vector<double> weights_;
  int threads_;
  double corner_;
  int predictions_ = 0;
};

double root_mean_square(const Logs& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0) /
                   static_cast<double>(values.size()));
}

struct NamedScales {
  std::vector<FittedScale> scales;
  std::vector<bool> of_a_list;
};

NamedScales scales_of(const SoftwareProfile& start, const std::vector<std::string>& names, SoftwareFit& fit) {
  NamedScales named;
  const auto add = [&](const std::string& key, bool of_a_list) {
    const SoftwareNumber& number = number_of(key);
    const FittedScale scale(number, start.*number.member);
    const bool known = std::any_of(named.scales.begin(), named.scales.end(),
                                   [&](const FittedScale& other) { return &other.number() == &number; });
    if (known) return;
    if (scale.start() <= 0) {
      fit.not_fitted.emplace_back(key, "is 0 in the profile, which no factor changes");
      return;
    }
    named.scales.push_back(scale);
    named.of_a_list.push_back(of_a_list);
  };
  for (const std::string& name : names) {
    const std::vector<std::string>& list = list_of_numbers(name);
    if (list.empty()) add(name, false);
    for (const std::string& key : list) add(key, true);
  }
  return named;
}

// Leaves out what rows say too little about.
std::vector<FittedScale> determined(const NamedScales& named, SoftwareFitter& fitter, const SoftwareFitOptions& options,
                                    SoftwareFit& fit) {
  Logs at;
  for (const FittedScale& scale : named.scales) at.push_back(std::log(scale.start()));
  const std::vector<Logs> slopes = fitter.slopes(named.scales, at, fitter.residuals(named.scales, at));
  std::vector<std::size_t> order(named.scales.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // What a number may plausibly change: its slope times how far it may be off.
  const auto weight = [&](std::size_t j) { return root_mean_square(slopes[j]) * named.scales[j].prior_deviation(); };
  if (options.max_numbers > 0)
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  std::vector<FittedScale> chosen;
  for (const std::size_t j : order) {
    const char* key = named.scales[j].number().key;
    const double slope = root_mean_square(slopes[j]);
    if ((named.of_a_list[j] || options.max_numbers > 0) && slope < kDetermined)
      fit.not_fitted.emplace_back(key, fmt::format("the rows do not determine it (sensitivity {:.4f})", slope));
    else if (options.max_numbers > 0 && chosen.size() >= static_cast<std::size_t>(options.max_numbers))
      fit.not_fitted.emplace_back(key, fmt::format("{} numbers are determined better", options.max_numbers));
    else
      chosen.push_back(named.scales[j]);
  }
  return chosen;
}

// Whether errors are larger than their deviations allow. The mean square of three errors of the deviations' size is
// above 2 once in ten times.
bool contradicts(SoftwareFitter& fitter, double spread) {
  const Logs logs = fitter.residuals({}, {}), parts = fitter.parts({}, {});
  double squares = 0.0;
  for (std::size_t i = 0; i < logs.size(); ++i) squares += logs[i] * logs[i] / (spread * spread + parts[i] * parts[i]);
  return squares > 2.0 * static_cast<double>(logs.size());
}

ErrorSummary errors_of(const std::vector<const PreparedRun*>& runs, const Logs& logs) {
  Residuals residuals;
  for (std::size_t i = 0; i < runs.size(); ++i)
    residuals.add(std::exp(logs[i]) * *runs[i]->run->step, *runs[i]->run->step);
  return residuals.summary();
}

int count_covered(const Logs& logs, const Logs& parts, double spread) {
  int covered = 0;
  for (std::size_t i = 0; i < logs.size(); ++i)
    if (covers(spread, parts[i], logs[i])) ++covered;
  return covered;
}

}  // namespace

bool run_kept_back(const PublishedRun& run, double share, std::uint64_t seed) {
  std::string key = run.source + "|" + run.model + "|" + run.device + "|" + run.precision + "|" + run.schedule + "|" +
                    run.recompute + "|" + run.zero;
  for (const std::optional<std::int64_t>& size :
       {run.devices, run.layers, run.hidden, run.heads, run.seq, run.vocab, run.tp, run.pp, run.vpp, run.dp, run.cp,
        run.ep, run.micro_batch, run.micro_batches, run.global_batch})
    key += fmt::format("|{}", size.value_or(0));
  return kept_back(key, share, seed);
}

ErrorsOfFit errors_on(const std::vector<PreparedRun>& runs, const SoftwareProfile& start, const SoftwareFit& fit,
                      int threads) {
  std::vector<const PreparedRun*> judged;
  for (const PreparedRun& run : runs) judged.push_back(&run);
  std::vector<FittedScale> scales;
  Logs before, after;
  for (const FittedNumber& fitted : fit.numbers) {
    const SoftwareNumber& number = number_of(fitted.key);
    scales.emplace_back(number, start.*number.member);
    before.push_back(std::log(scales.back().start()));
    after.push_back(std::log(scales.back().to_parameter(fitted.value)));
  }
  SoftwareFitter judge(judged, {.numbers = {}, .threads = threads});
  const Logs logs = judge.residuals(scales, after);
  return {errors_of(judged, judge.residuals(scales, before)), errors_of(judged, logs),
          count_covered(logs, judge.parts(scales, after), fit.profile.spread)};
}

SoftwareFit fit_software(const std::vector<PreparedRun>& runs, const SoftwareProfile& start,
                         const SoftwareFitOptions& options) {
  require(options.holdout >= 0 && options.holdout <= 0.9, "--holdout: {} is not a share from 0 to 0.9.",
          options.holdout);
  SoftwareFit fit;
  fit.profile = start;
  std::vector<const PreparedRun*> own, others;
  for (const PreparedRun& run : runs)
    (run_kept_back(*run.run, options.holdout, options.seed) ? others : own).push_back(&run);
  const NamedScales named = scales_of(start, options.numbers, fit);
  require(!own.empty(), "no run with a published time is left to fit; give more rows or a smaller --holdout.");

  SoftwareFitter fitter(own, options), judge(others, options);
  std::vector<FittedScale> scales = determined(named, fitter, options, fit);
  if (options.only_if_contradicted && !contradicts(fitter, start.spread)) {
    for (const FittedScale& scale : scales)
      fit.not_fitted.emplace_back(scale.number().key, "the runs are as the profile predicts them, within its spread");
    scales.clear();
  }
  Logs before;
  for (const FittedScale& scale : scales) before.push_back(std::log(scale.start()));
  const Logs after = scales.empty() ? before : fitter.fit(scales);

  const Logs own_after = fitter.residuals(scales, after), others_after = judge.residuals(scales, after);
  // A spread is of what a run's own uncertain parts do not explain.
  constexpr std::size_t kEnough = 10;
  const Logs own_parts = fitter.parts(scales, after), others_parts = judge.parts(scales, after);
  if (own.size() >= kEnough) fit.profile.spread = spread_for_coverage(own_after, own_parts);
  const auto covered = [&](const Logs& logs, const Logs& parts) {
    return count_covered(logs, parts, fit.profile.spread);
  };
  fit.fitted = {errors_of(own, fitter.residuals(scales, before)), errors_of(own, own_after),
                covered(own_after, own_parts)};
  fit.kept_back = {errors_of(others, judge.residuals(scales, before)), errors_of(others, others_after),
                   covered(others_after, others_parts)};
  const std::vector<Logs> slopes = fitter.slopes(scales, after, own_after);
  for (std::size_t j = 0; j < scales.size(); ++j) {
    const SoftwareNumber& number = scales[j].number();
    const double value = scales[j].to_number(std::exp(after[j]));
    fit.profile.*number.member = value;
    const double parameter = std::exp(after[j]);
    fit.numbers.push_back({number.key, start.*number.member, value, root_mean_square(slopes[j]),
                           parameter <= scales[j].low() * 1.001 || parameter >= scales[j].high() / 1.001});
  }
  fit.predictions = fitter.predictions();
  return fit;
}

}  // namespace meshwright
