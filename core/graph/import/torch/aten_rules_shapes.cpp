// SPDX-License-Identifier: Apache-2.0
// What ATen's ops that move elements, and choose some, are in primitive ops.
#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

Made view(const AtenNode& a) {
  const int x = a.tensor("self");
  if (primitive::is_sum_of_choices(a.b, x)) return {x};  // where a file parts the choices, to sum them
  return {a.b.reshape(x, a.integers(a.has("size") ? "size" : "shape"))};
}
Made flatten(const AtenNode& a) {
  const int x = a.tensor("self");
  const auto first = static_cast<std::size_t>(a.b.axis_of(x, a.integer("start_dim", 0))),
             last = static_cast<std::size_t>(a.b.axis_of(x, a.integer("end_dim", -1)));
  const Shape from = a.b.shape(x);
  Shape to;
  for (std::size_t d = 0; d < from.size(); ++d)
    if (d > first && d <= last)
      to.back() *= from[d];
    else
      to.push_back(from[d]);
  return {a.b.reshape(x, to)};
}
Made unflatten(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  Shape to = a.b.shape(x);
  const Numbers sizes = a.integers("sizes");
  to.erase(to.begin() + axis);
  to.insert(to.begin() + axis, sizes.begin(), sizes.end());
  return {a.b.reshape(x, to)};
}
Made transpose(const AtenNode& a) { return {a.b.swap(a.tensor("self"), a.integer("dim0", 0), a.integer("dim1", 1))}; }
Made axes_swapped(const AtenNode& a) {
  return {a.b.swap(a.tensor("self"), a.integer("axis0", 0), a.integer("axis1", 1))};
}
Made permute(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers axes = a.integers("dims");
  for (std::int64_t& axis : axes) axis = a.b.axis_of(x, axis);
  return {a.b.transpose(x, axes)};
}
Made turned(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.shape(x).size() < 2 ? x : a.b.swap(x, 0, 1)};
}
// All dimensions the other way round.
Made reversed(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers axes(a.b.shape(x).size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return {a.b.transpose(x, axes)};
}
Made matrices_turned(const AtenNode& a) { return {a.b.swap(a.tensor("self"), -1, -2)}; }
Made view_as(const AtenNode& a) { return {a.b.reshape(a.tensor("self"), a.b.shape(a.tensor("other")))}; }
Made expand_as(const AtenNode& a) { return {a.b.broadcast(a.tensor("self"), a.b.shape(a.tensor("other")))}; }
Made moved(const AtenNode& a) {
  const int x = a.tensor("self");
  const Numbers from = a.integers("source"), to = a.integers("destination");
  a.b.expect(from.size() == to.size(), "its dimensions do not all have a destination");
  Numbers axes(a.b.shape(x).size(), -1), rest;
  for (std::size_t k = 0; k < from.size(); ++k)
    axes[static_cast<std::size_t>(a.b.axis_of(x, to[k]))] = a.b.axis_of(x, from[k]);
  for (std::int64_t d = 0; d < std::ssize(axes); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) rest.push_back(d);
  std::size_t next = 0;
  for (std::int64_t& axis : axes)
    if (axis < 0 && next < rest.size()) axis = rest[next++];
  return {a.b.transpose(x, axes)};
}
Made squeeze(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers axes, given = a.integers("dim");
  if (!a.has("dim"))  // all dimensions
    for (std::int64_t d = 0; d < std::ssize(a.b.shape(x)); ++d) given.push_back(d);
  for (std::int64_t axis : given) {
    axis = a.b.axis_of(x, axis);
    if (a.b.shape(x)[static_cast<std::size_t>(axis)] == 1) axes.push_back(axis);
  }
  return {axes.empty() ? x : a.b.squeeze(x, axes)};
}
Made unsqueeze(const AtenNode& a) { return {a.b.unsqueeze(a.tensor("self"), {a.integer("dim", 0)})}; }
Made expand(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers to = a.integers("size");
  const Shape& from = a.b.shape(x);
  for (std::size_t d = 0; d < to.size(); ++d)
    if (to[d] == -1 && d + from.size() >= to.size()) to[d] = from[d + from.size() - to.size()];
  return {a.b.broadcast(x, to)};
}
Made slice(const AtenNode& a) {
  return {a.b.slice(a.tensor("self"), a.integer("dim", 0), a.integer("start", 0), a.integer("end", kEnd),
                    a.integer("step", 1))};
}
// Lists for dimensions behind the first ones, side by side: these are moved to the front, and the picked ones back.
Made pick_inside(const AtenNode& a, const Json& lists) {
  const int x = a.tensor("self");
  std::vector<int> ids;
  std::size_t first = 0;
  for (std::size_t d = 0; d < lists.size(); ++d) {
    if (!lists[d].is_object() || !lists[d].contains("as_tensor")) continue;
    if (ids.empty()) first = d;
    a.b.expect(first + ids.size() == d, "indices into dimensions that are not side by side have no equal here");
    ids.push_back(a.value_of(get<std::string>(lists[d]["as_tensor"], "name", a.b.name)));
    a.b.expect(a.b.at(ids.back()).integer, "indices by truth values have no equal here");
  }
  const std::size_t rank = a.b.shape(x).size();
  a.b.expect(first + ids.size() <= rank, "it has more indices than its operand has dimensions");
  Numbers front, back;
  for (std::size_t k = 0; k < ids.size(); ++k) front.push_back(static_cast<std::int64_t>(first + k));
  for (std::size_t d = 0; d < rank; ++d)
    if (d < first || d >= first + ids.size()) front.push_back(static_cast<std::int64_t>(d));
  const std::size_t others = rank - ids.size();
  const int picked = a.b.pick_leading(a.b.transpose(x, front), ids);
  const std::size_t made = a.b.shape(picked).size() - others;
  for (std::size_t d = 0; d < first; ++d) back.push_back(static_cast<std::int64_t>(made + d));
  for (std::size_t d = 0; d < made; ++d) back.push_back(static_cast<std::int64_t>(d));
  for (std::size_t d = first; d < others; ++d) back.push_back(static_cast<std::int64_t>(made + d));
  return {a.b.transpose(picked, back)};
}
Made pick_by_lists(const AtenNode& a) {
  // One list, for a later dimension.
  if (const Json* lists = a.find("indices", "as_optional_tensors"); lists != nullptr && lists->is_array()) {
    std::optional<std::size_t> given;
    std::size_t lists_given = 0;
    for (std::size_t d = 0; d < lists->size(); ++d)
      if ((*lists)[d].is_object() && (*lists)[d].contains("as_tensor")) {
        given = d;
        ++lists_given;
      }
    a.b.expect(given.has_value(), "its indices are none");
    if (lists_given > 1) return pick_inside(a, *lists);
    const int ids = a.value_of(get<std::string>((*lists)[*given]["as_tensor"], "name", a.b.name));
    a.b.expect(a.b.at(ids).integer, "its indices are no whole numbers");
    return {a.b.gather(a.tensor("self"), ids, static_cast<std::int64_t>(*given))};
  }
  a.b.expect(a.find("indices", "as_tensors") != nullptr,
             "indices into other than the first dimensions have no equal here");
  const std::vector<int> ids = a.tensors("indices");
  if (ids.size() == 1)
    if (const std::optional<int> rows = primitive::sorted_rows(a.b, a.tensor("self"), ids[0])) return {*rows};
  for (const int one : ids) a.b.expect(a.b.at(one).integer, "indices by truth values have no equal here");
  return {a.b.pick_leading(a.tensor("self"), ids)};
}
Made differences(const AtenNode& a) {
  a.b.expect(a.integer("n", 1) == 1 && !a.has("append"), "differences of differences have no equal here");
  const std::optional<int> front = a.has("prepend") ? std::optional(a.tensor("prepend")) : std::nullopt;
  return {a.b.differences(a.tensor("self"), front, a.integer("dim", -1))};
}
Made cumulative_sum(const AtenNode& a) { return {a.b.cumulative_sum(a.tensor("self"), a.integer("dim", 0))}; }
Made select(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  std::int64_t index = a.integer("index", 0);
  if (index < 0) index += a.b.shape(x)[static_cast<std::size_t>(axis)];
  return {a.b.squeeze(a.b.slice(x, axis, index, index + 1), {axis})};
}
Made split(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  const std::int64_t whole = a.b.shape(x)[static_cast<std::size_t>(axis)];
  Numbers sizes = a.integers(a.has("split_sizes") ? "split_sizes" : "split_size");
  if (sizes.size() == 1 && !a.has("split_sizes")) {
    const std::int64_t each = sizes[0];
    a.b.expect(each > 0 && whole / each < 10'000, "its parts are empty");
    sizes.clear();
    for (std::int64_t left = whole; left > 0; left -= each) sizes.push_back(std::min(each, left));
  }
  return a.b.parts(x, axis, sizes);
}
Made chunk(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0)), chunks = a.integer("chunks", 1);
  const std::int64_t whole = a.b.shape(x)[static_cast<std::size_t>(axis)];
  a.b.expect(chunks > 0 && chunks < 10'000, "its parts are none");
  Numbers sizes;
  const std::int64_t each = (whole + chunks - 1) / chunks;
  for (std::int64_t left = whole; left > 0; left -= each) sizes.push_back(std::min(each, left));
  return a.b.parts(x, axis, sizes);
}
// Without rows of no element, which may stand beside tensors of any dimensions.
Made concat(const AtenNode& a) {
  std::vector<int> pieces = a.tensors("tensors");
  const auto is_empty = [&](int piece) { return a.b.shape(piece) == Shape{0}; };
  if (!std::all_of(pieces.begin(), pieces.end(), is_empty)) std::erase_if(pieces, is_empty);
  return {a.b.concat(pieces, a.integer("dim", 0))};
}
Made stack(const AtenNode& a) { return {a.b.stack(a.tensors("tensors"), a.integer("dim", 0))}; }
Made unbind(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  const std::int64_t size = a.b.shape(x)[static_cast<std::size_t>(axis)];
  a.b.expect(size < 10'000, "its parts are too many");
  Made parts;
  for (std::int64_t at = 0; at < size; ++at) parts.push_back(a.b.squeeze(a.b.slice(x, axis, at, at + 1), {axis}));
  return parts;
}
Made narrow(const AtenNode& a) {
  const std::int64_t start = a.integer("start", 0), length = a.integer("length", 0);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  a.b.expect(start > -kMost && start < kMost && length >= 0 && length < kMost, "its part is out of range");
  // From the end on, a part that ends there ends at no negative index.
  const std::int64_t end = start < 0 && start + length >= 0 ? kEnd : start + length;
  return {a.b.slice(a.tensor("self"), a.integer("dim", 0), start, end)};
}
Made tile(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers times = a.integers(a.has("repeats") ? "repeats" : "dims");
  if (times.size() < a.b.shape(x).size()) times.insert(times.begin(), a.b.shape(x).size() - times.size(), 1);
  return {a.b.tile(x, times)};
}
// Two numbers for each dimension, the last one's first.
Made pad(const AtenNode& a) {
  const int x = a.tensor("self");
  const Numbers pads = a.integers("pad");
  const std::size_t rank = a.b.shape(x).size();
  a.b.expect(pads.size() % 2 == 0 && pads.size() <= 2 * rank, "its padding is not two for each dimension");
  Numbers before(rank, 0), after = before;
  for (std::size_t k = 0; 2 * k < pads.size(); ++k) {
    before[rank - 1 - k] = pads[2 * k];
    after[rank - 1 - k] = pads[2 * k + 1];
  }
  const std::string mode = a.text("mode", "constant");
  if (mode == "reflect" || mode == "replicate") return {a.b.pad_by_inside(x, before, after, mode == "reflect")};
  if (mode == "circular") return {a.b.pad_by_other_end(x, before, after)};
  a.b.expect(mode == "constant", fmt::format("padding by the mode '{}' has no equal here", mode));
  return {a.b.pad(x, before, after, a.number("value", 0.0))};
}
// The rows and columns of a triangle of a matrix, row by row.
Made triangle_indices(const AtenNode& a, bool lower) {
  const std::int64_t rows = a.integer("row", 0), columns = a.integer("col", 0), offset = a.integer("offset", 0);
  a.b.expect(rows >= 0 && columns >= 0 && rows < 65'536 && columns < 65'536 && rows * columns <= (1 << 24),
             "its triangle is out of range");
  std::vector<double> at_rows, at_columns;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (lower ? j - i <= offset : j - i >= offset) {
        at_rows.push_back(static_cast<double>(i));
        at_columns.push_back(static_cast<double>(j));
      }
  const auto count = static_cast<std::int64_t>(at_rows.size());
  at_rows.insert(at_rows.end(), at_columns.begin(), at_columns.end());
  return {a.b.constant({2, count}, true, std::move(at_rows))};
}
Made lower_indices(const AtenNode& a) { return triangle_indices(a, true); }
Made upper_indices(const AtenNode& a) { return triangle_indices(a, false); }
Made roll(const AtenNode& a) {
  int x = a.tensor("self");
  const Numbers shifts = a.integers("shifts"), axes = a.integers("dims");
  a.b.expect(shifts.size() == axes.size(), "a roll over all elements has no equal here");
  for (std::size_t k = 0; k < axes.size(); ++k) x = a.b.roll(x, axes[k], shifts[k]);
  return {x};
}
Made picked_rows(const AtenNode& a) { return {a.b.gather(a.tensor("self"), a.tensor("index"), a.integer("dim", 0))}; }
Made repeat(const AtenNode& a) {
  a.b.expect(a.find("dim", "as_int") != nullptr, "repeats over all dimensions have no equal here");
  a.b.expect(a.find("repeats", "as_tensor") == nullptr, "repeats of each element's own number have no equal here");
  return {a.b.repeat(a.tensor("self"), a.integer("dim", 0), a.integer("repeats", 1))};
}

}  // namespace

std::map<std::string, Rule> shape_rules() {
  return {{"view", view},
          {"_unsafe_view", view},
          {"reshape", view},
          {"flatten", flatten},
          {"unflatten", unflatten},
          {"transpose", transpose},
          {"permute", permute},
          {"t", turned},
          {"numpy_T", reversed},
          {"mT", matrices_turned},
          {"swapaxes", axes_swapped},
          {"swapdims", transpose},
          {"movedim", moved},
          {"view_as", view_as},
          {"reshape_as", view_as},
          {"expand_as", expand_as},
          {"narrow", narrow},
          {"squeeze", squeeze},
          {"unsqueeze", unsqueeze},
          {"expand", expand},
          {"slice", slice},
          {"select", select},
          {"index", pick_by_lists},
          {"diff", differences},
          {"cumsum", cumulative_sum},
          {"split", split},
          {"split_with_sizes", split},
          {"chunk", chunk},
          {"cat", concat},
          {"concat", concat},
          {"concatenate", concat},
          {"stack", stack},
          {"unbind", unbind},
          {"repeat", tile},
          {"tile", tile},
          {"pad", pad},
          {"tril_indices", lower_indices},
          {"triu_indices", upper_indices},
          {"constant_pad_nd", pad},
          {"roll", roll},
          {"index_select", picked_rows},
          {"repeat_interleave", repeat}};
}

}  // namespace meshwright::torch
