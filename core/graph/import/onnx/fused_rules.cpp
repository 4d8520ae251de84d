// SPDX-License-Identifier: Apache-2.0
// What the operators that ONNX Runtime fuses others to (domain com.microsoft) are in primitive ops.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"
#include "core/graph/import/primitive/turning.h"

namespace meshwright::onnx {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

// --- attention ---

void expect_no_cache(const NodeReader& r, std::size_t k) {
  if (!r.has(k)) return;
  const Shape& of = r.b.shape(r.in(k));
  r.b.expect(
      std::count(of.begin(), of.end(), 0) > 0,
      "keys of earlier steps have no place in training; export without a cache, or give their open length as 0 by "
      "--dim");
}
// (batch, positions, heads * width) -> (batch, heads, positions, width)
int in_heads(const NodeReader& r, int x, std::int64_t heads) {
  const Shape of = r.b.shape(x);
  if (of.size() == 4) return x;
  r.b.expect(of.size() == 3 && heads > 0 && of[2] % heads == 0, "its heads do not share the last dimension evenly");
  return r.b.swap(r.b.reshape(x, {of[0], of[1], heads, of[2] / heads}), 1, 2);
}
int merged_heads(const NodeReader& r, int x) {
  const Shape of = r.b.shape(x);
  return r.b.reshape(r.b.swap(x, 1, 2), {of[0], of[2], of[1] * of[3]});
}
// Which keys are seen, to broadcast to (batch, heads, queries, keys): given so, for each key, or as how many are.
int seen_keys(const NodeReader& r, int mask, std::int64_t keys) {
  const Shape of = r.b.shape(mask);
  r.b.expect(r.b.at(mask).integer, "its mask is of no integers");
  if (of.size() == 4) return mask;
  if (of.size() == 3) return r.b.unsqueeze(mask, {1});
  if (of.size() == 2) return r.b.unsqueeze(mask, {1, 2});
  r.b.expect(of.size() == 1 && primitive::holds_batch(of[0]) && of[0] == primitive::kBatchProbe,
             "its mask is neither one of keys nor their number in each sample");
  const int positions = r.b.range(0.0, static_cast<double>(keys), 1.0, true);
  return r.b.unsqueeze(r.b.compare(Comparison::Less, positions, r.b.unsqueeze(mask, {1})), {1, 2});
}
int attended(const NodeReader& r, int q, int k, int v, bool causal, const std::vector<int>& masks) {
  const double scale = r.real("scale", 0.0);
  const int made = masks.empty() ? r.b.attention(q, k, v, scale, {.causal = causal})
                                 : r.b.masked_attention(q, k, v, scale, causal, masks);
  return merged_heads(r, made);
}
// (x, weights, [bias], [mask], [past], [bias of scores]): queries, keys and values in one product.
Made attention_of_one_product(const NodeReader& r) {
  expect_no_cache(r, 4);
  r.b.expect(r.number("do_rotary", 0) == 0, "an attention that turns its queries and keys itself has no equal here");
  int x = r.b.matmul(r.in(0), r.in(1));
  if (r.has(2)) x = r.b.binary(Kind::Add, x, r.in(2));
  Numbers sizes = r.numbers("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, r.b.shape(x).back() / 3);
  r.b.expect(sizes.size() == 3, "its qkv_hidden_sizes are not three");
  const std::vector<int> parts = r.b.parts(x, -1, sizes);
  const std::int64_t heads = r.number("num_heads", 0);
  const int k = in_heads(r, parts[1], heads);
  std::vector<int> masks;
  if (r.has(3)) masks.push_back(seen_keys(r, r.in(3), r.b.shape(k)[2]));
  if (r.has(5)) masks.push_back(r.in(5));
  return {attended(r, in_heads(r, parts[0], heads), k, in_heads(r, parts[2], heads), r.number("unidirectional", 0) != 0,
                   masks)};
}
// Of (batch, positions, heads, parts, width): part `k`, (batch, heads, positions, width).
int packed_part(const NodeReader& r, int packed, std::int64_t k) {
  return r.b.swap(r.b.squeeze(r.b.slice(packed, 3, k, k + 1), {3}), 1, 2);
}
// (queries, [keys], [values], [bias], [mask], [bias of scores], [past keys], [past values])
Made attention_of_heads(const NodeReader& r) {
  expect_no_cache(r, 6);
  expect_no_cache(r, 7);
  const std::int64_t heads = r.number("num_heads", 0);
  int q = r.in(0), k = -1, v = -1;
  if (r.b.shape(q).size() == 5) {
    k = packed_part(r, q, 1);
    v = packed_part(r, q, 2);
    q = packed_part(r, q, 0);
  } else if (r.has(1) && r.b.shape(r.in(1)).size() == 5) {
    v = packed_part(r, r.in(1), 1);
    k = packed_part(r, r.in(1), 0);
  } else {
    k = r.in(1);
    v = r.in(2);
  }
  if (r.has(3)) {
    const auto width = [&](int x) {
      const Shape& of = r.b.shape(x);
      return of.size() == 4 ? of[1] * of[3] : of.back();
    };
    const std::vector<int> bias = r.b.parts(r.in(3), 0, {width(q), width(k), width(v)});
    // A bias is of heads side by side, as its operand then is too.
    const auto biased = [&](int x, int by) {
      const int flat = r.b.shape(x).size() == 4 ? merged_heads(r, x) : x;
      return r.b.binary(Kind::Add, flat, by);
    };
    q = biased(q, bias[0]);
    k = biased(k, bias[1]);
    v = biased(v, bias[2]);
  }
  k = in_heads(r, k, heads);
  std::vector<int> masks;
  if (r.has(4)) masks.push_back(seen_keys(r, r.in(4), r.b.shape(k)[2]));
  if (r.has(5)) masks.push_back(r.in(5));
  return {attended(r, in_heads(r, q, heads), k, in_heads(r, v, heads), r.number("unidirectional", 0) != 0, masks)};
}
int turned_by(const NodeReader& r, int x, int cosines, int sines, std::int64_t dims, bool interleaved) {
  const std::optional<primitive::Turning> turning = primitive::turning_of_tables(r.b, cosines, sines, dims, 1);
  r.b.expect(turning.has_value(), "its tables are no cosines and sines of a rotation from position 0 on");
  return r.b.rotary(x, 2, dims, *turning, interleaved);
}
// (queries, [keys], [values], [past keys], [past values], lengths, length, [cosines], [sines], [positions], [bias],
// [sinks])
Made attention_of_groups(const NodeReader& r) {
  expect_no_cache(r, 3);
  expect_no_cache(r, 4);
  const std::int64_t heads = r.number("num_heads", 0), kv_heads = r.number("kv_num_heads", 0);
  r.b.expect(heads > 0 && kv_heads > 0 && heads % kv_heads == 0 && heads < 1'000'000,
             "its heads are no multiple of those of keys and values");
  r.b.expect(r.number("smooth_softmax", 0) == 0 || r.has(11), "a softmax with one more score has no equal here");
  std::vector<int> parts = {r.in(0)};
  if (r.has(1)) {
    parts.insert(parts.end(), {r.in(1), r.in(2)});
  } else {
    const std::int64_t width = r.b.shape(parts[0]).back() / (heads + 2 * kv_heads);
    parts = r.b.parts(parts[0], -1, {heads * width, kv_heads * width, kv_heads * width});
  }
  int q = in_heads(r, parts[0], heads), k = in_heads(r, parts[1], kv_heads);
  const int v = in_heads(r, parts[2], kv_heads);
  if (r.number("do_rotary", 0) != 0) {
    const std::int64_t dims = 2 * r.b.shape(r.in(7)).back();
    const bool interleaved = r.number("rotary_interleaved", 0) != 0;
    q = turned_by(r, q, r.in(7), r.in(8), dims, interleaved);
    k = turned_by(r, k, r.in(7), r.in(8), dims, interleaved);
  }
  const std::int64_t window = r.number("local_window_size", -1);
  Builder::Attended form{.causal = true, .cap = r.real("softcap", 0.0)};
  if (window > 0) form.window = window;
  if (r.has(11)) form.sinks = r.in(11);
  if (!r.has(10)) return {merged_heads(r, r.b.attention(q, k, v, r.real("scale", 0.0), form))};
  r.b.expect(window <= 0 && form.cap == 0.0 && !form.sinks,
             "scores with a bias and a window, a softcap or sinks have no equal here");
  return {attended(r, q, k, v, true, {r.in(10)})};
}
// (x, positions, cosines, sines)
Made rotary_by_cache(const NodeReader& r) {
  r.b.expect(r.number("is_packed_batching", 0) == 0 && r.real("scale", 1.0) == 1.0,
             "a rotation of packed samples, or one that scales, has no equal here");
  const bool flat = r.b.shape(r.in(0)).size() == 3;
  const std::int64_t given = r.number("rotary_embedding_dim", 0), half = r.b.shape(r.in(2)).back();
  std::int64_t heads = r.number("num_heads", 0);
  if (flat && heads == 0) {
    r.b.expect(half > 0 && r.b.shape(r.in(0)).back() % (2 * half) == 0, "its heads are not as wide as its tables");
    heads = r.b.shape(r.in(0)).back() / (2 * half);
  }
  const int x = in_heads(r, r.in(0), heads);
  const int made = turned_by(r, x, r.in(2), r.in(3), given > 0 ? given : 2 * half, r.number("interleaved", 0) != 0);
  return {flat ? merged_heads(r, made) : made};
}
// The bias of scores of T5: of its distance each key has a bucket, (table (buckets, heads) by columns, queries, keys).
Made relative_bias(const NodeReader& r) {
  const Shape of = r.b.shape(r.in(0));
  const std::int64_t queries = r.b.integers_of(r.in(1), "query_length").at(0),
                     keys = r.b.integers_of(r.in(2), "key_length").at(0), farthest = r.number("max_distance", 128);
  const bool both = r.number("is_bidirectional", 0) != 0;
  r.b.expect(of.size() == 2 && of[0] > 1 && queries > 0 && keys > 0 && queries <= 4096 && keys <= 4096 && farthest > 1,
             "its table or lengths are out of range");
  const std::int64_t buckets = both ? of[0] / 2 : of[0], near = std::max<std::int64_t>(buckets / 2, 1);
  std::vector<double> chosen;
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t ahead = j - i, distance = both ? std::abs(ahead) : std::max<std::int64_t>(-ahead, 0);
      std::int64_t bucket = distance;
      if (distance >= near) {
        const double far = std::log(static_cast<double>(distance) / static_cast<double>(near)) /
                           std::log(static_cast<double>(farthest) / static_cast<double>(near));
        bucket = std::min(buckets - 1, near + static_cast<std::int64_t>(far * static_cast<double>(buckets - near)));
      }
      chosen.push_back(static_cast<double>(bucket + (both && ahead > 0 ? buckets : 0)));
    }
  const int table = r.b.swap(r.b.reshape(r.in(0), {of[1], of[0]}), 0, 1);
  const int ids = r.b.constant({queries, keys}, true, std::move(chosen));
  return {r.b.unsqueeze(r.b.transpose(r.b.gather(table, ids, 0), {2, 0, 1}), {0})};
}

// --- norms ---

// (ids, [segments], words, positions, [table of segments], scale, shift, [mask], [position ids]) -> x, mask, sum
Made embedded(const NodeReader& r) {
  const int ids = r.in(0);
  r.b.expect(r.b.shape(ids).size() == 2, "its ids are not those of samples");
  int sum = r.b.gather(r.in(2), ids, 0);
  sum = r.b.binary(Kind::Add, sum,
                   r.has(8) ? r.b.gather(r.in(3), r.in(8), 0) : r.b.slice(r.in(3), 0, 0, r.b.shape(ids)[1]));
  if (r.has(1) && r.has(4)) sum = r.b.binary(Kind::Add, sum, r.b.gather(r.in(4), r.in(1), 0));
  const int x = r.b.layer_norm(sum, r.in(5), r.in(6), r.real("epsilon", 1e-12));
  return {x, r.has(7) ? r.in(7) : x, sum};  // which keys are seen, not only how many
}
Made skip_rms_norm(const NodeReader& r) {
  int sum = r.b.binary(Kind::Add, r.in(0), r.in(1));
  if (r.has(3)) sum = r.b.binary(Kind::Add, sum, r.in(3));
  const int x = r.b.rms_norm(sum, r.in(2), r.real("epsilon", 1e-12));
  return {x, x, x, sum};
}
// Channels lie last, or second; behind it nothing or SiLU.
int group_normalised(const NodeReader& r, int x, bool last) {
  const Shape of = r.b.shape(x);
  r.b.expect(of.size() == 4, "a group normalisation of other than images has no equal here");
  const int image = last ? r.b.transpose(x, {0, 3, 1, 2}) : x;
  int made = r.b.group_norm(image, r.number("groups", 0), r.in(1), r.in(2), r.real("epsilon", 1e-5));
  if (r.number("activation", 0) != 0) made = r.b.unary(Kind::Silu, made);
  return last ? r.b.transpose(made, {0, 2, 3, 1}) : made;
}
Made group_norm_of_channels(const NodeReader& r) {
  return {group_normalised(r, r.in(0), r.number("channels_last", 1) != 0)};
}
Made skip_group_norm(const NodeReader& r) {
  const bool last = r.number("channels_last", 1) != 0;
  const auto of_channels = [&](int x) {
    const std::size_t rank = r.b.shape(x).size();
    if (rank == 4) return x;
    if (rank == 1) return last ? x : r.b.unsqueeze(x, {1, 2});
    return last ? r.b.unsqueeze(x, {1, 2}) : r.b.unsqueeze(x, {2, 3});
  };
  int sum = r.b.binary(Kind::Add, r.in(0), of_channels(r.in(3)));
  if (r.has(4)) sum = r.b.binary(Kind::Add, sum, of_channels(r.in(4)));
  return {group_normalised(r, sum, last), sum};
}

// --- products and convolutions with what follows them ---

int activated(const NodeReader& r, int x, const std::string& name, double alpha, double beta) {
  if (name.empty()) return x;
  if (name == "Relu") return r.b.unary(Kind::Relu, x);
  if (name == "Tanh") return r.b.unary(Kind::Tanh, x);
  if (name == "Sigmoid") return r.b.unary(Kind::Sigmoid, x);
  if (name == "LeakyRelu") return r.b.leaky_relu(x, alpha);
  if (name == "Clip") return r.b.clamp(x, alpha, beta);
  if (name == "HardSigmoid") return r.b.clamped_line(x, alpha, beta);
  r.b.fail(fmt::format("the activation '{}' has no equal here", name));
}
Made gemm_activated(const NodeReader& r) {
  return {activated(r, gemm_of(r), r.text("activation", ""), r.real("activation_alpha", 0.01),
                    r.real("activation_beta", 0.0))};
}
Made gemm_gelu(const NodeReader& r) {
  const int x = r.b.matmul(r.in(0), r.in(1));
  return {r.b.unary(Kind::Gelu, r.has(2) ? r.b.binary(Kind::Add, x, r.in(2)) : x)};
}
int convolution_activated(const NodeReader& r, int x, int w, std::optional<int> sum) {
  int made = convolution_of(r, x, w);
  if (sum) made = r.b.binary(Kind::Add, made, *sum);
  const std::vector<double> numbers = r.reals("activation_params");
  const std::string name = r.text("activation", "");
  return activated(r, made, name,
                   !numbers.empty()        ? numbers[0]
                   : name == "HardSigmoid" ? 0.2
                                           : 0.01,
                   numbers.size() > 1 ? numbers[1] : 0.5);
}
Made fused_convolution(const NodeReader& r) {
  return {convolution_activated(r, r.in(0), r.in(1), r.has(3) ? std::optional(r.in(3)) : std::nullopt)};
}
// Channels lie last in the image and, of the weight (out, kh, kw, in), too.
Made convolution_of_last(const NodeReader& r) {
  const auto channels_second = [&](int x) {
    r.b.expect(r.b.shape(x).size() == 4, "convolutions over other than two dimensions have no equal here");
    return r.b.transpose(x, {0, 3, 1, 2});
  };
  const int made = convolution_activated(r, channels_second(r.in(0)), channels_second(r.in(1)),
                                         r.has(3) ? std::optional(channels_second(r.in(3))) : std::nullopt);
  return {r.b.transpose(made, {0, 2, 3, 1})};
}
// The two halves: the first times the GELU of the second.
Made gated_gelu(const NodeReader& r) {
  const int x = r.b.binary(Kind::Add, r.in(0), r.in(1));
  const std::int64_t half = r.b.shape(x).back() / 2;
  const std::vector<int> parts = r.b.parts(x, -1, {half, r.b.shape(x).back() - half});
  return {r.b.binary(Kind::Multiply, parts[0], r.b.unary(Kind::GeluErf, parts[1]))};
}
Made sum_with_bias(const NodeReader& r) {
  const int x = r.b.binary(Kind::Add, r.in(0), r.in(1));
  return {r.has(2) ? r.b.binary(Kind::Add, x, r.in(2)) : x};
}
// dropout(x + bias) + residual
Made dropout_of_sum(const NodeReader& r) {
  const int x = dropped(r, r.b.binary(Kind::Add, r.in(0), r.in(1)), 3);
  return {r.has(2) ? r.b.binary(Kind::Add, x, r.in(2)) : x, x};
}
Made softmax_of_sum(const NodeReader& r) {
  const int sum = r.b.binary(Kind::Add, r.in(0), r.in(1));
  const std::int64_t axis = r.b.axis_of(sum, r.number("axis", 1));
  return {softmax_from(r, sum, axis)};
}

// --- losses ---

// (logits (samples, classes, ...), labels (samples, ...), [weights])
Made cross_entropy_of_classes(const NodeReader& r) {
  r.b.expect(!r.has(2) && r.text("reduction", "mean") == "mean",
             "a cross entropy with weights of classes, or other than a mean, has no equal here");
  int logits = r.in(0);
  Numbers order = {0};
  for (std::int64_t d = 2; d < std::ssize(r.b.shape(logits)); ++d) order.push_back(d);
  order.push_back(1);
  if (order.size() > 2) logits = r.b.transpose(logits, order);
  const int loss = r.b.cross_entropy(logits, r.in(1));
  return {loss, logits};
}

// A weight of few bits, packed by blocks, with a scale for each: its numbers in full, (K, N).
Made product_of_packed(const NodeReader& r) {
  const int x = r.in(0);
  const std::int64_t rows = r.number("K", 0), columns = r.number("N", 0), bits = r.number("bits", 4);
  r.b.expect(r.has(1) && rows > 0 && columns > 0 && !r.b.shape(x).empty() && r.b.shape(x).back() == rows,
             "its K and N are not those of its operand and its weight");
  const std::string note = fmt::format("weights of {} bits are parameters of full precision", bits);
  std::vector<std::string>& notes = r.b.module().notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  const int made = r.b.matmul(x, r.b.parameter(r.node.inputs[1], {rows, columns}));
  return {r.has(5) ? r.b.binary(Kind::Add, made, r.in(5)) : made};
}

}  // namespace

