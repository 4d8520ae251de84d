// SPDX-License-Identifier: Apache-2.0
// Points of the search: the stages that a method gives, the parts of a point's stages, and which points there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "core/planner/search/microbatch_search.h"
#include "core/planner/search/point_search.h"
#include "costmodel/sheets/software_profile.h"
#include "simulator/what_if/evaluator.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::search_points_test {
namespace {

using Stages = std::vector<Method::ManualStage>;

Method manual(const Stages& stages) {
  Method method;
  method.kind = Method::Kind::Manual;
  method.stages = stages;
  method.text = "manual:test";
  return method;
}

// A request with what its point refers to.
struct Prepared {
  PlanRequest request;
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator{*costs};
  SearchContext context{request, *costs, evaluator};

  explicit Prepared(PlanRequest wanted) : request(std::move(wanted)) {}
  Prepared(const Prepared&) = delete;
  [[nodiscard]] SearchPoint at(int layers) const {
    return {.layers = layers, .layer_cut = {}, .microbatches = std::get<std::int64_t>(request.search.microbatches)};
  }
};

// --- stages that a method gives ---

// Meshes that differ in their group of hosts alone, in their shape alone, or in the axis of the batch alone.
TEST(GivenPipeline, HasEveryStageOnTheMeshThatIsGivenForIt) {
  const std::vector<std::pair<const char*, Stages>> all = {
      {"dgx-a100:1+p3.16xlarge:1", {{0, 0, {1, 2, 1}, {2, 1}}, {1, 2, {1, 2, 0}, {2, 1}}}},
      {"cpu:6", {{0, 0, {1, 2}, {1, 2}}, {1, 1, {1, 2}, {2, 1}}, {2, 2, {1, 2}, {1, 2}}}},
      {"cpu:6", {{0, 0, {1, 2}, {2, 1}, 1}, {1, 1, {1, 2}, {2, 1}, 0}, {2, 2, {1, 2}, {2, 1}}}},
      {"cpu:6", {{0, 1, {1, 4}, {2, 2}}, {2, 2, {1, 2}, {2, 1}}}},
  };
  for (const auto& [cluster, stages] : all) {
    PlanRequest request = ask("mlp:layers=3,hidden=64", cluster);
    request.search.method = manual(stages);
    Prepared of(std::move(request));
    const Point point = prepare_given_point(of.context, given_model(of.context, of.at(3)));
    const TablePipeline pipeline = given_pipeline(of.request, point);
    ASSERT_EQ(pipeline.stages.size(), stages.size());
    const StageSearch& search = *point.spans.search;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const TableStage& stage = pipeline.stages[s];
      const StageChoice choice = search.choice(stage.slice, stage.config);
      const StageSearch::MeshRequest& mesh = search.meshes()[static_cast<std::size_t>(choice.mesh)];
      EXPECT_EQ(std::pair(stage.first, stage.last), std::pair(stages[s].first_layer, stages[s].last_layer));
      EXPECT_EQ(search.submeshes()[static_cast<std::size_t>(stage.slice)], stages[s].submesh) << cluster << " " << s;
      EXPECT_EQ(mesh.submesh, stage.slice) << cluster << " " << s;
      EXPECT_EQ(mesh.shape, stages[s].logical_shape) << cluster << " " << s;
      EXPECT_EQ(mesh.batch_axis, stages[s].batch_axis) << cluster << " " << s;
      EXPECT_EQ(choice.option, 0);
    }
  }
}

// --- parts of the stages ---

// Calls visit(first, last, choice, entry) for all that a table may hold.
template <class Visit>
void each_entry(const Point& point, const StageTable& table, const Visit& visit) {
  for (int first = 0; first < table.layers(); ++first)
    for (int last = first; last < table.layers(); ++last)
      for (int slice = 0; slice < std::ssize(table.slices()); ++slice)
        for (int config = 0; config < table.configs(); ++config) {
          const StageChoice choice = point.spans.search->choice(slice, config);
          // Meshes of one slice may have different numbers of options.
          const bool exists = choice.mesh >= 0 && choice.option < point.spans.search->spans(choice).options();
          if (exists)
            visit(first, last, choice, table.at(first, last, slice, config));
          else
            EXPECT_FALSE(table.at(first, last, slice, config));
        }
}

