// SPDX-License-Identifier: Apache-2.0
// Streams, events and captures of the processor that stands in for a GPU. Internal to kernels/cuda_on_cpu.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda::on_cpu {

struct Node {
  std::function<void()> work;
  std::vector<std::size_t> after;  // nodes that are done before it
};

struct StreamState;

struct Capture {
  StreamState* origin = nullptr;
  std::vector<StreamState*> streams;
  std::vector<Node> nodes;
  bool is_open = true;
  std::string fault;  // what was done that cannot be captured; everything else is then refused
};

struct StreamState {
  std::shared_ptr<Capture> capture;  // null: work is done at once
  std::vector<std::size_t> last;     // what the next node is done after
};

struct EventState {
  std::chrono::steady_clock::time_point at;
  std::shared_ptr<Capture> capture;  // in which it was recorded
  std::vector<std::size_t> after;    // what it stands for there
};

// Guards all of these.
[[nodiscard]] std::mutex& captures();
// Null: the default stream.
[[nodiscard]] inline StreamState* state_of(Stream stream) { return static_cast<StreamState*>(stream.handle); }
[[nodiscard]] inline EventState* state_of(Event event) { return static_cast<EventState*>(event.handle); }
// REQUIRES: captures() is held. The capture is lost.
[[noreturn]] void spoil(Capture& capture, const std::string& why);
// Throws Failure, and the capture is lost, where the stream is captured: `doing` is nothing that can be.
void expect_no_capture(Stream stream, const char* doing);

[[nodiscard]] bool is_pinned(const void* data, std::size_t size);

}  // namespace meshwright::kernels::cuda::on_cpu
