// SPDX-License-Identifier: Apache-2.0
#include "launch/write/launch_job.h"

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::pair<const char*, Launcher> kLaunchers[] = {{"torchrun", Launcher::Torchrun},
                                                           {"slurm", Launcher::Slurm},
                                                           {"mpi", Launcher::Mpi},
                                                           {"k8s", Launcher::Kubernetes}};

}  // namespace

Launcher launcher_from_name(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, launcher] : kLaunchers) {
    if (name == known) return launcher;
    names.emplace_back(known);
  }
  throw InputError(unknown_name("launcher", name, names, "Scripts are written for these."));
}

const char* name_of(Launcher launcher) {
  for (const auto& [name, known] : kLaunchers)
    if (known == launcher) return name;
  return "";
}

std::string job_name(const LaunchSetup& setup) {
  std::string name;
  for (const char c : lower_case(setup.model.name)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    name += plain ? c : '-';
  }
  return name;
}

std::string degrees_in_words(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  std::string text = fmt::format("tp {}, pp {}", d.tp, d.pp);
  if (d.chunks > 1) text += fmt::format(" with {} stages each", d.chunks);
  if (d.cp > 1) text += fmt::format(", cp {} ({})", d.cp, name_of(d.context));
  if (d.ep > 1) text += fmt::format(", ep {}{}", d.ep, d.whole_experts ? " of whole experts" : "");
  text += fmt::format(", dp {}, ZeRO {}", d.dp, d.zero);
  if (d.sequence_parallel) text += ", sequences split over tp";
  if (d.pp > 1) text += fmt::format(", schedule {}", name_of(d.schedule));
  return text;
}

std::vector<std::string> heading(const LaunchJob& job) {
  const LaunchSetup& setup = job.setup;
  const LaunchFigures& figures = job.figures;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{}: {} on {} x {} {}", job.target.release, setup.model.name, setup.hosts,
                              setup.devices_per_host, setup.device));
  if (!job.target.own_shardings && !job.target.own_stages) lines.push_back(degrees_in_words(setup));
  lines.push_back(fmt::format("global batch {} in {} micro-batches, {}, recompute {}", setup.global_batch(),
                              setup.degrees.micro_batches, name_of(setup.dtype), recompute_text(job.plan.training)));
  std::string step = fmt::format("predicted step: {:.3f} ms", figures.step.si() * 1e3);
  if (figures.interval)
    step += fmt::format(" (90 %: {:.3f} to {:.3f})", figures.interval->first.si() * 1e3,
                        figures.interval->second.si() * 1e3);
  if (figures.tokens_per_s) step += fmt::format(", {:.6g} tokens/s", *figures.tokens_per_s);
  step += fmt::format(", {:.4g} TFLOPS per device", figures.tflops_per_device);
  if (figures.mfu) step += fmt::format(" (MFU {:.1f} %)", 100.0 * *figures.mfu);
  lines.push_back(step);
  if (!job.plan.conditions.empty()) {
    std::vector<std::string> conditions;
    for (const auto& [option, value] : job.plan.conditions)
      conditions.push_back(value.empty() ? option : option + " " + value);
    lines.push_back("predicted under: " + join(conditions, ", "));
  }
  lines.push_back(fmt::format("predicted memory: {} of {} per device{}{}", human_bytes(figures.memory),
                              human_bytes(figures.device_memory),
                              figures.memory_of.empty() ? "" : ", as " + figures.memory_of + " keeps it",
                              figures.memory > figures.device_memory ? ": it does not fit" : ""));
  lines.emplace_back("Written by meshwright export; flags drift, so run it with the release named above.");
  return lines;
}

}  // namespace meshwright
