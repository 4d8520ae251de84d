// SPDX-License-Identifier: Apache-2.0
// Files and texts as streams of bytes, unpacked on the way where they are gzip'd. What they are is told by their first
// two bytes (1f 8b), never by a name. The only user of zlib.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace meshwright {

// The next bytes; empty: there are no more. They are valid until the next call.
using ByteSource = std::function<std::string_view()>;

// Throws SystemError when the file cannot be opened. The source throws SystemError when it cannot be read, InputError
// when what begins like gzip is not, is damaged or ends too early.
[[nodiscard]] ByteSource open_unpacked(const std::string& path);

// The same for bytes in memory, which must outlive the source; `place` is named in errors.
[[nodiscard]] ByteSource unpacked(std::string_view bytes, const std::string& place);

}  // namespace meshwright
