// SPDX-License-Identifier: Apache-2.0
// The engines against the plainest simulation there is: at every moment all tasks are looked at again until nothing
// more happens, and all speeds are found anew from everything that runs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/unit/task_graph_fixture.h"

namespace meshwright::run_tasks_test {
namespace {

class PlainTruth {
 public:
  PlainTruth(const TaskGraph& graph, const Conditions& conditions)
      : graph_(graph), conditions_(conditions), tasks_(graph.size()), before_(graph.size(), -1) {
    std::map<int, int> latest;
    for (int t = 0; t < count(); ++t) {
      const int stream = graph.stream_of(TaskId(t)).value;
      if (latest.contains(stream)) before_[index(t)] = latest[stream];
      latest[stream] = t;
    }
  }

  TaskTimes run() {
    while (true) {
      while (end_some() || begin_some()) continue;
      give_links();
      give_speeds();
      std::int64_t next = kOpen;
      for (const Task& task : tasks_)
        if (task.state == State::Timed || task.state == State::Works) next = std::min(next, task.until);
      if (next == kOpen) break;
      now_ = next;
    }
    TaskTimes times;
    for (const Task& task : tasks_) {
      EXPECT_EQ(task.state, State::Done);
      times.begin.push_back({task.begin});
      times.end.push_back({task.until});
      times.step = std::max(times.step, SimTime{task.until});
    }
    for (int d = 0; d < graph_.devices; ++d) times.peak_memory.push_back(peak_of(d));
    return times;
  }

  int speed_changes = 0;

 private:
  static constexpr std::int64_t kOpen = INT64_MAX;
  enum class State { Waits, Timed, Queues, Works, Done };  // Timed: latency, or nothing can change its end
  struct Task {
    State state = State::Waits;
    std::int64_t begin = 0, until = kOpen, came = 0, since = 0;
    double left = 0.0, speed = 0.0;  // ps at full speed
    bool in_latency = false;
  };

  static std::size_t index(int t) { return static_cast<std::size_t>(t); }
  [[nodiscard]] int count() const { return static_cast<int>(graph_.size()); }
  [[nodiscard]] const TaskClass& of(int t) const { return graph_.of(TaskId(t)); }
  [[nodiscard]] const Stream& stream(int t) const { return graph_.streams[graph_.stream_of(TaskId(t)).index()]; }
  [[nodiscard]] bool works(int t) const { return tasks_[index(t)].state == State::Works; }
  [[nodiscard]] bool is_flow(int t) const { return of(t).route != TaskClass::kNoRoute; }
  [[nodiscard]] const std::vector<LinkId>& links(int t) const { return graph_.links.routes[index(of(t).route)]; }
  [[nodiscard]] double capacity(LinkId link) const { return graph_.links.capacity[link.index()].si(); }
  [[nodiscard]] double full_rate(int t) const {
    double least = INFINITY;
    for (const LinkId link : links(t)) least = std::min(least, capacity(link));
    return least;
  }
  [[nodiscard]] bool share_a_link(int a, int b) const {
    for (const LinkId link : links(a))
      for (const LinkId other : links(b))
        if (link == other) return true;
    return false;
  }
  [[nodiscard]] bool touches(int t, DeviceId device) const {
    return stream(t).device == device || stream(t).peer == device;
  }

  bool end_some() {
    bool some = false;
    for (int t = 0; t < count(); ++t) {
      Task& task = tasks_[index(t)];
      if ((task.state != State::Timed && task.state != State::Works) || task.until != now_) continue;
      some = true;
      if (!task.in_latency) {
        task.state = State::Done;
        continue;
      }
      task.in_latency = false;
      proceed(t);
    }
    return some;
  }

  bool begin_some() {
    bool some = false;
    for (int t = 0; t < count(); ++t) {
      Task& task = tasks_[index(t)];
      bool ready = task.state == State::Waits &&
                   (before_[index(t)] < 0 || tasks_[index(before_[index(t)])].state == State::Done);
      for (const std::int32_t p : graph_.predecessors(TaskId(t)))
        ready = ready && tasks_[index(p)].state == State::Done;
      if (!ready) continue;
      some = true;
      task.begin = now_;
      const std::int64_t work = of(t).duration.ps - of(t).latency.ps;
      task.left = static_cast<double>(work);
      task.state = State::Timed;
      task.until = now_ + of(t).duration.ps;
      const bool varies = is_flow(t) || is_communication(of(t).kind) || is_compute(of(t).kind);
      if (work == 0 || !varies) continue;
      if (of(t).latency.ps > 0) {
        task.until = now_ + of(t).latency.ps;
        task.in_latency = true;
      } else {
        proceed(t);
      }
    }
    return some;
  }

