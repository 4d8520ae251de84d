// SPDX-License-Identifier: Apache-2.0
// What the options of the command take: --help names it, completions offer it. Options of one name take the same in
// every verb, unless value_kinds.cpp says otherwise.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace meshwright {

struct ValueKind {
  enum class Paths { None, Files, Folders };
  std::string shown = "TEXT";      // "FILE", "COUNT|auto", "NAME"
  Paths paths = Paths::None;       // may be one
  std::vector<std::string> words;  // that it may be; one that ends in ':' or '=' goes on behind it
};

// `name` as it is typed ("--cluster"), or of a positional ("plan"). One without a row takes a TEXT.
[[nodiscard]] const ValueKind& value_kind(const std::string& verb, const std::string& name);

// Lets --help of every verb show what each option takes.
void name_values(CLI::App& app);

}  // namespace meshwright
