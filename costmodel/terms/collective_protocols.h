// SPDX-License-Identifier: Apache-2.0
// The time of a collective of n ranks that are joined alike (the GPUs of a host or of an NVLink domain; one rank or
// more per host over a network), as the faster of two protocols: one of low latency for small sizes, one of high
// bandwidth.
//
//   t = min over protocols of  start + step (n-1) + f size / rate
//
// f is the bus factor of nccl-tests (doc/PERFORMANCE.md): 2(n-1)/n for an all-reduce, (n-1)/n for the others. The rate
// of the second protocol is that of 8 ranks; it grows as n to the power `growth` (rings over two of the links of a
// switch reach less than the switch's own reduction over all of them), or falls where all share a bus. It is fitted as
// the rate for twice the ranks over the rate, 2 to the power `growth`.
#pragma once

#include "core/base/units.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

struct CollectiveProtocols {
  Seconds low_start{10e-6}, low_step{0.5e-6};
  BytesPerSecond low_rate{50e9};
  Seconds high_start{30e-6}, high_step{1e-6};
  BytesPerSecond high_rate{200e9};
  double growth = 0.1;

  friend bool operator==(const CollectiveProtocols&, const CollectiveProtocols&) = default;
};

// `size` as nccl-tests counts it: the reduced tensor of an all-reduce, the gathered one of an all-gather, the input of
// a reduce-scatter, what each rank sends of an all-to-all. REQUIRES: ranks >= 2.
[[nodiscard]] Seconds collective_time(CollectiveKind kind, Bytes size, int ranks, const CollectiveProtocols& protocols);

}  // namespace meshwright
