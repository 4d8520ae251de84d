// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/known_tables.h"

#include <utility>

namespace meshwright::elimination {

KnownTables::Numbered KnownTables::given(const Costs& cost) {
  const auto [shared, is_new] = shared_.try_emplace(cost);
  if (!is_new) return shared->second;
  const std::string_view bytes(reinterpret_cast<const char*>(cost->data()), cost->size() * sizeof(double));
  const auto [known, is_other] = given_.try_emplace(bytes, Numbered{numbers_, cost});
  if (is_other) ++numbers_;
  return shared->second = known->second;
}

KnownTables::Numbered KnownTables::result(const Step& step, const std::vector<Numbered>& sources) {
  std::pair<int, std::vector<int>> key(step.kind, {});
  key.second.reserve(sources.size());
  for (const Numbered& source : sources) key.second.push_back(source.number);
  if (const auto known = results_.find(key); known != results_.end()) return known->second;
  std::vector<const double*> costs;
  for (const Numbered& source : sources) costs.push_back(source.cost->data());
  auto cost = std::make_shared<std::vector<double>>(step.combination.entries());
  (void)combine(step.combination, costs, cost->data(), scratch_);
  ++combined_;
  const Numbered made{numbers_++, std::move(cost)};
  if (made.cost->size() <= kMaxEntries && total_ + made.cost->size() <= kMaxTotal) {
    total_ += made.cost->size();
    results_.emplace(std::move(key), made);
  }
  return made;
}

}  // namespace meshwright::elimination
