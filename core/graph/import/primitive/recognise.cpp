// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

constexpr double kHidden = -1000.0;  // scores at most this are masked

bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)); }

// Makes the new module node by node; patterns are looked for below each node that is about to be made.
class Recogniser {
 public:
  explicit Recogniser(const Module& from) : from_(from), b_(to_) {
    to_.batch = from.batch;
    to_.file_ops = from.file_ops;
    to_.notes = from.notes;
  }
  Module run();

 private:
  using Found = std::optional<int>;
  struct Scaled {
    int node;
    double factor;
  };
  // Scores before their mask and scale.
  struct Scores {
    int product;
    double scale = 1.0;
    bool causal = false, hidden = false;  // hidden: masks were left out
  };

  [[nodiscard]] const Node& at(int i) const { return b_.at(i); }
  [[nodiscard]] bool is(int i, Kind kind) const { return at(i).kind == kind; }
  [[nodiscard]] bool over_last(int i) const {
    return at(i).details.axes == std::vector<std::int64_t>{static_cast<std::int64_t>(at(i).shape.size()) - 1};
  }
  // The operand that is no scalar, of a `kind` with a scalar.
  [[nodiscard]] Found beside_scalar(int i, Kind kind, double* scalar) const;
  [[nodiscard]] Scaled unscaled(int i) const;
  [[nodiscard]] bool is_row_parameter(int i, int x) const;

  [[nodiscard]] Found find(Kind kind, const std::vector<int>& inputs);
  [[nodiscard]] Found normalised_rows(int x, double* epsilon) const;
  [[nodiscard]] Found rms_norm(int x, int y);
  [[nodiscard]] Found layer_norm(int x, int y);
  [[nodiscard]] Found activation(int x, int y);
  [[nodiscard]] bool tanh_argument(int i, int x) const;
  [[nodiscard]] Found rotary(int x, int y);
  [[nodiscard]] Found rotated_half(int i) const;
  [[nodiscard]] double base_of(int sines, std::int64_t dims) const;
  [[nodiscard]] Found attention(int weights, int values);
  [[nodiscard]] std::optional<Scores> scores_of(int i) const;
  void note_mask(int mask, std::optional<bool> keeps, Scores& scores) const;
  [[nodiscard]] bool is_causal(int mask, std::optional<bool> keeps) const;
  [[nodiscard]] int unrepeated(int i);
  [[nodiscard]] int with_heads(int i);
  [[nodiscard]] Scaled peeled(int i);
  [[nodiscard]] int softmax_below(int i);
  [[nodiscard]] Found cross_entropy(int loss);

  const Module& from_;
  Module to_;
  Builder b_;
  int masks_ = 0;  // left out
  std::string first_mask_;
};

Recogniser::Found Recogniser::beside_scalar(int i, Kind kind, double* scalar) const {
  if (!is(i, kind)) return std::nullopt;
  for (const std::size_t k : {0, 1})
    if (const auto value = b_.scalar_of(at(i).inputs[k])) {
      *scalar = *value;
      return at(i).inputs[1 - k];
    }
  return std::nullopt;
}

Recogniser::Scaled Recogniser::unscaled(int i) const {
  double factor = 1.0, scalar = 1.0;
  while (const Found inner = beside_scalar(i, Kind::Multiply, &scalar)) {
    factor *= scalar;
    i = *inner;
  }
  return {i, factor};
}

bool Recogniser::is_row_parameter(int i, int x) const {
  return is(i, Kind::Parameter) && !at(x).shape.empty() && at(i).shape == Shape{at(x).shape.back()};
}

// --- normalisations ---

// x of x / sqrt(mean(x^2) + epsilon), the mean over the last dimension.
Recogniser::Found Recogniser::normalised_rows(int i, double* epsilon) const {
  if (!is(i, Kind::Multiply)) return std::nullopt;
  for (const std::size_t k : {0, 1}) {
    const int x = at(i).inputs[1 - k], root = at(i).inputs[k];
    if (!is(root, Kind::Rsqrt)) continue;
    const Found mean = beside_scalar(at(root).inputs[0], Kind::Add, epsilon);
    if (!mean || !is(*mean, Kind::ReduceMean) || !over_last(*mean)) continue;
    const int square = at(*mean).inputs[0];
    if (is(square, Kind::Square) && at(square).inputs[0] == x) return x;
  }
  return std::nullopt;
}

