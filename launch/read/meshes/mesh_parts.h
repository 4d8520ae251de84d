// SPDX-License-Identifier: Apache-2.0
// What the readers of modules for JAX and Alpa share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/read/readers.h"

namespace meshwright {

[[nodiscard]] inline std::string last_name(const std::string& called) { return called.substr(called.rfind('.') + 1); }
// A tuple; `(8,)` is read as its one item.
[[nodiscard]] std::vector<ConfigValue> items_of(const ConfigValue& value);
// Throws InputError for an item that is no whole number from 0 to kMaxDegree.
[[nodiscard]] std::vector<std::int64_t> numbers_of(const ConfigValue& value, const std::string& where);
// So many devices, whole hosts where they are more than a host has. Throws InputError where there are none such.
[[nodiscard]] Submesh submesh_of(std::int64_t devices, const LaunchDevices& all, const std::string& where);
// The training of a plan, as plan_constants of write/python_text.h says it. REQUIRES: the setup has meshes.
void read_plan_constants(ReadingJob& job);
// Samples and micro-batches of the whole job; every replica is in the meshes.
void read_whole_batch(ReadingJob& job, std::optional<std::int64_t> batch, std::int64_t micro_batches);
// Takes the caller's model; throws InputError that asks for it.
void need_model(ReadingJob& job);

}  // namespace meshwright
