// SPDX-License-Identifier: Apache-2.0
// The single steps that a resharding is made of: from one layout of a tensor to another over one mesh axis.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/sharding/resharding.h"

namespace meshwright::reshard {

// A ShardingSpec of at most kMaxDims dimensions that is copied and compared without touching the heap: the search
// makes thousands. Orders as the spec does.
constexpr std::size_t kMaxDims = 15;
struct Layout {
  std::array<AxisMask, kMaxDims> dims{};
  AxisMask partial = 0;
  bool operator==(const Layout&) const = default;
  // Byte by byte, as two big-endian words: comparing is most of the search.
  std::strong_ordering operator<=>(const Layout& other) const {
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(*this);
    const auto others = std::bit_cast<std::array<std::uint64_t, 2>>(other);
    if (words[0] != others[0]) return __builtin_bswap64(words[0]) <=> __builtin_bswap64(others[0]);
    return __builtin_bswap64(words[1]) <=> __builtin_bswap64(others[1]);
  }
};
static_assert(sizeof(Layout) == 16 && std::endian::native == std::endian::little);

struct Arc {
  ReshardStep::Kind kind;
  int axis, from_dim, to_dim;
  Layout after;
  Seconds time;
  bool ring = false;
};

// The dimensions of heads and of sequences in a tensor that has both, and the axes that exchange them.
struct ExchangedDims {
  int heads = -1;
  std::vector<int> sequences = {};
  AxisMask axes = 0;
};
[[nodiscard]] std::optional<ExchangedDims> exchanged_dims(const std::vector<Dim>& dims, const LogicalMesh& mesh);

class StepFinder {
 public:
  // Cuts that do not divide are allowed where `targets` have them.
  StepFinder(const std::vector<Dim>& dims, DType dtype, const std::vector<ShardingSpec>& targets,
             const LogicalMesh& mesh, const CostModel& costs);

  [[nodiscard]] Layout layout_of(const ShardingSpec& spec) const;
  [[nodiscard]] ShardingSpec spec_of(const Layout& layout) const {
    return {{layout.dims.begin(), layout.dims.begin() + static_cast<std::ptrdiff_t>(dims_.size())}, layout.partial};
  }
  // All steps from a layout; `found` is overwritten.
  void arcs(const Layout& layout, std::vector<Arc>& found) const;

 private:
  enum class Padding { None, WhereAllowed };
  [[nodiscard]] std::int64_t tile(const Layout& layout, std::size_t dim) const {
    return tile_size(dims_[dim].size, shards_[layout.dims[dim]]);
  }
  [[nodiscard]] bool is_padded(std::size_t dim, AxisMask mask) const { return dims_[dim].size % shards_[mask] != 0; }
  void allow_padding_of(const ShardingSpec& target);
  [[nodiscard]] Bytes tile_bytes(const Layout& of) const;
  [[nodiscard]] Seconds cost(CollectiveKind kind, const Layout& of, int axis) const;
  [[nodiscard]] Seconds cost_of_tiles(CollectiveKind kind, const Layout& of, int axis) const;
  [[nodiscard]] std::optional<Layout> cut(Layout layout, int dim, int axis, Padding padding) const;
  [[nodiscard]] bool is_ring(int axis) const;
  [[nodiscard]] Seconds ring(const Layout& block, bool sums, int axis) const;
  void from_ring(const Layout& layout, int axis, std::vector<Arc>& found) const;
  void exchange_heads(const Layout& layout, int axis, std::vector<Arc>& found) const;
  [[nodiscard]] bool is_inside_exchange(const Layout& layout, int dim, int axis) const;
  void from_partial(const Layout& layout, int axis, std::vector<Arc>& found) const;
  void from_split(const Layout& layout, int axis, std::vector<Arc>& found) const;
  void slices(const Layout& layout, int axis, std::vector<Arc>& found) const;

  const std::vector<Dim>& dims_;
  DType dtype_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  std::vector<std::int64_t> shards_;                      // [mask]
  std::vector<std::pair<std::size_t, AxisMask>> padded_;  // dimensions and cuts of them that may be padded
  int keys_ = -1;                                         // dimension kKeySequence; -1: the tensor has none
  std::optional<ExchangedDims> exchanged_;
};

// A step is worth a picosecond more than it costs, so that of sequences that are equally cheap up to rounding the
// shortest is found (a ring's all-reduce costs exactly its two halves).
constexpr double kHair = 1e-12;
struct Distance {
  double seconds;
  int steps;
  [[nodiscard]] double length() const { return seconds + kHair * steps; }
  auto operator<=>(const Distance& other) const { return length() <=> other.length(); }
  bool operator==(const Distance& other) const { return length() == other.length(); }
};

}  // namespace meshwright::reshard
