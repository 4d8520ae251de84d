// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/peers_across.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "executor/base/segments.h"
#include "executor/peers/peer_tags.h"

namespace meshwright {

namespace {

// Up to here every part reduces everything itself: one wait for the others less than sharing the work.
constexpr std::int64_t kSmall = 1024;

}  // namespace

class PeersAcross::Leader {
 public:
  // A run of an array's elements.
  struct Run {
    std::int64_t begin, count;
  };

  Leader(PeersAcross& across, int part, Device& device, DType stored)
      : across_(across), part_(part), device_(device), stored_(stored) {}

  // The other parts, each leader beginning behind itself: not all with the same one at once.
  [[nodiscard]] std::vector<int> others() const {
    std::vector<int> parts;
    for (int step = 1; step < across_.parts(); ++step) parts.push_back((part_ + step) % across_.parts());
    return parts;
  }

  [[nodiscard]] std::vector<std::byte> take(const void* array, Run run) {
    std::vector<std::byte> data(bytes(run.count));
    if (!data.empty()) device_.read(data.data(), at(array, run), data.size());
    return data;
  }
  void send(int to, std::vector<std::byte> data) {
    across_.peers_.send(across_.processes_[index(to)], tag(part_, to), std::move(data));
  }
  [[nodiscard]] std::vector<std::byte> receive(int from, std::int64_t count) {
    std::vector<std::byte> data =
        across_.peers_.receive(across_.processes_[index(from)], tag(from, part_), across_.abort_);
    MW_CHECK(data.size() == bytes(count), "part {} sends {} bytes, {} are awaited", from, data.size(), bytes(count));
    return data;
  }
  void put(void* array, Run run, const std::vector<std::byte>& data) {
    if (!data.empty()) device_.write(at(array, run), data.data(), data.size());
  }
  void copy(void* to, Run to_run, const void* from, Run from_run) {
    if (to_run.count > 0) device_.copy(at(to, to_run), at(from, from_run), bytes(to_run.count));
  }

  // Receives `run.count` elements of each other part, and writes what they and this part's run of `in` give to that of
  // `out`.
  void reduce(const void* in, Run in_run, void* out, Run out_run, kernels::Reduction reduction) {
    std::vector<std::vector<std::byte>> came(index(across_.parts()));
    std::vector<const void*> parts(index(across_.parts()), at(in, in_run));
    std::optional<Scratch::Taken> on_device;
    if (!device_.is_host()) on_device.emplace(device_.scratch(), bytes(across_.parts() * in_run.count));
    for (const int other : others()) {
      came[index(other)] = receive(other, in_run.count);
      parts[index(other)] = came[index(other)].data();
      if (!on_device) continue;
      put(on_device->data(), {other * in_run.count, in_run.count}, came[index(other)]);
      parts[index(other)] = at(on_device->data(), {other * in_run.count, in_run.count});
    }
    device_.reduce(stored_, parts, at(out, out_run), in_run.count, reduction);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(stored_));
  }
  [[nodiscard]] const std::byte* at(const void* array, Run run) const {
    return static_cast<const std::byte*>(array) + bytes(run.begin);
  }
  [[nodiscard]] std::byte* at(void* array, Run run) const { return static_cast<std::byte*>(array) + bytes(run.begin); }
  [[nodiscard]] std::uint64_t tag(int from, int to) const {
    return peer_tag(PeerTag::Group,
                    across_.number_ << 32 | static_cast<std::uint64_t>(from) << 16 | static_cast<std::uint64_t>(to));
  }

  PeersAcross& across_;
  const int part_;
  Device& device_;
  const DType stored_;
};

PeersAcross::PeersAcross(Peers& peers, std::vector<int> weights, std::vector<int> processes, std::uint64_t number,
                         const Abort& abort)
    : Across(std::move(weights)), peers_(peers), processes_(std::move(processes)), number_(number), abort_(abort) {
  MW_CHECK(processes_.size() == static_cast<std::size_t>(parts()) && parts() < 1 << 16 && number < 1 << 24,
           "group {} of {} parts in {} processes", number, parts(), processes_.size());
}

void PeersAcross::all_reduce(int part, Device& device, DType stored, const void* in, void* out, std::int64_t n,
                             kernels::Reduction reduction) {
  Leader leader(*this, part, device, stored);
  if (n <= kSmall) {
    const std::vector<std::byte> whole = leader.take(in, {0, n});
    for (const int other : leader.others()) leader.send(other, whole);
    return leader.reduce(in, {0, n}, out, {0, n}, reduction);
  }
  const auto segment = [&](int of) {
    const std::int64_t begin = segment_begin(n, of, parts());
    return Leader::Run{begin, segment_begin(n, of + 1, parts()) - begin};
  };
  for (const int other : leader.others()) leader.send(other, leader.take(in, segment(other)));
  leader.reduce(in, segment(part), out, segment(part), reduction);
  const std::vector<std::byte> reduced = leader.take(out, segment(part));
  for (const int other : leader.others()) leader.send(other, reduced);
  for (const int other : leader.others()) leader.put(out, segment(other), leader.receive(other, segment(other).count));
}

void PeersAcross::reduce_scatter(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit,
                                 kernels::Reduction reduction) {
  Leader leader(*this, part, device, stored);
  for (const int other : leader.others())
    leader.send(other, leader.take(in, {before(other) * unit, weight(other) * unit}));
  const std::int64_t own = weight(part) * unit;
  leader.reduce(in, {before(part) * unit, own}, out, {0, own}, reduction);
}

void PeersAcross::all_gather(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) {
  Leader leader(*this, part, device, stored);
  const auto place = [&](int of) { return Leader::Run{before(of) * unit, weight(of) * unit}; };
  const std::vector<std::byte> own = leader.take(in, {0, weight(part) * unit});
  for (const int other : leader.others()) leader.send(other, own);
  leader.copy(out, place(part), in, {0, weight(part) * unit});
  for (const int other : leader.others()) leader.put(out, place(other), leader.receive(other, place(other).count));
}

void PeersAcross::all_to_all(int part, Device& device, DType stored, const void* in, void* out, std::int64_t unit) {
  Leader leader(*this, part, device, stored);
  const std::int64_t each = weight(part) * unit;
  const auto place = [&](int of) { return Leader::Run{before(of) * each, weight(of) * each}; };
  for (const int other : leader.others()) leader.send(other, leader.take(in, place(other)));
  leader.copy(out, place(part), in, place(part));
  for (const int other : leader.others()) leader.put(out, place(other), leader.receive(other, place(other).count));
}

void PeersAcross::broadcast(int part, Device& device, DType stored, void* data, std::int64_t n, int root) {
  Leader leader(*this, part, device, stored);
  if (part != root) return leader.put(data, {0, n}, leader.receive(root, n));
  const std::vector<std::byte> whole = leader.take(data, {0, n});
  for (const int other : leader.others()) leader.send(other, whole);
}

}  // namespace meshwright
