// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/across.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

std::size_t bytes_of(std::int64_t elements, DType stored) {
  return static_cast<std::size_t>(elements * size_of(stored));
}

// Equally long rows for the parts, each with what belongs to its part and then whatever the longest has more.
class Rows {
 public:
  Rows(Device& device, DType stored, int rows, std::int64_t length)
      : device_(device), stored_(stored), length_(length), all_(device.scratch(), bytes_of(rows * length, stored)) {}

  [[nodiscard]] void* data() const { return all_.data(); }
  void clear(int rows) { device_.clear(data(), bytes_of(rows * length_, stored_)); }
  void put(int row, const void* from, std::int64_t begin, std::int64_t n) {
    device_.copy(at(row), static_cast<const std::byte*>(from) + bytes_of(begin, stored_), bytes_of(n, stored_));
  }
  void get(int row, void* to, std::int64_t begin, std::int64_t n) const {
    device_.copy(static_cast<std::byte*>(to) + bytes_of(begin, stored_), at(row), bytes_of(n, stored_));
  }

 private:
  [[nodiscard]] std::byte* at(int row) const { return all_.data() + bytes_of(row * length_, stored_); }
  Device& device_;
  const DType stored_;
  const std::int64_t length_;
  const Scratch::Taken all_;
};

}  // namespace

Across::Across(std::vector<int> weights) : weights_(std::move(weights)), before_{0} {
  for (const int weight : weights_) before_.push_back(before_.back() + weight);
}

GroupAcross::GroupAcross(std::shared_ptr<Group> leaders, std::vector<int> weights)
    : Across(std::move(weights)), leaders_(std::move(leaders)), largest_(0), equal_(true) {
  for (int part = 0; part < parts(); ++part) {
    largest_ = std::max(largest_, weight(part));
    equal_ = equal_ && weight(part) == weight(0);
  }
}

void GroupAcross::all_reduce(int part, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                             kernels::Reduction reduction) {
  leaders_->all_reduce(part, device, stored, in, out, n, reduction);
}

void GroupAcross::reduce_scatter(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit,
                                 kernels::Reduction reduction) {
  const std::int64_t length = largest_ * unit;
  if (equal_) return leaders_->reduce_scatter(part, device, stored, in, out, 1, length, reduction);
  Rows whole(device, stored, parts(), length), own(device, stored, 1, length);
  whole.clear(parts());  // what fills up is added like everything else
  for (int other = 0; other < parts(); ++other) whole.put(other, in, before(other) * unit, weight(other) * unit);
  leaders_->reduce_scatter(part, device, stored, whole.data(), own.data(), 1, length, reduction);
  own.get(0, out, 0, weight(part) * unit);
}

void GroupAcross::all_gather(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) {
  const std::int64_t length = largest_ * unit;
  if (equal_) return leaders_->all_gather(part, device, stored, in, out, 1, length);
  Rows own(device, stored, 1, length), whole(device, stored, parts(), length);
  own.put(0, in, 0, weight(part) * unit);
  leaders_->all_gather(part, device, stored, own.data(), whole.data(), 1, length);
  for (int other = 0; other < parts(); ++other) whole.get(other, out, before(other) * unit, weight(other) * unit);
}

void GroupAcross::all_to_all(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) {
  const std::int64_t length = largest_ * largest_ * unit, each = weight(part) * unit;
  const std::vector<std::int64_t> shape = {parts(), length};
  if (equal_) return leaders_->all_to_all(part, device, stored, in, out, shape, 0, 1);
  Rows leaving(device, stored, parts(), length), coming(device, stored, parts(), length);
  for (int other = 0; other < parts(); ++other) leaving.put(other, in, before(other) * each, weight(other) * each);
  leaders_->all_to_all(part, device, stored, leaving.data(), coming.data(), shape, 0, 1);
  for (int other = 0; other < parts(); ++other) coming.get(other, out, before(other) * each, weight(other) * each);
}

void GroupAcross::broadcast(int part, Device& device, DType stored, void* data, std::int64_t n, int root) {
  leaders_->broadcast(part, device, stored, data, n, root);
}

}  // namespace meshwright
