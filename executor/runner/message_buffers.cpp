// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/message_buffers.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <span>
#include <unordered_map>

namespace meshwright {

namespace {

// Runs the lists, each device as far as what it receives lets it, and keeps of each what it knows of the others: how
// many instructions they have behind them (a vector clock).
class Follower {
 public:
  Follower(const Program& program, const StoredType& stored, const FoldedDevices* folded)
      : program_(program), stored_(stored), folded_(folded), slot_of_(program.devices.size(), kNone) {}

  std::vector<MessageBuffers::Channel> run(const std::vector<DeviceId>& senders) {
    find_devices(senders);
    note_receipts();
    sent_.resize(program_.transfers.size());
    known_.resize(program_.transfers.size());
    followed_.resize(devices_.size());
    for (Followed& one : followed_) one.clock.assign(devices_.size(), 0);
    for (std::size_t s = 0; s < devices_.size(); ++s) ready_.push_back(static_cast<int>(s));
    while (!ready_.empty()) {
      const int slot = ready_.front();
      ready_.pop_front();
      go_on(slot);
    }
    std::vector<MessageBuffers::Channel> channels;
    for (const auto& [ends, channel] : channels_) channels.push_back(channel.told);
    return channels;
  }

 private:
  static constexpr int kNone = -1;
  using List = std::vector<Instruction>;
  using Clock = std::vector<std::int32_t>;  // [slot] instructions
  struct Followed {
    std::size_t next = 0;
    bool sent = false;  // what the next one sends
    Clock clock;
  };
  struct Receipt {
    int message, slot;
    std::int32_t at;  // instruction
  };
  struct Known {
    std::shared_ptr<const Clock> clock;
    std::size_t receipts = 0;  // still to come
  };
  struct Under {
    MessageBuffers::Channel told;
    std::int64_t never = 0;  // of which nobody hears that they were fetched
    std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> under_way;  // by the Receipt
  };

