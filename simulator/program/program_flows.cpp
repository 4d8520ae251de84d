// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/program_flows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "core/base/errors.h"
#include "simulator/program/flows.h"

namespace meshwright {

namespace {

// Groups that share links, with what one byte of the collective's tensor takes of them.
struct Bundle {
  std::vector<std::vector<DeviceId>> groups;  // of devices of the Program
  Flow of_a_byte;
};

class Bundler {
 public:
  Bundler(const std::vector<DeviceId>& in_cluster, Routes& routes) : in_cluster_(in_cluster), routes_(routes) {}

  // The bundles of all groups of the stage along the axis.
  std::vector<Bundle> bundles(const ProgramStage& stage, int axis, CollectiveKind kind) {
    std::vector<std::vector<DeviceId>> groups;
    std::vector<std::map<NetworkLinkId, Bytes>> loads;
    for (int rank = 0; rank < static_cast<int>(stage.devices.size()); ++rank) {
      const std::vector<int> members = stage.mesh.group(rank, axis);
      // A group is found from its first member.
      if (members.front() != rank) continue;
      std::vector<DeviceId> group;
      for (const int member : members) group.push_back(stage.devices[static_cast<std::size_t>(member)]);
      std::sort(group.begin(), group.end());
      loads.push_back(load_of(group, kind));
      groups.push_back(std::move(group));
    }
    return joined(std::move(groups), loads);
  }

 private:
  // What a tensor of one byte puts on each link.
  std::map<NetworkLinkId, Bytes> load_of(const std::vector<DeviceId>& group, CollectiveKind kind) {
    std::vector<DeviceId> devices;
    std::map<int, int> on_host;
    for (const DeviceId device : group) {
      devices.push_back(in_cluster_[device.index()]);
      ++on_host[routes_.topology().cluster().host_of_device(devices.back().value)];
    }
    // With as many members on each host, a collective has phases, of which the one across hosts meets other groups.
    const bool evenly = std::all_of(on_host.begin(), on_host.end(),
                                    [&](const auto& host) { return host.second == on_host.begin()->second; });
    std::vector<Flow> flows;
    if (on_host.size() > 1 && on_host.begin()->second > 1 && evenly) {
      for (std::vector<Flow>& phase : hierarchical_flows(routes_, kind, devices, Bytes(1.0)))
        if (crosses_hosts(phase.front())) flows = std::move(phase);
    } else {
      flows.push_back(ring_flow(routes_, kind, devices, Bytes(1.0)));
    }
    std::map<NetworkLinkId, Bytes> load;
    for (const Flow& flow : flows)
      for (const NetworkLinkId link : flow.links) load.emplace(link, Bytes(0.0)).first->second += flow.bytes;
    return load;
  }

  bool crosses_hosts(const Flow& flow) const {
    return std::any_of(flow.links.begin(), flow.links.end(), [&](NetworkLinkId id) {
      const NetworkLink link = routes_.topology().link(id);
      return link.from.kind == NodeKind::Leaf || link.to.kind == NodeKind::Leaf;
    });
  }

