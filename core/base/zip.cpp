// SPDX-License-Identifier: Apache-2.0
#include "core/base/zip.h"

#include <zlib.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Signatures and sizes of the format's records (PKWARE's APPNOTE.TXT, 4.3).
constexpr std::uint64_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50, kCentral = 0x02014b50,
                        kLocal = 0x04034b50;
constexpr std::size_t kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20, kCentralSize = 46, kLocalSize = 30;

[[noreturn]] void damaged(const std::string& place, const char* what) {
  throw InputError(fmt::format("{}: the archive is damaged, {}; export or download it again.", place, what));
}

struct Archive {
  std::string_view bytes;
  const std::string& place;

  // The little-endian number of `count` bytes at `at`.
  [[nodiscard]] std::uint64_t number(std::uint64_t at, std::size_t count) const {
    if (at > bytes.size() || bytes.size() - at < count) damaged(place, "it ends inside a record");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
    return value;
  }
  [[nodiscard]] std::string_view part(std::uint64_t at, std::uint64_t count) const {
    if (at > bytes.size() || bytes.size() - at < count) damaged(place, "an entry lies beyond its end");
    return bytes.substr(at, count);
  }
};

struct Directory {
  std::uint64_t at, count;
};

// The record at the end, behind which a comment may stand.
Directory find_directory(const Archive& archive) {
  const std::size_t size = archive.bytes.size();
  if (size < kEndSize) damaged(archive.place, "it has no directory");
  const std::size_t first = size - std::min<std::size_t>(size, kEndSize + 65535);
  for (std::size_t at = size - kEndSize + 1; at-- > first;) {
    if (archive.number(at, 4) != kEnd) continue;
    const Directory directory{archive.number(at + 16, 4), archive.number(at + 10, 2)};
    const bool wide = directory.at == 0xffffffff || directory.count == 0xffff;
    if (at >= kLocator64Size && archive.number(at - kLocator64Size, 4) == kLocator64) {
      const std::uint64_t end = archive.number(at - kLocator64Size + 8, 8);
      (void)archive.part(end, kEnd64Size);
      if (archive.number(end, 4) == kEnd64) return {archive.number(end + 48, 8), archive.number(end + 32, 8)};
    }
    if (wide) damaged(archive.place, "its directory is not where it should be");
    return directory;
  }
  throw InputError(fmt::format("{}: no zip archive; give a file that torch.export.save wrote.", archive.place));
}

// Sizes and place of an entry; what does not fit into 32 bits stands in the extra field 1.
struct Place {
  std::uint64_t size, packed, header;
};
Place place_of(const Archive& archive, std::uint64_t at) {
  Place place{archive.number(at + 24, 4), archive.number(at + 20, 4), archive.number(at + 42, 4)};
  std::uint64_t extra = at + kCentralSize + archive.number(at + 28, 2);
  const std::uint64_t end = extra + archive.number(at + 30, 2);
  while (extra + 4 <= end) {
    const std::uint64_t kind = archive.number(extra, 2), length = archive.number(extra + 2, 2);
    std::uint64_t next = extra + 4;
    if (kind == 1)
      for (std::uint64_t* value : {&place.size, &place.packed, &place.header})
        if (*value == 0xffffffff && next + 8 <= extra + 4 + length) {
          *value = archive.number(next, 8);
          next += 8;
        }
    extra += 4 + length;
  }
  return place;
}

}  // namespace

std::vector<ZipEntry> read_zip(std::string_view bytes, const std::string& place) {
  const Archive archive{bytes, place};
  const Directory directory = find_directory(archive);
  std::vector<ZipEntry> entries;
  std::uint64_t at = directory.at;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (archive.number(at, 4) != kCentral) damaged(place, "its directory has fewer entries than it says");
    const std::uint64_t method = archive.number(at + 10, 2), length = archive.number(at + 28, 2);
    const Place where = place_of(archive, at);
    ZipEntry entry{std::string(archive.part(at + kCentralSize, length)), {}, where.size, method == 8};
    if (archive.number(where.header, 4) != kLocal) damaged(place, "an entry is not where the directory says");
    const std::uint64_t begin =
        where.header + kLocalSize + archive.number(where.header + 26, 2) + archive.number(where.header + 28, 2);
    entry.packed = archive.part(begin, where.packed);
    if (method == 0 || method == 8) entries.push_back(std::move(entry));
    at += kCentralSize + length + archive.number(at + 30, 2) + archive.number(at + 32, 2);
  }
  return entries;
}

std::string unpacked(const ZipEntry& entry, std::uint64_t most, const std::string& place) {
  require(entry.size <= most, "{}: entry '{}' of the archive has {} bytes, more than {}; give a model of fewer ops.",
          place, printable(entry.name), entry.size, most);
  if (!entry.deflated) {
    if (entry.packed.size() != entry.size) damaged(place, "the sizes of a stored entry differ");
    return std::string(entry.packed);
  }
  if (entry.size / 1100 > entry.packed.size() + 1) damaged(place, "an entry says to be larger than it can be");
  std::string bytes(entry.size, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(entry.packed.data()));
  stream.avail_in = static_cast<uInt>(entry.packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw SystemError("zlib cannot be started.");
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.total_out == entry.size;
  inflateEnd(&stream);
  if (!whole) damaged(place, "an entry does not unpack");
  return bytes;
}

}  // namespace meshwright
