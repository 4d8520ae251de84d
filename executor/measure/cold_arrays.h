// SPDX-License-Identifier: Apache-2.0
// Operands that caches do not hold, for measurements that repeat something.
//
// In a step an op, a collective or a message finds most of what it reads where work long before it has left it: in
// memory, as steps touch more than the caches hold. So what is repeated goes around sets of operands that together are
// as large as a step: where all of a small step stays in a large cache, so do they. Internal to executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

// What work just before has made lies in the core's own cache, if it fits there.
constexpr std::int64_t kBytesOfCoreCache = std::int64_t{1} << 20;

// The order in which sets are used: none comes next to the one before, so that the processor cannot fetch it ahead.
class ColdOrder {
 public:
  ColdOrder() = default;
  // `bytes`: of one set; `step`: of all.
  ColdOrder(std::size_t bytes, Bytes step);
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t next() { return at_ = (at_ + stride_) % count_; }

 private:
  std::size_t count_ = 1, stride_ = 1, at_ = 0;
};

// What one device gives to others, and where it gets what they give. Memory is kept from size to size.
class ColdArrays {
 public:
  // Arrays of so many elements from here on, which are `step` together.
  void resize(std::int64_t elements, Bytes step);
  // The next pair of arrays. What is given has just been made.
  void next();
  [[nodiscard]] const float* in() const { return in_.data() + in_at_; }
  [[nodiscard]] float* out() { return out_.data() + out_at_; }

 private:
  std::vector<float> in_, out_;
  std::size_t elements_ = 0, in_at_ = 0, out_at_ = 0;
  ColdOrder order_;
};

}  // namespace meshwright
