// SPDX-License-Identifier: Apache-2.0
#include "validation/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "costmodel/sheets/data_sheet.h"
#include "costmodel/sheets/kernel_constants.h"

namespace meshwright {

namespace {

constexpr double kDeviations = 1.645;  // of a normal distribution, on either side: 90 %
// Deviations of logarithms.
constexpr double kHost = 0.35, kNetwork = 0.3, kAssumption = 0.03, kOtherDevice = 0.08;
constexpr double kLeastSpread = 0.02;
constexpr double kStep = 0.1;  // of a logarithm, for slopes

using Numbers = std::vector<double SoftwareProfile::*>;

// Change of log(step) with the logarithm of all these numbers.
double slope_of(const PreparedRun& run, const SoftwareProfile& software, Seconds step, const Numbers& numbers) {
  SoftwareProfile moved = software;
  for (double SoftwareProfile::*number : numbers) moved.*number *= std::exp(kStep);
  return std::log(predicted_step(run, moved) / step) / kStep;
}

bool constants_of_another_device(const PreparedRun& run, const SoftwareProfile& software) {
  const PlanRequest& request = run.request.plan;
  const DataSheet* sheet = find_data_sheet(request.cluster.only().device.name);
  const std::string dtype =
      software.product_dtype.empty() ? std::string(name_of(request.training.dtype)) : software.product_dtype;
  return sheet != nullptr && !KernelConstants::shipped().has_products(*sheet, dtype);
}

// `step`: predicted_step(run, software).
double deviation_of(const PreparedRun& run, const SoftwareProfile& software, Seconds step) {
  using P = SoftwareProfile;
  static const Numbers host = {&P::dispatch_us, &P::dispatch_collective_us, &P::dispatch_run_us, &P::step_ms};
  static const Numbers network = {&P::network_share, &P::message_share};
  const double assumed = kAssumption * std::sqrt(static_cast<double>(run.request.assumed.size()));
  const double other = constants_of_another_device(run, software) ? kOtherDevice : 0.0;
  const std::array<double, 4> parts = {
      kHost * slope_of(run, software, step, host),
      run.request.plan.cluster.hosts() > 1 ? kNetwork * slope_of(run, software, step, network) : 0.0, assumed, other};
  double squares = 0.0;
  for (const double part : parts) squares += part * part;
  return std::sqrt(squares);
}

}  // namespace

double deviation_of_parts(const PreparedRun& run, const SoftwareProfile& software) {
  return deviation_of(run, software, predicted_step(run, software));
}

bool covers(double spread, double parts, double log) {
  return std::abs(log) <= kDeviations * std::hypot(spread, parts);
}

StepInterval interval_of(const PreparedRun& run, Seconds step) {
  const SoftwareProfile& software = run.request.software;
  const double width = kDeviations * std::hypot(software.spread, deviation_of(run, software, step));
  return {std::exp(-width) * step, std::exp(width) * step};
}

double spread_for_coverage(const std::vector<double>& logs, const std::vector<double>& parts) {
  MW_CHECK(logs.size() == parts.size(), "{} logarithms and {} deviations", logs.size(), parts.size());
  // The spread at which each row is just covered.
  std::vector<double> needed;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const double whole = std::abs(logs[i]) / kDeviations;
    needed.push_back(std::sqrt(std::max(0.0, whole * whole - parts[i] * parts[i])));
  }
  if (needed.empty()) return kLeastSpread;
  std::sort(needed.begin(), needed.end());
  const auto at = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(needed.size())));
  return std::max(kLeastSpread, needed[std::max<std::size_t>(at, 1) - 1]);
}

}  // namespace meshwright
