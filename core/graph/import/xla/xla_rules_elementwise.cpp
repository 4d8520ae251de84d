// SPDX-License-Identifier: Apache-2.0
// Elementwise operations, and random numbers: these have no node until they drop elements of a tensor.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

using primitive::Kind;
using primitive::Shape;

// The shape of a result: the batch where any operand has it.
Shape joint_shape(Lowering& l, const FlatOp& op) {
  Shape shape = l.type(op.results[0]).sizes;
  for (const int operand : op.operands) {
    const Shape& other = l.of(operand).shape;
    for (std::size_t d = 0; d < shape.size() && other.size() == shape.size(); ++d)
      if (primitive::holds_batch(other[d])) shape[d] = other[d];
  }
  return shape;
}

// Operands of one rank: numbers, or nodes with all dimensions of HLO.
int node_of(Lowering& l, const FlatOp& op, std::size_t k) {
  const Lowered& x = l.operand(op, k);
  l.b.expect(x.shape.size() == l.type(op.results[0]).sizes.size() || x.shape.empty(),
             "its operands have different numbers of dimensions");
  return x.node;
}

void expect_operands(Lowering& l, const FlatOp& op, std::size_t count) {
  l.b.expect(op.operands.size() == count, fmt::format("it has {} operands in place of {}", op.operands.size(), count));
}

template <Kind kind>
void unary(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  l.set(op, l.b.unary(kind, node_of(l, op, 0)), l.operand(op, 0).shape);
}

template <Kind kind>
void binary(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  l.set(op, l.b.binary(kind, node_of(l, op, 0), node_of(l, op, 1)), joint_shape(l, op));
}

int number(Lowering& l, double value) { return l.b.scalar(value); }

void negate(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  l.set(op, l.b.negated(node_of(l, op, 0)), l.operand(op, 0).shape);
}

// 1, 0 or -1
void sign(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  const int x = node_of(l, op, 0), zero = l.b.constant({}, l.b.at(x).integer, std::vector<double>{0.0});
  int made =
      l.b.binary(Kind::Subtract, l.b.compare(Comparison::Greater, x, zero), l.b.compare(Comparison::Less, x, zero));
  if (!l.b.at(x).integer) made = l.b.unary(Kind::ToFloat, made);
  l.set(op, made, l.operand(op, 0).shape);
}

// (1 + x), logarithm of it; e^x - 1
void log_plus_one(Lowering& l, const FlatOp& op) {
  const int sum = l.b.binary(Kind::Add, node_of(l, op, 0), number(l, 1.0));
  l.set(op, l.b.unary(Kind::Log, sum), l.operand(op, 0).shape);
}
void exp_minus_one(Lowering& l, const FlatOp& op) {
  const int power = l.b.unary(Kind::Exp, node_of(l, op, 0));
  l.set(op, l.b.binary(Kind::Add, power, number(l, -1.0)), l.operand(op, 0).shape);
}

// x - floor(x / y) y has no use in models but on numbers that are known.
void remainder(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  const int x = node_of(l, op, 0), y = node_of(l, op, 1);
  l.b.expect(l.b.at(x).integer && l.b.at(y).integer, "a remainder of floating-point numbers has no equal here");
  const int times = l.b.binary(Kind::Multiply, l.b.binary(Kind::Divide, x, y), y);
  l.set(op, l.b.binary(Kind::Subtract, x, times), joint_shape(l, op));
}

// Truth values: and is the product, or the maximum.
template <Kind kind>
void logical(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  l.b.expect(l.type(op.results[0]).element == "pred", "logic on the bits of integers has no equal here");
  l.set(op, l.b.binary(kind, node_of(l, op, 0), node_of(l, op, 1)), joint_shape(l, op));
}

void exclusive(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  l.b.expect(l.type(op.results[0]).element == "pred", "logic on the bits of integers has no equal here");
  l.set(op, l.b.compare(Comparison::NotEqual, node_of(l, op, 0), node_of(l, op, 1)), joint_shape(l, op));
}

void invert(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  l.b.expect(l.type(op.results[0]).element == "pred", "logic on the bits of integers has no equal here");
  l.set(op, l.b.unary(Kind::Not, node_of(l, op, 0)), l.operand(op, 0).shape);
}

