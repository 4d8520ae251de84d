// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/mlir/open_sizes.h"

#include <algorithm>
#include <set>

#include "core/graph/import/primitive/module.h"

namespace meshwright::mlir {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kOpen = -1;
constexpr std::size_t kMaxKnown = 64;
// Nothing real has more; products of two of them fit.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

bool is_small(std::int64_t size) { return size >= -kMaxSize && size <= kMaxSize; }

bool contains(const Numbers& list, std::size_t value) {
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(value)) != list.end();
}

// Writes what is known over what is open.
void fill(xla::Type& type, const Numbers& sizes) {
  if (type.sizes.size() != sizes.size()) return;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (type.sizes[d] == kOpen) type.sizes[d] = sizes[d];
}

std::int64_t at(const Numbers& sizes, std::int64_t d) {
  return d >= 0 && d < static_cast<std::int64_t>(sizes.size()) ? sizes[static_cast<std::size_t>(d)] : kOpen;
}

Numbers dot_sizes(const Numbers& left, const Numbers& right, const xla::Attributes& attributes) {
  Numbers sizes;
  for (const std::int64_t d : attributes.lhs_batch) sizes.push_back(at(left, d));
  for (std::size_t d = 0; d < left.size(); ++d)
    if (!contains(attributes.lhs_batch, d) && !contains(attributes.lhs_contracting, d)) sizes.push_back(left[d]);
  for (std::size_t d = 0; d < right.size(); ++d)
    if (!contains(attributes.rhs_batch, d) && !contains(attributes.rhs_contracting, d)) sizes.push_back(right[d]);
  return sizes;
}

Numbers gather_sizes(const Numbers& indices, std::size_t rank, const xla::Attributes& attributes) {
  Numbers ids, window;
  for (std::size_t d = 0; d < indices.size(); ++d)
    if (static_cast<std::int64_t>(d) != attributes.index_vector_dim) ids.push_back(indices[d]);
  for (std::size_t d = 0; d < attributes.sizes.size(); ++d)
    if (!contains(attributes.collapsed_dims, d) && !contains(attributes.operand_batch, d))
      window.push_back(attributes.sizes[d]);
  Numbers sizes;
  std::size_t next_id = 0, next_window = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    Numbers& from = contains(attributes.offset_dims, d) ? window : ids;
    std::size_t& next = contains(attributes.offset_dims, d) ? next_window : next_id;
    sizes.push_back(next < from.size() ? from[next++] : kOpen);
  }
  return sizes;
}

// A window that slides over `size`.
std::int64_t slid(std::int64_t size, const xla::Window& window, std::size_t d) {
  if (d >= window.size.size() || d >= window.stride.size() || d >= window.before.size() || d >= window.after.size() ||
      d >= window.base_dilation.size() || d >= window.window_dilation.size() || window.stride[d] < 1 || size < 1)
    return kOpen;
  for (const std::int64_t number : {size, window.size[d], window.stride[d], window.before[d], window.after[d],
                                    window.base_dilation[d], window.window_dilation[d]})
    if (!is_small(number)) return kOpen;
  const std::int64_t base = (size - 1) * window.base_dilation[d] + 1 + window.before[d] + window.after[d];
  const std::int64_t kernel = (window.size[d] - 1) * window.window_dilation[d] + 1;
  return base < kernel ? 0 : (base - kernel) / window.stride[d] + 1;
}

Numbers convolution_sizes(const Numbers& x, const Numbers& w, const xla::Attributes& attributes) {
  const std::string& labels = attributes.dim_labels;
  const std::size_t middle = labels.find('_'), arrow = labels.find("->");
  if (middle == std::string::npos || arrow == std::string::npos) return {};
  const std::string in = labels.substr(0, middle), kernel = labels.substr(middle + 1, arrow - middle - 1),
                    out = labels.substr(arrow + 2);
  Numbers sizes;
  for (const char label : out) {
    const auto in_at = static_cast<std::int64_t>(in.find(label)), out_at = static_cast<std::int64_t>(kernel.find('o'));
    sizes.push_back(label == 'f'   ? at(w, out_at)
                    : label == 'b' ? at(x, in_at)
                                   : slid(at(x, in_at), attributes.window, static_cast<std::size_t>(label - '0')));
  }
  return sizes;
}

