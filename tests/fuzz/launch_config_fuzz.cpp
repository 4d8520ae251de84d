// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError with a line, or become values. The first byte chooses the
// language; 'm' is Python of several files, each behind a line "### NAME".
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/base/errors.h"
#include "launch/syntax/python/python_config.h"
#include "launch/syntax/toml.h"
#include "launch/syntax/yaml.h"

namespace {

// The last part of a module's name says which file it is.
void read_modules(const std::string& text) {
  using namespace meshwright;
  std::map<std::string, std::string> files;
  std::string name = "main";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("### "))
      name = line.substr(4);
    else
      files[name] += line + "\n";
    at = end + 1;
  }
  PythonSurroundings around;
  around.path = "main";
  around.module = [&](const std::string&, int, const std::string& module) -> std::optional<PythonFile> {
    const auto found = files.find(module.substr(module.rfind('.') + 1));
    if (found == files.end()) return std::nullopt;
    return PythonFile{found->first, "fuzz", found->second};
  };
  (void)to_text(config_from_python(files["main"], "", "fuzz", around).values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 't':
        (void)to_text(value_from_toml(text, "fuzz"));
        break;
      case 'p':
        (void)to_text(config_from_python(text, "", "fuzz").values);
        break;
      case 'm':
        read_modules(text);
        break;
      default:
        (void)to_text(value_from_yaml(text, "fuzz"));
    }
  } catch (const InputError& error) {
    MW_CHECK(std::string(error.what()).starts_with("fuzz:"), "'{}' names no line", error.what());
  }
  return 0;
}
