// SPDX-License-Identifier: Apache-2.0
// Zip archives in memory: entries that are stored or deflated, found by the central directory (sizes in local headers
// may be missing), zip64 included.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct ZipEntry {
  std::string name;
  std::string_view packed;  // as it lies in the archive
  std::uint64_t size;       // unpacked
  bool deflated;
};

// Throws InputError "PLACE: ..." when the bytes are no archive or it is damaged.
[[nodiscard]] std::vector<ZipEntry> read_zip(std::string_view bytes, const std::string& place);
// Throws InputError when the entry is damaged or larger than `most` bytes.
[[nodiscard]] std::string unpacked(const ZipEntry& entry, std::uint64_t most, const std::string& place);

}  // namespace meshwright
