// SPDX-License-Identifier: Apache-2.0
#include "core/base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr int kGzipOnly = 15 + 16;  // zlib's window size, and "a gzip header is expected"

ByteSource file_bytes(const std::string& path) {
  struct State {
    std::ifstream file;
    std::vector<char> piece = std::vector<char>(kPiece);
  };
  auto state = std::make_shared<State>();
  state->file.open(path, std::ios::binary);
  if (!state->file) throw SystemError(fmt::format("{}: cannot be opened ({}).", path, std::strerror(errno)));
  return [state, path]() -> std::string_view {
    state->file.read(state->piece.data(), static_cast<std::streamsize>(kPiece));
    if (state->file.bad()) throw SystemError(fmt::format("{}: cannot be read ({}).", path, std::strerror(errno)));
    return {state->piece.data(), static_cast<std::size_t>(state->file.gcount())};
  };
}

class Inflater {
 public:
  Inflater(ByteSource packed, std::string_view first, std::string place)
      : packed_(std::move(packed)), place_(std::move(place)), piece_(kPiece) {
    MW_CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK, "zlib: {}", stream_.msg == nullptr ? "" : stream_.msg);
    feed(first);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::string_view next() {
    stream_.next_out = piece_.data();
    stream_.avail_out = static_cast<uInt>(piece_.size());
    while (stream_.avail_out > 0 && has_input()) {
      if (ended_) begin_next_member();
      const int code = inflate(&stream_, Z_NO_FLUSH);
      ended_ = code == Z_STREAM_END;
      if (code == Z_MEM_ERROR) throw std::bad_alloc();
      require(code == Z_OK || ended_, "{}: not valid gzip ({}); check that the file was copied completely.", place_,
              stream_.msg == nullptr ? "damaged" : stream_.msg);
    }
    const std::size_t made = piece_.size() - stream_.avail_out;
    require(made > 0 || ended_, "{}: the gzip data ends too early; check that the file is complete.", place_);
    return {reinterpret_cast<const char*>(piece_.data()), made};
  }

 private:
  void feed(std::string_view bytes) {
    rest_ = bytes;
    feed_rest();
  }
  // zlib counts in 32 bits, but data in memory may be larger.
  void feed_rest() {
    const std::size_t now = std::min<std::size_t>(rest_.size(), std::numeric_limits<uInt>::max());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));  // zlib does not write there
    stream_.avail_in = static_cast<uInt>(now);
    rest_.remove_prefix(now);
  }
  bool has_input() {
    if (stream_.avail_in > 0) return true;
    if (!rest_.empty())
      feed_rest();
    else
      feed(packed_());
    return stream_.avail_in > 0;
  }
  // A gzip file may hold several members in a row.
  void begin_next_member() {
    MW_CHECK(inflateReset(&stream_) == Z_OK, "zlib: {}", stream_.msg == nullptr ? "" : stream_.msg);
    ended_ = false;
  }

  ByteSource packed_;
  std::string place_;
  std::vector<Bytef> piece_;
  std::string_view rest_;
  z_stream stream_{};
  bool ended_ = false;
};

bool is_gzip(std::string_view first) { return first.starts_with("\x1f\x8b"); }

ByteSource unpacked_without_limit(ByteSource bytes, const std::string& place) {
  const std::string_view first = bytes();
  if (is_gzip(first)) {
    auto inflater = std::make_shared<Inflater>(std::move(bytes), first, place);
    return [inflater] { return inflater->next(); };
  }
  return [bytes = std::move(bytes), first, is_first = true]() mutable {
    if (!is_first) return bytes();
    is_first = false;
    return first;
  };
}

ByteSource unpacked_within(ByteSource bytes, const std::string& place, std::uint64_t most) {
  return [source = unpacked_without_limit(std::move(bytes), place), place, most, total = std::uint64_t{0}]() mutable {
    const std::string_view piece = source();
    total += piece.size();
    require(total <= most, "{}: the file holds more than {} when unpacked; give a smaller one.", place,
            human_bytes(Bytes(static_cast<double>(most))));
    return piece;
  };
}

}  // namespace

ByteSource open_unpacked(const std::string& path, std::uint64_t most) {
  return unpacked_within(file_bytes(path), path, most);
}

ByteSource unpacked(std::string_view bytes, const std::string& place, std::uint64_t most) {
  return unpacked_within(
      [bytes, given = false]() mutable {
        const std::string_view piece = given ? std::string_view() : bytes;
        given = true;
        return piece;
      },
      place, most);
}

std::string read_all(const ByteSource& source) {
  std::string text;
  for (std::string_view piece = source(); !piece.empty(); piece = source()) text += piece;
  return text;
}

std::string deflated(std::string_view bytes) {
  constexpr int kRaw = -15, kMemory = 9;  // zlib's window size without a header; the most memory
  z_stream stream{};
  MW_CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kRaw, kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
           "zlib cannot begin to deflate");
  std::string packed;
  std::vector<Bytef> piece(kPiece);
  int code = Z_OK;
  std::size_t given = 0;
  while (code != Z_STREAM_END) {
    const std::string_view next = bytes.substr(given, kPiece);
    given += next.size();
    // zlib does not write what it reads.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next.data()));
    stream.avail_in = static_cast<uInt>(next.size());
    do {
      stream.next_out = piece.data();
      stream.avail_out = static_cast<uInt>(piece.size());
      code = deflate(&stream, given == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
      packed.append(reinterpret_cast<const char*>(piece.data()), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return packed;
}

}  // namespace meshwright