void compare(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  const std::map<std::string, Comparison> kDirections = {
      {"LT", Comparison::Less},     {"LE", Comparison::LessEqual},    {"EQ", Comparison::Equal},
      {"NE", Comparison::NotEqual}, {"GE", Comparison::GreaterEqual}, {"GT", Comparison::Greater}};
  const auto found = kDirections.find(op.instruction->attributes.direction);
  l.b.expect(found != kDirections.end(), fmt::format("its direction '{}' is unknown; expected LT, LE, EQ, NE, GE or GT",
                                                     printable(op.instruction->attributes.direction)));
  l.set(op, l.b.compare(found->second, node_of(l, op, 0), node_of(l, op, 1)), joint_shape(l, op));
}

bool is_number(const Lowering& l, int node, double value) { return l.b.scalar_of(node) == value; }

// Indices that count from the end where they are negative: (i < 0) ? i + n : i is i; what lies outside of a table is
// not read in training: select(inside, x, NaN) is x.
std::optional<int> plain_select(const Lowering& l, int p, int x, int y) {
  const primitive::Node& condition = l.b.at(p);
  const auto other = l.b.scalar_of(l.b.real_of(y));
  if (other && std::isnan(*other)) return x;
  if (condition.kind == Kind::Compare && condition.details.comparison == Comparison::Less && l.b.at(y).integer &&
      condition.inputs[0] == y && is_number(l, condition.inputs[1], 0.0) && l.b.at(x).kind == Kind::Add &&
      l.b.at(x).inputs[0] == y && l.b.scalar_of(l.b.at(x).inputs[1]))
    return y;
  // Quotients rounded downwards, of places in an order: none is negative.
  if (l.b.at(y).kind == Kind::Divide && primitive::is_sorted_order(l.b, l.b.at(y).inputs[0]) &&
      (l.b.at(x).kind == Kind::Subtract || l.b.at(x).kind == Kind::Add) && l.b.at(x).inputs[0] == y)
    return y;
  // What is not of its expert counts as 0: in its slots there is nothing else.
  if (other == 0.0 && primitive::is_in_slots(l.b, x)) return x;
  if (const auto known = l.b.scalar_of(p)) return *known != 0.0 ? x : y;
  return std::nullopt;
}

void select(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 3);
  const int p = node_of(l, op, 0), x = node_of(l, op, 1), y = node_of(l, op, 2);
  const Shape shape = joint_shape(l, op);
  if (const auto plain = plain_select(l, p, x, y)) return l.set(op, *plain, shape);
  l.set(op, l.b.select(p, x, y), shape);
}

void clamp(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 3);
  const int low = node_of(l, op, 0), x = node_of(l, op, 1), high = node_of(l, op, 2);
  const Shape shape = l.operand(op, 1).shape;
  // Ids are kept within their table: no id of a batch lies outside.
  if (l.b.at(x).integer && !l.b.at(x).constant) return l.set(op, x, shape);
  const bool from_zero = l.b.scalar_of(low) == 0.0 && !l.b.at(x).integer;
  const int above = from_zero ? l.b.unary(Kind::Relu, x) : l.b.binary(Kind::Maximum, x, low);
  l.set(op, l.b.binary(Kind::Minimum, above, high), shape);
}

void convert(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  const int x = node_of(l, op, 0);
  const bool to_integer = l.is_integer(op.results[0]), to_truth = l.type(op.results[0]).element == "pred";
  int made = x;
  if (l.is_complex(op.results[0]) && !l.b.is_complex(x))
    return l.set(op, l.b.complex(x, number(l, 0.0)), l.operand(op, 0).shape);
  if (!l.is_complex(op.results[0]) && l.b.is_complex(x)) made = l.b.real_of(x);
  if (to_truth && l.type(op.operands[0]).element != "pred")
    made = l.b.compare(Comparison::NotEqual, x, l.b.constant({}, l.b.at(x).integer, std::vector<double>{0.0}));
  else if (to_integer != l.b.at(x).integer)
    made = l.b.unary(to_integer ? Kind::ToInteger : Kind::ToFloat, x);
  l.set(op, made, l.operand(op, 0).shape);
}

// Of numbers that the file tells, as places in an image are.
template <double (*rounded)(double)>
void round(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  const int x = node_of(l, op, 0);
  l.b.expect(l.b.at(x).values.has_value(), "rounding of numbers that the file leaves open has no equal here");
  std::vector<double> values = *l.b.at(x).values;
  for (double& value : values) value = rounded(value);
  const Shape of_node = l.b.shape(x);
  l.set(op, l.b.constant(of_node, false, std::move(values)), l.operand(op, 0).shape);
}

