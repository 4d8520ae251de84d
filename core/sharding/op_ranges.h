// SPDX-License-Identifier: Apache-2.0
// The texts of the NVTX ranges that mark work in a recorded run: whoever runs an op or a collective opens a range with
// this text around its launches, and whoever reads the recording (costmodel/nsight_export.h) learns from it what its
// kernels did.
//
//   mw:op flops=8589934592 bytes=33554432 contract f32 [a=1024,b=2048][b,c=2048]->[a,c]   OpWork, signature last
//   mw:with flops=2097152 bytes=25165824 bias_add f32 [a=1024,b=2048][b]->[a,b]           computed by an op before
//   mw:collective all-reduce ranks=8 hosts=2 bytes=1048576                                as CostModel::collective
//
// Ranges of other programs may lie around and inside these.
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
// Of the op with this text, done in the kernel of another. Any other text stays as it is.
[[nodiscard]] std::string joined_range_text(const std::string& text);

// nullopt: the text is another program's (it does not begin with "mw:"). Throws InputError quoting a text that begins
// so and is none of the above.
[[nodiscard]] std::optional<MarkedRange> range_from_text(std::string_view text);

}  // namespace meshwright
