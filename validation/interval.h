// SPDX-License-Identifier: Apache-2.0
// How far a predicted step may be off.
//
// The deviation d of log(predicted / true) is a sum of squares: the spread of the software's profile, which holds what
// its calibration left unexplained, and parts that grow with what is uncertain in this run:
//
//   d^2 = spread^2 + (0.35 e_host)^2 + (0.3 e_network)^2 + 0.03^2 assumptions + (0.08, constants of another device)^2
//
// e_host: change of log(step) with the logarithm of all times of the host; e_network: with that of the rates between
// hosts. The factors are how far such constants differ between machines and publications. The interval of 90 % is
// step exp(+-1.645 d).
#pragma once

#include <vector>

#include "validation/prepared_run.h"

namespace meshwright {

struct StepInterval {
  Seconds low{0.0}, high{0.0};
};

// d without the spread.
[[nodiscard]] double deviation_of_parts(const PreparedRun& run, const SoftwareProfile& software);

// Holds the true step nine times in ten. `step`: predicted_step(run).
[[nodiscard]] StepInterval interval_of(const PreparedRun& run, Seconds step);

// Whether a logarithm of predicted over published lies in the interval of these two.
[[nodiscard]] bool covers(double spread, double parts, double log);

// The least spread with which nine in ten of the logarithms of predicted over published lie in their intervals; not
// below what runs of one configuration differ by. `parts`: deviation_of_parts of each. REQUIRES: lists of one length.
[[nodiscard]] double spread_for_coverage(const std::vector<double>& logs, const std::vector<double>& parts);

}  // namespace meshwright
