// SPDX-License-Identifier: Apache-2.0
// What ATen's recurrent layers are in primitive ops.
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Builder;
using primitive::Shape;
using Made = std::vector<int>;

namespace {

// (input, states (layers * directions, batch, hidden), weights and biases of each layer and direction, ...)
Made recurrent(const AtenNode& a, Builder::Cell cell, std::vector<std::size_t> order, bool bends_by_relu = false) {
  const bool both = a.flag("bidirectional", false), batch_first = a.flag("batch_first", false),
             biases = a.flag("has_biases", true);
  a.b.expect(!a.has("batch_sizes"), "a recurrence over packed samples has no equal here");
  int x = a.tensor("input");
  a.b.expect(a.b.shape(x).size() == 3, "its input is not of samples and positions");
  if (!batch_first) x = a.b.swap(x, 0, 1);
  std::vector<int> states;
  if (a.find("hx", "as_tensors") != nullptr)
    states = a.tensors("hx");
  else
    states = {a.tensor("hx")};
  const std::vector<int> weights = a.tensors("params");
  const std::int64_t layers = a.integer("num_layers", 1), directions = both ? 2 : 1;
  const std::size_t each = biases ? 4 : 2;
  a.b.expect(layers > 0 && layers < 1000 && weights.size() == static_cast<std::size_t>(layers * directions) * each &&
                 states.size() == (cell == Builder::Cell::Lstm ? 2 : 1),
             "its weights or states are not those of its layers");
  const double drops = a.flag("train", false) ? a.number("dropout", 0.0) : 0.0;
  std::vector<int> last, memories;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<int> sides;
    for (std::int64_t side = 0; side < directions; ++side) {
      const std::int64_t place = layer * directions + side;
      const auto first = static_cast<std::size_t>(place) * each;
      Builder::Recurrence one{.cell = cell, .weight = weights[first], .recurrent = weights[first + 1]};
      one.order = order;
      one.backwards = side == 1;
      one.bends_by_relu = bends_by_relu;
      if (biases) {
        one.bias = weights[first + 2];
        one.recurrent_bias = weights[first + 3];
      }
      const auto state = [&](int of) { return a.b.squeeze(a.b.slice(of, 0, place, place + 1), {0}); };
      one.hidden = state(states[0]);
      if (cell == Builder::Cell::Lstm) one.memory = state(states[1]);
      const Builder::Recurred made = a.b.recurrence(one, x);
      sides.push_back(made.all);
      last.push_back(made.hidden);
      memories.push_back(made.memory);
    }
    x = a.b.concat(sides, 2);
    if (layer + 1 < layers) x = a.b.dropout(x, drops);
  }
  Made made = {batch_first ? x : a.b.swap(x, 0, 1), a.b.stack(last, 0)};
  if (cell == Builder::Cell::Lstm) made.push_back(a.b.stack(memories, 0));
  return made;
}
Made lstm(const AtenNode& a) { return recurrent(a, Builder::Cell::Lstm, {0, 1, 2, 3}); }  // input, forget, cell, output
Made gru(const AtenNode& a) { return recurrent(a, Builder::Cell::Gru, {1, 0, 2}); }       // reset, update, new
template <bool relu>
Made plain(const AtenNode& a) {
  return recurrent(a, Builder::Cell::Plain, {0}, relu);
}

}  // namespace

std::map<std::string, Rule> recurrent_rules() {
  return {{"lstm", lstm}, {"gru", gru}, {"rnn_tanh", plain<false>}, {"rnn_relu", plain<true>}};
}

}  // namespace meshwright::torch
