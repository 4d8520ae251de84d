// SPDX-License-Identifier: Apache-2.0
// Imported graphs compute what other programs compute of the same files: losses that ONNX Runtime 1.32 (Python) and
// NumPy gave for the files of tiny_models.h, with weights and inputs by the formulas here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/graph/import/model_file.h"
#include "tests/unit/import/loss_of.h"
#include "tests/unit/import/tiny_models.h"

namespace meshwright {

namespace {

double weight(const std::string& name, std::int64_t i) {
  int sum = 0;
  for (const char letter : name) sum += static_cast<unsigned char>(letter);
  const double wave = 0.9 * std::sin(0.37 * static_cast<double>(i) + 1.3 * (sum % 97));
  return name.ends_with(".gamma") ? 1.0 + wave : wave;
}

// Images lie as (batch, h, w, channels), weights of convolutions as ([groups], kh, kw, in, out); in the file as (batch,
// channels, h, w) and (out, in, kh, kw).
std::int64_t index_in_file(const Tensor& tensor, std::int64_t i) {
  std::vector<std::int64_t> at(tensor.dims.size());
  for (std::size_t d = at.size(); d-- > 0; i /= tensor.dims[d].size) at[d] = i % tensor.dims[d].size;
  const auto size = [&](std::size_t d) { return tensor.dims[d].size; };
  if (tensor.kind == TensorKind::Input) return ((at[0] * size(3) + at[3]) * size(1) + at[1]) * size(2) + at[2];
  const std::size_t k = at.size() - 4;  // 1 with groups
  const std::int64_t out = (k == 1 ? at[0] * size(4) : 0) + at[k + 3];
  return ((out * size(k + 2) + at[k + 2]) * size(k) + at[k]) * size(k + 1) + at[k + 1];
}

// The loss of a model, with all tensors as in its file.
double loss_of_model(const std::string& bytes, std::int64_t batch, std::int64_t vocab) {
  const ModelConfig model = read_model_bytes(bytes, "m.onnx", {});
  const Graph graph = build_training_graph(model, {.batch = batch, .dtype = DType::F64});
  return loss_of(graph, [&](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    const bool image = tensor.name == "images" || tensor.name == "c1" || tensor.name == "c2";
    if (image) return weight(tensor.name, index_in_file(tensor, i));
    if (tensor.kind == TensorKind::Parameter) return weight(tensor.name, i);
    if (tensor.name == "ids") return static_cast<double>((7 * i + 3) % vocab);
    if (tensor.name == "labels") return static_cast<double>((5 * i + 1) % vocab);
    return std::nullopt;
  });
}

TEST(ImportedNumbers, AreThoseOfOnnxRuntime) {
  const TinySizes grouped, single{.layers = 1, .kv_heads = 4, .seq = 9};
  if (const char* folder = std::getenv("MESHWRIGHT_WRITE_TINY")) {  // for the program that made the numbers
    std::ofstream(std::string(folder) + "/grouped.onnx", std::ios::binary) << tiny_llama(grouped);
    std::ofstream(std::string(folder) + "/single.onnx", std::ios::binary) << tiny_llama(single);
  }
  EXPECT_NEAR(loss_of_model(tiny_llama(grouped), 2, grouped.vocab), 3.0511447112370997, 1e-5);
  EXPECT_NEAR(loss_of_model(tiny_llama(single), 2, single.vocab), 3.3492585116892317, 1e-5);
}

TEST(ImportedNumbers, OfANetworkOfConvolutionsAreThoseOfNumPy) {
  EXPECT_NEAR(loss_of_model(tiny_cnn(), 2, 5), 7.387273716217146, 1e-9);
}

}  // namespace

}  // namespace meshwright
