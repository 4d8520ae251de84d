// SPDX-License-Identifier: Apache-2.0
// What a Python configuration imports: further files that the caller gives, or modules of the tree that it lies in.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"

namespace meshwright {

namespace {

// Whether a file of that path is the module "a.b.c": all of its names, or as many as the path has.
bool is_module(const std::string& path, const std::string& module) {
  std::vector<std::string> parts = split(path, '/');
  std::vector<std::string> names = split(module, '.');
  if (parts.back() == "__init__.py")
    parts.pop_back();
  else if (parts.back().ends_with(".py"))
    parts.back().resize(parts.back().size() - 3);
  std::erase_if(parts, [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
  const std::size_t compared = std::min(parts.size(), names.size());
  return compared > 0 && std::equal(parts.end() - static_cast<std::ptrdiff_t>(compared), parts.end(),
                                    names.end() - static_cast<std::ptrdiff_t>(compared));
}

}  // namespace

std::optional<PythonFile> TextReader::python_module(const std::string& importer, int dots,
                                                    const std::string& module) const {
  for (std::size_t i = 1; i < input_.files.size() && !module.empty(); ++i)
    if (const GivenFile& more = input_.files[i]; more.path.ends_with(".py") && is_module(more.path, module))
      return PythonFile{more.path, place_of(more), more.text};
  const auto found = input_.module ? input_.module(importer, dots, module) : std::nullopt;
  if (!found) return std::nullopt;
  // Files of one name lie in many folders of a package.
  const std::string folder = found->path.substr(0, std::min(found->path.rfind('/'), found->path.size()));
  const std::string place = folder == found->path ? found->path : file_name(folder) + "/" + place_of(*found);
  return PythonFile{found->path, place, found->text};
}

PythonSurroundings TextReader::python_surroundings(const std::string& path, PythonKnown known) const {
  PythonSurroundings around;
  around.path = path;
  around.known = std::move(known);
  around.module = [this](const std::string& importer, int dots, const std::string& module) {
    return python_module(importer, dots, module);
  };
  return around;
}

PythonConfig TextReader::python_config(const GivenFile& file, const std::string& function, PythonKnown known) const {
  return config_from_python(file.text, function, place_of(file), python_surroundings(file.path, std::move(known)));
}

void TextReader::note_python(const PythonConfig& config, const std::string& place) {
  for (const std::string& line : config.ignored) text_.notes.push_back(line + " (not understood)");
  if (!config.modules.empty())
    text_.notes.push_back(fmt::format("{}: read with {} of the modules that it imports", place, config.modules.size()));
  if (!config.missing.empty())
    text_.notes.push_back(
        fmt::format("{}: calls functions of modules that are not there, and what these set is not known: {}; give them "
                    "as further files",
                    place, join(config.missing, ", ")));
}

}  // namespace meshwright
