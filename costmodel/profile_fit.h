// SPDX-License-Identifier: Apache-2.0
// The Cluster that measurements describe: rates and link costs for whatever a profile does not hold entry by entry.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh/cluster.h"
#include "costmodel/profile_db.h"

namespace meshwright {

// Measured ops with what their kind needs to be known for.
struct MeasuredOp {
  OpProfile profile;
  OpKind kind;
  DType dtype;
  bool added = false;  // as in MeasuredTime: says nothing of the device's rates
};

// `base` with
//   peak[dtype]        the best rate of a contraction, and matmul_efficiency the mean rate of the large ones over it
//   memory_bandwidth   `copy` where it is given, else the best rate of an op without contraction flops that touches all
//                      its bytes, and memory_efficiency likewise, at most 1
//   launch             the shortest op
//   within_host        alpha + beta * bytes through the transfers within a host, least squares of the relative error;
//                      between_hosts through those between hosts, or the same where there is one host
// Ops that are `added` count for none of them. Peaks of dtypes that were not measured are dropped; everything else not
// measured stays as it is in `base`. REQUIRES: at most one dtype among the contractions.
[[nodiscard]] Cluster fit_cluster(Cluster base, const std::vector<MeasuredOp>& ops,
                                  const std::vector<TransferProfile>& transfers, std::optional<BytesPerSecond> copy);

// The alpha-beta line through (bytes, time); both are at least 0. nullopt: fewer than two sizes.
// Fits the messages between hosts, or those within one.
[[nodiscard]] std::optional<LinkCost> fit_link(const std::vector<TransferProfile>& transfers, bool hosts_apart = false);

}  // namespace meshwright
