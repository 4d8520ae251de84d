// SPDX-License-Identifier: Apache-2.0
// Recordings made by SQL, with the tables and columns that `nsys export` writes.
#include "costmodel/nsight_export.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/sharding/op_ranges.h"
#include "costmodel/cost_models.h"
#include "costmodel/sqlite.h"
#include "tests/refusal.h"

namespace meshwright::nsight_export_test {
namespace {

constexpr const char* kProduct = "mw:op flops=1000 bytes=10 contract f32 [a=5,b][b]->[a]";
constexpr const char* kSum = "mw:op flops=0 bytes=40 add f32 [a=5][a]->[a]";
constexpr const char* kReduce = "mw:collective all-reduce ranks=2 hosts=1 bytes=4096";

Seconds ns(double n) { return Seconds(1e-9 * n); }

// One process (7) with threads 1 and 2, and what it records, in nanoseconds.
class NsightExportTest : public testing::Test {
 protected:
  NsightExportTest() : path_(testing::TempDir() + "nsight_export_test_" + std::to_string(getpid()) + ".sqlite") {
    std::filesystem::remove(path_);
    db_.emplace(path_, sqlite::Access::ReadWrite);
    sql("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
    sql("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)");
    sql("INSERT INTO StringIds VALUES (1, 'sm90_gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)')");
  }
  ~NsightExportTest() override {
    db_.reset();
    std::filesystem::remove(path_);
  }

  void sql(const std::string& text) { db_->run(text); }
  [[nodiscard]] NsightExport read() const { return read_nsight_export(path_); }
  [[nodiscard]] std::string refusal_of_reading() const {
    return refusal([&] { (void)read(); });
  }

  void make_tables() {
    sql("CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, textId "
        "INTEGER, globalTid INTEGER, domainId INTEGER)");
    sql("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER NOT NULL)");
    for (const char* kind : {"KERNEL", "MEMSET", "MEMCPY"})
      sql(fmt::format(
          "CREATE TABLE CUPTI_ACTIVITY_KIND_{} (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT "
          "NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER{})",
          kind,
          std::string(kind) == "KERNEL"   ? ", shortName INTEGER NOT NULL"
          : std::string(kind) == "MEMCPY" ? ", bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcDeviceId INTEGER, "
                                            "dstDeviceId INTEGER"
                                          : ""));
  }

  static std::int64_t process(std::int64_t number) { return (std::int64_t{1} << 56) + (number << 24); }
  void range(int thread, int start, int end, const std::string& text, int of_process = 7) {
    sql(fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, '{}', NULL, {}, 0)", start, end, text,
                    process(of_process) + thread));
  }
  void launch(int id, int thread, int start, int of_process = 7) {
    sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, {}, {}, 1)", start, start + 1,
                    process(of_process) + thread, id));
  }
  void kernel(int id, int start, int end, int device = 0, int name = 1, int stream = 7) {
    sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, {}, {}, {}, {})", start, end, device,
                    stream, id, process(7), name));
  }
  void copy(int id, int start, int end, int bytes, int kind, int from, int to) {
    sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({}, {}, {}, 7, {}, {}, {}, {}, {}, {})", start, end,
                    from, id, process(7), bytes, kind, from, to));
  }
  // A range on thread 1, from `at`, with one kernel of `duration` that runs long after the range.
  void occurrence(int id, int at, int duration, const char* text = kProduct, int device = 0) {
    range(1, at, at + 10, text);
    launch(id, 1, at + 5);
    kernel(id, 100000 + at, 100000 + at + duration, device);
  }

  std::string path_;
  std::optional<sqlite::Database> db_;
};

