// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/tensors/hf_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/graph/import/find_model.h"
#include "tests/refusal.h"

namespace meshwright::hf_tensors_test {
namespace {

Graph graph_of(const std::string& model) {
  return build_forward_graph(find_model(model), {.batch = 1, .microbatches = 1, .dtype = DType::F32});
}

// The pieces of one parameter.
std::vector<TensorPiece> pieces(const Graph& graph, const std::string& type, const std::string& parameter) {
  for (const ParameterPlace& place : HfTensorNames(type, "f").places(graph))
    if (graph.tensor(place.parameter).name == parameter) return place.pieces;
  return {};
}

// Where an element of a parameter lies in a piece.
std::int64_t at(const Graph& graph, const std::string& parameter, const TensorPiece& piece,
                const std::vector<std::int64_t>& index) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name != parameter) continue;
    std::int64_t place = piece.first;
    for (std::size_t d = 0; d < index.size(); ++d) place += piece.at(d, index[d], tensor.dims[d].size);
    return place;
  }
  return -1;
}

// 2 heads of 4, width 8: c_attn is (8, 24), queries in columns 0 to 7, keys in 8 to 15.
TEST(HfTensors, KeysOfGpt2ComeBehindItsQueries) {
  const Graph graph = graph_of("gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  const auto found = pieces(graph, "gpt2", "blk0.attn.k.weight");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(found[0].shape, (std::vector<std::int64_t>{8, 24}));
  EXPECT_EQ(at(graph, "blk0.attn.k.weight", found[0], {0, 0, 0}), 8);
  EXPECT_EQ(at(graph, "blk0.attn.k.weight", found[0], {3, 1, 2}), 3 * 24 + 8 + 4 + 2);
}

// Each head's query, key and value are three rows of 4: (2 heads, 3, 4) rows of 8.
TEST(HfTensors, KeysOfGptNeoxStandBetweenQueryAndValueOfEachHead) {
  const Graph graph = graph_of("gpt_neox:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  const auto found = pieces(graph, "gpt_neox", "blk0.attn.k.weight");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].shape, (std::vector<std::int64_t>{24, 8}));
  EXPECT_EQ(at(graph, "blk0.attn.k.weight", found[0], {5, 1, 2}), ((1 * 3 + 1) * 4 + 2) * 8 + 5);
}

// (out, in) with out = (kv head, query of the group, dimension).
TEST(HfTensors, LinearLayersOfLlamaAreTransposed) {
  const Graph graph = graph_of("llama:layers=1,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16");
  const auto found = pieces(graph, "llama", "blk0.attn.q.weight");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].shape, (std::vector<std::int64_t>{8, 8}));
  EXPECT_EQ(at(graph, "blk0.attn.q.weight", found[0], {5, 1, 0, 1}), ((1 * 2 + 0) * 2 + 1) * 8 + 5);
}

TEST(HfTensors, ExpertsOfMixtralHaveATensorEach) {
  const Graph graph =
      graph_of("mixtral:layers=1,hidden=8,heads=2,kv_heads=2,intermediate=16,seq=4,vocab=16,experts=3,top_k=2");
  const auto found = pieces(graph, "mixtral", "blk0.moe.up.weight");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[2].name, "model.layers.0.block_sparse_moe.experts.2.w3.weight");
  EXPECT_EQ(found[2].shape, (std::vector<std::int64_t>{16, 8}));
  EXPECT_EQ(found[2].index, 2);
  EXPECT_EQ(at(graph, "blk0.moe.up.weight", found[2], {2, 5, 7}), 7 * 8 + 5);
}

// Rotated pairs stand side by side: our dimension 1 of 4 is theirs 2, our 2 is theirs 1.
TEST(HfTensors, RotatedDimensionsOfDeepseekAreInterleaved) {
  const Graph graph = graph_of(
      "deepseek_v3:layers=1,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,experts=2,top_k=1,dense_layers=1,q_rank=8,"
      "kv_rank=6,nope_dim=4,rope_dim=4,value_dim=4");
  const auto found = pieces(graph, "deepseek_v3", "blk0.attn.k_rope.weight");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].shape, (std::vector<std::int64_t>{10, 8}));
  EXPECT_EQ(at(graph, "blk0.attn.k_rope.weight", found[0], {0, 1}), (6 + 2) * 8);
  EXPECT_EQ(at(graph, "blk0.attn.k_rope.weight", found[0], {0, 2}), (6 + 1) * 8);
}

