// SPDX-License-Identifier: Apache-2.0
// Which algorithm each product takes, in words that can be stored and given to a later program: with them a choice that
// was made by timing is made once, and later runs compute the same bits.
//
// Words are of one kind of device and one version of the library (product_library in kernels/cuda/products/products.h):
// they say nothing of others.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// By product (types, shape, layout, alignment), the library's algorithm. Threads may share one.
class ProductChoices {
 public:
  // What is there stays. Returns what is kept.
  std::string keep(const std::string& product, const std::string& algorithm) {
    const std::lock_guard lock(mutex_);
    return algorithms_.emplace(product, algorithm).first->second;
  }
  // nullopt: nothing is kept for the product.
  [[nodiscard]] std::optional<std::string> find(const std::string& product) const {
    const std::lock_guard lock(mutex_);
    const auto found = algorithms_.find(product);
    return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
  }
  // The library does not take what is kept for this product: it is left out from now on.
  void refuse(const std::string& product) {
    const std::lock_guard lock(mutex_);
    algorithms_.erase(product);
    refused_.insert(product);
  }
  // What may be stored for later programs.
  [[nodiscard]] std::map<std::string, std::string> all() const {
    const std::lock_guard lock(mutex_);
    return algorithms_;
  }
  // The products of which a choice was refused.
  [[nodiscard]] std::set<std::string> refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> algorithms_;
  std::set<std::string> refused_;
};

// Seconds of what `start` queues on the stream, once; waits for it.
using ProductTimer = std::function<double(Stream stream, const std::function<void()>& start)>;

// How a product that was not met before gets its algorithm: the one kept in `choices`; without one, with `timed`, the
// fastest of those that the library proposes, which is then kept there; else the first that it proposes.
struct ProductTuning {
  std::shared_ptr<ProductChoices> choices{};
  bool timed = false;    // only where a stream may be waited for
  std::size_t l2 = 0;    // bytes: operands come from memory while products are timed
  ProductTimer timer{};  // none: a ColdTimer (kernels/cuda/measure/cold_timer.h)
};

}  // namespace meshwright::kernels::cuda
