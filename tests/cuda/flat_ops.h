// SPDX-License-Identifier: Apache-2.0
// Operands of kernels that work element by element, and calls of ops on tensors of one dimension.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "executor/cuda/cuda_kernel_table.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda {

using Values = std::vector<double>;

// Half of the last place of a number of type T, relative to it, at most.
template <class T>
constexpr double kHalfPlace = std::is_same_v<T, double>  ? 0x1p-53
                              : std::is_same_v<T, float> ? 0x1p-24
                              : std::is_same_v<T, F16>   ? 0x1p-11
                                                         : 0x1p-8;
// Below this F16 has steps of 2^-24; the other types reach further than any test.
template <class T>
constexpr double kSmallestHalf = std::is_same_v<T, F16> ? 0x1p-25 : 1e-37;

// From low to high, the same for a seed, each a T.
template <class T>
Values numbers(std::int64_t count, std::uint32_t seed, double low = -2.0, double high = 2.0) {
  Values values;
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<double>(T(low + (high - low) * static_cast<double>(state >> 8) * 0x1p-24)));
  }
  return values;
}

// Each within T's rounding of the expected value, and `slack` of `scale` (one value each, or the expected ones).
template <class T>
void expect_rounded(const Values& found, const Values& expected, double slack, const Values& scale = {}) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double size = std::abs(expected[i]), of = scale.empty() ? size : std::abs(scale[i]);
    ASSERT_NEAR(found[i], expected[i], 1.001 * kHalfPlace<T> * size + slack * of + kSmallestHalf<T>) << "element " << i;
  }
}

// What an op asks for, each on its own, until the test ends.
class TestWorkspace : public CudaWorkspace {
 public:
  ~TestWorkspace() override {
    for (void* data : taken_) release(data);
  }
  void* take(std::size_t size) override { return taken_.emplace_back(allocate(size)); }
  const void* put(const void* host, std::size_t size) override {
    void* data = take(size);
    copy_to_device(data, host, size, kNoStream);
    return data;
  }

 private:
  std::vector<void*> taken_;
};

template <class T>
constexpr DType kDType = std::is_same_v<T, double>  ? DType::F64
                         : std::is_same_v<T, float> ? DType::F32
                         : std::is_same_v<T, Bf16>  ? DType::BF16
                         : std::is_same_v<T, F16>   ? DType::F16
                                                    : DType::I32;

struct FlatTensor {
  void* data;
  DType type;
  std::int64_t elements;
};
template <class T>
FlatTensor flat(DeviceArray<T>& array) {
  return {array.data(), kDType<T>, static_cast<std::int64_t>(array.raw().size())};
}

// The op on tensors of one dimension, whole.
inline void run_flat(CudaKernel kernel, OpKind kind, const Attributes& attributes,
                     const std::vector<FlatTensor>& inputs, const std::vector<FlatTensor>& outputs,
                     const OpMoment& moment = {}) {
  ASSERT_NE(kernel, nullptr);
  OpCallPlan call{};
  call.kind = kind;
  call.attributes = attributes;
  call.sizes = {inputs[0].elements};
  call.space.axes = {{"n", inputs[0].elements, false, true}};
  std::vector<void*> in, out;
  std::vector<DType> in_types, out_types;
  for (const FlatTensor& tensor : inputs) {
    in.push_back(tensor.data), in_types.push_back(tensor.type);
    call.space.inputs.push_back({0});
    call.input_dtypes.push_back(tensor.type);
    call.input_shapes.push_back({tensor.elements});
  }
  for (const FlatTensor& tensor : outputs) {
    out.push_back(tensor.data), out_types.push_back(tensor.type);
    call.space.outputs.push_back({0});
    call.output_dtypes.push_back(tensor.type);
    call.output_shapes.push_back({tensor.elements});
  }
  TestWorkspace workspace;
  Products products(false);
  kernel({{call, in, out, moment}, in_types, out_types, kNoStream, workspace, products});
  synchronize(kNoStream);
}

}  // namespace meshwright::kernels::cuda
