// SPDX-License-Identifier: Apache-2.0
// What stands at unusual places of traces: sizes on the operator, tuples, unknown fields, tags of launchers.
#include <gtest/gtest.h>

#include "costmodel/traces/chakra_json.h"
#include "costmodel/traces/chakra_trace.h"
#include "costmodel/traces/kineto_trace.h"
#include "costmodel/traces/nccl_tests.h"
#include "tests/refusal.h"
#include "tests/unit/costmodel/chakra_writer.h"

namespace meshwright::trace_files_test {
namespace {

using namespace chakra_writer;

TraceImport kineto(const std::string& events) {
  const std::string text = R"({"traceEvents": [)" + events + "]}";
  return read_kineto_trace(unpacked(text, "t.json"), "t.json", 4);
}
std::string event(const char* category, const char* name, int start, int duration, const std::string& args) {
  return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 7, "tid": 7, "ts": {}, "dur": {},)"
                     R"( "args": {{{}}}}})",
                     category, name, start, duration, args);
}
std::string reduce_args(const char* group, const char* ranks, const char* more = "") {
  return fmt::format(R"("Collective name": "allreduce", "In msg nelems": 1024, "Group size": {}, "dtype": "Float",)"
                     R"( "Process Group Ranks": "{}"{})",
                     group, ranks, more);
}
// Ranks and hosts of a sum whose kernel says this of itself; (0, 0): it finds no row.
std::pair<int, int> group_of(const char* group, const char* ranks, const char* more = "") {
  const TraceImport trace = kineto(event("kernel", "ncclDevKernel_AllReduce", 1, 5, reduce_args(group, ranks, more)) +
                                   "," + event("kernel", "ncclDevKernel_AllReduce", 9, 5, reduce_args("2", "[0, 1]")));
  for (const CollectiveProfile& row : trace.collectives)
    if (row.ranks != 2) return {row.ranks, row.hosts};
  return {0, 0};
}

std::string product_io() {
  return io("[[1, 2], [3, 4]]", "[[64, 32], [32, 16]]", "['Tensor(float)', 'Tensor(float)']");
}
// A trace of one operator of the host with one kernel of 40 us.
TraceImport chakra_of(const char* name, const std::string& operands, const std::string& more = "") {
  return read_chakra_trace(message(block(1, "0.0.4")) +
                               node(2, name, 4, 500, flag("is_cpu_op", true) + operands + more) +
                               node(3, "kernel", 4, 40, flag("is_cpu_op", false) + block(4, varint(2)) + more) +
                               node(4, "aten::mm", 4, 500, flag("is_cpu_op", true) + product_io()) +
                               node(5, "gemm", 4, 9, flag("is_cpu_op", false) + block(4, varint(4))),
                           "t.et", 8);
}

}  // namespace

TEST(KinetoTrace, ACollectiveHasItsSizesFromTheOperatorThatLaunchedIt) {
  const TraceImport trace =
      kineto(event("cpu_op", "record_param_comms", 1, 50, R"("External id": 3, )" + reduce_args("4", "[0, 1, 2, 3]")) +
             "," + event("kernel", "ncclDevKernel_AllReduce", 90, 7, R"("External id": 3)"));
  ASSERT_EQ(trace.collectives.size(), 1U);
  EXPECT_EQ(trace.collectives[0].ranks, 4);
  EXPECT_EQ(trace.collectives[0].size_bytes, 4096);
  EXPECT_NEAR(trace.collectives[0].time.median.si(), 7e-6, 1e-12);
}

