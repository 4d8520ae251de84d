// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/errors.h"

namespace meshwright::primitive {

// The mean of a sum times 1 / n.
Recogniser::Found Recogniser::mean_of_sum(int x, int y) {
  for (const auto& [sum, factor] : {std::pair{x, y}, std::pair{y, x}}) {
    const auto number = b_.scalar_of(factor);
    const int inner = core(sum);
    if (!number || !is(inner, Kind::ReduceSum) || at(inner).integer) continue;
    double count = 1.0;
    for (const std::int64_t axis : at(inner).details.axes) {
      const std::int64_t size = at(at(inner).inputs[0]).shape[static_cast<std::size_t>(axis)];
      count *=
          static_cast<double>(holds_batch(size) ? size / kBatchProbe * std::max<std::int64_t>(to_.batch, 1) : size);
    }
    if (std::abs(*number * count - 1.0) > 1e-3) continue;
    const int mean = b_.reduce(Kind::ReduceMean, at(inner).inputs[0], at(inner).details.axes, true);
    return b_.reshape(mean, at(sum).shape);
  }
  return std::nullopt;
}

Recogniser::Product Recogniser::product_of(std::vector<int> open, bool scaled) const {
  Product product;
  for (int steps = 0; !open.empty() && steps < 64; ++steps) {
    const int i = open.back(), inner = core(i);
    open.pop_back();
    if (const auto number = b_.scalar_of(i))
      product.number *= *number;
    else if (double factor = 0.0; scaled && beside_scalar(inner, Kind::Multiply, &factor))
      product.factors.push_back(i);
    else if (is(inner, Kind::Multiply))
      open.insert(open.end(), at(inner).inputs.begin(), at(inner).inputs.end());
    else
      product.factors.push_back(i);
  }
  return product;
}

std::optional<Recogniser::Normalised> Recogniser::normalised(const std::vector<int>& open) const {
  const Product product = product_of(open, true);
  if (!near(product.number, 1.0) || product.factors.size() > 4) return std::nullopt;
  std::optional<Normalised> found;
  std::vector<int> others;
  for (const int factor : product.factors) {
    const int root = core(factor);
    double epsilon = 0.0;
    if (!found && is(root, Kind::Rsqrt)) {
      const Found variance = beside_scalar(core(at(root).inputs[0]), Kind::Add, &epsilon);
      found = Normalised{factor, core(variance ? *variance : at(root).inputs[0]), variance ? epsilon : 0.0, {}};
      continue;
    }
    others.push_back(factor);
  }
  if (found) found->others = others;
  return found;
}

bool Recogniser::is_mean(int mean, int x, const std::vector<std::int64_t>& axes) const {
  const int inner = core(mean);
  return is(inner, Kind::ReduceMean) && at(inner).inputs[0] == x && at(inner).details.axes == axes;
}

// x of x - mean(x).
Recogniser::Found Recogniser::uncentred(int i, const std::vector<std::int64_t>& axes) const {
  if (!is(i, Kind::Subtract)) return std::nullopt;
  const int x = at(i).inputs[0];
  return is_mean(at(i).inputs[1], x, axes) ? Found(x) : std::nullopt;
}

std::optional<Recogniser::Moment> Recogniser::moment_of(int variance) const {
  int i = core(variance);
  if (is(i, Kind::Relu)) i = core(at(i).inputs[0]);
  const auto square = [&](int mean) -> Found {
    const int inner = core(mean);
    if (!is(inner, Kind::ReduceMean) || !is(at(inner).inputs[0], Kind::Square)) return std::nullopt;
    const int of = at(at(inner).inputs[0]).inputs[0];
    return is(of, Kind::Abs) ? at(of).inputs[0] : of;
  };
  if (const Found x = square(i)) return Moment{*x, false, at(i).details.axes};
  if (!is(i, Kind::Subtract)) return std::nullopt;
  const int whole = core(at(i).inputs[0]), mean = core(at(i).inputs[1]);
  const Found x = square(whole);
  if (!x || !is(mean, Kind::Square) || !is_mean(at(mean).inputs[0], *x, at(whole).details.axes)) return std::nullopt;
  return Moment{*x, true, at(whole).details.axes};
}

// A scale or a bias: numbers that no sample changes.
bool Recogniser::is_row(int i) const {
  const int inner = core(i);
  const Shape& shape = at(inner).shape;
  const bool fixed = at(inner).trained || (at(inner).constant && elements_of(shape) > 1);
  return fixed && !shape.empty() && std::none_of(shape.begin(), shape.end(), holds_batch);
}

// Whether the row's numbers, one for each, are along the last dimension of what it is combined with.
bool Recogniser::along_last(int row, std::int64_t size) const {
  return elements_of(at(core(row)).shape) == size && at(row).shape.back() == size;
}

// Whether what broadcasts with a tensor of this shape has its shape.
bool Recogniser::widens_to(int i, const Shape& shape) const {
  const Shape& own = at(i).shape;
  if (own.size() > shape.size()) return false;
  for (std::size_t d = 0; d < own.size(); ++d)
    if (own[d] != 1 && own[d] != shape[d + shape.size() - own.size()]) return false;
  return true;
}

// As one vector; a scale that is a parameter plus a number is taken as that parameter.
int Recogniser::row(int i) {
  const int inner = core(i);
  double number = 0.0;
  const Found parameter = beside_scalar(inner, Kind::Add, &number);
  if (parameter && is(core(*parameter), Kind::Parameter)) {
    shifted_ = true;
    return row(*parameter);
  }
  return b_.reshape(inner, {elements_of(at(inner).shape)});
}

int Recogniser::filled(std::int64_t size, double value) {
  return b_.constant({size}, false, std::vector<double>(static_cast<std::size_t>(size), value));
}

// x / sqrt(mean(x^2) + epsilon) times a row, the mean over the last dimension; also of what is left of a tensor without
// its mean.
Recogniser::Found Recogniser::rms_norm(const std::vector<int>& factors) {
  const std::optional<Normalised> norm = normalised(factors);
  if (!norm || norm->others.empty() || norm->others.size() > 2) return std::nullopt;
  const std::optional<Moment> moment = moment_of(norm->variance);
  if (!moment) return std::nullopt;
  const int only = norm->others[0];
  if (lone_ && norm->others.size() == 1 && moment->axes.size() > 1) {
    const Found whole = moment->centred ? Found(moment->x) : uncentred(moment->x, moment->axes);
    if (whole && uncentred(only, moment->axes) == whole) return normalised_over(*whole, moment->axes, norm->epsilon);
  }
  for (std::size_t k = 0; k < norm->others.size(); ++k) {
    const int x = norm->others[k];
    if (at(x).shape.empty() ||
        moment->axes != std::vector<std::int64_t>{static_cast<std::int64_t>(at(x).shape.size()) - 1})
      continue;
    if (moment->centred ? uncentred(x, moment->axes) != moment->x : x != moment->x) continue;
    const std::int64_t size = at(x).shape.back();
    if (norm->others.size() == 1)
      return lone_ && size <= kMaxValues ? Found(b_.rms_norm(x, filled(size, 1.0), norm->epsilon)) : std::nullopt;
    const int gamma = norm->others[1 - k];
    if (is_row(gamma) && along_last(gamma, size)) return b_.rms_norm(x, row(gamma), norm->epsilon);
  }
  return std::nullopt;
}

// RMS norm of what is left without the mean, plus a bias.
Recogniser::Found Recogniser::layer_norm(int x, int y) {
  for (const auto& [beta, norm] : {std::pair{x, y}, std::pair{y, x}}) {
    if (!is(norm, Kind::RmsNorm) || !is_row(beta)) continue;
    const Node rms = at(norm);
    const Found whole = uncentred(rms.inputs[0], {static_cast<std::int64_t>(rms.shape.size()) - 1});
    if (whole && along_last(beta, rms.shape.back()))
      return b_.layer_norm(*whole, rms.inputs[1], row(beta), rms.details.number);
  }
  return std::nullopt;
}

// RMS norm of what is left without the mean, alone.
Recogniser::Found Recogniser::norm_without_bias(int x, int gamma, double epsilon) {
  const std::int64_t size = at(x).shape.back();
  const Found whole = uncentred(x, {static_cast<std::int64_t>(at(x).shape.size()) - 1});
  if (!whole || size > kMaxValues) return std::nullopt;
  return b_.layer_norm(*whole, gamma, filled(size, 0.0), epsilon);
}

// (x - mean) a + beta, or x a + (beta - mean a), with a = gamma / sqrt(variance + epsilon): a layer norm, or a batch
// norm, also one by running statistics.
Recogniser::Found Recogniser::folded_norm(int scaled, int shift) {
  if (!is(scaled, Kind::Multiply)) return std::nullopt;
  const std::optional<Normalised> norm = normalised({scaled});
  if (!norm || norm->others.empty() || norm->others.size() > 2) return std::nullopt;
  for (std::size_t k = 0; k < norm->others.size(); ++k) {
    const int x = norm->others[k];
    Found gamma;
    if (norm->others.size() == 2) gamma = norm->others[1 - k];
    if (gamma && !is_row(*gamma)) continue;
    if (is_row(shift) && is(x, Kind::Subtract))
      if (const Found made = shifted_norm(at(x).inputs[0], at(x).inputs[1], *norm, gamma, shift)) return made;
    // beta - mean a, in any order of its factors
    const int sum = core(shift);
    if (!is(sum, Kind::Add) && !is(sum, Kind::Subtract)) continue;
    for (const std::size_t b : {0u, 1u}) {
      const int beta = at(sum).inputs[b], product = at(sum).inputs[1 - b];
      const bool minus = is(sum, Kind::Subtract);
      if ((minus && b == 1) || !is_row(beta)) continue;
      Product factors = product_of({product});
      if (!near(factors.number, minus ? 1.0 : -1.0)) continue;
      const auto remove = [&](int of) {
        const auto at_factor = std::find_if(factors.factors.begin(), factors.factors.end(),
                                            [&](int factor) { return core(factor) == core(of); });
        if (at_factor == factors.factors.end()) return false;
        factors.factors.erase(at_factor);
        return true;
      };
      if (!remove(norm->inverse) || (gamma && !remove(*gamma)) || factors.factors.size() != 1) continue;
      if (const Found made = shifted_norm(x, factors.factors[0], *norm, gamma, beta)) return made;
    }
  }
  return std::nullopt;
}

Recogniser::Found Recogniser::shifted_norm(int x, int mean, const Normalised& norm, Found gamma, Found beta) {
  const Shape shape = at(x).shape;
  // The dimension that each number of the inverse root is for.
  const Shape& inverse = at(norm.inverse).shape;
  std::optional<std::size_t> channel;
  for (std::size_t d = 0; d < inverse.size(); ++d) {
    if (inverse[d] == 1) continue;
    if (channel && !holds_batch(inverse[d])) channel.reset();
    channel = d + shape.size() - inverse.size();
  }
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (const std::optional<Moment> moment = moment_of(norm.variance)) {
    const Found centre = moment->centred ? Found(moment->x) : uncentred(moment->x, moment->axes);
    if (centre != x || !is_mean(mean, x, moment->axes)) return std::nullopt;
    if (moment->axes == std::vector<std::int64_t>{last} && gamma && beta && along_last(*gamma, shape.back()) &&
        along_last(*beta, shape.back()))
      return b_.layer_norm(x, row(*gamma), row(*beta), norm.epsilon);
    if (moment->axes.size() + 1 != shape.size()) {
      if ((gamma && !widens_to(*gamma, shape)) || (beta && !widens_to(*beta, shape))) return std::nullopt;
      Found made = normalised_over(x, moment->axes, norm.epsilon);
      if (made && gamma) made = b_.binary(Kind::Multiply, *made, *gamma);
      if (made && beta) made = b_.binary(Kind::Add, *made, *beta);
      return made;
    }
    for (std::int64_t d = 0; d <= last; ++d)
      if (std::find(moment->axes.begin(), moment->axes.end(), d) == moment->axes.end())
        channel = static_cast<std::size_t>(d);
  } else if (!is_row(norm.variance) || !is_row(mean)) {
    return std::nullopt;
  }
  return channel ? batch_norm(x, *channel, gamma, beta, norm.epsilon) : std::nullopt;
}

// x without its mean and divided by its deviation over several dimensions of a sample, as in a group norm: a layer norm
// of what these dimensions are together.
Recogniser::Found Recogniser::normalised_over(int x, const std::vector<std::int64_t>& axes, double epsilon) {
  const Shape shape = at(x).shape;
  Shape order, back(shape.size()), rows;
  std::int64_t width = 1;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) order.push_back(d);
  for (const std::int64_t d : order) rows.push_back(shape[static_cast<std::size_t>(d)]);
  for (const std::int64_t d : axes) {
    if (holds_batch(shape[static_cast<std::size_t>(d)])) return std::nullopt;
    order.push_back(d);
    width *= shape[static_cast<std::size_t>(d)];
  }
  if (width > kMaxValues) return std::nullopt;
  for (std::size_t k = 0; k < order.size(); ++k)
    back[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
  rows.push_back(width);
  const int turned = b_.transpose(x, order);
  const Shape apart = at(turned).shape;
  const int made = b_.layer_norm(b_.reshape(turned, rows), filled(width, 1.0), filled(width, 0.0), epsilon);
  return b_.transpose(b_.reshape(made, apart), back);
}

Recogniser::Found Recogniser::batch_norm(int x, std::size_t channel, Found gamma, Found beta, double epsilon) {
  const Shape shape = at(x).shape;
  const std::int64_t size = shape[channel];
  if (channel == 0 || (shape.size() != 4 && shape.size() != 2) || size > kMaxValues) return std::nullopt;
  const auto fits = [&](Found of) { return !of || elements_of(at(core(*of)).shape) == size; };
  if (!fits(gamma) || !fits(beta)) return std::nullopt;
  const int scale = gamma ? row(*gamma) : filled(size, 1.0), bias = beta ? row(*beta) : filled(size, 0.0);
  if (shape.size() == 2) return b_.reshape(b_.batch_norm(b_.unsqueeze(x, {2, 3}), scale, bias, epsilon), shape);
  Shape order = {0, static_cast<std::int64_t>(channel)}, back(4);
  for (std::int64_t d = 1; d < 4; ++d)
    if (d != static_cast<std::int64_t>(channel)) order.push_back(d);
  for (std::size_t d = 0; d < 4; ++d) back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  return b_.transpose(b_.batch_norm(b_.transpose(x, order), scale, bias, epsilon), back);
}

}  // namespace meshwright::primitive
