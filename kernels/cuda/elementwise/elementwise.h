// SPDX-License-Identifier: Apache-2.0
// Passes over elements on the device, as kernels/cpu/elementwise/elementwise.h has them: each reads every operand once
// and writes the result once, 16 bytes per thread where all pointers are 16-byte aligned. An output may be one of the
// inputs itself (same pointer), never a shifted overlap.
//
// T: float, double, Bf16, F16.
#pragma once

#include <cstdint>

#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

template <Arithmetic f, class T>
void combine(Stream stream, const T* x, const T* y, T* out, std::int64_t n);
template <class T>
void scale(Stream stream, const T* x, T* out, std::int64_t n, double factor);
template <class T>
void shift(Stream stream, const T* x, T* out, std::int64_t n, double by);
template <class T>
void clamp(Stream stream, const T* x, T* out, std::int64_t n, ClampBounds bounds);
template <class T>
void clamp_backward(Stream stream, const T* x, const T* dy, T* out, std::int64_t n, ClampBounds bounds);

template <Activation f, class T>
void activate(Stream stream, const T* x, T* out, std::int64_t n);
template <Activation f, class T>
void activate_backward(Stream stream, const T* x, const T* dy, T* out, std::int64_t n);

// From: int32 or a T. To: a T. A type to itself is a copy; double and int32 come to a 16-bit type by way of float.
template <class From, class To>
void convert(Stream stream, const From* x, To* out, std::int64_t n);
// out = 1 where x f y, else 0.
template <Relation f, class T>
void compare(Stream stream, const T* x, const T* y, std::int32_t* out, std::int64_t n);
// out = x where p is not 0, else y.
template <class T>
void select(Stream stream, const std::int32_t* p, const T* x, const T* y, T* out, std::int64_t n);
// out = dy where p is not 0 (`where_zero`: where it is), else 0.
template <class T>
void select_backward(Stream stream, const std::int32_t* p, const T* dy, T* out, std::int64_t n, bool where_zero);

}  // namespace meshwright::kernels::cuda