TEST(StageTable, OfAPartHasWhatTheWholeHasOfItsMeshesWaysAndBorders) {
  PlanRequest request = ask("gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64", "p3.16xlarge:2", "pipeshard", 16, 2);
  request.cluster.only().devices_per_host = 2;
  request.search.recompute = Auto{};
  request.search.logical_mesh_space = LogicalMeshSpace::All;
  Prepared of(std::move(request));
  const Point point = prepare_point(of.context, of.at(4));
  const StageSearch& search = *point.spans.search;
  const auto made = [&](const Subspace& part) { return make_stage_table(point, 1.0, StageSearch::Keep::All, part); };
  const StageTable whole = made({});
  std::vector<Subspace> parts = subspaces_of(point);
  // Three ways to recompute and all of them, each on the meshes whose second axis stays on a host, and on all.
  ASSERT_EQ(point.space.narrower.size(), 1u);
  ASSERT_EQ(parts.size(), 8u);
  EXPECT_TRUE(parts.back().is_whole());
  const CoarserCut coarser{2, {true, false, true, false}};
  parts.push_back({.cut = &coarser});
  std::set<std::size_t> sizes;
  for (const Subspace& part : parts) {
    const StageTable table = made(part);
    std::size_t size = 0;
    each_entry(point, table, [&](int first, int last, const StageChoice& choice, const std::optional<StageCost>& cost) {
      const bool within = (part.meshes == nullptr || (*part.meshes)[static_cast<std::size_t>(choice.mesh)]) &&
                          (!part.way || search.way(choice) == part.way) &&
                          (part.cut == nullptr || (first % 2 == 0 && last % 2 == 1));
      const int slice = search.meshes()[static_cast<std::size_t>(choice.mesh)].submesh;
      const auto& all = whole.at(first, last, slice, *search.config_of(slice, choice));
      EXPECT_EQ(cost.has_value(), all.has_value() && within);
      if (cost && all) {
        EXPECT_EQ(std::pair(cost->time, cost->saved), std::pair(all->time, all->saved));
      }
      size += cost ? 1 : 0;
    });
    EXPECT_GT(size, 0u);
    sizes.insert(size);
  }
  EXPECT_GE(sizes.size(), 4u);
}

TEST(StageTable, OfGivenStagesHasThemAlone) {
  const Stages stages = {{0, 0, {1, 2}, {1, 2}}, {1, 1, {1, 2}, {2, 1}, 1}, {2, 2, {1, 2}, {2, 1}, 0}};
  PlanRequest request = ask("mlp:layers=3,hidden=64", "cpu:6");
  request.search.method = manual(stages);
  Prepared of(std::move(request));
  const Point point = prepare_point(of.context, of.at(3));
  const StageTable table = make_stage_table(point, 1.0, StageSearch::Keep::All, {});
  each_entry(point, table, [&](int first, int last, const StageChoice& choice, const std::optional<StageCost>& cost) {
    const StageSearch::MeshRequest& mesh = point.spans.search->meshes()[static_cast<std::size_t>(choice.mesh)];
    const Method::ManualStage& stage = stages[static_cast<std::size_t>(first)];
    const bool is_given = first == last && mesh.shape == stage.logical_shape && mesh.batch_axis == stage.batch_axis &&
                          choice.option < point.spans.search->spans(choice).options();
    EXPECT_EQ(cost.has_value(), is_given) << first << ".." << last << " on mesh " << choice.mesh;
  });
}

// --- which points there are ---

using Numbers = std::vector<std::int64_t>;

