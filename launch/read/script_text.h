// SPDX-License-Identifier: Apache-2.0
// From the commands of a shell script to the settings of the framework that they launch.
#pragma once

#include "launch/read/launch_text.h"
#include "launch/syntax/shell.h"

namespace meshwright {

// A program with its arguments, as torchrun, srun, python or a framework's own launcher starts it.
struct ProgramCall {
  std::vector<ShellWord> launcher;  // the words before the program
  std::string program;              // "pretrain_gpt.py", "torchtitan.train" of `-m`; "": none is named
  std::vector<ShellWord> arguments;
  int line = 0;
};
[[nodiscard]] ProgramCall program_call(const std::vector<ShellWord>& words);

// ms-swift's `megatron sft`, `megatron pt` or `megatron rlhf`, whose flags are Megatron-LM's.
[[nodiscard]] bool is_swift(const std::vector<ShellWord>& words);

// The program that fine-tunes over Hugging Face's trainer, where a call is one of its commands (`swift sft`,
// `llamafactory-cli train`, `axolotl train`, `trl sft`) or starts its module: "ms-swift", "LLaMA-Factory", "axolotl",
// "TRL" or "verl"; "": none.
[[nodiscard]] std::string trainer_of(const ProgramCall& call);

// A program of NeMo's first trainer, which words of Hydra tell of a trainer and a model.
[[nodiscard]] bool is_nemo_call(const ProgramCall& call);

// Why a known program is not read ("learns by reinforcement, ..."), which its name or flags show; "": nothing shows it.
[[nodiscard]] std::string why_not_read(const ProgramCall& call);

// A known program that trains and is not read, which why_not_read() says of others, too.
[[nodiscard]] bool is_unread_training(const ProgramCall& call);

// A program of lingua or Levanter, all of whose settings are in the YAML that it names.
[[nodiscard]] bool has_file_of_settings(const ProgramCall& call);

// The target that a call launches; "": none that is known.
[[nodiscard]] std::string target_of(const ProgramCall& call);

// Flags ("--a-b v w", "--a=v") as settings of keys without dashes in front; underscores are dashes but in Own. Words
// "key=value" are settings, too, or, with Alone, values of the flag before them.
enum class FlagStyle { Own, Dashes, Alone };
void add_flags(Settings& settings, const std::vector<ShellWord>& words, const std::string& file, FlagStyle style);

// torchrun, or the module that it stands for.
[[nodiscard]] bool is_torchrun(const std::vector<ShellWord>& launcher);
// It starts one process of a host where it is not told of more.
[[nodiscard]] bool starts_one_process(const std::vector<ShellWord>& launcher);

// "--nnodes ${N}" where the number of hosts is not resolved; "": it is, or is not given.
[[nodiscard]] std::string open_hosts(const std::vector<ShellWord>& launcher);
// Hosts and devices that the launcher's words and the directives ask for.
void add_launcher(LaunchText& text, const std::vector<ShellWord>& words);

}  // namespace meshwright