Recogniser::Found Recogniser::rms_norm(int x, int y) {
  double epsilon = 0.0;
  for (const auto& [gamma, core] : {std::pair{x, y}, std::pair{y, x}})
    if (const Found rows = normalised_rows(core, &epsilon))
      if (is_row_parameter(gamma, *rows)) return b_.rms_norm(*rows, gamma, epsilon);
  return std::nullopt;
}

// RMS norm of what is left without the mean, plus a bias.
Recogniser::Found Recogniser::layer_norm(int x, int y) {
  for (const auto& [beta, core] : {std::pair{x, y}, std::pair{y, x}}) {
    if (!is(core, Kind::RmsNorm) || !is_row_parameter(beta, core)) continue;
    const Node rms = at(core);
    const int centred = rms.inputs[0];
    if (!is(centred, Kind::Subtract)) continue;
    const int whole = at(centred).inputs[0], mean = at(centred).inputs[1];
    if (is(mean, Kind::ReduceMean) && over_last(mean) && at(mean).inputs[0] == whole)
      return b_.layer_norm(whole, rms.inputs[1], beta, rms.details.number);
  }
  return std::nullopt;
}

// --- activations ---

// Whether i is a polynomial of x with GELU's coefficient in it.
bool Recogniser::tanh_argument(int i, int x) const {
  std::vector<int> open = {i};
  bool coefficient = false;
  for (int steps = 0; !open.empty(); ++steps) {
    if (steps > 24) return false;
    const int at_node = open.back();
    open.pop_back();
    if (at_node == x) continue;
    if (const auto scalar = b_.scalar_of(at_node)) {
      coefficient = coefficient || near(*scalar * 10.0, 0.44715) || near(*scalar, 0.044715 * 0.7978845608) ||
                    std::abs(*scalar - 0.044715) < 1e-5;
      continue;
    }
    const Kind kind = at(at_node).kind;
    if (kind != Kind::Add && kind != Kind::Multiply && kind != Kind::Square && kind != Kind::Power) return false;
    open.insert(open.end(), at(at_node).inputs.begin(), at(at_node).inputs.end());
  }
  return coefficient;
}

// x * 0.5 * (1 + erf(x / sqrt 2)) and its like, in any order; x * sigmoid(x).
Recogniser::Found Recogniser::activation(int x, int y) {
  std::vector<int> open = {x, y}, factors;
  double factor = 1.0;
  while (!open.empty() && open.size() + factors.size() < 8) {
    const int i = open.back();
    open.pop_back();
    if (const auto scalar = b_.scalar_of(i))
      factor *= *scalar;
    else if (is(i, Kind::Multiply))
      open.insert(open.end(), at(i).inputs.begin(), at(i).inputs.end());
    else
      factors.push_back(i);
  }
  if (!open.empty() || factors.size() != 2) return std::nullopt;
  for (const auto& [of, gate] : {std::pair{factors[0], factors[1]}, std::pair{factors[1], factors[0]}}) {
    if (near(factor, 1.0) && is(gate, Kind::Sigmoid) && at(gate).inputs[0] == of) return b_.unary(Kind::Silu, of);
    double one = 0.0;
    const Found bent = beside_scalar(gate, Kind::Add, &one);
    if (!bent || !near(one, 1.0) || !near(factor, 0.5)) continue;
    if (is(*bent, Kind::Erf)) {
      const Scaled argument = unscaled(at(*bent).inputs[0]);
      if (argument.node == of && near(argument.factor, std::sqrt(0.5))) return b_.unary(Kind::GeluErf, of);
    }
    if (is(*bent, Kind::Tanh) && tanh_argument(at(*bent).inputs[0], of)) return b_.unary(Kind::Gelu, of);
  }
  return std::nullopt;
}

// --- rotary embedding ---

// x of (-x2, x1), the halves of its last dimension.
Recogniser::Found Recogniser::rotated_half(int i) const {
  if (!is(i, Kind::Concat) || !over_last(i) || at(i).inputs.size() != 2) return std::nullopt;
  const Scaled second = unscaled(at(i).inputs[0]);
  const int first = at(i).inputs[1];
  if (!near(second.factor, -1.0) || !is(second.node, Kind::Slice) || !is(first, Kind::Slice)) return std::nullopt;
  const int x = at(first).inputs[0];
  const std::int64_t half = at(x).shape.back() / 2;
  const bool halves = at(second.node).inputs[0] == x && over_last(first) && over_last(second.node) &&
                      at(first).shape.back() == half && at(second.node).shape.back() == half &&
                      at(first).details.start[0] == 0 && at(second.node).details.start[0] == half &&
                      2 * half == at(x).shape.back();
  return halves ? Found(x) : std::nullopt;
}

