// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/groups.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

struct Plus {
  template <class W, class V>
  MW_DEVICE W operator()(W total, V gradient) const {
    return total + gradient;
  }
};

// --- sum of squares ---

constexpr std::int64_t kMostPartial = 1024, kThreadElements = 32;

std::int64_t partial_sums(std::int64_t n) {
  const std::int64_t block = kThreads * kThreadElements;
  return std::clamp<std::int64_t>((n + block - 1) / block, 1, kMostPartial);
}

// Squares of 16-bit numbers are exact in float; a group's are added there, for the sake of fewer steps in double.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_squares_of_part(const T* x, double* partial, std::int64_t n, bool well) {
  constexpr int kGroup = group_of<T>(), kTurn = 2;
  using Squared = std::conditional_t<sizeof(T) == 2, float, double>;
  MW_SHARED double scratch[kWarp];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x, groups = n / kGroup;
  double sums[kTurn] = {};
  for (std::int64_t turn = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; turn < groups;
       turn += kTurn * stride) {
    T values[kTurn][kGroup];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      const std::int64_t g = turn + k * stride;
      load_group(x + g * kGroup, values[k], g < groups ? kGroup : 0, well);
    }
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      Squared sum = 0;
      MW_UNROLL
      for (int i = 0; i < kGroup; ++i) {
        const auto value = static_cast<Squared>(values[k][i]);
        sum += value * value;
      }
      sums[k] += static_cast<double>(sum);
    }
  }
  double sum = sums[0] + sums[1];
  if (blockIdx.x == 0 && threadIdx.x < n - groups * kGroup) {
    const auto value = static_cast<double>(x[groups * kGroup + threadIdx.x]);
    sum += value * value;
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class W>
__global__ void __launch_bounds__(kThreads) add_parts(const double* partial, W* out, int parts) {
  MW_SHARED double scratch[kWarp];
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) sum += partial[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *out = static_cast<W>(sum);
}

// --- loss scaling ---

template <class W>
__global__ void next_scaling(W* state, const W* squares, std::int64_t growth_interval) {
  if (threadIdx.x != 0) return;
  if (!std::isfinite(*squares)) {
    state[0] -= 1;
    state[1] = 0;
    state[2] += 1;
    return;
  }
  state[1] += 1;
  if (static_cast<std::int64_t>(state[1]) < growth_interval) return;
  state[0] += 1;
  state[1] = 0;
}

// --- updates ---

template <class W>
MW_DEVICE bool is_left_out(const StepGradients<W>& step) {
  return step.scaling != nullptr && !std::isfinite(*step.squares);
}

template <class W>
MW_DEVICE double gradient_factor(const StepGradients<W>& step) {
  const double scale = step.scaling != nullptr ? std::ldexp(step.loss_scale, static_cast<int>(step.scaling[0])) : 1.0;
  if (step.max_norm <= 0.0) return 1.0 / scale;
  const double norm = std::sqrt(static_cast<double>(*step.squares)) / scale;
  const double most = step.max_norm / (norm + 1e-6);
  return (most < 1.0 ? most : 1.0) / scale;
}

// --- what is done to each element ---
//
// A rule is made by the host; learn adds what the device knows, once per block. Where a compiler might join a product
// and a sum, fma says it, so that every kernel with the rule rounds alike.

template <class W>
struct SgdRule {
  static constexpr int kStates = 0;
  W rate, decay, factor;

  MW_DEVICE void learn(const StepGradients<W>& step) { factor = static_cast<W>(gradient_factor(step)); }
  MW_DEVICE W operator()(W weight, W gradient, W*) const {
    return std::fma(-rate, std::fma(factor, gradient, decay * weight), weight);
  }
};

template <class W>
struct MomentumRule {
  static constexpr int kStates = 1;
  W rate, decay, keep, factor;

  MW_DEVICE void learn(const StepGradients<W>& step) { factor = static_cast<W>(gradient_factor(step)); }
  MW_DEVICE W operator()(W weight, W gradient, W* velocity) const {
    *velocity = std::fma(keep, *velocity, std::fma(factor, gradient, decay * weight));
    return std::fma(-rate, *velocity, weight);
  }
};

template <class W>
struct AdamRule {
  static constexpr int kStates = 2;
  double learning_rate, power1, power2;  // the betas
  std::int64_t step;
  W beta1, beta2, rest1, rest2, epsilon, rest;
  W factor, rate, correction2;

  MW_BOTH void correct(double steps) {
    rate = static_cast<W>(learning_rate / (1 - std::pow(power1, steps)));
    correction2 = static_cast<W>(1 / (1 - std::pow(power2, steps)));
  }
  MW_DEVICE void learn(const StepGradients<W>& gradients) {
    factor = static_cast<W>(gradient_factor(gradients));
    if (gradients.scaling != nullptr)
      correct(static_cast<double>(step - static_cast<std::int64_t>(gradients.scaling[2])));
  }
  MW_DEVICE W operator()(W weight, W gradient, W* moments) const {
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
    update(UpdatedTensor<T, G> tensor, Rule rule, StepGradients<Wide<T>> step_gradients) {
  MW_SHARED Rule learned;
  if (threadIdx.x == 0) {
    rule.learn(step_gradients);
    learned = rule;
  }
  __syncthreads();
  if (is_left_out(step_gradients)) return;
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  update_range(learned, tensor, own * kGroupOf<T>, tensor.n,
               static_cast<std::int64_t>(gridDim.x) * kThreads * kGroupOf<T>);
}

template <class Rule, class T, class G>
__global__ void __launch_bounds__(kThreads)
    update_all(const UpdatedTensor<T, G>* tensors, std::int64_t count, std::int64_t chunks, Rule rule,
               StepGradients<Wide<T>> step_gradients) {
  MW_SHARED Rule learned;
  if (threadIdx.x == 0) {
    rule.learn(step_gradients);
    learned = rule;
  }
  __syncthreads();
  if (is_left_out(step_gradients)) return;
  for (std::int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    // The last tensor that begins at this chunk or before it.
    std::int64_t low = 0, high = count;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (tensors[middle].first_chunk <= chunk ? low : high) = middle;
    }
    const UpdatedTensor<T, G> tensor = tensors[low];
    const std::int64_t begin = (chunk - tensor.first_chunk) * kChunkElements, left = tensor.n - begin;
    update_range(learned, tensor, begin + static_cast<std::int64_t>(threadIdx.x) * kGroupOf<T>,
                 begin + (left < kChunkElements ? left : kChunkElements), kThreads * kGroupOf<T>);
  }
}

template <class Rule, class T, class G>
void update_one(const char* name, Stream stream, const UpdatedTensor<T, G>& tensor, const Rule& rule,
                const StepGradients<Wide<T>>& step_gradients) {
  const std::int64_t groups = (tensor.n + kGroupOf<T> - 1) / kGroupOf<T>;
  launch(name, update<Rule, T, G>, blocks_for(groups, kThreads), {kThreads, 1, 1}, 0, stream, tensor, rule,
         step_gradients);
}

template <class W>
AdamRule<W> adam_rule(const AdamSettings& s) {
  AdamRule<W> rule{};
  rule.learning_rate = s.learning_rate, rule.power1 = s.beta1, rule.power2 = s.beta2, rule.step = s.step;
  rule.beta1 = static_cast<W>(s.beta1), rule.beta2 = static_cast<W>(s.beta2);
  rule.rest1 = static_cast<W>(1 - s.beta1), rule.rest2 = static_cast<W>(1 - s.beta2);
  rule.epsilon = static_cast<W>(s.epsilon);
  rule.rest = static_cast<W>(1 - s.learning_rate * s.weight_decay);
  rule.correct(static_cast<double>(s.step));
  return rule;
}

}  // namespace

template <class A, class G>
void accumulate(Stream stream, A* total, const G* gradient, std::int64_t n) {
  map("accumulate", stream, n, Plus{}, total, static_cast<const A*>(total), gradient);
}

std::size_t sum_squares_workspace(std::int64_t n) { return static_cast<std::size_t>(partial_sums(n)) * sizeof(double); }

template <class T>
void sum_squares(Stream stream, const T* gradient, Wide<T>* out, std::int64_t n, void* workspace) {
  auto* partial = static_cast<double*>(workspace);
  const std::int64_t parts = partial_sums(n);
  launch("sum_squares", sum_squares_of_part<T>, {parts, 1, 1}, {kThreads, 1, 1}, 0, stream, gradient, partial, n,
         lies_well<group_of<T>()>(gradient));
  launch("sum_squares, parts", add_parts<Wide<T>>, {1, 1, 1}, {kThreads, 1, 1}, 0, stream, partial, out,
         static_cast<int>(parts));
}

template <class W>
void update_scaling(Stream stream, W* state, const W* squares, std::int64_t growth_interval) {
  launch("update_scaling", next_scaling<W>, {1, 1, 1}, {kWarp, 1, 1}, 0, stream, state, squares, growth_interval);
}

template <class T, class G>
void sgd_update(Stream stream, T* weight, Wide<T>* master, const G* gradient, std::int64_t n, UpdateSettings settings,
                StepGradients<Wide<T>> step_gradients) {
  using W = Wide<T>;
  const UpdatedTensor<T, G> tensor{weight, master, nullptr, nullptr, gradient, n, 0};
  const SgdRule<W> rule{static_cast<W>(settings.learning_rate), static_cast<W>(settings.weight_decay), W(1)};
  update_one("sgd_update", stream, tensor, rule, step_gradients);
}

template <class T, class G>
void momentum_update(Stream stream, T* weight, Wide<T>* master, Wide<T>* velocity, const G* gradient, std::int64_t n,
                     double momentum, UpdateSettings settings, StepGradients<Wide<T>> step_gradients) {
  using W = Wide<T>;
  const UpdatedTensor<T, G> tensor{weight, master, velocity, nullptr, gradient, n, 0};
  const MomentumRule<W> rule{static_cast<W>(settings.learning_rate), static_cast<W>(settings.weight_decay),
                             static_cast<W>(momentum), W(1)};
  update_one("momentum_update", stream, tensor, rule, step_gradients);
}

template <class T, class G>
void adam_update(Stream stream, T* weight, Wide<T>* master, Wide<T>* first_moment, Wide<T>* second_moment,
                 const G* gradient, std::int64_t n, AdamSettings settings, StepGradients<Wide<T>> step_gradients) {
  const UpdatedTensor<T, G> tensor{weight, master, first_moment, second_moment, gradient, n, 0};
  update_one("adam_update", stream, tensor, adam_rule<Wide<T>>(settings), step_gradients);
}

template <class T, class G>
std::int64_t count_chunks(std::span<UpdatedTensor<T, G>> tensors) {
  std::int64_t chunks = 0;
  for (UpdatedTensor<T, G>& tensor : tensors) {
    tensor.first_chunk = chunks;
    chunks += (tensor.n + kChunkElements - 1) / kChunkElements;
  }
  return chunks;
}

template <class T, class G>
void adam_update(Stream stream, const UpdatedTensor<T, G>* tensors, std::int64_t count, std::int64_t chunks,
                 AdamSettings settings, StepGradients<Wide<T>> step_gradients) {
  launch("adam_update, several", update_all<AdamRule<Wide<T>>, T, G>, blocks_for(chunks, 1), {kThreads, 1, 1}, 0,
         stream, tensors, count, chunks, adam_rule<Wide<T>>(settings), step_gradients);
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

template void sum_squares<float>(Stream, const float*, float*, std::int64_t, void*);
template void sum_squares<double>(Stream, const double*, double*, std::int64_t, void*);
template void sum_squares<Bf16>(Stream, const Bf16*, float*, std::int64_t, void*);
template void sum_squares<F16>(Stream, const F16*, float*, std::int64_t, void*);

#define MW_UPDATES(T, G)                                                                                              \
  template void sgd_update<T, G>(Stream, T*, Wide<T>*, const G*, std::int64_t, UpdateSettings,                        \
                                 StepGradients<Wide<T>>);                                                             \
  template void momentum_update<T, G>(Stream, T*, Wide<T>*, Wide<T>*, const G*, std::int64_t, double, UpdateSettings, \
                                      StepGradients<Wide<T>>);                                                        \
  template void adam_update<T, G>(Stream, T*, Wide<T>*, Wide<T>*, Wide<T>*, const G*, std::int64_t, AdamSettings,     \
                                  StepGradients<Wide<T>>);                                                            \
  template std::int64_t count_chunks<T, G>(std::span<UpdatedTensor<T, G>>);                                           \
  template void adam_update<T, G>(Stream, const UpdatedTensor<T, G>*, std::int64_t, std::int64_t, AdamSettings,       \
                                  StepGradients<Wide<T>>);
MW_UPDATES(float, float)
MW_UPDATES(double, double)
MW_UPDATES(Bf16, Bf16)
MW_UPDATES(Bf16, float)
MW_UPDATES(F16, F16)
MW_UPDATES(F16, float)
#undef MW_UPDATES

}  // namespace meshwright::kernels::cuda
