// SPDX-License-Identifier: Apache-2.0
// Calls of PyTorch at the edges of what finds a row: each condition by itself, and every place of an argument.
#include <gtest/gtest.h>

#include "costmodel/traces/chakra_json.h"
#include "costmodel/traces/kernel_table.h"
#include "costmodel/traces/nccl_tests.h"
#include "costmodel/traces/torch_ops.h"
#include "tests/refusal.h"

namespace meshwright::torch_calls_test {
namespace {

using Sizes = std::vector<std::int64_t>;

TorchOperand tensor(Sizes dims, const char* type = "c10::BFloat16") { return {std::move(dims), {}, type}; }
std::string said_of(const char* name, std::vector<TorchOperand> operands, std::vector<std::string> values = {},
                    const char* kernel = "") {
  const auto meaning = meaning_of({name, std::move(operands), std::move(values), true}, kernel);
  if (!meaning) return "unknown";
  if (const auto* none = std::get_if<NoRow>(&*meaning)) return "no row: " + none->reason;
  return std::get<TracedOp>(*meaning).work.signature;
}

// Heads first: 2 sequences of 64 queries and keys, 8 and 4 heads of width 16.
const Sizes kQ = {2, 8, 64, 16}, kKv = {2, 4, 64, 16};
std::string attention_of(const Sizes& q, const Sizes& k, const Sizes& v) {
  return said_of("aten::_scaled_dot_product_flash_attention", {tensor(q), tensor(k), tensor(v)},
                 {"", "", "", "0.", "True"});
}
constexpr const char* kAttention =
    "grouped_attention bf16 [a=2,b=64,c=4,d=2,e=16][a,f=64,c,e][a,f,c,e]->[a,b,c,d,e] causal";
constexpr const char* kAttentionBackward =
    "grouped_attention_backward bf16 [a=2,b=64,c=4,d=2,e=16][a,f=64,c,e][a,f,c,e][a,b,c,d,e]->[a,b,c,d,e][a,f,c,e]"
    "[a,f,c,e] causal";

// An argument at each place but `set`, which is `value`.
std::vector<std::string> values_with(std::size_t set, const char* value) {
  std::vector<std::string> values(20, "None");
  values[set] = value;
  return values;
}
std::string without_causal(std::string text) {
  if (const std::size_t at = text.find(" causal"); at != std::string::npos) text.resize(at);
  return text;
}

}  // namespace

TEST(TorchCalls, AttentionWhoseOperandsDoNotFitFindsNoRow) {
  EXPECT_EQ(attention_of(kQ, kKv, kKv), kAttention);
  const std::string none = "no row: attention of operands that do not fit";
  EXPECT_EQ(attention_of({2, 6, 64, 16}, kKv, kKv), none);            // heads that are no multiple
  EXPECT_EQ(attention_of(kQ, kKv, {2, 2, 64, 16}), none);             // of keys and of values
  EXPECT_EQ(attention_of(kQ, kKv, {2, 4, 32, 16}), none);             // fewer values than keys
  EXPECT_EQ(attention_of(kQ, {4, 4, 64, 16}, {4, 4, 64, 16}), none);  // other sequences
  EXPECT_EQ(attention_of(kQ, kKv, {4, 4, 64, 16}), none);             // of values alone
  EXPECT_EQ(attention_of(kQ, {2, 4, 64, 8}, kKv), none);              // another width
  EXPECT_EQ(attention_of({2, 8, 64}, kKv, kKv).find("no row"), 0U);
  // Values may be of another width, queries fewer than keys.
  EXPECT_EQ(attention_of({2, 8, 32, 16}, kKv, {2, 4, 64, 48}),
            "grouped_attention bf16 [a=2,b=32,c=4,d=2,e=16][a,f=64,c,e][a,f,c,g=48]->[a,b,c,d,g] causal");
}

TEST(TorchCalls, EveryAttentionHasItsMaskInItsPlace) {
  struct Place {
    const char* name;
    std::size_t q;     // operand
    bool heads_first;  // else queries first
    std::size_t mask;  // argument
    bool of_kinds, backward;
  };
  for (const Place& place : {Place{"aten::_scaled_dot_product_flash_attention", 0, true, 4, false, false},
                             {"aten::_flash_attention_forward", 0, false, 8, false, false},
                             {"aten::_scaled_dot_product_efficient_attention", 0, true, 6, false, false},
                             {"aten::_efficient_attention_forward", 0, false, 9, true, false},
                             {"aten::_scaled_dot_product_cudnn_attention", 0, true, 6, false, false},
                             {"aten::_cudnn_attention_forward", 0, true, 10, false, false},
                             {"FlashAttnFunc", 0, false, 5, false, false},
                             {"aten::_scaled_dot_product_flash_attention_backward", 1, true, 11, false, true},
                             {"aten::_flash_attention_backward", 1, false, 11, false, true},
                             {"aten::_scaled_dot_product_efficient_attention_backward", 1, true, 11, false, true},
                             {"aten::_efficient_attention_backward", 1, false, 14, true, true},
                             {"aten::_scaled_dot_product_cudnn_attention_backward", 1, true, 14, false, true},
                             {"flash_attn::_flash_attn_backward", 1, false, 11, false, true}}) {
    const Sizes q = place.heads_first ? kQ : Sizes{2, 64, 8, 16}, kv = place.heads_first ? kKv : Sizes{2, 64, 4, 16};
    std::vector<TorchOperand> operands;
    if (place.q == 1) operands.push_back(tensor(q));
    operands.insert(operands.end(), {tensor(q), tensor(kv), tensor(kv)});
    const std::string causal = place.backward ? kAttentionBackward : kAttention;
    EXPECT_EQ(said_of(place.name, operands, values_with(place.mask, place.of_kinds ? "1" : "True")), causal)
        << place.name;
    EXPECT_EQ(said_of(place.name, operands, values_with(place.mask, place.of_kinds ? "0" : "False")),
              without_causal(causal))
        << place.name;
  }
}

TEST(TorchCalls, AttentionOfUnequalLengthsOrWithAMaskOfItsOwnFindsNoRow) {
  const Sizes q = {2, 64, 8, 16}, kv = {2, 64, 4, 16};
  const TorchOperand absent = tensor({}, "");
  const auto said = [&](const TorchOperand& third, const TorchOperand& fourth) {
    return said_of("aten::_efficient_attention_forward", {tensor(q), tensor(kv), tensor(kv), third, fourth},
                   values_with(9, "1"));
  };
  EXPECT_EQ(said(absent, absent), kAttention);
  EXPECT_EQ(said(tensor({2, 8, 64, 64}), absent), "no row: attention with a mask of its own");
  EXPECT_EQ(said(absent, tensor({3}, "int")), "no row: attention over sequences of unequal lengths");
}

TEST(TorchCalls, RoundedProductsAreToldByEachOfTheNamesOfTheirKernels) {
  const auto type = [](const char* kernel, const char* operand) {
    const auto meaning =
        meaning_of({"aten::mm", {tensor({64, 32}, operand), tensor({32, 16}, operand)}, {}, true}, kernel);
    return std::get<TracedOp>(meaning.value()).kernel_dtype;
  };
  for (const char* rounded : {"xmma_gemm_f32f32_tf32f32", "cutlass_s1688gemm", "gemm_TF32"})
    EXPECT_EQ(type(rounded, "float"), "tf32") << rounded;
  EXPECT_EQ(type("sgemm", "float"), "f32");
  EXPECT_EQ(type("xmma_tf32", "c10::Half"), "f16");  // only products of 32 bits are rounded
}

TEST(TorchCalls, AProductOfTwoTypesFindsNoRow) {
  const std::string none = "no row: contract of operands that do not fit";
  EXPECT_EQ(said_of("aten::mm", {tensor({64, 32}), tensor({32, 16})}), "contract bf16 [a=64,b=32][b,c=16]->[a,c]");
  EXPECT_EQ(said_of("aten::mm", {tensor({64, 32}), tensor({32, 16}, "float")}), none);
  EXPECT_EQ(said_of("aten::addmm", {tensor({16}), tensor({64, 32}, "float"), tensor({32, 16})}), none);
  EXPECT_EQ(said_of("aten::bmm", {tensor({8, 64, 32}), tensor({8, 32, 16}, "float")}), none);
}

TEST(TorchCalls, ASoftmaxIsOverTheLastDimension) {
  const auto said = [](const char* dim) { return said_of("aten::_softmax", {tensor({4, 8, 16})}, {"", dim, "False"}); };
  EXPECT_EQ(said("2"), "softmax bf16 [a=32,b=16]->[a,b]");
  EXPECT_EQ(said("-1"), said("2"));
  for (const char* inner : {"1", "0", "3", "-2"})
    EXPECT_EQ(said(inner), "no row: aten::_softmax over an inner dimension");
  EXPECT_EQ(said_of("aten::_softmax_backward_data", {tensor({4, 16}), tensor({4, 16})}, {"", "", "1"}),
            "softmax_backward bf16 [a=4,b=16][a,b]->[a,b]");
}

TEST(TorchCalls, ABiasIsOfTheLastDimension) {
  EXPECT_EQ(said_of("aten::add", {tensor({8}), tensor({8})}), "add bf16 [a=8][a]->[a]");  // of a row alone it is a sum
  EXPECT_EQ(said_of("aten::add", {tensor({4, 8}), tensor({4})}), "no row: aten::add with broadcasting");
  const auto sum = [](const char* dims) { return said_of("aten::sum", {tensor({4, 2, 8})}, {"", dims, "False"}); };
  for (const char* other : {"[0]", "[1, 2]", "[0, 1, 2]", "[2]"})
    EXPECT_EQ(sum(other), "no row: sums over other dimensions than a bias's");
  EXPECT_EQ(said_of("aten::sum", {tensor({8})}, {"", "[]", "False"}),
            "no row: sums over other dimensions than a bias's");
  EXPECT_EQ(said_of("aten::sum", {tensor({2, 8})}, {"", "[0]", "False"}), "bias_gradient bf16 [a=2,b=8]->[b]");
}

TEST(TorchCalls, AScalarScales) {
  EXPECT_EQ(said_of("aten::mul", {tensor({4, 8}), tensor({})}), "scale bf16 [a=32]->[a]");  // a tensor of no dimension
  EXPECT_EQ(said_of("aten::mul", {tensor({}), tensor({})}), "multiply bf16 [a=1][a]->[a]");
  EXPECT_EQ(said_of("aten::mul", {tensor({4, 8}), tensor({4, 8})}), "multiply bf16 [a=32][a]->[a]");
}

TEST(TorchCalls, NormsAreOverOneDimension) {
  const Sizes x = {4, 8, 16};
  EXPECT_EQ(said_of("aten::native_layer_norm", {tensor(x), tensor({}, ""), tensor({16})}),
            "layer_norm bf16 [a=32,b=16][b][b]->[a,b]");
  EXPECT_EQ(said_of("aten::native_layer_norm", {tensor(x), tensor({}, ""), tensor({8, 16})}),
            "no row: norms over several dimensions");
  EXPECT_EQ(said_of("aten::_fused_rms_norm", {tensor(x), tensor({}, ""), tensor({16})}),
            "rms_norm bf16 [a=32,b=16][b]->[a,b]");
  for (const char* kernel : {"RmsGammaBeta", "x_gamma_beta", "GammaKernel"})
    EXPECT_EQ(said_of("aten::_fused_rms_norm_backward", {tensor(x), tensor(x)}, {}, kernel).substr(0, 23),
              "rms_norm_param_backward")
        << kernel;
  EXPECT_EQ(said_of("aten::_fused_rms_norm_backward", {tensor(x), tensor(x)}, {}, "of_x").substr(0, 17),
            "rms_norm_backward");
}

TEST(TorchCalls, EmbeddingsHaveAVocabulary) {
  const auto backward = [](const char* vocabulary) {
    return said_of("aten::embedding_dense_backward", {tensor({2, 4, 8}), tensor({2, 4}, "long int")},
                   {"", "", vocabulary});
  };
  EXPECT_EQ(backward("100"), "embedding_backward bf16 [a=8][a,b=8]->[c=100,b]");
  EXPECT_EQ(backward("1").find("embedding_backward"), 0U);
  EXPECT_EQ(backward("0"), "no row: embeddings of no vocabulary");
  EXPECT_EQ(backward("1099511627776").find("embedding_backward"), 0U);  // 2^40
  EXPECT_EQ(backward("1099511627777"), "no row: embeddings of no vocabulary");
}

TEST(TorchCalls, AConvolutionsSizesAndGroupsMustFit) {
  // 3 images in of 8 x 10, 4 filters of 3 x 5.
  const auto said = [](const char* stride, const char* padding, const char* dilation, const char* groups, Sizes x,
                       Sizes w) {
    return said_of("aten::conv2d", {tensor(std::move(x)), tensor(std::move(w))},
                   {"", "", "", stride, padding, dilation, groups});
  };
  const Sizes x = {2, 3, 8, 10}, w = {4, 3, 3, 5};
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[1, 1]", "1", x, w),
            "convolution bf16 [a=2,b=8,c=10,d=3][e=3,f=5,d,g=4]->[a,h=6,i=6,g] stride 1,1");
  // (8 + 2 - 3) / 2 + 1 = 4 rows; (10 + 0 - 5) / 3 + 1 = 2 columns.
  EXPECT_EQ(said("[2, 3]", "[1, 0]", "[1, 1]", "1", x, w),
            "convolution bf16 [a=2,b=8,c=10,d=3][e=3,f=5,d,g=4]->[a,h=4,i=2,g] stride 2,3");
  EXPECT_EQ(said("2", "0", "1", "1", x, w), said("[2, 2]", "[0, 0]", "[1, 1]", "1", x, w));
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[2, 1]", "1", x, w), "no row: dilated and transposed convolutions");
  const std::string none = "no row: convolutions of operands that do not fit";
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[1, 1]", "1", {2, 4, 8, 10}, w), none);  // other channels
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[1, 1]", "0", x, w), none);
  EXPECT_EQ(said("[0, 1]", "[0, 0]", "[1, 1]", "1", x, w), none);
  EXPECT_EQ(said("[1, 1]", "[-1, 0]", "[1, 1]", "1", x, w), none);
  EXPECT_NE(said("[1, 1]", "[1099511627776, 0]", "[1, 1]", "1", x, w), none);  // 2^40
  EXPECT_EQ(said("[1, 1]", "[1099511627777, 0]", "[1, 1]", "1", x, w), none);
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[1, 1]", "1", {2, 3, 2, 10}, w), none);             // fewer rows than the filter
  EXPECT_NE(said("[1, 1]", "[0, 0]", "[1, 1]", "1", {2, 3, 3, 10}, w), none);             // as many
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[1, 1]", "2", {2, 6, 8, 10}, {3, 3, 3, 5}), none);  // 3 filters in 2 groups
  EXPECT_EQ(said("[1, 1]", "[0, 0]", "[1, 1]", "2", {2, 6, 8, 10}, w).find("convolution bf16"), 0U);
}

