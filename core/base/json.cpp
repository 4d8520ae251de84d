// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "core/base/text.h"

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

namespace {

// Builds the document that the parser walks over, within limits: what reads a document may then descend it by
// recursion, and no name hides behind an equal one.
class DocumentBuilder {
 public:
  explicit DocumentBuilder(const std::string& place) : place_(place) {}

  [[nodiscard]] Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // only in other formats than text
  bool start_object(std::size_t) { return open(Json::value_t::object); }
  bool start_array(std::size_t) { return open(Json::value_t::array); }
  bool key(std::string& name) {
    name_ = std::move(name);
    return true;
  }
  bool end_object() {
    expect_names_once(open_.back()->get_ref<const Json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  template <class Error>
  bool parse_error(std::size_t, const std::string&, const Error& error) {
    throw error;
  }

 private:
  bool open(Json::value_t kind) {
    require(open_.size() < kMaxJsonDepth, "{}: the JSON is nested deeper than {} levels; no format of this program is.",
            place_, kMaxJsonDepth);
    put(kind);
    open_.push_back(latest_);
    return true;
  }
  bool put(Json value) {
    require(++count_ <= kMaxJsonValues, "{}: the JSON holds more than {} values; give a smaller file.", place_,
            kMaxJsonValues);
    if (open_.empty()) {
      root_ = std::move(value);
      latest_ = &root_;
    } else if (open_.back()->is_array()) {
      auto& list = open_.back()->get_ref<Json::array_t&>();
      list.push_back(std::move(value));
      latest_ = &list.back();
    } else {
      // Its own insertion looks for the name among all members, which takes hours for many of them.
      Json::object_t::Container& members = open_.back()->get_ref<Json::object_t&>();
      members.emplace_back(std::move(name_), std::move(value));
      latest_ = &members.back().second;
    }
    return true;
  }
  void expect_names_once(const Json::object_t& object) const {
    std::vector<std::string_view> names;
    names.reserve(object.size());
    for (const auto& member : object) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    require(twice == names.end(), "{}: the member '{}' is given twice in one object; give it once.", place_,
            twice == names.end() ? "" : shortened(*twice));
  }

  const std::string& place_;
  Json root_;
  std::string name_;         // of the next member
  std::vector<Json*> open_;  // none of them grows while a value inside it is open
  Json* latest_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& place) {
  require(text.size() <= kMaxTextBytes, "{}: the JSON has more than {}; give a smaller file.", place,
          human_bytes(Bytes(static_cast<double>(kMaxTextBytes))));
  try {
    DocumentBuilder builder(place);
    const bool whole = Json::sax_parse(text, &builder);
    MW_CHECK(whole, "{}: the JSON parser stopped without saying why", place);
    return builder.take();
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

namespace {

bool all_utf8(const Json& json) {
  if (json.is_string()) return is_utf8(json.get_ref<const std::string&>());
  if (json.is_object())
    for (const auto& [name, value] : json.get_ref<const Json::object_t&>())
      if (!is_utf8(name) || !all_utf8(value)) return false;
  if (json.is_array())
    for (const Json& value : json)
      if (!all_utf8(value)) return false;
  return true;
}

Json with_bytes_escaped(const Json& json) {
  if (json.is_string()) return escaped_bytes(json.get_ref<const std::string&>());
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& value : json) list.push_back(with_bytes_escaped(value));
    return list;
  }
  if (!json.is_object()) return json;
  Json object = Json::object();
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>())
    object[escaped_bytes(name)] = with_bytes_escaped(value);
  return object;
}

}  // namespace

std::string json_text(const Json& json, int indent) {
  return all_utf8(json) ? json.dump(indent) : with_bytes_escaped(json).dump(indent);
}

std::string brief(const Json& value) {
  if (value.is_object() && value.empty()) return "an empty object";
  if (value.is_object()) return fmt::format("an object with the member '{}'", shortened(value.begin().key()));
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return fmt::format("\"{}\"", shortened(value.get_ref<const std::string&>()));
  return value.dump();
}

void visit_json(const std::function<std::string_view()>& next_piece, JsonVisitor& visitor, const std::string& place) {
  PieceIterator::Pieces pieces{next_piece};
  VisitorAdapter adapter{visitor, place};
  const bool whole = Json::sax_parse(PieceIterator(pieces), PieceIterator(), &adapter);
  MW_CHECK(whole, "{}: the JSON parser stopped without saying why", place);
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path), path); }

const Json& member(const Json& object, std::string_view key, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  const auto found = object.find(std::string(key));
  require(found != object.end(), "{}: '{}' is missing.", place, key);
  return *found;
}

}  // namespace meshwright
