// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- softmax ---

std::optional<Recogniser::Exponentials> Recogniser::sum_of_exponentials(int i) const {
  int sum = core(i);
  if (is(sum, Kind::Abs)) sum = core(at(sum).inputs[0]);
  if (!is(sum, Kind::ReduceSum) || at(sum).details.axes.size() != 1) return std::nullopt;
  const int power = at(sum).inputs[0];
  if (!is(power, Kind::Exp)) return std::nullopt;
  const int shifted = at(power).inputs[0];
  return Exponentials{power, shifted, without_maximum(shifted, at(sum).details.axes), at(sum).details.axes[0]};
}

// s, where i is s less its maximum over these axes; else i.
int Recogniser::without_maximum(int i, const std::vector<std::int64_t>& axes) const {
  if (!is(i, Kind::Subtract)) return i;
  const int maximum = core(at(i).inputs[1]), scores = at(i).inputs[0];
  const bool own = is(maximum, Kind::ReduceMax) && at(maximum).inputs[0] == scores && at(maximum).details.axes == axes;
  return own ? scores : i;
}

// The same for a softmax, where it need not be its own maximum: any number that is one along the axis changes nothing.
int Recogniser::without_shift(int i, std::int64_t axis) const {
  if (!is(i, Kind::Subtract) || !is(core(at(i).inputs[1]), Kind::ReduceMax)) return i;
  int shift = at(i).inputs[1];
  while (is(shift, Kind::Broadcast)) shift = at(shift).inputs[0];
  const std::size_t rank = at(i).shape.size(), own = at(shift).shape.size(), d = static_cast<std::size_t>(axis);
  const bool one = d + own < rank || at(shift).shape[d + own - rank] == 1;
  const int scores = at(i).inputs[0];
  return one && at(scores).shape == at(i).shape ? scores : i;
}

// e^z over its sum.
Recogniser::Found Recogniser::softmax(int numerator, int denominator) {
  const std::optional<Exponentials> sum = sum_of_exponentials(denominator);
  if (!sum || sum->power != numerator) return std::nullopt;
  Shape kept = at(numerator).shape;
  if (at(denominator).shape != kept) {
    kept[static_cast<std::size_t>(sum->axis)] = 1;
    if (at(denominator).shape != kept) return std::nullopt;
  }
  const int scores = sum->scores == sum->shifted ? without_shift(sum->shifted, sum->axis) : sum->scores;
  return b_.softmax(scores, sum->axis);
}

Recogniser::Found Recogniser::quotient(int x, int y) {
  if (const Found found = softmax(x, y)) return found;
  if (const Found found = weighted_values(x, y)) return found;
  const int root = core(y);
  if (is(root, Kind::Sqrt)) {  // x / sqrt(y) is x rsqrt(y)
    const int inverse = b_.reshape(b_.unary(Kind::Rsqrt, at(root).inputs[0]), at(y).shape);
    const Found norm = rms_norm({x, inverse});
    return norm ? *norm : b_.binary(Kind::Multiply, x, inverse);
  }
  return std::nullopt;
}

