// SPDX-License-Identifier: Apache-2.0
#include "executor/base/initial_values.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/op_table.h"
#include "executor/base/element_type.h"
#include "kernels/cpu/elementwise/random.h"

namespace meshwright {

namespace {

// Calls run(position in the tile, index in the whole tensor, length) for every run of elements contiguous in both.
template <class Run>
void for_each_run(const std::vector<Dim>& dims, std::span<const std::int64_t> offset,
                  std::span<const std::int64_t> shape, Run run) {
  std::size_t outer = dims.size();
  std::int64_t length = 1, whole = 1;  // of one run; of the dimensions inside it
  bool open = true;                    // the next dimension's elements still follow one another
  while (outer > 0 && open) {
    --outer;
    open = shape[outer] == dims[outer].size;
    length *= shape[outer];
    whole *= dims[outer].size;
  }
  std::int64_t first = 0, inside = 1;  // where the run begins inside `whole`
  for (std::size_t d = dims.size(); d > outer; --d) {
    first += offset[d - 1] * inside;
    inside *= dims[d - 1].size;
  }
  std::int64_t runs = 1;
  for (std::size_t d = 0; d < outer; ++d) runs *= shape[d];
  for (std::int64_t r = 0; r < runs; ++r) {
    std::int64_t index = 0, rest = r, stride = whole;
    for (std::size_t d = outer; d > 0; --d) {
      index += (offset[d - 1] + rest % shape[d - 1]) * stride;
      rest /= shape[d - 1];
      stride *= dims[d - 1].size;
    }
    run(r * length, index + first, length);
  }
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The half-width of the uniform distribution of a parameter.
double spread_of(const Tensor& tensor) {
  if (tensor.dims.size() < 2 || ends_with(tensor.name, ".bias") || ends_with(tensor.name, ".beta")) return 0.1;
  const double fan_in = static_cast<double>(tensor.elements() / tensor.dims.back().size);
  return std::sqrt(3.0 / fan_in);
}

std::int64_t elements_of(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

// Calls use(position, weight) for the weights first..first+count-1 of a step.
template <class Use>
void make_weights(std::uint64_t key, std::int64_t first, std::int64_t count, Use use) {
  constexpr std::int64_t kBlock = 1024;
  std::int32_t halves[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    kernels::fill_integers(halves, n, key, first + begin, 4);
    for (std::int64_t i = 0; i < n; ++i) use(begin + i, first + begin + i == 0 ? 1.0 : 0.5 * halves[i]);
  }
}

bool has_master_copy(const Op& op) {
  constexpr OpKind kUpdates[] = {OpKind::AdamUpdate, OpKind::AdafactorUpdate, OpKind::MomentumUpdate,
                                 OpKind::SgdUpdate};
  if (std::find(std::begin(kUpdates), std::end(kUpdates), op.kind) == std::end(kUpdates)) return false;
  return operand_names(op.kind, op.inputs.size(), op.attributes)[1] == "master";
}

}  // namespace

InitialValues::InitialValues(const Graph& graph, std::uint64_t seed, DType precision, GivenValues given)
    : graph_(graph), seed_(seed), precision_(precision), given_(std::move(given)) {
  std::set<TensorId> truths;  // what decides a selection, and what it is made of by moving elements
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
    if (op->kind == OpKind::Select) truths.insert(op->inputs[0]);
    const bool moves = op->kind == OpKind::Broadcast || op->kind == OpKind::Reshape || op->kind == OpKind::Transpose ||
                       op->kind == OpKind::Slice;
    if (moves && truths.contains(op->outputs[0])) truths.insert(op->inputs[0]);
  }
  for (const TensorId id : truths)
    if (graph.tensor(id).dtype == DType::I32 && !graph.constants.contains(id)) index_bounds_.emplace(id, 2);
  for (const Op& op : graph.ops()) {
    if (has_master_copy(op)) masters_.insert(op.inputs[1]);
    const IterationSpace space = iteration_space(graph, op);
    if (!space.position_axis) continue;
    const std::int64_t bound = space.axes[static_cast<std::size_t>(*space.position_axis)].size;
    for (const TensorId id : op.inputs) {
      if (graph.tensor(id).dtype != DType::I32) continue;
      const auto known = index_bounds_.try_emplace(id, bound).first;
      known->second = std::min(known->second, bound);
    }
  }
  if (given_.labels == GivenValues::Labels::FollowingWord) find_followed();
  if (given_.samples)
    for (const auto& [input, bound] : index_bounds_)
      if (graph.tensor(input).kind == TensorKind::Input) given_.samples->check_bound(graph.tensor(input), bound);
}

// Labels of a decoder follow what the decoder reads, where it reads other tokens than an encoder does.
void InitialValues::find_followed() {
  const auto input = [&](const std::string& name) -> const Tensor* {
    for (const Tensor& tensor : graph_.tensors())
      if (tensor.kind == TensorKind::Input && tensor.dtype == DType::I32 && tensor.name == name) return &tensor;
    return nullptr;
  };
  const Tensor* tokens = input("decoder_tokens") != nullptr ? input("decoder_tokens") : input("tokens");
  if (tokens == nullptr) return;
  const Tensor* labels = input("labels");
  for (std::int64_t words = 1; labels != nullptr && labels->dims == tokens->dims;
       labels = input(fmt::format("labels_{}", ++words)))
    followed_.emplace(labels->id, Followed{tokens->id, words});
}

void InitialValues::fill(const Tensor& tensor, std::span<const std::int64_t> offset,
                         std::span<const std::int64_t> shape, void* out) const {
  const bool is_weight = tensor.kind == TensorKind::Parameter || masters_.count(tensor.id) > 0;
  const Tensor& source = is_weight && tensor.parameter ? graph_.tensor(*tensor.parameter) : tensor;
  if (given_.start && (given_.start->fill(tensor, offset, shape, precision_, out) ||
                       (is_weight && given_.start->fill(source, offset, shape, precision_, out))))
    return;
  with_element_type(precision_, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::int32_t>) {
      T* values = static_cast<T*>(out);
      if (!is_weight) {
        std::fill_n(values, elements_of(shape), T(0));
      } else if (ends_with(source.name, ".gamma")) {
        std::fill_n(values, elements_of(shape), T(1));
      } else {
        const std::uint64_t key = stable_hash(fmt::format("{}/{}", seed_, source.name));
        const double spread = spread_of(source);
        for_each_run(source.dims, offset, shape, [&](std::int64_t position, std::int64_t index, std::int64_t length) {
          kernels::fill_uniform(values + position, length, key, index, -spread, spread);
        });
      }
    }
  });
}

