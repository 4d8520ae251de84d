// SPDX-License-Identifier: Apache-2.0
// Small models as exporters write them, op by op.
#pragma once

#include <cmath>
#include <string>

#include "tests/unit/import/onnx_writer.h"

namespace meshwright {

struct TinySizes {
  std::int64_t layers = 2, hidden = 16, heads = 4, kv_heads = 2, mlp = 24, vocab = 20, seq = 6;
  std::string batch = "2";  // or a name
};

// A Llama of decomposed ops: RMS norms, rotary embedding, repeated keys, a causal mask, SiLU.
inline std::string tiny_llama(const TinySizes& z) {
  OnnxWriter w;
  const std::int64_t d = z.hidden / z.heads;
  const bool open = z.batch.find_first_not_of("0123456789") != std::string::npos;
  const std::int64_t batch = open ? -1 : std::stoll(z.batch);
  std::vector<float> cosines, sines, mask;
  for (std::int64_t p = 0; p < z.seq; ++p)
    for (std::int64_t k = 0; k < d; ++k) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(k % (d / 2)) / static_cast<double>(d));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  for (std::int64_t i = 0; i < z.seq * z.seq; ++i) mask.push_back(i % z.seq > i / z.seq ? -3.0e38f : 0.0f);
  w.input("ids", {z.batch, std::to_string(z.seq)});
  const std::string cos = w.floats({z.seq, d}, cosines), sin = w.floats({z.seq, d}, sines),
                    causal = w.floats({z.seq, z.seq}, mask);
  std::string x = w.node("Gather", {w.weight("wte", {z.vocab, z.hidden}), "ids"});
  const auto norm = [&](const std::string& of, const std::string& name, const std::string& scope) {
    const std::string square = w.node("Pow", {of, w.scalar(2.0f)}, {.scope = scope});
    const std::string mean =
        w.node("ReduceMean", {square, w.integers({-1})}, {.numbers = {{"keepdims", 1}}, .scope = scope});
    const std::string root =
        w.node("Sqrt", {w.node("Add", {mean, w.scalar(1e-5f)}, {.scope = scope})}, {.scope = scope});
    return w.node("Mul", {w.node("Div", {of, root}, {.scope = scope}), w.weight(name, {z.hidden})}, {.scope = scope});
  };
  for (std::int64_t l = 0; l < z.layers; ++l) {
    const std::string block = "layers." + std::to_string(l) + ".", scope = "/model/layers." + std::to_string(l) + "/";
    const OnnxWriter::Given in{.scope = scope};
    const auto product = [&](const std::string& of, const std::string& name, std::int64_t from, std::int64_t to) {
      return w.node("MatMul", {of, w.weight(block + name, {from, to})}, in);
    };
    const auto heads = [&](const std::string& of, std::int64_t count) {
      const std::string parted = w.node("Reshape", {of, w.integers({batch, z.seq, count, d})}, in);
      return w.node("Transpose", {parted}, {.lists = {{"perm", {0, 2, 1, 3}}}, .scope = scope});
    };
    const auto rotated = [&](const std::string& of) {
      const std::string high = w.node("Slice", {of, w.integers({d / 2}), w.integers({1 << 30}), w.integers({3})}, in);
      const std::string low = w.node("Slice", {of, w.integers({0}), w.integers({d / 2}), w.integers({3})}, in);
      const std::string turned =
          w.node("Concat", {w.node("Neg", {high}, in), low}, {.numbers = {{"axis", -1}}, .scope = scope});
      return w.node("Add", {w.node("Mul", {of, cos}, in), w.node("Mul", {turned, sin}, in)}, in);
    };
    const auto repeated = [&](const std::string& of) {
      const std::string wide =
          w.node("Expand",
                 {w.node("Unsqueeze", {of, w.integers({2})}, in), w.integers({1, 1, z.heads / z.kv_heads, 1, 1})}, in);
      return w.node("Reshape", {wide, w.integers({batch, z.heads, z.seq, d})}, in);
    };
    const std::string a = norm(x, block + "ln1.gamma", scope);
    const std::string q = rotated(heads(product(a, "q", z.hidden, z.hidden), z.heads)),
                      k = repeated(rotated(heads(product(a, "k", z.hidden, z.kv_heads * d), z.kv_heads))),
                      v = repeated(heads(product(a, "v", z.hidden, z.kv_heads * d), z.kv_heads));
    const std::string turned = w.node("Transpose", {k}, {.lists = {{"perm", {0, 1, 3, 2}}}, .scope = scope});
    const std::string scores = w.node(
        "Div", {w.node("MatMul", {q, turned}, in), w.scalar(static_cast<float>(std::sqrt(static_cast<double>(d))))},
        in);
    const std::string weights =
        w.node("Softmax", {w.node("Add", {scores, causal}, in)}, {.numbers = {{"axis", -1}}, .scope = scope});
    const std::string out =
        w.node("Transpose", {w.node("MatMul", {weights, v}, in)}, {.lists = {{"perm", {0, 2, 1, 3}}}, .scope = scope});
    x = w.node(
        "Add",
        {x, product(w.node("Reshape", {out, w.integers({batch, z.seq, z.hidden})}, in), "o", z.hidden, z.hidden)}, in);
    const std::string b = norm(x, block + "ln2.gamma", scope);
    const std::string gate = product(b, "gate", z.hidden, z.mlp), up = product(b, "up", z.hidden, z.mlp);
    const std::string silu = w.node("Mul", {gate, w.node("Sigmoid", {gate}, in)}, in);
    x = w.node("Add", {x, product(w.node("Mul", {silu, up}, in), "down", z.mlp, z.hidden)}, in);
  }
  x = norm(x, "final.gamma", "");
  return w.finish(w.node("MatMul", {x, w.weight("head", {z.hidden, z.vocab})}, {.results = {"logits"}}));
}

// A network for images: convolutions, one of them in groups, a residual sum, batch norms, pooling, a classifier.
inline std::string tiny_cnn() {
  OnnxWriter w;
  w.input("images", {"2", "3", "8", "8"}, 1);
  const OnnxWriter::Given same{.lists = {{"pads", {1, 1, 1, 1}}, {"strides", {1, 1}}}};
  const auto norm = [&](const std::string& x, const std::string& name) {
    return w.node("BatchNormalization", {x, w.weight(name + ".gamma", {4}), w.weight(name + ".beta", {4}),
                                         w.weight(name + ".mean", {4}), w.weight(name + ".variance", {4})});
  };
  std::string x = w.node("Conv", {"images", w.weight("c1", {4, 3, 3, 3}), w.weight("c1.bias", {4})}, same);
  x = w.node("Relu", {norm(x, "n1")});
  x = w.node("MaxPool", {x}, {.lists = {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}}});
  OnnxWriter::Given grouped = same;
  grouped.numbers = {{"group", 2}};
  const std::string inner = norm(w.node("Conv", {x, w.weight("c2", {4, 2, 3, 3})}, grouped), "n2");
  x = w.node("Relu", {w.node("Add", {x, inner})});
  x = w.node("Flatten", {w.node("GlobalAveragePool", {x})});
  return w.finish(w.node("Gemm", {x, w.weight("fc", {5, 4}), w.weight("fc.bias", {5})}, {.numbers = {{"transB", 1}}}));
}

}  // namespace meshwright