Numbers sizes_of(const std::string& opcode, const xla::Type& type, const std::vector<OperandView>& operands,
                 const xla::Attributes& attributes) {
  const Numbers& first = operands[0].type->sizes;
  const std::size_t count = operands.size();
  if (opcode == "transpose") {
    Numbers sizes;
    for (const std::int64_t d : attributes.dimensions) sizes.push_back(at(first, d));
    return sizes;
  }
  if (opcode == "dot" && count == 2) return dot_sizes(first, operands[1].type->sizes, attributes);
  if (opcode == "convolution" && count == 2) return convolution_sizes(first, operands[1].type->sizes, attributes);
  if (opcode == "gather" && count == 2) return gather_sizes(operands[1].type->sizes, type.sizes.size(), attributes);
  if (opcode == "reduce") {
    Numbers sizes;
    for (std::size_t d = 0; d < first.size(); ++d)
      if (!contains(attributes.dimensions, d)) sizes.push_back(first[d]);
    return sizes;
  }
  if (opcode == "reduce-window") {
    Numbers sizes;
    for (std::size_t d = 0; d < first.size(); ++d) sizes.push_back(slid(first[d], attributes.window, d));
    return sizes;
  }
  if (opcode == "concatenate" && attributes.dimensions.size() == 1) {
    Numbers sizes = first;
    for (std::size_t k = 1; k < count; ++k)
      if (const std::int64_t d = attributes.dimensions[0], more = at(operands[k].type->sizes, d);
          at(sizes, d) != kOpen && more >= 0 && is_small(more) && is_small(at(sizes, d)))
        sizes[static_cast<std::size_t>(d)] += more;
    return sizes;
  }
  if (opcode == "slice") {
    Numbers sizes;
    for (std::size_t d = 0; d < attributes.start.size() && d < attributes.limit.size() && d < attributes.stride.size();
         ++d)
      sizes.push_back(attributes.stride[d] < 1 || !is_small(attributes.start[d]) || !is_small(attributes.limit[d]) ||
                              !is_small(attributes.stride[d])
                          ? kOpen
                          : (attributes.limit[d] - attributes.start[d] + attributes.stride[d] - 1) /
                                attributes.stride[d]);
    return sizes;
  }
  if (opcode == "dynamic-slice") return attributes.sizes;
  if (opcode == "pad") {
    Numbers sizes;
    for (std::size_t d = 0;
         d < first.size() && d < attributes.low.size() && d < attributes.high.size() && d < attributes.interior.size();
         ++d)
      sizes.push_back(!is_small(first[d]) || !is_small(attributes.low[d]) || !is_small(attributes.high[d]) ||
                              !is_small(attributes.interior[d])
                          ? kOpen
                          : first[d] + attributes.low[d] + attributes.high[d] +
                                std::max<std::int64_t>(first[d] - 1, 0) * attributes.interior[d]);
    return sizes;
  }
  if (opcode == "reshape") {  // one open size is what is left
    std::int64_t all = 1, named = 1, open = 0;
    for (const std::int64_t size : first)
      if (__builtin_mul_overflow(all, size, &all)) return {};
    for (const std::int64_t size : type.sizes)
      if (size == kOpen ? ++open == 0 : __builtin_mul_overflow(named, size, &named)) return {};
    if (open != 1 || named <= 0 || all % named != 0) return {};
    Numbers sizes = type.sizes;
    std::replace(sizes.begin(), sizes.end(), kOpen, all / named);
    return sizes;
  }
  // Others keep the shape of an operand: that of the first with the result's rank.
  for (const OperandView& operand : operands)
    if (operand.type->sizes.size() == type.sizes.size()) return operand.type->sizes;
  return {};
}

