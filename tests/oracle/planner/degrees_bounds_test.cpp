// SPDX-License-Identifier: Apache-2.0
// The bounds of degrees against pipelines that are simulated, and against what their schedules keep in flight.
#include "core/planner/degrees/degrees_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/random.h"
#include "core/planner/method/stage_split.h"
#include "core/schedule/schedule.h"
#include "simulator/pipeline/simulate_pipeline.h"

namespace meshwright::degrees_bounds_oracle {
namespace {

constexpr double kDoubt = 0.98, kLikely = 0.9;  // the shares of a bound that are held to

StepCost layer(double seconds, double resident = 0.0, double saved = 0.0) {
  StepCost cost;
  cost.forward = Seconds(seconds);
  cost.backward = Seconds(2 * seconds);
  cost.resident = Bytes(resident);
  cost.saved = Bytes(saved);
  return cost;
}

struct Drawn {
  Degrees degrees;
  std::int64_t blocks = 0;
  std::vector<StepCost> layers;
  bool even = false;  // equal stages
};

// Stages of equally many blocks; or, without chunks, of any number; or with the ends of the model as layers.
Drawn draw(Random& random) {
  Drawn drawn;
  Degrees& degrees = drawn.degrees;
  degrees.pp = 1 + random.below(4);
  const std::vector<ScheduleKind> kinds = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::ZeroBubbleH1,
                                           ScheduleKind::Interleaved};
  degrees.schedule = kinds[static_cast<std::size_t>(random.below(4))];
  degrees.chunks = degrees.schedule == ScheduleKind::Interleaved ? 2 + random.below(2) : 1;
  degrees.micro_batches = degrees.pp * (1 + random.below(4));
  const int stages = degrees.stages();
  drawn.blocks = stages * (1 + random.below(3));
  drawn.even = random.below(2) == 0;
  if (!drawn.even && degrees.chunks == 1) drawn.blocks += random.below(stages);
  const bool apart = cut_of(degrees, drawn.blocks) == LayerOptions::Cut::BlocksApart;
  const double block = 1 + random.below(9);
  for (std::int64_t b = 0; b < drawn.blocks; ++b)
    drawn.layers.push_back(drawn.even ? layer(block, 1000, 1) : layer(1 + random.below(9), 1000, 1));
  if (apart) {
    drawn.layers.insert(drawn.layers.begin(), layer(random.below(30)));
    drawn.layers.push_back(layer(random.below(30)));
  } else if (!drawn.even) {
    drawn.layers.front() = layer(10 + random.below(30), 1000, 1);
    drawn.layers.back() = layer(10 + random.below(30), 1000, 1);
  }
  return drawn;
}

// [stage] of any of the layers' values.
template <class Of>
auto by_stages(const Drawn& drawn, Of of) {
  const Degrees& degrees = drawn.degrees;
  const std::vector<int> starts =
      first_layers_of_stages(degrees.split, static_cast<int>(drawn.layers.size()), degrees.pp, degrees.chunks);
  std::vector<decltype(of(drawn.layers[0]))> stages;
  for (int s = 0; s < degrees.stages(); ++s) {
    auto sum = of(drawn.layers[static_cast<std::size_t>(starts[static_cast<std::size_t>(s)])]);
    for (int l = starts[static_cast<std::size_t>(s)] + 1; l < starts[static_cast<std::size_t>(s) + 1]; ++l)
      sum += of(drawn.layers[static_cast<std::size_t>(l)]);
    stages.push_back(sum);
  }
  return stages;
}

// Messages take no time.
Seconds simulated(const Degrees& degrees, const std::vector<Seconds>& forward, const std::vector<Seconds>& backward,
                  const std::vector<Seconds>& update) {
  PipelineTimes times;
  for (std::size_t s = 0; s < forward.size(); ++s) {
    times.forward.push_back(to_sim_time(forward[s]));
    times.backward.push_back(to_sim_time(backward[s]));
    times.backward_weight.push_back(to_sim_time(0.5 * backward[s]));
    times.update.push_back(to_sim_time(update[s]));
    if (s > 0) times.edges.push_back({static_cast<int>(s) - 1, static_cast<int>(s)});
  }
  return to_seconds(
      simulate_pipeline(degrees.schedule, static_cast<int>(degrees.micro_batches), times, degrees.chunks).step);
}

TEST(DegreesBounds, OfTheWorkAreNoMoreThanTheStepAndAllOfItWhereStagesAreEqual) {
  int exact = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Drawn drawn = draw(random);
    const auto forward = by_stages(drawn, [](const StepCost& of) { return of.forward; });
    const auto backward = by_stages(drawn, [](const StepCost& of) { return of.backward; });
    const Seconds step =
        simulated(drawn.degrees, forward, backward, std::vector<Seconds>(forward.size(), Seconds(0.0)));
    const Work work = work_of_layers(drawn.layers, drawn.blocks);
    const Seconds bound = bound_of_work(work, drawn.degrees, drawn.blocks);
    EXPECT_LE(bound.si(), kDoubt * step.si() + 1e-9) << "seed " << seed;
    if (!drawn.even || traits_of(drawn.degrees.schedule).splits_backward) continue;
    ++exact;
    EXPECT_NEAR(bound.si(), kDoubt * step.si(), 1e-9) << "seed " << seed;
  }
  EXPECT_GT(exact, 100);
}

