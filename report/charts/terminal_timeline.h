// SPDX-License-Identifier: Apache-2.0
// A timeline as lines of text: in letters anywhere, in colours and eighths of a column on a terminal.
//
// A column that holds several activities shows one of them as a letter, or two as parts of a block. Which one it shows
// is kept account of: an activity that a column leaves out has the first claim on the next column that it is in. So an
// activity has as many columns of a row as its time comes to, whether it lasts for many columns or for less than one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/charts/timeline_rows.h"

namespace meshwright {

enum class ColourDepth : std::uint8_t { None, Of256, True };
enum class Glyphs : std::uint8_t { Ascii, Unicode };

struct TerminalLook {
  std::optional<int> width;  // of whole lines; nullopt: the drawing has kPlainColumns, however long the labels
  ColourDepth colours = ColourDepth::None;
  Glyphs glyphs = Glyphs::Ascii;
  Ground ground = Ground::Dark;
};
inline constexpr int kPlainColumns = 96;
inline constexpr int kLeastColumns = 16;  // of a drawing: a narrower terminal breaks the lines

// A line per row ("stage 0, devices 0-127 | FFBB.."), an axis, and a line on what the letters mean. With colours, a
// block of three columns or more has its letter on it, and the number of its micro-batch where there is room.
[[nodiscard]] std::string terminal_timeline(const TimelineTracks& tracks, const TerminalLook& look);

// [column] how many of `parts` equal parts of it each activity gets; `kinds` at most get any. Over any number of
// columns from the first on, an activity gets what it has, to less than `kinds + 1` columns.
using ActivityParts = std::array<int, kActivities>;
[[nodiscard]] std::vector<ActivityParts> parts_of_columns(const std::vector<ActivityShares>& shares, int parts,
                                                          int kinds);

}  // namespace meshwright
