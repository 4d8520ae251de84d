// SPDX-License-Identifier: Apache-2.0
// What is known of the memory of degrees from others that were planned.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "core/planner/method/framework.h"

namespace meshwright {

// In the order of what the recomputations keep.
[[nodiscard]] int kept_share(Recompute recompute);

// Degrees with one such key: those that keep least are tried first, and where they do not fit, none does.
using ProbeKey = std::tuple<int, int, int, int, bool, bool, ContextExchange, Recompute, StageSplit>;
[[nodiscard]] ProbeKey probe_key(const Degrees& degrees);

// What did not fit. Degrees that keep more everywhere do not fit either: they are not planned. With larger
// micro-batches a rank keeps at least as many samples; several stages on each rank, and GPipe, keep at least what 1F1B
// does.
class TooLargeDegrees {
 public:
  void add(const Degrees& degrees);
  [[nodiscard]] bool rule_out(const Degrees& degrees) const;

 private:
  using Key = std::tuple<int, int, int, int, bool, bool, ContextExchange, StageSplit>;
  static Key key_of(const Degrees& degrees);

  std::map<Key, std::vector<Degrees>> known_;
};

}  // namespace meshwright