  void proceed(int t) {
    Task& task = tasks_[index(t)];
    task.came = task.since = now_;
    task.until = kOpen;
    task.state = is_flow(t) && conditions_.discipline == LinkDiscipline::Fifo ? State::Queues : State::Works;
  }

  // A flow goes when no other that it shares a link with goes, or has waited for longer.
  void give_links() {
    std::set<std::pair<std::int64_t, int>> queue;
    for (int t = 0; t < count(); ++t)
      if (tasks_[index(t)].state == State::Queues) queue.emplace(tasks_[index(t)].came, t);
    std::vector<int> ahead;
    for (int t = 0; t < count(); ++t)
      if (works(t) && is_flow(t)) ahead.push_back(t);
    for (const auto& [came, t] : queue) {
      bool goes = true;
      for (const int other : ahead) goes = goes && !share_a_link(t, other);
      ahead.push_back(t);
      if (!goes) continue;
      tasks_[index(t)].state = State::Works;
      tasks_[index(t)].since = now_;
    }
  }

  [[nodiscard]] double allowed(int t) const {
    for (int other = 0; other < count(); ++other) {
      if (!works(other)) continue;
      if (is_compute(of(t).kind) && is_communication(of(other).kind) && touches(other, stream(t).device))
        return 1.0 / conditions_.compute_slowdown;
      if (is_communication(of(t).kind) && is_compute(of(other).kind) && touches(t, stream(other).device))
        return 1.0 / conditions_.communication_slowdown;
    }
    return 1.0;
  }

  // All flows rise by the same rate until one of them may rise no more.
  [[nodiscard]] std::map<int, double> fair_rates() const {
    std::map<int, double> rate;
    std::set<int> rising;
    std::vector<double> left;
    for (const BytesPerSecond link : graph_.links.capacity) left.push_back(link.si());
    for (int t = 0; t < count(); ++t)
      if (works(t) && is_flow(t)) rising.insert(t), rate[t] = 0.0;
    while (!rising.empty()) {
      std::vector<int> crowd(left.size(), 0);
      for (const int t : rising)
        for (const LinkId link : links(t)) ++crowd[link.index()];
      double step = INFINITY;
      for (const int t : rising) step = std::min(step, allowed(t) * full_rate(t) - rate[t]);
      for (std::size_t l = 0; l < left.size(); ++l)
        if (crowd[l] > 0) step = std::min(step, left[l] / crowd[l]);
      for (const int t : rising) rate[t] += step;
      for (std::size_t l = 0; l < left.size(); ++l) left[l] -= step * crowd[l];
      std::erase_if(rising, [&](int t) {
        bool stops = rate[t] >= allowed(t) * full_rate(t) * (1.0 - 1e-11);
        for (const LinkId link : links(t)) stops = stops || left[link.index()] <= 1e-11 * capacity(link);
        return stops;
      });
    }
    return rate;
  }

  void give_speeds() {
    const bool fluid = conditions_.discipline == LinkDiscipline::Fluid;
    const std::map<int, double> rates = fluid ? fair_rates() : std::map<int, double>();
    for (int t = 0; t < count(); ++t) {
      if (!works(t)) continue;
      Task& task = tasks_[index(t)];
      double speed = allowed(t);
      if (rates.contains(t) && rates.at(t) < speed * full_rate(t) * (1.0 - 1e-11)) speed = rates.at(t) / full_rate(t);
      if (std::abs(speed - task.speed) <= 1e-11 * speed) continue;
      if (task.speed != 0.0) ++speed_changes;
      task.left -= static_cast<double>(now_ - task.since) * task.speed;
      task.since = now_;
      task.speed = speed;
      task.until = now_ + std::max<std::int64_t>(1, std::llround(task.left / speed));
    }
  }

  [[nodiscard]] std::int64_t peak_of(int device) const {
    std::map<std::int64_t, std::int64_t> changes;
    for (int t = 0; t < count(); ++t) {
      if (stream(t).device.value != device) continue;
      changes[tasks_[index(t)].begin] += of(t).memory_at_begin;
      changes[tasks_[index(t)].until] += of(t).memory_at_end - of(t).memory_at_begin;
    }
    std::int64_t level = 0, peak = 0;
    for (const auto& [time, bytes] : changes) peak = std::max(peak, level += bytes);
    return peak;
  }

