// SPDX-License-Identifier: Apache-2.0
// What programs that fine-tune all weights over Hugging Face's trainer share: LLaMA-Factory, axolotl, ms-swift. Below
// them DeepSpeed or FSDP splits the states, or nothing does.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// DeepSpeed's file is given, which the reader of texts put below "ds.".
[[nodiscard]] bool has_deepspeed(const Settings& settings);
// The truth value of `key`; true for a word of its own ("auto"), and `otherwise` where it is absent.
[[nodiscard]] bool switched_on(Settings& settings, const std::string& key, bool otherwise = false);
// "eager" keeps the scores of attention in memory.
void take_attention_kernel(ReadingJob& job, const std::string& key);
// The loss in chunks of so many tokens of a device's micro-batch. REQUIRES: the batch is shared out.
void take_loss_by_tokens(ReadingJob& job, std::int64_t tokens);
// Liger's kernels take the last product and the loss in chunks of tokens, of models that they know: so the job does, as
// " (use_liger_kernel)" says, or where this key is switched on.
void use_liger(ReadingJob& job, const std::string& said_by);
void take_liger(ReadingJob& job, const std::string& key);
[[nodiscard]] bool begins_with_any(const std::string& key, std::initializer_list<const char*> groups);

// The model that is fine-tuned, by its name unless the caller gives one, with sequences of `seq_key`. Throws InputError
// where neither names one.
void take_tuned_model(ReadingJob& job, const std::string& key, const std::string& seq_key, std::int64_t seq_otherwise);
// ZeRO 3 or 2 of FSDP, by its own file or the keys of accelerate's.
void read_fsdp_keys(ReadingJob& job, const std::string& prefix);
void use_deepspeed(ReadingJob& job);
// DeepSpeed's keys; the batch is the trainer's.
void read_deepspeed_below(ReadingJob& job, DType type);
// Whether a name with "adam" in it is of an optimizer with states of another size, as galore_adamw.
[[nodiscard]] bool has_other_states(const std::string& optimizer);
// Moments of 8 bits, as the optimizer's name says ("paged_adamw_8bit").
void take_narrow_moments(ReadingJob& job, const std::string& optimizer);
void read_optimizer_of_trainer(ReadingJob& job, const std::string& key);
// `otherwise`: samples of a micro-batch where the settings do not say.
void share_trainer_batch(ReadingJob& job, const std::string& micro_key, std::int64_t otherwise);

}  // namespace meshwright