TEST(TorchCalls, SizesEndAtWhatMemoryHolds) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto said = [](std::int64_t rows, std::int64_t columns) {
    return said_of("aten::relu", {tensor({rows, columns})}).substr(0, 6);
  };
  EXPECT_EQ(said(kMost, 1 << 10), "relu b");
  EXPECT_EQ(said(kMost, (1 << 10) + 1), "no row");
  EXPECT_EQ(said(kMost + 1, 1), "no row");
  EXPECT_EQ(said(1, 0), "no row");
}

TEST(TorchCalls, RefusesShapesThatNoMemoryHolds) {
  EXPECT_EQ(said_of("aten::mm", {tensor({1LL << 40, 1LL << 40}), tensor({1LL << 40, 4})}),
            "no row: tensors without elements");
  EXPECT_EQ(said_of("aten::mm", {tensor({-4, 8}), tensor({8, 4})}), "no row: tensors without elements");
  EXPECT_EQ(said_of("aten::mm", {tensor({4, 8}), tensor({6, 4})}), "no row: contract of operands that do not fit");
}

TEST(TorchCalls, AnUpdateIsOfTheElementsOfAllParameters) {
  const auto said = [](const char* type, const char* kernel) {
    return said_of("aten::_fused_adam_", {{{}, {{8, 8}, {8}}, type}}, {}, kernel).substr(0, 23);
  };
  EXPECT_EQ(said("float", ""), "adam_update f32 [a=72][");
  EXPECT_EQ(said("TensorList", "Fused<BFloat16>"), "adam_update bf16 [a=72]");
  EXPECT_EQ(said("TensorList", "Fused"), "no row: aten::_fused_ad");
}

