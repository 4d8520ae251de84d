// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/axes.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::primitive {

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

void Axes::matmul(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const std::vector<AxisList> x = input(n, 0), y = input(n, 1);
  const std::size_t rank = node.shape.size();
  if (!unify(x.back(), y[y.size() - 2])) {
    // One factor sees the other's axes: the one that does not have them already, as the keys' positions of weights that
    // have their queries' too.
    std::vector<AxisList> seen = y;
    seen[y.size() - 2] = x.back();
    bool twice = false;
    for (std::size_t d = 0; d < seen.size(); ++d) twice = twice || meets_itself(seen, d);
    if (twice)
      see(n, 0, x.size() - 1, y[y.size() - 2]);
    else
      see(n, 1, y.size() - 2, x.back());
  }
  std::vector<AxisList> result(rank);
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const auto dim_of = [&](const std::vector<AxisList>& of, std::size_t operand) -> std::optional<std::size_t> {
      if (d + of.size() < rank) return std::nullopt;
      const std::size_t own = d + of.size() - rank;
      const Shape& shape = module_.nodes[static_cast<std::size_t>(node.inputs[operand])].shape;
      return shape[own] == 1 ? std::nullopt : std::optional(own);
    };
    const auto in_x = dim_of(x, 0), in_y = dim_of(y, 1);
    if (in_x) result[d] = x[*in_x];
    if (in_x && in_y) match(n, 1, *in_y, x[*in_x]);
    if (!in_x && in_y) result[d] = y[*in_y];
  }
  result[rank - 2] = x[x.size() - 2];
  // A column must not have the name of what x has: each of its rows meets each of x's.
  AxisList columns = resolved(y.back()), of_x;
  for (const AxisList& dim : x)
    for (const int axis : resolved(dim)) of_x.push_back(axis);
  const bool shared = std::any_of(columns.begin(), columns.end(),
                                  [&](int axis) { return std::find(of_x.begin(), of_x.end(), axis) != of_x.end(); });
  if (shared) {
    require(std::find(columns.begin(), columns.end(), batch()) == columns.end(),
            "op '{}': each sample meets every other one, so that the batch cannot be cut into micro-batches; leave the "
            "op out.",
            node.name);
    AxisList other;
    for (const int axis : columns)
      for (const int made : fresh(size(axis))) other.push_back(made);
    see(n, 1, y.size() - 1, other);
    columns = other;
  }
  result[rank - 1] = columns;
  if (module_.nodes[static_cast<std::size_t>(node.inputs[1])].kind == Kind::Parameter) give_role(columns, "mlp", 1);
  set(n, std::move(result));
}

void Axes::gather(int n) {
  const std::vector<AxisList> table = input(n, 0);
  std::vector<AxisList> result = input(n, 1);
  const bool tokens = result.size() >= 2;
  if (tokens) give_role(result[1], "seq", 2);
  const Kind kind = module_.nodes[static_cast<std::size_t>(module_.nodes[static_cast<std::size_t>(n)].inputs[0])].kind;
  if (table.size() == 2 && kind == Kind::Parameter) {
    give_role(table[0], "vocab", 2);
    give_role(table[1], "embed", 3);
  }
  for (const AxisList& dim : table) keep_whole(dim);
  result.insert(result.end(), table.begin() + 1, table.end());
  set(n, std::move(result));
}

void Axes::convolution(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const std::vector<AxisList> x = input(n, 0), w = input(n, 1);
  std::vector<AxisList> result = {x[0], w[0], x[2], x[3]};
  if (node.details.groups > 1) {
    const AxisList groups = fresh(node.details.groups);
    AxisList in = groups, out = groups;
    in.insert(in.end(), w[1].begin(), w[1].end());
    for (const int axis : fresh(node.shape[1] / node.details.groups)) out.push_back(axis);
    if (!unify(in, x[1])) see(n, 0, 1, in);
    if (!unify(out, w[0])) see(n, 1, 0, out);
    give_role(groups, "groups", 2);
    result[1] = out;
  } else {
    match(n, 1, 1, x[1]);
  }
  give_role(x[1], "channels", 2);
  give_role(w[0], "channels", 2);
  give_role(w[2], "kh", 2);
  give_role(w[3], "kw", 2);
  const Shape& from = module_.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  for (const std::size_t d : {2, 3})
    if (from[d] != node.shape[d]) result[d] = fresh(node.shape[d]);
  for (const std::size_t d : {2, 3}) give_role(result[d], d == 2 ? "height" : "width", 2);
  set(n, std::move(result));
}

