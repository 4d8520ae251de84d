// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/choices.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

constexpr std::int64_t kMaxChosen = 32;  // one after the other

bool is_choice(const Node& node) {
  return !node.constant && (node.kind == Kind::TopK || node.kind == Kind::TopKIndex || node.kind == Kind::PickLabel);
}

// The numbers 0, 1, ... along the last dimension of such a shape.
int places(Builder& b, const Shape& of) {
  Shape row(of.size(), 1);
  row.back() = of.back();
  return b.reshape(b.range(0.0, static_cast<double>(of.back()), 1.0, true), row);
}

// The node's choices of x's last dimension, largest first; `values`: what is chosen, else where it lies.
int chosen(Builder& b, int x, const Node& node, bool values) {
  const std::int64_t count = node.details.groups;
  b.expect(node.details.number == 0.0,
           "rows that are sorted by expert have no equal here, outside of mixtures of experts");
  b.expect(count <= kMaxChosen,
           fmt::format("a choice of the {} largest has no equal here, one of {} or fewer has", count, kMaxChosen));
  const Shape of = b.shape(x);
  const auto last = static_cast<std::int64_t>(of.size()) - 1;
  const bool integer = b.at(x).integer;
  const auto number = [&](double value) { return b.constant({}, integer, std::vector<double>{value}); };
  const int all = places(b, of), beyond = b.constant({}, true, std::vector<double>{static_cast<double>(of.back())});
  int left = x;
  std::vector<int> found;
  for (std::int64_t i = 0; i < count; ++i) {
    const int largest = b.compare(Comparison::Equal, left, b.reduce(Kind::ReduceMax, left, {last}, true));
    const int first = b.least(b.select(largest, all, beyond), {last}, true);
    const int here = b.compare(Comparison::Equal, all, first);
    found.push_back(values ? b.reduce(Kind::ReduceSum, b.select(here, x, number(0.0)), {last}, true) : first);
    if (i + 1 < count) left = b.select(here, number(-std::numeric_limits<double>::infinity()), left);
  }
  return b.concat(found, last);
}

// x at the last dimension's place that `ids` tells, for each of its rows.
int picked(Builder& b, int x, int ids) {
  const auto last = static_cast<std::int64_t>(b.shape(x).size()) - 1;
  const int here = b.compare(Comparison::Equal, places(b, b.shape(x)), b.unsqueeze(ids, {last}));
  const int zero = b.constant({}, b.at(x).integer, std::vector<double>{0.0});
  return b.reduce(Kind::ReduceSum, b.select(here, x, zero), {last}, false);
}

}  // namespace

Module with_choices_written_out(Module module) {
  if (std::none_of(module.nodes.begin(), module.nodes.end(), is_choice)) return module;
  Module made;
  Nodes nodes = std::move(module.nodes);
  module.nodes.clear();
  made = std::move(module);
  Builder b(made);
  std::vector<int> now;
  std::int64_t written = 0;
  for (Node& node : nodes) {
    b.name = node.name;
    b.block = node.block;
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(now[static_cast<std::size_t>(input)]);
    if (is_choice(node)) {
      const bool picks = node.kind == Kind::PickLabel;
      now.push_back(picks ? picked(b, inputs[0], inputs[1]) : chosen(b, inputs[0], node, node.kind == Kind::TopK));
      written += picks ? 0 : 1;
    } else if (inputs.empty()) {
      now.push_back(static_cast<int>(made.nodes.size()));
      made.nodes.push_back(std::move(node));
    } else {
      now.push_back(b.add(node.kind, inputs, node.shape, node.integer, node.details));
    }
  }
  made.result = now[static_cast<std::size_t>(made.result)];
  drop_unused(made);
  if (written > 0)
    made.notes.push_back(fmt::format(
        "{} choice{} of the largest numbers {} written out, one number after the other: equal numbers are chosen in "
        "their order",
        written, written == 1 ? "" : "s", written == 1 ? "is" : "are"));
  return made;
}

}  // namespace meshwright::primitive
