// SPDX-License-Identifier: Apache-2.0
#include "costmodel/terms/op_shapes.h"

#include <gtest/gtest.h>

#include "core/graph/autodiff.h"
#include "core/graph/import/find_model.h"
#include "core/sharding/cost_model.h"

namespace meshwright::op_shapes_test {

namespace {

std::optional<ProductShape> product(std::string_view text) {
  const auto signature = parse_signature(text);
  return signature ? product_of(*signature) : std::nullopt;
}

TEST(OpShapes, AxesAreSmallLettersWithTheirSizeWhereTheyAppearFirst) {
  EXPECT_TRUE(parse_signature("contract f32 [a=2,z=3][z]->[a]").has_value());
  for (const char* text :
       {"contract f32 [A=2,z=3][z]->[A]", "contract f32 [1=2]->[1]", "contract f32 [{=2]->[{]",
        "contract f32 [`=2]->[`]", "contract f32 [a]->[a]", "contract f32 [a=0]->[a]", "contract f32 [a=2",
        "contract f32 [a=2,]->[a]", "contract f32 [a=2]->[b]", "contract f32 [a=2]->", "contract f32 [a=2][a]",
        "contract f32 [a=2]->[a]x", " f32 [a=2]->[a]"})
    EXPECT_FALSE(parse_signature(text).has_value()) << text;
}

TEST(OpShapes, AProductHasTwoOperandsAndOneResult) {
  const auto is_product = [](const char* text) { return product_of(parse_signature(text).value()).has_value(); };
  EXPECT_TRUE(is_product("contract f32 [a=2,b=3][b,c=4]->[a,c]"));
  EXPECT_FALSE(is_product("add f32 [a=2,b=3][b,c=4]->[a,c]"));
  EXPECT_FALSE(is_product("contract f32 [a=2,b=3]->[a,b]"));
  EXPECT_FALSE(is_product("contract f32 [a=2,b=3][b,c=4][c]->[a,c]"));
  EXPECT_FALSE(is_product("contract f32 [a=2,b=3][b,c=4]->[a,c][a,c]"));
  EXPECT_FALSE(is_product("contract f32 [a=2,b=3][b,c=4]->[a]"));  // a sum over c as well
}

}  // namespace

TEST(OpShapes, AProductHasItsBatchRowsColumnsAndDepth) {
  const auto shape = product("contract bf16 [a=2,b=2048,c=1024][c,d=3,e=16,f=64]->[a,b,d,e,f]");
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->batch, 1);
  EXPECT_EQ(shape->m, 2 * 2048);
  EXPECT_EQ(shape->n, 3 * 16 * 64);
  EXPECT_EQ(shape->k, 1024);
  EXPECT_EQ(shape->operand_element.si(), 2);
}

TEST(OpShapes, ExpertsAreABatchAndAGradientMayBeWider) {
  const auto shape = product("contract f16 [a=8,b=100,c=32][a,b,d=64]->[a,c,d]:f32");
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->batch, 8);
  EXPECT_EQ(shape->m, 32);
  EXPECT_EQ(shape->n, 64);
  EXPECT_EQ(shape->k, 100);
  EXPECT_EQ(shape->result_element.si(), 4);
}

TEST(OpShapes, AttentionReadsItsHeadsFromEitherLayout) {
  const auto packed =
      attention_of(*parse_signature("attention_backward bf16 [a=2,b=2048,c=3,d=16,e=64][a,b,d,e]->[a,b,c,d,e]"));
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->heads, 16);
  EXPECT_EQ(packed->queries, 2048);
  EXPECT_TRUE(packed->backward && packed->causal);
  const auto grouped = attention_of(*parse_signature(
      "grouped_attention bf16 [a=2,b=512,c=4,d=8,e=64][a,f=2048,c,e][a,f,c,g=32]->[a,b,c,d,g] causal"));
  ASSERT_TRUE(grouped);
  EXPECT_EQ(grouped->heads, 32);
  EXPECT_EQ(grouped->kv_heads, 4);
  EXPECT_EQ(grouped->keys, 2048);
  EXPECT_EQ(grouped->value_width, 32);
  const auto window = attention_of(*parse_signature(
      "grouped_attention bf16 [a=2,b=2048,c=4,d=8,e=64][a,f=2048,c,e][a,f,c,e]->[a,b,c,d,e] causal window 128"));
  EXPECT_EQ(window->keys, 128);
  EXPECT_FALSE(window->causal);
  // On both sides, the query's own position once: 127 + 1 + 127; where there are fewer keys, these.
  const auto keys_of_both_ways = [](const char* keys) {
    return attention_of(
               *parse_signature(fmt::format(
                   "grouped_attention bf16 [a=2,b={0},c=4,d=8,e=64][a,f={0},c,e][a,f,c,e]->[a,b,c,d,e] window 128",
                   keys)))
        ->keys;
  };
  EXPECT_EQ(keys_of_both_ways("2048"), 255);
  EXPECT_EQ(keys_of_both_ways("200"), 200);
}

TEST(OpShapes, WhatIsNoSignatureHasNoShape) {
  for (const char* text : {"", "contract", "contract bf16 ", "contract bf16 [a=2", "contract bf16 [a=2][a]",
                           "x f32 [a=0]->[a]", "x f32 [a=2]->[b]", "x f32 [a=2]->[a]x"})
    EXPECT_FALSE(parse_signature(text)) << text;
  EXPECT_FALSE(product("contract bf16 [a=2,b=3][c=4]->[a,c]"));  // b is summed alone
  EXPECT_FALSE(product("add bf16 [a=2][a]->[a]"));
}

// The signatures that graphs really have give back the flops that the graphs count.
TEST(OpShapes, AgreeWithTheFlopsOfEveryOpOfTheBuiltInModels) {
  for (const char* model :
       {"gpt:layers=1,hidden=64,heads=4,seq=256,vocab=128",
        "llama:layers=1,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=256,vocab=128",
        "mixtral:layers=1,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=256,vocab=128,experts=4,top_k=2"}) {
    TrainingOptions training;
    training.batch = 8;
    training.microbatches = 2;
    const Graph graph = build_training_graph(find_model(model), training);
    int products = 0, attentions = 0;
    for (const Op& op : graph.ops()) {
      std::vector<std::int64_t> sizes;
      for (const IterationAxis& axis : iteration_space(graph, op).axes) sizes.push_back(axis.size);
      const OpWork work = op_work(graph, op, sizes);
      const auto signature = parse_signature(work.signature);
      ASSERT_TRUE(signature) << work.signature;
      if (op.kind == OpKind::Contract) {
        const auto shape = product_of(*signature);
        ASSERT_TRUE(shape) << work.signature;
        EXPECT_EQ(shape->flops().si(), work.flops.si()) << work.signature;
        ++products;
      }
      attentions += attention_of(*signature) ? 1 : 0;
    }
    EXPECT_GE(products, 12);
    EXPECT_EQ(attentions, 2);
  }
}

}  // namespace meshwright::op_shapes_test
