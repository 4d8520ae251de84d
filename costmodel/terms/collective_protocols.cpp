// SPDX-License-Identifier: Apache-2.0
#include "costmodel/terms/collective_protocols.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright {

Seconds collective_time(CollectiveKind kind, Bytes size, int ranks, const CollectiveProtocols& protocols) {
  MW_CHECK(ranks >= 2, "a collective of {} ranks", ranks);
  const double others = (ranks - 1.0) / ranks;
  const Bytes moved = (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * others * size;
  const BytesPerSecond high_rate = std::pow(ranks / 8.0, protocols.growth) * protocols.high_rate;
  return std::min(protocols.low_start + (ranks - 1) * protocols.low_step + moved / protocols.low_rate,
                  protocols.high_start + (ranks - 1) * protocols.high_step + moved / high_rate);
}

}  // namespace meshwright
