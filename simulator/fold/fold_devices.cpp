// SPDX-License-Identifier: Apache-2.0
#include "simulator/fold/fold_devices.h"

#include <algorithm>
#include <bit>
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
  // `flows`: null where messages and collectives share nothing.
  Refinement(const Program& program, const ProgramTimes& times, const ProgramFlows* flows)
      : program_(program),
        flows_(flows),
        channels_(find_channels(program)),
        sent_(program.transfers.size(), 0),
        colour_(program.devices.size(), 0) {
    find_sent(times);
    find_groups();
    if (flows != nullptr) find_links();
  }

  FoldedFlows fold() {
    for (int d = 0; d < colour_.count(); ++d) colour_[DeviceId(d)] = colour_of_list(DeviceId(d));
    refine_until_stable();
    for (int round = 0; flows_ != nullptr && tell_apart_on_links(round); ++round) refine_until_stable();
    return {result(), folded_links()};
  }

 private:
  // Classes only ever split: a round's colour contains that of the round before. So as soon as a round finds no more
  // classes than the last, the partition is stable, which is what makes it equitable.
  void refine_until_stable() {
    std::size_t classes = 0;
    while (true) {
      const std::size_t finer = different(colour_.values()) + different(link_colour_.values());
      if (finer == classes) break;
      classes = finer;
      if (flows_ != nullptr) refine_links();
      refine();
    }
  }

  // What is known of a transfer at its source alone: the instruction that posts it, how long it takes, and all other
  // transfers of its channel, before it (in `latest`) and after it (mixed in at the end). One channel therefore stands
  // for another as a whole or not at all, and two channels of one class are busy at the same times. Channels to two
  // stages are never alike: with more micro-batches these stages post their receives at different times.
  void find_sent(const ProgramTimes& times) {
    IndexedVector<int, std::uint64_t> on_channel(static_cast<std::size_t>(channels_.count), 1);
    for (const std::vector<Instruction>& list : program_.devices)
      for (std::size_t i = 0; i < list.size(); ++i)
        for (const int t : list[i].sends) {
          std::uint64_t& latest = on_channel[channel_of(t)];
          latest = mix(mix(latest, static_cast<std::uint64_t>(i)), times.transfer[static_cast<std::size_t>(t)].ps);
          latest = mix(latest, std::int64_t{transfer(t).source_buffer.value});
          latest = mix(latest, std::int64_t{program_.stage_of_device[transfer(t).destination.index()].value});
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

  std::uint64_t message_colour(int t) const {
    const std::uint64_t own = mix(sent_[t], colour_[transfer(t).source]);
    if (flows_ == nullptr) return own;
    const SharedFlow& flow = flows_->transfer[static_cast<std::size_t>(t)];
    return on_route(mix(mix(mix(own, colour_[transfer(t).destination]), flow.duration.ps), flow.latency.ps),
                    flow.route);
  }

  // --- links that flows share ---

  // Collectives on links, and what uses each link.
  void find_links() {
    MW_CHECK(flows_->along.empty() && flows_->transfer.size() == sent_.size(), "{} flows for {} transfers",
             flows_->transfer.size(), sent_.size());
    for (const BytesPerSecond capacity : flows_->links.capacity)
      link_colour_.push_back(mix(2, std::bit_cast<std::uint64_t>(capacity.si())));
    messages_on_.resize(link_colour_.size());
    flow_groups_on_.resize(link_colour_.size());
    flow_groups_of_.resize(program_.devices.size());
    const auto note = [&](auto& on, int route, int number) {
      if (route == TaskClass::kNoRoute) return;
      for (const LinkId link : flows_->links.routes[static_cast<std::size_t>(route)]) on[link].push_back(number);
    };
    for (int t = 0; t < sent_.count(); ++t) note(messages_on_, flows_->transfer[static_cast<std::size_t>(t)].route, t);
    for (std::size_t g = 0; g < flows_->groups.size(); ++g)
      for (const CollectiveGroup& group : flows_->groups[g]) {
        for (const DeviceId device : group.devices) flow_groups_of_[device].push_back(flow_groups_.count());
        note(flow_groups_on_, group.route, flow_groups_.count());
        flow_groups_.push_back({&group, mix(3, static_cast<std::uint64_t>(g)), 0});
      }
  }

  std::uint64_t on_route(std::uint64_t hash, int route) const {
    if (route == TaskClass::kNoRoute) return hash;
    std::vector<std::uint64_t> links;
    for (const LinkId link : flows_->links.routes[static_cast<std::size_t>(route)]) links.push_back(link_colour_[link]);
    return mix(hash, unordered(links));
  }

  void refine_links() {
    for (FlowGroup& group : flow_groups_) {
      std::vector<std::uint64_t> members;
      for (const DeviceId member : group.of->devices) members.push_back(colour_[member]);
      group.colour = on_route(mix(group.kind, unordered(members)), group.of->route);
    }
    IndexedVector<LinkId, std::uint64_t> next;
    for (int l = 0; l < link_colour_.count(); ++l) {
      const LinkId link(l);
      std::vector<std::uint64_t> carried;
      for (const int t : messages_on_[link]) carried.push_back(message_colour(t));
      for (const int group : flow_groups_on_[link]) carried.push_back(flow_groups_[group].colour);
      next.push_back(mix(link_colour_[link], unordered(carried)));
    }
    link_colour_ = std::move(next);
  }

  // Messages of one class on one link get their number among these. false: there were none. Groups of one class never
  // share a link: they are one flow (program_flows.h).
  bool tell_apart_on_links(int round) {
    // Two messages that meet on two links may get the same numbers in another order each time: then their own.
    constexpr int kRounds = 4;
    std::vector<std::pair<int, std::uint64_t>> marks;  // (transfer, number on one of its links)
    for (int l = 0; l < link_colour_.count(); ++l) {
      std::unordered_map<std::uint64_t, std::vector<int>> of_class;
      for (const int t : messages_on_[LinkId(l)]) of_class[message_colour(t)].push_back(t);
      for (const auto& [colour, alike] : of_class)
        for (std::size_t i = 0; i < alike.size() && alike.size() > 1; ++i) marks.emplace_back(alike[i], i);
    }
    // In one order whatever the hash table's: the marks of one transfer are mixed one after the other.
    std::sort(marks.begin(), marks.end());
    for (const auto& [t, number] : marks)
      sent_[t] = mix(sent_[t], round < kRounds ? number : static_cast<std::uint64_t>(t));
    return !marks.empty();
  }

  std::vector<LinkId> folded_links() const {
    std::unordered_map<std::uint64_t, LinkId> first;
    std::vector<LinkId> folded;
    for (int l = 0; l < link_colour_.count(); ++l)
      folded.push_back(first.try_emplace(link_colour_[LinkId(l)], LinkId(l)).first->second);
    return folded;
  }

  // --- devices ---

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
      if (flows_ != nullptr) hash = mix(hash, shared_flows_of(device));
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

  // The colours of what the device sends, and of what it sums, over links that others use, too.
  std::uint64_t shared_flows_of(DeviceId device) const {
    std::vector<std::uint64_t> all;
    for (const int group : flow_groups_of_[device]) all.push_back(flow_groups_[group].colour);
    for (const Instruction& instruction : program_.devices[device.index()])
      for (const int t : instruction.sends) all.push_back(message_colour(t));
    return unordered(all);
  }

  static std::size_t different(std::vector<std::uint64_t> all) {
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

  struct FlowGroup {
    const CollectiveGroup* of;
    std::uint64_t kind, colour;
  };

  const Program& program_;
  const ProgramFlows* flows_;
  Channels channels_;
  IndexedVector<int, std::uint64_t> sent_;         // [transfer]
  IndexedVector<DeviceId, std::uint64_t> colour_;  // [device]
  std::vector<std::vector<DeviceId>> groups_;
  IndexedVector<DeviceId, std::vector<int>> groups_of_;  // [device]
  IndexedVector<LinkId, std::uint64_t> link_colour_;     // of links that flows share
  IndexedVector<LinkId, std::vector<int>> messages_on_, flow_groups_on_;
  IndexedVector<int, FlowGroup> flow_groups_;
  IndexedVector<DeviceId, std::vector<int>> flow_groups_of_;
};

void check_times(const Program& program, const ProgramTimes& times) {
  MW_CHECK(times.transfer.size() == program.transfers.size(), "{} times for {} transfers", times.transfer.size(),
           program.transfers.size());
}

}  // namespace

FoldedDevices fold_devices(const Program& program, const ProgramTimes& times) {
  check_times(program, times);
  return Refinement(program, times, nullptr).fold().devices;
}

FoldedFlows fold_devices(const Program& program, const ProgramTimes& times, const ProgramFlows& flows) {
  check_times(program, times);
  return Refinement(program, times, &flows).fold();
}

ProgramFlows on_folded_links(const ProgramFlows& flows, const std::vector<LinkId>& link, const std::vector<int>& like) {
  ProgramFlows folded{flows.links, {}, flows.groups, flows.collective};
  for (std::vector<LinkId>& route : folded.links.routes) {
    for (LinkId& each : route) each = link[each.index()];
    // Two links of a route may be of one class: both carry the same flows, and one of them says so.
    std::sort(route.begin(), route.end());
    route.erase(std::unique(route.begin(), route.end()), route.end());
  }
  for (const int t : like) folded.transfer.push_back(flows.transfer[static_cast<std::size_t>(t)]);
  return folded;
}

}  // namespace meshwright
