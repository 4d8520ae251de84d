// SPDX-License-Identifier: Apache-2.0
// HLO text of mixtures of experts whose tokens go to experts and back by products with masks, written as JAX writes
// such models: three routers, and the model of the family `moe` (core/graph/models/gshard.cpp) around them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/text.h"

namespace meshwright {

// How slots are given: Lepikhin et al.'s two choices, the first ones of all tokens before the second; Fedus et al.'s
// one choice; MaxText's, of one token after the other, weights by a softmax of the chosen logits.
enum class HloRouter { Gshard, Switch, MaxText };

struct HloMixture {
  HloRouter router = HloRouter::Gshard;
  std::int64_t batch = 3, seq = 8, width = 6, experts = 4, capacity = 3, mlp = 10, vocab = 11;
  std::int64_t layers = 0, heads = 2;  // layers of the family `moe`; 0: one mixture between the table and the head
  bool fused = false;                  // queries, keys and values are of one weight, as those of the family
};

class HloMixtureText {
 public:
  explicit HloMixtureText(const HloMixture& of) : z_(of) {}

  std::string text() {
    const std::vector<std::int64_t> ids = {z_.batch, z_.seq};
    const std::string tokens = parameter("ids", ids, "s32"), labels = parameter("labels", ids, "s32");
    zero_ = constant("f32", "0"), one_ = constant("f32", "1"), low_ = constant("f32", "-inf");
    zero_i_ = constant("s32", "0");
    const std::string wte = parameter("wte", {z_.vocab, z_.width});
    std::string x = made({z_.batch, z_.seq, z_.width},
                         "gather(" + wte + ", " + reshaped(tokens, {z_.batch, z_.seq, 1}, "s32") +
                             "), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
                             "slice_sizes={1," +
                             std::to_string(z_.width) + "}");
    std::string logits;
    if (z_.layers == 0) {
      x = sum(x, mixture("", x));
      logits = dot(x, parameter("head", {z_.width, z_.vocab}), {z_.batch, z_.seq, z_.vocab}, {}, {2}, {}, {0});
    }
    for (std::int64_t l = 0; l < z_.layers; ++l) {
      block_ = "h_" + std::to_string(l);
      const std::string p = "h." + std::to_string(l) + ".";
      x = sum(x, attention(p + "attn.", layer_norm(p + "ln1.", x)));
      const std::string a = layer_norm(p + "ln2.", x);
      x = sum(x, l % 2 == 0 ? mixture(p + "moe.", a) : feed_forward(p + "mlp.", a));
    }
    block_.clear();
    if (z_.layers > 0) {
      logits = dot(x, wte, {z_.batch, z_.seq, z_.vocab}, {}, {2}, {}, {1});
      logits = sum(logits, along(parameter("head.bias", {z_.vocab}), shape_of_.at(logits), {2}));
    }
    loss(logits, labels);
    std::string entry = "ENTRY main {\n";
    for (const std::string& line : parameters_) entry += line;
    return kComputations + entry + body_ + "}\n";
  }

 private:
  using Sizes = std::vector<std::int64_t>;

  static std::string list(const Sizes& sizes) {
    std::vector<std::string> texts;
    for (const std::int64_t size : sizes) texts.push_back(std::to_string(size));
    return join(texts, ",");
  }
  static std::string type(const Sizes& sizes, const std::string& element) { return element + "[" + list(sizes) + "]"; }

