// SPDX-License-Identifier: Apache-2.0
// The proof from end to end: whatever the planner decides, the program of its plan, run on threads, trains the same
// weights as one device that runs the graph without any plan. In f64 only the order of sums differs, so 1e-12 separates
// a wrong plan from rounding; and the memory counted while running is the memory that was predicted, to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <string>

#include "core/graph/import/find_model.h"
#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/deviation.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::trains_like_one_device_test {
namespace {

constexpr double kSame = 1e-12;
constexpr double kWrong = 1e-6;  // a lost or doubled term changes more than this in two steps
const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};
constexpr int kBatch = 8;

struct Case {
  std::string model;  // "gpt" or "mlp"
  int devices;
  std::string method;
  ScheduleKind schedule;
  Recompute recompute;
  int microbatches;
  DType dtype = DType::F32;
  Optimizer::Kind optimizer = Optimizer::Kind::Adam;
};

std::string size_of_model(const std::string& family) {
  return family == "gpt" ? "gpt:layers=4,hidden=32,heads=4,seq=16,vocab=64" : "mlp:layers=4,hidden=32";
}

PlanRequest request_of(const Case& c) {
  // The machine of the 16-bit types; the other one has no rates for them.
  const std::string cluster = c.dtype == DType::F16 ? "p3.16xlarge:1" : fmt::format("cpu:{}", c.devices);
  PlanRequest request = ask(size_of_model(c.model), cluster, c.method, kBatch, c.microbatches);
  request.cluster = take_part(request.cluster, 1, c.devices);
  request.training.dtype = c.dtype;
  request.search.recompute = c.recompute;
  request.training.optimizer = {c.optimizer, 1e-3};
  request.search.schedule = c.schedule;
  request.search.layers = 4;
  return request;
}

// One device, one microbatch, nothing recomputed; shared by all cases it is the truth of.
const RunResult& truth(const Case& c) {
  static std::map<std::string, RunResult> known;
  const bool trains = c.schedule != ScheduleKind::Inference;
  TrainingOptions training = request_of(c).training;
  training.microbatches = 1;
  training.recompute = Recompute::None;
  const ModelConfig model = find_model(size_of_model(c.model));
  const Graph graph = trains ? build_training_graph(model, training) : build_forward_graph(model, training);
  const auto [entry, added] = known.try_emplace(canonical_text(graph));
  if (added) entry->second = run_reference(graph, kTwoSteps);
  return entry->second;
}

class PlannedProgram : public testing::TestWithParam<Case> {};

TEST_P(PlannedProgram, ComputesWhatOneDeviceComputes) {
  const Planned planned = meshwright::planned(request_of(GetParam()));
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  const RunResult run = run_program(planned.graph, planned.program, planned.check, kTwoSteps);
  EXPECT_LE(deviation(run, truth(GetParam())), kSame);
  EXPECT_EQ(run.peak_memory, planned.check.peak_memory);
}

struct Shape {
  int tp = 1, pp = 1;
};
Shape shape_of(const std::string& method) {
  Shape shape;
  const std::size_t tp = method.find("tp="), pp = method.find("pp=");
  if (tp != std::string::npos) shape.tp = method[tp + 3] - '0';
  if (pp != std::string::npos) shape.pp = method[pp + 3] - '0';
  return shape;
}

// The batch must cut into microbatches and these over the data-parallel devices.
bool possible(const Case& c) {
  const Shape shape = shape_of(c.method);
  if (c.devices % (shape.tp * shape.pp) != 0) return false;
  const bool splits_batch = c.method.starts_with("megatron") || c.method == "data" || c.method.starts_with("zero");
  return !splits_batch || kBatch % (c.microbatches * c.devices / (shape.tp * shape.pp)) == 0;
}

// Every model, cluster, method and number of microbatches, each with one of the four ways to schedule and recompute in
// turn: all pairs of choices meet.
std::vector<Case> training_cases() {
  const std::pair<ScheduleKind, Recompute> ways[] = {{ScheduleKind::OneFOneB, Recompute::None},
                                                     {ScheduleKind::GPipe, Recompute::Full},
                                                     {ScheduleKind::GPipe, Recompute::None},
                                                     {ScheduleKind::OneFOneB, Recompute::Full}};
  std::vector<Case> cases;
  for (const char* model : {"gpt", "mlp"})
    for (const int devices : {1, 2, 4, 8})
      for (const char* method : {"data", "shard", "zero2", "zero3", "pipeshard", "megatron:tp=2", "megatron:pp=2",
                                 "megatron:tp=2,pp=2", "megatron:pp=4"})
        for (const int microbatches : {1, 2, 4}) {
          const auto& [schedule, recompute] = ways[cases.size() % std::size(ways)];
          const Case c{model, devices, method, schedule, recompute, microbatches};
          if (possible(c)) cases.push_back(c);
        }
  return cases;
}

