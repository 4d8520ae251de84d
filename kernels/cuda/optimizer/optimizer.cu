// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cpu/optimizer/loss_scaling.h"
#include "kernels/cuda/blocks/groups.h"
#include "kernels/cuda/optimizer/step_gradients.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

struct Plus {
  template <class W, class V>
  MW_DEVICE W operator()(W total, V gradient) const {
    return total + gradient;
  }
};

// --- loss scaling ---

template <class W>
__global__ void next_scaling(W* state, const W* squares, std::int64_t growth_interval) {
  if (threadIdx.x == 0) kernels::update_scaling(state, std::isfinite(*squares), growth_interval);
}

// --- updates ---

// --- what is done to each element ---
//
// A rule is made by the host; learn adds what the device knows, once per block, as powers in double are slow. Where a
// compiler might join a product and a sum, fma says it, so that every kernel with the rule rounds alike.

template <class W>
struct SgdRule {
  static constexpr int kStates = 0;
  static constexpr const char *kName = "sgd_update", *kNameOfSeveral = "sgd_update, several";
  W rate, decay, factor;

  MW_DEVICE void learn(const StepGradients<W>& step) { factor = static_cast<W>(factor_of(step)); }
  MW_DEVICE W operator()(W weight, W gradient, W*) const {
    // w - rate (factor g + decay w).
    return std::fma(-rate, std::fma(factor, gradient, decay * weight), weight);
  }
};

template <class W>
struct MomentumRule {
  static constexpr int kStates = 1;
  static constexpr const char *kName = "momentum_update", *kNameOfSeveral = "momentum_update, several";
  W rate, decay, keep, factor;

  MW_DEVICE void learn(const StepGradients<W>& step) { factor = static_cast<W>(factor_of(step)); }
  MW_DEVICE W operator()(W weight, W gradient, W* velocity) const {
    // v = keep v + factor g + decay w, then w - rate v.
    *velocity = std::fma(keep, *velocity, std::fma(factor, gradient, decay * weight));
    return std::fma(-rate, *velocity, weight);
  }
};

template <class W>
struct AdamRule {
  static constexpr int kStates = 2;
  static constexpr const char *kName = "adam_update", *kNameOfSeveral = "adam_update, several";
  double learning_rate, power1, power2;  // the betas
  std::int64_t step;
  W beta1, beta2, rest1, rest2, epsilon, rest;
  W factor, rate, correction2;

  MW_DEVICE void learn(const StepGradients<W>& gradients) {
    factor = static_cast<W>(factor_of(gradients));
    const auto steps = static_cast<double>(counted_step(gradients, step));  // what the bias corrections depend on
    rate = static_cast<W>(learning_rate / (1 - std::pow(power1, steps)));
    correction2 = static_cast<W>(1 / (1 - std::pow(power2, steps)));
  }
  MW_DEVICE W operator()(W weight, W gradient, W* moments) const {
    // D. Kingma and J. Ba, Adam, 2015, algorithm 1, with decoupled decay (I. Loshchilov and F. Hutter, AdamW, 2019):
    // `rest` is 1 - rate decay, and the decay is in no moment.
    const W g = factor * gradient;
    moments[0] = std::fma(beta1, moments[0], rest1 * g);
    moments[1] = std::fma(beta2, moments[1], rest2 * g * g);
    return std::fma(rest, weight, -(rate * moments[0] / (std::sqrt(correction2 * moments[1]) + epsilon)));
  }
};

// --- over tensors ---

template <class T>
constexpr int kGroupOf = group_of<Wide<T>>();
constexpr std::int64_t kChunkElements = 4096;

template <class T, class G>
MW_DEVICE bool all_lie_well(const UpdatedTensor<T, G>& t) {
  constexpr int kGroup = kGroupOf<T>;
  return lies_well<kGroup>(t.weight) && lies_well<kGroup>(t.master) && lies_well<kGroup>(t.first_moment) &&
         lies_well<kGroup>(t.second_moment) && lies_well<kGroup>(t.gradient);
}