// (layers, micro-batches) of what a search considers.
struct Points : SearchRecord {
  std::set<std::pair<int, std::int64_t>> found, fitting;
  void add(ConsideredPlan of) override {
    if (of.layer_starts.empty() || !of.estimated) return;  // borders that were moved are no cut that was searched
    const std::pair point(static_cast<int>(of.layer_starts.size()), of.microbatches);
    found.insert(point);
    if (of.fate == ConsideredPlan::Fate::Fits) fitting.insert(point);
  }
};

Points points_of(ScheduleKind schedule) {
  Points points;
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:2", "pipeshard", 16, Auto{});
  request.search.layers = Auto{};
  request.search.schedule = schedule;
  request.record = &points;
  const Planned found = planned(request);
  EXPECT_TRUE(found.plan) << found.reason;
  return points;
}

// Four layers are cut where nothing is said.
TEST(SmallSearch, CutsTwiceAsFineWhateverFits) {
  const Points points = points_of(ScheduleKind::OneFOneB);
  int fitting = 0;
  for (const std::int64_t number : {1, 2, 4, 8, 16}) {
    EXPECT_TRUE(points.found.contains({4, number})) << number;
    if (!points.fitting.contains({4, number})) continue;
    ++fitting;
    EXPECT_TRUE(points.found.contains({8, number})) << number;
  }
  EXPECT_GE(fitting, 3);
}

// Two micro-batches for each of two ranks, and an even number.
TEST(SmallSearch, LooksAroundAmongNumbersThatTheScheduleCanRun) {
  std::set<std::int64_t> numbers;
  for (const auto& [layers, number] : points_of(ScheduleKind::DualPipe).found) numbers.insert(number);
  EXPECT_EQ(numbers, (std::set<std::int64_t>{4, 8, 16}));
}

TEST(SmallSearch, SaysOfSeveralSchedulesAloneHowTheyWereCompared) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2", "pipeshard", 8, 2);
  request.search.layers = 2;
  const auto says = [&] {
    return planned(request).log.how.find("schedules by the time of their stages alone") != std::string::npos;
  };
  request.search.schedule = ScheduleKind::OneFOneB;
  EXPECT_FALSE(says());
  request.search.schedule = Auto{};
  EXPECT_TRUE(says());
}

// The numbers of layers that are searched.
std::set<int> cuts_of(int blocks, const char* cluster = "cpu:1", LayerOptions::Cut cut = LayerOptions::Cut::Default) {
  Points points;
  PlanRequest request = ask(fmt::format("mlp:layers={},hidden=2", blocks), cluster, "pipeshard", 2, 1);
  request.search.layers = Auto{};
  request.search.layer_cut.cut = cut;
  request.record = &points;
  EXPECT_TRUE(planned(request).plan);
  std::set<int> cuts;
  for (const auto& [layers, number] : points.found) cuts.insert(layers);
  return cuts;
}

