// SPDX-License-Identifier: Apache-2.0
// What commands print, as far as it is known without running them.
#include <algorithm>

#include "core/base/text.h"
#include "launch/syntax/shell_conditions.h"
#include "launch/syntax/shell_filters.h"
#include "launch/syntax/shell_words.h"

namespace meshwright {

namespace {

// Blanks and line breaks are changed one by one, so that what is not known may stand between them: it keeps its mark.
// Nothing of other filters, whose result may depend on it.
std::optional<std::string> filtered_around_unknown(const std::vector<std::string>& words, const std::string& text) {
  const bool blanks =
      words.size() == 3 && words[0] == "tr" && words[1].find_first_not_of(" \t\n\\nt") == std::string::npos;
  const bool joins = words.size() == 2 && words[0] == "sed" && words[1].starts_with("s/ ");
  if (!blanks && !joins) return std::nullopt;
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = std::min(text.find(kUnresolved, at), text.size());
    const auto part = mark > at ? filtered(words, text.substr(at, mark - at)) : std::string();
    if (!part) return std::nullopt;
    made += *part;
    const std::size_t end = mark == text.size() ? mark : std::min(text.find('}', mark), text.size() - 1) + 1;
    made += text.substr(mark, end - mark);
    at = end;
  }
  return made;
}

bool names_paths(const std::string& command) {
  return command == "dirname" || command == "basename" || command == "realpath" || command == "readlink";
}

// "a/./b/../c" -> "a/c", "" -> ".". Paths stay relative to the folder of the script, from where files are looked for.
std::string plain_path(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == ".." && !parts.empty() && parts.back() != "..")
      parts.pop_back();
    else if (!part.empty() && part != "." && !(part == ".." && path.starts_with('/')))
      parts.push_back(part);
    at = end + 1;
  }
  const std::string joined = join(parts, "/");
  return path.starts_with('/') ? "/" + joined : joined.empty() ? "." : joined;
}

// The last part of "." and of ".." is the name of a folder that nothing tells.
bool has_name(const std::string& path) { return path != "." && path != "/" && !path.ends_with(".."); }

}  // namespace

// "dirname $0", "basename FILE .sh", "readlink -f FILE": parts of the words themselves, as no link is known.
std::optional<std::string> ShellWords::printed_of_path(const ShellNode& node) {
  std::vector<std::string> words;
  for (const ShellWord& field : fields_of(node)) words.push_back(field.text);
  const std::string name = words[0];
  const bool real = name == "realpath" || name == "readlink";
  const auto follows = [](const std::string& word) { return word == "-f" || word == "-e" || word == "-m"; };
  if (name == "readlink" && std::none_of(words.begin(), words.end(), follows)) return std::nullopt;
  std::erase_if(words, [&](const std::string& word) { return word == "--" || (real && follows(word)); });
  const bool ending = name == "basename" && words.size() == 3;
  if ((words.size() != 2 && !ending) || words[1].empty() || words[1].starts_with('-') ||
      !std::all_of(words.begin(), words.end(), [](const std::string& word) { return is_resolved(word); }))
    return std::nullopt;
  const std::string path = plain_path(words[1]);
  if (real) return path;
  if (name == "dirname") return plain_path(path + "/..");
  if (!has_name(path)) return std::nullopt;
  std::string last = path.substr(path.rfind('/') + 1);
  if (ending && last != words[2] && last.ends_with(words[2])) last.resize(last.size() - words[2].size());
  return last;
}

// "cd FOLDER && pwd".
std::optional<std::string> ShellWords::printed_by_moving(std::span<const ShellNode> nodes) {
  const auto plain = [](const ShellNode& node) {
    return node.kind == ShellNode::Kind::Simple && node.assignments.empty() && node.input.empty() && !node.negated;
  };
  if (nodes.size() != 2 || !plain(nodes[0]) || !plain(nodes[1]) || !nodes[1].output.empty() || nodes[1].before == '|' ||
      nodes[1].before == 'o')
    return std::nullopt;
  std::vector<std::string> moves, tells;
  for (const ShellWord& field : fields_of(nodes[0])) moves.push_back(field.text);
  for (const ShellWord& field : fields_of(nodes[1])) tells.push_back(field.text);
  std::erase_if(moves, [](const std::string& word) { return word == "--" || word == "-P"; });
  std::erase(tells, "-P");
  if (moves.size() != 2 || tells != std::vector<std::string>{"pwd"} || moves[1].empty() || moves[1] == "-" ||
      !is_resolved(moves[1]))
    return std::nullopt;
  return plain_path(moves[1]);
}

std::vector<ShellWord> ShellWords::fields_of(const ShellNode& node) {
  std::vector<ShellWord> words;
  for (const RawWord& raw : node.words)
    for (ShellWord& field : fields(raw)) words.push_back(std::move(field));
  return words;
}

