// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts whose tokens go to experts and back by products with masks (Lepikhin et al., "GShard",
// arXiv:2006.16668; Fedus et al., "Switch Transformers", arXiv:2101.03961). There are many ways to write the mask "1
// where token s has slot c of expert e" - of one-hot numbers, cumulative sums, comparisons, in any order - so that it
// is told by its values for some scores, as activations are.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/primitive/node_values.h"
#include "core/graph/import/primitive/recognise/recogniser.h"

namespace meshwright::primitive {

namespace {

constexpr std::size_t kMaxNodes = 512;      // between scores and a mask
constexpr std::int64_t kMaxChoices = 16;    // experts of a token
constexpr std::int64_t kTokens = 48;        // that are looked at in a long row
constexpr std::int64_t kMaxSeen = 1 << 16;  // elements of a mask
constexpr std::int64_t kMaxScores = std::int64_t{1} << 22;

// Distinct numbers between 0 and 1; some experts are chosen more often than others, so that their slots run out.
std::vector<double> sample_scores(std::int64_t rows, std::int64_t experts) {
  std::vector<double> scores;
  std::uint64_t state = 12345;
  for (std::int64_t i = 0; i < rows * experts; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double number = static_cast<double>(state >> 11) / 9007199254740992.0;
    scores.push_back(0.02 + 0.6 * number + 0.3 * static_cast<double>(i % experts % 3) / 3.0);
  }
  return scores;
}

// One row of tokens; numbers by token and expert.
struct Row {
  std::int64_t tokens, experts;
  std::vector<double> scores;
  [[nodiscard]] std::size_t at(std::int64_t token, std::int64_t expert) const {
    return static_cast<std::size_t>(token * experts + expert);
  }
};

// Scores of all samples' rows, and those of the first one.
struct SampleScores {
  std::vector<double> all;
  Row row;
};
// For scores (batch, seq, expert); none: they are too many, or there are no tokens or nothing to choose from.
std::optional<SampleScores> sample_scores_of(const Shape& scores) {
  const std::int64_t rows = scores[0] / kBatchProbe * scores[1], experts = scores[2];
  if (rows < 1 || experts < 2 || rows > kMaxScores / experts) return std::nullopt;
  SampleScores made{sample_scores(rows, experts), {scores[1], experts, {}}};
  made.row.scores.assign(made.all.begin(), made.all.begin() + scores[1] * experts);
  return made;
}

constexpr std::int64_t kNotChosen = -1, kNoSlot = -2;

// The slot of each token and expert. `by_token`: slots go to one token after the other, else to the first choices of
// all tokens before the second ones.
std::vector<std::int64_t> slots_of(const Row& row, std::int64_t top_k, std::int64_t capacity, bool by_token) {
  std::vector<std::int64_t> slots(row.scores.size(), kNotChosen), taken(static_cast<std::size_t>(row.experts), 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(row.tokens * row.experts));
  for (std::int64_t s = 0; s < row.tokens; ++s) {
    const auto begin = order.begin() + s * row.experts;
    std::iota(begin, begin + row.experts, 0);
    std::partial_sort(begin, begin + top_k, begin + row.experts, [&](std::int64_t x, std::int64_t y) {
      return row.scores[row.at(s, x)] > row.scores[row.at(s, y)];
    });
  }
  const std::int64_t outer = by_token ? row.tokens : top_k, inner = by_token ? top_k : row.tokens;
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < inner; ++j) {
      const std::int64_t s = by_token ? i : j, k = by_token ? j : i;
      const std::int64_t expert = order[row.at(s, k)];
      std::int64_t& count = taken[static_cast<std::size_t>(expert)];
      slots[row.at(s, expert)] = count < capacity ? count++ : kNoSlot;
    }
  return slots;
}

std::vector<std::int64_t> tokens_to_see(std::int64_t tokens) {
  std::set<std::int64_t> found;
  for (std::int64_t k = 0; k < kTokens; ++k) found.insert(k * tokens / kTokens);
  for (std::int64_t k = 0; k < std::min<std::int64_t>(tokens, 6); ++k) found.insert({k, tokens - 1 - k});
  return {found.begin(), found.end()};
}

}  // namespace

