// SPDX-License-Identifier: Apache-2.0
// Collectives between the leaders of the parts of a group (executor/peers/composite_group.h): each part has one, and
// speaks for as many members as its weight says.
//
// Leaders call the same operations in the same order, each with its own Device, whose memory all pointers are of. What
// is summed is summed in the order of parts, in one place for each element: all parts have the same bits. Arrays do not
// overlap unless it is said. Counts are in elements.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "executor/device/backend.h"

namespace meshwright {

class Across {
 public:
  explicit Across(std::vector<int> weights);  // [part], each at least 1
  virtual ~Across() = default;
  Across(const Across&) = delete;
  Across& operator=(const Across&) = delete;

  [[nodiscard]] int parts() const { return static_cast<int>(weights_.size()); }
  [[nodiscard]] int weight(int part) const { return weights_[static_cast<std::size_t>(part)]; }
  // The sum of the weights of the parts before this one; of all, for part parts().
  [[nodiscard]] int before(int part) const { return before_[static_cast<std::size_t>(part)]; }

  // out (n) = sum or maximum of every part's in (n). `out` may be `in`.
  virtual void all_reduce(int part, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                          kernels::Reduction reduction) = 0;
  // in (before(parts()) * unit) -> out (weight(part) * unit): from before(part) * unit on, of the reduced whole.
  virtual void reduce_scatter(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit,
                              kernels::Reduction reduction) = 0;
  // in (weight(part) * unit) -> out (before(parts()) * unit): all parts', in their order.
  virtual void all_gather(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) = 0;
  // in: for each part in order, weight(part) * weight(that) * unit; out: for each in order, what it has for this one.
  virtual void all_to_all(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) = 0;
  // data (n) of part `root`, to all.
  virtual void broadcast(int part, Device& device, DType stored, void* data, std::int64_t n, int root) = 0;

 private:
  std::vector<int> weights_, before_;
};

// Between leaders that are a Group of their own: of the GPUs of one process, where several devices share each. What
// unequal parts bring is filled up to the largest, as a Group's members bring equally much.
class GroupAcross final : public Across {
 public:
  GroupAcross(std::shared_ptr<Group> leaders, std::vector<int> weights);

  void all_reduce(int part, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                  kernels::Reduction reduction) override;
  void reduce_scatter(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit,
                      kernels::Reduction reduction) override;
  void all_gather(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) override;
  void all_to_all(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) override;
  void broadcast(int part, Device& device, DType stored, void* data, std::int64_t n, int root) override;

 private:
  const std::shared_ptr<Group> leaders_;
  int largest_;  // weight
  bool equal_;
};

}  // namespace meshwright
