// SPDX-License-Identifier: Apache-2.0
// Shardings by the names of a mesh's axes, as Shardy and HLO of 2026 write them, in the form of HLO's tiles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright {

struct NamedSharding {
  // A part of a mesh axis: "x" has it all, "x":(2)4 the 4 pieces behind the first 2.
  struct SubAxis {
    std::string name;
    std::int64_t begin = 1, size = 0;  // size 0: to the end
  };
  std::vector<std::pair<std::string, std::int64_t>> mesh = {};
  std::vector<std::int64_t> devices = {};            // in the order of the mesh; empty: 0, 1, 2, ...
  std::vector<std::vector<SubAxis>> dims = {};       // [dimension] its axes, outermost first
  std::string special = {};                          // "maximal", "manual", "unreduced" instead of the dimensions
  static constexpr std::int64_t kMaxAxis = 1 << 24;  // devices of an axis, and of all
  static constexpr std::size_t kMaxAxes = 16;
};

struct Tiles {
  std::string text = {};     // "{devices=[2,12]<=[2,4,3]}", "{replicated}"
  std::string problem = {};  // why no tiles say it: "the mesh has no axis 'w'"; empty: they do
};
[[nodiscard]] Tiles tiles_of(const NamedSharding& sharding);

// "{mesh['x'=2,'y'=4], [{'x'}, {}]}", the names with or without quotes, also of a whole mesh ("replicated"), with the
// order of its devices (device_ids=(...)), or of one device (maximal_mesh[device_id=0]).
[[nodiscard]] bool is_named_sharding(std::string_view text);
[[nodiscard]] Tiles tiles_of_named(std::string_view text, std::size_t rank);

}  // namespace meshwright
