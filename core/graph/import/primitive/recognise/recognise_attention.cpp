// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- attention ---

// A transposed product as a product of transposed factors, its last dimension still the columns.
Recogniser::Found Recogniser::untransposed_product(int i) {
  Shape axes = at(i).details.axes;
  const std::size_t rank = axes.size();
  // Dimensions of one element in front of rows and columns may have been put in or taken away.
  const int below = at(i).inputs[0], product = core(below);
  if (!is(product, Kind::MatMul) || rank < 2 || is(below, Kind::Broadcast)) return std::nullopt;
  const Shape made = at(product).shape, seen = at(below).shape;
  if (made.size() < 2 || !std::equal(seen.end() - 2, seen.end(), made.end() - 2)) return std::nullopt;
  int x = at(product).inputs[0], y = at(product).inputs[1];
  for (int* factor : {&x, &y}) {
    Shape own(made.size() - at(*factor).shape.size(), 1), to;
    own.insert(own.end(), at(*factor).shape.begin(), at(*factor).shape.end());
    std::size_t next = 0;
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      while (seen[d] != 1 && next + 2 < made.size() && made[next] == 1) ++next;
      to.push_back(seen[d] == 1 ? 1 : own[next++]);
    }
    to.insert(to.end(), own.end() - 2, own.end());
    *factor = b_.reshape(*factor, to);
  }
  const auto rows = static_cast<std::int64_t>(rank) - 2, columns = rows + 1;
  if (axes.back() == rows) {  // the product of the factors the other way round
    const int turned = b_.swap(y, -1, -2);
    y = b_.swap(x, -1, -2);
    x = turned;
    for (std::int64_t& axis : axes)
      if (axis >= rows) axis = axis == rows ? columns : rows;
  }
  if (axes.back() != columns) return std::nullopt;
  // Another dimension becomes the rows: one that the right factor lacks, which gets the old rows in its place.
  const std::int64_t taken = axes[rank - 2];
  if (taken != rows && at(y).shape[static_cast<std::size_t>(taken)] != 1) return std::nullopt;
  Shape of_y = axes;
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (of_y[d] == rows) of_y[d] = taken;
  of_y[rank - 2] = rows;
  return b_.matmul(b_.transpose(x, axes), b_.transpose(y, of_y));
}

