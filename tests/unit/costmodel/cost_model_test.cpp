// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/graph.h"
#include "costmodel/cost_models.h"
#include "tests/refusal.h"

namespace meshwright::cost_model_test {
namespace {

constexpr LinkCost kUnit{Seconds(1), SecondsPerByte(1)};
constexpr LinkCost kSlow{Seconds(100), SecondsPerByte(100)};

// 100 flop/s and 10 byte/s after efficiencies, kernels of at least 1 s; links: 1 + 1 per byte inside, 100 + 100 per
// byte outside.
Cluster toy(int hosts, int devices_per_host) {
  Cluster cluster;
  cluster.name = "toy";
  cluster.only().hosts = hosts;
  cluster.only().devices_per_host = devices_per_host;
  cluster.only().device.name = "abacus";
  cluster.only().device.peak = {{"f32", FlopsPerSecond(200)}, {"f64", FlopsPerSecond(20)}};
  cluster.only().device.matmul_efficiency = 0.5;
  cluster.only().device.memory_bandwidth = BytesPerSecond(40);
  cluster.only().device.memory_efficiency = 0.25;
  cluster.only().device.memory = Bytes(1e6);
  cluster.only().device.launch = Seconds(1);
  cluster.only().within_host = kUnit;
  cluster.only().between_hosts = kSlow;
  return cluster;
}

OpWork contraction(double flops, double bytes, DType dtype = DType::F32, const std::string& shapes = "[a=9]->[a]") {
  return {OpKind::Contract, dtype, Flops(flops), Bytes(bytes), fmt::format("contract {} {}", name_of(dtype), shapes)};
}
OpWork addition(double bytes, const std::string& shapes = "[a=9][a]->[a]") {
  return {OpKind::Add, DType::F32, Flops(0), Bytes(bytes), "add f32 " + shapes};
}

// --- formulas ---

TEST(Collectives, RingsTakeTwoOrOneRoundOfSteps) {
  EXPECT_EQ(ring_all_reduce(Bytes(4), 4, kUnit), Seconds(12));  // 6 steps x (1 + 1)
  EXPECT_EQ(ring_all_gather(Bytes(4), 4, kUnit), Seconds(6));   // 3 steps x (1 + 1)
  EXPECT_EQ(ring_all_reduce(Bytes(8), 2, kUnit), Seconds(10));  // 2 steps x (1 + 4)
}

TEST(Collectives, OfOneDeviceAreFree) {
  EXPECT_EQ(ring_all_reduce(Bytes(4), 1, kUnit), Seconds(0));
  for (const auto kind :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
    EXPECT_EQ(hierarchical_collective(kind, Bytes(4), {1, 1, kUnit, kSlow}), Seconds(0));
}

TEST(Collectives, OverHostsGoThroughEachLevelOnce) {
  const MeshAxis axis{4, 2, kUnit, kSlow};  // 4 devices on each of 2 hosts, 8 bytes
  // inside: 3 x (1 + 2) = 9;  across, B/4 = 2 bytes: 1 x (100 + 100);  across, B = 8 bytes: 1 x (100 + 400)
  EXPECT_EQ(hierarchical_collective(CollectiveKind::AllReduce, Bytes(8), axis), Seconds(418));      // 9 + 2x200 + 9
  EXPECT_EQ(hierarchical_collective(CollectiveKind::ReduceScatter, Bytes(8), axis), Seconds(209));  // 9 + 200
  EXPECT_EQ(hierarchical_collective(CollectiveKind::AllGather, Bytes(8), axis), Seconds(209));      // 200 + 9
  EXPECT_EQ(hierarchical_collective(CollectiveKind::AllToAll, Bytes(8), axis), Seconds(509));       // 9 + 500
}

TEST(Collectives, OnOneLevelEqualTheFlatRing) {
  const MeshAxis inside{4, 1, kUnit, kSlow}, across{1, 4, kSlow, kUnit};
  for (const MeshAxis& axis : {inside, across}) {
    EXPECT_EQ(hierarchical_collective(CollectiveKind::AllReduce, Bytes(4), axis), Seconds(12));
    for (const auto kind : {CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
      EXPECT_EQ(hierarchical_collective(kind, Bytes(4), axis), Seconds(6));
  }
}

TEST(Names, AreTheFieldsOwn) {
  EXPECT_STREQ(name_of(CollectiveKind::ReduceScatter), "reduce-scatter");
  EXPECT_STREQ(name_of(CollectiveKind::AllToAll), "all-to-all");
  EXPECT_STREQ(name_of(Basis::Interpolated), "interpolated");
}

// --- analytic ---

TEST(Analytic, ComputeTakesTheSlowerOfArithmeticAndMemoryButNeverLessThanALaunch) {
  const auto costs = make_analytic_cost_model(toy(1, 1));
  EXPECT_EQ(costs->compute(contraction(1000, 10)).time, Seconds(10));  // 1000 flop at 100/s; 10 bytes would take 1 s
  EXPECT_EQ(costs->compute(contraction(100, 30)).time, Seconds(3));    // 30 bytes at 10/s; 100 flop would take 1 s
  EXPECT_EQ(costs->compute(contraction(1000, 10, DType::F64)).time, Seconds(100));
  EXPECT_EQ(costs->compute(addition(5)).time, Seconds(1));  // launch; the bytes would take 0.5 s
  EXPECT_EQ(costs->compute(addition(50)).time, Seconds(5));
  EXPECT_EQ(costs->compute(addition(50)).basis, Basis::Modelled);
  EXPECT_EQ(costs->run_overhead(), Seconds(1));
}

TEST(Analytic, RefusesADtypeTheDeviceCannotMultiply) {
  const auto costs = make_analytic_cost_model(toy(1, 1));
  EXPECT_EQ(
      refusal([&] { (void)costs->compute(contraction(1000, 10, DType::BF16)); }),
      "cluster 'toy': device 'abacus' has no FLOP rate for bf16, only for f32, f64; choose another dtype or cluster.");
}

TEST(Analytic, RefusesADeviceWithoutRates) {
  const auto refused = [](auto change) {
    Cluster cluster = toy(1, 1);
    change(cluster.only().device);
    return refusal([&] { (void)make_analytic_cost_model(cluster); });
  };
  const std::string expected =
      "cluster 'toy': device 'abacus' has no memory bandwidth or no efficiency; give positive ones.";
  EXPECT_EQ(refused([](DeviceKind& device) { device.memory_bandwidth = BytesPerSecond(0); }), expected);
  EXPECT_EQ(refused([](DeviceKind& device) { device.memory_efficiency = 0; }), expected);
  EXPECT_EQ(refused([](DeviceKind& device) { device.matmul_efficiency = 0; }), expected);
}

TEST(Analytic, TransfersToTheHostTakeItsBandwidth) {
  Cluster cluster = toy(1, 1);
  EXPECT_EQ(refusal([&] { (void)make_analytic_cost_model(cluster)->host_transfer(Bytes(6)); }),
            "cluster 'toy': device 'abacus' has no host_bandwidth_bytes_per_s; give it in a cluster file.");
  cluster.only().device.host_bandwidth = BytesPerSecond(2);
  EXPECT_EQ(make_analytic_cost_model(cluster)->host_transfer(Bytes(6)).time, Seconds(3));
}

TEST(Analytic, TransfersBetweenHostsShareTheHostsNetwork) {
  const auto costs = make_analytic_cost_model(toy(2, 4));
  EXPECT_EQ(costs->transfer(Bytes(5), false, 1).time, Seconds(6));    // 1 + 5
  EXPECT_EQ(costs->transfer(Bytes(5), false, 4).time, Seconds(6));    // links of their own
  EXPECT_EQ(costs->transfer(Bytes(5), true, 1).time, Seconds(600));   // 100 + 500
  EXPECT_EQ(costs->transfer(Bytes(5), true, 4).time, Seconds(2100));  // 100 + 4 x 500
}

TEST(Analytic, AnAxisOverAllDevicesMovesTheTensorOnceOverEachHostsNetwork) {
  const Cluster cluster = toy(2, 4);
  const auto costs = make_analytic_cost_model(cluster);
  const MeshAxis axis = make_logical_mesh(cluster, {2, 4}, {8, 1}).axes[0];
  // inside 3 x (1 + 2) twice; across 2 x (100 + 400 x 2/2): four devices share 100 s per byte
  EXPECT_EQ(costs->collective(CollectiveKind::AllReduce, Bytes(8), axis).time, Seconds(1018));
}

// --- the work of an op ---

struct Builder {
  Graph graph;
  TensorId tensor(const std::string& name, std::vector<Dim> dims, DType dtype = DType::F32) {
    return graph.add_tensor(name, TensorKind::Input, dtype, std::move(dims));
  }
  const Op& add(OpKind kind, std::vector<TensorId> inputs, Attributes attributes = {}) {
    graph.add_op(kind, fmt::format("op{}", graph.ops().size()), std::move(inputs), std::move(attributes));
    return graph.ops().back();
  }
};

TEST(OpWork, NamesAxesInOrderOfAppearanceWithTheirLocalSizes) {
  Builder b;
  const TensorId x = b.tensor("x", {{"rows", 1024}, {"embed", 2048}}),
                 w = b.tensor("w", {{"embed", 2048}, {"mlp", 8192}});
  const Op& op = b.add(OpKind::Contract, {x, w}, {.result_names = {"rows", "mlp"}});
  const OpWork work = op_work(b.graph, op, {1024, 2048, 4096});  // mlp split in two
  EXPECT_EQ(work.signature, "contract f32 [a=1024,b=2048][b,c=4096]->[a,c]");
  EXPECT_EQ(work.flops, Flops(2.0 * 1024 * 2048 * 4096));
  EXPECT_EQ(work.bytes, Bytes(4.0 * (1024 * 2048 + 2048 * 4096 + 1024 * 4096)));
  EXPECT_EQ(work.dtype, DType::F32);
}

TEST(OpWork, TellsLayoutsOfTheSameProductApart) {
  Builder b;
  const TensorId x = b.tensor("x", {{"rows", 4}, {"embed", 8}}), w = b.tensor("w", {{"mlp", 16}, {"embed", 8}});
  const Op& op = b.add(OpKind::Contract, {x, w}, {.result_names = {"rows", "mlp"}});
  EXPECT_EQ(op_work(b.graph, op, {4, 8, 16}).signature, "contract f32 [a=4,b=8][c=16,b]->[a,c]");
}

TEST(OpWork, CountsAnInPlaceResultAsWritten) {
  Builder b;
  const TensorId acc = b.tensor("acc", {{"embed", 10}}), g = b.tensor("g", {{"embed", 10}});
  b.graph.add_in_place_op(OpKind::Accumulate, "it", {acc, g}, {acc});
  const OpWork work = op_work(b.graph, b.graph.ops().back(), {10});
  EXPECT_EQ(work.bytes, Bytes(120));  // 40 + 40 read, 40 written
  EXPECT_EQ(work.flops, Flops(0));
  EXPECT_EQ(work.signature, "accumulate f32 [a=10][a]->[a]");
}

TEST(OpWork, TakesTheDtypeOfTheFirstFloatingTensorAndMarksOthers) {
  Builder b;
  const TensorId ids = b.tensor("ids", {{"rows", 4}}, DType::I32);
  const TensorId table = b.tensor("table", {{"vocab", 100}, {"embed", 8}}, DType::F16);
  const OpWork look_up = op_work(b.graph, b.add(OpKind::Embedding, {ids, table}), {4, 100, 8});
  EXPECT_EQ(look_up.signature, "embedding f16 [a=4][b=100,c=8]->[a,c]");
  EXPECT_EQ(look_up.bytes, Bytes(4 * 4 + 2 * 800 + 2 * 32));
  const TensorId acc = b.tensor("acc", {{"embed", 8}}), g = b.tensor("g", {{"embed", 8}}, DType::F16);
  b.graph.add_in_place_op(OpKind::Accumulate, "it", {acc, g}, {acc});
  EXPECT_EQ(op_work(b.graph, b.graph.ops().back(), {8}).signature, "accumulate f32 [a=8][a]:f16->[a]");
}

TEST(OpWork, MarksASelectingBias) {
  Builder b;
  const TensorId x = b.tensor("x", {{"rows", 4}, {"qkv", 3}, {"embed", 8}}), bias = b.tensor("bias", {{"embed", 8}});
  const Op& op = b.add(OpKind::BiasAdd, {x, bias}, {.bias_select = true});
  EXPECT_EQ(op_work(b.graph, op, {4, 3, 8}).signature, "bias_add f32 [a=4,b=3,c=8][c]->[a,b,c] select");
}

// --- profiled ---

class Profiled : public testing::Test {
 protected:
  Profiled() : path_(testing::TempDir() + "cost_model_test_" + std::to_string(getpid()) + ".db") {
    std::filesystem::remove(path_);
    db_.emplace(path_, ProfileDb::Mode::ReadWrite);
    session_ = db_->add_session({"abacus", "host", "none", "2026-01-01T00:00:00Z", "test", toy(1, 2)});
  }
  ~Profiled() override {
    db_.reset();
    std::filesystem::remove(path_);
  }

  static Measurement took(double seconds) { return {Seconds(seconds), Seconds(0), 7}; }
  void measured(const OpWork& work, double seconds, int concurrency = 1) {
    db_->put(session_, OpProfile{work.signature, concurrency, work.flops.si(), work.bytes.si(), took(seconds)});
  }
  void measured(CollectiveKind kind, int ranks, int hosts, std::int64_t size, double seconds) {
    db_->put(session_, CollectiveProfile{kind, ranks, hosts, size, took(seconds)});
  }
  void measured_transfer(bool hosts_apart, std::int64_t size, double seconds) {
    db_->put(session_, TransferProfile{hosts_apart, size, took(seconds)});
  }
  [[nodiscard]] std::unique_ptr<CostModel> model(int hosts = 1, int devices_per_host = 2) const {
    return make_profiled_cost_model(toy(hosts, devices_per_host), *db_);
  }

  std::string path_;
  std::optional<ProfileDb> db_;
  std::int64_t session_ = 0;
};

#define EXPECT_PRICED(priced, seconds, from)         \
  do {                                               \
    const TimeEstimate price_now = (priced);         \
    EXPECT_NEAR(price_now.time.si(), seconds, 1e-9); \
    EXPECT_EQ(price_now.basis, from);                \
  } while (false)

TEST_F(Profiled, SaysWhereEachComputeTimeComesFrom) {
  measured(contraction(100, 9, DType::F32, "[a=1]->[a]"), 10);
  measured(contraction(10000, 9, DType::F32, "[a=2]->[a]"), 1000);
  const auto costs = model();
  EXPECT_PRICED(costs->compute(contraction(100, 9, DType::F32, "[a=1]->[a]")), 10, Basis::Measured);
  EXPECT_PRICED(costs->compute(contraction(1000, 9)), 100, Basis::Interpolated);    // halfway on both logarithmic axes
  EXPECT_PRICED(costs->compute(contraction(50, 9)), 5, Basis::Interpolated);        // the first rate: 0.1 s per flop
  EXPECT_PRICED(costs->compute(contraction(20000, 9)), 2000, Basis::Interpolated);  // the last rate
  EXPECT_PRICED(costs->compute(contraction(0, 0)), 1, Basis::Modelled);             // nothing to measure by: a launch
  EXPECT_PRICED(costs->compute(contraction(1000, 9, DType::F64)), 100, Basis::Modelled);  // 1000 flop at 10/s
  EXPECT_PRICED(costs->compute(addition(50)), 5, Basis::Modelled);
}

TEST_F(Profiled, InterpolatesOpsWithoutFlopsOverBytes) {
  measured(addition(10, "[a=1][a]->[a]"), 1);
  measured(addition(1000, "[a=2][a]->[a]"), 100);
  EXPECT_PRICED(model()->compute(addition(100)), 10, Basis::Interpolated);
}

TEST_F(Profiled, WhatTakesNoTimeIsFreeAndTellsNothingOfOtherOps) {
  measured(addition(10, "[a=1][a]->[a]"), 0);
  measured(addition(1000, "[a=2][a]->[a]"), 100);
  EXPECT_PRICED(model()->compute(addition(10, "[a=1][a]->[a]")), 0, Basis::Measured);
  EXPECT_PRICED(model()->compute(addition(100)), 10, Basis::Interpolated);
}

TEST_F(Profiled, TakesTheGeometricMeanOfOpsOfOneExtent) {
  measured(contraction(100, 9, DType::F32, "[a=1]->[a]"), 1);
  measured(contraction(100, 9, DType::F32, "[a=2]->[a]"), 100);
  EXPECT_PRICED(model()->compute(contraction(100, 9)), 10, Basis::Interpolated);
}

TEST_F(Profiled, TakesTheHighestConcurrencyTheClusterCanHave) {
  const OpWork work = addition(10);
  measured(work, 1, 1);
  measured(work, 2, 2);
  measured(work, 8, 8);
  EXPECT_PRICED(model(1, 1)->compute(work), 1, Basis::Measured);
  EXPECT_PRICED(model(1, 4)->compute(work), 2, Basis::Measured);
  EXPECT_PRICED(model(2, 4)->compute(work), 8, Basis::Measured);
}

TEST_F(Profiled, CollectivesArePiecewiseLinearInSize) {
  measured(CollectiveKind::AllReduce, 2, 1, 10, 3);
  measured(CollectiveKind::AllReduce, 2, 1, 20, 4);
  measured(CollectiveKind::AllReduce, 2, 1, 40, 8);
  const auto costs = model();
  const MeshAxis axis{2, 1, kUnit, kSlow};
  const auto all_reduce = [&](double size) { return costs->collective(CollectiveKind::AllReduce, Bytes(size), axis); };
  EXPECT_PRICED(all_reduce(20), 4, Basis::Measured);
  EXPECT_PRICED(all_reduce(15), 3.5, Basis::Interpolated);
  EXPECT_PRICED(all_reduce(5), 2.5, Basis::Interpolated);  // first segment continued: 0.1 s per byte
  EXPECT_PRICED(all_reduce(60), 12, Basis::Interpolated);  // last segment continued: 0.2 s per byte
  EXPECT_PRICED(costs->collective(CollectiveKind::AllGather, Bytes(4), axis), 3, Basis::Modelled);  // 1 + 2
  EXPECT_PRICED(costs->collective(CollectiveKind::AllReduce, Bytes(4), {1, 2, kUnit, kUnit}), 6,
                Basis::Modelled);  // 2 hosts
  EXPECT_PRICED(costs->collective(CollectiveKind::AllReduce, Bytes(4), {1, 1, kUnit, kUnit}), 0, Basis::Modelled);
}

TEST_F(Profiled, NoiseAtTheEndsNeverMakesACollectiveFree) {
  measured(CollectiveKind::AllReduce, 2, 1, 10, 1);
  measured(CollectiveKind::AllReduce, 2, 1, 20, 4);  // the line through both is below zero at 5 bytes
  measured(CollectiveKind::AllReduce, 2, 1, 30, 2);  // and below zero at 60
  const auto costs = model();
  const MeshAxis axis{2, 1, kUnit, kSlow};
  EXPECT_PRICED(costs->collective(CollectiveKind::AllReduce, Bytes(5), axis), 0.5, Basis::Interpolated);
  EXPECT_PRICED(costs->collective(CollectiveKind::AllReduce, Bytes(60), axis), 2, Basis::Interpolated);
}

TEST_F(Profiled, TransfersShareTheHostsNetworkAsOneMessageOfTheirTotal) {
  measured_transfer(false, 10, 1);
  measured_transfer(true, 10, 5);
  measured_transfer(true, 30, 9);
  const auto costs = model(2, 2);
  EXPECT_PRICED(costs->transfer(Bytes(10), false, 2), 1, Basis::Measured);
  EXPECT_PRICED(costs->transfer(Bytes(20), false, 1), 2, Basis::Interpolated);  // a lone point: its rate above
  EXPECT_PRICED(costs->transfer(Bytes(10), true, 1), 5, Basis::Measured);
  EXPECT_PRICED(costs->transfer(Bytes(10), true, 2), 7, Basis::Interpolated);  // as 20 bytes
}

TEST_F(Profiled, FallsBackToTheAnalyticModelWhereTheDatabaseIsSilent) {
  const auto costs = model(2, 2);
  EXPECT_PRICED(costs->transfer(Bytes(5), true, 2), 1100, Basis::Modelled);
  EXPECT_EQ(costs->run_overhead(), Seconds(1));
  db_->put_overhead(session_, "run", took(0.25));
  EXPECT_EQ(model()->run_overhead(), Seconds(0.25));
}

TEST_F(Profiled, OutlivesTheDatabaseAndAnswersManyThreads) {
  measured(contraction(100, 9, DType::F32, "[a=1]->[a]"), 10);
  const auto costs = model();
  db_.reset();
  std::vector<double> sums(4, 0.0);
  std::vector<std::thread> threads;
  for (double& sum : sums)
    threads.emplace_back([&costs, &sum] {
      for (int i = 0; i < 1000; ++i) sum += costs->compute(contraction(100, 9, DType::F32, "[a=1]->[a]")).time.si();
    });
  for (std::thread& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, 10000.0);
}

// --- against published measurements ---

struct PublishedAllReduce {
  std::string source, gpu;
  int ranks, hosts;
  double bytes, seconds, busbw;
};

// Columns: source_id, where, provenance, gpu, interconnect, collective, n_gpus, n_nodes, bytes, time_us, busbw_GBps,
// notes. The interconnect may be quoted.
std::vector<PublishedAllReduce> published(const std::string& file) {
  std::ifstream in(file);
  std::vector<PublishedAllReduce> rows;
  std::string line;
  for (std::getline(in, line); std::getline(in, line);) {
    for (std::size_t open = line.find('"'); open != std::string::npos; open = line.find('"')) {
      const std::size_t close = line.find('"', open + 1);
      line.replace(open, close - open + 1, "quoted");
    }
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() < 11 || cells[5] != "all_reduce" || cells[9].empty() || cells[10].empty()) continue;
    rows.push_back({cells[0], cells[3], std::stoi(cells[6]), std::stoi(cells[7]), std::stod(cells[8]),
                    std::stod(cells[9]) * 1e-6, std::stod(cells[10]) * 1e9});
  }
  return rows;
}

class Published : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("MESHWRIGHT_DATA");
    if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: no folder of published measurements";
    rows_ = published(std::string(data) + "/validation/collectives_measured.csv");
    ASSERT_GT(rows_.size(), 400u);
  }
  std::vector<PublishedAllReduce> rows_;
};

TEST_F(Published, BusBandwidthIsOurFactorOverTime) {
  for (const PublishedAllReduce& row : rows_) {
    // With alpha 0 and beta 1 the formula is the bytes over the bus. nccl-tests prints four digits of each.
    const double bus_bytes = ring_all_reduce(Bytes(row.bytes), row.ranks, {Seconds(0), SecondsPerByte(1)}).si();
    EXPECT_NEAR(row.seconds * row.busbw / bus_bytes, 1.0, 1e-3) << row.source << ' ' << row.ranks << ' ' << row.bytes;
  }
}

TEST_F(Published, A100PresetPredictsAllReduceOfFourToEightDevices) {
  const Cluster cluster = find_cluster("dgx-a100:1");
  const auto costs = make_analytic_cost_model(cluster);
  double error_sum = 0, worst = 0;
  int count = 0;
  for (const PublishedAllReduce& row : rows_) {
    if (row.source != "vtrain_lut" || row.gpu != "A100" || row.ranks < 4) continue;
    const MeshAxis axis{row.ranks, 1, cluster.only().within_host, cluster.only().between_hosts};
    const double predicted = costs->collective(CollectiveKind::AllReduce, Bytes(row.bytes), axis).time.si();
    const double error = std::abs(predicted / row.seconds - 1);
    error_sum += error;
    worst = std::max(worst, error);
    ++count;
  }
  ASSERT_EQ(count, 125);  // 5 group sizes x 25 sizes from 1 MiB to 1 GiB
  RecordProperty("mean_error", std::to_string(error_sum / count));
  RecordProperty("worst_error", std::to_string(worst));
  EXPECT_LT(error_sum / count, 0.07);
  EXPECT_LT(worst, 0.30);
}

}  // namespace
}  // namespace meshwright::cost_model_test