// Twice, half and a quarter as many layers as where nothing is said, the blocks, and from 17 blocks on half blocks:
// numbers of layers up to 64, but for half blocks. Up to 8 layers are cut into every number up to twice as many, where
// there are devices for several stages.
TEST(LayerSearch, CutsAnewInHalvesDoublesBlocksAndHalfBlocks) {
  EXPECT_EQ(cuts_of(3), (std::set<int>{3, 6, 1}));
  EXPECT_EQ(cuts_of(16), (std::set<int>{16, 32, 8, 4}));
  EXPECT_EQ(cuts_of(33), (std::set<int>{11, 22, 5, 2, 33, 66}));
  EXPECT_EQ(cuts_of(3, "cpu:2"), (std::set<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(cuts_of(9, "cpu:2"), (std::set<int>{9, 18, 4, 2}));
}

// No more layers of whole blocks than blocks; and where it is given what layers balance, blocks are no other cut: 33
// are cut into 11 layers of three, and into 66 of half blocks.
TEST(LayerSearch, KeepsTheCutThatIsGiven) {
  using enum LayerOptions::Cut;
  EXPECT_EQ(cuts_of(1, "cpu:2", Uniform), (std::set<int>{1}));
  EXPECT_EQ(cuts_of(3, "cpu:2", Uniform), (std::set<int>{1, 2, 3}));
  EXPECT_EQ(cuts_of(33, "cpu:1", Uniform), (std::set<int>{11, 22, 5, 2}));
  EXPECT_EQ(cuts_of(33, "cpu:1", EvenBytes), (std::set<int>{11, 22, 5, 2, 66}));
}

// 4 devices and 516 samples are no small request: other cuts are searched at the best number of micro-batches alone.
// Launching these ops takes longer than computing them, so that one micro-batch is the best.
TEST(LargerSearch, CutsAnewAtTheBestNumberOfMicrobatchesAlone) {
  Points points;
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:4", "pipeshard", 516, Auto{});
  request.search.layers = Auto{};
  request.record = &points;
  ASSERT_FALSE(is_small(request));
  const Planned found = planned(request);
  ASSERT_TRUE(found.plan) << found.reason;
  EXPECT_EQ(points.found, (std::set<std::pair<int, std::int64_t>>{{1, 1}, {2, 1}, {4, 1}, {8, 1}}));
}

// The first numbers of micro-batches whose stages get costs, in order; at most so many.
std::vector<std::int64_t> numbers_of(PlanRequest request, std::size_t most = 100) {
  std::vector<std::int64_t> numbers;
  request.search.layers = 1;
  request.progress = [&](const std::string& text) {
    int layers = 0;
    long long number = 0;
    if (text.find("computing stage costs") == std::string::npos) return;
    if (std::sscanf(text.c_str(), "%d layers, %lld micro-batches", &layers, &number) == 2) numbers.push_back(number);
  };
  request.stop = [&] { return numbers.size() >= most; };
  (void)planned(request);
  numbers.resize(std::min(most, numbers.size()));
  return numbers;
}

// Other numbers are predicted from two of the n: the one in the middle, and one behind it by 1 and a tenth of n - 1.
TEST(LargerSearch, PredictsFromTwoNumbersOfMicrobatches) {
  const auto first_two = [](std::int64_t batch) {
    return numbers_of(ask("mlp:layers=1,hidden=4", "cpu:32", "pipeshard", batch, Auto{}), 2);
  };
  // 1, 2, 4 ... 128: 8 numbers; to 256 and to 512: 9 and 10; 1, 2, ... 1024: 11.
  EXPECT_EQ(first_two(128), (Numbers{16, 8}));
  EXPECT_EQ(first_two(256), (Numbers{32, 16}));
  EXPECT_EQ(first_two(512), (Numbers{32, 16}));
  EXPECT_EQ(first_two(1024), (Numbers{128, 32}));
}

// The divisors of 12 are 1, 2, 3, 4, 6 and 12; nearest to 4, by their ratio, are 3, 6, 2, then 12 and 1.
TEST(SmallSearch, BeginsInTheMiddleOfTheNumbersOfMicrobatches) {
  const auto numbers = [](std::int64_t batch, std::size_t most) {
    return numbers_of(ask("mlp:layers=1,hidden=4", "cpu:2", "pipeshard", batch, Auto{}), most);
  };
  EXPECT_EQ(numbers(12, 6), (Numbers{4, 3, 6, 2, 12, 1}));
  EXPECT_EQ(numbers(16, 5), (Numbers{4, 2, 8, 1, 16}));
}

// Launching these ops takes longer than computing them, so that more micro-batches are no better.
TEST(LargerSearch, OfOneStageEndsWhenTwoNumbersInARowWereNoBetter) {
  EXPECT_EQ(numbers_of(ask("mlp:layers=1,hidden=4", "cpu:32", "data", 128, Auto{})), (Numbers{1, 2, 4}));
}

// At least twice the one before, and the batch itself; none above 1024.
TEST(MicrobatchCounts, GrowByTwoOrMoreUpToTheBatch) {
  const auto counts = [](std::int64_t batch) {
    return microbatch_counts(ask("mlp:layers=1,hidden=4", "cpu:2", "pipeshard", batch, Auto{}));
  };
  EXPECT_EQ(counts(1), (Numbers{1}));
  EXPECT_EQ(counts(60), (Numbers{1, 2, 4, 10, 20, 60}));
  EXPECT_EQ(counts(7 * 512), (Numbers{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}));
  EXPECT_EQ(all_microbatch_counts(ask("mlp:layers=1,hidden=4", "cpu:2", "pipeshard", 3 * 512, Auto{})),
            (Numbers{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768}));
}

TEST(SearchLog, SaysHowNumbersOfMicrobatchesWereSearchedWhereThereAreSeveral) {
  const auto says = [](OrAuto<std::int64_t> microbatches) {
    PlanRequest request = ask("mlp:layers=1,hidden=4", "cpu:1", "pipeshard", 8, microbatches);
    request.search.layers = 1;
    return planned(request).log.how.find("numbers of micro-batches") != std::string::npos;
  };
  EXPECT_FALSE(says(2));
  EXPECT_TRUE(says(Auto{}));
}

// A step of an MLP has 1 + 22 n ops: 1497 of 68 layers, 1519 of 69; of those that are small on three axes 485 and 507.
TEST(SmallSearch, IsOfAFewRunsAndOps) {
  const auto small = [](int layers, std::int64_t batch, LogicalMeshSpace space = LogicalMeshSpace::All) {
    PlanRequest request = ask(fmt::format("mlp:layers={},hidden=4", layers), "cpu:16", "pipeshard", batch, 1);
    request.search.logical_mesh_space = space;
    return is_small(request);
  };
  EXPECT_TRUE(small(68, 128));
  EXPECT_FALSE(small(69, 128));
  EXPECT_FALSE(small(68, 129));
  EXPECT_TRUE(small(22, 128, LogicalMeshSpace::ThreeDimensional));
  EXPECT_FALSE(small(23, 128, LogicalMeshSpace::ThreeDimensional));
}

// 16 devices times 128 micro-batches are 2048.
TEST(LargePrograms, AreOfMoreThanAFewDevicesTimesMicrobatches) {
  const PlanRequest request = ask("mlp:layers=1,hidden=4", "cpu:16", "pipeshard", 256, Auto{});
  EXPECT_FALSE(is_large(request, 128));
  EXPECT_TRUE(is_large(request, 129));
}

// Smaller micro-batches answer sooner.
TEST(ServingSearch, BeginsWithTheSmallestMicrobatches) {
  PlanRequest request = ask("mlp:layers=1,hidden=4", "cpu:2", "pipeshard", 16, Auto{});
  request.search.schedule = ScheduleKind::Inference;
  request.goal.objective = Goal::Objective::Latency;
  EXPECT_EQ(numbers_of(request, 5), (Numbers{16, 8, 4, 2, 1}));
}

// Five ops or more of each block.
TEST(Point, OfAModelOfTooManyOpsIsRefused) {
  PlanRequest request = ask("mlp:layers=6554,hidden=1", "cpu:1", "pipeshard", 1, 1);
  request.search.schedule = ScheduleKind::Inference;
  Prepared of(std::move(request));
  const std::string said = refusal([&] { return given_model(of.context, of.at(1)).cut->layers.count; });
  EXPECT_NE(said.find("at most 32768 can be planned"), std::string::npos) << said;
}

// Four layers and 16 micro-batches: as many as the first of four stages keeps, of several schedules all. How many a
// rank with several stages keeps is not known.
TEST(Point, KnowsHowManyMicrobatchesAStageKeepsAtMost) {
  const auto most = [](OrAuto<ScheduleKind> schedule) {
    PlanRequest request = ask("mlp:layers=4,hidden=16", "cpu:4", "pipeshard", 32, 16);
    request.search.schedule = schedule;
    Prepared of(std::move(request));
    return prepare_point(of.context, of.at(4)).spans.search->options().max_in_flight;
  };
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::EagerOneFOneB,
                                  ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleH2, ScheduleKind::Inference}) {
    const std::vector<int> kept = max_in_flight(make_schedule(kind, line_of(4), 16));
    ASSERT_TRUE(most(kind)) << name_of(kind);
    EXPECT_GE(*most(kind), *std::max_element(kept.begin(), kept.end())) << name_of(kind);
  }
  EXPECT_EQ(most(ScheduleKind::OneFOneB), 4.0);
  EXPECT_EQ(most(ScheduleKind::EagerOneFOneB), 8.0);
  EXPECT_EQ(most(ScheduleKind::GPipe), 16.0);
  EXPECT_EQ(most(Auto{}), 16.0);
  EXPECT_FALSE(most(ScheduleKind::Interleaved));
  EXPECT_FALSE(most(ScheduleKind::ZeroBubbleV));
}

