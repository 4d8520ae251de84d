// SPDX-License-Identifier: Apache-2.0
// Published tables of measured kernels (docs/files.md, "measured kernels") brought into a profile database.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "costmodel/calibration/kernel_rows.h"
#include "costmodel/traces/trace_rows.h"

namespace meshwright {

struct KernelImport {
  std::vector<std::string> files;
  std::string source, licence;  // of all files
  std::string devices;          // rows of these alone, separated by commas; "": of all
  std::string db;
  std::string cluster;  // "": kernels alone; else they become a profile of this cluster's devices as well
  std::string command;
};

struct ImportedKernels {
  std::vector<KernelRow> rows;         // stored
  std::vector<RejectedRow> wrong;      // left out, with the reason
  std::size_t not_used = 0;            // rows of other devices, or of kinds that no term predicts
  int added = 0;                       // of the stored rows; the others replaced earlier ones
  std::optional<TraceImport> profile;  // with a cluster
};

[[nodiscard]] bool is_kernel_table(const std::string& file);  // by its name

// A row that is wrong (an unknown device, a time that is no positive number, ten times off what rows near in shape say)
// is left out, the others are stored. Throws InputError for a request that lacks a source or a licence, or names a file
// that is no table; SystemError when a file cannot be read or written.
[[nodiscard]] ImportedKernels import_kernels(const KernelImport& request);

[[nodiscard]] std::string to_text(const ImportedKernels& imported, const KernelImport& request);
[[nodiscard]] Json to_json(const ImportedKernels& imported, const KernelImport& request);

}  // namespace meshwright
