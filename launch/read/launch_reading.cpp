// SPDX-License-Identifier: Apache-2.0
#include "launch/read/launch_reading.h"
#include "launch/read/adapters.h"

#include <algorithm>

#include "core/base/errors.h"
#include "launch/read/readers.h"
#include "launch/rules/launch_rules.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

std::optional<LaunchDevices> devices_of(const LaunchText& text) {
  if (text.devices && text.hosts && *text.hosts >= 1 && *text.devices % *text.hosts == 0)
    return LaunchDevices{as_degree(*text.hosts), as_degree(*text.devices / *text.hosts)};
  if (text.hosts && text.devices_per_host)
    return LaunchDevices{as_degree(*text.hosts), as_degree(*text.devices_per_host)};
  if (text.devices && text.devices_per_host && *text.devices % *text.devices_per_host == 0)
    return LaunchDevices{as_degree(*text.devices / *text.devices_per_host), as_degree(*text.devices_per_host)};
  // Hosts of eight where only their number, or that of all devices, is said.
  constexpr int kUsual = 8;
  if (text.hosts) return LaunchDevices{as_degree(*text.hosts), kUsual};
  if (text.devices && *text.devices <= kUsual) return LaunchDevices{1, as_degree(*text.devices)};
  if (text.devices && *text.devices % kUsual == 0) return LaunchDevices{as_degree(*text.devices / kUsual), kUsual};
  return std::nullopt;
}

namespace {

void read_by_target(ReadingJob& job) {
  const std::string& target = job.text.target;
  using Reader = void (*)(ReadingJob&);
  static constexpr std::pair<const char*, Reader> kPrograms[] = {{"GPT-NeoX", read_neox},
                                                                 {"nanotron", read_nanotron},
                                                                 {"OLMo", read_olmo},
                                                                 {"OLMo-core", read_olmo_core},
                                                                 {"LLaMA-Factory", read_llama_factory},
                                                                 {"LLaMA-Factory v1", read_llama_factory_v1},
                                                                 {"axolotl", read_axolotl},
                                                                 {"verl", read_verl},
                                                                 {"PyTorch", read_torch_program},
                                                                 {"llm-foundry", read_foundry},
                                                                 {"NeMo Automodel", read_automodel},
                                                                 {"torchtune", read_torchtune},
                                                                 {"LitGPT", read_litgpt},
                                                                 {"lingua", read_lingua},
                                                                 {"Levanter", read_levanter},
                                                                 {"VeOmni", read_veomni},
                                                                 {"llm.c", read_llm_c},
                                                                 {"nanoGPT", read_nanogpt},
                                                                 {"nanochat", read_nanochat},
                                                                 {"Fast-LLM", read_fast_llm},
                                                                 {"verl actor", read_verl_actor},
                                                                 {"NeMo RL", read_nemo_rl},
                                                                 {"picotron", read_picotron},
                                                                 {"prime-rl", read_prime_rl}};
  if (job.text.variant == "verl" && target == "megatron") return read_verl_megatron(job);
  for (const auto& [variant, reader] : kPrograms)
    if (job.text.variant == variant) return reader(job);
  if (job.text.variant == "ms-swift" && target != "megatron") return read_ms_swift(job);
  if (target == "megatron" || target == "megatron-bridge" || target == "flagscale") return read_megatron(job);
  if (target == "torchtitan") return read_torchtitan(job);
  if (target == "deepspeed") return read_deepspeed(job);
  if (target == "jax") return read_jax(job);
  if (target == "alpa") return read_alpa(job);
  if (target == "nnscaler") return read_nnscaler(job);
  if (target == "maxtext") return read_maxtext(job);
  if (target == "accelerate" || target == "fsdp2") return read_accelerate(job);
  throw InputError(
      fmt::format("--as: files of {} are not read; give one of megatron, megatron-bridge, torchtitan, deepspeed, "
                  "fsdp2, accelerate, maxtext, jax, alpa, nnscaler or flagscale.",
                  target));
}

// What the framework asserts of the setup, beside what the reader has seen in the flags. What writers of files check of
// the model is no rule for a file that names its own.
void add_rules(LaunchReading& reading, bool of_its_own) {
  if (find_launch_target(reading.setup.target).own_shardings) {
    const std::vector<std::string> own = broken_assertions(reading.setup);
    reading.broken.insert(reading.broken.end(), own.begin(), own.end());
    return;
  }
  const Framework& usual = find_framework(find_launch_target(reading.setup.target).framework);
  LaunchSetup setup = reading.setup;
  setup.degrees = degrees_with_layout(setup);
  // One stage runs under every schedule.
  if (setup.degrees.pp == 1) setup.degrees.schedule = ScheduleKind::OneFOneB;
  const bool as_usual = reading.framework.name == usual.name && reading.framework.zero == usual.zero &&
                        reading.framework.sequences == usual.sequences &&
                        reading.framework.schedules == usual.schedules &&
                        reading.framework.recompute == usual.recompute &&
                        reading.framework.zero_with_experts == usual.zero_with_experts &&
                        reading.framework.whole_experts == usual.whole_experts && !of_its_own;
  // FlagScale's own rules are of stages that differ; without such it is Megatron-LM.
  const bool without_stages = find_launch_target(setup.target).own_stages && setup.stages.empty();
  std::vector<std::string> broken;
  Framework told = reading.framework;
  told.splits_ends = true;  // the file says what it says of its stages
  try {
    const bool whole = (as_usual && !without_stages) || !setup.stages.empty();
    broken = whole ? broken_assertions(setup) : broken_rules(told, shape_of(setup.model), setup.degrees);
  } catch (const InputError&) {  // a model of the caller's that is no stack of decoder blocks
    broken = broken_rules(told, shape_of(setup.model), setup.degrees);
  }
  reading.broken.insert(reading.broken.end(), broken.begin(), broken.end());
}

}  // namespace

LaunchReading read_launch(const LaunchText& text, const LaunchDevices& devices, const LaunchAnswers& answers) {
  const LaunchTarget& target = find_launch_target(text.target);
  ReadingJob job{text, devices, answers, {}};
  LaunchReading& reading = job.reading;
  reading.settings = text.settings;
  reading.setup.target = target.name;
  reading.setup.release = target.release;
  reading.setup.hosts = devices.hosts;
  reading.setup.devices_per_host = devices.devices_per_host;
  reading.setup.device = text.device;
  reading.framework = find_framework(target.framework.empty() ? "megatron" : target.framework);
  reading.software = reading.framework.software;
  if (text.variant == "Megatron-DeepSpeed" || text.variant == "GPT-NeoX") reading.software = "megatron-deepspeed";
  if (text.variant == "NeMo") reading.software = "nemo";
  read_by_target(job);
  finish_adapters(job);
  for (const Setting& setting : reading.settings.all())
    if (setting.key == "(word)" && setting.state == Setting::State::Unread && is_printed(setting.value.text))
      throw InputError(
          fmt::format("{}: what '{}' prints are arguments, which may change the step and are not known without running "
                      "it; give them by --set {}=\"...\".",
                      setting.place, shown(setting.value.text), unknown_name(setting.value.text)));
  for (const std::string& twice : reading.settings.given_twice()) job.assume("the last value of " + twice);
  add_rules(reading, !text.variant.empty() && text.variant != "Python" && text.variant != "PyTorch");
  return std::move(reading);
}

}  // namespace meshwright
