// SPDX-License-Identifier: Apache-2.0
// Programs of Megatron-LM that train something else than a GPT.
#pragma once

#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// Throws InputError where the program does not train ("generate_samples_gpt.py", --task LAMBADA), trains other weights
// than the model's (--lora-r) or a model whose flags do not describe one of ours ("pretrain_t5.py") and no model is
// given instead.
void expect_training(ReadingJob& job);

// The same of a recipe of Megatron-Bridge, whose adapters have a scheme or a name ("--peft_scheme lora").
void expect_whole_recipe(ReadingJob& job);
// Throws InputError where sizes of Megatron-Bridge without a recipe are those of no decoder; else says that they are
// taken for one.
void expect_decoder_sizes(ReadingJob& job);

// The letters of --hybrid-layer-pattern (or --hybrid-override-pattern), without the marks of pipeline stages; those of
// the layers that Megatron-LM shares out where there is none, but a program or flags of Mamba; "": neither is given.
// Throws InputError for shares that are none, and for a specification of layers that is not Megatron-LM's.
[[nodiscard]] std::string hybrid_pattern(ReadingJob& job);
// Its model: M is a Mamba-2 layer, * attention, - a dense feed-forward layer, E one of experts. `facts` are the sizes
// that every model has. Throws InputError for other letters.
[[nodiscard]] ModelConfig hybrid_model(ReadingJob& job, const std::string& pattern, const ModelFacts& facts);

// pretrain_bert.py, or flags alone with BERT's data.
[[nodiscard]] bool trains_bert(ReadingJob& job);

// pretrain_t5.py, or a file with the layers of its decoder.
[[nodiscard]] bool trains_t5(ReadingJob& job);
// Its model. `facts` are the sizes that every model has, with the decoder's sequence. Throws InputError for stages,
// which split an encoder and a decoder in ways of their own.
[[nodiscard]] ModelConfig t5_model(ReadingJob& job, const ModelFacts& facts);

}  // namespace meshwright
