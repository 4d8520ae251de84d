// SPDX-License-Identifier: Apache-2.0
// Alpha-beta forms of the collectives; the factors are those of nccl-tests (doc/PERFORMANCE.md), whose bus bandwidth is
// 1/beta here.
#include "core/base/errors.h"
#include "costmodel/cost_models.h"

namespace meshwright {

// A reduce-scatter, then an all-gather: n-1 steps each, every step moves size/n over every link.
Seconds ring_all_reduce(Bytes size, int n, LinkCost link) { return 2.0 * ring_all_gather(size, n, link); }

// n-1 steps of size/n. A reduce-scatter takes as long; a direct all-to-all sends size/n to each of n-1 peers in turn.
Seconds ring_all_gather(Bytes size, int n, LinkCost link) {
  MW_CHECK(n >= 1, "a collective of {} devices", n);
  return (n - 1) * (link.alpha + link.beta * (size / n));
}

// n = inner * outer devices on `outer` hosts. A column is the devices with the same number on every host. A phase runs
// in all its groups at once: the `inner` columns share the hosts' network, which outer_link.beta already accounts for.
//
// - all-reduce: reduce-scatter of B inside each host, all-reduce of B/inner in each column, all-gather of B inside.
// - reduce-scatter: of B inside each host, then of B/inner in each column.
// - all-gather: the mirror image, of B/inner in each column, then of B inside.
// - all-to-all: of B inside each host, so that a device holds all data of its host for its column; then of B in each
//   column. B (outer-1)/outer leaves each device, which is the minimum.
Seconds hierarchical_collective(CollectiveKind kind, Bytes size, const MeshAxis& axis) {
  const Seconds inside = ring_all_gather(size, axis.inner, axis.inner_link);
  const Bytes column = size / axis.inner;
  switch (kind) {
    case CollectiveKind::AllReduce:
      return inside + ring_all_reduce(column, axis.outer, axis.outer_link) + inside;
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllGather:
      return inside + ring_all_gather(column, axis.outer, axis.outer_link);
    case CollectiveKind::AllToAll:
      return inside + ring_all_gather(size, axis.outer, axis.outer_link);
  }
  throw InternalError(fmt::format("collective kind {} has no formula", static_cast<int>(kind)));
}

}  // namespace meshwright
