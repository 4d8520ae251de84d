// SPDX-License-Identifier: Apache-2.0
#include "executor/base/run_options.h"

#include "core/base/errors.h"

namespace meshwright {

void require_valid(const RunOptions& options) {
  require(options.steps >= 1, "{} steps cannot be run; give at least 1.", options.steps);
  require(options.recorded_steps >= 1, "{} steps cannot be recorded; give at least 1.", options.recorded_steps);
  require(options.precision == DType::F32 || options.precision == DType::F64, "cannot compute in {}; give f32 or f64.",
          name_of(options.precision));
}

}  // namespace meshwright
