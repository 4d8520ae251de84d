// SPDX-License-Identifier: Apache-2.0
#include "executor/host/host_backend.h"

#include <cstring>
#include <vector>

#include "core/base/errors.h"
#include "executor/base/element_type.h"
#include "executor/host/communicator.h"
#include "executor/host/mailbox.h"

namespace meshwright {

namespace {

class HostDevice final : public Device {
 public:
  explicit HostDevice(HostOps ops) : ops_(ops) {}

  void* allocate(std::size_t size) override {
    void* data = host_storage().allocate(size);
    if (ops_.marks_memory) std::memset(data, 0xff, size);
    return data;
  }
  void release(void* data) noexcept override { host_storage().release(data); }
  void clear(void* data, std::size_t size) override { std::memset(data, 0, size); }
  void copy(void* to, const void* from, std::size_t size) override { std::memcpy(to, from, size); }
  void write(void* to, const void* host, std::size_t size) override { std::memcpy(to, host, size); }
  bool is_host() const override { return true; }
  void read(void* host, const void* from, std::size_t size) override { std::memcpy(host, from, size); }

  void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
              const OpMoment& moment) override {
    ops_.run_op(call, inputs, outputs, moment);
  }

  void run_attention_block(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                           std::span<void* const> outputs, const OpMoment& moment) override {
    ops_.run_attention_block(call, block, inputs, outputs, moment);
  }

  void copy_box(const BoxCopy& box) override {
    with_element_type(box.dtype, [&](auto zero) {
      using T = decltype(zero);
      kernels::copy_tile<T>(box.extent, static_cast<const T*>(box.from), box.from_strides, static_cast<T*>(box.to),
                            box.to_strides);
    });
  }

  void add_box(const BoxCopy& box) override {
    with_element_type(box.dtype, [&](auto zero) {
      using T = decltype(zero);
      kernels::add_tile<T>(box.extent, static_cast<const T*>(box.from), box.from_strides, static_cast<T*>(box.to),
                           box.to_strides);
    });
  }
  void reduce(DType stored, std::span<const void* const> parts, void* out, std::int64_t n,
              kernels::Reduction reduction) override {
    with_element_type(stored, [&](auto zero) {
      using T = decltype(zero);
      std::vector<const T*> of_type;
      for (const void* part : parts) of_type.push_back(static_cast<const T*>(part));
      kernels::reduce<T>(of_type, static_cast<T*>(out), n, reduction);
    });
  }
  Scratch& scratch() override { return scratch_; }

  void read_later(double* into, DType stored, const void* scalar) override {
    with_element_type(stored,
                      [&](auto zero) { *into = static_cast<double>(*static_cast<const decltype(zero)*>(scalar)); });
  }

  int mark() override {
    marks_.push_back(Clock::now());
    return static_cast<int>(marks_.size()) - 1;
  }
  void finish() override { finished_ = std::exchange(marks_, {}); }
  Clock::time_point time_of(int mark) const override { return finished_.at(static_cast<std::size_t>(mark)); }

 private:
  HostOps ops_;
  Scratch scratch_{host_storage()};
  std::vector<Clock::time_point> marks_, finished_;
};

class HostGroup final : public Group {
 public:
  HostGroup(int members, Abort& abort) : group_(members, abort) {}

  void all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) override {
    of_type(call, [&](auto* from, auto* to) { group_.all_reduce(call.member, from, to, n, reduction); });
  }
  void reduce_scatter(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, kernels::Reduction reduction,
                      std::int64_t padding) override {
    of_type(call, [&](auto* from, auto* to) {
      group_.reduce_scatter(call.member, from, to, outer, inner, reduction, padding);
    });
  }
  void all_gather(const CollectiveCall& call, std::int64_t outer, std::int64_t inner, std::int64_t padding) override {
    of_type(call, [&](auto* from, auto* to) { group_.all_gather(call.member, from, to, outer, inner, padding); });
  }
  void all_to_all(const CollectiveCall& call, std::span<const std::int64_t> in_shape, int split_dim,
                  int join_dim) override {
    of_type(call,
            [&](auto* from, auto* to) { group_.all_to_all(call.member, from, to, in_shape, split_dim, join_dim); });
  }
  void broadcast(const CollectiveCall& call, std::int64_t n, int root) override {
    of_type(call, [&](auto*, auto* values) { group_.broadcast(call.member, values, n, root); });
  }
  void pass_on(const CollectiveCall& call, std::int64_t n, Around way) override {
    const int from = previous_in_ring(call.member, group_.ranks(), way);
    of_type(call, [&](auto* in, auto* out) { group_.fetch(call.member, in, out, n, from); });
  }

 private:
  template <class Action>
  static void of_type(const CollectiveCall& call, Action action) {
    with_element_type(call.dtype, [&](auto zero) {
      action(static_cast<const decltype(zero)*>(call.in), static_cast<decltype(zero)*>(call.out));
    });
  }
  Communicator group_;
};

class HostMessages final : public Messages {
 public:
  explicit HostMessages(Abort& abort) : mailbox_(abort) {}

  void send(Device&, int transfer, DType stored, const void* array, const BoxView& box) override {
    with_element_type(stored,
                      [&](auto zero) { mailbox_.send(transfer, static_cast<const decltype(zero)*>(array), box); });
  }
  void receive(Device&, int transfer, DType stored, void* array, const BoxView& box, bool accumulate) override {
    with_element_type(
        stored, [&](auto zero) { mailbox_.receive(transfer, static_cast<decltype(zero)*>(array), box, accumulate); });
  }

 private:
  Mailbox mailbox_;
};

}  // namespace

HostOps host_ops(DType precision) {
  if (precision == DType::F64) return {run_op<double>, run_attention_block<double>, false};
  return {run_op<float>, run_attention_block<float>, false};
}

DType HostBackend::stored(DType type) const { return computed_type(type, precision_); }
std::unique_ptr<Device> HostBackend::make_device(DeviceId) { return std::make_unique<HostDevice>(ops_); }
std::shared_ptr<Group> HostBackend::make_group(const std::vector<DeviceId>& members, Abort& abort) {
  return std::make_shared<HostGroup>(static_cast<int>(members.size()), abort);
}
std::unique_ptr<Messages> HostBackend::make_messages(DeviceId, DeviceId, Abort& abort) {
  return std::make_unique<HostMessages>(abort);
}

}  // namespace meshwright
