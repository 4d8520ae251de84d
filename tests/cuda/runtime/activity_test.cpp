// SPDX-License-Identifier: Apache-2.0
// What is recorded of kernels, copies and memsets, and of whole steps.
#include "kernels/cuda/runtime/activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <thread>

#include "costmodel/recorded_steps.h"
#include "executor/base/work_names.h"
#include "executor/cuda/cuda_backend.h"
#include "executor/executor.h"
#include "kernels/cuda/layout/tiles.h"
#include "kernels/cuda/runtime/ranges.h"
#include "tests/cuda/device_array.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::activity_test {
namespace {

namespace cuda = kernels::cuda;
using Kind = cuda::Activity::Kind;

class Activities : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::can_record()) GTEST_SKIP() << "this build has no CUPTI";
    cuda::use_device(0);
    launch();  // the first time more is done, such as loading the kernel
    copy_all();
    clear();
  }

  static constexpr std::int64_t kNumbers = 1000;
  cuda::DeviceArray<float> a_{std::vector<double>(kNumbers, 0.5)}, b_{std::vector<double>(kNumbers, 2.5)};

  void copy_all() {
    cuda::copy(a_.data(), b_.data(), kNumbers * sizeof(float), cuda::kNoStream);
    cuda::synchronize(cuda::kNoStream);
  }
  void launch() {
    const std::array<std::int64_t, 1> extent = {kNumbers}, strides = {1};
    cuda::add_tile<float>(cuda::kNoStream, extent, b_.data(), strides, a_.data(), strides);
    cuda::synchronize(cuda::kNoStream);
  }
  void clear() {
    cuda::clear(a_.data(), kNumbers * sizeof(float), cuda::kNoStream);
    cuda::synchronize(cuda::kNoStream);
  }
  [[nodiscard]] static cuda::Recording stop() {
    cuda::Recording recording = cuda::stop_recording();
    std::sort(recording.activities.begin(), recording.activities.end(),
              [](const auto& a, const auto& b) { return a.start < b.start; });
    return recording;
  }
};

TEST_F(Activities, AreKernelsCopiesAndMemsetsInTheirOrder) {
  cuda::start_recording();
  launch();
  copy_all();
  clear();
  const cuda::Recording recording = stop();
  ASSERT_EQ(recording.activities.size(), 3U);
  EXPECT_EQ(recording.lost, 0);
  const Kind kinds[] = {Kind::Kernel, Kind::Copy, Kind::Clear};
  const std::int64_t bytes[] = {0, 4000, 4000};
  std::int64_t before = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const cuda::Activity& activity = recording.activities[i];
    EXPECT_EQ(activity.kind, kinds[i]) << i;
    EXPECT_EQ(activity.bytes, bytes[i]) << i;
    EXPECT_EQ(activity.device, 0);
    EXPECT_LE(before, activity.start);
    EXPECT_LE(activity.start, activity.end);
    EXPECT_EQ(activity.range, std::nullopt);
    before = activity.end;
  }
  EXPECT_NE(recording.names.at(recording.activities[0].name), "");
  EXPECT_EQ(recording.names.at(recording.activities[1].name), "copy");
  EXPECT_EQ(recording.names.at(recording.activities[2].name), "clear");
}

TEST_F(Activities, BelongToTheInnermostRangeAtTheirLaunch) {
  cuda::begin_range("before anybody records");
  cuda::start_recording();
  launch();
  cuda::begin_range("outer");
  launch();
  cuda::begin_range("inner");
  launch();
  launch();
  cuda::end_range();
  launch();
  cuda::end_range();
  launch();
  cuda::end_range();
  launch();
  const cuda::Recording recording = stop();
  ASSERT_EQ(recording.ranges.size(), 2U);
  EXPECT_EQ(recording.ranges[0].name, "outer");
  EXPECT_EQ(recording.ranges[0].around, std::nullopt);
  EXPECT_EQ(recording.ranges[1].name, "inner");
  EXPECT_EQ(recording.ranges[1].around, 0U);
  std::vector<int> ranges;  // -1: none
  for (const cuda::Activity& activity : recording.activities)
    ranges.push_back(activity.range ? static_cast<int>(*activity.range) : -1);
  EXPECT_EQ(ranges, (std::vector<int>{-1, 0, 1, 1, 0, -1, -1}));
}

TEST_F(Activities, OfThreadsAreKeptApart) {
  cuda::start_recording();
  cuda::begin_range("here");
  std::thread([&] {
    cuda::use_device(0);
    clear();
    cuda::begin_range("there");
    copy_all();
    cuda::end_range();
  }).join();
  launch();
  cuda::end_range();
  const cuda::Recording recording = stop();
  ASSERT_EQ(recording.activities.size(), 3U);
  std::map<Kind, std::string> names;
  for (const cuda::Activity& activity : recording.activities)
    names[activity.kind] = activity.range ? recording.ranges.at(*activity.range).name : "none";
  EXPECT_EQ(names, (std::map<Kind, std::string>{{Kind::Kernel, "here"}, {Kind::Copy, "there"}, {Kind::Clear, "none"}}));
  for (const cuda::Recording::Range& range : recording.ranges) EXPECT_EQ(range.around, std::nullopt) << range.name;
}

