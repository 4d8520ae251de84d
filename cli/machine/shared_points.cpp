// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/shared_points.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Everyone that uses the file shares its first byte; who has it alone may remove the file.
constexpr off_t kUsers = 0;
constexpr int kLargest = 1 << 30;

off_t byte_of(const std::string& key) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 62;
  return static_cast<off_t>(1 + stable_hash(key) % (kBytes - 1));
}

// False where another process holds it.
bool lock(int file, short kind, off_t byte, int command, const std::string& path) {
  struct flock wanted {};
  wanted.l_type = kind;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = byte;
  wanted.l_len = 1;
  while (fcntl(file, command, &wanted) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    throw SystemError(fmt::format("{}: the file cannot be locked ({}); give a --db on a file system with locks.", path,
                                  std::strerror(errno)));
  }
  return true;
}

// Whether the file by that name is still the open one.
bool is_there(int file, const std::string& path) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::optional<int> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return static_cast<int>(parse_integer(text, name, 0, kLargest));
}

std::optional<int> first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const std::optional<int> value = variable(name)) return value;
  return std::nullopt;
}

}  // namespace

SharedPoints::SharedPoints(std::string path) : path_(std::move(path)) {
  for (;;) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0)
      throw SystemError(fmt::format("{}: cannot be opened for writing ({}).", path_, std::strerror(errno)));
    lock(file_, F_RDLCK, kUsers, F_OFD_SETLKW, path_);
    // Between opening and locking the last user of it may have removed it.
    if (is_there(file_, path_)) return;
    close(file_);
  }
}

SharedPoints::~SharedPoints() {
  try {
    if (lock(file_, F_WRLCK, kUsers, F_OFD_SETLK, path_) && is_there(file_, path_)) unlink(path_.c_str());
  } catch (const SystemError&) {  // the empty file stays
  }
  close(file_);
}

bool SharedPoints::claim(const std::string& key) { return lock(file_, F_WRLCK, byte_of(key), F_OFD_SETLK, path_); }
void SharedPoints::release(const std::string& key) { lock(file_, F_UNLCK, byte_of(key), F_OFD_SETLK, path_); }

StartedPlace started_place() {
  StartedPlace place;
  // mpirun inside a Slurm job sets its own variables beside those of the job's step.
  const bool by_mpirun = variable("OMPI_COMM_WORLD_RANK").has_value();
  const int rank = first_of({"OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMIX_RANK", "PMI_RANK"}).value_or(0);
  int ranks = (by_mpirun ? variable("OMPI_COMM_WORLD_SIZE") : first_of({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}))
                  .value_or(rank + 1);
  if (ranks <= rank) ranks = rank + 1;
  const std::optional<int> task = variable("SLURM_ARRAY_TASK_ID");
  const int first = variable("SLURM_ARRAY_TASK_MIN").value_or(0);
  const int step = std::max(1, variable("SLURM_ARRAY_TASK_STEP").value_or(1));
  const int array_number = task ? std::max(0, (*task - first) / step) : 0;
  const int arrays = std::max(array_number + 1, variable("SLURM_ARRAY_TASK_COUNT").value_or(1));
  place.number = array_number * ranks + rank;
  place.of = arrays * ranks;
  place.speaks = rank == 0;
  return place;
}

}  // namespace meshwright
