// SPDX-License-Identifier: Apache-2.0
// Assigns hosts and devices to stages, so that those share a host whose messages take longer between hosts.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh/submesh.h"

namespace meshwright {

// What goes from stage to stage in a microbatch, there and back together.
struct StageTraffic {
  int from, to;
  Bytes bytes;
  double messages = 0.0;  // one after the other on a link, times the links that work side by side
};

struct PlacementRequest {
  std::vector<Submesh> stages;         // in pipeline order; a stage takes devices_per_host devices on each of its hosts
  std::vector<Bytes> neighbour_bytes;  // between stages s and s + 1; empty: as many between every two
  std::vector<double> neighbour_messages = {};  // as StageTraffic::messages; empty: none
  std::vector<StageTraffic> others = {};        // besides: parameters tied across stages, skip connections
};

struct Placement {
  std::vector<std::vector<int>> devices;  // of each stage: device numbers (host-major), by host
  Seconds crossing;                       // of what crosses in a microbatch, all messages added up
  bool optimal;                           // proved: no placement has less `crossing`
};

// A placement of minimum `crossing`, each stage on hosts of its submesh's group; nullopt exactly where the stages do
// not fit beside each other.
//
// Any two hosts of a group are equally far apart, and so are any two devices of a host. A share of the bytes between
// stages a and b of one group, |hosts of both| / max(|hosts of a|, |hosts of b|), stays within hosts, at the group's
// within_host.beta per byte and within_host.alpha per message; the rest takes its between_hosts. Between stages of
// different groups all bytes take the slower of the two networks. Hosts of different groups share no stage, so each
// group is placed by itself. Stages of whole hosts share no host with others, so what is left to choose is which of the
// smaller stages share hosts: a partition of a graph, found by branch and bound over the smaller stages in pipeline
// order, with the best cut of the remaining path where hosts are plentiful as the bound.
//
// `optimal` is sure, of the stages of each group,
//   - when packing them in order leaves no hole on a host, bytes are the same between neighbours and there are no other
//     crossings (the number of cuts is then minimum), however many stages and hosts there are;
//   - up to 8 stages smaller than a host, each on one host.
// In general it holds when the search ends without skipping a branch; its width is limited, so with dozens of
// small stages the result may be the best one visited, which is never worse than packing in order, or by size
// where that fails. Whether the stages fit is always settled: at once for sizes that divide each other, else by a
// complete search, which in the worst case is exponential in the number of different sizes.
//
// Among equals packing in order wins (each stage on the first hosts with room), or, where that fails, packing by
// size (the largest stage first); then the search's first find, its hosts numbered in pipeline order.
// REQUIRES: neighbour_bytes and neighbour_messages have stages.size() - 1 entries or none; a crossing names two
// different stages; sizes are positive; the cluster has the stages' groups.
[[nodiscard]] std::optional<Placement> place_stages(const Cluster& cluster, const PlacementRequest& request);

}  // namespace meshwright
