// SPDX-License-Identifier: Apache-2.0
#include "report/charts/terminal_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/text.h"

namespace meshwright::terminal_timeline_test {
namespace {

TimelineTracks drawn_tracks(const Timeline& timeline, int devices, const FoldedDevices* folded,
                            ShownMessages messages) {
  return timeline_tracks(tracks_of(timeline, row_devices(timeline, devices, folded), messages));
}

using Kind = Span::Kind;

// Times in microseconds.
Span span(Kind kind, int device, std::int64_t begin, std::int64_t end, int microbatch = 0) {
  return {kind, DeviceId(device), StageId(device), MicrobatchId(microbatch), {1000000 * begin}, {1000000 * end}};
}

std::string drawn(const std::vector<Span>& spans, const TerminalLook& look, int devices = 1) {
  return terminal_timeline(drawn_tracks(make_timeline(spans), devices, nullptr, ShownMessages::None), look);
}

// 40 columns are 20 of a label and its bar and 20 of the drawing.
TerminalLook twenty_columns() { return {.width = 40}; }

std::string row(const std::string& text, std::size_t number = 0) {
  const std::string line = split(text, '\n')[number];
  return line.substr(line.find('|') + 2);
}

// 100 passes of 3 and 7 in 20 columns: forward has 6 columns' time, and never the most of a column.
TEST(TerminalTimeline, GivesAnActivityTheColumnsThatItsTimeComesTo) {
  std::vector<Span> spans;
  for (int i = 0; i < 100; ++i) {
    spans.push_back(span(Kind::Forward, 0, 100 * i, 100 * i + 30, i));
    spans.push_back(span(Kind::Backward, 0, 100 * i + 30, 100 * i + 100, i));
  }
  const std::string letters = row(drawn(spans, twenty_columns()));
  EXPECT_EQ(letters.size(), 20u);
  EXPECT_EQ(std::count(letters.begin(), letters.end(), 'F'), 6);
  EXPECT_EQ(std::count(letters.begin(), letters.end(), 'B'), 14);
}

TEST(TerminalTimeline, ShowsAColumnOfOneActivityAsThat) {
  EXPECT_EQ(
      drawn({span(Kind::Forward, 0, 0, 50), span(Kind::Backward, 0, 100, 200), span(Kind::BackwardInput, 1, 50, 100),
             span(Kind::BackwardWeight, 1, 100, 150), span(Kind::Update, 1, 150, 200)},
            twenty_columns(), 2),
      "stage 0, device 0 | FFFFF.....BBBBBBBBBB\n"
      "stage 1, device 1 | .....IIIIIWWWWWUUUUU\n"
      "#                   0         200.000 us\n"
      "# F forward, B backward,\n"
      "# I input gradient, W weight gradient,\n"
      "# U update, . idle,\n"
      "# a column is 10.000 us\n");
}

TEST(TerminalTimeline, IsOneRowForDevicesThatAreAlike) {
  std::vector<Span> spans;
  for (int device = 0; device < 512; ++device) {
    spans.push_back(span(Kind::Forward, device, 0, 100));
    spans.back().stage = StageId(0);
  }
  const std::string text = drawn(spans, {}, 512);
  EXPECT_EQ(text.substr(0, text.find('\n')), "stage 0, devices 0-511 | " + std::string(kPlainColumns, 'F'));
  EXPECT_EQ(std::count(text.begin(), text.end(), '|'), 1);
}

// Blocks of 10, 9 and 1 columns of 20, in the 256 colours: forward is 74 on a dark ground, backward 114, update 136.
TEST(TerminalTimeline, NamesBlocksOfThreeColumnsOrMoreInTheirColours) {
  TerminalLook look = twenty_columns();
  look.colours = ColourDepth::Of256;
  look.glyphs = Glyphs::Unicode;
  const std::string text = row(
      drawn({span(Kind::Forward, 0, 0, 100, 17), span(Kind::Backward, 0, 100, 190, 3), span(Kind::Update, 0, 190, 200)},
            look));
  EXPECT_EQ(text,
            "\033[38;5;16m\033[48;5;74m   F17    \033[0m"
            "\033[38;5;16m\033[48;5;114m   B3    \033[0m"
            "\033[38;5;16m\033[48;5;136m \033[0m");
}

// A column of three eighths forward and five idle: the lower three eighths have the colour, the rest is the background.
TEST(TerminalTimeline, ShowsTwoActivitiesOfAColumnAsPartsOfABlock) {
  TerminalLook look = twenty_columns();
  look.colours = ColourDepth::True;
  look.glyphs = Glyphs::Unicode;
  const std::string text = row(drawn({span(Kind::Forward, 0, 0, 3), span(Kind::Update, 0, 152, 160)}, look));
  EXPECT_EQ(text.substr(0, text.find(' ')), "\033[38;2;96;159;217m▃\033[0m");
}

TEST(TerminalTimeline, OfAnEmptyTimelineIsIdle) {
  EXPECT_EQ(row(drawn({}, {.width = 31})).substr(0, 20), std::string(20, '.'));
}

TEST(PartsOfColumns, LeaveNothingOverThatAddsUp) {
  // A tenth of each column.
  ActivityShares column{};
  column[static_cast<std::size_t>(Activity::Update)] = 0.1;
  column[static_cast<std::size_t>(Activity::Idle)] = 0.9;
  int updates = 0;
  for (const ActivityParts& parts : parts_of_columns(std::vector<ActivityShares>(100, column), 1, 1))
    updates += parts[static_cast<std::size_t>(Activity::Update)];
  EXPECT_EQ(updates, 10);
}

}  // namespace
}  // namespace meshwright::terminal_timeline_test
