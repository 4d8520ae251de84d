// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

std::string read_file(const std::string& path, std::uint64_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SystemError(fmt::format("{}: cannot be opened ({}).", path, std::strerror(errno)));
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::string text;
  std::vector<char> piece(kPiece);
  // A string that grows holds what it has twice. What is no plain file has no size.
  std::error_code none;
  const std::uintmax_t size = std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path, none) : 0;
  if (!none && size <= most) text.reserve(static_cast<std::size_t>(size));
  errno = 0;
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    require(text.size() <= most, "{}: the file has more than {}, which no input of this kind has; give another file.",
            path, human_bytes(Bytes(static_cast<double>(most))));
  }
  if (file.bad() || !file.eof()) throw SystemError(fmt::format("{}: cannot be read ({}).", path, std::strerror(errno)));
  return text;
}

std::string write_target(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMaxLinks = 40;  // as the system has it
  fs::path at = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(at, error); ++links) {
    if (links == kMaxLinks) throw SystemError(fmt::format("{}: cannot be written (its links lead nowhere).", path));
    const fs::path next = fs::read_symlink(at, error);
    if (error) throw SystemError(fmt::format("{}: cannot be written ({}).", path, error.message()));
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return at.string();
}

namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw SystemError(fmt::format("{}: cannot be written ({}).", path, std::strerror(error)));
}

// Whoever writes a file holds its lock; the system releases it when the process dies.
bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0; }

// A half-written file without a writer. Where locks are not known, it is not touched.
void remove_if_abandoned(const std::string& name) {
  const int file = open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return;
  if (lock(file)) std::remove(name.c_str());
  close(file);
}

// A new file beside `path`, open for writing; closed and, unless it took the place of `path`, removed by the
// destructor.
class PartialFile {
 public:
  explicit PartialFile(const std::string& path) : path_(write_target(path)) {
    for (int number = 1; number <= kSwept; ++number) remove_if_abandoned(name_of(number));
    for (int number = 1; file_ < 0; ++number) open_new(name_of(number));
  }
  ~PartialFile() {
    if (!name_.empty()) std::remove(name_.c_str());
    if (file_ >= 0) close(file_);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write_all(std::string_view rest) {
    while (!rest.empty()) {
      const ssize_t written = write(file_, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) fail_to_write(path_, errno);
      if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  // On the disk before it has the name: a power failure leaves the old file or the new one.
  void take_the_place() {
    keep_mode_and_owner();
    if (fsync(file_) != 0 && errno != EINVAL) fail_to_write(path_, errno);
    if (std::rename(name_.c_str(), path_.c_str()) != 0)
      throw SystemError(fmt::format("{}: cannot be replaced ({}).", path_, std::strerror(errno)));
    name_.clear();
    const int closed = close(file_);
    file_ = -1;
    if (closed != 0) fail_to_write(path_, errno);
  }

 private:
  static constexpr int kSwept = 8;  // more writers of one path have never been alive at once

  [[nodiscard]] std::string name_of(int number) const {
    return path_ + (number == 1 ? ".part" : fmt::format(".part{}", number));
  }

  void open_new(const std::string& name) {
    const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST) fail_to_write(path_, errno);
    if (file < 0) return;
    struct stat found {};
    // Somebody may take it for abandoned before it has its lock: then it is removed, and another name is tried.
    const bool lost = !lock(file) && errno == EWOULDBLOCK;
    if (lost || fstat(file, &found) != 0 || found.st_nlink == 0) {
      close(file);
      return;
    }
    file_ = file;
    name_ = name;
  }

  void keep_mode_and_owner() {
    struct stat old {
    }, mine{};
    if (stat(path_.c_str(), &old) != 0 || fstat(file_, &mine) != 0) return;
    const bool same = old.st_uid == mine.st_uid && old.st_gid == mine.st_gid;
    if (!same && fchown(file_, old.st_uid, old.st_gid) != 0)
      throw SystemError(fmt::format("{}: its owner cannot be kept ({}); remove the file first, or give another path.",
                                    path_, std::strerror(errno)));
    constexpr mode_t kPermissions = 0777;
    if (fchmod(file_, old.st_mode & kPermissions) != 0) fail_to_write(path_, errno);
  }

  std::string path_, name_;
  int file_ = -1;
};

}  // namespace

void write_file(const std::string& path, const std::string& contents) {
  PartialFile file(path);
  file.write_all(contents);
  file.take_the_place();
}

}  // namespace meshwright