// Nothing has a candidate in 100 bytes. Where programs are small every schedule is searched all the same, as its
// programs may need less than its stages are estimated to.
TEST(PointSearch, RanksSchedulesWithoutACandidateInTheirOwnOrder) {
  PlanRequest request = ask("mlp:layers=2,hidden=16", "cpu:2", "pipeshard", 8, 4);
  request.search.schedule = Auto{};
  request.cluster.only().device.memory = Bytes(100.0);
  Prepared of(std::move(request));
  PointSearch search(of.context, prepare_point(of.context, of.at(2)));
  const std::vector<ScheduleKind> schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::ZeroBubbleH1};
  EXPECT_EQ(search.rank(schedules), schedules);
  for (const ScheduleKind schedule : schedules) EXPECT_FALSE(search.promised(schedule));
}

// The first schedule's best pipelines are tried with the others, but those whose ranks have two stages suit no schedule
// with one stage on each rank.
TEST(PointSearch, RanksAScheduleOfSeveralStagesOnEachRankBeforeOthers) {
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:2", "pipeshard", 8, 4);
  request.search.schedule = Auto{};
  Prepared of(std::move(request));
  PointSearch search(of.context, prepare_point(of.context, of.at(4)));
  const std::vector<ScheduleKind> ranked =
      search.rank({ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleH1, ScheduleKind::OneFOneB});
  ASSERT_EQ(ranked.size(), 3u);
  EXPECT_EQ(ranked.front(), ScheduleKind::Interleaved);
  for (const ScheduleKind schedule : ranked) EXPECT_TRUE(search.promised(schedule)) << name_of(schedule);
}

