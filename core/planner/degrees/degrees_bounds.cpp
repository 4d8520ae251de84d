// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/planner/method/stage_split.h"
#include "core/schedule/schedule_rules.h"

namespace meshwright {

namespace {

constexpr double kDoubt = 0.98;  // the header's two per cent
// Shares of what stages hold. Tensors that several ops read may be counted more than once; and what replicas split of
// the blocks of other degrees is only estimated.
constexpr double kCertain = 0.98, kLikely = 0.9;

// The share of the passes through the stages before a rank's first that its own work waits for, or that waits for it.
// Weight gradients of their own may fill these times.
double fill_share(ScheduleKind schedule) { return traits_of(schedule).splits_backward ? 0.0 : 1.0; }

// [stage] the sum over its layers, of which each is one block, and the ends of the model beside it or apart.
std::vector<double> sums_of_stages(const Degrees& degrees, std::int64_t blocks, double before, double block,
                                   double after) {
  std::vector<double> layers(static_cast<std::size_t>(blocks), block);
  if (cut_of(degrees, blocks) == LayerOptions::Cut::BlocksApart) {
    layers.insert(layers.begin(), before);
    // Modules for further tokens are layers, too; their time is in what comes after.
    layers.resize(layers.size() + static_cast<std::size_t>(further_modules_of(degrees.split)), 0.0);
    layers.push_back(after);
  } else {
    layers.front() += before;
    layers.back() += after;
  }
  std::vector<double> stages(static_cast<std::size_t>(degrees.stages()), 0.0);
  const std::vector<int> starts =
      first_layers_of_stages(degrees.split, static_cast<int>(layers.size()), degrees.pp, degrees.chunks);
  for (std::size_t s = 0; s < stages.size(); ++s)
    stages[s] = std::accumulate(layers.begin() + starts[s], layers.begin() + starts[s + 1], 0.0);
  return stages;
}

// [stage]
std::vector<double> stage_times(const Work& work, const Degrees& degrees, std::int64_t blocks) {
  // Models without blocks are taken for evenly split.
  const double even = work.all.si() / degrees.stages();
  return work.block > Seconds(0.0) ? sums_of_stages(degrees, blocks, work.before.si(), work.block.si(), work.after.si())
                                   : std::vector<double>(static_cast<std::size_t>(degrees.stages()), even);
}

// What a rank keeps of its stages' saved bytes, at least: so many times the least of them.
int least_kept(const Degrees& degrees, int stages_after) {
  const auto microbatches = static_cast<int>(degrees.micro_batches);
  const std::optional<int> chunks = traits_of(degrees.schedule).chunks;
  if (chunks == 1) return in_flight(degrees.schedule, stages_after, microbatches, degrees.pp - 1);
  if (degrees.schedule != ScheduleKind::Interleaved) return 1;
  // Forwards before the first backward, if all ranks have a micro-batch to run in each.
  if (degrees.micro_batches % degrees.pp == 0)
    return std::min(degrees.chunks * microbatches,
                    interleaved_forwards_ahead(degrees.pp, degrees.chunks, stages_after) + 1);
  return std::min(microbatches, degrees.pp) * (degrees.chunks - 1) + 1;
}

}  // namespace

LayerOptions::Cut cut_of(const Degrees& degrees, std::int64_t blocks) {
  return degrees.split.uneven() ? LayerOptions::Cut::BlocksApart : cut_for_stages(blocks, degrees.stages());
}

Work work_of_layers(std::vector<StepCost> layers, std::int64_t blocks, std::int64_t further) {
  const auto time_of = [](const StepCost& layer) { return layer.forward + layer.backward; };
  Work work;
  for (const StepCost& layer : layers) work.all += time_of(layer);
  if (std::ssize(layers) == blocks + further + 2) {
    work.before = time_of(layers.front());
    work.after = time_of(layers.back());
    layers = {layers.begin() + 1, layers.end() - 1};
  }
  if (std::ssize(layers) == blocks + further)
    for (; std::ssize(layers) > blocks; layers.pop_back()) work.after += time_of(layers.back());
  // Models without blocks have one layer.
  if (std::ssize(layers) != blocks) return work;
  const auto least = [&](const auto& of) {
    auto found = of(layers.front());
    for (const StepCost& layer : layers) found = std::min(found, of(layer));
    return found;
  };
  work.block = least(time_of);
  work.before += time_of(layers.front()) - work.block;
  work.after += time_of(layers.back()) - work.block;
  work.resident = least([](const StepCost& layer) { return layer.resident; });
  work.saved = least([](const StepCost& layer) { return layer.saved; });
  return work;
}

Seconds bound_of_work(const Work& work, const Degrees& degrees, std::int64_t blocks) {
  const std::vector<double> stages = stage_times(work, degrees, blocks);
  const std::vector<int> rank_of = ranks_of_stages(degrees.schedule, degrees.stages(), degrees.chunks);
  std::vector<double> ranks(static_cast<std::size_t>(degrees.pp), 0.0);
  for (std::size_t s = 0; s < stages.size(); ++s) ranks[static_cast<std::size_t>(rank_of[s])] += stages[s];
  // A rank's first forward comes after those of the stages before it, and their last backwards after its own.
  const auto microbatches = static_cast<double>(degrees.micro_batches);
  double most = microbatches * work.all.si() / degrees.pp, before = 0.0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    most = std::max(most, microbatches * ranks[rank] + before);
    before += fill_share(degrees.schedule) * stages[rank];
  }
  return kDoubt * Seconds(most);
}

