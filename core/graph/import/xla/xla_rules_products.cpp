// SPDX-License-Identifier: Apache-2.0
// Products, convolutions, pooling, and batch normalisation as an operation.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/primitive/contraction.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;

// --- dot ---

bool holds(const Numbers& list, std::size_t d) {
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(d)) != list.end();
}

void dot(Lowering& l, const FlatOp& op) {
  l.b.expect(op.operands.size() == 2, "it has no two operands");
  const Attributes& a = op.instruction->attributes;
  const Lowered &one = l.operand(op, 0), &two = l.operand(op, 1);
  if (lower_product_by_expert(l, op, one, two) || lower_sum_of_choices(l, op, one, two)) return;
  if (l.b.scalar_of(one.node) == 0.0 || l.b.scalar_of(two.node) == 0.0)  // as of a first state of zeros
    return l.set(op, l.b.scalar(0.0), l.type(op.results[0]).sizes);
  primitive::ContractionSide x{l.whole(one), a.lhs_batch, {}, a.lhs_contracting};
  primitive::ContractionSide y{l.whole(two), a.rhs_batch, {}, a.rhs_contracting};
  for (primitive::ContractionSide* side : {&x, &y}) {
    const std::size_t rank = l.b.shape(side->node).size();
    std::set<std::int64_t> met;
    for (const Numbers* list : {&side->batch, &side->summed})
      for (const std::int64_t axis : *list)
        l.b.expect(axis >= 0 && axis < static_cast<std::int64_t>(rank) && met.insert(axis).second,
                   "its dimensions are none of its operands");
    for (std::size_t d = 0; d < rank; ++d)
      if (!holds(side->batch, d) && !holds(side->summed, d)) side->own.push_back(static_cast<std::int64_t>(d));
  }
  l.b.expect(x.batch.size() == y.batch.size() && x.summed.size() == y.summed.size(), "its operands do not fit");
  const auto order = [](std::size_t of_first, std::size_t of_second, std::size_t batch) {
    // Axes of HLO's result (batch, own of x, own of y) in one made with the operands swapped.
    Numbers axes(batch + of_first + of_second);
    std::iota(axes.begin(), axes.end(), 0);
    std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(batch),
                axes.begin() + static_cast<std::ptrdiff_t>(batch + of_first), axes.end());
    return axes;
  };
  const primitive::Contraction product = primitive::contract(l.b, x, y);
  Lowered made{product.node, l.b.shape(product.node)};
  if (product.swapped) made = l.transposed(made, order(y.own.size(), x.own.size(), x.batch.size()));
  l.learn(l.type(op.results[0]).sizes, made.shape);
  l.set(op.results[0], made);
}

// --- images ---

// "b01f": the place of each letter; spatial dimensions in order.
struct Labels {
  Numbers order;  // batch, feature, then space: axes of the tensor
  bool fits = false;
};

Labels labels_of(const std::string& text, char first, char second) {
  Labels labels;
  const std::size_t a = text.find(first), b = text.find(second);
  if (a == std::string::npos || b == std::string::npos) return labels;
  labels.order = {static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)};
  for (std::size_t k = 0; k + 2 < text.size(); ++k) {
    const std::size_t at = text.find(static_cast<char>('0' + k));
    if (at == std::string::npos) return labels;
    labels.order.push_back(static_cast<std::int64_t>(at));
  }
  labels.fits = text.size() >= 3 && text.size() <= 4;
  return labels;
}

// Axes that bring a tensor of that order back.
Numbers inverse(const Numbers& order) {
  Numbers back(order.size());
  for (std::size_t k = 0; k < order.size(); ++k)
    back[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(k);
  return back;
}

bool all_are(const Numbers& list, std::int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](std::int64_t number) { return number == value; });
}

// A convolution of an image with zeros between its elements, weight (out, in / groups, kh, kw): each element becomes a
// window of the weight the other way round, and what the padding lacks of a whole window is cut off.
int spread(Lowering& l, int x, int w, Builder::TransposedWindows windows, std::int64_t groups, bool reversed) {
  const Shape of = l.b.shape(w);
  l.b.expect(of.size() == 4, "its weight is none of images");
  for (const std::size_t d : {0u, 1u}) {
    windows.before[d] = of[d + 2] - 1 - windows.before[d];
    windows.after[d] = of[d + 2] - 1 - windows.after[d];
    const auto axis = static_cast<std::int64_t>(d) + 2;
    if (!reversed && of[d + 2] > 1) w = l.b.slice(w, axis, of[d + 2] - 1, -of[d + 2] - 1, -1);
  }
  return l.b.transposed_convolution(x, l.b.swapped_in_groups(w, groups), windows, groups);
}

