// SPDX-License-Identifier: Apache-2.0
#include "costmodel/measured_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/random.h"
#include "costmodel/cost_models.h"

namespace meshwright::measured_kernels_test {

namespace {

const DataSheet& a100() { return *find_data_sheet("A100"); }

// A product that takes `ratio` times what its model says.
KernelRow product_row(const ProductShape& shape, double ratio, const std::string& library = "lib-1.0 TN") {
  KernelRow row;
  row.device = a100().name;
  row.dtype = "bf16";
  row.library = library;
  row.kernel = shape;
  row.time = ratio * *modelled_time(row);
  return row;
}

Seconds modelled(const ProductShape& shape) { return *modelled_time(product_row(shape, 1.0)); }

TimeEstimate estimate(const MeasuredKernels& measured, const ProductShape& shape, const std::string& dtype = "bf16") {
  return measured.product(a100(), dtype, shape, modelled(shape));
}

double ratio(const MeasuredKernels& measured, const ProductShape& shape) {
  return estimate(measured, shape).time / modelled(shape);
}

OpWork product_work(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {OpKind::Contract, DType::BF16, Flops(2.0 * static_cast<double>(m * n * k)), Bytes(1.0),
          fmt::format("contract bf16 [a={},b={}][b,c={}]->[a,c]", m, k, n)};
}

}  // namespace

TEST(MeasuredKernels, TheVeryShapeIsMeasured) {
  const ProductShape shape{1, 4096, 5000, 1024};
  const MeasuredKernels measured({product_row(shape, 1.3), product_row({1, 4096, 5100, 1024}, 0.5)});
  EXPECT_EQ(estimate(measured, shape).basis, Basis::Measured);
  EXPECT_NEAR(ratio(measured, shape), 1.3, 1e-9);
}

TEST(MeasuredKernels, ANearShapeIsInterpolatedWithinTheRangeOfItsNeighbours) {
  const MeasuredKernels measured({product_row({1, 4096, 4096, 1024}, 1.2), product_row({1, 4096, 8192, 1024}, 1.6)});
  const ProductShape between{1, 4096, 6000, 1024};
  EXPECT_EQ(estimate(measured, between).basis, Basis::Interpolated);
  EXPECT_GT(ratio(measured, between), 1.2);
  EXPECT_LT(ratio(measured, between), 1.6);
  // The nearer of the two weighs more.
  EXPECT_LT(ratio(measured, {1, 4096, 4500, 1024}), ratio(measured, {1, 4096, 7500, 1024}));
}

TEST(MeasuredKernels, AFarShapeIsModelled) {
  const MeasuredKernels measured({product_row({1, 4096, 4096, 1024}, 1.5)});
  const ProductShape far{1, 16, 64, 64};
  EXPECT_EQ(estimate(measured, far).basis, Basis::Modelled);
  EXPECT_EQ(ratio(measured, far), 1.0);
}

TEST(MeasuredKernels, TheCorrectionFadesWithDistance) {
  const MeasuredKernels measured({product_row({1, 1024, 1024, 1024}, 2.0)});
  double before = 2.0;
  for (const std::int64_t m : {1100, 1500, 2048, 3000, 4096, 6000}) {
    const double now = ratio(measured, {1, m, 1024, 1024});
    EXPECT_LT(now, before) << m;
    EXPECT_GE(now, 1.0) << m;
    before = now;
  }
}

TEST(MeasuredKernels, NothingIsToldAcrossTypesDevicesOrKinds) {
  const ProductShape shape{1, 4096, 4096, 4096};
  const MeasuredKernels measured({product_row(shape, 1.5)});
  EXPECT_EQ(estimate(measured, shape, "f16").basis, Basis::Modelled);
  for (const char* other : {"A100-SXM4-40GB", "A100-PCIE-80GB", "H100"}) {
    const TimeEstimate time = measured.product(*find_data_sheet(other), "bf16", shape, Seconds(1.0));
    EXPECT_EQ(time.basis, Basis::Modelled) << other;
    EXPECT_EQ(time.time, Seconds(1.0)) << other;
  }
  EXPECT_EQ(measured.attention(a100(), "bf16", {}, Seconds(1.0)).basis, Basis::Modelled);
}

TEST(MeasuredKernels, DevicesThatDifferInTheSizeOfTheMemoryComputeAlike) {
  const ProductShape shape{1, 4096, 4096, 4096};
  KernelRow row = product_row(shape, 1.0);
  row.device = "V100-SXM2-16GB";
  row.dtype = "f16";
  row.time = 1.3 * *modelled_time(row);
  const MeasuredKernels measured({row});
  EXPECT_EQ(measured.product(*find_data_sheet("V100-SXM2-32GB"), "f16", shape, Seconds(1.0)).basis, Basis::Measured);
  EXPECT_EQ(measured.product(*find_data_sheet("V100-PCIE-32GB"), "f16", shape, Seconds(1.0)).basis, Basis::Modelled);
  // The sheets of the two are alike, the boards are not.
  row.device = "A100-SXM4-40GB";
  EXPECT_EQ(MeasuredKernels({row}).product(*find_data_sheet("A100-PCIE-40GB"), "f16", shape, Seconds(1.0)).basis,
            Basis::Modelled);
}

TEST(MeasuredKernels, ForwardAndBackwardCausalAndDenseAttentionAreApart) {
  KernelRow row;
  row.device = a100().name;
  row.dtype = "bf16";
  row.library = "lib";
  AttentionShape shape;
  shape.queries = shape.keys = 4096;
  row.kernel = shape;
  row.time = 1.4 * *modelled_time(row);
  const MeasuredKernels measured({row});
  EXPECT_NEAR(measured.attention(a100(), "bf16", shape, Seconds(1.0)).time.si(), 1.4, 1e-9);
  AttentionShape backward = shape, dense = shape;
  backward.backward = true;
  dense.causal = false;
  EXPECT_EQ(measured.attention(a100(), "bf16", backward, Seconds(1.0)).basis, Basis::Modelled);
  EXPECT_EQ(measured.attention(a100(), "bf16", dense, Seconds(1.0)).basis, Basis::Modelled);
}

TEST(MeasuredKernels, CollectivesOfOtherRanksOrBetweenHostsSayNothing) {
  KernelRow row;
  row.device = a100().name;
  row.dtype = "f16";
  row.library = "nccl-2.27";
  row.kernel = MeasuredCollective{CollectiveKind::AllReduce, 8, 1, "nvswitch", Bytes(1e8)};
  row.time = 1.25 * *modelled_time(row);
  KernelRow between = row;
  between.kernel = MeasuredCollective{CollectiveKind::AllReduce, 4, 2, "nvswitch", Bytes(1e8)};
  const MeasuredKernels measured({row, between});
  const auto collective = [&](double bytes, int ranks) {
    return measured.collective(a100(), CollectiveKind::AllReduce, Bytes(bytes), ranks, Seconds(1.0));
  };
  EXPECT_EQ(collective(1e8, 8).basis, Basis::Measured);
  EXPECT_NEAR(collective(1e8, 8).time.si(), 1.25, 1e-9);
  EXPECT_EQ(collective(1.5e8, 8).basis, Basis::Interpolated);
  EXPECT_EQ(collective(1e8, 4).basis, Basis::Modelled);
  EXPECT_EQ(collective(0.0, 8).basis, Basis::Modelled);
}

// The fastest of the libraries with many rows decides; a faster one of few rows does not.
TEST(MeasuredKernels, OneLibrarySpeaksForAllShapes) {
  std::vector<KernelRow> rows;
  for (int i = 0; i < 10; ++i) {
    rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 1.2, "slow-1 TN"));
    if (i < 6) rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 1.1, "fast-2 TN"));
    if (i < 3) rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 0.7, "rare-3 TN"));
    rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 0.1, "op incl. launch tp1"));
  }
  EXPECT_NEAR(ratio(MeasuredKernels(rows), {1, 1024, 1024, 1024}), 1.1, 1e-9);
}

