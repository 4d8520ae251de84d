// SPDX-License-Identifier: Apache-2.0
// Zip archives for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meshwright {

// An archive of stored entries, (name, bytes) each, with the sizes in the directory alone, as torch.export.save writes
// them.
inline std::string archive_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  const auto little_endian = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 255);
    return text;
  };
  std::string archive, directory;
  for (const auto& [name, bytes] : entries) {
    directory += little_endian(0x02014b50, 4) + std::string(16, '\0') + little_endian(bytes.size(), 4) +
                 little_endian(bytes.size(), 4) + little_endian(name.size(), 2) + std::string(12, '\0') +
                 little_endian(archive.size(), 4) + name;
    archive += little_endian(0x04034b50, 4) + std::string(22, '\0') + little_endian(name.size(), 2) +
               little_endian(0, 2) + name + bytes;
  }
  return archive + directory + little_endian(0x06054b50, 4) + std::string(4, '\0') + little_endian(entries.size(), 2) +
         little_endian(entries.size(), 2) + little_endian(directory.size(), 4) + little_endian(archive.size(), 4) +
         little_endian(0, 2);
}

}  // namespace meshwright
