// SPDX-License-Identifier: Apache-2.0
// The axes of ops with parameters, of attention and of mixtures of experts.
#include <algorithm>
#include <optional>

#include "core/base/errors.h"
#include "core/graph/import/primitive/emit/axes.h"

namespace meshwright::primitive {

// A parameter, in whatever order of its dimensions.
bool Axes::is_weight(int node) const {
  const auto kind = [&] { return module_.nodes[static_cast<std::size_t>(node)].kind; };
  while (kind() == Kind::Transpose || kind() == Kind::Reshape)
    node = module_.nodes[static_cast<std::size_t>(node)].inputs[0];
  return kind() == Kind::Parameter;
}

void Axes::matmul(int n) {
  const Node& node = module_.nodes[static_cast<std::size_t>(n)];
  const std::vector<AxisList> x = input(n, 0), y = input(n, 1);
  const std::size_t rank = node.shape.size();
  if (!unify(x.back(), y[y.size() - 2])) {
    // One factor sees the other's axes: the one that does not have them already, as the keys' positions of weights that
    // have their queries' too. A weight sees none where it need not: its gradient would be moved in every micro-batch.
    std::vector<AxisList> seen = y;
    seen[y.size() - 2] = x.back();
    bool twice = false;
    for (std::size_t d = 0; d < seen.size(); ++d) twice = twice || meets_itself(seen, d);
    std::vector<AxisList> other = x;
    other.back() = y[y.size() - 2];
    const bool renames = !meets_itself(other, other.size() - 1);
    if (!twice && !(renames && is_weight(node.inputs[1]) && !is_weight(node.inputs[0]))) {
      see(n, 1, y.size() - 2, x.back());
    } else if (renames) {
      see(n, 0, x.size() - 1, y[y.size() - 2]);
    } else {  // both have both, as of a matrix times itself
      const AxisList between = fresh_of(n, x.back());
      see(n, 0, x.size() - 1, between);
      see(n, 1, y.size() - 2, between);
    }
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
  const auto has_batch = [&](const AxisList& dim) {
    const AxisList axes = resolved(dim);
    return std::find(axes.begin(), axes.end(), batch()) != axes.end();
  };
  const bool computed = std::any_of(table.begin(), table.end(), has_batch);  // rows of samples may be parted
  for (std::size_t d = 0; d < (computed ? 1 : table.size()); ++d) keep_whole(table[d]);
  result.insert(result.end(), table.begin() + 1, table.end());
  for (const int axis : resolved(table[0])) axes_[static_cast<std::size_t>(axis)].nodes.push_back(n);
  // Rows of a table are none of its ids: positions that pick positions are other ones.
  std::vector<AxisList> with_rows = input(n, 1);
  with_rows.push_back(table[0]);
  if (meets_itself(with_rows, with_rows.size() - 1)) see(n, 0, 0, fresh_of(n, table[0]));
  for (std::size_t d = 1; d < table.size(); ++d) {
    std::vector<AxisList> with_row = input(n, 1);
    with_row.push_back(table[d]);
    if (!meets_itself(with_row, with_row.size() - 1)) continue;
    const AxisList other = fresh_of(n, table[d]);
    see(n, 0, d, other);
    result[input(n, 1).size() + d - 1] = other;
  }
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
    // Weights that are computed may have the channels of what they convolve, where a tensor of both made these alike.
    AxisList of_x;
    for (const AxisList& dim : x)
      for (const int axis : resolved(dim)) of_x.push_back(axis);
    const AxisList out = resolved(w[0]);
    if (std::any_of(out.begin(), out.end(),
                    [&](int axis) { return std::find(of_x.begin(), of_x.end(), axis) != of_x.end(); })) {
      result[1] = fresh_of(n, w[0]);
      see(n, 1, 0, result[1]);
    }
  }
  give_role(x[1], "channels", 2);
  give_role(result[1], "channels", 2);
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
// the queries has it, and nothing is renamed on the way. Keys that are made together with their queries have it, too.
// None where the heads of keys are in parts already.
AxisList Axes::group_of_one(const AxisList& queries, const AxisList& keys) {
  const AxisList of_queries = resolved(queries), of_keys = resolved(keys);
  // Another layer of the same weights has it already.
  const std::size_t heads = of_keys.size() - (of_queries == of_keys && of_keys.size() > 1 ? 1 : 0);
  if (of_queries.size() == heads + 1 && size(of_queries.back()) == 1) return {of_queries.back()};
  if (of_queries.size() != 1 || of_keys.size() != 1 || of_queries[0] == batch() ||
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
  AxisList heads = resolved(k[1]);
  const bool together = !group.empty() && !heads.empty() && heads.back() == group.back();
  const AxisList of_keys(heads.begin(), heads.end() - (together ? 1 : 0));
  if (!together) heads.insert(heads.end(), group.begin(), group.end());
  if (!unify(q[1], heads)) see(n, 0, 1, heads);
  match(n, 2, 1, k[1]);
  match(n, 1, 3, q[3]);
  match(n, 2, 2, k[2]);
  if (node.shape[3] == keys[3]) (void)unify(q[3], v[3]);  // one name for the width of all heads
  give_role(of_keys, "kv_heads", 5);
  give_role(group, "group", 5);
  give_role(q[3], "head_dim", 5);
  give_role(v[3], "head_dim", 4);
  give_role(q[2], "seq", 2);
  const bool sinks = node.inputs.size() > 3 && input(n, 3).size() == 1;
  if (sinks) match(n, 3, 0, heads);
  if (node.inputs.size() > 3 &&
      !sinks) {  // its positions are those of queries and keys, but not their axes: one may be both
    const std::vector<AxisList> mask = input(n, 3);
    give_role(mask[1], "seq", 1);
    give_role(mask[2], "kv_seq", 1);
  }
  std::vector<AxisList> result = {q[0], heads, q[2], v[3]};
  set(n, std::move(result));
}

void Axes::packed_attention(int n) {
  const std::vector<AxisList> x = input(n, 0);
  give_role(x[1], "seq", 2);
  give_role(x[2], "qkv", 5);
  give_role(x[3], "heads", 5);
  give_role(x[4], "head_dim", 5);
  set(n, {x[0], x[1], x[3], x[4]});
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

void Axes::dispatch(int n) {
  const std::vector<AxisList> x = input(n, 0), of_slots = input(n, 1);
  for (const std::size_t d : {0, 1}) match(n, 1, d, x[d]);
  give_role(x[1], "seq", 2);
  give_role(of_slots[2], "expert", 6);
  for (const AxisList& dim : {x[0], x[1], x[2], of_slots[2]}) keep_whole(dim);
  const AxisList capacity = fresh(module_.nodes[static_cast<std::size_t>(n)].shape[2]);
  give_role(capacity, "capacity", 6);
  keep_whole(capacity);
  set(n, {of_slots[2], x[0], capacity, x[2]});
}

void Axes::combine(int n) {
  const std::vector<AxisList> buffer = input(n, 0), of_slots = input(n, 1);
  match(n, 1, 2, buffer[0]);
  match(n, 1, 0, buffer[1]);
  for (std::size_t d = 0; d < 3; ++d) match(n, 2, d, of_slots[d]);
  for (const AxisList& dim : buffer) keep_whole(dim);
  keep_whole(of_slots[1]);
  set(n, {of_slots[0], of_slots[1], buffer[3]});
}

}  // namespace meshwright::primitive
