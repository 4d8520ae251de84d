// SPDX-License-Identifier: Apache-2.0
#include "report/charts/memory_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "report/charts/time_axis.h"
#include "report/charts/timeline_rows.h"

namespace meshwright {

namespace {

constexpr std::size_t kStrips = 32;
constexpr double kWide = 1200, kAbove = 34, kBelow = 52, kSide = 12;
constexpr double kStripGap = 18;
constexpr int kColumns = 2000;  // beyond so many points a column shows its highest

double strip_height(std::size_t strips) { return strips <= 2 ? 160 : strips <= 8 ? 90 : 48; }

std::string label_of(const MemoryTrack& track) {
  return fmt::format("stage {}, {}", track.stage.value, devices_text(track.devices));
}

double gibibytes_of(Bytes bytes) { return bytes / gibibytes(1); }
Bytes bytes_at(const MemoryTrack& track, const MemoryPoint& point) {
  return track.standing + Bytes(static_cast<double>(point.bytes));
}

// Points that a column of the picture could not tell apart become its highest.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points, SimTime end) {
  if (points.size() <= kColumns) return points;
  std::vector<MemoryPoint> kept;
  int column = -1;
  for (const MemoryPoint& point : points) {
    while (column + 1 < kColumns && column_begin(end, kColumns, column + 1) <= point.time) {
      ++column;
      if (kept.empty() || kept.back().time < column_begin(end, kColumns, column))
        kept.push_back({column_begin(end, kColumns, column), kept.empty() ? 0 : kept.back().bytes});
    }
    kept.back().bytes = std::max(kept.back().bytes, point.bytes);
  }
  return kept;
}

struct Strip {
  TimeAxis axis;
  double top, height, most;  // GiB at the top
  [[nodiscard]] double y(Bytes bytes) const { return top + height * (1.0 - gibibytes_of(bytes) / most); }
};

void add_strip(Svg& svg, const Strip& strip, const MemoryTrack& track) {
  const double bottom = strip.top + strip.height, standing = strip.y(track.standing);
  svg.box({strip.axis.left, standing, strip.axis.width, bottom - standing}, class_of(Hue::Update),
          fmt::format("{}: {:.2f} GiB all the time", label_of(track), gibibytes_of(track.standing)));
  std::string commands = fmt::format("M{} {}", svg_number(strip.axis.left), svg_number(standing));
  for (const MemoryPoint& point : thinned(track.points, strip.axis.end))
    commands +=
        fmt::format("H{}V{}", svg_number(strip.axis.at(point.time)), svg_number(strip.y(bytes_at(track, point))));
  commands += fmt::format("H{}V{}z", svg_number(strip.axis.left + strip.axis.width), svg_number(standing));
  const MemoryPoint peak = track.peak();
  const std::string most =
      fmt::format("peak {:.2f} GiB at {}", gibibytes_of(bytes_at(track, peak)), human_seconds(to_seconds(peak.time)));
  svg.path(commands, class_of(Hue::Forward), fmt::format("{}: {}", label_of(track), most));
  const double limit = strip.y(track.usable);
  svg.line({strip.axis.left, limit}, {strip.axis.left + strip.axis.width, limit}, "limit");
  svg.line({strip.axis.left, bottom}, {strip.axis.left + strip.axis.width, bottom}, "line");
  svg.text({strip.axis.left - 8, strip.top + strip.height / 2}, label_of(track), "", Anchor::End);
  svg.text({strip.axis.left - 8, strip.top + strip.height / 2 + 15}, most, "soft", Anchor::End);
}

// As they are, or the fullest of each stage.
std::vector<const MemoryTrack*> shown_of(const std::vector<MemoryTrack>& tracks) {
  std::vector<const MemoryTrack*> shown;
  std::map<StageId, const MemoryTrack*> fullest;
  for (const MemoryTrack& track : tracks) {
    shown.push_back(&track);
    const MemoryTrack*& own = fullest.try_emplace(track.stage, &track).first->second;
    if (bytes_at(track, track.peak()) > bytes_at(*own, own->peak())) own = &track;
  }
  if (shown.size() <= kStrips) return shown;
  shown.clear();
  for (const auto& [stage, track] : fullest) shown.push_back(track);
  return shown;
}

void add_key(Svg& svg, double x, double y) {
  svg.box({x, y - 10, 12, 12}, class_of(Hue::Update));
  svg.text({x + 17, y}, "weights, gradients and optimizer state");
  svg.box({x + 280, y - 10, 12, 12}, class_of(Hue::Forward));
  svg.text({x + 297, y}, "activations and temporary buffers");
  svg.line({x + 530, y - 4}, {x + 555, y - 4}, "limit");
  svg.text({x + 560, y}, "usable");
}

}  // namespace

