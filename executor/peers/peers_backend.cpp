// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/peers_backend.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "executor/device/step_replayer.h"
#include "executor/peers/composite_group.h"
#include "executor/peers/peer_tags.h"
#include "executor/peers/peers_across.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

namespace {

// Messages between a device of this process and one of another. The number of a transfer belongs to one channel, so it
// is enough to tell messages apart.
class PeersMessages final : public Messages {
 public:
  PeersMessages(Peers& peers, int process, const Abort& abort) : peers_(peers), process_(process), abort_(abort) {}

  void send(Device& device, int transfer, DType stored, const void* array, const BoxView& box) override {
    std::vector<std::byte> data(bytes_of(box, stored));
    const OfArray of(array, stored, box);
    if (device.is_host()) {
      device.copy_box({stored, box.extent, of.first, of.strides, data.data(), of.packed});
    } else {
      // Boxes are packed on the device: one copy to the host in the place of one for each row.
      const Scratch::Taken packed(device.scratch(), data.size());
      device.copy_box({stored, box.extent, of.first, of.strides, packed.data(), of.packed});
      device.read(data.data(), packed.data(), data.size());
    }
    peers_.send(process_, tag(transfer), std::move(data));
  }

  void receive(Device& device, int transfer, DType stored, void* array, const BoxView& box, bool accumulate) override {
    const std::vector<std::byte> data = peers_.receive(process_, tag(transfer), abort_);
    MW_CHECK(data.size() == bytes_of(box, stored), "transfer {} brought {} bytes, expected {}", transfer, data.size(),
             bytes_of(box, stored));
    std::optional<Scratch::Taken> on_device;
    if (!device.is_host()) {
      on_device.emplace(device.scratch(), data.size());
      device.write(on_device->data(), data.data(), data.size());
    }
    const std::byte* packed = on_device ? on_device->data() : data.data();
    const OfArray of(array, stored, box);
    void* first = static_cast<std::byte*>(array) + of.begin;
    if (accumulate)
      device.add_box({stored, box.extent, packed, of.packed, first, of.strides});
    else
      device.copy_box({stored, box.extent, packed, of.packed, first, of.strides});
  }

 private:
  // The place and the strides of a box in an array, and its strides in a message, where it is packed.
  struct OfArray {
    OfArray(const void* array, DType stored, const BoxView& box)
        : strides(kernels::row_major_strides(box.shape)),
          packed(kernels::row_major_strides(box.extent)),
          begin(static_cast<std::size_t>(box.first(strides) * size_of(stored))),
          first(static_cast<const std::byte*>(array) + begin) {}
    std::vector<std::int64_t> strides, packed;
    std::size_t begin;  // in bytes
    const std::byte* first;
  };
  static std::size_t bytes_of(const BoxView& box, DType stored) {
    return static_cast<std::size_t>(box.elements() * size_of(stored));
  }
  static std::uint64_t tag(int transfer) { return peer_tag(PeerTag::Message, static_cast<std::uint64_t>(transfer)); }

  Peers& peers_;
  const int process_;  // the other one
  const Abort& abort_;
};

}  // namespace

PeersBackend::PeersBackend(Backend& local, Peers& peers, int devices)
    : local_(local), peers_(peers), devices_(devices) {
  require(devices >= peers.size(), "{} processes are too many for {} device{}; start at most one for each device.",
          peers.size(), devices, devices == 1 ? "" : "s");
}

int PeersBackend::process_of(DeviceId device) const {
  // Runs of neighbouring devices, as equal as they can be.
  return static_cast<int>(std::int64_t{device.value} * peers_.size() / devices_);
}

std::unique_ptr<Device> PeersBackend::make_device(DeviceId device) {
  MW_CHECK(runs_here(device), "device {} does not run in process {}", device.value, peers_.rank());
  return local_.make_device(device);
}

std::shared_ptr<Group> PeersBackend::make_group(const std::vector<DeviceId>& members, Abort& abort) {
  std::vector<int> places;  // [member]
  for (const DeviceId member : members) places.push_back(process_of(member));
  std::vector<int> sizes = run_lengths(places);
  if (sizes.size() == 1) return places.front() == peers_.rank() ? local_.make_group(members, abort) : nullptr;
  // Counted in every process, also where none of its devices is in the group: all processes make the same groups in the
  // same order, so the numbers agree without a message.
  const std::uint64_t number = groups_++;
  if (std::find(places.begin(), places.end(), peers_.rank()) == places.end()) return nullptr;
  if (auto joined = local_.join_group(members, places, number, peers_, abort)) return joined;
  is_captured_ = false;
  std::vector<std::shared_ptr<Group>> locals;
  std::vector<int> processes;
  auto first = members.begin();
  for (const int size : sizes) {
    const std::vector<DeviceId> part(first, first + size);
    first += size;
    processes.push_back(process_of(part.front()));
    const bool meets = size > 1 && processes.back() == peers_.rank();
    locals.push_back(meets ? local_.make_group(part, abort) : nullptr);
  }
  auto across = std::make_unique<PeersAcross>(peers_, std::move(sizes), std::move(processes), number, abort);
  return std::make_shared<CompositeGroup>(std::move(locals), std::move(across));
}

std::unique_ptr<Messages> PeersBackend::make_messages(DeviceId from, DeviceId to, Abort& abort) {
  const bool from_here = runs_here(from), to_here = runs_here(to);
  if (process_of(from) == process_of(to)) return from_here ? local_.make_messages(from, to, abort) : nullptr;
  const std::uint64_t number = channels_++;  // counted in every process, as groups are
  if (!from_here && !to_here) return nullptr;
  is_captured_ = false;
  const int other = process_of(from_here ? to : from);
  if (auto joined = local_.join_channel(from_here ? from : to, other, from_here, number, peers_)) return joined;
  return std::make_unique<PeersMessages>(peers_, other, abort);
}

ReplayerResult PeersBackend::make_replayer(int devices, Abort& abort) {
  ReplayerResult local = local_.make_replayer(devices, abort);
  if (local.replayer == nullptr || is_captured_) return local;
  return {nullptr, "other processes take part in them"};
}

}  // namespace meshwright
