// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become rows. The first byte chooses the kind of table.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "core/planner/stages/stage_profile_csv.h"
#include "costmodel/calibration/kernel_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 's')
      (void)stage_profile_from_csv(text, "fuzz");
    else
      (void)read_kernel_rows(CsvTable::parse(text, "fuzz"));
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
