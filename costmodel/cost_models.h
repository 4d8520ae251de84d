// SPDX-License-Identifier: Apache-2.0
// The cost models behind core's CostModel: analytic (roofline and alpha-beta from a Cluster) and profiled (a ProfileDb,
// and the analytic model for whatever the database lacks).
//
// Compute (roofline): max(flops / (peak * matmul_efficiency), bytes / (bandwidth * memory_efficiency)), at least
// `launch`.
//
// Collectives of B bytes (the whole tensor) over n devices, alpha-beta ring forms (nccl-tests PERFORMANCE.md):
//   all-reduce      2 (n-1) alpha + 2 (n-1)/n beta B
//   all-gather, reduce-scatter   (n-1) alpha + (n-1)/n beta B
//   all-to-all      (n-1) alpha + (n-1)/n beta B
// Over an axis of `inner` devices per host and `outer` hosts they are hierarchical: all-reduce = reduce-scatter inside,
// all-reduce of B/inner across hosts, all-gather inside; gather and scatter likewise.
#pragma once

#include <memory>

#include "core/mesh/cluster.h"
#include "core/sharding/cost_model.h"
#include "costmodel/measured_kernels.h"
#include "costmodel/profile_db.h"
#include "costmodel/sheets/software_profile.h"

namespace meshwright {

// Formulas on one link, exposed for tests.
[[nodiscard]] Seconds ring_all_reduce(Bytes size, int n, LinkCost link);
[[nodiscard]] Seconds ring_all_gather(Bytes size, int n, LinkCost link);  // reduce-scatter and all-to-all cost the same
[[nodiscard]] Seconds hierarchical_collective(CollectiveKind kind, Bytes size, const MeshAxis& axis);

// Both models have a model for each group of hosts (CostModel::on), from that group's figures.
[[nodiscard]] std::unique_ptr<CostModel> make_analytic_cost_model(const Cluster& cluster);

// Look-up order for ops: the exact signature at the highest concurrency stored not above the cluster's device count
// (Measured); interpolation over flops (ops that have any) or bytes (all others) among stored ops of the same kind and
// dtype, log-log, between the two neighbours (Interpolated; outside the measured range the nearest rate is kept); the
// analytic model (Modelled). Collectives and transfers: by kind, ranks and hosts, piecewise linear over size; outside
// the range, the nearest segment continued. The database may be closed afterwards; the model is safe to use from
// several threads.
//
// The groups of hosts whose device has the name of the measured one take the measurements, the others are analytic.
// Throws InputError when no group has it, or when the database holds measurements of different devices. `as`: the
// device of the cluster that takes them, whatever they were taken on; "": as measured.
[[nodiscard]] std::unique_ptr<CostModel> make_profiled_cost_model(const Cluster& cluster, const ProfileDb& db,
                                                                  const std::string& as = "");

// The terms of costmodel/terms/ with the constants of each device, as `software` spends them; analytic for what has no
// term. Products, attention and collectives within a host are Measured or Interpolated where `measured` (which outlives
// the model) has rows of the device near in shape; the factors of `software` apply to these times, too. Throws
// InputError when no data sheet has a device of the cluster.
[[nodiscard]] std::unique_ptr<CostModel> make_physical_cost_model(const Cluster& cluster,
                                                                  const SoftwareProfile& software,
                                                                  const MeasuredKernels* measured = nullptr);

}  // namespace meshwright
