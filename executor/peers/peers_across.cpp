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

// Elements up to which every part reduces everything itself: that needs one round of messages, sharing the work two.
constexpr std::int64_t kSmall = 1024;

}  // namespace

class PeersAcross::Leader {
 public:
  // A run of an array's elements.
  struct Run {
    std::int64_t begin, count;
  };

  Leader(PeersAcross& across, const CollectiveCall& call)
      : across_(across), part_(call.member), device_(call.device), dtype_(call.dtype) {}

  // The other parts, in an order that begins after this part: the leaders do not all send to the same part at once.
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
    across_.peers_.send(across_.processes_[to], tag(part_, to), std::move(data));
  }
  [[nodiscard]] std::vector<std::byte> receive(int from, std::int64_t count) {
    std::vector<std::byte> data = across_.peers_.receive(across_.processes_[from], tag(from, part_), across_.abort_);
    MW_CHECK(data.size() == bytes(count), "part {} sent {} bytes, expected {}", from, data.size(), bytes(count));
    return data;
  }
  void put(void* array, Run run, const std::vector<std::byte>& data) {
    if (!data.empty()) device_.write(at(array, run), data.data(), data.size());
  }
  void copy(void* to, Run to_run, const void* from, Run from_run) {
    if (to_run.count > 0) device_.copy(at(to, to_run), at(from, from_run), bytes(to_run.count));
  }

  // Receives as many elements from each other part, reduces them with this part's run of `in`, and writes the result to
  // the run of `out`. The order of the sum is that of parts, not of arrival: every run gives the same bits.
  void reduce(const void* in, Run in_run, void* out, Run out_run, kernels::Reduction reduction) {
    IndexedVector<int, std::vector<std::byte>> received(static_cast<std::size_t>(across_.parts()));
    // The own part is summed where it is; the others' places are set below.
    IndexedVector<int, const void*> parts(received.size(), at(in, in_run));
    std::optional<Scratch::Taken> on_device;
    if (!device_.is_host()) on_device.emplace(device_.scratch(), bytes(across_.parts() * in_run.count));
    for (const int other : others()) {
      received[other] = receive(other, in_run.count);
      parts[other] = received[other].data();
      if (!on_device) continue;
      put(on_device->data(), {other * in_run.count, in_run.count}, received[other]);
      parts[other] = at(on_device->data(), {other * in_run.count, in_run.count});
    }
    device_.reduce(dtype_, parts.values(), at(out, out_run), in_run.count, reduction);
  }

 private:
  [[nodiscard]] std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements * size_of(dtype_));
  }
  [[nodiscard]] const std::byte* at(const void* array, Run run) const {
    return static_cast<const std::byte*>(array) + bytes(run.begin);
  }
  [[nodiscard]] std::byte* at(void* array, Run run) const { return static_cast<std::byte*>(array) + bytes(run.begin); }
  [[nodiscard]] std::uint64_t tag(int from, int to) const {
    return peer_tag(PeerTag::Group,
                    // The constructor checks that the number and both parts fit into their bits.
                    across_.number_ << 32 | static_cast<std::uint64_t>(from) << 16 | static_cast<std::uint64_t>(to));
  }

  PeersAcross& across_;
  const int part_;
  Device& device_;
  const DType dtype_;
};

PeersAcross::PeersAcross(Peers& peers, std::vector<int> weights, std::vector<int> processes, std::uint64_t number,
                         const Abort& abort)
    : Across(std::move(weights)), peers_(peers), processes_(std::move(processes)), number_(number), abort_(abort) {
  MW_CHECK(processes_.count() == parts() && parts() < 1 << 16 && number < 1 << 24,
           "group {} of {} parts in {} processes", number, parts(), processes_.size());
}

void PeersAcross::all_reduce(const CollectiveCall& call, std::int64_t n, kernels::Reduction reduction) {
  Leader leader(*this, call);
  if (n <= kSmall) {
    const std::vector<std::byte> whole = leader.take(call.in, {0, n});
    for (const int other : leader.others()) leader.send(other, whole);
    return leader.reduce(call.in, {0, n}, call.out, {0, n}, reduction);
  }
  const auto segment = [&](int of) {
    const std::int64_t begin = segment_begin(n, of, parts());
    return Leader::Run{begin, segment_begin(n, of + 1, parts()) - begin};
  };
  // Sending never blocks, so all parts may send before they receive: no order of parts can deadlock.
  for (const int other : leader.others()) leader.send(other, leader.take(call.in, segment(other)));
  leader.reduce(call.in, segment(call.member), call.out, segment(call.member), reduction);
  // One part sums each segment and sends its bits, so that all parts have the same ones.
  const std::vector<std::byte> reduced = leader.take(call.out, segment(call.member));
  for (const int other : leader.others()) leader.send(other, reduced);
  for (const int other : leader.others())
    leader.put(call.out, segment(other), leader.receive(other, segment(other).count));
}

void PeersAcross::reduce_scatter(const CollectiveCall& call, std::int64_t unit, kernels::Reduction reduction) {
  Leader leader(*this, call);
  for (const int other : leader.others())
    leader.send(other, leader.take(call.in, {before(other) * unit, weight(other) * unit}));
  const std::int64_t own = weight(call.member) * unit;
  leader.reduce(call.in, {before(call.member) * unit, own}, call.out, {0, own}, reduction);
}

void PeersAcross::all_gather(const CollectiveCall& call, std::int64_t unit) {
  Leader leader(*this, call);
  const auto place = [&](int of) { return Leader::Run{before(of) * unit, weight(of) * unit}; };
  const std::vector<std::byte> own = leader.take(call.in, {0, weight(call.member) * unit});
  for (const int other : leader.others()) leader.send(other, own);
  leader.copy(call.out, place(call.member), call.in, {0, weight(call.member) * unit});
  for (const int other : leader.others()) leader.put(call.out, place(other), leader.receive(other, place(other).count));
}

void PeersAcross::all_to_all(const CollectiveCall& call, std::int64_t unit) {
  Leader leader(*this, call);
  const std::int64_t each = weight(call.member) * unit;
  const auto place = [&](int of) { return Leader::Run{before(of) * each, weight(of) * each}; };
  for (const int other : leader.others()) leader.send(other, leader.take(call.in, place(other)));
  leader.copy(call.out, place(call.member), call.in, place(call.member));
  for (const int other : leader.others()) leader.put(call.out, place(other), leader.receive(other, place(other).count));
}

void PeersAcross::broadcast(const CollectiveCall& call, std::int64_t n, int root) {
  Leader leader(*this, call);
  if (call.member != root) return leader.put(call.out, {0, n}, leader.receive(root, n));
  const std::vector<std::byte> whole = leader.take(call.out, {0, n});
  for (const int other : leader.others()) leader.send(other, whole);
}

void PeersAcross::pass_on(const CollectiveCall& call, std::int64_t n, Around way) {
  Leader leader(*this, call);
  leader.send(next_in_ring(call.member, parts(), way), leader.take(call.in, {0, n}));
  leader.put(call.out, {0, n}, leader.receive(previous_in_ring(call.member, parts(), way), n));
}

}  // namespace meshwright