std::uint64_t InitialValues::input_key(const Tensor& tensor, int step) const {
  return stable_hash(fmt::format("{}/{}/{}", seed_, step, tensor.name));
}

double InitialValues::total_weight(int step) const {
  const std::lock_guard lock(total_mutex_);
  if (total_ && total_->first == step) return total_->second;
  const Tensor& weights = graph_.tensor(graph_.loss_weights->weights);
  double total = 0.0;
  make_weights(input_key(weights, step), 0, graph_.microbatches * weights.elements(),
               [&](std::int64_t, double weight) { total += weight; });
  total_ = {step, total};
  return total;
}

namespace {

// A tile of numbers that are the same in every microbatch.
void copy_tile(const std::vector<double>& numbers, const GivenSamples* samples, const Tensor& tensor, DType precision,
               std::span<const std::int64_t> offset, std::span<const std::int64_t> shape, void* out) {
  const auto standing_for = [&](double number) {
    return samples == nullptr || tensor.dtype == DType::I32 ? number : samples->constant(number);
  };
  with_element_type(computed_type(tensor.dtype, precision), [&](auto zero) {
    using T = decltype(zero);
    for_each_run(tensor.dims, offset, shape, [&](std::int64_t position, std::int64_t index, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i)
        static_cast<T*>(out)[position + i] = static_cast<T>(standing_for(numbers[static_cast<std::size_t>(index + i)]));
    });
  });
}

}  // namespace

void InitialValues::fill_input(const Tensor& tensor, int step, int microbatch, std::span<const std::int64_t> offset,
                               std::span<const std::int64_t> shape, void* out) const {
  if (const auto constant = graph_.constants.find(tensor.id); constant != graph_.constants.end())
    return copy_tile(*constant->second, given_.samples.get(), tensor, precision_, offset, shape, out);
  if (given_.samples) {
    const std::int64_t samples = graph_.batch / graph_.microbatches;  // of a microbatch
    const std::int64_t first = step * graph_.batch + microbatch * samples + (offset.empty() ? 0 : offset[0]);
    if (given_.samples->fill(tensor, first, offset, shape, precision_, out)) return;
  }
  const auto followed = followed_.find(tensor.id);
  const Tensor& source = followed == followed_.end() ? tensor : graph_.tensor(followed->second.tokens);
  const std::uint64_t key = input_key(source, step);
  const std::int64_t before = microbatch * tensor.elements();
  if (tensor.dtype == DType::I32) {
    // What is no index is computed with, as a mask of padding is.
    constexpr std::int64_t kTruths = 2;
    const auto bound_of = [&](TensorId id) {
      const auto bound = index_bounds_.find(id);
      return bound == index_bounds_.end() ? kTruths : bound->second;
    };
    const std::int64_t bound = bound_of(tensor.id), of_source = bound_of(source.id),
                       words = followed == followed_.end() ? 0 : followed->second.words;
    for_each_run(tensor.dims, offset, shape, [&](std::int64_t position, std::int64_t index, std::int64_t length) {
      std::int32_t* values = static_cast<std::int32_t*>(out) + position;
      kernels::fill_integers(values, length, key, before + index, of_source);
      for (std::int64_t i = 0; words > 0 && i < length; ++i)
        values[i] = static_cast<std::int32_t>((values[i] + words) % bound);
    });
    return;
  }
  with_element_type(precision_, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::int32_t>) {
      T* values = static_cast<T*>(out);
      if (graph_.loss_weights && tensor.id == graph_.loss_weights->total) {
        *values = static_cast<T>(total_weight(step));
        return;
      }
      const bool weighs = graph_.loss_weights && tensor.id == graph_.loss_weights->weights;
      for_each_run(tensor.dims, offset, shape, [&](std::int64_t position, std::int64_t index, std::int64_t length) {
        if (!weighs)
          kernels::fill_uniform(values + position, length, key, before + index, -1.0, 1.0);
        else
          make_weights(key, before + index, length,
                       [&](std::int64_t i, double weight) { values[position + i] = static_cast<T>(weight); });
      });
    }
  });
}

}  // namespace meshwright