TEST(CandidateRequest, HasTheDevicesOfItsPartOfTheHosts) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "p3.16xlarge:4+dgx-a100:2", "pipeshard", 8, 4);
  request.search.recompute = Recompute::None;
  request.search.submeshes = std::vector<Submesh>{{1, 8, 0}, {1, 8, 1}};
  Prepared of(std::move(request));
  const Point point = prepare_point(of.context, of.at(2));
  const auto wanted = [&](int fewer) {
    return candidate_request(of.context, point, ScheduleKind::OneFOneB, {.fewer_hosts = fewer});
  };
  EXPECT_EQ(wanted(1).devices, (std::vector<int>{32, 16}));
  EXPECT_EQ(wanted(2).devices, (std::vector<int>{16, 8}));
  EXPECT_EQ(wanted(1).microbatches, 4);
  EXPECT_EQ(wanted(1).samples, 2);
}

// What serves fastest by the step is not always what answers soonest.
TEST(CandidateRanking, OrdersPipelinesByTheObjective) {
  int told_apart = 0;
  for (const double slowness : {1.0, 10.0, 100.0})
    for (const auto objective : {Goal::Objective::Latency, Goal::Objective::StepTime}) {
      PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:4", "pipeshard", 64, 4);
      request.search.schedule = ScheduleKind::Inference;
      request.goal.objective = objective;
      HostGroup& hosts = request.cluster.only();
      hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
      Prepared of(std::move(request));
      const Point point = prepare_point(of.context, of.at(4));
      const StageTable table = make_stage_table(point, 1.0, StageSearch::Keep::All, {});
      const CandidateRequest wanted = candidate_request(of.context, point, ScheduleKind::Inference);
      const std::vector<Candidate> ranked = point.spans.ranking->find(table, wanted).ranked;
      ASSERT_GT(ranked.size(), 3u);
      const auto ascend = [&](Seconds Candidate::*time) {
        return std::is_sorted(ranked.begin(), ranked.end(),
                              [&](const Candidate& a, const Candidate& b) { return a.*time < b.*time; });
      };
      const bool by_latency = objective == Goal::Objective::Latency;
      EXPECT_TRUE(ascend(by_latency ? &Candidate::alone : &Candidate::step)) << slowness;
      told_apart += ascend(by_latency ? &Candidate::step : &Candidate::alone) ? 0 : 1;
    }
  EXPECT_GT(told_apart, 0);
}

