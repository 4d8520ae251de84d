// SPDX-License-Identifier: Apache-2.0
// What the tags of messages between processes are made of, so that no two uses share one. Internal to the executor.
#pragma once

#include <cstdint>

namespace meshwright {

enum class PeerTag : std::uint64_t {
  Step = 1,
  Result,
  Group,
  Message,
  Places,
  Join,
  Done,
  Measure,
  JoinChannel,
  JoinParts
};

// `number`: below 2^56, which of that kind.
[[nodiscard]] inline std::uint64_t peer_tag(PeerTag kind, std::uint64_t number) {
  return static_cast<std::uint64_t>(kind) << 56 | number;
}

}  // namespace meshwright
