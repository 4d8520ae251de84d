// SPDX-License-Identifier: Apache-2.0
// Scripts that launch several trainings, and what commands print where the step depends on it.
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/read/launch_choice.h"
#include "tests/refusal.h"

namespace meshwright::several_launches_test {
namespace {

const std::string kGpt =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 64 --vocab-size 50304 --bf16 ";
const std::string kTuned =
    "accelerate launch --num_processes 8 sft.py --model_name_or_path meta-llama/Llama-3.1-8B "
    "--per_device_train_batch_size 2 --max_length 2048 --bf16 ";

LaunchInput script(const std::string& text) { return {.files = {{"run.sh", text}}}; }
LaunchReading read(const LaunchInput& input) { return read_launch(read_launch_text(input), {1, 8}, {}); }
LaunchReading read(const std::string& text, std::map<std::string, std::string> variables = {}) {
  LaunchInput input = script(text);
  input.variables = std::move(variables);
  return read(input);
}
LaunchChoice choice_of(const std::string& text) {
  return choose_launch(script(text), [](const LaunchInput& one) { return read(one); });
}
std::string refused(const std::string& text) {
  return refusal([&] { (void)read(text); });
}

TEST(SeveralLaunches, OfALoopOverSizesAreListedAndOneIsChosen) {
  const std::string loop = "for n in 12 24; do\n" + kGpt + "--num-layers $n\ndone\n";
  const std::string list =
      "run.sh: launches 2 trainings: 1 (run.sh:2: pretrain_gpt.py --num-layers 12), "
      "2 (run.sh:2: pretrain_gpt.py --num-layers 24); choose one with --launch N.";
  EXPECT_EQ(refused(loop), list);
  EXPECT_EQ(refusal([&] { (void)choice_of(loop); }), list);
  LaunchInput second = script(loop);
  second.launch = 2;
  EXPECT_EQ(read(second).setup.model.layers, 24);
  second.launch = 3;
  EXPECT_NE(refusal([&] { (void)read(second); }).find("give one from 1 to 2"), std::string::npos);
}

TEST(SeveralLaunches, OfTheSameTrainingAreOne) {
  const LaunchChoice choice = choice_of("for s in 1 2 3; do\n" + kGpt + "--num-layers 12 --seed $s --lr 1e-$s\ndone\n");
  EXPECT_EQ(choice.launch, 1);
  ASSERT_EQ(choice.notes.size(), 1u);
  EXPECT_EQ(choice.notes[0],
            "3 commands launch the same training: launch 1 is read, run.sh:2: pretrain_gpt.py --seed 1 --lr 1e-1");
}

TEST(SeveralLaunches, OfWhichOneCanBeReadAreSaid) {
  const LaunchChoice choice = choice_of(kTuned + "\n" + kTuned + "--use_qlora true\n");
  EXPECT_EQ(choice.launch, 1);
  ASSERT_EQ(choice.notes.size(), 1u);
  EXPECT_NE(choice.notes[0].find("not read: launch 2, run.sh:2: sft.py --use_qlora true"), std::string::npos);
  EXPECT_NE(choice.notes[0].find("adapters"), std::string::npos);
}

TEST(SeveralLaunches, CountTrainingsThatAreNotRead) {
  const std::string both = kTuned + "\npython -m openrlhf.cli.train_dpo --zero_stage 3\n";
  EXPECT_EQ(launches_of(script(both)).size(), 2u);
  LaunchInput second = script(both);
  second.launch = 2;
  EXPECT_NE(refusal([&] { (void)read(second); }).find("learns by reinforcement"), std::string::npos);
  EXPECT_TRUE(launches_of(script("python convert.py\n")).empty());
}

TEST(SeveralLaunches, NameFilesOfSettings) {
  LaunchInput input = script("litgpt pretrain --config a.yaml\nlitgpt pretrain --config b.yaml\n");
  input.files.push_back({"a.yaml", "model_name: pythia-14m\nout_dir: a\ntrain:\n  max_seq_length: 512\n"});
  input.files.push_back({"b.yaml", "model_name: pythia-14m\nout_dir: b\ntrain:\n  max_seq_length: 1024\n"});
  EXPECT_NE(refusal([&] { (void)read_launch_text(input); }).find("launches 2 trainings"), std::string::npos);
  input.launch = 2;
  EXPECT_EQ(read_launch_text(input).settings.where("train.max_seq_length"), "b.yaml:4: train.max_seq_length");
}

TEST(PrintedValues, AreRefusedWhereTheStepDependsOnThem) {
  EXPECT_EQ(refused(kGpt + "--num-layers $(python count.py)\n"),
            "run.sh:1: --num-layers: its value '${output_of_python}' is not known without running the script; give "
            "--set output_of_python=VALUE, or --set of the variable that holds it.");
  EXPECT_EQ(read(kGpt + "--num-layers $(python count.py)\n", {{"output_of_python", "24"}}).setup.model.layers, 24);
  // Two commands of one program are two values.
  EXPECT_NE(refused(kGpt + "--num-layers $(python a.py) --tensor-model-parallel-size `python b.py`\n")
                .find("output_of_python"),
            std::string::npos);
  const LaunchReading told = read(kGpt + "--num-layers $(python a.py) --tensor-model-parallel-size `python b.py`\n",
                                  {{"output_of_python", "12"}, {"output_of_python_2", "4"}});
  EXPECT_EQ(told.setup.model.layers, 12);
  EXPECT_EQ(told.setup.degrees.tp, 4);
}

TEST(PrintedValues, OfWordsThatChooseAreRefusedAndOfPathsAreNot) {
  EXPECT_NE(refused(kTuned + "--gradient_checkpointing $(cat flag)\n").find("--set output_of_cat=VALUE"),
            std::string::npos);
  EXPECT_NE(refused(kTuned + "--optim $OPTIMIZER\n").find("--set OPTIMIZER=VALUE"), std::string::npos);
  EXPECT_EQ(refused(kTuned + "--output_dir out/$(date) --run_name $NAME\n"), "not refused");
}

TEST(PrintedValues, OfTheNumberOfHostsLeaveItOpen) {
  const LaunchText text =
      read_launch_text(script("torchrun --nnodes $(wc -l hosts) " + kGpt.substr(9) + "--num-layers 12\n"));
  EXPECT_FALSE(text.hosts.has_value());
  EXPECT_EQ(text.open_hosts, "run.sh:1: --nnodes ${output_of_wc}");
  EXPECT_EQ(read_launch_text(script(kGpt + "--num-layers 12\n")).hosts, 1);
}

TEST(PrintedValues, OfFoldersInFrontOfANameDoNotMatter) {
  const std::string named =
      kTuned.substr(0, kTuned.find("meta")) + "$HOME/models/Llama-3.1-8B" + kTuned.substr(kTuned.find(" --per"));
  EXPECT_EQ(read(named).setup.model.layers, 32);
}

}  // namespace
}  // namespace meshwright::several_launches_test
