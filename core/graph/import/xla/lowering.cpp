// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/lowering.h"

#include <algorithm>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/names.h"

namespace meshwright::xla {

using primitive::Kind;
using primitive::Node;
using primitive::Shape;

namespace {

constexpr int kMaxDepth = 64;             // of pieces put together in pieces, that a slice looks into
constexpr std::size_t kMaxPieces = 4096;  // of one tensor

}  // namespace

std::string Lowering::applied(const Instruction& reduction) const {
  if (reduction.calls.empty()) return {};
  const Computation& called = program_.computations[static_cast<std::size_t>(reduction.calls.back())];
  if (called.root < 0) return {};
  const auto at = [&](int i) -> const Instruction& { return called.instructions[static_cast<std::size_t>(i)]; };
  const auto unconverted = [&](int i) {
    while (at(i).opcode == "convert" && at(i).operands.size() == 1) i = at(i).operands[0];
    return i;
  };
  const Instruction& root = at(unconverted(called.root));
  if (root.operands.size() != 2) return {};
  const int x = unconverted(root.operands[0]), y = unconverted(root.operands[1]);
  return at(x).opcode == "parameter" && at(y).opcode == "parameter" && x != y ? root.opcode : std::string();
}

std::string Lowering::compared(const Instruction& sorting) const {
  if (sorting.calls.empty()) return {};
  const Computation& called = program_.computations[static_cast<std::size_t>(sorting.calls.back())];
  if (called.root < 0 || called.parameters.size() < 2) return {};
  const auto at = [&](int i) -> const Instruction& { return called.instructions[static_cast<std::size_t>(i)]; };
  // JAX lets numbers pass a few choices first, that make all zeros, and all that are no numbers, alike.
  const auto reads = [&](int i, int parameter) {
    for (int steps = 0; steps < 8; ++steps) {
      if (i == parameter) return true;
      if (at(i).operands.empty()) return false;
      i = at(i).operands.back();
    }
    return false;
  };
  const Instruction& root = at(called.root);
  if (root.opcode != "compare" || root.operands.size() != 2) return {};
  const int x = called.parameters[0], y = called.parameters[1];
  return reads(root.operands[0], x) && reads(root.operands[1], y) ? root.attributes.direction : std::string();
}

int Lowering::operand_value(const FlatOp& op, std::size_t k) const {
  if (k >= op.operands.size()) b.fail(fmt::format("it has {} operands, which are too few", op.operands.size()));
  return op.operands[k];
}

bool Lowering::is_integer(int value) const {
  const std::string& element = type(value).element;
  return element.front() == 's' || element.front() == 'u' || element == "pred";
}

const Padded* Lowering::padded(int value) const {
  const auto found = padded_.find(value);
  return found == padded_.end() ? nullptr : &found->second;
}

void Lowering::expect_sizes(int value) const {
  const Lowered& made = values_[static_cast<std::size_t>(value)];
  if (made.node < 0) return;
  const Shape& said = type(value).sizes;
  const bool same = std::equal(
      made.shape.begin(), made.shape.end(), said.begin(), said.end(),
      [](std::int64_t size, std::int64_t of_file) { return size == of_file || primitive::holds_batch(size); });
  if (!same)
    b.fail(fmt::format("it makes {}, which the file says to be {}", primitive::to_text(made.shape),
                       primitive::to_text(said)));
}

const Lowered& Lowering::of(int value) {
  Lowered& found = values_[static_cast<std::size_t>(value)];
  if (found.node >= 0 || found.random) return found;
  const Padded* waiting = padded(value);
  b.expect(waiting != nullptr, "it reads a result, such as the statistics of a normalisation, that has no equal here");
  return found = written_out(*waiting);
}

std::int64_t Lowering::real(const Lowered& x, std::size_t d) const {
  const Shape& of_node = b.shape(x.node);
  return of_node.empty() ? 1 : of_node[d];
}

int Lowering::ranked(const Lowered& x) {
  if (b.shape(x.node).size() == x.shape.size()) return x.node;
  return b.reshape(x.node, Shape(x.shape.size(), 1));
}

int Lowering::whole(const Lowered& x, std::size_t d) {
  if (real(x, d) == x.shape[d]) return ranked(x);
  const int node = ranked(x);
  Shape to = b.shape(node);
  to[d] = lifted(x.shape[d], d);
  return b.broadcast(node, to);
}

int Lowering::whole(const Lowered& x) {
  const int node = ranked(x);
  Shape to = b.shape(node);
  for (std::size_t d = 0; d < to.size(); ++d)
    if (to[d] == 1) to[d] = lifted(x.shape[d], d);
  return to == b.shape(node) ? node : b.broadcast(node, to);
}

std::int64_t Lowering::lifted(std::int64_t size, std::size_t d) const {
  const auto found = known_.find(size);
  return d == 0 && size > 1 && found != known_.end() ? found->second : size;
}

void Lowering::learn(const Shape& sizes_of_file, const Shape& shape) {
  b.expect(sizes_of_file.size() == shape.size(), "its type has another number of dimensions than what it makes");
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (primitive::holds_batch(shape[d]) && sizes_of_file[d] > 1) known_.emplace(sizes_of_file[d], shape[d]);
}

Lowered Lowering::reshaped(const Lowered& x, const Shape& to) {
  const std::int64_t batch = b.module().batch;
  const auto own = [&](std::int64_t size) {
    return primitive::holds_batch(size) ? size / primitive::kBatchProbe * batch : size;
  };
  if (b.shape(x.node).empty()) return {x.node, to};
  // Groups of dimensions with equal products; one that only repeats does so afterwards.
  Shape node_to, shape = to, before = b.shape(x.node);
  std::size_t i = 0, j = 0;
  while (i < x.shape.size() || j < to.size()) {
    const std::size_t first_i = i, first_j = j;
    std::int64_t from_size = i < x.shape.size() ? own(x.shape[i++]) : 1, to_size = j < to.size() ? to[j++] : 1;
    while (from_size != to_size) {
      if (from_size < to_size && i < x.shape.size())
        from_size *= own(x.shape[i++]);
      else if (to_size < from_size && j < to.size())
        to_size *= to[j++];
      else
        b.fail(fmt::format("{} does not reshape to {}", primitive::to_text(x.shape), primitive::to_text(to)));
    }
    std::vector<std::size_t> wide_from, wide_to;  // dimensions of more than one element
    bool repeats = true;
    for (std::size_t d = first_i; d < i; ++d) {
      if (x.shape[d] != 1) wide_from.push_back(d);
      repeats = repeats && real(x, d) == 1;
    }
    for (std::size_t d = first_j; d < j; ++d)
      if (to[d] != 1) wide_to.push_back(d);
    for (std::size_t d = first_j; d < j; ++d) node_to.push_back(repeats ? 1 : to[d]);
    if (wide_from.size() == 1 && wide_to.size() == 1) {
      shape[wide_to[0]] = x.shape[wide_from[0]];
    } else if (!repeats) {
      for (std::size_t d = first_i; d < i; ++d) before[d] = real(x, d) == 1 ? lifted(x.shape[d], d) : before[d];
    } else if (std::any_of(wide_from.begin(), wide_from.end(),
                           [&](std::size_t d) { return primitive::holds_batch(x.shape[d]); })) {
      for (const std::size_t d : wide_to) shape[d] = lifted(to[d], d);
    }
  }
  int node = x.node;
  if (before != b.shape(node)) node = b.broadcast(node, before);
  node = b.reshape(node, node_to);
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (b.shape(node)[d] != 1) shape[d] = b.shape(node)[d];
  learn(to, shape);
  return {node, shape};
}

// Dimensions of one element move for free, so that only the others are put in order.
Lowered Lowering::transposed(const Lowered& x, const std::vector<std::int64_t>& axes) {
  b.expect(axes.size() == x.shape.size(),
           fmt::format("{} axes do not order {}", axes.size(), primitive::to_text(x.shape)));
  Shape sorted = axes, shape, to, kept, dropped;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < sorted.size(); ++d)
    b.expect(sorted[d] == static_cast<std::int64_t>(d), "its axes are no order of all axes");
  for (const std::int64_t axis : axes) shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
  if (b.shape(x.node).empty()) return {x.node, shape};
  std::vector<std::int64_t> position(axes.size(), -1);  // among the dimensions that are kept
  std::int64_t count = 0;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    if (real(x, d) == 1)
      dropped.push_back(static_cast<std::int64_t>(d));
    else
      position[d] = count++;
  }
  for (const std::int64_t axis : axes) {
    const auto d = static_cast<std::size_t>(axis);
    to.push_back(real(x, d));
    if (position[d] >= 0) kept.push_back(position[d]);
  }
  int node = dropped.empty() ? x.node : b.squeeze(x.node, dropped);
  node = b.transpose(node, kept);
  return {b.shape(node) == to ? node : b.reshape(node, to), shape};
}

