// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/model_writer.h"

namespace meshwright::primitive {

namespace {

std::optional<OpKind> unary_kind(Kind kind) {
  switch (kind) {
    case Kind::Relu:
      return OpKind::Relu;
    case Kind::Gelu:
      return OpKind::Gelu;
    case Kind::GeluErf:
      return OpKind::GeluErf;
    case Kind::Silu:
      return OpKind::Silu;
    case Kind::Tanh:
      return OpKind::Tanh;
    case Kind::Sigmoid:
      return OpKind::Sigmoid;
    default:
      return std::nullopt;
  }
}

bool is_emittable(Kind kind) {
  switch (kind) {
    case Kind::Divide:
    case Kind::Power:
    case Kind::Maximum:
    case Kind::Minimum:
    case Kind::Exp:
    case Kind::Log:
    case Kind::Sqrt:
    case Kind::Rsqrt:
    case Kind::Reciprocal:
    case Kind::Abs:
    case Kind::Sin:
    case Kind::Cos:
    case Kind::Erf:
    case Kind::Not:
    case Kind::ToInteger:
    case Kind::PickLabel:
      return false;
    default:
      return true;
  }
}

// A tensor of the graph: dimension k is axis order[k]. Or, where only slices of it are read, its parts along another
// axis, each such a tensor.
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

AxisList joined(const std::vector<AxisList>& dims) {
  AxisList all;
  for (const AxisList& dim : dims) all.insert(all.end(), dim.begin(), dim.end());
  return all;
}

class Emitter {
 public:
  Emitter(const Module& module, const Axes& axes, Graph& graph)
      : module_(module), axes_(axes), graph_(graph), samples_(graph.batch / graph.microbatches) {
    values_.resize(module.nodes.size());
    for (const Node& node : module.nodes)
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        auto& reader = first_reader_[node.inputs[k]];
        if (reader.first == nullptr) reader = {&node, k};
        readers_of_[node.inputs[k]].push_back(static_cast<int>(&node - module.nodes.data()));
      }
    for (int n = 0; n < static_cast<int>(module.nodes.size()); ++n) find_parts(n);
  }
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
  [[nodiscard]] TensorId shaped(const Value& value, const std::vector<Wanted>& wanted);
  [[nodiscard]] Value unshaped(TensorId tensor, const std::vector<Wanted>& has);
  [[nodiscard]] Value with_last(int n, const Value& value, std::size_t dim, std::vector<Wanted>& wanted);
  [[nodiscard]] bool plain(const std::vector<Wanted>& wanted) const;

  struct Cut {
    AxisList from, to, inner;
  };
  [[nodiscard]] Cut cut_of(int slice) const;
  void find_parts(int product);
  [[nodiscard]] bool only_slices(int n, int axis, std::vector<int>& chain, std::set<std::int64_t>& indices) const;
  [[nodiscard]] bool is_own_parameter(int n) const {
    return node(n).kind == Kind::Parameter && readers_of_.at(n).size() == 1;
  }
  [[nodiscard]] std::vector<TensorId> parameter_parts(int n, int axis, AxisList& order);
  [[nodiscard]] Value part_by_part(int n);

  void emit(int n);
  [[nodiscard]] Value leaf(int n);
  [[nodiscard]] TensorId parameter_of(int n, const std::vector<Wanted>& wanted);
  [[nodiscard]] Value binary(int n);
  [[nodiscard]] Value scaled(int n, int x, double scale);
  [[nodiscard]] Value select(int n);
  [[nodiscard]] Value unary(int n);
  [[nodiscard]] Value matmul(int n);
  [[nodiscard]] Value gather(int n);
  [[nodiscard]] Value reduce(int n);
  [[nodiscard]] Value slice(int n);
  [[nodiscard]] Value concat(int n);
  [[nodiscard]] Value reshape(int n);
  [[nodiscard]] Value convolution(int n);
  [[nodiscard]] Value pool(int n);
  [[nodiscard]] Value norm(int n);
  [[nodiscard]] Value batch_norm(int n);
  [[nodiscard]] Value softmax(int n);
  [[nodiscard]] Value attention(int n);
  [[nodiscard]] Value rotary(int n);
  [[nodiscard]] std::optional<double> scalar(int n) const;
  [[nodiscard]] std::vector<Wanted> image(const std::vector<AxisList>& dims, bool grouped) const;
  void add_loss(LossReduction reduction);

