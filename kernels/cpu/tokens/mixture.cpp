// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tokens/mixture.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

constexpr std::int32_t kNoSlot = -1;

// The experts of one token, best first. Selection: top_k is small.
template <class T>
void choose(const T* scores, std::int64_t experts, std::int64_t top_k, std::int32_t* chosen) {
  for (std::int64_t k = 0; k < top_k; ++k) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e)
      if ((best < 0 || scores[e] > scores[best]) && std::find(chosen, chosen + k, e) == chosen + k) best = e;
    chosen[k] = static_cast<std::int32_t>(best);
  }
}

// Calls visit(token, expert, offset of the slot's row in the buffer, index of the slot) for every slot that is taken,
// token by token.
template <class Visit>
void for_each_taken(const std::int32_t* slots, MixtureShape shape, Visit visit) {
  for (std::int64_t token = 0; token < shape.batch * shape.seq; ++token)
    for (std::int64_t e = 0; e < shape.experts; ++e) {
      const std::int64_t index = token * shape.experts + e, slot = slots[index];
      if (slot < 0 || slot >= shape.capacity) continue;
      const std::int64_t row = (e * shape.batch + token / shape.seq) * shape.capacity + slot;
      visit(token, row * shape.embed, index);
    }
}

}  // namespace

template <class T>
void top_k_slots(const T* scores, std::int32_t* slots, MixtureShape shape, std::int64_t top_k) {
  const std::int64_t experts = shape.experts;
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(shape.seq * top_k));
  std::vector<std::int32_t> taken(static_cast<std::size_t>(experts));
  std::fill_n(slots, shape.batch * shape.seq * experts, kNoSlot);
  for (std::int64_t b = 0; b < shape.batch; ++b, scores += shape.seq * experts, slots += shape.seq * experts) {
    for (std::int64_t s = 0; s < shape.seq; ++s)
      choose(scores + s * experts, experts, top_k, chosen.data() + s * top_k);
    std::fill(taken.begin(), taken.end(), 0);
    for (std::int64_t k = 0; k < top_k; ++k)
      for (std::int64_t s = 0; s < shape.seq; ++s) {
        const std::int32_t expert = chosen[static_cast<std::size_t>(s * top_k + k)];
        std::int32_t& count = taken[static_cast<std::size_t>(expert)];
        if (count < shape.capacity) slots[s * experts + expert] = count++;
      }
  }
}

template <class T>
void gate_weights(const T* scores, const std::int32_t* slots, T* weights, const GateShape& shape) {
  const auto [rows, experts, normalize] = shape;
  for (std::int64_t row = 0; row < rows; ++row, scores += experts, slots += experts, weights += experts) {
    double sum = normalize ? 0.0 : 1.0;
    for (std::int64_t e = 0; normalize && e < experts; ++e)
      if (slots[e] >= 0) sum += static_cast<double>(scores[e]);
    for (std::int64_t e = 0; e < experts; ++e)
      weights[e] = slots[e] >= 0 ? static_cast<T>(static_cast<double>(scores[e]) / sum) : T(0);
  }
}

// With weights w = x / S: dx_i = (dy_i - sum over taken j of w_j dy_j) / S.
template <class T>
void gate_weights_backward(const T* scores, const std::int32_t* slots, const T* dy, T* dscores,
                           const GateShape& shape) {
  const auto [rows, experts, normalize] = shape;
  for (std::int64_t row = 0; row < rows;
       ++row, scores += experts, slots += experts, dy += experts, dscores += experts) {
    double sum = normalize ? 0.0 : 1.0, product = 0.0;
    for (std::int64_t e = 0; normalize && e < experts; ++e) {
      if (slots[e] < 0) continue;
      sum += static_cast<double>(scores[e]);
      product += static_cast<double>(scores[e]) * static_cast<double>(dy[e]);
    }
    for (std::int64_t e = 0; e < experts; ++e)
      dscores[e] = slots[e] >= 0 ? static_cast<T>((static_cast<double>(dy[e]) - product / sum) / sum) : T(0);
  }
}

template <class T>
void scatter_tokens(const T* tokens, const std::int32_t* slots, const T* weights, T* buffer, MixtureShape shape) {
  std::fill_n(buffer, shape.experts * shape.batch * shape.capacity * shape.embed, T(0));
  for_each_taken(slots, shape, [&](std::int64_t token, std::int64_t offset, std::int64_t index) {
    const T* from = tokens + token * shape.embed;
    T* to = buffer + offset;
    const T weight = weights == nullptr ? T(1) : weights[index];
#pragma GCC ivdep
    for (std::int64_t i = 0; i < shape.embed; ++i) to[i] = weight * from[i];
  });
}

template <class T>
void gather_tokens(const T* buffer, const std::int32_t* slots, const T* weights, T* tokens, MixtureShape shape) {
  std::vector<double> sum(static_cast<std::size_t>(shape.embed), 0.0);
  std::int64_t current = 0;
  const auto finish = [&] {
    T* to = tokens + current++ * shape.embed;
    for (std::int64_t i = 0; i < shape.embed; ++i) to[i] = static_cast<T>(sum[static_cast<std::size_t>(i)]);
    std::fill(sum.begin(), sum.end(), 0.0);
  };
  for_each_taken(slots, shape, [&](std::int64_t token, std::int64_t offset, std::int64_t index) {
    while (current < token) finish();
    const T* from = buffer + offset;
    double* total = sum.data();
    const double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[index]);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < shape.embed; ++i) total[i] += weight * static_cast<double>(from[i]);
  });
  while (current < shape.batch * shape.seq) finish();
}

template <class T>
void gather_weights_backward(const T* buffer, const std::int32_t* slots, const T* dout, T* dweights,
                             MixtureShape shape) {
  std::fill_n(dweights, shape.batch * shape.seq * shape.experts, T(0));
  for_each_taken(slots, shape, [&](std::int64_t token, std::int64_t offset, std::int64_t index) {
    const T *row = buffer + offset, *gradient = dout + token * shape.embed;
    dweights[index] = static_cast<T>(lane_sum<double>(
        shape.embed, [=](std::int64_t i) { return static_cast<double>(row[i]) * static_cast<double>(gradient[i]); }));
  });
}

template <class T>
void one_hot_slots(const std::int32_t* slots, T* mask, const SlotPart& part) {
  const auto [rows, capacity, experts, first] = part;
  std::fill_n(mask, rows * capacity * experts, T(0));
  for (std::int64_t row = 0; row < rows; ++row, slots += experts, mask += capacity * experts)
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::int64_t slot = slots[e] - first;
      if (slots[e] >= 0 && slot >= 0 && slot < capacity) mask[slot * experts + e] = T(1);
    }
}

#define MW_INSTANTIATE(T)                                                                                \
  template void top_k_slots<T>(const T*, std::int32_t*, MixtureShape, std::int64_t);                     \
  template void gate_weights<T>(const T*, const std::int32_t*, T*, const GateShape&);                    \
  template void gate_weights_backward<T>(const T*, const std::int32_t*, const T*, T*, const GateShape&); \
  template void scatter_tokens<T>(const T*, const std::int32_t*, const T*, T*, MixtureShape);            \
  template void gather_tokens<T>(const T*, const std::int32_t*, const T*, T*, MixtureShape);             \
  template void gather_weights_backward<T>(const T*, const std::int32_t*, const T*, T*, MixtureShape);   \
  template void one_hot_slots<T>(const std::int32_t*, T*, const SlotPart&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
