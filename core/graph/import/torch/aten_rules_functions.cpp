// SPDX-License-Identifier: Apache-2.0
// What ATen's functions that are made of several primitive ops are: of elements, of truth values, of rows.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

int times(const AtenNode& a, int x, double factor) { return a.b.binary(Kind::Multiply, x, a.b.scalar(factor)); }
int plus(const AtenNode& a, int x, double number) { return a.b.binary(Kind::Add, x, a.b.scalar(number)); }

// --- of elements ---

Made between(const AtenNode& a) {
  const int x = a.tensor("self");
  const int way = a.b.binary(Kind::Subtract, a.tensor("end"), x);
  return {a.b.binary(Kind::Add, x, a.b.binary(Kind::Multiply, way, a.operand("weight")))};
}
Made logarithm_of_base(const AtenNode& a, double base) {
  return {times(a, a.b.unary(Kind::Log, a.tensor("self")), 1.0 / std::log(base))};
}
Made log2(const AtenNode& a) { return logarithm_of_base(a, 2.0); }
Made log10(const AtenNode& a) { return logarithm_of_base(a, 10.0); }
Made exp2(const AtenNode& a) { return {a.b.unary(Kind::Exp, times(a, a.tensor("self"), std::numbers::ln2))}; }
Made erfc(const AtenNode& a) { return {plus(a, a.b.negated(a.b.unary(Kind::Erf, a.tensor("self"))), 1.0)}; }
Made hyperbolic(const AtenNode& a, Kind kind) {
  const int x = a.tensor("self");
  const int up = a.b.unary(Kind::Exp, x), down = a.b.unary(Kind::Exp, a.b.negated(x));
  return {times(a, a.b.binary(kind, up, down), 0.5)};
}
Made sinh(const AtenNode& a) { return hyperbolic(a, Kind::Subtract); }
Made cosh(const AtenNode& a) { return hyperbolic(a, Kind::Add); }
Made sigmoid(const AtenNode& a) { return {a.b.unary(Kind::Sigmoid, a.tensor("self"))}; }
Made logit(const AtenNode& a) {
  a.b.expect(!a.has("eps"), "a logit that holds its operand within bounds has no equal here");
  const int x = a.tensor("self");
  return {a.b.unary(Kind::Log, a.b.binary(Kind::Divide, x, plus(a, a.b.negated(x), 1.0)))};
}
// x - lambda above lambda, x + lambda below -lambda, 0 between.
Made soft_shrink(const AtenNode& a) {
  const int x = a.tensor("self");
  const double lambda = a.number("lambd", 0.5);
  const int above = a.b.unary(Kind::Relu, plus(a, x, -lambda));
  return {a.b.binary(Kind::Subtract, above, a.b.unary(Kind::Relu, plus(a, a.b.negated(x), -lambda)))};
}
Made hard_shrink(const AtenNode& a) {
  const int x = a.tensor("self");
  const int far = a.b.compare(Comparison::Greater, a.b.unary(Kind::Abs, x), a.b.scalar(a.number("lambd", 0.5)));
  return {a.b.select(far, x, a.b.scalar(0.0))};
}
Made threshold(const AtenNode& a) {
  const int x = a.tensor("self");
  const int above = a.b.compare(Comparison::Greater, x, a.b.scalar(a.number("threshold", 0.0)));
  return {a.b.select(above, x, a.b.scalar(a.number("value", 0.0)))};
}
Made is_nan(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.compare(Comparison::NotEqual, x, x)};
}

// --- of truth values ---

// 0 or 1, of any numbers.
int truth_of(const AtenNode& a, int x) {
  return a.b.at(x).kind == Kind::Compare || a.b.at(x).kind == Kind::Not ? x : a.b.nonzero(x);
}
int truth(const AtenNode& a, const char* name) {
  const int x = a.tensor(name);
  return a.is_truth(name) ? x : truth_of(a, x);
}
Made both(const AtenNode& a) { return {a.b.binary(Kind::Multiply, truth(a, "self"), truth(a, "other"))}; }
Made either(const AtenNode& a) { return {a.b.binary(Kind::Maximum, truth(a, "self"), truth(a, "other"))}; }
Made one_of_both(const AtenNode& a) { return {a.b.compare(Comparison::NotEqual, truth(a, "self"), truth(a, "other"))}; }
Made any(const AtenNode& a) {
  return {a.b.reduce(Kind::ReduceMax, truth(a, "self"), a.integers("dim"), a.flag("keepdim", false))};
}
Made all(const AtenNode& a) {
  const int missing = a.b.unary(Kind::Not, truth(a, "self"));
  return {a.b.unary(Kind::Not, a.b.reduce(Kind::ReduceMax, missing, a.integers("dim"), a.flag("keepdim", false)))};
}

