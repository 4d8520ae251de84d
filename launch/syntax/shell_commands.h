// SPDX-License-Identifier: Apache-2.0
// What is known of single commands and of Slurm's options.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

// Whether a command changes nothing that later commands of a launch script see ("echo", "cd", "mkdir").
[[nodiscard]] bool sets_nothing(const std::string& command);
// The variables that Slurm sets to the value of one of its options ("--nodes"); empty: none.
[[nodiscard]] std::vector<std::string> slurm_variables(const std::string& option);

}  // namespace meshwright
