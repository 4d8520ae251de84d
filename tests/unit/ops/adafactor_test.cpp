// SPDX-License-Identifier: Apache-2.0
// Adafactor: its ops shard by shard, and whole steps against the algorithms of the paper written as plain loops.
#include <gtest/gtest.h>

#include <set>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "tests/op_fixture.h"

namespace meshwright::adafactor_test {
namespace {

const Dim kIn{"in", 4}, kHeads{"heads", 2}, kOut{"out", 6};

TEST(AdafactorOps, AreTheSameShardByShard) {
  OpCase rows;
  rows.add(OpKind::MeanSquares, {rows.input("g", {kIn, kHeads, kOut})},
           {.result_names = {"in", "heads"}, .scale = 0.25});
  EXPECT_GT(expect_sharded_equals_whole(rows), 10);
  OpCase mean;
  const TensorId w = mean.parameter("w", {kIn, kOut});
  mean.add_in_place(OpKind::DecayedMean, {mean.state("v", w, 0.1, 1.0), mean.input("now", {kIn, kOut}, 0.1, 1.0)}, 1,
                    {.epsilon = 1e-30, .decay_exponent = 0.8});
  EXPECT_EQ(expect_sharded_equals_whole(mean), 2 + 1 + 7);
}

// g, and moments of it that are not 0.
std::vector<TensorId> moments(OpCase& c, bool factored) {
  std::vector<TensorId> operands = {c.input("g", {kIn, kHeads, kOut})};
  if (!factored) {
    operands.push_back(c.input("v", {kIn, kHeads, kOut}, 0.1, 1.0));
    return operands;
  }
  operands.push_back(c.input("r", {kIn, kHeads}, 0.1, 1.0));
  operands.push_back(c.input("c", {kHeads, kOut}, 0.1, 1.0));
  operands.push_back(c.input("mean", {kHeads}, 0.1, 1.0));
  return operands;
}

TEST(AdafactorOps, MoveAlikeHoweverTheirWeightIsSplit) {
  for (const bool factored : {false, true}) {
    OpCase squares;
    squares.add(OpKind::MoveSquares, moments(squares, factored), {.factored = factored});
    EXPECT_GT(expect_sharded_equals_whole(squares), 10);
    OpCase update;
    const TensorId w = update.parameter("w", {kIn, kHeads, kOut});
    std::vector<TensorId> operands = {w, update.state("w.master", w)};
    for (const TensorId id : moments(update, factored)) operands.push_back(id);
    operands.push_back(update.input("squares", {}, 1000.0, 2000.0));
    update.add_in_place(OpKind::AdafactorUpdate, operands, 2,
                        {.learning_rate = 0.1, .factored = factored, .move_limit = 1.0, .weight_decay = 0.3});
    EXPECT_GT(expect_sharded_equals_whole(update, 1e-13), 10);
  }
}

TEST(AdafactorOps, RefuseMomentsThatAreNotOfTheGradient) {
  OpCase c;
  const TensorId g = c.input("g", {kIn, kOut}), r = c.input("r", {kIn}), other = c.input("other", {kHeads});
  const auto refused = [&](std::vector<TensorId> operands, bool factored) {
    return refusal([&] { c.add(OpKind::MoveSquares, std::move(operands), {.factored = factored}); });
  };
  EXPECT_NE(refused({g, r}, false).find("r must have g's dimensions"), std::string::npos);
  EXPECT_NE(refused({g, r}, true).find("it reads r, c and their mean"), std::string::npos);
  EXPECT_NE(refused({g, r, other, other}, true).find("r and c must each have all but one"), std::string::npos);
}

// --- whole steps ---

constexpr const char* kGpt = "gpt:layers=1,hidden=8,heads=2,seq=4,vocab=16";

Graph training(const Optimizer& optimizer, DType dtype = DType::F64) {
  return build_training_graph(find_model(kGpt),
                              {.batch = 4, .microbatches = 2, .dtype = dtype, .optimizer = optimizer});
}

// Algorithms 4 and 5 with the numbers of algorithm 6, on one parameter: sums instead of means, a matrix for each index
// of the dimensions that are not factored.
class PlainAdafactor {
 public:
  explicit PlainAdafactor(const std::vector<Dim>& dims) {
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (dims[d].size > 1) order.push_back(d);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return dims[a].size > dims[b].size; });
    for (const Dim& dim : dims) sizes_.push_back(dim.size);
    if (order.size() >= 2) factored_ = {order[0], order[1]};
  }

  void step(Values& w, const Values& g, int t, double rate, double decay) {
    const double kept = 1.0 - std::pow(t, -0.8);
    Values u(g.size()), squares(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) squares[i] = g[i] * g[i] + 1e-30;
    if (factored_.empty()) {
      full_.resize(g.size(), 0.0);
      for (std::size_t i = 0; i < g.size(); ++i) {
        full_[i] = kept * full_[i] + (1 - kept) * squares[i];
        u[i] = g[i] / std::sqrt(full_[i]);
      }
    } else {
      std::map<std::vector<std::int64_t>, double> row_sums, column_sums, totals;
      for (std::size_t i = 0; i < g.size(); ++i) {
        row_sums[index(i, factored_[1])] += squares[i];
        column_sums[index(i, factored_[0])] += squares[i];
      }
      for (const auto& [at, sum] : row_sums) rows_[at] = kept * rows_[at] + (1 - kept) * sum;
      for (const auto& [at, sum] : column_sums) columns_[at] = kept * columns_[at] + (1 - kept) * sum;
      for (const auto& [at, sum] : rows_) totals[without(at, factored_[0])] += sum;
      for (std::size_t i = 0; i < g.size(); ++i) {
        const auto row = index(i, factored_[1]);
        const double v = rows_[row] * columns_[index(i, factored_[0])] / totals[without(row, factored_[0])];
        u[i] = g[i] / std::sqrt(v);
      }
    }
    double mean = 0.0;
    for (const double x : u) mean += x * x / static_cast<double>(u.size());
    for (std::size_t i = 0; i < g.size(); ++i)
      w[i] -= rate * decay * w[i] + rate * u[i] / std::max(1.0, std::sqrt(mean) / 1.0);
  }

