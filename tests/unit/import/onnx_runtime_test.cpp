// SPDX-License-Identifier: Apache-2.0
// Graphs of ONNX files compute what ONNX Runtime computed of the same files and inputs: those of the folder onnx, which
// tests/conformance/onnx_test.py wrote, or those of $MESHWRIGHT_ONNX_FOLDER, which it writes anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/graph/import/model_file.h"
#include "core/graph/import/onnx/onnx_file.h"
#include "core/graph/import/onnx/onnx_reader.h"
#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/primitive/einsum.h"
#include "executor/ops/gpu_lacks.h"
#include "tests/refusal.h"
#include "tests/unit/import/loss_of.h"

namespace meshwright::onnx_runtime_test {
namespace {

using Numbers = std::vector<double>;

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// The numbers without those that repeat others along a dimension.
Numbers once(const onnx::TensorValue& tensor, const Numbers& values) {
  std::vector<bool> repeats;
  for (std::size_t d = 0; d < tensor.dims.size(); ++d)
    repeats.push_back(primitive::repeats_along(tensor.dims, values, d));
  Numbers kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t rest = i;
    bool first = true;
    for (std::size_t d = tensor.dims.size(); d-- > 0; rest /= static_cast<std::size_t>(tensor.dims[d]))
      first = first && (!repeats[d] || rest % static_cast<std::size_t>(tensor.dims[d]) == 0);
    if (first) kept.push_back(values[i]);
  }
  return kept;
}

// As a graph's parameters have them: once, where it has one of that size.
std::map<std::string, Numbers> weights_of(const std::string& bytes, const Graph& graph) {
  std::map<std::string, std::int64_t> sizes;
  for (const Tensor& tensor : graph.tensors()) sizes[tensor.name] = tensor.elements();
  std::map<std::string, Numbers> weights;
  const onnx::OnnxFile file = onnx::read_onnx(bytes, "file");
  for (const onnx::TensorValue& tensor : file.initializers)
    if (const auto values = onnx::values_of(tensor, 1 << 20, "file")) {
      const auto size = sizes.find(tensor.name);
      const Numbers fewer = once(tensor, *values);
      weights[tensor.name] =
          size != sizes.end() && size->second == static_cast<std::int64_t>(fewer.size()) ? fewer : *values;
    }
  return weights;
}

// Images lie as (batch, h, w, channels), weights of convolutions as ([groups], kh, kw, in, out); in the file as (batch,
// channels, h, w) and (out, in, kh, kw).
std::int64_t index_in_file(const Tensor& tensor, std::int64_t i) {
  if (tensor.dims.size() < 4 || tensor.dims.back().size == 1) return i;
  std::vector<std::int64_t> at(tensor.dims.size());
  for (std::size_t d = at.size(); d-- > 0; i /= tensor.dims[d].size) at[d] = i % tensor.dims[d].size;
  const auto size = [&](std::size_t d) { return tensor.dims[d].size; };
  if (tensor.kind == TensorKind::Input) {
    const bool grouped = at.size() == 5;
    const std::int64_t channel = grouped ? at[3] * size(4) + at[4] : at[3],
                       channels = size(3) * (grouped ? size(4) : 1);
    return ((at[0] * channels + channel) * size(1) + at[1]) * size(2) + at[2];
  }
  const std::size_t k = at.size() - 4;  // 1 with groups
  const std::int64_t out = (k == 1 ? at[0] * size(4) : 0) + at[k + 3];
  return ((out * size(k + 2) + at[k + 2]) * size(k) + at[k]) * size(k + 1) + at[k + 1];
}

bool is_convolved(const Graph& graph, TensorId tensor) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [&](const Op& op) {
    return op.kind == OpKind::Convolution && (op.inputs[0] == tensor || op.inputs[1] == tensor);
  });
}

// The parts of a file's weight, by its name, in order.
std::map<std::string, std::vector<const Tensor*>> parts_of(const Graph& graph,
                                                           const std::map<std::string, Numbers>& weights) {
  std::map<std::string, std::vector<const Tensor*>> parts;
  for (int k = 0; k < 100; ++k)
    for (const Tensor& tensor : graph.tensors()) {
      const std::size_t dot = tensor.name.rfind('.');
      if (tensor.kind != TensorKind::Parameter || dot == std::string::npos || weights.contains(tensor.name)) continue;
      if (tensor.name.substr(dot + 1) == std::to_string(k) && weights.contains(tensor.name.substr(0, dot)))
        parts[tensor.name.substr(0, dot)].push_back(&tensor);
    }
  return parts;
}

