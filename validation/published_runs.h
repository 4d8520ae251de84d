// SPDX-License-Identifier: Apache-2.0
// Published training runs: one row per measured configuration, in the column layout of docs/files.md ("Published
// runs").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/csv.h"
#include "core/base/units.h"

namespace meshwright {

// What a cell leaves open is nullopt or "".
struct PublishedRun {
  std::string id, source, group, place;  // place: "FILE, line 7"
  std::string release;                   // of the software: "26.04", where `where` names it
  std::string device, interconnect, framework, model, arch, attention, precision, recompute, schedule, zero, status;
  std::optional<double> device_memory_gb;
  std::optional<std::int64_t> devices, devices_per_host;
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, ffn, seq, vocab, experts, top_k;
  std::optional<bool> gated, sequence_parallel;
  std::optional<std::int64_t> tp, pp, vpp, dp, cp, ep;
  std::optional<std::int64_t> micro_batch, micro_batches, global_batch;
  std::optional<Seconds> step;
  std::optional<Bytes> memory;    // of the fullest device; GB of a table are GiB where its kind says so
  bool memory_by_driver = false;  // as the driver counts it, with the context and what the allocator keeps
  bool out_of_memory = false;
  bool partly_trained = false;  // adapters (LoRA) are
  // Where the notes say so: ops run one by one, without a compiler; communication of tensor parallelism goes on beside
  // products.
  bool not_compiled = false, overlaps_tensor_parallel = false;

  // Where the columns hold no run of training that could be planned: why.
  [[nodiscard]] std::optional<std::string> why_not_a_run() const;
};

struct WrongRow {
  std::string id, place, reason;
};

struct PublishedRuns {
  std::vector<PublishedRun> runs;
  std::vector<WrongRow> wrong;  // rows with a value that none can have
};

// Throws InputError when a column that every row needs is missing.
[[nodiscard]] PublishedRuns read_published_runs(const CsvTable& table);
// Those of all files, in their order; of several, one that holds no such table is a wrong row without an id. Throws as
// CsvTable::read, too.
[[nodiscard]] PublishedRuns read_published_runs(const std::vector<std::string>& files);

}  // namespace meshwright