namespace {

// Dimensions of a tensor by what they were at the base: each a list of dimensions of it, with their sizes.
using Labels = std::vector<std::vector<std::pair<int, std::int64_t>>>;

// Reshapes and transposes from `i` down; the last one's operand is the base.
std::vector<int> chain_below(const Builder& b, int i) {
  std::vector<int> chain;
  while (b.at(i).kind == Kind::Reshape || b.at(i).kind == Kind::Transpose) {
    chain.push_back(i);
    i = b.at(i).inputs[0];
  }
  return chain;
}

int base_below(const Builder& b, int i) {
  const std::vector<int> chain = chain_below(b, i);
  return chain.empty() ? i : b.at(chain.back()).inputs[0];
}

// The labels of `i`, given those of its base; nothing where a reshape parts a dimension.
std::optional<Labels> labels_above(const Builder& b, int i, Labels labels) {
  const std::vector<int> chain = chain_below(b, i);
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    const Node& node = b.at(*link);
    Labels now;
    if (node.kind == Kind::Transpose) {
      for (const std::int64_t axis : node.details.axes) now.push_back(labels[static_cast<std::size_t>(axis)]);
    } else {
      std::vector<std::pair<int, std::int64_t>> all;
      for (const auto& dim : labels)
        for (const auto& label : dim)
          if (label.second != 1) all.push_back(label);
      std::size_t next = 0;
      for (std::int64_t left : node.shape) {
        now.emplace_back();
        while (left > 1) {
          if (next == all.size() || left % all[next].second != 0) return std::nullopt;
          left /= all[next].second;
          now.back().push_back(all[next++]);
        }
      }
      if (next != all.size()) return std::nullopt;
    }
    labels = std::move(now);
  }
  return labels;
}

}  // namespace

// Values weighed by e^z, over the sum of e^z: attention that divides last.
Recogniser::Found Recogniser::weighted_values(int numerator, int denominator) {
  const int product = base_below(b_, numerator), sum = base_below(b_, denominator);
  if (!is(product, Kind::MatMul)) return std::nullopt;
  const std::optional<Exponentials> powers = sum_of_exponentials(sum);
  if (!powers || !over_last(sum)) return std::nullopt;
  const std::vector<int> factors = at(product).inputs;
  for (const std::size_t k : {0u, 1u}) {
    if (base_below(b_, factors[k]) != powers->power) continue;
    Labels of_power;
    const Shape shape = at(powers->power).shape;
    for (std::size_t d = 0; d < shape.size(); ++d) of_power.push_back({{static_cast<int>(d), shape[d]}});
    Labels of_sum = of_power;
    of_sum.back().clear();
    const std::optional<Labels> factor = labels_above(b_, factors[k], of_power);
    const std::size_t rank = at(product).shape.size();
    if (!factor || factor->size() != rank) continue;
    // The factor's summed dimension must be the one that the powers are summed over.
    const std::size_t summed = k == 0 ? rank - 1 : rank - 2, own = k == 0 ? rank - 2 : rank - 1;
    if ((*factor)[summed] != of_power.back()) continue;
    Labels of_product = *factor;
    of_product[own] = (*factor)[own];
    of_product[summed] = {{-1, at(product).shape[summed]}};
    const std::optional<Labels> left = labels_above(b_, numerator, of_product),
                                right = labels_above(b_, denominator, of_sum);
    if (!left || !right || left->size() != right->size()) continue;
    bool fits = true;
    for (std::size_t d = 0; d < left->size(); ++d)
      fits = fits && ((*right)[d] == (*left)[d] || ((*right)[d].empty() && (*left)[d].size() <= 1 &&
                                                    ((*left)[d].empty() || (*left)[d][0].first == -1)));
    if (!fits) continue;
    const auto rebuilt = [&](int top, int base) {
      const std::vector<int> chain = chain_below(b_, top);
      for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
        const Node node = at(*link);
        base = node.kind == Kind::Transpose ? b_.transpose(base, node.details.axes) : b_.reshape(base, node.shape);
      }
      return base;
    };
    const int weights = rebuilt(factors[k], b_.softmax(powers->scores, powers->axis));
    const int x = k == 0 ? weights : factors[0], y = k == 0 ? factors[1] : weights;
    const Shape before = at(product).shape;
    const Found found = attention(x, y);
    return rebuilt(numerator, b_.reshape(found ? *found : b_.matmul(x, y), before));
  }
  return std::nullopt;
}