  std::string parameter(const std::string& name, const Sizes& sizes, const std::string& element = "f32") {
    const std::string value = "p" + std::to_string(parameters_.size());
    shape_of_[value] = sizes;
    parameters_.push_back("  " + value + " = " + type(sizes, element) + " parameter(" +
                          std::to_string(parameters_.size()) + "), metadata={op_name=\"" + name + "\"}\n");
    return value;
  }
  std::string constant(const std::string& element, const std::string& number) {
    return made({}, "constant(" + number + ")", element);
  }
  std::string made(const Sizes& sizes, const std::string& what, const std::string& element = "f32") {
    const std::string value = "v" + std::to_string(count_++);
    shape_of_[value] = sizes;
    body_ += "  " + value + " = " + type(sizes, element) + " " + what;
    if (!block_.empty()) body_ += ", metadata={op_name=\"jit(loss)/" + block_ + "/op\"}";
    body_ += "\n";
    return value;
  }
  std::string op(const std::string& opcode, const std::string& x, const std::string& y = "",
                 const std::string& element = "f32") {
    return made(shape_of_.at(x), opcode + "(" + x + (y.empty() ? "" : ", " + y) + ")", element);
  }
  std::string sum(const std::string& x, const std::string& y) { return op("add", x, y); }
  std::string compared(const std::string& x, const std::string& y, const std::string& direction) {
    return made(shape_of_.at(x), "compare(" + x + ", " + y + "), direction=" + direction, "pred");
  }
  std::string along(const std::string& x, const Sizes& to, const Sizes& dims, const std::string& element = "f32") {
    return made(to, "broadcast(" + x + "), dimensions={" + list(dims) + "}", element);
  }
  std::string reshaped(const std::string& x, const Sizes& to, const std::string& element = "f32") {
    return made(to, "reshape(" + x + ")", element);
  }
  std::string reduced(const std::string& x, std::int64_t axis, const std::string& by, const std::string& start,
                      const std::string& element = "f32") {
    Sizes to = shape_of_.at(x);
    to.erase(to.begin() + axis);
    return made(to, "reduce(" + x + ", " + start + "), dimensions={" + std::to_string(axis) + "}, to_apply=" + by,
                element);
  }
  std::string dot(const std::string& x, const std::string& y, const Sizes& to, const Sizes& x_batch, const Sizes& x_sum,
                  const Sizes& y_batch, const Sizes& y_sum) {
    const std::string batch =
        x_batch.empty() ? "" : ", lhs_batch_dims={" + list(x_batch) + "}, rhs_batch_dims={" + list(y_batch) + "}";
    return made(to, "dot(" + x + ", " + y + "), lhs_contracting_dims={" + list(x_sum) + "}, rhs_contracting_dims={" +
                        list(y_sum) + "}" + batch);
  }
  std::string iota(const Sizes& to, std::int64_t axis) {
    return made(to, "iota(), iota_dimension=" + std::to_string(axis), "s32");
  }
  // (..., classes), s32: 1 at the id.
  std::string one_hot(const std::string& ids, std::int64_t classes) {
    Sizes to = shape_of_.at(ids), dims;
    for (std::size_t d = 0; d < to.size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
    to.push_back(classes);
    const std::string counted = iota(to, static_cast<std::int64_t>(to.size()) - 1);
    return op("convert", compared(along(ids, to, dims, "s32"), counted, "EQ"), "", "s32");
  }
  std::string cumulative_sum(const std::string& x) {
    const std::int64_t n = shape_of_.at(x)[1];
    return made(shape_of_.at(x),
                "reduce-window(" + x + ", " + zero_i_ + "), window={size=1x" + std::to_string(n) + "x1 pad=0_0x" +
                    std::to_string(n - 1) + "_0x0_0}, to_apply=add_i",
                "s32");
  }
  // Over the last dimension; also its logarithm.
  std::string softmax(const std::string& x, bool logarithm = false) {
    const Sizes shape = shape_of_.at(x);
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    Sizes rows;
    for (std::int64_t d = 0; d < last; ++d) rows.push_back(d);
    const std::string shifted = op("subtract", x, along(reduced(x, last, "top", low_), shape, rows));
    const std::string power = op("exponential", shifted), total = reduced(power, last, "add", zero_);
    return logarithm ? op("subtract", shifted, along(op("log", total), shape, rows))
                     : op("divide", power, along(total, shape, rows));
  }
  struct Choice {
    std::string best, hot;  // (b, s) and (b, s, e), s32
  };
  Choice arg_max(const std::string& x) {
    const Sizes shape = shape_of_.at(x), rows = {z_.batch, z_.seq};
    const std::string places = iota(shape, 2), both = "v" + std::to_string(count_++);
    body_ += "  " + both + " = (" + type(rows, "f32") + ", " + type(rows, "s32") + ") reduce(" + x + ", " + places +
             ", " + low_ + ", " + zero_i_ + "), dimensions={2}, to_apply=arg_max\n";
    const std::string place = made(rows, "get-tuple-element(" + both + "), index=1", "s32");
    const std::string best = made(rows, "get-tuple-element(" + both + "), index=0");
    return {best, one_hot(place, z_.experts)};
  }
  // The weight of each token, expert and slot, (b, s, e, c).
  std::string combine_mask(const std::string& p, const std::string& x) {
    const Sizes by_expert = {z_.batch, z_.seq, z_.experts}, rows = {z_.batch, z_.seq},
                mask = {z_.batch, z_.seq, z_.experts, z_.capacity};
    const std::string logits = dot(x, parameter(p + "router", {z_.width, z_.experts}), by_expert, {}, {2}, {}, {0});
    if (z_.router == HloRouter::MaxText) return maxtext_mask(logits);
    const std::string scores = softmax(logits);
    const std::string capacity = along(constant("s32", std::to_string(z_.capacity)), by_expert, {}, "s32");
    const Choice first = arg_max(scores);
    std::string total = first.best, all, before;
    std::vector<Choice> choices = {first};
    if (z_.router == HloRouter::Gshard) {
      const std::string left = op("subtract", along(one_, by_expert, {}), op("convert", first.hot));
      choices.push_back(arg_max(op("multiply", scores, left)));
      total = sum(total, choices[1].best);
    }
    for (const Choice& choice : choices) {
      std::string place = op("subtract", cumulative_sum(choice.hot), choice.hot, "s32");
      if (!before.empty()) place = op("add", place, along(before, by_expert, {0, 2}, "s32"), "s32");
      before = reduced(choice.hot, 1, "add_i", zero_i_, "s32");
      const std::string kept =
          op("multiply", choice.hot, op("convert", compared(place, capacity, "LT"), "", "s32"), "s32");
      const std::string slot = reduced(op("multiply", place, kept, "s32"), 2, "add_i", zero_i_, "s32");
      const std::string weight = z_.router == HloRouter::Gshard ? op("divide", choice.best, total) : choice.best;
      const std::string weights = op("multiply", op("convert", kept), along(weight, by_expert, {0, 1}));
      const std::string hot = op("convert", one_hot(slot, z_.capacity));
      const std::string part = op("multiply", along(weights, mask, {0, 1, 2}), along(hot, mask, {0, 1, 3}));
      all = all.empty() ? part : sum(all, part);
    }
    return all;
  }

  // As its generate_masks writes it.
  std::string maxtext_mask(const std::string& logits) {
    const std::int64_t k = 2;
    const Sizes by_expert = {z_.batch, z_.seq, z_.experts}, chosen = {z_.batch, z_.seq, k},
                each = {z_.batch, z_.seq, k, z_.experts}, fused = {z_.batch, z_.seq * k, z_.experts},
                mask = {z_.batch, z_.seq, z_.experts, z_.capacity + 1};
    const std::string both = "v" + std::to_string(count_++);
    body_ += "  " + both + " = (" + type(chosen, "f32") + ", " + type(chosen, "s32") + ") topk(" + logits +
             "), k=2, largest=true\n";
    const std::string best = made(chosen, "get-tuple-element(" + both + "), index=0"),
                      place = made(chosen, "get-tuple-element(" + both + "), index=1", "s32");
    Sizes wide = chosen;
    wide.push_back(1);
    const std::string rows = iota(wide, 0), columns = iota(wide, 1);
    Sizes indices = chosen;
    indices.push_back(3);
    const std::string where =
        made(indices,
             "concatenate(" + rows + ", " + columns + ", " + reshaped(place, wide, "s32") + "), dimensions={3}", "s32");
    const std::string weights =
        made(by_expert, "scatter(" + along(zero_, by_expert, {}) + ", " + where + ", " + softmax(best) +
                            "), update_window_dims={}, inserted_window_dims={0,1,2}, "
                            "scatter_dims_to_operand_dims={0,1,2}, index_vector_dim=3, to_apply=second");
    const std::string hot = one_hot(place, z_.experts), of_fused = reshaped(hot, fused, "s32"),
                      counted = cumulative_sum(of_fused);
    const std::string kept = compared(reshaped(counted, each, "s32"),
                                      along(constant("s32", std::to_string(z_.capacity)), each, {}, "s32"), "LE");
    const std::string left =
        made(each, "select(" + kept + ", " + hot + ", " + along(zero_i_, each, {}, "s32") + ")", "s32");
    const std::string any = reduced(left, 2, "add_i", zero_i_, "s32");
    const std::string numbers = reshaped(op("multiply", of_fused, counted, "s32"), each, "s32");
    const std::string slot = op("multiply", reduced(numbers, 2, "add_i", zero_i_, "s32"), any, "s32");
    const std::string weighed = op("multiply", weights, op("convert", any));
    const std::string all =
        op("multiply", along(weighed, mask, {0, 1, 2}), op("convert", one_hot(slot, z_.capacity + 1)));
    return made({z_.batch, z_.seq, z_.experts, z_.capacity},
                "slice(" + all + "), slice={[0:" + std::to_string(z_.batch) + "], [0:" + std::to_string(z_.seq) +
                    "], [0:" + std::to_string(z_.experts) + "], [1:" + std::to_string(z_.capacity + 1) + "]}");
  }

  std::string mixture(const std::string& p, const std::string& x) {
    const std::int64_t b = z_.batch, e = z_.experts, c = z_.capacity;
    const std::string combine = combine_mask(p, x);
    const std::string dispatch = op("convert", compared(combine, along(zero_, shape_of_.at(combine), {}), "NE"));
    const std::string sent = dot(dispatch, x, {b, e, c, z_.width}, {0}, {1}, {0}, {1});
    const std::string up = dot(sent, parameter(p + "up", {e, z_.width, z_.mlp}), {e, b, c, z_.mlp}, {1}, {3}, {0}, {1});
    const std::string bias = along(parameter(p + "up.bias", {e, z_.mlp}), {e, b, c, z_.mlp}, {0, 3});
    const std::string inner = op("maximum", sum(up, bias), along(zero_, {e, b, c, z_.mlp}, {}));
    const std::string made_of =
        dot(inner, parameter(p + "down", {e, z_.mlp, z_.width}), {e, b, c, z_.width}, {0}, {3}, {0}, {1});
    return dot(combine, made_of, {b, z_.seq, z_.width}, {0}, {2, 3}, {1}, {0, 2});
  }

  std::string linear(const std::string& p, const std::string& x, std::int64_t from, std::int64_t to) {
    const Sizes shape = {z_.batch, z_.seq, to};
    return sum(dot(x, parameter(p, {from, to}), shape, {}, {2}, {}, {0}),
               along(parameter(p + ".bias", {to}), shape, {2}));
  }

  std::string feed_forward(const std::string& p, const std::string& x) {
    const std::string wide = linear(p + "up", x, z_.width, z_.mlp);
    const Sizes shape = shape_of_.at(wide);
    const auto number = [&](const char* value) { return along(constant("f32", value), shape, {}); };
    const std::string cube = op("multiply", op("multiply", wide, wide), wide);
    const std::string inner =
        op("multiply", number("0.7978845608028654"), sum(wide, op("multiply", number("0.044715"), cube)));
    const std::string bent = sum(op("tanh", inner), number("1"));
    return linear(p + "down", op("multiply", wide, op("multiply", number("0.5"), bent)), z_.mlp, z_.width);
  }

  std::string layer_norm(const std::string& p, const std::string& x) {
    const Sizes shape = shape_of_.at(x), rows = {z_.batch, z_.seq};
    const std::string count = along(constant("f32", std::to_string(z_.width)), rows, {});
    const std::string mean = op("divide", reduced(x, 2, "add", zero_), count);
    const std::string centred = op("subtract", x, along(mean, shape, {0, 1}));
    const std::string variance = op("divide", reduced(op("multiply", centred, centred), 2, "add", zero_), count);
    const std::string root = op("rsqrt", sum(variance, along(constant("f32", "1e-05"), rows, {})));
    const std::string scaled = op("multiply", op("multiply", centred, along(root, shape, {0, 1})),
                                  along(parameter(p + "scale", {z_.width}), shape, {2}));
    return sum(scaled, along(parameter(p + "bias", {z_.width}), shape, {2}));
  }

  // Queries alone have a bias, as in the family.
  std::string attention(const std::string& p, const std::string& x) {
    const std::int64_t b = z_.batch, s = z_.seq, h = z_.heads, d = z_.width / h;
    const Sizes by_head = {b, s, h, d}, scores_shape = {b, h, s, s};
    const auto heads = [&](const std::string& name) {
      return dot(x, parameter(p + name, {z_.width, h, d}), by_head, {}, {2}, {}, {0});
    };
    const Sizes parts = {b, s, 3, h, d};
    std::string fused;
    if (z_.fused) {
      fused = dot(x, parameter(p + "qkv", {z_.width, 3, h, d}), parts, {}, {2}, {}, {0});
      fused = sum(fused, along(parameter(p + "qkv.bias", {3, h, d}), parts, {2, 3, 4}));
    }
    const auto part = [&](std::int64_t k) {
      const std::string one =
          made({b, s, 1, h, d}, "slice(" + fused + "), slice={[0:" + std::to_string(b) + "], [0:" + std::to_string(s) +
                                    "], [" + std::to_string(k) + ":" + std::to_string(k + 1) +
                                    "], [0:" + std::to_string(h) + "], [0:" + std::to_string(d) + "]}");
      return reshaped(one, by_head);
    };
    const std::string q = z_.fused ? part(0) : sum(heads("q"), along(parameter(p + "q.bias", {h, d}), by_head, {2, 3}));
    const std::string k = z_.fused ? part(1) : heads("k"), v = z_.fused ? part(2) : heads("v");
    std::string scores = dot(q, k, scores_shape, {0, 2}, {3}, {0, 2}, {3});
    scores = op("divide", scores, along(op("sqrt", constant("f32", std::to_string(d))), scores_shape, {}));
    const std::string keeps = compared(iota({s, s}, 0), iota({s, s}, 1), "GE");
    scores = made(scores_shape, "select(" + along(keeps, scores_shape, {2, 3}, "pred") + ", " + scores + ", " +
                                    along(constant("f32", "-1e+30"), scores_shape, {}) + ")");
    const std::string out = dot(softmax(scores), v, {b, h, s, d}, {0, 1}, {3}, {0, 2}, {1});
    const std::string turned = made(by_head, "transpose(" + out + "), dimensions={0,2,1,3}");
    const Sizes shape = {b, s, z_.width};
    return sum(dot(turned, parameter(p + "out", {h, d, z_.width}), shape, {}, {2, 3}, {}, {0, 1}),
               along(parameter(p + "out.bias", {z_.width}), shape, {2}));
  }

  void loss(const std::string& logits, const std::string& labels) {
    const std::string picked = op("multiply", softmax(logits, true), op("convert", one_hot(labels, z_.vocab)));
    const std::string total = made({}, "reduce(" + picked + ", " + zero_ + "), dimensions={0,1,2}, to_apply=add");
    const std::string mean =
        made({}, "divide(" + total + ", " + constant("f32", std::to_string(z_.batch * z_.seq)) + ")");
    body_ += "  ROOT loss = f32[] negate(" + mean + ")\n";
  }

  static inline const std::string kComputations = R"(HloModule jit_loss

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

add_i {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}

top {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}

second {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}

arg_max {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  both = pred[] and(same, first)
  takes = pred[] or(more, both)
  v = f32[] select(more, a, b)
  p = s32[] select(takes, i, j)
  ROOT r = (f32[], s32[]) tuple(v, p)
}

)";

  const HloMixture z_;
  std::string body_, block_, zero_, one_, low_, zero_i_;
  std::vector<std::string> parameters_;
  std::map<std::string, Sizes> shape_of_;
  int count_ = 0;
};

inline std::string hlo_mixture(const HloMixture& of) { return HloMixtureText(of).text(); }

}  // namespace meshwright
