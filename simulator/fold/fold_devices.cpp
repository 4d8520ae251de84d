// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/fold_devices.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"

namespace meshwright {

namespace {

// splitmix64's finalizer (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). The hash
// is multiplied before the value is added, so that mix(a, b) and mix(b, a) differ.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = hash * 0x9e3779b97f4a7c15u + value;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}
std::uint64_t mix(std::uint64_t hash, std::int64_t value) { return mix(hash, static_cast<std::uint64_t>(value)); }

// The hash of a multiset: sorting makes it independent of the order.
std::uint64_t unordered(std::vector<std::uint64_t>& values) {
  std::sort(values.begin(), values.end());
  std::uint64_t hash = 7;
  for (const std::uint64_t value : values) hash = mix(hash, value);
  return hash;
}

class Refinement {
 public:
  Refinement(const Program& program, const ProgramTimes& times)
      : program_(program),
        channels_(find_channels(program)),
        sent_(program.transfers.size(), 0),
        colour_(program.devices.size(), 0) {
    find_sent(times);
    find_groups();
  }

  // Classes only ever split: a round's colour contains that of the round before. So as soon as a round finds no more
  // classes than the last, the partition is stable, which is what makes it equitable.
  FoldedDevices fold() {
    for (int d = 0; d < colour_.count(); ++d) colour_[DeviceId(d)] = colour_of_list(DeviceId(d));
    std::size_t classes = count();
    while (true) {
      refine();
      const std::size_t finer = count();
      if (finer == classes) break;
      classes = finer;
    }
    return result();
  }

 private:
  // What is known of a transfer at its source alone: the instruction that posts it, how long it takes, and all other
  // transfers of its channel, before it (in `latest`) and after it (mixed in at the end). One channel therefore stands
  // for another as a whole or not at all, and two channels of one class are busy at the same times.
  void find_sent(const ProgramTimes& times) {
    IndexedVector<int, std::uint64_t> on_channel(static_cast<std::size_t>(channels_.count), 1);
    for (const std::vector<Instruction>& list : program_.devices)
      for (std::size_t i = 0; i < list.size(); ++i)
        for (const int t : list[i].sends) {
          std::uint64_t& latest = on_channel[channel_of(t)];
          latest = mix(mix(latest, static_cast<std::uint64_t>(i)), times.transfer[static_cast<std::size_t>(t)].ps);
          latest = mix(latest, std::int64_t{transfer(t).source_buffer.value});
          sent_[t] = latest;
        }
    for (int t = 0; t < sent_.count(); ++t) sent_[t] = mix(sent_[t], on_channel[channel_of(t)]);
  }
  const Transfer& transfer(int number) const { return program_.transfers[static_cast<std::size_t>(number)]; }
  int channel_of(int transfer) const { return channels_.of_transfer[static_cast<std::size_t>(transfer)]; }

  // Devices that meet in collectives: those of a stage, and those along one axis of its mesh. A device is as late as
  // the latest of its group, so its class depends on the classes of all members.
  void find_groups() {
    groups_of_.resize(program_.devices.size());
    const auto add = [&](const std::vector<DeviceId>& members) {
      for (const DeviceId member : members) groups_of_[member].push_back(static_cast<int>(groups_.size()));
      groups_.push_back(members);
    };
    for (const ProgramStage& stage : program_.stages) {
      add(stage.devices);
      if (static_cast<std::size_t>(stage.mesh.devices()) != stage.devices.size() && stage.mesh.rank() > 1) continue;
      for (int axis = 0; axis < stage.mesh.rank() && stage.mesh.rank() > 1; ++axis)
        for (std::size_t rank = 0; rank < stage.devices.size(); ++rank) {
          const std::vector<int> ranks = stage.mesh.group(static_cast<int>(rank), axis);
          if (ranks.front() != static_cast<int>(rank)) continue;
          std::vector<DeviceId> members;
          for (const int r : ranks) members.push_back(stage.devices[static_cast<std::size_t>(r)]);
          add(members);
        }
    }
  }

