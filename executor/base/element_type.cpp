// SPDX-License-Identifier: Apache-2.0
#include "executor/base/element_type.h"

#include "kernels/cuda/runtime/types.h"

namespace meshwright {

namespace {

template <class Action>
decltype(auto) with_stored_type(DType type, Action&& action) {
  if (type == DType::BF16) return action(kernels::cuda::Bf16{});
  if (type == DType::F16) return action(kernels::cuda::F16{});
  return with_element_type(type, std::forward<Action>(action));
}

}  // namespace

std::vector<double> numbers(const void* elements, DType type, std::int64_t count) {
  std::vector<double> found(static_cast<std::size_t>(count));
  with_stored_type(type, [&](auto zero) {
    const auto* values = static_cast<const decltype(zero)*>(elements);
    for (std::size_t i = 0; i < found.size(); ++i) found[i] = static_cast<double>(values[i]);
  });
  return found;
}

void convert(const void* elements, DType from, std::int64_t count, DType to, void* out) {
  with_stored_type(from, [&](auto from_zero) {
    const auto* values = static_cast<const decltype(from_zero)*>(elements);
    with_stored_type(to, [&](auto to_zero) {
      using To = decltype(to_zero);
      To* rounded = static_cast<To*>(out);
      for (std::int64_t i = 0; i < count; ++i) rounded[i] = static_cast<To>(static_cast<double>(values[i]));
    });
  });
}

std::vector<std::byte> converted(const void* elements, DType from, std::int64_t count, DType to) {
  std::vector<std::byte> made(static_cast<std::size_t>(count * size_of(to)));
  convert(elements, from, count, to, made.data());
  return made;
}

}  // namespace meshwright
