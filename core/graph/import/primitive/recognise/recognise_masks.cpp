// SPDX-License-Identifier: Apache-2.0
// Masks of attention. What a mask hides is told by what it computes of sample inputs, however it is written.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/primitive/node_values.h"
#include "core/graph/import/primitive/recognise/recogniser.h"

namespace meshwright::primitive {

namespace {

constexpr double kHidden = -1000.0;       // scores at most this are masked
constexpr std::int64_t kSamples = 24;     // rows and columns that are looked at in a large mask
constexpr std::int64_t kSmall = 1 << 12;  // elements of a mask that is looked at whole
constexpr int kBudget = 512;              // nodes that one element may be made of
constexpr std::size_t kMaskNodes = 512;

// What inputs hold, one sample of each.
using Samples = std::map<int, std::vector<double>>;

Shape one_sample_of(Shape shape) {
  for (std::int64_t& size : shape)
    if (holds_batch(size)) size /= kBatchProbe;
  return shape;
}

std::size_t place_in(const Shape& shape, const Shape& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<std::size_t>(at);
}

// One element of a mask for a batch of one; nothing where it is made of what the file does not tell.
std::optional<double> element_of(const Builder& b, int n, Shape index, const Samples& samples, int& budget) {
  while (--budget > 0) {
    const Node& node = b.at(n);
    const Shape shape = one_sample_of(node.shape);
    index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(shape.size()));
    for (std::size_t d = 0; d < index.size(); ++d)
      if (shape[d] == 1) index[d] = 0;
    if (node.values) return (*node.values)[place_in(shape, index)];
    if (const auto sample = samples.find(n); sample != samples.end()) return sample->second[place_in(shape, index)];
    const auto operand = [&](std::size_t k) { return element_of(b, node.inputs[k], index, samples, budget); };
    switch (node.kind) {
      case Kind::Broadcast:
        n = node.inputs[0];
        continue;
      case Kind::Transpose: {
        Shape from(index.size());
        for (std::size_t d = 0; d < index.size(); ++d) from[static_cast<std::size_t>(node.details.axes[d])] = index[d];
        index = from;
        n = node.inputs[0];
        continue;
      }
      case Kind::Slice:
        if (!node.details.stride.empty()) return std::nullopt;
        index[static_cast<std::size_t>(node.details.axes[0])] += node.details.start[0];
        n = node.inputs[0];
        continue;
      case Kind::Reshape: {
        auto flat = static_cast<std::int64_t>(place_in(shape, index));
        const Shape from = one_sample_of(b.shape(node.inputs[0]));
        index.assign(from.size(), 0);
        for (std::size_t d = from.size(); d-- > 0; flat /= from[d]) index[d] = flat % from[d];
        n = node.inputs[0];
        continue;
      }
      case Kind::Select: {
        const auto chosen = operand(0);
        return chosen ? operand(*chosen != 0.0 ? 1 : 2) : std::nullopt;
      }
      default:
        break;
    }
    if (is_unary(node.kind)) {
      const auto x = operand(0);
      return x ? std::optional(unary_value(node.kind, *x)) : std::nullopt;
    }
    if (node.inputs.size() != 2 || node.kind > Kind::Compare) return std::nullopt;
    const auto x = operand(0), y = operand(1);
    if (!x || !y) return std::nullopt;
    return binary_value(node.kind, *x, *y, node.details.comparison, node.integer);
  }
  return std::nullopt;
}

// Rows and columns that tell one mask from another: all of a small one; of others the first, the last, and some
// between, with their neighbours.
std::vector<std::int64_t> sampled(std::int64_t size, bool all) {
  std::set<std::int64_t> found;
  for (std::int64_t k = 0; all && k < size; ++k) found.insert(k);
  for (std::int64_t k = 0; k < kSamples; ++k)
    for (const std::int64_t near : {-1, 0, 1})
      found.insert(std::clamp<std::int64_t>(k * size / kSamples + near, 0, size - 1));
  found.insert(size - 1);
  return {found.begin(), found.end()};
}

// Whether the square constant hides what is above its diagonal and nothing else. `keeps`: of 0 and 1, whether 1 is
// kept; none: any of the two, or numbers to be added. What the file does not tell is taken as such a mask.
bool hides_later(const Builder& b, int mask, std::optional<bool> keeps) {
  const Node& node = b.at(mask);
  const std::int64_t n = node.shape.back();
  if (elements_of(node.shape) != n * n) return false;
  bool added = true, kept = true, hidden = true;
  const std::vector<std::int64_t> samples = sampled(n, n * n <= kMaxValues);
  Shape index(node.shape.size(), 0);
  for (const std::int64_t row : samples)
    for (const std::int64_t column : samples) {
      index[index.size() - 2] = row;
      index[index.size() - 1] = column;
      int budget = kBudget / 8;
      const auto value = element_of(b, mask, index, {}, budget);
      if (!value) return true;
      const bool later = column > row;
      added = added && (*value <= kHidden) == later;
      kept = kept && (*value != 0.0) == !later;
      hidden = hidden && (*value != 0.0) == later;
    }
  return keeps ? (*keeps ? kept : hidden) : added || kept || hidden;
}

constexpr int kSampleKeys = 3, kSampleNumbers = 5;

// Sample sequences: no padding; padding behind; padding here and there. Then, for inputs that are something else, such
// as the lengths of sequences: whole ones, and halves.
std::vector<double> sample_keys(std::int64_t count, int which, std::int64_t keys) {
  std::vector<double> kept;
  for (std::int64_t j = 0; j < count; ++j) {
    if (which >= kSampleKeys) {
      kept.push_back(static_cast<double>(which == kSampleKeys ? keys : (keys + 1) / 2));
      continue;
    }
    const bool seen = which == 0 || (which == 1 ? 3 * j < 2 * count : (7 * j + 1) % 5 < 3);
    kept.push_back(seen ? 1.0 : 0.0);
  }
  return kept;
}

constexpr std::int64_t kNoKey = std::numeric_limits<std::int64_t>::max();

// What is seen of a mask; `back`: from the query to the key.
struct SeenMask {
  bool causal = true, one_value = true, padding_hides = true, others_stay = true;
  // Distances of keys, without padding.
  struct Side {
    std::int64_t nearest_hidden = kNoKey, farthest_seen = 0;
  } behind, ahead;
  double lowest = 0.0;

