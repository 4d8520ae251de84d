// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scan/gated_delta.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace meshwright::kernels {

namespace {

using Numbers = std::vector<double>;

constexpr double kLengthEpsilon = 1e-6;

double softplus_of(double x) { return x > 30.0 ? x : std::log1p(std::exp(x)); }
double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// One head of v of one sample: where its operands are, token by token.
struct ValueHead {
  const DeltaShape& shape;
  std::int64_t batch, head, member;

  [[nodiscard]] std::int64_t tokens() const { return shape.chunks * shape.chunk; }
  [[nodiscard]] std::int64_t number() const { return head * shape.group + member; }
  [[nodiscard]] std::int64_t row(std::int64_t t) const { return (batch * tokens() + t) * shape.heads + head; }
  [[nodiscard]] std::int64_t q(std::int64_t t) const { return row(t) * shape.key_width; }
  [[nodiscard]] std::int64_t b(std::int64_t t) const { return row(t) * shape.group + member; }
  [[nodiscard]] std::int64_t v(std::int64_t t) const { return b(t) * shape.value_width; }
  [[nodiscard]] std::int64_t a(std::int64_t t) const { return b(t) * shape.rates(); }
  [[nodiscard]] std::int64_t bias() const { return number() * shape.rates(); }
};

// A vector of length 1, and the length that it had.
struct Direction {
  Numbers at;
  double length;
};
template <class T>
Direction direction_of(const T* x, std::int64_t width) {
  double squares = kLengthEpsilon;
  for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  Direction made{Numbers(static_cast<std::size_t>(width)), std::sqrt(squares)};
  for (std::int64_t i = 0; i < width; ++i)
    made.at[static_cast<std::size_t>(i)] = static_cast<double>(x[i]) / made.length;
  return made;
}
// Adds the gradient of what had this direction.
void add_through(const Direction& direction, const Numbers& given, double* sum) {
  double along = 0.0;
  for (std::size_t i = 0; i < given.size(); ++i) along += given[i] * direction.at[i];
  for (std::size_t i = 0; i < given.size(); ++i) sum[i] += (given[i] - direction.at[i] * along) / direction.length;
}

// The logarithm of a decay, and its derivatives by a (and dt_bias) and by a_log.
struct LogDecay {
  double log, by_a, by_rate;
};
LogDecay log_decay_of(double raw, double a_log, double least_log) {
  const double rate = std::exp(a_log);
  if (least_log == 0.0) {
    const double step = softplus_of(raw);
    return {-step * rate, -rate * sigmoid_of(raw), -step * rate};
  }
  const double share = sigmoid_of(rate * raw), slope = least_log * share * (1.0 - share) * rate;
  return {least_log * share, slope, slope * raw};
}

// What one token does to the state.
struct DeltaStep {
  std::vector<LogDecay> logs;  // [rate]
  Numbers decays;
  double beta;  // of the update
  Direction k;
  Numbers error, update;  // v - S^T k, and beta times that

  [[nodiscard]] std::size_t rate_of(std::size_t channel) const { return decays.size() > 1 ? channel : 0; }
  [[nodiscard]] double decay_of(std::size_t channel) const { return decays[rate_of(channel)]; }
};

// S becomes that after the token.
template <class T>
DeltaStep advance_delta(const DeltaOperands<const T>& in, const ValueHead& head, std::int64_t t, Numbers& state) {
  const DeltaShape& shape = head.shape;
  const auto number = head.number();
  DeltaStep made;
  for (std::int64_t rate = 0; rate < shape.rates(); ++rate) {
    const double raw =
        static_cast<double>(in.a[head.a(t) + rate]) + static_cast<double>(in.dt_bias[head.bias() + rate]);
    made.logs.push_back(log_decay_of(raw, static_cast<double>(in.a_log[number]), shape.least_log));
    made.decays.push_back(std::exp(made.logs.back().log));
  }
  made.beta = shape.strength * sigmoid_of(static_cast<double>(in.b[head.b(t)]));
  made.k = direction_of(in.k + head.q(t), shape.key_width);
  made.error.assign(in.v + head.v(t), in.v + head.v(t) + shape.value_width);
  const auto width = static_cast<std::size_t>(shape.value_width);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] *= made.decay_of(i / width);
  for (std::size_t d = 0; d < made.k.at.size(); ++d)
    for (std::size_t e = 0; e < width; ++e) made.error[e] -= state[d * width + e] * made.k.at[d];
  made.update = made.error;
  for (double& x : made.update) x *= made.beta;
  for (std::size_t d = 0; d < made.k.at.size(); ++d)
    for (std::size_t e = 0; e < width; ++e) state[d * width + e] += made.k.at[d] * made.update[e];
  return made;
}

template <class Visit>
void for_each_value_head(const DeltaShape& shape, Visit visit) {
  for (std::int64_t batch = 0; batch < shape.batch; ++batch)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t member = 0; member < shape.group; ++member) visit(ValueHead{shape, batch, head, member});
}

// What several heads or samples share.
struct DeltaSums {
  Numbers q, k, a_log, dt_bias;
};

