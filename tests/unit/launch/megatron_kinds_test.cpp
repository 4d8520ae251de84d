// SPDX-License-Identifier: Apache-2.0
// Programs of Megatron-LM that train something else than a GPT: Mamba layers, BERT, T5; and those that do not train.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::megatron_kinds_test {
namespace {

LaunchReading read(const std::string& name, const std::string& text) {
  return read_launch(read_launch_text({.files = {{name, text}}}), {1, 8}, {});
}
bool says(const std::vector<std::string>& sentences, std::string_view part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
std::int64_t parameters_of(const LaunchReading& reading) {
  TrainingOptions options;
  options.batch = 1;
  return parameter_count(build_forward_graph(reading.setup.model, options));
}
LaunchReading read_megatron(const std::string& program, const std::string& flags) {
  return read("run.sh", "torchrun " + program +
                            " --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
                            "--vocab-size 128 --make-vocab-size-divisible-by 1 --micro-batch-size 1 " +
                            flags + "\n");
}
std::string refusal_of(const std::string& program, const std::string& flags) {
  return refusal([&] { (void)read_megatron(program, flags); });
}

// --- Mamba ---

const std::string kMamba =
    "--mamba-num-groups 1 --mamba-head-dim 32 --squared-relu --position-embedding-type none "
    "--disable-bias-linear ";

TEST(MegatronMamba, APatternOfLayersIsAModelOfMambaLayers) {
  const LaunchReading reading = read_megatron("pretrain_mamba.py", kMamba + "--hybrid-layer-pattern 'M-M*|-'");
  EXPECT_EQ(reading.setup.model.family, "hybrid");
  EXPECT_EQ(reading.setup.model.layers, 5);                 // the bar is a border of stages
  EXPECT_EQ(reading.setup.model.more.at("scan_heads"), 4);  // 2 x 64 channels in heads of 32
  EXPECT_NE(refusal_of("pretrain_mamba.py", "--hybrid-layer-pattern M-G").find("'M-G'"), std::string::npos);
}

// The last is the pattern that NVIDIA publishes of its hybrid of 8 billion parameters (R. Waleffe et al., 2024).
TEST(MegatronMamba, WithoutAPatternLayersAreSharedOutAsMegatronDoes) {
  struct Case {
    const char *flags, *pattern;
  };
  for (const auto& [flags, pattern] :
       {Case{"--num-layers 4", "MMMM"}, Case{"--num-layers 5 --hybrid-attention-ratio 0.5", "M*M*M"},
        Case{"--num-layers 12 --hybrid-mlp-ratio 0.5", "M-M-M-M-M-M-"},
        Case{"--num-layers 10 --hybrid-attention-ratio 0.25 --hybrid-mlp-ratio 0.5", "M--*M-*-M-"},
        Case{"--num-layers 56 --hybrid-attention-ratio 0.08 --hybrid-mlp-ratio 0.5",
             "M-M-M--M-M*-M-M-M-M--M*-M-M-M-M-M*--M-M-M-M-M*-M--M-M-M-"}}) {
    const ModelConfig shared = read_megatron("pretrain_mamba.py", kMamba + flags).setup.model;
    const ModelConfig spelt =
        read_megatron("pretrain_mamba.py", kMamba + "--hybrid-layer-pattern '" + pattern + "'").setup.model;
    EXPECT_EQ(shared.layers, spelt.layers) << flags;
    EXPECT_EQ(shared.more, spelt.more) << flags;
  }
}

TEST(MegatronMamba, FlagsOrASpecificationOfMambaAreEnough) {
  for (const char* flags :
       {"--is-hybrid-model", "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec"})
    EXPECT_EQ(read_megatron("train.py", kMamba + "--num-layers 2 " + flags).setup.model.family, "hybrid") << flags;
}

TEST(MegatronMamba, RefusesSharesThatAreNoneAndLayersOfOthers) {
  EXPECT_NE(refusal_of("pretrain_mamba.py", "--num-layers 4 --hybrid-attention-ratio 1.5").find("no share"),
            std::string::npos);
  EXPECT_NE(refusal_of("pretrain_mamba.py", "--num-layers 4 --hybrid-attention-ratio 0.75 --hybrid-mlp-ratio 0.5")
                .find("more than all layers"),
            std::string::npos);
  EXPECT_NE(refusal_of("pretrain_mamba.py", "--num-layers 4 --spec own.layers stack").find("'own.layers'"),
            std::string::npos);
  EXPECT_NE(refusal_of("pretrain_hybrid.py", "--num-layers 4").find("--hybrid-layer-pattern"), std::string::npos);
  EXPECT_NE(refusal_of("pretrain_mamba.py", "--swiglu --hybrid-layer-pattern M-").find("gated"), std::string::npos);
  // Without feed-forward layers there is nothing that a gate is of.
  EXPECT_EQ(read_megatron("pretrain_mamba.py", kMamba + "--swiglu --num-layers 2").setup.model.family, "hybrid");
}

// --- T5 ---

// Its makers call it the T5 of 220 million parameters (Megatron-LM, examples/t5): 12 layers of 768 in each stack.
const std::string kT5 =
    "torchrun pretrain_t5.py --encoder-num-layers 12 --decoder-num-layers 12 --hidden-size 768 "
    "--num-attention-heads 12 --kv-channels 64 --ffn-hidden-size 3072 --encoder-seq-length 512 "
    "--decoder-seq-length 128 --max-position-embeddings 512 --micro-batch-size 64 --global-batch-size 512 "
    "--vocab-extra-ids 100 --vocab-file bert-vocab.txt --tokenizer-type BertWordPieceCase ";

TEST(MegatronT5, HasTheSizesOfItsEncoderAndItsDecoder) {
  const ModelConfig model = read("t5.sh", kT5 + "\n").setup.model;
  EXPECT_EQ(model.family, "bart");
  EXPECT_EQ(model.seq, 128);
  EXPECT_EQ(model.more.at("encoder_seq"), 512);
  EXPECT_EQ(model.more.at("decoder_layers"), 12);
  EXPECT_EQ(model.vocab, 29184);  // 28996 words and 100 marks, up to a multiple of 128
  // Of each layer 12 squares of the width in the encoder, 16 in the decoder; and the words.
  EXPECT_NEAR(static_cast<double>(parameters_of(read("t5.sh", kT5 + "\n"))),
              12.0 * (12 + 16) * 768 * 768 + 29184.0 * 768, 2e6);
}

TEST(MegatronT5, HasOneNumberOfLayersForBothStacksWhereOneIsGiven) {
  const ModelConfig model = read_megatron("pretrain_t5.py", "--num-layers 2").setup.model;
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.more.at("decoder_layers"), 2);
  EXPECT_EQ(model.more.at("encoder_seq"), 32);
}

TEST(MegatronT5, InStagesIsRefused) {
  EXPECT_NE(refusal_of("pretrain_t5.py", "--num-layers 4 --pipeline-model-parallel-size 2").find("in 2 stages"),
            std::string::npos);
}

// --- BERT ---

TEST(MegatronBert, IsReadAsBert) {
  EXPECT_EQ(read_megatron("pretrain_bert.py", "--num-layers 2").setup.model.family, "bert");
  const LaunchReading words =
      read("bert.sh",
           "torchrun pretrain_bert.py --hidden-size 64 --num-attention-heads 4 --num-layers 2 --seq-length "
           "32 --max-position-embeddings 32 --micro-batch-size 1 --make-vocab-size-divisible-by 1 "
           "--tokenizer-type BertWordPieceLowerCase\n");
  EXPECT_EQ(words.setup.model.vocab, 30522);  // BERT's own
}

// Megatron-LM's own tests are files of flags, which name no program.
TEST(MegatronBert, FlagsAloneWithBertsDataAreABert) {
  const std::string flags =
      "MODEL_ARGS:\n  --num-layers: 2\n  --hidden-size: 64\n  --num-attention-heads: 4\n  --seq-length: 32\n"
      "  --max-position-embeddings: 32\n  --micro-batch-size: 1\n  --data-path: ${DATA}/my-";
  const LaunchReading bert = read("model_config.yaml", flags + "bert_00_text_sentence\n");
  EXPECT_EQ(bert.setup.model.family, "bert");
  EXPECT_TRUE(says(bert.assumed, "a BERT, as its data are named"));
  EXPECT_EQ(read("model_config.yaml", flags + "gpt3_00_text_document\n").setup.model.family, "gpt2");
}

// --- what is none of these ---

TEST(MegatronPrograms, WhatDoesNotTrainIsRefused) {
  for (const char* program : {"tools/run_text_generation_server.py", "convert_model.py", "quantize.py"})
    EXPECT_NE(refusal_of(program, "--num-layers 2").find("does not train"), std::string::npos) << program;
  EXPECT_EQ(read_megatron("finetune_evaluated.py", "--num-layers 2").setup.model.layers, 2);
}

TEST(MegatronPrograms, WhoseFlagsDescribeNoModelOfOursAskForOne) {
  EXPECT_NE(refusal_of("pretrain_retro.py", "--num-layers 2").find("give --model"), std::string::npos);
  EXPECT_NE(refusal_of("pretrain_gpt.py", "--num-layers 2 --decoder-num-layers 2").find("give --model"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::megatron_kinds_test
