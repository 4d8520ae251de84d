// SPDX-License-Identifier: Apache-2.0
#include "report/charts/terminal_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::size_t kRowLimit = 64;
constexpr std::string_view kBetween = " | ";  // a label and its row
constexpr int kEighths = 8;
constexpr int kLetterColumns = 3;  // from which on a block has room for a letter
constexpr int kMeans = 2;          // activities of one character: what is printed and what is behind it

// The nearest of the 6 x 6 x 6 colours that terminals of 256 have at 16..231.
int cube_colour(Rgb colour) {
  const auto level = [](int value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; };
  return 16 + 36 * level(colour.red) + 6 * level(colour.green) + level(colour.blue);
}

Rgb text_on(Rgb colour) {
  constexpr Rgb kBlack{0, 0, 0}, kWhite{255, 255, 255};
  return contrast(kBlack, colour) >= contrast(kWhite, colour) ? kBlack : kWhite;
}

std::optional<Rgb> colour_of(Activity activity, Ground ground) {
  if (activity == Activity::Idle) return std::nullopt;
  return rgb_of(shade_of(hue_of(activity)).on(ground));
}

enum class Layer : std::uint8_t { Text = 38, Behind = 48 };

class Painter {
 public:
  explicit Painter(const TerminalLook& look) : look_(look) {}

  // Idle is the terminal's own background.
  void cell(std::optional<Rgb> text, std::optional<Rgb> behind, std::string_view what) {
    const std::string code = code_of(Layer::Text, text) + code_of(Layer::Behind, behind);
    if (code != latest_) {
      if (!latest_.empty()) line_ += "\033[0m";
      line_ += code;
      latest_ = code;
    }
    line_ += what;
  }

  // A letter on the colour of what it stands for.
  void cell_of(Activity activity, char letter) {
    const std::optional<Rgb> behind = colour_of(activity, look_.ground);
    cell(behind ? std::optional(text_on(*behind)) : std::nullopt, behind, std::string(1, letter));
  }

  std::string line() {
    if (!latest_.empty()) line_ += "\033[0m";
    latest_.clear();
    return std::exchange(line_, {});
  }

 private:
  [[nodiscard]] std::string code_of(Layer layer, std::optional<Rgb> colour) const {
    if (!colour || look_.colours == ColourDepth::None) return "";
    const int number = static_cast<int>(layer);
    if (look_.colours == ColourDepth::Of256) return fmt::format("\033[{};5;{}m", number, cube_colour(*colour));
    return fmt::format("\033[{};2;{};{};{}m", number, colour->red, colour->green, colour->blue);
  }

  const TerminalLook& look_;
  std::string line_, latest_;
};

// The first column that begins at `time` or later; `columns`: none does.
int column_from(SimTime time, SimTime end, int columns) {
  int column = static_cast<int>(static_cast<double>(time.ps) / static_cast<double>(end.ps) * columns);
  while (column > 0 && column_begin(end, columns, column - 1) >= time) --column;
  while (column < columns && column_begin(end, columns, column) < time) ++column;
  return column;
}

// [column] what stands on it: the letters of a block that has room for them, else ' '.
std::vector<char> names_on_blocks(const TimelineRow& row, SimTime end, int columns) {
  std::vector<char> names(static_cast<std::size_t>(columns), ' ');
  if (row.tracks.size() > 1) return names;
  for (const TimelineBlock& block : row.tracks.front()->blocks) {
    const int first = column_from(block.begin, end, columns);
    int last = std::min(columns, column_from(block.end, end, columns));
    if (last > 0 && column_begin(end, columns, last) > block.end) --last;
    if (last - first < kLetterColumns) continue;
    std::string name(1, letter_of(block.activity));
    const std::string number = fmt::format("{}", block.microbatch.value);
    if (block.activity != Activity::Update && static_cast<int>(name.size() + number.size()) < last - first)
      name += number;
    std::copy(name.begin(), name.end(), names.begin() + first + (last - first - static_cast<int>(name.size())) / 2);
  }
  return names;
}

void add_letters(Painter& painter, const std::vector<ActivityShares>& shares) {
  for (const ActivityParts& column : parts_of_columns(shares, 1, 1)) {
    const auto activity = static_cast<Activity>(std::max_element(column.begin(), column.end()) - column.begin());
    painter.cell_of(activity, letter_of(activity));
  }
}