TEST_F(Activities, AreOfOneRecordingAlone) {
  cuda::start_recording();
  cuda::begin_range("first");
  launch();
  cuda::end_range();
  (void)stop();
  cuda::begin_range("between");
  launch();
  cuda::end_range();
  cuda::start_recording();
  clear();
  cuda::start_recording();  // and what there was is forgotten
  cuda::begin_range("second");
  copy_all();
  cuda::end_range();
  const cuda::Recording recording = stop();
  ASSERT_EQ(recording.ranges.size(), 1U);
  EXPECT_EQ(recording.ranges[0].name, "second");
  ASSERT_EQ(recording.activities.size(), 1U);
  EXPECT_EQ(recording.activities[0].kind, Kind::Copy);
  EXPECT_EQ(recording.activities[0].range, 0U);
}

// Takes the updates out of a map of works, and returns how many tensors they update: a recorded work may be of several,
// "adam_update f32 of 8 tensors".
int take_updates(std::map<std::string, int>& works) {
  int tensors = 0;
  for (auto work = works.begin(); work != works.end();) {
    if (!work->first.starts_with("adam_update")) {
      ++work;
      continue;
    }
    const std::size_t of = work->first.find(" of ");
    tensors += work->second * (of == std::string::npos ? 1 : std::stoi(work->first.substr(of + 4)));
    work = works.erase(work);
  }
  return tensors;
}

// Every op of the plan, each as often as the program runs it, and nothing else that has a name.
TEST_F(Activities, OfStepsAreTheOpsOfTheProgram) {
  PlanRequest request = ask("mlp:layers=2,hidden=16", "dgx-a100:1", "data", 16, 2);
  const int gpus = std::min(cuda::device_count(), 2);
  request.cluster = take_part(request.cluster, 1, gpus);
  const Planned planned = meshwright::planned(request);
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  constexpr int kSteps = 2;
  CudaBackend backend({.precision = std::nullopt, .gpus = gpus}, gpus);
  const RunResult run = run_program(planned.graph, planned.program, planned.check,
                                    {.steps = 1 + kSteps, .keep_tensors = false, .steps_with_work = kSteps}, backend);

  std::map<std::string, int> ops;
  int collectives = 0;
  for (const std::vector<Instruction>& instructions : planned.program.devices)
    for (const Instruction& instruction : instructions) {
      if (instruction.kind != Instruction::Kind::Run) continue;
      const StageExecutable& executable = planned.program.executables[static_cast<std::size_t>(instruction.executable)];
      for (const LocalOp& op : executable.ops) {
        const auto range = range_from_text(work_name(planned.program.stages[executable.stage.index()], executable, op));
        if (!range) continue;
        if (const auto* named = std::get_if<OpRange>(&*range))
          ops[named->signature] += kSteps;
        else
          collectives += kSteps;
      }
    }
  const RecordedSteps found = recorded_steps(run.work);
  std::map<std::string, int> recorded;
  for (const OpProfile& op : found.times.ops) {
    // A bias is added in the kernel of its product, and the gradients of matrices are summed up there; it has the time.
    const bool joins = op.signature.starts_with("bias_add") ||
                       (op.signature.starts_with("accumulate") && op.signature.find(",b=") != std::string::npos);
    EXPECT_EQ(op.time.median > Seconds(0.0), !joins) << op.signature;
    recorded[op.signature] = op.time.samples;
  }
  // Updates run together, as one work of many tensors.
  EXPECT_EQ(take_updates(recorded), take_updates(ops));
  EXPECT_EQ(recorded, ops);
  if (gpus > 1) {
    EXPECT_GT(collectives, 0);
  }
  std::int64_t reduced = 0;
  for (const auto& [name, kind] : found.times.kinds)
    if (name.starts_with("all-") || name.starts_with("reduce-")) reduced += kind.occurrences;
  EXPECT_EQ(reduced, collectives);
  EXPECT_EQ(static_cast<int>(found.busy.size()), gpus);
  EXPECT_EQ(static_cast<int>(run.step_times.size()), 1 + kSteps);
  Seconds recorded_time(0.0);
  for (int step = 1; step <= kSteps; ++step) recorded_time += run.step_times[static_cast<std::size_t>(step)];
  for (const auto& [device, busy] : found.busy) EXPECT_LE(busy, recorded_time) << device;
}

}  // namespace
}  // namespace meshwright::activity_test
