// SPDX-License-Identifier: Apache-2.0
// Rates and links from measurements: lines through points, and rates that can be divided in one's head.
#include "costmodel/profile_fit.h"

#include <gtest/gtest.h>

namespace meshwright::profile_fit_test {
namespace {

TransferProfile message(std::int64_t bytes, double seconds, bool hosts_apart = false) {
  return {hosts_apart, bytes, {Seconds(seconds), Seconds(0), 7}};
}
MeasuredOp op(OpKind kind, double flops, double bytes, double seconds, bool added = false) {
  return {{"", 1, flops, bytes, {Seconds(seconds), Seconds(0), 7}}, kind, DType::F32, added};
}
MeasuredOp product(double gigaflops, double seconds, bool added = false) {
  return op(OpKind::Contract, 1e9 * gigaflops, 1.0, seconds, added);
}
MeasuredOp addition(double gigabytes, double seconds) { return op(OpKind::Add, 0.0, 1e9 * gigabytes, seconds); }

Cluster fitted(const std::vector<MeasuredOp>& ops, const std::vector<TransferProfile>& transfers = {},
               std::optional<BytesPerSecond> copy = std::nullopt, const char* base = "cpu:2") {
  return fit_cluster(find_cluster(base), ops, transfers, copy);
}

}  // namespace

TEST(FitLink, OfTwoSizesIsTheLineThroughThem) {
  // 1 s and 0.2 s per byte.
  const auto link = fit_link({message(10, 3), message(30, 7)});
  ASSERT_TRUE(link.has_value());
  EXPECT_NEAR(link->alpha.si(), 1.0, 1e-9);
  EXPECT_NEAR(link->beta.si(), 0.2, 1e-9);
}

TEST(FitLink, HasTheLeastSquaresOfRelativeErrors) {
  const std::vector<TransferProfile> measured = {message(10, 3), message(20, 6), message(40, 8), message(100, 25)};
  const auto link = fit_link(measured);
  ASSERT_TRUE(link.has_value());
  const auto error = [&](double alpha, double beta) {
    double sum = 0.0;
    for (const TransferProfile& each : measured) {
      const double t = each.time.median.si();
      const double relative = (alpha + beta * static_cast<double>(each.size_bytes) - t) / t;
      sum += relative * relative;
    }
    return sum;
  };
  const double alpha = link->alpha.si(), beta = link->beta.si(), least = error(alpha, beta);
  for (const double a : {0.99, 1.0, 1.01})
    for (const double b : {0.99, 1.0, 1.01}) {
      if (a == 1.0 && b == 1.0) continue;
      EXPECT_GT(error(a * alpha, b * beta), least) << a << " " << b;
    }
}

TEST(FitLink, IsNeverFasterThanNothing) {
  // The line would begin at -2 s. Of those from 0 s: (10/1 + 20/4) / (10^2/1 + 20^2/16) s per byte.
  const auto rising = fit_link({message(10, 1), message(20, 4)});
  ASSERT_TRUE(rising.has_value());
  EXPECT_EQ(rising->alpha.si(), 0.0);
  EXPECT_NEAR(rising->beta.si(), 15.0 / 125.0, 1e-12);
  // The line would fall. Of level ones: (1/4 + 1/2) / (1/16 + 1/4) s.
  const auto falling = fit_link({message(10, 4), message(20, 2)});
  ASSERT_TRUE(falling.has_value());
  EXPECT_NEAR(falling->alpha.si(), 0.75 / 0.3125, 1e-12);
  EXPECT_EQ(falling->beta.si(), 0.0);
}

TEST(FitLink, CountsMessagesOfItsKindThatTookTime) {
  const std::vector<TransferProfile> measured = {message(10, 3), message(30, 7), message(10, 100, true),
                                                 message(20, 150, true), message(500, 0)};
  EXPECT_NEAR(fit_link(measured)->beta.si(), 0.2, 1e-9);
  EXPECT_NEAR(fit_link(measured, true)->beta.si(), 5.0, 1e-9);
  EXPECT_FALSE(fit_link({message(10, 3), message(10, 5)}).has_value());
  EXPECT_FALSE(fit_link({}).has_value());
}

TEST(FitCluster, APeakIsTheBestRateOfAProduct) {
  // 100, 200 and 400 GFLOP/s. Large are those of 50 GFLOP upwards, 2050 GFLOP in 16 s; the smallest is not.
  const Cluster cluster = fitted({product(1000, 10), product(1000, 5), product(50, 1), product(40, 0.1)});
  EXPECT_NEAR(cluster.only().device.peak.at("f32").si(), 400e9, 1.0);
  EXPECT_EQ(cluster.only().device.peak.size(), 1U);
  EXPECT_NEAR(cluster.only().device.matmul_efficiency, 2050.0 / 16 / 400, 1e-9);
}

TEST(FitCluster, WhatIsAddedOrTakesNoTimeTellsNoRate) {
  const Cluster cluster = fitted({product(1000, 10), product(60, 0.5), product(1e6, 1, true), product(500, 0)});
  EXPECT_NEAR(cluster.only().device.peak.at("f32").si(), 120e9, 1.0);
  // 1060 GFLOP in 10.5 s; neither is below a twentieth of the largest that counts.
  EXPECT_NEAR(cluster.only().device.matmul_efficiency, 1060.0 / 10.5 / 120, 1e-9);
}

TEST(FitCluster, MemoryIsAsFastAsTheBestOpThatTouchesAllItsBytes) {
  // 10 and 20 GB/s, 300 GB in 20 s; looking up rows and products tell nothing.
  const std::vector<MeasuredOp> ops = {addition(100, 10),
                                       addition(200, 10),
                                       op(OpKind::Embedding, 0.0, 1e12, 1.0),
                                       op(OpKind::PickLabel, 0.0, 1e12, 1.0),
                                       op(OpKind::EmbeddingBackward, 0.0, 1e12, 1.0),
                                       op(OpKind::Contract, 1e9, 1e12, 1.0)};
  const Cluster measured = fitted(ops);
  EXPECT_NEAR(measured.only().device.memory_bandwidth.si(), 20e9, 1.0);
  EXPECT_NEAR(measured.only().device.memory_efficiency, 15.0 / 20, 1e-9);
  // Against a copy's rate; caches may be faster than it.
  EXPECT_NEAR(fitted(ops, {}, BytesPerSecond(30e9)).only().device.memory_efficiency, 0.5, 1e-9);
  EXPECT_NEAR(fitted(ops, {}, BytesPerSecond(10e9)).only().device.memory_efficiency, 1.0, 1e-9);
}

TEST(FitCluster, AKernelTakesAtLeastTheShortestOpsTime) {
  const Cluster cluster = fitted({addition(1, 0.5), addition(1, 0.25), product(1, 1), product(1, 0.125, true)});
  EXPECT_NEAR(cluster.only().device.launch.si(), 0.25, 1e-12);
}

TEST(FitCluster, LinksBetweenHostsAreThoseWithinWhereThereIsOneHost) {
  const std::vector<TransferProfile> within = {message(1000000, 3e-3), message(3000000, 7e-3)};
  const Cluster one = fitted({}, within);
  EXPECT_NEAR(one.only().within_host.beta.si(), 2e-9, 1e-15);
  EXPECT_NEAR(one.only().within_host.alpha.si(), 1e-3, 1e-9);
  EXPECT_EQ(one.only().between_hosts.beta, one.only().within_host.beta);
  const Cluster base = find_cluster("p3.16xlarge:2");
  std::vector<TransferProfile> all = within;
  EXPECT_EQ(fitted({}, all, std::nullopt, "p3.16xlarge:2").only().between_hosts.beta, base.only().between_hosts.beta);
  all.push_back(message(1000000, 10e-3, true));
  all.push_back(message(2000000, 19e-3, true));
  const Cluster two = fitted({}, all, std::nullopt, "p3.16xlarge:2");
  EXPECT_NEAR(two.only().within_host.beta.si(), 2e-9, 1e-15);
  EXPECT_NEAR(two.only().between_hosts.beta.si(), 9e-9, 1e-15);
}

TEST(FitCluster, WhatWasNotMeasuredStays) {
  const Cluster base = find_cluster("cpu:2"), cluster = fitted({});
  EXPECT_EQ(cluster.only().device.peak, base.only().device.peak);
  EXPECT_EQ(cluster.only().device.memory_bandwidth, base.only().device.memory_bandwidth);
  EXPECT_EQ(cluster.only().device.launch, base.only().device.launch);
  EXPECT_EQ(cluster.only().within_host.beta, base.only().within_host.beta);
}

}  // namespace meshwright::profile_fit_test
