// SPDX-License-Identifier: Apache-2.0
// Arguments of a program over Hugging Face's Trainer (transformers 5, TRL), which accelerate or DeepSpeed starts:
// "program.per_device_train_batch_size" among the settings of its launcher.
#pragma once

#include <optional>
#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// The first of these arguments, with dashes or underscores, that is there, as its key; or "".
[[nodiscard]] std::string argument_of_program(const Settings& settings, const std::vector<const char*>& names);

struct TrainerArguments {
  std::optional<std::int64_t> micro_batch, accumulation = {};
  std::optional<std::int64_t> batch = {};  // of all replicas
  std::optional<std::int64_t> zero = {};   // of programs that make DeepSpeed's settings themselves
  std::optional<DType> dtype = {};
  bool recompute = false, offloads_update = false;
  bool offloads = false;  // the states, and with ZeRO 3 the weights
};
// Beginnings of arguments are whole ones from now on. Throws InputError where the program trains adapters alone, or
// with further models or samples ("dpo.py").
[[nodiscard]] TrainerArguments trainer_arguments(ReadingJob& job);

// The constants of a script that export wrote, which accelerate starts (torch_program.cpp), as the trainer's arguments;
// false: there are none.
bool read_constants_below_accelerate(ReadingJob& job, TrainerArguments& trainer);

// How many devices share a sequence, as the program is told, and how they exchange keys and values.
void take_contexts_of_program(ReadingJob& job);

// What is left of the program's arguments changes nothing of the plan, but for degrees above one and what several of
// the Trainer's arguments begin with.
void no_effect_of_program(Settings& settings);

// --fsdp "full_shard auto_wrap": the level of ZeRO that it stands for, and groups of a host's devices where it is
// hybrid; nullopt: it is not given, or empty.
struct TrainerFsdp {
  int zero = 3;
  bool hybrid = false, offloads = false;
};
[[nodiscard]] std::optional<TrainerFsdp> trainer_fsdp(ReadingJob& job);

}  // namespace meshwright
