// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/models.h"
#include "core/graph/import/find_model.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright::models_test {
namespace {

template <class Action>
std::string input_error(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

std::vector<ModelConfig> gpt_models() {
  std::vector<ModelConfig> models;
  for (const ModelConfig& model : builtin_models())
    if (model.family == "gpt") models.push_back(model);
  return models;
}

// L (H(3H+1) + H(H+1) + H(4H+1) + 4H(H+1) + 4H) + V(H+1)
std::int64_t gpt_parameters(std::int64_t l, std::int64_t h, std::int64_t v) {
  return l * (h * (3 * h + 1) + h * (h + 1) + h * (4 * h + 1) + 4 * h * (h + 1) + 4 * h) + v * (h + 1);
}

// F B S H^2 L (1 + S/(6H)) + 6 B S H V, with F/6 taken out of the bracket so that it is a whole number.
std::int64_t gpt_flops(std::int64_t f, std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t l, std::int64_t v) {
  return f / 6 * b * s * h * l * (6 * h + s) + 6 * b * s * h * v;
}

double step_flops(const ModelConfig& model, std::int64_t batch, std::int64_t microbatches, Recompute recompute) {
  const Graph graph = build_training_graph(
      model, {.batch = batch, .microbatches = microbatches, .dtype = model.default_dtype, .recompute = recompute});
  return graph_flops(graph).si() * static_cast<double>(microbatches);
}

TEST(GptPresets, HaveTheParametersOfTheFormula) {
  EXPECT_EQ(gpt_models().size(), 14u);
  for (const ModelConfig& model : gpt_models()) {
    const Graph graph = build_forward_graph(model, {.batch = 1, .dtype = DType::F16});
    EXPECT_EQ(parameter_count(graph), gpt_parameters(model.layers, model.hidden, model.vocab)) << model.name;
  }
}

TEST(GptPresets, HaveThePublishedNumbersOfParameters) {
  // Billions, to the digits published.
  const std::map<std::string, std::pair<double, double>> published = {
      {"gpt-350m", {0.3547, 5e-5}}, {"gpt-760m", {0.7586, 5e-5}}, {"gpt-1.3b", {1.3134, 5e-5}},
      {"gpt-2.6b", {2.6486, 5e-5}}, {"gpt-6.7b", {6.6537, 5e-5}}, {"gpt-15b", {15.3644, 5e-5}},
      {"gpt-39b", {39.0785, 5e-5}}, {"gpt-76b", {76.03, 5e-3}},   {"gpt3-175b", {174.6, 5e-2}},
      {"gpt-145b", {145.6, 5e-2}},  {"gpt-310b", {310.1, 5e-2}},  {"gpt-530b", {529.6, 5e-2}},
      {"gpt-1t", {1008.0, 5e-2}}};
  for (const auto& [name, billions] : published) {
    const Graph graph = build_forward_graph(find_model(name), {.batch = 1, .dtype = DType::F16});
    EXPECT_NEAR(static_cast<double>(parameter_count(graph)) / 1e9, billions.first, billions.second) << name;
  }
  EXPECT_EQ(parameter_count(build_forward_graph(find_model("gpt-2.6b"), {.batch = 1})), 2'648'606'720);
}

TEST(GptPresets, HaveExactlyTheFlopsOfTheFormula) {
  for (const ModelConfig& model : gpt_models()) {
    const auto formula = [&](std::int64_t f) {
      return static_cast<double>(gpt_flops(f, 256, model.seq, model.hidden, model.layers, model.vocab));
    };
    EXPECT_EQ(step_flops(model, 256, 64, Recompute::None), formula(72)) << model.name;
    EXPECT_EQ(step_flops(model, 256, 16, Recompute::Full), formula(96)) << model.name;
  }
}

// Published: gpt-2.6b, batch 32, 8 GPUs, 2.464 s per step with recomputation is 37.006 TFLOPS per GPU.
TEST(GptPresets, GiveThePublishedThroughput) {
  const double per_gpu = step_flops(find_model("gpt-2.6b"), 32, 4, Recompute::Full) / 8 / 2.464;
  EXPECT_NEAR(per_gpu / 1e12, 37.006, 5e-4);
}

TEST(Gpt, ABlockReadsInTheOrderItIsComputed) {
  const Graph graph = build_forward_graph(find_model("gpt:layers=1,hidden=8,heads=2,seq=4,vocab=16"), {.batch = 2});
  std::string text;
  for (const Op& op : graph.ops())
    text += fmt::format("{}{} {}\n", op.block < 0 ? "" : "  ", name_of(op.kind), op.name);
  EXPECT_EQ(text,
            "embedding embed\n"
            "  layer_norm blk0.ln1\n"
            "  contract blk0.attn.qkv\n"
            "  bias_add blk0.attn.query.bias_add\n"
            "  attention blk0.attn.core\n"
            "  contract blk0.attn.out\n"
            "  bias_add blk0.attn.out.bias_add\n"
            "  add blk0.attn.residual\n"
            "  layer_norm blk0.ln2\n"
            "  contract blk0.mlp.up\n"
            "  bias_add blk0.mlp.up.bias_add\n"
            "  gelu blk0.mlp.gelu\n"
            "  contract blk0.mlp.down\n"
            "  bias_add blk0.mlp.down.bias_add\n"
            "  add blk0.mlp.residual\n"
            "contract head.logits\n"
            "bias_add head.logits.bias_add\n"
            "row_max head.row_max\n"
            "sum_exp head.sum_exp\n"
            "pick_label head.pick_label\n"
            "cross_entropy_loss head.loss\n");
}

TEST(Gpt, AMicrobatchIsItsShareOfTheBatch) {
  const ModelConfig model = find_model("gpt:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  const Graph graph = build_forward_graph(model, {.batch = 12, .microbatches = 3});
  EXPECT_EQ(graph.tensors()[0].name, "tokens");
  EXPECT_EQ(graph.tensors()[0].dims, (std::vector<Dim>{{"batch", 4}, {"seq", 4}}));
  EXPECT_EQ(graph.ops().back().attributes.scale, 1.0 / 48);  // 12 samples x 4 tokens
}

TEST(Mlp, IsPairsOfDenseLayers) {
  const ModelConfig preset = find_model("mlp");
  EXPECT_EQ(preset.layers, 2);
  EXPECT_EQ(preset.hidden, 2048);
  EXPECT_EQ(preset.default_batch, 2048);
  const std::int64_t h = 10;
  const Graph graph = build_training_graph(find_model("mlp:layers=3,hidden=10"), {.batch = 4, .microbatches = 2});
  EXPECT_EQ(parameter_count(graph), 3 * (8 * h * h + 5 * h));
  // Six contractions of 2 * 2 * 10 * 40 forward, twice that backward, less the first one's gradient of the input.
  EXPECT_EQ(graph_flops(graph), Flops((18 - 1) * 2 * 2 * 10 * 40));
  EXPECT_EQ(graph.op(*graph.tensor(*graph.loss).producer).attributes.scale, 1.0 / 40);
}

// The counts of the checkpoints.
TEST(TransformerPresets, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> published = {
      // all, and those one token meets
      {"llama-7b", {6'738'415'616, 6'738'415'616}},        {"llama-13b", {13'015'864'320, 13'015'864'320}},
      {"llama-70b", {68'976'648'192, 68'976'648'192}},     {"llama-3.1-8b", {8'030'261'248, 8'030'261'248}},
      {"llama-3.1-70b", {70'553'706'496, 70'553'706'496}}, {"llama-3.1-405b", {405'853'388'800, 405'853'388'800}},
      {"mixtral-8x7b", {46'702'792'704, 12'879'925'248}},  {"mixtral-8x22b", {140'620'634'112, 39'152'031'744}},
      {"bert-base", {109'514'298, 109'514'298}},           {"bert-large", {335'174'458, 335'174'458}}};
  for (const auto& [name, counts] : published) {
    const Graph graph = build_forward_graph(find_model(name), {.batch = 1, .dtype = DType::BF16});
    EXPECT_EQ(parameter_count(graph), counts.first) << name;
    EXPECT_EQ(active_parameter_count(graph), counts.second) << name;
  }
}

// Of every norm, and of the activation of the first block.
TEST(Transformers, HaveTheEpsilonAndTheGeluOfTheirSizes) {
  const auto expect = [](const std::string& sizes, double epsilon, OpKind activation) {
    const Graph graph = build_forward_graph(find_model(sizes), {.batch = 1});
    bool met = false;
    for (const Op& op : graph.ops()) {
      if (op.kind == OpKind::LayerNorm || op.kind == OpKind::RmsNorm) {
        EXPECT_EQ(op.attributes.epsilon, epsilon) << sizes << " " << op.name;
      }
      met = met || op.kind == activation;
    }
    EXPECT_TRUE(met) << sizes << " " << name_of(activation);
  };
  const std::string rest = ":layers=1,hidden=8,heads=2,seq=4,vocab=16";
  expect("gpt" + rest, 1e-5, OpKind::Gelu);
  expect("gpt2" + rest, 1e-5, OpKind::Gelu);
  expect("gpt2" + rest + ",erf=1,epsilon=1e-6", 1e-6, OpKind::GeluErf);
  expect("bloom" + rest + ",epsilon=2e-5", 2e-5, OpKind::Gelu);
  expect("gpt_neox" + rest, 1e-5, OpKind::GeluErf);
  expect("gpt_neox" + rest + ",erf=0,epsilon=3e-5", 3e-5, OpKind::Gelu);
  expect("bert" + rest, 1e-12, OpKind::GeluErf);
  expect("bert" + rest + ",erf=0,epsilon=1e-7", 1e-7, OpKind::Gelu);
  expect("llama" + rest + ",intermediate=12", 1e-5, OpKind::Silu);
  expect("llama" + rest + ",intermediate=12,gelu=1,erf=1,epsilon=1e-6", 1e-6, OpKind::GeluErf);
  expect("t5" + rest + ",intermediate=12", 1e-6, OpKind::Gelu);
  expect("t5" + rest + ",intermediate=12,erf=1", 1e-6, OpKind::GeluErf);
  expect("vit:layers=1,hidden=8,heads=2,image=8,patch=4,classes=3", 1e-6, OpKind::Gelu);
  expect("vit:layers=1,hidden=8,heads=2,image=8,patch=4,classes=3,erf=1,epsilon=1e-12", 1e-12, OpKind::GeluErf);
}

// The two forms differ in time, but neither is a contraction.
TEST(Transformers, OfEitherGeluHaveTheSameFlops) {
  const auto flops = [](const char* erf) {
    const std::string sizes = "gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16,erf=";
    return graph_flops(build_training_graph(find_model(sizes + erf), {.batch = 1}));
  };
  EXPECT_EQ(flops("0"), flops("1"));
}

TEST(FindModel, EveryFamilyHasAnExampleThatCanBeTrained) {
  for (const std::string& example : example_sizes()) {
    const ModelConfig model = find_model(example);
    EXPECT_EQ(model.name, model.family);
    EXPECT_EQ(model_from_json(to_json(model), "plan.json"), model) << example;
    EXPECT_GT(parameter_count(build_training_graph(model, {.batch = 2, .microbatches = 2})), 0) << example;
  }
}

TEST(FindModel, FillsInWhatASizeLeavesOut) {
  const ModelConfig model = find_model("llama:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,tied=1");
  EXPECT_EQ(model.more.at("kv_heads"), 4);
  EXPECT_EQ(model.more.at("head_dim"), 16);
  EXPECT_EQ(model.more.at("tied"), 1);
  EXPECT_EQ(model.factors.at("rotary_base"), 10000.0);
  EXPECT_EQ(find_model("bert:layers=1,hidden=8,heads=2,seq=4,vocab=16").more.at("intermediate"), 32);
}

TEST(FindModel, TakesEveryBuiltInNameAndItsOwnSizes) {
  for (const ModelConfig& model : builtin_models()) EXPECT_EQ(find_model(model.name), model);
  const ModelConfig custom = find_model("gpt:vocab=128,layers=2,hidden=64,heads=4,seq=32");
  EXPECT_EQ(custom, (ModelConfig{"gpt", "gpt", 2, 64, 4, 32, 128, 1024, DType::F16}));
  EXPECT_EQ(find_model("mlp:layers=2,hidden=2048"), find_model("mlp"));
}

TEST(FindModel, AnswersAnUnknownNameWithTheNearest) {
  for (const char* name : {"gpt-2.7b", "gtp:layers=2"})
    EXPECT_NE(input_error([&] { (void)find_model(name); }).find("`meshwright models` lists all."), std::string::npos);
  EXPECT_NE(input_error([] {
              (void)find_model("gpt-2.7b");
            }).find("unknown model 'gpt-2.7b'; the nearest known are gpt-2.6b"),
            std::string::npos);
}

TEST(FindModel, SaysWhatIsWrongWithASize) {
  const auto error = [](const std::string& name) { return input_error([&] { (void)find_model(name); }); };
  EXPECT_EQ(error("mlp:layers=2"),
            "model 'mlp:layers=2': key 'hidden' is missing; give layers, hidden once each, as in "
            "'mlp:layers=2,hidden=2048'.");
  EXPECT_NE(error("mlp:layers=2,hidden=4,heads=2").find("unknown key 'heads'"), std::string::npos);
  EXPECT_NE(error("mlp:layers=2,hidden=4,layers=2").find("key 'layers' is given twice"), std::string::npos);
  EXPECT_NE(error("mlp:layers").find("'layers' is not key=number"), std::string::npos);
  EXPECT_NE(error("mlp:layers=0,hidden=4").find("layers: 0 is out of range"), std::string::npos);
  EXPECT_NE(error("mlp:layers=2,hidden=4x").find("'4x' is not a whole number"), std::string::npos);
  EXPECT_NE(error("gpt:layers=2,hidden=64,heads=5,seq=32,vocab=128").find("hidden=64 is not a multiple of heads=5"),
            std::string::npos);
}

TEST(FindModel, SaysWhichSizesDoNotFit) {
  const auto expect = [](const std::string& family, const std::string& sizes, const std::string& part) {
    const std::string text = fmt::format("{}:layers=2,hidden=64,heads=4,seq=32,vocab=128,{}", family, sizes);
    const std::string error = input_error([&] { (void)find_model(text); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect("llama", "intermediate=128,kv_heads=3", "heads=4 is not a multiple of kv_heads=3");
  expect("llama", "intermediate=128,head_dim=5", "head_dim=5 is odd");
  expect("llama", "intermediate=128,rotary_base=-1", "rotary_base must be a positive number, such as 10000");
  expect("llama", "intermediate=128,epsilon=nan", "epsilon must be a positive number");
  expect("llama", "intermediate=128,epsilon=small", "'small' is not a number");
  expect("llama", "tied=1",
         "key 'intermediate' is missing; give layers, hidden, heads, seq, vocab, intermediate once each "
         "and any of kv_heads,");
  expect("llama", "intermediate=128,tied=2", "tied: 2 is out of range");
  expect("gpt2", "positions=31", "seq=32 is more than the 31 positions it has learned");
  expect("gpt_neox", "rotary_dims=18", "rotary_dims=18 is more than the 16 dimensions of a head");
  expect("mixtral", "intermediate=8,experts=2,top_k=3", "top_k=3 is more than experts=2");
  expect("mixtral", "intermediate=8,experts=2,top_k=1,attention_chunk=12", "more than one attention chunk of 12");
  expect("deepseek_v3", "intermediate=8,experts=2,top_k=1,kv_rank=4,nope_dim=4,rope_dim=3,value_dim=4",
         "rope_dim=3 is odd");
}

// What was derived from the sizes stays: heads of 128.
TEST(FindModel, ChangesSizesOfAModelWithAName) {
  const ModelConfig whole = find_model("llama-3.1-8b"), small = find_model("llama-3.1-8b:layers=2,seq=128");
  EXPECT_EQ(small.layers, 2);
  EXPECT_EQ(small.seq, 128);
  EXPECT_EQ(small.hidden, 4096);
  EXPECT_EQ(small.more, whole.more);
  EXPECT_EQ(small.name, "llama-3.1-8b:layers=2,seq=128");
  const auto error = [](const std::string& name) { return input_error([&] { (void)find_model(name); }); };
  EXPECT_NE(error("llama-3.1-8b:depth=2").find("unknown key 'depth'; give any of layers, hidden,"), std::string::npos);
  EXPECT_NE(error("llama-3.1-8b:kv_heads=3").find("heads=32 is not a multiple of kv_heads=3"), std::string::npos);
  EXPECT_NE(error("llama-3.1-8b:layers=2,layers=3").find("given twice"), std::string::npos);
  EXPECT_THROW((void)find_model("no-such-file.json:layers=2"), SystemError);
}

TEST(FindModel, CountsStayWithin64Bits) {
  EXPECT_NE(input_error([] {
              (void)find_model(
                  "mixtral:layers=10000,hidden=1000000,heads=1000,intermediate=10000000,seq=8,vocab=8,experts=100000,"
                  "top_k=1");
            }).find("its layers would have more than 10^17 parameters"),
            std::string::npos);
}

TEST(TrainingOptions, MustDivide) {
  const ModelConfig model = find_model("mlp:layers=1,hidden=4");
  const auto error = [&](const TrainingOptions& options) {
    return input_error([&] { (void)build_training_graph(model, options); });
  };
  EXPECT_EQ(
      error({.batch = 10, .microbatches = 4}),
      "batch: 10 samples do not divide into 4 micro-batches; give a number of micro-batches that divides the batch.");
  EXPECT_NE(error({.batch = 0}).find("batch: 0 samples per step"), std::string::npos);
  EXPECT_NE(error({.batch = 1, .microbatches = 0}).find("micro-batches: 0"), std::string::npos);
  EXPECT_NE(error({.batch = 1, .dtype = DType::I32}).find("cannot be trained in i32"), std::string::npos);
}

TEST(ModelJson, ComesBackAsItWas) {
  for (const ModelConfig& model : builtin_models()) EXPECT_EQ(model_from_json(to_json(model), "plan.json"), model);
}

// A plan written before a family had a key is read as if it had been left at its default.
TEST(ModelJson, AMemberWithADefaultMayBeMissing) {
  const ModelConfig model = find_model("mixtral-8x7b");
  Json json = to_json(model);
  for (const char* key : {"head_dim", "sinks", "capacity_factor"}) json.erase(key);
  EXPECT_EQ(model_from_json(json, "plan.json"), model);
  json.erase("experts");
  EXPECT_NE(input_error([&] { (void)model_from_json(json, "plan.json"); }).find("plan.json: 'experts' is missing"),
            std::string::npos);
  json = to_json(model);
  json["heads"] = 0;
  EXPECT_NE(input_error([&] {
              (void)model_from_json(json, "plan.json");
            }).find("plan.json: heads is 0; give a number from 1 to"),
            std::string::npos);
}

TEST(ModelJson, NamesThePlaceOfAFault) {
  Json json = to_json(find_model("gpt-125m"));
  json["heads"] = 7;
  EXPECT_NE(input_error([&] {
              (void)model_from_json(json, "plan.json: model");
            }).find("plan.json: model: hidden=768 is not a multiple of heads=7"),
            std::string::npos);
  json["family"] = "rnn";
  EXPECT_NE(input_error([&] { (void)model_from_json(json, "p"); }).find("p: unknown model family 'rnn'"),
            std::string::npos);
  json.erase("family");
  EXPECT_NE(input_error([&] { (void)model_from_json(json, "p"); }).find("'family' is missing"), std::string::npos);
  Json other = to_json(find_model("mlp"));
  other["default_dtype"] = "f8";
  EXPECT_NE(input_error([&] { (void)model_from_json(other, "p"); }).find("p: default_dtype: unknown dtype 'f8'"),
            std::string::npos);
}

TEST(Fingerprint, IsTheSameForTheSameGraphAndOnlyThen) {
  const auto hash = [](const char* model, TrainingOptions options) {
    return stable_hash(canonical_text(build_training_graph(find_model(model), options)));
  };
  const char* small = "gpt:layers=2,hidden=8,heads=2,seq=4,vocab=16";
  EXPECT_EQ(hash(small, {.batch = 4}), hash(small, {.batch = 4}));
  EXPECT_NE(hash(small, {.batch = 4}), hash(small, {.batch = 4, .microbatches = 2}));
  EXPECT_NE(hash(small, {.batch = 4}), hash(small, {.batch = 4, .recompute = Recompute::Full}));
  EXPECT_NE(hash(small, {.batch = 4}), hash("gpt:layers=2,hidden=8,heads=4,seq=4,vocab=16", {.batch = 4}));
}

}  // namespace
}  // namespace meshwright::models_test
