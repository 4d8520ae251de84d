// SPDX-License-Identifier: Apache-2.0
// What ATen's ops are in primitive ops that put a tensor together anew from pieces of it, or of another.
#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

std::int64_t size_along(const AtenNode& a, int x, std::int64_t axis) {
  return a.b.shape(x)[static_cast<std::size_t>(axis)];
}

Made flipped(const AtenNode& a) {
  int x = a.tensor("self");
  constexpr std::int64_t kBeforeAll = std::numeric_limits<std::int64_t>::min() / 2;
  for (const std::int64_t given : a.integers("dims")) {
    const std::int64_t axis = a.b.axis_of(x, given), size = size_along(a, x, axis);
    if (size > 1) x = a.b.slice(x, axis, size - 1, kBeforeAll, -1);
  }
  return {x};
}
// Windows of `size` elements, `step` apart, along a dimension: their elements are a dimension behind the others.
Made windows(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dimension", 0)), whole = size_along(a, x, axis),
                     size = a.integer("size", 1), step = a.integer("step", 1);
  a.b.expect(size >= 1 && size <= whole && step >= 1 && !primitive::holds_batch(whole), "its windows are out of range");
  const std::int64_t count = (whole - size) / step + 1;
  constexpr std::int64_t kMost = 1024;
  a.b.expect(std::min(count, size) <= kMost, "its windows are too many");
  std::vector<int> pieces;
  if (count <= size) {
    for (std::int64_t k = 0; k < count; ++k) pieces.push_back(a.b.slice(x, axis, k * step, k * step + size));
    const int stacked = a.b.stack(pieces, axis);  // the elements of a window lie behind the windows
    Numbers order(a.b.shape(stacked).size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + axis + 1, order.begin() + axis + 2, order.end());
    return {a.b.transpose(stacked, order)};
  }
  for (std::int64_t k = 0; k < size; ++k) pieces.push_back(a.b.slice(x, axis, k, k + (count - 1) * step + 1, step));
  return {a.b.stack(pieces, -1)};
}
// Into so many parts, the first ones longer by one, or at these indices.
Made split_evenly(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0)), whole = size_along(a, x, axis);
  Numbers sizes;
  if (a.find("indices", "as_ints") != nullptr || a.find("indices", "as_sym_ints") != nullptr) {
    std::int64_t begin = 0;
    for (const std::int64_t index : a.integers("indices")) {
      const std::int64_t end = std::clamp<std::int64_t>(index < 0 ? index + whole : index, begin, whole);
      sizes.push_back(end - begin);
      begin = end;
    }
    sizes.push_back(whole - begin);
  } else {
    const std::int64_t parts = a.integer("sections", 1);
    a.b.expect(parts > 0 && parts < 10'000, "its parts are none");
    for (std::int64_t k = 0; k < parts; ++k) sizes.push_back(whole / parts + (k < whole % parts ? 1 : 0));
  }
  return a.b.parts(x, axis, sizes);
}
// x with `piece` in place of its elements from `start` to `stop`.
Made with_piece(const AtenNode& a, int x, std::int64_t axis, std::int64_t start, std::int64_t stop, int piece) {
  const std::int64_t size = size_along(a, x, axis);
  if (start == 0 && stop == size) return {piece};
  std::vector<int> pieces = {piece};
  if (start > 0) pieces.insert(pieces.begin(), a.b.slice(x, axis, 0, start));
  if (stop < size) pieces.push_back(a.b.slice(x, axis, stop, size));
  return {a.b.concat(pieces, axis)};
}
Made slice_replaced(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0)), size = size_along(a, x, axis);
  a.b.expect(a.integer("step", 1) == 1, "every so many-th element that is replaced has no equal here");
  const auto within = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  const std::int64_t start = within(a.integer("start", 0)), stop = within(a.integer("end", size));
  Shape piece = a.b.shape(x);
  piece[static_cast<std::size_t>(axis)] = stop - start;
  return with_piece(a, x, axis, start, stop, a.b.broadcast(a.tensor("src"), piece));
}
Made element_replaced(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0)), size = size_along(a, x, axis);
  const std::int64_t given = a.integer("index", 0), index = given < 0 ? given + size : given;
  return with_piece(a, x, axis, index, index + 1, a.b.unsqueeze(a.tensor("src"), {axis}));
}
Made broadcast_together(const AtenNode& a) {
  const std::vector<int> given = a.tensors("tensors");
  Shape whole;
  for (const int x : given) whole = a.b.broadcast_shape(whole, a.b.shape(x));
  Made made;
  for (const int x : given) made.push_back(a.b.broadcast(x, whole));
  return made;
}
// As what remains of a view that other strides of single elements tell apart: the tensor itself.
Made strided(const AtenNode& a) {
  const int x = a.tensor("self");
  const Json* told = a.told_of("self");
  const auto whole = [](const Json& size) { return size.contains("as_int") ? size["as_int"].get<std::int64_t>() : -1; };
  const Numbers sizes = a.integers("size"), strides = a.integers("stride");
  bool same = told != nullptr && told->contains("strides") && a.integer("storage_offset", 0) == 0 &&
              (*told)["sizes"].size() == sizes.size() && (*told)["strides"].size() == sizes.size() &&
              strides.size() == sizes.size();
  for (std::size_t d = 0; same && d < sizes.size(); ++d)
    same = whole((*told)["sizes"][d]) == sizes[d] && (sizes[d] == 1 || whole((*told)["strides"][d]) == strides[d]);
  a.b.expect(same, "a tensor of other strides has no equal here");
  return {x};
}
Made channels_shuffled(const AtenNode& a) {
  const int x = a.tensor("self");
  const Shape of = a.b.shape(x);
  const std::int64_t groups = a.integer("groups", 1);
  a.b.expect(of.size() >= 2 && groups > 0 && of[1] % groups == 0, "its groups do not share its channels");
  Shape parted = of;
  parted[1] = of[1] / groups;
  parted.insert(parted.begin() + 1, groups);
  return {a.b.reshape(a.b.swap(a.b.reshape(x, parted), 1, 2), of)};
}

}  // namespace

std::map<std::string, Rule> piece_rules() {
  return {{"flip", flipped},
          {"unfold", windows},
          {"tensor_split", split_evenly},
          {"slice_scatter", slice_replaced},
          {"select_scatter", element_replaced},
          {"broadcast_tensors", broadcast_together},
          {"as_strided", strided},
          {"channel_shuffle", channels_shuffled}};
}

}  // namespace meshwright::torch
