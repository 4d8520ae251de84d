// SPDX-License-Identifier: Apache-2.0
#include "core/base/npy.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kBeforeText = 10;  // magic, version, length of the text

// What stands behind 'key': in the text of a header up to the next comma or brace that is in no parentheses.
std::string_view value_of(std::string_view text, std::string_view key, const std::string& place) {
  const std::size_t at = text.find(fmt::format("'{}':", key));
  require(at != std::string_view::npos, "{}: the header has no '{}'; the file is damaged.", place, key);
  std::size_t begin = at + key.size() + 3, end = begin;
  for (int open = 0; end < text.size(); ++end) {
    if (text[end] == '(') ++open;
    if (text[end] == ')') --open;
    if (open == 0 && (text[end] == ',' || text[end] == '}')) break;
  }
  while (begin < end && text[begin] == ' ') ++begin;
  return text.substr(begin, end - begin);
}

std::vector<std::int64_t> shape_from(std::string_view text, const std::string& place) {
  require(text.size() >= 2 && text.front() == '(' && text.back() == ')',
          "{}: the header's shape is no list of sizes; the file is damaged.", place);
  std::vector<std::int64_t> shape;
  for (std::string part : split(text.substr(1, text.size() - 2), ',')) {
    std::erase(part, ' ');
    if (!part.empty())
      shape.push_back(parse_integer(part, fmt::format("{}: shape", place), 0, std::numeric_limits<long>::max()));
  }
  return shape;
}

}  // namespace

std::int64_t NpyHeader::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

NpyHeader read_npy_header(std::string_view file, const std::string& place) {
  require(file.size() >= kBeforeText && file.substr(0, kMagic.size()) == kMagic,
          "{}: the file does not begin as NumPy's .npy files do; write it with numpy.save.", place);
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(file[at])); };
  const std::size_t version = byte(6), length_bytes = version == 1 ? 2 : 4, begin = 8 + length_bytes;
  require((version == 1 || version == 2 || version == 3) && file.size() >= begin,
          "{}: the file is of version {} of the format; write it with numpy.save.", place, version);
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte(8 + i) << (8 * i);
  require(length <= file.size() - begin, "{}: the file ends inside its header; it is cut short.", place);
  const std::string_view text = file.substr(begin, length);
  NpyHeader header;
  header.begin = begin + length;
  std::string_view type = value_of(text, "descr", place);
  require(type.size() == 5 && (type[1] == '<' || type[1] == '|' || type[1] == '='),
          "{}: elements of the type {} are not read; store little-endian numbers.", place, type);
  header.type = type.substr(2, 2);
  constexpr std::array<std::string_view, 12> kTypes = {"f2", "f4", "f8", "i1", "i2", "i4",
                                                       "i8", "u1", "u2", "u4", "u8", "b1"};
  require(std::find(kTypes.begin(), kTypes.end(), header.type) != kTypes.end(),
          "{}: elements of the type {} are not read; store whole or floating-point numbers.", place, type);
  require(value_of(text, "fortran_order", place) == "False",
          "{}: the array is stored column by column; store numpy.ascontiguousarray of it.", place);
  header.shape = shape_from(value_of(text, "shape", place), place);
  std::size_t bytes = header.element_bytes();
  const std::size_t there = file.size() - header.begin;
  const auto expect = [&](bool has_all) {
    require(has_all, "{}: the shape tells of more elements than the file has; it is cut short.", place);
  };
  for (const std::int64_t size : header.shape) {
    if (size == 0) bytes = 0;
    expect(bytes == 0 || static_cast<std::size_t>(size) <= there / bytes);
    bytes *= static_cast<std::size_t>(size);
  }
  expect(bytes <= there);  // of no dimension: one element
  return header;
}

std::string npy_header(const std::string& type, const std::vector<std::int64_t>& shape) {
  std::string sizes;
  for (const std::int64_t size : shape) sizes += fmt::format("{},", size);
  std::string text = fmt::format("{{'descr': '<{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  while ((kBeforeText + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string bytes(kMagic);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(text.size() & 0xff);
  bytes += static_cast<char>(text.size() >> 8);
  return bytes + text;
}

}  // namespace meshwright
