// SPDX-License-Identifier: Apache-2.0
#include "report/charts/timeline_rows.h"

#include <gtest/gtest.h>

#include "report/page/timings_section.h"

namespace meshwright::timeline_rows_test {
namespace {

TimelineTracks drawn_tracks(const Timeline& timeline, int devices, const FoldedDevices* folded,
                            ShownMessages messages) {
  return timeline_tracks(tracks_of(timeline, row_devices(timeline, devices, folded), messages));
}

using Kind = Span::Kind;

Span span(Kind kind, int device, int stage, int microbatch, std::int64_t begin, std::int64_t end) {
  return {kind, DeviceId(device), StageId(stage), MicrobatchId(microbatch), {begin}, {end}};
}

Span sum_of(Kind kind, int device, std::int64_t begin, std::int64_t end) {
  Span found = span(Kind::Collective, device, 0, 0, begin, end);
  found.part_of = kind;
  return found;
}

double share(const ActivityShares& shares, Activity activity) { return shares[static_cast<std::size_t>(activity)]; }

// Devices 0, 1 and 3 do the same; device 2 is a step behind.
Timeline three_alike() {
  std::vector<Span> spans;
  for (const int device : {0, 1, 3}) spans.push_back(span(Kind::Forward, device, 0, 0, 0, 50));
  spans.push_back(span(Kind::Forward, 2, 0, 0, 1, 51));
  spans.push_back(span(Kind::Backward, 2, 0, 0, 60, 100));
  return make_timeline(spans);
}

TEST(TimelineTracks, AreOfDevicesThatDoTheSameAtTheSameTimes) {
  const TimelineTracks tracks = drawn_tracks(three_alike(), 4, nullptr, ShownMessages::None);
  ASSERT_EQ(tracks.tracks.size(), 2u);
  EXPECT_EQ(tracks.tracks[0].devices, (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(3)}));
  EXPECT_EQ(tracks.tracks[1].devices, std::vector<DeviceId>{DeviceId(2)});
  const std::vector<TimelineRow> rows = rows_of(tracks, 64);
  EXPECT_EQ(label_of(rows[0]), "stage 0, devices 0-1, 3");
  EXPECT_EQ(label_of(rows[1]), "stage 0, device 2");
}

TEST(TimelineTracks, CountTheDevicesThatAnotherStandsFor) {
  FoldedDevices folded{.representative = {DeviceId(0), DeviceId(0), DeviceId(0)}, .message = {}, .classes = 1};
  const TimelineTracks tracks =
      drawn_tracks(make_timeline({span(Kind::Update, 0, 0, 0, 0, 10)}), 3, &folded, ShownMessages::None);
  ASSERT_EQ(tracks.tracks.size(), 1u);
  EXPECT_EQ(label_of(rows_of(tracks, 64)[0]), "stage 0, devices 0-2");
}

TEST(TimelineTracks, DifferByTheirMessagesOnlyWhereThoseAreShown) {
  const Timeline timeline = make_timeline(
      {span(Kind::Forward, 0, 0, 0, 0, 10), span(Kind::Forward, 1, 0, 0, 0, 10), span(Kind::Send, 1, 0, 0, 10, 12)});
  EXPECT_EQ(drawn_tracks(timeline, 2, nullptr, ShownMessages::None).tracks.size(), 1u);
  EXPECT_EQ(drawn_tracks(timeline, 2, nullptr, ShownMessages::All).tracks.size(), 2u);
}

// A sum from 5 to 40 beside computations from 0 to 10 and from 20 to 30: the device waits for it from 10 to 20 and from
// 30 to 40.
TEST(TimelineTracks, ShowACollectiveWhereTheDeviceDoesNotCompute) {
  const TimelineTracks tracks =
      drawn_tracks(make_timeline({span(Kind::Forward, 0, 0, 0, 0, 10), sum_of(Kind::Forward, 0, 5, 40),
                                  span(Kind::Backward, 0, 0, 0, 20, 30)}),
                   1, nullptr, ShownMessages::None);
  std::vector<std::pair<std::int64_t, std::int64_t>> collectives;
  for (const TimelineBlock& block : tracks.tracks[0].blocks)
    if (block.activity == Activity::Collective) collectives.emplace_back(block.begin.ps, block.end.ps);
  EXPECT_EQ(collectives, (std::vector<std::pair<std::int64_t, std::int64_t>>{{10, 20}, {30, 40}}));
}

TEST(TimelineRows, BeyondTheLimitAreMeansOfTheDevicesOfAStage) {
  const TimelineTracks tracks = drawn_tracks(three_alike(), 4, nullptr, ShownMessages::None);
  const std::vector<TimelineRow> rows = rows_of(tracks, 1);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(label_of(rows[0]), "stage 0, mean of devices 0-3");
  // In the second half three of four devices are idle; the fourth runs forward for 1 of 50 and backward for 40.
  const ActivityShares second = column_shares(rows[0], tracks.end, 2)[1];
  EXPECT_DOUBLE_EQ(share(second, Activity::Backward), 0.25 * 40.0 / 50.0);
  EXPECT_DOUBLE_EQ(share(second, Activity::Forward), 0.25 * 1.0 / 50.0);
  EXPECT_DOUBLE_EQ(share(second, Activity::Idle), 1.0 - 0.25 * 41.0 / 50.0);
}

TEST(ColumnShares, AreWhatEachColumnIsSpentOn) {
  const TimelineTracks tracks =
      drawn_tracks(make_timeline({span(Kind::Forward, 0, 0, 0, 0, 15), span(Kind::Backward, 0, 0, 0, 15, 40)}), 1,
                   nullptr, ShownMessages::None);
  const std::vector<ActivityShares> shares = column_shares(rows_of(tracks, 64)[0], tracks.end, 4);
  EXPECT_DOUBLE_EQ(share(shares[0], Activity::Forward), 1.0);
  EXPECT_DOUBLE_EQ(share(shares[1], Activity::Forward), 0.5);
  EXPECT_DOUBLE_EQ(share(shares[1], Activity::Backward), 0.5);
  EXPECT_DOUBLE_EQ(share(shares[3], Activity::Backward), 1.0);
  EXPECT_DOUBLE_EQ(share(shares[3], Activity::Idle), 0.0);
}

TEST(ColumnShares, SurviveTheWholeRangeOfTheClock) {
  const std::int64_t days = std::int64_t{100} * 24 * 3600 * 1000000000000;  // 8.64e18 ps
  const TimelineTracks tracks =
      drawn_tracks(make_timeline({span(Kind::Update, 0, 0, 0, days / 2, days)}), 1, nullptr, ShownMessages::None);
  const std::vector<ActivityShares> shares = column_shares(rows_of(tracks, 64)[0], tracks.end, 100);
  EXPECT_DOUBLE_EQ(share(shares[49], Activity::Idle), 1.0);
  EXPECT_DOUBLE_EQ(share(shares[50], Activity::Update), 1.0);
}

TEST(ColumnShares, OfAStepWithoutWorkAreIdle) {
  const TimelineTracks tracks = drawn_tracks(make_timeline({}), 1, nullptr, ShownMessages::None);
  EXPECT_DOUBLE_EQ(share(column_shares(rows_of(tracks, 64)[0], tracks.end, 3)[2], Activity::Idle), 1.0);
}

// Both timings of two devices that compute alike at first; in the second timing device 1 takes 4 longer.
Tracks two_timings() {
  const auto step = [](std::int64_t forward_of_last) {
    const Timeline timeline =
        make_timeline({span(Kind::Forward, 0, 0, 0, 0, 10), span(Kind::Send, 0, 0, 0, 10, 11),
                       span(Kind::Forward, 1, 0, 0, 0, forward_of_last), span(Kind::Send, 1, 0, 0, 10, 11)});
    return tracks_of(timeline, row_devices(timeline, 2, nullptr), ShownMessages::All);
  };
  return paired(step(10), step(14));
}

TEST(PairedTracks, AreTheRowsOfBothTimingsOfTheSameDevices) {
  const Tracks pairs = two_timings();
  ASSERT_EQ(pairs.rows.size(), 4u);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(pairs.rows[r].timing, static_cast<int>(r % 2));
    EXPECT_EQ(pairs.rows[r].devices, std::vector<int>{static_cast<int>(r / 2)});
  }
  EXPECT_EQ(pairs.end.ps, 14);
  EXPECT_EQ(pairs.tasks[pairs.rows[2].compute.begin].end.ps, 10);
  EXPECT_EQ(pairs.tasks[pairs.rows[3].compute.begin].end.ps, 14);
}

