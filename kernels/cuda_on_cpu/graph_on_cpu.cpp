// SPDX-License-Identifier: Apache-2.0
// Captures and graphs on the processor. It refuses what CUDA refuses, and does a graph's nodes in an order that only
// its edges forbid to be another: of those that nothing is left to be waited for, the one captured last comes first.
#include "kernels/cuda/runtime/graph.h"

#include <algorithm>
#include <queue>

#include "kernels/cuda_on_cpu/capture.h"
#include "kernels/cuda_on_cpu/streams.h"
#include "kernels/cuda_on_cpu/threads.h"

namespace meshwright::kernels::cuda {

namespace on_cpu {

namespace {

struct GraphState {
  std::vector<Node> nodes;
  std::vector<std::size_t> order;
};

void expect_sound(const Capture& capture) {
  if (!capture.fault.empty()) throw Failure("the capture was lost before: " + capture.fault);
}

void close(Capture& capture) {
  capture.is_open = false;
  for (StreamState* stream : capture.streams) {
    stream->capture = nullptr;
    stream->last.clear();
  }
}

// How many nodes come before the given ones, these included.
// A capture that ends must reach all of its nodes from the stream that it ends on, as CUDA demands.
std::size_t reached_from(const std::vector<Node>& nodes, std::vector<std::size_t> open) {
  std::vector<bool> reached(nodes.size(), false);
  std::size_t count = 0;
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (reached[n]) continue;
    reached[n] = true;
    ++count;
    open.insert(open.end(), nodes[n].after.begin(), nodes[n].after.end());
  }
  return count;
}

// An order that the graph's edges allow, of all ready nodes the last first: not the order of the capture, so that a
// missing edge shows.
std::vector<std::size_t> order_of(const std::vector<Node>& nodes) {
  std::vector<std::vector<std::size_t>> before(nodes.size());
  std::vector<std::size_t> missing(nodes.size()), order;
  std::priority_queue<std::size_t> ready;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const std::size_t other : nodes[n].after) before[other].push_back(n);
    missing[n] = nodes[n].after.size();
    if (missing[n] == 0) ready.push(n);
  }
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t n : before[order.back()])
      if (--missing[n] == 0) ready.push(n);
  }
  return order;
}

}  // namespace

std::mutex& captures() {
  static std::mutex mutex;
  return mutex;
}

void spoil(Capture& capture, const std::string& why) {
  capture.fault = why;
  throw Failure(why);
}

void expect_no_capture(Stream stream, const char* doing) {
  if (stream.handle == nullptr) return;
  const std::lock_guard lock(captures());
  if (const auto& captured = state_of(stream)->capture; captured != nullptr)
    spoil(*captured, std::string(doing) + " while the stream is captured");
}

bool is_captured(Stream stream) {
  if (stream.handle == nullptr) return false;
  const std::lock_guard lock(captures());
  return state_of(stream)->capture != nullptr;
}

void capture(Stream stream, std::function<void()> work) {
  const std::lock_guard lock(captures());
  StreamState& own = *state_of(stream);
  expect_sound(*own.capture);
  std::sort(own.last.begin(), own.last.end());
  own.last.erase(std::unique(own.last.begin(), own.last.end()), own.last.end());
  own.capture->nodes.push_back({std::move(work), own.last});
  own.last = {own.capture->nodes.size() - 1};
}

}  // namespace on_cpu

using namespace on_cpu;

void begin_capture(Stream origin) {
  const std::lock_guard lock(captures());
  StreamState* own = state_of(origin);
  if (own == nullptr) throw Failure("the default stream cannot be captured");
  if (own->capture != nullptr) throw Failure("the stream is captured already");
  own->capture = std::make_shared<Capture>();
  own->capture->origin = own;
  own->capture->streams = {own};
}

bool is_capturing(Stream stream) { return is_captured(stream); }

