// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, read by the system as they are used: weights may be larger than what a process should copy.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

class MappedFile {
 public:
  // Throws SystemError when it cannot be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace meshwright