Lowered Lowering::sliced(const Lowered& x, std::size_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const std::int64_t size = x.shape[axis];
  const std::int64_t own = primitive::holds_batch(size) ? size / primitive::kBatchProbe * b.module().batch : size;
  b.expect(start >= 0 && start <= stop && stop <= own && step >= 1 && step <= std::max<std::int64_t>(own, 1),
           fmt::format("its range [{}:{}:{}] lies outside of {}", start, stop, step, primitive::to_text(x.shape)));
  Lowered found = x;
  if (start == 0 && stop == own && step == 1) return found;
  const std::int64_t length = (stop - start + step - 1) / step;
  found.shape[axis] = length;
  if (real(x, axis) == 1 && size != 1) return found;
  if (b.shape(x.node).empty()) return found;
  const auto d = static_cast<std::int64_t>(axis);
  const Node of = b.at(x.node);
  if (of.kind == Kind::Transpose && b.at(of.inputs[0]).kind == Kind::Concat && step == 1) {
    const std::vector<std::int64_t> axes = of.details.axes;
    Lowered turned{of.inputs[0], Shape(axes.size(), 1)};
    for (std::size_t k = 0; k < axes.size(); ++k) turned.shape[static_cast<std::size_t>(axes[k])] = x.shape[k];
    return transposed(sliced(turned, static_cast<std::size_t>(axes[axis]), start, stop, 1), axes);
  }
  // A slice of what was put together is put together of slices of its pieces.
  if (of.kind == Kind::Concat && of.details.axes[0] == d && step == 1 && depth_ < kMaxDepth) {
    ++depth_;
    std::vector<Lowered> pieces;
    std::int64_t begin = 0;
    for (const int piece : of.inputs) {
      const std::int64_t end = begin + b.shape(piece)[axis];
      const std::int64_t low = std::max(start, begin), high = std::min(stop, end);
      if (low < high) {
        Lowered inner = found;
        inner.node = piece;
        inner.shape[axis] = end - begin;
        pieces.push_back(sliced(inner, axis, low - begin, high - begin, 1));
      }
      begin = end;
    }
    --depth_;
    if (!pieces.empty()) return pieces.size() == 1 ? pieces[0] : joined(pieces, axis);
  }
  if (step > 1 && size % step == 0 && start < step && length == size / step && !primitive::holds_batch(size)) {
    Shape parted = b.shape(x.node), to = parted;  // every step-th element is an index of an inner dimension
    parted[axis] = length;
    parted.insert(parted.begin() + d + 1, step);
    to[axis] = length;
    found.node = b.reshape(b.slice(b.reshape(x.node, parted), d + 1, start, start + 1), to);
    return found;
  }
  found.node = b.slice(x.node, d, start, stop, step);
  return found;
}

