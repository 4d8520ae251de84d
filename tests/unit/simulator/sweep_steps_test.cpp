// SPDX-License-Identifier: Apache-2.0
#include "simulator/pipeline/sweep_steps.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/errors.h"
#include "tests/unit/pipeline_workload.h"

namespace meshwright {
namespace {

// Of several kinds, sizes and times; every third with shared NICs, every other one with memory.
std::vector<PipelineCandidate> mixed_candidates(int count) {
  std::mt19937 random(4);
  const auto between = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const std::vector<ScheduleKind> kinds = all_schedules();
  std::vector<PipelineCandidate> candidates;
  for (int c = 0; c < count; ++c) {
    const ScheduleKind kind = kinds[static_cast<std::size_t>(c) % kinds.size()];
    const int chunks = traits_of(kind).chunks.value_or(2);
    PipelineCandidate made{kind, between(1, 12), chunks, workload(chunks * between(1, 4), 1 + c % 4)};
    for (auto* list : {&made.step.times.forward, &made.step.times.backward})
      for (SimTime& time : *list) time.ps = between(1, 1'000'000'000);
    if (c % 3 == 0) made.step.nics = SharedNics{gigabytes_per_second(25), to_sim_time(microseconds(5))};
    if (c % 2 == 0) made.step.activations.clear();
    candidates.push_back(std::move(made));
  }
  return candidates;
}

TEST(Sweep, GivesTheSameForAnyNumberOfThreads) {
  const std::vector<PipelineCandidate> candidates = mixed_candidates(200);
  const std::vector<SweptStep> alone = sweep_steps(candidates, 1);
  ASSERT_EQ(alone.size(), candidates.size());
  for (const int threads : {2, 3, 8, 500}) EXPECT_EQ(sweep_steps(candidates, threads), alone) << threads;
}

TEST(Sweep, SaysOfEachCandidateWhatItsOwnSimulationSays) {
  const std::vector<PipelineCandidate> candidates = mixed_candidates(120);
  for (const LinkDiscipline discipline : {LinkDiscipline::Fluid, LinkDiscipline::Fifo}) {
    const std::vector<SweptStep> swept = sweep_steps(candidates, 2, discipline);
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const PipelineCandidate& own = candidates[c];
      const PipelineShape shape = pipeline_shape(own.schedule, static_cast<int>(own.step.times.forward.size()),
                                                 own.microbatches, own.step.times.edges, own.chunks);
      PipelineStep unfolded = own.step;
      unfolded.folded = false;
      Conditions conditions;
      conditions.discipline = discipline;
      const TaskTimes times = run_by_events(pipeline_graph(shape, unfolded), conditions);
      EXPECT_EQ(swept[c].step, times.step) << c;
      EXPECT_EQ(swept[c].peak_memory.size(), c % 2 == 0 ? 0U : static_cast<std::size_t>(shape.ranks));
      for (std::size_t rank = 0; rank < swept[c].peak_memory.size(); ++rank)
        EXPECT_EQ(swept[c].peak_memory[rank], times.peak_memory[rank]) << c;
    }
  }
}

TEST(Sweep, OfNothingIsNothing) { EXPECT_TRUE(sweep_steps({}, 4).empty()); }

TEST(Sweep, RefusesACandidateWhoseTimesDoNotFit) {
  std::vector<PipelineCandidate> candidates = mixed_candidates(5);
  candidates[3].step.times.backward.pop_back();
  EXPECT_THROW((void)sweep_steps(candidates, 2), InternalError);
}

}  // namespace
}  // namespace meshwright
