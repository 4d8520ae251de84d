// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/profile_peers.h"

#include <algorithm>

#include "cli/terminal/progress.h"
#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "executor/measure/peers_measurer.h"

namespace meshwright {

namespace {

const Seconds kPeersSample(0.005), kLongestOnce(0.5);

struct Hosts {
  int count = 0, processes_each = 0;
};

Hosts hosts_of(const Peers& peers) {
  std::vector<int> processes;  // [host]
  int last = -1;
  bool in_order = true;
  for (const Peers::Place& place : peers.places()) {
    in_order &= place.host == last || place.host == last + 1;
    last = place.host;
    processes.resize(std::max(processes.size(), static_cast<std::size_t>(place.host) + 1), 0);
    ++processes[static_cast<std::size_t>(place.host)];
  }
  require(in_order,
          "--transport: processes that follow each other are on different hosts; start them host by host "
          "(mpirun --map-by slot, srun -m block).");
  for (const int count : processes)
    require(count == processes.front(),
            "--transport: the hosts have {} and {} processes; start equally many on each, as plans have devices.",
            processes.front(), count);
  return {static_cast<int>(processes.size()), processes.front()};
}

Measurement as_measurement(const MeasuredTime& time) { return {time.median, time.spread, time.samples}; }

constexpr CollectiveKind kBetweenProcesses[] = {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                                                CollectiveKind::AllGather, CollectiveKind::AllToAll};

}  // namespace

Cluster cluster_of(Cluster cluster, const Peers& peers) {
  const Hosts hosts = hosts_of(peers);
  cluster.only().hosts = hosts.count;
  cluster.only().devices_per_host = hosts.processes_each;
  cluster.name = fmt::format("cpu:{}", hosts.processes_each);
  if (hosts.count > 1) cluster.name += fmt::format(" on {} hosts", hosts.count);
  return cluster;
}

PeersMeasurements measure_between(Peers& peers, const PeersPlan& plan) {
  const Hosts hosts = hosts_of(peers);
  PeersMeasurer measurer(peers, {.warmup = 1, .samples = plan.samples, .min_sample = kPeersSample, .step = plan.step},
                         kLongestOnce);
  PeersMeasurements results;
  Progress progress;
  const bool tells = peers.rank() == 0;
  for (const bool apart : {false, true}) {
    if ((apart ? hosts.count : hosts.processes_each) < 2) continue;
    const int to = apart ? hosts.processes_each : 1;
    for (const std::int64_t size : plan.sizes_bytes) {
      if (tells)
        progress(fmt::format("messages {}, {}", apart ? "between hosts" : "within a host",
                             human_bytes(Bytes(static_cast<double>(size)))));
      if (const auto time = measurer.message(to, size))
        results.transfers.push_back({apart, size, as_measurement(*time)});
    }
    // Messages between hosts come last, where there are such: their work is the one that is kept.
    const auto same = std::find_if(results.transfers.begin(), results.transfers.end(), [&](const auto& transfer) {
      return transfer.hosts_apart == apart && transfer.size_bytes == kMessageWorkBytes;
    });
    const Seconds one = same == results.transfers.end() ? kLongestOnce : same->time.median;
    if (const auto work = measurer.message_work(to, kMessageWorkBytes, one))
      results.message_work = as_measurement(*work);
  }
  for (const std::int64_t outer_hosts : divisors(hosts.count))
    for (const std::int64_t on_each : divisors(hosts.processes_each)) {
      const auto outer = static_cast<int>(outer_hosts), inner = static_cast<int>(on_each);
      if (inner * outer == 1) continue;
      std::vector<int> members;
      for (int host = 0; host < outer; ++host)
        for (int i = 0; i < inner; ++i) members.push_back(host * hosts.processes_each + i);
      const PeersMeasurer::GroupId group = measurer.add_group(members);
      for (const CollectiveKind kind : kBetweenProcesses)
        for (const std::int64_t size : plan.sizes_bytes) {
          const int ranks = inner * outer;
          const std::int64_t divisible = (size + ranks * 8 - 1) / (ranks * 8) * (ranks * 8);
          if (tells)
            progress(fmt::format("{} over {} processes on {} host{}, {}", name_of(kind), ranks, outer,
                                 outer == 1 ? "" : "s", human_bytes(Bytes(static_cast<double>(divisible)))));
          if (const auto time = measurer.collective(group, kind, divisible))
            results.collectives.push_back({kind, ranks, outer, divisible, as_measurement(*time)});
        }
    }
  return results;
}

}  // namespace meshwright
