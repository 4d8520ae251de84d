// SPDX-License-Identifier: Apache-2.0
// llm.c (train_gpt2.cu of 2025): the flags of one letter that its program takes, behind mpirun or srun. Defaults are
// those of its main(); replicas hold all weights, and with -z 1 each a part of the optimizer's states.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"
#include "launch/read/trainers/fine_tuning.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

bool is_program(const std::string& word) {
  const std::string name = file_name(word);
  return name == "train_gpt2cu" || name == "train_gpt2fp32cu";
}

struct Size {
  int layers, width, head;
};
// "d12": layers of a GPT-2; "gpt3:c768": width of a GPT-3.
constexpr Size kGpt2[] = {{6, 384, 64}, {12, 768, 64}, {24, 1024, 64}, {36, 1280, 64}, {48, 1600, 64}, {60, 1920, 64}};
constexpr Size kGpt3[] = {{6, 384, 64},   {12, 768, 64},   {24, 1024, 64},  {24, 1536, 96},  {24, 2048, 128},
                          {32, 2560, 80}, {32, 4096, 128}, {40, 5140, 128}, {96, 12288, 128}};
constexpr std::int64_t kWords = 50304;  // padded

ModelConfig model_of_descriptor(ReadingJob& job, std::int64_t seq) {
  const std::string name = job.settings().text("e").value_or("gpt2_124M_bf16.bin");
  const Size* found = nullptr;
  const std::size_t depth = name.starts_with("gpt2:") ? 5 : 0;
  for (const Size& size : kGpt2)
    if (name.substr(depth) == fmt::format("d{}", size.layers)) found = &size;
  for (const Size& size : kGpt3)
    if (name == fmt::format("gpt3:c{}", size.width)) found = &size;
  if (found == nullptr && name.find("124M") != std::string::npos) found = &kGpt2[1];
  require(found != nullptr, "{}: '{}' is no depth or width that is known (d12, gpt3:c768); give --model.",
          job.settings().where("e"), printable(name));
  ModelFacts facts;
  facts.layers = found->layers;
  facts.hidden = found->width;
  facts.heads = found->width / found->head;
  facts.seq = seq;
  facts.positions_learned = std::max<std::int64_t>(1024, seq);
  facts.vocab = job.answers.vocab.value_or(kWords);
  return model_of(facts, "", job.text.program, job.reading.assumed);
}

}  // namespace

bool TextReader::llm_c() {
  for (const ShellCommand& command : looked_at()) {
    const std::vector<ShellWord>& words = command.words;
    const auto program =
        std::find_if(words.begin(), words.end(), [](const ShellWord& word) { return is_program(word.text); });
    // Others compile it, or copy it to further hosts.
    const std::string first = file_name(words.front().text);
    const bool starts = program == words.begin() || first == "mpirun" || first == "mpiexec" || first == "srun" ||
                        first == "nsys" || first == "nohup";
    if (program == words.end() || !starts) continue;
    set_target("accelerate");
    text_.variant = "llm.c";
    text_.program = fmt::format("{}:{}: {}", command.file, program->line, file_name(program->text));
    add_launcher(text_, script_.directives);
    add_launcher(text_, {words.begin(), program});
    if (!text_.devices && !text_.hosts && program == words.begin()) text_.devices = 1;
    for (auto word = program + 1; word + 1 < words.end(); ++word) {
      if (word->text.size() < 2 || word->text[0] != '-') continue;
      const ShellWord& value = *(word + 1);
      text_.settings.add(word->text.substr(1), word->text, ConfigValue::scalar(value.text, value.line),
                         fmt::format("{}:{}", command.file, word->line));
      ++word;
    }
    return true;
  }
  return false;
}

void read_llm_c(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  LaunchSetup& setup = job.reading.setup;
  use_plain_fsdp(job, "llm.c of 2025", "llm.c");
  share_devices(job);
  const std::int64_t seq = sequence_of(job, "t").value_or(1024);
  if (!take_given_model(job, seq)) setup.model = model_of_descriptor(job, seq);
  const std::int64_t zero = s.integer("z", 0).value_or(0);
  require(zero <= 1, "{}: ZeRO {} is not in llm.c, which falls back to 0; give 0 or 1.", s.where("z"), zero);
  d.zero = d.dp > 1 ? static_cast<int>(zero) : 0;
  const std::int64_t level = s.integer("r", 0).value_or(1);
  if (level > 0) {
    d.recompute = Recompute::Selective;
    job.assume(fmt::format("norms and activations recomputed for -r {}", level));
  }
  keep_to(job, {0, 1}, {Recompute::None, Recompute::Selective});
  setup.overlap_gradients = true;
  setup.dtype = job.text.program.find("fp32") != std::string::npos ? DType::F32 : DType::BF16;
  setup.optimizer.weight_decay = std::max(0.0, s.number("c").value_or(0.0));
  setup.optimizer.max_norm = 1.0;
  job.reading.software = "";
  job.assume("costs without a profile: nobody measured llm.c here");
  const std::int64_t micro = job.answers.micro_batch.value_or(s.integer("b").value_or(4));
  const std::int64_t tokens = s.integer("d", -1).value_or(-1);
  if (tokens > 0 && tokens % seq != 0)
    job.broken_without_plan(fmt::format("-d {} tokens are not whole sequences of {}", tokens, seq));
  share_batch(job, micro, tokens > 0 ? std::optional(std::max<std::int64_t>(1, tokens / seq)) : std::nullopt);
  s.no_effect([](const std::string& key) {
    static const std::vector<std::string> kOthers = {"i",  "j",  "o",  "v",  "s",  "g",  "h",  "k",  "l",  "q",  "u",
                                                     "n",  "x",  "y",  "m",  "w",  "a",  "f",  "ge", "nk", "nm", "lg",
                                                     "sl", "sg", "pi", "pf", "ps", "pm", "pr", "pn", "pg"};
    return std::find(kOthers.begin(), kOthers.end(), key) != kOthers.end();
  });
}

}  // namespace meshwright
