// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/sharding_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "tests/refusal.h"
#include "tests/unit/sharding_fixture.h"

namespace meshwright::sharding_spec_test {
namespace {

std::vector<Dim> dims_of(const std::vector<std::int64_t>& sizes) {
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < sizes.size(); ++d) dims.push_back({std::string(1, static_cast<char>('a' + d)), sizes[d]});
  return dims;
}

std::vector<std::string> texts(const std::vector<ShardingSpec>& specs) {
  std::vector<std::string> found;
  for (const ShardingSpec& one : specs) found.push_back(one.to_text());
  std::sort(found.begin(), found.end());
  return found;
}

// --- text form ---

TEST(SpecText, WritesOneGroupPerDimensionThenThePartialAxes) {
  EXPECT_EQ((ShardingSpec{{0b01, 0}, 0}).to_text(), "S0R");
  EXPECT_EQ((ShardingSpec{{0, 0b11}, 0}).to_text(), "RS01");
  EXPECT_EQ((ShardingSpec{{0, 0}, 0b01}).to_text(), "RR+P0");
  EXPECT_EQ((ShardingSpec{{0b100, 0}, 0b011}).to_text(), "S2R+P01");
  EXPECT_EQ((ShardingSpec{{}, 0}).to_text(), "-");
  EXPECT_EQ((ShardingSpec{{}, 0b10}).to_text(), "+P1");  // a loss not yet summed
}

TEST(SpecText, IsReadBackAsTheSameSpec) {
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b)
      for (int p = 0; p < 8; ++p) {
        if ((a & b) != 0 || (a & p) != 0 || (b & p) != 0) continue;
        const ShardingSpec written{{static_cast<AxisMask>(a), static_cast<AxisMask>(b)}, static_cast<AxisMask>(p)};
        EXPECT_EQ(spec(written.to_text()), written) << written.to_text();
        const ShardingSpec scalar{{}, static_cast<AxisMask>(p)};
        EXPECT_EQ(spec(scalar.to_text()), scalar) << scalar.to_text();
      }
  EXPECT_EQ(spec("RS7"), (ShardingSpec{{0, 0b10000000}, 0}));  // the last of eight axes
}

