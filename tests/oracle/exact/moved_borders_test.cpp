// SPDX-License-Identifier: Apache-2.0
// Stages that begin elsewhere compute the same: over integers modulo a prime a plan with moved borders is still the
// single-device program to the bit.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "core/planner/borders/moved_plan.h"
#include "tests/oracle/exact/drawn_plan.h"

namespace meshwright::moved_borders_test {
namespace {

// Moves every border between like meshes to a place between its neighbours. nullopt: none has another place.
std::optional<Plan> with_random_borders(const PlanOfGraph& made, const CostModel& costs, Drawing& draw) {
  const Plan& plan = made.plan;
  const StagePieces pieces = cut_into_pieces(made, costs);
  std::vector<int> firsts = pieces.first_of_stage;
  for (std::size_t s = 1; s < firsts.size(); ++s) {
    if (!same_meshes(plan.stages[s - 1], plan.stages[s])) continue;
    const int begin = firsts[s - 1] + 1;
    const int end = s + 1 < firsts.size() ? firsts[s + 1] : static_cast<int>(pieces.pieces.size());
    firsts[s] = begin + static_cast<int>(draw.below(static_cast<std::size_t>(end - begin)));
  }
  if (firsts == pieces.first_of_stage) return std::nullopt;
  return moved_plan(made, pieces, firsts);
}

TEST(MovedBorders, AreTheSingleDeviceProgram) {
  const std::uint64_t count = number_given("EXACT_PLANS", 25), seed = number_given("EXACT_SEED", 1);
  std::uint64_t plans = 0, refused = 0;
  std::map<std::string, int> schedules;
  for (std::uint64_t number = 0; plans < count; ++number) {
    ASSERT_LT(number, 60 * count) << "hardly a plan has borders that can move";
    Drawing draw(seed * 7'000'000 + number);
    std::optional<DrawnPlan> drawn = drawn_plan(draw);
    if (!drawn || !drawn->has_pipeline() ||
        stages_per_copy(*drawn->planned.plan) < static_cast<int>(drawn->planned.plan->stages.size()))
      continue;
    const auto costs = make_analytic_cost_model(drawn->request.cluster);
    const PlanOfGraph made{*drawn->planned.plan, std::make_shared<const Graph>(drawn->planned.graph)};
    const std::optional<Plan> moved = with_random_borders(made, *costs, draw);
    if (!moved) continue;
    if (!check_plan(*moved, *made.graph).empty()) {
      ++refused;
      continue;
    }
    ++plans;
    ++schedules[drawn->schedule];
    try {
      const LoadedPlan loaded = load_plan({*moved, made.graph}, *costs);
      const RunResult run = run_exactly(*made.graph, loaded.program, loaded.check, seed);
      const ExactCheck check = compare_exactly(*made.graph, run, reference_of(*drawn, seed));
      EXPECT_EQ(difference_in(check), "") << "number " << number << ": " << drawn->text;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "number " << number << ": " << drawn->text << ": " << error.what();
    }
  }
  std::cout << plans << " plans, " << refused << " whose partial sums would have had to be sent; schedules:";
  for (const auto& [name, times] : schedules) std::cout << " " << name << " " << times;
  std::cout << "\n";
  EXPECT_LE(refused, plans) << "most borders should have places where tensors are whole";
}

}  // namespace
}  // namespace meshwright::moved_borders_test