  void add(bool unpadded, bool padded, std::int64_t back, double value) {
    const bool hides = value <= kHidden;
    if (hides) lowest = std::min(lowest, value);
    one_value = one_value && (hides || value == 0.0);
    causal = causal && (hides || back >= 0);
    Side& side = back < 0 ? ahead : behind;
    const std::int64_t distance = std::abs(back);
    if (unpadded && hides) side.nearest_hidden = std::min(side.nearest_hidden, distance);
    if (unpadded && !hides) side.farthest_seen = std::max(side.farthest_seen, distance);
    if (padded) padding_hides = padding_hides && hides;
    if (!unpadded && !padded) others_stay = others_stay && hides == (distance >= side.nearest_hidden);
  }
  [[nodiscard]] bool has_window() const { return behind.nearest_hidden != kNoKey; }
  // Whether padding, what is in front of the query, and what is beyond a window are hidden, and nothing else; a window
  // reaches as far ahead where keys in front are seen.
  [[nodiscard]] bool plain(bool is_causal) const {
    const bool window = !has_window() || (behind.nearest_hidden > 0 && behind.farthest_seen < behind.nearest_hidden);
    const bool in_front = is_causal || (has_window() ? ahead.farthest_seen == behind.farthest_seen &&
                                                           ahead.nearest_hidden > ahead.farthest_seen
                                                     : ahead.nearest_hidden == kNoKey);
    return one_value && padding_hides && others_stay && window && in_front;
  }
};

}  // namespace

// keeps: of a mask that selects, whether what is not 0 is kept; none: the mask is added.
// A constant without what repeats it in front of its last two dimensions.
int Recogniser::of_one_sample(int constant) {
  for (std::size_t d = 0; d + 2 < at(constant).shape.size(); ++d)
    if (const Found one = b_.one_along(constant, d)) constant = *one;
  return constant;
}

