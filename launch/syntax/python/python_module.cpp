// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_module.h"

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// A recipe of Megatron-Bridge takes some ten files of half a megabyte.
constexpr std::size_t kMaxModules = 200, kMaxBytes = 4 * kMaxLaunchFile;

}  // namespace

PythonModule& PythonModules::add(PythonFile file) {
  bytes_ += file.text.size();
  modules_.push_back({std::move(file)});
  PythonModule& made = modules_.back();
  made.lines = python_lines(made.file.text, made.file.place);
  return made;
}

PythonModule* PythonModules::find(const PythonModule& importer, int dots, const std::string& module) {
  if (!around_.module) return nullptr;
  const std::string key = fmt::format("{}\n{}\n{}", importer.file.path, dots, module);
  if (const auto known = found_.find(key); known != found_.end()) return known->second;
  PythonModule*& found = found_[key];
  std::optional<PythonFile> file = around_.module(importer.file.path, dots, module);
  if (!file) return nullptr;
  for (PythonModule& one : modules_)
    if (one.file.path == file->path) return found = &one;
  require(is_utf8(file->text), "{}:1: is imported by {} and is no UTF-8 text; save it as UTF-8.", file->place,
          importer.file.place);
  require(modules_.size() < kMaxModules && bytes_ + file->text.size() <= kMaxBytes,
          "{}:1: imports more than {} files or {} MB; give a function that needs fewer.", modules_.front().file.place,
          kMaxModules, kMaxBytes / 1'000'000);
  return found = &add(*std::move(file));
}

}  // namespace meshwright