void convolution(Lowering& l, const FlatOp& op) {
  const Attributes& a = op.instruction->attributes;
  const std::size_t underscore = a.dim_labels.find('_'), arrow = a.dim_labels.find("->");
  l.b.expect(
      op.operands.size() == 2 && underscore != std::string::npos && arrow != std::string::npos && arrow > underscore,
      "it lacks dim_labels");
  const Labels in = labels_of(a.dim_labels.substr(0, underscore), 'b', 'f'),
               weight = labels_of(a.dim_labels.substr(underscore + 1, arrow - underscore - 1), 'o', 'i'),
               out = labels_of(a.dim_labels.substr(arrow + 2), 'b', 'f');
  l.b.expect(in.fits && weight.fits && out.fits,
             "convolutions over other than one or two dimensions have no equal here");
  const bool transposed = !all_are(a.window.base_dilation, 1);
  const auto reversed = std::count(a.window.reversed.begin(), a.window.reversed.end(), true);
  l.b.expect(a.batch_groups == 1 && (transposed || reversed == 0),
             "convolutions of a backward (in groups of the batch, or reversed) have no equal here");
  Numbers before = a.window.before, after = a.window.after, stride = a.window.stride,
          dilation = a.window.window_dilation;
  const std::size_t space = in.order.size() - 2;
  before.resize(space, 0), after.resize(space, 0), stride.resize(space, 1), dilation.resize(space, 1);
  l.b.expect(!transposed || (all_are(stride, 1) && all_are(dilation, 1)),
             "a transposed convolution with a stride or a dilation has no equal here");
  int of_x = l.operand_value(op, 0);
  if (const Padded* padded = l.padded(of_x); padded != nullptr && padded->fill == 0.0) {
    bool only_space = true;
    for (std::size_t k = 0; k < 2; ++k) {
      const auto d = static_cast<std::size_t>(in.order[k]);
      only_space = only_space && padded->low[d] == 0 && padded->high[d] == 0;
    }
    if (only_space) {
      of_x = padded->value;
      for (std::size_t k = 0; k < space; ++k) {
        before[k] += padded->low[static_cast<std::size_t>(in.order[k + 2])];
        after[k] += padded->high[static_cast<std::size_t>(in.order[k + 2])];
      }
    }
  }
  for (const Numbers* pads : {&before, &after})
    for (const std::int64_t size : *pads) l.b.expect(size >= 0 || transposed, "a negative padding has no equal here");
  const Lowered &image = l.of(of_x), &kernel = l.operand(op, 1);
  l.b.expect(image.shape.size() == in.order.size() && kernel.shape.size() == weight.order.size(),
             "its dim_labels are none of its operands");
  int x = l.b.transpose(l.whole(image), in.order), w = l.b.transpose(l.whole(kernel), weight.order);
  Numbers apart = a.window.base_dilation;  // elements of a transposed convolution's image
  apart.resize(space, 1);
  if (space == 1) {
    x = l.b.unsqueeze(x, {2});
    w = l.b.unsqueeze(w, {2});
    before.insert(before.begin(), 0), after.insert(after.begin(), 0), stride.insert(stride.begin(), 1);
    dilation.insert(dilation.begin(), 1), apart.insert(apart.begin(), 1);
  }
  int made = transposed ? spread(l, x, w, {apart, before, after}, a.feature_groups, reversed > 0)
                        : l.b.convolution(x, w, {{}, stride, before, after, false, dilation}, a.feature_groups);
  if (space == 1) made = l.b.squeeze(made, {2});
  made = l.b.transpose(made, inverse(out.order));
  l.set(op, made, l.b.shape(made));
  l.learn(l.type(op.results[0]).sizes, l.b.shape(made));
}

// Which two dimensions a window of (1, h, w, 1) or (1, 1, h, w) goes over: axes of (batch, channels, height, width).
std::optional<Numbers> image_order(const Window& window) {
  if (window.size.size() != 4) return std::nullopt;
  const auto moves = [&](std::size_t d) { return window.size[d] != 1 || window.stride[d] != 1; };
  if (moves(0)) return std::nullopt;
  if (!moves(3)) return Numbers{0, 3, 1, 2};
  if (!moves(1)) return Numbers{0, 1, 2, 3};
  return std::nullopt;
}

