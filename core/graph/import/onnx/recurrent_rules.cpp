// SPDX-License-Identifier: Apache-2.0
// What ONNX's recurrent layers are in primitive ops.
#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"

namespace meshwright::onnx {

using primitive::Builder;
using primitive::Shape;
using Made = std::vector<int>;

namespace {

// Functions other than the usual ones, by their names in `activations`.
void expect_usual_functions(const NodeReader& r, const std::vector<std::string>& usual) {
  const auto found = r.node.attributes.find("activations");
  if (found == r.node.attributes.end()) return;
  const std::vector<std::string>& names = found->second.texts;
  for (std::size_t k = 0; k < names.size(); ++k)
    r.b.expect(names[k] == usual[k % usual.size()], fmt::format("a {} with '{}' in place of '{}' has no equal here",
                                                                r.node.op, names[k], usual[k % usual.size()]));
}

// (x, weights, recurrent weights, [biases], [lengths], [state], [memory], [peepholes]): x (positions, batch, width), or
// the batch first; of each direction one of all others.
Made recurrent(const NodeReader& r, Builder::Cell cell, std::vector<std::size_t> order, std::int64_t gates) {
  r.b.expect(!r.has(7), "a memory that the gates see has no equal here");
  r.b.expect(!r.has("clip"), "gates that are clipped have no equal here");
  r.b.expect(r.number("input_forget", 0) == 0, "an input gate made of the forget gate has no equal here");
  const bool batch_first = r.number("layout", 0) != 0;
  const int x = batch_first ? r.in(0) : r.b.swap(r.in(0), 0, 1);
  const int weights = r.in(1), recurrent = r.in(2);
  const Shape of = r.b.shape(recurrent);
  r.b.expect(of.size() == 3 && of[0] >= 1 && of[0] <= 2, "its weights are not those of one or two directions");
  const std::string direction = r.text("direction", "forward");
  r.b.expect(direction == "forward" || direction == "reverse" || direction == "bidirectional",
             fmt::format("the direction '{}' has no equal here", direction));
  r.b.expect((direction == "bidirectional") == (of[0] == 2), "its weights do not fit its direction");
  const auto of_direction = [&](std::size_t k, std::int64_t d, std::int64_t axis) {
    return r.b.squeeze(r.b.slice(r.in(k), axis, d, d + 1), {axis});
  };
  std::vector<int> all, states, memories;
  for (std::int64_t d = 0; d < of[0]; ++d) {
    Builder::Recurrence one{.cell = cell,
                            .weight = r.b.squeeze(r.b.slice(weights, 0, d, d + 1), {0}),
                            .recurrent = r.b.squeeze(r.b.slice(recurrent, 0, d, d + 1), {0})};
    one.order = order;
    one.backwards = direction == "reverse" || d == 1;
    if (r.has(3)) {
      const int both = of_direction(3, d, 0);
      one.bias = r.b.slice(both, 0, 0, gates * of[2]);
      one.recurrent_bias = r.b.slice(both, 0, gates * of[2], 2 * gates * of[2]);
    }
    const std::int64_t axis = batch_first ? 1 : 0;
    if (r.has(5)) one.hidden = of_direction(5, d, axis);
    if (r.has(6) && cell == Builder::Cell::Lstm) one.memory = of_direction(6, d, axis);
    if (cell == Builder::Cell::Plain)
      if (const auto found = r.node.attributes.find("activations");
          found != r.node.attributes.end() && static_cast<std::size_t>(d) < found->second.texts.size())
        one.bends_by_relu = found->second.texts[static_cast<std::size_t>(d)] == "Relu";
    const Builder::Recurred made = r.b.recurrence(one, x);
    all.push_back(batch_first ? made.all : r.b.swap(made.all, 0, 1));
    states.push_back(made.hidden);
    memories.push_back(made.memory);
  }
  const std::int64_t axis = batch_first ? 1 : 0;
  return {r.b.stack(all, batch_first ? 2 : 1), r.b.stack(states, axis), r.b.stack(memories, axis)};
}
Made lstm(const NodeReader& r) {
  expect_usual_functions(r, {"Sigmoid", "Tanh", "Tanh"});
  return recurrent(r, Builder::Cell::Lstm, {0, 2, 3, 1}, 4);  // input, output, forget, cell
}
Made gru(const NodeReader& r) {
  expect_usual_functions(r, {"Sigmoid", "Tanh"});
  r.b.expect(r.number("linear_before_reset", 0) != 0,
             "a GRU that resets the state before its product has no equal here, one that does it behind has");
  return recurrent(r, Builder::Cell::Gru, {0, 1, 2}, 3);  // update, reset, new
}
Made plain(const NodeReader& r) {
  const auto found = r.node.attributes.find("activations");
  if (found != r.node.attributes.end())
    for (const std::string& name : found->second.texts)
      r.b.expect(name == "Tanh" || name == "Relu", fmt::format("an RNN with '{}' has no equal here", name));
  return recurrent(r, Builder::Cell::Plain, {0}, 1);
}

}  // namespace

std::map<std::string, Rule> recurrent_rules() { return {{"LSTM", lstm}, {"GRU", gru}, {"RNN", plain}}; }

}  // namespace meshwright::onnx
