// SPDX-License-Identifier: Apache-2.0
// Ops that choose, and those of mixtures of experts.
#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

int Builder::one_hot(int ids, std::int64_t classes) {
  expect(at(ids).integer, "its indices are no integers");
  Shape to(shape(ids).size() + 1, 1);
  to.back() = classes;
  const int numbers = reshape(range(0.0, static_cast<double>(classes), 1.0, true), to);
  const auto last = static_cast<std::int64_t>(shape(ids).size());
  return unary(Kind::ToFloat, compare(Comparison::Equal, unsqueeze(ids, {last}), numbers));
}

int Builder::pick_each(int x, int ids) {
  const Shape rows = shape(x);
  expect(!rows.empty() && shape(ids).size() == rows.size() && at(ids).integer,
         fmt::format("indices {} do not choose from {}", to_text(shape(ids)), to_text(rows)));
  const auto last = static_cast<std::int64_t>(rows.size());
  const int wide = unsqueeze(x, {last - 1});
  return reduce(Kind::ReduceSum, binary(Kind::Multiply, wide, one_hot(ids, rows.back())), {last}, false);
}

Builder::Best Builder::top_k(int x, std::int64_t k) {
  Shape to = shape(x);
  expect(!to.empty() && k >= 1 && k <= to.back() && !holds_batch(to.back()),
         fmt::format("the {} largest of {} are none", k, to_text(to)));
  to.back() = k;
  return {add(Kind::TopK, {x}, to, at(x).integer, {.groups = k}), add(Kind::TopKIndex, {x}, to, true, {.groups = k})};
}

Builder::Best Builder::best_along(int x, std::int64_t k, std::int64_t axis, bool largest) {
  axis = axis_of(x, axis);
  const auto last = static_cast<std::int64_t>(shape(x).size()) - 1;
  const int turned = axis == last ? x : swap(x, axis, last);
  auto [values, indices] = top_k(largest ? turned : negated(turned), k);
  if (!largest) values = negated(values);
  return axis == last ? Best{values, indices} : Best{swap(values, axis, last), swap(indices, axis, last)};
}

int Builder::cumulative_sum(int x, std::int64_t axis) {
  axis = axis_of(x, axis);
  expect(!shape(x).empty() && !holds_batch(shape(x)[static_cast<std::size_t>(axis)]),
         "it adds up over the batch, which then has no micro-batches; add up over another dimension");
  return add(Kind::CumSum, {x}, shape(x), at(x).integer, {.axes = {axis}});
}

int Builder::slots(int scores, std::int64_t top_k, std::int64_t capacity) {
  return add(Kind::Slots, {scores}, shape(scores), true, {.window = {capacity}, .groups = top_k});
}

int Builder::slot_mask(int slots) {
  Shape to = shape(slots);
  to.push_back(at(slots).details.window[0]);
  return add(Kind::SlotMask, {slots}, to, false);
}

int Builder::gate_weights(int scores, int slots, bool normalize) {
  return add(Kind::GateWeights, {scores, slots}, shape(scores), false, {.number = normalize ? 1.0 : 0.0});
}

int Builder::weighted_mask(int mask, int weights) {
  return add(Kind::WeightedMask, {mask, weights}, shape(mask), false);
}

int Builder::dispatch(int x, int slots) {
  const Shape of = shape(x), chosen = shape(slots);
  expect(of.size() == 3 && chosen.size() == 3 && of[0] == chosen[0] && of[1] == chosen[1],
         fmt::format("tokens {} do not fit their slots {}", to_text(of), to_text(chosen)));
  return add(Kind::Dispatch, {x, slots}, {chosen[2], of[0], at(slots).details.window[0], of[2]}, false);
}

int Builder::combine(int buffer, int slots, int weights) {
  const Shape of = shape(buffer), chosen = shape(slots);
  expect(of.size() == 4 && of[0] == chosen[2] && of[1] == chosen[0] && of[2] == at(slots).details.window[0],
         fmt::format("what experts made {} does not fit their slots {}", to_text(of), to_text(chosen)));
  return add(Kind::Combine, {buffer, slots, weights}, {chosen[0], chosen[1], of[3]}, false);
}

}  // namespace meshwright::primitive
