// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/program.h"

#include <algorithm>

namespace meshwright {

std::int64_t LocalTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

Bytes LocalTensor::bytes() const { return Bytes(static_cast<double>(elements() * size_of(dtype))); }

bool StageExecutable::has_collectives() const {
  return std::any_of(ops.begin(), ops.end(), [](const LocalOp& op) { return op.is_collective(); });
}

Channels find_channels(const Program& program) {
  const std::size_t devices = program.devices.size();
  std::vector<std::vector<std::size_t>> leaving(devices);  // [source] -> transfers
  for (std::size_t t = 0; t < program.transfers.size(); ++t) leaving[program.transfers[t].source.index()].push_back(t);

  // channel_to[destination] is this source's while source_of says so: one pass, no table of all pairs.
  Channels channels{std::vector<int>(program.transfers.size(), 0), 0};
  std::vector<int> channel_to(devices, 0);
  std::vector<std::optional<std::size_t>> source_of(devices);
  for (std::size_t source = 0; source < devices; ++source) {
    for (const std::size_t t : leaving[source]) {
      const std::size_t destination = program.transfers[t].destination.index();
      if (source_of[destination] != source) {
        source_of[destination] = source;
        channel_to[destination] = channels.count++;
      }
      channels.of_transfer[t] = channel_to[destination];
    }
  }
  return channels;
}

}  // namespace meshwright