// What functions, `echo` of words, `cat` of a here document, `cat` and `sed` of a known file, `pwd`, and `expr` of
// numbers print; nothing of other commands.
std::optional<std::string> ShellWords::printed(const std::string& inner, int line) {
  const std::size_t begin = std::min(inner.find_first_not_of(" \t\n\r"), inner.size());
  const std::string name = inner.substr(begin, inner.find_first_of(" \t\n|;", begin) - begin);
  if (name == "[" || name == "[[") return printed_by_test(parse_shell(inner, place_, line).nodes, line);
  const bool known = name == "echo" || name == "cat" || name == "expr" || name == "sed" || names_paths(name) ||
                     functions.contains(name);
  // Scripts are run where they lie, as far as paths tell.
  if (name == "pwd" && inner.find_last_not_of(" \t\n\r") == begin + 2) return ".";
  if (name == "cd") return printed_by_moving(parse_shell(inner, place_, line).nodes);
  return known ? piped(parse_shell(inner, place_, line).nodes, line) : std::nullopt;
}

// "[ $CP -gt 1 ] && echo 2 || echo 1", where the test is known.
std::optional<std::string> ShellWords::printed_by_test(std::span<const ShellNode> nodes, int line) {
  const bool chain = nodes.size() == 3 && nodes[1].before == '&' && nodes[2].before == 'o' && !nodes[0].negated;
  if (!chain) return std::nullopt;
  std::vector<std::string> parts;
  for (const ShellWord& field : fields_of(nodes[0])) parts.push_back(field.text);
  if (nodes[0].kind == ShellNode::Kind::Simple) {
    if (parts.size() < 3 || parts.front() != "[" || parts.back() != "]") return std::nullopt;
    parts = {parts.begin() + 1, parts.end() - 1};
  } else if (nodes[0].kind != ShellNode::Kind::Test) {
    return std::nullopt;
  }
  const Truth holds = condition_of(parts, *this);
  return holds ? printed_by(nodes[*holds ? 1 : 2], line) : std::nullopt;
}

std::optional<std::string> ShellWords::printed_by(const ShellNode& node, int line) {
  const bool plain = node.kind == ShellNode::Kind::Simple && node.assignments.empty() && node.output.empty();
  if (!plain || node.words.empty()) return std::nullopt;
  const std::string name = node.words[0].text;
  std::optional<std::string> text;
  if (functions.contains(name)) {
    text = output_of_call(node);
  } else if (name == "cat" && node.words.size() == 1 && node.has_document) {
    text = node.input_quoted ? node.input : document(node.input, node.line);
  } else if (!node.input.empty()) {
    return std::nullopt;
  } else if (name == "cat" || name == "sed") {
    text = printed_of_file(node);
  } else if (name == "echo") {
    text = echoed_words(node);
  } else if (names_paths(name)) {
    text = printed_of_path(node);
  } else if (name == "expr") {
    std::vector<ShellWord> words = fields_of(node);
    words.erase(words.begin());
    const std::string sum = joined_words(words);
    if (sum.find_first_not_of("0123456789+-*/%() ") != std::string::npos) return std::nullopt;
    if (const auto value = arithmetic(sum, line)) text = fmt::format("{}", *value);
  }
  while (text && text->ends_with('\n')) text->pop_back();
  return text;
}

// Not of names of files, which only running the script would tell, nor of options.
std::optional<std::string> ShellWords::echoed_words(const ShellNode& node) {
  std::vector<ShellWord> words;
  for (std::size_t i = 1; i < node.words.size(); ++i) {
    const std::string& raw = node.words[i].text;
    const bool sum = raw.starts_with("$((") && raw.find("))") + 2 == raw.size();  // in which * multiplies
    if ((i == 1 && raw.starts_with('-') && raw != "-n") || (!sum && raw.find_first_of("*?[~") != std::string::npos))
      return std::nullopt;
    if (i > 1 || raw != "-n")
      for (ShellWord& field : fields(node.words[i])) words.push_back(std::move(field));
  }
  return joined_words(words);
}

// "cat FILE", "sed s/a/b/ FILE".
std::optional<std::string> ShellWords::printed_of_file(const ShellNode& node) {
  std::vector<std::string> words;
  for (const ShellWord& field : fields_of(node)) words.push_back(field.text);
  const bool changes = words[0] == "sed";
  if (!text_of_file || words.size() < (changes ? 3u : 2u) || (!changes && words.size() > 2) ||
      !std::all_of(words.begin(), words.end(), [](const std::string& word) { return is_resolved(word); }))
    return std::nullopt;
  const auto file = text_of_file(words.back());
  words.pop_back();
  return file && changes ? filtered(words, *file) : file;
}

std::optional<std::string> ShellWords::piped(std::span<const ShellNode> pipe, int line) {
  std::optional<std::string> text = pipe.empty() ? std::nullopt : printed_by(pipe[0], line);
  for (std::size_t i = 1; text && i < pipe.size(); ++i) {
    const ShellNode& node = pipe[i];
    const bool plain = node.kind == ShellNode::Kind::Simple && node.before == '|' && node.assignments.empty() &&
                       node.output.empty() && node.input.empty();
    if (!plain) return std::nullopt;
    std::vector<std::string> words;
    for (const ShellWord& field : fields_of(node)) words.push_back(field.text);
    if (!std::all_of(words.begin(), words.end(), [](const std::string& word) { return is_resolved(word); }))
      return std::nullopt;
    text = is_resolved(*text) ? filtered(words, *text) : filtered_around_unknown(words, *text);
  }
  return text;
}

}  // namespace meshwright
