// SPDX-License-Identifier: Apache-2.0
// The kernels of one family of ops, found by the kind of the op.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace meshwright {

// Kernel is a pointer to a function. An array over the kinds, because a device looks kernels up for every op it runs.
template <class Kernel>
class KernelTable {
 public:
  KernelTable(std::initializer_list<std::pair<OpKind, Kernel>> rows) {
    for (const auto& [kind, kernel] : rows) {
      const auto index = static_cast<std::size_t>(kind);
      if (index >= kernels_.size()) kernels_.resize(index + 1, nullptr);
      kernels_[index] = kernel;
    }
  }
  // null: the kind is not of this family.
  [[nodiscard]] Kernel of(OpKind kind) const {
    const auto index = static_cast<std::size_t>(kind);
    return index < kernels_.size() ? kernels_[index] : nullptr;
  }

 private:
  std::vector<Kernel> kernels_;
};

}  // namespace meshwright
