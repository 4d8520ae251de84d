// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/selected_attention.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

namespace meshwright::kernels {

namespace {

template <class T>
double dot(const T* x, const T* y, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

// One query of one head: its rows, its chosen keys, and their probabilities.
template <class T>
struct Query {
  std::int64_t row;   // of q and out
  std::int64_t head;  // of keys and values
  std::int64_t sample;
  std::int64_t sink;  // its number
  std::vector<std::int32_t> keys;
  std::vector<double> p;
  double of_sink;  // its probability

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(keys.size()); }
  [[nodiscard]] std::int64_t key_row(const AttentionShape& shape, std::int64_t i) const {
    return (sample * shape.kv_seq + keys[static_cast<std::size_t>(i)]) * shape.kv_heads + head;
  }
};

template <class T>
void set_probabilities(const SelectedCall<T>& call, Query<T>& query) {
  const std::int64_t d = call.shape.key_dim;
  query.p.resize(query.keys.size());
  for (std::int64_t i = 0; i < query.count(); ++i)
    query.p[static_cast<std::size_t>(i)] =
        call.scale * dot(call.q + query.row * d, call.k + query.key_row(call.shape, i) * d, d);
  double largest = *std::max_element(query.p.begin(), query.p.end()), sum = 0.0;
  query.of_sink = 0.0;
  if (call.sink != nullptr) {
    const auto logit = static_cast<double>(call.sink[query.sink]);
    largest = std::max(largest, logit);
    sum = query.of_sink = std::exp(logit - largest);
  }
  for (double& p : query.p) sum += p = std::exp(p - largest);
  for (double& p : query.p) p /= sum;
  query.of_sink /= sum;
}

// Calls visit(query) for every query that has keys, in order.
template <class T, class Visit>
void for_each_query(const SelectedCall<T>& call, Visit visit) {
  const AttentionShape& shape = call.shape;
  Query<T> query;
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t s = 0; s < shape.seq; ++s) {
      const std::int64_t token = b * shape.seq + s;
      for (std::int64_t h = 0; h < shape.heads(); ++h) {
        query.row = token * shape.heads() + h;
        query.head = h / shape.group;
        if (h == 0 || (call.keys_by_head && h % shape.group == 0)) {
          const std::int64_t list = call.keys_by_head ? token * shape.kv_heads + query.head : token;
          const std::int32_t* chosen = call.keys + list * call.selected;
          query.keys.clear();
          std::copy_if(chosen, chosen + call.selected, std::back_inserter(query.keys),
                       [](auto key) { return key >= 0; });
        }
        if (query.keys.empty()) continue;
        query.sink = h;
        query.sample = b;
        set_probabilities(call, query);
        visit(query);
      }
    }
}

}  // namespace

template <class T>
void index_scores(const T* q, const T* k, const T* weights, T* out, const IndexShape& shape) {
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t s = 0; s < shape.seq; ++s) {
      const std::int64_t token = b * shape.seq + s;
      for (std::int64_t t = 0; t < shape.kv_seq; ++t) {
        double sum = 0.0;
        for (std::int64_t h = 0; h < shape.heads; ++h) {
          const std::int64_t row = token * shape.heads + h;
          const double along = dot(q + row * shape.dim, k + (b * shape.kv_seq + t) * shape.dim, shape.dim);
          sum += static_cast<double>(weights[row]) * std::max(0.0, along);
        }
        out[token * shape.kv_seq + t] = static_cast<T>(sum);
      }
    }
}

template <class T>
void top_k_keys(const T* scores, std::int32_t* keys, const TopKShape& shape) {
  std::vector<std::int32_t> order;
  for (std::int64_t token = 0; token < shape.batch * shape.seq; ++token) {
    const T* row = scores + token * shape.kv_seq;
    const std::int64_t position = shape.first_position + token % shape.seq;
    const std::int64_t seen = std::min(shape.kv_seq, (position + 1) / shape.stride);
    const std::int64_t count = std::min(seen, shape.top_k);
    order.resize(static_cast<std::size_t>(seen));
    std::iota(order.begin(), order.end(), 0);
    const auto better = [&](std::int32_t a, std::int32_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; };
    if (count > 0) std::nth_element(order.begin(), order.begin() + count - 1, order.end(), better);
    std::sort(order.begin(), order.begin() + count);
    std::int32_t* out = keys + token * (shape.top_k + shape.window);
    std::copy_n(order.begin(), count, out);
    std::fill(out + count, out + shape.top_k, -1);
    for (std::int64_t i = 0; i < shape.window; ++i) {
      const std::int64_t recent = position - shape.window + 1 + i;
      out[shape.top_k + i] = recent < 0 ? -1 : static_cast<std::int32_t>(shape.kv_seq + recent);
    }
  }
}

