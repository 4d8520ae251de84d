// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_conditions.h"

#include <cctype>

#include "launch/syntax/config_value.h"
#include "launch/syntax/shell_glob.h"

namespace meshwright {

namespace {

class Conditions {
 public:
  Conditions(const std::vector<std::string>& parts, ShellWords& words) : parts_(parts), words_(words) {}

  Truth whole() {
    std::size_t at = 0;
    const Truth truth = either(at, 0);
    return at == parts_.size() ? truth : std::nullopt;
  }

 private:
  Truth either(std::size_t& at, int depth) {
    Truth truth = both(at, depth);
    while (at < parts_.size() && (parts_[at] == "||" || parts_[at] == "-o")) {
      ++at;
      const Truth right = both(at, depth);
      truth = truth == Truth{true} || right == Truth{true} ? Truth{true} : truth && right ? Truth{false} : std::nullopt;
    }
    return truth;
  }
  Truth both(std::size_t& at, int depth) {
    Truth truth = one(at, depth);
    while (at < parts_.size() && (parts_[at] == "&&" || parts_[at] == "-a")) {
      ++at;
      const Truth right = one(at, depth);
      truth = truth == Truth{false} || right == Truth{false} ? Truth{false}
              : truth && right                               ? Truth{true}
                                                             : std::nullopt;
    }
    return truth;
  }
  Truth one(std::size_t& at, int depth) {
    if (at >= parts_.size() || depth > kMaxLaunchDepth) return std::nullopt;
    const std::string first = parts_[at++];
    if (first == "!" && at < parts_.size()) return negated(one(at, depth + 1));
    if (first == "(") {
      const Truth inner = either(at, depth + 1);
      if (at < parts_.size() && parts_[at] == ")") ++at;
      return inner;
    }
    const auto ends = [&] {
      return at >= parts_.size() || parts_[at] == "&&" || parts_[at] == "||" || parts_[at] == "-a" ||
             parts_[at] == "-o" || parts_[at] == ")";
    };
    if ((first == "-n" || first == "-z") && at < parts_.size()) {
      const std::string& text = parts_[at++];
      if (!is_resolved(text)) return std::nullopt;
      return (first == "-z") == text.empty();
    }
    if (ends()) return is_resolved(first) ? Truth{!first.empty()} : std::nullopt;
    if (first.size() == 2 && first[0] == '-' && std::isalpha(static_cast<unsigned char>(first[1])) != 0) {
      ++at;  // a file, or whether a variable is set
      return std::nullopt;
    }
    const std::string op = parts_[at++];
    if (at >= parts_.size()) return std::nullopt;
    return compare(first, op, parts_[at++]);
  }

  Truth compare(const std::string& a, const std::string& op, const std::string& b) {
    if (!is_resolved(a) || !is_resolved(b)) return std::nullopt;
    if (op == "=" || op == "==") return matches_glob(b, a);
    if (op == "!=") return !matches_glob(b, a);
    if (a.empty() || b.empty()) return false;  // an error of `[`, which is no
    const auto left = words_.arithmetic(a, 0), right = words_.arithmetic(b, 0);
    if (!left || !right) return std::nullopt;
    if (op == "-eq") return *left == *right;
    if (op == "-ne") return *left != *right;
    if (op == "-lt") return *left < *right;
    if (op == "-le") return *left <= *right;
    if (op == "-gt") return *left > *right;
    if (op == "-ge") return *left >= *right;
    return std::nullopt;
  }

  const std::vector<std::string>& parts_;
  ShellWords& words_;
};

}  // namespace

Truth negated(Truth truth) { return truth ? Truth{!*truth} : truth; }

Truth condition_of(const std::vector<std::string>& parts, ShellWords& words) {
  return Conditions(parts, words).whole();
}

}  // namespace meshwright
