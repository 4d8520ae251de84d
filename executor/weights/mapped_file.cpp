// SPDX-License-Identifier: Apache-2.0
#include "executor/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const auto fail = [&](int error) {
    throw SystemError(fmt::format("{}: cannot be read ({}).", path, std::strerror(error)));
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(errno);
  struct stat status = {};
  int error = fstat(file, &status) != 0 ? errno
              : S_ISREG(status.st_mode) ? 0
              : S_ISDIR(status.st_mode) ? EISDIR
                                        : EINVAL;
  if (error == 0 && status.st_size > 0) {
    void* mapped = mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED)
      error = errno;
    else
      data_ = static_cast<const char*>(mapped);
  }
  close(file);
  if (error != 0) fail(error);
  size_ = static_cast<std::size_t>(status.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace meshwright