// Where a file's weight that a graph has in parts, "qkv.0", "qkv.1", ..., is cut: behind so many of the dimensions of
// each part, those most often cut so first. Parts alike are cut alike.
std::string form_of(const std::vector<const Tensor*>& parts) {
  std::string text;
  for (const Tensor* part : parts) {
    text += "|";
    for (const Dim& dim : part->dims) text += fmt::format("{},", dim.size);
  }
  return text;
}
std::vector<std::size_t> cuts_of(const std::vector<const Tensor*>& parts) {
  std::vector<std::size_t> cuts = {0};
  for (std::size_t d = 0; d < parts[0]->dims.size(); ++d) {
    const auto same = [&](const Tensor* part) {
      return d < part->dims.size() && part->dims[d].size == parts[0]->dims[d].size;
    };
    if (!std::all_of(parts.begin(), parts.end(), same)) break;
    cuts.push_back(d + 1);
  }
  if (cuts.size() > 1 && parts[0]->dims.size() > 2) std::swap(cuts[0], cuts[1]);
  return cuts;
}

double number_of_part(const Numbers& whole, const std::vector<const Tensor*>& parts, const Tensor& part,
                      std::size_t cut, std::int64_t i) {
  const auto behind_cut = [&](const Tensor& of) {
    std::int64_t behind = 1;
    for (std::size_t d = cut; d < of.dims.size(); ++d) behind *= of.dims[d].size;
    return behind;
  };
  std::int64_t all = 0, before = 0;
  for (const Tensor* other : parts) {
    if (other == &part) before = all;
    all += behind_cut(*other);
  }
  const std::int64_t own = behind_cut(part);
  return whole.at(static_cast<std::size_t>(i / own * all + before + i % own));
}

// What the loss is computed of.
TensorId result_of(const Graph& graph) {
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::PickLabel || op.kind == OpKind::SquaredErrorLoss) return op.inputs[0];
  ADD_FAILURE() << "no loss";
  return graph.ops().back().outputs[0];
}

struct File {
  Graph graph;
  std::map<std::string, Numbers> weights;
};
File file_of(const std::string& bytes) {
  constexpr std::int64_t kBatch = 3;
  Graph graph = build_training_graph(read_model_bytes(bytes, "m.onnx", {}), {.batch = kBatch, .dtype = DType::F64});
  std::map<std::string, Numbers> weights = weights_of(bytes, graph);
  return {std::move(graph), std::move(weights)};
}

// `cuts`: by the form of the parts.
Numbers computed(const File& file, const Json& inputs, const std::map<std::string, std::size_t>& cuts) {
  const Graph& graph = file.graph;
  const std::map<std::string, Numbers>& weights = file.weights;
  const std::map<std::string, std::vector<const Tensor*>> parts = parts_of(graph, weights);
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter && tensor.kind != TensorKind::Input) continue;
    const bool moved = is_convolved(graph, tensor.id);
    const auto known = weights.find(tensor.name);
    const std::string whole = tensor.name.substr(0, tensor.name.rfind('.'));
    Numbers values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const auto from = static_cast<std::size_t>(moved ? index_in_file(tensor, i) : i);
      if (inputs.contains(tensor.name))
        values.push_back(inputs[tensor.name][from].get<double>());
      else if (known != weights.end())
        values.push_back(known->second.at(from));
      else if (const auto all = parts.find(whole); all != parts.end())
        values.push_back(number_of_part(weights.at(whole), all->second, tensor, cuts.at(form_of(all->second)), i));
    }
    if (values.empty()) continue;  // labels, and constants, which have their numbers
    interpreter.set(tensor.id, values);
  }
  interpreter.run(Phase::Forward);
  return interpreter.get(result_of(graph));
}

