// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/resharding_times.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

std::size_t hash_of(const reshard::Layout& layout) {
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(layout);
  const std::uint64_t mixed = (words[0] ^ (words[1] * 0x9e3779b97f4a7c15)) * 0xff51afd7ed558ccd;
  return static_cast<std::size_t>(mixed ^ (mixed >> 32));
}

constexpr int kNone = -1;
constexpr std::size_t kFirstSlots = 64;  // a power of two

}  // namespace

ReshardingTimes::ReshardingTimes(std::vector<Dim> dims, DType dtype, const LogicalMesh& mesh, const CostModel& costs)
    : dims_(std::move(dims)), finder_(dims_, dtype, {}, mesh, costs), slots_(kFirstSlots, kNone) {}

int ReshardingTimes::number_of(const reshard::Layout& layout) {
  const auto slot_of = [&](const reshard::Layout& of) {
    std::size_t slot = hash_of(of) & (slots_.size() - 1);
    while (slots_[slot] != kNone && layouts_[static_cast<std::size_t>(slots_[slot])] != of)
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  };
  const std::size_t slot = slot_of(layout);
  if (slots_[slot] != kNone) return slots_[slot];
  const int number = static_cast<int>(layouts_.size());
  slots_[slot] = number;
  layouts_.push_back(layout);
  steps_.emplace_back();
  has_steps_.push_back(0);
  if (2 * layouts_.size() > slots_.size()) {
    slots_.assign(2 * slots_.size(), kNone);
    for (std::size_t n = 0; n < layouts_.size(); ++n) slots_[slot_of(layouts_[n])] = static_cast<int>(n);
  }
  return number;
}

const std::vector<ReshardingTimes::Step>& ReshardingTimes::steps_from(int layout) {
  const auto at = static_cast<std::size_t>(layout);
  if (has_steps_[at] == 0) {
    const reshard::Layout from = layouts_[at];
    finder_.arcs(from, arcs_);
    std::vector<Step> steps;
    steps.reserve(arcs_.size());
    for (const reshard::Arc& arc : arcs_) steps.push_back({number_of(arc.after), arc.time.si()});
    steps_[at] = std::move(steps);
    has_steps_[at] = 1;
  }
  return steps_[at];
}

// Of layouts as near as each other the first in their own order, as in the search of a single resharding.
void ReshardingTimes::settle_next(Search& search) {
  const auto later = [&](const std::pair<double, int>& a, const std::pair<double, int>& b) {
    if (a.first != b.first) return a.first > b.first;
    return layouts_[static_cast<std::size_t>(b.second)] < layouts_[static_cast<std::size_t>(a.second)];
  };
  std::pop_heap(search.frontier.begin(), search.frontier.end(), later);
  const auto [length, layout] = search.frontier.back();
  search.frontier.pop_back();
  const auto at = static_cast<std::size_t>(layout);
  if (search.settled[at] != 0 || search.distance[at].length() < length) return;
  search.settled[at] = 1;
  const reshard::Distance here = search.distance[at];
  const std::vector<Step>& steps = steps_from(layout);
  if (search.seen.size() < layouts_.size()) {
    search.distance.resize(layouts_.size());
    search.seen.resize(layouts_.size());
    search.settled.resize(layouts_.size());
  }
  for (const Step& step : steps) {
    const auto after = static_cast<std::size_t>(step.after);
    const reshard::Distance next{here.seconds + step.seconds, here.steps + 1};
    if (search.seen[after] != 0 && search.distance[after] <= next) continue;
    search.seen[after] = 1;
    search.distance[after] = next;
    search.frontier.emplace_back(next.length(), step.after);
    std::push_heap(search.frontier.begin(), search.frontier.end(), later);
  }
}

Seconds ReshardingTimes::operator()(const ShardingSpec& from, const ShardingSpec& to) {
  const int source = number_of(finder_.layout_of(from));
  const auto target = static_cast<std::size_t>(number_of(finder_.layout_of(to)));
  const auto [known, is_new] = searches_.try_emplace(source);
  Search& search = known->second;
  if (is_new || search.settled.size() <= target) {
    search.distance.resize(layouts_.size());
    search.seen.resize(layouts_.size());
    search.settled.resize(layouts_.size());
  }
  if (is_new) {
    search.seen[static_cast<std::size_t>(source)] = 1;
    search.distance[static_cast<std::size_t>(source)] = {0.0, 0};
    search.frontier.emplace_back(0.0, source);
  }
  while (search.settled[target] == 0) {
    MW_CHECK(!search.frontier.empty(), "no way from {} to {}", from.to_text(), to.to_text());
    settle_next(search);
  }
  return Seconds(search.distance[target].seconds);
}

}  // namespace meshwright
