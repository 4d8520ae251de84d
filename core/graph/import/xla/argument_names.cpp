// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/argument_names.h"

#include "core/graph/import/names.h"

namespace meshwright::xla {

namespace {

// "p__layers____w1__.1", as JAX prints "p['layers']['w1']" -> "p.layers.w1"
std::string unescaped(std::string name) {
  const std::size_t dot = name.rfind('.');
  if (dot != std::string::npos && name.find_first_not_of("0123456789", dot + 1) == std::string::npos) name.resize(dot);
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::size_t end = std::min(name.find_first_not_of('_', i), name.size());
    if (end - i >= 2 && end < name.size() && !plain.empty()) plain += '.';
    if (end - i == 1 && end < name.size()) plain += '_';
    i = end;
    if (i < name.size()) plain += name[i];
  }
  return plain;
}

}  // namespace

std::string name_of_argument(const Instruction& of) {
  const std::string path = printable(of.op_name);
  if (path.empty() || path.find_first_of("/( ") != std::string::npos)
    return of.name.find("__") == std::string::npos ? of.name : unescaped(of.name);
  std::string name;
  for (const char letter : path) {
    const bool between =
        letter == '[' || letter == ']' || letter == '\'' || letter == '"' || letter == '\\' || letter == '.';
    if (!between)
      name += letter;
    else if (!name.empty() && name.back() != '.')
      name += '.';
  }
  while (name.ends_with('.')) name.pop_back();
  return name.empty() ? of.name : name;
}

std::string tree_of_argument(const Instruction& of) {
  const std::string name = name_of_argument(of);
  const std::size_t dot = name.find('.');
  const bool element = dot != std::string::npos && name.find_first_not_of("0123456789", dot + 1) != std::string::npos;
  return element ? name.substr(0, dot) : std::string();
}

}  // namespace meshwright::xla