// --- of rows ---

Made least(const AtenNode& a) { return {a.b.least(a.tensor("self"), a.integers("dim"), a.flag("keepdim", false))}; }
Made tangent(const AtenNode& a) { return {a.b.tangent(a.tensor("self"))}; }
Made softsign(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.binary(Kind::Divide, x, a.b.binary(Kind::Add, a.b.unary(Kind::Abs, x), a.b.scalar(1.0)))};
}
Made arg_max(const AtenNode& a) {
  a.b.expect(a.has("dim"), "an arg max over all elements has no equal here");
  return {a.b.arg_max(a.tensor("self"), a.integer("dim", -1), a.flag("keepdim", false))};
}
Made log_of_sum(const AtenNode& a) {
  return {a.b.log_of_sum(a.tensor("self"), a.integers("dim"), a.flag("keepdim", false))};
}
Made cosine_similarity(const AtenNode& a) {
  const std::int64_t axis = a.integer("dim", 1);
  const double least = a.number("eps", 1e-8);
  const auto unit = [&](int x) {
    const int length = a.b.unary(Kind::Sqrt, a.b.reduce(Kind::ReduceSum, a.b.unary(Kind::Square, x), {axis}, true));
    return a.b.binary(Kind::Divide, x, a.b.clamp(length, least, {}));
  };
  const int x = unit(a.tensor("x1"));
  return {a.b.reduce(Kind::ReduceSum, a.b.binary(Kind::Multiply, x, unit(a.tensor("x2"))), {axis}, false)};
}

// --- constants ---

Made identity(const AtenNode& a) {
  const std::int64_t rows = a.integer("n", 0), columns = a.has("m") ? a.integer("m", rows) : rows;
  a.b.expect(rows >= 0 && columns >= 0 && rows < 65'536 && columns < 65'536, "its size is out of range");
  const int row = a.b.range(0.0, static_cast<double>(rows), 1.0, true);
  const int same =
      a.b.compare(Comparison::Equal, a.b.unsqueeze(row, {1}), a.b.range(0.0, static_cast<double>(columns), 1.0, true));
  return {a.b.unary(Kind::ToFloat, same)};
}
Made even_steps(const AtenNode& a) {
  const double start = a.number("start", 0.0), end = a.number("end", 0.0);
  const std::int64_t steps = a.integer("steps", 0);
  a.b.expect(steps > 0 && steps <= primitive::kMaxRow, "its steps are out of range");
  std::vector<double> values;
  for (std::int64_t i = 0; i < steps; ++i)
    values.push_back(steps == 1 ? start
                                : start + (end - start) * static_cast<double>(i) / static_cast<double>(steps - 1));
  return {a.b.constant({steps}, false, std::move(values))};
}
Made one_hot(const AtenNode& a) {
  const std::int64_t classes = a.integer("num_classes", -1);
  a.b.expect(classes > 0, "one-hot rows of as many classes as its numbers tell have no equal here");
  return {a.b.one_hot(a.tensor("self"), classes)};
}
// Each of the given rows along a dimension of its own.
Made grid(const AtenNode& a) {
  const std::vector<int> rows = a.tensors("tensors");
  Shape whole;
  for (const int row : rows) whole.push_back(primitive::elements_of(a.b.shape(row)));
  Made made;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    Shape own(rows.size(), 1);
    own[k] = whole[k];
    made.push_back(a.b.broadcast(a.b.reshape(rows[k], own), whole));
  }
  if (a.text("indexing", "ij") == "xy" && rows.size() >= 2)
    for (int& one : made) one = a.b.swap(one, 0, 1);
  return made;
}

}  // namespace

std::map<std::string, Rule> function_rules() {
  return {{"lerp", between},
          {"log2", log2},
          {"log10", log10},
          {"exp2", exp2},
          {"erfc", erfc},
          {"special_erfc", erfc},
          {"sinh", sinh},
          {"cosh", cosh},
          {"special_expit", sigmoid},
          {"logit", logit},
          {"softshrink", soft_shrink},
          {"hardshrink", hard_shrink},
          {"threshold", threshold},
          {"isnan", is_nan},
          {"logical_and", both},
          {"logical_or", either},
          {"logical_xor", one_of_both},
          {"any", any},
          {"all", all},
          {"amin", least},
          {"tan", tangent},
          {"softsign", softsign},
          {"argmax", arg_max},
          {"logsumexp", log_of_sum},
          {"cosine_similarity", cosine_similarity},
          {"eye", identity},
          {"linspace", even_steps},
          {"one_hot", one_hot},
          {"meshgrid", grid}};
}

}  // namespace meshwright::torch
