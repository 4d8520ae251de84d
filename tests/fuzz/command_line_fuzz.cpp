// SPDX-License-Identifier: Apache-2.0
// Any words at all, one a line, are either refused by an InputError or become a command whose work could begin, which
// it does not. What options of planning mean is found as `plan` finds it before it searches; words with a slash, which
// may name files, are not.
#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/base/text.h"

namespace {

using namespace meshwright;

void read_command(const std::vector<std::string>& words) {
  Context context;
  const CommandLine line(context, words);
}

void read_planning_options(std::vector<std::string> words) {
  CLI::App verb("", "plan");
  PlanningOptions options;
  add_planning_options(verb, options, GridOptions::Single);
  try {
    verb.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError&) {
    return;
  }
  complete(options);
  (void)request_from_options(options, cluster_from_options(options));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> words = split(text, '\n');
  const auto drop = [](const std::string&) {};
  const Redirection silence(drop, drop);
  try {
    read_command(words);
    if (words.front() != "plan" || text.find('/') != std::string::npos) return 0;
    words.erase(words.begin());
    read_planning_options(std::move(words));
  } catch (const InputError&) {
  } catch (const SystemError&) {  // a file that is not there
  }
  return 0;
}
