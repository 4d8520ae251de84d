// SPDX-License-Identifier: Apache-2.0
// DeviceRunner's part in capturing a step once and replaying it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/errors.h"
#include "core/base/parallel.h"
#include "executor/runner/device_runner.h"

namespace meshwright {

namespace {
constexpr std::size_t kCopiedPart = std::size_t{4} << 20;  // bytes that a thread of the host copies at once
}

std::vector<void*> DeviceRunner::addresses() const {
  std::vector<void*> all;
  for (const std::vector<Value>& of_buffer : values_)
    for (const Value& value : of_buffer) all.push_back(value.block ? value.block->data : nullptr);
  return all;
}

// Capturing does no work, so the host's view of the device must not change either: after the step every value must be
// at the address where it was before. A captured step that allocated memory cannot be replayed: the memory it uses may
// have been released, and given to other values, before the step ends.
bool DeviceRunner::capture_step(StepReplayer& replayer, int number) {
  const std::vector<void*> before = addresses();
  const std::int64_t changes = pool_.changes() + host_pool_.changes();
  captured_inputs_.clear();
  record_ = true;
  replayer_ = &replayer;
  replayer.capture(number, *backend_, [this] { issue(); });
  replayer_ = nullptr;
  captured_spans_ = std::exchange(marked_, {});
  if (addresses() != before) throw SystemError("a step moved values to other addresses, so it cannot be replayed");
  return pool_.changes() + host_pool_.changes() == changes;
}

void DeviceRunner::capture_input(const Input& input, void* to) {
  const auto size =
      static_cast<std::size_t>(input.local->elements() * size_of(context_.backend.stored(input.local->dtype)));
  captured_inputs_.push_back({input, replayer_->feed(*backend_, to, size), {}});
}

void DeviceRunner::make_captured_inputs(int step) {
  for (CapturedInput& captured : captured_inputs_) make_input(captured.input, step, captured.next);
  made_inputs_of_ = step;
}

// The host computes the next step's inputs while the device runs this step.
void DeviceRunner::replay_step(StepReplayer& replayer, int number, const StepTurn& turn) {
  const int step = step_ = turn.step;
  if (made_inputs_of_ != step) make_captured_inputs(step);
  for (const CapturedInput& captured : captured_inputs_) {
    const std::size_t size = captured.next.size();
    for_each_index((size + kCopiedPart - 1) / kCopiedPart, host_threads(), [&](std::size_t part) {
      const std::size_t begin = part * kCopiedPart;
      std::memcpy(static_cast<std::byte*>(captured.host) + begin, captured.next.data() + begin,
                  std::min(kCopiedPart, size - begin));
    });
  }
  replayer.replay(number, *backend_, context_.options.first_step + step + 1, turn.recorded);
  // After replay(), which only queues work: the device computes in the meantime.
  if (!turn.last) make_captured_inputs(step + 1);
  if (turn.recorded) marked_ = captured_spans_;
  complete();
}

}  // namespace meshwright
