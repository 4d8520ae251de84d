// SPDX-License-Identifier: Apache-2.0
// The manual of the command: what --help says, taken from the same options, as manual pages and as completions for
// shells. Whoever adds an option adds it to all of them.
#pragma once

#include <string>
#include <vector>

#include "cli/manual/value_kinds.h"
#include "core/base/json.h"

namespace CLI {
class App;
}

namespace meshwright {

struct ManualOption {
  std::string name;        // "--output"; of a positional "plan"
  std::string short_name;  // "-o", or ""
  std::string meaning;
  std::string usual;  // its default as the help shows it, or ""
  bool takes_value = false;
  ValueKind value;  // where it takes one
  bool required = false, repeatable = false;
  std::vector<std::string> excludes, needs;  // names of other options
};

struct ManualVerb {
  std::string name, summary, footer;
  std::vector<ManualOption> options, positionals;
};

struct Manual {
  std::string name, version, summary, footer;
  std::vector<ManualOption> options;  // of the command, before or behind a verb
  std::vector<ManualVerb> verbs;
};

// All of `app`, in its order. Those of the values' kinds are named by name_values (value_kinds.h).
[[nodiscard]] Manual manual_of(const CLI::App& app, const std::string& version);

// The option in half a line, for completions: its meaning up to the first parenthesis, colon or semicolon.
[[nodiscard]] std::string briefly(const std::string& meaning);

// A file of the manual and where it belongs below a folder such as /usr/share.
struct ManualFile {
  std::string path;  // "man/man1/meshwright-plan.1"
  std::string text;
};
[[nodiscard]] std::vector<ManualFile> manual_files(const Manual& manual);

// roff, for `man`: of the command, and of a verb.
[[nodiscard]] std::string man_page(const Manual& manual);
[[nodiscard]] std::string man_page(const Manual& manual, const ManualVerb& verb);

// What other programs need to call the command: each verb's arguments and options, and what these take.
[[nodiscard]] Json to_json(const Manual& manual);

[[nodiscard]] std::string bash_completion(const Manual& manual);
[[nodiscard]] std::string zsh_completion(const Manual& manual);
[[nodiscard]] std::string fish_completion(const Manual& manual);

}  // namespace meshwright
