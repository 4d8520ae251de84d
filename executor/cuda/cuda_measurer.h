// SPDX-License-Identifier: Apache-2.0
// Measures GPUs. Tensors have, and are computed in, the types that the graph gives them.
//
// An op is timed on one otherwise idle GPU: every repetition by itself, between two events on its stream, after a
// buffer of twice the L2's size was written. So operands come from memory, as they mostly do in training, also those of
// small ops, which would otherwise stay in the L2; a write-back of that buffer may fall into the op's time. Operands
// that one of the two ops before it in the graph makes, and that fit in the L2, are written again after that buffer: in
// a step they are still there. While all this is written the host runs ahead, so a short op's time contains none of the
// host's. The first runs, in which products choose their algorithm, are not counted.
//
// A BiasAdd, the Gelu or Relu after it, an Add or an Accumulate that the device does together with the Contract right
// before it in the graph (OpCallPlan::only_next_reads, CudaTogether) is measured as what it adds: the median time of
// the Contract and what follows up to this op, less that of the same without it, 0 at least; the two take turns, and
// the operands of all of them have to fit. The Contract's shard has the op's local sizes along the axes that they share
// and is whole along the others. Where a plan splits these, a collective stands between them, nothing is done together,
// and the figure is too small by one pass over the tensor. One figure stands for all ops of its signature, whichever
// product they follow; where some of them follow none, it is the mean of both times, as often as the graph has either.
// Where the library turns down what the device holds, the difference is the time of the op by itself, on what the
// product has left in the L2. So are a norm right after the residual sum that it reads, and the sum that takes what a
// norm's derivative leaves: what they add to the sum and to the derivative.
//
// Updates are measured one by one, each with a launch of its own. A step does those of many tensors in one launch: of
// small tensors, each then takes less than is said here; of large ones, for which a launch is short, about as long.
//
// Collectives and messages are those of CudaGroup and CudaMessages, in F32, one after the other without such a buffer,
// several in a CUDA graph that is replayed, as steps are: no thread of the host stands between them. A sample is the
// time of the device that took longest.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "executor/cuda/cuda_backend.h"
#include "executor/measure/measurer.h"
#include "executor/measure/measuring.h"

namespace meshwright {

class CudaDevice;
class CudaStepGraph;

struct ReleaseOnDevice {
  void operator()(void* data) const noexcept { kernels::cuda::release(data); }
};
using DeviceMemory = std::unique_ptr<void, ReleaseOnDevice>;

// The operands of an op in the memory of a device, as the graph's types say.
class CudaOperandMemory final : public OperandMemory {
 public:
  explicit CudaOperandMemory(CudaDevice& device) : device_(device) {}
  [[nodiscard]] void* make_numbers(DType type, std::int64_t elements, std::uint64_t key, Range range) override;
  [[nodiscard]] void* make_integers(const std::vector<std::int32_t>& integers) override;

 private:
  [[nodiscard]] void* allocate(DType type, std::int64_t elements);
  CudaDevice& device_;
  std::vector<DeviceMemory> owned_;
};

class CudaMeasurer final : public Measurer {
 public:
  // `devices`: logical devices, spread over the GPUs as CudaBackend does; if there are more of them than GPUs, messages
  // are measured between devices that share a GPU. Ops are measured on the first device. `choices`: algorithms of
  // products on these GPUs; for a product without a choice the fastest is searched before it is measured, and added.
  // Null: products take the library's first proposal. All functions throw SystemError where CUDA fails.
  CudaMeasurer(int gpus, int devices, std::shared_ptr<kernels::cuda::ProductChoices> choices = nullptr);
  ~CudaMeasurer() override;

  [[nodiscard]] std::optional<MeasuredTime> measure_op(const Graph& graph, const Op& op,
                                                       const std::vector<std::int64_t>& local_sizes,
                                                       const MeasureOptions& options) override;
  [[nodiscard]] MeasuredTime measure_collective(CollectiveKind kind, std::int64_t size_bytes, int ranks,
                                                const MeasureOptions& options) override;
  [[nodiscard]] MeasuredTime measure_transfer(std::int64_t size_bytes, const MeasureOptions& options) override;
  [[nodiscard]] MeasuredTime measure_run_overhead(const MeasureOptions& options) override;
  [[nodiscard]] std::optional<MeasuredTime> measure_launch(const MeasureOptions& options) override;
  [[nodiscard]] std::optional<BytesPerSecond> measure_copy() override;

  // One: GPUs share neither memory nor clocks.
  [[nodiscard]] int concurrency() const override { return 1; }
  [[nodiscard]] Bytes memory_for_operands() const override;

  // "NVIDIA H200, 132 multiprocessors".
  [[nodiscard]] std::string describe_device() const override;
  // Includes the driver's version and, if the driver reports it, the first GPU's clock at the beginning and now.
  [[nodiscard]] std::string describe_libraries() const override;

 private:
  class Interval;
  [[nodiscard]] CudaDevice& device(int number);  // made on first use, by one thread at a time
  void forget_devices();
  [[nodiscard]] std::size_t flushed_size() const;
  // Memory that ops just before would have left in the L2.
  struct Recent {
    void* data;
    std::size_t size;
  };
  // Times each repetition of one or two bodies, as described above. Two bodies take turns.
  [[nodiscard]] std::vector<MeasuredTime> time_each(CudaDevice& device,
                                                    const std::vector<std::function<void()>>& bodies,
                                                    const std::vector<Recent>& recent, const MeasureOptions& options);
  // Times repetitions of the work that `body` queues on a device, without a pause between them.
  [[nodiscard]] MeasuredThreads::Timed time_queued(CudaDevice& device, std::function<void()> body) const;
  // The same of work that devices do together, captured in a graph. `number`: the device's among them.
  [[nodiscard]] MeasuredThreads::Timed time_replayed(std::shared_ptr<CudaStepGraph> graph, int number,
                                                     CudaDevice& device, std::function<void()> body) const;

  CudaBackend backend_;
  std::string device_name_, libraries_;
  std::string clocks_;  // of the first GPU when the measurer was made
  std::size_t l2_;      // bytes
  std::vector<std::unique_ptr<Device>> devices_;
  DeviceMemory flushed_;
  std::vector<std::unique_ptr<Interval>> intervals_;
};

}  // namespace meshwright