TEST(OnnxRuntime, ComputesTheSameOfEveryFile) {
  const char* other = std::getenv("MESHWRIGHT_ONNX_FOLDER");
  const std::filesystem::path folder =
      other != nullptr ? std::filesystem::path(other) : std::filesystem::path(__FILE__).parent_path() / "onnx";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GE(files.size(), other != nullptr ? 1U : 15U);
  for (const std::filesystem::path& path : files) {
    SCOPED_TRACE(path.filename().string());
    const Json expected = read_json_file(std::filesystem::path(path).replace_extension(".json").string());
    const auto wanted = expected["result"].get<Numbers>();
    double largest = 1.0;
    for (const double number : wanted) largest = std::max(largest, std::abs(number));
    const File file = file_of(read_bytes(path));
    // Every way to cut the weights that have parts: numbers in any other place give another result.
    std::map<std::string, std::vector<std::size_t>> choices;
    for (const auto& [name, parts] : parts_of(file.graph, file.weights)) choices[form_of(parts)] = cuts_of(parts);
    std::size_t ways = 1;
    for (const auto& [form, cuts] : choices) ways *= cuts.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t way = 0; way < ways && least >= 1e-4 * largest; ++way) {
      std::map<std::string, std::size_t> cut;
      std::size_t rest = way;
      for (const auto& [form, cuts] : choices) {
        cut[form] = cuts[rest % cuts.size()];
        rest /= cuts.size();
      }
      const Numbers found = computed(file, expected["inputs"], cut);
      ASSERT_EQ(found.size(), wanted.size());
      double apart = 0.0;
      for (std::size_t i = 0; i < wanted.size(); ++i) apart = std::max(apart, std::abs(found[i] - wanted[i]));
      least = std::min(least, apart);
    }
    EXPECT_LT(least, 1e-4 * largest);
  }
}

// Their kernels are of the CPU: GPUs say so before a step.
TEST(OnnxRuntime, MasksAreRefusedByNameBeforeAGpuRuns) {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path() / "onnx";
  const auto graph_of = [&](const char* name) {
    return build_training_graph(read_model_bytes(read_bytes(folder / name), name, {}), {.batch = 3});
  };
  EXPECT_NE(refusal([&] {
              expect_gpu_computes(graph_of("mask_inputs.onnx"), "plan.json");
            }).find("plan.json: the CUDA backend has no attention with a mask, and the model has 2, the first '"),
            std::string::npos);
  expect_gpu_computes(graph_of("bert.onnx"), "plan.json");
}

// Also of equations, choices and bounds: a changed byte makes another model or a sentence.
TEST(OnnxFixtures, ChangedFilesAreReadOrRefused) {
  int read = 0, refused = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(__FILE__).parent_path() / "onnx")) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string whole = read_bytes(entry.path());
    for (std::size_t at = 1; at < whole.size(); at += std::max<std::size_t>(1, whole.size() / 40)) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x15);
      try {
        (void)build_forward_graph(read_model_bytes(changed, "m.onnx", {}), {.batch = 3});
        ++read;
      } catch (const InputError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

// An equation names every dimension.
TEST(OnnxEinsum, IsRefusedWhereItDoesNotFit) {
  const auto refused = [](const std::string& equation) {
    primitive::Module module;
    primitive::Builder b(module);
    b.name = "y";
    const int x = b.input("x", {primitive::kBatchProbe, 4}, false), w = b.parameter("w", {4, 5});
    return refusal([&] { (void)primitive::einsum(b, equation, {x, w}); });
  };
  EXPECT_NE(refused("bi,ij,jk->bk").find("is not of 2 operands"), std::string::npos);
  EXPECT_NE(refused("bik,ij->bj").find("its term 'bik' is not of 2 dimensions"), std::string::npos);
  EXPECT_NE(refused("bi,jj->b").find("a letter twice in one term"), std::string::npos);
  EXPECT_NE(refused("bi,ij->bz").find("a letter that no operand has"), std::string::npos);
  EXPECT_NE(refused("b1,1j->bj").find("other signs than letters"), std::string::npos);
}

// A choice of the two best experts of each token, as TopK makes it, is the mixture's.
TEST(OnnxMixture, OfTwoChoicesByTopKIsOfTheFamilysOps) {
  const std::filesystem::path path = std::filesystem::path(__FILE__).parent_path() / "onnx" / "mixture.onnx";
  const Graph graph = build_forward_graph(read_model_bytes(read_bytes(path), "m.onnx", {}), {.batch = 3});
  const auto count = [&](OpKind kind) {
    return std::count_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.kind == kind; });
  };
  EXPECT_EQ(count(OpKind::OneHotSlots), 1);
  EXPECT_EQ(count(OpKind::GateWeights), 1);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::TopKSlots) {
      EXPECT_EQ(op.attributes.top_k, 2);
    }
}

}  // namespace
}  // namespace meshwright::onnx_runtime_test