// Which dimension of one element makes an image of four dimensions: one to be put into an image of three, or to be
// taken out of one of five, such as vmap adds.
std::optional<std::size_t> single_dimension(const Window& window, const Shape& shape) {
  if (shape.size() == 3) return window.size[1] == 1 ? 2 : 1;
  for (std::size_t d = 1; d < shape.size() && shape.size() == 5; ++d)
    if (shape[d] == 1 && window.size[d] == 1 && window.stride[d] == 1) return d;
  return std::nullopt;
}

// How many elements of an image each window holds, padding aside: one number, where none reaches beyond the image.
int elements_inside(Lowering& l, const Window& window, const Shape& shape) {
  double all = 1.0;
  std::optional<int> product;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t size = window.size[d], before = window.before[d], padded = shape[d] + before + window.after[d];
    if (before == 0 && window.after[d] == 0) {
      all *= static_cast<double>(size);
      continue;
    }
    l.b.expect(!primitive::holds_batch(shape[d]) && before >= 0 && window.after[d] >= 0 && size <= padded &&
                   padded < primitive::kMaxValues,
               "it pads the batch, or by less than nothing");
    std::vector<double> inside;
    for (std::int64_t begin = -before; begin + size <= shape[d] + window.after[d]; begin += window.stride[d])
      inside.push_back(static_cast<double>(
          std::max<std::int64_t>(std::min(begin + size, shape[d]) - std::max<std::int64_t>(begin, 0), 0)));
    Shape along(shape.size(), 1);
    along[d] = static_cast<std::int64_t>(inside.size());
    const int counts = l.b.constant(along, false, std::move(inside));
    product = product ? l.b.binary(Kind::Multiply, *product, counts) : counts;
  }
  return product ? l.b.binary(Kind::Multiply, *product, l.b.scalar(all)) : l.b.scalar(all);
}

void reduce_window(Lowering& l, const FlatOp& op) {
  if (lower_cumulative_sum(l, op)) return;
  l.b.expect(op.operands.size() == 2 && op.results.size() == 1, "pooling of several tensors at once has no equal here");
  Window window = op.instruction->attributes.window;
  const std::string applied = l.applied(*op.instruction);
  l.b.expect(applied == "maximum" || applied == "add",
             applied == "multiply" ? "a cumulative product has no equal here"
                                   : "pooling that neither adds nor takes the maximum has no equal here");
  l.b.expect(all_are(window.base_dilation, 1) && all_are(window.window_dilation, 1),
             "dilated pooling has no equal here");
  const bool maximum = applied == "maximum";
  const std::size_t rank = window.size.size();
  window.before.resize(rank, 0), window.after.resize(rank, 0), window.stride.resize(rank, 1);
  int of_x = l.operand_value(op, 0);
  if (const Padded* padded = l.padded(of_x); padded != nullptr && padded->low.size() == rank) {
    // Zeros add nothing; what is not negative has a maximum of at least 0.
    const bool from_zero = padded->fill == 0.0 && (!maximum || l.b.at(l.of(padded->value).node).kind == Kind::Relu);
    if (from_zero || (maximum && padded->fill <= -1e30)) {
      of_x = padded->value;
      for (std::size_t d = 0; d < rank; ++d) window.before[d] += padded->low[d], window.after[d] += padded->high[d];
    }
  }
  const Lowered& image = l.of(of_x);
  l.b.expect(image.shape.size() == rank && rank >= 3 && rank <= 5, "pooling of other than images has no equal here");
  const std::optional<int> inside = maximum ? std::nullopt : std::optional(elements_inside(l, window, image.shape));
  if (const auto number = l.b.scalar_of(image.node); number && inside)
    return l.set(op, l.b.binary(Kind::Multiply, *inside, l.b.scalar(*number)), l.type(op.results[0]).sizes);
  int x = l.whole(image);
  const std::optional<std::size_t> single = single_dimension(window, image.shape);
  if (single) {
    const auto d = static_cast<std::ptrdiff_t>(*single);
    const bool taken = rank == 5;
    const auto fit = [&](Numbers& list, std::int64_t number) {
      if (taken) list.erase(list.begin() + d);
      if (!taken) list.insert(list.begin() + d, number);
    };
    fit(window.size, 1), fit(window.stride, 1), fit(window.before, 0), fit(window.after, 0);
    x = taken ? l.b.squeeze(x, {d}) : l.b.unsqueeze(x, {d});
  }
  const std::optional<Numbers> order = image_order(window);
  l.b.expect(order.has_value(), "a window over other than the height and width of images has no equal here");
  const auto two = [&](const Numbers& list) {
    return Numbers{list[static_cast<std::size_t>((*order)[2])], list[static_cast<std::size_t>((*order)[3])]};
  };
  for (const std::size_t k : {0u, 1u}) {
    const auto d = static_cast<std::size_t>((*order)[k]);
    l.b.expect(window.before[d] == 0 && window.after[d] == 0, "it pads the batch or the channels");
  }
  int made = l.b.pool(maximum ? Kind::MaxPool : Kind::AveragePool, l.b.transpose(x, *order),
                      {two(window.size), two(window.stride), two(window.before), two(window.after)});
  made = l.b.transpose(made, inverse(*order));
  if (single && rank == 5) made = l.b.unsqueeze(made, {static_cast<std::int64_t>(*single)});
  if (single && rank == 3) made = l.b.squeeze(made, {static_cast<std::int64_t>(*single)});
  if (!maximum) made = l.b.binary(Kind::Multiply, made, *inside);  // the average is of what lies in the image
  l.set(op, made, l.b.shape(made));
}

