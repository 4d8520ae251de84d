// SPDX-License-Identifier: Apache-2.0
// Attention whose keys come in blocks against the kernels that have all keys at once, for every rule.
#include "kernels/cpu/attention/attention_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/elementwise/random.h"
#include "tests/unit/kernels/drawn_numbers.h"

namespace meshwright::kernels::attention_blocks_test {
namespace {

// 2 samples, 2 heads of keys with 3 queries each; 60 queries, which are two row blocks, and 150 keys.
struct Rule {
  const char* name;
  bool causal;
  std::int64_t window, first_position;
  bool sink, bias;
  double scale = 0.5, cap = 0.0;
};
const Rule kRules[] = {{"all keys", false, 0, 0, false, false},
                       {"causal", true, 0, 90, false, false},
                       {"window", true, 20, 90, false, false},
                       {"window both ways", false, 20, 70, false, false},
                       {"sink", true, 0, 90, true, false},
                       {"bias", true, 0, 90, false, true},
                       {"both", false, 0, 90, true, true},
                       {"large scores", true, 0, 90, false, false, 300.0},
                       {"capped", true, 20, 90, false, false, 0.5, 0.7},
                       {"capped, then biased", true, 0, 90, true, true, 0.5, 0.7}};

template <class T>
struct Attended {
  std::vector<T> out, dq, dk, dv;
  std::vector<double> sink, bias;
};

template <class T>
struct Case {
  explicit Case(const Rule& rule) : of(rule) {}
  Rule of;
  AttentionShape shape{2, 60, 150, 2, 3, 4, 5};
  std::int64_t rows = 2 * 60 * 6, out_size = rows * 5, k_size = 2 * 150 * 2 * 4, v_size = 2 * 150 * 2 * 5;
  std::vector<T> q = numbers<T>(rows * 4, 1), k = numbers<T>(k_size, 2), v = numbers<T>(v_size, 3),
                 dout = numbers<T>(out_size, 4), sink = numbers<T>(6, 5), bias = numbers<T>(6 * shape.distances(), 6);

  [[nodiscard]] AttentionRule<T> rule() const {
    AttentionRule<T> rule{of.scale,
                          of.causal,
                          of.window,
                          of.first_position,
                          of.sink ? sink.data() : nullptr,
                          of.bias ? bias.data() : nullptr};
    rule.cap = of.cap;
    return rule;
  }
  [[nodiscard]] Attended<T> empty() const {
    return {std::vector<T>(static_cast<std::size_t>(out_size)),
            std::vector<T>(q.size()),
            std::vector<T>(k.size()),
            std::vector<T>(v.size()),
            std::vector<double>(6),
            std::vector<double>(bias.size())};
  }
  AttentionGradients<T> gradients(Attended<T>& of_all, T* dk, T* dv, std::int64_t keys) const {
    return {{dense_heads(of_all.dq.data(), 60, 6, 4), dense_heads(dk, keys, 2, 4), dense_heads(dv, keys, 2, 5)},
            of.sink ? of_all.sink.data() : nullptr,
            of.bias ? of_all.bias.data() : nullptr};
  }

  [[nodiscard]] Attended<T> at_once() const {
    Attended<T> all = empty();
    const AttentionCall<T> call{shape, separate_views(q.data(), k.data(), v.data(), shape), rule()};
    attention(call, all.out.data());
    attention_backward(call, dout.data(), gradients(all, all.dk.data(), all.dv.data(), 150));
    return all;
  }