 private:
  using Index = std::vector<std::int64_t>;
  static Index without(Index at, std::size_t dim) {
    at[dim] = -1;
    return at;
  }
  [[nodiscard]] Index index(std::size_t element, std::size_t summed) const {
    Index at(sizes_.size());
    auto rest = static_cast<std::int64_t>(element);
    for (std::size_t d = sizes_.size(); d-- > 0; rest /= sizes_[d]) at[d] = rest % sizes_[d];
    return without(at, summed);
  }

  Index sizes_;
  std::vector<std::size_t> factored_;  // empty: none
  Values full_;
  std::map<Index, double> rows_, columns_;
};

// The gradient of every parameter: the sum of its accumulators.
std::map<TensorId, Values> gradients(const Graph& graph, const GraphInterpreter& interpreter) {
  std::map<TensorId, Values> sums;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Accumulator) continue;
    const Values part = interpreter.get(tensor.id);
    Values& sum = sums[*tensor.parameter];
    sum.resize(part.size(), 0.0);
    for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
  }
  return sums;
}

double clipping_factor(const std::map<TensorId, Values>& gradients, double max_norm) {
  double squares = 0.0;
  for (const auto& [id, values] : gradients)
    for (const double g : values) squares += g * g;
  return max_norm == 0.0 ? 1.0 : std::min(1.0, max_norm / (std::sqrt(squares) + 1e-6));
}

// Every parameter that is not moved by rounding alone (the bias of attention's keys has no true gradient).
TEST(Adafactor, TrainsLikeThePapersAlgorithms) {
  for (const double max_norm : {0.0, 0.01}) {
    const Graph graph = training(
        {.kind = Optimizer::Kind::Adafactor, .learning_rate = 0.02, .weight_decay = 0.1, .max_norm = max_norm});
    GraphInterpreter interpreter(graph, 5, DType::F64);
    std::map<TensorId, PlainAdafactor> plain;
    std::map<TensorId, Values> weights;
    for (int step = 0; step < 4; ++step) {
      interpreter.clear_accumulators();
      for (int m = 0; m < 2; ++m) {
        interpreter.load_inputs(step, m);
        for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
      }
      std::map<TensorId, Values> all = gradients(graph, interpreter);
      const double factor = clipping_factor(all, max_norm);
      for (auto& [id, g] : all) {
        const Tensor& parameter = graph.tensor(id);
        weights[id] = interpreter.get(id);
        for (double& x : g) x *= factor;
        plain.try_emplace(id, parameter.dims).first->second.step(weights[id], g, step + 1, 0.02, 0.1);
      }
      interpreter.run(Phase::Update, step + 1);
      for (const auto& [id, wanted] : weights) {
        const Values found = interpreter.get(id);
        ASSERT_EQ(found.size(), wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i)
          EXPECT_NEAR(found[i], wanted[i], 1e-11) << graph.tensor(id).name << " step " << step;
      }
    }
  }
}

const Op& op_named(const Graph& graph, const std::string& name) {
  for (const Op& op : graph.ops())
    if (op.name == name) return op;
  throw InputError("no op " + name);
}

TEST(Adafactor, KeepsAMasterCopyOfSixteenBitWeightsAndNoOtherFullState) {
  const Graph graph = training({.kind = Optimizer::Kind::Adafactor}, DType::BF16);
  std::vector<std::string> states;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState && tensor.name.starts_with("wte.")) {
      states.push_back(tensor.name);
      EXPECT_EQ(tensor.dtype, DType::F32) << tensor.name;
    }
  EXPECT_EQ(states, (std::vector<std::string>{"wte.master", "wte.adafactor_r", "wte.adafactor_c"}));
  EXPECT_EQ(op_named(graph, "wte.update").outputs.size(), 2u);
}

Bytes state_of(const Graph& graph) {
  Bytes bytes(0.0);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState) bytes += tensor.bytes();
  return bytes;
}

// Of a matrix of n by m 4 (n + m) bytes instead of Adam's 8 n m.
TEST(Adafactor, KeepsAHundredthOfAdamsState) {
  const auto of = [](Optimizer::Kind kind) {
    return state_of(
        build_training_graph(find_model("llama-7b"), {.batch = 1, .dtype = DType::F32, .optimizer = {.kind = kind}}));
  };
  EXPECT_LT(of(Optimizer::Kind::Adafactor), 0.01 * of(Optimizer::Kind::Adam));
}

// A step whose gradients overflow leaves weights and moments as they are, and does not count.
TEST(Adafactor, LeavesOutAStepThatOverflows) {
  const Graph graph = training({.kind = Optimizer::Kind::Adafactor, .loss_scale = 1e308});
  GraphInterpreter interpreter(graph, 5, DType::F64);
  std::map<TensorId, Values> before;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState)
      before[tensor.id] = interpreter.get(tensor.id);
  interpreter.clear_accumulators();
  for (int m = 0; m < 2; ++m) {
    interpreter.load_inputs(0, m);
    for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  }
  interpreter.run(Phase::Update, 1);
  for (const auto& [id, values] : before) EXPECT_EQ(interpreter.get(id), values) << graph.tensor(id).name;
  EXPECT_EQ(interpreter.get(graph.loss_scaling->state)[2], 1.0);
}

}  // namespace
}  // namespace meshwright::adafactor_test
