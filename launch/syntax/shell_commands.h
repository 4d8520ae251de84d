// SPDX-License-Identifier: Apache-2.0
// What is known of single commands, and of what scripts ask of Slurm and of other batch systems.
#pragma once

#include <string>
#include <vector>

#include "launch/syntax/shell.h"

namespace meshwright {

// Whether a command changes nothing that later commands of a launch script see ("echo", "cd", "mkdir").
[[nodiscard]] bool sets_nothing(const std::string& command);
// Whether it asks for a program ("command -v torchrun"), which is taken to be there.
[[nodiscard]] bool finds_programs(const std::string& command);
// Whether it starts the program that stands behind its options ("srun", "mpirun", "env").
[[nodiscard]] bool starts_programs(const std::string& command);
// Whether words behind a command are names of variables ("export A=1").
[[nodiscard]] bool declares_names(const std::string& command);
// What `echo` prints of its words.
[[nodiscard]] std::string echoed(const ShellCommand& command);
// The variables that Slurm sets to the value of one of its options ("--nodes"); empty: none.
[[nodiscard]] std::vector<std::string> slurm_variables(const std::string& option);

// The options of sbatch that a comment line stands for: "#SBATCH --nodes=2", "#PBS -l select=2:ngpus=4",
// "#BSUB -nnodes 2", "#PJM -L node=2"; "": none.
[[nodiscard]] std::string batch_options(const std::string& comment);

}  // namespace meshwright
