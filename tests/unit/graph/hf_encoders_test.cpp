// SPDX-License-Identifier: Apache-2.0
// Encoders beside BERT's and T5's own, Gemma 3n, SigLIP 2 and Swin: the parameters of published models as
// transformers 5.24 counts them, what each adds to another family, refusals, and gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/errors.h"
#include "tests/hf_config_text.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_encoders_test {
namespace {

using namespace hf_config_text;

// 2 layers of 4 heads, with tables of 64 words, 10 positions and 2 types.
std::string encoder(const char* type, const std::string& more = "") {
  return std::string("\"model_type\": \"") + type +
         R"(", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 10, "type_vocab_size": 2)" +
         more;
}

std::string with(std::string text, const std::string& member, const std::string& other) {
  return text.replace(text.find(member), member.size(), other);
}

TEST(Encoders, HaveThePublishedParameters) {
  const std::string longformer =
      R"("model_type": "longformer", "attention_mode": "longformer", "attention_window": [)" + std::string("512") +
      [] {
        std::string more;
        for (int layer = 1; layer < 12; ++layer) more += ", 512";
        return more;
      }() +
      R"(], "vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
         "intermediate_size": 3072, "max_position_embeddings": 4098, "type_vocab_size": 1)";
  EXPECT_EQ(parameters_of(longformer), 148'711'257);
  EXPECT_EQ(read(longformer).seq, 4096);
  EXPECT_EQ(read(longformer).more.at("window"), 257);
  EXPECT_EQ(
      parameters_of(R"("model_type": "rembert", "vocab_size": 250300, "hidden_size": 1152, "num_hidden_layers": 32,
      "num_attention_heads": 18, "intermediate_size": 4608, "max_position_embeddings": 512)"),
      993'263'548);
  EXPECT_EQ(parameters_of(R"("model_type": "gte", "vocab_size": 250048, "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 8192)"),
            306'210'496);
  EXPECT_EQ(parameters_of(R"("model_type": "jina_embeddings_v3", "vocab_size": 250002, "hidden_size": 1024,
      "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 8194)"),
            559'616'146);
  EXPECT_EQ(parameters_of(R"("model_type": "roformer", "vocab_size": 50000, "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 1536)"),
            124'099'664);
  // Without the pooler, which no loss reads: 768 x 768 + 768 less than transformers counts.
  EXPECT_EQ(parameters_of(R"("model_type": "layoutlm", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512)"),
            113'250'618 - (768 * 768 + 768));
}

TEST(Encoders, AddToBertOrRoberta) {
  // A projection of queries, keys and values each with its bias, in both layers.
  EXPECT_EQ(parameters_of(encoder("longformer")) - parameters_of(encoder("roberta")), 2 * 3 * (32 * 32 + 32));
  EXPECT_EQ(parameters_of(encoder("ibert")), parameters_of(encoder("roberta")));
  EXPECT_EQ(
      parameters_of(encoder("layoutlm", R"(, "max_2d_position_embeddings": 20)")) - parameters_of(encoder("bert")),
      4 * 20 * 32);
  // Rotated heads have no table of positions; gates are one more matrix, and of the feed-forward biases one is left.
  EXPECT_EQ(parameters_of(encoder("roformer")) - parameters_of(encoder("bert")), -10 * 32);
  EXPECT_EQ(parameters_of(encoder("jina_embeddings_v3")), parameters_of(encoder("roformer")));
  EXPECT_EQ(parameters_of(encoder("gte")) - parameters_of(encoder("roformer")), 2 * (32 * 48 - 48));
  EXPECT_EQ(parameters_of(with(encoder("gte"), R"("type_vocab_size": 2)", R"("type_vocab_size": 0)")) -
                parameters_of(encoder("gte")),
            -2 * 32);
}

TEST(Encoders, RefuseWhatTheyLack) {
  EXPECT_TRUE(refused(encoder("longformer", R"(, "attention_window": [4, 8])"), "the same for each of the 2 layers"));
  EXPECT_TRUE(refused(encoder("longformer", R"(, "attention_window": 5)"), "'attention_window' is 5"));
  EXPECT_TRUE(refused(encoder("ibert", R"(, "quant_mode": true)"), "'quant_mode' is true"));
  EXPECT_TRUE(refused(encoder("roformer", R"(, "rotary_value": true)"), "'rotary_value' is true"));
  EXPECT_TRUE(refused(encoder("roformer", R"(, "embedding_size": 16)"), "'embedding_size' is 16"));
  EXPECT_TRUE(refused(encoder("rembert", R"(, "tie_word_embeddings": true)"), "'tie_word_embeddings' is true"));
  EXPECT_TRUE(refused(encoder("jina_embeddings_v3", R"(, "hidden_act": "gelu_new")"), "no exact GELU"));
}

