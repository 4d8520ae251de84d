// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "executor/exact/residue.h"
#include "executor/exact/treatments.h"

namespace meshwright::exact {

namespace {

using Sizes = std::vector<std::int64_t>;

// One tensor of a call, seen as cells: its axes that may be split, and inside a cell the others.
struct CellView {
  Sizes outer;                       // [axis of the op] stride in `sums`, 0 where the tensor lacks the axis
  std::int64_t cells = 1;            // of the tensor
  std::vector<std::int64_t> first;   // [cell] where it begins in the array
  std::vector<std::int64_t> inside;  // [element of a cell] where it lies, from there
};

// Every index of a box, last dimension fastest; use(offsets), the sums of index times stride in each of `strides`.
std::vector<std::int64_t> offsets_of(const Sizes& sizes, const Sizes& strides) {
  std::vector<std::int64_t> offsets = {0};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<std::int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(sizes[d]));
    for (const std::int64_t before : offsets)
      for (std::int64_t i = 0; i < sizes[d]; ++i) next.push_back(before + i * strides[d]);
    offsets = std::move(next);
  }
  return offsets;
}

CellView view_of(const Call& o, const std::vector<int>& axes) {
  CellView view;
  view.outer.assign(o.call.sizes.size(), 0);
  Sizes strides(axes.size(), 1);
  for (std::size_t d = axes.size(); d > 1; --d) strides[d - 2] = strides[d - 1] * o.size(axes[d - 1]);
  Sizes split_sizes, split_strides, other_sizes, other_strides;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const bool split = o.call.space.axes[static_cast<std::size_t>(axes[d])].splittable;
    (split ? split_sizes : other_sizes).push_back(o.size(axes[d]));
    (split ? split_strides : other_strides).push_back(strides[d]);
  }
  view.first = offsets_of(split_sizes, split_strides);
  view.inside = offsets_of(other_sizes, other_strides);
  for (std::size_t d = axes.size(); d > 0; --d) {
    const auto axis = static_cast<std::size_t>(axes[d - 1]);
    if (!o.call.space.axes[axis].splittable) continue;
    view.outer[axis] += view.cells;
    view.cells *= o.size(axes[d - 1]);
  }
  return view;
}

// Constants of a polynomial, one for each place in it.
struct Constants {
  std::uint64_t kind;
  [[nodiscard]] Residue operator()(std::uint64_t place, std::uint64_t index) const {
    return scrambled(kind, place, index);
  }
};
enum Place : std::uint64_t {
  kElement = 1000,
  kSquare = 2000,
  kOperand = 3000,
  kPair = 4000,
  kResult = 5000,
  kOther = 6000
};

// What an element of a cell adds to the cell's digest is not linear in it.
std::vector<Residue> digests(const std::vector<Residue>& values, const CellView& view, const Constants& constants,
                             std::size_t operand) {
  std::vector<Residue> once, twice;
  for (std::size_t k = 0; k < view.inside.size(); ++k) {
    once.push_back(constants(kElement + operand, k));
    twice.push_back(constants(kSquare + operand, k));
  }
  std::vector<Residue> found(view.first.size(), 0);
  for (std::size_t c = 0; c < found.size(); ++c)
    for (std::size_t k = 0; k < view.inside.size(); ++k) {
      const Residue value = values[static_cast<std::size_t>(view.first[c] + view.inside[k])];
      found[c] = plus(found[c], times(value, plus(once[k], times(twice[k], value))));
    }
  return found;
}

// A quadratic polynomial of several digests that is 0 where all are.
class Mixer {
 public:
  Mixer(const Constants& constants, std::uint64_t salt, std::size_t count) : count_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      linear_.push_back(constants(kOperand + salt, i));
      for (std::size_t j = 0; j <= i; ++j) quadratic_.push_back(constants(kPair + salt, i * count + j));
    }
  }
  [[nodiscard]] Residue operator()(const Residue* values) const {
    Residue sum = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      Residue factor = linear_[i];
      for (std::size_t j = 0; j <= i; ++j) factor = plus(factor, times(quadratic_[at++], values[j]));
      sum = plus(sum, times(values[i], factor));
    }
    return sum;
  }

 private:
  std::size_t count_;
  std::vector<Residue> linear_, quadratic_;
};

bool is_update(OpKind kind) {
  constexpr OpKind kUpdates[] = {OpKind::SgdUpdate,   OpKind::MomentumUpdate,  OpKind::AdamUpdate,
                                 OpKind::DecayedMean, OpKind::AdafactorUpdate, OpKind::MoveSquares};
  return std::find(std::begin(kUpdates), std::end(kUpdates), kind) != std::end(kUpdates);
}

// Numbers of the attributes that enter the result, and of an update's step.
Residue constant_of(const Call& o) {
  const Attributes& a = o.attributes();
  Residue all = 1;
  for (const double value : {a.scale, a.learning_rate, a.beta1, a.beta2, a.epsilon, a.decay_exponent, a.move_limit,
                             a.momentum, a.weight_decay, a.max_norm, a.loss_scale})
    all = times(all, plus(3, of_constant(value)));
  if (!is_update(o.call.kind)) return all;
  return times(all, plus(of_integer(o.moment.step + 1), of_constant(o.moment.rate)));
}

