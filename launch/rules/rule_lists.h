// SPDX-License-Identifier: Apache-2.0
// The parts of broken_launch_rules, by what they are about.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/setup/decoder.h"
#include "launch/setup/launch_setup.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

class RuleList {
 public:
  void broken(std::string sentence) { sentences_.push_back(std::move(sentence)); }
  void expect(bool kept, std::string sentence) {
    if (!kept) broken(std::move(sentence));
  }
  [[nodiscard]] const std::vector<std::string>& sentences() const { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

// What the framework cannot be told of the model.
void model_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules);
// Types, optimizer, recomputation.
void training_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules);
// Stages of FlagScale's meshes.
void flagscale_rules(const LaunchSetup& setup, RuleList& rules);
// Schedules of the targets that take any sharding.
void own_sharding_rules(const LaunchSetup& setup, RuleList& rules);

}  // namespace meshwright