TEST(KernelTable, ARowBecomesTheOpThatItMeasured) {
  const auto row = [](auto kernel, double microseconds, const char* dtype = "bf16") {
    KernelRow made;
    made.device = "A100-SXM4-80GB";
    made.dtype = dtype;
    made.library = "lib";
    made.kernel = kernel;
    made.time = Seconds(1e-6 * microseconds);
    return made;
  };
  AttentionShape attention;
  attention.batch = 2, attention.heads = 8, attention.kv_heads = 4, attention.queries = attention.keys = 64;
  attention.key_width = attention.value_width = 16, attention.causal = true;
  AttentionShape backward = attention;
  backward.backward = true, backward.causal = false;
  const TraceImport made = profile_of_kernels(
      {row(ProductShape{1, 64, 16, 32}, 3), row(ProductShape{4, 8, 6, 2}, 5), row(attention, 7), row(backward, 11),
       row(MeasuredCollective{CollectiveKind::AllGather, 8, 2, "", Bytes(4096)}, 13, "f32"),
       row(MeasuredPass{"gelu", Bytes(64)}, 17), row(ProductShape{1, 64, 16, 32}, 19, "f8")},
      "k.csv");
  std::map<std::string, double> times;
  for (const OpProfile& op : made.ops) times[op.signature] = 1e6 * op.time.median.si();
  ASSERT_EQ(times.size(), 4U);
  EXPECT_NEAR(times.at("contract bf16 [a=64,b=32][b,c=16]->[a,c]"), 3, 1e-9);
  EXPECT_NEAR(times.at("contract bf16 [a=4,b=8,c=2][a,c,d=6]->[a,b,d]"), 5, 1e-9);
  EXPECT_NEAR(times.at(kAttention), 7, 1e-9);
  EXPECT_NEAR(times.at(without_causal(kAttentionBackward)), 11, 1e-9);
  ASSERT_EQ(made.collectives.size(), 1U);
  EXPECT_EQ(std::tuple(made.collectives[0].ranks, made.collectives[0].hosts, made.collectives[0].size_bytes),
            std::tuple(8, 2, 4096));
  EXPECT_NEAR(made.left_out.at("kernels of eight bits").time.si(), 19e-6, 1e-15);
  EXPECT_NEAR(made.left_out.at("passes over memory, whose rows have no shape").time.si(), 17e-6, 1e-15);
  EXPECT_NEAR(made.total().si(), 75e-6, 1e-15);
  EXPECT_EQ(made.device, "A100-SXM4-80GB");

  KernelRow other = row(ProductShape{1, 64, 16, 32}, 3);
  other.device = "H200";
  EXPECT_NE(refusal([&] {
              (void)profile_of_kernels({row(ProductShape{1, 64, 16, 32}, 3), other}, "k.csv");
            }).find("the rows are of A100-SXM4-80GB, H200"),
            std::string::npos);
}

