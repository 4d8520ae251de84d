// SPDX-License-Identifier: Apache-2.0
// The scripts and the style of assets/ as texts; the build writes their definitions (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace meshwright {

extern const std::string_view kPageCss;
extern const std::string_view kFrameJs;          // data, theme, tables; every page has it
extern const std::string_view kTimelineTasksJs;  // before the timeline
extern const std::string_view kTimelineMapJs;
extern const std::string_view kTimelineJs;
extern const std::string_view kMemoryJs;
extern const std::string_view kMapJs;
extern const std::string_view kPointsJs;
extern const std::string_view kShardingJs;
extern const std::string_view kWhatIfJs;

}  // namespace meshwright
