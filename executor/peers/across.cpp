// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/across.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

std::size_t bytes_of(std::int64_t elements, DType dtype) { return static_cast<std::size_t>(elements * size_of(dtype)); }

// Rows of equal length, one for each part: the part's elements, then padding up to the longest part's.
class Rows {
 public:
  Rows(const CollectiveCall& call, int rows, std::int64_t length)
      : device_(call.device),
        dtype_(call.dtype),
        length_(length),
        all_(device_.scratch(), bytes_of(rows * length, dtype_)) {}

  [[nodiscard]] void* data() const { return all_.data(); }
  void clear(int rows) { device_.clear(data(), bytes_of(rows * length_, dtype_)); }
  void put(int row, const void* from, std::int64_t begin, std::int64_t n) {
    device_.copy(at(row), static_cast<const std::byte*>(from) + bytes_of(begin, dtype_), bytes_of(n, dtype_));
  }
  void get(int row, void* to, std::int64_t begin, std::int64_t n) const {
    device_.copy(static_cast<std::byte*>(to) + bytes_of(begin, dtype_), at(row), bytes_of(n, dtype_));
  }

 private:
  [[nodiscard]] std::byte* at(int row) const { return all_.data() + bytes_of(row * length_, dtype_); }
  Device& device_;
  const DType dtype_;
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

void GroupAcross::all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) {
  leaders_->all_reduce(call, n, reduction);
}

void GroupAcross::reduce_scatter(const CollectiveCall& call, std::int64_t unit, kernels::Reduction reduction) {
  const std::int64_t length = largest_ * unit;
  // The members of a Group bring equally many elements: a part of less weight is padded to the largest.
  if (equal_) return leaders_->reduce_scatter(call, 1, length, reduction);
  Rows whole(call, parts(), length), own(call, 1, length);
  whole.clear(parts());  // the padding takes part in sums
  for (int other = 0; other < parts(); ++other) whole.put(other, call.in, before(other) * unit, weight(other) * unit);
  leaders_->reduce_scatter(call.with(whole.data(), own.data()), 1, length, reduction);
  own.get(0, call.out, 0, weight(call.member) * unit);
}

void GroupAcross::all_gather(const CollectiveCall& call, std::int64_t unit) {
  const std::int64_t length = largest_ * unit;
  if (equal_) return leaders_->all_gather(call, 1, length);
  Rows own(call, 1, length), whole(call, parts(), length);
  own.put(0, call.in, 0, weight(call.member) * unit);
  leaders_->all_gather(call.with(own.data(), whole.data()), 1, length);
  for (int other = 0; other < parts(); ++other) whole.get(other, call.out, before(other) * unit, weight(other) * unit);
}

void GroupAcross::all_to_all(const CollectiveCall& call, std::int64_t unit) {
  // A row has room for the pieces from each member of one part to each member of another.
  const std::int64_t length = largest_ * largest_ * unit, each = weight(call.member) * unit;
  const std::vector<std::int64_t> shape = {parts(), length};
  if (equal_) return leaders_->all_to_all(call, shape, 0, 1);
  Rows leaving(call, parts(), length), coming(call, parts(), length);
  // The pieces for `other` follow those for earlier parts: weight(member) units for each of their members.
  for (int other = 0; other < parts(); ++other) leaving.put(other, call.in, before(other) * each, weight(other) * each);
  leaders_->all_to_all(call.with(leaving.data(), coming.data()), shape, 0, 1);
  for (int other = 0; other < parts(); ++other) coming.get(other, call.out, before(other) * each, weight(other) * each);
}

void GroupAcross::broadcast(const CollectiveCall& call, std::int64_t n, int root) {
  leaders_->broadcast(call, n, root);
}

void GroupAcross::pass_on(const CollectiveCall& call, std::int64_t n, Around way) { leaders_->pass_on(call, n, way); }

}  // namespace meshwright
