// SPDX-License-Identifier: Apache-2.0
// Makes a Graph of a module, node by node (emit.h). Its parts by file: emit.cpp the whole and leaves;
// emit_elementwise.cpp sums, quotients, comparisons and functions; emit_shapes.cpp what moves elements; emit_parts.cpp
// biases, and products of which only slices are read; emit_layers.cpp the rest but for emit_mixture.cpp, mixtures of
// experts.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/import/primitive/emit/emit.h"

namespace meshwright::primitive {

// A tensor of the graph: dimension k is axis order[k]. Or, where only slices of it are read, its parts along one of
// these axes.
struct Value {
  TensorId tensor{0};
  AxisList order = {};
  std::vector<TensorId> parts = {};
};

// A dimension that an op needs: axes to be merged, or a single element of this name.
struct Wanted {
  AxisList axes;
  std::string name;
};

[[nodiscard]] inline AxisList joined(const std::vector<AxisList>& dims) {
  AxisList all;
  for (const AxisList& dim : dims) all.insert(all.end(), dim.begin(), dim.end());
  return all;
}

class Emitter {
 public:
  Emitter(const Module& module, const Axes& axes, Graph& graph);
  void run(const std::vector<int>& blocks, LossReduction reduction);

 private:
  [[nodiscard]] const Node& node(int n) const { return module_.nodes[static_cast<std::size_t>(n)]; }
  [[nodiscard]] std::int64_t size(int axis) const { return axis == Axes::batch() ? samples_ : axes_.size(axis); }
  [[nodiscard]] Dim dim(int axis) const { return {axes_.name(axis), size(axis)}; }
  [[nodiscard]] std::vector<Dim> dims(const AxisList& order) const;
  [[nodiscard]] std::vector<std::string> names(const AxisList& order) const;
  [[nodiscard]] std::int64_t product(const AxisList& order) const;

  [[nodiscard]] std::string unique(const std::string& name);
  TensorId add(OpKind kind, const std::string& suffix, std::vector<TensorId> inputs, Attributes attributes = {});

  [[nodiscard]] Value ordered(const Value& value, const AxisList& order);
  [[nodiscard]] Value operand(int n, std::size_t k);
  [[nodiscard]] AxisList operand_order(int n, std::size_t k) const;
  [[nodiscard]] Value widened(const Value& value, const AxisList& order);
  [[nodiscard]] static AxisList order_of(const std::vector<Wanted>& wanted);
  [[nodiscard]] std::vector<Dim> dims_of(const std::vector<Wanted>& wanted) const;
  [[nodiscard]] TensorId shaped(const Value& value, const std::vector<Wanted>& wanted);
  [[nodiscard]] Value unshaped(TensorId tensor, const std::vector<Wanted>& has);
  [[nodiscard]] Value with_last(int n, const Value& value, std::size_t dim, std::vector<Wanted>& wanted);
  [[nodiscard]] bool plain(const std::vector<Wanted>& wanted) const;

  struct Cut {
    AxisList from, to, inner;
  };
  [[nodiscard]] Cut cut_of(int slice) const;
  [[nodiscard]] bool moves(int n) const;
  void find_bias(int addition);
  [[nodiscard]] AxisList with_bias_last(int product, AxisList order) const;
  void find_parts(int product);
  // The parameter that n is, perhaps transposed, and that nothing else reads.
  [[nodiscard]] std::optional<int> own_parameter(int n) const;
  // What is read of a dimension: its axes; by the index that each part begins at, the axes that it has in their place.
  struct Parts {
    AxisList whole = {};
    std::map<std::int64_t, AxisList> parts = {};
  };
  [[nodiscard]] bool only_slices(int n, std::vector<int>& chain, Parts& found) const;
  [[nodiscard]] bool is_cover(const Parts& parts, const AxisList& taken) const;
  [[nodiscard]] static AxisList order_of_part(const AxisList& order, const AxisList& whole, const AxisList& part);
  [[nodiscard]] std::vector<TensorId> parameter_parts(int n, const Parts& parts);
  [[nodiscard]] Value part_by_part(int n);

