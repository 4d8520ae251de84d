// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/one_sample.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

Shape behind(std::int64_t first, const Shape& rest) {
  Shape all = {first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Shape with_rank(const Shape& of, std::size_t rank) {
  Shape wide(rank - of.size(), 1);
  wide.insert(wide.end(), of.begin(), of.end());
  return wide;
}

// A tensor of samples lies in one of three ways, which its shape in the file tells: with the samples in place of a
// first dimension of one element; merged in front of the first of four dimensions or more, as images and windows have
// them; else in front of all.
class Sampler {
 public:
  explicit Sampler(Module one) : from_(std::move(one)), b_(to_) {
    to_.file_ops = std::move(from_.file_ops);
    to_.notes = std::move(from_.notes);
    to_.shardings = std::move(from_.shardings);
  }

  Module run() {
    drop_unused(from_);
    for (Node& node : from_.nodes) {
      node_ = &node;
      b_.name = node.name;
      b_.block = node.block;
      state_.push_back(State::Alike);
      now_.push_back(node.inputs.empty() ? leaf() : made());
    }
    const auto result = static_cast<std::size_t>(from_.result);
    b_.name = from_.nodes[result].name;
    if (state_[result] == State::Samples) {
      to_.result = now_[result];
      if (from_.nodes[result].shape.empty()) to_.result = b_.reduce(Kind::ReduceMean, to_.result, {0}, false);
    } else {
      b_.expect(state_[result] == State::Mean, "the model's result does not depend on its inputs");
      to_.result = now_[result];
    }
    return std::move(to_);
  }

 private:
  enum class State {
    Alike,    // the same for all samples
    Samples,  // of each sample its own
    Mean      // a number that is the mean of what each sample has: the loss
  };

  [[nodiscard]] const Shape& shape_of(int before) const { return from_.nodes[static_cast<std::size_t>(before)].shape; }
  [[nodiscard]] State state(int before) const { return state_[static_cast<std::size_t>(before)]; }
  [[nodiscard]] bool sampled(int before) const { return state(before) == State::Samples; }
  [[nodiscard]] int now(int before) const { return now_[static_cast<std::size_t>(before)]; }
  [[nodiscard]] int input(std::size_t k) const { return node_->inputs[k]; }
  [[nodiscard]] const Shape& input_shape(std::size_t k) const { return shape_of(input(k)); }
  void expect(bool condition, const char* why) const { b_.expect(condition, why); }

  // --- where the samples lie ---

  [[nodiscard]] static bool in_place(const Shape& of) { return !of.empty() && of[0] == 1; }
  [[nodiscard]] static Shape in_front(const Shape& of) { return behind(kBatchProbe, of); }
  // Samples times the first dimension.
  [[nodiscard]] static Shape merged(const Shape& of) {
    Shape made = of;
    made[0] = elements_of({kBatchProbe, of[0]});
    return made;
  }
  [[nodiscard]] static Shape placed(const Shape& of) {
    constexpr std::size_t kImages = 4;
    return in_place(of) || of.size() >= kImages ? merged(of) : in_front(of);
  }
  // An operand, repeated for the samples where it is alike, with them in front, or in the first dimension.
  [[nodiscard]] int lifted(int before) {
    const Shape& of = shape_of(before);
    if (sampled(before)) return b_.reshape(now(before), in_front(of));
    return b_.broadcast(b_.reshape(now(before), behind(1, of)), in_front(of));
  }
  [[nodiscard]] int joined(int before) {
    const Shape& of = shape_of(before);
    if (sampled(before) || !in_place(of)) return b_.reshape(lifted(before), merged(of));
    // What the file repeats is repeated once.
    const Node& alike = to_.nodes[static_cast<std::size_t>(now(before))];
    const bool repeated = alike.kind == Kind::Broadcast;
    return b_.broadcast(repeated ? alike.inputs[0] : now(before), merged(of));
  }
  [[nodiscard]] int put(int made) {
    state_.back() = State::Samples;
    return b_.reshape(made, placed(node_->shape));
  }
  [[nodiscard]] int add(std::vector<int> inputs, Shape shape, Details details) {
    return b_.add(node_->kind, std::move(inputs), std::move(shape), node_->integer, std::move(details));
  }

  // --- ops ---

  int leaf() {
    if (node_->kind == Kind::Input && in_place(node_->shape)) {
      state_.back() = State::Samples;
      node_->shape[0] = kBatchProbe;
    }
    to_.nodes.push_back(std::move(*node_));
    node_->shape = to_.nodes.back().shape;
    if (state_.back() == State::Samples) node_->shape[0] = 1;
    return static_cast<int>(to_.nodes.size()) - 1;
  }

  int alike() {
    std::vector<int> inputs;
    for (const int before : node_->inputs) inputs.push_back(now(before));
    return add(std::move(inputs), node_->shape, node_->details);
  }

  int made() {
    const auto any = [&](State state) {
      return std::any_of(node_->inputs.begin(), node_->inputs.end(), [&](int of) { return this->state(of) == state; });
    };
    if (any(State::Mean)) return of_means();
    if (!any(State::Samples)) return alike();
    const Kind kind = node_->kind;
    if (is_unary(kind) || kind == Kind::Dropout) {
      state_.back() = State::Samples;
      return add({now(input(0))}, to_.nodes[static_cast<std::size_t>(now(input(0)))].shape, node_->details);
    }
    if (is_binary(kind) || kind == Kind::Select) return elementwise();
    switch (kind) {
      case Kind::Reshape:
        return put(now(input(0)));
      case Kind::Transpose:
        return transpose();
      case Kind::Broadcast:
        return put(b_.broadcast(aligned(input(0)), aligned_shape()));
      case Kind::Slice:
        return slice();
      case Kind::Concat:
        return concat();
      case Kind::ReduceSum:
      case Kind::ReduceMean:
      case Kind::ReduceMax:
        return reduce();
      case Kind::MatMul:
        return matmul();
      case Kind::Convolution:
      case Kind::BatchNorm:
      case Kind::MaxPool:
      case Kind::AveragePool:
        return of_images();
      case Kind::Gather:
        return gather();
      case Kind::TopK:
      case Kind::TopKIndex:
        expect(node_->details.number == 0.0, "a sort of experts has no equal here");
        return along(static_cast<std::int64_t>(node_->shape.size()) - 1, node_->details);
      case Kind::LayerNorm:
      case Kind::RmsNorm:
        return along(static_cast<std::int64_t>(node_->shape.size()) - 1, node_->details);
      case Kind::CumSum:
      case Kind::Softmax:
      case Kind::Rotary:
        return along(node_->details.axes[0], node_->details);
      case Kind::PickLabel:
        return put(b_.pick_label(rows(0), rows(1)));
      case Kind::CrossEntropy:
        state_.back() = State::Mean;
        return b_.cross_entropy(rows(0), rows(1));
      case Kind::Attention:
      case Kind::PackedAttention:
        return attention();
      case Kind::Slots:
      case Kind::SlotMask:
      case Kind::GateWeights:
      case Kind::WeightedMask:
        return of_slots();
      case Kind::Dispatch:
        return dispatch();
      case Kind::Combine:
        return combine();
      default:
        b_.fail(fmt::format("{} of one sample has no form for several", name_of(kind)));
    }
  }

  // A sum of losses, and a loss times a number, are those of the means.
  int of_means() {
    const Kind kind = node_->kind;
    bool fits = kind == Kind::Reshape || kind == Kind::Broadcast || kind == Kind::Add || kind == Kind::Subtract ||
                kind == Kind::Multiply || kind == Kind::Divide;
    std::size_t means = 0;
    for (const int before : node_->inputs) {
      means += state(before) == State::Mean ? 1 : 0;
      fits = fits && (state(before) == State::Mean || b_.scalar_of(now(before)));
    }
    fits = fits && (means == 1 || kind == Kind::Add || kind == Kind::Subtract) &&
           (kind != Kind::Divide || state(input(0)) == State::Mean) && elements_of(node_->shape) == 1;
    expect(fits, "what is computed of the loss has no equal here");
    state_.back() = State::Mean;
    return alike();
  }

  // Whether operands that broadcast have the samples in their first dimension, as the result then has: none has
  // another number of elements there.
  [[nodiscard]] bool aligns_in_place() const {
    const std::size_t rank = node_->shape.size();
    if (rank == 0) return false;
    return std::all_of(node_->inputs.begin(), node_->inputs.end(), [&](int before) {
      const Shape& of = shape_of(before);
      if (of.size() < rank) return !sampled(before) || in_place(node_->shape);
      return sampled(before) ? of[0] == node_->shape[0] && placed(of).size() == rank : of[0] == 1;
    });
  }
  [[nodiscard]] Shape aligned_shape() const {
    return aligns_in_place() ? merged(node_->shape) : in_front(node_->shape);
  }
  // An operand of an op that broadcasts, as its result's shape has the samples.
  [[nodiscard]] int aligned(int before) {
    if (!sampled(before)) return now(before);
    const Shape wide = with_rank(shape_of(before), node_->shape.size());
    return b_.reshape(now(before), aligns_in_place() ? merged(wide) : in_front(wide));
  }

  int elementwise() {
    std::vector<int> inputs;
    for (const int before : node_->inputs) inputs.push_back(aligned(before));
    return put(add(std::move(inputs), aligned_shape(), node_->details));
  }

  int transpose() {
    const std::vector<std::int64_t>& axes = node_->details.axes;
    const Shape& of = input_shape(0);
    if (placed(of).size() == of.size() && axes[0] == 0) return put(b_.transpose(now(input(0)), axes));
    std::vector<std::int64_t> order = {0};
    for (const std::int64_t axis : axes) order.push_back(axis + 1);
    return put(b_.transpose(lifted(input(0)), order));
  }

  // Whether an op along these axes of operand 0 leaves the samples where they lie.
  [[nodiscard]] bool stays(const std::vector<std::int64_t>& axes) const {
    const Shape& of = input_shape(0);
    return placed(of).size() == of.size() && std::find(axes.begin(), axes.end(), 0) == axes.end();
  }

  // An op along one axis, whose result has the other dimensions of operand 0 and whose other operands are alike.
  int along(std::int64_t axis, Details details) {
    std::vector<int> inputs = {now(input(0))};
    for (std::size_t k = 1; k < node_->inputs.size(); ++k) {
      expect(!sampled(input(k)), "its scale and shift are data");
      inputs.push_back(now(input(k)));
    }
    expect(sampled(input(0)), "its operand is no data");
    expect(axis != 0 || !in_place(input_shape(0)), "it mixes what may be samples");
    if (stays({axis})) return put(add(inputs, merged(node_->shape), std::move(details)));
    inputs[0] = lifted(input(0));
    for (std::int64_t& one : details.axes) ++one;
    return put(add(inputs, in_front(node_->shape), std::move(details)));
  }

  // Logits, or labels of their rows.
  int rows(std::size_t k) { return stays({-1}) ? joined(input(k)) : lifted(input(k)); }

  int slice() {
    Details details = node_->details;
    expect(details.stride.empty() || details.stride[0] == 1, "a slice of every so many-th element has no equal here");
    const std::int64_t axis = details.axes[0], start = details.start[0],
                       stop = start + node_->shape[static_cast<std::size_t>(axis)];
    if (stays({axis})) return put(b_.slice(now(input(0)), axis, start, stop));
    return put(b_.slice(lifted(input(0)), axis + 1, start, stop));
  }

  int concat() {
    const std::int64_t axis = node_->details.axes[0];
    const bool in_first = stays({axis});
    std::vector<int> pieces;
    for (const int before : node_->inputs) pieces.push_back(in_first ? joined(before) : lifted(before));
    return put(b_.concat(pieces, in_first ? axis : axis + 1));
  }

  int reduce() {
    std::vector<std::int64_t> axes = node_->details.axes;
    const Shape& of = input_shape(0);
    // What is reduced with the samples is a loss.
    const bool mixes = in_place(of) && std::find(axes.begin(), axes.end(), 0) != axes.end();
    const bool of_loss = elements_of(node_->shape) == 1 && elements_of(shape_of(from_.result)) == 1;
    expect(!mixes || of_loss, "it mixes what may be samples");
    if (mixes) std::erase(axes, 0);
    if (axes.empty()) return put(now(input(0)));
    if (stays(axes)) return put(b_.reduce(node_->kind, now(input(0)), axes, true));
    for (std::int64_t& axis : axes) ++axis;
    return put(b_.reduce(node_->kind, lifted(input(0)), axes, true));
  }

  int matmul() {
    const bool left = sampled(input(0)), right = sampled(input(1));
    const std::size_t rank = node_->shape.size();
    if (rank > 2) {
      const int x = aligned_factor(0);
      return put(b_.matmul(x, aligned_factor(1)));
    }
    // Rows of samples, or of one row each, meet a matrix that is alike.
    expect(!left || !right || elements_of(node_->shape) > 1,
           "it multiplies samples with each other, or each with itself, which one alone does not tell");
    if (left && !right) return put(b_.matmul(now(input(0)), now(input(1))));
    return put(b_.matmul(left ? lifted(input(0)) : now(input(0)), lifted(input(1))));
  }
  // A factor whose dimensions but the last two broadcast.
  [[nodiscard]] int aligned_factor(std::size_t k) {
    const int before = input(k);
    const std::size_t rank = node_->shape.size();
    const Shape wide = with_rank(shape_of(before), rank);
    const bool first = std::all_of(node_->inputs.begin(), node_->inputs.end(), [&](int of) {
      const Shape own = with_rank(shape_of(of), rank);
      return sampled(of) ? own[0] == node_->shape[0] && placed(own).size() == rank : own[0] == 1;
    });
    if (!sampled(before)) return now(before);
    return b_.reshape(now(before), first ? merged(wide) : in_front(wide));
  }

  // Images, of which one sample may have several.
  int of_images() {
    std::vector<int> inputs = {joined(input(0))};
    for (std::size_t k = 1; k < node_->inputs.size(); ++k) {
      expect(!sampled(input(k)), "its weights are data");
      inputs.push_back(now(input(k)));
    }
    return put(add(inputs, merged(node_->shape), node_->details));
  }

  int gather() {
    const bool table = sampled(input(0)), ids = sampled(input(1));
    if (!table) return put(b_.gather(now(input(0)), now(input(1)), 0));
    if (!ids) return put(b_.gather(lifted(input(0)), now(input(1)), 1));
    expect(!node_->integer, "whole numbers that data pick from data have no equal here");
    const std::int64_t picks = elements_of(input_shape(1));
    return put(b_.pick_of_samples(lifted(input(0)), b_.reshape(now(input(1)), {kBatchProbe, picks})));
  }

  int attention() {
    std::vector<int> inputs;
    for (std::size_t k = 0; k < node_->inputs.size(); ++k) {
      const Shape& of = input_shape(k);
      const bool rows = k < 3, sinks = of.size() == 1;
      if (rows || (sampled(input(k)) && !sinks && of[0] == input_shape(0)[0])) {
        inputs.push_back(joined(input(k)));
      } else if (sampled(input(k)) || (!sinks && of[0] != 1)) {  // for all that a sample has side by side
        expect(!sinks, "its sinks are data");
        Shape wide = of;
        wide[0] = input_shape(0)[0];
        const int all = b_.broadcast(lifted(input(k)), in_front(wide));
        inputs.push_back(b_.reshape(all, merged(wide)));
      } else {
        inputs.push_back(now(input(k)));
      }
    }
    return put(add(inputs, merged(node_->shape), node_->details));
  }

  // --- mixtures of experts, of one row of tokens ---

  int of_slots() {
    std::vector<int> inputs;
    for (const int before : node_->inputs) {
      expect(in_place(shape_of(before)), "its tokens are no rows of samples");
      inputs.push_back(joined(before));
    }
    return put(add(inputs, merged(node_->shape), node_->details));
  }

  // (expert, 1, capacity, width)
  int dispatch() {
    const int made = b_.dispatch(joined(input(0)), joined(input(1)));
    return put(b_.swap(made, 0, 1));
  }
  int combine() {
    const Shape& of = input_shape(0);
    const int buffer = b_.reshape(lifted(input(0)), {kBatchProbe, of[0], of[2], of[3]});
    return put(b_.combine(b_.swap(buffer, 0, 1), joined(input(1)), joined(input(2))));
  }

  Module from_, to_;
  Builder b_;
  Node* node_ = nullptr;
  std::vector<int> now_;  // by the node's number before
  std::vector<State> state_;
};

}  // namespace

Module of_several_samples(Module one) { return Sampler(std::move(one)).run(); }

}  // namespace meshwright::primitive