// sin of position 1: the angle of dimension k is base^(-2 k / dims).
double Recogniser::base_of(int sines, std::int64_t dims) const {
  constexpr double kUsual = 10000.0;
  const Node& table = at(sines);
  if (!table.values || dims < 4 || table.values->size() < static_cast<std::size_t>(2 * dims)) return kUsual;
  const std::int64_t k = dims / 2 - 1;
  const double angle = std::asin((*table.values)[static_cast<std::size_t>(dims + k)]);
  const double base = std::pow(angle, -static_cast<double>(dims) / (2.0 * static_cast<double>(k)));
  if (!(base > 1.0 && base < 1e12)) return kUsual;
  return std::abs(base - std::round(base)) < 1e-4 * base ? std::round(base) : base;
}

Recogniser::Found Recogniser::rotary(int x, int y) {
  for (const auto& [straight, turned] : {std::pair{x, y}, std::pair{y, x}}) {
    if (!is(straight, Kind::Multiply) || !is(turned, Kind::Multiply)) continue;
    for (const std::size_t k : {0, 1}) {
      const Found of = rotated_half(at(turned).inputs[k]);
      if (!of) continue;
      const int sines = at(turned).inputs[1 - k];
      const std::vector<int>& other = at(straight).inputs;
      if (other[0] != *of && other[1] != *of) continue;
      const int cosines = other[0] == *of ? other[1] : other[0];
      if (at(sines).trained || at(cosines).trained || at(sines).shape != at(cosines).shape) continue;
      const Shape& table = at(sines).shape;
      const auto rank = static_cast<std::int64_t>(at(*of).shape.size());
      std::optional<std::int64_t> positions;
      for (std::size_t d = 0; d + 1 < table.size(); ++d)
        if (table[d] > 1 && table[d] % kBatchProbe != 0) positions = rank - static_cast<std::int64_t>(table.size() - d);
      if (!positions || *positions < 0 || table.back() != at(*of).shape.back()) continue;
      const std::int64_t dims = table.back();
      return b_.rotary(*of, *positions, dims, base_of(sines, dims));
    }
  }
  return std::nullopt;
}

// --- attention ---

// Whether the square constant hides what is above its diagonal and nothing else. `keeps`: of 0 and 1, whether 1 is
// kept; none: any of the two, or numbers to be added.
bool hides_later(const Node& node, std::optional<bool> keeps) {
  const std::int64_t n = node.shape.back();
  bool added = true, kept = true, hidden = true;
  for (std::int64_t i = 0; i < n * n; ++i) {
    const double value = (*node.values)[static_cast<std::size_t>(i)];
    const bool later = i % n > i / n;
    added = added && (value <= kHidden) == later;
    kept = kept && (value != 0.0) == !later;
    hidden = hidden && (value != 0.0) == later;
  }
  return keeps ? (*keeps ? kept : hidden) : added || kept || hidden;
}

