// SPDX-License-Identifier: Apache-2.0
// Attention whose keys and values travel around a ring of n devices (H. Liu et al., Ring Attention with Blockwise
// Transformers, 2023), member m beginning with block m. A device has two places for each of them, one for the block
// that it works on and one for the next; its own block is in the first place before and, where it is read again, after.
//
//   forward    n - 1 steps forwards: at step s member m works on block m - s
//   backward   the same once more for the sums of each row of scores, which nobody keeps from the forward; then member
//              m has block m + 1, and n - 1 steps backwards, with the blocks' gradients, bring every block home
#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "executor/runner/device_runner.h"

namespace meshwright {

namespace {

using AttendPass = AttentionBlock::Pass;

// Two places of `elements` each, one after the other.
class TravellingBlock {
 public:
  TravellingBlock(void* places, std::int64_t elements, DType dtype)
      : places_(static_cast<std::byte*>(places)), elements_(elements), dtype_(dtype) {}
  [[nodiscard]] void* data() const { return place(now_); }
  void clear(Device& device) const { device.clear(data(), size()); }
  void pass_on(Group& group, int member, Device& device, Around way) {
    group.pass_on({member, device, dtype_, place(now_), place(1 - now_)}, elements_, way);
    now_ = 1 - now_;
  }
  void settle(Device& device) {
    if (now_ == 1) device.copy(place(0), place(1), size());
    now_ = 0;
  }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(elements_ * size_of(dtype_)); }
  [[nodiscard]] std::byte* place(int which) const { return places_ + static_cast<std::size_t>(which) * size(); }
  std::byte* places_;
  std::int64_t elements_;
  DType dtype_;
  int now_ = 0;
};

// One device's part in the attention of a ring.
class RingAttention {
 public:
  RingAttention(const OpCallPlan& call, const OpMoment& moment, Group& group, int member, int members, Device& device,
                void* rows)
      : call_(call),
        moment_(moment),
        group_(group),
        member_(member),
        members_(members),
        device_(device),
        rows_(rows),
        keys_(call.sizes[static_cast<std::size_t>(call.space.inputs[1][1])] / members) {}

  void forward(std::vector<void*> inputs, const std::vector<void*>& outputs, std::vector<TravellingBlock>& operands,
               bool again) const {
    travel_forwards(AttendPass::Attend, inputs, outputs, operands);
    if (!again) return;
    pass_on(operands, Around::Forwards);
    settle(operands);
  }

  void backward(std::vector<void*> inputs, std::vector<void*> outputs, std::vector<TravellingBlock>& operands,
                std::vector<TravellingBlock>& gradients) const {
    travel_forwards(AttendPass::Measure, inputs, outputs, operands);
    for (const TravellingBlock& gradient : gradients) gradient.clear(device_);
    for (int step = 0; step < members_; ++step) {
      if (step > 0) {
        pass_on(operands, Around::Backwards);
        pass_on(gradients, Around::Backwards);
      }
      set(inputs, operands);
      set(outputs, gradients);
      work(AttendPass::Differentiate, (member_ + 1 + step) % members_, step, inputs, outputs);
    }
    settle(operands);
    settle(gradients);
  }

 private:
  void travel_forwards(AttendPass pass, std::vector<void*>& inputs, const std::vector<void*>& outputs,
                       std::vector<TravellingBlock>& operands) const {
    for (int step = 0; step < members_; ++step) {
      if (step > 0) pass_on(operands, Around::Forwards);
      set(inputs, operands);
      work(pass, (member_ + members_ - step) % members_, step, inputs, outputs);
    }
  }
  void work(AttendPass pass, int block, int step, const std::vector<void*>& inputs,
            const std::vector<void*>& outputs) const {
    device_.run_attention_block(call_, {pass, block * keys_, keys_, step == 0, step + 1 == members_, rows_}, inputs,
                                outputs, moment_);
  }
  // Keys and values are operands 1 and 2, of one tensor where the graph reads one as both.
  static void set(std::vector<void*>& pointers, const std::vector<TravellingBlock>& blocks) {
    pointers[1] = blocks.front().data();
    pointers[2] = blocks.back().data();
  }
  void pass_on(std::vector<TravellingBlock>& blocks, Around way) const {
    for (TravellingBlock& block : blocks) block.pass_on(group_, member_, device_, way);
  }
  void settle(std::vector<TravellingBlock>& blocks) const {
    for (TravellingBlock& block : blocks) block.settle(device_);
  }

  const OpCallPlan& call_;
  const OpMoment& moment_;
  Group& group_;
  const int member_, members_;
  Device& device_;
  void* rows_;
  const std::int64_t keys_;  // of a block
};

}  // namespace

void DeviceRunner::attend_in_ring(const StageExecutable& executable, const LocalOp& op, const PreparedOp& prepared,
                                  const OpMoment& moment) {
  const Place& place = place_in(executable.stage);
  const int axis = prepared.ring.value();
  const int members = program_.stages[executable.stage.index()].mesh.axes[static_cast<std::size_t>(axis)].size();
  const auto blocks = [&](const std::vector<int>& slots) {
    std::vector<TravellingBlock> found;
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      if (i == 2 && root(slots[1]) == root(slots[2])) continue;
      const LocalTensor& local = local_of(executable, slots[i]);
      MW_CHECK(local.elements() % 2 == 0, "'{}' has no two blocks", context_.graph.tensor(local.tensor).name);
      found.emplace_back(data(slots[i]), local.elements() / 2, context_.backend.stored(local.dtype));
    }
    return found;
  };
  const OpCallPlan& call = *prepared.call;
  const DType type = context_.backend.stored(call.input_dtypes[0]);
  const Scratch::Taken rows(backend_->scratch(), static_cast<std::size_t>(attention_row_sums(call) * size_of(type)));
  const RingAttention ring(call, moment, *context_.groups[executable.stage][axis][place.rank],
                           place.coordinates[static_cast<std::size_t>(axis)], members, *backend_, rows.data());
  std::vector<TravellingBlock> operands = blocks(op.inputs);
  if (call.kind == OpKind::GroupedAttention) return ring.forward(inputs_, outputs_, operands, !prepared.last_of_ring);
  std::vector<TravellingBlock> gradients = blocks(op.outputs);
  ring.backward(inputs_, outputs_, operands, gradients);
}

}  // namespace meshwright
