// SPDX-License-Identifier: Apache-2.0
// profile --transport mpi: collectives and messages between the processes at hand, whichever hosts they are on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/mesh/cluster.h"
#include "costmodel/profile_db.h"
#include "executor/measure/measurer.h"
#include "executor/peers/peers.h"

namespace meshwright {

struct PeersPlan {
  std::vector<std::int64_t> sizes_bytes;  // ascending
  int samples = 7;
  Bytes step = MeasureOptions().step;
};

struct PeersMeasurements {
  std::vector<CollectiveProfile> collectives;
  std::vector<TransferProfile> transfers;
  std::optional<Measurement> message_work;  // of a message of kMessageWorkBytes (costmodel/profile_db.h)
};

// `cluster`, of one host, with as many hosts as the processes are on, and on each as many devices as processes. Throws
// InputError unless each host has equally many, neighbours in their order.
[[nodiscard]] Cluster cluster_of(Cluster cluster, const Peers& peers);

// Called by all processes; the first one has the result, the others none. Collectives are measured over the first
// processes of each of the first hosts, for every number of hosts and of processes on each that divides theirs.
[[nodiscard]] PeersMeasurements measure_between(Peers& peers, const PeersPlan& plan);

}  // namespace meshwright