TEST(DegreesBounds, OfAPlansStagesAreNoMoreThanTheStepAndAllOfItWhereStagesAreEqual) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const Drawn drawn = draw(random);
    Plan plan;
    plan.schedule = drawn.degrees.schedule;
    const auto forward = by_stages(drawn, [](const StepCost& of) { return of.forward; });
    const auto backward = by_stages(drawn, [](const StepCost& of) { return of.backward; });
    std::vector<Seconds> update;
    for (std::size_t s = 0; s < forward.size(); ++s) {
      update.push_back(s == 0 || !drawn.even ? Seconds(random.below(20)) : update[0]);
      StagePlan& stage = plan.stages.emplace_back();
      stage.forward = forward[s];
      stage.backward = backward[s];
      stage.update = update[s];
    }
    const Seconds step = simulated(drawn.degrees, forward, backward, update);
    const Seconds bound = bound_of_stages(plan, drawn.degrees);
    EXPECT_LE(bound.si(), kDoubt * step.si() + 1e-9) << "seed " << seed;
    const bool exact = drawn.even && drawn.degrees.chunks == 1 && !traits_of(plan.schedule).splits_backward;
    if (exact) {
      EXPECT_NEAR(bound.si(), kDoubt * step.si(), 1e-9) << "seed " << seed;
    }
  }
}

// Every block has 1000 bytes of state and saves 1 for each micro-batch in flight.
TEST(DegreesBounds, OfMemoryAreNoMoreThanWhatTheSchedulesKeepAndAllOfItOfEvenStages) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    Drawn drawn = draw(random);
    drawn.layers.clear();
    for (std::int64_t b = 0; b < drawn.blocks; ++b) drawn.layers.push_back(layer(1, 1000, 1));
    const Degrees& degrees = drawn.degrees;
    if (cut_of(degrees, drawn.blocks) == LayerOptions::Cut::BlocksApart) continue;
    const double split = random.below(2) == 0 ? 1.0 : 0.25;
    const std::vector<int> ranks = ranks_of_stages(degrees.schedule, degrees.stages(), degrees.chunks);
    const std::vector<int> kept = max_in_flight(make_schedule(degrees.schedule, line_of(degrees.stages()),
                                                              static_cast<int>(degrees.micro_batches), degrees.chunks));
    const auto counts = by_stages(drawn, [](const StepCost&) { return 1.0; });
    std::vector<double> blocks(static_cast<std::size_t>(degrees.pp), 0.0), most_blocks = blocks;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const auto rank = static_cast<std::size_t>(ranks[s]);
      blocks[rank] += counts[s];
      most_blocks[rank] = std::max(most_blocks[rank], counts[s]);
    }
    double most = 0.0;
    for (std::size_t r = 0; r < blocks.size(); ++r)
      most = std::max(most, 1000 * split * blocks[r] + kept[r] * most_blocks[r]);
    const double bound =
        least_memory_of_work(work_of_layers(drawn.layers, drawn.blocks), degrees, drawn.blocks, split).si();
    EXPECT_LE(bound, kLikely * most + 1e-9) << "seed " << seed;
    // Chunks of as many blocks each; every number of micro-batches drawn fills all ranks.
    if (degrees.chunks == 1 || drawn.blocks % degrees.stages() == 0) {
      EXPECT_NEAR(bound, kLikely * most, 1e-9) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace meshwright::degrees_bounds_oracle
