// SPDX-License-Identifier: Apache-2.0
// Traces of other programs brought into a profile database: PyTorch's profiler, Chakra, nccl-tests (docs/files.md,
// "traces").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/mesh/cluster.h"
#include "costmodel/profile_db.h"
#include "costmodel/traces/trace_rows.h"

namespace meshwright {

enum class TraceFormat { Kineto, Chakra, ChakraJson, NcclTests };
// By what the file holds; nullopt: none of these. Throws SystemError when it cannot be read.
[[nodiscard]] std::optional<TraceFormat> trace_format(const std::string& file);

struct TraceRequest {
  std::string file;
  std::string cluster;          // of the recorded devices; "": only a log of nccl-tests needs none
  std::string source, licence;  // of its measured kernels; required without a cluster
  std::string db;
  std::string command;
};

struct ImportedTrace {
  TraceImport trace;
  std::optional<ProfileSession> session;  // with a cluster: whose ops and collectives they are
  std::string sheet;                      // data sheet of the device; "": none, and no measured kernels are stored
  int kernels = 0;                        // stored for it
  int outliers = 0;                       // left out: ten times off what kernels near in shape say
};

[[nodiscard]] ImportedTrace import_trace(const TraceRequest& request, TraceFormat format);

[[nodiscard]] std::string to_text(const ImportedTrace& imported, const TraceRequest& request);
[[nodiscard]] Json to_json(const ImportedTrace& imported, const TraceRequest& request);

// "# 87.3 % of 412.500 ms of device time in 24 rows; left out: ...\n", the most time first.
[[nodiscard]] std::string shares_line(const TraceImport& trace);
void store_profile(ProfileDb& db, const ProfileSession& session, const TraceImport& trace);

// The cluster that --cluster names, of devices of one kind. Throws InputError where it is missing or has no GPUs.
[[nodiscard]] Cluster recorded_cluster(const std::string& name);
// The session of a recording. The device is called what the recording calls it, as `profile` does; its rates stay those
// of the cluster. Empty texts are unknown.
[[nodiscard]] ProfileSession recorded_session(const std::string& device, const std::string& host,
                                              const std::string& libraries, const std::string& date_utc,
                                              Cluster cluster, const std::string& command);

}  // namespace meshwright