TEST_F(NsightExportTest, TakesTheMedianOverTheOccurrencesOfAnOp) {
  make_tables();
  occurrence(1, 100, 500);  // the first one warms up
  occurrence(2, 200, 70);
  occurrence(3, 300, 73);
  occurrence(4, 400, 72);
  occurrence(5, 500, 71);
  occurrence(6, 600, 9, kSum);
  const NsightExport found = read();
  ASSERT_EQ(found.ops.size(), 2u);
  EXPECT_EQ(found.ops[0].signature, "add f32 [a=5][a]->[a]");
  EXPECT_EQ(found.ops[0].time.median, ns(9));
  EXPECT_EQ(found.ops[0].bytes, 40.0);
  EXPECT_EQ(found.ops[1].signature, "contract f32 [a=5,b][b]->[a]");
  EXPECT_EQ(found.ops[1].concurrency, 1);
  EXPECT_EQ(found.ops[1].flops, 1000.0);
  EXPECT_EQ(found.ops[1].time.median, ns(72));  // of 70 71 72 73 500
  EXPECT_EQ(found.ops[1].time.spread, ns(1));   // of 0 1 1 2 428
  EXPECT_EQ(found.ops[1].time.samples, 5);
  EXPECT_EQ(found.attributed.count, 6);
  EXPECT_EQ(found.unattributed.count, 0);
}

TEST_F(NsightExportTest, CountsTheTimeInWhichAnOpKeepsTheDeviceBusy) {
  make_tables();
  range(1, 0, 50, kProduct);
  for (const int id : {1, 2, 3, 4}) launch(id, 1, 10 * id);
  kernel(1, 1000, 1100);           // 100
  kernel(2, 1120, 1150);           // a gap of 20, then 30
  kernel(3, 1140, 1155, 0, 1, 9);  // another stream: 5 more
  sql(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1200, 1207, 0, 7, 4, {})",
                  process(7)));  // 45, then 7
  const NsightExport found = read();
  ASSERT_EQ(found.ops.size(), 1u);
  EXPECT_EQ(found.ops[0].time.median, ns(142));
  EXPECT_EQ(found.gaps, ns(20) + ns(45));
  EXPECT_EQ(found.attributed.count, 3);
  EXPECT_EQ(found.attributed.time, ns(100) + ns(30) + ns(15));
}

TEST_F(NsightExportTest, BelongsToTheInnermostMarkedRangeOfTheLaunchingThread) {
  make_tables();
  range(1, 0, 1000, "step 3");  // another program's, outside ...
  range(1, 100, 900, kProduct);
  range(1, 200, 300, kSum);
  range(1, 210, 290, "cublasGemmEx");  // ... and inside
  range(2, 0, 5000, kSum);
  launch(1, 1, 150);  // product, before the inner range
  launch(2, 1, 250);  // sum
  launch(3, 1, 400);  // product again, after it
  launch(4, 2, 400);  // sum: what is open on thread 1 does not matter
  launch(5, 1, 950);  // none any more
  // In an order of its own; when they run does not matter.
  kernel(5, 10000, 10016);
  kernel(4, 20000, 20008);
  kernel(3, 30000, 30004);
  kernel(2, 40000, 40002);
  kernel(1, 50000, 50001);
  const NsightExport found = read();
  ASSERT_EQ(found.ops.size(), 2u);
  EXPECT_EQ(found.ops[0].time.samples, 2);
  EXPECT_EQ(found.ops[0].time.median, ns(5));  // of 2 and 8
  EXPECT_EQ(found.ops[1].time.samples, 1);
  EXPECT_EQ(found.ops[1].time.median, ns(5));  // 1 + 4
  EXPECT_EQ(found.unattributed.count, 1);
  EXPECT_EQ(found.unattributed.time, ns(16));
}

TEST_F(NsightExportTest, KeepsProcessesApartThatCountAlike) {
  make_tables();
  range(1, 100, 200, kProduct);
  range(1, 100, 200, kSum, 8);
  launch(1, 1, 150, 8);  // process 8 has a launch 1 too, and a thread 1
  launch(1, 1, 500, 7);
  launch(2, 1, 160, 7);
  kernel(1, 1000, 1001);
  kernel(2, 2000, 2002);
  const NsightExport found = read();
  ASSERT_EQ(found.ops.size(), 1u);
  EXPECT_EQ(found.ops[0].time.median, ns(2));
  EXPECT_EQ(found.unattributed.time, ns(1));
}

TEST_F(NsightExportTest, CountsWorkOnceThatTwoCallsClaim) {
  make_tables();
  range(1, 100, 200, kProduct);
  launch(1, 1, 150);  // a call of the runtime, and the driver's in it
  launch(1, 1, 151);
  kernel(1, 1000, 1003);
  EXPECT_EQ(read().attributed.count, 1);
  EXPECT_EQ(read().attributed.time, ns(3));
}

