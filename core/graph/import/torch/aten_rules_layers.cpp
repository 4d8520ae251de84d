// SPDX-License-Identifier: Apache-2.0
// What ATen's products, tables, pools, normalisations and attention are in primitive ops.
#include <algorithm>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/primitive/einsum.h"
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
  a.b.expect(!a.has("weight"), "a cross entropy with weights of classes has no equal here");
  return {a.b.cross_entropy(a.tensor("self"), a.tensor("target"))};
}

// --- products and tables ---

Made linear(const AtenNode& a) {
  const int product = a.b.matmul(a.tensor("input"), a.b.swap(a.tensor("weight"), 0, 1));
  return {a.has("bias") ? a.b.binary(Kind::Add, product, a.tensor("bias")) : product};
}
Made matmul(const AtenNode& a) { return {a.b.matmul(a.tensor("self"), a.tensor(a.has("mat2") ? "mat2" : "other"))}; }
// beta self + alpha batch1 batch2, or mat1 mat2
Made added_products(const AtenNode& a) {
  const auto times = [&](int x, const char* name) {
    return a.b.binary(Kind::Multiply, x, a.b.scalar(a.number(name, 1.0)));
  };
  const bool batched = a.has("batch1");
  const int product = a.b.matmul(a.tensor(batched ? "batch1" : "mat1"), a.tensor(batched ? "batch2" : "mat2"));
  return {a.b.binary(Kind::Add, times(product, "alpha"), times(a.tensor("self"), "beta"))};
}
Made einsum(const AtenNode& a) { return {primitive::einsum(a.b, a.text("equation", ""), a.tensors("tensors"))}; }
// x1 W_o x2 for each result o
Made bilinear(const AtenNode& a) {
  const int x = a.tensor("input1"), w = a.tensor("weight");
  const Shape of = a.b.shape(w);
  a.b.expect(of.size() == 3, "its weight is not of results and two operands");
  const int left = a.b.matmul(x, a.b.reshape(a.b.transpose(w, {1, 0, 2}), {of[1], of[0] * of[2]}));
  Shape parted = a.b.shape(left);
  parted.back() = of[0];
  parted.push_back(of[2]);
  const int products = a.b.binary(Kind::Multiply, a.b.reshape(left, parted), a.b.unsqueeze(a.tensor("input2"), {-2}));
  const int made = a.b.reduce(Kind::ReduceSum, products, {-1}, false);
  return {a.has("bias") ? a.b.binary(Kind::Add, made, a.tensor("bias")) : made};
}
// A weight of a direction and a length: g v / |v|, over all dimensions but one.
Made weight_of_norm(const AtenNode& a) {
  const int v = a.tensor("v");
  const std::int64_t kept = a.integer("dim", 0);
  Numbers axes;
  for (std::int64_t d = 0; d < std::ssize(a.b.shape(v)); ++d)
    if (d != kept) axes.push_back(d);
  const int squares = a.b.reduce(Kind::ReduceSum, a.b.unary(Kind::Square, v), axes, true);
  const int made =
      a.b.binary(Kind::Multiply, v, a.b.binary(Kind::Multiply, a.tensor("g"), a.b.unary(Kind::Rsqrt, squares)));
  return {made};
}
Made embedding(const AtenNode& a) { return {a.b.gather(a.tensor("weight"), a.tensor("indices"), 0)}; }

// --- normalisations and attention ---

