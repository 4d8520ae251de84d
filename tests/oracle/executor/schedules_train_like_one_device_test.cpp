// SPDX-License-Identifier: Apache-2.0
// Every schedule, with one stage or several on each device and the backward whole, in two or now this and now that,
// trains the weights that one device trains with neither plan nor schedule; and the memory counted while running is the
// memory predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "core/graph/import/find_model.h"
#include "core/plan/ranks.h"
#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::schedules_train_like_one_device_test {
namespace {

const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};
constexpr double kSame = 1e-12;

constexpr const char* kMlp = "mlp:layers=8,hidden=16";
constexpr const char* kGpt = "gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32";  // its embedding is its head's weight too
constexpr const char* kT5 =
    "t5:layers=2,hidden=16,heads=4,intermediate=32,seq=8,vocab=32";  // late stages read early ones

struct Case {
  ScheduleKind schedule;
  int stages, chunks;
  const char* model;
  int microbatches = 4;
  std::vector<int> shape = {1, 1};
  Recompute recompute = Recompute::None;
  double max_norm = 0.0;
  // The second half of the stages has the axes of its mesh the other way round: what stays on a device in one spec may
  // not be there in the other.
  bool turned = false;
  bool mixed = false;  // given run by run: the schedule's own with every other backward in two
  // The form of all that goes from stage to stage; forms other than Send are on hosts with half of a stage each.
  CrossMesh form = CrossMesh::Send;
};

// Of every other microbatch of a stage the backward is in two, the weights' half as late as it may be.
Schedule mixed_of(const Case& c) {
  Schedule mixed;
  for (const auto& runs : make_schedule(c.schedule, line_of(c.stages), c.microbatches, c.chunks)) {
    std::vector<ScheduledRun> late;
    std::vector<ScheduledRun>& own = mixed.emplace_back();
    for (ScheduledRun run : runs) {
      if (run.pass == Pass::Backward && (run.stage.value + run.microbatch.value) % 2 == 1) {
        run.pass = Pass::BackwardInput;
        late.push_back({Pass::BackwardWeight, run.microbatch, run.stage});
      }
      own.push_back(run);
    }
    own.insert(own.end(), late.begin(), late.end());
  }
  return mixed;
}

TrainingOptions training_of(const Case& c) {
  return {.batch = 8,
          .microbatches = c.microbatches,
          .dtype = DType::F32,
          .optimizer = {.kind = Optimizer::Kind::Momentum, .learning_rate = 0.125, .max_norm = c.max_norm},
          .recompute = c.recompute};
}

// Batches over the first mesh axis; heads, mlp and vocabulary over the second.
Names split_of(const std::vector<int>& shape) {
  Names names;
  if (shape[0] > 1) names["batch"] = 1;
  if (shape[1] > 1) names["heads"] = names["mlp"] = names["vocab"] = 2;
  return names;
}

void set_form(HandPlan& made, const Case& c) {
  const int each = std::max(1, c.shape[0] * c.shape[1] / 2);
  HostGroup& group = made.plan.cluster.groups.front();
  group.hosts = group.devices_per_host / each;
  group.devices_per_host = each;
  const StageGraph feeding = stage_graph(made.plan, made.graph);
  for (std::size_t s = 0; s < made.plan.stages.size(); ++s) {
    made.plan.stages[s].submesh = {2, each};
    for (const int to : feeding.feeds[s]) {
      made.plan.stages[static_cast<std::size_t>(to)].cross_mesh[static_cast<int>(s)] = c.form;
      made.plan.stages[s].cross_mesh[to] = c.form;
    }
  }
}

// Stages of about as many ops each, on the devices that the schedule gives their ranks.
HandPlan planned_by_hand(const Case& c) {
  const TrainingOptions training = training_of(c);
  const Graph graph = build_training_graph(find_model(c.model), training);
  const std::vector<OpId> forward = forward_ops(graph);
  std::vector<HandStage> stages;
  const int once = c.stages / traits_of(c.schedule).copies;
  for (int s = 0; s < once; ++s) {
    const std::size_t first = forward.size() * static_cast<std::size_t>(s) / static_cast<std::size_t>(once);
    std::vector<int> shape = c.shape;
    if (c.turned && 2 * s >= c.stages) std::swap(shape[0], shape[1]);
    stages.push_back({s == 0 ? "" : graph.op(forward[first]).name, shape, split_of(shape)});
  }
  const int devices = c.shape[0] * c.shape[1];
  HandPlan made = by_hand(c.model, fmt::format("cpu:{}", c.stages * devices), training, stages);
  made.plan.schedule = c.mixed ? ScheduleKind::Custom : c.schedule;
  if (c.mixed) made.plan.runs = mixed_of(c);
  add_copies(made.plan);
  const std::vector<int> rank_of = ranks_of_stages(c.schedule, c.stages, c.chunks);
  for (int s = 0; s < c.stages; ++s) {
    std::vector<int>& listed = made.plan.stages[static_cast<std::size_t>(s)].devices;
    for (int d = 0; d < devices; ++d)
      listed[static_cast<std::size_t>(d)] = rank_of[static_cast<std::size_t>(s)] * devices + d;
  }
  if (c.form != CrossMesh::Send) set_form(made, c);
  EXPECT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
  EXPECT_EQ(chunks_of(made.plan), c.chunks);
  made.program = lower(made.plan, made.graph, *made.costs);
  made.check = check_program(made.program);
  return made;
}

