// SPDX-License-Identifier: Apache-2.0
// The JSON files of this folder as texts; the build writes their definitions (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace meshwright {

extern const std::string_view kDevicesJson;
extern const std::string_view kSoftwareJson;
extern const std::string_view kConstantsJson;

}  // namespace meshwright
