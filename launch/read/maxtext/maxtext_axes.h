// SPDX-License-Identifier: Apache-2.0
// The axes of MaxText's mesh that its rules split weights over.
#pragma once

#include <map>
#include <set>
#include <string>

#include "launch/read/readers.h"

namespace meshwright {

struct WeightAxes {
  std::set<std::string> names = {};  // "fsdp", "context", "expert"
  bool others_change = false;        // the file has rules of its own for other tensors, too
};

// Those over which rules split the width of dense weights ('embed'): by logical_axis_rules, or one of the rule files
// that come with MaxText (custom_mesh_and_rule), or base.yml. Throws InputError for rules that are none.
[[nodiscard]] WeightAxes weight_axes(ReadingJob& job);

// How many ways these axes split weights; `degrees`: [axis] its devices.
[[nodiscard]] std::int64_t weight_parts(const WeightAxes& axes, const std::map<std::string, std::int64_t>& degrees);

}  // namespace meshwright