// All of a group is read before any of it is written, in registers between: the weight is its own operand.
//
// Elements begin .. end - 1, of which this thread takes a group from `own` on and every `stride` elements.
template <class Rule, class T, class G>
MW_DEVICE void update_range(const Rule& rule, const UpdatedTensor<T, G>& t, std::int64_t own, std::int64_t end,
                            std::int64_t stride) {
  using W = Wide<T>;
  constexpr int kGroup = kGroupOf<T>, kStates = Rule::kStates;
  const bool well = all_lie_well(t);
  for (std::int64_t begin = own; begin < end; begin += stride) {
    const int count = end - begin < kGroup ? static_cast<int>(end - begin) : kGroup;
    T rounded[kGroup];
    G gradient[kGroup];
    W weight[kGroup], first[kGroup], second[kGroup];
    load_group(t.gradient + begin, gradient, count, well);
    if constexpr (kStates > 0) load_group(t.first_moment + begin, first, count, well);
    if constexpr (kStates > 1) load_group(t.second_moment + begin, second, count, well);
    if (t.master != nullptr) {
      load_group(t.master + begin, weight, count, well);
    } else {
      load_group(t.weight + begin, rounded, count, well);
      MW_UNROLL
      for (int i = 0; i < kGroup; ++i) weight[i] = static_cast<W>(rounded[i]);
    }
    MW_UNROLL
    for (int i = 0; i < kGroup; ++i) {
      W states[2] = {};
      if constexpr (kStates > 0) states[0] = first[i];
      if constexpr (kStates > 1) states[1] = second[i];
      weight[i] = rule(weight[i], static_cast<W>(gradient[i]), states);
      rounded[i] = T(weight[i]);
      first[i] = states[0], second[i] = states[1];
    }
    if constexpr (kStates > 0) store_group(t.first_moment + begin, first, count, well);
    if constexpr (kStates > 1) store_group(t.second_moment + begin, second, count, well);
    if (t.master != nullptr) store_group(t.master + begin, weight, count, well);
    store_group(t.weight + begin, rounded, count, well);
  }
}

template <class Rule, class T, class G>
__global__ void __launch_bounds__(kThreads)
    update_one(UpdatedTensor<T, G> tensor, Rule rule, StepGradients<Wide<T>> step_gradients) {
  MW_SHARED Rule learned;
  if (threadIdx.x == 0) {
    rule.learn(step_gradients);
    learned = rule;
  }
  __syncthreads();
  // After the barrier: all threads of the block must reach it.
  if (is_left_out(step_gradients)) return;
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  update_range(learned, tensor, own * kGroupOf<T>, tensor.n,
               static_cast<std::int64_t>(gridDim.x) * kThreads * kGroupOf<T>);
}

// The tensors of one launch: they travel with it, so that nothing is copied to the device for them. A launch takes 4
// KiB, which 64 descriptors of 56 bytes nearly fill. Chunks of equal size, numbered through all tensors, give large and
// small tensors the blocks that they need.
constexpr std::int64_t kTensors = 64;
template <class T, class G>
struct Several {
  UpdatedTensor<T, G> tensors[kTensors];
  std::int64_t first_chunk[kTensors];
  std::int64_t count = 0, chunks = 0;
};

template <class Rule, class T, class G>
__global__ void __launch_bounds__(kThreads)
    update_several(const __grid_constant__ Several<T, G> several, Rule rule, StepGradients<Wide<T>> step_gradients) {
  MW_SHARED Rule learned;
  if (threadIdx.x == 0) {
    rule.learn(step_gradients);
    learned = rule;
  }
  __syncthreads();
  if (is_left_out(step_gradients)) return;
  for (std::int64_t chunk = blockIdx.x; chunk < several.chunks; chunk += gridDim.x) {
    // The last tensor that begins at this chunk or before it.
    std::int64_t low = 0, high = several.count;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (several.first_chunk[middle] <= chunk ? low : high) = middle;
    }
    const UpdatedTensor<T, G> tensor = several.tensors[low];
    const std::int64_t begin = (chunk - several.first_chunk[low]) * kChunkElements, left = tensor.n - begin;
    update_range(learned, tensor, begin + static_cast<std::int64_t>(threadIdx.x) * kGroupOf<T>,
                 begin + (left < kChunkElements ? left : kChunkElements), kThreads * kGroupOf<T>);
  }
}

template <class W>
SgdRule<W> rule_of(const SgdSettings& s) {
  return {static_cast<W>(s.learning_rate), static_cast<W>(s.weight_decay), W(1)};
}

template <class W>
MomentumRule<W> rule_of(const MomentumSettings& s) {
  return {static_cast<W>(s.learning_rate), static_cast<W>(s.weight_decay), static_cast<W>(s.momentum), W(1)};
}

