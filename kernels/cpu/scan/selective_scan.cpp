// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scan/selective_scan.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace meshwright::kernels {

namespace {

using State = std::vector<double>;  // (width, state), or (state)

double softplus(double x) { return x > 30.0 ? x : std::log1p(std::exp(x)); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// One head of one sample: where its operands are, token by token.
struct Head {
  Head(const ScanShape& of, std::int64_t batch, std::int64_t group, std::int64_t head)
      : shape(of), first(batch * of.chunks * of.chunk), group_(group), head_(group * of.heads + head) {}

  [[nodiscard]] std::int64_t tokens() const { return shape.chunks * shape.chunk; }
  [[nodiscard]] std::int64_t number() const { return head_; }
  [[nodiscard]] std::int64_t dt(std::int64_t t) const { return (first + t) * shape.groups * shape.heads + head_; }
  [[nodiscard]] std::int64_t x(std::int64_t t) const { return dt(t) * shape.width; }
  [[nodiscard]] std::int64_t b(std::int64_t t) const { return ((first + t) * shape.groups + group_) * shape.state; }

  const ScanShape& shape;
  std::int64_t first;

 private:
  std::int64_t group_, head_;
};

// The rates of a head, exp(a_log), one for each number of a state.
template <class T>
State rates_of(const ScanOperands<const T>& in, const Head& head) {
  const std::int64_t rates = head.shape.rates();
  State of(static_cast<std::size_t>(head.shape.state));
  for (std::int64_t n = 0; n < head.shape.state; ++n)
    of[static_cast<std::size_t>(n)] =
        std::exp(static_cast<double>(in.a_log[head.number() * rates + std::min(n, rates - 1)]));
  return of;
}

template <class T>
struct Step {
  double step;   // s_t
  State decays;  // a_t of each number of a state
  const T *x, *b, *c;
};

template <class T>
Step<T> step_of(const ScanOperands<const T>& in, const Head& head, const State& rates, std::int64_t t) {
  const double step = softplus(static_cast<double>(in.dt[head.dt(t)]) + static_cast<double>(in.dt_bias[head.number()]));
  State decays(rates.size(), std::exp(-step * rates[0]));
  if (head.shape.rate_per_number)
    std::transform(rates.begin(), rates.end(), decays.begin(), [=](double rate) { return std::exp(-step * rate); });
  return {step, std::move(decays), in.x + head.x(t), in.b + head.b(t), in.c + head.b(t)};
}

template <class T>
void advance(State& state, const Step<T>& step, const ScanShape& shape) {
  for (std::int64_t p = 0; p < shape.width; ++p) {
    double* row = state.data() + p * shape.state;
    const double x = step.step * static_cast<double>(step.x[p]);
    for (std::int64_t n = 0; n < shape.state; ++n)
      row[n] = step.decays[static_cast<std::size_t>(n)] * row[n] + x * static_cast<double>(step.b[n]);
  }
}

template <class Visit>
void for_each_head(const ScanShape& shape, Visit visit) {
  for (std::int64_t batch = 0; batch < shape.batch; ++batch)
    for (std::int64_t group = 0; group < shape.groups; ++group)
      for (std::int64_t head = 0; head < shape.heads; ++head) visit(Head(shape, batch, group, head));
}

// What the gradients of a whole call are summed in: those that several heads or samples share.
struct SharedGradients {
  std::vector<double> b, c, a_log, d, dt_bias;
};

// The chunk's tokens from the last to the first. `states` holds H before the chunk and after each of its tokens; `g` is
// dL/dH behind the chunk already times the decay there, and becomes that before it.
template <class T>
void backward_of_chunk(const ScanOperands<const T>& in, const T* dy, const ScanOperands<T>& gradients,
                       SharedGradients& sums, const Head& head, const State& rates, std::int64_t begin,
                       const std::vector<State>& states, State& g) {
  const ScanShape& shape = head.shape;
  const auto number = static_cast<std::size_t>(head.number());
  const double skip = static_cast<double>(in.d[number]);
  double* of_rates = sums.a_log.data() + head.number() * shape.rates();
  State by_decay(rates.size());
  for (std::int64_t t = begin + shape.chunk - 1; t >= begin; --t) {
    const Step<T> step = step_of(in, head, rates, t);
    std::fill(by_decay.begin(), by_decay.end(), 0.0);
    const State &before = states[static_cast<std::size_t>(t - begin)],
                &after = states[static_cast<std::size_t>(t - begin) + 1];
    const T* out = dy + head.x(t);
    double* db = sums.b.data() + head.b(t);
    double* dc = sums.c.data() + head.b(t);
    double by_step = 0.0;
    for (std::int64_t p = 0; p < shape.width; ++p) {
      const double given = static_cast<double>(out[p]), x = static_cast<double>(step.x[p]);
      double* row = g.data() + p * shape.state;
      const double *old_row = before.data() + p * shape.state, *new_row = after.data() + p * shape.state;
      double along_b = 0.0;
      for (std::int64_t n = 0; n < shape.state; ++n) {
        dc[n] += given * new_row[n];
        row[n] += given * static_cast<double>(step.c[n]);
        along_b += row[n] * static_cast<double>(step.b[n]);
        db[n] += step.step * x * row[n];
        by_decay[static_cast<std::size_t>(n)] += row[n] * old_row[n];
        row[n] *= step.decays[static_cast<std::size_t>(n)];
      }
      by_step += x * along_b;
      gradients.x[head.x(t) + p] = static_cast<T>(skip * given + step.step * along_b);
      sums.d[number] += given * x;
    }
    // a_t = exp(-s_t rate), rate = exp(a_log)
    for (std::int64_t n = 0; n < shape.state; ++n) {
      const auto at = static_cast<std::size_t>(n);
      const double by_exponent = by_decay[at] * step.decays[at] * rates[at];
      by_step -= by_exponent;
      of_rates[std::min(n, shape.rates() - 1)] -= by_exponent * step.step;
    }
    const double raw = static_cast<double>(in.dt[head.dt(t)]) + static_cast<double>(in.dt_bias[number]);
    const double by_raw = by_step * sigmoid(raw);
    gradients.dt[head.dt(t)] = static_cast<T>(by_raw);
    sums.dt_bias[number] += by_raw;
  }
}

template <class T>
void backward_of_head(const ScanOperands<const T>& in, const T* dy, const ScanOperands<T>& gradients,
                      SharedGradients& sums, const Head& head) {
  const ScanShape& shape = head.shape;
  const auto elements = static_cast<std::size_t>(shape.width * shape.state);
  const State rates = rates_of(in, head);
  std::vector<State> begins;
  State state(elements, 0.0);
  for (std::int64_t t = 0; t < head.tokens(); ++t) {
    if (t % shape.chunk == 0) begins.push_back(state);
    advance(state, step_of(in, head, rates, t), shape);
  }
  State g(elements, 0.0);
  std::vector<State> states(static_cast<std::size_t>(shape.chunk) + 1);
  for (std::int64_t chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    states[0] = begins[static_cast<std::size_t>(chunk)];
    for (std::int64_t t = 0; t < shape.chunk; ++t) {
      states[static_cast<std::size_t>(t) + 1] = states[static_cast<std::size_t>(t)];
      advance(states[static_cast<std::size_t>(t) + 1], step_of(in, head, rates, chunk * shape.chunk + t), shape);
    }
    backward_of_chunk(in, dy, gradients, sums, head, rates, chunk * shape.chunk, states, g);
  }
}

template <class T>
void write(const std::vector<double>& sums, T* result) {
  std::transform(sums.begin(), sums.end(), result, [](double sum) { return static_cast<T>(sum); });
}

}  // namespace

template <class T>
void selective_scan(const ScanOperands<const T>& in, T* y, const ScanShape& shape) {
  for_each_head(shape, [&](const Head& head) {
    State state(static_cast<std::size_t>(shape.width * shape.state), 0.0);
    const double skip = static_cast<double>(in.d[head.number()]);
    const State rates = rates_of(in, head);
    for (std::int64_t t = 0; t < head.tokens(); ++t) {
      const Step<T> step = step_of(in, head, rates, t);
      advance(state, step, shape);
      for (std::int64_t p = 0; p < shape.width; ++p) {
        double sum = skip * static_cast<double>(step.x[p]);
        for (std::int64_t n = 0; n < shape.state; ++n)
          sum += state[static_cast<std::size_t>(p * shape.state + n)] * static_cast<double>(step.c[n]);
        y[head.x(t) + p] = static_cast<T>(sum);
      }
    }
  });
}

template <class T>
void selective_scan_backward(const ScanOperands<const T>& in, const T* dy, const ScanOperands<T>& gradients,
                             const ScanShape& shape) {
  const auto of_b = static_cast<std::size_t>(shape.batch * shape.chunks * shape.chunk * shape.groups * shape.state),
             of_heads = static_cast<std::size_t>(shape.groups * shape.heads);
  const State heads(of_heads, 0.0);
  SharedGradients sums{State(of_b, 0.0), State(of_b, 0.0),
                       State(of_heads * static_cast<std::size_t>(shape.rates()), 0.0), heads, heads};
  for_each_head(shape, [&](const Head& head) { backward_of_head(in, dy, gradients, sums, head); });
  write(sums.b, gradients.b);
  write(sums.c, gradients.c);
  write(sums.a_log, gradients.a_log);
  write(sums.d, gradients.d);
  write(sums.dt_bias, gradients.dt_bias);
}

#define MW_INSTANTIATE(T)                                                                                  \
  template void selective_scan<T>(const ScanOperands<const T>&, T*, const ScanShape&);                     \
  template void selective_scan_backward<T>(const ScanOperands<const T>&, const T*, const ScanOperands<T>&, \
                                           const ScanShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
