// SPDX-License-Identifier: Apache-2.0
// Stage tables against the costs of all spans that they are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/planner/search/point.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::stage_table_test {
namespace {

struct Prepared {
  PlanRequest request;
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator{*costs};
  SearchContext context{request, *costs, evaluator};
  Point point;

  explicit Prepared(PlanRequest wanted) : request(std::move(wanted)) {
    point = prepare_point(context, {.layers = 4, .layer_cut = {}, .microbatches = 2});
  }
  Prepared(const Prepared&) = delete;
  [[nodiscard]] const StageSearch& search() const { return *point.spans.search; }
  [[nodiscard]] ScheduleKind schedule() const { return request.first_schedule(); }

  // Calls visit(first, last, slice, config) for all that may have an entry.
  template <class Visit>
  void each_entry(const StageTable& table, const Visit& visit) const {
    for (int first = 0; first < table.layers(); ++first)
      for (int last = first; last < table.layers(); ++last)
        for (int slice = 0; slice < std::ssize(table.slices()); ++slice)
          for (int config = 0; config < table.configs(); ++config) visit(first, last, slice, config);
  }
};

// Slow links, and Selective recomputation too, so that shardings of little memory are not the fast ones.
PlanRequest request_for(const char* model, ScheduleKind schedule, double slowness) {
  PlanRequest request = ask(model, "cpu:4", "pipeshard", 16, 2);
  HostGroup& hosts = request.cluster.only();
  hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
  request.search.schedule = schedule;
  request.search.recompute = Auto{};
  request.search.logical_mesh_space = LogicalMeshSpace::All;
  return request;
}
std::vector<PlanRequest> requests() {
  constexpr const char* kGpt = "gpt:layers=2,hidden=64,heads=4,seq=16,vocab=96";
  return {request_for(kGpt, ScheduleKind::OneFOneB, 100.0), request_for(kGpt, ScheduleKind::ZeroBubbleH1, 100.0)};
}
// The same, and stages of which some hold more between the halves of a backward than others that are slower and else no
// smaller.
std::vector<PlanRequest> requests_with_much_held() {
  std::vector<PlanRequest> all = requests();
  all.push_back(request_for("mlp:layers=4,hidden=64", ScheduleKind::ZeroBubbleH1, 30.0));
  return all;
}

TEST(StageTable, HasTheCostOfEverySpanAndOption) {
  for (const PlanRequest& request : requests()) {
    const Prepared of(request);
    const StageTable table = of.search().table(0.5, StageSearch::Keep::All);
    int held = 0;
    of.each_entry(table, [&](int first, int last, int slice, int config) {
      const StageChoice choice = of.search().choice(slice, config);
      const auto& found = table.at(first, last, slice, config);
      const bool exists = choice.mesh >= 0 && choice.option < of.search().spans(choice).options() &&
                          of.search().spans(choice).has_costs(first, last);
      ASSERT_EQ(found.has_value(), exists);
      if (!exists) return;
      EXPECT_EQ(of.search().config_of(slice, choice), config);
      const StepCost& cost = of.search().cost(first, last, choice);
      EXPECT_EQ(found->time, cost.forward + cost.backward);
      EXPECT_EQ(found->step, cost.step);
      EXPECT_EQ(found->resident, cost.resident);
      EXPECT_EQ(found->saved, cost.saved);
      EXPECT_EQ(found->working, cost.working + cost.recomputed_at_once);
      // The model's first stage has nothing to do between the halves of a backward.
      EXPECT_EQ(found->held, first == 0 ? Bytes(0.0) : cost.held);
      held += found->held > Bytes(0.0) ? 1 : 0;
      EXPECT_EQ(of.search().estimate(cost), cost.resident + cost.saved + cost.working + cost.recomputed_at_once);
    });
    EXPECT_GT(held, 0);
    for (const DeviceSlice& slice : table.slices())
      EXPECT_EQ(slice.memory, 0.5 * request.cluster.only().usable_memory());
  }
}

// Where a backward is whole, nothing is held between its halves.
bool matches(const StageCost& a, const StageCost& b, ScheduleKind schedule) {
  constexpr double kSame = 1.0 + 1e-9;
  return a.time <= kSame * b.time && a.step <= kSame * b.step && a.resident <= kSame * b.resident &&
         a.saved <= kSame * b.saved && a.working <= kSame * b.working &&
         (schedule == ScheduleKind::OneFOneB || a.held <= kSame * b.held);
}

// What is left out is matched by what stays, and of what stays no two match one another.
TEST(StageTable, OfTheBestLeavesOutWhatAnotherEntryMatches) {
  int holds_less = 0;
  for (const PlanRequest& request : requests_with_much_held()) {
    const Prepared of(request);
    const StageTable all = of.search().table(1.0, StageSearch::Keep::All),
                     best = of.search().table(1.0, StageSearch::Keep::Best);
    int left_out = 0, kept = 0;
    of.each_entry(all, [&](int first, int last, int slice, int config) {
      const auto &whole = all.at(first, last, slice, config), &own = best.at(first, last, slice, config);
      ASSERT_TRUE(whole || !own);
      if (!whole) return;
      bool matched = false;
      for (int other = 0; other < all.configs(); ++other) {
        const auto& rival = best.at(first, last, slice, other);
        if (other == config || !rival) continue;
        matched = matched || matches(*rival, *whole, of.schedule());
        holds_less += own && matches(*rival, *whole, ScheduleKind::OneFOneB) ? 1 : 0;
      }
      EXPECT_EQ(matched, !own) << first << ".." << last << ", " << slice << ", " << config;
      (own ? kept : left_out) += 1;
      if (own) {
        EXPECT_EQ(std::pair(own->time, own->working), std::pair(whole->time, whole->working));
      }
    });
    EXPECT_GT(left_out, 100);
    EXPECT_GT(kept, 100);
  }
  EXPECT_GT(holds_less, 5);
}

// In every amount of memory the entries that stay have a pipeline as fast as all entries have.
TEST(StageTable, OfTheBestHasAPipelineThatFitsWhereverAllEntriesHaveOne) {
  for (const PlanRequest& request : requests_with_much_held()) {
    Prepared of(request);
    const CandidateRequest wanted = candidate_request(of.context, of.point, of.schedule());
    int fitting = 0, without = 0;
    for (double share = 1.0; share > 1e-7; share *= 0.9) {
      const auto first = [&](StageSearch::Keep keep) {
        return of.point.spans.ranking->first_by_cost(of.search().table(share, keep), wanted);
      };
      const auto all = first(StageSearch::Keep::All), best = first(StageSearch::Keep::Best);
      ASSERT_EQ(all.has_value(), best.has_value()) << name_of(of.schedule()) << " with " << share << " of the memory";
      (all ? fitting : without) += 1;
      if (all && best) {
        EXPECT_NEAR(best->cost / all->cost, 1.0, 1e-8) << name_of(of.schedule()) << " " << share;
      }
    }
    EXPECT_GT(fitting, 10);
    EXPECT_GT(without, 10);
  }
}

// The fastest sharding of a span is one of its options: that without a price of bytes.
TEST(StageSearch, TellsTheLeastTimeOfEverySpan) {
  for (const PlanRequest& request : requests()) {
    const Prepared of(request);
    const StageTable all = of.search().table(1.0, StageSearch::Keep::All);
    for (int first = 0; first < all.layers(); ++first)
      for (int last = first; last < all.layers(); ++last)
        for (int slice = 0; slice < std::ssize(all.slices()); ++slice) {
          double least = 1e300;
          for (int config = 0; config < all.configs(); ++config)
            if (all.at(first, last, slice, config))
              least = std::min(
                  least,
                  of.search().per_microbatch(of.search().cost(first, last, of.search().choice(slice, config))).si());
          if (least == 1e300) continue;
          const double told = of.search().min_time(first, last, slice, StageSearch::Costs::Modelled).si();
          EXPECT_NEAR(told / least, 1.0, 1e-9) << first << ".." << last << " on " << slice;
        }
  }
}

}  // namespace
}  // namespace meshwright::stage_table_test