// Where two activities share a column, the later one is on top; idle is the last.
void add_eighths(Painter& painter, const std::vector<ActivityShares>& shares, const std::vector<char>& names,
                 Ground ground) {
  constexpr std::array<std::string_view, kEighths + 1> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::vector<ActivityParts> columns = parts_of_columns(shares, kEighths, kMeans);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::vector<std::pair<int, Activity>> parts;
    for (std::size_t a = 0; a < kActivities; ++a)
      if (columns[c][a] > 0) parts.emplace_back(columns[c][a], static_cast<Activity>(a));
    if (parts.size() == 1) {
      painter.cell_of(parts.front().second, names[c]);
    } else {
      painter.cell(colour_of(parts.front().second, ground), colour_of(parts.back().second, ground),
                   kBlocks[static_cast<std::size_t>(parts.front().first)]);
    }
  }
}

// "0" at the left end, the step's time at the right.
std::string axis_text(SimTime end, std::size_t label, int columns) {
  return fmt::format("#{:<{}}0{:>{}}\n", "", label + kBetween.size() - 1, human_seconds(to_seconds(end)), columns - 1);
}

// "# F forward, B backward, . idle; a column is 3.2 ms", broken where the lines would be too long.
std::string legend_text(const std::vector<std::vector<ActivityShares>>& rows, SimTime end, int columns,
                        const TerminalLook& look) {
  ActivityShares sums{};
  for (const std::vector<ActivityShares>& row : rows)
    for (const ActivityShares& column : row)
      for (std::size_t a = 0; a < kActivities; ++a) sums[a] += column[a];
  std::string text, line = "#";
  std::size_t length = line.size();
  const auto add = [&](const std::string& letter, const std::string& words) {
    const std::size_t more = 1 + (letter.empty() ? 0 : 2) + words.size();
    if (look.width && length > 1 && length + more > static_cast<std::size_t>(*look.width)) {
      text += line + "\n";
      line = "#";
      length = line.size();
    }
    line += (letter.empty() ? " " : " " + letter + " ") + words;
    length += more;
  };
  for (std::size_t a = 0; a < kActivities; ++a) {
    if (sums[a] == 0.0) continue;
    const auto activity = static_cast<Activity>(a);
    Painter painter(look);
    painter.cell_of(activity, letter_of(activity));
    add(painter.line(), std::string(name_of(activity)) + ",");
  }
  add("", fmt::format("a column is {}", human_seconds(to_seconds(end) / static_cast<double>(columns))));
  return text + line + "\n";
}

}  // namespace

std::vector<ActivityParts> parts_of_columns(const std::vector<ActivityShares>& shares, int parts, int kinds) {
  MW_CHECK(parts >= 1 && (kinds == 1 || kinds == 2), "{} parts of a column for {} activities", parts, kinds);
  constexpr double kSmall = 1e-9;  // less is a rounding of an end
  std::vector<ActivityParts> found;
  std::array<double, kActivities> claims{};  // what each has had too little of, in parts
  for (const ActivityShares& column : shares) {
    std::vector<std::size_t> present;
    for (std::size_t a = 0; a < kActivities; ++a) {
      claims[a] += parts * column[a];
      if (column[a] > kSmall) present.push_back(a);
    }
    std::stable_sort(present.begin(), present.end(),
                     [&](std::size_t a, std::size_t b) { return claims[a] > claims[b]; });
    ActivityParts& own = found.emplace_back(ActivityParts{});
    const std::size_t first = present.front();
    if (kinds == 1 || present.size() == 1) {
      own[first] = parts;
    } else {
      own[first] = std::clamp(static_cast<int>(std::lround(claims[first])), 0, parts);
      own[present[1]] = parts - own[first];
    }
    for (std::size_t a = 0; a < kActivities; ++a) claims[a] -= own[a];
  }
  return found;
}

std::string terminal_timeline(const TimelineTracks& tracks, const TerminalLook& look) {
  const std::vector<TimelineRow> rows = rows_of(tracks, kRowLimit);
  std::size_t label = 0;
  for (const TimelineRow& row : rows) label = std::max(label, label_of(row).size());
  const int columns =
      look.width ? std::max(kLeastColumns, *look.width - static_cast<int>(label + kBetween.size())) : kPlainColumns;
  std::string text;
  std::vector<std::vector<ActivityShares>> shares;
  for (const TimelineRow& row : rows) {
    shares.push_back(column_shares(row, tracks.end, columns));
    Painter painter(look);
    if (look.colours != ColourDepth::None && look.glyphs == Glyphs::Unicode) {
      add_eighths(painter, shares.back(), names_on_blocks(row, tracks.end, columns), look.ground);
    } else {
      add_letters(painter, shares.back());
    }
    text += fmt::format("{:<{}}{}{}\n", label_of(row), label, kBetween, painter.line());
  }
  return text + axis_text(tracks.end, label, columns) + legend_text(shares, tracks.end, columns, look);
}

}  // namespace meshwright
