// SPDX-License-Identifier: Apache-2.0
// What to say of memory when nothing fits: how low the peak of any labelling can get.
#pragma once

#include "core/solver/portfolio/portfolio.h"

namespace meshwright::portfolio {

// Fills in `least_peak_bound`, and `least_peak` where a labelling with finite cost is found.
void add_least_peak(const Field& field, const Options& options, Result& result);

}  // namespace meshwright::portfolio