// Without a scale and a shift of its own as its formula, in which these are looked for behind it.
int normalised(const AtenNode& a, int x, const Numbers& axes, bool centres, double epsilon) {
  const int centred = centres ? a.b.binary(Kind::Subtract, x, a.b.reduce(Kind::ReduceMean, x, axes, true)) : x;
  const int variance = a.b.reduce(Kind::ReduceMean, a.b.unary(Kind::Square, centred), axes, true);
  return a.b.binary(Kind::Multiply, centred,
                    a.b.unary(Kind::Rsqrt, a.b.binary(Kind::Add, variance, a.b.scalar(epsilon))));
}
Made layer_norm(const AtenNode& a) {
  const int x = a.tensor("input");
  const Numbers over = a.integers("normalized_shape");
  if (!a.has("weight") && !a.has("bias")) {
    Numbers axes;
    for (std::int64_t d = 1; d <= std::ssize(over); ++d) axes.push_back(-d);
    const int made = normalised(a, x, axes, true, a.number("eps", 1e-5));
    return {made};
  }
  a.b.expect(a.has("weight"), "a layer normalisation with a shift alone has no equal here");
  const int beta = a.has("bias") ? a.tensor("bias") : a.b.broadcast(a.b.scalar(0.0), a.b.shape(a.tensor("weight")));
  const int made = a.b.layer_norm(x, a.tensor("weight"), beta, a.number("eps", 1e-5));
  return {made};
}
Made rms_norm(const AtenNode& a) {
  if (const Numbers over = a.integers("normalized_shape"); over.size() != 1) {  // over one that they are merged to
    a.b.expect(a.has("weight"), "an RMS normalisation without weights over several dimensions has no equal here");
    const int x = a.tensor("input");
    const Shape of = a.b.shape(x);
    Shape merged(of.begin(), of.end() - std::ssize(over));
    merged.push_back(primitive::elements_of(over));
    const int row = a.b.reshape(a.tensor("weight"), {merged.back()});
    return {a.b.reshape(a.b.rms_norm(a.b.reshape(x, merged), row, a.number("eps", 1.1920928955078125e-7)), of)};
  }
  const double epsilon = a.number("eps", 1.1920928955078125e-7);
  if (!a.has("weight")) return {normalised(a, a.tensor("input"), {-1}, false, epsilon)};
  return {a.b.rms_norm(a.tensor("input"), a.tensor("weight"), epsilon)};
}
Made group_norm(const AtenNode& a) {
  const auto row = [&](const char* name) { return a.has(name) ? std::optional(a.tensor(name)) : std::nullopt; };
  const std::int64_t groups = a.integer(a.has("group") ? "group" : "num_groups", 1);
  return {a.b.group_norm(a.tensor("input"), groups, row("weight"), row("bias"), a.number("eps", 1e-5))};
}
Made instance_norm(const AtenNode& a) {
  const auto row = [&](const char* name) { return a.has(name) ? std::optional(a.tensor(name)) : std::nullopt; };
  const int x = a.tensor("input");
  a.b.expect(a.b.shape(x).size() > 2, "there is nothing to normalise over");
  return {a.b.group_norm(x, a.b.shape(x)[1], row("weight"), row("bias"), a.number("eps", 1e-5))};
}
// (weight, ids of all bags in a row, where each bag begins): bags of as many ids.
Made embedding_bag(const AtenNode& a) {
  const std::int64_t mode = a.integer("mode", 0);
  a.b.expect(mode == 0 || mode == 1, "a table of which maxima are taken has no equal here");
  a.b.expect(!a.has("per_sample_weights"), "bags with weights of their own have no equal here");
  const int given = a.tensor("indices");
  a.b.expect(a.b.at(given).kind == Kind::Reshape && a.b.shape(a.b.at(given).inputs[0]).size() == 2,
             "bags of unlike lengths have no equal here");
  const int ids = a.b.at(given).inputs[0];
  const std::int64_t each = a.b.shape(ids)[1];
  const std::vector<double>& begins = a.b.values(a.tensor("offsets"), "offsets");
  for (std::size_t i = 0; i < begins.size(); ++i)
    a.b.expect(begins[i] == static_cast<double>(i) * static_cast<double>(each),
               "bags of unlike lengths have no equal here");
  const int rows = a.b.gather(a.tensor("weight"), ids, 0);
  const int bags = a.b.reduce(mode == 0 ? Kind::ReduceSum : Kind::ReduceMean, rows, {1}, false);
  return {bags};
}
Made batch_norm(const AtenNode& a) {
  if (!a.has("weight") || !a.has("bias")) {  // as weights are standardised by
    const int x = a.tensor("input");
    Numbers axes;
    for (std::int64_t d = 0; d < std::ssize(a.b.shape(x)); ++d)
      if (d != 1) axes.push_back(d);
    a.b.expect(a.flag("training", false) || a.b.at(x).trained,
               "a batch normalisation without weights has no equal here");
    int made = normalised(a, x, axes, true, a.number("eps", 1e-5));
    Numbers behind;
    for (std::int64_t d = 1; d + 1 < std::ssize(a.b.shape(x)); ++d) behind.push_back(d);
    const auto row = [&](const char* name) {
      return behind.empty() ? a.tensor(name) : a.b.unsqueeze(a.tensor(name), behind);
    };
    if (a.has("weight")) made = a.b.binary(Kind::Multiply, made, row("weight"));
    if (a.has("bias")) made = a.b.binary(Kind::Add, made, row("bias"));
    return {made};
  }
  const int made = a.b.batch_norm(a.tensor("input"), a.tensor("weight"), a.tensor("bias"), a.number("eps", 1e-5));
  return {made};
}
// Without running statistics, over a view of each sample's channels, as an instance normalisation is made: by formula.
Made batch_norm_of_call(const AtenNode& a) {
  if (a.has("running_mean")) return batch_norm(a);
  const int x = a.tensor("input");
  Numbers axes, behind;
  for (std::int64_t d = 0; d < std::ssize(a.b.shape(x)); ++d) {
    if (d != 1) axes.push_back(d);
    if (d > 1) behind.push_back(d - 1);
  }
  // The first dimension is of one element, all samples and channels are the second.
  a.b.expect(a.b.shape(x)[0] == 1 && a.flag("training", true),
             "a batch normalisation without running statistics, over "
             "samples, has no equal here");
  int made = normalised(a, x, axes, true, a.number("eps", 1e-5));
  const auto row = [&](const char* name) {
    return behind.empty() ? a.tensor(name) : a.b.unsqueeze(a.tensor(name), behind);
  };
  if (a.has("weight")) made = a.b.binary(Kind::Multiply, made, row("weight"));
  if (a.has("bias")) made = a.b.binary(Kind::Add, made, row("bias"));
  return {made};
}
Made attention(const AtenNode& a) {
  const int q = a.tensor("query"), k = a.tensor("key"), v = a.tensor("value");
  const bool causal = a.flag("is_causal", false);
  // All dimensions but the last two are those of samples: one behind the others are heads.
  if (const Shape of = a.b.shape(q); of.size() != 4) {
    const std::size_t rank_of_mask = a.has("attn_mask") ? a.b.shape(a.tensor("attn_mask")).size() : 0;
    a.b.expect(of.size() >= 3 && a.b.shape(k).size() == of.size() && a.b.shape(v).size() == of.size() &&
                   (rank_of_mask <= 2 || (rank_of_mask == 3 && of.size() == 3)) &&
                   (!causal || of[of.size() - 2] == a.b.shape(k)[of.size() - 2]),
               "an attention of other than four dimensions that has a mask has no equal here");
    const auto in_four = [&](int x) {
      const Shape own = a.b.shape(x);
      if (own.size() == 3) return a.b.unsqueeze(x, {1});
      Shape to(own.end() - 3, own.end());
      to.insert(to.begin(), primitive::elements_of(Shape(own.begin(), own.end() - 3)));
      return a.b.reshape(x, to);
    };
    const double scale = a.number("scale", 0.0);
    const auto masked = [&] {
      const int mask = a.tensor("attn_mask");
      return a.b.masked_attention(in_four(q), in_four(k), in_four(v), scale, causal,
                                  {rank_of_mask == 3 ? a.b.unsqueeze(mask, {1}) : mask});
    };
    const int made =
        rank_of_mask > 0 ? masked() : a.b.attention(in_four(q), in_four(k), in_four(v), scale, {.causal = causal});
    Shape to = of;
    to.back() = a.b.shape(v).back();
    return {a.b.reshape(made, to)};
  }
  // The queries are the first positions of the keys, where ours are the last ones.
  if (causal && a.b.shape(q)[2] != a.b.shape(k)[2])
    return {a.b.masked_attention(q, k, v, a.number("scale", 0.0), causal, {})};
  const char* given = a.has("attn_bias") ? "attn_bias" : "attn_mask";
  if (a.has(given)) {
    const int mask = a.tensor(given);
    return {a.b.masked_attention(q, k, v, a.number("scale", 0.0), causal, {mask})};
  }
  return {a.b.attention(q, k, v, a.number("scale", 0.0), {.causal = causal})};
}

}  // namespace