TEST(TraceRows, ADurationIsAtMostAnHour) {
  EXPECT_EQ(nanoseconds_of(0.0, "t"), 0);
  EXPECT_EQ(nanoseconds_of(1.5, "t"), 1500);
  EXPECT_EQ(nanoseconds_of(3600e6, "t"), 3600000000000);
  EXPECT_FALSE(refusal([] { (void)nanoseconds_of(3601e6, "t"); }).empty());
  EXPECT_FALSE(refusal([] { (void)nanoseconds_of(-1e-9, "t"); }).empty());
}

TEST(TraceFormats, AreToldByWhatOnlyTheyHold) {
  EXPECT_TRUE(is_nccl_tests("# nThread 1 nGpus 8"));
  EXPECT_TRUE(is_nccl_tests("# size time algbw busbw"));
  EXPECT_FALSE(is_nccl_tests("# size time algbw"));
  EXPECT_FALSE(is_nccl_tests("# size time busbw"));
  EXPECT_TRUE(is_chakra_json(R"({"durationMicros": 3})"));
  EXPECT_TRUE(is_chakra_json(R"({"ctrlDeps": []})"));
  EXPECT_TRUE(is_chakra_json(R"({"type": "COMP_NODE"})"));
  EXPECT_TRUE(is_chakra_json(R"({"workload_graph": []})"));
  EXPECT_TRUE(is_chakra_json(R"({"schema": "1.1.1-chakra.0.0.4", "start_ts": 1})"));
  EXPECT_FALSE(is_chakra_json(R"({"schema": "1.1.1-chakra.0.0.4"})"));
  EXPECT_FALSE(is_chakra_json(R"({"schema": "1", "start_ts": 1})"));
  EXPECT_FALSE(is_chakra_json(R"({"traceEvents": [], "durationMicros": 3})"));
  EXPECT_FALSE(is_chakra_json("{}"));
}

TEST(ChakraJson, BracesAndQuotesInsideATextDoNotCount) {
  // The second object's text holds a quote, a backslash and both braces.
  const std::string made = chakra_from_json(R"({} {"id": "1", "name": "} \" \\ {", "type": "COMP_NODE"} )", "c.json");
  EXPECT_NE(made.find("} \" \\ {"), std::string::npos);
  for (const char* text : {"{} }", R"({} {"id": 1)", "{} [{}]", "{} 1"})
    EXPECT_EQ(refusal([&] { return chakra_from_json(text, "c.json"); }),
              "c.json: object 2 is not whole; check that the file is complete.")
        << text;
}

}  // namespace meshwright::torch_calls_test