void Axes::pool(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  std::vector<AxisList> result = input(n, 0);
  const Shape& from = module_.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  for (const std::size_t d : {2, 3}) {
    if (from[d] != node.shape[d]) result[d] = fresh(node.shape[d]);
    give_role(result[d], d == 2 ? "height" : "width", 2);
  }
  set(n, std::move(result));
}

// Parameters over dimension `dim` of x.
void Axes::norm(int n, std::size_t dim) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const std::vector<AxisList> x = input(n, 0);
  keep_whole(x[dim]);
  for (std::size_t k = 1; k < node.inputs.size(); ++k) match(n, k, 0, x[dim]);
  set(n, x);
}

// Attention of as many queries as keys and values has groups of one: an axis of the queries' heads, so that what makes
// the queries has it, and nothing is renamed on the way. None where queries and keys are made together.
AxisList Axes::group_of_one(const AxisList& queries, const AxisList& keys) {
  const AxisList of_queries = resolved(queries);
  if (of_queries.size() != 1 || of_queries == resolved(keys) || of_queries[0] == batch() ||
      axes_[static_cast<std::size_t>(of_queries[0])].whole)
    return {};
  part(of_queries[0], size(of_queries[0]));
  return {resolved(queries)[1]};
}

void Axes::attention(int n) {
  const std::vector<AxisList> q = input(n, 0), k = input(n, 1), v = input(n, 2);
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const Shape& keys = module_.nodes[static_cast<std::size_t>(node.inputs[1])].shape;
  for (const std::size_t operand : {1, 2}) match(n, operand, 0, q[0]);
  const std::int64_t groups = node.shape[1] / keys[1];
  const AxisList group = groups == 1 ? group_of_one(q[1], k[1]) : fresh(groups);
  AxisList heads = k[1];
  heads.insert(heads.end(), group.begin(), group.end());
  if (!unify(q[1], heads)) see(n, 0, 1, heads);
  match(n, 2, 1, k[1]);
  match(n, 1, 3, q[3]);
  match(n, 2, 2, k[2]);
  if (node.shape[3] == keys[3]) (void)unify(q[3], v[3]);  // one name for the width of all heads
  give_role(k[1], "kv_heads", 5);
  give_role(group, "group", 5);
  give_role(q[3], "head_dim", 5);
  give_role(v[3], "head_dim", 4);
  give_role(q[2], "seq", 2);
  if (node.inputs.size() > 3) {  // its positions are those of queries and keys, but not their axes: one may be both
    const std::vector<AxisList> mask = input(n, 3);
    give_role(mask[1], "seq", 1);
    give_role(mask[2], "kv_seq", 1);
  }
  std::vector<AxisList> result = {q[0], heads, q[2], v[3]};
  set(n, std::move(result));
}

// Scores over (batch, seq, expert), with slots or a mask of them.
void Axes::slots(int n) {
  const std::vector<AxisList> x = input(n, 0);
  for (std::size_t k = 1; k < module_.nodes[static_cast<std::size_t>(n)].inputs.size(); ++k)
    for (std::size_t d = 0; d < 3; ++d) match(n, k, d, x[d]);
  set(n, x);
}

void Axes::slot_mask(int n) {
  std::vector<AxisList> result = input(n, 0);
  give_role(result[1], "seq", 2);
  give_role(result[2], "expert", 6);
  for (const AxisList& dim : result) keep_whole(dim);
  result.push_back(fresh(module_.nodes[static_cast<std::size_t>(n)].shape.back()));
  give_role(result[3], "capacity", 6);
  keep_whole(result[3]);
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
    case Kind::Rotary:
      keep_whole(input(n, 0).back());
      return set(n, input(n, 0));
    case Kind::Slots:
    case Kind::GateWeights:
    case Kind::WeightedMask:
      return slots(n);
    case Kind::SlotMask:
      return slot_mask(n);
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

}  // namespace meshwright::primitive
