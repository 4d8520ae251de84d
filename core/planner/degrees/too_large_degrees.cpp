// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/too_large_degrees.h"

#include <algorithm>

namespace meshwright {

namespace {

bool keeps_no_more(const Degrees& a, const Degrees& b) {
  if (a.schedule == b.schedule && a.chunks == b.chunks) return true;
  return a.schedule == ScheduleKind::OneFOneB &&
         (b.schedule == ScheduleKind::Interleaved || b.schedule == ScheduleKind::GPipe);
}

}  // namespace

int kept_share(Recompute recompute) {
  return recompute == Recompute::Full ? 0 : recompute == Recompute::Selective ? 1 : 2;
}

ProbeKey probe_key(const Degrees& d) {
  return {d.tp, d.cp, d.pp, d.ep, d.whole_experts, d.folded_experts, d.context, d.recompute, d.split};
}

TooLargeDegrees::Key TooLargeDegrees::key_of(const Degrees& d) {
  return {d.tp, d.cp, d.pp, d.ep, d.whole_experts, d.folded_experts, d.context, d.split};
}

void TooLargeDegrees::add(const Degrees& degrees) { known_[key_of(degrees)].push_back(degrees); }

bool TooLargeDegrees::rule_out(const Degrees& degrees) const {
  const auto found = known_.find(key_of(degrees));
  return found != known_.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Degrees& small) {
           return small.zero >= degrees.zero && kept_share(small.recompute) <= kept_share(degrees.recompute) &&
                  small.micro_batch <= degrees.micro_batch && keeps_no_more(small, degrees);
         });
}

}  // namespace meshwright
