// SPDX-License-Identifier: Apache-2.0
// Spans of layers that are the same problem: layers repeat, so most spans are another one moved along the model.
#pragma once

#include <vector>

#include "core/base/indexed_vector.h"
#include "core/planner/spans/layer_classes.h"

namespace meshwright {

class EqualSpans {
 public:
  // REQUIRES: the layers are possible.
  explicit EqualSpans(const LayerClasses& layers);

  // The spans of up to `length` layers that begin at `first` equal those of as many layers that begin at the layer
  // asked for, in their models and in where a block goes on in the next layer.
  struct Twin {
    int first = 0;
    int length = 0;  // 0 without a twin
  };
  // The longest of the layers before, the first of several.
  [[nodiscard]] Twin twin_of(int layer) const { return twins_[layer]; }
  // Equal spans have equal marks, and no others: [row of the upper triangle, (0, 0), (0, 1), ...].
  [[nodiscard]] std::vector<int> marks() const;

 private:
  IndexedVector<int, Twin> twins_;  // [layer]
};

}  // namespace meshwright