std::optional<Recogniser::LogSum> Recogniser::log_sum(int i) const {
  const int inner = core(i);
  if (is(inner, Kind::Log)) {
    const std::optional<Exponentials> sum = sum_of_exponentials(at(inner).inputs[0]);
    return sum ? std::optional(LogSum{*sum, sum->shifted == sum->scores}) : std::nullopt;
  }
  if (!is(inner, Kind::Add)) return std::nullopt;
  for (const std::size_t k : {0u, 1u}) {
    const int logarithm = core(at(inner).inputs[k]), maximum = core(at(inner).inputs[1 - k]);
    if (!is(logarithm, Kind::Log) || !is(maximum, Kind::ReduceMax)) continue;
    const std::optional<Exponentials> sum = sum_of_exponentials(at(logarithm).inputs[0]);
    if (sum && sum->scores != sum->shifted && at(maximum).inputs[0] == sum->scores) return LogSum{*sum, true};
  }
  return std::nullopt;
}

// z - log(sum(e^z)), or what a label picks of it, negative.
Recogniser::Found Recogniser::log_softmax(int x, int y) {
  if (const std::optional<LogSum> sum = log_sum(y)) {
    const bool fits = x == (sum->whole ? sum->of.scores : sum->of.shifted);
    if (fits) return b_.unary(Kind::Log, b_.softmax(sum->of.scores, sum->of.axis));
    const int picked = core(x);
    if (is(picked, Kind::PickLabel) && at(picked).inputs[0] == (sum->whole ? sum->of.scores : sum->of.shifted)) {
      const int logarithm = b_.unary(Kind::Log, b_.softmax(sum->of.scores, sum->of.axis));
      return b_.reshape(b_.pick_label(logarithm, at(picked).inputs[1]), at(x).shape);
    }
  }
  if (const std::optional<LogSum> sum = log_sum(x)) {
    const int picked = core(y);
    if (!is(picked, Kind::PickLabel) || at(picked).inputs[0] != (sum->whole ? sum->of.scores : sum->of.shifted))
      return std::nullopt;
    const int logarithm = b_.unary(Kind::Log, b_.softmax(sum->of.scores, sum->of.axis));
    return b_.reshape(b_.negated(b_.pick_label(logarithm, at(picked).inputs[1])), at(y).shape);
  }
  return std::nullopt;
}

// --- labels ---

// Ids of i, which is 1 where its last dimension is the id and 0 elsewhere.
Recogniser::Found Recogniser::one_hot(int i) {
  if (is(i, Kind::ToFloat)) i = at(i).inputs[0];
  if (is(i, Kind::Select) && b_.scalar_of(at(i).inputs[1]) == 1.0 && b_.scalar_of(at(i).inputs[2]) == 0.0)
    i = at(i).inputs[0];
  if (!is(i, Kind::Compare) || at(i).details.comparison != Comparison::Equal || at(i).shape.empty())
    return std::nullopt;
  const std::int64_t classes = at(i).shape.back();
  for (const std::size_t k : {0u, 1u}) {
    const int ids = at(i).inputs[k], counted = core(at(i).inputs[1 - k]);
    const Node& numbers = at(counted);
    if (!numbers.constant || elements_of(numbers.shape) != classes || classes < 2 || numbers.shape.back() != classes)
      continue;
    bool counts = numbers.values.has_value();
    for (std::size_t c = 0; counts && c < numbers.values->size(); ++c)
      counts = (*numbers.values)[c] == static_cast<double>(c);
    if (!counts || !at(ids).integer || at(ids).shape.size() != at(i).shape.size() || at(ids).shape.back() != 1)
      continue;
    Shape rows = at(i).shape;
    rows.pop_back();
    if (elements_of(rows) == elements_of(at(ids).shape)) return b_.reshape(ids, rows);
  }
  return std::nullopt;
}

