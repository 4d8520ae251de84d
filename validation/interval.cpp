// SPDX-License-Identifier: Apache-2.0
#include "validation/interval.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/base/errors.h"
#include "costmodel/cost_models.h"
#include "costmodel/sheets/data_sheet.h"
#include "costmodel/sheets/kernel_constants.h"
#include "simulator/fold/folded_program.h"
#include "simulator/what_if/prediction.h"

namespace meshwright {

namespace {

// Deviations of logarithms.
constexpr double kHost = 0.35, kNetwork = 0.3, kAssumption = 0.03, kOtherDevice = 0.08, kOtherGeneration = 0.1,
                 kMixture = 0.2;
constexpr double kLeastSpread = 0.02;
constexpr double kStep = 0.1;  // of a logarithm, for slopes

using Numbers = std::vector<double SoftwareProfile::*>;

struct TermNumbers {
  const char* name;
  Numbers numbers;
  bool rates = false;  // which fall where times grow
};

const TermNumbers& numbers_of(Term term) {
  using P = SoftwareProfile;
  static const std::array<TermNumbers, kTerms> all = {{
      {"products", {&P::sustained}},
      {"attention", {&P::attention_factor, &P::score_factor}},
      {"passes over memory", {&P::pass_factor, &P::optimizer_bytes}},
      {"collectives of activations", {&P::collective_factor}},
      {"the network between hosts", {&P::network_share, &P::message_share}, true},
      {"the host",
       {&P::dispatch_us, &P::dispatch_collective_us, &P::dispatch_peer_us, &P::dispatch_run_us, &P::step_ms}},
  }};
  return all[static_cast<std::size_t>(term)];
}

bool constants_of_another_device(const Cluster& cluster, DType dtype, const SoftwareProfile& software) {
  const std::string type = software.product_dtype.empty() ? std::string(name_of(dtype)) : software.product_dtype;
  return std::any_of(cluster.groups.begin(), cluster.groups.end(), [&](const HostGroup& group) {
    const DataSheet* sheet = find_data_sheet(group.device.name);
    return sheet != nullptr && !KernelConstants::shipped().has_products(*sheet, type);
  });
}

bool on_another_generation(const Cluster& cluster, const SoftwareProfile& software) {
  const std::vector<std::string>& known = software.fitted_generations;
  return !known.empty() && std::any_of(cluster.groups.begin(), cluster.groups.end(), [&](const HostGroup& group) {
    const DataSheet* sheet = find_data_sheet(group.device.name);
    return sheet != nullptr && std::find(known.begin(), known.end(), sheet->generation) == known.end();
  });
}

// deviation_of_parts; `host` and `network`: slopes of these terms.
double deviation_from(const UncertainStep& uncertain, double host, double network) {
  const std::array parts = {kHost * host,
                            kNetwork * network,
                            kAssumption * std::sqrt(static_cast<double>(uncertain.assumed)),
                            uncertain.other_device ? kOtherDevice : 0.0,
                            uncertain.other_generation ? kOtherGeneration : 0.0,
                            uncertain.mixture ? kMixture : 0.0};
  double squares = 0.0;
  for (const double part : parts) squares += part * part;
  return std::sqrt(squares);
}

}  // namespace

const char* name_of(Term term) { return numbers_of(term).name; }

StepPredictor predictor_of(const Program& program, const FoldedDevices* folded, const Cluster& cluster,
                           const SoftwareProfile& software, const MeasuredKernels* measured) {
  if (folded != nullptr || !worth_folding(program))
    return [&program, folded, &cluster, measured](const SoftwareProfile& other) {
      return predicted_step(program, folded, cluster, other, measured);
    };
  // Which devices are alike does not depend on what their work costs.
  const auto costs = make_physical_cost_model(cluster, software, measured);
  const auto small =
      std::make_shared<FoldedProgram>(fold_program(program, program_costs_within_clock(program, *costs).times));
  return [small, &cluster, measured](const SoftwareProfile& other) {
    return predicted_step(small->program, &small->folded, cluster, other, measured);
  };
}

UncertainStep uncertain_step(const Cluster& cluster, const ModelConfig& model, DType dtype,
                             const SoftwareProfile& software, StepPredictor predict) {
  const auto experts = model.more.find("experts");
  return {.predict = std::move(predict),
          .software = software,
          .several_hosts = cluster.hosts() > 1,
          .other_device = constants_of_another_device(cluster, dtype, software),
          .other_generation = on_another_generation(cluster, software),
          .mixture = experts != model.more.end() && experts->second > 1};
}

UncertainStep uncertain_step(const PreparedRun& run, const SoftwareProfile& software) {
  const PlanRequest& request = run.request.plan;
  UncertainStep uncertain = uncertain_step(request.cluster, request.model, request.training.dtype, software,
                                           [&run](const SoftwareProfile& other) { return predicted_step(run, other); });
  uncertain.assumed = run.request.assumed.size();
  return uncertain;
}

double slope_of(const UncertainStep& uncertain, Seconds step, Term term) {
  if (term == Term::Network && !uncertain.several_hosts) return 0.0;
  const TermNumbers& of_term = numbers_of(term);
  const double change = of_term.rates ? -kStep : kStep;
  SoftwareProfile moved = uncertain.software;
  for (double SoftwareProfile::*number : of_term.numbers) moved.*number *= std::exp(change);
  return std::log(uncertain.predict(moved) / step) / kStep;
}

double deviation_of_parts(const UncertainStep& uncertain, Seconds step) {
  return deviation_from(uncertain, slope_of(uncertain, step, Term::Host), slope_of(uncertain, step, Term::Network));
}

double deviation_of_parts(const PreparedRun& run, const SoftwareProfile& software) {
  return deviation_of_parts(uncertain_step(run, software), predicted_step(run, software));
}

double deviation_of(const UncertainStep& uncertain, Seconds step) {
  return std::hypot(uncertain.software.spread, deviation_of_parts(uncertain, step));
}

double deviation_of(const UncertainStep& uncertain, const Slopes& slopes) {
  const auto slope = [&](Term term) { return slopes[static_cast<std::size_t>(term)]; };
  return std::hypot(uncertain.software.spread, deviation_from(uncertain, slope(Term::Host), slope(Term::Network)));
}

bool covers(double spread, double parts, double log) {
  return std::abs(log) <= kDeviationsOfInterval * std::hypot(spread, parts);
}

StepInterval interval_of(Seconds step, double deviation) {
  const double width = kDeviationsOfInterval * deviation;
  return {std::exp(-width) * step, std::exp(width) * step};
}

StepInterval interval_of(const PreparedRun& run, Seconds step) {
  return interval_of(step, deviation_of(uncertain_step(run, run.request.software), step));
}

double spread_for_coverage(const std::vector<double>& logs, const std::vector<double>& parts) {
  MW_CHECK(logs.size() == parts.size(), "{} logarithms and {} deviations", logs.size(), parts.size());
  // The spread at which each row is just covered.
  std::vector<double> needed;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const double whole = std::abs(logs[i]) / kDeviationsOfInterval;
    needed.push_back(std::sqrt(std::max(0.0, whole * whole - parts[i] * parts[i])));
  }
  if (needed.empty()) return kLeastSpread;
  std::sort(needed.begin(), needed.end());
  const auto at = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(needed.size())));
  return std::max(kLeastSpread, needed[std::max<std::size_t>(at, 1) - 1]);
}

double normal_probability(double deviations) { return 0.5 * std::erfc(-deviations / std::sqrt(2.0)); }

}  // namespace meshwright
