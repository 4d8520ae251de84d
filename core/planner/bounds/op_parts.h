// SPDX-License-Identifier: Apache-2.0
// What the parts take into which the devices of a stage split an op.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/mesh/cluster.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

// One part of one way to split an op: of so many samples, with the other axes split into `parts` together.
struct OpPart {
  std::int64_t samples;  // 1 for ops without an axis of samples
  std::int64_t parts;
  double time;  // of a device, in seconds
};

class OpParts {
 public:
  // REQUIRES: all outlive this.
  OpParts(const Graph& graph, const HostGroup& hosts, const CostModel& costs);

  struct Parts {
    std::int64_t samples = 1;     // of the graph's micro-batch; 1 where the op has no axis of samples
    bool splits_samples = false;  // devices can share those of a micro-batch
    bool of_samples = false;      // there is such an axis
    // For every divisor of `samples`, every split of the other axes among at most all devices whose numbers of parts
    // devices of a submesh may have: of equally many parts of equally many samples, the fastest.
    std::vector<OpPart> all = {};
  };
  // What the parts of an op and their times depend on, as a text.
  [[nodiscard]] std::string key(const Op& op) const;
  // Without `all`.
  [[nodiscard]] Parts samples_of(const Op& op) const;
  // Ops of one key share what this returns, which stays where it is.
  [[nodiscard]] const Parts& of(const Op& op);
  // How many devices a micro-batch with so many samples of the op needs where each has such a part; nullopt: it does
  // not divide into them.
  [[nodiscard]] std::optional<std::int64_t> devices(const Parts& of, const OpPart& part, std::int64_t samples) const;
  // Numbers of parts that a stage may split an axis into: each divides the devices of some submesh. Ascending.
  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }
  // Seconds of a device, at least.
  [[nodiscard]] double time_of(const OpWork& work) const;

 private:
  using Found = std::map<std::pair<std::int64_t, std::int64_t>, double>;  // by samples and parts
  struct Splits {
    const Op& op;
    const IterationSpace& space;
    std::vector<std::int64_t> sizes;  // of a part
    std::int64_t samples;
    Found found;
  };

  void try_splits(Splits& splits, std::size_t axis, std::int64_t parts) const;

  const Graph& graph_;
  const HostGroup& hosts_;
  const CostModel& costs_;
  std::vector<std::int64_t> counts_;
  bool fuses_ = false;
  std::map<std::string, Parts> known_;  // by all that the splits and their times depend on
};

}  // namespace meshwright
