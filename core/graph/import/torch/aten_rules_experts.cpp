// SPDX-License-Identifier: Apache-2.0
// What PyTorch's ops that choose elements, and put them at other places, are in primitive ops, among them those by
// which mixtures choose experts and sort tokens by them.
#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Kind;
using Made = std::vector<int>;

namespace {

// A list of places along an axis of x as the index of each element of the rows that it tells.
int index_of_each(const AtenNode& a, int x, int list, std::size_t axis) {
  primitive::Shape of = a.b.shape(x), row(of.size(), 1);
  row[axis] = of[axis] = a.b.shape(list)[0];
  return a.b.broadcast(a.b.reshape(list, row), of);
}

primitive::Builder::Joined joined_by(bool adds) {
  return adds ? primitive::Builder::Joined::Adds : primitive::Builder::Joined::Replaces;
}
Made top_k(const AtenNode& a) {
  const auto [values, indices] =
      a.b.best_along(a.tensor("self"), a.integer("k", 1), a.integer("dim", -1), a.flag("largest", true));
  return {values, indices};
}
Made sorted(const AtenNode& a) {
  const int x = a.tensor("self");
  const bool descending = a.flag("descending", false);
  if (!descending && primitive::is_choice_of_experts(a.b, x)) return primitive::sorted_order(a.b, x);
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", -1));
  const auto [values, indices] = a.b.best_along(x, a.b.shape(x)[static_cast<std::size_t>(axis)], axis, descending);
  return {values, indices};
}
Made floor_divide(const AtenNode& a) {
  const int x = a.tensor("self"), by = a.operand("other");
  if (a.b.at(x).values && a.b.at(by).values) {  // towards zero would be another number where one is negative
    const int quotient = a.b.binary(Kind::Divide, a.b.unary(Kind::ToFloat, x), a.b.unary(Kind::ToFloat, by));
    const int whole = a.b.rounded(quotient, primitive::Builder::Rounding::Down);
    return {a.b.at(x).integer && a.b.at(by).integer ? a.b.unary(Kind::ToInteger, whole) : whole};
  }
  a.b.expect(a.b.at(x).integer && a.b.at(by).integer, "a division that is rounded down has no equal here");
  return {a.b.binary(Kind::Divide, x, by)};
}
// How many rows each expert has: those that are counted do not matter, as each has its slots.
Made counts(const AtenNode& a) {
  a.b.expect(a.integer("bins", 0) > 0, "a histogram of no bins has no equal here");
  return {a.b.constant({a.integer("bins", 1)}, false, std::nullopt)};
}
Made unset(const AtenNode& a) {
  return {a.b.constant(a.b.shape(a.tensor("self")), a.b.at(a.tensor("self")).integer, std::nullopt)};
}
// order[i] -> i, of numbers that nothing has set; or elements at the places that one list tells along a dimension.
Made put(const AtenNode& a) {
  const Json* lists = a.find("indices", "as_optional_tensors");
  const std::vector<int> places = a.tensors("indices");
  const int values = a.tensor("values"), self = a.tensor("self");
  a.b.expect(places.size() == 1, "numbers that are put where several lists tell have no equal here");
  if (primitive::is_sorted_order(a.b, places[0])) {
    a.b.expect(a.b.at(self).constant && !a.b.at(self).values && a.b.at(values).constant && !a.flag("accumulate", false),
               "numbers that are put into others have no equal here");
    return {primitive::inverse_order(a.b, places[0])};
  }
  std::size_t axis = 0;
  while (lists != nullptr && axis < lists->size() && !(*lists)[axis].contains("as_tensor")) ++axis;
  a.b.expect(axis < a.b.shape(self).size() && a.b.shape(places[0]).size() == 1,
             "numbers that are put so have no equal here");
  const int index = index_of_each(a, self, places[0], axis);
  return {a.b.scattered_along(self, index, a.b.broadcast(values, a.b.shape(index)), static_cast<std::int64_t>(axis),
                              joined_by(a.flag("accumulate", false)))};
}
// Elements of `src`, or one number, at the places that an index of each tells along a dimension.
template <bool adds>
Made scatter(const AtenNode& a) {
  const std::string reduce = a.text("reduce", "");
  a.b.expect(reduce.empty() || reduce == "add" || reduce == "sum",
             fmt::format("a scatter that joins numbers by '{}' has no equal here", reduce));
  const int updates = a.operand(a.has("src") ? "src" : "value");
  return {a.b.scattered_along(a.tensor("self"), a.tensor("index"), updates, a.integer("dim", 0),
                              joined_by(adds || !reduce.empty()))};
}
// The same of whole rows: one index for each.
enum class Rows { Added, Copied, Filled };
template <Rows how>
Made rows_scattered(const AtenNode& a) {
  const int self = a.tensor("self"), index = a.tensor("index");
  const std::int64_t axis = a.b.axis_of(self, a.integer("dim", 0));
  a.b.expect(a.b.shape(index).size() == 1, "its index is no list");
  int updates = a.operand(how == Rows::Filled ? "value" : "source");
  if (how == Rows::Added) updates = a.b.binary(Kind::Multiply, updates, a.b.scalar(a.number("alpha", 1.0)));
  return {a.b.scattered_along(self, index_of_each(a, self, index, static_cast<std::size_t>(axis)), updates, axis,
                              joined_by(how == Rows::Added))};
}
Made arg_min(const AtenNode& a) {
  a.b.expect(a.has("dim"), "an arg min over all elements has no equal here");
  return {a.b.arg_max(a.b.negated(a.tensor("self")), a.integer("dim", -1), a.flag("keepdim", false))};
}
Made arg_sort(const AtenNode& a) { return {sorted(a)[1]}; }
Made product(const AtenNode& a) {
  a.b.expect(a.has("dim"), "a product of all elements has no equal here");
  return {a.b.multiplied(a.tensor("self"), a.integer("dim", 0), a.flag("keepdim", false))};
}
Made by_expert(const AtenNode& a) {
  const bool plain = a.has("input");
  return {primitive::product_by_expert(a.b, a.tensor(plain ? "input" : "self"), a.tensor(plain ? "weight" : "mat2"))};
}

}  // namespace

std::map<std::string, Rule> expert_rules() {
  return {{"topk", top_k},
          {"sort", sorted},
          {"floor_divide", floor_divide},
          {"histc", counts},
          {"empty_like", unset},
          {"index_put", put},
          {"scatter", scatter<false>},
          {"scatter_add", scatter<true>},
          {"index_add", rows_scattered<Rows::Added>},
          {"index_copy", rows_scattered<Rows::Copied>},
          {"index_fill", rows_scattered<Rows::Filled>},
          {"argmin", arg_min},
          {"argsort", arg_sort},
          {"prod", product},
          {"_grouped_mm", by_expert},
          {"torch.ops.transformers.grouped_mm_fallback.default", by_expert}};
}

}  // namespace meshwright::torch