class ScheduledProgram : public testing::TestWithParam<Case> {};

TEST_P(ScheduledProgram, TrainsWhatOneDeviceTrains) {
  const HandPlan made = planned_by_hand(GetParam());
  ASSERT_EQ(made.check.violations, std::vector<std::string>{});
  EXPECT_EQ(made.program.devices.size() * static_cast<std::size_t>(GetParam().chunks),
            static_cast<std::size_t>(GetParam().stages * GetParam().shape[0] * GetParam().shape[1]));
  const RunResult run = run_program(made.graph, made.program, made.check, kTwoSteps);
  TrainingOptions alone = training_of(GetParam());
  alone.microbatches = 1;
  alone.recompute = Recompute::None;
  const RunResult truth = run_reference(build_training_graph(find_model(GetParam().model), alone), kTwoSteps);
  EXPECT_EQ(run.peak_memory, made.check.peak_memory);
  for (std::size_t step = 0; step < truth.losses.size(); ++step)
    EXPECT_NEAR(run.losses[step], truth.losses[step], kSame * truth.losses[step]);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(run.weights.at(name)[i], values[i], kSame) << name;
}

std::vector<Case> cases() {
  struct Placed {
    ScheduleKind schedule;
    int stages, chunks;
  };
  std::vector<Placed> placed;
  for (const ScheduleKind kind : all_schedules()) {
    const ScheduleTraits traits = traits_of(kind);
    if (!traits.trains) continue;
    if (traits.chunks) {
      placed.push_back({kind, 4, *traits.chunks});
    } else {
      placed.push_back({kind, 4, 2});
      placed.push_back({kind, 6, 3});
    }
  }
  std::vector<Case> all;
  for (const auto& [kind, stages, chunks] : placed) {
    for (const int microbatches : {1, 2, 4, 8}) all.push_back({kind, stages, chunks, kMlp, microbatches});
    all.push_back({kind, stages, chunks, kGpt});
    all.push_back({kind, stages, chunks, kGpt, 4, {1, 1}, Recompute::Full});
    all.push_back({kind, stages, chunks, kGpt, 8, {1, 1}, Recompute::None, 0.01});
    all.push_back({kind, stages, chunks, kT5});
    if (stages == 4) {
      all.push_back({kind, stages, chunks, kGpt, 4, {2, 1}, Recompute::Full, 0.01});
      all.push_back({kind, stages, chunks, kGpt, 4, {1, 2}, Recompute::None, 0.01});
      all.push_back({kind, stages, chunks, kGpt, 4, {2, 2}, Recompute::Full, 0.01});
      all.push_back({kind, stages, chunks, kGpt, 4, {2, 1}, Recompute::None, 0.01, true});
      all.push_back({kind, stages, chunks, kMlp, 2, {1, 4}, Recompute::Full, 0.0, true});
    }
  }
  for (const auto& [kind, stages, chunks] : {Placed{ScheduleKind::OneFOneB, 4, 1}, {ScheduleKind::Interleaved, 6, 3}}) {
    for (const int microbatches : {1, 2, 8})
      all.push_back({kind, stages, chunks, kMlp, microbatches, {1, 1}, Recompute::None, 0.0, false, true});
    for (const Recompute recompute : {Recompute::None, Recompute::Full})
      all.push_back({kind, stages, chunks, kGpt, 4, {1, 1}, recompute, 0.01, false, true});
    all.push_back({kind, stages, chunks, kGpt, 4, {2, 2}, Recompute::None, 0.01, false, true});
    all.push_back({kind, stages, chunks, kT5, 4, {1, 2}, Recompute::None, 0.0, true, true});
  }
  for (const auto& [kind, stages, chunks] : placed)
    for (const CrossMesh form : {CrossMesh::Gather, CrossMesh::Broadcast}) {
      all.push_back({kind, stages, chunks, kGpt, 4, {1, 4}, Recompute::None, 0.0, false, false, form});
      if (stages == 4) all.push_back({kind, stages, chunks, kT5, 2, {2, 2}, Recompute::Full, 0.01, true, false, form});
    }
  // Copies of stages are alike, and some numbers of microbatches are too small for them.
  std::erase_if(all, [](const Case& c) {
    return unmet_by(c.schedule, c.stages / c.chunks, c.microbatches) || (traits_of(c.schedule).copies > 1 && c.turned);
  });
  for (const char* model : {kMlp, kGpt, kT5}) all.push_back({ScheduleKind::DualPipe, 8, 2, model, 8});
  all.push_back({ScheduleKind::DualPipe, 8, 2, kGpt, 8, {2, 1}, Recompute::Full, 0.01});
  return all;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  const std::string model = c.model;
  std::string name = fmt::format("{}_{}_chunks_{}_{}_microbatches_{}x{}{}{}{}{}{}", name_of(c.schedule), c.chunks,
                                 model.substr(0, model.find(':')), c.microbatches, c.shape[0], c.shape[1],
                                 c.recompute == Recompute::Full ? "_recompute" : "", c.max_norm > 0.0 ? "_clip" : "",
                                 c.turned ? "_turned" : "", c.mixed ? "_mixed" : "",
                                 c.form == CrossMesh::Send ? "" : fmt::format("_{}", name_of(c.form)));
  if (c.schedule == ScheduleKind::DualPipe) name += fmt::format("_{}_stages", c.stages);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, ScheduledProgram, testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace meshwright::schedules_train_like_one_device_test
