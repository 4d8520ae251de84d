// SPDX-License-Identifier: Apache-2.0
// Errors of predictions, and rows that are wrong, as calibrate and validate say them.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "costmodel/calibration/residuals.h"
#include "validation/published_runs.h"

namespace meshwright {

// "4.3 / 3.0 / 9.1 / -0.7": mean, median, 90th percentile and bias in %; "-" without rows.
[[nodiscard]] std::string errors_with_bias(const ErrorSummary& errors);
[[nodiscard]] Json errors_json(const ErrorSummary& errors);
// Place and reason, the place once; of an empty list "".
[[nodiscard]] std::string wrong_row_text(const WrongRow& row);
[[nodiscard]] std::string first_wrong_row(const std::vector<WrongRow>& rows);
[[nodiscard]] Json wrong_rows_json(const std::vector<WrongRow>& rows);

}  // namespace meshwright
