// SPDX-License-Identifier: Apache-2.0
// The search for borders against all borders there are.
#include "core/planner/borders/border_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/random.h"
#include "simulator/pipeline/simulate_pipeline.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::border_search_oracle {
namespace {

struct Drawn {
  StagePieces pieces;
  BorderRequest request;
};

// Pieces on two or three ranks, or on two of two stages each, or on `times` as many; some borders stay where they are.
Drawn draw(Random& random, int times = 1) {
  const bool interleaved = random.below(3) == 0;
  const int stages = times * (interleaved ? 4 : 2 + random.below(2));
  Drawn drawn{{},
              {interleaved ? ScheduleKind::Interleaved
                           : (random.below(2) == 0 ? ScheduleKind::OneFOneB : ScheduleKind::ZeroBubbleH1),
               4,
               interleaved ? 2 : 1,
               {},
               {},
               {}}};
  const int pieces = stages + random.below(7 * times * times);
  for (int p = 0; p < pieces; ++p) {
    StagePiece& piece = drawn.pieces.pieces.emplace_back();
    piece.forward = Seconds(1e-6 * (1 + random.below(5)));
    piece.backward = Seconds(1e-6 * (2 + random.below(9)));
    piece.weight = 0.5 * piece.backward;
    piece.update = Seconds(1e-6 * random.below(3));
    piece.begin = p;
  }
  drawn.pieces.first_of_stage = {0};
  for (int s = 1; s < stages; ++s)
    drawn.pieces.first_of_stage.push_back(drawn.pieces.first_of_stage.back() + 1 +
                                          random.below(pieces - stages + s - drawn.pieces.first_of_stage.back()));
  for (int s = 0; s < stages; ++s) {
    drawn.request.rank_of.push_back(interleaved ? s % (stages / 2) : s);
    drawn.request.movable.push_back(s > 0 && random.below(6) != 0);
    drawn.request.message.push_back(SimTime{1'000'000 * random.below(3)});
  }
  return drawn;
}

// What the stages alone take.
Seconds step_of(const Drawn& drawn, const std::vector<int>& firsts) {
  PipelineTimes times;
  for (std::size_t s = 0; s < firsts.size(); ++s) {
    PieceTimes sum;
    const int end = s + 1 < firsts.size() ? firsts[s + 1] : static_cast<int>(drawn.pieces.pieces.size());
    for (int p = firsts[s]; p < end; ++p) sum += drawn.pieces.pieces[static_cast<std::size_t>(p)];
    times.forward.push_back(to_sim_time(sum.forward));
    times.backward.push_back(to_sim_time(sum.backward));
    times.backward_weight.push_back(to_sim_time(sum.weight));
    times.update.push_back(to_sim_time(sum.update));
    const SimTime message = drawn.request.message[s];
    if (s > 0) times.edges.push_back({static_cast<int>(s) - 1, static_cast<int>(s), message, message});
  }
  const BorderRequest& request = drawn.request;
  return to_seconds(simulate_pipeline(request.schedule, request.microbatches, times, request.chunks).step);
}

// All borders that keep to those which cannot move, with their steps.
std::map<std::vector<int>, Seconds> all_borders(const Drawn& drawn) {
  std::map<std::vector<int>, Seconds> all;
  const auto& own = drawn.pieces.first_of_stage;
  std::vector<std::vector<int>> open = {{0}};
  while (!open.empty()) {
    std::vector<int> firsts = open.back();
    open.pop_back();
    const std::size_t s = firsts.size();
    if (s == own.size()) {
      all.emplace(firsts, step_of(drawn, firsts));
      continue;
    }
    for (int p = firsts.back() + 1; p < static_cast<int>(drawn.pieces.pieces.size()); ++p) {
      if (!drawn.request.movable[s] && p != own[s]) continue;
      firsts.push_back(p);
      open.push_back(firsts);
      firsts.pop_back();
    }
  }
  return all;
}

TEST(BorderSearchOracle, FindsTheBestOfAllBordersNearlyAlways) {
  const Cluster cluster = find_cluster("cpu:2");
  const auto costs = make_analytic_cost_model(cluster);
  SimulatedStep evaluator(*costs);
  int better = 0, best = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Drawn drawn = draw(random);
    const std::map<std::vector<int>, Seconds> all = all_borders(drawn);
    const Seconds before = all.at(drawn.pieces.first_of_stage);
    Seconds least = before;
    for (const auto& [firsts, step] : all) least = std::min(least, step);
    const std::vector<Borders> found = search_borders(drawn.pieces, drawn.request, evaluator, 3);
    EXPECT_LE(found.size(), 3u);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto known = all.find(found[i].first_of_stage);
      ASSERT_NE(known, all.end()) << "seed " << seed;
      EXPECT_NEAR(found[i].step.si(), known->second.si(), 2e-12) << "seed " << seed;
      EXPECT_LT(found[i].step, before) << "seed " << seed;
      EXPECT_TRUE(i == 0 || found[i - 1].step <= found[i].step) << "seed " << seed;
    }
    // Less than two thousandths is not worth a plan.
    if (least >= 0.998 * before) {
      EXPECT_TRUE(found.empty()) << "seed " << seed;
      continue;
    }
    ++better;
    best += !found.empty() && found.front().step <= least + Seconds(2e-12) ? 1 : 0;
  }
  EXPECT_GT(better, 150);
  EXPECT_GE(best, better * 9 / 10);
}

