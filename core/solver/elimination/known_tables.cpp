// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/known_tables.h"

#include <utility>

#include "core/solver/elimination/number_hash.h"

namespace meshwright::elimination {

KnownTables::Numbered KnownTables::given(const Costs& cost) {
  const auto [shared, is_new] = shared_.try_emplace(cost);
  if (!is_new) return shared->second;
  const std::string_view bytes(reinterpret_cast<const char*>(cost->data()), cost->size() * sizeof(double));
  const auto [known, is_other] = given_.try_emplace(bytes, Numbered{numbers_, cost});
  if (is_other) ++numbers_;
  return shared->second = known->second;
}

std::size_t KnownTables::Hash::operator()(const std::vector<int>& numbers) const {
  NumberHash hash;
  hash.add(numbers);
  return hash.value();
}

KnownTables::Numbered KnownTables::result(const Step& step, const std::vector<const Numbered*>& sources) {
  key_.assign(1, step.kind);
  for (const Numbered* source : sources) key_.push_back(source->number);
  if (const auto known = results_.find(key_); known != results_.end()) return known->second;
  costs_.clear();
  for (const Numbered* source : sources) costs_.push_back(source->cost->data());
  auto cost = std::make_shared<std::vector<double>>(step.combination.entries());
  (void)combine(step.combination, costs_, cost->data(), scratch_);
  ++combined_;
  const Numbered made{numbers_++, std::move(cost)};
  if (made.cost->size() <= kMaxEntries && total_ + made.cost->size() <= kMaxTotal) {
    total_ += made.cost->size();
    results_.emplace(key_, made);
  }
  return made;
}

}  // namespace meshwright::elimination
