// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/axes.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::primitive {

namespace {

constexpr int kMaxOperands = 64;  // that are told from each other; a concatenation of more has some views in common

}  // namespace

// --- lists ---

int Axes::find(int axis) const {
  while (axes_[static_cast<std::size_t>(axis)].same_as >= 0) axis = axes_[static_cast<std::size_t>(axis)].same_as;
  return axis;
}

void Axes::resolve(int axis, AxisList& into) const {
  AxisList open = {axis};
  while (!open.empty()) {
    const int next = find(open.back());
    open.pop_back();
    const AxisList& parts = axes_[static_cast<std::size_t>(next)].parts;
    if (parts.empty())
      into.push_back(next);
    else
      open.insert(open.end(), parts.rbegin(), parts.rend());
  }
}

AxisList Axes::resolved(const AxisList& list) const {
  AxisList found;
  for (const int axis : list) resolve(axis, found);
  return found;
}

AxisList Axes::fresh(std::int64_t size) {
  if (size == 1) return {};
  AxisList list;
  if (holds_batch(size)) {
    list.push_back(batch());
    size /= kBatchProbe;
    if (size == 1) return list;
  }
  axes_.push_back({size});
  list.push_back(static_cast<int>(axes_.size()) - 1);
  return list;
}

// As many axes of the same sizes, none of them the batch.
AxisList Axes::fresh_of(int node, const AxisList& list) {
  AxisList others;
  for (const int axis : resolved(list)) {
    require(axis != batch(),
            "op '{}': each sample meets every other one, so that the batch cannot be cut into micro-batches; leave the "
            "op out.",
            module_.nodes[static_cast<std::size_t>(node)].name);
    for (const int made : fresh(size(axis))) others.push_back(made);
  }
  return others;
}

// Whether a tensor has both.
bool Axes::together(int a, int b) const {
  const std::vector<int>&of_a = axes_[static_cast<std::size_t>(a)].nodes,
        &of_b = axes_[static_cast<std::size_t>(b)].nodes;
  const std::set<int> met(of_a.begin(), of_a.end());
  return std::any_of(of_b.begin(), of_b.end(), [&](int node) { return met.contains(node); });
}

void Axes::part(int axis, std::int64_t outer) {
  const Axis whole = axes_[static_cast<std::size_t>(axis)];
  const int first = static_cast<int>(axes_.size());
  axes_.push_back({outer});
  axes_.push_back({whole.size / outer});
  for (const int made : {first, first + 1}) axes_[static_cast<std::size_t>(made)].nodes = whole.nodes;
  axes_[static_cast<std::size_t>(axis)].parts = {first, first + 1};
}

// Parts axis i of `list` into itself and one of size 1, where the other list has such an axis behind its own.
bool Axes::takes_group_of_one(const AxisList& list, const AxisList& other, std::size_t i) {
  const auto follows = [&](const AxisList& in) { return i + 1 < in.size() && size(in[i + 1]) == 1; };
  if (size(list[i]) == 1 || !follows(other) || follows(list)) return false;
  if (axes_[static_cast<std::size_t>(list[i])].whole || list[i] == batch()) return false;
  part(list[i], size(list[i]));
  return true;
}

bool Axes::unify(const AxisList& one, const AxisList& other) {
  AxisList a = resolved(one), b = resolved(other);
  std::size_t i = 0;
  while (i < a.size() && i < b.size()) {
    if (a[i] == b[i]) {
      ++i;
      continue;
    }
    const std::int64_t x = size(a[i]), y = size(b[i]);
    if (x == y) {
      if (takes_group_of_one(b, a, i) || takes_group_of_one(a, b, i)) {
        a = resolved(one);
        b = resolved(other);
        continue;
      }
      if (together(a[i], b[i]) || a[i] == batch() || b[i] == batch()) return false;
      Axis &kept = axes_[static_cast<std::size_t>(a[i])], &gone = axes_[static_cast<std::size_t>(b[i])];
      kept.nodes.insert(kept.nodes.end(), gone.nodes.begin(), gone.nodes.end());
      kept.whole = kept.whole || gone.whole;
      if (gone.rank > kept.rank) kept.role = gone.role, kept.rank = gone.rank;
      gone.same_as = a[i];
    } else {
      const int larger = x > y ? a[i] : b[i];
      if (std::max(x, y) % std::min(x, y) != 0 || axes_[static_cast<std::size_t>(larger)].whole || larger == batch())
        return false;
      part(larger, std::min(x, y));
    }
    a = resolved(one);
    b = resolved(other);
  }
  return i == a.size() && i == b.size();
}