TEST(MeasuredKernels, ALibraryOfHalfAsManyRowsAsTheLargestMaySpeak) {
  const auto ratio_with = [](int fast_rows) {
    std::vector<KernelRow> rows;
    for (int i = 0; i < 10; ++i) {
      rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 1.2, "slow-1 TN"));
      if (i < fast_rows) rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 1.1, "fast-2 TN"));
    }
    return ratio(MeasuredKernels(rows), {1, 1024, 1024, 1024});
  };
  EXPECT_NEAR(ratio_with(5), 1.1, 1e-9);
  EXPECT_NEAR(ratio_with(4), 1.2, 1e-9);
}

// 10 rows that take 10 % less save more in all than 6 that take 15 % less, but not each.
TEST(MeasuredKernels, TheFastestLibraryIsTheOneWhoseRowsAreFasterOnAverage) {
  std::vector<KernelRow> rows;
  for (int i = 0; i < 10; ++i) {
    rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 0.9, "usual-1 TN"));
    if (i < 6) rows.push_back(product_row({1, 1024 + i, 1024, 1024}, 0.85, "fast-2 TN"));
  }
  EXPECT_NEAR(ratio(MeasuredKernels(rows), {1, 1024, 1024, 1024}), 0.85, 1e-9);
}

TEST(MeasuredKernels, OutliersOfSeveralSetsAreInTheOrderOfTheirRows) {
  std::vector<KernelRow> rows;
  for (const char* library : {"later-1", "earlier-1"})
    for (int i = 0; i < 20; ++i)
      rows.push_back(product_row({1, 1024 + 64 * i, 1024, 1024}, i == 7 ? 1.0 : 30.0, library));
  EXPECT_EQ(outliers(rows), (std::vector<std::size_t>{7, 27}));
}