  // The instruction list without the numbers of peers: peers are compared by their colour, in refine().
  std::uint64_t colour_of_list(DeviceId device) const {
    std::uint64_t hash = mix(1, std::int64_t{program_.stage_of_device[device.index()].value});
    std::vector<std::uint64_t> sends;
    for (const Instruction& instruction : program_.devices[device.index()]) {
      hash = mix(mix(hash, static_cast<std::int64_t>(instruction.kind)), std::int64_t{instruction.executable});
      hash = mix(hash, std::int64_t{instruction.waits});
      hash = mix(hash, std::int64_t{instruction.microbatch.value});
      for (const BufferId buffer : instruction.buffers) hash = mix(hash, std::int64_t{buffer.value});
      sends.clear();
      for (const int t : instruction.sends) sends.push_back(sent_[t]);
      hash = mix(hash, unordered(sends));
    }
    return hash;
  }

  std::uint64_t message_colour(int t) const { return mix(sent_[t], colour_[transfer(t).source]); }

  void refine() {
    IndexedVector<int, std::uint64_t> group_colour;
    std::vector<std::uint64_t> members;
    for (const std::vector<DeviceId>& group : groups_) {
      members.clear();
      for (const DeviceId member : group) members.push_back(colour_[member]);
      group_colour.push_back(unordered(members));
    }
    IndexedVector<DeviceId, std::uint64_t> next(colour_.size());
    std::vector<std::uint64_t> received;
    for (int d = 0; d < colour_.count(); ++d) {
      const DeviceId device(d);
      std::uint64_t hash = colour_[device];
      for (const int group : groups_of_[device]) hash = mix(hash, group_colour[group]);
      for (const Instruction& instruction : program_.devices[device.index()]) {
        if (instruction.receives.empty()) continue;
        received.clear();
        // Receives of one instruction have no order: the device goes on when the last of them has come.
        for (const int t : instruction.receives)
          received.push_back(mix(message_colour(t), std::int64_t{transfer(t).destination_buffer.value}));
        hash = mix(hash, unordered(received));
      }
      next[device] = hash;
    }
    colour_ = std::move(next);
  }

  std::size_t count() const {
    std::vector<std::uint64_t> all = colour_.values();
    std::sort(all.begin(), all.end());
    return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }

  FoldedDevices result() const {
    FoldedDevices folded;
    std::unordered_map<std::uint64_t, DeviceId> first;
    for (int d = 0; d < colour_.count(); ++d)
      folded.representative.push_back(first.try_emplace(colour_[DeviceId(d)], DeviceId(d)).first->second);
    folded.classes = static_cast<int>(first.size());
    // If several channels of a representative are alike, the first of them stands for all.
    std::unordered_map<std::uint64_t, int> message;
    for (int d = 0; d < colour_.count(); ++d) {
      const DeviceId device(d);
      if (folded.representative[device.index()] != device) continue;
      for (const Instruction& instruction : program_.devices[device.index()])
        for (const int t : instruction.sends) {
          // The channel with the smallest number, so that all messages of a class name the same one.
          int& known = message.try_emplace(message_colour(t), t).first->second;
          if (channel_of(t) < channel_of(known)) known = t;
        }
    }
    for (int t = 0; t < sent_.count(); ++t) {
      const auto found = message.find(message_colour(t));
      MW_CHECK(found != message.end(), "no representative sends what transfer {} is", t);
      folded.message.push_back(found->second);
    }
    return folded;
  }

  const Program& program_;
  Channels channels_;
  IndexedVector<int, std::uint64_t> sent_;         // [transfer]
  IndexedVector<DeviceId, std::uint64_t> colour_;  // [device]
  std::vector<std::vector<DeviceId>> groups_;
  IndexedVector<DeviceId, std::vector<int>> groups_of_;  // [device]
};

}  // namespace

FoldedDevices fold_devices(const Program& program, const ProgramTimes& times) {
  MW_CHECK(times.transfer.size() == program.transfers.size(), "{} times for {} transfers", times.transfer.size(),
           program.transfers.size());
  return Refinement(program, times).fold();
}

}  // namespace meshwright