void Axes::give_role(const AxisList& list, const char* role, int rank) {
  const AxisList now = resolved(list);
  if (now.size() != 1) return;
  Axis& axis = axes_[static_cast<std::size_t>(now[0])];
  if (rank > axis.rank) axis.role = role, axis.rank = rank;
}

void Axes::keep_whole(const AxisList& list) {
  const AxisList now = resolved(list);
  if (now.size() == 1) axes_[static_cast<std::size_t>(now[0])].whole = true;
}

// --- nodes ---

std::vector<AxisList> Axes::of(int node) const {
  std::vector<AxisList> found;
  for (const AxisList& dim : dims_[static_cast<std::size_t>(node)]) found.push_back(resolved(dim));
  return found;
}

std::vector<AxisList> Axes::of_operand(int node, std::size_t operand) const {
  const auto other = seen_.find({node, operand});
  if (other == seen_.end()) return of(module_.nodes[static_cast<std::size_t>(node)].inputs[operand]);
  std::vector<AxisList> found;
  for (const AxisList& dim : other->second) found.push_back(resolved(dim));
  return found;
}

const std::vector<AxisList>& Axes::input(int node, std::size_t operand) const {
  return dims_[static_cast<std::size_t>(module_.nodes[static_cast<std::size_t>(node)].inputs[operand])];
}

void Axes::see(int node, std::size_t operand, std::size_t dim, const AxisList& axes) {
  const auto [view, is_new] = seen_.try_emplace({node, operand}, input(node, operand));
  view->second[dim] = axes;
  // What is seen has its axes together as a node has: none of them becomes another one later.
  const int seen = -1 - (node * kMaxOperands + static_cast<int>(operand % kMaxOperands));
  for (const AxisList& of : view->second)
    for (const int axis : resolved(of)) axes_[static_cast<std::size_t>(axis)].nodes.push_back(seen);
}

// Dimension `dim` of the operand is `axes`, or is seen so.
void Axes::match(int node, std::size_t operand, std::size_t dim, const AxisList& axes) {
  if (!unify(axes, input(node, operand)[dim])) see(node, operand, dim, axes);
}

void Axes::set(int node, std::vector<AxisList> dims) {
  for (const AxisList& dim : dims)
    for (const int axis : resolved(dim)) axes_[static_cast<std::size_t>(axis)].nodes.push_back(node);
  dims_[static_cast<std::size_t>(node)] = std::move(dims);
}

// Whether dimension d has an axis that a dimension before it has.
bool Axes::meets_itself(const std::vector<AxisList>& dims, std::size_t d) const {
  const AxisList own = resolved(dims[d]);
  for (std::size_t before = 0; before < d; ++before)
    for (const int axis : resolved(dims[before]))
      if (std::find(own.begin(), own.end(), axis) != own.end()) return true;
  return false;
}

// The result's axes are those of the first activation that has the dimension.
void Axes::elementwise(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const std::size_t rank = node.shape.size();
  std::vector<AxisList> result(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    if (node.shape[d] == 1) continue;
    std::vector<std::pair<std::size_t, std::size_t>> having;  // operand, its dimension
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const Node& operand = module_.nodes[static_cast<std::size_t>(node.inputs[k])];
      if (d + operand.shape.size() < rank) continue;
      const std::size_t own = d + operand.shape.size() - rank;
      if (operand.shape[own] == 1) continue;
      require(operand.shape[own] == node.shape[d],
              "op '{}': '{}' is made for the file's own batch; export the model with a batch that is left open.",
              node.name, operand.name);
      if (operand.inputs.empty())
        having.emplace_back(k, own);
      else
        having.emplace(
            having.begin() +
                (having.empty() || module_.nodes[static_cast<std::size_t>(node.inputs[having[0].first])].inputs.empty()
                     ? 0
                     : static_cast<std::ptrdiff_t>(having.size())),
            k, own);
    }
    result[d] = having.empty() ? fresh(node.shape[d]) : input(n, having[0].first)[having[0].second];
    if (meets_itself(result, d)) {
      // A dimension that meets itself, as the positions of a mask do: the second one is another.
      require(
          !holds_batch(node.shape[d]),
          "op '{}': each sample meets every other one, so that the batch cannot be cut into micro-batches; leave the "
          "op out.",
          node.name);
      result[d] = fresh(node.shape[d]);
      for (const auto& [operand, own] : having) see(n, operand, own, result[d]);
      continue;
    }
    for (std::size_t h = 1; h < having.size(); ++h) match(n, having[h].first, having[h].second, result[d]);
  }
  set(n, std::move(result));
}

