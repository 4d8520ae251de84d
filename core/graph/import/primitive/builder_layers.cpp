// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- reductions, products, tables ---

int Builder::reduce(Kind kind, int x, Shape axes, bool keep) {
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
  to.insert(to.end(), {a[a.size() - 2], b.back()});
  return add(Kind::MatMul, {x, y}, to, false);
}

std::int64_t Builder::slid(std::int64_t size, const Windows& windows, std::size_t d) const {
  const std::int64_t room = size + windows.before[d] + windows.after[d] - windows.window[d];
  expect(room >= 0, fmt::format("a window of {} does not fit into {}", windows.window[d], size));
  const std::int64_t stride = windows.stride[d];
  return (windows.round_up ? (room + stride - 1) / stride : room / stride) + 1;
}

int Builder::convolution(int x, int w, const Windows& windows, std::int64_t groups, std::optional<int> bias) {
  // Zeros around an image are padding of its own.
  if (const auto known = padded_.find(x); known != padded_.end() && shape(x).size() == 4) {
    const Padded padded = known->second;
    if (padded.before[0] + padded.after[0] + padded.before[1] + padded.after[1] == 0) {
      Windows wider = windows;
      for (const std::size_t d : {0, 1}) {
        wider.before[d] += padded.before[d + 2];
        wider.after[d] += padded.after[d + 2];
      }
      return convolution(padded.within, w, wider, groups, bias);
    }
  }
  if (shape(x).size() == 3 && shape(w).size() == 3) {  // of rows: of images one element high
    const int made = convolution(unsqueeze(x, {2}), unsqueeze(w, {2}), windows, groups, bias);
    return squeeze(made, {2});
  }
  const Shape &a = shape(x), &b = shape(w);
  expect(a.size() == 4 && b.size() == 4,
         fmt::format("convolutions of {} have no equal here, those of images have", to_text(a)));
  expect(groups >= 1 && a[1] % groups == 0 && b[0] % groups == 0 && b[1] == a[1] / groups,
         fmt::format("a weight of {} does not fit {} in {} groups", to_text(b), to_text(a), groups));
  Windows full = windows;
  full.window = {b[2], b[3]};
  const Shape to = {a[0], b[0], slid(a[2], full, 0), slid(a[3], full, 1)};
  const int made =
      add(Kind::Convolution, {x, w}, to, false,
          {.window = full.window, .stride = full.stride, .before = full.before, .after = full.after, .groups = groups});
  return bias ? binary(Kind::Add, made, unsqueeze(*bias, {1, 2})) : made;
}

int Builder::transposed_convolution(int x, int w, const Shape& stride, std::optional<int> bias) {
  const Shape a = shape(x), b = shape(w);
  expect(a.size() == 4 && b.size() == 4 && b[0] == a[1],
         fmt::format("a weight of {} does not fit {}", to_text(b), to_text(a)));
  expect(stride == Shape{b[2], b[3]},
         fmt::format(
             "transposed convolutions whose windows [{}, {}] overlap or leave gaps at a stride of {} have no equal "
             "here",
             b[2], b[3], to_text(stride)));
  const int windows = matmul(transpose(x, {0, 2, 3, 1}), reshape(w, {b[0], b[1] * b[2] * b[3]}));
  const int parted = transpose(reshape(windows, {a[0], a[2], a[3], b[1], b[2], b[3]}), {0, 3, 1, 4, 2, 5});
  const int made = reshape(parted, {a[0], b[1], a[2] * b[2], a[3] * b[3]});
  return bias ? binary(Kind::Add, made, unsqueeze(*bias, {1, 2})) : made;
}

int Builder::enlarged(int image, const Shape& to) {
  const Shape of = shape(image);
  expect(of.size() == 4 && to.size() == 2 && to[0] % of[2] == 0 && to[1] % of[3] == 0 && to[0] > 0 && to[1] > 0,
         fmt::format("an image {} cannot be made one of {}, each element so often in a row", to_text(of), to_text(to)));
  return repeat(repeat(image, 2, to[0] / of[2]), 3, to[1] / of[3]);
}

