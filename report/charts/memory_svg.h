// SPDX-License-Identifier: Apache-2.0
// The memory of devices over a step as a picture: what lies there all the time, what comes and goes, and the limit.
#pragma once

#include <string_view>
#include <vector>

#include "core/plan/program/folded_devices.h"
#include "core/plan/program/program.h"
#include "report/charts/svg.h"
#include "simulator/report/step_report.h"

namespace meshwright {

// Devices of one stage whose memory is the same at all times.
struct MemoryTrack {
  std::vector<DeviceId> devices;  // in order
  StageId stage{0};               // the first that they work for
  Bytes standing{0.0};            // there all the time
  Bytes usable{0.0};
  std::vector<MemoryPoint> points;         // beside it
  [[nodiscard]] MemoryPoint peak() const;  // the first of the highest
};

// By their first devices. `usable` [device]. `folded`: as the step was simulated.
[[nodiscard]] std::vector<MemoryTrack> memory_tracks_of(const TaskGraph& graph, const TaskTimes& times,
                                                        const Program& program, const std::vector<Bytes>& usable,
                                                        const FoldedDevices* folded);

// A strip per track; of many tracks of one stage the fullest. `title`: what was simulated.
[[nodiscard]] Svg memory_svg(const std::vector<MemoryTrack>& tracks, SimTime end, std::string_view title);

}  // namespace meshwright