  std::vector<Bundle> joined(std::vector<std::vector<DeviceId>> groups,
                             const std::vector<std::map<NetworkLinkId, Bytes>>& loads) const {
    // Union-find over the groups that have a link in common. The smaller number is the root, so that bundles come in
    // the order of their first groups.
    std::vector<std::size_t> root(groups.size());
    std::iota(root.begin(), root.end(), std::size_t{0});
    const auto root_of = [&](std::size_t g) {
      while (root[g] != g) g = root[g] = root[root[g]];
      return g;
    };
    std::map<NetworkLinkId, std::size_t> user;
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const auto& [link, bytes] : loads[g]) {
        // A link without a time per byte delays nobody.
        if (routes_.topology().link(link).cost.beta.si() == 0) continue;
        const std::size_t other = root_of(user.try_emplace(link, g).first->second), own = root_of(g);
        root[std::max(other, own)] = std::min(other, own);
      }
    std::map<std::size_t, std::map<NetworkLinkId, Bytes>> load;
    std::map<std::size_t, Bundle> made;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const auto& [link, bytes] : loads[g]) load[root_of(g)].emplace(link, Bytes(0.0)).first->second += bytes;
      made[root_of(g)].groups.push_back(std::move(groups[g]));
    }
    std::vector<Bundle> bundles;
    for (auto& [g, bundle] : made) {
      bundle.of_a_byte = together(load[g]);
      bundles.push_back(std::move(bundle));
    }
    return bundles;
  }

  Flow together(const std::map<NetworkLinkId, Bytes>& load) const {
    Seconds longest(0.0);
    Bytes most(0.0);
    const auto beta_of = [&](NetworkLinkId link) { return routes_.topology().link(link).cost.beta; };
    for (const auto& [link, bytes] : load) {
      if (beta_of(link) * bytes <= longest) continue;
      longest = beta_of(link) * bytes;
      most = bytes;
    }
    Flow flow;
    if (longest == Seconds(0.0)) return flow;
    for (const auto& [link, bytes] : load) {
      // An approximation: links with less than half the bytes of the busiest one are left out.
      if (beta_of(link).si() == 0 || 2.0 * bytes < most) continue;
      flow.links.push_back(link);
      flow.beta = std::max(flow.beta, beta_of(link));
    }
    flow.bytes = Bytes(longest.si() / flow.beta.si());
    return flow;
  }

  const std::vector<DeviceId>& in_cluster_;
  Routes& routes_;
};

// Which transfers go along with others.
struct Broadcasts {
  std::vector<int> along;                         // as in ProgramFlows
  std::map<int, std::vector<DeviceId>> chain_of;  // by the first of several: devices of the cluster, in order
};

Broadcasts find_broadcasts(const Program& program, const std::vector<DeviceId>& in_cluster, const Cluster& cluster) {
  Broadcasts found;
  found.along.resize(program.transfers.size());
  std::iota(found.along.begin(), found.along.end(), 0);
  using Tile = std::tuple<BufferId, MicrobatchId, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  for (const std::vector<Instruction>& list : program.devices)
    for (const Instruction& instruction : list) {
      if (instruction.kind != Instruction::Kind::Exchange) continue;
      std::map<Tile, int> first;
      for (const int t : instruction.sends) {
        const Transfer& sent = program.transfers[static_cast<std::size_t>(t)];
        if (sent.source == sent.destination) continue;
        const int leader =
            first.try_emplace({sent.source_buffer, sent.microbatch, sent.source_offset, sent.extent}, t).first->second;
        if (leader == t) continue;
        found.along[static_cast<std::size_t>(t)] = leader;
        found.chain_of[leader].push_back(in_cluster[sent.destination.index()]);
      }
    }
  for (auto& [t, chain] : found.chain_of) {
    const Transfer& sent = program.transfers[static_cast<std::size_t>(t)];
    chain.push_back(in_cluster[sent.destination.index()]);
    const int from = cluster.host_of_device(in_cluster[sent.source.index()].value);
    // Hosts in a ring from the sender's on: the chain comes to each of them once.
    const auto place = [&](DeviceId device) {
      const int ahead = cluster.host_of_device(device.value) - from;
      return std::pair(ahead < 0 ? ahead + cluster.hosts() : ahead, device);
    };
    std::sort(chain.begin(), chain.end(), [&](DeviceId a, DeviceId b) { return place(a) < place(b); });
    chain.erase(std::unique(chain.begin(), chain.end()), chain.end());
  }
  return found;
}

// Each receiver passes the message on to the next one while it arrives: latencies add up. A link that two hops cross
// carries the bytes twice.
Flow chain_flow(Routes& routes, DeviceId source, const std::vector<DeviceId>& chain, Bytes bytes) {
  Flow flow;
  std::map<NetworkLinkId, Bytes> load;
  for (const DeviceId next : chain) {
    const Route& hop = routes.between(source, next);
    flow.latency += hop.cost.alpha;
    flow.beta = std::max(flow.beta, hop.cost.beta);
    for (const NetworkLinkId link : hop.links) {
      const auto [it, is_new] = load.emplace(link, bytes);
      if (is_new) {
        flow.links.push_back(link);
      } else {
        it->second += bytes;
      }
    }
    source = next;
  }
  Seconds longest(0.0);
  for (const auto& [link, carried] : load)
    longest = std::max(longest, routes.topology().link(link).cost.beta * carried);
  // Where no link is crossed twice, the bytes as they are: not rounded by a quotient.
  flow.bytes = longest <= flow.beta * bytes ? bytes : Bytes(longest.si() / flow.beta.si());
  return flow;
}

