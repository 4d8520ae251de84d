// SPDX-License-Identifier: Apache-2.0
// The result of `validate` as one HTML file that needs nothing else: a plot of predicted against published step times,
// and the errors by source or group.
#pragma once

#include <string>
#include <vector>

#include "validation/validate.h"

namespace meshwright {

[[nodiscard]] std::string validation_page(const std::vector<ValidatedRun>& results, SummaryKey key);

}  // namespace meshwright
