// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- activations ---

// Whether i is a polynomial of x with GELU's coefficient in it.
bool Recogniser::tanh_argument(int i, int x) const {
  std::vector<int> open = {i};
  bool coefficient = false;
  for (int steps = 0; !open.empty(); ++steps) {
    if (steps > 24) return false;
    const int at_node = open.back();
    open.pop_back();
    if (at_node == x) continue;
    if (const auto scalar = b_.scalar_of(at_node)) {
      coefficient = coefficient || near(*scalar * 10.0, 0.44715) || near(*scalar, 0.044715 * 0.7978845608) ||
                    std::abs(*scalar - 0.044715) < 1e-5;
      continue;
    }
    const Kind kind = at(at_node).kind;
    if (kind != Kind::Add && kind != Kind::Multiply && kind != Kind::Square && kind != Kind::Power) return false;
    open.insert(open.end(), at(at_node).inputs.begin(), at(at_node).inputs.end());
  }
  return coefficient;
}

// x * 0.5 * (1 + erf(x / sqrt 2)) and its like, in any order; x * sigmoid(x).
Recogniser::Found Recogniser::activation(int x, int y) {
  std::vector<int> open = {x, y}, factors;
  double factor = 1.0;
  while (!open.empty() && open.size() + factors.size() < 8) {
    const int i = open.back();
    open.pop_back();
    if (const auto scalar = b_.scalar_of(i))
      factor *= *scalar;
    else if (is(i, Kind::Multiply))
      open.insert(open.end(), at(i).inputs.begin(), at(i).inputs.end());
    else
      factors.push_back(i);
  }
  if (!open.empty() || factors.size() != 2) return std::nullopt;
  for (const auto& [of, gate] : {std::pair{factors[0], factors[1]}, std::pair{factors[1], factors[0]}}) {
    if (near(factor, 1.0) && is(gate, Kind::Sigmoid)) {
      if (at(gate).inputs[0] == of) return b_.unary(Kind::Silu, of);
      // x sigmoid(a x) = silu(a x) / a.
      if (const Scaled steep = unscaled(at(gate).inputs[0]); steep.node == of && steep.factor != 0.0)
        return b_.binary(Kind::Multiply, b_.unary(Kind::Silu, at(gate).inputs[0]), b_.scalar(1.0 / steep.factor));
    }
    double one = 0.0;
    const Found bent = beside_scalar(gate, Kind::Add, &one);
    if (!bent || !near(one, 1.0) || !near(factor, 0.5)) continue;
    if (is(*bent, Kind::Erf)) {
      const Scaled argument = unscaled(at(*bent).inputs[0]);
      if (argument.node == of && near(argument.factor, std::sqrt(0.5))) return b_.unary(Kind::GeluErf, of);
    }
    if (is(*bent, Kind::Tanh) && tanh_argument(at(*bent).inputs[0], of)) return b_.unary(Kind::Gelu, of);
  }
  return std::nullopt;
}

// --- functions by their values ---

namespace {

constexpr std::array kPoints = {-5.0, -3.1, -2.4, -1.3, -0.6, -0.1, 0.0, 0.2, 0.7, 1.5, 2.6, 4.0};
constexpr double kRounding = 6e-3;  // of coefficients in bf16; the two forms of GELU are 5e-4 apart
using Values = std::array<double, kPoints.size()>;

bool is_elementwise(Kind kind) { return (kind >= Kind::Add && kind <= Kind::ToFloat) || kind == Kind::Select; }

// What the nodes compute of x, by node: those of `nodes` in order.
Values values_of(const Builder& b, const std::set<int>& nodes, int x) {
  std::map<int, Values> made;
  for (std::size_t p = 0; p < kPoints.size(); ++p) made[x][p] = kPoints[p];
  for (const int n : nodes) {
    const Node& node = b.at(n);
    Values& into = made[n];
    for (std::size_t p = 0; p < kPoints.size(); ++p) {
      const auto operand = [&](std::size_t k) {
        const auto number = b.scalar_of(node.inputs[k]);
        return number ? *number : made[node.inputs[k]][p];
      };
      into[p] = node.kind == Kind::Select ? (operand(0) != 0.0 ? operand(1) : operand(2))
                : node.inputs.size() == 2
                    ? binary_value(node.kind, operand(0), operand(1), node.details.comparison, false)
                    : unary_value(node.kind, operand(0));
    }
  }
  return made[*nodes.rbegin()];
}

}  // namespace

// The activation that i is of one tensor, told by its values: its formula may be any, such as the polynomials that
// stand for erfc.
Recogniser::Found Recogniser::function(int i) {
  constexpr std::size_t kMaxNodes = 160;
  if (!is_elementwise(at(i).kind) || at(i).integer || !at(i).trained || at(i).inputs.size() < 1) return std::nullopt;
  std::set<int> open = {i}, inside;
  bool bends = false;  // an exponential or the like: sums and products alone are no activation
  while (!open.empty() && inside.size() < kMaxNodes) {
    const int next = *open.rbegin();
    if (open.size() == 1 && next != i && bends && !at(next).integer) {
      function_budget_ -= static_cast<std::int64_t>(inside.size());
      if (function_budget_ < 0) return std::nullopt;
      const Values values = values_of(b_, inside, next);
      Kind nearest = Kind::Sigmoid;
      double least = kRounding;
      for (const Kind kind : {Kind::Sigmoid, Kind::Silu, Kind::Gelu, Kind::GeluErf, Kind::Tanh}) {
        double error = 0.0;
        for (std::size_t p = 0; p < kPoints.size(); ++p) {
          const double off = std::abs(values[p] - unary_value(kind, kPoints[p]));
          error = off >= 0.0 ? std::max(error, off) : kRounding;  // no number: none
        }
        if (error < least) nearest = kind, least = error;
      }
      if (least < kRounding) return b_.unary(nearest, next);
    }
    open.erase(next);
    const Node& node = at(next);
    if (!is_elementwise(node.kind) || node.shape != at(i).shape) return std::nullopt;
    bends = bends || node.kind == Kind::Exp || node.kind == Kind::Erf || node.kind == Kind::Tanh ||
            node.kind == Kind::Sigmoid;
    inside.insert(next);
    for (const int input : node.inputs)
      if (!b_.scalar_of(input)) open.insert(input);
  }
  return std::nullopt;
}

}  // namespace meshwright::primitive
