// SPDX-License-Identifier: Apache-2.0
#include "launch/write/write_launch.h"

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/rules/launch_rules.h"
#include "launch/write/writers.h"

namespace meshwright {

namespace {

using Writer = WrittenJob (*)(const LaunchJob& job);

Writer writer_of(const std::string& target) {
  constexpr std::pair<const char*, Writer> kWriters[] = {
      {"megatron", write_megatron},
      {"megatron-bridge", write_megatron_bridge},
      {"torchtitan", write_torchtitan},
      {"deepspeed", write_deepspeed},
      {"fsdp2", write_fsdp2},
      {"accelerate", write_accelerate},
      {"maxtext", write_maxtext},
      {"jax", write_jax},
      {"alpa", write_alpa},
      {"nnscaler", write_nnscaler},
      {"flagscale", write_flagscale},
  };
  for (const auto& [name, writer] : kWriters)
    if (target == name) return writer;
  throw InternalError(fmt::format("no writer of {}", target));
}

void expect_told(const LaunchJob& job) {
  expect_model_told(job.target.name, job.setup.model);
  const std::vector<std::string> broken = broken_launch_rules(job.setup);
  if (broken.empty()) return;
  const std::string way = job.target.framework.empty()
                              ? ""
                              : fmt::format("; give a plan of `meshwright plan --for {}`{}", job.target.framework,
                                            find_framework(job.target.framework).own_meshes ? "" : ", or --nearest");
  throw InputError(fmt::format("{}: {}{}.", job.target.name, join(broken, "; "), way));
}

std::string figures_table(const LaunchJob& job) {
  const LaunchFigures& f = job.figures;
  std::string text = "| | predicted |\n|---|---|\n";
  text += fmt::format("| step | {:.3f} ms{} |\n", f.step.si() * 1e3,
                      f.interval ? fmt::format(" (nine times in ten {:.3f} to {:.3f})", f.interval->first.si() * 1e3,
                                               f.interval->second.si() * 1e3)
                                 : std::string());
  text += fmt::format("| samples/s | {:.6g} |\n", f.samples_per_s);
  if (f.tokens_per_s) text += fmt::format("| tokens/s | {:.6g} |\n", *f.tokens_per_s);
  text += fmt::format("| TFLOPS per device, of the model itself | {:.4g} |\n", f.tflops_per_device);
  if (f.mfu) text += fmt::format("| MFU | {:.1f} % |\n", 100.0 * *f.mfu);
  text += fmt::format("| memory of the fullest device{} | {} of {} |\n",
                      f.memory_of.empty() ? "" : ", as " + f.memory_of + " keeps it", human_bytes(f.memory),
                      human_bytes(f.device_memory));
  return text;
}

LaunchFile readme(const LaunchJob& job, const WrittenJob& made, const std::vector<LaunchFile>& files) {
  std::string text = fmt::format("# {} with {}\n\n", job.setup.model.name, job.target.release);
  for (const std::string& line : heading(job)) text += "- " + line + "\n";
  text += "\n## Files\n\n";
  for (const LaunchFile& file : files)
    text += fmt::format("- `{}`{}\n", file.name, file.about.empty() ? "" : ": " + file.about);
  text += "\n## What is predicted\n\n" + figures_table(job);
  if (job.figures.given_step)
    text += fmt::format(
        "\nThis is the fastest plan found that the framework launches. The plan that it was made from takes {:.3f} ms: "
        "the "
        "difference is {:+.1f} %.\n",
        job.figures.given_step->si() * 1e3, 100.0 * (job.figures.step / *job.figures.given_step - 1.0));
  text += "\n## How to measure it\n\n";
  for (const std::string& line : made.measure) text += "- " + line + "\n";
  if (!made.differences.empty() || !job.differences.empty()) {
    text += "\n## Where the job differs from the plan\n\n";
    for (const auto* lines : {&made.differences, &job.differences})
      for (const std::string& line : *lines) text += "- " + line + "\n";
  }
  return {"README.md", text, false, ""};
}

}  // namespace

std::vector<LaunchFile> launch_files(const LaunchJob& job) {
  expect_told(job);
  WrittenJob made = writer_of(job.target.name)(job);
  const bool script = !made.script.command.empty();
  require(job.launcher == Launcher::Torchrun || (script && !made.script.starts_all_hosts),
          "--launcher {}: {}; leave the option out.", name_of(job.launcher),
          script ? job.target.release + " starts the processes of all hosts itself"
                 : "the module for " + job.target.release + " is for the user's own program to start");
  std::vector<LaunchFile> files = made.files;
  if (script)
    for (LaunchFile& file : launcher_files(job, made.script, made.files)) files.push_back(std::move(file));
  files.push_back(readme(job, made, files));
  return files;
}

}  // namespace meshwright