std::optional<Recogniser::Scores> Recogniser::scores_of(int i) {
  Scores scores{i};
  for (int steps = 0; steps < 24; ++steps) {
    const Node node = at(i);
    double scalar = 1.0;
    if (node.kind == Kind::MatMul) {
      scores.product = i;
      return scores;
    }
    const auto same_rows = [&](const Shape& x, const Shape& y) {
      return x.size() > 1 && y.size() > 1 && std::equal(x.end() - 2, x.end(), y.end() - 2);
    };
    const bool parted = node.kind == Kind::Reshape && same_rows(node.shape, at(node.inputs[0]).shape);
    if (node.kind == Kind::Transpose) {
      const Scaled inner = unscaled(node.inputs[0]);
      scores.scale *= inner.factor;
      if (inner.node != node.inputs[0]) i = b_.transpose(inner.node, node.details.axes);
      const Found straight = untransposed_product(i);
      if (!straight) return std::nullopt;
      i = *straight;
    } else if (node.kind == Kind::Reshape && core(i) != i && !is(core(i), Kind::Broadcast)) {
      i = core(i);        // dimensions of one element
    } else if (parted) {  // heads that were merged for the product
      i = node.inputs[0];
    } else if (const Found bent = beside_scalar(i, Kind::Multiply, &scalar);
               bent && is(*bent, Kind::Tanh) && scalar > 0.0) {  // cap tanh(score / cap)
      if (scores.cap != 0.0 || scores.scale != 1.0) return std::nullopt;
      const Scaled inner = unscaled(at(*bent).inputs[0]);
      scores.cap = scalar;
      scores.scale = inner.factor * scalar;
      i = inner.node;
    } else if (const Found inner = beside_scalar(i, Kind::Multiply, &scalar)) {
      scores.scale *= scalar;
      i = *inner;
    } else if (node.kind == Kind::Add || node.kind == Kind::Subtract || node.kind == Kind::Multiply) {
      const bool left = at(node.inputs[0]).trained;
      const int mask = node.inputs[left ? 1 : 0];
      if (at(mask).trained || (!left && node.kind == Kind::Subtract)) return std::nullopt;
      if (node.kind == Kind::Multiply) {
        if (!at(mask).constant || !is_causal(mask, std::nullopt)) return std::nullopt;
        scores.causal = true;
      } else {
        scores.masks.push_back({node.kind == Kind::Subtract ? b_.negated(mask) : mask, scores.scale, node.shape});
      }
      i = node.inputs[left ? 0 : 1];
    } else if (node.kind == Kind::Select && !at(node.inputs[0]).trained) {
      const bool keeps = at(node.inputs[1]).trained;
      const int other = node.inputs[keeps ? 2 : 1], nothing = b_.scalar(0.0);
      if (at(other).trained) return std::nullopt;
      scores.masks.push_back(
          {b_.select(node.inputs[0], keeps ? nothing : other, keeps ? other : nothing), scores.scale, node.shape});
      i = node.inputs[keeps ? 1 : 2];
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// Keys or values before each head was repeated for its group: reshape(broadcast(x (b, kv, 1, s, d))).
int Recogniser::unrepeated(int i) {
  // Heads as dimension 1, or behind the positions until they are swapped with these.
  const bool swapped = is(i, Kind::Transpose) && at(i).details.axes == std::vector<std::int64_t>{0, 2, 1, 3};
  const std::size_t heads = swapped ? 2 : 1;
  const Node merged = at(swapped ? at(i).inputs[0] : i);
  if (merged.kind != Kind::Reshape || merged.shape.size() != 4) return i;
  const Node wide = at(merged.inputs[0]);
  if (wide.kind != Kind::Broadcast || wide.shape.size() != 5) return i;
  const Shape narrow = at(wide.inputs[0]).shape;
  Shape once = wide.shape, joined = once;
  once[heads + 1] = 1;
  joined[heads] *= joined[heads + 1];
  joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(heads) + 1);
  if (narrow != once || merged.shape != joined) return i;
  once.erase(once.begin() + static_cast<std::ptrdiff_t>(heads) + 1);
  const int made = b_.reshape(wide.inputs[0], once);
  return swapped ? b_.swap(made, 1, 2) : made;
}

// (batch, heads, s, d) of what was merged to (batch * heads, s, d).
int Recogniser::with_heads(int i) {
  const Node node = at(i);
  if (node.kind != Kind::Reshape || node.shape.size() != 3) return i;
  const Shape before = at(node.inputs[0]).shape;
  const std::size_t rank = before.size();
  const bool merged = rank >= 4 && before[rank - 2] == node.shape[1] && before[rank - 1] == node.shape[2] &&
                      before[0] > 0 && node.shape[0] % before[0] == 0;
  return merged ? b_.reshape(node.inputs[0], {before[0], node.shape[0] / before[0], node.shape[1], node.shape[2]}) : i;
}

// What is below factors and merged heads.
Recogniser::Scaled Recogniser::peeled(int i) {
  Scaled whole{i, 1.0};
  for (int before = -1; before != whole.node;) {
    before = whole.node;
    const Scaled inner = unscaled(whole.node);
    whole = {with_heads(inner.node), whole.factor * inner.factor};
  }
  return whole;
}

// The softmax of attention weights, below what drops some, merges heads, or sets rows to 0 in which all is masked.
int Recogniser::softmax_below(int i) {
  for (int steps = 0; steps < 4 && !is(i, Kind::Softmax); ++steps) {
    if (is(i, Kind::Dropout))
      i = at(i).inputs[0];
    else if (is(i, Kind::Select))
      i = at(i).inputs[is(at(i).inputs[1], Kind::Softmax) ? 1 : 2];
    else if (is(i, Kind::Reshape) && core(i) != i)
      i = core(i);
    else
      i = with_heads(i);  // the same where nothing was merged
  }
  return i;
}

// softmax(scores) or, of (batch, heads, seq, keys), softmax([scores, sinks])[..., :-1].
Recogniser::Weighed Recogniser::weighed_by(int weights) {
  const bool cut = is(weights, Kind::Slice) && over_last(weights) && at(weights).details.start[0] == 0;
  const int softmax = cut ? at(weights).inputs[0] : weights;
  if (!is(softmax, Kind::Softmax) || !over_last(softmax)) return {};
  const int all = without_maximum(at(softmax).inputs[0], at(softmax).details.axes);
  if (!cut) return {.scores = all};
  if (!is(all, Kind::Concat) || !over_last(all) || at(all).inputs.size() != 2 || at(all).shape.size() != 4) return {};
  const int scores = at(all).inputs[0];
  int sinks = at(all).inputs[1];
  if (at(scores).shape != at(weights).shape || at(sinks).shape.back() != 1) return {};
  while (is(sinks, Kind::Broadcast)) sinks = at(sinks).inputs[0];
  Shape of = at(sinks).shape;
  of.insert(of.begin(), 4 - of.size(), 1);
  const std::int64_t heads = at(all).shape[1];
  if (of != Shape{1, heads, 1, 1}) return {};
  return {scores, b_.reshape(sinks, {heads})};
}

// The product of weights and values, written either way round.
Recogniser::Found Recogniser::attention(int weights, int values) {
  if (const Found found = attention_of(weights, values)) return found;
  if (at(values).shape.size() < 2 || at(weights).shape.size() < 2 || !is(core(values), Kind::Transpose))
    return std::nullopt;
  const int turned = b_.swap(values, -1, -2);
  if (!is(softmax_below(turned), Kind::Softmax)) return std::nullopt;
  const int straight = b_.swap(weights, -1, -2);
  const Found found = attention_of(turned, straight);
  if (!found) return std::nullopt;
  Shape shape = at(turned).shape;
  shape.back() = at(straight).shape.back();
  return b_.swap(b_.reshape(*found, shape), -1, -2);
}

// The weights' transpose, whose last two dimensions are those of the softmax, as one of what the scores are made of.
bool Recogniser::reorder(Scores& scores, const Shape& order, int& queries, int& keys) {
  const auto fits = [&](const Shape& shape) { return shape.size() == order.size(); };
  if (!fits(at(queries).shape) || !fits(at(keys).shape)) return false;
  queries = b_.transpose(queries, order);
  keys = b_.transpose(keys, order);
  for (Mask& mask : scores.masks) {
    const Shape own = at(mask.node).shape;
    if (!fits(mask.scores) || own.size() > order.size()) return false;
    Shape wide(order.size() - own.size(), 1), of_scores;
    wide.insert(wide.end(), own.begin(), own.end());
    mask.node = b_.transpose(b_.reshape(mask.node, wide), order);
    for (const std::int64_t axis : order) of_scores.push_back(mask.scores[static_cast<std::size_t>(axis)]);
    mask.scores = of_scores;
  }
  return true;
}

Recogniser::Found Recogniser::attention_of(int weights, int values) {
  weights = softmax_below(weights);
  Shape order;
  if (is(weights, Kind::Transpose)) {  // groups of heads that stood in front of the batch
    order = at(weights).details.axes;
    const auto rank = static_cast<std::int64_t>(order.size());
    if (rank < 3 || order[order.size() - 2] != rank - 2 || order.back() != rank - 1) return std::nullopt;
    weights = softmax_below(at(weights).inputs[0]);
  }
  const Weighed weighed = weighed_by(weights);
  const bool sinks = weighed.sinks >= 0;
  if (weighed.scores < 0 || (sinks && !order.empty())) return std::nullopt;
  std::optional<Scores> scores = scores_of(weighed.scores);
  if (!scores) return std::nullopt;
  const std::vector<int> factors = at(scores->product).inputs;
  const Scaled q = peeled(factors[0]), turned = peeled(factors[1]);
  if (at(turned.node).shape.size() < 2) return std::nullopt;
  const Scaled k = peeled(b_.swap(turned.node, -1, -2));
  const double scale = scores->scale * q.factor * turned.factor * k.factor;
  int queries = q.node, keys = k.node, of_values = with_heads(values);
  if (!order.empty() && !reorder(*scores, order, queries, keys)) return std::nullopt;
  // One sample each, under vmap: a batch of one element behind that of vmap.
  const auto is_single = [&](int part) { return at(part).shape.size() == 5 && at(part).shape[1] == 1; };
  if (is_single(queries) && is_single(keys) && is_single(of_values))
    for (int* part : {&queries, &keys, &of_values}) *part = b_.squeeze(*part, {1});
  const auto all = [&](std::size_t rank) {
    return at(queries).shape.size() == rank && at(keys).shape.size() == rank && at(of_values).shape.size() == rank;
  };
  if (all(3)) {  // a single head
    for (int* part : {&queries, &keys, &of_values}) *part = b_.unsqueeze(*part, {1});
  } else if (at(queries).shape.size() == 5 || at(keys).shape.size() == 5 || at(of_values).shape.size() == 5) {
    // Heads by group; dimensions of one element may have been taken away.
    const Shape grouped = at(queries).shape;
    if (grouped.size() == 5)
      queries = b_.reshape(queries, {grouped[0], grouped[1] * grouped[2], grouped[3], grouped[4]});
    for (int* part : {&keys, &of_values})
      if (at(*part).shape.size() == 5 && at(*part).shape[2] == 1) *part = b_.squeeze(*part, {2});
  } else {
    keys = unrepeated(keys);
    of_values = unrepeated(of_values);
  }
  const Shape a = at(queries).shape, b = at(keys).shape, c = at(of_values).shape;
  const bool fits = a.size() == 4 && b.size() == 4 && c.size() == 4 && a[0] == b[0] && b[0] == c[0] && b[1] == c[1] &&
                    b[1] > 0 && a[1] % b[1] == 0 && b[2] == c[2] && a[3] == b[3] && scale > 0.0;
  if (!fits || !resolve_masks(*scores, a, b[2])) return std::nullopt;
  if (sinks && (scores->mask || at(weighed.sinks).shape != Shape{a[1]})) return std::nullopt;
  const double usual = 1.0 / std::sqrt(static_cast<double>(a[3]));
  const bool causal = scores->causal && a[2] <= b[2];
  // A mask may say anything about keys later than the query.
  if (scores->alibi && (!causal || scores->mask || sinks)) return std::nullopt;
  return b_.attention(
      queries, keys, of_values, near(scale, usual) ? 0.0 : scale,
      {causal, scores->window, scores->mask, scores->cap, scores->alibi, sinks ? Found(weighed.sinks) : std::nullopt});
}

}  // namespace meshwright::primitive