std::optional<std::int64_t> computed(const std::string& opcode, std::int64_t x, std::int64_t y) {
  std::int64_t value = 0;
  if (opcode == "add" && !__builtin_add_overflow(x, y, &value)) return value;
  if (opcode == "subtract" && !__builtin_sub_overflow(x, y, &value)) return value;
  if (opcode == "multiply" && !__builtin_mul_overflow(x, y, &value)) return value;
  if (opcode == "divide" && y > 0 && x >= 0) return x / y;
  if (opcode == "remainder" && y > 0 && x >= 0) return x % y;
  if (opcode == "maximum") return std::max(x, y);
  if (opcode == "minimum") return std::min(x, y);
  return std::nullopt;
}

}  // namespace

bool is_open(const xla::Type& type) {
  return std::find(type.sizes.begin(), type.sizes.end(), kOpen) != type.sizes.end() ||
         std::any_of(type.parts.begin(), type.parts.end(), is_open);
}

xla::Type closed(const std::string& opcode, xla::Type type, const std::vector<OperandView>& operands,
                 const xla::Attributes& attributes) {
  if (operands.empty()) return type;
  if (type.is_tuple()) {
    // Each of several results follows its own operand.
    for (std::size_t k = 0; k < type.parts.size(); ++k) {
      std::vector<OperandView> own(operands);
      if (k < own.size()) std::rotate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(k), own.end());
      fill(type.parts[k], sizes_of(opcode, type.parts[k], own, attributes));
    }
    return type;
  }
  fill(type, sizes_of(opcode, type, operands, attributes));
  return type;
}

KnownNumbers known_numbers(const std::string& opcode, const xla::Type& type, const std::vector<OperandView>& operands,
                           const xla::Attributes& attributes) {
  const bool integer = type.element.starts_with("s") || type.element.starts_with("u");
  if (!integer || type.sizes.size() > 1) return {};
  const std::size_t count = type.sizes.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(type.sizes[0], 0));
  if (count > kMaxKnown) return {};
  Numbers made;
  if (opcode == "constant") {
    if (!attributes.values) return {};
    for (const double value : *attributes.values) {
      if (!(value > -9e15 && value < 9e15)) return {};
      made.push_back(static_cast<std::int64_t>(value));
    }
    if (made.size() == 1) made.resize(count, made[0]);
    return made.size() == count ? KnownNumbers(made) : KnownNumbers{};
  }
  for (const OperandView& operand : operands)
    if (!*operand.known) return {};
  if (opcode == "concatenate") {
    for (const OperandView& operand : operands)
      made.insert(made.end(), (*operand.known)->begin(), (*operand.known)->end());
  } else if ((opcode == "reshape" || opcode == "convert" || opcode == "copy") && operands.size() == 1) {
    made = **operands[0].known;
  } else if (opcode == "broadcast" && operands.size() == 1 && (*operands[0].known)->size() == 1) {
    made.assign(count, (**operands[0].known)[0]);
  } else if (opcode == "slice" && operands.size() == 1 && attributes.start.size() == 1 &&
             attributes.limit.size() == 1) {
    for (std::int64_t i = std::max<std::int64_t>(attributes.start[0], 0);
         i < std::min<std::int64_t>(attributes.limit[0], static_cast<std::int64_t>((*operands[0].known)->size()));
         i += attributes.stride.empty() ? 1 : std::clamp<std::int64_t>(attributes.stride[0], 1, kMaxSize))
      made.push_back((**operands[0].known)[static_cast<std::size_t>(i)]);
  } else if (operands.size() == 2) {
    const Numbers &x = **operands[0].known, &y = **operands[1].known;
    if (x.size() != y.size()) return {};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::optional<std::int64_t> value = computed(opcode, x[i], y[i]);
      if (!value) return {};
      made.push_back(*value);
    }
  }
  return made.size() == count ? KnownNumbers(made) : KnownNumbers{};
}

}  // namespace meshwright::mlir
