// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become the commands of a script, in bounded time and memory.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "launch/syntax/shell.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  try {
    const ShellResult result = read_shell({reinterpret_cast<const char*>(data), size}, "fuzz",
                                          {.variables = {{"GIVEN", "4"}}, .arguments = {"A=1", "b"}});
    for (const ShellCommand& command : result.commands) MW_CHECK(!command.words.empty(), "a command has no word");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