// --- T5's like ---

const std::string kBase =
    R"("vocab_size": 32128, "d_model": 768, "d_kv": 64, "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12)";

TEST(LongT5, IsT5WithWindowsInItsEncoder) {
  const std::string text = R"("model_type": "longt5", "feed_forward_proj": "gated-gelu", "d_ff": 2048,
                              "encoder_attention_type": "local", "local_radius": 127, )" +
                           kBase;
  EXPECT_EQ(parameters_of(text), 222'903'552);
  EXPECT_EQ(parameters_of(text + R"(, "tie_word_embeddings": false)"), 222'903'552 + 32128 * 768);
  int windows = 0;
  const Graph graph = graph_of(text);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::GroupedAttention && op.attributes.attention_window == 128) ++windows;
  EXPECT_EQ(windows, 12);
  EXPECT_TRUE(
      refused("\"model_type\": \"longt5\", \"encoder_attention_type\": \"transient-global\", \"d_ff\": 8, " + kBase,
              "'encoder_attention_type' is \"transient-global\""));
}

// A file names no length of its own; whoever gives one gives that of both stacks.
TEST(T5, HasAsManyTokensInItsEncoderAsInItsDecoderUnlessToldOtherwise) {
  ModelConfig model = read(R"("model_type": "mt5", "feed_forward_proj": "gated-gelu", "d_ff": 2048, )" + kBase);
  const auto read_by_encoder = [&] {
    const Graph graph = build_forward_graph(model, TrainingOptions{.batch = 1});
    const auto tokens = std::find_if(graph.tensors().begin(), graph.tensors().end(),
                                     [](const Tensor& tensor) { return tensor.name == "tokens"; });
    return tokens->dims.at(1).size;
  };
  model.seq = 8;
  EXPECT_EQ(read_by_encoder(), 8);
  model = with_sizes(model, "encoder_seq=16", "here");
  EXPECT_EQ(read_by_encoder(), 16);
  model.seq = 4;
  EXPECT_EQ(read_by_encoder(), 16);
}

TEST(SwitchTransformers, HaveExpertsInEverySecondLayer) {
  const std::string text =
      R"("model_type": "switch_transformers", "d_ff": 3072, "num_experts": 8, "expert_capacity": 64,
         "num_sparse_encoder_layers": 6, "num_sparse_decoder_layers": 6, )" +
      kBase;
  EXPECT_EQ(parameters_of(text), 619'339'008);
  const Graph graph = graph_of(text);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::TopKSlots) {
      EXPECT_EQ(op.attributes.capacity, 64);
      EXPECT_EQ(op.attributes.top_k, 1);
    }
  EXPECT_TRUE(refused(text + R"(, "encoder_sparse_step": 3)", "'encoder_sparse_step' is 3"));
  EXPECT_TRUE(refused(with(text, R"("num_sparse_decoder_layers": 6)", R"("num_sparse_decoder_layers": 13)"),
                      "more than its 12 layers"));
}

// --- Gemma 3n ---

std::string gemma3n(int layers, int width, int shared, const std::string& more = "") {
  return fmt::format(
             R"("model_type": "gemma3n_text", "vocab_size": 262400, "hidden_size": 2048, "intermediate_size": {},
      "num_hidden_layers": {}, "num_attention_heads": 8, "num_key_value_heads": 2, "num_kv_shared_layers": {},
      "max_position_embeddings": 32768)",
             width, layers, shared) +
         more;
}