bool Recogniser::is_causal(int mask, std::optional<bool> keeps) {
  const auto [known, is_new] = causal_.emplace(std::pair{mask, keeps ? (*keeps ? 1 : 0) : -1}, false);
  if (!is_new) return known->second;
  std::vector<int> open = {mask};
  std::set<int> met;
  while (!open.empty() && met.size() < 256) {
    const int i = open.back();
    open.pop_back();
    if (!met.insert(i).second) continue;
    const Shape shape = at(i).shape;
    const std::vector<int> inputs = at(i).inputs;
    const std::size_t rank = shape.size();
    const bool square = rank >= 2 && shape[rank - 1] == shape[rank - 2] && shape[rank - 1] > 1;
    if (at(i).constant && square && hides_later(b_, of_one_sample(i), i == mask ? keeps : std::nullopt))
      return known->second = true;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return false;
}

// The inputs that a mask is made of; none where it is made of parameters, or of too much.
std::optional<std::vector<int>> Recogniser::inputs_of_mask(int mask) const {
  std::vector<int> open = {mask}, found;
  std::set<int> met;
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (!met.insert(i).second) continue;
    const Node& node = at(i);
    if (node.trained || met.size() > kMaskNodes) return std::nullopt;
    if (node.kind == Kind::Input) found.push_back(i);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return found;
}

// What the mask, whose last two dimensions are queries and keys and whose others are samples or 1, hides of sample
// sequences.
Recogniser::ToldMask Recogniser::told_mask(int mask, std::int64_t queries, std::int64_t keys) {
  const auto [known, is_new] = told_masks_.try_emplace({mask, queries, keys});
  ToldMask& told = known->second;
  if (!is_new) return told;
  const std::optional<std::vector<int>> inputs = inputs_of_mask(mask);
  if (!inputs) return told;
  const bool padding =
      inputs->size() == 1 && at((*inputs)[0]).integer && at((*inputs)[0]).shape == Shape{kBatchProbe, keys};
  const bool small = queries * keys <= kSmall;
  SeenMask seen;
  for (int which = 0; which < (inputs->empty() ? 1 : padding ? kSampleKeys : kSampleNumbers); ++which) {
    Samples samples;
    for (const int input : *inputs)
      samples[input] = sample_keys(elements_of(one_sample_of(at(input).shape)), which, keys);
    for (const std::int64_t row : sampled(queries, small))
      for (const std::int64_t column : sampled(keys, small || row == 0 || row + 1 == queries)) {
        Shape index(std::max<std::size_t>(at(mask).shape.size(), 2), 0);
        index[index.size() - 2] = row;
        index[index.size() - 1] = column;
        int budget = kBudget;
        const auto value = element_of(b_, mask, index, samples, budget);
        mask_budget_ -= kBudget - budget;
        if (!value || mask_budget_ < 0) return told;
        const bool padded = padding && samples.begin()->second[static_cast<std::size_t>(column)] == 0.0;
        seen.add(which == 0, padded, row + keys - queries - column, *value);
      }
  }
  told.known = true;
  told.causal = queries <= keys && seen.causal;
  told.plain =
      (inputs->empty() || padding) && seen.plain(told.causal) && (told.causal || !seen.has_window() || queries == keys);
  told.window = told.plain && seen.has_window() ? seen.behind.farthest_seen + 1 : 0;
  told.keys = told.plain && padding ? (*inputs)[0] : -1;
  told.hidden = std::max(seen.lowest, kHiddenScore);
  return told;
}

// The same numbers, not repeated along dimensions in which they are equal.
int Recogniser::unrepeated_mask(int i, int& budget) {
  const Node node = at(i);
  if (--budget < 0) return i;
  const auto inner = [&](std::size_t k) { return unrepeated_mask(node.inputs[k], budget); };
  if (node.kind == Kind::Broadcast) return inner(0);
  if (node.constant) return i;
  if (node.kind >= Kind::Add && node.kind <= Kind::Minimum) return b_.binary(node.kind, inner(0), inner(1));
  if (node.kind == Kind::Compare) return b_.compare(node.details.comparison, inner(0), inner(1));
  if (node.kind == Kind::Select) return b_.select(inner(0), inner(1), inner(2));
  if (node.kind == Kind::Not || node.kind == Kind::ToFloat || node.kind == Kind::ToInteger)
    return b_.unary(node.kind, inner(0));
  return i;
}

// A mask without the constants of 0 and 1 that keep what is not later, as the attention itself does.
int Recogniser::without_later(int i, int& budget) {
  const Node node = at(i);
  if (--budget < 0 || node.constant || node.inputs.empty()) return i;
  const auto inner = [&](std::size_t k) { return without_later(node.inputs[k], budget); };
  const auto keeps_earlier = [&](int of) {
    const Shape& shape = at(of).shape;
    const std::size_t rank = shape.size();
    return at(of).constant && rank >= 2 && shape[rank - 1] == shape[rank - 2] && hides_later(b_, of, true);
  };
  if (node.kind == Kind::Multiply && node.integer)
    for (const std::size_t k : {0u, 1u})
      if (keeps_earlier(node.inputs[k])) return inner(1 - k);
  if (node.kind == Kind::Select) return b_.select(inner(0), inner(1), inner(2));
  if (node.kind != Kind::Reshape) return i;
  const Shape wanted = at(node.inputs[0]).shape;
  const int made = b_.broadcast(inner(0), wanted);
  return at(made).shape == wanted ? b_.reshape(made, node.shape) : i;
}

// Whether two masks are the same for sample sequences, but for what is later.
bool Recogniser::alike_behind(int x, int y, std::int64_t queries, std::int64_t keys) {
  const std::optional<std::vector<int>> inputs = inputs_of_mask(x);
  if (!inputs) return false;
  const bool small = queries * keys <= kSmall;
  for (int which = 0; which < kSampleNumbers; ++which) {
    Samples samples;
    for (const int input : *inputs)
      samples[input] = sample_keys(elements_of(one_sample_of(at(input).shape)), which, keys);
    for (const std::int64_t row : sampled(queries, small))
      for (const std::int64_t column : sampled(keys, small)) {
        if (column > row + keys - queries) continue;
        const auto value = [&](int mask) {
          int budget = kBudget;
          const auto found = element_of(b_, mask, {0, row, column}, samples, budget);
          mask_budget_ -= kBudget - budget;
          return found;
        };
        const auto a = value(x), b = value(y);
        if (!a || !b || *a != *b || mask_budget_ < 0) return false;
      }
  }
  return true;
}

// As an operand (samples or 1, queries or 1, keys) of attention; none where it tells heads from each other.
Recogniser::Found Recogniser::as_operand(const Mask& mask, std::int64_t queries, std::int64_t keys) {
  std::size_t rank = mask.scores.size();
  const Shape own = at(mask.node).shape;
  if (rank < 3 || own.size() > rank || mask.scores[rank - 2] != queries || mask.scores[rank - 1] != keys)
    return std::nullopt;
  Shape whole(rank - own.size(), 1), scores = mask.scores;
  whole.insert(whole.end(), own.begin(), own.end());
  for (std::size_t d = 0; rank > 3 && d + 2 < rank;) {  // groups of one, wherever they stand
    if (scores[d] != 1) {
      ++d;
      continue;
    }
    scores.erase(scores.begin() + static_cast<std::ptrdiff_t>(d));
    whole.erase(whole.begin() + static_cast<std::ptrdiff_t>(d));
    --rank;
  }
  for (std::size_t d = 1; d + 2 < rank; ++d)
    if (whole[d] != 1) return std::nullopt;
  if (whole[0] != 1 && whole[0] != kBatchProbe) return std::nullopt;
  const int narrow = b_.reshape(mask.node, whole);
  whole.back() = keys;
  return b_.reshape(b_.broadcast(narrow, whole), {whole[0], whole[rank - 2], keys});
}

// Hides the keys for which the integers of an input are 0.
Recogniser::Found Recogniser::key_mask(const ToldMask& told, std::int64_t keys) {
  const int zero = b_.constant({}, true, std::vector<double>{0.0});
  const int kept = b_.unary(Kind::ToFloat, b_.compare(Comparison::NotEqual, told.keys, zero));
  const int hidden = b_.binary(Kind::Multiply, b_.binary(Kind::Add, kept, b_.scalar(-1.0)), b_.scalar(-told.hidden));
  return b_.reshape(hidden, {kBatchProbe, 1, keys});
}

namespace {

// As of Attributes::Extra::Alibi: of H heads, H a power of two, 2^(-8 (h + 1) / H); for other H those of the largest
// power of two P below, then every second one of 2 P.
double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double step = 8.0 / static_cast<double>(power);
  return head < power ? std::exp2(-step * static_cast<double>(head + 1))
                      : std::exp2(-0.5 * step * static_cast<double>(2 * (head - power) + 1));
}

}  // namespace