MemoryPoint MemoryTrack::peak() const {
  return *std::max_element(points.begin(), points.end(),
                           [](const MemoryPoint& a, const MemoryPoint& b) { return a.bytes < b.bytes; });
}

std::vector<MemoryTrack> memory_tracks_of(const TaskGraph& graph, const TaskTimes& times, const Program& program,
                                          const std::vector<Bytes>& usable, const FoldedDevices* folded) {
  std::vector<std::vector<MemoryPoint>> points = memory_over_time(graph, times);
  std::vector<MemoryTrack> tracks;
  std::vector<std::size_t> track_of_device(points.size());
  const auto alike = [](const MemoryTrack& a, const MemoryTrack& b) {
    return a.stage == b.stage && a.standing == b.standing && a.usable == b.usable &&
           std::equal(
               a.points.begin(), a.points.end(), b.points.begin(), b.points.end(),
               [](const MemoryPoint& p, const MemoryPoint& q) { return p.time == q.time && p.bytes == q.bytes; });
  };
  for (std::size_t d = 0; d < points.size(); ++d) {
    const std::size_t stands = folded == nullptr ? d : folded->representative[d].index();
    if (stands == d) {
      MemoryTrack track{{}, program.stage_of_device[d], program.persistent_bytes[d], usable[d], std::move(points[d])};
      const auto same =
          std::find_if(tracks.begin(), tracks.end(), [&](const MemoryTrack& known) { return alike(known, track); });
      track_of_device[d] = static_cast<std::size_t>(same - tracks.begin());
      if (same == tracks.end()) tracks.push_back(std::move(track));
    } else {
      track_of_device[d] = track_of_device[stands];
    }
    tracks[track_of_device[d]].devices.emplace_back(static_cast<int>(d));
  }
  return tracks;
}

Svg memory_svg(const std::vector<MemoryTrack>& tracks, SimTime end, std::string_view title) {
  const std::vector<const MemoryTrack*> shown = shown_of(tracks);
  const double strip = strip_height(shown.size());
  const double height = kAbove + (strip + kStripGap) * static_cast<double>(shown.size()) + kBelow;
  constexpr double kLabel = 200;
  const TimeAxis axis{kSide + kLabel, kWide - kLabel - 2 * kSide - 20, end};
  const MemoryTrack* fullest = shown.front();
  double most = 0.0;
  for (const MemoryTrack* track : shown) {
    if (bytes_at(*track, track->peak()) > bytes_at(*fullest, fullest->peak())) fullest = track;
    most = std::max({most, gibibytes_of(track->usable), gibibytes_of(bytes_at(*track, track->peak()))});
  }
  const std::string fill =
      fmt::format("The fullest is {} with {:.2f} GiB of {:.2f} GiB usable", label_of(*fullest),
                  gibibytes_of(bytes_at(*fullest, fullest->peak())), gibibytes_of(fullest->usable));
  const std::string left_out =
      shown.size() == tracks.size()
          ? ""
          : fmt::format(" Of {} kinds of devices the fullest of each stage is shown.", tracks.size());
  Svg svg(kWide, height, title, fmt::format("Memory of devices over a step. {}.{}", fill, left_out));
  svg.text({kSide, 20}, fmt::format("{}: memory. {}.{}", title, fill, left_out));
  add_time_axis(svg, axis, kAbove, height - kBelow);
  for (std::size_t s = 0; s < shown.size(); ++s)
    add_strip(svg, {axis, kAbove + (strip + kStripGap) * static_cast<double>(s) + kStripGap / 2, strip, 1.05 * most},
              *shown[s]);
  add_key(svg, axis.left, height - 12);
  return svg;
}

}  // namespace meshwright
