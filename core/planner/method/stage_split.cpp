// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/stage_split.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::size_t kMaxLetters = 65536;
constexpr int kMaxFewer = 2;  // blocks of a stage at an end, compared with one between them

// A repetition "X*n": reads "*n" at `at`, if it is there, and moves behind it.
std::size_t read_times(const std::string& text, std::size_t& at, const std::string& place) {
  if (at >= text.size() || text[at] != '*') return 1;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const std::string digits = text.substr(at + 1, end - at - 1);
  const auto times = static_cast<std::size_t>(
      parse_integer(digits, place + ": layout: times after '*'", 1, static_cast<std::int64_t>(kMaxLetters)));
  at = end;
  return times;
}

void append(std::string& to, const std::string& part, std::size_t times, const std::string& place) {
  require(part.size() * times + to.size() <= kMaxLetters, "{}: layout: has more than {} letters; write fewer.", place,
          kMaxLetters);
  for (std::size_t i = 0; i < times; ++i) to += part;
}

// "x*n" written out. Parentheses are not nested.
std::string without_times(const std::string& layout, const std::string& place) {
  std::string text;
  for (std::size_t at = 0; at < layout.size();) {
    if (layout[at] != '(') {
      const std::string letter(1, layout[at++]);
      append(text, letter, read_times(layout, at, place), place);
      continue;
    }
    const std::size_t close = layout.find(')', at);
    require(close != std::string::npos, "{}: layout: '(' without ')'; close it, as in (tt|)*3.", place);
    const std::string inner = layout.substr(at + 1, close - at - 1);
    require(inner.find('(') == std::string::npos, "{}: layout: parentheses are not nested; write one pair.", place);
    at = close + 1;
    append(text, without_times(inner, place), read_times(layout, at, place), place);
  }
  return text;
}

}  // namespace

std::vector<std::string> stages_of_layout(const std::string& layout, const std::string& place) {
  constexpr const char* kExample = "write one such as Et*3|t*4|t*4|t*3L";
  const std::string text = without_times(layout, place);
  for (const char letter : text)
    require(letter == 'E' || letter == 't' || letter == 'm' || letter == 'L' || letter == '|',
            "{}: layout: '{}' is unknown; expected E (embedding), t (block), m (module for a further token), L (loss), "
            "|, *, ( "
            "and ); {}.",
            place, letter, kExample);
  const auto count = [&](char letter) { return std::count(text.begin(), text.end(), letter); };
  require(count('E') == 1 && text.front() == 'E', "{}: layout: E stands once, and first; {}.", place, kExample);
  require(count('L') == 1 && text.back() == 'L', "{}: layout: L stands once, and last; {}.", place, kExample);
  const std::size_t first_m = text.find('m'), last_m = text.rfind('m');
  if (first_m != std::string::npos)
    require(text.find('t', first_m) == std::string::npos &&
                text.substr(first_m, last_m - first_m).find('|') == std::string::npos,
            "{}: layout: modules for further tokens (m) stand in one stage, behind all blocks; write it as Et|tmL.",
            place);
  std::vector<std::string> stages = split(text, '|');
  for (std::size_t s = 0; s < stages.size(); ++s)
    require(!stages[s].empty(), "{}: layout: stage {} is empty, and a plan's stages are not; give it a layer.", place,
            s);
  return stages;
}

int further_modules_of(const StageSplit& split) {
  if (split.layout.find('m') == std::string::npos) return 0;
  const std::string text = without_times(split.layout, "layout");
  return static_cast<int>(std::count(text.begin(), text.end(), 'm'));
}

