// SPDX-License-Identifier: Apache-2.0
// Settings in the words of trainers over DeepSpeed, FSDP or replicas, most of which fine-tune.
#pragma once

#include <optional>
#include <string>

#include "launch/advise/advice.h"

namespace meshwright {

// The same as setting_text() for these trainers; nullopt where `dialect` is none of them.
[[nodiscard]] std::optional<std::string> trainer_setting_text(const std::string& dialect, LaunchProperty property,
                                                              const Degrees& degrees);

}  // namespace meshwright
