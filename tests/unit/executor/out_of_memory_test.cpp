// SPDX-License-Identifier: Apache-2.0
// What a run does on devices that have less memory than it asks for.
#include <gtest/gtest.h>

#include <map>

#include "core/base/errors.h"
#include "executor/executor.h"
#include "executor/host/host_backend.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::out_of_memory_test {
namespace {

// A thread whose storage ends at a number of bytes.
class SmallDevice final : public Device {
 public:
  SmallDevice(std::unique_ptr<Device> own, std::size_t most) : own_(std::move(own)), most_(most) {}

  void* allocate(std::size_t size) override {
    if (taken_ + size > most_) throw SystemError("the device is full");
    void* data = own_->allocate(size);
    taken_ += size_of_[data] = size;
    return data;
  }
  void release(void* data) noexcept override {
    taken_ -= size_of_[data];
    own_->release(data);
  }
  void clear(void* data, std::size_t size) override { own_->clear(data, size); }
  void copy(void* to, const void* from, std::size_t size) override { own_->copy(to, from, size); }
  void write(void* to, const void* host, std::size_t size) override { own_->write(to, host, size); }
  void read(void* host, const void* from, std::size_t size) override { own_->read(host, from, size); }
  void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
              const OpMoment& moment) override {
    own_->run_op(call, inputs, outputs, moment);
  }
  void copy_box(const BoxCopy& box) override { own_->copy_box(box); }
  void add_box(const BoxCopy& box) override { own_->add_box(box); }
  void reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
              kernels::Reduction reduction) override {
    own_->reduce(stored, parts, out, n, reduction);
  }
  Scratch& scratch() override { return own_->scratch(); }
  void read_later(double* into, DType stored, const void* scalar) override { own_->read_later(into, stored, scalar); }
  int mark() override { return own_->mark(); }
  void finish() override { own_->finish(); }
  Clock::time_point time_of(int mark) const override { return own_->time_of(mark); }

 private:
  std::unique_ptr<Device> own_;
  std::size_t most_, taken_ = 0;
  std::map<void*, std::size_t> size_of_;
};

class SmallBackend final : public Backend {
 public:
  explicit SmallBackend(Bytes most) : most_(static_cast<std::size_t>(most.si())) {}
  DType stored(DType type) const override { return host_.stored(type); }
  std::unique_ptr<Device> make_device(DeviceId device) override {
    return std::make_unique<SmallDevice>(host_.make_device(device), most_);
  }
  std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override {
    return host_.make_group(members, abort);
  }
  std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override {
    return host_.make_messages(from, to, abort);
  }

 private:
  HostBackend host_{DType::F32};
  std::size_t most_;
};

Planned plan_of_an_mlp() {
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:1", "data", 64, 4);
  request.training.dtype = DType::F32;
  return planned(request);
}

// What the pool keeps in sizes that nobody asks for any more is given back: the predicted peak is enough.
TEST(OutOfMemory, DoesNotComeBeforeThePeakThatWasPredicted) {
  const Planned planned = plan_of_an_mlp();
  const RunOptions options{.steps = 2};
  SmallBackend just_enough(planned.check.largest_peak() + Bytes(4096.0));
  const RunResult run = run_program(planned.graph, planned.program, planned.check, options, just_enough);
  EXPECT_EQ(run.losses, run_program(planned.graph, planned.program, planned.check, options).losses);
}

TEST(OutOfMemory, NamesTheTensorAndWhatIsHeld) {
  const Planned planned = plan_of_an_mlp();
  // The first matrix, of 64 x 256 numbers, takes 64 KiB, its bias 1 KiB; the next matrix has no room.
  SmallBackend small(Bytes(70.0 * 1024));
  try {
    (void)run_program(planned.graph, planned.program, planned.check, {}, small);
    ADD_FAILURE();
  } catch (const SystemError& error) {
    EXPECT_STREQ(
        error.what(),
        "device 0 failed: no memory for 'blk0.down.weight' (64.0 KiB), with 65.0 KiB held: the device is full");
  }
}

}  // namespace
}  // namespace meshwright::out_of_memory_test
