// SPDX-License-Identifier: Apache-2.0
// The published models that are built in: sizes against the checkpoints' numbers of parameters, and which of them a
// name of a hub, a recipe or a framework's table stands for.
#include "core/graph/models/builtin_models.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/text.h"
#include "core/graph/import/find_model.h"
#include "core/graph/models/model_names.h"
#include "tests/refusal.h"

namespace meshwright::builtin_models_test {
namespace {

// Those that transformers' own models have, built from the configurations that were published with the weights.
TEST(BuiltInModels, HaveTheParametersOfTheirCheckpoints) {
  const std::pair<const char*, std::int64_t> published[] = {{"llama-3.2-1b", 1'235'814'400},
                                                            {"llama-3.2-3b", 3'212'749'824},
                                                            {"llama-30b", 32'528'943'616},
                                                            {"llama-65b", 65'285'660'672},
                                                            {"codellama-34b", 33'743'970'304},
                                                            {"tinyllama-1.1b", 1'100'048'384},
                                                            {"mistral-7b", 7'248'023'552},
                                                            {"mistral-nemo-12b", 12'247'782'400},
                                                            {"mistral-small-24b", 23'572'403'200},
                                                            {"mistral-large-123b", 122'610'069'504},
                                                            {"qwen2.5-0.5b", 494'032'768},
                                                            {"qwen2.5-1.5b", 1'543'714'304},
                                                            {"qwen2.5-3b", 3'085'938'688},
                                                            {"qwen2.5-7b", 7'615'616'512},
                                                            {"qwen2.5-14b", 14'770'033'664},
                                                            {"qwen2.5-32b", 32'763'876'352},
                                                            {"qwen2.5-72b", 72'706'203'648},
                                                            {"qwen3-0.6b", 596'049'920},
                                                            {"qwen3-1.7b", 1'720'574'976},
                                                            {"qwen3-4b", 4'022'468'096},
                                                            {"qwen3-8b", 8'190'735'360},
                                                            {"qwen3-14b", 14'768'307'200},
                                                            {"qwen3-32b", 32'762'123'264},
                                                            {"gemma-2b", 2'506'172'416},
                                                            {"gemma-7b", 8'537'680'896},
                                                            {"gemma-2-2b", 2'614'341'888},
                                                            {"gemma-2-9b", 9'241'705'984},
                                                            {"gemma-2-27b", 27'227'128'320},
                                                            {"gemma-3-1b", 999'885'952},
                                                            {"gemma-3-4b", 3'880'263'168},
                                                            {"gemma-3-12b", 11'766'034'176},
                                                            {"gemma-3-27b", 27'009'346'304},
                                                            {"phi-2", 2'779'683'840},
                                                            {"phi-3-mini", 3'821'079'552},
                                                            {"phi-3-medium", 13'960'238'080},
                                                            {"phi-4", 14'659'507'200},
                                                            {"deepseek-v2-lite", 15'706'484'224},
                                                            {"yi-6b", 6'061'035'520},
                                                            {"yi-34b", 34'388'917'248},
                                                            {"smollm2-135m", 134'515'008},
                                                            {"smollm2-360m", 361'821'120},
                                                            {"smollm2-1.7b", 1'711'376'384},
                                                            {"gpt2", 124'439'808},
                                                            {"gpt2-medium", 354'823'168},
                                                            {"gpt2-large", 774'030'080},
                                                            {"gpt2-xl", 1'557'611'200},
                                                            {"opt-125m", 125'239'296},
                                                            {"opt-1.3b", 1'315'758'080},
                                                            {"opt-2.7b", 2'651'596'800},
                                                            {"opt-6.7b", 6'658'473'984},
                                                            {"opt-13b", 12'853'473'280},
                                                            {"opt-30b", 29'974'540'288},
                                                            {"opt-66b", 65'719'701'504},
                                                            {"bloom-560m", 559'214'592},
                                                            {"bloom-1.1b", 1'065'314'304},
                                                            {"bloom-1.7b", 1'722'408'960},
                                                            {"bloom-3b", 3'002'557'440},
                                                            {"bloom-7.1b", 7'069'016'064},
                                                            {"bloom-176b", 176'247'271'424},
                                                            {"pythia-70m", 70'426'624},
                                                            {"pythia-160m", 162'322'944},
                                                            {"pythia-410m", 405'334'016},
                                                            {"pythia-1b", 1'011'781'632},
                                                            {"pythia-1.4b", 1'414'647'808},
                                                            {"pythia-2.8b", 2'775'208'960},
                                                            {"pythia-6.9b", 6'857'302'016},
                                                            {"pythia-12b", 11'846'072'320},
                                                            {"gpt-neox-20b", 20'554'567'680},
                                                            {"gpt-j-6b", 6'050'882'784},
                                                            {"falcon-7b", 6'921'720'704},
                                                            {"falcon-40b", 41'303'293'952},
                                                            {"starcoder2-3b", 3'030'371'328},
                                                            {"starcoder2-15b", 15'957'889'024},
                                                            {"olmo-2-7b", 7'298'617'344},
                                                            {"olmo-2-13b", 13'716'198'400},
                                                            {"olmo-2-32b", 32'234'279'936},
                                                            {"olmoe-1b-7b", 6'919'161'856},
                                                            {"command-r", 34'980'831'232},
                                                            {"command-r-plus", 103'810'674'688},
                                                            {"dbrx", 131'596'523'520},
                                                            {"t5-small", 60'506'624},
                                                            {"t5-base", 222'903'552},
                                                            {"t5-large", 737'668'096},
                                                            {"t5-3b", 2'851'598'336},
                                                            {"t5-11b", 11'307'321'344},
                                                            {"roberta-base", 124'697'433},
                                                            {"roberta-large", 355'412'057},
                                                            {"qwen1.5-moe-a2.7b", 14'315'784'192},
                                                            {"granite-3.1-8b", 8'170'848'256},
                                                            {"granite-3.1-2b", 2'533'531'648},
                                                            {"mamba-2.8b", 2'768'345'600},
                                                            {"gpt-oss-20b", 20'914'757'184},
                                                            {"gpt-oss-120b", 116'829'156'672},
                                                            {"qwen3-30b-a3b", 30'532'122'624},
                                                            {"qwen3-coder-480b-a35b", 480'154'875'392},
                                                            {"qwen-7b", 7'721'324'544},
                                                            {"qwen1.5-0.5b", 463'987'712},
                                                            {"qwen1.5-110b", 111'209'914'368},
                                                            {"deepseek-r1-distill-qwen-1.5b", 1'777'088'000},
                                                            {"deepseek-r1-distill-llama-8b", 8'030'261'248},
                                                            {"deepseek-llm-7b", 6'910'365'696},
                                                            {"deepseek-coder-6.7b", 6'740'512'768},
                                                            {"codellama-7b", 6'738'546'688},
                                                            {"vicuna-13b", 13'015'864'320},
                                                            {"baichuan2-7b", 7'505'973'248},
                                                            {"internlm2-7b", 7'737'708'544},
                                                            {"yi-9b", 8'829'407'232},
                                                            {"phi-1.5", 1'418'270'720},
                                                            {"opt-350m", 331'196'416},
                                                            {"olmo-7b", 6'888'095'744},
                                                            {"smollm3-3b", 3'075'098'624},
                                                            {"gpt-neo-2.7b", 2'651'307'520},
                                                            {"starcoder", 15'517'456'384},
                                                            {"chatglm3-6b", 6'243'584'000},
                                                            {"mpt-7b", 6'649'286'656},
                                                            {"pythia-14m", 14'067'712},
                                                            {"flan-t5-small", 76'961'152},
                                                            {"flan-t5-xl", 2'849'757'184},
                                                            {"olmo-3-7b", 7'298'011'136}};
  for (const auto& [name, parameters] : published)
    EXPECT_EQ(parameter_count(build_forward_graph(find_builtin_model(name), {.batch = 1})), parameters) << name;
}

// Checkpoints of these models hold more than parameters, so the digits that are published count.
TEST(BuiltInModels, HaveTheBillionsThatAreSaidOfThem) {
  const std::pair<const char*, std::pair<double, double>> published[] = {
      {"moonlight-16b-a3b", {15.96, 5e-3}}, {"qwen3-next-80b-a3b", {79.7, 5e-2}}, {"deepseek-llm-67b", {67.4, 5e-2}},
      {"glm-4.5", {352.8, 5e-2}},           {"glm-4.5-air", {106.9, 5e-2}},       {"qwen2-57b-a14b", {57.4, 5e-2}},
      {"falcon-180b", {178.6, 5e-2}},       {"nemotron-4-340b", {341.0, 5e-2}},   {"nemotron-4-15b", {15.6, 5e-2}},
      {"minimax-m2", {228.7, 5e-2}},        {"starcoder2-7b", {7.17, 5e-3}},      {"deepseek-v3", {671.0, 5e-2}},
      {"deepseek-v4-flash", {284.0, 0.5}},  {"deepseek-v4-pro", {1573.0, 0.5}},   {"deepseek-v2", {235.7, 5e-2}}};
  for (const auto& [name, billions] : published) {
    const Graph graph = build_forward_graph(find_builtin_model(name), {.batch = 1});
    EXPECT_NEAR(1e-9 * static_cast<double>(parameter_count(graph)), billions.first, billions.second) << name;
  }
}

TEST(BuiltInModels, HaveNoNameTwice) {
  std::set<std::string> names;
  for (const BuiltInModel& published : builtin_sizes()) {
    EXPECT_TRUE(names.insert(published.name).second) << published.name;
    if (*published.also == '\0') continue;
    for (const std::string& also : split(published.also, ' ')) {
      EXPECT_TRUE(names.insert(also).second) << also;
      EXPECT_EQ(find_builtin_model(also).name, published.name);
    }
  }
}

std::string like(const std::string& name) {
  const auto model = builtin_model_like(name);
  return model ? model->name : "none";
}

TEST(ModelNames, OfHubsAreThoseOfTheirSizes) {
  const std::pair<const char*, const char*> hubs[] = {{"Llama-3.1-8B-Instruct", "llama-3.1-8b"},
                                                      {"Meta-Llama-3-70B", "llama-3.1-70b"},
                                                      {"Llama-2-7b-hf", "llama-7b"},
                                                      {"Llama-3.2-1B", "llama-3.2-1b"},
                                                      {"Qwen2.5-7B-Instruct", "qwen2.5-7b"},
                                                      {"Qwen3-0.6B", "qwen3-0.6b"},
                                                      {"gemma-7b", "gemma-7b"},
                                                      {"gemma-2-9b-it", "gemma-2-9b"},
                                                      {"Mistral-7B-v0.3", "mistral-7b"},
                                                      {"DeepSeek-R1", "deepseek-v3"},
                                                      {"DeepSeek-V2-Lite", "deepseek-v2-lite"},
                                                      {"bloom-7b1", "bloom-7.1b"},
                                                      {"OLMo-2-1124-7B", "olmo-2-7b"},
                                                      {"GLM-4.5-Air", "glm-4.5-air"},
                                                      {"c4ai-command-r-plus", "command-r-plus"},
                                                      {"Llama-4-Scout-17B-16E-Instruct", "llama4-scout"}};
  for (const auto& [name, model] : hubs) EXPECT_EQ(like(name), model) << name;
}

TEST(ModelNames, OfMixturesAreNoneOfDenseModels) {
  EXPECT_EQ(like("llama_7B_MoE_16Select4"), "none");
  EXPECT_EQ(like("mixtral-8x7b-moe"), "mixtral-8x7b");
}

TEST(ModelNames, OfRecipesAndTablesAreThoseOfTheirSizes) {
  const std::pair<const char*, const char*> recipes[] = {
      {"qwen3_32b_pretrain_config", "qwen3-32b"},
      {"llama31_405b", "llama-3.1-405b"},
      {"gemma3_27b", "gemma-3-27b"},
      {"nemotron4_340b", "nemotron-4-340b"},
      {"starcoder2_15b", "starcoder2-15b"},
      {"deepseek_v3 16B", "deepseek-v2-lite"},
      {"deepseek_v3 236B", "deepseek-v2"},
      {"deepseek3-671b", "deepseek-v3"},
      {"deepseek3.2-671b", "deepseek-v3.2"},
      {"llama4 17bx128e", "llama4-maverick"},
      {"gpt_oss 20b", "gpt-oss-20b"},
      {"deepseek2-16b", "deepseek-v2-lite"},
      {"qwen2_1p5b", "qwen2.5-1.5b"},
      {"qwen3_next_80b_a3b_sft", "qwen3-next-80b-a3b"},
      {"qwen3_600m_sft", "qwen3-0.6b"},
      {"qwen3_1_7b", "qwen3-1.7b"},
      {"llama_3_1_8b", "llama-3.1-8b"},
      {"nemotron_3_nano_pretrain_config", "nemotron-3-nano-30b-a3b"}};
  for (const auto& [name, model] : recipes) EXPECT_EQ(like(name), model) << name;
}

// Another generation, a smaller one, one that also sees, one that was only taught by the named one, and none.
TEST(ModelNames, OfOtherModelsStandForNone) {
  for (const char* name :
       {"Falcon3-7B-Base", "Qwen1.5-13B", "Phi-4-mini", "Qwen3-VL-8B-Instruct", "DeepSeek-R1-Distill-Llama-13B",
        "Qwen3-Next-90B-A3B", "GLM-4.7-Flash", "qwen3_5b", "bert", ""})
    EXPECT_EQ(like(name), "none") << name;
}

// A letter or a word tells another architecture from one of nearly the same name and size; so does a version between
// whose neighbours the family changed.
TEST(ModelNames, OfOtherKindsOfTheSameSizeStandForNone) {
  for (const char* name : {"gemma-3n-E4B-it", "GLM-4.5V", "glm_45v_finetune_config", "Falcon-H1-7B-Base",
                           "falcon-mamba-7b", "gpt-neo-6B", "Phi-4-multimodal-instruct", "Qwen3.5-4B", "Qwen3.6-4B",
                           "Qwen3-TTS-1.7B", "llava-v1.6-mistral-7b", "granite-speech-3.3-8b"})
    EXPECT_EQ(like(name), "none") << name;
  const std::pair<const char*, const char*> same[] = {{"vit-large-patch16-224", "vit-l16"},
                                                      {"clip-vit-large-patch14", "clip-l14"},
                                                      {"vit-base-patch16-224", "vit-b16"},
                                                      {"llama3_8b_h100_config", "llama-3.1-8b"},
                                                      {"Llama-3.3-70B-Instruct", "llama-3.1-70b"},
                                                      {"Qwen3.6-27B", "qwen3.5-27b"},
                                                      {"Yi-1.5-34B", "yi-34b"},
                                                      {"Phi-3-mini-4k-instruct", "phi-3-mini"},
                                                      {"Qwen1.5-7B-Chat", "qwen1.5-7b"},
                                                      {"Qwen/Qwen-7B", "qwen-7b"},
                                                      {"DeepSeek-R1-Distill-Llama-8B", "deepseek-r1-distill-llama-8b"},
                                                      {"QwQ-32B", "deepseek-r1-distill-qwen-32b"},
                                                      {"gpt-neo-1.3B", "gpt-neo-1.3b"},
                                                      {"flan-t5-large", "flan-t5-large"},
                                                      {"t5-v1_1-large", "flan-t5-large"},
                                                      {"OLMo-1.7-7B-hf", "olmo-1.7-7b"},
                                                      {"OLMo-2-1124-7B", "olmo-2-7b"},
                                                      {"bigscience/bloom", "bloom-176b"},
                                                      {"vicuna-7b-v1.5", "vicuna-7b"},
                                                      {"zephyr-7b-gemma-sft", "gemma-7b"},
                                                      {"phi-1_5", "phi-1.5"}};
  for (const auto& [name, model] : same) EXPECT_EQ(like(name), model) << name;
}

TEST(FindModel, TakesANameOfAHubWithOtherSizesToo) {
  EXPECT_EQ(find_model("Qwen/Qwen3-8B"), find_builtin_model("qwen3-8b"));
  EXPECT_EQ(find_model("Qwen/Qwen3-8B:layers=2"), find_builtin_model("qwen3-8b:layers=2"));
}

// A path of files is none of a hub, whatever it ends in.
TEST(FindModel, RefusesAPathWithoutAFileAndTakesAFolderWithOne) {
  const std::string path = testing::TempDir() + "builtin_models_test_qwen3-8b";
  std::filesystem::remove_all(path);
  for (const std::string& name : {path, std::string("./qwen3-8b"), std::string("a/b/qwen3-8b")})
    EXPECT_NE(refusal([&] { return find_model(name); }).find("is no file that a model is read from"), std::string::npos)
        << name;
  std::filesystem::create_directory(path);
  std::ofstream(path + "/config.json")
      << R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 16, "n_positions": 4})";
  EXPECT_EQ(find_model(path).hidden, 8);
}

// A folder of the user does not stand in the way of a built-in name.
TEST(FindModel, TakesABuiltInNameBesideAFolderOfThatName) {
  std::filesystem::create_directory("gpt-125m");
  std::ofstream("gpt-125m/config.json")
      << R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 16, "n_positions": 4})";
  EXPECT_EQ(find_model("gpt-125m").hidden, 768);
  EXPECT_EQ(find_model("./gpt-125m").hidden, 8);
  std::filesystem::remove_all("gpt-125m");
}

}  // namespace
}  // namespace meshwright::builtin_models_test