  const Module& module_;
  const Axes& axes_;
  Graph& graph_;
  const std::int64_t samples_;
  std::vector<Value> values_;
  std::map<int, std::pair<const Node*, std::size_t>> first_reader_;
  std::map<int, std::vector<int>> readers_of_;
  std::map<int, int> part_axis_;  // of products that only slices read, and of what lies between; -1 of their weights
  std::map<std::string, int> used_;
  std::string name_;
};

// --- dimensions ---

std::vector<Dim> Emitter::dims(const AxisList& order) const {
  std::vector<Dim> found;
  for (const int axis : order) found.push_back(dim(axis));
  return found;
}

std::vector<std::string> Emitter::names(const AxisList& order) const {
  std::vector<std::string> found;
  for (const int axis : order) found.push_back(axes_.name(axis));
  return found;
}

std::int64_t Emitter::product(const AxisList& order) const {
  return std::accumulate(order.begin(), order.end(), std::int64_t{1},
                         [&](std::int64_t all, int axis) { return all * size(axis); });
}

std::string Emitter::unique(const std::string& name) {
  const int before = used_[name]++;
  if (before == 0) return name;
  std::string other = fmt::format("{}.{}", name, before + 1);
  return used_.contains(other) ? unique(name) : (used_[other] = 1, other);
}

TensorId Emitter::add(OpKind kind, const std::string& suffix, std::vector<TensorId> inputs, Attributes attributes) {
  return graph_.add_op(kind, unique(name_ + suffix), std::move(inputs), std::move(attributes))[0];
}

Value Emitter::ordered(const Value& value, const AxisList& order) {
  if (value.order == order) return value;
  MW_CHECK(std::is_permutation(order.begin(), order.end(), value.order.begin(), value.order.end()),
           "'{}' is to be transposed to other axes", name_);
  return {add(OpKind::Transpose, ".transpose", {value.tensor}, {.result_names = names(order)}), order};
}

// The operand by the axes that the op sees.
Value Emitter::operand(int n, std::size_t k) {
  const int from = node(n).inputs[k];
  const Value value = values_[static_cast<std::size_t>(from)];
  const std::vector<AxisList> own = axes_.of(from), seen = axes_.of_operand(n, k);
  if (own == seen) return value;
  AxisList order = value.order;
  bool alike = true;
  for (std::size_t d = 0; d < own.size(); ++d) alike = alike && own[d].size() == seen[d].size();
  if (alike) {
    for (std::size_t d = 0; d < own.size(); ++d)
      for (std::size_t i = 0; i < own[d].size(); ++i) alike = alike && size(own[d][i]) == size(seen[d][i]);
    const AxisList before = joined(own), now = joined(seen);
    for (int& axis : order)
      axis = now[static_cast<std::size_t>(std::find(before.begin(), before.end(), axis) - before.begin())];
  }
  if (alike) return {add(OpKind::Reshape, ".renamed", {value.tensor}, {.result_dims = dims(order)}), order};
  const Value logical = ordered(value, joined(own));
  return {add(OpKind::Reshape, ".regrouped", {logical.tensor}, {.result_dims = dims(joined(seen))}), joined(seen)};
}

// The order of that operand's axes where the op sees it with those it has.
AxisList Emitter::operand_order(int n, std::size_t k) const {
  const int from = node(n).inputs[k];
  const std::vector<AxisList> seen = axes_.of_operand(n, k);
  return axes_.of(from) == seen ? values_[static_cast<std::size_t>(from)].order : joined(seen);
}

// Repeated to all of `order`.
Value Emitter::widened(const Value& value, const AxisList& order) {
  AxisList own;
  for (const int axis : order)
    if (std::find(value.order.begin(), value.order.end(), axis) != value.order.end()) own.push_back(axis);
  const Value sorted = ordered(value, own);
  if (own == order) return sorted;
  return {add(OpKind::Broadcast, ".broadcast", {sorted.tensor}, {.result_dims = dims(order)}), order};
}

bool Emitter::plain(const std::vector<Wanted>& wanted) const {
  return std::all_of(wanted.begin(), wanted.end(), [](const Wanted& of) { return of.axes.size() == 1; });
}

TensorId Emitter::shaped(const Value& value, const std::vector<Wanted>& wanted) {
  AxisList order;
  std::vector<Dim> to;
  for (const Wanted& of : wanted) {
    order.insert(order.end(), of.axes.begin(), of.axes.end());
    to.push_back(of.axes.size() == 1 ? dim(of.axes[0]) : Dim{of.name, product(of.axes)});
  }
  const Value sorted = ordered(value, order);
  return plain(wanted) ? sorted.tensor : add(OpKind::Reshape, ".grouped", {sorted.tensor}, {.result_dims = to});
}

Value Emitter::unshaped(TensorId tensor, const std::vector<Wanted>& has) {
  AxisList order;
  for (const Wanted& of : has) order.insert(order.end(), of.axes.begin(), of.axes.end());
  if (!plain(has)) tensor = add(OpKind::Reshape, ".ungrouped", {tensor}, {.result_dims = dims(order)});
  return {tensor, order};
}

// `wanted`: all of the value, dimension `dim` of node n's operand 0 last and one.
Value Emitter::with_last(int n, const Value& value, std::size_t dim, std::vector<Wanted>& wanted) {
  const AxisList last = axes_.of_operand(n, 0)[dim];
  for (const int axis : value.order)
    if (std::find(last.begin(), last.end(), axis) == last.end()) wanted.push_back({{axis}, ""});
  wanted.push_back({last, "row"});
  return value;
}

// --- leaves ---

Value Emitter::leaf(int n) {
  const Node& of = node(n);
  AxisList order = joined(axes_.of(n));
  const std::vector<AxisList> by_dim = axes_.of(n);
  const auto reader = first_reader_.find(n);
  const bool of_image = reader != first_reader_.end() && reader->second.first->kind == Kind::Convolution &&
                        reader->second.second == 0 && of.kind == Kind::Input;
  if (of_image) order = joined({by_dim[0], by_dim[2], by_dim[3], by_dim[1]});
  const TensorKind kind = of.kind == Kind::Parameter ? TensorKind::Parameter : TensorKind::Input;
  const std::string name = of.name.empty() ? "constant" : of.name;
  return {graph_.add_tensor(unique(name), kind, of.integer ? DType::I32 : graph_.dtype, dims(order)), order};
}

TensorId Emitter::parameter_of(int n, const std::vector<Wanted>& wanted) {
  std::vector<Dim> to;
  for (const Wanted& of : wanted) to.push_back(of.axes.size() == 1 ? dim(of.axes[0]) : Dim{of.name, product(of.axes)});
  return graph_.add_tensor(unique(node(n).name), TensorKind::Parameter, graph_.dtype, to);
}

std::optional<double> Emitter::scalar(int n) const {
  const Node* of = &node(n);
  while (of->kind == Kind::Broadcast || of->kind == Kind::Reshape) of = &node(of->inputs[0]);
  if (of->values && of->values->size() == 1) return of->values->front();
  return std::nullopt;
}

// --- elementwise ---

Value Emitter::scaled(int n, int x, double scale) {
  const std::size_t k = node(n).inputs[0] == x ? 0 : 1;
  const Value value = operand(n, k);
  return {add(OpKind::Scale, "", {value.tensor}, {.scale = scale}), value.order};
}

Value Emitter::binary(int n) {
  const Node& of = node(n);
  if (of.kind == Kind::Multiply)
    for (const std::size_t k : {0, 1})
      if (const auto factor = scalar(of.inputs[k])) return scaled(n, of.inputs[1 - k], *factor);
  Value x = operand(n, 0), y = operand(n, 1);
  const AxisList all = joined(axes_.of(n));
  const bool y_larger = y.order.size() > x.order.size();
  AxisList order = y_larger ? y.order : x.order;
  if (order.size() != all.size()) order = all;
  if (of.kind == Kind::Add) {  // a bias over the trailing dimensions
    const Value &small = y_larger ? x : y, &large = y_larger ? y : x;
    const bool trailing = small.order.size() < large.order.size() && !small.order.empty() && order == large.order &&
                          std::equal(small.order.rbegin(), small.order.rend(), large.order.rbegin());
    if (trailing) return {add(OpKind::BiasAdd, "", {large.tensor, small.tensor}), order};
  }
  x = widened(x, order);
  y = widened(y, order);
  const OpKind kind = of.kind == Kind::Add        ? OpKind::Add
                      : of.kind == Kind::Subtract ? OpKind::Subtract
                      : of.kind == Kind::Multiply ? OpKind::Multiply
                                                  : OpKind::Compare;
  return {add(kind, "", {x.tensor, y.tensor}, {.comparison = of.details.comparison}), order};
}

Value Emitter::select(int n) {
  const AxisList order = joined(axes_.of(n));
  std::vector<TensorId> inputs;
  for (const std::size_t k : {0, 1, 2}) inputs.push_back(widened(operand(n, k), order).tensor);
  return {add(OpKind::Select, "", inputs), order};
}

Value Emitter::unary(int n) {
  const Node& of = node(n);
  const Value x = operand(n, 0);
  if (of.kind == Kind::Square) return {add(OpKind::Multiply, "", {x.tensor, x.tensor}), x.order};
  if (of.kind == Kind::ToFloat) return {add(OpKind::Cast, "", {x.tensor}, {.dtype = graph_.dtype}), x.order};
  if (of.kind == Kind::Dropout)
    return {add(OpKind::Dropout, "", {x.tensor},
                {.probability = of.details.number, .seed = static_cast<std::uint64_t>(n) + 1}),
            x.order};
  return {add(*unary_kind(of.kind), "", {x.tensor}), x.order};
}

// --- products and tables ---

Value Emitter::matmul(int n) {
  const Value x = operand(n, 0), y = operand(n, 1);
  const AxisList all = joined(axes_.of(n));
  AxisList order;
  for (const Value* of : {&x, &y})
    for (const int axis : of->order)
      if (std::find(all.begin(), all.end(), axis) != all.end() &&
          std::find(order.begin(), order.end(), axis) == order.end())
        order.push_back(axis);
  return {add(OpKind::Contract, "", {x.tensor, y.tensor}, {.result_names = names(order)}), order};
}

Value Emitter::gather(int n) {
  const Value ids = operand(n, 1);
  const std::vector<AxisList> table = axes_.of_operand(n, 0);
  std::vector<AxisList> row(table.begin() + 1, table.end());
  const std::vector<Wanted> wanted = {{table[0], "rows"}, {joined(row), "row"}};
  std::vector<Wanted> has;
  for (const int axis : ids.order) has.push_back({{axis}, ""});
  has.push_back({joined(row), "row"});
  return unshaped(add(OpKind::Embedding, "", {ids.tensor, shaped(operand(n, 0), wanted)}), has);
}

Value Emitter::reduce(int n) {
  const Node& of = node(n);
  const Value x = operand(n, 0);
  const AxisList kept = joined(axes_.of(n));
  AxisList order;
  for (const int axis : x.order)
    if (std::find(kept.begin(), kept.end(), axis) != kept.end()) order.push_back(axis);
  if (order == x.order) return x;
  const double count = static_cast<double>(product(x.order)) / static_cast<double>(product(order));
  Attributes attributes{.result_names = names(order)};
  if (of.kind == Kind::ReduceMean) attributes.scale = 1.0 / count;
  return {add(of.kind == Kind::ReduceMax ? OpKind::ReduceMax : OpKind::ReduceSum, "", {x.tensor}, attributes), order};
}

// --- products of which only slices are read ---

// Whether every reader of n is a slice of one index of `axis`; `chain`: the nodes between the product and the slices.
bool Emitter::only_slices(int n, int axis, std::vector<int>& chain, std::set<std::int64_t>& indices) const {
  chain.push_back(n);
  const auto readers = readers_of_.find(n);
  if (readers == readers_of_.end() || chain.size() > 16) return false;
  for (const int reader : readers->second) {
    const Node& of = node(reader);
    if (axes_.of_operand(reader, 0) != axes_.of(of.inputs[0])) return false;
    if (of.kind == Kind::Slice) {
      const Cut cut = cut_of(reader);
      if (cut.from != AxisList{axis} || !cut.to.empty()) return false;
      indices.insert(of.details.start[0] / product(cut.inner));
      continue;
    }
    const bool bias = of.kind == Kind::Add && of.inputs[0] == n && is_own_parameter(of.inputs[1]) &&
                      axes_.of_operand(reader, 1) == axes_.of(of.inputs[1]) &&
                      joined(axes_.of(of.inputs[1])) == axes_.of(n).back();
    const bool moves = (of.kind == Kind::Reshape && !axes_.explicit_reshape(reader)) || of.kind == Kind::Transpose;
    if ((!bias && !moves) || !only_slices(reader, axis, chain, indices)) return false;
  }
  return true;
}

// A fused projection of queries, keys and values: each part of the weight makes its part of the result, so that no
// slice has to be copied and each can be split along its own heads.
void Emitter::find_parts(int n) {
  if (node(n).kind != Kind::MatMul || !is_own_parameter(node(n).inputs[1])) return;
  if (axes_.of_operand(n, 1) != axes_.of(node(n).inputs[1])) return;
  const AxisList columns = axes_.of(n).back();
  for (const int axis : columns) {
    std::vector<int> chain;
    std::set<std::int64_t> indices;
    if (!only_slices(n, axis, chain, indices) || static_cast<std::int64_t>(indices.size()) != size(axis)) continue;
    for (const int part : chain) {
      part_axis_[part] = axis;
      for (const int input : node(part).inputs)
        if (node(input).kind == Kind::Parameter) part_axis_[input] = -1;
    }
    return;
  }
}

// "<name>.0", "<name>.1", ...: a parameter's parts along the axis, which `order` loses.
std::vector<TensorId> Emitter::parameter_parts(int n, int axis, AxisList& order) {
  order = joined(axes_.of(n));
  order.erase(std::find(order.begin(), order.end(), axis));
  std::vector<TensorId> parts;
  for (std::int64_t i = 0; i < size(axis); ++i)
    parts.push_back(graph_.add_tensor(unique(fmt::format("{}.{}", node(n).name, i)), TensorKind::Parameter,
                                      graph_.dtype, dims(order)));
  return parts;
}

Value Emitter::part_by_part(int n) {
  const int axis = part_axis_.at(n);
  const Node& of = node(n);
  const std::string whole_name = name_;
  Value made;
  if (of.kind == Kind::Reshape || of.kind == Kind::Transpose) return values_[static_cast<std::size_t>(of.inputs[0])];
  AxisList order;
  const std::vector<TensorId> weights = parameter_parts(of.inputs[1], axis, order);
  const Value x = of.kind == Kind::MatMul ? operand(n, 0) : values_[static_cast<std::size_t>(of.inputs[0])];
  if (of.kind == Kind::MatMul) {
    const AxisList contracted = axes_.of_operand(n, 0).back();
    const auto is_contracted = [&](int met) {
      return std::find(contracted.begin(), contracted.end(), met) != contracted.end();
    };
    for (const int met : x.order)
      if (!is_contracted(met)) made.order.push_back(met);
    for (const int met : order)
      if (!is_contracted(met)) made.order.push_back(met);
  } else {
    made.order = x.order;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    name_ = fmt::format("{}.{}", whole_name, i);
    made.parts.push_back(of.kind == Kind::MatMul
                             ? add(OpKind::Contract, "", {x.tensor, weights[i]}, {.result_names = names(made.order)})
                             : add(OpKind::BiasAdd, "", {x.parts[i], weights[i]}));
  }
  name_ = whole_name;
  return made;
}

// --- shapes ---

// What the result shares of the sliced dimension, its inner axes, is no part of the slice.
Emitter::Cut Emitter::cut_of(int n) const {
  const auto d = static_cast<std::size_t>(node(n).details.axes[0]);
  Cut cut{axes_.of_operand(n, 0)[d], axes_.of(n)[d], {}};
  while (!cut.from.empty() && !cut.to.empty() && cut.from.back() == cut.to.back()) {
    cut.inner.insert(cut.inner.begin(), cut.from.back());
    cut.from.pop_back();
    cut.to.pop_back();
  }
  return cut;
}

Value Emitter::slice(int n) {
  const Node& of = node(n);
  const auto [from, to, inner] = cut_of(n);
  const Value& source = values_[static_cast<std::size_t>(of.inputs[0])];
  if (!source.parts.empty())
    return {source.parts[static_cast<std::size_t>(of.details.start[0] / product(inner))], source.order};
  const Value x = operand(n, 0);
  std::vector<Wanted> wanted, has;
  bool placed = false;
  for (const int axis : x.order) {
    const bool sliced = std::find(from.begin(), from.end(), axis) != from.end();
    if (!sliced) {
      wanted.push_back({{axis}, ""});
      has.push_back({{axis}, ""});
    } else if (!placed) {
      placed = true;
      wanted.push_back({from, "whole"});
      has.push_back({to, "part"});
    }
  }
  const TensorId whole = shaped(x, wanted);
  std::vector<Dim> result = graph_.tensor(whole).dims;
  for (std::size_t k = 0; k < has.size(); ++k)
    if (has[k].name == "part") result[k] = to.size() == 1 ? dim(to[0]) : Dim{"part", product(to)};
  const TensorId sliced =
      add(OpKind::Slice, "", {whole}, {.result_dims = result, .start = of.details.start[0] / product(inner)});
  return unshaped(sliced, has);
}

Value Emitter::concat(int n) {
  const Node& of = node(n);
  const auto d = static_cast<std::size_t>(of.details.axes[0]);
  const AxisList whole = axes_.of(n)[d];
  // The dimensions lie as in the first operand that has more than one element of what is put together.
  std::size_t base = 0;
  while (base + 1 < of.inputs.size() && axes_.of_operand(n, base)[d].empty()) ++base;
  const AxisList along = axes_.of_operand(n, base)[d];
  std::vector<Wanted> has;
  for (const int axis : operand_order(n, base)) {
    if (std::find(along.begin(), along.end(), axis) == along.end())
      has.push_back({{axis}, ""});
    else if (axis == along.front())
      has.push_back({whole, "whole"});
  }
  if (along.empty()) has.push_back({whole, "whole"});
  std::vector<TensorId> pieces;
  for (std::size_t k = 0; k < of.inputs.size(); ++k) {
    std::vector<Wanted> wanted = has;
    for (Wanted& dim_of : wanted)
      if (dim_of.axes == whole) dim_of = {axes_.of_operand(n, k)[d], fmt::format("piece{}", k + 1)};
    pieces.push_back(shaped(operand(n, k), wanted));
  }
  std::vector<Dim> result;
  for (const Wanted& of_dim : has)
    result.push_back(of_dim.axes.size() == 1 ? dim(of_dim.axes[0]) : Dim{of_dim.name, product(of_dim.axes)});
  return unshaped(add(OpKind::Concat, "", pieces, {.result_dims = result}), has);
}

Value Emitter::reshape(int n) {
  const int from = node(n).inputs[0];
  const Value x = values_[static_cast<std::size_t>(from)];
  if (!axes_.explicit_reshape(n)) return x;
  const AxisList order = joined(axes_.of(n));
  const Value logical = ordered(x, joined(axes_.of(from)));
  return {add(OpKind::Reshape, "", {logical.tensor}, {.result_dims = dims(order)}), order};
}

// --- images ---

// (batch, height, width, [groups], channels)
std::vector<Wanted> Emitter::image(const std::vector<AxisList>& of, bool grouped) const {
  std::vector<Wanted> wanted = {{of[0], "batch"}, {of[2], "height"}, {of[3], "width"}};
  AxisList channels = of[1];
  if (grouped) {
    wanted.push_back({{channels.front()}, ""});
    channels.erase(channels.begin());
  }
  wanted.push_back({channels, "channel"});
  return wanted;
}

Value Emitter::convolution(int n) {
  const Node& of = node(n);
  const bool grouped = of.details.groups > 1;
  const std::vector<AxisList> w = axes_.of_operand(n, 1);
  std::vector<Wanted> weight = {{w[2], "kh"}, {w[3], "kw"}, {w[1], "channel"}, {w[0], "out_channel"}};
  if (grouped) {
    AxisList out(w[0].begin() + 1, w[0].end());
    weight[3].axes = out;
    weight.insert(weight.begin(), {{w[0].front()}, ""});
  }
  std::vector<Wanted> result = image(axes_.of(n), grouped);
  result.back().name = "out_channel";
  const TensorId x = shaped(operand(n, 0), image(axes_.of_operand(n, 0), grouped));
  std::vector<Dim> spatial;
  for (const std::size_t k : {1, 2})
    spatial.push_back(result[k].axes.size() == 1 ? dim(result[k].axes[0])
                                                 : Dim{result[k].name, product(result[k].axes)});
  for (std::size_t k = 0; k < 2; ++k)  // a size that is not kept needs a name that x lacks
    if (graph_.tensor(x).dims[k + 1].name == spatial[k].name && graph_.tensor(x).dims[k + 1].size != spatial[k].size)
      spatial[k].name += "_out";
  // A weight of one convolution alone is made as that needs it.
  const int w_node = of.inputs[1];
  const bool own = node(w_node).kind == Kind::Parameter && readers_of_.at(w_node).size() == 1;
  const TensorId w_tensor = own ? parameter_of(w_node, weight) : shaped(operand(n, 1), weight);
  const TensorId made = add(OpKind::Convolution, "", {x, w_tensor},
                            {.result_dims = spatial,
                             .stride = of.details.stride,
                             .pad_before = of.details.before,
                             .pad_after = of.details.after});
  return unshaped(made, result);
}

Value Emitter::pool(int n) {
  const Node& of = node(n);
  std::vector<Wanted> result = image(axes_.of(n), false);
  const TensorId x = shaped(operand(n, 0), image(axes_.of_operand(n, 0), false));
  std::vector<Dim> spatial;
  for (const std::size_t k : {1, 2}) {
    spatial.push_back(result[k].axes.size() == 1 ? dim(result[k].axes[0])
                                                 : Dim{result[k].name, product(result[k].axes)});
    const Dim& from = graph_.tensor(x).dims[k];
    if (from.name == spatial.back().name && from.size != spatial.back().size) spatial.back().name += "_out";
  }
  const TensorId made = add(of.kind == Kind::MaxPool ? OpKind::MaxPool : OpKind::AveragePool, "", {x},
                            {.result_dims = spatial,
                             .window = of.details.window,
                             .stride = of.details.stride,
                             .pad_before = of.details.before,
                             .pad_after = of.details.after});
  return unshaped(made, result);
}

// --- normalisations ---

Value Emitter::norm(int n) {
  const Node& of = node(n);
  std::vector<Wanted> wanted;
  const Value value = with_last(n, operand(n, 0), of.shape.size() - 1, wanted);
  const TensorId x = shaped(value, wanted);
  std::vector<TensorId> inputs = {x};
  for (std::size_t k = 1; k < of.inputs.size(); ++k) inputs.push_back(shaped(operand(n, k), {wanted.back()}));
  const OpKind kind = of.kind == Kind::LayerNorm ? OpKind::LayerNorm : OpKind::RmsNorm;
  return unshaped(add(kind, "", inputs, {.epsilon = of.details.number}), wanted);
}

Value Emitter::batch_norm(int n) {
  std::vector<Wanted> wanted;
  const Value value = with_last(n, operand(n, 0), 1, wanted);
  const TensorId x = shaped(value, wanted);
  const TensorId sums = add(OpKind::BatchSums, ".sums", {x});
  const double count =
      static_cast<double>(graph_.tensor(x).elements()) / static_cast<double>(graph_.tensor(x).dims.back().size);
  std::vector<TensorId> inputs = {x, sums};
  for (const std::size_t k : {1, 2}) inputs.push_back(shaped(operand(n, k), {wanted.back()}));
  return unshaped(add(OpKind::BatchNorm, "", inputs, {.scale = 1.0 / count, .epsilon = node(n).details.number}),
                  wanted);
}

Value Emitter::softmax(int n) {
  std::vector<Wanted> wanted;
  const Value value = with_last(n, operand(n, 0), static_cast<std::size_t>(node(n).details.axes[0]), wanted);
  return unshaped(add(OpKind::Softmax, "", {shaped(value, wanted)}), wanted);
}

// --- attention ---

Value Emitter::attention(int n) {
  const std::vector<AxisList> q = axes_.of_operand(n, 0), k = axes_.of_operand(n, 1), v = axes_.of_operand(n, 2);
  const AxisList group(q[1].begin() + static_cast<std::ptrdiff_t>(k[1].size()), q[1].end());
  const Wanted batch{q[0], "batch"}, seq{q[2], "seq"}, heads{k[1], "kv_heads"}, width{q[3], "head_dim"},
      keys{k[2], "kv_seq"}, value{v[3], v[3] == q[3] ? "head_dim" : "v_dim"};
  const TensorId queries = shaped(operand(n, 0), {batch, seq, heads, {group, "group"}, width});
  // A query meets every key, so their positions are two dimensions.
  const auto of_keys = [&](std::size_t operand_of, const Wanted& last, const char* suffix) {
    const TensorId made = shaped(operand(n, operand_of), {batch, keys, heads, last});
    std::vector<Dim> to = graph_.tensor(made).dims;
    const std::vector<Dim>& of_q = graph_.tensor(queries).dims;
    const bool shared = std::any_of(of_q.begin(), of_q.end(), [&](const Dim& met) { return met.name == to[1].name; });
    to[1].name = "kv_seq";
    return shared ? add(OpKind::Reshape, suffix, {made}, {.result_dims = to}) : made;
  };
  // A scale of 1 stands for 1 / sqrt(head_dim); the next representable number stands for 1.
  const double given = node(n).details.number;
  const double scale = given == 0.0 ? 1.0 : given == 1.0 ? std::nextafter(1.0, 2.0) : given;
  const TensorId made =
      add(OpKind::GroupedAttention, "", {queries, of_keys(1, width, ".keys"), of_keys(2, value, ".values")},
          {.scale = scale, .causal = node(n).details.causal});
  return unshaped(made, {batch, seq, heads, {group, "group"}, value});
}

Value Emitter::rotary(int n) {
  const Node& of = node(n);
  const std::vector<AxisList> x = axes_.of_operand(n, 0);
  const auto positions = static_cast<std::size_t>(of.details.axes[0]);
  std::vector<Wanted> wanted = {{{}, "batch"}, {x[positions], "seq"}};
  const Value value = operand(n, 0);
  for (const int axis : value.order) {
    const auto in = [&](const AxisList& list) { return std::find(list.begin(), list.end(), axis) != list.end(); };
    if (axis == Axes::batch())
      wanted[0].axes = {axis};
    else if (!in(x[positions]) && !in(x.back()))
      wanted.push_back({{axis}, ""});
  }
  wanted.push_back({x.back(), "head_dim"});
  return unshaped(add(OpKind::Rotary, "", {shaped(value, wanted)},
                      {.rotary_base = of.details.number, .rotary_dims = of.details.window[0]}),
                  wanted);
}

// --- all ---

void Emitter::emit(int n) {
  const Node& of = node(n);
  name_ = of.name.empty() ? name_of(of.kind) : of.name;
  if (of.inputs.empty()) {
    const auto reader = first_reader_.find(n);
    const bool of_convolution = of.kind == Kind::Parameter && readers_of_[n].size() == 1 &&
                                reader->second.first->kind == Kind::Convolution && reader->second.second == 1;
    if (!scalar(n) && !of_convolution && !part_axis_.contains(n)) values_[static_cast<std::size_t>(n)] = leaf(n);
    return;
  }
  const auto made = [&]() -> Value {
    if (part_axis_.contains(n)) return part_by_part(n);
    switch (of.kind) {
      case Kind::Add:
      case Kind::Subtract:
      case Kind::Multiply:
      case Kind::Compare:
        return binary(n);
      case Kind::Select:
        return select(n);
      case Kind::Reshape:
        return reshape(n);
      case Kind::Transpose:
        return values_[static_cast<std::size_t>(of.inputs[0])];
      case Kind::Broadcast:
        return widened(operand(n, 0), joined(axes_.of(n)));
      case Kind::Slice:
        return slice(n);
      case Kind::Concat:
        return concat(n);
      case Kind::ReduceSum:
      case Kind::ReduceMean:
      case Kind::ReduceMax:
        return reduce(n);
      case Kind::MatMul:
        return matmul(n);
      case Kind::Convolution:
        return convolution(n);
      case Kind::MaxPool:
      case Kind::AveragePool:
        return pool(n);
      case Kind::Gather:
        return gather(n);
      case Kind::Softmax:
        return softmax(n);
      case Kind::LayerNorm:
      case Kind::RmsNorm:
        return norm(n);
      case Kind::BatchNorm:
        return batch_norm(n);
      case Kind::Attention:
        return attention(n);
      case Kind::Rotary:
        return rotary(n);
      default:
        return unary(n);
    }
  };
  if (!scalar(n)) values_[static_cast<std::size_t>(n)] = made();
}

void Emitter::add_loss(LossReduction reduction) {
  const ModelConfig none;
  ModelWriter writer(graph_, none);
  const Node& result = node(module_.result);
  if (result.kind == Kind::CrossEntropy) {
    std::vector<Wanted> wanted;
    const Value logits =
        with_last(module_.result, operand(module_.result, 0), node(result.inputs[0]).shape.size() - 1, wanted);
    const TensorId x = shaped(logits, wanted);
    std::vector<Dim> rows = graph_.tensor(x).dims;
    rows.pop_back();
    TensorId labels{0};
    const Node& given = node(result.inputs[1]);
    if (given.inputs.empty()) {
      labels =
          graph_.add_tensor(unique(given.name.empty() ? "labels" : given.name), TensorKind::Input, DType::I32, rows);
    } else {
      AxisList order;
      for (std::size_t k = 0; k + 1 < wanted.size(); ++k) order.push_back(wanted[k].axes[0]);
      labels = ordered(operand(module_.result, 1), order).tensor;
    }
    graph_.loss = writer.cross_entropy(x, labels, reduction);
    return;
  }
  require(reduction != LossReduction::TokenWeighted,
          "model '{}': its loss has no tokens that could be weighted; choose the mean or the sum.", graph_.name);
  const Value& made = values_[static_cast<std::size_t>(module_.result)];
  const TensorId target = graph_.add_tensor(unique("target"), TensorKind::Input, graph_.dtype, dims(made.order));
  const double terms = static_cast<double>(graph_.tensor(target).elements()) * static_cast<double>(graph_.microbatches);
  graph_.loss = graph_.add_op(OpKind::SquaredErrorLoss, unique("loss"), {made.tensor, target},
                              {.scale = reduction == LossReduction::Mean ? 1.0 / terms : 1.0})[0];
}

void Emitter::run(const std::vector<int>& blocks, LossReduction reduction) {
  for (const char* taken : {"head.row_max", "head.sum_exp", "head.pick_label", "head.loss", "loss_weights"})
    used_[taken] = 1;
  const bool ends_in_loss = node(module_.result).kind == Kind::CrossEntropy;
  for (int n = 0; n < static_cast<int>(module_.nodes.size()); ++n) {
    if (ends_in_loss && n == module_.result) continue;
    // Labels are made with the loss, whose rows they have.
    if (ends_in_loss && n == node(module_.result).inputs[1] && node(n).inputs.empty()) continue;
    graph_.current_block = blocks[static_cast<std::size_t>(n)];
    emit(n);
  }
  graph_.current_block = -1;
  name_ = "head";
  add_loss(reduction);
}

}  // namespace