void Axes::reshape(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  AxisList from;
  for (const AxisList& dim : input(n, 0)) from.insert(from.end(), dim.begin(), dim.end());
  from = resolved(from);
  std::vector<AxisList> result(node.shape.size());
  std::size_t next = 0;
  bool fits = true;
  for (std::size_t d = 0; d < node.shape.size(); ++d) {
    std::int64_t left = node.shape[d];
    const std::size_t begin = next;
    while (fits && left > 1) {
      fits = next < from.size();
      if (!fits) break;
      const int axis = from[next];
      if (left % size(axis) == 0) {
        left /= size(axis);
        ++next;
        continue;
      }
      fits = size(axis) % left == 0 && !axes_[static_cast<std::size_t>(axis)].whole && axis != batch();
      if (!fits) break;
      part(axis, left);
      const AxisList parts = axes_[static_cast<std::size_t>(axis)].parts;
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(next));
      from.insert(from.begin() + static_cast<std::ptrdiff_t>(next), parts.begin(), parts.end());
    }
    // The group of one query for each key stays with its heads.
    while (fits && next > begin && next < from.size() && size(from[next]) == 1) ++next;
    if (fits) {
      result[d].assign(from.begin() + static_cast<std::ptrdiff_t>(begin),
                       from.begin() + static_cast<std::ptrdiff_t>(next));
      continue;
    }
    require(!holds_batch(node.shape[d]) &&
                std::find(from.begin() + static_cast<std::ptrdiff_t>(begin), from.end(), batch()) == from.end(),
            "op '{}': a reshape to {} mixes the batch with other dimensions, so that it cannot be cut into "
            "micro-batches; reshape with the batch in front.",
            node.name, to_text(node.shape));
    explicit_.insert(n);
    result[d] = fresh(node.shape[d]);
  }
  // A group of one behind all others is kept: the result has it, too.
  const auto last = std::find_if(result.rbegin(), result.rend(), [](const AxisList& dim) { return !dim.empty(); });
  if (fits && last != result.rend())
    last->insert(last->end(), from.begin() + static_cast<std::ptrdiff_t>(next), from.end());
  set(n, std::move(result));
}

void Axes::broadcast(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const Shape& from = module_.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  std::vector<AxisList> result(node.shape.size());
  for (std::size_t d = 0; d < node.shape.size(); ++d) {
    const bool has = d + from.size() >= node.shape.size() && from[d + from.size() - node.shape.size()] != 1;
    result[d] = has ? input(n, 0)[d + from.size() - node.shape.size()] : fresh(node.shape[d]);
  }
  set(n, std::move(result));
}

void Axes::slice(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const auto d = static_cast<std::size_t>(node.details.axes[0]);
  const std::int64_t start = node.details.start[0], length = node.shape[d];
  std::vector<AxisList> result = input(n, 0);
  AxisList from = resolved(result[d]);
  require(std::find(from.begin(), from.end(), batch()) == from.end(),
          "op '{}': a part of the batch is taken, which then has no micro-batches; take it of another dimension.",
          node.name);
  std::int64_t whole = 1;
  for (const int axis : from) whole *= size(axis);
  if (from.size() == 1 && !axes_[static_cast<std::size_t>(from[0])].whole && length > 1 && whole % length == 0 &&
      start % length == 0) {
    part(from[0], whole / length);
    from = resolved(from);
  }
  AxisList kept;
  std::int64_t inner = 1;
  while (!from.empty() && length % (inner * size(from.back())) == 0 && start % (inner * size(from.back())) == 0) {
    inner *= size(from.back());
    kept.insert(kept.begin(), from.back());
    from.pop_back();
  }
  result[d] = fresh(length / inner);
  // What is cut out is no axis of the whole, though it may be as long as one: it may begin within that.
  const int cut = -1 - (n * kMaxOperands + kMaxOperands - 1);
  for (const int axis : resolved(result[d])) axes_[static_cast<std::size_t>(axis)].nodes.push_back(cut);
  for (const int axis : resolved(input(n, 0)[d])) axes_[static_cast<std::size_t>(axis)].nodes.push_back(cut);
  result[d].insert(result[d].end(), kept.begin(), kept.end());
  set(n, std::move(result));
}

