// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/json.h"

namespace meshwright::timeline_test {
namespace {

using Kind = Span::Kind;

Span span(Kind kind, int device, int stage, int microbatch, std::int64_t begin, std::int64_t end) {
  return {kind, DeviceId(device), StageId(stage), MicrobatchId(microbatch), {begin}, {end}};
}

// Device 0 is busy 30 + 40 of 100, device 1 20 + 30.
Timeline two_stages() {
  return make_timeline({
      span(Kind::Backward, 0, 0, 0, 60, 100),
      span(Kind::Forward, 0, 0, 0, 0, 30),
      span(Kind::Send, 0, 0, 0, 30, 31),
      span(Kind::Forward, 1, 1, 0, 31, 51),
      span(Kind::Wait, 0, 0, 0, 30, 60),
      span(Kind::Backward, 1, 1, 0, 51, 81),
  });
}

TEST(Timeline, IsTheSameWhateverTheOrderOfItsSpans) {
  const Timeline timeline = two_stages();
  std::vector<Span> reversed(timeline.spans.rbegin(), timeline.spans.rend());
  EXPECT_EQ(make_timeline(reversed).spans, timeline.spans);
  EXPECT_TRUE(std::is_sorted(timeline.spans.begin(), timeline.spans.end(),
                             [](const Span& a, const Span& b) { return a.begin < b.begin; }));
  EXPECT_EQ(timeline.end.ps, 100);
  EXPECT_EQ(make_timeline({}).end.ps, 0);
}

TEST(Timeline, EqualBeginsAreOrderedByDeviceThenEndThenKind) {
  const std::vector<Span> ordered = {span(Kind::Wait, 0, 0, 0, 5, 6), span(Kind::Forward, 0, 0, 0, 5, 7),
                                     span(Kind::Send, 0, 0, 0, 5, 7), span(Kind::Send, 0, 0, 1, 5, 7),
                                     span(Kind::Forward, 1, 1, 0, 5, 6)};
  EXPECT_EQ(make_timeline({ordered[4], ordered[3], ordered[1], ordered[2], ordered[0]}).spans, ordered);
}

TEST(Summary, CountsComputeOfEveryDeviceAgainstTheStep) {
  const TimelineSummary summary = summarize(two_stages(), 2);
  EXPECT_DOUBLE_EQ(summary.step.si(), 100e-12);
  EXPECT_DOUBLE_EQ(summary.compute[0].si(), 70e-12);
  EXPECT_DOUBLE_EQ(summary.compute[1].si(), 50e-12);
  EXPECT_DOUBLE_EQ(summary.waiting, 1.0 - 120.0 / 200.0);
  EXPECT_DOUBLE_EQ(summarize(make_timeline({}), 2).waiting, 0.0);
}

// A forward of 10 with a sum of 20 behind it; a backward of 30 whose sum begins 10 before its end and goes on for 15;
// an update of 5. The sums have spans of their own, and the device is idle from 30 to 40 and from 85 to 90.
Timeline with_collectives() {
  const auto sum = [](Kind of, std::int64_t begin, std::int64_t end) {
    Span found = span(Kind::Collective, 0, 0, 0, begin, end);
    found.part_of = of;
    return found;
  };
  return make_timeline({span(Kind::Forward, 0, 0, 0, 0, 10), sum(Kind::Forward, 10, 30),
                        span(Kind::Backward, 0, 0, 0, 40, 70), sum(Kind::Backward, 60, 85),
                        span(Kind::Update, 0, 0, 0, 90, 100)});
}

TEST(Summary, CountsADeviceInACollectiveAsBusyAndNoMomentTwice) {
  const TimelineSummary summary = summarize(with_collectives(), 1);
  EXPECT_DOUBLE_EQ(summary.compute[0].si(), 85e-12);
  EXPECT_DOUBLE_EQ(summary.waiting, 0.15);
  // Forward and backward with their sums: 75 of 85.
  EXPECT_DOUBLE_EQ(stage_waits(with_collectives()).longest, 1.0 - 75.0 / 85.0);
}

TEST(Work, BelongsToTheComputationThatACollectiveIsPartOf) {
  std::map<Kind, std::int64_t> sums;
  for_each_work(with_collectives(), [&](const WorkTime& work) { sums[work.kind] += (work.end - work.begin).ps; });
  EXPECT_EQ(sums, (std::map<Kind, std::int64_t>{{Kind::Forward, 30}, {Kind::Backward, 45}, {Kind::Update, 10}}));
}

// Stage 0: 1 - 70/100 = 0.3; stage 1: 1 - 50/50 = 0.
TEST(StageWaits, AreThatOfTheLongestWaitingStageAndThatOfAllStagesTogether) {
  EXPECT_DOUBLE_EQ(stage_waits(two_stages()).longest, 0.3);
  EXPECT_DOUBLE_EQ(stage_waits(two_stages()).mean, 1.0 - (70.0 + 50.0) / (100.0 + 50.0));
}

TEST(StageWaits, LeaveOutTheUpdate) {
  Timeline timeline = two_stages();
  timeline.spans.push_back(span(Kind::Update, 0, 0, 0, 200, 900));
  EXPECT_EQ(stage_waits(make_timeline(timeline.spans)), stage_waits(two_stages()));
}

// Two devices in the time 0..10: 10 + 5 of 20.
TEST(StageWaits, AverageTheDevicesOfAStage) {
  const Timeline timeline = make_timeline({span(Kind::Forward, 0, 0, 0, 0, 10), span(Kind::Forward, 1, 0, 0, 0, 5)});
  EXPECT_EQ(stage_waits(timeline), (StageWaits{0.25, 0.25}));
}

TEST(ChromeTrace, IsJsonWithOneTrackPerDeviceAndTimesToThePicosecond) {
  const Timeline timeline = make_timeline({
      span(Kind::Forward, 0, 0, 7, 1000001, 3500002),  // 1.000001 us, for 2.500001 us
      span(Kind::Send, 0, 0, 7, 3500002, 4000000),
      span(Kind::Update, 3, 1, 0, 0, 5),
  });
  const std::string text = to_chrome_trace(timeline, "a \"quoted\" title");
  EXPECT_NE(text.find("\"ts\":1.000001,\"dur\":2.500001"), std::string::npos) << text;
  EXPECT_EQ(text, to_chrome_trace(timeline, "a \"quoted\" title"));

  const Json trace = parse_json(text, "trace");
  EXPECT_EQ(trace.at("otherData").at("title"), "a \"quoted\" title");
  std::vector<std::string> tracks, runs, message_phases;
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "M" && event.at("name") == "thread_name") tracks.push_back(event.at("args").at("name"));
    if (phase == "X") runs.push_back(event.at("name"));
    if (phase == "b" || phase == "e") message_phases.push_back(phase);
  }
  EXPECT_EQ(tracks, (std::vector<std::string>{"device 0 (stage 0)", "device 3 (stage 1)"}));
  EXPECT_EQ(runs, (std::vector<std::string>{"update", "forward 7"}));
  EXPECT_EQ(message_phases, (std::vector<std::string>{"b", "e"}));
}

TEST(ChromeTrace, OfAnEmptyTimelineIsJson) {
  EXPECT_TRUE(parse_json(to_chrome_trace(make_timeline({}), ""), "trace").at("traceEvents").empty());
}

}  // namespace
}  // namespace meshwright::timeline_test
