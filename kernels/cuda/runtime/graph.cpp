// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/graph.h"

#include "kernels/cuda/runtime/failures.h"

namespace meshwright::kernels::cuda {

namespace {

cudaStream_t of(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

// What was captured; its executable form does not need it.
class Captured {
 public:
  explicit Captured(cudaGraph_t graph) : graph_(graph) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    if (cudaGraphDestroy(graph_) != cudaSuccess) (void)cudaGetLastError();
  }
  [[nodiscard]] cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_;
};

}  // namespace

void begin_capture(Stream origin) {
  check(cudaStreamBeginCapture(of(origin), cudaStreamCaptureModeRelaxed), "beginning a capture");
}

bool is_capturing(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(of(stream), &status), "asking whether a stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

Graph end_capture(Stream origin) {
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(of(origin), &captured), "capturing work as a graph");
  const Captured graph(captured);
  Graph made;
  check(cudaGraphGetNodes(graph.get(), nullptr, &made.nodes), "counting the nodes of a graph");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph.get(), 0), "making a graph of ", made.nodes, " nodes executable");
  made.handle = executable;
  // So that the first launch takes no longer than the next.
  const cudaError_t error = cudaGraphUpload(executable, of(origin));
  if (error != cudaSuccess) destroy(made);
  check(error, "bringing a graph of ", made.nodes, " nodes to the device");
  return made;
}

void abandon_capture(Stream origin) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t captured = nullptr;
  if (cudaStreamIsCapturing(of(origin), &status) == cudaSuccess && status != cudaStreamCaptureStatusNone)
    (void)cudaStreamEndCapture(of(origin), &captured);
  if (captured != nullptr) (void)cudaGraphDestroy(captured);
  (void)cudaGetLastError();
}

void launch_graph(Graph graph, Stream stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.handle), of(stream)), "launching a graph of ", graph.nodes,
        " nodes");
}

void destroy(Graph graph) noexcept {
  if (graph.handle != nullptr && cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph.handle)) != cudaSuccess)
    (void)cudaGetLastError();
}

void record_in_graph(Event event, Stream stream) {
  check(cudaEventRecordWithFlags(static_cast<cudaEvent_t>(event.handle), of(stream), cudaEventRecordExternal),
        "recording an event in a graph");
}

}  // namespace meshwright::kernels::cuda
