// SPDX-License-Identifier: Apache-2.0
// The script that starts a job's processes on one host, and the file that has Slurm, MPI or Kubernetes run it on all.
//
// run.sh is the same for every launcher: the site's settings at the top, each taken from the environment where it is
// set there, so that the launchers' files only set NNODES, NODE_RANK and MASTER_ADDR.
#pragma once

#include "launch/write/launch_job.h"

namespace meshwright {

struct HostScript {
  // A setting of the site: its name, what it is, and a value to start with.
  struct Setting {
    std::string name, about, otherwise;
  };
  std::vector<Setting> site = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string arguments = {};  // bash that sets arrays; whole lines
  // How to start: bash, whole lines. torchrun_command makes that of most frameworks.
  std::string command;
  bool starts_all_hosts = false;  // the command is for one host, from which it starts the others: no other launcher
};

// "torchrun ... " with the site's settings, one process per device, and the program and its arguments behind.
[[nodiscard]] std::string torchrun_command(const std::string& program);

// run.sh, and for other launchers than torchrun job.sbatch, mpirun.sh or trainjob.yaml. `others`: the files that
// run.sh reads, which a Kubernetes job takes along.
[[nodiscard]] std::vector<LaunchFile> launcher_files(const LaunchJob& job, const HostScript& script,
                                                     const std::vector<LaunchFile>& others);

}  // namespace meshwright
