// SPDX-License-Identifier: Apache-2.0
// A StageProfileTable as a text for spreadsheets and scripts: the key, the names of the columns, one line per entry.
//
//   # meshwright-stage-profile 1
//   # key: {"model": "gpt-2.6b", ...}
//   first_layer,last_layer,hosts,devices_per_host,host_group,logical_shape,batch_axis,option,sharding,forward_s,...
//   0,2,1,4,0,2x2,,0,,0.0012500000000000001,...
//
// Seconds and bytes are decimal numbers of 17 digits: what is read back is what was written, to the last bit. An empty
// batch_axis: held to none. Either option or sharding is empty. The columns of memory are given together or empty
// together (as modelled). `basis` is modelled, or measured with samples and spreads (mad_s).
#pragma once

#include <string>

#include "core/planner/stages/stage_profile.h"

namespace meshwright {

[[nodiscard]] std::string to_csv(const StageProfileTable& table);
// Columns may stand in any order. Throws InputError naming `place`, the line and the column for anything else than the
// above: nothing is skipped, guessed or corrected.
[[nodiscard]] StageProfileTable stage_profile_from_csv(const std::string& text, const std::string& place);

}  // namespace meshwright
