// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/names.h"

#include <algorithm>
#include <cctype>

namespace meshwright {

std::string block_of(const std::string& path) {
  const auto is_digit = [&](std::size_t i) {
    return i < path.size() && std::isdigit(static_cast<unsigned char>(path[i])) != 0;
  };
  for (std::size_t at = 1; at < path.size(); ++at) {
    if (!is_digit(at) || path[at - 1] != '.' || at < 2 || is_digit(at - 2)) continue;
    std::size_t end = at;
    while (is_digit(end)) ++end;
    if (end < path.size() && path[end] != '.' && path[end] != '/' && path[end] != ':') continue;
    // "model: Llama/layers.3" gives its last part, "/model/layers.3" all of it, as "model.layers.3".
    std::size_t begin = path.rfind(": ", at);
    begin = begin == std::string::npos ? 0 : std::min(path.find('/', begin), at - 1);
    while (begin < at && (path[begin] == '/' || path[begin] == ' ')) ++begin;
    std::string block = path.substr(begin, end - begin);
    std::replace(block.begin(), block.end(), '/', '.');
    return block;
  }
  return {};
}

std::string refusal_sentence(const std::string& why) {
  if (why.ends_with('.')) return why;
  return why + (why.find("; ") == std::string::npos ? "; see docs/models.md." : ".");
}

}  // namespace meshwright