// --- what lacks memory ---

// The embedding is on the first stage and the loss, of 128 times as many columns as the model is wide, on the last.
TEST(SoftwareMemory, ThatIsTooLittleIsToldOfTheStageThatHoldsTheMost) {
  PlanRequest request = ask("gpt:layers=2,hidden=64,heads=4,seq=64,vocab=8192", "p3.16xlarge:1", "megatron:pp=2", 8, 1);
  request.cluster.only().devices_per_host = 2;
  request.training.dtype = DType::F16;
  request.search.layers = 4;
  const SoftwareProfile profile = find_software_profile("megatron");
  const auto costs = make_physical_cost_model(request.cluster, profile);
  SimulatedEvaluator evaluator(*costs, &profile);
  const PlanningResult free = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(free.plan) << free.reason;
  const std::vector<StagePlan>& stages = free.plan->stages;
  ASSERT_EQ(stages.size(), 2u);
  const int fullest = stages[1].peak_memory > stages[0].peak_memory ? 1 : 0;
  EXPECT_EQ(fullest, 1);
  // The driver's memory is not for models.
  request.cluster.only().device.memory = gibibytes(2.0) + Bytes(1e6);
  const PlanningResult none = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(none.too_large && !none.plan);
  EXPECT_EQ(none.too_large->stage, fullest);
  EXPECT_EQ(none.too_large->stages, 2);
  EXPECT_EQ(none.too_large->first_layer, stages[1].first_layer);
  EXPECT_EQ(none.too_large->last_layer, stages[1].last_layer);
  EXPECT_TRUE(none.too_large->likely);
  EXPECT_GT(none.too_large->needs, none.too_large->usable);
}

// Three of five layers have about 1.5 times the optimizer state of the other two, and all of it waits on the hosts.
TEST(HostMemory, ThatIsTooLittleIsToldOfTheStageThatHoldsTheMost) {
  for (const int first_layers : {3, 2}) {
    PlanRequest request = ask("mlp:layers=5,hidden=64", "cpu:2", "pipeshard", 16, 2);
    request.search.method = manual({{0, first_layers - 1, {1, 1}, {1}}, {first_layers, 4, {1, 1}, {1}}});
    request.search.layers = 5;
    request.training.offload = Offload::Optimizer;
    auto& device = request.cluster.only().device;
    device.host_memory = Bytes(1e9);
    device.host_bandwidth = BytesPerSecond(1e9);
    const Planned free = planned(request);
    ASSERT_TRUE(free.plan) << free.reason;
    const std::vector<Bytes> on_host = free.program.host_bytes;
    const std::size_t most = first_layers == 3 ? 0 : 1;
    ASSERT_NEAR(on_host[most] / on_host[1 - most], 1.5, 0.01);
    device.host_memory = 0.5 * on_host[1 - most];
    const Planned none = planned(request);
    ASSERT_TRUE(none.too_large && !none.plan);
    EXPECT_TRUE(none.too_large->of_host);
    EXPECT_EQ(none.too_large->stage, static_cast<int>(most));
    EXPECT_EQ(none.too_large->needs, on_host[most]);
    EXPECT_EQ(none.too_large->usable, device.host_memory);
  }
}

}  // namespace
}  // namespace meshwright::search_points_test
