// SPDX-License-Identifier: Apache-2.0
// Measures a list of items within a time budget: cheap ones as often as the median needs, expensive ones as often as
// their share of the remaining time allows, at least once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/profiling/profile_work.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "costmodel/profile_fit.h"
#include "executor/measure/measurer.h"

namespace meshwright {

struct MeasurementPlan {
  std::vector<OpToMeasure> ops;           // cheapest first
  std::vector<int> ranks;                 // of collectives
  std::vector<std::int64_t> sizes_bytes;  // of messages and collectives; none with a single device
  int samples = 7;
  Bytes step = MeasureOptions().step;  // see MeasureOptions
  Seconds budget{120.0};
  // By signature, of the same concurrency: taken as the first of the measurements.
  std::map<std::string, Measurement> known = {};
  // Told of each op once, as soon as it has been measured; what is told is kept when the process ends.
  std::function<void(const OpProfile&)> on_op = {};
  std::function<bool()> stop = {};  // asked between measurements
};

struct Measurements {
  std::vector<MeasuredOp> ops;
  std::vector<CollectiveProfile> collectives;
  std::vector<TransferProfile> transfers;
  Measurement run_overhead;
  std::optional<Measurement> launch;             // see Measurer
  std::optional<BytesPerSecond> copy_bandwidth;  // see Measurer
  int left_out_for_time = 0;                     // ops: the budget was used up
  std::optional<double> other_load_cores;        // see OtherLoad
  int left_out_for_memory = 0;                   // ops: their operands would fill this machine, or a GPU
};

// nullopt: `stop` ended it.
[[nodiscard]] std::optional<Measurements> measure(const MeasurementPlan& plan, Measurer& measurer, Progress& progress);

}  // namespace meshwright