Bytes least_memory_of_work(const Work& work, const Degrees& degrees, std::int64_t blocks, double split) {
  if (blocks == 0) return Bytes(0.0);
  const std::vector<double> counts = sums_of_stages(degrees, blocks, 0.0, 1.0, 0.0);
  const std::vector<int> rank_of = ranks_of_stages(degrees.schedule, degrees.stages(), degrees.chunks);
  std::vector<double> all(static_cast<std::size_t>(degrees.pp), 0.0);
  std::vector<double> fewest(all.size(), std::numeric_limits<double>::infinity());
  for (std::size_t s = 0; s < counts.size(); ++s) {
    const auto rank = static_cast<std::size_t>(rank_of[s]);
    all[rank] += counts[s];
    fewest[rank] = std::min(fewest[rank], counts[s]);
  }
  Bytes most(0.0);
  for (int rank = 0; rank < degrees.pp; ++rank) {
    const double kept = least_kept(degrees, degrees.pp - 1 - rank) * fewest[static_cast<std::size_t>(rank)];
    most = std::max(most, all[static_cast<std::size_t>(rank)] * split * work.resident + kept * work.saved);
  }
  return kLikely * most;
}

Seconds bound_of_stages(const Plan& plan, const Degrees& degrees) {
  const std::vector<int> rank_of = ranks_of_stages(plan.schedule, static_cast<int>(plan.stages.size()), degrees.chunks);
  std::vector<Seconds> passes(static_cast<std::size_t>(degrees.pp), Seconds(0.0)), updates = passes;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    passes[rank_of[s]] += plan.stages[s].forward + plan.stages[s].backward;
    updates[rank_of[s]] += plan.stages[s].update;
  }
  // Updates go on beside the last backwards of other ranks.
  Seconds most(0.0), forward(0.0), backward(0.0);  // of the stages before
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    const Seconds work = forward + static_cast<double>(degrees.micro_batches) * passes[rank];
    most = std::max({most, work + updates[rank], work + backward + updates.front()});
    forward += fill_share(plan.schedule) * plan.stages[rank].forward;
    backward += fill_share(plan.schedule) * plan.stages[rank].backward;
  }
  return kDoubt * most;
}

Bytes least_memory(const Degrees& degrees, const StageSearch& search, const TablePipeline& pipeline) {
  const int stages = static_cast<int>(pipeline.stages.size());
  const std::vector<int> rank_of = ranks_of_stages(degrees.schedule, stages, degrees.chunks);
  std::vector<Bytes> resident(static_cast<std::size_t>(degrees.pp), Bytes(0.0));
  std::vector<Bytes> saved(resident.size(), Bytes(std::numeric_limits<double>::infinity()));
  for (int s = 0; s < stages; ++s) {
    const TableStage& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const StepCost& cost = search.cost(stage.first, stage.last, search.choice(stage.slice, stage.config));
    const auto rank = static_cast<std::size_t>(rank_of[static_cast<std::size_t>(s)]);
    resident[rank] += cost.resident;
    saved[rank] = std::min(saved[rank], cost.saved);
  }
  Bytes most(0.0);
  for (int rank = 0; rank < degrees.pp; ++rank)
    most =
        std::max(most, resident[rank] + static_cast<double>(least_kept(degrees, degrees.pp - 1 - rank)) * saved[rank]);
  return kCertain * most;
}

}  // namespace meshwright
