// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lowering/tile_messages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/lowering/tile_grid.h"

namespace meshwright {

namespace {

using Box = std::vector<TileRows>;  // [dimension] of the whole tensor

class MessageFinder {
 public:
  MessageFinder(const TileGrid& from, const TileGrid& to, const HostsOfRanks& hosts)
      : from_(from), to_(to), hosts_(hosts), sent_(hosts.source.size(), 0) {}

  std::vector<TileMessage> find(CrossMesh form) {
    for (const std::vector<int>& ranks : to_.ranks_with) {
      if (is_empty(tile_of(ranks.front()))) continue;
      if (form != CrossMesh::Broadcast || !broadcast(ranks))
        for (const auto& [host, own] : by_host(ranks)) gather(own);
    }
    return std::move(messages_);
  }

 private:
  [[nodiscard]] Box tile_of(int rank) const { return rows_of(to_, to_.number[static_cast<std::size_t>(rank)]); }

  [[nodiscard]] std::map<int, std::vector<int>> by_host(const std::vector<int>& ranks) const {
    std::map<int, std::vector<int>> found;
    for (const int rank : ranks) found[hosts_.destination[static_cast<std::size_t>(rank)]].push_back(rank);
    return found;
  }

  // The dimension along which the tile has a row for each part.
  static std::optional<std::size_t> dimension_to_cut(const Box& tile, std::size_t parts) {
    for (std::size_t d = 0; d < tile.size(); ++d)
      if (tile[d].count >= static_cast<std::int64_t>(parts)) return d;
    return std::nullopt;
  }
  // Parts first to last - 1 of so many.
  static Box part_of(Box tile, std::size_t dimension, std::size_t first, std::size_t last, std::size_t parts) {
    const auto row = [&, all = tile[dimension].count](std::size_t part) {
      return all * static_cast<std::int64_t>(part) / static_cast<std::int64_t>(parts);
    };
    tile[dimension] = {tile[dimension].begin + row(first), row(last) - row(first)};
    return tile;
  }

  void gather(const std::vector<int>& ranks) {
    const Box tile = tile_of(ranks.front());
    const auto dimension = dimension_to_cut(tile, ranks.size());
    if (ranks.size() == 1 || !dimension) {
      for (const int rank : ranks) send(rank, tile);
      return;
    }
    std::vector<Box> parts;
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      parts.push_back(part_of(tile, *dimension, j, j + 1, ranks.size()));
      send(ranks[j], parts[j]);
    }
    ring(ranks, parts, 1);
  }

  // False: the hosts hold the tile unequally often, or it has too few rows, or there is but one host.
  bool broadcast(const std::vector<int>& ranks) {
    const std::map<int, std::vector<int>> on = by_host(ranks);
    const std::size_t hosts = on.size(), each = on.begin()->second.size(), all = ranks.size();
    const Box tile = tile_of(ranks.front());
    const auto dimension = dimension_to_cut(tile, all);
    const bool even = std::all_of(on.begin(), on.end(), [&](const auto& own) { return own.second.size() == each; });
    if (hosts == 1 || !even || !dimension) return false;
    std::vector<Box> of_host;  // what each device of a host has after the rings across hosts
    for (std::size_t j = 0; j < each; ++j) {
      std::vector<int> alike;
      std::vector<Box> parts;
      for (const auto& [host, own] : on) {
        const std::size_t part = j * hosts + alike.size();
        alike.push_back(own[j]);
        parts.push_back(part_of(tile, *dimension, part, part + 1, all));
        send(alike.back(), parts.back());
      }
      ring(alike, parts, 1);
      of_host.push_back(part_of(tile, *dimension, j * hosts, (j + 1) * hosts, all));
    }
    for (const auto& [host, own] : on) ring(own, of_host, static_cast<int>(hosts));
    return true;
  }

  // Device j has part j; in each round it passes on the part that it got last.
  void ring(const std::vector<int>& ranks, const std::vector<Box>& parts, int first_round) {
    const std::size_t devices = ranks.size();
    for (std::size_t round = 0; round + 1 < devices; ++round)
      for (std::size_t j = 0; j < devices; ++j) {
        const int to = ranks[(j + 1) % devices];
        const Box tile = tile_of(to), &part = parts[(j + devices - round) % devices];
        messages_.push_back({copy_of(ranks[j], tile, to, tile, part), first_round + static_cast<int>(round)});
      }
  }

  void send(int rank, const Box& box) {
    const Box tile = tile_of(rank);
    const MeetingTiles meeting = tiles_that_meet(from_, box);
    std::vector<int> source_tile = meeting.first;
    do {
      const Box source = rows_of(from_, source_tile);
      if (is_empty(source)) continue;
      Box shared;
      std::int64_t elements = 1;
      for (std::size_t d = 0; d < box.size(); ++d) {
        const std::int64_t low = std::max(source[d].begin, box[d].begin);
        const std::int64_t high = std::min(source[d].begin + source[d].count, box[d].begin + box[d].count);
        shared.push_back({low, high - low});
        elements *= high - low;
      }
      const int sender =
          sender_of(from_.ranks_with[from_.position(source_tile)], hosts_.destination[static_cast<std::size_t>(rank)]);
      sent_[static_cast<std::size_t>(sender)] += elements;
      messages_.push_back({copy_of(sender, source, rank, tile, shared), 0});
    } while (advance(source_tile, meeting));
  }

  [[nodiscard]] int sender_of(const std::vector<int>& holders, int host) const {
    const auto effort = [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return std::pair(hosts_.source[r] != host, sent_[r]);
    };
    return *std::min_element(holders.begin(), holders.end(), [&](int a, int b) { return effort(a) < effort(b); });
  }

  static TileCopy copy_of(int source_rank, const Box& source, int rank, const Box& destination, const Box& what) {
    TileCopy copy{source_rank, rank, {}, {}, {}};
    for (std::size_t d = 0; d < what.size(); ++d) {
      copy.source_offset.push_back(what[d].begin - source[d].begin);
      copy.destination_offset.push_back(what[d].begin - destination[d].begin);
      copy.extent.push_back(what[d].count);
    }
    return copy;
  }

  const TileGrid &from_, &to_;
  const HostsOfRanks& hosts_;
  std::vector<std::int64_t> sent_;  // [source rank] elements
  std::vector<TileMessage> messages_;
};

}  // namespace

std::vector<TileMessage> tile_messages(const std::vector<Dim>& dims, const ShardingSpec& source_spec,
                                       const LogicalMesh& source, const ShardingSpec& destination_spec,
                                       const LogicalMesh& destination, CrossMesh form, const HostsOfRanks& hosts) {
  MW_CHECK(form != CrossMesh::Send, "whole tiles are sent by tile_copies");
  const TileGrid from(dims, source_spec, source), to(dims, destination_spec, destination);
  return MessageFinder(from, to, hosts).find(form);
}

bool has_replicas(const ShardingSpec& spec, const LogicalMesh& mesh) {
  int tiles = 1;
  for (const AxisMask mask : spec.dims) tiles *= shards(mask, mesh);
  return tiles < mesh.devices();
}

}  // namespace meshwright
