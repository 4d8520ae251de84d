// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "report/rows/tracks.h"

namespace meshwright {

namespace {

std::int64_t computing_of(const Tracks& tracks, const Track& row) {
  std::int64_t sum = 0;
  for (std::size_t t = row.compute.begin; t < row.compute.end; ++t)
    sum += (tracks.tasks[t].end - tracks.tasks[t].begin).ps;
  return sum;
}

std::int64_t critical_of(const Tracks& tracks, const Track& row) {
  std::int64_t sum = 0;
  for (std::size_t t = row.compute.begin; t < row.compute.end; ++t)
    if (tracks.tasks[t].critical) sum += (tracks.tasks[t].end - tracks.tasks[t].begin).ps;
  return sum;
}

std::size_t tasks_of(const Track& row) { return row.messages.end - row.compute.begin; }

// [row] whether it keeps its tasks.
std::vector<bool> rows_to_keep(const Tracks& tracks, std::size_t most) {
  std::map<std::pair<StageId, std::optional<int>>, std::vector<std::size_t>> of_stage;
  for (std::size_t r = 0; r < tracks.rows.size(); ++r)
    of_stage[{tracks.rows[r].stage, tracks.rows[r].timing}].push_back(r);
  std::vector<std::size_t> wanted;
  for (const auto& [stage, rows] : of_stage) {
    const auto by = [&](auto measure) {
      return [&tracks, measure](std::size_t a, std::size_t b) {
        return measure(tracks, tracks.rows[a]) < measure(tracks, tracks.rows[b]);
      };
    };
    const auto [least, busiest] = std::minmax_element(rows.begin(), rows.end(), by(computing_of));
    const auto critical = std::max_element(rows.begin(), rows.end(), by(critical_of));
    for (const std::size_t row : {rows.front(), *busiest, *least, *critical}) wanted.push_back(row);
  }
  std::vector<bool> kept(tracks.rows.size(), false);
  std::size_t used = 0;
  for (const std::size_t row : wanted) {
    if (kept[row] || used + tasks_of(tracks.rows[row]) > most) continue;
    kept[row] = true;
    used += tasks_of(tracks.rows[row]);
  }
  return kept;
}

std::vector<std::uint8_t> shares_of_row(const Tracks& tracks, const Track& row) {
  std::vector<double> sums(kShareParts * kShareKinds, 0.0);
  const double part = static_cast<double>(tracks.end.ps) / kShareParts;
  for (std::size_t t = row.compute.begin; t < row.compute.end; ++t) {
    const TrackTask& task = tracks.tasks[t];
    const auto begin = static_cast<double>(task.begin.ps), end = static_cast<double>(task.end.ps);
    const auto last = std::min(kShareParts - 1, static_cast<std::size_t>(end / part));
    for (auto p = static_cast<std::size_t>(begin / part); p <= last; ++p) {
      const double at = static_cast<double>(p) * part;
      sums[p * kShareKinds + static_cast<std::size_t>(task.kind)] +=
          std::max(0.0, std::min(end, at + part) - std::max(begin, at)) / part;
    }
  }
  std::vector<std::uint8_t> shares;
  for (const double sum : sums) shares.push_back(static_cast<std::uint8_t>(std::clamp(255.0 * sum + 0.5, 0.0, 255.0)));
  return shares;
}

// The fullest point of each part of the step.
std::vector<TrackMemory> thinned_memory(const Tracks& tracks, const Track& row) {
  std::vector<TrackMemory> points;
  std::int64_t latest = -1;
  for (std::size_t m = row.memory.begin; m < row.memory.end; ++m) {
    const TrackMemory& point = tracks.memory[m];
    const std::int64_t part = static_cast<std::int64_t>(static_cast<double>(point.time.ps) /
                                                        static_cast<double>(tracks.end.ps) * kShareParts);
    if (part != latest)
      points.push_back(point);
    else if (point.total() > points.back().total())
      points.back() = point;
    latest = part;
  }
  return points;
}

}  // namespace

void keep_within(Tracks& tracks, std::size_t most) {
  if (tracks.tasks.size() <= most) return;
  const std::vector<bool> kept = rows_to_keep(tracks, most);
  Tracks less;
  less.end = tracks.end;
  std::vector<int> number(tracks.tasks.size(), -1);
  for (std::size_t r = 0; r < tracks.rows.size(); ++r) {
    Track row = tracks.rows[r];
    const std::vector<TrackMemory> memory =
        kept[r] ? std::vector(tracks.memory.begin() + static_cast<std::ptrdiff_t>(row.memory.begin),
                              tracks.memory.begin() + static_cast<std::ptrdiff_t>(row.memory.end))
                : thinned_memory(tracks, row);
    row.memory = {less.memory.size(), less.memory.size() + memory.size()};
    less.memory.insert(less.memory.end(), memory.begin(), memory.end());
    const std::size_t first = less.tasks.size(), before = row.compute.begin;
    if (kept[r]) {
      for (std::size_t t = before; t < row.messages.end; ++t) {
        number[t] = static_cast<int>(less.tasks.size());
        less.tasks.push_back(tracks.tasks[t]);
      }
      for (IndexRange* lane : {&row.compute, &row.communication, &row.messages})
        *lane = {lane->begin - before + first, lane->end - before + first};
    } else {
      const std::vector<std::uint8_t> shares = shares_of_row(tracks, row);
      row.shares = {less.shares.size(), less.shares.size() + shares.size()};
      less.shares.insert(less.shares.end(), shares.begin(), shares.end());
      row.compute = row.communication = row.messages = {first, first};
    }
    less.rows.push_back(std::move(row));
  }
  for (TrackTask& task : less.tasks)
    if (task.waits_for >= 0) task.waits_for = number[static_cast<std::size_t>(task.waits_for)];
  tracks = std::move(less);
}

}  // namespace meshwright
