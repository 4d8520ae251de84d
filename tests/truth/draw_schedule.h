// SPDX-License-Identifier: Apache-2.0
// A schedule as a picture, so that tests can say what they expect: a line per rank, a column per tick, a tick per run.
#pragma once

#include <string>

#include "core/schedule/schedule.h"

namespace meshwright {

// "rank 0 | F0 F1 B0 ...". Without `feeds` the stages are a line. The two halves of a backward are I and W. A run
// begins with its stage ("3F0") unless each rank r has stage r alone; the row is then "stage r |".
[[nodiscard]] std::string draw(const Schedule& schedule);
[[nodiscard]] std::string draw(const Schedule& schedule, const Feeds& feeds);

}  // namespace meshwright
