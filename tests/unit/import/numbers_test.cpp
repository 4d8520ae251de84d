// SPDX-License-Identifier: Apache-2.0
// Imported graphs compute what other programs compute of the same files: losses that ONNX Runtime 1.32 (Python) and
// NumPy gave for the files of tiny_models.h, with weights and inputs by the formulas here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/graph/import/model_file.h"
#include "executor/check/graph_interpreter.h"
#include "tests/unit/import/tiny_models.h"

namespace meshwright {

namespace {

double weight(const std::string& name, std::int64_t i) {
  int sum = 0;
  for (const char letter : name) sum += static_cast<unsigned char>(letter);
  const double wave = 0.9 * std::sin(0.37 * static_cast<double>(i) + 1.3 * (sum % 97));
  return name.ends_with(".gamma") ? 1.0 + wave : wave;
}

// The loss of a model whose tensors lie as in the file.
double loss_of(const std::string& bytes, std::int64_t batch, std::int64_t vocab) {
  const ModelConfig model = read_model_bytes(bytes, "m.onnx", {});
  const Graph graph = build_training_graph(model, {.batch = batch, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
    const auto fill = [&](auto value) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::int64_t>(i));
      interpreter.set(tensor.id, values);
    };
    if (tensor.kind == TensorKind::Parameter) fill([&](std::int64_t i) { return weight(tensor.name, i); });
    if (tensor.name == "ids") fill([&](std::int64_t i) { return static_cast<double>((7 * i + 3) % vocab); });
    if (tensor.name == "labels") fill([&](std::int64_t i) { return static_cast<double>((5 * i + 1) % vocab); });
  }
  interpreter.run(Phase::Forward);
  return interpreter.get(*graph.loss)[0];
}

TEST(ImportedNumbers, AreThoseOfOnnxRuntime) {
  const TinySizes grouped, single{.layers = 1, .kv_heads = 4, .seq = 9};
  if (const char* folder = std::getenv("MESHWRIGHT_WRITE_TINY")) {  // for the program that made the numbers
    std::ofstream(std::string(folder) + "/grouped.onnx", std::ios::binary) << tiny_llama(grouped);
    std::ofstream(std::string(folder) + "/single.onnx", std::ios::binary) << tiny_llama(single);
  }
  EXPECT_NEAR(loss_of(tiny_llama(grouped), 2, grouped.vocab), 3.0511447112370997, 1e-5);
  EXPECT_NEAR(loss_of(tiny_llama(single), 2, single.vocab), 3.3492585116892317, 1e-5);
}

}  // namespace

}  // namespace meshwright
