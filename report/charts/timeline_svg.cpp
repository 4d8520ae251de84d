// SPDX-License-Identifier: Apache-2.0
#include "report/charts/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"
#include "report/charts/time_axis.h"

namespace meshwright {

namespace {

constexpr std::size_t kSvgRows = 64;
constexpr double kWidth = 1200, kTop = 34, kFoot = 52, kMargin = 12;
constexpr double kGap = 6;         // between rows
constexpr double kNameWidth = 22;  // from which on a block carries its letter
constexpr double kMessageHeight = 4;

struct RowFrame {
  TimeAxis axis;
  double row;  // height of a row
};

double row_height(std::size_t rows) { return rows <= 4 ? 40 : rows <= 10 ? 30 : rows <= 32 ? 20 : 12; }

std::string tip_of(const TimelineBlock& block, std::string_view name) {
  return fmt::format("{} {} of stage {}: {} from {} on", name, block.microbatch.value, block.stage.value,
                     human_seconds(to_seconds(block.end - block.begin)), human_seconds(to_seconds(block.begin)));
}

void add_block(Svg& svg, const RowFrame& frame, const TimelineBlock& block, double top) {
  const double from = frame.axis.at(block.begin), to = frame.axis.at(block.end);
  svg.box({from, top, to - from, frame.row}, class_of(hue_of(block.activity)), tip_of(block, name_of(block.activity)));
}

// The letters come last: they are on all blocks.
void add_name(Svg& svg, const RowFrame& frame, const TimelineBlock& block, double top) {
  const double from = frame.axis.at(block.begin), to = frame.axis.at(block.end);
  if (to - from < kNameWidth || frame.row < 14) return;
  std::string name(1, letter_of(block.activity));
  const std::string number = fmt::format("{}", block.microbatch.value);
  if (block.activity != Activity::Update && width_of_text(1 + number.size()) + 4 < to - from) name += number;
  svg.text({(from + to) / 2, top + frame.row / 2 + 4}, name, "on", Anchor::Middle);
}

void add_blocks(Svg& svg, const RowFrame& frame, const TimelineTrack& track, double top) {
  for (const TimelineBlock& block : track.blocks) add_block(svg, frame, block, top);
  for (const TimelineBlock& block : track.messages)
    svg.box({frame.axis.at(block.begin), top + frame.row - kMessageHeight,
             frame.axis.at(block.end) - frame.axis.at(block.begin), kMessageHeight},
            class_of(Hue::Message), tip_of(block, "message"));
  for (const TimelineBlock& block : track.blocks) add_name(svg, frame, block, top);
}

// Activities on top of each other, each a path along all columns.
void add_shares(Svg& svg, const RowFrame& frame, const TimelineRow& row, double top) {
  const int columns = static_cast<int>(frame.axis.width);
  const std::vector<ActivityShares> shares = column_shares(row, frame.axis.end, columns);
  std::vector<double> base(shares.size(), 0.0);
  for (std::size_t a = 0; a + 1 < kActivities; ++a) {
    std::string commands;
    double sum = 0.0;
    for (std::size_t c = 0; c < shares.size(); ++c) {
      const double share = shares[c][a], bottom = top + frame.row * (1.0 - base[c]);
      sum += share;
      base[c] += share;
      if (share * frame.row < 0.01) continue;
      commands += fmt::format("M{} {}h1v{}h-1z", svg_number(frame.axis.left + static_cast<double>(c)),
                              svg_number(bottom), svg_number(-share * frame.row));
    }
    if (commands.empty()) continue;
    const auto activity = static_cast<Activity>(a);
    svg.path(commands, class_of(hue_of(activity)),
             fmt::format("{}: {:.1f} % of the time", name_of(activity), 100.0 * sum / static_cast<double>(columns)));
  }
}

void add_legend(Svg& svg, const TimelineTracks& tracks, ShownMessages shown, double x, double y) {
  ActivityShares seen{};
  bool messages = false;
  for (const TimelineTrack& track : tracks.tracks) {
    for (const TimelineBlock& block : track.blocks) seen[static_cast<std::size_t>(block.activity)] = 1.0;
    messages = messages || (shown == ShownMessages::All && !track.messages.empty());
  }
  seen[static_cast<std::size_t>(Activity::Idle)] = 1.0;
  const auto entry = [&](std::string_view colour, std::string_view name) {
    svg.box({x, y - 10, 12, 12}, colour);
    svg.text({x + 17, y}, name);
    x += 17 + width_of_text(name.size()) + 18;
  };
  for (std::size_t a = 0; a < kActivities; ++a) {
    const auto activity = static_cast<Activity>(a);
    const std::string_view name = name_of(activity);
    if (seen[a] > 0.0)
      entry(class_of(hue_of(activity)),
            activity == Activity::Idle ? std::string(name) : fmt::format("{} {}", letter_of(activity), name));
  }
  if (messages) entry(class_of(Hue::Message), "message");
}

}  // namespace

Svg timeline_svg(const TimelineTracks& tracks, std::string_view title) {
  const std::vector<TimelineRow> rows = rows_of(tracks, kSvgRows);
  std::size_t blocks = 0, label = 0;
  bool means = false;
  for (const TimelineRow& row : rows) {
    label = std::max(label, label_of(row).size());
    means = means || row.tracks.size() > 1;
    for (const TimelineTrack* track : row.tracks) blocks += 2 * track->blocks.size() + track->messages.size();
  }
  const bool exact = !means && blocks + 2 * rows.size() + 64 <= kMarkLimit;
  const double left = kMargin + width_of_text(label) + 8;
  const RowFrame frame{{left, kWidth - left - kMargin - 20, tracks.end}, row_height(rows.size())};
  const double height = kTop + (frame.row + kGap) * static_cast<double>(rows.size()) + kFoot;
  std::string description = fmt::format("A step of {} in {} rows of devices that do the same at the same times.",
                                        human_seconds(to_seconds(tracks.end)), rows.size());
  if (!exact) description += " Each column shows what share of its time every activity has.";
  Svg svg(kWidth, height, title, description);
  svg.text({kMargin, 20}, fmt::format("{}: {}", title, human_seconds(to_seconds(tracks.end))));
  add_time_axis(svg, frame.axis, kTop, height - kFoot);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double top = kTop + (frame.row + kGap) * static_cast<double>(r) + kGap / 2;
    svg.text({frame.axis.left - 8, top + frame.row / 2 + 4}, label_of(rows[r]), "", Anchor::End);
    svg.box({frame.axis.left, top, frame.axis.width, frame.row}, class_of(Hue::Idle));
    if (exact) {
      add_blocks(svg, frame, *rows[r].tracks.front(), top);
    } else {
      add_shares(svg, frame, rows[r], top);
    }
  }
  add_legend(svg, tracks, exact ? ShownMessages::All : ShownMessages::None, frame.axis.left, height - 12);
  return svg;
}

}  // namespace meshwright
