// SPDX-License-Identifier: Apache-2.0
// What ATen's products, tables, pools, normalisations and attention are in primitive ops.
#include <algorithm>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

Made cross_entropy(const AtenNode& a) {
  a.b.expect(a.number("label_smoothing", 0.0) == 0.0 && a.integer("reduction", 1) == 1,
             "a cross entropy that is no plain mean has no equal here");
  return {a.b.cross_entropy(a.tensor("self"), a.tensor("target"))};
}

// --- products and tables ---

Made linear(const AtenNode& a) {
  const int product = a.b.matmul(a.tensor("input"), a.b.swap(a.tensor("weight"), 0, 1));
  return {a.has("bias") ? a.b.binary(Kind::Add, product, a.tensor("bias")) : product};
}
Made matmul(const AtenNode& a) { return {a.b.matmul(a.tensor("self"), a.tensor(a.has("mat2") ? "mat2" : "other"))}; }
Made addmm(const AtenNode& a) {
  return {a.b.binary(Kind::Add, a.b.matmul(a.tensor("mat1"), a.tensor("mat2")), a.tensor("self"))};
}
// beta self + alpha batch1 batch2
Made added_products(const AtenNode& a) {
  const auto times = [&](int x, const char* name) {
    return a.b.binary(Kind::Multiply, x, a.b.scalar(a.number(name, 1.0)));
  };
  const int product = a.b.matmul(a.tensor("batch1"), a.tensor("batch2"));
  return {a.b.binary(Kind::Add, times(product, "alpha"), times(a.tensor("self"), "beta"))};
}
Made embedding(const AtenNode& a) { return {a.b.gather(a.tensor("weight"), a.tensor("indices"), 0)}; }

