// SPDX-License-Identifier: Apache-2.0
// Names of models and of programs in launch files.
#include <gtest/gtest.h>

#include <string>

#include "core/graph/graph.h"
#include "launch/read/launch_reading.h"
#include "tests/refusal.h"

namespace meshwright::read_names_test {
namespace {

LaunchReading read(const std::string& name, const std::string& text, const LaunchAnswers& answers = {}) {
  return read_launch(read_launch_text({.files = {{name, text}}}), {1, 8}, answers);
}
std::string refused(const std::string& name, const std::string& text) {
  return refusal([&] { (void)read(name, text); });
}
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ReadNames, MistralSmallOf2409HasItsOwnSizes) {
  const auto of = [](const std::string& name) {
    return read("run.sh", "accelerate launch --num_processes 8 --use_fsdp train.py --model_name_or_path " + name +
                              " --per_device_train_batch_size 1 --bf16\n")
        .setup.model;
  };
  EXPECT_EQ(of("mistralai/Mistral-Small-Instruct-2409").layers, 56);
  EXPECT_EQ(of("mistralai/Mistral-Small-24B-Instruct-2501").layers, 40);
}

TEST(ReadNames, AFunctionOverARecipeHasTheRecipesModel) {
  const std::string text =
      "from megatron.bridge.recipes.llama import llama3_70b_pretrain_config\n"
      "def mine():\n  cfg = llama3_70b_pretrain_config()\n  cfg.model.tensor_model_parallel_size = 8\n"
      "  cfg.model.sequence_parallel = True\n  cfg.train.global_batch_size = 16\n  cfg.train.micro_batch_size = 1\n"
      "  return cfg\n";
  const LaunchReading reading = read("mine.py", text);
  EXPECT_EQ(reading.setup.model.layers, 80);
  EXPECT_EQ(reading.setup.degrees.tp, 8);
}

TEST(ReadNames, TorchtitansTestModelOfLlama4IsThatOfItsTables) {
  const LaunchReading reading = read("a.toml",
                                     "[model]\nname = \"llama4\"\nflavor = \"debugmodel\"\n[training]\n"
                                     "local_batch_size = 1\nseq_len = 256\n");
  const ModelConfig& model = reading.setup.model;
  EXPECT_EQ(shape_of(model).experts, 8);
  EXPECT_EQ(model.more.at("intermediate"), 768);
  EXPECT_EQ(model.more.at("expert_intermediate"), 512);
  EXPECT_EQ(model.more.at("mixture_every"), 2);
}

TEST(ReadNames, AnUnsetPathOfAModelIsNamed) {
  EXPECT_TRUE(holds(refused("run.sh",
                            "torchrun pretrain_gpt.py --bridge-hf-model $HF_PATH --seq-length 64 "
                            "--tensor-model-parallel-size 1\n"),
                    "give --set HF_PATH=VALUE"));
}

TEST(ReadNames, ProgramsThatAreNotReadAreNamed) {
  EXPECT_TRUE(holds(refused("run.sh", "colossalai run --nproc_per_node 8 train.py -c 7b\n"), "Colossal-AI"));
  EXPECT_TRUE(holds(refused("run.sh",
                            "python3 -m oneflow.distributed.launch --nproc_per_node 8 tools/train_net.py "
                            "model.cfg.num_layers=24 model.cfg.hidden_size=1024\n"),
                    "OneFlow"));
  EXPECT_TRUE(holds(refused("run.sh", "torchrun -m apps.main.train config=a.yaml\n"), "lingua"));
  EXPECT_TRUE(holds(refused("run.sh", "python src/levanter/main/train_lm.py --config_path a.yaml\n"), "Levanter"));
}

}  // namespace
}  // namespace meshwright::read_names_test
