// SPDX-License-Identifier: Apache-2.0
// `meshwright profile --plan`: the times of every op and collective in training steps of a plan, recorded while GPUs
// run them.
#pragma once

#include <string>

namespace meshwright {

struct ProfilePlanOptions {
  std::string plan, db, gpus;  // as given; "" where not
  std::string steps = "5", warmup = "2", transport = "inproc";
  bool json = false;
};

// Runs the plan's steps on the GPUs of this machine, one for each of its devices: `warmup` steps, then `steps` timed
// ones, then `steps` recorded ones. Stores ops, collectives and transfers, and prints where the time went. Throws
// InputError if the plan is for other GPUs or devices would share one, SystemError if the user may not record.
void profile_plan(const ProfilePlanOptions& options, const std::string& command_line);

}  // namespace meshwright
