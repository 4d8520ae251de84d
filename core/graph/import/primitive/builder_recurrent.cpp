// SPDX-License-Identifier: Apache-2.0
// Recurrences over positions, written out step by step.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// The elements of a dimension, each by itself: halves of halves, so that no step's gradient is as long as the whole.
std::vector<int> Builder::steps_of(int x, std::int64_t axis) {
  const std::int64_t size = shape(x)[static_cast<std::size_t>(axis)];
  if (size == 1) return {squeeze(x, {axis})};
  std::vector<int> steps = steps_of(slice(x, axis, 0, size / 2), axis);
  const std::vector<int> others = steps_of(slice(x, axis, size / 2, size), axis);
  steps.insert(steps.end(), others.begin(), others.end());
  return steps;
}

Builder::Recurred Builder::recurrence(const Recurrence& given, int x) {
  const Shape of = shape(x), rows = shape(given.recurrent);  // (batch, positions, width), (gates * hidden, hidden)
  const std::int64_t gates = given.cell == Cell::Lstm ? 4 : given.cell == Cell::Gru ? 3 : 1;
  expect(
      of.size() == 3 && rows.size() == 2 && rows[0] == gates * rows[1] && shape(given.weight) == Shape{rows[0], of[2]},
      fmt::format("weights {} and {} do not fit {}", to_text(shape(given.weight)), to_text(rows), to_text(of)));
  expect(!holds_batch(of[1]),
         "its positions are the first dimension of the file's inputs, which is taken for the batch; export the model "
         "with the batch first");
  expect(of[1] > 0 && of[1] <= kMaxSteps,
         fmt::format("a recurrence over {} positions is beyond the {} that are written out; export the model with "
                     "fewer",
                     of[1], kMaxSteps));
  const std::int64_t hidden = rows[1];
  const auto biased = [&](int product, const std::optional<int>& bias) {
    return bias ? binary(Kind::Add, product, *bias) : product;
  };
  const int inputs = biased(matmul(x, swap(given.weight, 0, 1)), given.bias);
  const int turned = swap(given.recurrent, 0, 1);
  const std::vector<int> steps = steps_of(inputs, 1);
  // Nothing is made of a state of zeros.
  const auto unless_zero = [&](const std::optional<int>& state) {
    return state && !is_zero(*state) ? state : std::nullopt;
  };
  std::optional<int> h = unless_zero(given.hidden), c = unless_zero(given.memory);
  const auto sigmoid = [&](int y) { return unary(Kind::Sigmoid, y); };
  const auto tanh = [&](int y) { return unary(Kind::Tanh, y); };
  const auto times = [&](int y, int z) { return binary(Kind::Multiply, y, z); };
  const auto plus = [&](int y, int z) { return binary(Kind::Add, y, z); };
  std::vector<int> states(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t at_step = given.backwards ? steps.size() - 1 - i : i;
    const auto from_state = [&] {
      if (h) return std::optional(biased(matmul(*h, turned), given.recurrent_bias));
      return given.recurrent_bias ? std::optional(broadcast(*given.recurrent_bias, {of[0], rows[0]})) : std::nullopt;
    }();
    const auto part = [&](int y, std::size_t gate) {
      const auto start = static_cast<std::int64_t>(gate) * hidden;
      return slice(y, 1, start, start + hidden);
    };
    if (given.cell == Cell::Lstm) {
      const int all = from_state ? plus(steps[at_step], *from_state) : steps[at_step];
      const auto gate = [&](Gate one) { return part(all, given.order[static_cast<std::size_t>(one)]); };
      const int added = times(sigmoid(gate(Gate::Input)), tanh(gate(Gate::Cell)));
      c = c ? plus(times(sigmoid(gate(Gate::Forget)), *c), added) : added;
      h = times(sigmoid(gate(Gate::Output)), tanh(*c));
    } else if (given.cell == Cell::Gru) {
      const auto gate = [&](int y, Gate one) { return part(y, given.order[static_cast<std::size_t>(one)]); };
      const auto sum = [&](Gate one) {
        const int own = gate(steps[at_step], one);
        return from_state ? plus(own, gate(*from_state, one)) : own;
      };
      const int update = sigmoid(sum(Gate::Update)), reset = sigmoid(sum(Gate::Reset));
      const int own = gate(steps[at_step], Gate::New);
      const int fresh = tanh(from_state ? plus(own, times(reset, gate(*from_state, Gate::New))) : own);
      h = h ? plus(fresh, times(update, binary(Kind::Subtract, *h, fresh)))
            : binary(Kind::Subtract, fresh, times(update, fresh));
    } else {
      const int sum = from_state ? plus(steps[at_step], *from_state) : steps[at_step];
      h = given.bends_by_relu ? unary(Kind::Relu, sum) : tanh(sum);
    }
    states[at_step] = *h;
  }
  return {stack(states, 1), *h, c.value_or(*h)};
}

}  // namespace meshwright::primitive
