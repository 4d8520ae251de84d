// SPDX-License-Identifier: Apache-2.0
// The stage table as plain data: what every span of layers takes on every slice of devices in every configuration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

// What a stage may be given: so many devices of each kind, each with so much usable memory.
struct DeviceSlice {
  std::vector<int> devices;  // per kind of device; at least one in all
  Bytes memory{0.0};         // usable, per device
};

struct StageCost {
  Seconds time{0.0};    // of one microbatch: forward + backward, or the forward alone when serving
  Seconds step{0.0};    // once per step: update, gradient synchronisation
  Bytes resident{0.0};  // per device, always: weights, gradients, optimizer state
  Bytes saved{0.0};     // per device and microbatch in flight
  Bytes working{0.0};   // per device, while a microbatch runs
  // Per device and microbatch between the two halves of its backward. Counts only where a schedule splits it in two.
  Bytes held{0.0};
};

// Spans by number: those of one number have the same costs in every configuration.
class SpanNumbers {
 public:
  // Each span has a number of its own.
  explicit SpanNumbers(int layers);
  // Spans that have had the same number and have equal `marks` keep one in common. marks: [row of the upper triangle,
  // (0, 0), (0, 1), ...].
  void tell_apart(const std::vector<int>& marks);
  // All spans have one number: what tell_apart begins with.
  static SpanNumbers all_alike(int layers);

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] int of(int first, int last) const { return numbers_[position(first, last)]; }
  // The first span of its number, in the order of rows.
  [[nodiscard]] bool is_first(int first, int last) const { return first_[of(first, last)] == position(first, last); }

 private:
  [[nodiscard]] std::size_t position(int first, int last) const;
  void find_first();

  int layers_, count_ = 0;
  std::vector<int> numbers_;        // [row of the upper triangle]
  std::vector<std::size_t> first_;  // [number] position
};

// The cost of (first, last, slice, config); nullopt: it cannot run. Spans of one number share what is stored.
class StageTable {
 public:
  StageTable(int layers, std::vector<DeviceSlice> slices, int configs)
      : StageTable(layers, std::move(slices), configs, SpanNumbers(std::max(1, layers))) {}
  StageTable(int layers, std::vector<DeviceSlice> slices, int configs, SpanNumbers spans);
  // The same costs, stored for each span.
  [[nodiscard]] StageTable apart() const;
  [[nodiscard]] const SpanNumbers& spans() const { return spans_; }
  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int configs() const { return configs_; }
  [[nodiscard]] std::vector<DeviceSlice>& slices() { return slices_; }
  [[nodiscard]] const std::vector<DeviceSlice>& slices() const { return slices_; }
  [[nodiscard]] const std::optional<StageCost>& at(int first, int last, int slice, int config) const {
    return costs_[index(first, last, slice, config)];
  }
  [[nodiscard]] std::optional<StageCost>& at(int first, int last, int slice, int config) {
    return costs_[index(first, last, slice, config)];
  }
  // Every cost that is stored, in the order (number of the span, slice, config).
  [[nodiscard]] std::vector<std::optional<StageCost>>& costs() { return costs_; }
  [[nodiscard]] const std::vector<std::optional<StageCost>>& costs() const { return costs_; }
  // The configurations of a span on a slice, one after the other.
  [[nodiscard]] const std::optional<StageCost>* configs_of(int first, int last, int slice) const {
    return &costs_[index(first, last, slice, 0)];
  }

 private:
  [[nodiscard]] std::size_t index(int first, int last, int slice, int config) const;

  int layers_, configs_;
  std::vector<DeviceSlice> slices_;
  SpanNumbers spans_;
  std::vector<std::optional<StageCost>> costs_;
};

}  // namespace meshwright
