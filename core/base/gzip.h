// SPDX-License-Identifier: Apache-2.0
// Files and texts as streams of bytes, decompressed if they are gzip. The first two bytes (1f 8b) decide, never the
// name. And bytes made smaller.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace meshwright {

// The next bytes, valid until the next call; empty at the end.
using ByteSource = std::function<std::string_view()>;

// What a source may give in all: a small file can unpack to a thousand times its size.
inline constexpr std::uint64_t kMaxUnpackedBytes = std::uint64_t{1} << 30;

// Throws SystemError when the file cannot be opened. The source throws SystemError when the file cannot be read, and
// InputError when its gzip data is damaged or incomplete, or there are more than `most` bytes.
[[nodiscard]] ByteSource open_unpacked(const std::string& path, std::uint64_t most = kMaxUnpackedBytes);

// The same for bytes in memory, which must outlive the source; `place` is named in errors.
[[nodiscard]] ByteSource unpacked(std::string_view bytes, const std::string& place,
                                  std::uint64_t most = kMaxUnpackedBytes);

// All bytes of a source.
[[nodiscard]] std::string read_all(const ByteSource& source);

// As deflate (RFC 1951) without a header around it.
[[nodiscard]] std::string deflated(std::string_view bytes);

}  // namespace meshwright