void complex(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  l.set(op, l.b.complex(node_of(l, op, 0), node_of(l, op, 1)), joint_shape(l, op));
}

void real(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  l.set(op, l.b.real_of(node_of(l, op, 0)), l.operand(op, 0).shape);
}

void imaginary(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  l.set(op, l.b.imaginary_of(node_of(l, op, 0)), l.operand(op, 0).shape);
}

void same(Lowering& l, const FlatOp& op) {
  l.b.expect(!op.operands.empty(), "it has no operand");
  l.b.expect(l.type(op.results[0]) == l.type(op.operands[0]), "it changes the type of its operand");
  l.set(op.results[0], l.operand(op, 0));
}

// Training numbers are finite.
void is_finite(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 1);
  l.set(op, l.b.constant({}, true, std::vector<double>{1.0}), l.operand(op, 0).shape);
}

void maximum(Lowering& l, const FlatOp& op) {
  expect_operands(l, op, 2);
  int x = node_of(l, op, 0), y = node_of(l, op, 1);
  if (l.b.scalar_of(x)) std::swap(x, y);
  const auto bound = l.b.scalar_of(y);
  const Shape shape = joint_shape(l, op);
  if (bound && std::isinf(*bound) && *bound < 0.0) return l.set(op, x, shape);
  if (bound == 0.0 && !l.b.at(x).integer) return l.set(op, l.b.unary(Kind::Relu, x), shape);
  l.set(op, l.b.binary(Kind::Maximum, x, y), shape);
}

const std::map<std::string, Rule>& elementwise_rules() {
  static const std::map<std::string, Rule> kRules = {
      {"add", binary<Kind::Add>},
      {"subtract", binary<Kind::Subtract>},
      {"multiply", binary<Kind::Multiply>},
      {"divide", binary<Kind::Divide>},
      {"power", binary<Kind::Power>},
      {"maximum", maximum},
      {"minimum", binary<Kind::Minimum>},
      {"remainder", remainder},
      {"exponential", unary<Kind::Exp>},
      {"exponential-minus-one", exp_minus_one},
      {"log", unary<Kind::Log>},
      {"log-plus-one", log_plus_one},
      {"sqrt", unary<Kind::Sqrt>},
      {"rsqrt", unary<Kind::Rsqrt>},
      {"abs", unary<Kind::Abs>},
      {"sine", unary<Kind::Sin>},
      {"cosine", unary<Kind::Cos>},
      {"erf", unary<Kind::Erf>},
      {"tanh", unary<Kind::Tanh>},
      {"logistic", unary<Kind::Sigmoid>},
      {"negate", negate},
      {"and", logical<Kind::Multiply>},
      {"or", logical<Kind::Maximum>},
      {"xor", exclusive},
      {"not", invert},
      {"compare", compare},
      {"select", select},
      {"clamp", clamp},
      {"convert", convert},
      {"sign", sign},
      {"complex", complex},
      {"real", real},
      {"imag", imaginary},
      {"floor", round<std::floor>},
      {"ceil", round<std::ceil>},
      {"is-finite", is_finite},
      {"copy", same},
      {"reduce-precision", same},
      {"domain", same},
      {"all-reduce", same},  // of one device
  };
  return kRules;
}

// --- random numbers ---

Shape shape_of(Lowering& l, const FlatOp& op, std::size_t r) {
  return op.results.size() == 1 ? joint_shape(l, op) : l.type(op.results[r]).sizes;
}

bool makes_random(const Instruction& of) {
  for (const char* opcode : {"rng", "rng-bit-generator", "rng-get-and-update-state", "shift-left",
                             "shift-right-logical", "shift-right-arithmetic", "bitcast-convert", "popcnt"})
    if (of.opcode == opcode) return true;
  const bool bits = of.opcode == "xor" || of.opcode == "or" || of.opcode == "and" || of.opcode == "not";
  return bits && of.type.element != "pred";
}

// What of x is left where random truth values choose it: dropout, its factor brought in order.
void drop(Lowering& l, const FlatOp& op, const Lowered& x, double kept, double factor) {
  if (kept <= 0.0 && factor > 1.0) kept = 1.0 / factor;
  l.b.expect(kept > 0.0 && kept <= 1.0, "it drops elements with a probability that the file does not tell");
  const int dropped = l.b.dropout(x.node, 1.0 - kept);
  const double rest = kept * factor;
  const bool as_usual = std::abs(rest - 1.0) < 1e-3;
  l.set(op, as_usual ? dropped : l.b.binary(Kind::Multiply, dropped, number(l, rest)), joint_shape(l, op));
}