// --- batch normalisation ---

double epsilon_of(const Instruction& of) {
  const auto found = of.attributes.other.find("epsilon");
  return found == of.attributes.other.end() ? 0.0 : std::strtod(found->second.c_str(), nullptr);
}

std::size_t feature_of(Lowering& l, const FlatOp& op, std::size_t rank) {
  const auto& other = op.instruction->attributes.other;
  const auto found = other.find("feature_index");
  const double index = found == other.end() ? -1.0 : std::strtod(found->second.c_str(), nullptr);
  l.b.expect(
      index >= 0.0 && index < static_cast<double>(rank),
      fmt::format("its feature_index {} is outside of its operand's, 0 to {}", index, static_cast<int>(rank) - 1));
  return static_cast<std::size_t>(index);
}

// A scale or bias, one for each feature, as the norm reads it.
int row(Lowering& l, const Lowered& of) { return l.whole(of); }

// (x - mean) / sqrt(variance + epsilon) over all dimensions but the feature's.
void batch_norm(Lowering& l, const FlatOp& op) {
  const Lowered x = l.operand(op, 0);
  const std::size_t feature = feature_of(l, op, x.shape.size());
  const double epsilon = epsilon_of(*op.instruction);
  if (x.shape.size() == 4) {
    Numbers order = {0, static_cast<std::int64_t>(feature)};
    for (std::int64_t d = 1; d < 4; ++d)
      if (d != static_cast<std::int64_t>(feature)) order.push_back(d);
    l.b.expect(feature != 0, "a normalisation by sample has no equal here");
    const int made = l.b.transpose(
        l.b.batch_norm(l.b.transpose(l.whole(x), order), row(l, l.operand(op, 1)), row(l, l.operand(op, 2)), epsilon),
        inverse(order));
    return l.set(op, made, l.b.shape(made));
  }
  // PyTorch writes a layer norm of (batch, rows, width) as a batch norm of (1, batch rows, width).
  l.b.expect(l.b.module().batch != 1 || x.shape.empty() || !primitive::holds_batch(x.shape[0]),
             "a normalisation of one sample over its rows does not tell whether it is that of a batch");
  Numbers axes;
  Shape by_feature(x.shape.size(), 1);
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (d != feature && x.shape[d] != 1) axes.push_back(static_cast<std::int64_t>(d));
  l.b.expect(!axes.empty(), "it normalises single elements");
  const int whole = l.whole(x);
  const int centred = l.b.binary(Kind::Subtract, whole, l.b.reduce(Kind::ReduceMean, whole, axes, true));
  const int variance = l.b.reduce(Kind::ReduceMean, l.b.unary(Kind::Square, centred), axes, true);
  const int root = l.b.unary(Kind::Rsqrt, l.b.binary(Kind::Add, variance, l.b.scalar(epsilon)));
  int made = l.b.binary(Kind::Multiply, centred, root);
  const auto along = [&](const Lowered& of) {
    if (l.b.shape(of.node).empty()) return of.node;
    Shape to = by_feature;
    to[feature] = of.shape[0];
    return l.b.reshape(of.node, to);
  };
  made = l.b.binary(Kind::Multiply, made, along(l.operand(op, 1)));
  made = l.b.binary(Kind::Add, made, along(l.operand(op, 2)));
  l.set(op, made, x.shape);
}

const std::map<std::string, Rule>& product_rules() {
  static const std::map<std::string, Rule> kRules = {
      {"dot", dot},
      {"convolution", convolution},
      {"reduce-window", reduce_window},
      {"batch-norm-training", batch_norm},
      {"batch-norm-inference", batch_norm},
  };
  return kRules;
}

}  // namespace

Rule product_rule(const std::string& name) {
  const auto found = product_rules().find(name);
  return found == product_rules().end() ? nullptr : found->second;
}

}  // namespace meshwright::xla
