// SPDX-License-Identifier: Apache-2.0
// Stage profiles whose numbers tell which entry they are of.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/planner/stages/stage_profile.h"

namespace meshwright {

// Four layers on p3.16xlarge:1; entries are numbered so that every number tells which it is.
inline StageProfileKey key_of(const std::string& cluster = "p3.16xlarge:1") {
  StageProfileKey key;
  key.model = "gpt-tiny, \"quoted\"";
  key.graph = "00000000deadbeef";
  key.layer_starts = {0, 5, 9, 14};
  key.batch_per_microbatch = 8;
  key.dtype = "f16";
  key.recompute = "none";
  key.optimizer = "adam";
  key.cluster = to_json(find_cluster(cluster));
  key.numbering = StageProfileKey::Numbering{"pipeshard", "1f1b", 16, Bytes(1.5e10), "modelled"};
  return key;
}

inline StageProfileName name_of(int first, int last, int option = 0, Submesh submesh = {1, 4},
                                std::vector<int> shape = {2, 2}) {
  return {{first, last, submesh, std::move(shape)}, option, ""};
}

// forward n, backward 10 n, step 100 n, resident 1000 n, ...
inline StageProfile entry_of(double n) {
  StageProfile entry;
  entry.forward = Seconds(n);
  entry.backward = Seconds(10 * n);
  entry.step = Seconds(100 * n);
  entry.memory = StageMemory{Bytes(1e3 * n), Bytes(1e4 * n), Bytes(1e5 * n), Bytes(5e5 * n), Bytes(1e6 * n)};
  entry.boundary_in = Bytes(7 * n);
  entry.boundary_out = Bytes(9 * n);
  return entry;
}

inline StageProfile measured(double n, int samples = 6) {
  StageProfile entry = entry_of(n);
  entry.memory.reset();
  entry.measured = StageProfile::Measured{samples, Seconds(n / 8), Seconds(n / 4), Seconds(n / 2)};
  return entry;
}

inline constexpr const char* kFingerprint = "0123456789abcdef";

inline StageProfileTable sample() {
  StageProfileTable table(key_of());
  table.add(name_of(0, 2), entry_of(1.0 / 3.0));
  table.add(name_of(0, 2, 1), entry_of(0.1));
  StageProfileName held = name_of(3, 3, 0, {2, 8}, {4, 4});
  held.place.batch_axis = 1;
  table.add(held, measured(2e-300));
  table.add({{1, 1, {1, 1, 0}, {1}}, 0, kFingerprint}, measured(0.7, 48));
  return table;
}

inline void expect_same(const StageProfileTable& a, const StageProfileTable& b) {
  EXPECT_EQ(a.key(), b.key());
  EXPECT_EQ(a.entries(), b.entries());
}

}  // namespace meshwright