TEST(Gemma3n, HasThePublishedParameters) {
  EXPECT_EQ(parameters_of(gemma3n(35, 16384, 15)), 6'835'235'568);  // E4B
  EXPECT_EQ(parameters_of(gemma3n(30, 8192, 10)), 4'435'182'688);   // E2B
  const ModelConfig model = read(gemma3n(35, 16384, 15));
  EXPECT_EQ(model.more.at("sparse_layers"), 10);
  EXPECT_NEAR(model.factors.at("sparse_deviations"), 1.6448536269514722, 1e-14);  // of 95 %
}

TEST(Gemma3n, ReadsASparsityOfItsFirstLayers) {
  const auto sparse = [](const std::string& pattern) {
    return gemma3n(5, 64, 0, R"(, "activation_sparsity_pattern": [)" + pattern + "]");
  };
  EXPECT_EQ(read(sparse("0.6, 0.6, 0, 0, 0")).more.at("sparse_layers"), 2);
  EXPECT_EQ(read(sparse("0, 0, 0, 0, 0")).more.at("sparse_layers"), 0);
  for (const char* other : {"0.6, 0, 0.6, 0, 0", "0.6, 0.7, 0, 0, 0", "0, 0.6, 0, 0, 0", "0.6, 0"})
    EXPECT_TRUE(refused(sparse(other), "must be a list of 5 numbers")) << other;
  EXPECT_TRUE(refused(gemma3n(5, 64, 4), "'num_kv_shared_layers' is 4"));
  const std::string text =
      with(gemma3n(5, 64, 0), R"("intermediate_size": 64)", R"("intermediate_size": [8, 8, 8, 8, 16])");
  EXPECT_TRUE(refused(text, "'intermediate_size' differs from layer to layer"));
}

// --- images and experts ---

TEST(Siglip2, HasThePositionsOfASquareOfPatches) {
  const std::string text =
      R"("model_type": "siglip2", "text_config": {"vocab_size": 256000}, "vision_config": {"num_patches": )";
  EXPECT_EQ(parameters_of(text + "256}"), 375'234'050);
  EXPECT_EQ(read(text + "256}").more.at("image"), 256);
  EXPECT_TRUE(refused(text + "200}", "'num_patches' is 200"));
}

// As published for 1000 classes.
TEST(Swin, HasThePublishedParameters) {
  std::string labels = R"("id2label": {)";
  for (int label = 0; label < 1000; ++label) labels += fmt::format("{}\"{}\": \"\"", label == 0 ? "" : ", ", label);
  const std::string text = "\"model_type\": \"swin\", " + labels + "}";
  EXPECT_EQ(parameters_of(text), 28'288'354);
  // Every second of the 12 blocks is shifted, but none in the last stage, which is a single window. So 5 blocks roll
  // down and across, and back.
  const Graph graph = graph_of(text);
  const auto rolls =
      std::count_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Concat; });
  EXPECT_EQ(rolls, 5 * 4);
  EXPECT_TRUE(refused(text + R"(, "image_size": 256)", "stage 0 has 64 patches a side"));
  EXPECT_TRUE(refused(text + R"(, "use_absolute_embeddings": true)", "'use_absolute_embeddings' is true"));
  EXPECT_TRUE(refused(text + R"(, "mlp_ratio": 2.5)", "'mlp_ratio' is 2.5"));
}

TEST(DeepSeekOcr2, HasExpertsBehindADenseLayer) {
  const std::string text =
      R"("model_type": "deepseek_ocr2_text", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
         "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 8, "n_routed_experts": 4,
         "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1, "mlp_layer_types": ["dense", "sparse"])";
  const std::int64_t attention = 4 * 32 * 32 + 2 * 32, dense = 3 * 32 * 48, experts = (4 + 1) * 3 * 32 * 24 + 32 * 4;
  EXPECT_EQ(parameters_of(text), 2 * 64 * 32 + 32 + 2 * attention + dense + experts);
  EXPECT_TRUE(
      refused(text + R"(, "topk_method": "group_limited_greedy")", "'topk_method' is \"group_limited_greedy\""));
}

// --- gradients against finite differences ---

TEST(Encoders, HaveTheGradientsOfTheirLosses) {
  const std::string bert = "bert:layers=2,hidden=8,heads=2,seq=6,vocab=8,";
  expect_true_model_gradients(bert + "window=2,box_rows=6", {.batch = 2}, ".k.bias");
  expect_true_model_gradients(bert + "embed_width=4,head_width=6,tied=0", {.batch = 2}, ".k.bias");
  expect_true_model_gradients(
      "decoder:layers=2,hidden=8,heads=2,kv_heads=2,intermediate=8,seq=6,vocab=8,post_norm=1,mlp_out_bias=1,layer_norm="
      "1",
      {.batch = 2});
  const std::string t5 = "t5:layers=2,hidden=8,heads=2,intermediate=8,seq=6,vocab=8,";
  expect_true_model_gradients(t5 + "encoder_window=2", {.batch = 2});
  expect_true_model_gradients(t5 + "gated=0,erf=1,experts=2,expert_capacity=4,router_bias=1", {.batch = 2});
  expect_true_model_gradients(
      "gemma4:layers=2,hidden=8,heads=2,kv_heads=1,head_dim=4,intermediate=8,seq=6,vocab=8,layer_embed=4,full_every=2,"
      "window=3,streams=3,laurel_rank=2,sparse_layers=1,sparse_deviations=0.25",
      {.batch = 2});
  expect_true_model_gradients(
      "swin:image=16,patch=1,window=2,classes=4,width=4,depth_0=2,depth_1=1,depth_2=1,depth_3=1,heads_0=2,heads_1=2,"
      "heads_2=2,heads_3=2,widen=2",
      {.batch = 2}, ".k.bias");
}

}  // namespace
}  // namespace meshwright::hf_encoders_test
