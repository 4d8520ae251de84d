// SPDX-License-Identifier: Apache-2.0
// The residues that a run over integers modulo a prime starts from and is fed with: functions of the seed, the tensor's
// name and the place in the whole tensor (of samples, counted from the first step on), as InitialValues' numbers are.
// Integers, moments and accumulators are what they are in numbers.
#pragma once

#include <cstdint>

#include "executor/base/given_values.h"

namespace meshwright::exact {

[[nodiscard]] GivenValues exact_values(std::uint64_t seed);

}  // namespace meshwright::exact
