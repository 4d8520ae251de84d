// SPDX-License-Identifier: Apache-2.0
// Pieces of the texts that launch files are made of: comments, shell words, arrays of flags.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace meshwright {

// Each line behind `mark`: "# predicted step: ...".
[[nodiscard]] std::string commented(const std::vector<std::string>& lines, const std::string& mark = "# ");
// A word that bash takes for `text`: as it is where nothing in it is special, else in single quotes.
[[nodiscard]] std::string shell_word(const std::string& text);
// `text` with every line that is not empty moved right.
[[nodiscard]] std::string indented(const std::string& text, int columns);

// Flags of a command line by topic, and the bash arrays that hold them.
struct FlagGroup {
  std::string array;                                            // "PARALLEL_ARGS"
  std::string comment;                                          // one line; "": none
  std::vector<std::pair<std::string, std::string>> flags = {};  // ("--bf16", "") takes no value

  void add(const std::string& flag) { flags.emplace_back(flag, ""); }
  void add(const std::string& flag, const std::string& value) { flags.emplace_back(flag, value); }
  void add(const std::string& flag, std::int64_t value) { flags.emplace_back(flag, std::to_string(value)); }
};
[[nodiscard]] std::string bash_arrays(const std::vector<FlagGroup>& groups);
// "${MODEL_ARGS[@]}" and so on, one on each line, behind what came before.
[[nodiscard]] std::string expanded(const std::vector<FlagGroup>& groups);

// A number in the shortest form that reads back the same, with a point: "0.001", "1.0", "1.0e-05".
[[nodiscard]] std::string decimal(double value);

}  // namespace meshwright