// Whether a mask adds to a key that is not later than the query the head's slope times its distance, but for what it
// adds to all keys of the query. `queries`: (batch, heads, seq, d).
bool Recogniser::is_alibi(const Mask& mask, const Shape& queries, std::int64_t keys) {
  const Shape own = one_sample_of(at(mask.node).shape);
  const std::int64_t heads = queries[1], seq = queries[2];
  const std::size_t rank = own.size();
  if (!at(mask.node).constant || rank < 3 || rank > NodeValues::kMaxRank || seq > keys || heads < 2) return false;
  if (elements_of(Shape(own.begin(), own.end() - 2)) != heads || own[rank - 1] != keys ||
      (own[rank - 2] != 1 && own[rank - 2] != seq))
    return false;
  std::int64_t budget = 1 << 22;
  NodeValues values(b_, budget);
  values.compute_single_elements();
  const auto added = [&](std::int64_t head, std::int64_t query, std::int64_t key) {
    NodeValues::Index index{};
    index[rank - 1] = key;
    index[rank - 2] = own[rank - 2] == 1 ? 0 : query;
    for (std::size_t d = rank - 2; d-- > 0; head /= own[d]) index[d] = head % own[d];
    return mask.factor * values.element(mask.node, index);
  };
  for (std::int64_t head = 0; head < heads; ++head)
    for (const std::int64_t query : {seq / 2, seq - 1}) {
      const std::int64_t here = query + keys - seq;
      const double slope = alibi_slope(head, heads), at_query = added(head, query, here);
      for (const std::int64_t key : {std::int64_t{0}, here / 2, here})
        if (std::abs(added(head, query, key) - at_query - slope * static_cast<double>(key - here)) >
            1e-3 * slope * static_cast<double>(keys))
          return false;
    }
  return !values.failed();
}

