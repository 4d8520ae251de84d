// SPDX-License-Identifier: Apache-2.0
// Numbers in device memory, for tests of kernels.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

constexpr Stream kNoStream{};

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<double>& values) : DeviceArray(Sized{values.size()}) {
    std::vector<T> rounded;
    for (const double value : values) rounded.push_back(static_cast<T>(value));
    copy_to_device(data_, rounded.data(), size_ * sizeof(T), kNoStream);
    synchronize(kNoStream);
  }
  static DeviceArray of_size(std::int64_t n) { return DeviceArray(Sized{static_cast<std::size_t>(n)}); }
  DeviceArray(DeviceArray&& other) noexcept : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  ~DeviceArray() { release(data_); }

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] std::vector<T> raw() const {
    std::vector<T> copied(size_);
    copy_to_host(copied.data(), data_, size_ * sizeof(T), kNoStream);
    synchronize(kNoStream);
    return copied;
  }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> found;
    for (const T value : raw()) found.push_back(static_cast<double>(value));
    return found;
  }

 private:
  struct Sized {
    std::size_t n;
  };
  explicit DeviceArray(Sized sized) : size_(sized.n), data_(static_cast<T*>(allocate(sized.n * sizeof(T)))) {}
  std::size_t size_;
  T* data_;
};

// Relative rounding of T: half of its last place.
template <class T>
constexpr double kRounding = 0x1p-24;
template <>
inline constexpr double kRounding<double> = 0x1p-53;
template <>
inline constexpr double kRounding<Bf16> = 0x1p-8;
template <>
inline constexpr double kRounding<F16> = 0x1p-11;

}  // namespace meshwright::kernels::cuda
