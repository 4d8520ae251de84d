// SPDX-License-Identifier: Apache-2.0
// Times of ops and collectives from recordings written by hand, in nanoseconds.
#include "costmodel/recorded_steps.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/sharding/op_ranges.h"
#include "tests/refusal.h"

namespace meshwright::recorded_steps_test {
namespace {

using Kind = RecordedActivity::Kind;

constexpr const char* kProduct = "mw:op flops=1000 bytes=10 contract f32 [a=5,b][b]->[a]";
constexpr const char* kSum = "mw:op flops=0 bytes=40 add f32 [a=5][a]->[a]";
constexpr const char* kReduce = "mw:collective all-reduce ranks=2 hosts=1 bytes=4096";

Seconds ns(double n) { return Seconds(1e-9 * n); }
void expect_near(Seconds found, Seconds expected) { EXPECT_NEAR(found.si(), expected.si(), 1e-15); }

struct Recorded : WorkRecording {
  Recorded() { names = {"kernel", "copy"}; }
  std::size_t range(const std::string& text, std::optional<std::size_t> around = {}) {
    ranges.push_back({text, around});
    return ranges.size() - 1;
  }
  void kernel(std::optional<std::size_t> in, std::int64_t start, std::int64_t end, int device = 0) {
    activities.push_back({Kind::Kernel, device, start, end, 0, 0, in});
  }
  void copy(Kind kind, std::optional<std::size_t> in, std::int64_t start, std::int64_t end, std::int64_t bytes) {
    activities.push_back({kind, 0, start, end, bytes, 1, in});
  }
};

TEST(RecordedSteps, AnOccurrenceLastsAsLongAsTheUnionOfItsWork) {
  Recorded recording;
  const std::size_t product = recording.range(kProduct);
  recording.kernel(product, 140, 160);
  recording.kernel(product, 100, 130);  // and 10 of nothing
  recording.copy(Kind::Copy, product, 150, 190, 8);
  const RecordedSteps found = recorded_steps(recording);
  ASSERT_EQ(found.times.ops.size(), 1U);
  EXPECT_EQ(found.times.ops[0].signature, "contract f32 [a=5,b][b]->[a]");
  EXPECT_EQ(found.times.ops[0].flops, 1000.0);
  expect_near(found.times.ops[0].time.median, ns(80));
  expect_near(found.times.gaps, ns(10));
  expect_near(found.busy.at(0), ns(80));
}

TEST(RecordedSteps, WhatAnotherOpsKernelDoesTakesNoTimeOfItsOwn) {
  Recorded recording;
  recording.kernel(recording.range(kProduct), 100, 130);
  recording.range(joined_range_text(kSum));
  recording.range(joined_range_text(kSum));
  const RecordedSteps found = recorded_steps(recording);
  ASSERT_EQ(found.times.ops.size(), 2U);
  EXPECT_EQ(found.times.ops[0].signature, "add f32 [a=5][a]->[a]");
  EXPECT_EQ(found.times.ops[0].bytes, 40.0);
  EXPECT_EQ(found.times.ops[0].time.samples, 2);
  EXPECT_EQ(found.times.ops[0].time.median, Seconds(0.0));
  EXPECT_EQ(joined_range_text(kReduce), kReduce);  // collectives are not joined
  expect_near(found.times.ops[1].time.median, ns(30));
}

TEST(RecordedSteps, FiguresAreMediansOverOccurrencesOfAllDevices) {
  Recorded recording;
  for (const int duration : {10, 40, 13}) {
    recording.kernel(recording.range(kSum), 1000 * duration, 1001 * duration, 0);
    recording.kernel(recording.ranges.size() - 1, 1000 * duration, 1001 * duration, 1);
  }
  const RecordedSteps found = recorded_steps(recording);
  ASSERT_EQ(found.times.ops.size(), 1U);
  EXPECT_EQ(found.times.ops[0].time.samples, 6);
  expect_near(found.times.ops[0].time.median, ns(13));
  expect_near(found.times.ops[0].time.spread, ns(3));
  const RecordedTimes::Kind& kind = found.times.kinds.at("add");
  EXPECT_EQ(kind.different, 1);
  EXPECT_EQ(kind.occurrences, 6);
  expect_near(kind.time, ns(126));
  expect_near(found.busy.at(1), ns(63));
}

TEST(RecordedSteps, ACollectiveTakesWhatTheDeviceTookThatCameLast) {
  Recorded recording;
  const std::size_t here = recording.range(kReduce), there = recording.range(kReduce);
  recording.kernel(here, 0, 500, 0);
  recording.kernel(there, 430, 500, 1);
  const RecordedSteps found = recorded_steps(recording);
  ASSERT_EQ(found.times.collectives.size(), 1U);
  EXPECT_EQ(found.times.collectives[0].size_bytes, 4096);
  expect_near(found.times.collectives[0].time.median, ns(70));
  EXPECT_EQ(found.times.collectives[0].time.samples, 1);
  expect_near(found.times.kinds.at("all-reduce").time, ns(570));  // what devices were busy with
}

TEST(RecordedSteps, RangesOfOthersAreLookedThrough) {
  Recorded recording;
  const std::size_t layer = recording.range("layer 7");
  const std::size_t product = recording.range(kProduct, layer), library = recording.range("gemm", product);
  recording.kernel(library, 10, 14);
  recording.kernel(layer, 20, 25);
  const RecordedSteps found = recorded_steps(recording);
  expect_near(found.times.kinds.at("contract").time, ns(4));
  EXPECT_EQ(found.of_no_range.at("kernel").count, 1);
  expect_near(found.of_no_range.at("kernel").time, ns(5));
  expect_near(found.busy.at(0), ns(9));
}

TEST(RecordedSteps, CopiesBetweenDevicesOfNoOpAreTransfers) {
  Recorded recording;
  const std::size_t reduce = recording.range(kReduce);
  recording.copy(Kind::CopyBetweenDevices, {}, 0, 30, 1024);
  recording.copy(Kind::CopyBetweenDevices, {}, 100, 120, 1024);
  recording.copy(Kind::CopyBetweenDevices, reduce, 200, 210, 1024);  // its own
  recording.copy(Kind::Copy, {}, 300, 400, 512);                     // within a device
  const RecordedSteps found = recorded_steps(recording);
  ASSERT_EQ(found.transfers.size(), 1U);
  EXPECT_EQ(found.transfers[0].size_bytes, 1024);
  EXPECT_FALSE(found.transfers[0].hosts_apart);
  expect_near(found.transfers[0].time.median, ns(25));
  EXPECT_EQ(found.of_no_range.at("copy").count, 3);
}

TEST(RecordedSteps, ADeviceIsBusyOnceWhateverRunsSideBySide) {
  Recorded recording;
  recording.kernel(recording.range(kSum), 0, 100);
  recording.kernel(recording.range(kProduct), 50, 120);
  recording.copy(Kind::Copy, {}, 110, 130, 8);
  expect_near(recorded_steps(recording).busy.at(0), ns(130));
}

TEST(RecordedSteps, AreRefusedWhereSomethingWasLost) {
  Recorded recording;
  recording.kernel(recording.range(kSum), 0, 100);
  recording.lost = 3;
  try {
    (void)recorded_steps(recording);
    ADD_FAILURE() << "not refused";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("the recording lost 3 of 4 kernels and copies"), std::string::npos)
        << error.what();
  }
}

TEST(RecordedSteps, NamesOfAnotherVersionAreRefused) {
  Recorded recording;
  recording.range("mw:op 12");
  EXPECT_NE(refusal([&] { return recorded_steps(recording); }).find("'mw:op 12'"), std::string::npos);
}

TEST(RecordedSteps, OfNothingAreEmpty) {
  const RecordedSteps found = recorded_steps({});
  EXPECT_TRUE(found.times.ops.empty());
  EXPECT_TRUE(found.busy.empty());
}

}  // namespace
}  // namespace meshwright::recorded_steps_test