TEST_F(NsightExportTest, ReadsTextsOfRangesByIdAndInPlace) {
  make_tables();
  sql(fmt::format("INSERT INTO StringIds VALUES (5, '{}')", kSum));
  sql(fmt::format("INSERT INTO NVTX_EVENTS VALUES (100, 200, 59, NULL, 5, {}, 0)", process(7) + 1));
  launch(1, 1, 150);
  kernel(1, 1000, 1003);
  ASSERT_EQ(read().ops.size(), 1u);
  EXPECT_EQ(read().ops[0].signature, "add f32 [a=5][a]->[a]");
}

TEST_F(NsightExportTest, LeavesOutMarksAndRangesThatRecordingCutOff) {
  make_tables();
  occurrence(1, 100, 70);
  sql(fmt::format("INSERT INTO NVTX_EVENTS VALUES (200, NULL, 59, '{}', NULL, {}, 0)", kProduct, process(7) + 1));
  sql(fmt::format("INSERT INTO NVTX_EVENTS VALUES (200, 900, 34, '{}', NULL, {}, 0)", kProduct, process(7) + 1));
  launch(2, 1, 250);
  kernel(2, 3000, 3001);
  const NsightExport found = read();
  ASSERT_EQ(found.ops.size(), 1u);
  EXPECT_EQ(found.ops[0].time.samples, 1);
  EXPECT_EQ(found.unattributed.count, 1);
}

TEST_F(NsightExportTest, OfACollectiveTheDeviceCountsThatWaitedForNobody) {
  make_tables();
  const int times[2][3] = {{90, 30, 31}, {33, 80, 32}};  // the least of each: 33 30 31
  int id = 0;
  for (const int device : {0, 1})
    for (const int n : {0, 1, 2}) occurrence(++id, 1000 * n + 100 * device, times[device][n], kReduce, device);
  launch(90, 1, 5000);
  kernel(90, 9000, 9017, 0, 2);  // NCCL's, nobody knows of what size
  const NsightExport found = read();
  ASSERT_EQ(found.collectives.size(), 1u);
  EXPECT_EQ(found.collectives[0].kind, CollectiveKind::AllReduce);
  EXPECT_EQ(found.collectives[0].ranks, 2);
  EXPECT_EQ(found.collectives[0].hosts, 1);
  EXPECT_EQ(found.collectives[0].size_bytes, 4096);
  EXPECT_EQ(found.collectives[0].time.median, ns(31));
  EXPECT_EQ(found.collectives[0].time.samples, 3);
  EXPECT_EQ(found.unattributed.count, 0);
  EXPECT_EQ(found.unattributed_collectives.count, 1);
  EXPECT_EQ(found.unattributed_collectives.time, ns(17));
}

TEST_F(NsightExportTest, CopiesBetweenDevicesAreTransfers) {
  make_tables();
  occurrence(1, 100, 70);
  copy(50, 1000, 1011, 4096, 10, 0, 1);  // to a peer
  copy(51, 1000, 1013, 4096, 8, 1, 0);   // from device to device
  copy(52, 1000, 1500, 4096, 8, 0, 0);   // within a device
  copy(53, 1000, 1600, 4096, 1, 0, 0);   // from the host
  copy(54, 1000, 1100, 65536, 10, 0, 1);
  launch(1000, 1, 108);
  copy(1000, 200000, 200007, 4096, 10, 0, 1);  // part of an op
  const NsightExport found = read();
  ASSERT_EQ(found.transfers.size(), 2u);
  EXPECT_FALSE(found.transfers[0].hosts_apart);
  EXPECT_EQ(found.transfers[0].size_bytes, 4096);
  EXPECT_EQ(found.transfers[0].time.median, ns(12));
  EXPECT_EQ(found.transfers[0].time.samples, 2);
  EXPECT_EQ(found.transfers[1].size_bytes, 65536);
  EXPECT_EQ(found.transfers[1].time.median, ns(100));
  EXPECT_EQ(found.ops[0].time.median, ns(77));
}

