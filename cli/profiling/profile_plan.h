// SPDX-License-Identifier: Apache-2.0
// `meshwright profile --plan`: what every op and collective took in training steps of a plan, recorded while GPUs run
// them.
#pragma once

#include <string>

namespace meshwright {

struct ProfilePlanOptions {
  std::string plan, db, gpus;  // as given; "" where not
  std::string steps = "5", warmup = "2", transport = "inproc";
  bool json = false;
};

// Runs the plan's steps on the GPUs of this machine, one for each of its devices: `warmup` of them, then `steps` whose
// time is taken, then `steps` that are recorded. Stores ops, collectives and transfers, and prints where the time went.
// Throws InputError where the plan is not for such GPUs or devices would share one, SystemError where nobody may
// record.
void profile_plan(const ProfilePlanOptions& options, const std::string& command_line);

}  // namespace meshwright
