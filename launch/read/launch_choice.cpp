// SPDX-License-Identifier: Apache-2.0
#include "launch/read/launch_choice.h"

#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

std::vector<std::pair<std::string, std::string>> unread_settings(const LaunchReading& reading) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Setting& setting : reading.settings.all())
    if (setting.state == Setting::State::Unread) found.emplace_back(setting.key, to_text(setting.value));
  return found;
}

// Rates of learning, numbers of steps, seeds and paths change nothing that is predicted.
bool same_training(const LaunchReading& a, const LaunchReading& b) {
  const LaunchSetup &one = a.setup, &other = b.setup;
  const auto optimizer = [](const Optimizer& of) {
    return std::tuple(of.kind, of.momentum > 0.0, of.weight_decay > 0.0, of.max_norm > 0.0, of.loss_scale > 0.0);
  };
  const auto plan = [](const LaunchSetup& of) {
    return std::tie(of.target, of.release, of.dialect, of.hosts, of.devices_per_host, of.degrees, of.batch,
                    of.stage_blocks, of.further_stage, of.stages, of.shard, of.dtype, of.matmul_dtype, of.offload);
  };
  const auto said = [](const LaunchReading& of) {
    return std::tie(of.software, of.assumed, of.broken, of.why_no_plan);
  };
  return plan(one) == plan(other) && one.software_setup == other.software_setup && said(a) == said(b) && !one.meshes &&
         !other.meshes && to_json(one.model) == to_json(other.model) &&
         optimizer(one.optimizer) == optimizer(other.optimizer) &&
         to_text(one.recompute_layers) == to_text(other.recompute_layers) && unread_settings(a) == unread_settings(b);
}

}  // namespace

LaunchChoice choose_launch(const LaunchInput& input,
                           const std::function<LaunchReading(const LaunchInput& input)>& read) {
  if (input.launch) return {input.launch, {}};
  const std::vector<std::string> launches = launches_of(input);
  if (launches.size() < 2) return {};
  const std::string place = launches[0].substr(0, launches[0].find(':'));
  const std::string several = fmt::format("{}: launches {} trainings: {}; choose one with --launch N.", place,
                                          launches.size(), numbered(launches));
  constexpr std::size_t kMostCompared = 64;
  if (launches.size() > kMostCompared) throw InputError(several);
  LaunchChoice choice;
  std::optional<LaunchReading> first;
  bool same = true;
  std::int64_t alike = 0;
  for (std::size_t i = 0; i < launches.size() && same; ++i) {
    LaunchInput one = input;
    one.launch = static_cast<std::int64_t>(i + 1);
    try {
      LaunchReading reading = read(one);
      ++alike;
      same = !first || same_training(*first, reading);
      if (first) continue;
      first = std::move(reading);
      choice.launch = one.launch;
    } catch (const InputError& error) {
      choice.notes.push_back(fmt::format("not read: launch {}, {}: {}", i + 1, launches[i], error.what()));
    }
  }
  if (!same) throw InputError(several);
  if (!first)  // the note ends with the sentence that refuses the first one
    throw InputError(fmt::format("{}: launches {} trainings, of which none can be read; {}", place, launches.size(),
                                 choice.notes.front()));
  if (alike > 1)
    choice.notes.push_back(fmt::format("{} commands launch the same training: launch {} is read, {}", alike,
                                       *choice.launch, launches[static_cast<std::size_t>(*choice.launch - 1)]));
  return choice;
}

}  // namespace meshwright
