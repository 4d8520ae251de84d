// SPDX-License-Identifier: Apache-2.0
// Reshapes, for any batch where the file has one.
#include <algorithm>
#include <functional>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// The dimension that holds the batch; none: as many as there are.
std::size_t Builder::batch_dim(const Shape& of) {
  return static_cast<std::size_t>(std::find_if(of.begin(), of.end(), holds_batch) - of.begin());
}

std::int64_t Builder::elements_ahead(const Shape& of, std::size_t d) {
  return std::accumulate(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(d), std::int64_t{1}, std::multiplies<>());
}

// `to` for any batch, where the file gave it for its own: the batch is a part of one dimension of x, and goes to the
// dimension that begins where the batch does, its own place or else the first, or to the one that has the batch inside.
Shape Builder::rescaled(int x, Shape to) const {
  const Shape& from = shape(x);
  const std::size_t d = batch_dim(from);
  if (d == from.size()) return to;
  const std::int64_t inside = ahead_of_batch(x), before = elements_ahead(from, d) * inside, batch = module_.batch;
  const auto scale = [&](std::size_t t) {
    to[t] = to[t] / batch * kBatchProbe;
    return to;
  };
  // A batch of 1 that ends before the last dimension, of features, is part of the rows.
  const bool part_of_rows = batch == 1 && to.size() > 1 && d + 1 < from.size() && d > 0 && to.back() > 1 &&
                            elements_ahead(to, to.size() - 1) == before && to[to.size() - 2] > 1;
  if (part_of_rows) return scale(to.size() - 2);
  if (d < to.size() && elements_ahead(to, d) == before && to[d] % batch == 0) return scale(d);
  std::int64_t met = 1;
  for (std::size_t t = 0; t < to.size(); met *= to[t++])
    if (met == before && to[t] % batch == 0) return scale(t);
  met = 1;
  for (std::size_t t = 0; t < to.size() && met < before; met *= to[t++])
    if (before % met == 0 && to[t] % (before / met * batch) == 0) return scale(t);
  fail(
      fmt::format("a reshape of {} to {} mixes the batch with other dimensions; export the model with a batch that is "
                  "left open",
                  to_text(from), to_text(to)));
}

std::int64_t Builder::ahead_of_batch(int x) const {
  const auto known = ahead_of_batch_.find(x);
  return known == ahead_of_batch_.end() ? 1 : known->second;
}

// Where a dimension that an op makes of others has the batch: a reshape moves it, and every other op that keeps the
// dimension keeps its place.
std::int64_t Builder::ahead_of_batch(const Node& node) const {
  const std::size_t d = batch_dim(node.shape);
  if (module_.batch == 0 || d == node.shape.size()) return 1;
  for (const int input : node.inputs) {
    const Shape& from = shape(input);
    const std::size_t own = batch_dim(from);
    if (own == from.size()) continue;
    if (node.kind == Kind::Reshape) {
      const std::int64_t before = elements_ahead(from, own) * ahead_of_batch(input),
                         met = elements_ahead(node.shape, d);
      return before > met && before % met == 0 ? before / met : 1;
    }
    if (from[own] == node.shape[d] && ahead_of_batch(input) > 1) return ahead_of_batch(input);
  }
  return 1;
}

// Puts what is left of x into the size -1, if there is one.
Shape Builder::completed(const Shape& from, Shape to) const {
  const auto open = std::find(to.begin(), to.end(), -1);
  if (open != to.end()) {
    *open = 1;
    const bool one_open = std::all_of(to.begin(), to.end(), [](std::int64_t size) { return size >= 0; });
    const std::int64_t others = one_open ? elements_of(to) : 0, all = elements_of(from);
    expect(others > 0 && all % others == 0, fmt::format("{} does not reshape to {}", to_text(from), to_text(to)));
    *open = all / others;
  }
  expect(std::all_of(to.begin(), to.end(), [](std::int64_t size) { return size >= 0; }) &&
             elements_of(to) == elements_of(from),
         fmt::format("{} does not reshape to {}", to_text(from), to_text(to)));
  return to;
}

// PyTorch's exporter swaps the last two axes of a tensor whose others it has merged before, and parts them again, to
// `to`: the same without the merging.
std::optional<int> Builder::unmerged_transpose(int x, const Shape& to) {
  const Node swapped = at(x);
  if (swapped.kind != Kind::Transpose || swapped.details.axes != Shape{0, 2, 1} || to.size() < 4) return std::nullopt;
  const Node merged = at(swapped.inputs[0]);
  if (merged.kind != Kind::Reshape) return std::nullopt;
  const Shape& source = shape(merged.inputs[0]);
  const std::size_t last = to.size() - 1;
  if (source.size() < 4 || to[last] != swapped.shape[2] || to[last - 1] != swapped.shape[1] ||
      source.back() != merged.shape[2] || source[source.size() - 2] != merged.shape[1])
    return std::nullopt;
  Shape straight = to;
  std::swap(straight[last], straight[last - 1]);
  return swap(reshape(merged.inputs[0], straight), -1, -2);
}

int Builder::reshape(int x, Shape to) {
  if (is_complex(x)) return part_by_part(x, [&](int part) { return reshape(part, to); });
  const Shape from = shape(x);
  if (module_.batch > 0 && std::any_of(from.begin(), from.end(), holds_batch)) {
    const auto own = [&](Shape sizes) {
      for (std::int64_t& size : sizes)
        if (holds_batch(size)) size = size / kBatchProbe * module_.batch;
      return sizes;
    };
    to = rescaled(x, completed(own(from), own(to)));
  } else {
    to = completed(from, to);
  }
  if (to == from) return x;
  if (at(x).kind == Kind::Reshape) return reshape(at(x).inputs[0], to);
  if (const std::optional<int> swapped = unmerged_transpose(x, to)) return *swapped;
  return add(Kind::Reshape, {x}, to, at(x).integer);
}

}  // namespace meshwright::primitive
