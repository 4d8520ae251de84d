// SPDX-License-Identifier: Apache-2.0
// A launch file as settings of one framework, before anything is concluded from them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/read/settings.h"

namespace meshwright {

struct GivenFile {
  std::string path, text;
};

struct LaunchInput {
  std::vector<GivenFile> files;  // at least one; the first is launched, the others are what it refers to
  std::string as = {};           // a launch target's name; "": as the file shows
  std::string function = {};     // of a Python configuration; "": as the file says
  std::map<std::string, std::string> variables = {};
  std::vector<std::string> arguments = {};
  std::optional<std::int64_t> launch = {};  // which of launches_of(); nullopt: there has to be one alone
  // The text of a file that the launched one names, if there is one beside it.
  std::function<std::optional<std::string>(const std::string& name)> beside = {};
  // The module "a.b" that the Python file of that path imports, `dots` being those of a relative import: a file within
  // the tree of its package. Its path is as it is found, and names it. Throws InputError where it is no launch file.
  std::function<std::optional<GivenFile>(const std::string& importer, int dots, const std::string& module)> module = {};
};

struct LaunchText {
  std::string target;  // the name of a LaunchTarget
  // "Megatron-DeepSpeed", "GPT-NeoX": a framework of its own that launches as the target does; "": the target itself.
  std::string variant = {};
  std::string program = {};  // "pretrain_gpt.py at run.sh:80"
  Settings settings;
  // What the launcher, Slurm or the file says of the devices.
  std::optional<std::int64_t> hosts = {}, devices_per_host = {}, devices = {};
  std::string open_hosts = {};  // "run.sh:3: --nnodes ${N}": the number of hosts is a variable that nothing sets
  std::string device = {};      // "a100", from a request for it
  std::map<std::string, std::string> environment = {};  // exported
  std::map<std::string, int> unresolved = {};           // variables, and the line that asks first
  std::vector<std::string> notes = {};                  // what was left out of scripts
};

// The commands of a script that launch trainings, each with the words that not all of them have: "run.sh:3: sft.py
// --epochs 2". At most one where there is nothing to choose.
[[nodiscard]] std::vector<std::string> launches_of(const LaunchInput& input);
// "1 (run.sh:3: sft.py), 2 (run.sh:9: dpo.py)"
[[nodiscard]] std::string numbered(const std::vector<std::string>& launches);

// Throws InputError where a file has wrong syntax (with its line), is of no known framework, launches several trainings
// of which none is chosen, or names a file that is needed and missing.
[[nodiscard]] LaunchText read_launch_text(const LaunchInput& input);

}  // namespace meshwright
