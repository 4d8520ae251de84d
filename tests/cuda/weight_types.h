// SPDX-License-Identifier: Apache-2.0
// The types in which the device's optimizers are tested.
#pragma once

#include <gtest/gtest.h>

#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda {

// The types of a weight and of its gradient.
template <class Weight, class Gradient>
struct WeightType {
  using T = Weight;
  using G = Gradient;
};
using WeightTypes = testing::Types<WeightType<float, float>, WeightType<double, double>, WeightType<Bf16, float>,
                                   WeightType<Bf16, Bf16>, WeightType<F16, F16>, WeightType<F16, float>>;

}  // namespace meshwright::kernels::cuda
