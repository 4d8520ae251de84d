// SPDX-License-Identifier: Apache-2.0
// Where a table of spans keeps the entry of each. Spans that equal earlier ones share theirs, so that a model of L
// layers that repeat has O(L) entries, not L (L + 1) / 2.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/errors.h"
#include "core/planner/spans/equal_spans.h"

namespace meshwright {

class SpanRows {
 public:
  // The next row: spans of up to `length` layers that begin at the next layer. The entries of those of up to
  // `twin.length` layers are those of the row of the twin, an earlier one.
  void add(const EqualSpans::Twin& twin, int length) {
    const int shared = std::min(twin.length, length);
    rows_.push_back({twin.first, shared, length, size_});
    size_ += static_cast<std::size_t>(length - shared);
  }
  // All entries.
  [[nodiscard]] std::size_t size() const { return size_; }
  // REQUIRES: the row has the span.
  [[nodiscard]] std::size_t at(int first, int last) const {
    int more = last - first;  // layers beyond the first
    std::size_t row = static_cast<std::size_t>(first);
    MW_CHECK(row < rows_.size() && more >= 0 && more < rows_[row].length, "no entry of layers {}..{}", first, last);
    while (more < rows_[row].shared) row = static_cast<std::size_t>(rows_[row].twin);
    return rows_[row].begin + static_cast<std::size_t>(more - rows_[row].shared);
  }

 private:
  struct Row {
    int twin, shared, length;
    std::size_t begin;  // entry of the first span that is not shared
  };
  std::vector<Row> rows_;  // [first]
  std::size_t size_ = 0;
};

}  // namespace meshwright