void expect_emittable(const Module& module) {
  std::map<std::string, std::pair<int, std::string>> unknown;  // their number and the first one's name
  for (const Node& node : module.nodes) {
    const auto is_scalar = [&](int i) {
      const Node& of = module.nodes[static_cast<std::size_t>(i)];
      return of.constant && elements_of(of.shape) == 1;
    };
    const bool shift = (node.kind == Kind::Add || node.kind == Kind::Subtract) &&
                       std::any_of(node.inputs.begin(), node.inputs.end(), is_scalar);
    if ((is_emittable(node.kind) && !shift) || node.constant) continue;
    const std::string name = shift ? fmt::format("{} of a number", name_of(node.kind)) : name_of(node.kind);
    auto& [count, first] = unknown[name];
    if (count++ == 0) first = node.name;
  }
  std::vector<std::string> texts;
  for (const auto& [name, what] : unknown)
    texts.push_back(fmt::format("{} ({}, the first '{}')", name, what.first, what.second));
  require(unknown.empty(), "ops outside of known patterns that have no equal here: {}; see docs/models.md.",
          join(texts, ", "));
}

void emit(const Module& module, const Axes& axes, const std::vector<int>& blocks, Graph& graph,
          LossReduction reduction) {
  Emitter(module, axes, graph).run(blocks, reduction);
}

}  // namespace meshwright::primitive
