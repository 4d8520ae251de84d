// SPDX-License-Identifier: Apache-2.0
// How much of a GPU an op keeps busy, as a profile tells: what it leaves idle is there for the work of other devices on
// the same GPU.
#pragma once

#include <string>
#include <unordered_map>

#include "core/mesh/cluster.h"
#include "core/sharding/cost_model.h"
#include "costmodel/profile_db.h"

namespace meshwright {

// An op's rate over the rate of the large ops of its kind and type, those of at least an eighth of the largest that was
// measured: flops per second of kinds that have any, else bytes per second. So an op too small to fill the GPU counts
// as a part of it, and one that is slow at every size, as attention is beside products, as all of it. What was measured
// as an addition to another op, faster than the device's peak or half as fast again as its memory, says nothing of
// rates.
class Occupancy {
 public:
  explicit Occupancy(const ProfileDb& db);

  // In (0, 1]; 1 for what was not measured. `time`: of the op alone.
  [[nodiscard]] double of(const OpWork& work, Seconds time) const;

 private:
  std::unordered_map<std::string, double> full_;  // by kind and type: of what fills the GPU
};

}  // namespace meshwright
