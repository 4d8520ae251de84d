// SPDX-License-Identifier: Apache-2.0
// What plans take of a GPU beside their tensors is what gpu_memory_need says without one: here, where memory is counted
// block by block. A driver's pages and libraries' workspaces are not seen here.
#include <gtest/gtest.h>

#include "core/graph/import/find_model.h"
#include "executor/cuda/cuda_backend.h"
#include "executor/executor.h"
#include "executor/runner/gpu_memory_need.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/elementwise/bias.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/norms/batch_norm.h"
#include "kernels/cuda/norms/row_norms.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/tokens/embedding.h"
#include "tests/cuda/whole_ops.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::gpu_memory_on_cpu_test {
namespace {

namespace cuda = kernels::cuda;

const StoredType kAsPlanned = [](DType type) { return type; };

Planned plan_of(const char* model, const char* method, int devices, int microbatches, DType dtype) {
  PlanRequest request = ask(model, "dgx-a100:1", method, 8, microbatches);
  request.cluster = take_part(request.cluster, 1, devices);
  request.training.dtype = dtype;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned made = meshwright::planned(request);
  EXPECT_TRUE(made.plan.has_value()) << made.reason;
  return made;
}

constexpr const char* kGpt = "gpt:layers=2,hidden=64,heads=4,seq=16,vocab=256";

// The driver's pages are of a GPU; blocks here are rounded to 256 bytes, and small enough to share pages.
TEST(GpuMemory, OfAProgramIsKnownToTheRoundingOfItsBlocks) {
  for (const auto& [method, devices, microbatches] :
       {std::tuple{"data", 1, 1}, std::tuple{"data", 1, 4}, std::tuple{"data", 2, 2},
        std::tuple{"megatron:tp=2,pp=1", 2, 1}}) {
    SCOPED_TRACE(testing::Message() << method << ' ' << devices << ' ' << microbatches);
    const Planned made = plan_of(kGpt, method, devices, microbatches, DType::BF16);
    const std::size_t before = cuda::free_memory().free;
    CudaBackend backend({}, devices);
    const RunResult run =
        run_program(made.graph, made.program, made.check, {.steps = 3, .keep_tensors = false}, backend);
    const double taken = run.gpu_memory[0].in_use.si() - static_cast<double>(cuda::free_memory().total - before);
    double expected = 0.0, peak = 0.0;
    for (int d = 0; d < devices; ++d) {
      const GpuMemoryNeed need = gpu_memory_need(made.graph, made.program, DeviceId(d), kAsPlanned);
      expected += (need.tensors + need.kept).si() + run.gpu_memory[static_cast<std::size_t>(d)].workspace.si();
      EXPECT_EQ(need.tensors, made.check.peak_memory[static_cast<std::size_t>(d)]);
      EXPECT_EQ(need.pages, Bytes(0.0));
      EXPECT_LE(run.gpu_memory[static_cast<std::size_t>(d)].workspace, need.workspace);
      peak += need.tensors.si();
    }
    EXPECT_GT(expected, 1.05 * peak);  // there is something to know
    EXPECT_GE(taken, expected);
    EXPECT_LE(taken, expected + 256.0 * 1000 * devices);
    EXPECT_LE(taken, 1.1 * expected);
  }
}

// Of stages, whose messages lie in buffers.
TEST(GpuMemory, OfMessagesIsAtMostWhatIsSaid) {
  for (const int microbatches : {2, 4}) {
    const Planned made = plan_of(kGpt, "megatron:tp=1,pp=2", 2, microbatches, DType::BF16);
    const std::size_t before = cuda::free_memory().free;
    CudaBackend backend({}, 2);
    const RunResult run =
        run_program(made.graph, made.program, made.check, {.steps = 3, .keep_tensors = false}, backend);
    const double taken = run.gpu_memory[0].in_use.si() - static_cast<double>(cuda::free_memory().total - before);
    double without = 0.0, messages = 0.0;
    for (std::size_t d = 0; d < 2; ++d) {
      const GpuMemoryNeed need = gpu_memory_need(made.graph, made.program, DeviceId(static_cast<int>(d)), kAsPlanned);
      without += (need.tensors + need.kept + run.gpu_memory[d].workspace).si();
      EXPECT_GT(need.messages, Bytes(0.0));
      messages += need.messages.si();
    }
    EXPECT_GE(taken, without);
    EXPECT_LE(taken, without + messages + 256.0 * 2000);
  }
}

TEST(GpuMemory, CountsWholePagesOfLargeBlocks) {
  // Its table of 1000 x 1024 in float has 3.9 MiB, which two pages of 2 MiB hold; the optimizer's are the same.
  const Planned made = plan_of("gpt:layers=1,hidden=1024,heads=4,seq=8,vocab=1000", "data", 1, 1, DType::F32);
  const GpuMemoryNeed need = gpu_memory_need(made.graph, made.program, DeviceId(0), kAsPlanned);
  EXPECT_GT(need.pages, Bytes(0.0));
  EXPECT_LT(need.pages, 0.2 * need.tensors);
}

// --- the formulas, at sizes of today's models ---

// The op's bytes by the kernels themselves are at most the formula's, which are not many more: at most `slack` MiB, and
// four times as many.
void expect_formula(const Graph& graph, double actual, double slack) {
  const Op& op = graph.ops().back();
  const double formula = gpu_workspace(cuda::whole_call(graph, op), kAsPlanned).si();
  EXPECT_GE(formula, actual) << op.name;
  EXPECT_LE(formula, 4.0 * actual + slack * (1 << 20)) << op.name;
}

struct Sizes {
  std::int64_t rows, width;
};
const std::vector<Sizes> kSizes = {{1, 1},        {7, 33},       {64, 512},     {8192, 64},
                                   {16384, 768},  {32768, 1024}, {16384, 2048}, {16384, 4096},
                                   {4096, 6144},  {4096, 8192},  {4096, 14336}, {2048, 51200},
                                   {512, 128256}, {131072, 256}, {1 << 20, 64}, {1 << 20, 1}};

template <class T>
void expect_formulas_of_rows(DType type) {
  for (const auto& [rows, width] : kSizes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << width << ' ' << name_of(type));
    const std::vector<Dim> dims = {{"row", rows}, {"embed", width}}, row = {{"embed", width}};
    const auto graph = [&](OpKind kind, std::size_t operands, Attributes attributes) {
      Graph g;
      g.dtype = type;
      std::vector<TensorId> inputs;
      for (std::size_t i = 0; i < operands; ++i)
        inputs.push_back(g.add_tensor(fmt::format("x{}", i), TensorKind::Input, type, dims));
      (void)g.add_op(kind, name_of(kind), inputs, std::move(attributes));
      return g;
    };
    const kernels::NormShape shape{rows, width, 1e-5};
    for (const OpKind kind : {OpKind::LayerNormParamBackward, OpKind::RmsNormParamBackward})
      expect_formula(graph(kind, 2, {.epsilon = 1e-5}),
                     static_cast<double>(cuda::row_norm_parameter_backward_workspace<T>(shape)), 20);
    expect_formula(graph(OpKind::BatchSums, 1, {}), static_cast<double>(cuda::batch_sums_workspace<T>(rows, width)),
                   16);
    expect_formula(graph(OpKind::BiasGradient, 1, {.result_names = {"embed"}}),
                   static_cast<double>(cuda::bias_gradient_workspace<T>({rows, width, width})), 20);
    const std::vector<std::int64_t> sizes = {rows, width};
    for (const char kept : {0, 1}) {
      const std::vector<char> of_dims = {static_cast<char>(1 - kept), kept};
      expect_formula(graph(OpKind::ReduceSum, 1, {.result_names = {kept == 1 ? "embed" : "row"}}),
                     static_cast<double>(cuda::reduce_workspace<T>({sizes, of_dims})), 32);
    }
  }
}