void Axes::concat(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const auto axis = static_cast<std::size_t>(node.details.axes[0]);
  std::vector<AxisList> result = input(n, 0);
  for (std::size_t k = 1; k < node.inputs.size(); ++k)
    for (std::size_t d = 0; d < result.size(); ++d)
      if (d != axis) match(n, k, d, result[d]);
  require(!holds_batch(node.shape[axis]),
          "op '{}': samples are put together to a larger batch, which then has no "
          "micro-batches; leave the op out.",
          node.name);
  result[axis] = fresh(node.shape[axis]);
  set(n, std::move(result));
}

void Axes::walk(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  std::vector<AxisList> result;
  switch (node.kind) {
    case Kind::Input:
    case Kind::Parameter:
    case Kind::Constant:
      for (const std::int64_t size : node.shape) result.push_back(fresh(size));
      return set(n, std::move(result));
    case Kind::Reshape:
      return reshape(n);
    case Kind::Transpose:
      for (const std::int64_t axis : node.details.axes) result.push_back(input(n, 0)[static_cast<std::size_t>(axis)]);
      return set(n, std::move(result));
    case Kind::Broadcast:
      return broadcast(n);
    case Kind::Slice:
      return slice(n);
    case Kind::Concat:
      return concat(n);
    case Kind::ReduceSum:
    case Kind::ReduceMean:
    case Kind::ReduceMax:
      result = input(n, 0);
      for (const std::int64_t axis : node.details.axes) result[static_cast<std::size_t>(axis)].clear();
      return set(n, std::move(result));
    case Kind::MatMul:
      return matmul(n);
    case Kind::Gather:
      return gather(n);
    case Kind::Convolution:
      return convolution(n);
    case Kind::MaxPool:
    case Kind::AveragePool:
      return pool(n);
    case Kind::LayerNorm:
    case Kind::RmsNorm:
      return norm(n, node.shape.size() - 1);
    case Kind::Softmax:
      return norm(n, static_cast<std::size_t>(node.details.axes[0]));
    case Kind::BatchNorm:
      return norm(n, 1);
    case Kind::Attention:
      return attention(n);
    case Kind::PackedAttention:
      return packed_attention(n);
    case Kind::Rotary:
      keep_whole(input(n, 0).back());
      return set(n, input(n, 0));
    case Kind::Slots:
    case Kind::GateWeights:
    case Kind::WeightedMask:
      return slots(n);
    case Kind::SlotMask:
      return slot_mask(n);
    case Kind::Dispatch:
      return dispatch(n);
    case Kind::Combine:
      return combine(n);
    case Kind::CrossEntropy:
      for (std::size_t d = 0; d < input(n, 1).size(); ++d) match(n, 1, d, input(n, 0)[d]);
      give_role(input(n, 0).back(), input(n, 1).size() >= 2 ? "vocab" : "class", 2);
      return set(n, {});
    default:
      return elementwise(n);
  }
}

Axes::Axes(const Module& module) : module_(module), axes_{{kBatchProbe}} {
  axes_[0].whole = true;
  axes_[0].role = "batch";
  axes_[0].rank = 100;
  dims_.resize(module.nodes.size());
  for (std::size_t n = 0; n < module.nodes.size(); ++n) walk(static_cast<int>(n));
  name_all();
}

void Axes::expect_samples_apart() const {
  for (std::size_t n = 0; n < module_.nodes.size(); ++n) {
    const Node& node = module_.nodes[n];
    std::vector<std::int64_t> mixed;
    if (node.kind == Kind::LayerNorm || node.kind == Kind::RmsNorm)
      mixed = {static_cast<std::int64_t>(node.shape.size()) - 1};
    else if (node.kind == Kind::Softmax || node.kind == Kind::Rotary || node.kind == Kind::ReduceSum ||
             node.kind == Kind::ReduceMean || node.kind == Kind::ReduceMax)
      mixed = node.details.axes;
    if (mixed.empty()) continue;
    const std::vector<AxisList> dims = of_operand(static_cast<int>(n), 0);
    for (const std::int64_t axis : mixed) {
      const AxisList& list = dims[static_cast<std::size_t>(axis)];
      require(
          list.size() < 2 || std::find(list.begin(), list.end(), batch()) == list.end(),
          "op '{}': it mixes the rows of a dimension that holds the batch and others; export the model with a batch "
          "that is left open.",
          node.name);
    }
  }
}

}  // namespace meshwright::primitive