Numbers pair(Numbers given, std::int64_t otherwise) {
  if (given.empty()) given = {otherwise};
  if (given.size() == 1) given.push_back(given[0]);
  return given;
}
Builder::Windows windows_of(const AtenNode& a, Numbers window) {
  const Numbers pad = pair(a.integers("padding"), 0), dilation = pair(a.integers("dilation"), 1);
  Builder::Windows windows{pair(std::move(window), 1), pair(a.integers("stride"), 1), pad, pad,
                           a.flag("ceil_mode", false)};
  a.b.expect(a.find("padding", "as_string") == nullptr, "padding by name has no equal here; give it in numbers");
  a.b.expect(dilation == Numbers({1, 1}), "dilated windows have no equal here");
  for (const Numbers* of : std::initializer_list<const Numbers*>{&windows.window, &windows.stride, &pad})
    a.b.expect(of->size() == 2 &&
                   std::all_of(of->begin(), of->end(),
                               [&](std::int64_t size) { return size >= (of == &pad ? 0 : 1) && size < 1'000'000; }),
               "its window, stride or padding is out of range");
  return windows;
}
std::optional<int> bias_of(const AtenNode& a) { return a.has("bias") ? std::optional(a.tensor("bias")) : std::nullopt; }
Made transposed_convolution(const AtenNode& a) {
  const auto only = [&](const char* name, std::int64_t value) {
    const Numbers given = a.integers(name);
    return std::all_of(given.begin(), given.end(), [value](std::int64_t one) { return one == value; });
  };
  a.b.expect(only("padding", 0) && only("output_padding", 0) && only("dilation", 1) && a.integer("groups", 1) == 1,
             "a transposed convolution with padding, dilation or groups has no equal here");
  return {a.b.transposed_convolution(a.tensor("input"), a.tensor("weight"), pair(a.integers("stride"), 1), bias_of(a))};
}
Made convolution(const AtenNode& a) {
  if (a.flag("transposed", false)) return transposed_convolution(a);
  const int x = a.tensor("input"), w = a.tensor("weight");
  return {a.b.convolution(x, w, windows_of(a, {}), a.integer("groups", 1), bias_of(a))};
}
// Each element several times in a row.
Made nearest(const AtenNode& a) {
  const int x = a.tensor(a.has("input") ? "input" : "self");
  if (const Numbers to = a.integers("output_size"); !to.empty()) return {a.b.enlarged(x, to)};
  const Json* factors = a.find("scale_factors", "as_floats");
  a.b.expect(factors != nullptr && factors->size() == 2, "it has neither sizes nor two factors");
  return {a.b.enlarged_by(x, (*factors)[0].get<double>(), (*factors)[1].get<double>())};
}
// Rows are images one element high.
Made convolution_of_rows(const AtenNode& a) {
  const auto of_row = [&](const char* name, std::int64_t otherwise, std::int64_t across) {
    const Numbers given = a.integers(name);
    return Numbers{across, given.empty() ? otherwise : given[0]};
  };
  const Numbers stride = of_row("stride", 1, 1), padding = of_row("padding", 0, 0);
  a.b.expect(a.find("padding", "as_string") == nullptr, "padding by name has no equal here; give it in numbers");
  a.b.expect(of_row("dilation", 1, 1)[1] == 1, "dilated windows have no equal here");
  a.b.expect(stride[1] >= 1 && stride[1] < 1'000'000 && padding[1] >= 0 && padding[1] < 1'000'000,
             "its stride or padding is out of range");
  return {a.b.convolution(a.tensor("input"), a.tensor("weight"), {{}, stride, padding, padding}, a.integer("groups", 1),
                          bias_of(a))};
}
template <Kind kind>
Made pool(const AtenNode& a) {
  const Numbers window = pair(a.integers("kernel_size"), 1);
  Builder::Windows windows = windows_of(a, window);
  if (a.integers("stride").empty()) windows.stride = window;
  if (kind == Kind::AveragePool && a.flag("count_include_pad", true)) a.b.note_padding(windows);
  const int made = a.b.pool(kind, a.tensor("self"), windows);
  return {made, made};  // positions of maxima are for a backward alone
}
// Makes the last dimensions of `output_size`, one element of each window.
Made adaptive_average(const AtenNode& a) {
  const int x = a.tensor("self");
  const Numbers to = a.integers("output_size"), of = a.b.shape(x);
  a.b.expect(to.size() < of.size(), "it has fewer dimensions than its output_size has sizes");
  Numbers axes, window;
  for (std::size_t d = 0; d < to.size(); ++d) {
    const std::int64_t from = of[of.size() - to.size() + d];
    a.b.expect(to[d] > 0 && from % to[d] == 0,
               fmt::format("an adaptive pooling of {} elements to {}, by windows of unlike sizes, has no equal here",
                           from, to[d]));
    axes.push_back(static_cast<std::int64_t>(d) - static_cast<std::int64_t>(to.size()));
    window.push_back(from / to[d]);
  }
  const auto all = [](const Numbers& sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size == 1; });
  };
  if (all(window)) return {x};
  if (all(to)) return {a.b.reduce(Kind::ReduceMean, x, axes, true)};
  const bool row = to.size() == 1;
  if (row) window.insert(window.begin(), 1);
  const int made = a.b.pool(Kind::AveragePool, row ? a.b.unsqueeze(x, {-2}) : x, {window, window, {0, 0}, {0, 0}});
  return {row ? a.b.squeeze(made, {-2}) : made};
}

// --- normalisations and attention ---

