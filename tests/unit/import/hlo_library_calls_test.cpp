// SPDX-License-Identifier: Apache-2.0
// Modules behind XLA's GPU compiler, which calls NVIDIA's libraries for products, convolutions and attention.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/import/model_file.h"
#include "core/graph/import/xla/hlo_text.h"
#include "core/graph/import/xla/xla_summary.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_parts.h"

namespace meshwright::hlo_library_calls_test {
namespace {

Graph graph_of(const std::string& text) {
  return build_forward_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 6, .microbatches = 2});
}

std::string gemm(const std::string& more, const std::string& epilogue,
                 const std::string& target = "__cublas$lt$matmul") {
  return R"(custom_call_target=")" + target +
         R"(", backend_config={"operation_queue_id":"0","gemm_backend_config":{"alpha_real":1,"alpha_imag":0,)" + more +
         R"("dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],)"
         R"("lhs_batch_dimensions":[],"rhs_batch_dimensions":[]},"epilogue":")" +
         epilogue + R"("}})";
}

std::string layers(const std::string& first, const std::string& operands = "x, w, b") {
  return R"(HloModule m

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,16] parameter(1)
  b = f32[16] parameter(2)
  v = f32[16,8] parameter(3)
  one = (f32[4,16], s8[1024]) custom-call()" +
         operands + "), " + first + R"(
  h = f32[4,16] get-tuple-element(one), index=0
  two = (f32[4,8], s8[1024]) custom-call(h, v), )" +
         gemm("\"beta\":0,", "DEFAULT", "__cublas$gemm") + R"(
  ROOT y = f32[4,8] get-tuple-element(two), index=0
})";
}

TEST(LibraryCalls, OfProductsAreProductsWithWhatIsBehindThem) {
  const Graph graph = graph_of(layers(gemm("\"beta\":0,", "BIAS_GELU")));
  EXPECT_EQ(parameter_count(graph), 8 * 16 + 16 + 16 * 8);
  EXPECT_EQ(ops_of(graph, OpKind::Contract), 2);
  EXPECT_EQ(ops_of(graph, OpKind::BiasAdd), 1);
  EXPECT_EQ(ops_of(graph, OpKind::Gelu), 1);
  // 3 samples in a micro-batch.
  EXPECT_EQ(graph_flops(graph).si(), 2 * 2 * 3 * 8 * 16);
  EXPECT_EQ(ops_of(graph_of(layers(gemm("\"beta\":0,", "BIAS_RELU"))), OpKind::Relu), 1);
}

// alpha x w + beta c.
TEST(LibraryCalls, OfProductsAreScaledAndAddedTo) {
  std::string text = layers(gemm("\"beta\":0.5,", "DEFAULT"), "x, w, c");
  text.replace(text.find("\"alpha_real\":1"), 14, "\"alpha_real\":2");
  text.replace(text.find("  one ="), 0, "  c = f32[4,16] parameter(4)\n");
  const Graph graph = graph_of(text);
  std::vector<double> scales;
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::Scale) scales.push_back(op.attributes.scale);
  EXPECT_EQ(scales, (std::vector<double>{2.0, 0.5}));
  EXPECT_EQ(ops_of(graph, OpKind::Add), 1);
}

TEST(LibraryCalls, AreCountedAsTheWorkTheyDo) {
  const xla::Program program = xla::read_hlo_text(layers(gemm("\"beta\":0,", "BIAS")), "m.hlo");
  EXPECT_EQ(xla::summary_of(program).dots, 2);
  EXPECT_EQ(xla::summary_of(program).dot_flops, 2.0 * 2 * 4 * 8 * 16);
}

// The configuration as a quoted text, as XLA printed it before 2023.
TEST(LibraryCalls, MayHoldTheirConfigurationAsText) {
  std::string text = layers(gemm("\"beta\":0,", "BIAS"));
  const std::size_t begin = text.find("backend_config={") + 15, end = text.find("}}\n", begin) + 2;
  std::string quoted = "\"";
  for (const char letter : text.substr(begin, end - begin)) quoted += letter == '"' ? "\\\"" : std::string(1, letter);
  text.replace(begin, end - begin, quoted + "\"");
  EXPECT_EQ(ops_of(graph_of(text), OpKind::Contract), 2);
}

TEST(LibraryCalls, OfConvolutionsAreConvolutions) {
  const Graph graph = graph_of(R"(HloModule m

ENTRY main {
  x = f32[4,6,6,3] parameter(0)
  w = f32[3,3,3,5] parameter(1)
  b = f32[5] parameter(2)
  c = (f32[4,6,6,5], u8[64]) custom-call(x, w, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, custom_call_target="__cudnn$convBiasActivationForward", backend_config={"cudnn_conv_backend_config":{"activation_mode":"kRelu","conv_result_scale":1,"side_input_scale":0}}
  ROOT y = f32[4,6,6,5] get-tuple-element(c), index=0
})");
  EXPECT_EQ(parameter_count(graph), 3 * 3 * 3 * 5 + 5);
  EXPECT_EQ(ops_of(graph, OpKind::Convolution), 1);
  EXPECT_EQ(ops_of(graph, OpKind::Relu), 1);
}

TEST(LibraryCalls, OfAttentionAreAttention) {
  const std::string product = ", lhs_contracting_dims={2}, rhs_contracting_dims={0}\n";
  std::string text = R"(HloModule m

ENTRY main {
  x = f32[4,8,32] parameter(0)
)";
  for (const std::string name : {"q", "k", "v"})
    text += "  w" + name + " = f32[32,32] parameter(" + std::to_string(1 + std::string("qkv").find(name)) + ")\n  p" +
            name + " = f32[4,8,32] dot(x, w" + name + ")" + product + "  " + name + " = f32[4,8,4,8] reshape(p" + name +
            ")\n";
  text +=
      R"(  a = (f32[4,8,4,8], u8[16]) custom-call(q, k, v), custom_call_target="__cudnn$fmhaSoftmax", backend_config={"cudnn_fmha_backend_config":{"fmha_scale":0.25,"mask_type":"CAUSAL","bmm1_dot_dimension_numbers":{"lhs_contracting_dimensions":["3"],"rhs_contracting_dimensions":["3"],"lhs_batch_dimensions":["0","2"],"rhs_batch_dimensions":["0","2"]}}}
  ROOT y = f32[4,8,4,8] get-tuple-element(a), index=0
})";
  const Graph graph = graph_of(text);
  ASSERT_EQ(ops_of(graph, OpKind::GroupedAttention), 1);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention) {
      EXPECT_TRUE(op.attributes.causal);
      EXPECT_EQ(op.attributes.scale, 0.25);
    }
}

TEST(LibraryCalls, WithoutAnEqualAreNamed) {
  const std::string text =
      refusal([] { (void)graph_of(layers(gemm("", "DEFAULT", "__cublas$lt$matmul$f8"), "x, w")); });
  EXPECT_NE(text.find("custom-call __cublas$lt$matmul$f8 (1)"), std::string::npos) << text;
  const std::string unknown = refusal([] { (void)graph_of(layers(gemm("", "SWISH"), "x, w")); });
  EXPECT_NE(unknown.find("custom-call __cublas$lt$matmul (1)"), std::string::npos) << unknown;
}

}  // namespace
}  // namespace meshwright::hlo_library_calls_test
