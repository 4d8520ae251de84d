// SPDX-License-Identifier: Apache-2.0
// Measures collectives and messages between processes that were started together, each with one device on threads, as
// their plans run: through PeersBackend, with the thread that does the transport's work beside the one that computes.
//
// Every process makes the same calls in the same order. Process 0 takes part in all of them, and has the results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "executor/device/backend.h"
#include "executor/host/host_backend.h"
#include "executor/measure/cold_arrays.h"
#include "executor/measure/measurer.h"
#include "executor/peers/peers_backend.h"

namespace meshwright {

class PeersMeasurer {
 public:
  // Longer repetitions are not measured again, nor are larger sizes.
  PeersMeasurer(Peers& peers, const MeasureOptions& options, Seconds longest);

  // A group of these processes, the first of them 0, for collectives.
  using GroupId = int;
  [[nodiscard]] GroupId add_group(std::vector<int> members);
  // `size_bytes` as in CostModel::collective. nullopt: in a process that has no result, and where the size before took
  // too long.
  [[nodiscard]] std::optional<MeasuredTime> collective(GroupId group, CollectiveKind kind, std::int64_t size_bytes);

  // One message from process 0 to another. nullopt: as above.
  [[nodiscard]] std::optional<MeasuredTime> message(int to, std::int64_t size_bytes);
  // What a message of this size takes of the time in which either of its ends would compute: how much less both
  // processes compute, each with one thread, while messages go to and fro between them. `one`: what message() said of
  // it, where this process knows. nullopt: in a process that has no result.
  [[nodiscard]] std::optional<MeasuredTime> message_work(int to, std::int64_t size_bytes, Seconds one);

 private:
  struct MeasuredGroup {
    std::vector<int> members;
    std::shared_ptr<Group> group;  // null in other processes
    std::optional<CollectiveKind> too_long;
  };
  template <class Body>
  [[nodiscard]] std::optional<MeasuredTime> timed(const std::vector<int>& members, bool skip, Body body,
                                                  bool* too_long = nullptr);
  template <class Body>
  [[nodiscard]] double sample(const std::vector<int>& members, int repetitions, Body body);
  template <class Body>
  void follow(Body body);
  void tell(const std::vector<int>& members, int repetitions);
  [[nodiscard]] bool is_here(const std::vector<int>& members) const;

  Peers& peers_;
  const MeasureOptions options_;
  const Seconds longest_;
  HostBackend local_{DType::F32};
  PeersBackend backend_;
  Abort abort_;
  std::unique_ptr<PeerWatch> watched_;
  std::unique_ptr<Device> device_;
  std::vector<MeasuredGroup> groups_;
  ColdArrays arrays_;
  int channels_ = 0;  // whose messages were measured
  std::optional<int> too_long_to_;
};

}  // namespace meshwright
