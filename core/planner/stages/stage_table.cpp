// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/stage_table.h"

#include <map>
#include <numeric>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

SpanNumbers::SpanNumbers(int layers) : layers_(layers), numbers_(static_cast<std::size_t>(layers) * (layers + 1) / 2) {
  std::iota(numbers_.begin(), numbers_.end(), 0);
  find_first();
}

SpanNumbers SpanNumbers::all_alike(int layers) {
  SpanNumbers alike(layers);
  std::fill(alike.numbers_.begin(), alike.numbers_.end(), 0);
  alike.find_first();
  return alike;
}

void SpanNumbers::tell_apart(const std::vector<int>& marks) {
  MW_CHECK(marks.size() == numbers_.size(), "{} marks of {} spans", marks.size(), numbers_.size());
  std::map<std::pair<int, int>, int> numbers;
  for (std::size_t span = 0; span < marks.size(); ++span)
    numbers_[span] = numbers.try_emplace({numbers_[span], marks[span]}, static_cast<int>(numbers.size())).first->second;
  find_first();
}

void SpanNumbers::find_first() {
  count_ = 0;
  first_.clear();
  // Numbers are given in the order of spans.
  for (std::size_t span = 0; span < numbers_.size(); ++span)
    if (numbers_[span] == count_) {
      first_.push_back(span);
      ++count_;
    }
}

std::size_t SpanNumbers::position(int first, int last) const {
  MW_CHECK(0 <= first && first <= last && last < layers_, "layers {}..{} of {}", first, last, layers_);
  const std::size_t f = first;
  return f * layers_ - f * (f + 1) / 2 + last;  // rows of the upper triangle
}

StageTable::StageTable(int layers, std::vector<DeviceSlice> slices, int configs, SpanNumbers spans)
    : layers_(layers), configs_(configs), slices_(std::move(slices)), spans_(std::move(spans)) {
  require(layers >= 1, "stage search: there must be at least one layer, not {}.", layers);
  require(configs >= 1, "stage search: there must be at least one configuration, not {}.", configs);
  costs_.resize(spans_.count() * slices_.size() * configs);
}

StageTable StageTable::apart() const {
  StageTable own(layers_, slices_, configs_);
  const std::size_t of_span = slices_.size() * configs_;
  for (int first = 0; first < layers_; ++first)
    for (int last = first; last < layers_; ++last) {
      const auto from = costs_.begin() + static_cast<std::ptrdiff_t>(spans_.of(first, last) * of_span);
      std::copy_n(from, of_span,
                  own.costs_.begin() + static_cast<std::ptrdiff_t>(own.spans_.of(first, last) * of_span));
    }
  return own;
}

std::size_t StageTable::index(int first, int last, int slice, int config) const {
  MW_CHECK(0 <= slice && slice < static_cast<int>(slices_.size()) && 0 <= config && config < configs_,
           "slice {} of {}, configuration {} of {}", slice, slices_.size(), config, configs_);
  const std::size_t span = spans_.of(first, last);
  return (span * slices_.size() + slice) * configs_ + config;
}

}  // namespace meshwright