// True where the op is done: one of its operands is random, or it makes random numbers.
bool random_op(Lowering& l, const FlatOp& op) {
  std::vector<std::size_t> random;
  for (std::size_t k = 0; k < op.operands.size(); ++k)
    if (l.is_random(op.operands[k])) random.push_back(k);
  if (random.empty() && !makes_random(*op.instruction)) return false;
  const std::string& opcode = op.instruction->opcode;
  const auto numeric = [&](std::size_t k) -> std::optional<double> {
    const Lowered& x = l.operand(op, k);
    return x.random ? std::nullopt : l.b.scalar_of(x.node);
  };
  Lowered made{.shape = {}, .random = true};
  if (opcode == "compare" && random == std::vector<std::size_t>{0} && numeric(1)) {
    const std::string& direction = op.instruction->attributes.direction;
    made.kept = direction == "LT" || direction == "LE" ? *numeric(1) : 1.0 - *numeric(1);
  } else if (!random.empty() &&
             (opcode == "convert" || opcode == "broadcast" || opcode == "reshape" || opcode == "copy" ||
              opcode == "custom-call" || opcode == "transpose" || opcode == "slice")) {
    made = l.operand(op, random[0]);
  } else if (opcode == "select" && random == std::vector<std::size_t>{0}) {
    const Lowered mask = l.operand(op, 0), x = l.operand(op, 1), y = l.operand(op, 2);
    const bool keeps = numeric(2) == 0.0, hides = numeric(1) == 0.0;
    l.b.expect(keeps || hides, "random numbers that choose between two tensors have no equal here");
    const double kept = keeps || mask.kept <= 0.0 ? mask.kept : 1.0 - mask.kept;
    if (!numeric(keeps ? 1 : 2)) {
      // x times a factor that makes up for what is dropped
      const Lowered& what = keeps ? x : y;
      const primitive::Node node = l.b.at(what.node);
      const auto factor = node.kind == Kind::Multiply ? l.b.scalar_of(node.inputs[1]) : std::nullopt;
      const bool makes_up = factor && *factor > 1.0 && (kept <= 0.0 || std::abs(*factor * kept - 1.0) < 1e-2);
      if (makes_up) {
        Lowered inner = what;
        inner.node = node.inputs[0];
        drop(l, op, inner, kept, *factor);
      } else {
        drop(l, op, what, kept, 1.0);
      }
      return true;
    }
    made.kept = kept;
    made.value = *numeric(keeps ? 1 : 2);
  } else if ((opcode == "multiply" || opcode == "divide") && random.size() == 1 && numeric(1 - random[0])) {
    made = l.operand(op, random[0]);
    const double factor = *numeric(1 - random[0]);
    if (opcode == "multiply") made.value *= factor;
    if (opcode == "divide") made.value = random[0] == 0 && factor != 0.0 ? made.value / factor : 1.0;
  } else if (opcode == "multiply" && random.size() == 1 && !numeric(1 - random[0])) {
    const Lowered mask = l.operand(op, random[0]);
    drop(l, op, l.operand(op, 1 - random[0]), mask.kept, mask.value);
    return true;
  } else {
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const Lowered& x = l.operand(op, k);
      l.b.expect(x.random || l.b.at(x.node).integer || l.b.at(x.node).constant,
                 "random numbers that do more than drop elements have no equal here");
    }
  }
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    made.shape = shape_of(l, op, r);
    l.set(op.results[r], made);
  }
  return true;
}

void random_numbers(Lowering& l, const FlatOp& op) {
  if (!random_op(l, op)) l.b.fail("it has no equal here");
}

}  // namespace

bool lower_random(Lowering& l, const FlatOp& op) { return random_op(l, op); }

Rule elementwise_rule(const std::string& name) {
  const auto found = elementwise_rules().find(name);
  if (found != elementwise_rules().end()) return found->second;
  for (const char* opcode : {"rng", "rng-bit-generator", "rng-get-and-update-state", "shift-left",
                             "shift-right-logical", "shift-right-arithmetic", "bitcast-convert", "popcnt"})
    if (name == opcode) return random_numbers;
  return nullptr;
}

}  // namespace meshwright::xla