TEST(GpuWorkspace, FormulasOfSumsHoldForTheKernels) {
  expect_formulas_of_rows<float>(DType::F32);
  expect_formulas_of_rows<double>(DType::F64);
  expect_formulas_of_rows<cuda::Bf16>(DType::BF16);
}

TEST(GpuWorkspace, FormulaOfAnEmbeddingsGradientHoldsForTheKernel) {
  for (const auto& [rows, vocab, width] :
       {std::tuple{1, 1, 1}, std::tuple{100, 32, 16}, std::tuple{32768, 51200, 768}, std::tuple{16384, 128256, 4096}}) {
    Graph g;
    g.dtype = DType::BF16;
    const TensorId ids = g.add_tensor("ids", TensorKind::Input, DType::I32, {{"row", rows}});
    const TensorId table =
        g.add_tensor("table", TensorKind::Parameter, DType::BF16, {{"vocab", vocab}, {"embed", width}});
    const TensorId y = g.add_op(OpKind::Embedding, "y", {ids, table})[0];
    (void)g.add_op(OpKind::EmbeddingBackward, "dy", {ids, y}, {.result_names = {"vocab"}, .result_size = vocab});
    expect_formula(g, static_cast<double>(cuda::embedding_backward_workspace<cuda::Bf16>({rows, vocab, width, 0})), 2);
  }
}

TEST(GpuWorkspace, FormulaOfAnAttentionsGradientHoldsForOurKernel) {
  for (const auto& [batch, heads, seq, dim] : {std::tuple{1, 1, 1, 8}, std::tuple{2, 4, 100, 16},
                                               std::tuple{32, 12, 1024, 64}, std::tuple{2, 32, 4096, 128}}) {
    Graph g;
    g.dtype = DType::F32;
    const std::vector<Dim> packed = {{"batch", batch}, {"seq", seq}, {"qkv", 3}, {"heads", heads}, {"head_dim", dim}};
    const TensorId qkv = g.add_tensor("qkv", TensorKind::Input, g.dtype, packed);
    const TensorId out = g.add_op(OpKind::Attention, "out", {qkv})[0];
    (void)g.add_op(OpKind::AttentionBackward, "dqkv", {qkv, out});
    const auto shape = kernels::AttentionShape::packed(batch, seq, heads, dim);
    expect_formula(g, static_cast<double>(cuda::attention_backward_workspace<float>(shape, false)), 1);
  }
}

}  // namespace
}  // namespace meshwright::gpu_memory_on_cpu_test