struct RefusedSpec : testing::TestWithParam<const char*> {};
TEST_P(RefusedSpec, IsQuotedWithItsPlaceAndAnExample) {
  const std::string sentence = refusal([] { (void)spec_from_text(GetParam(), "plan.json: stages[1]"); });
  EXPECT_NE(sentence.find("plan.json: stages[1]: '" + std::string(GetParam()) + "'"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("S0R"), std::string::npos) << sentence;
}
INSTANTIATE_TEST_SUITE_P(Texts, RefusedSpec,
                         testing::Values("", " ", "S", "SR", "RS", "R0", "0", "0S", "X", "s0r", "S0 R", "RS8", "S-1",
                                         "S0S0", "S00", "S0R+P0", "+", "RR+", "RR+P", "RR+0", "RR+PR", "RR+P0R",
                                         "RR+P0+P1", "RR+P0P1", "RRP0", "--", "-+P0"));
// "S10" would put axis 1 outermost, which no spec can say: the lowest axis always is.
INSTANTIATE_TEST_SUITE_P(AxesOutOfOrder, RefusedSpec, testing::Values("S10", "RS21", "RR+P10"));

TEST(SpecOrder, UsedNamesEveryAxisThatSplitsOrIsPartial) {
  EXPECT_EQ(spec("S0RS2+P3").used(), 0b1101);
  EXPECT_EQ(replicated(3).used(), 0);
  EXPECT_EQ(replicated(3).to_text(), "RRR");
}

// --- tiles ---

TEST(Tiles, AMaskMakesAsManyShardsAsItsAxesHaveDevices) {
  const LogicalMesh mesh = mesh_of({2, 3});
  EXPECT_EQ(shards(0b00, mesh), 1);
  EXPECT_EQ(shards(0b01, mesh), 2);
  EXPECT_EQ(shards(0b10, mesh), 3);
  EXPECT_EQ(shards(0b11, mesh), 6);
}

TEST(Tiles, LocalShapesAreDividedDimensionByDimension) {
  const LogicalMesh mesh = mesh_of({2, 3});
  const auto dims = dims_of({12, 30});
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(local_shape(dims, spec("RR"), mesh), (Shape{12, 30}));
  EXPECT_EQ(local_shape(dims, spec("S0S1"), mesh), (Shape{6, 10}));
  EXPECT_EQ(local_shape(dims, spec("S1S0"), mesh), (Shape{4, 15}));
  EXPECT_EQ(local_shape(dims, spec("S01R"), mesh), (Shape{2, 30}));
  EXPECT_EQ(local_shape(dims, spec("RR+P01"), mesh), (Shape{12, 30}));  // a partial sum is as large as the sum
  EXPECT_EQ(local_shape({}, spec("-"), mesh), Shape{});
}

TEST(Tiles, OnlyWholeDivisionsDivide) {
  const LogicalMesh mesh = mesh_of({2, 3});
  EXPECT_TRUE(divides(dims_of({4, 6}), spec("S0S1"), mesh));
  EXPECT_FALSE(divides(dims_of({4, 6}), spec("S1S0"), mesh));                          // 4 / 3
  EXPECT_FALSE(divides(dims_of({9, 6}), spec("S01R"), mesh));                          // 9 / 6, though 3 divides it
  EXPECT_TRUE(divides(dims_of({9, 6}), spec("RR+P01"), mesh));                         // partial axes cut nothing
  EXPECT_THROW((void)local_shape(dims_of({9, 6}), spec("S01"), mesh), InternalError);  // another rank
}

TEST(Tiles, LocalBytesCountTheElementsOfOneTile) {
  const LogicalMesh mesh = mesh_of({2, 3});
  const Tensor halves{TensorId(0), "x", TensorKind::Input, DType::F16, dims_of({4, 6}), std::nullopt, std::nullopt};
  Tensor doubles = halves;
  doubles.dtype = DType::F64;
  EXPECT_EQ(local_bytes(halves, spec("S0S1"), mesh), Bytes(2 * 2 * 2));   // 2 x 2 elements of 2 bytes
  EXPECT_EQ(local_bytes(doubles, spec("RS01"), mesh), Bytes(8 * 4 * 1));  // 4 x 1 elements of 8 bytes
}

TEST(Tiles, OfSizesThatDoNotDivideAreRoundedUp) {
  const LogicalMesh mesh = mesh_of({2, 3});
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(local_shape(dims_of({9, 7}), spec("S01R"), mesh), (Shape{2, 7}));
  EXPECT_EQ(local_shape(dims_of({9, 7}), spec("S0S1"), mesh), (Shape{5, 3}));
  EXPECT_EQ(local_shape(dims_of({2, 7}), spec("S1R"), mesh), (Shape{1, 7}));  // the last device has padding alone
  const Tensor halves{TensorId(0), "x", TensorKind::Parameter, DType::F16, dims_of({9, 7}), std::nullopt, std::nullopt};
  EXPECT_EQ(local_bytes(halves, spec("S0S1"), mesh), Bytes(2 * 5 * 3));
}

TEST(Tiles, HoldTheRowsInOrderAndEndInPadding) {
  const LogicalMesh mesh = mesh_of({2, 3});
  const auto rows = [&](std::int64_t size, AxisMask mask, int device) {
    return tile_rows(size, mask, mesh, mesh.coordinates(device));
  };
  // 9 rows over 2 x 3: halves of 5, each cut into tiles of 2.
  EXPECT_EQ(rows(9, 0b11, 0), (TileRows{0, 2}));
  EXPECT_EQ(rows(9, 0b11, 1), (TileRows{2, 2}));
  EXPECT_EQ(rows(9, 0b11, 2), (TileRows{4, 1}));  // the half ends here
  EXPECT_EQ(rows(9, 0b11, 3), (TileRows{5, 2}));
  EXPECT_EQ(rows(9, 0b11, 4), (TileRows{7, 2}));
  EXPECT_EQ(rows(9, 0b11, 5).count, 0);
  // Over axis 1 alone: devices 2 and 5 have the last third.
  EXPECT_EQ(rows(7, 0b10, 2), (TileRows{6, 1}));
  EXPECT_EQ(rows(7, 0b10, 5), (TileRows{6, 1}));
  EXPECT_EQ(rows(7, 0b00, 5), (TileRows{0, 7}));
}

TEST(Tiles, HoldEveryRowOnceWhateverTheSize) {
  for (const auto& shape : std::vector<std::vector<int>>{{7}, {2, 3}, {3, 2, 2}, {5, 1, 4}}) {
    const LogicalMesh mesh = mesh_of(shape);
    const auto all = static_cast<AxisMask>((1 << mesh.rank()) - 1);
    AxisMask used = 0;
    for (int axis = 0; axis < mesh.rank(); ++axis)
      if (shape[static_cast<std::size_t>(axis)] > 1) used = static_cast<AxisMask>(used | 1 << axis);
    for (std::int64_t size = 1; size < 60; ++size) {
      std::int64_t next = 0;
      for (int device = 0; device < mesh.devices(); ++device) {
        const TileRows rows = tile_rows(size, used, mesh, mesh.coordinates(device));
        if (rows.count > 0) {
          EXPECT_EQ(rows.begin, next) << size << " on " << mesh.to_text();
        }
        EXPECT_LE(rows.count, tile_size(size, shards(all, mesh)));
        if (size % shards(all, mesh) == 0) {
          EXPECT_EQ(rows.begin, tile_index(used, mesh, mesh.coordinates(device)) * rows.count);
        }
        next += rows.count;
      }
      EXPECT_EQ(next, size) << mesh.to_text();
    }
  }
}

TEST(Tiles, TheLowestAxisIsTheOutermostCut) {
  const LogicalMesh mesh = mesh_of({2, 3});
  EXPECT_EQ(tile_index(0b01, mesh, {1, 2}), 1);
  EXPECT_EQ(tile_index(0b10, mesh, {1, 2}), 2);
  EXPECT_EQ(tile_index(0b11, mesh, {1, 0}), 3);  // 1 * 3 + 0
  EXPECT_EQ(tile_index(0b11, mesh, {0, 2}), 2);
  EXPECT_EQ(tile_index(0b00, mesh, {1, 2}), 0);
  // Split over everything, devices hold the tiles in their own order.
  for (int device = 0; device < 6; ++device) EXPECT_EQ(tile_index(0b11, mesh, mesh.coordinates(device)), device);
}

// --- enumeration ---

TEST(EnumerateSpecs, GivesEachAxisToOneDimensionOrNone) {
  // 3 choices for each of 2 axes; "RS01" would cut 6 into 4.
  const auto specs = enumerate_specs(dims_of({4, 6}), mesh_of({2, 2}));
  EXPECT_EQ(texts(specs), (std::vector<std::string>{"RR", "RS0", "RS1", "S01R", "S0R", "S0S1", "S1R", "S1S0"}));
  EXPECT_EQ(specs.front(), replicated(2));
}

TEST(EnumerateSpecs, LeavesOutWhatDoesNotDivide) {
  // Axis 1 has three devices: only the second dimension divides.
  EXPECT_EQ(texts(enumerate_specs(dims_of({4, 6}), mesh_of({2, 3}))),
            (std::vector<std::string>{"RR", "RS0", "RS01", "RS1", "S0R", "S0S1"}));
  EXPECT_EQ(texts(enumerate_specs(dims_of({5, 7}), mesh_of({2, 3}))), (std::vector<std::string>{"RR"}));
}

TEST(EnumerateSpecs, NeverUsesAnAxisOfOneDevice) {
  EXPECT_EQ(texts(enumerate_specs(dims_of({8, 8}), mesh_of({1, 2}))), (std::vector<std::string>{"RR", "RS1", "S1R"}));
  EXPECT_EQ(texts(enumerate_specs(dims_of({8, 8}), mesh_of({1, 1}))), (std::vector<std::string>{"RR"}));
  EXPECT_EQ(texts(enumerate_specs({}, mesh_of({2, 2}))), (std::vector<std::string>{"-"}));
}

// (dimensions + 1)^axes when everything divides.
TEST(EnumerateSpecs, CountsDimensionsPlusOneToThePowerOfTheAxes) {
  EXPECT_EQ(enumerate_specs(dims_of({64, 64}), mesh_of({2, 2})).size(), 9u);
  EXPECT_EQ(enumerate_specs(dims_of({64, 64, 64}), mesh_of({2, 4})).size(), 16u);
  EXPECT_EQ(enumerate_specs(dims_of({64, 64}), mesh_of({2, 2, 2})).size(), 27u);
}

TEST(EnumerateSpecs, EqualsATrialOfAllMasks) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{2, 3, 4}, {6, 1, 6}, {12, 2, 5}, {4, 4, 4}}) {
    const LogicalMesh mesh = mesh_of({2, 3, 2});
    const int axis_sizes[] = {2, 3, 2};
    std::set<ShardingSpec> wanted;
    for (int choice = 0; choice < 4 * 4 * 4; ++choice) {  // 3: on no dimension
      const int on[] = {choice % 4, choice / 4 % 4, choice / 16};
      ShardingSpec made = replicated(3);
      std::int64_t parts[] = {1, 1, 1};
      for (int axis = 0; axis < 3; ++axis) {
        if (on[axis] == 3) continue;
        made.dims[on[axis]] = static_cast<AxisMask>(made.dims[on[axis]] | 1 << axis);
        parts[on[axis]] *= axis_sizes[axis];
      }
      if (sizes[0] % parts[0] == 0 && sizes[1] % parts[1] == 0 && sizes[2] % parts[2] == 0) wanted.insert(made);
    }
    const auto specs = enumerate_specs(dims_of(sizes), mesh);
    EXPECT_EQ(std::set<ShardingSpec>(specs.begin(), specs.end()), wanted);
    EXPECT_EQ(specs.size(), wanted.size());  // each once
  }
}

}  // namespace
}  // namespace meshwright::sharding_spec_test