// The one node that all of the choices below `mask` are made of, and what they are, as a text.
std::optional<Recogniser::Router> Recogniser::router_below(int mask) const {
  const Shape shape = at(mask).shape;
  std::set<int> open = {mask}, inside;
  bool chooses = false;
  while (!open.empty() && inside.size() < kMaxNodes) {
    const int next = *open.rbegin();
    const Node& node = at(next);
    if (open.size() == 1 && chooses && !node.integer && node.shape.size() == 3 && node.shape[0] == shape[0] &&
        node.shape[1] == shape[1] && (node.shape[2] == shape[2] || node.shape[2] == shape.back())) {
      std::string text;
      for (const int n : inside) {
        const Details& d = at(n).details;
        text += fmt::format("{} {} {} {:a} {} {} {} {}:", static_cast<int>(at(n).kind), at(n).integer, d.groups,
                            d.number, static_cast<int>(d.comparison), fmt::join(d.axes, ","), fmt::join(d.start, ","),
                            fmt::join(at(n).shape, ","));
        for (const int input : at(n).inputs)
          text += at(input).constant ? fmt::format("c{} ", input)
                  : input == next    ? std::string("scores ")
                                     : fmt::format("{} ", std::distance(inside.begin(), inside.find(input)));
      }
      return Router{next, std::move(text)};
    }
    open.erase(next);
    if (node.inputs.empty() || (node.kind == Kind::MatMul && !chooses && at(node.inputs[1]).kind == Kind::Parameter))
      return std::nullopt;
    chooses = chooses || node.kind == Kind::TopK || node.kind == Kind::TopKIndex;
    inside.insert(next);
    for (const int input : node.inputs)
      if (!at(input).constant) open.insert(input);
  }
  return std::nullopt;
}

// What the mask (batch, seq, expert, capacity), or with the last two the other way round, does with sample scores.
std::optional<Recogniser::Routing> Recogniser::routing_of(int mask, int scores) {
  const Shape shape = at(mask).shape;
  const std::int64_t experts = at(scores).shape[2];
  const std::optional<SampleScores> sample = sample_scores_of(at(scores).shape);
  if (!sample) return std::nullopt;
  const Row& row = sample->row;
  NodeValues values(b_, scores, sample->all, routing_budget_);
  const std::vector<std::int64_t> tokens = tokens_to_see(row.tokens);
  for (const bool expert_first : {true, false}) {
    const std::int64_t capacity = shape[expert_first ? 3 : 2];
    if (shape[expert_first ? 2 : 3] != experts || capacity < 2) continue;
    const auto element = [&](std::int64_t s, std::int64_t e, std::int64_t c) {
      return values.element(mask, {0, s, expert_first ? e : c, expert_first ? c : e});
    };
    const auto seen = static_cast<std::int64_t>(tokens.size());
    const std::int64_t step = std::max<std::int64_t>(1, seen * experts * capacity / kMaxSeen);
    for (const bool by_token : {false, true})
      for (std::int64_t top_k = 1; top_k <= std::min(experts, kMaxChoices); ++top_k) {
        if (by_token && top_k == 1) continue;
        const std::vector<std::int64_t> slots = slots_of(row, top_k, capacity, by_token);
        bool fits = true;
        std::vector<double> weights(row.scores.size(), 0.0);
        for (std::size_t t = 0; fits && t < tokens.size(); ++t)
          for (std::int64_t e = 0; fits && e < experts; ++e) {
            const std::int64_t s = tokens[t], slot = slots[row.at(s, e)];
            if (slot >= 0) weights[row.at(s, e)] = element(s, e, slot);
            fits = slot < 0 || weights[row.at(s, e)] != 0.0;
            const bool whole = static_cast<std::int64_t>(t) % step == 0;  // all slots of this token are looked at
            for (std::int64_t c = whole ? 0 : s % capacity; fits && c < capacity; c = whole ? c + 1 : capacity)
              fits = c == slot || element(s, e, c) == 0.0;
          }
        if (values.failed()) return std::nullopt;
        if (!fits) continue;
        Routing routing{top_k, capacity, expert_first, by_token};
        if (weighed(row.scores, experts, slots, tokens, weights, routing)) return routing;
      }
  }
  return std::nullopt;
}

