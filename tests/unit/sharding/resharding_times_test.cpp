// SPDX-License-Identifier: Apache-2.0
// Times that are remembered, against one search for each question.
#include "core/sharding/resharding_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/errors.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::resharding_times_test {
namespace {

struct Setting {
  std::vector<Dim> dims;
  LogicalMesh mesh;
};

std::vector<Setting> settings() {
  std::vector<Setting> all = {
      {{{"a", 8}, {"b", 8}}, mesh_of({2, 4})},
      {{{"a", 8}, {"b", 8}}, mesh_of({4, 1, 2}, {1.0, 5.0, 0.25})},
      {{{"a", 12}, {"b", 6}, {"c", 16}}, mesh_of({2, 2, 2})},  // four parts divide no "b"
      {{{"a", 64}}, mesh_of({2, 2, 2, 2}, {4.0, 1.0, 2.0, 1.0})},
      {{{"batch", 4}, {"kv_seq", 32}, {"heads", 8}}, mesh_of({2, 4})},
  };
  for (const bool rings : {true, false}) {
    Setting contexts = all.back();
    (rings ? contexts.mesh.contexts.rings : contexts.mesh.contexts.exchanges) = 2;
    all.push_back(contexts);
  }
  return all;
}

// In whatever order they are asked for, times are those of a search of its own, to the last bit.
TEST(ReshardingTimes, AreThoseOfSingleSearches) {
  std::mt19937 random(1);
  for (const auto& [dims, mesh] : settings())
    for (const HandPrices& prices : many_prices()) {
      ReshardingTimes times(dims, DType::F32, mesh, prices);
      std::vector<std::pair<ShardingSpec, ShardingSpec>> questions;
      for (const ShardingSpec& from : with_partial_sums(dims, mesh))
        for (const ShardingSpec& to : enumerate_specs(dims, mesh)) questions.emplace_back(from, to);
      std::shuffle(questions.begin(), questions.end(), random);
      questions.resize(std::min<std::size_t>(questions.size(), 300));
      for (const auto& [from, to] : questions)
        EXPECT_EQ(times(from, to), find_resharding(dims, DType::F32, from, to, mesh, prices).time)
            << from.to_text() << " to " << to.to_text();
    }
}

TEST(ReshardingTimes, LeaveTilesWithPadding) {
  const std::vector<Dim> dims = {{"a", 6}, {"b", 8}};
  const LogicalMesh mesh = mesh_of({4});
  const HandPrices prices;
  ReshardingTimes times(dims, DType::F32, mesh, prices);
  for (const char* to : {"RR", "RS0"})
    EXPECT_EQ(times(spec("S0R"), spec(to)),
              find_resharding(dims, DType::F32, spec("S0R"), spec(to), mesh, prices).time);
}

TEST(ReshardingTimes, KnowNoWayToAPartialSum) {
  const HandPrices prices;
  const LogicalMesh mesh = mesh_of({2, 2});
  ReshardingTimes times({{"a", 4}}, DType::F32, mesh, prices);
  EXPECT_THROW((void)times(spec("R"), spec("R+P0")), InternalError);
}

}  // namespace
}  // namespace meshwright::resharding_times_test
