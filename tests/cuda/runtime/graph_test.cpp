// SPDX-License-Identifier: Apache-2.0
// What streams are asked for while they are captured is done in each launch of the graph, and not before.
#include "kernels/cuda/runtime/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/optimizer/optimizer.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::graph_test {
namespace {

using Values = std::vector<double>;

struct OwnStream {
  Stream stream = make_stream();
  OwnStream() = default;
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() {
    abandon_capture(stream);
    destroy(stream);
  }
  operator Stream() const { return stream; }
};

struct OwnEvent {
  Event event;
  explicit OwnEvent(bool timed = false) : event(make_event(timed)) {}
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  ~OwnEvent() { destroy(event); }
  operator Event() const { return event; }
};

struct OwnGraph {
  Graph graph;
  explicit OwnGraph(Graph made) : graph(made) {}
  OwnGraph(const OwnGraph&) = delete;
  OwnGraph& operator=(const OwnGraph&) = delete;
  ~OwnGraph() { destroy(graph); }
  void run(Stream stream) const {
    launch_graph(graph, stream);
    synchronize(stream);
  }
};

// Three floats of the host.
struct Pinned {
  float* data = static_cast<float*>(allocate_pinned(3 * sizeof(float)));
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { release_pinned(data); }
  void set(const Values& values) {
    for (std::size_t i = 0; i < 3; ++i) data[i] = static_cast<float>(values[i]);
  }
};

constexpr std::size_t kSize = 3 * sizeof(float);

TEST(CudaGraph, DoesWhatWasCapturedAsOftenAsItIsLaunched) {
  const OwnStream stream;
  Pinned in, out;
  DeviceArray<float> total(Values{100, 200, 300}), x(Values{7, 7, 7});
  in.set({1, 2, 3});
  out.set({0, 0, 0});
  begin_capture(stream);
  EXPECT_TRUE(is_capturing(stream));
  copy_to_device(x.data(), in.data, kSize, stream);
  accumulate(stream, total.data(), x.data(), 3);
  copy_to_host(out.data, total.data(), kSize, stream);
  const OwnGraph graph(end_capture(stream));
  EXPECT_FALSE(is_capturing(stream));
  EXPECT_EQ(graph.graph.nodes, 3u);
  synchronize(stream);
  EXPECT_EQ(total.values(), (Values{100, 200, 300}));
  graph.run(stream);
  EXPECT_EQ(total.values(), (Values{101, 202, 303}));
  in.set({10, 20, 30});  // what lies there when it is launched counts
  graph.run(stream);
  EXPECT_EQ(total.values(), (Values{111, 222, 333}));
  EXPECT_TRUE(std::equal(out.data, out.data + 3, total.raw().begin()));
}

// The second doubles what the first has added, and the first takes what the second has made.
TEST(CudaGraph, TakesInStreamsThatWaitForOneOfItsOwn) {
  const OwnStream first, second;
  const OwnEvent fork, back;
  DeviceArray<float> one(Values{1, 2, 3}), a(Values{0, 0, 0}), b(Values{0, 0, 0});
  begin_capture(first);
  accumulate(first, a.data(), one.data(), 3);
  record(fork, first);
  wait(second, fork);
  EXPECT_TRUE(is_capturing(second));
  copy(b.data(), a.data(), kSize, second);
  accumulate(second, b.data(), a.data(), 3);
  record(back, second);
  wait(first, back);
  copy(a.data(), b.data(), kSize, first);
  const OwnGraph graph(end_capture(first));
  EXPECT_FALSE(is_capturing(second));
  EXPECT_EQ(graph.graph.nodes, 4u);
  graph.run(first);
  EXPECT_EQ(a.values(), (Values{2, 4, 6}));
  graph.run(second);
  EXPECT_EQ(a.values(), (Values{6, 12, 18}));
}

TEST(CudaGraph, ClearsAndTellsTheTimeInEachLaunch) {
  const OwnStream stream;
  const OwnEvent begin(true), end(true);
  DeviceArray<float> x(Values{1, 2, 3});
  begin_capture(stream);
  record_in_graph(begin, stream);
  clear(x.data(), kSize, stream);
  record_in_graph(end, stream);
  const OwnGraph graph(end_capture(stream));
  EXPECT_EQ(graph.graph.nodes, 3u);
  for (int launch = 0; launch < 2; ++launch) {
    graph.run(stream);
    EXPECT_GE(seconds_between(begin, end), 0.0);
    EXPECT_TRUE(is_done(end));
  }
  EXPECT_EQ(x.values(), (Values{0, 0, 0}));
}

TEST(CudaGraph, HoldsNothingThatTheHostWaitsFor) {
  const OwnStream stream;
  DeviceArray<float> x(Values{1, 2, 3});
  begin_capture(stream);
  clear(x.data(), kSize, stream);
  EXPECT_THROW(synchronize(stream), Failure);
  EXPECT_THROW((void)end_capture(stream), Failure);
  EXPECT_FALSE(is_capturing(stream));  // and work is done again
  accumulate(stream, x.data(), x.data(), 3);
  synchronize(stream);
  EXPECT_EQ(x.values(), (Values{2, 4, 6}));
}

TEST(CudaGraph, HoldsNothingThatWaitsForWhatIsOutside) {
  const OwnStream stream, outside;
  const OwnEvent event;
  record(event, outside);
  begin_capture(stream);
  EXPECT_THROW(wait(stream, event), Failure);
  EXPECT_THROW((void)end_capture(stream), Failure);
}

TEST(CudaGraph, NeedsEveryStreamBackInTheEnd) {
  const OwnStream first, second;
  const OwnEvent fork;
  DeviceArray<float> x(Values{1, 2, 3});
  begin_capture(first);
  record(fork, first);
  wait(second, fork);
  clear(x.data(), kSize, second);
  EXPECT_THROW((void)end_capture(first), Failure);
  EXPECT_FALSE(is_capturing(second));
  synchronize(second);
  EXPECT_EQ(x.values(), (Values{1, 2, 3}));
}

TEST(CudaGraph, IsForgottenWithItsCapture) {
  const OwnStream stream;
  DeviceArray<float> x(Values{1, 2, 3});
  begin_capture(stream);
  clear(x.data(), kSize, stream);
  abandon_capture(stream);
  EXPECT_FALSE(is_capturing(stream));
  synchronize(stream);
  EXPECT_EQ(x.values(), (Values{1, 2, 3}));
}

}  // namespace
}  // namespace meshwright::kernels::cuda::graph_test