// What weights (batch, seq, expert), perhaps with one dimension more of a single element, 0 where an expert is not
// chosen, do with sample scores: every expert then computes every token.
std::optional<Recogniser::Routing> Recogniser::gating_of(int gates, int scores) {
  const Shape shape = at(gates).shape;
  const std::int64_t experts = at(scores).shape[2];
  if (shape[0] != at(scores).shape[0] || elements_of(shape) != elements_of(at(scores).shape)) return std::nullopt;
  const std::optional<SampleScores> sample = sample_scores_of(at(scores).shape);
  if (!sample) return std::nullopt;
  const Row& row = sample->row;
  NodeValues values(b_, scores, sample->all, routing_budget_);
  const std::vector<std::int64_t> tokens = tokens_to_see(row.tokens);
  std::vector<double> weights(row.scores.size(), 0.0);
  for (const std::int64_t s : tokens)
    for (std::int64_t e = 0; e < experts; ++e) {
      const bool behind = shape.size() == 3 || shape[3] == 1;
      weights[row.at(s, e)] = values.element(gates, {0, s, behind ? e : 0, behind ? 0 : e});
      if (values.failed()) return std::nullopt;
    }
  for (std::int64_t top_k = 1; top_k <= std::min(experts, kMaxChoices); ++top_k) {
    const std::vector<std::int64_t> slots = slots_of(row, top_k, row.tokens, false);
    const bool fits = std::all_of(tokens.begin(), tokens.end(), [&](std::int64_t s) {
      for (std::int64_t e = 0; e < experts; ++e)
        if ((slots[row.at(s, e)] >= 0) != (weights[row.at(s, e)] != 0.0)) return false;
      return true;
    });
    Routing routing{top_k, row.tokens, true, false};
    if (fits && weighed(row.scores, experts, slots, tokens, weights, routing) && !routing.plain) return routing;
  }
  return std::nullopt;
}

// Which function of the scores the weights are, those of `tokens`.
bool Recogniser::weighed(const std::vector<double>& scores, std::int64_t experts,
                         const std::vector<std::int64_t>& slots, const std::vector<std::int64_t>& tokens,
                         const std::vector<double>& weights, Routing& routing) {
  const auto fits = [&](const std::vector<double>& expected) {
    std::optional<double> factor;
    for (const std::int64_t s : tokens)
      for (std::int64_t e = 0; e < experts; ++e) {
        const auto i = static_cast<std::size_t>(s * experts + e);
        if (slots[i] < 0) continue;
        if (!factor) factor = weights[i] / expected[i];
        if (std::abs(weights[i] - *factor * expected[i]) > 1e-5 * std::abs(weights[i])) return false;
      }
    routing.factor = factor && std::abs(*factor - 1.0) > 1e-6 ? *factor : 1.0;
    return factor.has_value();
  };
  routing.plain = fits(std::vector<double>(scores.size(), 1.0));
  if (routing.plain) return routing.factor == 1.0;
  for (const Kind function : {Kind::Reshape, Kind::Softmax, Kind::Sigmoid})
    for (const Sums sums : {Sums::None, Sums::OfSlots, Sums::OfChosen}) {
      std::vector<double> expected(scores.size());
      for (const std::int64_t s : tokens) {
        double sum = 0.0;
        const auto begin = static_cast<std::size_t>(s * experts), end = begin + static_cast<std::size_t>(experts);
        for (std::size_t i = begin; i < end; ++i) {
          expected[i] = function == Kind::Reshape   ? scores[i]
                        : function == Kind::Softmax ? std::exp(scores[i])
                                                    : unary_value(Kind::Sigmoid, scores[i]);
          const bool counts = sums == Sums::None ? function == Kind::Softmax
                                                 : slots[i] >= 0 || (sums == Sums::OfChosen && slots[i] == kNoSlot);
          if (counts) sum += expected[i];
        }
        if (sums == Sums::None && function != Kind::Softmax) sum = 1.0;
        for (std::size_t i = begin; i < end; ++i) expected[i] /= sum;
      }
      if (!fits(expected)) continue;
      routing.function = function;
      routing.sums = sums;
      return true;
    }
  return false;
}