// What the masks do together; false where attention has no equal to them. `of_queries`: (batch, heads, seq, d).
bool Recogniser::resolve_masks(Scores& scores, const Shape& of_queries, std::int64_t keys) {
  const std::int64_t queries = of_queries[2];
  const std::string name = b_.name, block = b_.block;
  b_.block.clear();
  b_.name = "mask";
  bool fits = true;
  for (Mask& mask : scores.masks) {
    int budget = static_cast<int>(kMaskNodes);
    mask.node = unrepeated_mask(mask.node, budget);
    if (!scores.alibi && is_alibi(mask, of_queries, keys)) {
      scores.alibi = true;
      continue;
    }
    const Found operand = as_operand(mask, queries, keys);
    const ToldMask told = operand ? told_mask(*operand, queries, keys) : ToldMask{};
    if (!told.known && at(mask.node).constant && is_causal(mask.node, std::nullopt)) {
      scores.causal = true;
      if (masks_++ == 0) first_mask_ = name;
      continue;
    }
    scores.causal = scores.causal || told.causal;
    if (told.window > 0) scores.window = scores.window > 0 ? std::min(scores.window, told.window) : told.window;
    if (told.plain && told.keys < 0) continue;
    fits = fits && operand;
    if (!fits) break;
    int shown = *operand;
    if (told.causal && !told.plain) {
      int nodes = static_cast<int>(kMaskNodes);
      const int shorter = without_later(shown, nodes);
      if (shorter != shown && alike_behind(shown, shorter, queries, keys)) shown = shorter;
    }
    const int now = told.plain ? *key_mask(told, keys) : b_.binary(Kind::Multiply, shown, b_.scalar(mask.factor));
    scores.mask = scores.mask ? b_.binary(Kind::Add, *scores.mask, now) : now;
    if (told.plain && mask_input_.empty()) mask_input_ = at(told.keys).name;
  }
  if (fits && scores.mask) ++masked_;
  b_.name = name;
  b_.block = block;
  return fits;
}

}  // namespace meshwright::primitive