// All flows of a Program, each kind of message on a channel, and of collective along an axis, once.
class FlowsOfProgram {
 public:
  FlowsOfProgram(const Program& program, const std::vector<DeviceId>& in_cluster, const Topology& topology)
      : program_(program), in_cluster_(in_cluster), topology_(topology), routes_(topology) {}

  NetworkFlows flows(const std::vector<std::vector<Piece>>* pieces, Broadcast broadcast) {
    const Channels channels = find_channels(program_);
    streams_ = channels.count;
    Broadcasts broadcasts;
    if (broadcast == Broadcast::Chain) broadcasts = find_broadcasts(program_, in_cluster_, topology_.cluster());
    add_messages(channels, broadcasts);
    if (pieces != nullptr) add_collectives(*pieces);
    LinkedFlows linked = link_flows(topology_, flows_, stream_);
    NetworkFlows network{{std::move(linked.links), {}}, std::move(linked.link_of)};
    for (const std::optional<std::size_t>& flow : flow_of_) {
      SharedFlow& made = network.flows.transfer.emplace_back();
      if (flow) made = {linked.flows[*flow].route, linked.flows[*flow].latency, linked.flows[*flow].duration};
    }
    network.flows.along = std::move(broadcasts.along);
    if (pieces != nullptr) place_collectives(*pieces, linked.flows, network.flows);
    return network;
  }

 private:
  struct Key {
    int stage, axis;
    CollectiveKind kind;
    bool of_gradients;  // on another stream than those that the passes wait for
    auto operator<=>(const Key&) const = default;
  };
  struct Known {
    std::vector<Bundle> bundles;
    std::size_t first_flow = 0;  // one for each bundle
  };

