// SPDX-License-Identifier: Apache-2.0
// Where and when something was measured, and what this machine has to run it.
#pragma once

#include <string>

#include "core/base/json.h"
#include "costmodel/profile_db.h"

namespace meshwright {

// This machine, now.
[[nodiscard]] ProfileSession make_session(const Cluster& cluster, const std::string& command_line);

// Physical memory.
[[nodiscard]] Bytes memory_of_this_machine();

// The latest session of `meshwright profile` or `import` whose cluster computes products in `dtype`, else the latest of
// all; throws InputError when the database has none.
[[nodiscard]] ProfileSession profiled_session(const ProfileDb& db, const std::string& path, const std::string& dtype);

[[nodiscard]] std::string provenance_line(const ProfileSession& session);  // "# measured on ...\n"
[[nodiscard]] Json provenance_json(const ProfileSession& session);

}  // namespace meshwright
