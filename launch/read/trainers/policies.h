// SPDX-License-Identifier: Apache-2.0
// What verl and NeMo RL share: a model that is trained by Megatron-core or FSDP2, often on samples that it made itself
// before. Only the step that changes its weights is read.
#pragma once

#include <functional>
#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// Settings under Megatron-LM's names: `flag_of` gives the one of a key, or "" for a key that stays. Values of "null"
// are left out, as they are the default.
void name_as_flags(ReadingJob& job, const std::function<std::string(const std::string& key)>& flag_of);
// A flag that the program gives where the file does not.
void add_usual_flag(ReadingJob& job, const char* flag, const std::string& value, const std::string& place);
// Samples of the whole length in a micro-batch that holds `tokens` at most, so that micro-batches come out even among
// `samples` of a replica.
[[nodiscard]] std::int64_t samples_within(ReadingJob& job, std::int64_t tokens, std::int64_t samples);
// Says that the step is not all that the program does.
void say_update_alone(ReadingJob& job, const std::string& what, const std::string& rest);

}  // namespace meshwright