std::map<std::string, Rule> fused_rules() {
  return {{"com.microsoft:Attention", attention_of_one_product},
          {"com.microsoft:MultiHeadAttention", attention_of_heads},
          {"com.microsoft:GroupQueryAttention", attention_of_groups},
          {"com.microsoft:RotaryEmbedding", rotary_by_cache},
          {"com.microsoft:RelativePositionBias", relative_bias},
          {"com.microsoft:EmbedLayerNormalization", embedded},
          {"com.microsoft:SkipSimplifiedLayerNormalization", skip_rms_norm},
          {"com.microsoft:GroupNorm", group_norm_of_channels},
          {"com.microsoft:SkipGroupNorm", skip_group_norm},
          {"com.microsoft:MatMulNBits", product_of_packed},
          {"com.microsoft:FusedGemm", gemm_activated},
          {"com.microsoft:GemmFastGelu", gemm_gelu},
          {"com.microsoft:FusedConv", fused_convolution},
          {"com.microsoft:NhwcConv", convolution_of_last},
          {"com.microsoft:NhwcFusedConv", convolution_of_last},
          {"com.microsoft:BiasSplitGelu", gated_gelu},
          {"com.microsoft:BiasAdd", sum_with_bias},
          {"com.microsoft:BiasDropout", dropout_of_sum},
          {"com.microsoft:BitmaskBiasDropout", dropout_of_sum},
          {"com.microsoft:BiasSoftmax", softmax_of_sum},
          {"SoftmaxCrossEntropyLoss", cross_entropy_of_classes},
          {"com.microsoft:SoftmaxCrossEntropyLossInternal", cross_entropy_of_classes}};
}

}  // namespace meshwright::onnx
