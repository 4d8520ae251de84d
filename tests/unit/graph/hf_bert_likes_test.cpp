// SPDX-License-Identifier: Apache-2.0
// DeBERTa, MobileBERT, FNet, BEiT, SegFormer, I-JEPA, Donut's Swin, LED, Laguna and models of BERT's and GPT-2's blocks
// under other names: the parameters of published models as transformers 5.24 counts them, how distances share rows,
// refusals, and gradients.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/hf_config_text.h"
#include "tests/model_gradients.h"

namespace meshwright::hf_bert_likes_test {
namespace {

using namespace hf_config_text;

std::string type(const char* name, const std::string& more) {
  return std::string("\"model_type\": \"") + name + "\", " + more;
}

const std::string kThousand = R"("num_labels": 1000)";

// --- DeBERTa ---

const std::string kBase = R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 0, "relative_attention": true,
    "position_biased_input": false)";
const std::string kV3 = R"("vocab_size": 128100, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
    "share_att_key": true, "pos_att_type": "p2c|c2p", "max_relative_positions": -1, )" +
                        kBase;

TEST(Deberta, HasThePublishedParameters) {
  EXPECT_EQ(parameters_of(type("deberta-v2", kV3)), 184'551'780);
  EXPECT_EQ(parameters_of(
                type("deberta", R"("vocab_size": 50265, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": -1,
      "padding_idx": 0, )" + kBase)),
            139'244'121);
  EXPECT_EQ(parameters_of(type("deberta-v2", R"("vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24,
      "num_attention_heads": 24, "intermediate_size": 6144, "max_position_embeddings": 512, "type_vocab_size": 0,
      "relative_attention": true, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": true,
      "pos_att_type": "p2c|c2p", "position_biased_input": false, "conv_kernel_size": 3, "conv_act": "gelu")")),
            887'085'156);
}

// The row that each key's pair with the query has, in the query's stretch of the table of pairs.
std::vector<double> rows_of_query(const Graph& graph, std::int64_t query, std::int64_t distances) {
  for (const auto& [tensor, values] : graph.constants) {
    if (graph.tensor(tensor).name != "pairs.by_query") continue;
    const std::int64_t keys = graph.tensor(tensor).dims[1].size;
    std::vector<double> rows;
    for (std::int64_t key = 0; key < keys; ++key)
      rows.push_back((*values)[static_cast<std::size_t>(query * keys + key)] - static_cast<double>(query * distances));
    return rows;
  }
  return {};
}

TEST(Deberta, GivesFarWordsRowsByTheLogarithmOfTheirDistance) {
  // There are 8 buckets a side. Distances -4 to 4 have rows 8 - 4 to 8 + 4; distances 5 to 31 share rows 5 to 7.
  const std::string text = type("deberta-v2", R"("vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 32, "relative_attention": true,
      "position_buckets": 8, "pos_att_type": "c2p|p2c")");
  const std::vector<double> rows = rows_of_query(graph_of(text), 31, 16);
  ASSERT_EQ(rows.size(), 32u);
  for (std::int64_t key = 27; key < 32; ++key) EXPECT_EQ(rows[static_cast<std::size_t>(key)], 8 + 31 - key);
  // ceil(3 log(d / 4) / log(31 / 4)) + 4: of distance 5 and 7 it is 5, of 8 it is 6 (2.03 of log 2), of 16 and 31, 7.
  EXPECT_EQ(rows[26], 8 + 5);
  EXPECT_EQ(rows[24], 8 + 5);
  EXPECT_EQ(rows[23], 8 + 6);
  EXPECT_EQ(rows[0], 8 + 7);
  EXPECT_EQ(rows_of_query(graph_of(text), 0, 16)[31], 8 - 7);
}

TEST(Deberta, ReadsTheRowsThatItsSequenceHasAlone) {
  const std::string text = type("deberta", R"("vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 6, "relative_attention": true,
      "max_relative_positions": 16, "pos_att_type": "c2p")");
  // 2 x 6 of 2 x 16 rows, of which the middle two are the distances -1 and 0.
  EXPECT_EQ(rows_of_query(graph_of(text), 5, 12), (std::vector<double>{11, 10, 9, 8, 7, 6}));
  EXPECT_EQ(rows_of_query(graph_of(text), 0, 12), (std::vector<double>{6, 5, 4, 3, 2, 1}));
}

TEST(Deberta, RefusesWhatItLacks) {
  const auto changed = [](const std::string& more) { return type("deberta-v2", kV3 + ", " + more); };
  EXPECT_TRUE(refused(type("deberta-v2", kBase + R"(, "vocab_size": 64)"), "'pos_att_type' names no term"));
  EXPECT_TRUE(
      refused(type("deberta", kBase + R"(, "vocab_size": 64, "pos_att_type": "p2p")"), "'pos_att_type' has \"p2p\""));
  EXPECT_TRUE(refused(changed(R"("embedding_size": 128)"), "'embedding_size' is 128"));
  EXPECT_TRUE(
      refused(type("deberta-v2", kBase + R"(, "vocab_size": 64, "pos_att_type": "c2p", "norm_rel_ebd": "batch")"),
              "'norm_rel_ebd' is \"batch\""));
  EXPECT_TRUE(refused(changed(R"("conv_kernel_size": 2)"), "'conv_kernel_size' is 2"));
  EXPECT_TRUE(refused(changed(R"("conv_kernel_size": 3, "conv_groups": 2)"), "'conv_groups' is 2"));
  EXPECT_TRUE(refused(changed(R"("legacy": false)"), "'legacy' is false"));
  EXPECT_TRUE(refused(type("deberta", kV3 + R"(, "talking_head": true)"), "'talking_head' is true"));
}

TEST(Deberta, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients("deberta:layers=2,hidden=8,heads=2,seq=6,vocab=8,intermediate=8,buckets=4,conv=3",
                              {.batch = 2});
  expect_true_model_gradients(
      "deberta:layers=1,hidden=8,heads=2,seq=5,vocab=8,intermediate=8,shared_projections=0,key_bias=0,pos_k_bias=0,"
      "max_distance=3,relative_norm=0",
      {.batch = 2});
}

// --- images ---

TEST(Beit, HasThePublishedParameters) {
  const std::string beit =
      R"("use_relative_position_bias": true, "use_shared_relative_position_bias": false, )" + kThousand;
  EXPECT_EQ(parameters_of(type("beit", beit)), 86'530'984);
  EXPECT_EQ(parameters_of(type("data2vec-vision", beit)), 86'530'984);
  // 27 x 27 distances of patches and 3 of the class token, for 12 heads of 12 layers.
  EXPECT_EQ(parameters_of(type("beit", kThousand)), 86'530'984 - 12 * 12 * (27 * 27 + 3));
  EXPECT_TRUE(refused(type("beit", R"("num_channels": 1)"), "'num_channels' is 1"));
}

TEST(Beit, CountsDistancesDownAndAcross) {
  // 2 x 2 patches: 3 x 3 distances, then those from the class token, to it, and its own.
  const Graph graph = graph_of(type("beit", R"("image_size": 32, "hidden_size": 8, "num_attention_heads": 2,
      "num_hidden_layers": 1, "intermediate_size": 8, "use_relative_position_bias": true)"));
  std::vector<double> rows;
  for (const auto& [tensor, values] : graph.constants)
    if (graph.tensor(tensor).name == "distances") rows = *values;
  EXPECT_EQ(rows,
            (std::vector<double>{11, 9, 9, 9, 9, 10, 4, 3, 1, 0, 10, 5, 4, 2, 1, 10, 7, 6, 4, 3, 10, 8, 7, 5, 4}));
}

TEST(Beit, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients(
      "vit:layers=2,hidden=8,heads=2,image=4,patch=2,classes=4,relative_bias=3,key_bias=0,absolute=0,reads_patches=2,"
      "mean_norm=1,layer_scale=1",
      {.batch = 2});
}

TEST(Ijepa, HasThePublishedParameters) {
  EXPECT_EQ(parameters_of(type("ijepa", R"("hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16,
      "intermediate_size": 5120, "patch_size": 14, )" +
                                            kThousand)),
            632'043'240);
}

TEST(Segformer, HasThePublishedParameters) {
  EXPECT_EQ(parameters_of(type("segformer", kThousand)), 3'576'392);
  EXPECT_TRUE(refused(type("segformer", R"("strides": [4, 2, 2, 1])"), "'strides' are not [4,2,2,2]"));
  EXPECT_TRUE(refused(type("segformer", R"("mlp_ratios": [8, 8, 4, 4])"), "'mlp_ratios' are not the same"));
  EXPECT_TRUE(refused(type("segformer", R"("image_size": 200)"), "stage 0 has 50 pixels a side"));
}

TEST(Segformer, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients(
      "segformer:image=32,patch=2,classes=4,depth_0=1,depth_1=1,depth_2=1,depth_3=1,heads_0=1,heads_1=2,heads_2=1,"
      "heads_3=2,width_0=4,width_1=4,width_2=4,width_3=4,reduce_0=4,reduce_1=1,reduce_2=1,reduce_3=1,widen=2",
      {.batch = 2}, ".k.bias");
}

// Swin's without the norm behind the last stage, which is 768 wide.
TEST(DonutSwin, IsSwinWithoutItsLastNorm) {
  EXPECT_EQ(parameters_of(type("donut-swin", kThousand)), 28'286'818);
  EXPECT_EQ(parameters_of(type("swin", kThousand)), 28'286'818 + 2 * 768);
}

// --- blocks of BERT, BART, GPT-2 and Llama ---

TEST(BertLikes, HaveThePublishedParameters) {
  EXPECT_EQ(parameters_of(type("xlm", R"("vocab_size": 30145, "emb_dim": 2048, "n_layers": 12, "n_heads": 16)")),
            667'119'041);
  EXPECT_EQ(parameters_of(type("flaubert", R"("vocab_size": 68729, "emb_dim": 768, "n_layers": 12, "n_heads": 12)")),
            138'301'817);
  EXPECT_EQ(parameters_of(type("flaubert", R"("vocab_size": 68729, "emb_dim": 1024, "n_layers": 24, "n_heads": 16,
      "pre_norm": true)")),
            373'282'937);
  EXPECT_EQ(parameters_of(type("bert-generation", R"("vocab_size": 50358, "hidden_size": 1024, "num_hidden_layers": 24,
      "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 512, "is_decoder": true)")),
            354'452'662);
  EXPECT_EQ(parameters_of(type("git", R"("vocab_size": 30522)")), 90'227'514);
  EXPECT_EQ(parameters_of(type("ctrl", R"("vocab_size": 246534, "n_positions": 50000, "n_embd": 1280, "dff": 8192,
      "n_layer": 48, "n_head": 16)")),
            1'637'964'550);
  EXPECT_EQ(parameters_of(type("led", R"("vocab_size": 50265, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6,
      "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
      "attention_window": [1024, 1024, 1024, 1024, 1024, 1024])")),
            161'844'480);
}

TEST(MobileBert, HasThePublishedParameters) {
  const std::string text = R"("vocab_size": 30522, "hidden_size": 512, "num_hidden_layers": 24,
      "num_attention_heads": 4, "intermediate_size": 512, "max_position_embeddings": 512)";
  EXPECT_EQ(parameters_of(type("mobilebert", text)), 36'596'538);
  EXPECT_TRUE(refused(type("mobilebert", text + R"(, "trigram_input": false)"), "'trigram_input' is false"));
  EXPECT_TRUE(refused(type("mobilebert", text + R"(, "use_bottleneck_attention": true)"),
                      "'use_bottleneck_attention' is true"));
  EXPECT_TRUE(refused(type("mobilebert", text + R"(, "normalization_type": "layer_norm")"),
                      "'normalization_type' is \"layer_norm\""));
}

TEST(MobileBert, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients(
      "mobilebert:layers=1,hidden=8,heads=2,seq=5,vocab=8,intermediate=8,word_width=4,narrow=4,inner_layers=2,relu=0",
      {.batch = 2}, ".k.bias");
}

TEST(Fnet, HasThePublishedParametersAndNoAttention) {
  const std::string text = R"("vocab_size": 32000, "hidden_size": 768, "num_hidden_layers": 12,
      "intermediate_size": 3072, "max_position_embeddings": 512)";
  const Graph graph = graph_of(type("fnet", text));
  // Without the pooler, which no loss reads.
  EXPECT_EQ(parameter_count(graph), 83'485'184 - (768 * 768 + 768));
  for (const Op& op : graph.ops()) EXPECT_NE(op.kind, OpKind::GroupedAttention);
}

// The transform of four words has cosines of 1, 0 or -1: row 1 is 1 0 -1 0, row 2 is 1 -1 1 -1.
TEST(Fnet, TurnsWordsByWholeTurns) {
  const Graph graph = graph_of(type("fnet", R"("vocab_size": 8, "hidden_size": 2, "num_hidden_layers": 1,
      "intermediate_size": 2, "max_position_embeddings": 4)"));
  std::vector<double> cosines;
  for (const auto& [tensor, values] : graph.constants)
    if (graph.tensor(tensor).name == "cosines.seq") cosines = *values;
  const std::vector<double> expected = {1, 1, 1, 1, 1, 0, -1, 0, 1, -1, 1, -1, 1, 0, -1, 0};
  ASSERT_EQ(cosines.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(cosines[i], expected[i], 1e-15);
}

TEST(Fnet, HasTheGradientsOfItsLoss) {
  expect_true_model_gradients("fnet:layers=2,hidden=6,seq=5,vocab=8,intermediate=8,token_types=2", {.batch = 2});
}

TEST(BertLikes, SeeWordsBehindThemUnlessTheyDecode) {
  const auto causal = [](const std::string& text) {
    const Graph graph = graph_of(text);
    return std::all_of(graph.ops().begin(), graph.ops().end(),
                       [](const Op& op) { return op.kind != OpKind::GroupedAttention || op.attributes.causal; });
  };
  const std::string small = R"("vocab_size": 64, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
      "intermediate_size": 8, "max_position_embeddings": 8)";
  EXPECT_TRUE(causal(type("git", small)));
  EXPECT_TRUE(causal(type("bert-generation", small + R"(, "is_decoder": true)")));
  EXPECT_FALSE(causal(type("bert-generation", small)));
  const std::string lingual = R"("vocab_size": 64, "emb_dim": 8, "n_layers": 1, "n_heads": 2)";
  EXPECT_FALSE(causal(type("xlm", lingual)));
  EXPECT_TRUE(causal(type("xlm", lingual + R"(, "causal": true)")));
}

TEST(BertLikes, RefuseWhatTheyLack) {
  const std::string lingual = R"("vocab_size": 64, "emb_dim": 8, "n_layers": 1, "n_heads": 2, )";
  EXPECT_TRUE(refused(type("xlm", lingual + R"("sinusoidal_embeddings": true)"), "'sinusoidal_embeddings' is true"));
  EXPECT_TRUE(refused(type("xlm", lingual + R"("asm": true)"), "'asm' is true"));
  EXPECT_TRUE(refused(type("flaubert", lingual + R"("gelu_activation": false)"), "'gelu_activation' is false"));
  EXPECT_TRUE(refused(type("ctrl", R"("vocab_size": 64, "n_embd": 8, "n_layer": 1, "n_head": 2, "dff": 8,
      "layer_norm_epsilon": 0.01)"),
                      "'layer_norm_epsilon' is 0.01"));
}

TEST(Apertus15, HasAHeadOfTheWordsThatItMayWrite) {
  const std::string text = R"("vocab_size": 266752, "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 65536)";
  EXPECT_EQ(parameters_of(type("apertus1p5_text", text + R"(, "output_vocab_size": 131072)")), 7'535'341'632);
  EXPECT_TRUE(
      refused(type("apertus1p5_text", text + R"(, "output_vocab_size": 300000)"), "'output_vocab_size' is 300000"));
}

// --- Laguna ---

TEST(Laguna, HasThePublishedParametersAndHeadsOfTwoKinds) {
  std::string kinds, heads;
  for (int layer = 0; layer < 40; ++layer) {
    kinds += fmt::format("{}\"{}\"", layer == 0 ? "" : ", ", layer % 4 == 0 ? "full_attention" : "sliding_attention");
    heads += fmt::format("{}{}", layer == 0 ? "" : ", ", layer % 4 == 0 ? 48 : 64);
  }
  const std::string text = R"("vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192,
      "num_hidden_layers": 40, "num_attention_heads": 48, "num_key_value_heads": 8, "num_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
      "max_position_embeddings": 131072, "layer_types": [)" +
                           kinds + "]";
  const std::string of_kinds = text + R"(, "num_attention_heads_per_layer": [)" + heads + "]";
  EXPECT_EQ(parameters_of(type("laguna", of_kinds)), 33'442'617'088);
  EXPECT_EQ(read(type("laguna", of_kinds)).more.at("window_heads"), 64);
  EXPECT_EQ(read(type("laguna", of_kinds)).more.at("head_gate"), 3);
  EXPECT_EQ(read(type("laguna", text + R"(, "gating": "per-element")")).more.at("head_gate"), 4);
  EXPECT_TRUE(refused(type("laguna", text + R"(, "gating": false)"), "'gating' is false"));
  EXPECT_TRUE(
      refused(type("laguna", text + R"(, "moe_router_logit_softcapping": 30.0)"), "bounds the router's scores"));
  EXPECT_TRUE(refused(type("laguna", text + R"(, "num_attention_heads_per_layer": [48])"), "the same in all layers"));
}

}  // namespace
}  // namespace meshwright::hf_bert_likes_test
