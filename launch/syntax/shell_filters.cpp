// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_filters.h"

#include <algorithm>
#include <bitset>
#include <string_view>

#include "core/base/text.h"

namespace meshwright {

namespace {

// A pattern with two stars takes at most the cube of this many steps.
constexpr std::size_t kMaxInput = 256, kMaxStars = 2, kMaxText = 65'536;

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

// --- tr ---

// "A-Z", "[:lower:]", "._", "\n"; nullopt: another class.
std::optional<std::string> characters_of(const std::string& set) {
  if (set == "[:lower:]") return characters_of("a-z");
  if (set == "[:upper:]") return characters_of("A-Z");
  if (set == "[:digit:]") return characters_of("0-9");
  if (set == "[:space:]") return " \t\n\r\f\v";
  if (set.find("[:") != std::string::npos) return std::nullopt;
  std::string found;
  for (std::size_t i = 0; i < set.size(); ++i) {
    char c = set[i];
    if (c == '\\' && i + 1 < set.size()) {
      c = set[++i];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    } else if (i + 2 < set.size() && set[i + 1] == '-') {
      if (index_of(set[i + 2]) < index_of(c)) return std::nullopt;
      for (std::size_t at = index_of(c); at <= index_of(set[i + 2]); ++at) found += static_cast<char>(at);
      i += 2;
      continue;
    }
    found += c;
  }
  return found;
}

std::optional<std::string> translated(const std::vector<std::string>& words, const std::string& input) {
  const bool deletes = words.size() == 3 && words[1] == "-d";
  if (words.size() != 3 || (!deletes && words[1].starts_with('-') && words[1].size() > 1)) return std::nullopt;
  const auto from = characters_of(words[deletes ? 2 : 1]);
  const auto to = deletes ? std::optional<std::string>("") : characters_of(words[2]);
  if (!from || !to || (!deletes && to->empty())) return std::nullopt;
  std::string text;
  for (const char c : input) {
    const std::size_t at = from->rfind(c);
    if (at == std::string::npos)
      text += c;
    else if (!deletes)
      text += (*to)[std::min(at, to->size() - 1)];
  }
  return text;
}

// --- sed ---

struct Piece {
  std::bitset<256> any_of;
  bool repeats = false;  // any number of times
};

struct Pattern {
  std::vector<Piece> pieces;
  bool at_begin = false, at_end = false;

  // The length of the longest match at `at`; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> match(std::string_view text, std::size_t at, std::size_t piece = 0) const {
    if (piece == pieces.size()) return at_end && at != text.size() ? std::nullopt : std::optional<std::size_t>(0);
    const auto fits = [&](std::size_t i) { return i < text.size() && pieces[piece].any_of[index_of(text[i])]; };
    if (!pieces[piece].repeats) {
      if (!fits(at)) return std::nullopt;
      const auto rest = match(text, at + 1, piece + 1);
      return rest ? std::optional(*rest + 1) : std::nullopt;
    }
    std::size_t most = 0;
    while (fits(at + most)) ++most;
    for (std::size_t taken = most + 1; taken-- > 0;)
      if (const auto rest = match(text, at + taken, piece + 1)) return *rest + taken;
    return std::nullopt;
  }
};

// Whether a match may have to be tried for each of several lengths: not where only the last piece repeats, which takes
// all it can.
bool backtracks(const Pattern& pattern) {
  const auto last = pattern.pieces.empty() || pattern.at_end ? pattern.pieces.end() : pattern.pieces.end() - 1;
  return std::any_of(pattern.pieces.begin(), last, [](const Piece& piece) { return piece.repeats; });
}

// "[^0-9.]" from its bracket on; the place behind it.
std::optional<std::size_t> add_class(const std::string& text, std::size_t at, std::bitset<256>& any_of) {
  const bool others = at + 1 < text.size() && text[at + 1] == '^';
  const std::size_t begin = at + (others ? 2 : 1), end = text.find(']', begin + 1);
  if (end == std::string::npos) return std::nullopt;
  const std::string inner = text.substr(begin, end - begin);
  if (inner.find_first_of("[\\") != std::string::npos) return std::nullopt;
  const auto characters = characters_of(inner);
  if (!characters) return std::nullopt;
  for (const char c : *characters) any_of.set(index_of(c));
  if (others) any_of.flip();
  return end + 1;
}

std::optional<Pattern> pattern_of(const std::string& text, bool extended) {
  Pattern found;
  std::size_t stars = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '^' && at == 0) {
      found.at_begin = true;
      ++at;
      continue;
    }
    if (c == '$' && at + 1 == text.size()) {
      found.at_end = true;
      break;
    }
    const bool gnu = !extended && text.compare(at, 2, "\\+") == 0;
    const bool once_or_more = gnu || (extended && c == '+');
    if ((c == '*' || once_or_more) && !found.pieces.empty() && !found.pieces.back().repeats) {
      if (++stars > kMaxStars) return std::nullopt;
      if (once_or_more) found.pieces.push_back(found.pieces.back());
      found.pieces.back().repeats = true;
      at += gnu ? 2 : 1;
      continue;
    }
    if (c == '*' || (extended && std::string_view("+?(){}|").find(c) != std::string_view::npos)) return std::nullopt;
    Piece& piece = found.pieces.emplace_back();
    if (c == '[') {
      const auto end = add_class(text, at, piece.any_of);
      if (!end) return std::nullopt;
      at = *end;
      continue;
    }
    if (c == '.') {
      piece.any_of.set();
    } else if (c == '\\') {
      // Letters, digits, groups and GNU's operators behind it mean something else.
      if (++at == text.size() || std::string_view("./-_:*[]^$\\ ").find(text[at]) == std::string_view::npos)
        return std::nullopt;
      piece.any_of.set(index_of(text[at]));
    } else {
      piece.any_of.set(index_of(c));
    }
    ++at;
  }
  return found;
}