TEST(MeasuredKernels, OutliersAreRowsThatTheirNeighboursContradict) {
  std::vector<KernelRow> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(product_row({1, 1024 + 64 * i, 1024, 1024}, 30.0));
  // All alike slow (the host's share of a short kernel): no outliers. One as fast as the model: an outlier.
  EXPECT_TRUE(outliers(rows).empty());
  rows[7] = product_row({1, 1472, 1024, 1024}, 1.0);
  EXPECT_EQ(outliers(rows), std::vector<std::size_t>{7});
}

// A model without the tree: all measurements, each with its weight.
TEST(Neighbours, TheTreeFindsAllThatAreNear) {
  Random random(5);
  std::vector<Neighbours::Measured> points;
  const auto point = [&] {
    ShapePoint at{};
    for (double& x : at) x = 6 * random.unit();
    return at;
  };
  for (int i = 0; i < 500; ++i) points.push_back({point(), random.unit() - 0.5});
  const Neighbours neighbours(points);
  for (int i = 0; i < 200; ++i) {
    const ShapePoint at = point();
    double weights = 0.0;
    for (const Neighbours::Measured& one : points) {
      double squared = 0.0;
      for (std::size_t d = 0; d < at.size(); ++d) squared += (at[d] - one.at[d]) * (at[d] - one.at[d]);
      if (squared < 2.4 * 2.4) weights += std::exp(-squared / (2 * 0.8 * 0.8));
    }
    EXPECT_NEAR(neighbours.at(at).weight, weights, 1e-9);
  }
}

TEST(PhysicalCostModel, SaysWhatWasMeasured) {
  const Cluster cluster = find_cluster("dgx-a100:1");
  const SoftwareProfile& software = software_profiles().front();
  const DataSheet& sheet = *find_data_sheet(cluster.only().device.name);
  KernelRow row = product_row({1, 4096, 8192, 2048}, 1.5);
  row.device = sheet.name;
  row.time = 1.5 * *modelled_time(row);
  const MeasuredKernels measured({row});
  const auto with = make_physical_cost_model(cluster, software, &measured),
             without = make_physical_cost_model(cluster, software);
  const auto same = product_work(4096, 8192, 2048), near = product_work(4096, 8192, 3000), far = product_work(8, 8, 8);
  EXPECT_EQ(with->compute(same).basis, Basis::Measured);
  EXPECT_NEAR(with->compute(same).time / without->compute(same).time, 1.5, 1e-9);
  EXPECT_EQ(with->compute(near).basis, Basis::Interpolated);
  EXPECT_EQ(with->compute(far).basis, Basis::Modelled);
  EXPECT_EQ(without->compute(same).basis, Basis::Modelled);
}

}  // namespace meshwright::measured_kernels_test