// The sum of x over classes, and perhaps more, where all but the label's are 0.
Recogniser::Found Recogniser::picked_by_one_hot(int sum, const std::vector<std::int64_t>& axes) {
  const auto last = static_cast<std::int64_t>(at(sum).shape.size()) - 1;
  if (last < 0 || std::find(axes.begin(), axes.end(), last) == axes.end()) return std::nullopt;
  double factor = 1.0, number = 1.0;
  int product = sum;
  while (const Found inner = beside_scalar(product, Kind::Multiply, &factor)) {
    number *= factor;
    product = *inner;
  }
  const Node of = at(product);
  Found picked;
  if (of.kind == Kind::Multiply) {
    for (const std::size_t k : {0u, 1u})
      if (const Found labels = one_hot(of.inputs[k]); labels && at(of.inputs[1 - k]).shape == of.shape && !picked)
        picked = b_.pick_label(of.inputs[1 - k], *labels);
  } else if (of.kind == Kind::Select && b_.scalar_of(of.inputs[2]) == 0.0) {
    if (const Found labels = one_hot(of.inputs[0]); labels && at(of.inputs[1]).shape == of.shape)
      picked = b_.pick_label(of.inputs[1], *labels);
  }
  if (!picked) return std::nullopt;
  if (number != 1.0) picked = b_.binary(Kind::Multiply, *picked, b_.scalar(number));
  Shape rest = axes;
  std::erase(rest, last);
  return rest.empty() ? *picked : b_.reduce(Kind::ReduceSum, *picked, rest, true);
}

// --- losses ---

// Labels below what replaces those that are ignored.
int labels_below(const Builder& b, int i) {
  while (b.at(i).kind == Kind::Select) i = b.at(i).inputs[b.at(b.at(i).inputs[1]).constant ? 2 : 1];
  return i;
}

// What labels pick of the logarithms of a softmax, of each, in the module's order, however they are weighed, counted
// and added to other terms: these are counted in `others`.
std::vector<int> Recogniser::logarithms_of(int loss, int* others) const {
  constexpr std::size_t kMaxNodes = 512;
  std::set<int> open = {loss}, met;
  std::vector<int> picked;
  while (!open.empty() && met.size() < kMaxNodes) {
    const int i = *open.rbegin();
    open.erase(i);
    if (!met.insert(i).second) continue;
    const Node& node = at(i);
    if (node.kind == Kind::PickLabel) {
      const int logarithm = node.inputs[0];
      const bool fits =
          is(logarithm, Kind::Log) && is(at(logarithm).inputs[0], Kind::Softmax) && over_last(at(logarithm).inputs[0]);
      if (fits) picked.insert(picked.begin(), i);
      if (!fits) ++*others;
      continue;
    }
    const bool passes = node.kind == Kind::Divide || node.kind == Kind::Multiply || node.kind == Kind::ReduceSum ||
                        node.kind == Kind::ReduceMean || node.kind == Kind::Select || node.kind == Kind::Reshape ||
                        node.kind == Kind::Add || node.kind == Kind::Subtract || node.kind == Kind::Broadcast;
    if (!passes) {
      ++*others;
      continue;
    }
    for (const int input : node.inputs)
      if (at(input).trained) open.insert(input);
  }
  return picked;
}

Recogniser::Found Recogniser::cross_entropy(int loss) {
  if (!at(loss).shape.empty() || is(loss, Kind::CrossEntropy)) return std::nullopt;
  int others = 0;
  const std::vector<int> picked = logarithms_of(loss, &others);
  if (picked.empty()) return std::nullopt;
  if (others > 0)
    to_.notes.push_back("the loss is the cross entropy alone; other terms that the file adds to it are left out");
  std::set<int> terms;  // those of the same logits and labels are one
  Found sum;
  for (const int one : picked) {
    const int softmax_of = at(at(one).inputs[0]).inputs[0], labels = labels_below(b_, at(one).inputs[1]);
    const int term = b_.cross_entropy(at(softmax_of).inputs[0], labels);
    if (terms.insert(term).second) sum = sum ? b_.binary(Kind::Add, *sum, term) : term;
  }
  if (terms.size() > 1)
    to_.notes.push_back(
        fmt::format("the loss is the sum of {} cross entropies, each the mean of its own rows", terms.size()));
  return sum;
}

}  // namespace meshwright::primitive