int Recogniser::weights_of(const Routing& routing, int scores) {
  const std::int64_t tokens = at(scores).shape[1];
  const int gates = routing.function == Kind::Softmax   ? b_.softmax(scores, 2)
                    : routing.function == Kind::Sigmoid ? b_.unary(Kind::Sigmoid, scores)
                                                        : scores;
  // A weight that counts experts without a slot left is that of a capacity which none exceeds.
  const std::int64_t capacity = routing.sums == Sums::OfChosen ? tokens : routing.capacity;
  const int weights = b_.gate_weights(gates, b_.slots(scores, routing.top_k, capacity), routing.sums != Sums::None);
  return routing.factor == 1.0 ? weights : b_.binary(Kind::Multiply, weights, b_.scalar(routing.factor));
}

int Recogniser::mask_of(const Routing& routing, int scores) {
  int mask = b_.slot_mask(b_.slots(scores, routing.top_k, routing.capacity));
  if (!routing.plain) mask = b_.weighted_mask(mask, weights_of(routing, scores));
  return routing.expert_first ? mask : b_.swap(mask, 2, 3);
}

// A factor of a product that is a mask of slots, perhaps weighed, or weights of experts, below reshapes and transposes.
Recogniser::Found Recogniser::with_slots(int factor) {
  std::vector<int> above;
  for (int i = factor;; i = at(i).inputs[0]) {
    const Node& node = at(i);
    const Shape shape = node.shape;
    const bool of_single = shape.size() == 4 && (shape[2] == 1 || shape[3] == 1);
    const bool may_be_gates = (shape.size() == 3 || of_single) && node.kind != Kind::GateWeights;
    const bool may_be_mask =
        shape.size() == 4 && !of_single && node.kind != Kind::SlotMask && node.kind != Kind::WeightedMask;
    if ((may_be_mask || may_be_gates) && holds_batch(node.shape[0]) && node.trained) {
      const auto [known, is_new] = masks_of_slots_.try_emplace(i);
      if (is_new)
        if (const std::optional<Router> router = router_below(i)) {
          const auto [routing, first] = routings_.try_emplace(router->text);
          if (first) routing->second = may_be_mask ? routing_of(i, router->scores) : gating_of(i, router->scores);
          if (routing->second) {
            known->second = may_be_mask ? mask_of(*routing->second, router->scores)
                                        : b_.reshape(weights_of(*routing->second, router->scores), shape);
            by_token_ += routing->second->by_token && routing->second->plain ? 1 : 0;
          }
        }
      if (known->second) {
        int made = *known->second;
        for (auto link = above.rbegin(); link != above.rend(); ++link) {
          const Node of = at(*link);
          made = of.kind == Kind::Transpose ? b_.transpose(made, of.details.axes) : b_.reshape(made, of.shape);
        }
        return made;
      }
    }
    if (node.kind != Kind::Reshape && node.kind != Kind::Transpose) return std::nullopt;
    above.push_back(i);
  }
}

// A product with such a mask; the mask is made anew.
Recogniser::Found Recogniser::dispatch(int x, int y) {
  if (!chooses_) return std::nullopt;
  const Found left = with_slots(x), right = with_slots(y);
  return left || right ? Found(b_.matmul(left.value_or(x), right.value_or(y))) : std::nullopt;
}

}  // namespace meshwright::primitive
