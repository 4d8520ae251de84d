// SPDX-License-Identifier: Apache-2.0
// What the ops by which PyTorch's mixtures choose experts, and sort tokens by them, are in primitive ops.
#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Kind;
using Made = std::vector<int>;

namespace {

Made top_k(const AtenNode& a) {
  const int x = a.tensor("self");
  a.b.expect(a.b.axis_of(x, a.integer("dim", -1)) + 1 == std::ssize(a.b.shape(x)) && a.flag("largest", true),
             "a choice of the smallest, or along other than the last dimension, has no equal here");
  const auto [values, indices] = a.b.top_k(x, a.integer("k", 1));
  return {values, indices};
}
Made sorted(const AtenNode& a) {
  a.b.expect(!a.flag("descending", false), "a sort from the largest on has no equal here");
  return primitive::sorted_order(a.b, a.tensor("self"));
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
// order[i] -> i, of numbers that nothing has set.
Made put(const AtenNode& a) {
  const std::vector<int> places = a.tensors("indices");
  const int values = a.tensor("values"), self = a.tensor("self");
  a.b.expect(places.size() == 1 && a.b.at(self).constant && !a.b.at(self).values && a.b.at(values).constant &&
                 !a.flag("accumulate", false),
             "numbers that are put into others have no equal here");
  return {primitive::inverse_order(a.b, places[0])};
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
          {"_grouped_mm", by_expert},
          {"torch.ops.transformers.grouped_mm_fallback.default", by_expert}};
}

}  // namespace meshwright::torch
