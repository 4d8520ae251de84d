// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/pai_megatron.h"

#include <algorithm>

#include "core/base/text.h"

namespace meshwright {

namespace {

struct Tokenizer {
  std::string_view name;
  std::int64_t words;
  bool padded = false;  // the words of the model, whatever is added
};

// Where one name has several sizes, the file's is the first that makes whole rows of the table.
constexpr Tokenizer kTokenizers[] = {{"QwenTokenizer", 151851},
                                     {"QwenVLTokenizer", 151851},
                                     {"Qwen2Tokenizer", 151643},
                                     {"Qwen2VLTokenizer", 151643},
                                     {"Qwen3Tokenizer", 151643},
                                     {"LLama3Tokenizer", 128000},
                                     {"LLamaTokenizer", 32000},
                                     {"LLama2Tokenizer", 32000},
                                     {"MixtralTokenizer", 32000},
                                     {"MistralTokenizer", 32000},
                                     {"VicunaTokenizerFromHF", 32000, true},
                                     {"DeepSeekV2Tokenizer", 100000},
                                     {"DeepSeekV2Tokenizer", 128813},
                                     {"DeepSeekV2Tokenizer", 163840},
                                     {"FalconTokenizer", 65024},
                                     {"BaichuanTokenizer", 64000},
                                     {"BaichuanTokenizer", 125696},
                                     {"YiTokenizer", 64000},
                                     {"BloomTokenizerFromHF", 250880, true},
                                     {"ChatGLMTokenizerFromHF", 130528, true},
                                     {"GLM10BZHTokenizerFromHF", 50048, true},
                                     {"IcetkGLM130BTokenizer", 150528, true},
                                     {"StarcoderTokenizerFromHF", 49152, true}};
constexpr std::int64_t kRow = 64;

}  // namespace

std::optional<std::int64_t> words_of_patch(ReadingJob& job) {
  Settings& s = job.settings();
  const std::string name = s.name_or_nothing("patch-tokenizer-type");
  const std::int64_t more = s.integer("extra-vocab-size", 0).value_or(0);
  const Tokenizer* found = nullptr;
  for (const Tokenizer& one : kTokenizers) {
    if (one.name != name) continue;
    const bool whole = (one.words + more) % kRow == 0;
    if (found == nullptr || (whole && (found->words + more) % kRow != 0)) found = &one;
  }
  if (found == nullptr) return std::nullopt;
  job.assume(found->padded || more == 0
                 ? fmt::format("{} words of {} (--vocab)", found->words, name)
                 : fmt::format("{} words of {} and {} more of --extra-vocab-size (--vocab)", found->words, name, more));
  return found->words + (found->padded ? 0 : more);
}

void name_patch_as_megatron(Settings& settings) {
  settings.rename({{"use-llama2-rotary-position-embeddings", "use-rotary-position-embeddings"},
                   {"n-head-kv", "num-query-groups"},
                   {"intermediate-size", "ffn-hidden-size"}});
  // All products but those of queries, keys and values.
  if (settings.flag("disable-bias-linear-fc") && settings.flag("disable-bias-attn-fc"))
    for (const char* key : {"disable-bias-linear", "add-qkv-bias"})
      if (!settings.has(key))
        settings.add(key, "--disable-bias-linear-fc", ConfigValue::scalar("true", 0),
                     settings.where("disable-bias-linear-fc"));
}

bool read_patch_optimizer(ReadingJob& job, const std::string& kind) {
  if (kind != "hybridadam" && kind != "cpu-adam") return false;
  Settings& s = job.settings();
  offload_update(job);
  const std::string policy = s.text_or_nothing("optimizer-offload-policy");
  if (policy == "auto") job.assume("all of the optimizer state on the host (--optimizer-offload-policy auto)");
  for (const char* key : {"optimizer-offload-chunk-size", "optimizer-offload-auto-threshold"}) (void)s.take(key);
  if (const auto part = s.number("optimizer-offload-fraction"); part && *part != 1.0)
    job.assume(fmt::format("all of the optimizer state on the host, not {:g} of it", *part));
  return true;
}

}  // namespace meshwright