  [[nodiscard]] DeviceId stand_in(DeviceId device) const {
    return folded_ == nullptr ? device : folded_->representative[device.index()];
  }
  [[nodiscard]] int message_of(int transfer) const {
    return folded_ == nullptr ? transfer : folded_->message[static_cast<std::size_t>(transfer)];
  }
  [[nodiscard]] const Transfer& transfer(int number) const {
    return program_.transfers[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] const List& list(int slot) const {
    return program_.devices[devices_[static_cast<std::size_t>(slot)].index()];
  }
  [[nodiscard]] static bool waits(const Instruction& instruction) {
    return instruction.waits || instruction.kind == Instruction::Kind::Await;
  }
  // The senders, those they exchange with, and so on, the nearest first.
  void find_devices(const std::vector<DeviceId>& senders) {
    const auto add = [&](DeviceId any) {
      const DeviceId device = stand_in(any);
      if (slot_of_[device.index()] != kNone || program_.devices[device.index()].empty() ||
          devices_.size() == MessageBuffers::kMaxDevices)
        return;
      slot_of_[device.index()] = static_cast<int>(devices_.size());
      devices_.push_back(device);
    };
    for (const DeviceId sender : senders) add(sender);
    for (std::size_t s = 0; s < devices_.size(); ++s)
      for (const Instruction& instruction : list(static_cast<int>(s))) {
        for (const int number : instruction.sends) add(transfer(number).destination);
        for (const int number : instruction.receives) add(transfer(number).source);
      }
  }

  void note_receipts() {
    for (int slot = 0; slot < static_cast<int>(devices_.size()); ++slot)
      for (std::size_t i = 0; i < list(slot).size(); ++i)
        if (waits(list(slot)[i]))
          for (const int number : list(slot)[i].receives)
            receipts_.push_back({message_of(number), slot, static_cast<std::int32_t>(i)});
    // By message, and within one as they were found: by slot, then by instruction.
    first_receipt_.assign(program_.transfers.size() + 1, 0);
    for (const Receipt& of : receipts_) ++first_receipt_[static_cast<std::size_t>(of.message) + 1];
    std::partial_sum(first_receipt_.begin(), first_receipt_.end(), first_receipt_.begin());
    std::vector<Receipt> sorted(receipts_.size());
    std::vector<std::size_t> next(first_receipt_.begin(), std::prev(first_receipt_.end()));
    for (const Receipt& of : receipts_) sorted[next[static_cast<std::size_t>(of.message)]++] = of;
    receipts_ = std::move(sorted);
  }
  [[nodiscard]] std::span<const Receipt> receipts_of(int message) const {
    const auto m = static_cast<std::size_t>(message);
    return std::span(receipts_).subspan(first_receipt_[m], first_receipt_[m + 1] - first_receipt_[m]);
  }
  // The last of a message, where several alike ones come.
  [[nodiscard]] const Receipt* receipt_of(int message, int slot) const {
    const Receipt* last = nullptr;
    for (const Receipt& of : receipts_of(message))
      if (of.slot == slot) last = &of;
    return last;
  }

  void go_on(int slot) {
    Followed& own = followed_[static_cast<std::size_t>(slot)];
    for (; own.next < list(slot).size(); ++own.next, own.sent = false) {
      const Instruction& instruction = list(slot)[own.next];
      if (!own.sent && !instruction.sends.empty()) send(slot, instruction);
      own.sent = true;
      if (!instruction.receives.empty() && waits(instruction) && !receive(slot, instruction)) return;
      own.clock[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(own.next) + 1;
    }
  }

  void send(int slot, const Instruction& instruction) {
    const Clock& clock = followed_[static_cast<std::size_t>(slot)].clock;
    const auto known = std::make_shared<const Clock>(clock);
    for (const int number : instruction.sends) {
      const Transfer& of = transfer(number);
      const int message = message_of(number);
      Under& channel = channels_[{devices_[static_cast<std::size_t>(slot)], of.destination}];
      channel.told.from = devices_[static_cast<std::size_t>(slot)];
      channel.told.to = of.destination;
      const int to = slot_of_[stand_in(of.destination).index()];
      const Receipt* receipt = to == kNone ? nullptr : receipt_of(message, to);
      auto& under_way = channel.under_way;
      while (to != kNone && !under_way.empty() && under_way.top() < clock[static_cast<std::size_t>(to)])
        under_way.pop();
      if (receipt != nullptr)
        under_way.push(receipt->at);
      else
        ++channel.never;
      channel.told.most = std::max(channel.told.most, channel.never + static_cast<std::int64_t>(under_way.size()));
      channel.told.largest = std::max(channel.told.largest, message_bytes(program_, of, stored_));
      if (sent_[static_cast<std::size_t>(message)]) continue;
      sent_[static_cast<std::size_t>(message)] = true;
      if (const std::size_t receipts = receipts_of(message).size(); receipts > 0)
        known_[static_cast<std::size_t>(message)] = {known, receipts};
      if (const auto waiting = waiting_.find(message); waiting != waiting_.end()) {
        for (const int other : waiting->second) ready_.push_back(other);
        waiting_.erase(waiting);
      }
    }
  }

  // False: it waits for a message.
  bool receive(int slot, const Instruction& instruction) {
    for (const int number : instruction.receives) {
      const int message = message_of(number);
      if (sent_[static_cast<std::size_t>(message)] || !comes(message)) continue;
      waiting_[message].push_back(slot);
      return false;
    }
    Clock& clock = followed_[static_cast<std::size_t>(slot)].clock;
    for (const int number : instruction.receives) {
      Known& known = known_[static_cast<std::size_t>(message_of(number))];
      if (!known.clock) continue;
      for (std::size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], (*known.clock)[s]);
      if (--known.receipts == 0) known.clock.reset();
    }
    return true;
  }
  // From a device that is followed.
  [[nodiscard]] bool comes(int message) const { return slot_of_[stand_in(transfer(message).source).index()] != kNone; }

  const Program& program_;
  const StoredType& stored_;
  const FoldedDevices* folded_;
  std::vector<int> slot_of_;                           // [device]
  std::vector<DeviceId> devices_;                      // [slot]
  std::vector<Receipt> receipts_;                      // by message
  std::vector<std::size_t> first_receipt_;             // [message]
  std::vector<Followed> followed_;                     // [slot]
  std::vector<bool> sent_;                             // [message]
  std::vector<Known> known_;                           // [message] what its sender knew, until all have received it
  std::unordered_map<int, std::vector<int>> waiting_;  // message -> slots
  std::deque<int> ready_;
  std::map<std::pair<DeviceId, DeviceId>, Under> channels_;
};

}  // namespace

double in_pages(double bytes) {
  if (bytes < 0.5 * kGpuPage.si()) return bytes;
  return std::ceil(bytes / kGpuPage.si()) * kGpuPage.si();
}

double message_bytes(const Program& program, const Transfer& transfer, const StoredType& stored) {
  double elements = 1.0;
  for (const std::int64_t extent : transfer.extent) elements *= static_cast<double>(extent);
  return elements * size_of(stored(program.buffers[transfer.source_buffer.index()].local.dtype));
}

MessageBuffers::MessageBuffers(const Program& program, const std::vector<DeviceId>& senders, const StoredType& stored,
                               const FoldedDevices* folded)
    : channels_(Follower(program, stored, folded).run(senders)) {}

Bytes MessageBuffers::of(DeviceId sender) const {
  double all = 0.0;
  for (const Channel& channel : channels_)
    if (channel.from == sender) all += static_cast<double>(channel.most) * in_pages(channel.largest);
  return Bytes(all);
}

}  // namespace meshwright
