// SPDX-License-Identifier: Apache-2.0
// Runs a program on this machine's processor, in the type of the options.
#pragma once

#include "executor/executor.h"
#include "executor/host/host_backend.h"
#include "tests/run_on_host.h"

namespace meshwright {

[[nodiscard]] inline RunResult run_program(const Graph& graph, const Program& program, const ProgramCheck& check,
                                           const RunOptions& options) {
  HostBackend host(options.precision);
  return run_program(graph, program, check, options, host);
}

}  // namespace meshwright