// The replacement with `&` as what was matched; nullopt: it names a group.
std::optional<std::string> replaced(const std::string& by, std::string_view matched) {
  std::string text;
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (by[i] == '&') {
      text += matched;
    } else if (by[i] == '\\') {
      if (++i == by.size() || std::string_view("&/\\-.").find(by[i]) == std::string_view::npos) return std::nullopt;
      text += by[i];
    } else {
      text += by[i];
    }
  }
  return text;
}

struct Substitution {
  Pattern pattern;
  std::string by;
  bool everywhere = false;
};

// "s/pattern/by/g" with any separator; nullopt: another command.
std::optional<Substitution> substitution_of(const std::string& script, bool extended) {
  if (script.size() < 4 || script[0] != 's') return std::nullopt;
  std::vector<std::string> parts = {""};
  for (std::size_t i = 2; i < script.size(); ++i) {
    if (script[i] == '\\' && i + 1 < script.size()) {
      parts.back() += script[i];
      parts.back() += script[++i];
    } else if (script[i] == script[1]) {
      parts.emplace_back();
    } else {
      parts.back() += script[i];
    }
  }
  if (parts.size() != 3 || (!parts[2].empty() && parts[2] != "g") || parts[0].empty()) return std::nullopt;
  auto pattern = pattern_of(parts[0], extended);
  if (!pattern) return std::nullopt;
  return Substitution{*std::move(pattern), parts[1], parts[2] == "g"};
}

std::optional<std::string> substituted_in(const std::string& line, const Substitution& asked) {
  if (line.size() > kMaxInput && backtracks(asked.pattern)) return std::nullopt;
  std::string text;
  bool done = false;
  std::size_t last_end = line.size() + 1;  // of the match before; nothing just behind it is none
  for (std::size_t i = 0; i <= line.size();) {
    const bool may = !done && (i == 0 || !asked.pattern.at_begin);
    const auto length = may ? asked.pattern.match(line, i) : std::nullopt;
    if (length && (*length > 0 || i != last_end)) {
      const auto by = replaced(asked.by, std::string_view(line).substr(i, *length));
      if (!by) return std::nullopt;
      text += *by;
      done = !asked.everywhere;
      last_end = i + *length;
    }
    const std::size_t step = length.value_or(0);
    if (step == 0 && i < line.size()) text += line[i];
    i += std::max<std::size_t>(1, step);
  }
  return text;
}

