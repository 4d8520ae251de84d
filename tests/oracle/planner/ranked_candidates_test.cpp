// SPDX-License-Identifier: Apache-2.0
// Which pipelines a ranking looks at: to the end of the bound and no further, of each number of stages, and only those
// that fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/planner/pipeline/stage_dp_ranking.h"
#include "core/planner/search/candidates.h"
#include "tests/oracle/whole_plan_truth.h"

namespace meshwright::ranked_candidates_test {
namespace {

// A request with its stages.
struct Prepared {
  PlanRequest request;
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator{*costs};
  WholeSpace space{request, *costs, evaluator};

  explicit Prepared(PlanRequest wanted) : request(std::move(wanted)) {}
  Prepared(const Prepared&) = delete;

  [[nodiscard]] StageDpRequest dp(std::optional<int> stages = {}) const {
    const CandidateRequest wanted = space.wanted();
    return {wanted.devices, false, wanted.microbatches, in_flight_of(request.first_schedule()), stages};
  }
};

// Pipelines come by T ascending. The first of which not even the least share can be less than the best step so far ends
// the order, and with it all that other orders would add.
TEST(RankedCandidates, EndWithTheFirstPipelineThatCannotBeFaster) {
  RandomRequests random(23);
  int ended = 0, closer = 0;
  for (int round = 0; round < 80; ++round) {
    Prepared of(random.next());
    if (!of.request.trains() || of.request.cluster.groups.size() > 1 || !of.space.ranking().is_line()) continue;
    const StageTable table = of.space.prices();
    CandidateRequest wanted = of.space.wanted();
    wanted.thorough = round % 2 == 0;
    const CandidateRanking::Ranking ranking = of.space.ranking().begin(table, wanted);
    if (!ranking.found.all) continue;
    const double share = of.space.ranking().share_of_order(table, wanted);
    closer += share > CandidateRanking::least_share(table, wanted) ? 1 : 0;
    PipelineRanking order = PipelineRanking::by_training_time(table, of.dp());
    std::set<std::vector<TableStage>> looked_at;
    std::optional<Seconds> best;
    auto next = order.next();
    for (; next && !(best && share * next->cost >= *best); next = order.next()) {
      looked_at.insert(next->stages);
      if (const auto candidate = of.space.ranking().simulate(*next, wanted))
        best = std::min(best.value_or(candidate->step), candidate->step);
    }
    EXPECT_EQ(ranking.known.size(), looked_at.size()) << round;
    ended += next ? 1 : 0;
    for (int more = 0; next && more < 200; ++more, next = order.next())
      if (const auto candidate = of.space.ranking().simulate(*next, wanted)) {
        EXPECT_GE(candidate->step, *best) << round;
      }
  }
  EXPECT_GT(ended, 5);
  EXPECT_GT(closer, 5);
}

// Spans of one layer are ten times as slow in the table, so that the order of T begins with more pipelines without such
// than are looked at. `thorough`: of each number also the first four by T without what is done once per step.
TEST(RankedCandidates, HoldTheBestOfEachNumberOfStages) {
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:8", "pipeshard", 32, 4);
  request.search.layers = 4;
  request.search.logical_mesh_space = LogicalMeshSpace::All;
  Prepared of(std::move(request));
  StageTable table = of.space.prices();
  for (int layer = 0; layer < 4; ++layer)
    for (int slice = 0; slice < std::ssize(table.slices()); ++slice)
      for (int config = 0; config < table.configs(); ++config)
        if (auto& cost = table.at(layer, layer, slice, config)) cost->time = 10.0 * cost->time;
  StageTable passes = table;
  for (std::optional<StageCost>& cost : passes.costs())
    if (cost) cost->step = Seconds(0.0);
  CandidateRequest wanted = of.space.wanted();
  for (const bool thorough : {false, true}) {
    wanted.thorough = thorough;
    const CandidateRanking::Ranking ranking = of.space.ranking().begin(table, wanted);
    ASSERT_FALSE(ranking.found.all);
    for (int stages = 1; stages <= 4; ++stages) {
      const auto best = fastest_training(table, of.dp(stages));
      ASSERT_TRUE(best);
      EXPECT_TRUE(ranking.known.contains({1, best->stages})) << stages;
      const StageDpRequest dp = of.dp(stages);
      PipelineRanking order = PipelineRanking::by_training_time(passes, dp);
      for (int k = 0; k < 4 && thorough; ++k) EXPECT_TRUE(ranking.known.contains({1, order.next()->stages})) << stages;
    }
  }
}

// The largest sum of bytes that a stage of a line has while its passes run.
Bytes peak_of(const StageCost& cost, const std::vector<ScheduledRun>& runs) {
  Bytes now(0.0), peak(0.0);
  for (const ScheduledRun& run : runs) {
    if (run.pass == Pass::Forward) now += cost.saved;
    if (run.pass == Pass::BackwardInput) now += cost.held;
    peak = std::max(peak, now);
    if (run.pass == Pass::BackwardWeight) now -= cost.saved + cost.held;
  }
  return cost.resident + cost.working + peak;
}

TEST(RankedCandidates, OfASplitBackwardFitAndAreFoundWhereOneSurelyFits) {
  RandomRequests random(29);
  int found_some = 0, too_large = 0;
  for (int round = 0; round < 40; ++round) {
    PlanRequest request = random.next();
    if (request.cluster.groups.size() > 1) continue;
    request.search.schedule = round % 2 == 0 ? ScheduleKind::ZeroBubbleH1 : ScheduleKind::ZeroBubbleH2;
    Prepared of(std::move(request));
    if (!of.space.ranking().is_line()) continue;
    const CandidateRequest wanted = of.space.wanted();
    for (double share = 1.0; share > 1e-12; share *= 0.5) {
      const StageTable table = of.space.search().table(share, StageSearch::Keep::All);
      const Candidates found = of.space.ranking().find(table, wanted);
      const bool surely = of.space.ranking().first_by_cost(table, wanted).has_value();
      EXPECT_TRUE(!surely || !found.ranked.empty()) << round << ", " << share;
      if (found.ranked.empty()) {
        ++too_large;
        break;
      }
      ++found_some;
      for (const Candidate& candidate : found.ranked) {
        const auto& stages = candidate.pipeline.stages;
        const Schedule schedule = make_schedule(wanted.schedule, line_of(static_cast<int>(stages.size())),
                                                static_cast<int>(wanted.microbatches));
        for (std::size_t s = 0; s < stages.size(); ++s) {
          const auto& cost = table.at(stages[s].first, stages[s].last, stages[s].slice, stages[s].config);
          ASSERT_TRUE(cost);
          EXPECT_LE(peak_of(*cost, schedule[s]), table.slices()[static_cast<std::size_t>(stages[s].slice)].memory);
        }
      }
    }
  }
  EXPECT_GT(found_some, 50);
  EXPECT_GT(too_large, 5);
}

// Pipelines of other schedules are simulated too where each stage has room for as many micro-batches as it keeps, and
// else not.
TEST(RankedCandidates, OfOtherSchedulesAreThoseThatFit) {
  RandomRequests random(31);
  int fit = 0, too_large = 0;
  for (int round = 0; round < 40; ++round) {
    PlanRequest request = random.next();
    if (!request.trains() || request.cluster.groups.size() > 1) continue;
    Prepared of(std::move(request));
    if (!of.space.ranking().is_line()) continue;
    const auto pipelines = of.space.pipelines(2000);
    if (!pipelines) continue;
    CandidateRequest wanted = of.space.wanted();
    for (int draw = 0; draw < 40; ++draw) {
      const std::vector<TableStage> stages = random.pick(*pipelines);
      const auto count = static_cast<int>(stages.size());
      const Schedule schedule = make_schedule(wanted.schedule, line_of(count), static_cast<int>(wanted.microbatches));
      // The stage that has the least room to spare has a little more than it needs, or a little less.
      const StageTable all = of.space.prices();
      double share = 0.0;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        int now = 0, most = 0;
        for (const ScheduledRun& run : schedule[s]) most = std::max(most, now += run.pass == Pass::Forward ? 1 : -1);
        const StageCost& cost = *all.at(stages[s].first, stages[s].last, stages[s].slice, stages[s].config);
        const Bytes needs = cost.resident + cost.working + static_cast<double>(most) * cost.saved;
        share = std::max(share, needs / all.slices()[static_cast<std::size_t>(stages[s].slice)].memory);
      }
      const bool fits = draw % 2 == 0;
      const StageTable table = of.space.search().table((fits ? 1.001 : 0.999) * share, StageSearch::Keep::All);
      if (!of.space.ranking().place({.stages = stages}, wanted.schedule, wanted.microbatches)) continue;
      wanted.like = {{.stages = stages}};
      const Candidates found = of.space.ranking().finish({}, table, wanted);
      EXPECT_EQ(!found.ranked.empty(), fits) << round << ", " << draw;
      ++(fits ? fit : too_large);
    }
  }
  EXPECT_GT(fit, 100);
  EXPECT_GT(too_large, 100);
}

// Of every mesh, number of ranks and number of stages on each, the least T.
TEST(RankedCandidates, OfSeveralStagesOnEachRankBeginWithTheLeastCostOfAllShapes) {
  int different = 0;
  std::set<std::pair<int, int>> winners;  // ranks, chunks
  for (const std::int64_t microbatches : {2, 4, 8})
    for (const double slowness : {1.0, 30.0, 1000.0})
      for (const char* model : {"mlp:layers=8,hidden=64", "gpt:layers=4,hidden=32,heads=4,seq=16,vocab=512"}) {
        PlanRequest request = ask(model, "cpu:4", "pipeshard", 32, microbatches);
        request.search.layers = 8;
        request.search.schedule = ScheduleKind::Interleaved;
        request.search.logical_mesh_space = LogicalMeshSpace::All;
        HostGroup& hosts = request.cluster.only();
        hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
        Prepared of(std::move(request));
        const StageSearch& search = of.space.search();
        const StageTable table = of.space.prices();
        std::optional<TablePipeline> least;
        for (int mesh = 0; mesh < std::ssize(search.meshes()); ++mesh) {
          const int slice = search.meshes()[static_cast<std::size_t>(mesh)].submesh;
          std::vector<int> configs;
          for (int config = 0; config < table.configs(); ++config)
            if (search.choice(slice, config).mesh == mesh) configs.push_back(config);
          const int room = 4 / search.submeshes()[static_cast<std::size_t>(slice)].devices();
          for (int chunks = 2; chunks <= CandidateRequest::kMaxChunks; ++chunks)
            for (int ranks = 2; ranks <= std::min(room, table.layers() / chunks); ++ranks) {
              if (unmet_by(ScheduleKind::Interleaved, ranks, microbatches)) continue;
              const ChunkedSchedule schedule({ScheduleKind::Interleaved, ranks, chunks, microbatches});
              for (const TablePipeline& pipeline : best_chunked(table, slice, configs, schedule, 1))
                if (!least || pipeline.cost < least->cost) {
                  different += least ? 1 : 0;
                  least = pipeline;
                }
            }
        }
        const auto first = of.space.ranking().first_by_cost(table, of.space.wanted());
        ASSERT_TRUE(least && first);
        EXPECT_EQ(first->cost, least->cost) << model << ", " << microbatches << ", " << slowness;
        winners.emplace(std::ssize(least->stages) / least->chunks, least->chunks);
      }
  EXPECT_GT(different, 5);
  EXPECT_GT(winners.size(), 1u);
}

// Interleaved does each backward at once: what a split one holds between its halves takes no room from it.
TEST(RankedCandidates, OfAWholeBackwardAreTheSameWhateverASplitOneHolds) {
  int compared = 0;
  for (const char* model : {"mlp:layers=8,hidden=64", "gpt:layers=4,hidden=32,heads=4,seq=16,vocab=512"}) {
    PlanRequest request = ask(model, "cpu:4", "pipeshard", 32, 8);
    request.search.layers = 8;
    request.search.schedule = ScheduleKind::Interleaved;
    Prepared of(std::move(request));
    for (double share = 1.0; share > 1e-12; share *= 0.8) {
      const StageTable table = of.space.search().table(share, StageSearch::Keep::All);
      StageTable holding = table;
      for (std::optional<StageCost>& cost : holding.costs())
        if (cost) cost->held = 4.0 * cost->saved;
      const auto ranked = of.space.ranking().begin(table, of.space.wanted()).known;
      EXPECT_EQ(ranked, of.space.ranking().begin(holding, of.space.wanted()).known) << model << ", " << share;
      compared += ranked.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 5);
}

// Only a change at the rank that works the most can make a steady pipeline faster: other configurations of its stages,
// and borders that leave it fewer layers. The best has been improved by these until none helps.
TEST(RankedCandidates, OfSeveralStagesOnEachRankEndWhereNoChangeAtTheSlowestRankHelps) {
  int changes = 0, improved = 0;
  for (const std::int64_t microbatches : {4, 8})
    for (const double slowness : {1.0, 30.0, 300.0})
      for (const char* model : {"mlp:layers=8,hidden=64", "gpt:layers=4,hidden=32,heads=4,seq=16,vocab=512"}) {
        PlanRequest request = ask(model, "cpu:4", "pipeshard", 32, microbatches);
        request.search.layers = 8;
        request.search.schedule = ScheduleKind::Interleaved;
        HostGroup& hosts = request.cluster.only();
        hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
        Prepared of(std::move(request));
        const StageTable table = of.space.prices();
        const CandidateRequest wanted = of.space.wanted();
        const CandidateRanking::Ranking begun = of.space.ranking().begin(table, wanted);
        Seconds before(1e30);
        for (const Candidate& candidate : begun.found.ranked) before = std::min(before, candidate.step);
        const Candidates found = of.space.ranking().find(table, wanted);
        ASSERT_FALSE(found.ranked.empty());
        const Candidate& best = found.ranked.front();
        improved += best.step < before ? 1 : 0;
        const int stages = static_cast<int>(best.pipeline.stages.size());
        const ChunkedSchedule schedule(
            {ScheduleKind::Interleaved, stages / best.pipeline.chunks, best.pipeline.chunks, microbatches});
        const std::vector<Seconds> busy = rank_times(best.pipeline, table, schedule);
        const auto slowest = static_cast<int>(std::max_element(busy.begin(), busy.end()) - busy.begin());
        const auto expect_no_faster = [&](TablePipeline other) {
          for (const TableStage& stage : other.stages)
            if (stage.first > stage.last || !table.at(stage.first, stage.last, stage.slice, stage.config)) return;
          if (!fits_ranks(other, table, schedule)) return;
          const auto candidate = of.space.ranking().simulate(other, wanted);
          if (!candidate) return;
          ++changes;
          EXPECT_GE(candidate->step, best.step) << model << ", " << microbatches << ", " << slowness;
        };
        for (int s = 0; s < stages; ++s) {
          if (schedule.rank_of_stage[static_cast<std::size_t>(s)] != slowest) continue;
          const auto at = static_cast<std::size_t>(s);
          TablePipeline other = best.pipeline;
          if (s > 0) ++other.stages[at - 1].last, ++other.stages[at].first, expect_no_faster(other);
          other = best.pipeline;
          if (s + 1 < stages) --other.stages[at].last, --other.stages[at + 1].first, expect_no_faster(other);
          for (int config = 0; config < table.configs(); ++config) {
            other = best.pipeline;
            other.stages[at].config = config;
            expect_no_faster(other);
          }
        }
      }
  EXPECT_GT(changes, 30);
  EXPECT_GT(improved, 2);
}

// Says stop from the given ask on, or once so many pipelines are simulated, and counts what is simulated then.
class StoppedStep : public SimulatedStep {
 public:
  StoppedStep(const CostModel& costs, int stops_at, int most)
      : SimulatedStep(costs), stops_at_(stops_at), most_(most) {}
  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override {
    ++(asks >= stops_at_ || before >= most_ ? after : before);
    return SimulatedStep::step_time(schedule, microbatches, times, chunks);
  }
  bool stop() { return ++asks >= stops_at_ || before >= most_; }

  int asks = 0, before = 0, after = 0;

 private:
  const int stops_at_, most_;
};

// Whichever loop asks: none goes on with what it was about to simulate. And all ask: no more than a few are simulated
// after as many as were wanted.
TEST(RankedCandidates, AreNotSimulatedAnyMoreOnceAskedToStop) {
  RandomRequests random(37);
  int stopped = 0;
  for (int round = 0; round < 16; ++round) {
    PlanRequest request = random.next();
    const std::int64_t microbatches = std::get<std::int64_t>(request.search.microbatches);
    for (const ScheduleKind schedule :
         {request.first_schedule(), ScheduleKind::ZeroBubbleH1, ScheduleKind::Interleaved}) {
      if (request.trains() == (schedule == ScheduleKind::Inference)) continue;
      if (unmet_by(schedule, 2, microbatches)) continue;
      request.search.schedule = schedule;
      const auto costs = make_analytic_cost_model(request.cluster);
      SimulatedStep plain(*costs);
      WholeSpace space(request, *costs, plain);
      if (!space.ranking().is_line() && schedule != ScheduleKind::OneFOneB) continue;
      const StageTable table = space.prices();
      constexpr int kNever = std::numeric_limits<int>::max(), kAtOnce = 6;
      const auto run = [&](int stops_at, int most) {
        StoppedStep step(*costs, stops_at, most);
        WholeSpace own(request, *costs, step);
        CandidateRequest wanted = own.wanted();
        wanted.thorough = round % 2 == 0;
        wanted.few = round % 3 == 0;
        wanted.stop = [&] { return step.stop(); };
        (void)own.ranking().find(table, wanted);
        return std::tuple(step.asks, step.before, step.after);
      };
      const auto [asks, all, none] = run(kNever, kNever);
      ASSERT_EQ(none, 0);
      for (const int at : {1, 2, 5, asks / 3, 2 * asks / 3, asks - 1}) {
        if (at < 1 || at > asks) continue;
        const auto [asked, before, after] = run(at, kNever);
        EXPECT_EQ(after, 0) << round << ", " << name_of(schedule) << ", from ask " << at << " of " << asks;
        stopped += before < all ? 1 : 0;
      }
      for (const int most : {1, 2, 5, all / 4, all / 2, 3 * all / 4}) {
        if (most < 1) continue;
        const auto [asked, before, after] = run(kNever, most);
        EXPECT_LE(after, kAtOnce) << round << ", " << name_of(schedule) << ", after " << most << " of " << all;
      }
    }
  }
  EXPECT_GT(stopped, 100);
}

}  // namespace
}  // namespace meshwright::ranked_candidates_test
