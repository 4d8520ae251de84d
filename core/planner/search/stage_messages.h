// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline send each other for a micro-batch, before the pipeline is lowered: how long it is on
// its way, and how long it keeps the devices at both ends from computing.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/planner/layers/step_structure.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

class StageMessages {
 public:
  // All three outlive this.
  StageMessages(const StepStructure& structure, const StageSearch& search, const CostModel& costs)
      : structure_(structure), search_(search), costs_(costs) {}

  // Messages of one direction. A software may send while its devices wait (MessageTraits::blocking): that share of each
  // message is no part of `time`, it is in the passes of the first device of the stages, which stands for all of them.
  struct OneWay {
    SimTime time{0};                 // until the last is there
    SimTime sender{0}, receiver{0};  // what the pass that makes them takes longer, and the one that reads them
  };
  struct Both {
    OneWay forward, backward;  // activations there, their gradients back
  };
  // Between stages on different devices. Several threads may ask.
  [[nodiscard]] Both between(const TableStage& from, const TableStage& to, bool hosts_apart);

 private:
  // A tensor that goes from mesh to mesh, as far as its messages depend on it.
  struct Moved {
    DType dtype;
    std::vector<std::int64_t> sizes;
    ShardingSpec from, to;
    auto operator<=>(const Moved&) const = default;
  };
  [[nodiscard]] Both between_anew(const TableStage& from, const TableStage& to, bool hosts_apart);
  // Meshes of the search, by number.
  [[nodiscard]] OneWay time_of(const std::vector<Moved>& moved, int from, int to, bool hosts_apart);
  [[nodiscard]] OneWay time_of_anew(const std::vector<Moved>& moved, int from, int to, bool hosts_apart) const;

  const StepStructure& structure_;
  const StageSearch& search_;
  const CostModel& costs_;
  std::mutex mutex_;  // of what is remembered:
  std::map<std::tuple<TableStage, TableStage, bool>, Both> known_;
  // Layers repeat: most stages send each other the same between the same meshes.
  std::map<std::tuple<std::vector<Moved>, int, int, bool>, OneWay> known_times_;
};

}  // namespace meshwright