TEST(KinetoTrace, ALongGroupIsWhereItBeginsAndHowFarItsRanksAreApart) {
  EXPECT_EQ(group_of("8", "[0, 1, 2, 3, 4, 5, 6, 7]"), std::pair(8, 2));
  EXPECT_EQ(group_of("8", "[0, 1, ...]", R"(, "Global rank start": 0, "Global rank stride": 1)"), std::pair(8, 2));
  EXPECT_EQ(group_of("8", "[0, 2, ...]", R"(, "Global rank start": 0, "Global rank stride": 2)"), std::pair(8, 4));
  EXPECT_EQ(group_of("8", "[2, 3, ...]", R"(, "Global rank start": 2, "Global rank stride": 1)"), std::pair(8, 3));
  // Neither is told, or cannot be.
  EXPECT_EQ(group_of("8", "[0, 1, ...]"), std::pair(0, 0));
  EXPECT_EQ(group_of("8", "[0, 1, ...]", R"(, "Global rank start": 0)"), std::pair(0, 0));
  EXPECT_EQ(group_of("8", "[0, 1, ...]", R"(, "Global rank start": 0, "Global rank stride": 0)"), std::pair(0, 0));
  EXPECT_EQ(group_of("8", "[0, 1, ...]", R"(, "Global rank start": -1, "Global rank stride": 1)"), std::pair(0, 0));
  EXPECT_EQ(group_of("8", "", R"(, "Global rank start": 1048576, "Global rank stride": 1)"), std::pair(0, 0));
  EXPECT_EQ(group_of("8", "", R"(, "Global rank start": 0, "Global rank stride": 1048576)"), std::pair(0, 0));
  EXPECT_EQ(group_of("1048577", "", R"(, "Global rank start": 0, "Global rank stride": 1)"), std::pair(0, 0));
}

// Operators of a host whose devices were not recorded say when work was launched, not how long it took.
TEST(KinetoTrace, OperatorsAloneAreTimesOnlyOfProcessors) {
  const std::string dims = R"("Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"])";
  const std::string text = R"({"traceEvents": [)" + event("cpu_op", "aten::matmul", 1, 50, dims) + "," +
                           event("cpu_op", "aten::mm", 2, 40, dims) + "," + event("cpu_op", "aten::empty", 3, 1, "") +
                           "," + event("cpu_op", "aten::copy_", 60, 5, "") + "]}";
  const auto read = [&](const std::string& of, RecordedOn on) {
    return read_kineto_trace(unpacked(of, "t.json"), "t.json", 4, on);
  };
  const TraceImport trace = read(text, RecordedOn::Processors);
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_NEAR(trace.ops[0].time.median.si(), 40e-6, 1e-12);
  EXPECT_EQ(trace.left_out.begin()->first, "aten::copy_");
  EXPECT_EQ(trace.left_out.size(), 1U);
  EXPECT_NE(refusal([&] { (void)read(text, RecordedOn::Gpus); }).find("no kernel of a device"), std::string::npos);
  const std::string of_gpu = R"({"traceEvents": [)" + event("kernel", "gemm", 1, 50, "") + "]}";
  EXPECT_NE(refusal([&] { (void)read(of_gpu, RecordedOn::Processors); }).find("is of a run on GPUs"),
            std::string::npos);
}

TEST(KinetoTrace, ACopyIsNoCollectiveWhateverItIsPartOf) {
  const TraceImport trace = kineto(event("kernel", "ncclDevKernel_AllReduce", 1, 5, reduce_args("2", "[0, 1]")) + "," +
                                   event("gpu_memcpy", "Memcpy DtoD", 9, 7, reduce_args("2", "[0, 1]")));
  EXPECT_EQ(trace.collectives.at(0).time.samples, 1);
  EXPECT_NEAR(trace.left_out.at("copies within the device").time.si(), 7e-6, 1e-12);
}

TEST(KinetoTrace, ShapesThatAreNoListAreNone) {
  for (const char* shapes :
       {R"("Input Dims": "[[4, 8]]", "Input type": ["float"])", R"("Input Dims": [[4, 8]], "Input type": "float")",
        R"("Input Dims": [[4, 8]])", R"("Input type": ["float"])"}) {
    const TraceImport trace =
        kineto(event("cpu_op", "aten::relu", 1, 50, R"("External id": 3, )" + std::string(shapes)) + "," +
               event("kernel", "relu", 90, 7, R"("External id": 3)") + "," +
               event("kernel", "ncclDevKernel_AllReduce", 120, 5, reduce_args("2", "[0, 1]")));
    EXPECT_EQ(trace.left_out.count("ops recorded without shapes"), 1U) << shapes;
  }
}

TEST(KinetoTrace, EveryKernelOfAnOpCounts) {
  const std::string mm = R"("External id": 3, "Input Dims": [[64, 32], [32, 16]], "Input type": ["float", "float"],)"
                         R"( "Concrete Inputs": ["", ""])";
  const TraceImport trace =
      kineto(event("cpu_op", "aten::mm", 1, 50, mm) + "," + event("kernel", "gemm", 90, 7, R"("External id": 3)") +
             "," + event("kernel", "sum_of_parts", 99, 5, R"("External id": 3)"));
  EXPECT_EQ(trace.found.count, 2);
  EXPECT_EQ(trace.ops.at(0).time.samples, 1);
  EXPECT_NEAR(trace.ops.at(0).time.median.si(), 12e-6, 1e-12);
}

