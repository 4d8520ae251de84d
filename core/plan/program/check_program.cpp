// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/check_program.h"

#include <algorithm>

#include "core/plan/program/program_walks.h"

namespace meshwright {

Bytes ProgramCheck::largest_peak() const {
  Bytes largest(0.0);
  for (const Bytes peak : peak_memory) largest = std::max(largest, peak);
  return largest;
}

ProgramCheck check_program(const Program& program) {
  Findings findings;
  ProgramCheck check;
  if (check_references(program, findings)) {
    check.peak_memory = check_buffers(program, findings);
    check.order = check_meetings(program, findings);
  }
  check.violations = findings.take();
  return check;
}

}  // namespace meshwright
