// SPDX-License-Identifier: Apache-2.0
// What gpu_kernels found, as tables with verdicts and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/gpu_kernels/cases.h"
#include "core/base/json.h"
#include "executor/measure/measuring.h"

namespace meshwright::bench {

// A row whose operands do not fit into the device's memory has a sentence in the place of figures.
struct MemoryRow {
  MemoryCase what;
  MeasuredTime time;
  Seconds copy{0.0};  // of a copy that moves as many bytes, timed in the same way
  std::string failure;

  [[nodiscard]] double bytes_per_second() const { return what.bytes / time.median.si(); }
};
struct ProductRow {
  ProductCase what;
  double first = 0.0, timed = 0.0, best = 0.0;  // seconds: as the library proposes, chosen by timing, of all
  std::size_t algorithms = 0;
  std::string failure;
};
struct ComputeRow {
  ComputeCase what;
  std::string by;
  MeasuredTime time;
  std::string failure;
};

struct Found {
  std::string device, libraries, clocks_before, clocks_after;
  double copy_bytes_per_second = 0.0;
  std::vector<MemoryRow> memory;
  std::vector<ProductRow> products;
  std::vector<ComputeRow> convolutions, attention;
};

[[nodiscard]] std::string to_text(const Found& found);
[[nodiscard]] Json to_json(const Found& found);

}  // namespace meshwright::bench