TEST(ChakraTrace, AnEntryOfATupleIsNoneOfTheList) {
  const TraceImport trace =
      chakra_of("aten::_softmax", io("[(1, 2), 1, False]", "[[4, 16], [], []]", "['Tensor(float)', 'Int', 'Bool']"));
  ASSERT_EQ(trace.ops.size(), 2U);
  const TraceImport quoted =
      chakra_of("aten::_softmax", io(R"(["x, y", 1, False])", "[[4, 16], [], []]", "['Tensor(float)', 'Int', 'Bool']"));
  EXPECT_EQ(quoted.ops.size(), 2U);
  EXPECT_EQ(trace.ops[1].signature, "softmax f32 [a=4,b=16]->[a,b]");
}

TEST(ChakraTrace, AnOperandThatIsNoneIsNoScalar) {
  for (const char* type : {"None", ""}) {
    const TraceImport trace = chakra_of(
        "aten::add", io("[[1, 2], None]", "[[4, 16], []]", fmt::format("['Tensor(float)', '{}']", type).c_str()));
    EXPECT_EQ(trace.left_out.count("aten::add without its operands"), 1U) << type;
  }
}

TEST(ChakraTrace, FieldsOfLaterVersionsAreNoDurations) {
  const TraceImport trace = chakra_of("aten::mm", product_io(), number(20, 12345));
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_NEAR(trace.found.time.si(), 49e-6, 1e-12);
}

TEST(ChakraJson, OnlyAListHasAttributes) {
  const auto made = [](const char* attributes) {
    return chakra_from_json(fmt::format(R"({{}} {{"id": 1, "type": "COMP_NODE", "attr": {}}})", attributes), "c.json");
  };
  EXPECT_EQ(made(R"({"x": {"name": "is_cpu_op", "boolVal": true}})"), made("[]"));
  EXPECT_NE(made(R"([{"name": "is_cpu_op", "boolVal": true}])"), made("[]"));
}

// The columns of nccl-tests and one row of two ranks, behind `tag`.
std::string log_of(const std::string& tag, const char* between = "") {
  return std::string("# nThread 1 all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on node-0 device 0 [0x8d] H100\n") +
         "#  Rank  1 Group  0 Pid 2 on node-0 device 1 [0x8e] H100\n" +
         "# size count type redop root time algbw busbw #wrong\n" + between + "# (B) (elements) (us)\n" + tag +
         "1000000 250000 float sum -1 100.0 10.00 10.00 0\n";
}

TEST(NcclTests, ATagOfALauncherIsShort) {
  const auto refused = [](const std::string& tag) {
    return refusal([&] { (void)read_nccl_tests(log_of(tag), "run.log"); });
  };
  for (const char* tag : {"", "3: ", "  12345678: ", "[1,0]<stdout>:"}) EXPECT_EQ(refused(tag), "not refused") << tag;
  for (const char* none : {"12345678901234: ", "x3: ", ": "}) EXPECT_NE(refused(none), "not refused") << none;
  // Of up to 40 characters before the end of a stream's name.
  EXPECT_EQ(refused("[" + std::string(38, 'x') + ">:"), "not refused");
  EXPECT_NE(refused("[" + std::string(39, 'x') + ">:"), "not refused");
}

TEST(NcclTests, ACommentBetweenTheColumnsChangesNone) {
  EXPECT_EQ(read_nccl_tests(log_of("", "# the count of errors is zero here\n"), "run.log").collectives.size(), 1U);
}

TEST(NcclTests, WhatContradictsItselfIsQuotedInItsUnits) {
  std::string text = log_of("");
  text.replace(text.find(" 10.00 10.00"), 12, " 20.00 20.00");
  EXPECT_NE(refusal([&] {
              (void)read_nccl_tests(text, "run.log");
            }).find("1000000 bytes in 100 microseconds are 10.00 GB/s, but the row says 20;"),
            std::string::npos);
}

}  // namespace meshwright::trace_files_test