// Weights in 16 bits have a master copy beside them, SGD has no state at all.
std::vector<Case> other_training_cases() {
  std::vector<Case> cases;
  for (const char* model : {"gpt", "mlp"})
    for (const char* method : {"zero2", "zero3", "megatron:tp=2,pp=2", "pipeshard"}) {
      cases.push_back({model, 4, method, ScheduleKind::OneFOneB, Recompute::Full, 2, DType::F16});
      cases.push_back({model, 4, method, ScheduleKind::OneFOneB, Recompute::None, 2, DType::F32, Optimizer::Kind::Sgd});
    }
  return cases;
}

std::vector<Case> inference_cases() {
  std::vector<Case> cases;
  for (const char* model : {"gpt", "mlp"})
    for (const char* method : {"data", "shard", "pipeshard", "megatron:tp=2,pp=2", "megatron:pp=4"})
      for (const int microbatches : {1, 2})
        cases.push_back({model, 4, method, ScheduleKind::Inference, Recompute::None, microbatches});
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string name =
      fmt::format("{}_{}_devices_{}_{}_{}_{}_microbatches_{}_{}", c.model, c.devices, c.method, name_of(c.schedule),
                  c.recompute == Recompute::Full ? "recompute" : "keep", c.microbatches, name_of(c.dtype),
                  c.optimizer == Optimizer::Kind::Sgd ? "sgd" : "adam");
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Training, PlannedProgram, testing::ValuesIn(training_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(OtherTraining, PlannedProgram, testing::ValuesIn(other_training_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Inference, PlannedProgram, testing::ValuesIn(inference_cases()), name_of_case);

// --- programs that are wrong, to show that the comparison sees it ---

// Data, tensor and pipeline parallel at once.
const Case kEverySplit{"gpt", 8, "megatron:tp=2,pp=2", ScheduleKind::OneFOneB, Recompute::None, 2};

// Runs the program once for each of its ops that `spoil` changes, and returns the smallest deviation.
template <class Spoil>
double least_deviation(const Planned& planned, Spoil spoil, int& spoiled) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t e = 0; e < planned.program.executables.size(); ++e)
    for (std::size_t i = 0; i < planned.program.executables[e].ops.size(); ++i) {
      Program program = planned.program;
      StageExecutable& executable = program.executables[e];
      if (!spoil(executable.ops[i], program.stages[executable.stage.index()].mesh)) continue;
      ++spoiled;
      least =
          std::min(least, deviation(run_program(planned.graph, program, planned.check, kTwoSteps), truth(kEverySplit)));
    }
  return least;
}

TEST(WrongProgram, IsSeenWhenAnyAllReduceIsLeftOut) {
  const Planned planned = meshwright::planned(request_of(kEverySplit));
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  int spoiled = 0;
  const auto leave_out = [](LocalOp& op, LogicalMesh& mesh) {
    if (!op.step || op.step->kind != ReshardStep::Kind::AllReduce) return false;
    op.step->axis = mesh.rank();  // over an axis of one device: nothing is added
    mesh.axes.push_back(MeshAxis{1, 1, {}, {}});
    return true;
  };
  EXPECT_GT(least_deviation(planned, leave_out, spoiled), kWrong);
  EXPECT_GE(spoiled, 20);
}

TEST(WrongProgram, IsSeenWhenAnySumOfShardsIsTheLargestOfThem) {
  const Planned planned = meshwright::planned(request_of(kEverySplit));
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  int spoiled = 0;
  const auto take_largest = [](LocalOp& op, const LogicalMesh&) {
    if (!op.reduce || *op.reduce != IterationSpace::Reduce::Sum) return false;
    op.reduce = IterationSpace::Reduce::Max;
    return true;
  };
  EXPECT_GT(least_deviation(planned, take_largest, spoiled), kWrong);
  EXPECT_GE(spoiled, 20);
}

}  // namespace
}  // namespace meshwright::trains_like_one_device_test
