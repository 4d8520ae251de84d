// SPDX-License-Identifier: Apache-2.0
// Traces as small texts: what each call of PyTorch means, which kernel belongs to which call, and what is left out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "costmodel/cost_models.h"
#include "costmodel/traces/chakra_json.h"
#include "costmodel/traces/chakra_trace.h"
#include "costmodel/traces/kineto_trace.h"
#include "costmodel/traces/nccl_tests.h"
#include "costmodel/traces/torch_ops.h"
#include "tests/refusal.h"
#include "tests/unit/costmodel/chakra_writer.h"

namespace meshwright::traces_test {
namespace {

using namespace chakra_writer;

TorchOperand tensor(std::vector<std::int64_t> dims, const char* type = "c10::BFloat16") {
  return {std::move(dims), {}, type};
}
TorchCall call(const char* name, std::vector<TorchOperand> operands, std::vector<std::string> values = {}) {
  return {name, std::move(operands), std::move(values), true};
}
std::string signature_of(const TorchCall& some, const char* kernel = "") {
  const auto meaning = meaning_of(some, kernel);
  if (!meaning) return "unknown";
  if (const auto* none = std::get_if<NoRow>(&*meaning)) return "no row: " + none->reason;
  return std::get<TracedOp>(*meaning).work.signature;
}

TEST(TorchOps, ReadsAProductWithItsSizesAndFlops) {
  const auto meaning = meaning_of(call("aten::mm", {tensor({64, 32}), tensor({32, 16})}), "gemm");
  const auto& op = std::get<TracedOp>(meaning.value());
  EXPECT_EQ(op.work.signature, "contract bf16 [a=64,b=32][b,c=16]->[a,c]");
  EXPECT_EQ(op.work.flops.si(), 2.0 * 64 * 32 * 16);
  EXPECT_EQ(op.work.bytes.si(), 2.0 * (64 * 32 + 32 * 16 + 64 * 16));
  const auto& shape = std::get<ProductShape>(op.kernel.value());
  EXPECT_EQ(std::tuple(shape.batch, shape.m, shape.n, shape.k), std::tuple(1, 64, 16, 32));
  EXPECT_EQ(op.kernel_dtype, "bf16");
}

TEST(TorchOps, KnowsRoundedProductsByTheirKernel) {
  const TorchCall product =
      call("aten::addmm", {tensor({16}, "float"), tensor({64, 32}, "float"), tensor({32, 16}, "float")});
  EXPECT_EQ(std::get<TracedOp>(meaning_of(product, "cutlass_80_tensorop_s1688gemm").value()).kernel_dtype, "tf32");
  EXPECT_EQ(std::get<TracedOp>(meaning_of(product, "ampere_sgemm_32x32").value()).kernel_dtype, "f32");
}

TEST(TorchOps, ReadsBatchesOfProductsAndLinearLayers) {
  EXPECT_EQ(signature_of(call("aten::bmm", {tensor({4, 8, 2}), tensor({4, 2, 6})})),
            "contract bf16 [a=4,b=8,c=2][a,c,d=6]->[a,b,d]");
  EXPECT_EQ(signature_of(call("aten::linear", {tensor({2, 8, 4}), tensor({6, 4}), tensor({6})})),
            "contract bf16 [a=16,b=4][c=6,b]->[a,c]");
}

TEST(TorchOps, ReadsFusedAttentionInBothOrdersOfHeads) {
  const std::vector<std::string> causal = {"", "", "", "0.", "True", "False", ""};
  const TorchCall heads_first = call("aten::_scaled_dot_product_flash_attention",
                                     {tensor({2, 8, 64, 16}), tensor({2, 4, 64, 16}), tensor({2, 4, 64, 16})}, causal);
  const std::string expected =
      "grouped_attention bf16 [a=2,b=64,c=4,d=2,e=16][a,f=64,c,e][a,f,c,e]->[a,b,c,d,e] causal";
  EXPECT_EQ(signature_of(heads_first), expected);
  const std::vector<std::string> flash = {"", "", "", "0.", "0.25", "True"};
  EXPECT_EQ(signature_of(call("flash_attn::_flash_attn_forward",
                              {tensor({2, 64, 8, 16}), tensor({2, 64, 4, 16}), tensor({2, 64, 4, 16})}, flash)),
            expected);
  const auto meaning = meaning_of(heads_first, "");
  const auto shape = std::get<AttentionShape>(std::get<TracedOp>(meaning.value()).kernel.value());
  EXPECT_EQ(std::tuple(shape.batch, shape.heads, shape.kv_heads, shape.queries, shape.key_width),
            std::tuple(2, 8, 4, 64, 16));
  EXPECT_TRUE(shape.causal);
}

TEST(TorchOps, WithoutItsMaskAnAttentionFindsNoRow) {
  const TorchCall attention = call("aten::_scaled_dot_product_flash_attention",
                                   {tensor({2, 8, 64, 16}), tensor({2, 4, 64, 16}), tensor({2, 4, 64, 16})});
  EXPECT_EQ(signature_of(attention), "no row: ops recorded without the values of their arguments");
}

TEST(TorchOps, TellsTheTwoKernelsOfANormsBackwardApart) {
  const TorchCall backward = call("aten::native_layer_norm_backward", {tensor({4, 8, 32}), tensor({4, 8, 32})});
  EXPECT_EQ(signature_of(backward, "layer_norm_grad_input_kernel"),
            "layer_norm_backward bf16 [a=32,b=32][b][a,b]->[a,b]");
  EXPECT_EQ(signature_of(backward, "GammaBetaBackwardCUDAKernel"),
            "layer_norm_param_backward bf16 [a=32,b=32][a,b]->[b][b]");
}

TEST(TorchOps, ReadsElementwiseOpsByTheirShapes) {
  EXPECT_EQ(signature_of(call("aten::add", {tensor({4, 8}), tensor({4, 8})})), "add bf16 [a=32][a]->[a]");
  EXPECT_EQ(signature_of(call("aten::add", {tensor({4, 8}), tensor({8})})), "bias_add bf16 [a=4,b=8][b]->[a,b]");
  EXPECT_EQ(signature_of(call("aten::mul", {tensor({4, 8}), tensor({}, "Scalar")})), "scale bf16 [a=32]->[a]");
  EXPECT_EQ(signature_of(call("aten::mul", {tensor({4, 8}), tensor({4, 1})})), "no row: aten::mul with broadcasting");
  EXPECT_EQ(signature_of(call("aten::copy_", {tensor({8}, "float"), tensor({8})})), "cast bf16 [a=8]->[a]:f32");
  EXPECT_EQ(signature_of(call("aten::copy_", {tensor({8}), tensor({8})})), "no row: copies from layout to layout");
  EXPECT_EQ(signature_of(call("aten::sum", {tensor({4, 2, 8})}, {"", "[0, 1]", "False"})),
            "bias_gradient bf16 [a=8,b=8]->[b]");
  EXPECT_EQ(signature_of(call("aten::gelu", {tensor({8})}, {"", "tanh"})), "gelu bf16 [a=8]->[a]");
  EXPECT_EQ(signature_of(call("aten::gelu", {tensor({8})}, {"", "none"})), "gelu_erf bf16 [a=8]->[a]");
  EXPECT_EQ(signature_of(call("aten::index_select", {tensor({8})})), "unknown");
}

TEST(TorchOps, ReadsEmbeddingsConvolutionsAndUpdates) {
  EXPECT_EQ(signature_of(call("aten::embedding", {tensor({100, 8}), tensor({2, 4}, "long int")})),
            "embedding bf16 [a=8][b=100,c=8]->[a,c]");
  EXPECT_EQ(
      signature_of(call("aten::convolution",
                        {tensor({2, 3, 8, 8}), tensor({4, 3, 3, 3}), tensor({}, ""), tensor({}, ""), tensor({}, "")},
                        {"", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"})),
      "convolution bf16 [a=2,b=8,c=8,d=3][e=3,f=3,d,g=4]->[a,b,c,g] stride 1,1");
  TorchCall adam = call("aten::_fused_adamw_", {{{}, {{8, 8}, {8}}, "TensorList"}});
  EXPECT_EQ(signature_of(adam, "multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>").substr(0, 22),
            "adam_update f32 [a=72]");
}

TEST(TorchOps, TellsTheGradientsOfAConvolutionByTheirKernels) {
  const TorchCall backward =
      call("aten::convolution_backward", {tensor({2, 4, 8, 8}), tensor({2, 3, 8, 8}), tensor({4, 3, 3, 3})},
           {"", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"});
  EXPECT_EQ(signature_of(backward, "cudnn_dgrad_engine").substr(0, 26), "convolution_backward_input");
  EXPECT_EQ(signature_of(backward, "cudnn_wgrad_engine").substr(0, 27), "convolution_backward_weight");
  EXPECT_EQ(signature_of(backward, "implicit_gemm"),
            "no row: gradients of convolutions whose kernels name neither dgrad nor wgrad");
}

// --- PyTorch's profiler ---

// Two products (one in two kernels), an op that is not known, a copy, and what stands in deviceProperties.
constexpr const char* kTrace = R"json({"schemaVersion": 1,
 "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
 "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4, "nccl_version": "2.21.5"},
 "traceEvents": [
 {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 7, "tid": 7, "ts": 100, "dur": 100,
   "args": {"External id": 1}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 110, "dur": 50, "args": {"External id": 2,
   "Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 120, "dur": 5,
   "args": {"correlation": 11}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 130, "dur": 5,
   "args": {"correlation": 12}},
 {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 3, "ts": 900, "dur": 30,
   "args": {"correlation": 11, "device": 0}},
 {"ph": "X", "cat": "kernel", "name": "splitK", "pid": 0, "tid": 3, "ts": 940, "dur": 10.5,
   "args": {"correlation": 12, "device": 0}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 300, "dur": 50, "args": {"External id": 3,
   "Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}},
 {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 3, "ts": 990, "dur": 60.5,
   "args": {"correlation": 13, "External id": 3, "device": 0}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::cumsum", "pid": 7, "tid": 7, "ts": 400, "dur": 50,
   "args": {"External id": 4}},
 {"ph": "X", "cat": "kernel", "name": "scan", "pid": 0, "tid": 3, "ts": 1100, "dur": 90,
   "args": {"External id": 4, "device": 0}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)",
                     "pid" : 0, "tid" : 3, "ts" : 1200, "dur" : 9, "args" : {
  "device" : 0
}
},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 9,
   "ts": 1300, "dur": 200,
   "args": {"device": 0, "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 4,
            "dtype": "Float", "Process Group Ranks": "[0, 1, 2, 3]"}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "pid": 0, "tid": 9, "ts": 1600, "dur": 50,
   "args": {"device": 0, "Collective name": "_allgather_base", "In msg nelems": 512, "Out msg nelems": 2048,
   "Group size": 4,
            "dtype": "BFloat16", "Process Group Ranks": "[0, 1, ...]", "Global rank start": 0, "Global rank stride": 1}}
 ]
})json";

TraceImport kineto(const std::string& text, int devices_per_host = 8) {
  return read_kineto_trace(unpacked(text, "t.json"), "t.json", devices_per_host);
}
std::string refusal_of_kineto(const std::string& text) {
  return refusal([&] { (void)kineto(text); });
}

TEST(KinetoTrace, GivesEachKernelToTheCallAroundItsLaunch) {
  const TraceImport trace = kineto(kTrace);
  ASSERT_EQ(trace.ops.size(), 1u);
  EXPECT_EQ(trace.ops[0].signature, "contract f32 [a=64,b=32][b,c=16]->[a,c]");
  EXPECT_EQ(trace.ops[0].time.samples, 2);
  EXPECT_NEAR(trace.ops[0].time.median.si(), 50.5e-6, 1e-12);  // of 40.5 and 60.5
  EXPECT_NEAR(trace.ops[0].time.spread.si(), 10e-6, 1e-12);
  EXPECT_EQ(trace.device, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(trace.libraries, "NCCL 2.21.5");
}

TEST(KinetoTrace, CountsWhatFindsNoRowByItsReason) {
  const TraceImport trace = kineto(kTrace);
  EXPECT_NEAR(trace.total().si(), 450e-6, 1e-12);
  EXPECT_NEAR(trace.found.time.si(), 351e-6, 1e-12);  // 101 of products, 250 of collectives
  ASSERT_EQ(trace.left_out.size(), 2u);
  EXPECT_NEAR(trace.left_out.at("aten::cumsum").time.si(), 90e-6, 1e-12);
  EXPECT_NEAR(trace.left_out.at("copies to and from the host").time.si(), 9e-6, 1e-12);
}

TEST(KinetoTrace, ReadsCollectivesWithTheirGroup) {
  const TraceImport trace = kineto(kTrace, 2);
  ASSERT_EQ(trace.collectives.size(), 2u);
  const CollectiveProfile &reduce = trace.collectives[0], &gather = trace.collectives[1];
  EXPECT_EQ(std::tuple(reduce.kind, reduce.ranks, reduce.hosts, reduce.size_bytes),
            std::tuple(CollectiveKind::AllReduce, 4, 2, 4096));
  EXPECT_EQ(std::tuple(gather.kind, gather.ranks, gather.hosts, gather.size_bytes),
            std::tuple(CollectiveKind::AllGather, 4, 2, 4096));
  EXPECT_NEAR(gather.time.median.si(), 50e-6, 1e-12);
}

TEST(KinetoTrace, NamesKernelsAsMeasuredKernelsDo) {
  const TraceImport trace = kineto(kTrace);
  ASSERT_EQ(trace.kernels.size(), 3u);
  const auto& product = std::get<ProductShape>(trace.kernels[0].kernel);
  EXPECT_EQ(std::tuple(product.m, product.n, product.k), std::tuple(64, 16, 32));
  EXPECT_EQ(trace.kernels[0].dtype, "f32");
}

TEST(KinetoTrace, MayBeTheEventsAlone) {
  const std::string whole = kTrace, from = "\"traceEvents\": ";
  const std::size_t begin = whole.find(from) + from.size();
  const TraceImport trace = kineto(whole.substr(begin, whole.rfind('}') - begin));
  ASSERT_EQ(trace.ops.size(), 1u);
  EXPECT_EQ(trace.ops[0].time.samples, 2);
  EXPECT_EQ(trace.collectives.size(), 2u);
}

TEST(KinetoTrace, RefusesWhatIsNoTrace) {
  EXPECT_TRUE(refusal_of_kineto("[1, 2]").starts_with("t.json: the file is JSON, but no trace"));
  EXPECT_TRUE(refusal_of_kineto("{}").starts_with("t.json: the file has no 'traceEvents'"));
  EXPECT_TRUE(refusal_of_kineto(R"({"traceEvents": []})").find("has no kernel") != std::string::npos);
  const std::string text = kTrace;
  for (const std::size_t length : {text.size() - 2, text.size() / 2, std::size_t{40}})
    EXPECT_TRUE(refusal_of_kineto(text.substr(0, length)).find("not valid JSON") != std::string::npos) << length;
}

std::string with_duration(const char* duration) {
  return std::string(R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": )") + duration +
         R"(, "args": {}}]})";
}
TEST(KinetoTrace, RefusesTimesThatNoKernelTakes) {
  EXPECT_TRUE(refusal_of_kineto(with_duration("-1")).find("a duration of -1 microseconds") != std::string::npos);
  EXPECT_TRUE(refusal_of_kineto(with_duration("4e9")).find("check that the times are in microseconds") !=
              std::string::npos);
  EXPECT_TRUE(refusal_of_kineto(with_duration("\"long\"")).find("'dur' is no number") != std::string::npos);
}

TEST(KinetoTrace, RefusesEventsThatAreNestedWithoutEnd) {
  const std::string text = R"({"traceEvents": [{"args": )" + std::string(100, '[') + std::string(100, ']') + "}]}";
  EXPECT_TRUE(refusal_of_kineto(text).find("nested deeper than 16 levels") != std::string::npos);
  std::string calls = R"({"traceEvents": [)";
  for (int i = 0; i < 600; ++i)
    calls += fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "f", "ts": {}, "dur": {}}},)", i, 2000 - 2 * i);
  calls.back() = ']';
  EXPECT_TRUE(refusal_of_kineto(calls + "}").find("operators are nested deeper than 512") != std::string::npos);
}

TEST(KinetoTrace, SaysThatItMixesDevices) {
  std::string text = kTrace;
  text.replace(text.find("[{\"id\": 0"), 9, "[{\"id\": 1, \"name\": \"NVIDIA H200\"}, {\"id\": 0");
  EXPECT_EQ(kineto(text).device, "NVIDIA A100-SXM4-80GB");  // device 1 ran nothing
  text.replace(text.find("\"device\": 0"), 11, "\"device\": 1");
  EXPECT_TRUE(refusal_of_kineto(text).find("mixes different devices (NVIDIA A100-SXM4-80GB and NVIDIA H200)") !=
              std::string::npos);
}

// --- the prices that a database of a trace gives ---

TEST(TraceProfile, PricesItsOpsAsItsRowsSay) {
  const std::string path = testing::TempDir() + "traces_test_" + std::to_string(getpid()) + ".db";
  std::filesystem::remove(path);
  const TraceImport trace = kineto(kTrace);
  Cluster cluster = find_cluster("dgx-a100:1");
  {
    ProfileDb db(path, ProfileDb::Mode::ReadWrite);
    const auto id = db.add_session({trace.device, "h", "l", "d", "c", cluster});
    for (const OpProfile& op : trace.ops) db.put(id, op);
    for (const CollectiveProfile& collective : trace.collectives) db.put(id, collective);
  }
  const ProfileDb db(path, ProfileDb::Mode::ReadOnly);
  const auto model = make_profiled_cost_model(cluster, db);
  const OpProfile& op = trace.ops[0];
  const OpWork work{OpKind::Contract, DType::F32, Flops(op.flops), Bytes(op.bytes), op.signature};
  EXPECT_EQ(model->compute(work).basis, Basis::Measured);
  EXPECT_DOUBLE_EQ(model->compute(work).time.si(), op.time.median.si());
  // Twice the work of the same kind takes twice as long, by the rate of the row.
  const OpWork twice{OpKind::Contract, DType::F32, Flops(2 * op.flops), Bytes(op.bytes),
                     "contract f32 [a=128,b=32][b,c=16]->[a,c]"};
  EXPECT_NEAR(model->compute(twice).time.si(), 2 * op.time.median.si(), 1e-12);
  // The same product in the shape that a model has it.
  EXPECT_DOUBLE_EQ(model
                       ->compute({OpKind::Contract, DType::F32, Flops(op.flops), Bytes(op.bytes),
                                  "contract f32 [a=2,b=32,c=32][c,d=16]->[a,b,d]"})
                       .time.si(),
                   op.time.median.si());
  MeshAxis axis;
  axis.inner = 4;
  axis.outer = 1;
  EXPECT_DOUBLE_EQ(model->collective(CollectiveKind::AllReduce, Bytes(4096), axis).time.si(), 200e-6);
  std::filesystem::remove(path);
}

TEST(TraceProfile, ItsKernelsAreWhatSoftwareIsPricedBy) {
  std::vector<KernelRow> rows = kineto(kTrace).kernels;
  for (KernelRow& row : rows) row.device = "A100-SXM4-80GB";
  const MeasuredKernels measured(rows);
  const DataSheet& sheet = *find_data_sheet("A100-SXM4-80GB");
  const auto product =
      measured.product(sheet, "f32", {1, 64, 16, 32, Bytes(4.0), Bytes(4.0)}, *modelled_time(rows.front()));
  EXPECT_EQ(product.basis, Basis::Measured);
  EXPECT_NEAR(product.time.si(), 50.5e-6, 1e-12);
}

// --- nccl-tests ---

std::string log_of(const std::string& rows, const char* program = "# Collective test starting: all_reduce_perf\n") {
  std::string text = program;
  text += "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n# Using devices\n";
  for (int rank = 0; rank < 4; ++rank)
    text += fmt::format("#  Rank {:2} Group  0 Pid   {} on   node-{} device  {} [0x8d] NVIDIA H100 80GB HBM3\n", rank,
                        100 + rank, rank / 2, rank % 2);
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
      "#wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  "
      "(GB/s)\n";
  return text + rows;
}
std::string refusal_of_log(const std::string& text) {
  return refusal([&] { (void)read_nccl_tests(text, "run.log"); });
}
constexpr const char* kReduceRow =
    "  1000000  250000     float     sum      -1   100.0   10.00   15.00       0   110.0   9.09   13.64       0\n";

TEST(NcclTests, ReadsATableWithItsRanksAndHosts) {
  const TraceImport log = read_nccl_tests(log_of(kReduceRow), "run.log");
  ASSERT_EQ(log.collectives.size(), 1u);
  const CollectiveProfile& row = log.collectives[0];
  EXPECT_EQ(std::tuple(row.kind, row.ranks, row.hosts, row.size_bytes),
            std::tuple(CollectiveKind::AllReduce, 4, 2, 1000000));
  EXPECT_NEAR(row.time.median.si(), 100e-6, 1e-12);
  EXPECT_EQ(log.device, "NVIDIA H100 80GB HBM3");
  EXPECT_NEAR(log.left_out.at("the same in place").time.si(), 110e-6, 1e-12);
}

TEST(NcclTests, TellsTheCollectiveByItsProgramOrItsBandwidths) {
  const char* scatter =
      "  1000000  250000     float     sum      -1   100.0   10.00   7.50       0   100.0   10.00   7.50       0\n";
  EXPECT_EQ(read_nccl_tests(log_of(scatter, ""), "x.log").collectives[0].kind, CollectiveKind::ReduceScatter);
  EXPECT_EQ(read_nccl_tests(log_of(kReduceRow, ""), "x.log").collectives[0].kind, CollectiveKind::AllReduce);
  const char* gather =
      "  1000000  250000     float    none      -1   100.0   10.00   7.50       0   100.0   10.00   7.50       0\n";
  EXPECT_EQ(read_nccl_tests(log_of(gather, ""), "dir/all_gather_perf.log").collectives[0].kind,
            CollectiveKind::AllGather);
  EXPECT_EQ(read_nccl_tests(log_of(gather, "$ mpirun ./alltoall_perf -b 8\n"), "x.log").collectives[0].kind,
            CollectiveKind::AllToAll);
  EXPECT_TRUE(refusal_of_log(log_of(gather, "")).starts_with("run.log:9: nothing says which collective"));
}

TEST(NcclTests, ReadsThroughTheTagsOfLaunchers) {
  std::string tagged;
  for (const std::string& line : {std::string(kReduceRow)}) tagged += "[1,0]<stdout>:" + line;
  EXPECT_EQ(read_nccl_tests(log_of(tagged), "run.log").collectives.size(), 1u);
}

// -S adds a column of dates, each of two words.
TEST(NcclTests, ReadsRowsWithTheTimeOfDay) {
  std::string dated = log_of(kReduceRow);
  dated.insert(dated.find("#wrong\n") + 6, "            timestamp");
  dated.insert(dated.find("GB/s)\n", dated.find("(B)")) + 5, " %Y-%m-%d %H:%M:%S");
  dated.insert(dated.size() - 1, " 2026-01-02 12:00:00");
  EXPECT_NEAR(read_nccl_tests(dated, "run.log").collectives.at(0).time.median.si(), 100e-6, 1e-12);
}

TEST(NcclTests, NamesItsReleaseWholeAlsoBehindATag) {
  const std::string version = "# nccl-tests version 2.18.2 nccl-headers=23007 nccl-library=23007";
  for (const char* tag : {"", "[1,0]<stdout>:", " 0: "})
    EXPECT_EQ(read_nccl_tests(tag + version + " \n" + log_of(kReduceRow), "run.log").libraries, version.substr(2));
}

TEST(NcclTests, OfCollectivesThatNoPlanHasSaysWhatToMeasure) {
  const char* row =
      "  1000000  250000     float    none       0   100.0   10.00  10.00       0   100.0   10.00  10.00       0\n";
  EXPECT_TRUE(refusal_of_log(log_of(row, "# Collective test starting: broadcast_perf\n"))
                  .ends_with("measure one of all_reduce, all_gather, reduce_scatter and alltoall."));
}

TEST(NcclTests, RefusesNumbersThatContradictEachOther) {
  EXPECT_NE(refusal_of_log(log_of("  1000000  250000  float  sum  -1  0.1  10.00  15.00  0  0.1  10.0  15.0  0\n"))
                .find("check the units of the table"),
            std::string::npos);
  EXPECT_NE(refusal_of_log(log_of("  1000000  250000  float  sum  -1  100.0  10.00  18.00  0  100.0  10.0  15.0  0\n"))
                .find("is none of an all-reduce of 4 ranks"),
            std::string::npos);
  EXPECT_NE(refusal_of_log(log_of("  1000000  250000  float  sum  -1  100.0\n")), "");
  EXPECT_NE(refusal_of_log("# nThread 1\n").find("has no row of a table"), std::string::npos);
}

// --- Chakra ---

std::string chakra_trace() {
  return message(block(1, "0.0.4")) +
         node(1, "## process_group:init ##", 1, 0,
              flag("is_cpu_op", true) +
                  io(R"(['[{"pg_name": "0", "ranks": [0, 1, 2, 3], "group_size": 4}]'])", "[[]]", "['String']")) +
         node(2, "aten::mm(0)", 4, 500,
              flag("is_cpu_op", true) +
                  io("[[1, 2], [3, 4]]", "[[64, 32], [32, 16]]", "['Tensor(float)', 'Tensor(float)']")) +
         node(3, "gemm", 4, 40, flag("is_cpu_op", false) + block(4, varint(2))) +
         node(4, "Memcpy DtoD (Device -> Device)", 4, 8, flag("is_cpu_op", false)) +
         node(5, "ncclDevKernel_AllGather", 7, 30,
              flag("is_cpu_op", false) + attribute("comm_type", 2) + attribute("comm_size", 1024) +
                  block(10, block(1, "pg_name") + block(29, "0")));
}

TEST(ChakraTrace, ReadsNodesOfTheDevice) {
  ASSERT_TRUE(is_chakra_trace(chakra_trace()));
  const TraceImport trace = read_chakra_trace(chakra_trace(), "t.et", 8);
  ASSERT_EQ(trace.ops.size(), 1u);
  EXPECT_EQ(trace.ops[0].signature, "contract f32 [a=64,b=32][b,c=16]->[a,c]");
  EXPECT_NEAR(trace.ops[0].time.median.si(), 40e-6, 1e-12);
  ASSERT_EQ(trace.collectives.size(), 1u);
  EXPECT_EQ(std::tuple(trace.collectives[0].ranks, trace.collectives[0].hosts, trace.collectives[0].size_bytes),
            std::tuple(4, 1, 4096));
  EXPECT_NEAR(trace.total().si(), 78e-6, 1e-12);
  EXPECT_NEAR(trace.left_out.at("copies within the device").time.si(), 8e-6, 1e-12);
}

// The schema leaves to the writer in which of its types an integer is: 15 and 17 are zigzag, 21 is fixed.
TEST(ChakraTrace, ReadsIntegersOfAllTypes) {
  const auto zigzag = [](const char* name, std::uint64_t value) {
    return block(10, block(1, name) + number(17, 2 * value));
  };
  const std::string fixed = "\xa9\x01" + std::string("\x00\x08\x00\x00\x00\x00\x00\x00", 8);  // field 21: 2048
  const std::string bytes =
      message(block(1, "0.0.4")) +
      node(1, "## process_group:init ##", 1, 0,
           flag("is_cpu_op", true) +
               io(R"(['[{"pg_name": "7", "pg_desc": "tp\'s", "ranks": [0, 8], "group_size": 2}]'])", "[[]]",
                  "['String']")) +
      node(2, "ncclDevKernel_ReduceScatter", 7, 30,
           flag("is_cpu_op", false) + zigzag("comm_type", 7) + block(10, block(1, "comm_size") + fixed) +
               block(10, block(1, "pg_name") + block(29, "7")) + io("[[1]]", "[[1024]]", "['Tensor(c10::BFloat16)']"));
  const TraceImport trace = read_chakra_trace(bytes, "t.et", 8);
  ASSERT_EQ(trace.collectives.size(), 1u);
  EXPECT_EQ(trace.collectives[0].kind, CollectiveKind::ReduceScatter);
  EXPECT_EQ(std::tuple(trace.collectives[0].ranks, trace.collectives[0].hosts, trace.collectives[0].size_bytes),
            std::tuple(2, 2, 2048));
  ASSERT_EQ(trace.kernels.size(), 1u);
  EXPECT_EQ(trace.kernels[0].dtype, "bf16");
}

// proto3 writes nothing of a message without values.
TEST(ChakraTrace, TakesMetadataWithoutValues) {
  const std::string bytes = chakra_trace(), nodes = bytes.substr(1 + static_cast<std::size_t>(bytes[0]));
  ASSERT_TRUE(is_chakra_trace(message("") + nodes));
  EXPECT_EQ(read_chakra_trace(message("") + nodes, "t.et", 8).ops.size(), 1u);
  EXPECT_FALSE(is_chakra_trace(std::string(64, '\0')));
}

// proto3 leaves out a number of 0, too: then a node begins with its name, field 2, and so may metadata.
TEST(ChakraTrace, BeginsWithANumberOrAName) {
  const std::string name = block(2, "x"), other = block(3, "x");
  EXPECT_TRUE(is_chakra_trace(message("") + message(name)));
  EXPECT_FALSE(is_chakra_trace(message("") + message(other)));
  EXPECT_TRUE(is_chakra_trace(message(name)));
  EXPECT_FALSE(is_chakra_trace(message(other)));
}

constexpr const char* kChakraJson = R"json({ "version": "0.0.4" }
{ "id": "2", "name": "aten::mm", "type": "COMP_NODE", "durationMicros": "500",
  "inputs": { "values": "[[1, 2], [3, 4]]", "shapes": "[[64, 32], [32, 16]]",
              "types": "['Tensor(float)', 'Tensor(float)']" },
  "attr": [ { "name": "is_cpu_op", "boolVal": true } ] }
{ "id": "3", "name": "gemm \"}\"", "type": "COMP_NODE", "ctrlDeps": [ "2" ], "durationMicros": "40",
  "attr": [ { "name": "is_cpu_op", "boolVal": false } ] }
)json";

TEST(ChakraJson, IsTheSameTrace) {
  ASSERT_TRUE(is_chakra_json(kChakraJson));
  const TraceImport trace = read_chakra_trace(chakra_from_json(kChakraJson, "t.json"), "t.json", 8);
  ASSERT_EQ(trace.ops.size(), 1u);
  EXPECT_EQ(trace.ops[0].signature, "contract f32 [a=64,b=32][b,c=16]->[a,c]");
  EXPECT_NEAR(trace.ops[0].time.median.si(), 40e-6, 1e-12);
}

TEST(ChakraJson, RefusesObjectsThatAreNotWhole) {
  const auto refusal_of = [](const std::string& text) {
    return refusal([&] { (void)chakra_from_json(text, "t.json"); });
  };
  const std::string text = kChakraJson;
  EXPECT_EQ(refusal_of(text.substr(0, text.size() - 4)),
            "t.json: object 3 is not whole; check that the file is complete.");
  EXPECT_NE(refusal_of("{} { \"id\": [] }").find("t.json: object 2: a list of 0 is no whole number"),
            std::string::npos);
}

TEST(ChakraJson, NamesWhatHasNoTimesOfKernels) {
  const auto refusal_of = [](const std::string& text) {
    EXPECT_TRUE(is_chakra_json(text));
    return refusal([&] { (void)chakra_from_json(text, "t.json"); });
  };
  EXPECT_NE(refusal_of(R"({"workload_graph": [{"Id": 1, "Name": "aten::mm", "NodeType": 4, "runtime": 3}]})")
                .find("Chakra's feeder names no operands"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "start_ts": 5, "nodes": []})")
                .find("of the host has no times of kernels"),
            std::string::npos);
}

TEST(ChakraTrace, EveryCutIsReadOrRefused) {
  const std::string whole = chakra_trace();
  int refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) try {
      (void)read_chakra_trace(whole.substr(0, length), "t.et", 8);
    } catch (const InputError&) {
      ++refused;
    }
  EXPECT_GT(refused, static_cast<int>(whole.size()) / 2);
}

TEST(ChakraTrace, EveryChangedByteIsReadOrRefused) {
  std::string bytes = chakra_trace();
  for (char& byte : bytes)
    for (const int change : {1, 0x80}) {
      const char before = byte;
      byte = static_cast<char>(byte ^ change);
      try {
        (void)read_chakra_trace(bytes, "t.et", 8);
      } catch (const InputError&) {
      }
      byte = before;
    }
}

}  // namespace
}  // namespace meshwright::traces_test
