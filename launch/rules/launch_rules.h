// SPDX-License-Identifier: Apache-2.0
// What a framework asserts of a job before it runs it, or would silently change: all of it at once, with the numbers
// and the nearest legal values.
//
// The rules of degrees are those of the search (core/planner/method/framework.h), so that a plan found for a framework
// breaks none. Those of batches, models, optimizers and recomputation are of the same releases' argument checks.
#pragma once

#include <string>
#include <vector>

#include "launch/setup/launch_setup.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

// Sentences without a full stop: "gbs 1000 is not a multiple of mbs x dp = 3 x 64; nearest 960 or 1152". Empty: the
// framework takes the job. Throws InputError for a model that is no stack of decoder blocks, where the target needs
// one.
[[nodiscard]] std::vector<std::string> broken_launch_rules(const LaunchSetup& setup);

// Those of them that a job breaks which a file describes: without what the plan or the model has and no file of ours
// can say.
[[nodiscard]] std::vector<std::string> broken_assertions(const LaunchSetup& setup);

// Those of broken_launch_rules that are of the model alone: what the framework cannot be told of it, whatever the plan.
[[nodiscard]] std::vector<std::string> broken_model_rules(const LaunchSetup& setup);

// What is left of the setup where the target's files cannot say the rest.
[[nodiscard]] SoftwareSetup told_setup(const LaunchTarget& target, SoftwareSetup setup);
// Whether the target's files say the scale with which dynamic scaling of the loss begins.
[[nodiscard]] bool tells_loss_scale(const LaunchTarget& target);

// Throws InputError that names all of broken_model_rules, with another framework as the way out.
void expect_model_told(const std::string& target, const ModelConfig& model);

// "; nearest 960 or 1152": the multiples of `unit` around `value`; "" where it is one. REQUIRES: unit >= 1.
[[nodiscard]] std::string nearest_multiples(std::int64_t value, std::int64_t unit);

}  // namespace meshwright
