// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/einsum.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/names.h"
#include "core/graph/import/primitive/contraction.h"

namespace meshwright::primitive {

namespace {

constexpr std::string_view kEllipsis = "...";
constexpr std::size_t kMaxUnnamed = 10;

// A value with a letter for each of its dimensions; unnamed ones have digits.
struct Lettered {
  int node;
  std::string letters;
};

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

std::int64_t place_of(const std::string& letters, char letter) {
  return static_cast<std::int64_t>(letters.find(letter));
}

class Equation {
 public:
  Equation(Builder& b, std::string text, const std::vector<int>& operands) : b_(b) {
    std::erase(text, ' ');
    const std::size_t arrow = text.find("->");
    const std::vector<std::string> terms = split(text.substr(0, arrow), ',');
    b.expect(terms.size() == operands.size(),
             fmt::format("its equation '{}' is not of {} operands", printable_part(text), operands.size()));
    std::vector<std::size_t> unnamed;
    for (std::size_t k = 0; k < terms.size(); ++k) {
      const bool open = terms[k].find(kEllipsis) != std::string::npos;
      const std::size_t named = terms[k].size() - (open ? kEllipsis.size() : 0), rank = b.shape(operands[k]).size();
      b.expect(open ? rank >= named && rank - named <= kMaxUnnamed : rank == named,
               fmt::format("its term '{}' is not of {} dimensions", printable_part(terms[k]), rank));
      unnamed.push_back(rank - named);
      most_ = std::max(most_, unnamed.back());
    }
    for (std::size_t k = 0; k < terms.size(); ++k)
      terms_.push_back({operands[k], without_ellipsis(terms[k], unnamed[k])});
    result_ = arrow == std::string::npos ? usual_result() : without_ellipsis(text.substr(arrow + 2), most_);
    for (const char letter : result_)
      b.expect(std::any_of(terms_.begin(), terms_.end(), [&](const Lettered& t) { return has(t.letters, letter); }),
               "its result has a letter that no operand has");
  }

  int made() {
    Lettered whole = alone(terms_[0], letters_from(1));
    for (std::size_t k = 1; k < terms_.size(); ++k) {
      const std::string later = letters_from(k + 1);
      whole = alone(product(whole, alone(terms_[k], later + whole.letters), later), later);
    }
    std::vector<std::int64_t> axes;
    for (const char letter : result_) axes.push_back(place_of(whole.letters, letter));
    return b_.transpose(whole.node, axes);
  }

 private:
  static std::string printable_part(const std::string& text) { return printable(text.substr(0, 40)); }

  // Unnamed dimensions are aligned at the right.
  std::string without_ellipsis(const std::string& term, std::size_t unnamed) {
    std::string digits;
    for (std::size_t d = most_ - unnamed; d < most_; ++d) digits += static_cast<char>('0' + d);
    const std::size_t at = term.find(kEllipsis);
    std::string letters =
        at == std::string::npos ? term : term.substr(0, at) + digits + term.substr(at + kEllipsis.size());
    std::set<char> met;
    for (std::size_t k = 0; k < letters.size(); ++k) {
      const char c = letters[k];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool digit = at != std::string::npos && k >= at && k < at + digits.size();
      b_.expect(letter || digit, "its equation has other signs than letters, commas, one arrow and '...'");
      b_.expect(met.insert(c).second, "a letter twice in one term, as of a diagonal, has no equal here");
    }
    return letters;
  }

  // What is not summed: all unnamed dimensions, then the letters that occur once.
  [[nodiscard]] std::string usual_result() const {
    std::map<char, int> counts;
    for (const Lettered& term : terms_)
      for (const char letter : term.letters) ++counts[letter];
    std::string result;
    for (const auto& [letter, count] : counts)  // digits come before letters
      if (count == 1 || (letter >= '0' && letter <= '9')) result += letter;
    return result;
  }

  // Letters of the result and of the terms from `first` on.
  [[nodiscard]] std::string letters_from(std::size_t first) const {
    std::string letters = result_;
    for (std::size_t k = first; k < terms_.size(); ++k) letters += terms_[k].letters;
    return letters;
  }

  // Summed over what nothing else has.
  Lettered alone(Lettered of, const std::string& others) {
    std::vector<std::int64_t> axes;
    std::string kept;
    for (std::size_t d = 0; d < of.letters.size(); ++d) {
      if (has(others, of.letters[d]))
        kept += of.letters[d];
      else
        axes.push_back(static_cast<std::int64_t>(d));
    }
    return axes.empty() ? of : Lettered{b_.reduce(Kind::ReduceSum, of.node, axes, false), kept};
  }

  Lettered product(const Lettered& x, const Lettered& y, const std::string& later) {
    ContractionSide left{x.node}, right{y.node};
    std::string batch, own_x, own_y;
    for (const char letter : x.letters) {
      const std::int64_t at = place_of(x.letters, letter);
      if (!has(y.letters, letter)) {
        left.own.push_back(at);
        own_x += letter;
        continue;
      }
      const bool stays = has(later, letter);
      (stays ? left.batch : left.summed).push_back(at);
      (stays ? right.batch : right.summed).push_back(place_of(y.letters, letter));
      if (stays) batch += letter;
    }
    for (const char letter : y.letters)
      if (!has(x.letters, letter)) {
        right.own.push_back(place_of(y.letters, letter));
        own_y += letter;
      }
    if (left.summed.empty()) return {outer(left, right), batch + own_x + own_y};
    const Contraction made = contract(b_, left, right);
    return {made.node, batch + (made.swapped ? own_y + own_x : own_x + own_y)};
  }

  // Nothing is summed: elements times elements.
  int outer(const ContractionSide& x, const ContractionSide& y) {
    const auto in_order = [&](const ContractionSide& side, std::size_t at, std::size_t count) {
      std::vector<std::int64_t> axes = side.batch, wide;
      axes.insert(axes.end(), side.own.begin(), side.own.end());
      for (std::size_t k = 0; k < count; ++k) wide.push_back(static_cast<std::int64_t>(at + k));
      const int turned = b_.transpose(side.node, axes);
      return wide.empty() ? turned : b_.unsqueeze(turned, wide);
    };
    const std::size_t batch = x.batch.size();
    return b_.binary(Kind::Multiply, in_order(x, batch + x.own.size(), y.own.size()), in_order(y, batch, x.own.size()));
  }

  Builder& b_;
  std::size_t most_ = 0;  // unnamed dimensions of an operand
  std::vector<Lettered> terms_;
  std::string result_;
};

}  // namespace

int einsum(Builder& b, std::string equation, const std::vector<int>& operands) {
  return Equation(b, std::move(equation), operands).made();
}

}  // namespace meshwright::primitive