Lowered Lowering::joined(const std::vector<Lowered>& pieces, std::size_t axis) {
  Lowered found = pieces[0];
  std::vector<int> nodes;
  Shape to = found.shape;
  for (const Lowered& piece : pieces)
    for (std::size_t d = 0; d < to.size(); ++d)
      if (d != axis && primitive::holds_batch(piece.shape[d])) to[d] = piece.shape[d];
  to[axis] = 0;
  for (const Lowered& piece : pieces) {
    Lowered wide = piece;
    for (std::size_t d = 0; d < to.size(); ++d) {
      bool repeats = d != axis;
      for (const Lowered& other : pieces) repeats = repeats && real(other, d) == 1;
      if (repeats) continue;
      if (d != axis) wide.shape[d] = to[d];
      int node = ranked(wide);
      if (b.shape(node)[d] != wide.shape[d]) {
        Shape sizes = b.shape(node);
        sizes[d] = wide.shape[d];
        node = b.broadcast(node, sizes);
      }
      wide.node = node;
    }
    to[axis] += piece.shape[axis];
    // What was put together before goes on.
    const Node& of = b.at(wide.node);
    if (of.kind == Kind::Concat && of.details.axes[0] == static_cast<std::int64_t>(axis) &&
        nodes.size() + of.inputs.size() <= kMaxPieces)
      nodes.insert(nodes.end(), of.inputs.begin(), of.inputs.end());
    else if (b.shape(wide.node)[axis] > 0)
      nodes.push_back(wide.node);
  }
  b.expect(!nodes.empty(), "nothing to put together");
  return {b.concat(nodes, static_cast<std::int64_t>(axis)), to};
}

Lowered Lowering::written_out(const Padded& waiting) {
  Lowered x = of(waiting.value);
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    const std::int64_t low = waiting.low[d], high = waiting.high[d];
    if (low < 0 || high < 0) {
      x = sliced(x, d, std::max<std::int64_t>(-low, 0), x.shape[d] - std::max<std::int64_t>(-high, 0), 1);
    }
    const auto filled = [&](std::int64_t size) {
      Lowered piece{b.constant({}, b.at(x.node).integer, std::vector<double>{waiting.fill}), x.shape};
      piece.shape[d] = size;
      return piece;
    };
    std::vector<Lowered> pieces;
    if (low > 0) pieces.push_back(filled(low));
    pieces.push_back(x);
    if (high > 0) pieces.push_back(filled(high));
    if (pieces.size() > 1) x = joined(pieces, d);
  }
  return x;
}

std::string called(const Instruction& instruction) {
  return instruction.opcode == "custom-call" ? "custom-call " + printable(instruction.attributes.target)
                                             : instruction.opcode;
}

Rule rule_of(const Instruction& instruction) {
  if (instruction.opcode == "custom-call") return call_rule(instruction.attributes.target);
  for (const auto find : {elementwise_rule, shape_rule, product_rule, choice_rule, fourier_rule, expert_rule})
    if (const Rule rule = find(instruction.opcode)) return rule;
  return nullptr;
}

}  // namespace meshwright::xla
