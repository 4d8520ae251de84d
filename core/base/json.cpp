// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace meshwright {

namespace {

// The pieces as one row of characters, as the parser wants them: it compares each position with the end before it looks
// at the character there.
class PieceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  struct Pieces {
    const std::function<std::string_view()>& next;
    const char* here = nullptr;
    const char* end = nullptr;

    bool at_end() {
      if (here != end) return false;
      const std::string_view piece = next();
      here = piece.data();
      end = here + piece.size();
      return piece.empty();
    }
  };

  PieceIterator() = default;  // the end
  explicit PieceIterator(Pieces& pieces) : pieces_(&pieces) {}
  reference operator*() const { return *pieces_->here; }
  PieceIterator& operator++() {
    ++pieces_->here;
    return *this;
  }
  friend bool operator==(const PieceIterator& a, const PieceIterator&) { return a.pieces_->at_end(); }  // with the end

 private:
  Pieces* pieces_ = nullptr;
};

// Passes what the parser finds on to a visitor. The parser goes on only after true; here errors are exceptions.
struct VisitorAdapter {
  JsonVisitor& visitor;
  const std::string& place;

  bool null() { return other(nullptr); }
  bool boolean(bool value) { return other(value); }
  bool number_integer(std::int64_t value) {
    visitor.integer(value);
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return other(value);
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string&) { return other(value); }
  bool string(std::string& value) { return other(value); }
  bool binary(Json::binary_t&) { return other(nullptr); }  // only in other formats than text
  bool start_object(std::size_t) {
    visitor.begin_object();
    return true;
  }
  bool key(std::string& name) {
    visitor.key(name);
    return true;
  }
  bool end_object() {
    visitor.end_object();
    return true;
  }
  bool start_array(std::size_t) {
    visitor.begin_array();
    return true;
  }
  bool end_array() {
    visitor.end_array();
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) {
    constexpr int kNumberTooLarge = 406;
    require(error.id != kNumberTooLarge, "{}: byte {}: a number is larger than a double can hold; give a smaller one.",
            place, byte);
    throw InputError(fmt::format("{}: byte {}: not valid JSON; check that the file is complete.", place, byte));
  }
  bool other(const Json& value) {
    visitor.other(value);
    return true;
  }
};

}  // namespace

Json parse_json(const std::string& text, const std::string& place) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t at = std::min<std::size_t>(error.byte, text.size());
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::size_t line_start = text.rfind('\n', at == 0 ? 0 : at - 1);
    const std::size_t column = line_start == std::string::npos ? at : at - line_start;
    throw InputError(fmt::format("{}:{}:{}: not valid JSON{}; check that the file is complete.", place, lines + 1,
                                 column, at >= text.size() ? " (it ends too early)" : ""));
  } catch (const nlohmann::json::out_of_range&) {
    throw InputError(fmt::format("{}: a number is larger than a double can hold; give a smaller one.", place));
  }
}

void visit_json(const std::function<std::string_view()>& next_piece, JsonVisitor& visitor, const std::string& place) {
  PieceIterator::Pieces pieces{next_piece};
  VisitorAdapter adapter{visitor, place};
  const bool whole = Json::sax_parse(PieceIterator(pieces), PieceIterator(), &adapter);
  MW_CHECK(whole, "{}: the JSON parser stopped without saying why", place);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SystemError(fmt::format("{}: cannot be opened ({}).", path, std::strerror(errno)));
  std::ostringstream text;
  // Inserting nothing counts as a failure, and an empty file has nothing.
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || text.fail()) throw SystemError(fmt::format("{}: cannot be read ({}).", path, std::strerror(errno)));
  return text.str();
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path), path); }

namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw SystemError(fmt::format("{}: cannot be written ({}).", path, std::strerror(error)));
}

// A new file beside `path`, open for writing; closed and, unless it took the place of `path`, removed by the
// destructor. What a killed process leaves behind only takes up a name.
class PartialFile {
 public:
  explicit PartialFile(const std::string& path) : path_(path) {
    for (int number = 1; file_ < 0; ++number) {
      name_ = path + (number == 1 ? ".part" : fmt::format(".part{}", number));
      file_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file_ < 0 && errno != EEXIST) fail_to_write(path_, errno);
    }
  }
  ~PartialFile() {
    if (file_ >= 0) close(file_);
    if (!name_.empty()) std::remove(name_.c_str());
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
    if (fsync(file_) != 0 && errno != EINVAL) fail_to_write(path_, errno);
    const int closed = close(file_);
    file_ = -1;
    if (closed != 0) fail_to_write(path_, errno);
    if (std::rename(name_.c_str(), path_.c_str()) != 0)
      throw SystemError(fmt::format("{}: cannot be replaced ({}).", path_, std::strerror(errno)));
    name_.clear();
  }

 private:
  std::string path_, name_;
  int file_ = -1;
};

}  // namespace

void write_file(const std::string& path, const std::string& contents) {
  PartialFile file(path);
  file.write_all(contents);
  file.take_the_place();
}

const Json& member(const Json& object, std::string_view key, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  const auto found = object.find(key);
  require(found != object.end(), "{}: '{}' is missing.", place, key);
  return *found;
}

}  // namespace meshwright