template <class T>
void top_k_blocks(const T* scores, std::int32_t* keys, const BlockShape& shape) {
  std::vector<std::int64_t> order;
  std::vector<double> best;
  for (std::int64_t row = 0; row < shape.batch * shape.seq * shape.heads; ++row) {
    const std::int64_t position = shape.first_position + row / shape.heads % shape.seq, own = position / shape.block;
    best.assign(static_cast<std::size_t>(own + 1), -std::numeric_limits<double>::infinity());
    for (std::int64_t key = 0; key <= position; ++key) {
      double& block = best[static_cast<std::size_t>(key / shape.block)];
      block = std::max(block, static_cast<double>(scores[row * shape.kv_seq + key]));
    }
    for (std::int64_t i = 0; i < std::min(shape.local, own + 1); ++i)
      best[static_cast<std::size_t>(own - i)] = std::numeric_limits<double>::infinity();
    order.resize(best.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return best[static_cast<std::size_t>(a)] > best[static_cast<std::size_t>(b)];
    });
    order.resize(std::min(order.size(), static_cast<std::size_t>(shape.top_k)));
    std::sort(order.begin(), order.end());
    std::int32_t* out = keys + row * shape.top_k * shape.block;
    std::fill_n(out, shape.top_k * shape.block, -1);
    for (const std::int64_t block : order)
      for (std::int64_t key = block * shape.block; key < (block + 1) * shape.block; ++key, ++out)
        if (key <= position) *out = static_cast<std::int32_t>(key);
  }
}

template <class T>
void selected_attention(const SelectedCall<T>& call, T* out) {
  const AttentionShape& shape = call.shape;
  const std::int64_t e = shape.value_dim;
  std::fill_n(out, shape.batch * shape.seq * shape.heads() * e, T(0));
  std::vector<double> sums(static_cast<std::size_t>(e));
  for_each_query(call, [&](const Query<T>& query) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t i = 0; i < query.count(); ++i) {
      const T* value = call.v + query.key_row(shape, i) * e;
      for (std::int64_t x = 0; x < e; ++x)
        sums[static_cast<std::size_t>(x)] += query.p[static_cast<std::size_t>(i)] * static_cast<double>(value[x]);
    }
    std::transform(sums.begin(), sums.end(), out + query.row * e, [](double sum) { return static_cast<T>(sum); });
  });
}

template <class T>
void selected_attention_backward(const SelectedCall<T>& call, const T* dout, T* dq, T* dk, T* dv, T* dsink) {
  const AttentionShape& shape = call.shape;
  const std::int64_t d = shape.key_dim, e = shape.value_dim, rows = shape.batch * shape.kv_seq * shape.kv_heads;
  std::vector<double> of_k(static_cast<std::size_t>(rows * d), 0.0), of_v(static_cast<std::size_t>(rows * e), 0.0),
      of_q(static_cast<std::size_t>(d)), of_sinks(static_cast<std::size_t>(shape.heads()), 0.0);
  std::fill_n(dq, shape.batch * shape.seq * shape.heads() * d, T(0));
  for_each_query(call, [&](const Query<T>& query) {
    const T* given = dout + query.row * e;
    std::vector<double> dp(query.p.size());
    double along = 0.0;
    for (std::int64_t i = 0; i < query.count(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      dp[at] = dot(given, call.v + query.key_row(shape, i) * e, e);
      along += query.p[at] * dp[at];
    }
    std::fill(of_q.begin(), of_q.end(), 0.0);
    of_sinks[static_cast<std::size_t>(query.sink)] -= query.of_sink * along;
    for (std::int64_t i = 0; i < query.count(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t key = query.key_row(shape, i);
      const double ds = call.scale * query.p[at] * (dp[at] - along);
      for (std::int64_t x = 0; x < d; ++x) {
        of_q[static_cast<std::size_t>(x)] += ds * static_cast<double>(call.k[key * d + x]);
        of_k[static_cast<std::size_t>(key * d + x)] += ds * static_cast<double>(call.q[query.row * d + x]);
      }
      for (std::int64_t x = 0; x < e; ++x)
        of_v[static_cast<std::size_t>(key * e + x)] += query.p[at] * static_cast<double>(given[x]);
    }
    std::transform(of_q.begin(), of_q.end(), dq + query.row * d, [](double sum) { return static_cast<T>(sum); });
  });
  std::transform(of_k.begin(), of_k.end(), dk, [](double sum) { return static_cast<T>(sum); });
  std::transform(of_v.begin(), of_v.end(), dv, [](double sum) { return static_cast<T>(sum); });
  if (dsink != nullptr)
    std::transform(of_sinks.begin(), of_sinks.end(), dsink, [](double sum) { return static_cast<T>(sum); });
}

#define MW_INSTANTIATE(T)                                                             \
  template void index_scores<T>(const T*, const T*, const T*, T*, const IndexShape&); \
  template void top_k_keys<T>(const T*, std::int32_t*, const TopKShape&);             \
  template void top_k_blocks<T>(const T*, std::int32_t*, const BlockShape&);          \
  template void selected_attention<T>(const SelectedCall<T>&, T*);                    \
  template void selected_attention_backward<T>(const SelectedCall<T>&, const T*, T*, T*, T*, T*);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
