// SPDX-License-Identifier: Apache-2.0
// The training script that export writes for FSDP2, and under accelerate: all that a plan says is in the constants at
// its head (training_constants of write/torch_model.h). The model is in model.py beside it. A command that starts it
// under accelerate leaves the degrees to accelerate's file, and the batch and the optimizer to the script.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/read/trainers/trainer_arguments.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

bool is_constant(std::string_view name) {
  return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
}

std::vector<std::string> trimmed(const std::string& list) {
  std::vector<std::string> parts;
  for (const std::string& part : split(list, ',')) {
    const std::size_t begin = part.find_first_not_of(" \t\r"), end = part.find_last_not_of(" \t\r");
    parts.push_back(begin == std::string::npos ? "" : part.substr(begin, end + 1 - begin));
  }
  return parts;
}

}  // namespace

bool is_torch_program(const std::string& text) {
  return text.find("\nDP_REPLICATE, DP_SHARD, CP, TP") != std::string::npos &&
         text.find("\nimport deepspeed") == std::string::npos;
}

void TextReader::torch_program(const GivenFile& file) {
  set_target(file.text.find("from accelerate import") != std::string::npos ? "accelerate" : "fsdp2");
  text_.program = place_of(file);
  text_.variant = "PyTorch";
  add_torch_constants(file);
}

bool TextReader::started_torch_program() {
  for (const ShellCommand& command : looked_at()) {
    const ProgramCall call = program_call(command.words);
    const auto text = call.program.ends_with(".py") ? written_or_named(call.program) : std::nullopt;
    if (!text || !is_torch_program(*text)) continue;
    torch_program({call.program, *text});
    text_.program = fmt::format("{}:{}: {}", command.file, call.line, file_name(call.program));
    add_launcher(text_, script_.directives);
    add_launcher(text_, call.launcher);
    if (!text_.devices && starts_one_process(call.launcher))
      text_.devices_per_host = text_.devices_per_host.value_or(1);
    return true;
  }
  return false;
}

// NAME = value, or NAME, NAME = value, value at the beginning of a line.
void TextReader::add_torch_constants(const GivenFile& file) {
  const std::string place = place_of(file);
  int number = 0;
  for (std::string line : split(file.text, '\n')) {
    ++number;
    const std::size_t equal = line.find(" = ");
    if (equal == std::string::npos || line.front() == ' ') continue;
    const std::vector<std::string> names = trimmed(line.substr(0, equal));
    if (!std::all_of(names.begin(), names.end(), is_constant)) continue;
    const std::string right = line.substr(equal + 3, line.find("  #") - equal - 3);
    const std::vector<std::string> values = names.size() == 1 ? std::vector<std::string>{right} : trimmed(right);
    require(values.size() == names.size(), "{}:{}: {} names and {} values.", place, number, names.size(),
            values.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      text_.settings.add(names[i], names[i], ConfigValue::scalar(values[i], number),
                         fmt::format("{}:{}", place, number));
  }
}

namespace {

void read_constants_of_optimizer(ReadingJob& job) {
  Settings& s = job.settings();
  Optimizer& optimizer = job.reading.setup.optimizer;
  const std::string made = s.text("OPTIMIZER").value_or("torch.optim.AdamW");
  constexpr std::string_view kMomentum = "momentum=";
  if (const std::size_t at = made.find(kMomentum); at != std::string::npos) {
    const std::string rest = made.substr(at + kMomentum.size()), text = rest.substr(0, rest.find_first_of(",)"));
    use_sgd(optimizer, real_number(text).value_or(-1.0), s.where("OPTIMIZER"));
  }
  optimizer.learning_rate = std::max(0.0, s.number("LEARNING_RATE").value_or(optimizer.learning_rate));
  optimizer.weight_decay = std::max(0.0, s.number("WEIGHT_DECAY").value_or(0.0));
  optimizer.max_norm = std::max(0.0, s.number("MAX_NORM").value_or(0.0));
}

}  // namespace

void read_torch_program(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  d.tp = degree_of(job, "TP");
  d.cp = degree_of(job, "CP");
  d.pp = degree_of(job, "PP");
  d.ep = degree_of(job, "EP");
  share_devices(job);
  const std::int64_t copies = degree_of(job, "DP_REPLICATE"), shard = degree_of(job, "DP_SHARD");
  if (copies * shard != d.dp && job.reading.why_no_plan.empty()) {
    const std::string why = fmt::format("DP_REPLICATE {} x DP_SHARD {} x CP {} x TP {} is not the {} devices", copies,
                                        shard, d.cp, d.tp, job.devices.devices());
    job.broken_without_plan(why);
  }
  if (copies > 1 && shard > 1) job.reading.setup.shard = as_degree(shard);
  require(take_given_model(job, std::nullopt),
          "{}: its model is in model.py; give --model with a built-in model, sizes or a config.json.",
          job.text.program);
  const std::int64_t zero = s.integer("ZERO", 0).value_or(3);
  require(zero <= 3, "{}: {} is no ZeRO level; give 0, 2 or 3.", s.where("ZERO"), zero);
  d.zero = d.dp * d.cp > 1 ? static_cast<int>(zero) : 0;
  if (s.flag("RECOMPUTE")) d.recompute = Recompute::Full;
  const std::string type = s.text("DTYPE").value_or("torch.bfloat16");
  job.reading.setup.dtype = type.ends_with("float32")    ? DType::F32
                            : type.ends_with("bfloat16") ? DType::BF16
                                                         : DType::F16;
  read_constants_of_optimizer(job);
  const std::int64_t given = degree_of(job, "MICRO_BATCH"), micro = job.answers.micro_batch.value_or(given);
  share_batch(job, micro, given * degree_of(job, "MICRO_BATCHES") * d.dp);
  job.reading.setup.steps = s.integer("STEPS").value_or(20);
}

bool read_constants_below_accelerate(ReadingJob& job, TrainerArguments& trainer) {
  Settings& s = job.settings();
  if (!s.has("MICRO_BATCH")) return false;
  trainer.micro_batch = s.integer("MICRO_BATCH");
  trainer.accumulation = s.integer("MICRO_BATCHES");
  trainer.recompute = s.flag("RECOMPUTE") && s.integer("ZERO", 0).value_or(3) == 0;
  read_constants_of_optimizer(job);
  job.reading.setup.steps = s.integer("STEPS").value_or(20);
  // Those of which accelerate is told in its file.
  s.no_effect([](const std::string& key) {
    return key == "DP_REPLICATE" || key == "DP_SHARD" || key == "CP" || key == "TP" || key == "PP" || key == "EP" ||
           key == "ZERO" || key == "DTYPE" || key == "RECOMPUTE";
  });
  return true;
}

}  // namespace meshwright