// Whether borders one piece further or back, one or several in a row, are no faster.
bool is_settled(const std::vector<int>& firsts, const std::map<std::vector<int>, Seconds>& all) {
  for (std::size_t from = 1; from < firsts.size(); ++from)
    for (std::size_t to = from; to < firsts.size(); ++to)
      for (const int by : {1, -1}) {
        std::vector<int> other = firsts;
        for (std::size_t s = from; s <= to; ++s) other[s] += by;
        const auto known = all.find(other);
        if (known != all.end() && known->second < all.at(firsts) - Seconds(2e-12)) return false;
      }
  return true;
}

// The climb began from one of several that are equally fast.
TEST(BorderSearchOracle, EndsWhereNoBorderThatMovesShortensTheStep) {
  const Cluster cluster = find_cluster("cpu:2");
  const auto costs = make_analytic_cost_model(cluster);
  SimulatedStep evaluator(*costs);
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    Random random(seed);
    const Drawn drawn = draw(random);
    const std::map<std::vector<int>, Seconds> all = all_borders(drawn);
    const std::vector<Borders> found = search_borders(drawn.pieces, drawn.request, evaluator, 1000);
    if (found.empty()) continue;
    EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                            [&](const Borders& borders) {
                              return borders.step <= found.front().step + Seconds(2e-12) &&
                                     is_settled(borders.first_of_stage, all);
                            }))
        << "seed " << seed;
  }
}

// Moves the border that most lowers the sum of the squares of the ranks' times, as long as one does.
std::vector<int> evened_out(const Drawn& drawn) {
  const auto pass_of = [&](int piece) {
    const StagePiece& of = drawn.pieces.pieces[static_cast<std::size_t>(piece)];
    return (of.forward + of.backward).si();
  };
  const auto squares = [&](const std::vector<int>& firsts) {
    std::map<int, double> loads;
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      const int end = s + 1 < firsts.size() ? firsts[s + 1] : static_cast<int>(drawn.pieces.pieces.size());
      for (int p = firsts[s]; p < end; ++p) loads[drawn.request.rank_of[s]] += pass_of(p);
    }
    double sum = 0.0;
    for (const auto& [rank, load] : loads) sum += load * load;
    return sum;
  };
  std::vector<int> firsts = drawn.pieces.first_of_stage;
  for (bool better = true; better;) {
    better = false;
    std::vector<int> best = firsts;
    for (std::size_t s = 1; s < firsts.size(); ++s)
      for (const int by : {1, -1}) {
        std::vector<int> other = firsts;
        other[s] += by;
        const int end = s + 1 < firsts.size() ? firsts[s + 1] : static_cast<int>(drawn.pieces.pieces.size());
        if (!drawn.request.movable[s] || other[s] <= other[s - 1] || other[s] >= end) continue;
        if (squares(other) < (1.0 - 1e-9) * squares(best)) best = other, better = true;
      }
    firsts = best;
  }
  return firsts;
}

// No two pieces take equally long, so that no two moves even out the ranks as much.
TEST(BorderSearchOracle, FindsNothingSlowerThanRanksThatAreEvenedOut) {
  const Cluster cluster = find_cluster("cpu:2");
  const auto costs = make_analytic_cost_model(cluster);
  SimulatedStep evaluator(*costs);
  int shorter = 0;
  for (std::uint64_t seed = 2000; seed < 2200; ++seed) {
    Random random(seed);
    Drawn drawn = draw(random, 3);
    for (StagePiece& piece : drawn.pieces.pieces) piece.forward += Seconds(1e-12 * random.below(3'000'000));
    const Seconds evened = step_of(drawn, evened_out(drawn));
    if (evened >= 0.998 * step_of(drawn, drawn.pieces.first_of_stage)) continue;
    ++shorter;
    const std::vector<Borders> found = search_borders(drawn.pieces, drawn.request, evaluator, 1);
    ASSERT_EQ(found.size(), 1u) << "seed " << seed;
    EXPECT_LE(found.front().step, evened + Seconds(2e-12)) << "seed " << seed;
  }
  EXPECT_GT(shorter, 50);
}

}  // namespace
}  // namespace meshwright::border_search_oracle
