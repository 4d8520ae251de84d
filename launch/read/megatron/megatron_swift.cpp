// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_swift.h"

#include <utility>

#include "launch/read/adapters.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

void read_swift(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  setup.release = "ms-swift 26aee6f1";
  s.rename({{"max-length", "seq-length"}});
  for (const char* key : {"train-type", "tuner-type", "quant-bits"}) {
    const std::string kind = s.text_or_nothing(key);
    if (kind == "lora") {
      std::vector<std::string> targets = listed_words(s, "target-modules");
      if (targets.empty()) targets = {"all-linear"};
      take_adapters(job, key, s.integer("lora-rank").value_or(8), std::move(targets));
    } else if (!kind.empty() && kind != "full") {
      expect_whole_model(job, key, kind);
    }
  }
  if (truth_value(s.text_or_nothing("freeze-llm")).value_or(false))
    expect_whole_model(job, "freeze-llm", "what is beside a frozen language model");
  const auto usual = [&](const char* key, const char* value) {
    if (!s.has(key)) s.add(key, key, ConfigValue::scalar(value, 0), "ms-swift's default");
  };
  usual("micro-batch-size", "1");
  usual("global-batch-size", "16");
  usual("recompute-granularity", "selective");
  usual("use-distributed-optimizer", "true");
  usual("bf16", "true");
  usual("expert-tensor-parallel-size", "1");
  const std::string name = s.name_or_nothing("model");
  if (job.answers.model || name.empty()) return;
  ModelConfig& model = setup.model = model_by_name(name, s.where("model"));
  setup.model_name = name;
  if (const auto seq = s.integer("seq-length")) model.seq = *seq;
  if (job.answers.seq) model.seq = *job.answers.seq;
  if (job.answers.vocab) model.vocab = *job.answers.vocab;
  job.assume(fmt::format("the sizes of {} for '{}'", model.name, name));
}

bool is_of_swift(const std::string& key) {
  for (const char* group :
       {"dataset",     "split-dataset", "packing",    "max-epochs", "finetune",   "cross-entropy",
        "num-workers", "streaming",     "system",     "model-",     "num-train",  "check-model",
        "hf-",         "template",      "loss-scale", "lazy-",      "truncation", "padding-free",
        "merge-",      "vit-",          "freeze-",    "logging-",   "report-to",  "output-dir",
        "add-non",     "use-hf",        "group-by",   "load-from",  "loss-type",  "moe-shared-expert-overlap"})
    if (key.starts_with(group)) return true;
  return false;
}

}  // namespace meshwright
