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
  void broken(std::string sentence) { sentences_.push_back({std::move(sentence), true}); }
  void expect(bool kept, std::string sentence) {
    if (!kept) broken(std::move(sentence));
  }
  // What the plan or the model has and the files that are written cannot say. A file that is read says what it says.
  void untold(std::string sentence) { sentences_.push_back({std::move(sentence), false}); }
  void expect_told(bool told, std::string sentence) {
    if (!told) untold(std::move(sentence));
  }
  [[nodiscard]] std::vector<std::string> all() const { return those_with(false); }
  [[nodiscard]] std::vector<std::string> asserted() const { return those_with(true); }  // all but the untold

 private:
  struct Sentence {
    std::string text;
    bool asserted;
  };
  [[nodiscard]] std::vector<std::string> those_with(bool asserted_alone) const {
    std::vector<std::string> found;
    for (const Sentence& sentence : sentences_)
      if (sentence.asserted || !asserted_alone) found.push_back(sentence.text);
    return found;
  }
  std::vector<Sentence> sentences_;
};

// What the framework cannot be told of the model.
void model_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules);
// Types, optimizer, recomputation.
void training_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules);
// Stages of FlagScale's meshes.
void flagscale_rules(const LaunchSetup& setup, RuleList& rules);
// Schedules of the targets that take any sharding.
void own_sharding_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules);

}  // namespace meshwright
