// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace meshwright {

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

Json read_json_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SystemError(fmt::format("{}: cannot be opened ({}).", path, std::strerror(errno)));
  std::ostringstream text;
  // Inserting nothing counts as a failure, and an empty file has nothing.
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || text.fail()) throw SystemError(fmt::format("{}: cannot be read ({}).", path, std::strerror(errno)));
  return parse_json(text.str(), path);
}

void write_file(const std::string& path, const std::string& contents) {
  const std::string temporary = path + ".part";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << contents;
    file.flush();
    if (!file) {
      const int error = errno;
      std::remove(temporary.c_str());
      throw SystemError(fmt::format("{}: cannot be written ({}).", path, std::strerror(error)));
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    throw SystemError(fmt::format("{}: cannot be replaced ({}).", path, std::strerror(error)));
  }
}

const Json& member(const Json& object, std::string_view key, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  const auto found = object.find(key);
  require(found != object.end(), "{}: '{}' is missing.", place, key);
  return *found;
}

}  // namespace meshwright
