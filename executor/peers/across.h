// SPDX-License-Identifier: Apache-2.0
// Collectives between the leaders of a group's parts (executor/peers/composite_group.h). Each part has one leader,
// which represents as many members as the part's weight.
//
// Leaders call the same operations in the same order, each with the number of its part as the call's `member`. What
// is summed is summed in the order of parts, in one place for each element: all parts have the same bits. Arrays do not
// overlap unless it is said. Counts are in elements.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/device/backend.h"

namespace meshwright {

class Across {
 public:
  explicit Across(std::vector<int> weights);  // [part], each at least 1
  virtual ~Across() = default;
  Across(const Across&) = delete;
  Across& operator=(const Across&) = delete;

  [[nodiscard]] int parts() const { return weights_.count(); }
  [[nodiscard]] int weight(int part) const { return weights_[part]; }
  // The sum of the weights of the parts before this one; of all, for part parts().
  [[nodiscard]] int before(int part) const { return before_[part]; }

  // out (n) = sum or maximum of every part's in (n). `out` may be `in`.
  virtual void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) = 0;
  // in (before(parts()) * unit) -> out (weight(part) * unit): the reduced elements from before(part) * unit on.
  virtual void reduce_scatter(const CollectiveCall& call, std::int64_t unit, kernels::Reduction reduction) = 0;
  // in (weight(part) * unit) -> out (before(parts()) * unit): the elements of all parts, in their order.
  virtual void all_gather(const CollectiveCall& call, std::int64_t unit) = 0;
  // in: for each other part in order, weight(part) * weight(other) * unit elements for it; out: for each in order, the
  // elements that it has for this part.
  virtual void all_to_all(const CollectiveCall& call, std::int64_t unit) = 0;
  // out (n) of part `root`, to all; `in` is not read.
  virtual void broadcast(const CollectiveCall& call, std::int64_t n, int root) = 0;
  // in (n) of each part, to out (n) of its neighbour in the ring of parts.
  virtual void pass_on(const CollectiveCall& call, std::int64_t n, Around way) = 0;

 private:
  IndexedVector<int, int> weights_, before_;
};

// Between leaders that form a Group, such as one device on each GPU of a process. A Group's members bring equally many
// elements, so unequal parts are padded to the largest.
class GroupAcross final : public Across {
 public:
  GroupAcross(std::shared_ptr<Group> leaders, std::vector<int> weights);

  void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) override;
  void reduce_scatter(const CollectiveCall& call, std::int64_t unit, kernels::Reduction reduction) override;
  void all_gather(const CollectiveCall& call, std::int64_t unit) override;
  void all_to_all(const CollectiveCall& call, std::int64_t unit) override;
  void broadcast(const CollectiveCall& call, std::int64_t n, int root) override;
  void pass_on(const CollectiveCall& call, std::int64_t n, Around way) override;

 private:
  const std::shared_ptr<Group> leaders_;
  int largest_;  // weight
  bool equal_;
};

}  // namespace meshwright
