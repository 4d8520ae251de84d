// SPDX-License-Identifier: Apache-2.0
// The candidates of a point, from the tables of its stages: of one schedule, of several side by side, and of the parts
// of its stages.
#include <algorithm>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/text.h"
#include "core/planner/search/point_search.h"

namespace meshwright {

namespace {

constexpr std::size_t kMaxLike = 8;                        // candidates of one schedule that are tried with the others
constexpr std::size_t kMaxEntries = std::size_t{1} << 20;  // of stage tables that are kept

}  // namespace

std::optional<TablePipeline> PointSearch::best_pipeline(const StageTable& table, const CandidateRequest& wanted) {
  return context_.step("rank", [&] { return point_.spans.ranking->first_by_cost(table, wanted); });
}

Candidates PointSearch::find_candidates(const StageTable& table, const CandidateRequest& wanted) {
  Candidates candidates = context_.step("rank", [&] { return point_.spans.ranking->find(table, wanted); });
  note_ranked(candidates);
  return candidates;
}

void PointSearch::note_ranked(const Candidates& candidates) {
  (void)context_.stopped();  // the ranking may have seen it first
  context_.log.ranked += candidates.simulated;
  context_.log.ranked_all = context_.log.ranked_all && candidates.all;
}

Candidates PointSearch::find_candidates(const Subspace& of, double memory_share, const CandidateRequest& wanted) {
  constexpr auto kBest = StageSearch::Keep::Best;
  if (!is_large() || !of.is_whole()) return find_candidates(table_of(of, memory_share, kBest), wanted);
  // The whole and every part, side by side.
  struct Part {
    Subspace of;
    const StageTable* known = nullptr;
    std::optional<StageTable> made = {};
  };
  std::vector<Part> parts;
  parts.push_back({of});
  for (std::size_t s = 0; s + 1 < subspaces_.size(); ++s) parts.push_back({subspaces_[s]});
  for (Part& part : parts)
    if (const auto known = tables_.find(key_of(part.of, kBest)); known != tables_.end()) {
      set_memory_share(known->second, point_, memory_share);
      part.known = &known->second;
    }
  const auto run = [&] {
    std::vector<Candidates> found(parts.size());
    for_each_index(parts.size(), context_.request.threads, [&](std::size_t p) {
      Part& part = parts[p];
      if (p > 0 && context_.is_to_stop()) return;
      if (part.known == nullptr) part.made = make_stage_table(point_, memory_share, kBest, part.of);
      found[p] = point_.spans.ranking->find(part.known != nullptr ? *part.known : *part.made, wanted);
    });
    return found;
  };
  std::vector<Candidates> found = context_.step("rank", run);
  for (Part& part : parts)
    if (part.made) keep_table(key_of(part.of, kBest), *std::move(part.made));
  for (const Candidates& candidates : found) note_ranked(candidates);
  Candidates all = std::move(found.front());
  for (std::size_t p = 1; p < found.size(); ++p) {
    Candidates& narrower = found[p];
    narrower.ranked.resize(std::min(kMaxLike, narrower.ranked.size()), Candidate{{}});
    for (Candidate& candidate : narrower.ranked) all.ranked.push_back(std::move(candidate));
  }
  CandidateRanking::sort(all, wanted);
  return all;
}

std::vector<Candidates> PointSearch::find_side_by_side(const StageTable& table, std::vector<CandidateRequest> wanted,
                                                       bool leads) {
  CandidateRanking& ranking = *point_.spans.ranking;
  const auto run = [&] {
    std::vector<CandidateRanking::Ranking> begun(wanted.size());
    std::vector<Candidates> found(wanted.size());
    const auto finish = [&](std::size_t i) { found[i] = ranking.finish(std::move(begun[i]), table, wanted[i]); };
    for_each_index(wanted.size(), context_.request.threads, [&](std::size_t i) {
      begun[i] = ranking.begin(table, wanted[i]);
      if (i == 0) finish(i);
    });
    if (leads && !found.empty())
      for (std::size_t i = 1; i < wanted.size(); ++i)
        for (std::size_t c = 0; c < std::min(kMaxLike, found.front().ranked.size()); ++c)
          wanted[i].like.push_back(found.front().ranked[c].pipeline);
    for_each_index(wanted.empty() ? 0 : wanted.size() - 1, context_.request.threads,
                   [&](std::size_t i) { finish(i + 1); });
    return found;
  };
  return context_.step("rank", run);
}

Candidates PointSearch::neighbours(const TablePipeline& pipeline, const StageTable& table,
                                   const CandidateRequest& wanted) {
  return context_.step("rank", [&] { return point_.spans.ranking->around(pipeline, table, wanted); });
}

std::vector<ScheduleKind> PointSearch::rank(const std::vector<ScheduleKind>& schedules) {
  // A method with one stage has no pipelines to rank.
  if (point_.spans.search->interrupted() || context_.request.search.method.one_stage()) return {schedules.front()};
  const StageTable& table = table_of({}, whole_, StageSearch::Keep::Best);
  std::vector<CandidateRequest> wanted;
  for (const ScheduleKind schedule : schedules) {
    if (why_unsuitable(context_.request, point_, schedule) || context_.stopped()) continue;
    wanted.push_back(candidate_request(context_, point_, schedule));
    wanted.back().few = schedule != schedules.front() && is_large();
    wanted.back().to_beat = point_.to_beat;
  }
  // The first schedule is searched in full. Its best pipelines are tried with the schedules that are searched with less
  // effort.
  const bool leads =
      !wanted.empty() && wanted.front().schedule == schedules.front() && traits_of(schedules.front()).chunks == 1;
  std::vector<Candidates> found = find_side_by_side(table, wanted, leads);
  std::vector<std::pair<Seconds, ScheduleKind>> order;
  std::vector<ScheduleKind> without;  // a candidate
  for (std::size_t i = 0; i < found.size(); ++i) {
    const ScheduleKind schedule = wanted[i].schedule;
    Candidates& candidates = found[i];
    note_ranked(candidates);
    if (candidates.ranked.empty()) {
      // None that could win, so that there is nothing to search.
      if (point_.to_beat) candidates_.insert_or_assign(schedule, std::move(candidates));
      without.push_back(schedule);
      continue;
    }
    order.emplace_back(candidates.ranked.front().step, schedule);
    context_.say("{} layers, {} micro-batches, {}: {} by its stages alone{}", point_.layers(), point_.microbatches(),
                 name_of(schedule), human_seconds(order.back().first), context_.best_so_far());
    candidates_.insert_or_assign(schedule, std::move(candidates));
  }
  // The first schedule stays in front, whatever its time: only the others are sorted.
  const auto others = order.begin() + (!order.empty() && order.front().second == schedules.front() ? 1 : 0);
  std::stable_sort(others, order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ScheduleKind> ranked;
  for (const auto& [step, schedule] : order) ranked.push_back(schedule);
  // The table's estimate of memory is too large: what it has no room for may fit as a program.
  if (!is_large()) ranked.insert(ranked.end(), without.begin(), without.end());
  if (ranked.empty()) ranked.push_back(schedules.front());  // its search says why
  return ranked;
}

void PointSearch::forget_stages() {
  set_spans({});
  tried_.clear();
  for (auto& [schedule, candidates] : candidates_)
    if (candidates.ranked.size() > 1) candidates.ranked.resize(1, Candidate{{}});
}

void PointSearch::set_spans(PointSpans spans) {
  tables_.clear();
  busy_.clear();
  point_.spans = std::move(spans);
}

// Whatever the memory, the entries are the same.
const StageTable& PointSearch::table_of(const Subspace& of, double memory_share, StageSearch::Keep keep) {
  const TableKey key = key_of(of, keep);
  auto known = tables_.find(key);
  if (known != tables_.end()) {
    set_memory_share(known->second, point_, memory_share);
    return known->second;
  }
  return keep_table(key, stage_table(context_, point_, memory_share, keep, of));
}

const StageTable& PointSearch::keep_table(const TableKey& key, StageTable table) {
  std::size_t entries = table.costs().size();
  for (const auto& [other, kept] : tables_) entries += kept.costs().size();
  if (entries > kMaxEntries) tables_.clear();
  return tables_.emplace(key, std::move(table)).first->second;
}

}  // namespace meshwright