int Builder::enlarged_by(int image, double height, double width) {
  const Shape of = shape(image);
  expect(of.size() == 4, "it enlarges no image");
  Shape to;
  for (const auto& [factor, size] : {std::pair{height, of[2]}, std::pair{width, of[3]}}) {
    const double larger = factor * static_cast<double>(size);
    expect(larger >= 1.0 && larger < 1e9, "its factors are out of range");
    to.push_back(static_cast<std::int64_t>(std::floor(larger + 1e-6)));
  }
  return enlarged(image, to);
}

int Builder::pool(Kind kind, int x, const Windows& given) {
  const Shape a = shape(x);
  expect(a.size() == 4, fmt::format("pooling of {} has no equal here, that of images has", to_text(a)));
  Windows windows = given;
  Shape to = {a[0], a[1], slid(a[2], windows, 0), slid(a[3], windows, 1)};
  for (std::size_t d = 0; d < 2; ++d) {  // rounded up: the last window hangs over
    const std::int64_t needed = (to[d + 2] - 1) * windows.stride[d] + windows.window[d] - a[d + 2] - windows.before[d];
    windows.after[d] = std::max(windows.after[d], needed);
  }
  return add(kind, {x}, to, false,
             {.window = windows.window, .stride = windows.stride, .before = windows.before, .after = windows.after});
}

void Builder::note_padding(const Windows& windows) {
  const bool padded =
      std::any_of(windows.before.begin(), windows.before.end(), [](std::int64_t pad) { return pad > 0; });
  if (padded) module_.notes.push_back(fmt::format("average pooling '{}' does not count its padding", name));
}

int Builder::gather(int table, int ids, std::int64_t axis) {
  axis = axis_of(table, axis);
  expect(at(ids).integer, "its indices are no integers");
  if (is_complex(table)) return part_by_part(table, [&](int part) { return gather(part, ids, axis); });
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
    for (std::size_t i = 1; i < rows.size(); ++i) consecutive = consecutive && rows[i] == rows[i - 1] + 1;
    if (consecutive && (rows[0] >= 0 || rows.size() == 1)) {
      const std::int64_t start = rows[0] < 0 ? rows[0] + shape(table)[static_cast<std::size_t>(axis)] : rows[0];
      Shape to = shape(table);
      to.erase(to.begin() + axis);
      to.insert(to.begin() + axis, chosen.shape.begin(), chosen.shape.end());
      return reshape(slice(table, axis, start, start + static_cast<std::int64_t>(rows.size())), to);
    }
  }
  expect(axis == 0, fmt::format("indices along axis {} that the file leaves open have no equal here", axis));
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
  expect(!shape(x).empty() && shape(gamma) == Shape{shape(x).back()} && shape(beta) == shape(gamma),
         "its scale and bias must have the last dimension of what is normalised");
  return add(Kind::LayerNorm, {x, gamma, beta}, shape(x), false, {.number = epsilon});
}

int Builder::rms_norm(int x, int gamma, double epsilon) {
  expect(!shape(x).empty() && shape(gamma) == Shape{shape(x).back()},
         "its scale must have the last dimension of what is normalised");
  return add(Kind::RmsNorm, {x, gamma}, shape(x), false, {.number = epsilon});
}

int Builder::batch_norm(int x, int gamma, int beta, double epsilon) {
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

int Builder::masked_attention(int q, int k, int v, double scale, bool causal, int mask) {
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
  if (at(mask).integer)
    scores = select(mask, scores, scalar(kHiddenScore));
  else
    scores = binary(Kind::Add, scores, mask);
  return matmul(softmax(scores, -1), v);
}

int Builder::cross_entropy(int logits, int labels) {
  const Shape rows(shape(logits).begin(), shape(logits).end() - (shape(logits).empty() ? 0 : 1));
  expect(!shape(logits).empty() && shape(labels) == rows,
         fmt::format("labels {} are not one for each row of {}", to_text(shape(labels)), to_text(shape(logits))));
  return add(Kind::CrossEntropy, {logits, labels}, {}, false);
}

}  // namespace meshwright::primitive
