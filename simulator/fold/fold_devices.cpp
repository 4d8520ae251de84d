// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/fold_devices.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// splitmix64's finalizer, of a sum in which hash and value cannot change places.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = hash * 0x9e3779b97f4a7c15u + value;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}
std::uint64_t mix(std::uint64_t hash, std::int64_t value) { return mix(hash, static_cast<std::uint64_t>(value)); }

// Hashes of things in no order.
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
    for (std::size_t d = 0; d < colour_.size(); ++d) colour_[d] = colour_of_list(d);
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
  // Of each transfer what is known at its source alone: the instruction that posts it, how long it takes, what is on
  // its channel before it and after it. So one channel stands for another as a whole, or not at all.
  void find_sent(const ProgramTimes& times) {
    std::vector<std::uint64_t> on_channel(static_cast<std::size_t>(channels_.count), 1);
    for (const std::vector<Instruction>& list : program_.devices)
      for (std::size_t i = 0; i < list.size(); ++i)
        for (const int t : list[i].sends) {
          const auto transfer = static_cast<std::size_t>(t);
          std::uint64_t& latest = on_channel[channel_of(transfer)];
          latest = mix(mix(latest, static_cast<std::uint64_t>(i)), times.transfer[transfer].ps);
          latest = mix(latest, std::int64_t{program_.transfers[transfer].source_buffer.value});
          sent_[transfer] = latest;
        }
    for (std::size_t t = 0; t < sent_.size(); ++t) sent_[t] = mix(sent_[t], on_channel[channel_of(t)]);
  }
  std::size_t channel_of(std::size_t transfer) const {
    return static_cast<std::size_t>(channels_.of_transfer[transfer]);
  }

  // Devices that meet in collectives: those of a stage, and those along an axis of its mesh.
  void find_groups() {
    groups_of_.resize(program_.devices.size());
    const auto add = [&](const std::vector<DeviceId>& members) {
      for (const DeviceId member : members) groups_of_[member.index()].push_back(static_cast<int>(groups_.size()));
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

  // The list without the names of peers.
  std::uint64_t colour_of_list(std::size_t device) const {
    std::uint64_t hash = mix(1, std::int64_t{program_.stage_of_device[device].value});
    std::vector<std::uint64_t> sends;
    for (const Instruction& instruction : program_.devices[device]) {
      hash = mix(mix(hash, static_cast<std::int64_t>(instruction.kind)), std::int64_t{instruction.executable});
      hash = mix(hash, std::int64_t{instruction.waits});
      hash = mix(hash, std::int64_t{instruction.microbatch.value});
      for (const BufferId buffer : instruction.buffers) hash = mix(hash, std::int64_t{buffer.value});
      sends.clear();
      for (const int t : instruction.sends) sends.push_back(sent_[static_cast<std::size_t>(t)]);
      hash = mix(hash, unordered(sends));
    }
    return hash;
  }

  std::uint64_t message_colour(std::size_t transfer) const {
    return mix(sent_[transfer], colour_[program_.transfers[transfer].source.index()]);
  }

  void refine() {
    std::vector<std::uint64_t> group_colour, members;
    for (const std::vector<DeviceId>& group : groups_) {
      members.clear();
      for (const DeviceId member : group) members.push_back(colour_[member.index()]);
      group_colour.push_back(unordered(members));
    }
    std::vector<std::uint64_t> next(colour_.size()), received;
    for (std::size_t d = 0; d < colour_.size(); ++d) {
      std::uint64_t hash = colour_[d];
      for (const int group : groups_of_[d]) hash = mix(hash, group_colour[static_cast<std::size_t>(group)]);
      for (const Instruction& instruction : program_.devices[d]) {
        if (instruction.receives.empty()) continue;
        received.clear();
        for (const int t : instruction.receives)
          received.push_back(
              mix(message_colour(static_cast<std::size_t>(t)),
                  std::int64_t{program_.transfers[static_cast<std::size_t>(t)].destination_buffer.value}));
        hash = mix(hash, unordered(received));
      }
      next[d] = hash;
    }
    colour_ = std::move(next);
  }

  std::size_t count() const {
    std::vector<std::uint64_t> all = colour_;
    std::sort(all.begin(), all.end());
    return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }

  FoldedDevices result() const {
    FoldedDevices made;
    std::unordered_map<std::uint64_t, DeviceId> first;
    for (std::size_t d = 0; d < colour_.size(); ++d)
      made.representative.push_back(first.try_emplace(colour_[d], DeviceId(static_cast<int>(d))).first->second);
    made.classes = static_cast<int>(first.size());
    // Of several alike channels of a representative the first.
    made.message.assign(sent_.size(), -1);
    std::unordered_map<std::uint64_t, int> message;
    for (std::size_t d = 0; d < colour_.size(); ++d) {
      if (made.representative[d].index() != d) continue;
      for (const Instruction& instruction : program_.devices[d])
        for (const int t : instruction.sends) {
          int& known = message.try_emplace(message_colour(static_cast<std::size_t>(t)), t).first->second;
          if (channel_of(static_cast<std::size_t>(t)) < channel_of(static_cast<std::size_t>(known))) known = t;
        }
    }
    for (std::size_t t = 0; t < sent_.size(); ++t) {
      const auto found = message.find(message_colour(t));
      MW_CHECK(found != message.end(), "no representative sends what transfer {} is", t);
      made.message[t] = found->second;
    }
    return made;
  }

  const Program& program_;
  Channels channels_;
  std::vector<std::uint64_t> sent_;    // [transfer]
  std::vector<std::uint64_t> colour_;  // [device]
  std::vector<std::vector<DeviceId>> groups_;
  std::vector<std::vector<int>> groups_of_;  // [device]
};

}  // namespace

FoldedDevices fold_devices(const Program& program, const ProgramTimes& times) {
  MW_CHECK(times.transfer.size() == program.transfers.size(), "{} times for {} transfers", times.transfer.size(),
           program.transfers.size());
  return Refinement(program, times).fold();
}

}  // namespace meshwright
