// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/stage_messages.h"

#include <algorithm>
#include <cmath>

#include "core/plan/lowering/tile_copies.h"
#include "core/planner/search/known_or.h"

namespace meshwright {

StageMessages::Both StageMessages::between(const TableStage& from, const TableStage& to, bool hosts_apart) {
  return known_or(mutex_, known_, std::tuple(from, to, hosts_apart),
                  [&] { return between_anew(from, to, hosts_apart); });
}

StageMessages::Both StageMessages::between_anew(const TableStage& from, const TableStage& to, bool hosts_apart) {
  const StageChoice source_choice = search_.choice(from.slice, from.config);
  const StageChoice choice = search_.choice(to.slice, to.config);
  const MeshSpans &source_spans = search_.spans(source_choice), &spans = search_.spans(choice);
  const auto& leaving = source_spans.leaving(from.first, from.last, source_choice.option);
  const auto& entering = spans.entering(to.first, to.last, choice.option);
  // `leaving` is indexed as the tensors that cross the border after `from`, `entering` as those before `to`.
  const std::vector<TensorId> left = structure_.crossing(from.last + 1), entered = structure_.crossing(to.first);
  std::vector<Moved> forward, backward;
  for (std::size_t t = 0; t < entered.size(); ++t) {
    const Tensor& tensor = structure_.graph().tensor(entered[t]);
    const int layer = structure_.layers().layer_of_op[tensor.producer->index()];
    // A tensor may cross both borders on its way between other stages. Only what `from` computes and `to` reads counts.
    if (layer < from.first || layer > from.last || !structure_.is_read(entered[t], to.first, to.last)) continue;
    const auto at = std::find(left.begin(), left.end(), entered[t]) - left.begin();
    std::vector<std::int64_t> sizes;
    for (const Dim& dim : tensor.dims) sizes.push_back(dim.size);
    // Gradients go back the same way, with source and destination exchanged.
    forward.push_back({tensor.dtype, sizes, leaving[at], entering[t]});
    backward.push_back({tensor.dtype, std::move(sizes), entering[t], leaving[at]});
  }
  return {time_of(forward, source_choice.mesh, choice.mesh, hosts_apart),
          time_of(backward, choice.mesh, source_choice.mesh, hosts_apart)};
}

StageMessages::OneWay StageMessages::time_of(const std::vector<Moved>& moved, int from, int to, bool hosts_apart) {
  return known_or(mutex_, known_times_, std::tuple(moved, from, to, hosts_apart),
                  [&] { return time_of_anew(moved, from, to, hosts_apart); });
}

// The messages are those of lowering, with the costs of program_costs: the messages of one pair of devices come one
// after the other, those of different pairs at the same time.
StageMessages::OneWay StageMessages::time_of_anew(const std::vector<Moved>& moved, int from, int to,
                                                  bool hosts_apart) const {
  if (moved.empty()) return {};
  const LogicalMesh &source = search_.spans({from, 0}).mesh(), &destination = search_.spans({to, 0}).mesh();
  const MessageTraits traits = costs_.messages();
  const auto time = [&](const Moved& tensor, std::int64_t elements) {
    const double parts = hosts_apart && traits.scattered ? copies_in_host(tensor.from, source) : 1.0;
    const Bytes bytes(static_cast<double>(size_of(tensor.dtype)) * static_cast<double>(elements) / parts);
    const auto on = [&](int group) {
      return costs_.on(group).transfer(bytes, hosts_apart, source.of.devices_per_host).time;
    };
    // Between devices of two kinds the slower kind sets the time.
    return std::max(on(source.of.group), on(destination.of.group));
  };
  std::vector<TileMeetings> meetings;
  for (const Moved& tensor : moved) {
    std::vector<Dim> dims;
    for (const std::int64_t size : tensor.sizes) dims.push_back({{}, size});
    meetings.emplace_back(dims, tensor.from, source, tensor.to, destination);
  }
  const bool alike =
      std::all_of(moved.begin(), moved.end(), [&](const Moved& other) { return other == moved.front(); });
  Seconds longest(0.0), sent(0.0), received(0.0);
  if (alike && traits.blocking == 0.0) {
    // All go along the same pairs of devices.
    for (const std::int64_t elements : meetings.front().sizes()) {
      Seconds together(0.0);
      for (const Moved& tensor : moved) together += time(tensor, elements);
      longest = std::max(longest, together);
    }
    return {to_sim_time(longest)};
  }
  std::vector<std::map<std::int64_t, Seconds>> times(moved.size());  // by elements
  for (std::size_t t = 0; t < moved.size(); ++t)
    for (const std::int64_t elements : meetings[t].sizes()) times[t].emplace(elements, time(moved[t], elements));
  for (int rank = 0; rank < destination.devices(); ++rank) {
    std::vector<Seconds> channel(static_cast<std::size_t>(source.devices()), Seconds(0.0));  // [source rank]
    for (std::size_t t = 0; t < moved.size(); ++t)
      meetings[t].to(rank, [&](int source_rank, std::int64_t elements) {
        channel[static_cast<std::size_t>(source_rank)] += times[t].at(elements);
      });
    longest = std::max(longest, *std::max_element(channel.begin(), channel.end()));
    sent += channel.front();
    if (rank == 0)
      for (const Seconds of_source : channel) received += of_source;
  }
  return {to_sim_time((1.0 - traits.blocking) * longest), to_sim_time(traits.blocking * sent),
          to_sim_time(traits.blocking * received)};
}

}  // namespace meshwright