TEST(HfTensors, BlocksForFurtherTokensAreNumberedOn) {
  const Graph graph = graph_of(
      "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,experts=2,top_k=1,dense_layers=1,q_rank=8,"
      "kv_rank=6,nope_dim=4,rope_dim=4,value_dim=4,mtp=2");
  const auto joined = pieces(graph, "deepseek_v3", "mtp2.in.weight");
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].name, "model.layers.3.eh_proj.weight");
  EXPECT_EQ(pieces(graph, "deepseek_v3", "mtp1.moe.up.weight")[1].name, "model.layers.2.mlp.experts.1.up_proj.weight");
}

// Every element of every tensor is some parameter's, and only one's.
TEST(HfTensors, PartsFillTheirTensorsWithoutOverlap) {
  for (const auto& [type, model] : std::map<std::string, std::string>{
           {"gpt2", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16"},
           {"opt", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16,position_offset=2,word_embed=4"},
           {"bloom", "bloom:layers=2,hidden=8,heads=2,seq=4,vocab=16"},
           {"gpt_neox", "gpt_neox:layers=2,hidden=8,heads=2,seq=4,vocab=16"},
           {"bert", "bert:layers=2,hidden=8,heads=2,seq=4,vocab=16"},
           {"phi3", "decoder:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16"},
           {"falcon",
            "decoder:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16,gated=0,layer_norm=1,"
            "parallel=1"},
           {"gpt_oss",
            "mixtral:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2,qkv_bias=1,"
            "out_bias=1,router_bias=1,expert_bias=1,sinks=1"},
           {"deepseek_v3",
            "deepseek_v3:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2,dense_layers=1,"
            "q_rank=8,kv_rank=6,nope_dim=4,rope_dim=4,value_dim=4,mtp=1"},
           {"codegen",
            "decoder:layers=2,hidden=32,heads=8,intermediate=16,seq=4,vocab=16,gated=0,layer_norm=1,parallel=2,"
            "rotary_dims=2,mlp_bias=1,head_bias=1"},
           {"gpt_neo", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16,qkv_bias=0,scaled=0"},
           {"mpt", "bloom:layers=2,hidden=8,heads=2,seq=4,vocab=16,bias=0,norm_bias=0,embedding_norm=0,erf=1"},
           {"electra", "bert:layers=2,hidden=8,heads=2,seq=4,vocab=16,embed_width=4"},
           {"albert", "bert:layers=4,hidden=8,heads=2,seq=4,vocab=16,embed_width=4,layer_groups=2"},
           {"internlm2", "llama:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16"},
           {"bailing_moe_v2",
            "decoder_moe:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2,"
            "dense_layers=1,selection_bias=1,qk_norm=1,shared_intermediate=8"},
           {"qwen3_vl_moe_text",
            "mixtral:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2"},
           {"bamba",
            "hybrid:layers=4,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,scan_heads=4,scan_head_dim=4,state=3,"
            "gated=1,group_norm=1,kinds_0=152"},
           {"jamba",
            "hybrid:layers=4,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,scan_heads=16,scan_head_dim=1,state=3,"
            "scan_rank=2,operand_norms=1,softmax_scores=1,gated=1,experts=2,top_k=1,expert_intermediate=8,kinds_0=156"},
           {"falcon_h1",
            "hybrid:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,scan_heads=4,scan_head_dim=2,state=3,"
            "gated=1,beside=1,scan_norm=0,kinds_0=9"},
           {"lfm2",
            "hybrid:layers=4,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,short_conv=1,qk_norm=1,gated=1,"
            "scan_bias=1,kinds_0=152"},
           {"modernbert",
            "decoder:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,layer_norm=1,causal=0,embedding_norm=1,"
            "bare_first=1,transformed_head=1,head_bias=1,qkv_bias=1,mlp_bias=1,tied=1"},
           {"modernbert-decoder",
            "decoder:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,layer_norm=1,embedding_norm=1,"
            "bare_first=1,transformed_head=1,head_bias=1,qkv_bias=1,tied=1"},
           {"t5", "t5:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16"},
           {"umt5", "t5:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,layer_biases=1"},
           {"bart", "bart:layers=2,hidden=8,heads=2,seq=4,vocab=16,position_offset=2"},
           {"fsmt",
            "bart:layers=2,hidden=8,heads=2,seq=4,vocab=16,sines=2,embedding_norm=0,source_vocab=12,tied=0,"
            "decoder_intermediate=24"},
           {"t5gemma",
            "decoder:layers=2,hidden=8,heads=2,kv_heads=1,intermediate=16,seq=4,vocab=16,norms=1,tied=1,encoder_layers="
            "3"},
           {"gpt_neox_japanese",
            "gpt_neox:layers=2,hidden=8,heads=2,seq=4,vocab=16,parallel=0,bias=0,last_out_bias=1,tied=1"},
           {"imagegpt", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16,rms=1,quick=1,more_words=1,tied=0"},
           {"longcat_flash",
            "longcat_flash:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,experts=2,identity_experts=2,top_k="
            "2,"
            "q_rank=4,kv_rank=4,nope_dim=4,rope_dim=2,value_dim=4"},
           {"jetmoe", "jetmoe:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2"},
           {"rwkv", "rwkv:layers=2,hidden=8,seq=4,vocab=16,time_width=6"},
           {"zamba2",
            "zamba2:layers=4,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,scan_heads=2,scan_head_dim=8,scan_groups="
            "2,"
            "state=4,adapter_rank=2,attention_adapters=1,hybrid_0=13,shared_blocks=2"},
           {"pegasus", "bart:layers=2,hidden=8,heads=2,seq=4,vocab=16,sines=1,norm_first=1,embedding_norm=0"},
           {"whisper", "speech:layers=2,hidden=8,heads=2,seq=4,vocab=16,positions=4,mel=3"},
           {"openai-gpt", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16,post_norm=1,final_norm=0"},
           {"biogpt", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16,position_offset=2"},
           {"xglm", "gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16,sines=2"},
           {"megatron-bert", "bert:layers=2,hidden=8,heads=2,seq=4,vocab=16,norm_first=1,embedding_norm=0"},
           {"persimmon",
            "decoder:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,gated=0,layer_norm=1,relu_squared=1,"
            "qk_norm=1,qkv_bias=1,out_bias=1,mlp_bias=1"},
           {"apertus", "decoder:layers=2,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,gated=0,qk_norm=1,xielu=1"},
           {"dbrx",
            "decoder_moe:layers=2,hidden=8,heads=4,kv_heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2,"
            "layer_norm=2"},
           {"deit", "vit:layers=2,hidden=8,heads=2,image=8,patch=4,classes=5,distilled=1"},
           {"dinov2",
            "vit:layers=2,hidden=8,heads=2,image=8,patch=4,classes=5,layer_scale=1,gated=1,reads_patches=1,"
            "mask_token=1"},
           {"dinov2_with_registers",
            "vit:layers=2,hidden=8,heads=2,image=8,patch=4,classes=5,layer_scale=1,reads_patches=1,registers=3"},
           {"vit", "vit:layers=2,hidden=8,heads=2,image=8,patch=4,classes=5"},
           {"resnet14", "wresnet:layers=14,channels=2,width=2,image=32,classes=5"}}) {
    const Graph graph = graph_of(model);
    std::map<std::string, std::set<std::int64_t>> filled;
    std::map<std::string, std::int64_t> sizes;
    for (const ParameterPlace& place : HfTensorNames(type, "f").places(graph)) {
      const Tensor& tensor = graph.tensor(place.parameter);
      for (const TensorPiece& piece : place.pieces) {
        std::int64_t size = 1;
        for (const std::int64_t dim : piece.shape) size *= dim;
        sizes[piece.name] = size;
        for (std::int64_t i = 0; i < tensor.elements(); ++i) {
          std::int64_t lies = piece.first, rest = i;
          bool other = false;
          for (std::size_t d = tensor.dims.size(); d-- > 0;) {
            const std::int64_t index = rest % tensor.dims[d].size;
            rest /= tensor.dims[d].size;
            lies += piece.at(d, index, tensor.dims[d].size);
            other = other || (piece.dim_of_index == d && index != piece.index);
          }
          if (!other) {
            EXPECT_TRUE(filled[piece.name].insert(lies).second) << type << " " << piece.name << " " << lies;
          }
        }
      }
    }
    for (const auto& [name, size] : sizes) {
      EXPECT_EQ(static_cast<std::int64_t>(filled[name].size()), size) << type << " " << name;
      EXPECT_EQ(*filled[name].rbegin(), size - 1) << type << " " << name;
    }
  }
}

constexpr const char* kGemma4 =
    "gemma4:layers=2,hidden=8,heads=2,kv_heads=2,full_kv_heads=1,head_dim=4,full_head_dim=8,full_rotary_dims=4,"
    "intermediate=8,seq=4,vocab=16,window=2,full_every=2,layer_embed=3,layer_factor=1";

// The first two of each half of a head of 8 turn: ours 0 1 2 3 are theirs 0 1 4 5, and ours 4 5 6 7 theirs 2 3 6 7.
TEST(HfTensors, TurningDimensionsOfGemma4AreTheFirstOfEachHalf) {
  const Graph graph = graph_of(kGemma4);
  const auto found = pieces(graph, "gemma4_text", "blk1.attn.k_norm.gamma");
  ASSERT_EQ(found.size(), 1U);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < 8; ++i) places.push_back(at(graph, "blk1.attn.k_norm.gamma", found[0], {i}));
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(HfTensors, TablesOfGemma4sLayersAreColumnsOfOne) {
  const Graph graph = graph_of(kGemma4);
  const auto found = pieces(graph, "gemma4_text", "blk1.layer_embed.table");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "model.embed_tokens_per_layer.weight");
  EXPECT_EQ(found[0].shape, (std::vector<std::int64_t>{16, 6}));
  EXPECT_EQ(at(graph, "blk1.layer_embed.table", found[0], {5, 2}), 5 * 6 + 3 + 2);
}

// 8 heads of 4 in quarters of 2: the rows of a quarter are its queries, values and keys, 8 of each.
TEST(HfTensors, KeysOfCodegenAreTheLastOfEachQuarter) {
  const Graph graph = graph_of(
      "decoder:layers=1,hidden=32,heads=8,intermediate=16,seq=4,vocab=16,gated=0,layer_norm=1,parallel=2,rotary_dims=4,"
      "mlp_bias=1,head_bias=1");
  const auto found = pieces(graph, "codegen", "blk0.attn.k.weight");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].shape, (std::vector<std::int64_t>{96, 32}));
  // Head 5 is the second of the third quarter. Its dimensions turn in pairs: our 1 is theirs 2.
  EXPECT_EQ(at(graph, "blk0.attn.k.weight", found[0], {7, 5, 1}), (2 * 24 + 16 + 4 + 2) * 32 + 7);
}

// Layers 0 and 1 of Bamba: a scan and what follows it, attention and what follows it.
TEST(HfTensors, TwoBlocksAreOneLayerOfBamba) {
  const Graph graph = graph_of(
      "hybrid:layers=4,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,scan_heads=4,scan_head_dim=4,state=3,gated=1,"
      "group_norm=1,kinds_0=152");
  EXPECT_EQ(pieces(graph, "bamba", "blk0.scan.z.weight")[0].name, "model.layers.0.mamba.in_proj.weight");
  EXPECT_EQ(pieces(graph, "bamba", "blk1.ln.gamma")[0].name, "model.layers.0.pre_ff_layernorm.weight");
  EXPECT_EQ(pieces(graph, "bamba", "blk2.ln.gamma")[0].name, "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(pieces(graph, "bamba", "blk3.mlp.up.weight")[0].name, "model.layers.1.feed_forward.up_proj.weight");
}

TEST(HfTensors, TypesWithoutATableAreRefused) {
  EXPECT_NE(refusal([] { return HfTensorNames("phimoe", "w"); }).find("w: the weights of models of the type 'phimoe'"),
            std::string::npos);
}

TEST(HfTensors, WhatFilesHaveBesidesIsKnownByPattern) {
  const HfTensorNames names("bert", "f");
  EXPECT_TRUE(names.may_be_left_out("bert.pooler.dense.weight"));
  EXPECT_FALSE(names.may_be_left_out("bert.pool"));
  EXPECT_TRUE(HfTensorNames("gpt2", "f").may_be_left_out("transformer.h.17.attn.bias"));
  EXPECT_FALSE(HfTensorNames("gpt2", "f").may_be_left_out("transformer.h.x.attn.bias"));
}

}  // namespace
}  // namespace meshwright::hf_tensors_test
