// SPDX-License-Identifier: Apache-2.0
// Processes that do parts of one work, each piece by one of them: those that mpirun or srun has started together, tasks
// of a Slurm array, or commands in several terminals.
//
// A piece is claimed by a lock on one byte of a file that all of them see (OFD locks, Linux 3.15; on network file
// systems as far as they have locks). The system takes the locks of a process away when it ends, however it ends, so
// that nothing is lost with it. The last one to leave removes the file.
#pragma once

#include <string>

namespace meshwright {

class SharedPoints {
 public:
  // `path`: of the file, which need not exist. Throws SystemError.
  explicit SharedPoints(std::string path);
  ~SharedPoints();
  SharedPoints(const SharedPoints&) = delete;
  SharedPoints& operator=(const SharedPoints&) = delete;

  // False: another process has it. What this one has claimed it has until release() or its end.
  [[nodiscard]] bool claim(const std::string& key);
  void release(const std::string& key);

 private:
  const std::string path_;
  int file_ = -1;
};

// This process among those that were started together.
struct StartedPlace {
  int number = 0, of = 1;  // 0 <= number < of: where in the work it begins
  bool speaks = true;      // of mpirun and srun the first process, of a Slurm array each task's first
};
// From the variables that Open MPI, PMIx and Slurm set. Throws InputError for one that is no number.
[[nodiscard]] StartedPlace started_place();

}  // namespace meshwright