TEST(PairedTracks, KeepADeviceThatOneTimingLacks) {
  const Timeline one = make_timeline({span(Kind::Forward, 0, 0, 0, 0, 10)}),
                 both = make_timeline({span(Kind::Forward, 0, 0, 0, 0, 10), span(Kind::Forward, 1, 0, 0, 0, 10)});
  const Tracks pairs = paired(tracks_of(one, row_devices(one, 1, nullptr), ShownMessages::All),
                              tracks_of(both, row_devices(both, 2, nullptr), ShownMessages::All));
  ASSERT_EQ(pairs.rows.size(), 3u);
  EXPECT_EQ(pairs.rows[2].devices, std::vector<int>{1});
  EXPECT_EQ(pairs.rows[2].timing, 1);
}

TEST(PairedTracks, DifferByKindAndByTask) {
  const Tracks pairs = two_timings();
  const std::vector<KindDifference> kinds = differences_by_kind(pairs);
  ASSERT_EQ(kinds.size(), 2u);  // forward and message
  EXPECT_EQ(kinds[0].kind, TaskKind::Forward);
  EXPECT_EQ(kinds[0].first_tasks, 2);
  EXPECT_EQ(to_sim_time(kinds[0].first).ps, 20);   // 10 + 10
  EXPECT_EQ(to_sim_time(kinds[0].second).ps, 24);  // 10 + 14
  EXPECT_EQ(to_sim_time(kinds[0].apart).ps, 4);    // 0 + 4
  EXPECT_EQ(kinds[0].matched, 2);
  EXPECT_EQ(kinds[1].kind, TaskKind::Message);
  EXPECT_EQ(to_sim_time(kinds[1].apart).ps, 0);
  const std::vector<TaskDifference> largest = largest_differences(pairs, 1);
  ASSERT_EQ(largest.size(), 1u);
  EXPECT_EQ(largest[0].devices, std::vector<int>{1});
  EXPECT_EQ(largest[0].apart().ps, 4);
}

}  // namespace
}  // namespace meshwright::timeline_rows_test