// Operands that walk as many axes as any: of an update those that padding makes 0, beside what belongs to the step.
std::vector<bool> whole_operands(const Call& o) {
  std::size_t rank = 0;
  for (const std::vector<int>& axes : o.call.space.inputs) rank = std::max(rank, axes.size());
  std::vector<bool> whole;
  for (const std::vector<int>& axes : o.call.space.inputs) whole.push_back(axes.size() == rank);
  // Without a dimension there is no padding; the state of the step has one.
  if (!is_update(o.call.kind) || rank == 0) whole.assign(whole.size(), true);
  if (is_update(o.call.kind) && o.attributes().loss_scale > 0.0) whole.back() = false;
  return whole;
}

// With a master copy the weight and the master become one number.
std::uint64_t number_of_result(const Call& o, std::size_t result) {
  const bool updates =
      is_update(o.call.kind) && o.call.kind != OpKind::DecayedMean && o.call.kind != OpKind::MoveSquares;
  if (!updates) return result;
  const std::size_t states = o.call.kind == OpKind::AdamUpdate ? 2 : o.call.kind == OpKind::MomentumUpdate ? 1 : 0;
  const bool has_master = o.outputs.size() == states + 2;
  return has_master && result > 0 ? result - 1 : result;
}

// The operand whose integers are compared with positions along an axis: what counts is whether they are equal.
std::optional<std::size_t> compared_operand(const Call& o) {
  if (o.call.kind != OpKind::CrossEntropyBackward) return std::nullopt;
  return 3;
}

}  // namespace

void run_cells(const Call& o) {
  const Constants constants{static_cast<std::uint64_t>(o.call.kind) + 1};
  const std::size_t operands = o.inputs.size(), axes = o.call.sizes.size();
  const std::vector<bool> whole = whole_operands(o);
  const std::optional<std::size_t> compared = compared_operand(o);
  std::vector<CellView> in, out;
  std::vector<std::vector<Residue>> digest;  // [operand][its cell]
  for (std::size_t i = 0; i < operands; ++i) {
    in.push_back(view_of(o, o.call.space.inputs[i]));
    const std::vector<Residue> values =
        o.call.input_dtypes[i] == DType::I32 ? read(o.integers(i), o.elements(i)) : read(o.in(i), o.elements(i));
    if (compared == i)  // left as they are, cell by cell
      digest.push_back(values);
    else
      digest.push_back(digests(values, in[i], constants, i));
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    MW_CHECK(o.call.output_dtypes[r] != DType::I32, "{} makes integers", name_of(o.call.kind));
    out.push_back(view_of(o, o.call.space.outputs[r]));
  }

  std::vector<std::size_t> first_kind, second_kind;  // operands that are whole, and those of the step
  for (std::size_t i = 0; i < operands; ++i) (whole[i] ? first_kind : second_kind).push_back(i);
  const Mixer mix_whole(constants, 0, first_kind.size()), mix_rest(constants, 500, second_kind.size());
  const Residue constant = constant_of(o);
  std::vector<std::vector<Residue>> sum, square;  // [result][its cell]
  for (const CellView& view : out) {
    sum.emplace_back(static_cast<std::size_t>(view.cells), 0);
    square.emplace_back(static_cast<std::size_t>(view.cells), 0);
  }

  // The cells of the op: an odometer over the axes that may be split.
  std::vector<std::int64_t> index(axes, 0);
  std::vector<Residue> of_whole(first_kind.size()), of_rest(second_kind.size());
  const auto at = [&](const CellView& view) {
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < axes; ++a) offset += index[a] * view.outer[a];
    return static_cast<std::size_t>(offset);
  };
  const auto value_of = [&](std::size_t i) {
    const Residue found = digest[i][at(in[i])];
    if (compared != i) return found;
    const int axis = o.call.space.position_axis.value();
    return Residue{found == of_integer(o.position() + index[static_cast<std::size_t>(axis)]) ? 1u : 0u};
  };
  for (const std::int64_t size : o.call.sizes)
    if (size == 0) return;
  for (bool more = true; more;) {
    for (std::size_t i = 0; i < first_kind.size(); ++i) of_whole[i] = value_of(first_kind[i]);
    for (std::size_t i = 0; i < second_kind.size(); ++i) of_rest[i] = value_of(second_kind[i]);
    const Residue share = times(times(mix_whole(of_whole.data()), plus(1, mix_rest(of_rest.data()))), constant);
    const Residue squared = times(share, share);
    for (std::size_t r = 0; r < out.size(); ++r) {
      const std::size_t cell = at(out[r]);
      sum[r][cell] = plus(sum[r][cell], share);
      square[r][cell] = plus(square[r][cell], squared);
    }
    more = false;
    for (std::size_t a = axes; a > 0 && !more; --a) {
      if (!o.call.space.axes[a - 1].splittable) continue;
      if (++index[a - 1] < o.call.sizes[a - 1])
        more = true;
      else
        index[a - 1] = 0;
    }
  }

  for (std::size_t r = 0; r < out.size(); ++r) {
    double* result = o.out(r);
    const std::uint64_t number = number_of_result(o, r);
    for (std::size_t k = 0; k < out[r].inside.size(); ++k) {
      const Residue once = constants(kResult + number, k), twice = constants(kOther + number, k);
      for (std::size_t c = 0; c < out[r].first.size(); ++c)
        result[out[r].first[c] + out[r].inside[k]] = stored(plus(times(once, sum[r][c]), times(twice, square[r][c])));
    }
  }
}

}  // namespace meshwright::exact