template <class W>
AdamRule<W> rule_of(const AdamSettings& s) {
  AdamRule<W> rule{};
  rule.learning_rate = s.learning_rate, rule.power1 = s.beta1, rule.power2 = s.beta2, rule.step = s.step;
  rule.beta1 = static_cast<W>(s.beta1), rule.beta2 = static_cast<W>(s.beta2);
  rule.rest1 = static_cast<W>(1 - s.beta1), rule.rest2 = static_cast<W>(1 - s.beta2);
  rule.epsilon = static_cast<W>(s.epsilon);
  rule.rest = static_cast<W>(1 - s.learning_rate * s.weight_decay);
  return rule;
}

}  // namespace

template <class A, class G>
void accumulate(Stream stream, A* total, const G* gradient, std::int64_t n) {
  map("accumulate", stream, n, Plus{}, total, static_cast<const A*>(total), gradient);
}

template <class W>
void update_scaling(Stream stream, W* state, const W* squares, std::int64_t growth_interval) {
  launch("update_scaling", next_scaling<W>, {1, 1, 1}, {kWarp, 1, 1}, 0, stream, state, squares, growth_interval);
}

template <class T, class G, class Settings>
void update(Stream stream, const UpdatedTensor<T, G>& tensor, const Settings& settings,
            const StepGradients<Wide<T>>& step_gradients) {
  const auto rule = rule_of<Wide<T>>(settings);
  using Rule = std::remove_const_t<decltype(rule)>;
  const std::int64_t groups = ceil_div(tensor.n, kGroupOf<T>);
  launch(Rule::kName, update_one<Rule, T, G>, blocks_for(groups, kThreads), {kThreads, 1, 1}, 0, stream, tensor, rule,
         step_gradients);
}

template <class T, class G, class Settings>
void update(Stream stream, std::span<const UpdatedTensor<T, G>> tensors, const Settings& settings,
            const StepGradients<Wide<T>>& step_gradients) {
  const auto rule = rule_of<Wide<T>>(settings);
  using Rule = std::remove_const_t<decltype(rule)>;
  static_assert(sizeof(Several<T, G>) + sizeof(Rule) + sizeof(step_gradients) <= 4096 - 64,
                "all devices take this much with a launch");
  Several<T, G> several;
  const auto launch_them = [&] {
    if (several.count > 0)
      launch(Rule::kNameOfSeveral, update_several<Rule, T, G>, blocks_for(several.chunks, 1), {kThreads, 1, 1}, 0,
             stream, several, rule, step_gradients);
    several.count = several.chunks = 0;
  };
  for (const UpdatedTensor<T, G>& tensor : tensors) {
    // Without elements a tensor has no chunk, and the search by first_chunk would not be unique.
    if (tensor.n == 0) continue;
    several.tensors[several.count] = tensor;
    several.first_chunk[several.count++] = several.chunks;
    several.chunks += ceil_div(tensor.n, kChunkElements);
    if (several.count == kTensors) launch_them();
  }
  launch_them();
}

#define MW_ACCUMULATE(A, G) template void accumulate<A, G>(Stream, A*, const G*, std::int64_t);
MW_ACCUMULATE(float, float)
MW_ACCUMULATE(double, double)
MW_ACCUMULATE(Bf16, Bf16)
MW_ACCUMULATE(F16, F16)
MW_ACCUMULATE(float, Bf16)
MW_ACCUMULATE(float, F16)
#undef MW_ACCUMULATE

template void update_scaling<float>(Stream, float*, const float*, std::int64_t);
template void update_scaling<double>(Stream, double*, const double*, std::int64_t);

#define MW_UPDATE(T, G, Settings)                                                                                 \
  template void update<T, G>(Stream, const UpdatedTensor<T, G>&, const Settings&, const StepGradients<Wide<T>>&); \
  template void update<T, G>(Stream, std::span<const UpdatedTensor<T, G>>, const Settings&,                       \
                             const StepGradients<Wide<T>>&);
#define MW_UPDATES(T, G) MW_UPDATE(T, G, SgdSettings) MW_UPDATE(T, G, MomentumSettings) MW_UPDATE(T, G, AdamSettings)
MW_UPDATES(float, float)
MW_UPDATES(double, double)
MW_UPDATES(Bf16, Bf16)
MW_UPDATES(Bf16, float)
MW_UPDATES(F16, F16)
MW_UPDATES(F16, float)
#undef MW_UPDATES
#undef MW_UPDATE

}  // namespace meshwright::kernels::cuda