  // The keys of a block, or their gradients, as a device has them.
  struct Block {
    KeyRange keys;
    std::vector<T> k, v;
  };
  template <class Move>
  void move(const KeyRange& keys, std::int64_t width, Move move_run) const {
    for (std::int64_t sample = 0; sample < 2; ++sample)
      move_run((sample * 150 + keys.first) * 2 * width, sample * keys.count * 2 * width, keys.count * 2 * width);
  }
  [[nodiscard]] Block block(KeyRange keys) const {
    Block one{keys, std::vector<T>(static_cast<std::size_t>(2 * keys.count * 8)),
              std::vector<T>(static_cast<std::size_t>(2 * keys.count * 10))};
    move(keys, 4, [&](auto from, auto to, auto n) { std::copy_n(k.data() + from, n, one.k.data() + to); });
    move(keys, 5, [&](auto from, auto to, auto n) { std::copy_n(v.data() + from, n, one.v.data() + to); });
    return one;
  }
  [[nodiscard]] AttentionCall<T> call_of(const Block& one) const {
    return {shape,
            {dense_heads(q.data(), 60, 6, 4), dense_heads(one.k.data(), one.keys.count, 2, 4),
             dense_heads(one.v.data(), one.keys.count, 2, 5)},
            rule()};
  }

  [[nodiscard]] Attended<T> in_blocks(const std::vector<KeyRange>& order) const {
    Attended<T> all = empty();
    std::vector<T> largest(static_cast<std::size_t>(rows)), sum(largest), along(largest);
    const RowSums<T> sums{largest.data(), sum.data(), along.data()};
    const Block any = block(order.front());
    begin_rows(call_of(any), sums);
    for (const KeyRange keys : order) attend(call_of(block(keys)), keys, sums, all.out.data());
    end_rows(call_of(any), sums, all.out.data());
    begin_rows(call_of(any), sums);
    for (const KeyRange keys : order) measure(call_of(block(keys)), keys, sums, dout.data());
    end_measure(call_of(any), sums, of.sink ? all.sink.data() : nullptr);
    for (const KeyRange keys : order) {
      Block gradient{keys, std::vector<T>(block(keys).k.size()), std::vector<T>(block(keys).v.size())};
      attend_backward(call_of(block(keys)), keys, sums, dout.data(),
                      gradients(all, gradient.k.data(), gradient.v.data(), keys.count));
      move(keys, 4, [&](auto to, auto from, auto n) { std::copy_n(gradient.k.data() + from, n, all.dk.data() + to); });
      move(keys, 5, [&](auto to, auto from, auto n) { std::copy_n(gradient.v.data() + from, n, all.dv.data() + to); });
    }
    return all;
  }
};

template <class U>
double furthest(const std::vector<U>& a, const std::vector<U>& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= most)) most = difference / std::max(1.0, std::abs(static_cast<double>(b[i])));
  }
  return most;
}

template <class T>
void expect_the_same(double tolerance) {
  for (const Rule& rule : kRules) {
    const Case<T> one(rule);
    const Attended<T> truth = one.at_once();
    // A causal row sees nothing of some blocks; whatever comes first, the rows are rescaled when larger scores come.
    for (const std::vector<KeyRange>& order : {std::vector<KeyRange>{{0, 50}, {50, 40}, {90, 60}},
                                               {{90, 60}, {0, 50}, {50, 40}},
                                               {{50, 40}, {90, 60}, {0, 50}}}) {
      const Attended<T> blocks = one.in_blocks(order);
      EXPECT_LE(furthest(blocks.out, truth.out), tolerance) << rule.name;
      EXPECT_LE(furthest(blocks.dq, truth.dq), rule.scale * tolerance) << rule.name;
      EXPECT_LE(furthest(blocks.dk, truth.dk), rule.scale * tolerance) << rule.name;
      EXPECT_LE(furthest(blocks.dv, truth.dv), tolerance) << rule.name;
      EXPECT_LE(furthest(blocks.sink, truth.sink), tolerance) << rule.name;
      EXPECT_LE(furthest(blocks.bias, truth.bias), tolerance) << rule.name;
    }
  }
}

TEST(AttentionBlocks, GiveWhatAllKeysAtOnceGive) { expect_the_same<double>(1e-12); }
// Sums of up to 150 terms of order 1; under large scores a score's own rounding, 1e-7 of 300, is that of its weight.
TEST(AttentionBlocks, GiveItInFloatUpToRounding) { expect_the_same<float>(1e-3); }

}  // namespace
}  // namespace meshwright::kernels::attention_blocks_test