  void add_messages(const Channels& channels, const Broadcasts& broadcasts) {
    const std::vector<DeviceId> alone;
    // Transfers of one channel with equally many bytes have equal flows.
    std::map<std::tuple<int, double, std::vector<DeviceId>>, std::size_t> known;
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) {
      const Transfer& transfer = program_.transfers[t];
      const int number = static_cast<int>(t);
      if (!broadcasts.along.empty() && broadcasts.along[t] != number) {
        flow_of_.emplace_back();
        continue;
      }
      const auto several = broadcasts.chain_of.find(number);
      const std::vector<DeviceId>& chain = several == broadcasts.chain_of.end() ? alone : several->second;
      const auto [it, is_new] = known.try_emplace({channels.of_transfer[t], transfer.bytes.si(), chain}, flows_.size());
      flow_of_.emplace_back(it->second);
      if (!is_new) continue;
      const DeviceId from = in_cluster_[transfer.source.index()], to = in_cluster_[transfer.destination.index()];
      flows_.push_back(chain.empty() ? message_flow(routes_, {from, to, transfer.bytes})
                                     : chain_flow(routes_, from, chain, transfer.bytes));
      stream_.push_back(channels.of_transfer[t]);
    }
  }

  [[nodiscard]] const LogicalMesh& mesh_of(std::size_t e) const {
    return program_.stages[program_.executables[e].stage.index()].mesh;
  }
  Key key_of(std::size_t e, const Piece& piece) const {
    const StageExecutable& executable = program_.executables[e];
    const LocalOp& first = executable.ops[static_cast<std::size_t>(piece.ops.front())];
    return {executable.stage.value, piece.axis, collective_of(executable, first, mesh_of(e)).kind, piece.of_gradients};
  }
  // Groups of one device move nothing.
  bool moves(std::size_t e, const Piece& piece) const {
    return piece.kind == Piece::Kind::Collective && mesh_of(e).shape()[static_cast<std::size_t>(piece.axis)] > 1;
  }

  void add_collectives(const std::vector<std::vector<Piece>>& pieces) {
    Bundler bundler(in_cluster_, routes_);
    for (std::size_t e = 0; e < pieces.size(); ++e)
      for (const Piece& piece : pieces[e]) {
        if (!moves(e, piece)) continue;
        const Key key = key_of(e, piece);
        const auto [known, is_new] = known_.try_emplace(key);
        if (!is_new) continue;
        known->second.bundles =
            bundler.bundles(program_.stages[static_cast<std::size_t>(key.stage)], key.axis, key.kind);
        known->second.first_flow = flows_.size();
        // A bundle of all the stage's devices never runs at the same time as another of theirs.
        const bool whole = known->second.bundles.size() == 1;
        int& of_stage = of_stage_.try_emplace({key.stage, key.of_gradients}, -1).first->second;
        if (whole && of_stage < 0) of_stage = streams_++;
        for (const Bundle& bundle : known->second.bundles) {
          flows_.push_back(bundle.of_a_byte);
          stream_.push_back(whole ? of_stage : streams_++);
        }
      }
  }

  // Along an axis on which some bundle has a route; the groups of others stay apart.
  void place_collectives(const std::vector<std::vector<Piece>>& pieces, const std::vector<FlowOnLinks>& linked,
                         ProgramFlows& made) {
    std::map<Key, int> groups_of;
    for (const auto& [key, known] : known_) {
      std::vector<CollectiveGroup> groups;
      bool routed = false;
      for (std::size_t b = 0; b < known.bundles.size(); ++b) {
        const int route = linked[known.first_flow + b].route;
        routed = routed || route != TaskClass::kNoRoute;
        const std::size_t first = groups.size();
        for (const std::vector<DeviceId>& group : known.bundles[b].groups) {
          if (route == TaskClass::kNoRoute || groups.size() == first) groups.push_back({{}, route});
          groups.back().devices.insert(groups.back().devices.end(), group.begin(), group.end());
        }
        for (std::size_t g = first; g < groups.size(); ++g)
          std::sort(groups[g].devices.begin(), groups[g].devices.end());
      }
      if (!routed) continue;
      groups_of.emplace(key, static_cast<int>(made.groups.size()));
      made.groups.push_back(std::move(groups));
    }
    for (std::size_t e = 0; e < pieces.size(); ++e) {
      made.collective.emplace_back(pieces[e].size());
      for (std::size_t p = 0; p < pieces[e].size(); ++p) {
        if (!moves(e, pieces[e][p])) continue;
        const auto groups = groups_of.find(key_of(e, pieces[e][p]));
        if (groups != groups_of.end())
          made.collective[e][p] = {groups->second, time_on_links(e, pieces[e][p], known_.at(groups->first))};
      }
    }
  }

  // Groups along an axis lie alike on their hosts: the longest of their bundles stands for all.
  SimTime time_on_links(std::size_t e, const Piece& piece, const Known& known) const {
    Bytes bytes(0.0);
    const StageExecutable& executable = program_.executables[e];
    for (const int o : piece.ops)
      bytes += collective_of(executable, executable.ops[static_cast<std::size_t>(o)], mesh_of(e)).bytes;
    Seconds longest(0.0);
    for (const Bundle& bundle : known.bundles) longest = std::max(longest, bytes.si() * bundle.of_a_byte.duration());
    // At most the whole duration that the cost model gives.
    return std::min(piece.duration, to_sim_time(longest));
  }

  const Program& program_;
  const std::vector<DeviceId>& in_cluster_;
  const Topology& topology_;
  Routes routes_;
  std::vector<Flow> flows_;
  std::vector<int> stream_;                          // [flow]
  int streams_ = 0;                                  // so far
  std::vector<std::optional<std::size_t>> flow_of_;  // [transfer]; none: it goes along with another
  std::map<Key, Known> known_;
  std::map<std::pair<int, bool>, int> of_stage_;  // stage, of gradients -> stream, or -1
};

}  // namespace

NetworkFlows program_flows(const Program& program, const std::vector<DeviceId>& in_cluster, const Topology& topology,
                           const std::vector<std::vector<Piece>>* pieces, Broadcast broadcast) {
  MW_CHECK(in_cluster.size() == program.devices.size(), "{} devices of a cluster for a program of {}",
           in_cluster.size(), program.devices.size());
  return FlowsOfProgram(program, in_cluster, topology).flows(pieces, broadcast);
}

}  // namespace meshwright
