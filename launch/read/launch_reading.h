// SPDX-License-Identifier: Apache-2.0
// What a launch file says of a job, in the words of all frameworks, and what the reader had to leave open.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/planner/plan_request.h"
#include "launch/read/launch_text.h"
#include "launch/setup/launch_setup.h"

namespace meshwright {

// The devices that a file is read for: its own, or others that the caller wants.
struct LaunchDevices {
  int hosts = 1, devices_per_host = 1;
  [[nodiscard]] int devices() const { return hosts * devices_per_host; }
};

// What the file does not say, from the caller.
struct LaunchAnswers {
  std::optional<ModelConfig> model = {};
  std::optional<std::int64_t> vocab = {}, batch = {}, micro_batch = {}, seq = {};
};

struct LaunchReading {
  LaunchSetup setup;
  std::string software = {};              // the profile whose costs and memory hold; "": none is known
  Framework framework;                    // whose rules hold for this file
  std::vector<std::string> assumed = {};  // "a vocabulary of 50257 words"
  std::vector<std::string> broken = {};   // what the framework asserts and the file breaks
  // Why no plan has these degrees; "": one has.
  std::string why_no_plan = {};
  // Why its degrees are not compared with others; "": they are.
  std::string why_no_advice = {};
  Settings settings;  // with what was understood
};

// The devices of the file itself; nullopt: it does not say, or a variable of theirs is not resolved.
[[nodiscard]] std::optional<LaunchDevices> devices_of(const LaunchText& text);

// Throws InputError, with the place in the file, for values that are none, and where the file and the answers lack
// something without which there is no plan.
[[nodiscard]] LaunchReading read_launch(const LaunchText& text, const LaunchDevices& devices,
                                        const LaunchAnswers& answers);

// The plan as the file gives it. REQUIRES: `cluster` has the setup's devices; reading.why_no_plan is empty.
[[nodiscard]] PlanRequest request_of(const LaunchSetup& setup, const Cluster& cluster);
// The same of files that decide everything within each stage, so that nothing is searched; nullopt: request_of says
// what is. Throws InputError where they do not suit the model. REQUIRES: as request_of.
[[nodiscard]] std::optional<PlanOfGraph> decided_plan(const LaunchSetup& setup, const Cluster& cluster);

}  // namespace meshwright