std::map<std::string, Rule> layer_rules() {
  return {{"linear", linear},
          {"mm", matmul},
          {"bmm", matmul},
          {"matmul", matmul},
          {"addmm", added_products},
          {"einsum", einsum},
          {"bilinear", bilinear},
          {"_weight_norm", weight_of_norm},
          {"_weight_norm_interface", weight_of_norm},
          {"embedding", embedding},
          {"embedding_bag", embedding_bag},
          {"_embedding_bag", embedding_bag},
          {"instance_norm", instance_norm},
          {"layer_norm", layer_norm},
          {"native_layer_norm", layer_norm},
          {"rms_norm", rms_norm},
          {"batch_norm", batch_norm},
          {"_native_batch_norm_legit_functional", batch_norm},
          {"_native_batch_norm_legit_no_training", batch_norm},
          {"_native_batch_norm_legit", batch_norm_of_call},
          {"native_batch_norm", batch_norm},
          {"native_group_norm", group_norm},
          {"_scaled_dot_product_flash_attention_for_cpu", attention},
          {"_scaled_dot_product_flash_attention", attention},
          {"_scaled_dot_product_efficient_attention", attention},
          {"cross_entropy_loss", cross_entropy},
          {"group_norm", group_norm},
          {"baddbmm", added_products},
          {"scaled_dot_product_attention", attention}};
}

}  // namespace meshwright::torch
