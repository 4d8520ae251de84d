// SPDX-License-Identifier: Apache-2.0
// Indices as types: a stage number cannot be passed for a device number. No default and no "-1": an id that
// may be absent is a std::optional.
#pragma once

#include <compare>
#include <cstddef>

namespace meshwright {

template <class Of>
struct Id {
  explicit constexpr Id(int v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  // The position in the vector this id indexes.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }

  int value;
};

using OpId = Id<struct OpTag>;
using TensorId = Id<struct TensorTag>;
using StageId = Id<struct StageTag>;
using DeviceId = Id<struct DeviceTag>;
using MicrobatchId = Id<struct MicrobatchTag>;
using BufferId = Id<struct BufferTag>;

}  // namespace meshwright