TEST_F(NsightExportTest, SaysWhereAndWhenItWasRecorded) {
  make_tables();
  occurrence(1, 100, 70, kProduct, 0);
  sql("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER)");
  sql("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA T400', 6), (1, 'NVIDIA H200', 132)");
  sql("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)");
  sql("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 7), (0, 1, 7)");
  sql("CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, name TEXT, value TEXT)");
  sql("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'Hostname', 'node7'), (1, 'CudaDriverVersion', '12040')");
  sql("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)");
  sql("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2024.2.1')");
  sql("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)");
  sql("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000123456789)");
  const NsightExport found = read();
  EXPECT_EQ(found.device, "NVIDIA H200, 132 multiprocessors");  // the process's device 0 is the machine's GPU 1
  EXPECT_EQ(found.host, "node7");
  EXPECT_EQ(found.libraries, "CUDA driver 12.4; Nsight Systems 2024.2.1");
  EXPECT_EQ(found.date_utc, "2023-11-14T22:13:20Z");
  sql("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = deviceId + 1");
  EXPECT_EQ(read().device, "NVIDIA T400, 6 multiprocessors");
  occurrence(2, 300, 70, kProduct, 0);
  EXPECT_NE(refusal_of_reading().find("different GPUs (NVIDIA H200, 132 multiprocessors and NVIDIA T400"),
            std::string::npos);
}

TEST_F(NsightExportTest, DoesWithoutColumnsThatSayWhereItWasRecorded) {
  make_tables();
  occurrence(1, 100, 70);
  sql("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT)");
  sql("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname')");
  sql("CREATE TABLE META_DATA_EXPORT (value TEXT)");
  sql("INSERT INTO META_DATA_EXPORT VALUES ('2024.2.1')");
  sql("CREATE TABLE TARGET_INFO_GPU (id INTEGER)");
  const NsightExport found = read();
  EXPECT_EQ(found.host, "");
  EXPECT_EQ(found.libraries, "");
  EXPECT_EQ(found.device, "");
}

TEST_F(NsightExportTest, DoesWithoutTablesThatHaveNoRows) {
  make_tables();
  occurrence(1, 100, 70);
  sql("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY");
  sql("DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET");
  const NsightExport found = read();
  EXPECT_EQ(found.ops.size(), 1u);
  EXPECT_EQ(found.device, "");
  EXPECT_EQ(found.libraries, "");
  EXPECT_EQ(found.date_utc, "");
  for (const char* table : {"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"}) {
    sql("DROP TABLE " + std::string(table));
    if (std::string(table) == "CUPTI_ACTIVITY_KIND_KERNEL")
      EXPECT_NE(refusal_of_reading().find("not a database of Nsight Systems"), std::string::npos);
    else
      EXPECT_NE(refusal_of_reading().find("holds 1 kernels (0.070 us)"), std::string::npos) << refusal_of_reading();
  }
}

TEST_F(NsightExportTest, RefusesARunThatMarksNoOps) {
  make_tables();
  range(1, 0, 100, "aten::addmm, seq = 12");
  for (const int id : {1, 2, 3}) {
    launch(id, 1, 10 * id);
    kernel(id, 1000 * id, 1000 * id + 500, 0, id == 3 ? 2 : 1);
  }
  copy(9, 0, 5, 100, 1, 0, 0);
  EXPECT_EQ(refusal_of_reading(),
            path_ +
                ": the export holds 3 kernels (1.500 us) and 1 NVTX ranges of other programs, but no kernel launched "
                "in a range that names its op ('mw:op ...') or collective, and no copy between devices; record "
                "`meshwright run --graphs off` with `nsys profile --trace=cuda,nvtx`.");
}

