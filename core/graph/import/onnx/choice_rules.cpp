// SPDX-License-Identifier: Apache-2.0
// What the operators of ONNX that choose elements are in primitive ops.
#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"

namespace meshwright::onnx {

using primitive::Builder;
using primitive::Kind;
using Made = std::vector<int>;

namespace {

Made triangle(const NodeReader& r) {
  const std::int64_t offset = r.has(1) ? r.b.integers_of(r.in(1), "k").at(0) : 0;
  return {r.b.triangle(r.in(0), offset, r.number("upper", 1) != 0)};
}
// The numbers of a large constant are not kept: only its shape is computed with.
Made scatter(const NodeReader& r) {
  const int x = r.in(0), updates = r.in(2);
  const std::string sums = r.text("reduction", "none");
  r.b.expect(sums == "none", fmt::format("a scatter that joins numbers by '{}' has no equal here", sums));
  if (r.b.at(x).constant && r.b.at(updates).constant && (!r.b.at(x).values || !r.b.at(updates).values))
    return {r.b.constant(r.b.shape(x), r.b.at(x).integer, std::nullopt)};
  return {r.b.scattered(x, r.in(1), updates)};
}
Made gather(const NodeReader& r) { return {r.b.gather(r.in(0), r.in(1), r.number("axis", 0))}; }
Made gather_elements(const NodeReader& r) { return {r.b.pick_along(r.in(0), r.in(1), r.number("axis", 0))}; }
// The last dimension of the indices has one into each of the first dimensions.
Made gather_of_tuples(const NodeReader& r) {
  r.b.expect(r.number("batch_dims", 0) == 0, "a GatherND within parts of its operand has no equal here");
  const int tuples = r.in(1);
  const auto last = static_cast<std::int64_t>(r.b.shape(tuples).size()) - 1;
  r.b.expect(last >= 0, "its indices have no dimension");
  std::vector<int> ids;
  for (std::int64_t d = 0; d < r.b.shape(tuples).back(); ++d)
    ids.push_back(r.b.squeeze(r.b.slice(tuples, last, d, d + 1), {last}));
  return {r.b.pick_leading(r.in(0), std::move(ids))};
}

// --- choices, as routers of experts make them ---

Made top_k(const NodeReader& r) {
  const std::int64_t k = r.has(1) ? r.b.integers_of(r.in(1), "K").at(0) : r.number("k", 1);
  const auto [values, indices] = r.b.best_along(r.in(0), k, r.number("axis", -1), r.number("largest", 1) != 0);
  return {values, indices};
}
Made arg_max(const NodeReader& r) {
  const int x = r.in(0);
  const auto last = static_cast<std::int64_t>(r.b.shape(x).size()) - 1;
  // Whole numbers say for example where a text ends; the arg max of other numbers is a router's choice.
  if (r.b.at(x).integer && r.number("select_last_index", 0) == 0)
    return {r.b.arg_max(x, r.number("axis", 0), r.number("keepdims", 1) != 0)};
  r.b.expect(r.number("select_last_index", 0) == 0, "the last one of equal numbers has no equal here");
  if (r.b.axis_of(x, r.number("axis", 0)) != last)
    return {r.b.arg_max(x, r.number("axis", 0), r.number("keepdims", 1) != 0)};
  const int index = r.b.top_k(x, 1).indices;
  return {r.number("keepdims", 1) != 0 ? index : r.b.squeeze(index, {last})};
}
Made arg_min(const NodeReader& r) {
  r.b.expect(r.number("select_last_index", 0) == 0, "the last one of equal numbers has no equal here");
  return {r.b.arg_max(r.b.negated(r.in(0)), r.number("axis", 0), r.number("keepdims", 1) != 0)};
}
Made scatter_elements(const NodeReader& r) {
  const std::string sums = r.text("reduction", "none");
  r.b.expect(sums == "none" || sums == "add",
             fmt::format("a scatter that joins numbers by '{}' has no equal here", sums));
  return {r.b.scattered_along(r.in(0), r.in(1), r.in(2), r.number("axis", 0),
                              sums == "add" ? Builder::Joined::Adds : Builder::Joined::Replaces)};
}
Made one_hot(const NodeReader& r) {
  r.b.expect(r.number("axis", -1) == -1 && r.b.values(r.in(2), "values") == std::vector<double>({0.0, 1.0}),
             "one-hot rows of other than 0 and 1 along the last dimension have no equal here");
  return {r.b.one_hot(r.in(0), r.b.integers_of(r.in(1), "depth").at(0))};
}
Made cumulative_sum(const NodeReader& r) {
  const int x = r.in(0);
  if (r.b.at(x).constant && r.number("reverse", 0) != 0)
    return {r.b.constant(r.b.shape(x), r.b.at(x).integer, std::nullopt)};
  r.b.expect(r.number("reverse", 0) == 0, "a cumulative sum from the end has no equal here");
  const int sum = r.b.cumulative_sum(x, r.b.integers_of(r.in(1), "axis").at(0));
  return {r.number("exclusive", 0) != 0 ? r.b.binary(Kind::Subtract, sum, x) : sum};
}

}  // namespace

std::map<std::string, Rule> choice_rules() {
  return {{"Trilu", triangle},
          {"CumSum", cumulative_sum},
          {"TopK", top_k},
          {"ArgMax", arg_max},
          {"ArgMin", arg_min},
          {"Scatter", scatter_elements},
          {"ScatterElements", scatter_elements},
          {"OneHot", one_hot},
          {"ScatterND", scatter},
          {"Gather", gather},
          {"GatherND", gather_of_tuples},
          {"GatherElements", gather_elements}};
}

}  // namespace meshwright::onnx