int constant_of(const AtenNode& a, int x, double value) {
  return a.b.broadcast(a.b.scalar(value), {a.b.shape(x).back()});
}
// Without a scale and a shift of its own as its formula, in which these are looked for behind it.
int normalised(const AtenNode& a, int x, const Numbers& axes, bool centres, double epsilon) {
  const int centred = centres ? a.b.binary(Kind::Subtract, x, a.b.reduce(Kind::ReduceMean, x, axes, true)) : x;
  const int variance = a.b.reduce(Kind::ReduceMean, a.b.unary(Kind::Square, centred), axes, true);
  return a.b.binary(Kind::Multiply, centred,
                    a.b.unary(Kind::Rsqrt, a.b.binary(Kind::Add, variance, a.b.scalar(epsilon))));
}
Made layer_norm(const AtenNode& a) {
  const int x = a.tensor("input");
  a.b.expect(a.integers("normalized_shape").size() == 1,
             "a normalisation over more than the last dimension has no equal here");
  if (!a.has("weight") && !a.has("bias")) {
    const int made = normalised(a, x, {-1}, true, a.number("eps", 1e-5));
    return {made, made, made};
  }
  a.b.expect(a.has("weight"), "a layer normalisation with a shift alone has no equal here");
  const int beta = a.has("bias") ? a.tensor("bias") : constant_of(a, x, 0.0);
  const int made = a.b.layer_norm(x, a.tensor("weight"), beta, a.number("eps", 1e-5));
  return {made, made, made};
}
Made rms_norm(const AtenNode& a) {
  a.b.expect(a.integers("normalized_shape").size() == 1,
             "an RMS normalisation over more than the last dimension has no equal here");
  const double epsilon = a.number("eps", 1.1920928955078125e-7);
  if (!a.has("weight")) return {normalised(a, a.tensor("input"), {-1}, false, epsilon)};
  return {a.b.rms_norm(a.tensor("input"), a.tensor("weight"), epsilon)};
}
Made group_norm(const AtenNode& a) {
  const auto row = [&](const char* name) { return a.has(name) ? std::optional(a.tensor(name)) : std::nullopt; };
  return {
      a.b.group_norm(a.tensor("input"), a.integer("num_groups", 1), row("weight"), row("bias"), a.number("eps", 1e-5))};
}
Made batch_norm(const AtenNode& a) {
  if (!a.has("weight") && !a.has("bias")) {  // as weights are standardised by
    const int x = a.tensor("input");
    Numbers axes;
    for (std::int64_t d = 0; d < std::ssize(a.b.shape(x)); ++d)
      if (d != 1) axes.push_back(d);
    a.b.expect(a.flag("training", false) || a.b.at(x).trained,
               "a batch normalisation without weights has no equal here");
    const int made = normalised(a, x, axes, true, a.number("eps", 1e-5));
    return {made, made, made, made, made};
  }
  a.b.expect(a.has("weight") && a.has("bias"), "a batch normalisation with a scale or a shift alone has no equal here");
  const int made = a.b.batch_norm(a.tensor("input"), a.tensor("weight"), a.tensor("bias"), a.number("eps", 1e-5));
  return {made, made, made, made, made};
}
Made attention(const AtenNode& a) {
  const int q = a.tensor("query"), k = a.tensor("key"), v = a.tensor("value");
  const bool causal = a.flag("is_causal", false);
  if (a.has("attn_mask")) {
    const int mask = a.tensor("attn_mask");
    return {a.b.masked_attention(q, k, v, a.number("scale", 0.0), causal, mask)};
  }
  return {a.b.attention(q, k, v, a.number("scale", 0.0), {.causal = causal})};
}

}  // namespace

std::map<std::string, Rule> layer_rules() {
  return {{"linear", linear},
          {"mm", matmul},
          {"bmm", matmul},
          {"matmul", matmul},
          {"addmm", addmm},
          {"embedding", embedding},
          {"conv2d", convolution},
          {"convolution", convolution},
          {"max_pool2d", pool<Kind::MaxPool>},
          {"max_pool2d_with_indices", pool<Kind::MaxPool>},
          {"avg_pool2d", pool<Kind::AveragePool>},
          {"adaptive_avg_pool2d", adaptive_average},
          {"conv_transpose2d", transposed_convolution},
          {"upsample_nearest2d", nearest},
          {"_adaptive_avg_pool2d", adaptive_average},
          {"layer_norm", layer_norm},
          {"native_layer_norm", layer_norm},
          {"rms_norm", rms_norm},
          {"batch_norm", batch_norm},
          {"_native_batch_norm_legit_functional", batch_norm},
          {"cross_entropy_loss", cross_entropy},
          {"group_norm", group_norm},
          {"baddbmm", added_products},
          {"conv1d", convolution_of_rows},
          {"adaptive_avg_pool1d", adaptive_average},
          {"scaled_dot_product_attention", attention}};
}

}  // namespace meshwright::torch
