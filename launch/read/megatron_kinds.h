// SPDX-License-Identifier: Apache-2.0
// Programs of Megatron-LM that train something else than a GPT.
#pragma once

#include <optional>

#include "launch/read/readers.h"

namespace meshwright {

// Throws InputError where the program does not train ("generate_samples_gpt.py"), or trains a model whose flags do not
// describe one of ours ("pretrain_t5.py") and no model is given instead.
void expect_training(ReadingJob& job);

// The model of --hybrid-layer-pattern (or --hybrid-override-pattern): M a Mamba-2 layer, * attention, - a dense
// feed-forward layer, E one of experts. `facts` are the sizes that every model has; its layers are those of the
// pattern. nullopt: no pattern is given.
[[nodiscard]] std::optional<ModelConfig> hybrid_model(ReadingJob& job, ModelFacts& facts);

// The letters of the pattern, without the marks of pipeline stages; "": no pattern is given.
[[nodiscard]] std::string hybrid_pattern(ReadingJob& job);

// The model of pretrain_bert.py; nullopt: it is another program.
[[nodiscard]] std::optional<ModelConfig> bert_model(ReadingJob& job, const ModelFacts& facts);

}  // namespace meshwright
