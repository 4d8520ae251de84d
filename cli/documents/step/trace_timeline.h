// SPDX-License-Identifier: Apache-2.0
// The timeline in a file of --trace, as simulate and run write it.
#pragma once

#include <string>

#include "core/base/json.h"
#include "core/plan/program/timeline.h"

namespace meshwright {

struct TraceTimeline {
  Timeline timeline;
  int devices = 0;    // of which some may do nothing
  std::string title;  // "gpt on 8 devices, measured"; "": the trace says nothing
};

// Reads a trace's JSON; `place` names it in errors. Events of kinds that a step does not have, such as those of other
// programs, are left out. Throws InputError for events that are no events.
[[nodiscard]] TraceTimeline timeline_of_trace(const Json& json, const std::string& place);

}  // namespace meshwright
