// SPDX-License-Identifier: Apache-2.0
// The texts of the NVTX ranges that mark work in a recorded run. The executor opens a range with such a text around the
// launches of an op or a collective; readers of a recording (costmodel/nsight_export.h) attribute kernels by it.
//
//   mw:op flops=8589934592 bytes=33554432 contract f32 [a=1024,b=2048][b,c=2048]->[a,c]
//   mw:with flops=2097152 bytes=25165824 bias_add f32 [a=1024,b=2048][b]->[a,b]
//   mw:collective all-reduce ranks=8 hosts=2 bytes=1048576
//
// `op` is an OpWork, its signature last; `with` is one that the kernel of an earlier op computes too; `collective` has
// the arguments of CostModel::collective. Ranges of other programs may enclose these or be inside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/sharding/cost_model.h"

namespace meshwright {

struct OpRange {
  Flops flops{0.0};
  Bytes bytes{0.0};
  std::string signature;  // OpWork::signature
  bool joined = false;    // another op's kernel does it: it takes no time of its own, and its range is empty
  bool operator==(const OpRange&) const = default;
};
struct CollectiveRange {
  CollectiveKind kind = CollectiveKind::AllReduce;
  int ranks = 1, hosts = 1;     // devices that take part, and hosts they are on
  std::int64_t size_bytes = 0;  // of the whole tensor
  bool operator==(const CollectiveRange&) const = default;
};
using MarkedRange = std::variant<OpRange, CollectiveRange>;

[[nodiscard]] std::string range_text(const OpWork& work);
[[nodiscard]] std::string range_text(const CollectiveRange& collective);
// The text of the op with this text, done in the kernel of another. Any other text stays as it is.
[[nodiscard]] std::string joined_range_text(const std::string& text);

// nullopt: the range is another program's (its text does not begin with "mw:"). Throws InputError quoting a text that
// begins with "mw:" but has none of these forms.
[[nodiscard]] std::optional<MarkedRange> range_from_text(std::string_view text);

}  // namespace meshwright