// keeps: of a mask that selects, whether what is not 0 is kept; none: the mask is added.
bool Recogniser::is_causal(int mask, std::optional<bool> keeps) const {
  std::vector<int> open = {mask};
  std::set<int> met;
  while (!open.empty() && met.size() < 256) {
    const int i = open.back();
    open.pop_back();
    if (!met.insert(i).second) continue;
    const Node& node = at(i);
    const std::size_t rank = node.shape.size();
    const bool square = rank >= 2 && node.shape[rank - 1] == node.shape[rank - 2] && node.shape[rank - 1] > 1;
    if (node.constant && square && (!node.values || hides_later(node, i == mask ? keeps : std::nullopt))) return true;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

void Recogniser::note_mask(int mask, std::optional<bool> keeps, Scores& scores) const {
  const bool causal = is_causal(mask, keeps);
  if (causal) scores.causal = true;
  if (!causal || !at(mask).constant) scores.hidden = true;
}

std::optional<Recogniser::Scores> Recogniser::scores_of(int i) const {
  Scores scores{i};
  for (int steps = 0; steps < 16; ++steps) {
    const Node& node = at(i);
    double scalar = 1.0;
    if (node.kind == Kind::MatMul) {
      scores.product = i;
      return scores;
    }
    const bool parted = node.kind == Kind::Reshape && is(node.inputs[0], Kind::MatMul) &&
                        node.shape.back() == at(node.inputs[0]).shape.back();
    if (parted) {  // heads that were merged for the product
      i = node.inputs[0];
    } else if (const Found inner = beside_scalar(i, Kind::Multiply, &scalar)) {
      scores.scale *= scalar;
      i = *inner;
    } else if (node.kind == Kind::Add || node.kind == Kind::Subtract || node.kind == Kind::Multiply) {
      const bool left = at(node.inputs[0]).trained;
      const int mask = node.inputs[left ? 1 : 0];
      if (at(mask).trained || (!left && node.kind == Kind::Subtract)) return std::nullopt;
      note_mask(mask, std::nullopt, scores);
      i = node.inputs[left ? 0 : 1];
    } else if (node.kind == Kind::Select && !at(node.inputs[0]).trained) {
      const bool keeps = at(node.inputs[1]).trained;
      if (at(node.inputs[keeps ? 2 : 1]).trained) return std::nullopt;
      note_mask(node.inputs[0], keeps, scores);
      i = node.inputs[keeps ? 1 : 2];
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// Keys or values before each head was repeated for its group: reshape(broadcast(x (b, kv, 1, s, d))).
int Recogniser::unrepeated(int i) {
  const Node merged = at(i);
  if (merged.kind != Kind::Reshape || merged.shape.size() != 4) return i;
  const Node wide = at(merged.inputs[0]);
  if (wide.kind != Kind::Broadcast || wide.shape.size() != 5) return i;
  const Shape narrow = at(wide.inputs[0]).shape;
  const bool repeats = narrow.size() == 5 && narrow[2] == 1 && narrow[1] == wide.shape[1] &&
                       merged.shape[1] == wide.shape[1] * wide.shape[2] && merged.shape[2] == wide.shape[3];
  return repeats ? b_.reshape(wide.inputs[0], {narrow[0], narrow[1], narrow[3], narrow[4]}) : i;
}

// (batch, heads, s, d) of what was merged to (batch * heads, s, d).
int Recogniser::with_heads(int i) {
  const Node node = at(i);
  if (node.kind != Kind::Reshape || node.shape.size() != 3) return i;
  const Shape before = at(node.inputs[0]).shape;
  const std::size_t rank = before.size();
  const bool merged = rank >= 4 && before[rank - 2] == node.shape[1] && before[rank - 1] == node.shape[2] &&
                      before[0] > 0 && node.shape[0] % before[0] == 0;
  return merged ? b_.reshape(node.inputs[0], {before[0], node.shape[0] / before[0], node.shape[1], node.shape[2]}) : i;
}

// What is below factors and merged heads.
Recogniser::Scaled Recogniser::peeled(int i) {
  Scaled whole{i, 1.0};
  for (int before = -1; before != whole.node;) {
    before = whole.node;
    const Scaled inner = unscaled(whole.node);
    whole = {with_heads(inner.node), whole.factor * inner.factor};
  }
  return whole;
}

// The softmax of attention weights, below what drops some, merges heads, or sets rows to 0 in which all is masked.
int Recogniser::softmax_below(int i) {
  for (int steps = 0; steps < 4 && !is(i, Kind::Softmax); ++steps) {
    if (is(i, Kind::Dropout))
      i = at(i).inputs[0];
    else if (is(i, Kind::Select))
      i = at(i).inputs[is(at(i).inputs[1], Kind::Softmax) ? 1 : 2];
    else
      i = with_heads(i);  // the same where nothing was merged
  }
  return i;
}

Recogniser::Found Recogniser::attention(int weights, int values) {
  weights = softmax_below(weights);
  if (!is(weights, Kind::Softmax) || !over_last(weights)) return std::nullopt;
  const std::optional<Scores> scores = scores_of(at(weights).inputs[0]);
  if (!scores) return std::nullopt;
  const std::vector<int> factors = at(scores->product).inputs;
  const Scaled q = peeled(factors[0]), turned = peeled(factors[1]);
  if (at(turned.node).shape.size() < 2) return std::nullopt;
  const Scaled k = peeled(b_.swap(turned.node, -1, -2));
  const double scale = scores->scale * q.factor * turned.factor * k.factor;
  const int queries = q.node, keys = unrepeated(k.node), of_values = unrepeated(with_heads(values));
  const Shape &a = at(queries).shape, &b = at(keys).shape, &c = at(of_values).shape;
  const bool fits = a.size() == 4 && b.size() == 4 && c.size() == 4 && a[0] == b[0] && b[0] == c[0] && b[1] == c[1] &&
                    b[1] > 0 && a[1] % b[1] == 0 && b[2] == c[2] && a[3] == b[3] && scale > 0.0;
  if (!fits) return std::nullopt;
  const double usual = 1.0 / std::sqrt(static_cast<double>(a[3]));
  const bool causal = scores->causal && a[2] <= b[2];
  if (scores->hidden && masks_++ == 0) first_mask_ = b_.name;
  return b_.attention(queries, keys, of_values, near(scale, usual) ? 0.0 : scale, causal);
}

// --- losses ---

// Labels below what replaces those that are ignored.
int labels_below(const Builder& b, int i) {
  while (b.at(i).kind == Kind::Select) i = b.at(i).inputs[b.at(b.at(i).inputs[1]).constant ? 2 : 1];
  return i;
}

// The mean or sum of the logarithms that labels pick of a softmax, however it is weighed and counted.
Recogniser::Found Recogniser::cross_entropy(int loss) {
  if (!at(loss).shape.empty()) return std::nullopt;
  int i = loss;
  for (int steps = 0; steps < 24 && !is(i, Kind::PickLabel); ++steps) {
    const Kind kind = at(i).kind;
    const bool passes = kind == Kind::Divide || kind == Kind::Multiply || kind == Kind::ReduceSum ||
                        kind == Kind::ReduceMean || kind == Kind::Select || kind == Kind::Reshape;
    if (!passes) return std::nullopt;
    Found next;
    for (const int input : at(i).inputs)
      if (at(input).trained) next = input;
    if (!next) return std::nullopt;
    i = *next;
  }
  if (!is(i, Kind::PickLabel)) return std::nullopt;
  const int logarithm = at(i).inputs[0], labels = labels_below(b_, at(i).inputs[1]);
  if (!is(logarithm, Kind::Log) || !is(at(logarithm).inputs[0], Kind::Softmax)) return std::nullopt;
  const int softmax = at(logarithm).inputs[0];
  return over_last(softmax) ? Found(b_.cross_entropy(at(softmax).inputs[0], labels)) : std::nullopt;
}

// --- all ---

Recogniser::Found Recogniser::find(Kind kind, const std::vector<int>& inputs) {
  Found found;
  if (kind == Kind::Multiply) {
    found = rms_norm(inputs[0], inputs[1]);
    if (!found) found = activation(inputs[0], inputs[1]);
  } else if (kind == Kind::Add) {
    found = layer_norm(inputs[0], inputs[1]);
    if (!found) found = rotary(inputs[0], inputs[1]);
  } else if (kind == Kind::MatMul) {
    found = attention(inputs[0], inputs[1]);
  }
  return found;
}

Module Recogniser::run() {
  std::vector<int> made;
  for (const Node& node : from_.nodes) {
    b_.name = node.name;
    b_.block = node.block;
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(made[static_cast<std::size_t>(input)]);
    int now = -1;
    if (inputs.empty()) {
      now = static_cast<int>(to_.nodes.size());
      to_.nodes.push_back(node);
    } else {
      if (node.kind == Kind::Attention)
        for (const std::size_t k : {1, 2}) inputs[k] = unrepeated(inputs[k]);
      const Found found = find(node.kind, inputs);
      now = found ? *found : b_.add(node.kind, inputs, node.shape, node.integer, node.details);
      // A form that merged the heads gets them merged again.
      if (at(now).shape != node.shape) now = b_.reshape(now, node.shape);
    }
    made.push_back(now);
  }
  if (masks_ > 0)
    to_.notes.push_back(fmt::format(
        "the masks of {} attention{} (the first '{}') are left out, but for a causal part: batches are taken as full",
        masks_, masks_ == 1 ? "" : "s", first_mask_));
  to_.result = made[static_cast<std::size_t>(from_.result)];
  if (const Found loss = cross_entropy(to_.result)) to_.result = *loss;
  drop_unused(to_);
  for (const Node& node : to_.nodes)
    if (node.kind >= Kind::Softmax || node.kind == Kind::Gelu || node.kind == Kind::GeluErf || node.kind == Kind::Silu)
      ++to_.recognised[name_of(node.kind)];
  return std::move(to_);
}

}  // namespace

Module recognised(const Module& module) { return Recogniser(module).run(); }

}  // namespace meshwright::primitive
