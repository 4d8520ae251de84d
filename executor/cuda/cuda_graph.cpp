// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_graph.h"

#include <fmt/format.h>

#include <utility>

namespace meshwright {

namespace cuda = kernels::cuda;

CudaStepGraph::CudaStepGraph(int devices, Abort& abort)
    : events_(static_cast<std::size_t>(devices)), together_(devices, abort) {}

CudaStepGraph::~CudaStepGraph() {
  if (origin_.handle != nullptr) cuda::abandon_capture(origin_);
  drop_graph();
  for (const cuda::Event event : events_)
    if (event.handle != nullptr) cuda::destroy(event);
}

void CudaStepGraph::drop_graph() noexcept { cuda::destroy(std::exchange(graph_, {})); }

void CudaStepGraph::capture(int number, Device& any, const std::function<void()>& issue) {
  CudaDevice& device = on_cuda(any);
  const cuda::Stream stream = device.stream();
  device.use();
  if (event_of(number).handle == nullptr) event_of(number) = cuda::make_event(false);
  device.settle();
  together_.arrive_and_wait();
  // CUDA captures from one stream on; streams of other devices join by waiting for an event of the origin, and must be
  // joined back before the capture ends.
  if (number == 0) {
    drop_graph();
    origin_ = stream;
    cuda::begin_capture(stream);
    cuda::record(event_of(0), stream);
  }
  together_.arrive_and_wait();
  {
    // One device at a time issues its step: the order of nodes is then that of the turns, not of threads. A device that
    // waits for another one gives up its turn (let_others).
    std::unique_lock turn(turn_);
    if (number != 0) cuda::wait(stream, event_of(0));
    device.begin_capture(turn);
    issue();
    device.end_capture();
    if (number != 0) cuda::record(event_of(number), stream);
  }
  together_.arrive_and_wait();
  if (number == 0) {
    for (int other = 1; other < events_.count(); ++other) cuda::wait(stream, events_[other]);
    graph_ = cuda::end_capture(stream);
  }
  together_.arrive_and_wait();
}

void* CudaStepGraph::feed(Device& any, void* to, std::size_t size) { return on_cuda(any).feed(to, size); }

void CudaStepGraph::replay(int number, Device& any, std::int64_t step, bool with_marks) {
  CudaDevice& device = on_cuda(any);
  device.expect_replay(step, with_marks);
  together_.arrive_and_wait();  // all inputs are there
  if (number == 0) {
    cuda::launch_graph(graph_, device.stream());
    cuda::record(event_of(0), device.stream());
  }
  together_.arrive_and_wait();
  // What the other devices queue next must come after the whole graph, which runs on the first device's stream.
  if (number != 0) cuda::wait(device.stream(), event_of(0));
}

std::string CudaStepGraph::description() const { return fmt::format("a CUDA graph of {} nodes", graph_.nodes); }

}  // namespace meshwright
