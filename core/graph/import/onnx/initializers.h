// SPDX-License-Identifier: Apache-2.0
// What the numbers that an ONNX file holds tell of themselves: masks and tables are no weights.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/import/onnx/onnx_file.h"

namespace meshwright::onnx {

inline constexpr double kMasked = -1000.0;  // what is added to a score that is hidden, or less

inline constexpr double kOnlyMasked = -50.0;  // the same where nothing but it and 0 is added

[[nodiscard]] bool is_mask(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_turning_table(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_table_of_both(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_progression(const std::vector<double>& values, const std::vector<std::int64_t>& dims);
[[nodiscard]] bool is_transposed(const TensorValue& x, const TensorValue& y);

// A weight that an exporter has added to a mask, as a bias of each head to the mask of each window: the weight's shape,
// and its numbers, and the mask where it is not repeated.
struct HiddenScores {
  std::vector<std::int64_t> own, mask_dims;
  std::vector<double> values, mask;
};
[[nodiscard]] std::optional<HiddenScores> hidden_scores(const std::vector<std::int64_t>& dims,
                                                        const std::vector<double>& values);

// A weight (1, columns, ...) that an exporter has picked from the rows of a table, as biases by distance are: how many
// rows there are, and which one each place has. None where most places have rows of their own.
struct PickedRows {
  std::int64_t rows, columns;
  std::vector<double> ids;
};
[[nodiscard]] std::optional<PickedRows> picked_rows(const std::vector<std::int64_t>& dims,
                                                    const std::vector<double>& values);

}  // namespace meshwright::onnx
