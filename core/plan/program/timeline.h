// SPDX-License-Identifier: Apache-2.0
// The Timeline: what ran when on which device. The simulator predicts one, the executor measures one; reports, traces
// and comparisons work on both.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graph/graph.h"

namespace meshwright {

struct Span {
  enum class Kind {
    Forward,
    Backward,        // both gradients at once
    BackwardInput,   // that of the stage's input
    BackwardWeight,  // those of its weights
    Update,
    Send,
    Collective,  // beside the computation, on a stream of its own
    Dispatch,    // a host issues work
    Wait,
  } kind;
  DeviceId device;
  StageId stage;
  MicrobatchId microbatch;
  SimTime begin, end;
  std::optional<Kind> part_of = {};  // of a Collective: the computation that needs it
  bool operator==(const Span&) const = default;
};
[[nodiscard]] const char* name_of(Span::Kind kind);
[[nodiscard]] bool is_compute(Span::Kind kind);  // forward, backward (whole or in parts), update

struct Timeline {
  std::vector<Span> spans;  // sorted by (begin, device, end)
  SimTime end;              // of the whole step
};
// Sorts the spans, equal ones by kind, stage and microbatch: the result does not depend on the order they come in. The
// step ends with the last of them.
[[nodiscard]] Timeline make_timeline(std::vector<Span> spans);

// A device is at work while it computes (is_compute) or is in a collective, whether its collectives stand in the spans
// of its computations or have spans of their own: then a moment counts once, for the span that began first. `kind`: the
// computation, or that which the collective is part of. REQUIRES: collectives have `part_of`.
struct WorkTime {
  Span::Kind kind;
  DeviceId device;
  StageId stage;
  SimTime begin, end;
};
void for_each_work(const Timeline& timeline, const std::function<void(const WorkTime&)>& visit);

struct TimelineSummary {
  Seconds step{0.0};
  std::vector<Seconds> compute;  // [device] at work (for_each_work)
  // 1 - (compute of all devices) / (devices * step): what devices wait for messages or for nothing that is on its way.
  double waiting = 0.0;
};
// `counts` [device]: how many devices each stands for, where only some have spans; empty: each for itself alone.
[[nodiscard]] TimelineSummary summarize(const Timeline& timeline, int devices, const std::vector<int>& counts = {});

// Not the bubble of a step's breakdown (simulator/report/step_breakdown.h), which messages on their way take from and
// updates add to. How much of its time a rank's stages wait between the begin of their first forward and the end of
// their last backward, where updates do not count: 1 - (compute) / (last backward's end - first forward's begin).
struct StageWaits {
  // The rank that waits the most; with equal stages it is the first, and this is the bubble rate printed in "Zero
  // Bubble Pipeline Parallelism" (arXiv:2401.10241, Table 9).
  double longest = 0.0;
  double mean = 0.0;  // all ranks together, each by its devices and its time
  bool operator==(const StageWaits&) const = default;
};
// `counts`: as of summarize.
[[nodiscard]] StageWaits stage_waits(const Timeline& timeline, const std::vector<int>& counts = {});

// Microseconds to the picosecond, in digits: the same bytes on every platform.
[[nodiscard]] std::string in_microseconds(SimTime time);

// Chrome/Perfetto trace ("traceEvents" JSON, microseconds), one track per device. Opens in ui.perfetto.dev.
[[nodiscard]] std::string to_chrome_trace(const Timeline& timeline, const std::string& title);

}  // namespace meshwright
