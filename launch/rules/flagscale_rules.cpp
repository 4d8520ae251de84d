// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.h"
#include "launch/rules/rule_lists.h"

namespace meshwright {

namespace {

// "0 to 3, 5": numbers that rise.
std::string runs_of(const std::vector<std::size_t>& numbers) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    runs.push_back(end == i ? fmt::format("{}", numbers[i]) : fmt::format("{} to {}", numbers[i], numbers[end]));
    i = end + 1;
  }
  return join(runs, ", ");
}

}  // namespace

void flagscale_rules(const LaunchSetup& setup, RuleList& rules) {
  const ModelShape shape = shape_of(setup.model);
  const StageSetup& first = setup.stages.front();
  std::vector<std::size_t> with_contexts, selective;
  int devices = 0;
  for (std::size_t s = 0; s < setup.stages.size(); ++s) {
    const StageSetup& stage = setup.stages[s];
    devices += stage.dp * stage.tp * stage.cp;
    rules.expect(stage.blocks > 0, fmt::format("stage {} has no block", s));
    if (stage.cp != 1) with_contexts.push_back(s);
    if (stage.recompute == Recompute::Selective) selective.push_back(s);
    rules.expect(shape.heads % stage.tp == 0,
                 fmt::format("stage {}: tp={} does not divide the {} heads", s, stage.tp, shape.heads));
    rules.expect(shape.kv_heads % stage.tp == 0 || stage.tp % shape.kv_heads == 0,
                 fmt::format("stage {}: neither of tp={} and the {} heads of keys and values divides the other", s,
                             stage.tp, shape.kv_heads));
    rules.expect(
        stage.ep == 1 || (shape.experts > 0 && shape.experts % stage.ep == 0 && stage.dp % stage.ep == 0),
        fmt::format("stage {}: ep={} does not divide the {} experts and dp={}", s, stage.ep, shape.experts, stage.dp));
    // Every mesh runs as many micro-batches: those of a mesh with other replicas have other sizes.
    const std::int64_t samples = first.dp * setup.degrees.micro_batch;
    rules.expect(samples % stage.dp == 0,
                 fmt::format("stage {}: dp={} does not divide the {} samples of a micro-batch on all replicas of stage "
                             "0",
                             s, stage.dp, samples));
  }
  rules.expect(with_contexts.empty(),
               fmt::format("FlagScale's meshes have cp 1, and stages {} more", runs_of(with_contexts)));
  rules.expect(selective.empty(), fmt::format("FlagScale's stages recompute all or nothing, and stages {} selectively",
                                              runs_of(selective)));
  // Where a device has several stages, the schedule is what cannot be told.
  rules.expect(devices == setup.devices() || setup.degrees.schedule != ScheduleKind::OneFOneB,
               fmt::format("the stages have {} devices together, and the job has {}", devices, setup.devices()));
  rules.expect_told(setup.stages.size() == 1 || setup.degrees.schedule == ScheduleKind::OneFOneB,
                    fmt::format("FlagScale's meshes run 1f1b, and the plan {}", name_of(setup.degrees.schedule)));
  rules.expect_told(setup.degrees.zero <= 1,
                    fmt::format("FlagScale's meshes have ZeRO 0 or 1, and the plan ZeRO {}", setup.degrees.zero));
  if (shape.tied)
    rules.expect(
        first.tp == setup.stages.back().tp,
        fmt::format("a tied embedding needs the same tp on the first and the last stage, and these have {} and "
                    "{}",
                    first.tp, setup.stages.back().tp));
}

}  // namespace meshwright
