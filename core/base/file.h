// SPDX-License-Identifier: Apache-2.0
// Whole files: read within a limit, written completely or not at all.
//
// A file is written beside its name and then takes the place of the old one, so that neither a full disk nor a killed
// process leaves half of it. What it replaces keeps its permissions and its owner; a symbolic link stays one, and its
// target is replaced.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

// What a file that is read whole may hold; files that hold weights are larger than any other.
inline constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 33;
// The same for texts: tables, configurations, plans. Reading one takes several times its size.
inline constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 28;

// The bytes of a file. Throws SystemError when it cannot be read, InputError when it has more than `most` bytes or
// never ends.
[[nodiscard]] std::string read_file(const std::string& path, std::uint64_t most = kMaxTextBytes);

// The file that writing to `path` replaces: the end of its symbolic links, which need not exist. Throws SystemError.
[[nodiscard]] std::string write_target(const std::string& path);

// Throws SystemError; an existing file is replaced only once the new one is complete on disk. What a killed process
// left half written for the same path is removed.
void write_file(const std::string& path, const std::string& contents);

}  // namespace meshwright