  const TaskGraph& graph_;
  const Conditions& conditions_;
  std::int64_t now_ = 0;
  std::vector<Task> tasks_;
  std::vector<int> before_;  // [task] that before it on its stream
};

std::vector<std::int64_t> picoseconds(const std::vector<SimTime>& times) {
  std::vector<std::int64_t> numbers;
  for (const SimTime time : times) numbers.push_back(time.ps);
  return numbers;
}

void expect_same(const TaskTimes& truth, const TaskTimes& times, std::uint64_t seed) {
  ASSERT_EQ(picoseconds(truth.begin), picoseconds(times.begin)) << "seed " << seed;
  ASSERT_EQ(picoseconds(truth.end), picoseconds(times.end)) << "seed " << seed;
  ASSERT_EQ(truth.step, times.step) << "seed " << seed;
  ASSERT_EQ(truth.peak_memory, times.peak_memory) << "seed " << seed;
}

RandomGraphShape drawn_shape(Random& random) {
  RandomGraphShape shape;
  shape.devices = 1 + random.below(4);
  shape.channels = 1 + random.below(6);
  shape.links = 1 + random.below(5);
  shape.routes = 1 + random.below(6);
  shape.tasks = 5 + random.below(60);
  return shape;
}

TEST(RunTasks, BothEnginesAreRightWithoutLinks) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    RandomGraphShape shape = drawn_shape(random);
    shape.links = shape.routes = 0;
    const TaskGraph graph = random_graph(shape, random);
    check_task_graph(graph);
    const TaskTimes truth = PlainTruth(graph, {}).run();
    expect_same(truth, run_in_order(graph), seed);
    expect_same(truth, run_by_events(graph), seed);
  }
}

// Speeds are powers of two, so nothing is rounded.
TEST(RunTasks, QueuesAndInterferenceAreExact) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    const RandomGraphShape shape = drawn_shape(random);
    const TaskGraph graph = random_graph(shape, random);
    Conditions conditions;
    conditions.discipline = LinkDiscipline::Fifo;
    if (seed % 3 != 0) conditions.compute_slowdown = 1 << random.below(3);
    if (seed % 3 != 0) conditions.communication_slowdown = 1 << random.below(3);
    expect_same(PlainTruth(graph, conditions).run(), run_by_events(graph, conditions), seed);
  }
}

// A speed that is not a power of two leaves fractions of a picosecond that the two sum in another order: at most 1 ps
// for each time that some speed changed.
TEST(RunTasks, FluidSharesAreRightToAPicosecondPerChange) {
  int changes = 0, apart = 0, numbers = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    RandomGraphShape shape = drawn_shape(random);
    shape.longest = seed % 2 == 0 ? 1'000'000'007 : 1'000;
    const TaskGraph graph = random_graph(shape, random);
    Conditions conditions;
    if (seed % 3 == 1) conditions.compute_slowdown = 1.0 + 0.1 * random.below(8);
    if (seed % 3 != 0) conditions.communication_slowdown = 1.0 + 0.1 * random.below(8);
    PlainTruth plain(graph, conditions);
    const TaskTimes truth = plain.run(), times = run_by_events(graph, conditions);
    changes += plain.speed_changes;
    for (std::size_t t = 0; t < graph.size(); ++t) {
      ASSERT_NEAR(static_cast<double>(truth.begin[t].ps), static_cast<double>(times.begin[t].ps), plain.speed_changes)
          << "seed " << seed << ", task " << t;
      ASSERT_NEAR(static_cast<double>(truth.end[t].ps), static_cast<double>(times.end[t].ps), plain.speed_changes)
          << "seed " << seed << ", task " << t;
      apart += truth.end[t] != times.end[t];
      ++numbers;
    }
  }
  EXPECT_GT(changes, 5'000) << "the flows of these graphs hardly meet";
  EXPECT_LT(apart, numbers / 50);
}

// Where the certificate finds no meeting, the single pass has the times of the events, and of the truth, exactly; where
// it finds one, some flow was slower.
TEST(RunTasks, TheCertificateIsRight) {
  for (const LinkDiscipline discipline : {LinkDiscipline::Fluid, LinkDiscipline::Fifo}) {
    int met = 0, free = 0, unharmed = 0;
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      Random random(seed);
      RandomGraphShape shape = drawn_shape(random);
      shape.tasks = 4 + random.below(12);
      const TaskGraph graph = random_graph(shape, random);
      Conditions conditions;
      conditions.discipline = discipline;
      const TaskTimes truth = PlainTruth(graph, conditions).run(), times = run_in_order(graph);
      const auto meeting = find_meeting(graph, times, discipline);
      ++(meeting ? met : free);
      if (!meeting) {
        expect_same(truth, times, seed);
        expect_same(run_by_events(graph, conditions), times, seed);
      } else if (picoseconds(times.end) == picoseconds(truth.end)) {
        ++unharmed;
      }
      EXPECT_EQ(run_tasks(graph, conditions).by_events, meeting.has_value());
    }
    EXPECT_GT(met, 100);
    EXPECT_GT(free, 100);
    // A flow of some picoseconds may lose less than half of one to a slightly slower rate.
    EXPECT_LE(unharmed, discipline == LinkDiscipline::Fluid ? met / 50 : 0);
  }
}

}  // namespace
}  // namespace meshwright::run_tasks_test
