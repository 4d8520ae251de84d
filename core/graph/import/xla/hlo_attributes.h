// SPDX-License-Identifier: Apache-2.0
// What stands behind an instruction's operands in HLO text: "dimensions={0,1}, to_apply=%add, metadata={...}".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

// Reads one attribute into the instruction; names of computations go into `called`. False: its value is none.
[[nodiscard]] bool read_attribute(std::string_view key, std::string_view value, Instruction& into,
                                  std::vector<std::string_view>& called);

// The elements of a constant, up to 65,536; nothing where there are more, or where the text leaves them out ("{...}").
[[nodiscard]] std::optional<std::vector<double>> constant_values(std::string_view literal);

// The text between quotes, with its escapes as they stand.
[[nodiscard]] std::string unquoted(std::string_view value);

// Devices in one group of "{{0,1},{2,3}}" or "[4,2]<=[8]"; and in all of them. 0: unknown.
struct GroupSizes {
  std::int64_t one = 0, all = 0;
};
[[nodiscard]] GroupSizes group_sizes(std::string_view groups);

}  // namespace meshwright::xla
