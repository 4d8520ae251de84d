// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- reductions, products, tables ---

int Builder::reduce(Kind kind, int x, Shape axes, bool keep) {
  if (shape(x).empty()) return x;
  if (is_complex(x) && (kind == Kind::ReduceSum || kind == Kind::ReduceMean))
    return part_by_part(x, [&](int part) { return reduce(kind, part, axes, keep); });
  if (axes.empty())
    for (std::size_t d = 0; d < shape(x).size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  for (std::int64_t& axis : axes) axis = axis_of(x, axis);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  Shape to = shape(x);
  for (const std::int64_t axis : axes) to[static_cast<std::size_t>(axis)] = 1;
  const int made = add(kind, {x}, to, at(x).integer, {.axes = axes});
  return keep ? made : squeeze(made, axes);
}

int Builder::matmul(int x, int y) {
  const Shape a = shape(x), b = shape(y);
  expect(!a.empty() && !b.empty(), "a product needs matrices");
  if (a.size() == 1 || b.size() == 1) {
    const int wide = matmul(a.size() == 1 ? unsqueeze(x, {0}) : x, b.size() == 1 ? unsqueeze(y, {1}) : y);
    Shape gone;
    if (a.size() == 1) gone.push_back(-2);
    if (b.size() == 1) gone.push_back(-1);
    return squeeze(wide, gone);
  }
  expect(a.back() == b[b.size() - 2], fmt::format("{} and {} do not multiply", to_text(a), to_text(b)));
  Shape to = broadcast_shape(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  for (int* factor : {&x, &y}) {  // what the file repeats for its own batch
    Shape whole = to;
    const Shape own = shape(*factor);
    whole.insert(whole.end(), own.end() - 2, own.end());
    *factor = rebatched_operand(*factor, whole);
  }
  to.insert(to.end(), {a[a.size() - 2], b.back()});
  return add(Kind::MatMul, {x, y}, to, false);
}

int Builder::gather(int table, int ids, std::int64_t axis) {
  axis = axis_of(table, axis);
  expect(at(ids).integer, "its indices are no integers");
  ids = from_front(ids, shape(table)[static_cast<std::size_t>(axis)]);
  if (is_complex(table)) return part_by_part(table, [&](int part) { return gather(part, ids, axis); });
  if (axis == 0)
    for (const auto places : {&Builder::places_in_samples, &Builder::own_places_in_samples})
      if (const std::optional<int> picked = (this->*places)(table, ids)) return *picked;
  // Rows that the file chooses once and repeats for its own batch.
  if (module_.batch > 1 && axis == 0 && !at(table).constant && at(ids).values && !shape(ids).empty() &&
      shape(ids)[0] == module_.batch)
    if (const std::optional<int> one = one_along(ids, 0)) {
      const int once = gather(table, *one, 0);
      Shape to = shape(once);
      to[0] = module_.batch;
      return broadcast(once, to);
    }
  // Lists of all samples in one row.
  if (axis == 0 && at(ids).kind == Kind::Reshape && at(ids).constant && !at(ids).values && shape(ids).size() == 1 &&
      holds_batch(shape(ids)[0])) {
    Shape to = shape(ids);
    const int rows = gather(table, at(ids).inputs[0], 0);
    to.insert(to.end(), shape(table).begin() + 1, shape(table).end());
    return reshape(rows, to);
  }
  // The same, where the batch is left open.
  if (axis == 0 && at(ids).constant && !at(ids).values)
    for (std::size_t d = 0; d < shape(ids).size(); ++d) {
      if (!holds_batch(shape(ids)[d])) continue;
      const std::optional<int> one = one_along(ids, d);
      if (!one) continue;
      const int once = gather(table, *one, 0);
      Shape to = shape(once);
      to[d] = shape(ids)[d];
      return broadcast(once, to);
    }
  const Node chosen = at(ids);
  if (chosen.kind == Kind::Broadcast && axis == 0) {  // rows chosen once, repeated for every sample
    Shape to = chosen.shape;
    const Shape& rows = shape(table);
    to.insert(to.end(), rows.begin() + 1, rows.end());
    const int once = gather(table, chosen.inputs[0], 0);
    Shape wide(to.size() - shape(once).size(), 1);
    wide.insert(wide.end(), shape(once).begin(), shape(once).end());
    return broadcast(reshape(once, wide), to);
  }
  if (chosen.values && !at(table).values) {  // consecutive rows are a slice
    const Shape rows = integers_of(ids, "indices");
    const std::int64_t all = shape(table)[static_cast<std::size_t>(axis)];
    const std::int64_t times = all > 0 ? static_cast<std::int64_t>(rows.size()) / all : 0;
    bool consecutive = !rows.empty(),
         each_repeated = times > 1 && times * all == static_cast<std::int64_t>(rows.size());
    for (std::size_t i = 0; each_repeated && i < rows.size(); ++i)
      each_repeated = rows[i] == static_cast<std::int64_t>(i) / times;
    if (each_repeated && chosen.shape.size() == 1) return repeat(table, axis, times);
    std::vector<std::size_t> starts = {0};
    for (std::size_t i = 1; i < rows.size(); ++i)
      if (rows[i] != rows[i - 1] + 1) starts.push_back(i);
    consecutive = consecutive && starts.size() == 1;
    // A few pieces in another order are cut out and joined, unless a table is looked up.
    constexpr std::size_t kMostPieces = 64;
    const bool of_table = std::none_of(shape(table).begin(), shape(table).end(), holds_batch);
    if (!consecutive && !of_table && !rows.empty() && chosen.shape.size() == 1 && starts.size() <= kMostPieces &&
        !holds_batch(all) &&
        std::all_of(rows.begin(), rows.end(), [&](std::int64_t row) { return row >= 0 && row < all; })) {
      std::vector<int> pieces;
      for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : rows.size();
        pieces.push_back(
            slice(table, axis, rows[starts[i]], rows[starts[i]] + static_cast<std::int64_t>(end - starts[i])));
      }
      return concat(pieces, axis);
    }
    if (consecutive && (rows[0] >= 0 || rows.size() == 1)) {
      const std::int64_t start = rows[0] < 0 ? rows[0] + shape(table)[static_cast<std::size_t>(axis)] : rows[0];
      Shape to = shape(table);
      to.erase(to.begin() + axis);
      to.insert(to.begin() + axis, chosen.shape.begin(), chosen.shape.end());
      return reshape(slice(table, axis, start, start + static_cast<std::int64_t>(rows.size())), to);
    }
  }
  const auto has_batch = [](const Shape& of) { return std::any_of(of.begin(), of.end(), holds_batch); };
  expect(axis == 0 || !has_batch(shape(table)) || !has_batch(chosen.shape),
         "each sample picks from every other one, which has no equal here");
  if (axis != 0) {  // rows of the table turned to the front, and turned back
    const auto rank = static_cast<std::int64_t>(shape(table).size()), picked = std::ssize(chosen.shape);
    Shape front = {axis}, back;
    for (std::int64_t d = 0; d < rank; ++d)
      if (d != axis) front.push_back(d);
    for (std::int64_t d = 0; d < axis; ++d) back.push_back(picked + d);
    for (std::int64_t d = 0; d < picked; ++d) back.push_back(d);
    for (std::int64_t d = axis + 1; d < rank; ++d) back.push_back(picked + d - 1);
    return transpose(gather(transpose(table, front), ids, 0), back);
  }
  Shape to = chosen.shape;
  to.insert(to.end(), shape(table).begin() + 1, shape(table).end());
  return add(Kind::Gather, {table, ids}, to, at(table).integer);
}

int Builder::pick_label(int x, int labels) {
  const Shape rows(shape(x).begin(), shape(x).end() - (shape(x).empty() ? 0 : 1));
  expect(!shape(x).empty() && at(labels).integer && shape(labels) == rows,
         fmt::format("labels {} are not one for each row of {}", to_text(shape(labels)), to_text(shape(x))));
  return add(Kind::PickLabel, {x, labels}, rows, false);
}

// --- normalisations ---

int Builder::softmax(int x, std::int64_t axis) {
  return add(Kind::Softmax, {x}, shape(x), false, {.axes = {axis_of(x, axis)}});
}

int Builder::layer_norm(int x, int gamma, int beta, double epsilon) {
  const Shape of = shape(x), own = shape(gamma);
  if (own.size() > 1 && own.size() <= of.size() && std::equal(own.rbegin(), own.rend(), of.rbegin())) {
    // Over the last dimensions: over one that they are merged to.
    Shape merged(of.begin(), of.end() - static_cast<std::ptrdiff_t>(own.size()));
    merged.push_back(elements_of(own));
    const Shape row = {merged.back()};
    return reshape(layer_norm(reshape(x, merged), reshape(gamma, row), reshape(beta, row), epsilon), of);
  }
  expect(!of.empty() && own == Shape{of.back()} && shape(beta) == own,
         "its scale and bias must have the last dimensions of what is normalised");
  return add(Kind::LayerNorm, {x, gamma, beta}, of, false, {.number = epsilon});
}

int Builder::rms_norm(int x, int gamma, double epsilon) {
  expect(!shape(x).empty() && shape(gamma) == Shape{shape(x).back()},
         "its scale must have the last dimension of what is normalised");
  return add(Kind::RmsNorm, {x, gamma}, shape(x), false, {.number = epsilon});
}

int Builder::batch_norm(int x, int gamma, int beta, double epsilon) {
  const Shape of = shape(x);
  if (of.size() == 2 || of.size() == 3) {  // of rows: of images one element high, or of one element
    const int image = of.size() == 2 ? unsqueeze(x, {2, 3}) : unsqueeze(x, {2});
    return reshape(batch_norm(image, gamma, beta, epsilon), of);
  }
  if (of.size() == 5) {
    const int image = reshape(x, {of[0], of[1], of[2] * of[3], of[4]});
    return reshape(batch_norm(image, gamma, beta, epsilon), of);
  }
  expect(shape(x).size() == 4 && shape(gamma) == Shape{shape(x)[1]} && shape(beta) == shape(gamma),
         fmt::format("a batch normalisation of {} has no equal here, that of images has", to_text(shape(x))));
  return add(Kind::BatchNorm, {x, gamma, beta}, shape(x), false, {.number = epsilon});
}

int Builder::group_norm(int x, std::int64_t groups, std::optional<int> gamma, std::optional<int> beta, double epsilon) {
  const Shape whole = shape(x);
  expect(whole.size() >= 2 && groups > 0 && whole[1] % groups == 0,
         fmt::format("{} groups do not share the channels of {}", groups, to_text(whole)));
  Shape grouped = whole, axes, behind;
  if (groups < whole[1]) {
    grouped[1] /= groups;
    grouped.insert(grouped.begin() + 1, groups);
  }
  for (std::size_t d = 2; d < grouped.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  for (std::size_t d = 2; d < whole.size(); ++d) behind.push_back(static_cast<std::int64_t>(d) - 1);
  const int parted = reshape(x, grouped);
  const int centred = binary(Kind::Subtract, parted, reduce(Kind::ReduceMean, parted, axes, true));
  const int variance = reduce(Kind::ReduceMean, unary(Kind::Square, centred), axes, true);
  const int inverse = unary(Kind::Rsqrt, binary(Kind::Add, variance, scalar(epsilon)));
  int made = reshape(binary(Kind::Multiply, centred, inverse), whole);
  const auto row = [&](int of) {
    expect(shape(of) == Shape{whole[1]}, "its scale and shift must have the dimension of channels");
    return behind.empty() ? of : unsqueeze(of, behind);
  };
  const auto is_only = [&](int of, double value) {
    const std::optional<std::vector<double>>& known = at(of).values;
    return known && std::all_of(known->begin(), known->end(), [value](double one) { return one == value; });
  };
  if (gamma && !is_only(*gamma, 1.0)) made = binary(Kind::Multiply, made, row(*gamma));
  return beta && !is_only(*beta, 0.0) ? binary(Kind::Add, made, row(*beta)) : made;
}

int Builder::rotary(int x, std::int64_t axis, std::int64_t dims, const Turning& turning, bool interleaved) {
  expect(dims > 0 && dims % 2 == 0 && dims <= shape(x).back(), fmt::format("{} dimensions cannot be turned", dims));
  std::vector<double> numbers = {turning.amplitude};
  numbers.insert(numbers.end(), turning.divisors.begin(), turning.divisors.end());
  return add(Kind::Rotary, {x}, shape(x), false,
             {.axes = {axis_of(x, axis)},
              .window = {dims},
              .number = turning.base,
              .numbers = std::move(numbers),
              .interleaved = interleaved});
}

int Builder::attention(int q, int k, int v, double scale, const Attended& attended) {
  const Shape &a = shape(q), &b = shape(k), &c = shape(v);
  const bool fits = a.size() == 4 && b.size() == 4 && c.size() == 4 && a[0] == b[0] && a[0] == c[0] && b[1] == c[1] &&
                    b[1] > 0 && a[1] % b[1] == 0 && b[2] == c[2] && a[3] == b[3];
  expect(fits, fmt::format("queries {}, keys {} and values {} must be (batch, heads, positions, dimensions)",
                           to_text(a), to_text(b), to_text(c)));
  std::vector<int> inputs = {q, k, v};
  if (attended.mask) {
    const Shape& mask = shape(*attended.mask);
    expect(
        mask.size() == 3 && (mask[0] == 1 || mask[0] == a[0]) && (mask[1] == 1 || mask[1] == a[2]) && mask[2] == b[2],
        fmt::format("a mask {} does not fit queries {} and keys {}", to_text(mask), to_text(a), to_text(b)));
    inputs.push_back(*attended.mask);
  }
  if (attended.sinks) {
    expect(!attended.mask && shape(*attended.sinks) == Shape{a[1]},
           fmt::format("sinks {} are not one for each head of queries {} without a mask",
                       to_text(shape(*attended.sinks)), to_text(a)));
    inputs.push_back(*attended.sinks);
  }
  Details details{.number = scale, .causal = attended.causal, .alibi = attended.alibi};
  if (attended.window > 0) details.window = {attended.window};
  if (attended.cap > 0.0) details.numbers = {attended.cap};
  return add(Kind::Attention, inputs, {a[0], a[1], a[2], c[3]}, false, details);
}

int Builder::masked_attention(int q, int k, int v, double scale, bool causal, const std::vector<int>& masks) {
  const Shape a = shape(q), b = shape(k), c = shape(v);
  expect(a.size() == 4 && b.size() == 4 && c.size() == 4 && b[1] > 0 && a[1] % b[1] == 0 && b[1] == c[1],
         fmt::format("queries {}, keys {} and values {} must be (batch, heads, positions, dimensions)", to_text(a),
                     to_text(b), to_text(c)));
  const std::int64_t group = a[1] / b[1];
  if (group > 1) {
    k = repeat(k, 1, group);
    v = repeat(v, 1, group);
  }
  const double factor = scale == 0.0 ? 1.0 / std::sqrt(static_cast<double>(a[3])) : scale;
  int scores = binary(Kind::Multiply, matmul(q, swap(k, -1, -2)), scalar(factor));
  if (causal) {
    const auto positions = [&](std::int64_t count) { return range(0.0, static_cast<double>(count), 1.0, true); };
    const int seen = compare(Comparison::LessEqual, positions(b[2]), unsqueeze(positions(a[2]), {1}));
    scores = select(seen, scores, scalar(kHiddenScore));
  }
  for (const int mask : masks)
    scores = at(mask).integer ? select(mask, scores, scalar(kHiddenScore)) : binary(Kind::Add, scores, mask);
  return matmul(softmax(scores, -1), v);
}

int Builder::cross_entropy(int logits, int labels) {
  const Shape rows(shape(logits).begin(), shape(logits).end() - (shape(logits).empty() ? 0 : 1));
  expect(!shape(logits).empty() && shape(labels) == rows,
         fmt::format("labels {} are not one for each row of {}", to_text(shape(labels)), to_text(shape(logits))));
  return add(Kind::CrossEntropy, {logits, labels}, {}, false);
}

}  // namespace meshwright::primitive