// `before` and `after`: S around the token. `g`: dL/dS behind the token; becomes that before it.
template <class T>
void backward_of_token(const DeltaOperands<const T>& in, const T* dy, const DeltaOperands<T>& gradients,
                       DeltaSums& sums, const ValueHead& head, std::int64_t t, const DeltaStep& step,
                       const Numbers& before, const Numbers& after, Numbers& g) {
  const DeltaShape& shape = head.shape;
  const auto keys = static_cast<std::size_t>(shape.key_width), width = static_cast<std::size_t>(shape.value_width);
  const auto number = static_cast<std::size_t>(head.number());
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.key_width));
  const Direction q = direction_of(in.q + head.q(t), shape.key_width);
  Numbers dq(keys, 0.0), dk(keys, 0.0), du(width, 0.0);
  for (std::size_t d = 0; d < keys; ++d)
    for (std::size_t e = 0; e < width; ++e) {
      const double given = scale * static_cast<double>(dy[static_cast<std::size_t>(head.v(t)) + e]);
      double& along = g[d * width + e];
      dq[d] += after[d * width + e] * given;
      along += q.at[d] * given;
      dk[d] += along * step.update[e];
      du[e] += along * step.k.at[d];
    }
  double dbeta = 0.0;
  Numbers ddecay(step.decays.size(), 0.0);
  for (std::size_t e = 0; e < width; ++e) {
    dbeta += du[e] * step.error[e];
    gradients.v[static_cast<std::size_t>(head.v(t)) + e] = static_cast<T>(step.beta * du[e]);
  }
  // Through S^T k of the decayed state.
  for (std::size_t d = 0; d < keys; ++d)
    for (std::size_t e = 0; e < width; ++e) {
      const double old = before[d * width + e], through = -step.beta * du[e];
      dk[d] += step.decay_of(d) * old * through;
      g[d * width + e] += step.k.at[d] * through;
      ddecay[step.rate_of(d)] += g[d * width + e] * old;
      g[d * width + e] *= step.decay_of(d);
    }
  gradients.b[head.b(t)] = static_cast<T>(dbeta * step.beta * (1.0 - step.beta / shape.strength));
  for (std::size_t rate = 0; rate < ddecay.size(); ++rate) {
    const double by_log = ddecay[rate] * step.decays[rate], by_raw = by_log * step.logs[rate].by_a;
    gradients.a[static_cast<std::size_t>(head.a(t)) + rate] = static_cast<T>(by_raw);
    sums.dt_bias[static_cast<std::size_t>(head.bias()) + rate] += by_raw;
    sums.a_log[number] += by_log * step.logs[rate].by_rate;
  }
  add_through(q, dq, sums.q.data() + head.q(t));
  add_through(step.k, dk, sums.k.data() + head.q(t));
}

template <class T>
void backward_of_value_head(const DeltaOperands<const T>& in, const T* dy, const DeltaOperands<T>& gradients,
                            DeltaSums& sums, const ValueHead& head) {
  const DeltaShape& shape = head.shape;
  const auto elements = static_cast<std::size_t>(shape.key_width * shape.value_width);
  std::vector<Numbers> begins;
  Numbers state(elements, 0.0), g(elements, 0.0);
  for (std::int64_t t = 0; t < head.tokens(); ++t) {
    if (t % shape.chunk == 0) begins.push_back(state);
    (void)advance_delta(in, head, t, state);
  }
  for (std::int64_t chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    std::vector<Numbers> states = {begins[static_cast<std::size_t>(chunk)]};
    std::vector<DeltaStep> steps;
    for (std::int64_t t = 0; t < shape.chunk; ++t) {
      Numbers next = states.back();
      steps.push_back(advance_delta(in, head, chunk * shape.chunk + t, next));
      states.push_back(std::move(next));
    }
    for (std::int64_t t = shape.chunk - 1; t >= 0; --t) {
      const auto i = static_cast<std::size_t>(t);
      backward_of_token(in, dy, gradients, sums, head, chunk * shape.chunk + t, steps[i], states[i], states[i + 1], g);
    }
  }
}

template <class T>
void write_numbers(const Numbers& sums, T* result) {
  std::transform(sums.begin(), sums.end(), result, [](double sum) { return static_cast<T>(sum); });
}

}  // namespace

template <class T>
void gated_delta(const DeltaOperands<const T>& in, T* y, const DeltaShape& shape) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(shape.key_width));
  const auto width = static_cast<std::size_t>(shape.value_width);
  for_each_value_head(shape, [&](const ValueHead& head) {
    Numbers state(static_cast<std::size_t>(shape.key_width) * width, 0.0);
    for (std::int64_t t = 0; t < head.tokens(); ++t) {
      (void)advance_delta(in, head, t, state);
      const Direction q = direction_of(in.q + head.q(t), shape.key_width);
      for (std::size_t e = 0; e < width; ++e) {
        double sum = 0.0;
        for (std::size_t d = 0; d < q.at.size(); ++d) sum += state[d * width + e] * q.at[d];
        y[static_cast<std::size_t>(head.v(t)) + e] = static_cast<T>(scale * sum);
      }
    }
  });
}

template <class T>
void gated_delta_backward(const DeltaOperands<const T>& in, const T* dy, const DeltaOperands<T>& gradients,
                          const DeltaShape& shape) {
  const auto of_q = static_cast<std::size_t>(shape.batch * shape.chunks * shape.chunk * shape.heads * shape.key_width),
             of_heads = static_cast<std::size_t>(shape.heads * shape.group);
  DeltaSums sums{Numbers(of_q, 0.0), Numbers(of_q, 0.0), Numbers(of_heads, 0.0),
                 Numbers(of_heads * static_cast<std::size_t>(shape.rates()), 0.0)};
  for_each_value_head(shape, [&](const ValueHead& head) { backward_of_value_head(in, dy, gradients, sums, head); });
  write_numbers(sums.q, gradients.q);
  write_numbers(sums.k, gradients.k);
  write_numbers(sums.a_log, gradients.a_log);
  write_numbers(sums.dt_bias, gradients.dt_bias);
}

#define MW_INSTANTIATE(T)                                                                                 \
  template void gated_delta<T>(const DeltaOperands<const T>&, T*, const DeltaShape&);                     \
  template void gated_delta_backward<T>(const DeltaOperands<const T>&, const T*, const DeltaOperands<T>&, \
                                        const DeltaShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
