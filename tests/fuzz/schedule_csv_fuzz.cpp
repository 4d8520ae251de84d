// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become a schedule that reads back as it was written.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "core/schedule/schedule_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  try {
    const Schedule schedule = schedule_from_csv({reinterpret_cast<const char*>(data), size}, "fuzz");
    MW_CHECK(schedule_from_csv(schedule_to_csv(schedule), "fuzz") == schedule, "it reads back as another schedule");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