TEST_F(NsightExportTest, RefusesWhatIsNoneOfItsKind) {
  const auto expect_refusal = [&](const std::string& part) {
    const std::string says = refusal_of_reading();
    EXPECT_NE(says.find(part), std::string::npos) << says;
    EXPECT_TRUE(says.starts_with(path_)) << says;
  };
  expect_refusal("not a database of Nsight Systems (it has no tables");
  make_tables();
  occurrence(1, 100, 70);
  sql("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid");
  expect_refusal("table CUPTI_ACTIVITY_KIND_KERNEL has no column globalPid");
  sql("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN globalPid INTEGER");
  sql("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = end + 1");
  expect_refusal("an event lasts from 100171 to 100170 ns");
  range(1, 300, 400, "mw:op flops=many");
  expect_refusal("the range 'mw:op flops=many' is not in the form");
  db_.reset();
  std::filesystem::resize_file(path_, 4096);
  expect_refusal("the database of Nsight Systems is damaged");
  std::filesystem::resize_file(path_, 0);
  expect_refusal("the file is empty");
  std::ofstream(path_) << "QdstrmQdstrm";
  expect_refusal("not a database of Nsight Systems (not an SQLite file); create it from a recording");
  std::filesystem::remove(path_);
  EXPECT_THROW((void)read(), SystemError);
}

TEST_F(NsightExportTest, TheCostModelFindsEveryOpOfAMarkedStepMeasured) {
  make_tables();
  TrainingOptions training;
  training.batch = 8;
  const Graph graph = build_training_graph(find_model("mlp:layers=2,hidden=64"), training);
  std::map<std::string, int> duration;  // by signature
  std::vector<OpWork> step;
  for (const Op& op : graph.ops()) {
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> sizes;
    for (const auto& axis : space.axes) sizes.push_back(axis.size);
    step.push_back(op_work(graph, op, space, sizes));
    const int id = static_cast<int>(step.size());
    const int time = duration.try_emplace(step.back().signature, 10 * id).first->second;
    occurrence(id, 100 * id, time, range_text(step.back()).c_str());
  }
  const std::string profile = path_ + ".db";
  std::filesystem::remove(profile);
  {
    ProfileDb db(profile, ProfileDb::Mode::ReadWrite);
    const std::int64_t session = db.add_session({"H200", "node7", "", "", "test", find_cluster("dgx-h200:1")});
    for (const OpProfile& op : read().ops) db.put(session, op);
    const auto costs = make_profiled_cost_model(find_cluster("dgx-h200:1"), db);
    ASSERT_GT(step.size(), 10u);
    for (const OpWork& work : step) {
      EXPECT_EQ(costs->compute(work).basis, Basis::Measured) << work.signature;
      EXPECT_EQ(costs->compute(work).time, ns(duration.at(work.signature))) << work.signature;
    }
  }
  std::filesystem::remove(profile);
}

TEST(OpRanges, SayTheSameWhenReadBack) {
  const OpWork work{OpKind::Contract, DType::F32, Flops(8589934592.0), Bytes(1.5e17), "contract f32 [a=1]->[a] causal"};
  EXPECT_EQ(range_text(work), "mw:op flops=8589934592 bytes=1.5e+17 contract f32 [a=1]->[a] causal");
  EXPECT_EQ(range_from_text(range_text(work)), MarkedRange(OpRange{work.flops, work.bytes, work.signature}));
  for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather,
                          CollectiveKind::AllToAll}) {
    const CollectiveRange collective{kind, 16, 2, std::int64_t{1} << 40};
    EXPECT_EQ(range_from_text(range_text(collective)), MarkedRange(collective));
  }
  EXPECT_EQ(range_from_text("aten::mm"), std::nullopt);
}

TEST(OpRanges, RefuseWhatOnlyBeginsLikeThem) {
  for (const char* text :
       {"mw:", "mw:op", "mw:op flops=1 bytes=2 ", "mw:op flops=-1 bytes=2 add", "mw:op flops=nan bytes=2 add",
        "mw:op flops=1x bytes=2 add", "mw:op bytes=2 flops=1 add", "mw:collective all-reduce ranks=2 hosts=3 bytes=1",
        "mw:collective all-reduce ranks=2 hosts=1 bytes=1.5", "mw:collective all-reduce ranks=2 hosts=1 bytes=1 more",
        "mw:collective all ranks=2 hosts=1 bytes=1"}) {
    const std::string says = refusal([&] { (void)range_from_text(text); });
    EXPECT_NE(says.find(text), std::string::npos) << text << ": " << says;
  }
}

}  // namespace
}  // namespace meshwright::nsight_export_test
