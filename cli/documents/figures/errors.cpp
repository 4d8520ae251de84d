// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/figures/errors.h"

namespace meshwright {

std::string errors_with_bias(const ErrorSummary& errors) {
  if (errors.rows == 0) return "-";
  return fmt::format("{:.1f} / {:.1f} / {:.1f} / {:+.1f}", 100 * errors.mean, 100 * errors.median, 100 * errors.p90,
                     100 * errors.bias);
}

Json errors_json(const ErrorSummary& errors) {
  return {{"rows", errors.rows},
          {"mean", errors.mean},
          {"median", errors.median},
          {"p90", errors.p90},
          {"bias", errors.bias}};
}

std::string wrong_row_text(const WrongRow& row) {
  return row.reason.starts_with(row.place) ? row.reason : fmt::format("{}: {}", row.place, row.reason);
}

std::string first_wrong_row(const std::vector<WrongRow>& rows) {
  return rows.empty() ? "" : wrong_row_text(rows.front());
}

Json wrong_rows_json(const std::vector<WrongRow>& rows) {
  Json list = Json::array();
  for (const WrongRow& row : rows) list.push_back({{"id", row.id}, {"place", row.place}, {"reason", row.reason}});
  return list;
}

}  // namespace meshwright
