// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_tree.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/errors.h"
#include "launch/syntax/config_value.h"
#include "launch/syntax/shell_commands.h"
#include "launch/syntax/shell_parts.h"

namespace meshwright {

namespace {

bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class ShellParser {
 public:
  ShellParser(const std::string& text, const std::string& place, int line) : text_(text), place_(place), line_(line) {}

  ShellTree parse() {
    tree_.nodes = list({}, 0);
    expect(at_ >= text_.size(), line_, fmt::format("'{}' ends what nothing has begun", peek()));
    return std::move(tree_);
  }

 private:
  void expect(bool sound, int line, const std::string& sentence) const {
    if (!sound) throw InputError(fmt::format("{}:{}: {}.", place_, line, sentence));
  }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void next() {
    if (text_[at_++] == '\n') ++line_;
  }
  // Blanks, continued lines and comments, not the end of the line.
  void skip_blanks() {
    for (;;) {
      if (is_shell_blank(peek())) {
        next();
      } else if (peek() == '\\' && peek(1) == '\n') {
        next();
        next();
      } else if (peek() == '\\' && peek(1) == '\r' && peek(2) == '\n') {
        for (int i = 0; i < 3; ++i) next();
      } else if (peek() == '#') {
        comment();
      } else {
        return;
      }
    }
  }
  void comment() {
    const std::size_t from = at_;
    while (at_ < text_.size() && peek() != '\n') next();
    if (const std::string options = batch_options(text_.substr(from, at_ - from)); !options.empty())
      tree_.directives.push_back({options, line_});
  }
  void skip_lines() {
    for (skip_blanks(); peek() == '\n' && at_ < text_.size(); skip_blanks()) end_of_line();
  }
  void end_of_line() {
    const bool before_document = at_ == here_line_end_;
    next();
    if (!before_document) return;
    while (at_ < here_end_) next();
    here_line_end_ = std::string::npos;
  }

  // The document begins behind the line that asks for it, or behind the one before it of the same line.
  std::string here_document(const std::string& mark, bool tabs) {
    const int first = line_;
    std::size_t from = here_end_;
    if (here_line_end_ == std::string::npos) {
      std::size_t end = at_;
      while (end < text_.size() && text_[end] != '\n')
        if (!skip_part(text_, end)) end = text_.size();
      here_line_end_ = end;
      from = end + 1;
    }
    std::string body;
    while (from < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', from), text_.size());
      std::string line = text_.substr(from, end - from);
      from = end + 1;
      if (tabs) line.erase(0, line.find_first_not_of('\t'));
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line == mark) {
        here_end_ = std::min(from, text_.size());
        return body;
      }
      body += line + "\n";
    }
    expect(false, first, fmt::format("the here document has no line '{}' that ends it", mark));
    return body;
  }

  RawWord word() {
    RawWord found{"", line_};
    while (at_ < text_.size()) {
      if (const std::size_t end = placeholder_end(text_, at_); end > at_) {
        found.text.append(text_, at_, end - at_);
        at_ = end;
        continue;
      }
      if (ends_word_at(peek())) break;
      if (peek() == '\\' && peek(1) == '\n') {
        // "a\" at the end of a line goes on in the next.
        if (ends_word_at(peek(2)) || peek(2) == '#') break;
        next();
        next();
        continue;
      }
      std::size_t end = at_;
      const int line = line_;
      const bool whole = skip_part(text_, end);
      expect(whole, line, fmt::format("what begins here with {} has no end", peek()));
      found.text.append(text_, at_, end - at_);
      while (at_ < end) next();
    }
    return found;
  }

