// SPDX-License-Identifier: Apache-2.0
// Pages of the verbs that are about many plans or runs: what --json says, as charts and tables.
#pragma once

#include "core/base/json.h"
#include "report/page/page.h"
#include "report/rows/tracks.h"

namespace meshwright {

// `document`: what --json of the verb prints. Pages lack their provenance, which is the caller's.

// A heat map for each schedule, any two numbers of the plans against each other, and all points.
[[nodiscard]] Page sweep_page(Json document);
// Predicted against published, how the errors are spread, and all rows, the worst first.
[[nodiscard]] Page validation_page(Json document);
// Both timelines under each other, how far each kind of task is apart, and bars of both timings of each stage. `pairs`:
// paired tracks; null: no tasks are known, and there are no timelines.
[[nodiscard]] Page diff_page(Json document, const Tracks* pairs);

}  // namespace meshwright