  void emit(int n);
  [[nodiscard]] Value leaf(int n);
  [[nodiscard]] Value number(int n);
  [[nodiscard]] Value binary(int n);
  [[nodiscard]] TensorId as_float(TensorId x);
  [[nodiscard]] std::pair<TensorId, TensorId> of_one_type(TensorId x, TensorId y);
  [[nodiscard]] TensorId truth(TensorId x, bool zero);
  [[nodiscard]] Value compare(int n);
  [[nodiscard]] Value with_number(int n);
  [[nodiscard]] std::optional<double> bound_of(int n) const;
  [[nodiscard]] int held_by(int n) const;
  [[nodiscard]] Attributes bounds_of(int n) const;
  [[nodiscard]] bool is_held_next(int n) const;
  [[nodiscard]] TensorId power(TensorId x, double exponent);
  [[nodiscard]] Value select(int n);
  [[nodiscard]] Value unary(int n);
  [[nodiscard]] Value matmul(int n);
  [[nodiscard]] Value gather(int n);
  [[nodiscard]] Value reduce(int n);
  [[nodiscard]] Value slice(int n);
  [[nodiscard]] Value concat(int n);
  [[nodiscard]] std::vector<TensorId> few_pieces(std::vector<TensorId> pieces, const std::vector<Dim>& whole,
                                                 std::size_t along);
  [[nodiscard]] Value reshape(int n);
  [[nodiscard]] Value convolution(int n);
  [[nodiscard]] Value pool(int n);
  [[nodiscard]] Value norm(int n);
  [[nodiscard]] Value batch_norm(int n);
  [[nodiscard]] Value softmax(int n);
  [[nodiscard]] Value attention(int n);
  [[nodiscard]] Value packed_attention(int n);
  [[nodiscard]] TensorId attention_mask(int n, const std::vector<Dim>& queries, const Dim& keys);
  [[nodiscard]] Value rotary(int n);
  [[nodiscard]] std::vector<Wanted> by_expert(int n, std::size_t k) const;
  [[nodiscard]] Value slots(int n);
  [[nodiscard]] Value slot_mask(int n);
  [[nodiscard]] Value gate_weights(int n);
  [[nodiscard]] Value weighted_mask(int n);
  [[nodiscard]] TensorId with_capacity(TensorId tensor, const AxisList& capacity);
  [[nodiscard]] Value dispatch(int n);
  [[nodiscard]] Value combine(int n);
  [[nodiscard]] std::optional<double> scalar(int n) const;
  [[nodiscard]] std::pair<AxisList, AxisList> in_groups(const AxisList& channels, std::int64_t groups) const;
  [[nodiscard]] std::vector<Wanted> image(const std::vector<AxisList>& dims, std::int64_t groups) const;
  // Whether n is an input that the loss alone reads.
  [[nodiscard]] bool only_labels(int n) const { return node(n).inputs.empty() && readers_of_.at(n).size() == 1; }
  void add_loss(LossReduction reduction);
  [[nodiscard]] TensorId labels_of(int loss, const std::vector<Wanted>& wanted, const std::vector<Dim>& rows);
  [[nodiscard]] static std::string head_name(std::size_t loss) {
    return loss == 0 ? "head" : "head" + std::to_string(loss + 1);
  }

  const Module& module_;
  const Axes& axes_;
  Graph& graph_;
  const std::int64_t samples_;
  std::vector<Value> values_;
  std::map<int, std::pair<const Node*, std::size_t>> first_reader_;
  std::map<int, std::vector<int>> readers_of_;
  std::map<int, int> biases_;    // by addition: a parameter of some of its axes, which nothing else reads
  std::set<int> below_bias_;     // what lies between these two
  std::vector<Parts> parts_;     // of products that only slices read
  std::map<int, int> parts_of_;  // which of these, by product, what lies between, and weights
  std::map<int, TensorId> numbers_;
  std::map<std::string, int> used_;
  std::vector<int> losses_;  // cross entropies that the result is the sum of
  std::string name_;
};

}  // namespace meshwright::primitive