  [[nodiscard]] std::string peek_word() const {
    std::size_t end = at_;
    while (end < text_.size() && !ends_word_at(text_[end]) && end - at_ < 16) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take(const std::string& reserved) {
    if (peek_word() != reserved) return false;
    at_ += reserved.size();
    return true;
  }
  void need(const std::string& reserved, int line, const char* of) {
    skip_lines();
    expect(take(reserved), line, fmt::format("'{}' of the '{}' that begins here is missing", reserved, of));
  }

  // Nodes until one of the words `ends`, or a closing bracket or ";;", at the place of a command.
  std::vector<ShellNode> list(const std::set<std::string>& ends, int depth) {
    expect(depth < kMaxLaunchDepth, line_, "blocks are nested too deeply");
    std::vector<ShellNode> nodes;
    char before = ';';
    for (;;) {
      skip_lines();
      if (at_ >= text_.size() || peek() == ')' || (peek() == ';' && peek(1) == ';') || ends.contains(peek_word()))
        return nodes;
      ShellNode made = command(depth);
      made.before = before;
      nodes.push_back(std::move(made));
      before = separator();
      expect(++count_ <= kMaxLaunchValues, line_, "the script has too many commands");
    }
  }

  // What stands behind a command.
  char separator() {
    skip_blanks();
    if (peek() == '\n') {
      end_of_line();
      return ';';
    }
    if ((peek() == '&' || peek() == '|') && peek(1) == peek()) {
      const char joint = peek() == '&' ? '&' : 'o';
      at_ += 2;
      return joint;
    }
    if (peek() == '|') {
      at_ += peek(1) == '&' ? 2 : 1;
      return '|';
    }
    if (peek() == '&' || (peek() == ';' && peek(1) != ';')) ++at_;
    return ';';
  }

  ShellNode command(int depth) {
    ShellNode node;
    node.line = line_;
    while (peek() == '!' && is_shell_blank(peek(1))) {
      node.negated = !node.negated;
      ++at_;
      skip_blanks();
      node.line = line_;
    }
    if (take("if")) return if_node(std::move(node), depth);
    if (take("for")) return for_node(std::move(node), depth);
    if (take("until")) node.words.push_back({"until", node.line});
    if (!node.words.empty() || take("while") || take("select")) return loop_node(std::move(node), depth);
    if (take("case")) return case_node(std::move(node), depth);
    if (take("function")) {
      skip_blanks();
      node.name = word().text;
      skip_blanks();
      if (peek() == '(') at_ += 1;
      skip_blanks();
      if (peek() == ')') at_ += 1;
      skip_lines();
      return function_node(std::move(node), depth);
    }
    if (peek() == '(' && peek(1) == '(') return arithmetic(std::move(node));
    if (peek() == '(') return group(std::move(node), ")", depth);
    if (take("{")) return group(std::move(node), "}", depth);
    if (take("[[")) return test(std::move(node));
    return simple(std::move(node), depth);
  }

  ShellNode if_node(ShellNode node, int depth) {
    node.kind = ShellNode::Kind::If;
    const int line = node.line;
    node.lists.push_back(list({"then"}, depth + 1));
    need("then", line, "if");
    node.lists.push_back(list({"elif", "else", "fi"}, depth + 1));
    for (;;) {
      skip_lines();
      if (take("elif")) {
        node.lists.push_back(list({"then"}, depth + 1));
        need("then", line, "if");
        node.lists.push_back(list({"elif", "else", "fi"}, depth + 1));
      } else if (take("else")) {
        node.lists.push_back(list({"fi"}, depth + 1));
      } else {
        break;
      }
    }
    need("fi", line, "if");
    redirections(node);
    return node;
  }

  ShellNode for_node(ShellNode node, int depth) {
    node.kind = ShellNode::Kind::For;
    skip_blanks();
    if (peek() == '(') {  // for ((i = 0; i < N; i++))
      node = arithmetic(std::move(node));
      node.kind = ShellNode::Kind::Loop;
      node.lists.emplace_back();
    } else {
      node.name = word().text;
      skip_lines();
      if (take("in")) {
        for (skip_blanks(); peek() != '\n' && peek() != ';' && at_ < text_.size(); skip_blanks()) {
          const std::size_t from = at_;
          node.words.push_back(word());
          if (at_ == from) break;
        }
      } else {
        node.words.push_back({"\"$@\"", node.line});
      }
    }
    skip_blanks();
    if (peek() == ';') ++at_;
    need("do", node.line, "for");
    node.lists.push_back(list({"done"}, depth + 1));
    need("done", node.line, "for");
    redirections(node);
    return node;
  }

  ShellNode loop_node(ShellNode node, int depth) {
    node.kind = ShellNode::Kind::Loop;
    node.lists.push_back(list({"do"}, depth + 1));
    need("do", node.line, "while");
    node.lists.push_back(list({"done"}, depth + 1));
    need("done", node.line, "while");
    redirections(node);
    return node;
  }

  ShellNode case_node(ShellNode node, int depth) {
    node.kind = ShellNode::Kind::Case;
    skip_blanks();
    node.words.push_back(word());
    need("in", node.line, "case");
    for (skip_lines(); !take("esac"); skip_lines()) {
      expect(at_ < text_.size(), node.line, "'esac' of the 'case' that begins here is missing");
      if (peek() == '(') ++at_;
      std::vector<std::string> patterns;
      for (;;) {
        skip_blanks();
        patterns.push_back(word().text);
        skip_blanks();
        if (peek() != '|') break;
        ++at_;
      }
      expect(peek() == ')', line_, "')' is missing behind a pattern of a 'case'");
      ++at_;
      node.patterns.push_back(std::move(patterns));
      node.lists.push_back(list({"esac"}, depth + 1));
      skip_blanks();
      while (peek() == ';' || peek() == '&') ++at_;
    }
    return node;
  }

  ShellNode function_node(ShellNode node, int depth) {
    node.kind = ShellNode::Kind::Function;
    expect(depth < kMaxLaunchDepth, node.line, "blocks are nested too deeply");
    node.lists.push_back({command(depth + 1)});
    return node;
  }

  ShellNode group(ShellNode node, const std::string& end, int depth) {
    node.kind = ShellNode::Kind::Group;
    if (end == ")") ++at_;
    node.lists.push_back(list(end == ")" ? std::set<std::string>{} : std::set{end}, depth + 1));
    skip_lines();
    expect(peek() == end[0], node.line, fmt::format("'{}' of the block that begins here is missing", end));
    ++at_;
    redirections(node);
    return node;
  }

  ShellNode test(ShellNode node) {
    node.kind = ShellNode::Kind::Test;
    for (;;) {
      skip_lines();
      expect(at_ < text_.size(), node.line, "']]' of the '[[' that begins here is missing");
      if (take("]]")) return node;
      RawWord found{"", line_};
      if (peek() == '&' || peek() == '|') {
        found.text = text_.substr(at_, 2);
        at_ = std::min(at_ + 2, text_.size());
      } else if (ends_word_at(peek())) {
        found.text = std::string(1, peek());
        ++at_;
      } else {
        found = word();
      }
      node.words.push_back(std::move(found));
    }
  }

  ShellNode arithmetic(ShellNode node) {
    node.kind = ShellNode::Kind::Arithmetic;
    std::size_t end = at_ + 1;
    const bool whole = skip_bracket(text_, end, '(', ')', 0);
    expect(whole, node.line, "'))' of the '((' that begins here is missing");
    std::string inner = text_.substr(at_ + 1, end - at_ - 2);
    while (at_ < end) next();
    if (inner.size() >= 2 && inner.front() == '(' && inner.back() == ')') inner = inner.substr(1, inner.size() - 2);
    node.words.push_back({inner, node.line});
    return node;
  }

  // "NAME=", "NAME+=" or "NAME[index]=" at the place of a word, and what is assigned.
  std::optional<ShellNode::Assignment> assignment() {
    std::size_t end = at_;
    if (end >= text_.size() || std::isdigit(static_cast<unsigned char>(text_[end])) != 0) return std::nullopt;
    while (end < text_.size() && is_word_part(text_[end])) ++end;
    ShellNode::Assignment made;
    made.name = text_.substr(at_, end - at_);
    if (made.name.empty() || end >= text_.size()) return std::nullopt;
    if (text_[end] == '[') {
      const std::size_t close = text_.find_first_of("]\n", end);
      if (close == std::string::npos || text_[close] != ']') return std::nullopt;
      made.index = text_.substr(end + 1, close - end - 1);
      end = close + 1;
    }
    if (end < text_.size() && text_[end] == '+') {
      made.append = true;
      ++end;
    }
    if (end >= text_.size() || text_[end] != '=') return std::nullopt;
    at_ = end + 1;
    if (peek() == '(') {
      made.array = true;
      made.items = array_items();
    } else {
      made.value = word();
    }
    return made;
  }

  std::vector<RawWord> array_items() {
    const int line = line_;
    std::vector<RawWord> items;
    ++at_;
    for (;;) {
      skip_lines();
      expect(at_ < text_.size(), line, "the array that begins here has no ')'");
      if (peek() == ')') break;
      const std::size_t from = at_;
      items.push_back(word());
      expect(at_ > from, line_, fmt::format("'{}' stands in an array; quote it", peek()));
    }
    ++at_;
    return items;
  }

  ShellNode simple(ShellNode node, int depth) {
    bool only_assignments = true;
    for (;;) {
      skip_blanks();
      if (redirection(node)) continue;
      const char c = peek();
      if (at_ >= text_.size() || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')') break;
      if (c == '(') {
        expect(node.words.size() == 1 && node.assignments.empty(), line_,
               "'(' stands where a word is expected; quote it");
        ++at_;
        skip_blanks();
        expect(peek() == ')', line_, "'(' stands where a word is expected; quote it");
        ++at_;
        node.name = node.words[0].text;
        node.words.clear();
        skip_lines();
        return function_node(std::move(node), depth);
      }
      const bool declares = !node.words.empty() && declares_names(node.words[0].text);
      if (only_assignments || declares) {
        if (auto made = assignment()) {
          node.assignments.push_back(*std::move(made));
          continue;
        }
      }
      only_assignments = false;
      const std::size_t from = at_;
      node.words.push_back(word());
      expect(at_ > from, line_, fmt::format("'{}' stands where a word is expected", c));
    }
    return node;
  }

  void redirections(ShellNode& node) {
    for (skip_blanks(); redirection(node); skip_blanks()) {
    }
  }

  // "2>&1", "> file", "<<EOF", "<<< word", ...
  bool redirection(ShellNode& node) {
    std::size_t at = at_;
    while (at < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at])) != 0) ++at;
    if (at < text_.size() && text_[at] == '&' && at + 1 < text_.size() && text_[at + 1] == '>') ++at;
    if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) return false;
    if (placeholder_end(text_, at) > at) return false;
    const bool out = text_[at] == '>';
    at_ = at + 1;
    if (!out && peek() == '<') {
      ++at_;
      if (peek() == '<') {
        ++at_;
        skip_blanks();
        node.input = word().text;
        return true;
      }
      here(node);
      return true;
    }
    if (peek() == '(') {  // a process substitution
      --at_;
      std::size_t end = at_ + 2;
      const bool whole = skip_bracket(text_, end, '(', ')', 0);
      expect(whole, line_, "what begins here with ( has no end");
      while (at_ < end) next();
      return true;
    }
    while (peek() == '>' || peek() == '&' || peek() == '|') ++at_;
    skip_blanks();
    const std::string name = word().text;
    const bool number = std::isdigit(static_cast<unsigned char>(name.empty() ? ' ' : name[0])) != 0;
    if (out && (!number || name == "2")) node.output = number ? "/dev/stderr" : name;
    return true;
  }
  void here(ShellNode& node) {
    const bool tabs = peek() == '-';
    if (tabs) ++at_;
    skip_blanks();
    std::string mark = word().text;
    node.input_quoted = std::erase_if(mark, [](char each) { return each == '\'' || each == '"' || each == '\\'; }) > 0;
    expect(!mark.empty(), line_, "the word that ends the here document is missing");
    node.input = here_document(mark, tabs);
    node.has_document = true;
  }

  const std::string& text_;
  const std::string& place_;
  std::size_t at_ = 0;
  int line_;
  std::size_t count_ = 0;
  std::size_t here_line_end_ = std::string::npos, here_end_ = 0;  // of the line that asks for documents, and of these
  ShellTree tree_;
};

}  // namespace

ShellTree parse_shell(const std::string& text, const std::string& place, int first_line) {
  require(text.size() <= kMaxLaunchFile, "{}:{}: the file is larger than 4 MB; launch files are shorter.", place,
          first_line);
  return ShellParser(text, place, first_line).parse();
}

}  // namespace meshwright