std::optional<std::string> substituted(const std::vector<std::string>& words, const std::string& input) {
  std::vector<std::string> scripts;
  bool extended = false;
  for (std::size_t at = 1; at < words.size(); ++at) {
    if (words[at] == "-E" || words[at] == "-r")
      extended = true;
    else if (words[at] == "-e" && at + 1 < words.size())
      scripts.push_back(words[++at]);
    else if (!words[at].starts_with('-') && scripts.empty() && at + 1 == words.size())
      scripts.push_back(words[at]);
    else
      return std::nullopt;
  }
  if (scripts.empty() || input.size() > kMaxText) return std::nullopt;
  std::vector<std::string> lines = split(input, '\n');
  for (const std::string& script : scripts) {
    const auto asked = substitution_of(script, extended);
    if (!asked) return std::nullopt;
    for (std::string& line : lines) {
      auto by = substituted_in(line, *asked);
      if (!by) return std::nullopt;
      line = *std::move(by);
    }
  }
  return join(lines, "\n");
}

// --- cut ---

std::optional<std::string> field_of(const std::vector<std::string>& words, const std::string& input) {
  std::string given[2];  // separator, field
  for (std::size_t at = 1; at < words.size(); ++at) {
    if (!words[at].starts_with("-d") && !words[at].starts_with("-f")) return std::nullopt;
    std::string& value = given[words[at][1] == 'd' ? 0 : 1];
    value = words[at].substr(2);
    if (value.empty() && at + 1 < words.size()) value = words[++at];
  }
  const std::string& number = given[1];
  const bool whole =
      !number.empty() && number.size() < 3 && number.find_first_not_of("0123456789") == std::string::npos;
  if (given[0].size() != 1 || !whole || number == "0" || input.find('\n') != std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = split(input, given[0][0]);
  const auto at = static_cast<std::size_t>(std::stoi(number)) - 1;
  if (fields.size() == 1) return input;
  return at < fields.size() ? fields[at] : "";
}

// --- grep ---

// The lines in which a pattern is found.
std::optional<std::string> found_lines(const std::vector<std::string>& words, const std::string& input) {
  std::size_t at = 1;
  bool extended = false, fixed = false, inverted = false;
  for (; at < words.size() && words[at].size() > 1 && words[at][0] == '-' && words[at] != "--"; ++at)
    for (const char option : words[at].substr(1)) {
      if (std::string_view("qsEFv").find(option) == std::string_view::npos) return std::nullopt;
      extended = extended || option == 'E';
      fixed = fixed || option == 'F';
      inverted = inverted || option == 'v';
    }
  if (at < words.size() && words[at] == "--") ++at;
  if (at + 1 != words.size() || words[at].empty() || input.size() > kMaxText) return std::nullopt;
  const auto pattern = fixed ? std::nullopt : pattern_of(words[at], extended);
  if (!fixed && !pattern) return std::nullopt;
  std::string text;
  for (const std::string& line : split(input, '\n')) {
    if (pattern && backtracks(*pattern) && line.size() > kMaxInput) return std::nullopt;
    bool found = fixed && line.find(words[at]) != std::string::npos;
    for (std::size_t i = 0; pattern && !found && i <= (pattern->at_begin ? 0 : line.size()); ++i)
      found = pattern->match(line, i).has_value();
    if (found != inverted) text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

// --- wc, head ---

// nullopt for an empty text, which may be no line or an empty one.
std::optional<std::string> counted(const std::vector<std::string>& words, const std::string& input) {
  if (words.size() != 2 || input.empty()) return std::nullopt;
  if (words[1] == "-l") return std::to_string(1 + std::count(input.begin(), input.end(), '\n'));
  if (words[1] != "-w") return std::nullopt;
  std::size_t count = 0;
  for (std::size_t at = input.find_first_not_of(" \t\n"); at != std::string::npos; ++count)
    at = input.find_first_not_of(" \t\n", std::min(input.find_first_of(" \t\n", at), input.size()));
  return std::to_string(count);
}

// "head -n1", "head -n 1", "head -1".
std::optional<std::string> first_lines(const std::vector<std::string>& words, const std::string& input) {
  std::string flags;
  for (std::size_t i = 1; i < words.size(); ++i) flags += words[i];
  if (flags != "-n1" && flags != "-1") return std::nullopt;
  return input.substr(0, input.find('\n'));
}

}  // namespace

std::optional<std::string> filtered(const std::vector<std::string>& words, const std::string& input) {
  if (words.empty()) return std::nullopt;
  if (words[0] == "tr") return translated(words, input);
  if (words[0] == "sed") return substituted(words, input);
  if (words[0] == "cut") return field_of(words, input);
  if (words[0] == "grep") return found_lines(words, input);
  if (words[0] == "wc") return counted(words, input);
  if (words[0] == "head") return first_lines(words, input);
  return std::nullopt;
}

}  // namespace meshwright
