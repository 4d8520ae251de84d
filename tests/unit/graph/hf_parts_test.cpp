// SPDX-License-Identifier: Apache-2.0
// Which norms and activations the models of config.json files have: epsilon and the form of GELU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/base/text.h"
#include "core/graph/import/find_model.h"
#include "core/graph/import/hf/hf_config.h"

namespace meshwright::hf_parts_test {
namespace {

ModelConfig read(const std::string& text) { return model_from_hf_text(text, "tiny", "config.json"); }

// What a rotated decoder needs; `more` begins with a comma or is empty.
std::string decoder(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family +
         R"(", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 64,)"
         R"( "vocab_size": 11, "intermediate_size": 12)" +
         more + "}";
}

// Of the norms and of the activation, all of one kind.
struct Made {
  double epsilon;
  OpKind activation;
  bool operator==(const Made&) const = default;
};
Made made_by(const ModelConfig& model) {
  Made made{0.0, OpKind::Add};
  const Graph graph = build_forward_graph(model, {.batch = 1});
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::LayerNorm || op.kind == OpKind::RmsNorm) made.epsilon = op.attributes.epsilon;
    for (const OpKind kind : {OpKind::Relu, OpKind::Gelu, OpKind::GeluErf, OpKind::Silu})
      if (op.kind == kind) made.activation = kind;
  }
  return made;
}

// "gelu" is the exact form, the other names are the tanh form; T5 means the tanh form by a gate of "gelu".
TEST(HfParts, TheActivationIsTheFormOfItsName) {
  const auto activation = [](const char* family, const char* name) {
    return made_by(read(decoder(family, fmt::format(R"(, "hidden_act": "{}")", name)))).activation;
  };
  for (const char* family : {"bert", "gpt_neox", "llama"}) {
    for (const char* exact : {"gelu", "gelu_python"}) EXPECT_EQ(activation(family, exact), OpKind::GeluErf) << family;
    for (const char* by_tanh : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})
      EXPECT_EQ(activation(family, by_tanh), OpKind::Gelu) << family;
  }
  for (const char* family : {"bert", "gpt_neox"})
    EXPECT_EQ(made_by(read(decoder(family, ""))).activation, OpKind::GeluErf);
  const std::string gpt2 = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 16,
                               "vocab_size": 11)";
  EXPECT_EQ(made_by(read(gpt2 + "}")).activation, OpKind::Gelu);
  EXPECT_EQ(made_by(read(gpt2 + R"(, "activation_function": "gelu"})")).activation, OpKind::GeluErf);
  EXPECT_EQ(made_by(read(gpt2 + R"(, "activation_function": "relu"})")).activation, OpKind::Relu);
  EXPECT_EQ(made_by(read(decoder("opt", R"(, "ffn_dim": 12, "activation_function": "gelu")"))).activation,
            OpKind::GeluErf);
  EXPECT_EQ(made_by(read(R"({"model_type": "bloom", "n_layer": 1, "hidden_size": 8, "n_head": 2, "vocab_size": 11,
                             "seq_length": 4})"))
                .activation,
            OpKind::Gelu);
  const std::string t5 = R"({"model_type": "t5", "num_layers": 1, "d_model": 8, "d_kv": 3, "num_heads": 4, "d_ff": 20,
                             "vocab_size": 11, "n_positions": 4, "feed_forward_proj": )";
  EXPECT_EQ(made_by(read(t5 + R"("gated-gelu"})")).activation, OpKind::Gelu);
  EXPECT_EQ(made_by(read(t5 + R"("gelu"})")).activation, OpKind::GeluErf);
}

TEST(HfParts, TheEpsilonOfTheNormsIsTheFiles) {
  const auto epsilon = [](const char* family, const char* more) {
    return made_by(read(decoder(family, more))).epsilon;
  };
  EXPECT_EQ(epsilon("bert", ""), 1e-12);
  EXPECT_EQ(epsilon("bert", R"(, "layer_norm_eps": 1e-7)"), 1e-7);
  EXPECT_EQ(epsilon("gpt_neox", ""), 1e-5);
  EXPECT_EQ(epsilon("gpt_neox", R"(, "layer_norm_eps": 2e-5)"), 2e-5);
  EXPECT_EQ(epsilon("llama", ""), 1e-6);
  EXPECT_EQ(epsilon("llama", R"(, "rms_norm_eps": 1e-5)"), 1e-5);
  EXPECT_EQ(epsilon("opt", R"(, "ffn_dim": 12)"), 1e-5);
  const std::string mixture = R"(, "num_local_experts": 3, "num_experts_per_tok": 1, "num_key_value_heads": 1)";
  EXPECT_EQ(epsilon("mixtral", mixture.c_str()), 1e-5);
  EXPECT_EQ(epsilon("mixtral", (mixture + R"(, "rms_norm_eps": 1e-6)").c_str()), 1e-6);
  const std::string gpt2 = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 16,
                               "vocab_size": 11)";
  EXPECT_EQ(made_by(read(gpt2 + "}")).epsilon, 1e-5);
  EXPECT_EQ(made_by(read(gpt2 + R"(, "layer_norm_epsilon": 1e-6})")).epsilon, 1e-6);
  EXPECT_EQ(made_by(read(R"({"model_type": "bloom", "n_layer": 1, "hidden_size": 8, "n_head": 2, "vocab_size": 11,
                             "seq_length": 4, "layer_norm_epsilon": 3e-5})"))
                .epsilon,
            3e-5);
}

TEST(HfFiles, HaveTheNormsAndActivationsTheyName) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: the published files are not there.";
  const auto published = [&](const char* file) {
    return made_by(find_model(fmt::format("{}/models/hf_config/{}.json", data, file)));
  };
  EXPECT_EQ(published("neusight_bert_large"), (Made{1e-12, OpKind::GeluErf}));
  EXPECT_EQ(published("neusight_gpt2_large"), (Made{1e-5, OpKind::Gelu}));
  EXPECT_EQ(published("neusight_opt_13"), (Made{1e-5, OpKind::Relu}));
  EXPECT_EQ(published("t5-v1_1-xxl_config"), (Made{1e-6, OpKind::Gelu}));
  EXPECT_EQ(published("Qwen--Qwen3-32B_config"), (Made{1e-6, OpKind::Silu}));
}

}  // namespace
}  // namespace meshwright::hf_parts_test