std::vector<std::string> broken_split_rules(const StageSplit& split, std::int64_t blocks, int pp, int chunks,
                                            std::int64_t further) {
  std::vector<std::string> broken;
  const auto rule = [&](bool kept, std::string sentence) {
    if (!kept) broken.push_back(std::move(sentence));
  };
  if (!split.layout.empty()) {
    const std::vector<std::string> stages = stages_of_layout(split.layout, "layout");
    std::int64_t named = 0;
    for (const std::string& stage : stages) named += std::count(stage.begin(), stage.end(), 't');
    rule(std::ssize(stages) == std::ptrdiff_t{pp} * chunks,
         fmt::format("the layout's {} stages are not pp={} x vpp={}", stages.size(), pp, chunks));
    rule(named == blocks, fmt::format("the layout names {} blocks, and there are {}", named, blocks));
    const int modules = further_modules_of(split);
    rule(modules == further,
         fmt::format("the layout names {} modules for further tokens (m), and there are {}", modules, further));
    const auto with_modules = std::find_if(
        stages.begin(), stages.end(), [](const std::string& stage) { return stage.find('m') != std::string::npos; });
    rule(modules == 0 || with_modules - stages.begin() >= std::ptrdiff_t{pp} * (chunks - 1),
         "modules for further tokens (m) are in the last stage of their rank");
    rule(split.first == 0 && split.last == 0, "a layout leaves no room for first= and last=");
    return broken;
  }
  rule(further == 0, "first= and last= give modules for further tokens no place, which a layout does, as Et|tmL");
  const auto part = [&](const char* which, int given) {
    rule(given % chunks == 0, fmt::format("vpp={} does not divide {}={}", chunks, which, given));
  };
  part("first", split.first);
  part("last", split.last);
  const int between = pp - (split.first > 0 ? 1 : 0) - (split.last > 0 ? 1 : 0);
  const std::int64_t rest = blocks - split.first - split.last;
  const std::string said =
      fmt::format("the {} of {} blocks that first={} and last={} leave", rest, blocks, split.first, split.last);
  if (rest < 0)
    broken.push_back(fmt::format("first={} and last={} are more than the {} blocks", split.first, split.last, blocks));
  else if ((rest == 0) != (between == 0) || between < 0)
    broken.push_back(fmt::format("first={} and last={} leave {} of {} blocks for {} ranks", split.first, split.last,
                                 rest, blocks, std::max(0, between)));
  else if (between > 0)
    rule(rest % (std::int64_t{between} * chunks) == 0,
         fmt::format("{} ranks x vpp={} do not divide {}", between, chunks, said));
  return broken;
}

std::vector<int> layers_of_stages(const StageSplit& split, std::int64_t blocks, int pp, int chunks) {
  MW_CHECK(split.uneven(), "an even split has no layers of its own");
  std::vector<int> layers;
  if (!split.layout.empty()) {
    for (const std::string& stage : stages_of_layout(split.layout, "layout"))
      layers.push_back(static_cast<int>(stage.size()));
    return layers;
  }
  const int between = pp - (split.first > 0 ? 1 : 0) - (split.last > 0 ? 1 : 0);
  const int middle = between == 0 ? 0 : static_cast<int>((blocks - split.first - split.last) / between);
  for (int stage = 0; stage < pp * chunks; ++stage) {
    const int rank = stage % pp;
    const bool is_first = rank == 0 && split.first > 0, is_last = rank == pp - 1 && split.last > 0;
    layers.push_back((is_first ? split.first : is_last ? split.last : middle) / chunks);
  }
  ++layers.front();
  ++layers.back();
  return layers;
}

std::vector<int> first_layers_of_stages(const StageSplit& split, int layers, int pp, int chunks) {
  const int stages = pp * chunks;
  std::vector<int> starts;
  if (!split.uneven()) {
    for (int s = 0; s <= stages; ++s) starts.push_back(layers * s / stages);
    return starts;
  }
  starts.push_back(0);
  for (const int own : layers_of_stages(split, layers - 2, pp, chunks)) starts.push_back(starts.back() + own);
  return starts;
}

std::vector<StageSplit> lighter_ends(std::int64_t blocks, int pp, int chunks, std::int64_t further) {
  std::vector<StageSplit> splits;
  if (pp < 2) return splits;
  // Blocks of a stage between the ends: with it, all ranks together have at most as many too many as both ends may
  // lack.
  const std::int64_t stages = std::int64_t{pp} * chunks, fewer_at_last = kMaxFewer + further;
  for (std::int64_t each = blocks / stages; each * stages <= blocks + (kMaxFewer + fewer_at_last) * chunks; ++each) {
    const std::int64_t fewer = each * stages - blocks;
    if (fewer <= 0 || fewer % chunks != 0) continue;
    for (std::int64_t at_first = 0; at_first <= fewer / chunks; ++at_first) {
      const std::int64_t at_last = fewer / chunks - at_first;
      if (at_first > kMaxFewer || at_last > fewer_at_last || each <= std::max(at_first, at_last)) continue;
      if (pp == 2 && at_first == at_last) continue;  // nothing is between the ends: they are alike
      const StageSplit split{at_first > 0 ? static_cast<int>((each - at_first) * chunks) : 0,
                             at_last > 0 ? static_cast<int>((each - at_last) * chunks) : 0};
      splits.push_back(split);
    }
  }
  return splits;
}

}  // namespace meshwright
