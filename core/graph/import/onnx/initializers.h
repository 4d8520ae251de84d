// SPDX-License-Identifier: Apache-2.0
// What the numbers that an ONNX file holds tell of themselves: masks and tables are no weights.
#pragma once

#include <vector>

#include "core/graph/import/onnx/onnx_file.h"

namespace meshwright::onnx {

inline constexpr double kMasked = -1000.0;  // what is added to a score that is hidden, or less

[[nodiscard]] bool is_mask(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_turning_table(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_table_of_both(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_progression(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_transposed(const TensorValue& x, const TensorValue& y);

}  // namespace meshwright::onnx
