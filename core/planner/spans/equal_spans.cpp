// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/equal_spans.h"

#include <vector>

namespace meshwright {

EqualSpans::EqualSpans(const LayerClasses& layers) {
  const int count = layers.layers();
  const auto goes_on = [&](int layer) {
    const std::vector<int>&own = layers.blocks(layer), &before = layers.blocks(layer - 1);
    return !own.empty() && !before.empty() && own.front() == before.back();
  };
  // common[i]: how many layers from i on equal those from `layer` on; of the row after it until its turn comes.
  std::vector<int> common(count + 1, 0);
  std::vector<Twin> found(count);
  for (int layer = count - 1; layer >= 0; --layer)
    for (int i = 0; i < layer; ++i) {
      // Ascending i: common[i + 1] is still that of the row of layer + 1.
      const bool further = layer + 1 < count && goes_on(layer + 1) == goes_on(i + 1);
      common[i] = layers.class_of(i) != layers.class_of(layer) ? 0 : 1 + (further ? common[i + 1] : 0);
      if (common[i] > found[layer].length) found[layer] = {i, common[i]};
    }
  for (const Twin& twin : found) twins_.push_back(twin);
}

std::vector<int> EqualSpans::marks() const {
  std::vector<int> marks;
  std::vector<std::size_t> row;  // [layer] where its spans begin
  for (int first = 0; first < twins_.count(); ++first) {
    row.push_back(marks.size());
    const auto [twin, length] = twins_[first];
    for (int l = 0; l < twins_.count() - first; ++l)
      marks.push_back(l < length ? marks[row[twin] + l] : static_cast<int>(marks.size()));
  }
  return marks;
}

}  // namespace meshwright
