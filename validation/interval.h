// SPDX-License-Identifier: Apache-2.0
// How far a predicted step may be off.
//
// The deviation d of log(predicted / true) is a sum of squares: the spread of the software's profile, which holds what
// its calibration left unexplained, and parts that grow with what is uncertain in this step:
//
//   d^2 = spread^2 + (0.35 e_host)^2 + (0.3 e_network)^2 + 0.03^2 assumptions + (0.08, constants of another device)^2
//         + (0.1, profile fitted on other generations of devices)^2 + (0.2, mixture of experts)^2
//
// e_host: change of log(step) with the logarithm of all times of the host; e_network: with that of the rates between
// hosts. The factors are how far such constants differ between machines and publications; profiles are fitted to dense
// models. The interval of 90 % is step exp(+-1.645 d). docs/cost-model.md has the rules of the numbers.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "validation/prepared_run.h"

namespace meshwright {

// Deviations of a normal distribution on either side that hold nine in ten.
inline constexpr double kDeviationsOfInterval = 1.645;

struct StepInterval {
  Seconds low{0.0}, high{0.0};
};

// Kinds of work whose times are off together, for all plans of one job on one cluster.
enum class Term { Products, Attention, Passes, Collectives, Network, Host };
inline constexpr std::size_t kTerms = 6;
[[nodiscard]] const char* name_of(Term term);  // "products", "the network between hosts"

// The step with other numbers of its software.
using StepPredictor = std::function<Seconds(const SoftwareProfile&)>;

// Predicts a Program of this cluster; `folded`: as for plain_step. A large program whose devices all have lists is
// folded once. All but the software outlive the result; `measured`: as for make_physical_cost_model.
[[nodiscard]] StepPredictor predictor_of(const Program& program, const FoldedDevices* folded, const Cluster& cluster,
                                         const SoftwareProfile& software, const MeasuredKernels* measured);

// A predicted step, and what is uncertain in it.
struct UncertainStep {
  StepPredictor predict = {};
  SoftwareProfile software = {};
  bool several_hosts = false;
  bool other_device = false;      // the constants of its products are those of another device
  bool other_generation = false;  // the profile was fitted to runs on other generations of devices alone
  bool mixture = false;           // of experts
  std::size_t assumed = 0;        // what is not stated of the run
};
[[nodiscard]] UncertainStep uncertain_step(const Cluster& cluster, const ModelConfig& model, DType dtype,
                                           const SoftwareProfile& software, StepPredictor predict);
// `run` outlives the result.
[[nodiscard]] UncertainStep uncertain_step(const PreparedRun& run, const SoftwareProfile& software);

// [term] of slope_of.
using Slopes = std::array<double, kTerms>;

// Change of log(step) with the logarithm of all times of the term. `step`: predict(software).
[[nodiscard]] double slope_of(const UncertainStep& uncertain, Seconds step, Term term);

// d without the spread.
[[nodiscard]] double deviation_of_parts(const UncertainStep& uncertain, Seconds step);
[[nodiscard]] double deviation_of_parts(const PreparedRun& run, const SoftwareProfile& software);
// d. `step`: predict(software).
[[nodiscard]] double deviation_of(const UncertainStep& uncertain, Seconds step);
// The same where the slopes are known; only those of the host and the network count.
[[nodiscard]] double deviation_of(const UncertainStep& uncertain, const Slopes& slopes);

// Holds the true step nine times in ten.
[[nodiscard]] StepInterval interval_of(Seconds step, double deviation);
// `step`: predicted_step(run).
[[nodiscard]] StepInterval interval_of(const PreparedRun& run, Seconds step);

// Whether a logarithm of predicted over published lies in the interval of these two.
[[nodiscard]] bool covers(double spread, double parts, double log);

// The least spread with which nine in ten of the logarithms of predicted over published lie in their intervals; not
// below what runs of one configuration differ by. `parts`: deviation_of_parts of each. REQUIRES: lists of one length.
[[nodiscard]] double spread_for_coverage(const std::vector<double>& logs, const std::vector<double>& parts);

// The probability of a normal deviate below `deviations`.
[[nodiscard]] double normal_probability(double deviations);

}  // namespace meshwright
