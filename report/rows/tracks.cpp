// SPDX-License-Identifier: Apache-2.0
#include "report/rows/tracks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "report/rows/track_folder.h"
#include "simulator/fold/folded_plan.h"

namespace meshwright {

const TrackMemory& Tracks::fullest(const Track& row) const {
  const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(row.memory.begin);
  return *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(row.memory.size()),
                           [](const TrackMemory& a, const TrackMemory& b) { return a.total() < b.total(); });
}

Bytes Tracks::peak(const Track& row) const {
  return row.standing.total() + Bytes(static_cast<double>(fullest(row).total()));
}

RowDevices row_devices(const Plan& plan, const Program& program, const FoldedDevices* folded) {
  const std::vector<DeviceId> in_cluster = devices_in_cluster(plan, program);
  RowDevices found{std::vector<std::vector<int>>(in_cluster.size()), program.stage_of_device};
  for (std::size_t d = 0; d < in_cluster.size(); ++d)
    found.numbers[folded == nullptr ? d : folded->representative[d].index()].push_back(in_cluster[d].value);
  for (std::vector<int>& devices : found.numbers) std::sort(devices.begin(), devices.end());
  return found;
}

RowDevices row_devices(const Timeline& timeline, int devices, const FoldedDevices* folded) {
  const auto count = static_cast<std::size_t>(devices);
  RowDevices found{std::vector<std::vector<int>>(count), std::vector<StageId>(count, StageId(0))};
  for (std::size_t d = 0; d < count; ++d)
    found.numbers[folded == nullptr ? d : folded->representative[d].index()].push_back(static_cast<int>(d));
  std::vector<bool> known(count, false);
  for (const Span& span : timeline.spans) {
    MW_CHECK(span.device.value < devices, "a span of device {} in a picture of {}", span.device.value, devices);
    StageId& own = found.stage[span.device.index()];
    own = known[span.device.index()] ? std::min(own, span.stage) : span.stage;
    known[span.device.index()] = true;
  }
  return found;
}

namespace {

std::optional<TaskKind> task_kind(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::Forward:
      return TaskKind::Forward;
    case Span::Kind::Backward:
      return TaskKind::Backward;
    case Span::Kind::BackwardInput:
      return TaskKind::BackwardInput;
    case Span::Kind::BackwardWeight:
      return TaskKind::BackwardWeight;
    case Span::Kind::Update:
      return TaskKind::Update;
    case Span::Kind::Send:
      return TaskKind::Message;
    case Span::Kind::Collective:
      return TaskKind::Collective;
    case Span::Kind::Dispatch:
      return TaskKind::Dispatch;
    case Span::Kind::Wait:
      break;
  }
  return std::nullopt;  // nothing is done
}

}  // namespace

Tracks tracks_of(const Timeline& timeline, const RowDevices& devices, ShownMessages messages) {
  std::vector<DeviceLanes> lanes(devices.numbers.size());
  for (const Span& span : timeline.spans) {
    const std::optional<TaskKind> kind = task_kind(span.kind);
    if (!kind || span.begin == span.end) continue;
    if (*kind == TaskKind::Message && messages == ShownMessages::None) continue;
    DeviceLanes& own = lanes[span.device.index()];
    std::vector<TrackTask>& lane = *kind == TaskKind::Message ? own.messages
                                   : is_compute(*kind)        ? own.compute
                                                              : own.communication;
    lane.push_back({span.begin, span.end, *kind, span.stage, span.microbatch});
  }
  TrackFolder folder;
  folder.tracks.end = timeline.end;
  for (std::size_t d = 0; d < lanes.size(); ++d) {
    if (devices.numbers[d].empty()) continue;
    Track row;
    row.devices = devices.numbers[d];
    row.like = DeviceId(static_cast<int>(d));
    row.stage = devices.stage[d];
    folder.add(lanes[d], std::move(row));
  }
  folder.sort_rows();
  return std::move(folder.tracks);
}

namespace {

IndexRange moved(const IndexRange& range, std::size_t by) { return {range.begin + by, range.end + by}; }

// [device] its row
std::map<int, std::size_t> rows_by_device(const Tracks& tracks) {
  std::map<int, std::size_t> rows;
  for (std::size_t r = 0; r < tracks.rows.size(); ++r)
    for (const int device : tracks.rows[r].devices) rows[device] = r;
  return rows;
}

}  // namespace

Tracks paired(const Tracks& first, const Tracks& second) {
  Tracks both = first;
  both.rows.clear();
  both.end = std::max(first.end, second.end);
  const std::size_t tasks = first.tasks.size(), memory = first.memory.size(), shares = first.shares.size();
  both.tasks.insert(both.tasks.end(), second.tasks.begin(), second.tasks.end());
  for (std::size_t t = tasks; t < both.tasks.size(); ++t)
    if (both.tasks[t].waits_for >= 0) both.tasks[t].waits_for += static_cast<int>(tasks);
  both.memory.insert(both.memory.end(), second.memory.begin(), second.memory.end());
  both.shares.insert(both.shares.end(), second.shares.begin(), second.shares.end());

  const std::map<int, std::size_t> above = rows_by_device(first), below = rows_by_device(second);
  std::set<int> devices;
  for (const auto& [device, row] : above) devices.insert(device);
  for (const auto& [device, row] : below) devices.insert(device);
  using Pair = std::pair<std::optional<std::size_t>, std::optional<std::size_t>>;
  const auto row_in = [](const std::map<int, std::size_t>& rows, int device) {
    const auto found = rows.find(device);
    return found == rows.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<std::pair<Pair, std::vector<int>>> pairs;  // by the first device
  std::map<Pair, std::size_t> known;
  for (const int device : devices) {
    const Pair pair{row_in(above, device), row_in(below, device)};
    const auto [place, is_new] = known.try_emplace(pair, pairs.size());
    if (is_new) pairs.push_back({pair, {}});
    pairs[place->second].second.push_back(device);
  }
  std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& a, const auto& b) {
    const auto stage = [&](const Pair& pair) {
      return pair.first ? first.rows[*pair.first].stage : second.rows[*pair.second].stage;
    };
    return stage(a.first) < stage(b.first);
  });
  for (const auto& [pair, own] : pairs) {
    if (pair.first) {
      Track& row = both.rows.emplace_back(first.rows[*pair.first]);
      row.devices = own;
      row.timing = 0;
    }
    if (pair.second) {
      Track& row = both.rows.emplace_back(second.rows[*pair.second]);
      row.devices = own;
      row.timing = 1;
      for (IndexRange* lane : {&row.compute, &row.communication, &row.messages}) *lane = moved(*lane, tasks);
      row.memory = moved(row.memory, memory);
      if (row.shares) row.shares = moved(*row.shares, shares);
    }
  }
  return both;
}

}  // namespace meshwright
