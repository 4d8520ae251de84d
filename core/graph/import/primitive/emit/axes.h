// SPDX-License-Identifier: Apache-2.0
// Names for the dimensions of a module.
//
// Each dimension of a tensor is a list of axes, outermost first; one of size 1 is an empty list, but for the group of
// one query for each key. Ops that match
// dimensions (sums, products, norms) make their axes the same. A reshape that merges dimensions puts their lists one
// behind the other, one that parts a dimension parts its axis, everywhere: both cost nothing and need no op. Where that
// cannot be - an axis that is normalised or looked up stays whole, and no tensor may get one axis twice - the op sees
// its operand by other axes (`seen`), or is a reshape that computes (`explicit_reshape`).
//
// Axes that never meet in one op may have one name: the layers of a model thus have the same ones.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/import/primitive/module.h"

namespace meshwright::primitive {

using AxisList = std::vector<int>;

class Axes {
 public:
  // Throws InputError, one sentence, where the batch is parted or merged so that it is no dimension of its own.
  explicit Axes(const Module& module);

  // The axes of a node's dimensions, and of its operand as the op sees it.
  [[nodiscard]] std::vector<AxisList> of(int node) const;
  [[nodiscard]] std::vector<AxisList> of_operand(int node, std::size_t operand) const;
  [[nodiscard]] bool explicit_reshape(int node) const { return explicit_.contains(node); }

  [[nodiscard]] std::int64_t size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  [[nodiscard]] const std::string& name(int axis) const { return names_.at(axis); }
  [[nodiscard]] static constexpr int batch() { return 0; }
  // Throws InputError where an op mixes rows of several samples that lie in one dimension.
  void expect_samples_apart() const;

 private:
  struct Axis {
    std::int64_t size;
    int same_as = -1;       // another axis that stands for this one
    AxisList parts = {};    // what it was parted into
    bool whole = false;     // never to be parted
    std::string role = {};  // "heads", "vocab", ...
    int rank = 0;           // of the role: higher ones win
    std::vector<int> nodes = {};
  };

  [[nodiscard]] int find(int axis) const;
  void resolve(int axis, AxisList& into) const;
  [[nodiscard]] AxisList resolved(const AxisList& list) const;
  [[nodiscard]] AxisList fresh(std::int64_t size);
  [[nodiscard]] AxisList fresh_of(int node, const AxisList& list);
  [[nodiscard]] bool together(int a, int b) const;
  void part(int axis, std::int64_t outer);
  [[nodiscard]] bool takes_group_of_one(const AxisList& list, const AxisList& other, std::size_t i);
  [[nodiscard]] bool unify(const AxisList& a, const AxisList& b);
  void give_role(const AxisList& list, const char* role, int rank);
  void keep_whole(const AxisList& list);

  void walk(int node);
  void see(int node, std::size_t operand, std::size_t dim, const AxisList& axes);
  void match(int node, std::size_t operand, std::size_t dim, const AxisList& axes);
  void set(int node, std::vector<AxisList> dims);
  [[nodiscard]] const std::vector<AxisList>& input(int node, std::size_t operand) const;
  [[nodiscard]] bool meets_itself(const std::vector<AxisList>& dims, std::size_t d) const;
  void elementwise(int node);
  void reshape(int node);
  void broadcast(int node);
  void slice(int node);
  void concat(int node);
  [[nodiscard]] bool is_weight(int node) const;
  void matmul(int node);
  void gather(int node);
  void convolution(int node);
  void pool(int node);
  void norm(int node, std::size_t dim);
  [[nodiscard]] AxisList group_of_one(const AxisList& queries, const AxisList& keys);
  void attention(int node);
  void packed_attention(int node);
  void slots(int node);
  void slot_mask(int node);
  void dispatch(int node);
  void combine(int node);
  void name_all();

  const Module& module_;
  std::vector<Axis> axes_;
  std::vector<std::vector<AxisList>> dims_;                            // [node][dim]
  std::map<std::pair<int, std::size_t>, std::vector<AxisList>> seen_;  // [node, operand][dim]
  std::set<int> explicit_;
  std::map<int, std::string> names_;
};

}  // namespace meshwright::primitive
