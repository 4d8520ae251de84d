// SPDX-License-Identifier: Apache-2.0
#include "executor/check/exact_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "executor/exact/exact_ops.h"
#include "executor/exact/residue.h"
#include "tests/dropping_model.h"
#include "tests/oracle/exact/drawn_plan.h"

namespace meshwright::exact_check_test {
namespace {

// A run of two devices that have the same parameters, and its reference.
struct DataParallel {
  Planned plan;
  ExactReference reference;
  RunResult run;

  DataParallel() {
    PlanRequest request = ask("mlp:layers=2,hidden=8", "cpu:2", "data", 4, 1);
    request.training.dtype = DType::F32;
    plan = planned(request);
    reference = exact_reference(graph_of_reference({request.model, plan.plan->training, true}), 2, 1);
    run = run_exactly(plan.graph, plan.program, plan.check, 1);
  }
  HeldTile& tile(const std::string& tensor, int device) {
    return *std::find_if(run.held.begin(), run.held.end(), [&](const HeldTile& held) {
      return plan.graph.tensor(held.tensor).name == tensor && held.device.value == device && !held.is_gradient;
    });
  }
  [[nodiscard]] ExactCheck check() const { return compare_exactly(plan.graph, run, reference); }
  [[nodiscard]] std::string parameter() const {
    for (const Tensor& tensor : plan.graph.tensors())
      if (tensor.kind == TensorKind::Parameter && tensor.dims.size() == 2) return tensor.name;
    return "";
  }
};

TEST(ExactCheck, ARunOfTwoDevicesIsEqual) {
  const DataParallel data;
  EXPECT_TRUE(data.check().equal());
  EXPECT_EQ(data.check().classes[0].tensors, 2);  // a loss for each step
}

TEST(ExactCheck, NamesTheElementAndTheDeviceOfAReplicaThatDiffers) {
  DataParallel data;
  const std::string name = data.parameter();
  HeldTile& tile = data.tile(name, 1);
  tile.values[35] = 5.0;  // of rows of 32
  const ExactCheck check = data.check();
  EXPECT_EQ(check.classes[2].name, "parameters");
  EXPECT_EQ(check.classes[2].different, 1);
  EXPECT_EQ(to_text(check.classes[2].first.value()),
            fmt::format("'{}' at (1, 3) on device 1 is 5, but {} on one device alone", name,
                        data.reference.states.at(name)[35]));
  EXPECT_FALSE(check.equal());
}

TEST(ExactCheck, NamesWhatNobodyHolds) {
  DataParallel data;
  const std::string name = data.parameter();
  std::erase_if(data.run.held, [&](const HeldTile& held) {
    return data.plan.graph.tensor(held.tensor).name == name && !held.is_gradient;
  });
  EXPECT_EQ(to_text(data.check().classes[2].first.value()), fmt::format("'{}' at (0, 0) is held by no device", name));
}

TEST(ExactCheck, NamesTheStepWhoseLossDiffers) {
  DataParallel data;
  data.run.losses[1] = 7.0;
  EXPECT_EQ(to_text(data.check().classes[0].first.value()),
            fmt::format("'loss of step 1' is 7, but {} on one device alone", data.reference.losses[1]));
}

// The run and the reference would agree if residues were lost on the way: they must be of the whole range.
TEST(ExactCheck, ResultsAreSpreadOverTheResidues) {
  const DataParallel data;
  const std::vector<std::uint64_t>& weights = data.reference.states.at(data.parameter());
  EXPECT_GT(*std::max_element(weights.begin(), weights.end()), exact::kPrime / 2);
  std::vector<std::uint64_t> different = weights;
  std::sort(different.begin(), different.end());
  EXPECT_EQ(std::unique(different.begin(), different.end()), different.end());
}

// A mask belongs to a microbatch: one of all samples is another.
TEST(GraphOfReference, OfAModelWithDropoutHasItsMicrobatches) {
  CheckedWork work;
  work.model = dropping_model();
  work.training = {.batch = 8, .microbatches = 4, .dtype = DType::F32};
  EXPECT_EQ(graph_of_reference(work).microbatches, 4);
  EXPECT_EQ(graph_of_reference({find_model("mlp:layers=2,hidden=8"), work.training, true}).microbatches, 1);
}

TEST(ExactOps, EveryFamilyIsTreated) {
  for (const std::string& model : example_sizes()) {
    const Graph graph = build_training_graph(find_model(model), {.batch = 4, .microbatches = 2, .dtype = DType::F32});
    EXPECT_NO_THROW(exact::expect_treated(graph)) << model;
  }
}

// (x, y) split along the sum: parts give what the whole gives, but only where an op may be split.
TEST(ExactOps, TellPartialSumsFromWholeOnes) {
  Graph graph;
  const auto x = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 1}, {"embed", 1}});
  const auto gelu = graph.add_op(OpKind::Gelu, "gelu", {x})[0];
  static_cast<void>(gelu);
  const OpCallPlan call = plan_op(graph, graph.ops().front(), {1, 1});
  const auto of = [&](double value) {
    double out = 0.0;
    void *in = &value, *to = &out;
    exact::run_op(call, {&in, 1}, {&to, 1}, {});
    return exact::of_stored(out);
  };
  EXPECT_EQ(of(0.0), 0u);
  EXPECT_NE(exact::plus(of(2.0), of(3.0)), of(5.0));
  EXPECT_EQ(of(5.0), of(5.0 + static_cast<double>(exact::kPrime)));
  EXPECT_EQ(of(-1.0), of(static_cast<double>(exact::kPrime) - 1.0));
}

TEST(Residue, SumsAndProductsAreThoseOfIntegers) {
  constexpr exact::Residue kLast = exact::kPrime - 1;  // -1
  EXPECT_EQ(exact::plus(kLast, 3), 2u);
  EXPECT_EQ(exact::times(kLast, kLast), 1u);
  EXPECT_EQ(exact::of_integer(-2), kLast - 1);
  EXPECT_EQ(exact::of_constant(-1.0), kLast);
  EXPECT_NE(exact::of_constant(0.5), exact::of_constant(0.25));
  EXPECT_FALSE(exact::is_stored(0.5));
}

}  // namespace
}  // namespace meshwright::exact_check_test
