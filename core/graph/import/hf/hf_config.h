// SPDX-License-Identifier: Apache-2.0
// Models from Hugging Face's config.json files, and from those of llm-analysis (analysis_config.h).
//
// What is made is the family's language model with its head (...ForCausalLM, ...ForMaskedLM,
// ...ForConditionalGeneration), or its model of images with a classifier (...ForImageClassification), whatever
// `architectures` says, with exactly its parameters. The sequence is as long as the positions, but at most
// kLongestSequence; the dtype is `torch_dtype`, or bf16 where the file names none. The name is the file's without
// ".json" and "_config"; a file that is just config.json goes by its folder's.
//
// Not taken from a file: dropout, initialisation, quantisation (training is in one dtype), auxiliary losses,
// `architectures`. Differences of the graph from the original:
//   a mixture of experts has a fixed capacity, by default of a perfectly balanced load (key "capacity_factor");
//   deepseek_v3 chooses experts among all of them, not among those of the best groups; layers that predict further
//   tokens are behind the others, with the weight 0.3 of DeepSeek-V3's paper (key "mtp_weight"), and the indexers of
//   deepseek_v32 are not trained, as the loss has no gradient by them; gemma's norms weigh by their weights alone, not
//   by 1 more; minimax_m2, qwen3_next, hy_v3, longcat_flash, deepseek_v4 and bailing_hybrid lack the layers that
//   predict further tokens; weights of lfm2_moe's experts are divided by their sum, not by 1e-6 more.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/graph/models/models.h"

namespace meshwright {

constexpr std::int64_t kLongestSequence = 4096;

// The families, by the `model_type` of their files.
[[nodiscard]] std::vector<std::string> hf_model_types();

// Throws SystemError when the file cannot be read; InputError with the file and the member when one is missing or does
// not fit, and with the supported families when it is of another.
[[nodiscard]] ModelConfig model_from_hf_file(const std::string& path);

// The file's members that are not understood and may change the model, which is made without them; in the file's order.
// Throws as model_from_hf_file.
[[nodiscard]] std::vector<std::string> not_understood_of_hf_file(const std::string& path);

// What is taken for granted where the file does not say it, one phrase each (analysis_config.h); of a publisher's file
// nothing.
[[nodiscard]] std::vector<std::string> assumed_of_hf_file(const std::string& path);

// What scales the rotation of queries and keys by the file in a way that is not known, "rope_scaling (NAME)": the work
// and the parameters are the same, but results of given weights are not. nullopt: nothing does.
[[nodiscard]] std::optional<std::string> scaled_rotation_of_hf_file(const std::string& path);

// model_from_hf_file for the text of such a file; `place` is put in front of messages. Python's Infinity and NaN may
// stand wherever no member that is read has them.
[[nodiscard]] ModelConfig model_from_hf_text(const std::string& text, const std::string& name,
                                             const std::string& place);

}  // namespace meshwright
