// SPDX-License-Identifier: Apache-2.0
// Rows of a step as data of a page, which assets/timeline.js and assets/memory.js draw.
#pragma once

#include "report/page/page.h"
#include "report/rows/tracks.h"

namespace meshwright {

// The rows as members "tracks", "kinds" and "step_ps", and as columns "task.*" and "memory.*". Throws InputError for a
// step beyond 9,007 s, whose picoseconds a page cannot tell apart.
void add_tracks(Page& page, const Tracks& tracks);

}  // namespace meshwright