Graph end_capture(Stream origin) {
  const std::lock_guard lock(captures());
  StreamState* own = state_of(origin);
  if (own == nullptr || own->capture == nullptr || own->capture->origin != own)
    throw Failure("no capture began on this stream");
  const std::shared_ptr<Capture> captured = own->capture;
  const std::vector<std::size_t> last = own->last;
  close(*captured);
  expect_sound(*captured);
  if (reached_from(captured->nodes, last) != captured->nodes.size())
    throw Failure("a stream has joined the capture, and its origin does not wait for it in the end");
  auto made = std::make_unique<GraphState>();
  made->nodes = std::move(captured->nodes);
  made->order = order_of(made->nodes);
  const std::size_t nodes = made->nodes.size();
  return {made.release(), nodes};
}

void abandon_capture(Stream origin) noexcept {
  const std::lock_guard lock(captures());
  StreamState* own = state_of(origin);
  if (own == nullptr || own->capture == nullptr) return;
  const std::shared_ptr<Capture> captured = own->capture;
  close(*captured);
}

void launch_graph(Graph graph, Stream stream) {
  expect_no_capture(stream, "launching a graph");
  const auto& made = *static_cast<const GraphState*>(graph.handle);
  for (const std::size_t n : made.order) made.nodes[n].work();
}

void destroy(Graph graph) noexcept { delete static_cast<GraphState*>(graph.handle); }

void record_in_graph(Event event, Stream stream) {
  if (!is_captured(stream)) throw Failure("an event is to be recorded in a graph, and the stream is not captured");
  on_cpu::capture(stream, [event] {
    const std::lock_guard lock(captures());
    *state_of(event) = {std::chrono::steady_clock::now(), nullptr, {}};
  });
}

// --- streams and events ---

Stream make_stream() { return {new StreamState}; }
void destroy(Stream stream) noexcept { delete state_of(stream); }
Event make_event(bool) { return {new EventState{std::chrono::steady_clock::now(), nullptr, {}}}; }
void destroy(Event event) noexcept { delete state_of(event); }

void record(Event event, Stream stream) {
  const std::lock_guard lock(captures());
  EventState& recorded = *state_of(event);
  recorded = {std::chrono::steady_clock::now(), nullptr, {}};
  if (const StreamState* own = state_of(stream); own != nullptr && own->capture != nullptr) {
    expect_sound(*own->capture);
    recorded.capture = own->capture;
    recorded.after = own->last;
  }
}

void wait(Stream stream, Event event) {
  const std::lock_guard lock(captures());
  StreamState* own = state_of(stream);
  const EventState& awaited = *state_of(event);
  const bool captured = own != nullptr && own->capture != nullptr;
  if (awaited.capture == nullptr) {
    if (captured)
      spoil(*own->capture, "a captured stream is to wait for an event that was recorded outside the capture");
    return;
  }
  if (!awaited.capture->is_open) throw Failure("a stream is to wait for an event of a capture that has ended");
  if (own == nullptr) throw Failure("the default stream cannot be captured");
  expect_sound(*awaited.capture);
  if (!captured) {
    own->capture = awaited.capture;
    own->capture->streams.push_back(own);
  } else if (own->capture != awaited.capture) {
    spoil(*own->capture, "a captured stream is to wait for an event of another capture");
  }
  own->last.insert(own->last.end(), awaited.after.begin(), awaited.after.end());
}

void synchronize(Stream stream) { expect_no_capture(stream, "waiting"); }

namespace {

const EventState& done(Event event) {
  const std::lock_guard lock(captures());
  const EventState& state = *state_of(event);
  if (state.capture == nullptr) return state;
  spoil(*state.capture, "the host is to wait for, or look at, an event that was recorded in a capture");
}

}  // namespace

void synchronize(Event event) { (void)done(event); }
bool is_done(Event event) {
  (void)done(event);
  return !on_cpu::is_stuck;
}
double seconds_between(Event begin, Event end) {
  return std::chrono::duration<double>(done(end).at - done(begin).at).count();
}

}  // namespace meshwright::kernels::cuda
