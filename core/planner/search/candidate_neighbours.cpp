// SPDX-License-Identifier: Apache-2.0
// Pipelines that differ from a good one in a single choice, and the local search that goes from one to the next.
#include <algorithm>
#include <array>
#include <iterator>

#include "core/planner/search/candidates.h"

namespace meshwright {

namespace {

constexpr int kMaxRounds = 16;         // of `climb`
constexpr std::size_t kMaxStarts = 8;  // cuts whose best is improved, where programs are small

}  // namespace

std::vector<TablePipeline> CandidateRanking::moved(const TablePipeline& pipeline, const StageTable& table,
                                                   const CandidateRequest& request) const {
  std::vector<TablePipeline> found;
  const auto time = [&](const StageCost& cost) {
    return cost.time + cost.step / static_cast<double>(request.microbatches);
  };
  std::vector<int> devices(request.devices.size(), 0);
  for (const TableStage& stage : pipeline.stages)
    for (std::size_t group = 0; group < devices.size(); ++group)
      devices[group] += table.slices()[stage.slice].devices[group];
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    for (int slice = 0; slice < static_cast<int>(table.slices().size()); ++slice) {
      const TableStage& stage = pipeline.stages[s];
      bool room = slice != stage.slice;
      for (std::size_t group = 0; group < devices.size(); ++group)
        room = room &&
               devices[group] - table.slices()[stage.slice].devices[group] + table.slices()[slice].devices[group] <=
                   request.devices[group];
      if (!room) continue;
      int fastest = -1;
      for (int config = 0; config < table.configs(); ++config) {
        const auto& cost = table.at(stage.first, stage.last, slice, config);
        if (cost && (fastest < 0 || time(*cost) < time(*table.at(stage.first, stage.last, slice, fastest))))
          fastest = config;
      }
      if (fastest < 0) continue;
      found.push_back(pipeline);
      found.back().stages[s].slice = slice;
      found.back().stages[s].config = fastest;
    }
  for (std::size_t s = 0; s + 1 < pipeline.stages.size(); ++s)
    for (const int by : {-1, 1}) {
      TablePipeline other = pipeline;
      TableStage &before = other.stages[s], &after = other.stages[s + 1];
      before.last += by;
      after.first += by;
      const auto is_possible = [&](const TableStage& stage) {
        return stage.first <= stage.last && table.at(stage.first, stage.last, stage.slice, stage.config).has_value();
      };
      if (is_possible(before) && is_possible(after)) found.push_back(std::move(other));
    }
  return found;
}

Candidates CandidateRanking::around(const TablePipeline& pipeline, const StageTable& table,
                                    const CandidateRequest& request) {
  std::vector<TablePipeline> others;
  const std::size_t stages = pipeline.stages.size() / static_cast<std::size_t>(traits_of(request.schedule).copies);
  for (std::size_t s = 0; s < stages; ++s)
    for (int config = 0; config < table.configs(); ++config) {
      const TableStage& stage = pipeline.stages[s];
      if (stage.config == config || !table.at(stage.first, stage.last, stage.slice, config)) continue;
      others.push_back(pipeline);
      others.back().stages[s].config = config;
      repeat_first_copy(others.back(), request.schedule);
    }
  if (request.thorough && pipeline.chunks == 1)
    for (TablePipeline& other : moved(pipeline, table, request)) others.push_back(std::move(other));
  return simulate_all(others, request);
}

// Only a change at the slowest rank can raise the throughput of a steady pipeline.
std::vector<TablePipeline> CandidateRanking::near_slowest(const TablePipeline& pipeline, const StageTable& table,
                                                          const ChunkedSchedule& schedule) const {
  const std::vector<Seconds> busy = rank_times(pipeline, table, schedule);
  const auto slowest = static_cast<int>(std::max_element(busy.begin(), busy.end()) - busy.begin());
  const int copies = traits_of(schedule.shape.schedule).copies;
  const std::size_t stages = pipeline.stages.size() / static_cast<std::size_t>(copies);
  std::vector<TablePipeline> near;
  const auto add = [&](TablePipeline other) {
    repeat_first_copy(other, schedule.shape.schedule);
    // A moved border may leave a stage empty or without an entry in the table.
    for (const TableStage& stage : other.stages)
      if (stage.first > stage.last || !table.at(stage.first, stage.last, stage.slice, stage.config)) return;
    near.push_back(std::move(other));
  };
  const auto move_border = [&](std::size_t stage, int by) {  // the one before it
    if (stage == 0 || stage == stages) return;
    TablePipeline other = pipeline;
    other.stages[stage - 1].last += by;
    other.stages[stage].first += by;
    add(std::move(other));
  };
  for (std::size_t s = 0; s < stages; ++s) {
    bool is_slowest = false;  // the stage, or a copy of it, is on that rank
    for (std::size_t copy = s; copy < pipeline.stages.size(); copy += stages)
      is_slowest = is_slowest || schedule.rank_of_stage[copy] == slowest;
    if (!is_slowest) continue;
    // Both borders move inwards: the slowest rank only gives layers to its neighbours.
    move_border(s, 1);
    move_border(s + 1, -1);
    for (int config = 0; config < table.configs(); ++config) {
      if (config == pipeline.stages[s].config) continue;
      TablePipeline other = pipeline;
      other.stages[s].config = config;
      add(std::move(other));
    }
  }
  return near;
}

// T does not count what stages send each other: the best is improved stage by stage. The best of another cut may then
// be better still.
void CandidateRanking::improve(const StageTable& table, const CandidateRequest& request, Ranking& ranking) {
  Candidates& found = ranking.found;
  if (request.few && traits_of(request.schedule).chunks == 1) return;
  using Cut = std::vector<std::array<int, 3>>;  // [stage] layers and submesh
  std::set<std::pair<int, Cut>> cuts;           // by chunks
  std::vector<Candidate> starts;
  for (const Candidate& candidate : found.ranked) {
    if (starts.size() == (request.thorough ? kMaxStarts : 1)) break;
    Cut cut;
    for (const TableStage& stage : candidate.pipeline.stages) cut.push_back({stage.first, stage.last, stage.slice});
    if (cuts.emplace(candidate.pipeline.chunks, std::move(cut)).second) starts.push_back(candidate);
  }
  for (const Candidate& start : starts) climb(start, table, request, found);
  sort(found, request);
}

// Each round simulates all neighbours and moves to the best of them, as long as that is an improvement.
void CandidateRanking::climb(Candidate best, const StageTable& table, const CandidateRequest& request,
                             Candidates& found) {
  const bool chunked = traits_of(request.schedule).chunks != 1;
  for (int round = 0; round < kMaxRounds && !request.stopped(); ++round) {
    std::vector<TablePipeline> others;
    if (chunked) others = near_slowest(best.pipeline, table, schedule_of(best.pipeline, request));
    std::erase_if(others, [&](const TablePipeline& other) { return !fits(other, table, request); });
    Candidates near = simulate_all(others, request);
    if (!chunked || request.thorough) {
      Candidates around = this->around(best.pipeline, table, request);
      near.simulated += around.simulated;
      std::move(around.ranked.begin(), around.ranked.end(), std::back_inserter(near.ranked));
      sort(near, request);
    }
    found.simulated += near.simulated;
    const auto next = std::find_if(near.ranked.begin(), near.ranked.end(), [&](const Candidate& candidate) {
      return fits(candidate.pipeline, table, request);
    });
    if (next == near.ranked.end() || score(*next, request) >= score(best, request)) break;
    best = std::move(*next);
    found.ranked.push_back(best);
  }
}

}  // namespace meshwright
