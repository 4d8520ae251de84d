// SPDX-License-Identifier: Apache-2.0
// Random numbers that drop elements: whole samples of a residual branch in most files (stochastic depth).
#include <algorithm>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

bool is_uniform(const Node& node) { return node.kind == Kind::Dropout && !node.details.numbers.empty(); }

}  // namespace

int Builder::uniform(const Shape& of) {
  return add(Kind::Dropout, {broadcast(scalar(1.0), of)}, of, false, {.number = 0.5, .numbers = {1.0}});
}

int Builder::kept_at_random(const Shape& of, double probability) {
  expect(probability > 0.0 && probability <= 1.0,
         fmt::format("what is kept with a probability of {} has no equal here", probability));
  const int ones = broadcast(scalar(1.0), of);
  if (probability == 1.0) return ones;
  const int made = add(Kind::Dropout, {ones}, of, false, {.number = 1.0 - probability});
  return add(Kind::Multiply, {made, scalar(probability)}, of, false);
}

// How a tensor drops what it is a factor of: dropout of ones, times numbers.
std::optional<Builder::Drop> Builder::drop_of(int x) const {
  double factor = 1.0;
  for (;;) {
    const Node& node = at(x);
    if (node.kind == Kind::Dropout && at(node.inputs[0]).constant && !is_uniform(node))
      return Drop{node.details.number, factor};
    const bool moves = node.kind == Kind::Broadcast || node.kind == Kind::Reshape || node.kind == Kind::ToFloat;
    const std::optional<double> number = node.kind == Kind::Multiply ? scalar_of(node.inputs[1]) : std::nullopt;
    if (!moves && !number) return std::nullopt;
    factor *= number.value_or(1.0);
    x = node.inputs[0];
  }
}

int Builder::dropped(int x, const Drop& drop, const Shape& to) {
  const std::string note = "random numbers that drop whole samples or rows drop single elements here";
  if (std::find(module_.notes.begin(), module_.notes.end(), note) == module_.notes.end()) module_.notes.push_back(note);
  return binary(Kind::Multiply, dropout(broadcast(x, to), drop.probability), scalar(drop.factor));
}

std::optional<int> Builder::random_product(int x, int y) {
  if (scalar_of(x) || scalar_of(y)) return std::nullopt;
  const Shape to = broadcast_shape(shape(x), shape(y));
  if (const std::optional<Drop> drop = drop_of(y); drop && !drop_of(x)) return dropped(x, *drop, to);
  if (const std::optional<Drop> drop = drop_of(x); drop && !drop_of(y)) return dropped(y, *drop, to);
  return std::nullopt;
}

std::optional<int> Builder::random_comparison(Comparison comparison, int x, int y) {
  const bool ahead = is_uniform(at(x));
  const std::optional<double> bound = ahead ? scalar_of(y) : is_uniform(at(y)) ? scalar_of(x) : std::nullopt;
  if (!bound) return std::nullopt;
  bool below = comparison == Comparison::Less || comparison == Comparison::LessEqual;
  expect(below || comparison == Comparison::Greater || comparison == Comparison::GreaterEqual,
         "random numbers that equal others have no equal here");
  if (!ahead) below = !below;
  return kept_at_random(broadcast_shape(shape(x), shape(y)), below ? *bound : 1.0 - *bound);
}

std::optional<int> Builder::random_choice(int p, int x, int y) {
  const std::optional<Drop> drop = drop_of(p);
  if (!drop) return std::nullopt;
  const bool keeps = is_zero(y);
  expect(keeps || is_zero(x), "random numbers that choose between two tensors have no equal here");
  const Shape to = broadcast_shape(shape(p), broadcast_shape(shape(x), shape(y)));
  if (keeps) return dropped(x, *drop, to);
  return dropped(y, {1.0 - drop->probability, drop->probability}, to);
}

}  // namespace meshwright::primitive
