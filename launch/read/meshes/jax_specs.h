// SPDX-License-Identifier: Apache-2.0
// PartitionSpecs over the mesh of one stage, and what a module for JAX says that a plan decides within the stage.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/setup/launch_setup.h"
#include "launch/syntax/config_value.h"

namespace meshwright {

class JaxSpecs {
 public:
  // `dimensions`: of every tensor by its name. REQUIRES: it outlives this.
  JaxSpecs(const std::map<std::string, std::size_t>& dimensions, std::vector<std::string> axes)
      : dimensions_(dimensions), axes_(std::move(axes)) {}

  // Each throws InputError that begins with `where`.
  // P('x0', None, ('x1', 'x2')) of the tensor.
  [[nodiscard]] ShardingSpec spec(const std::string& tensor, const ConfigValue& call, const std::string& where) const;
  // ('x0', 'x1')
  [[nodiscard]] AxisMask mask(const ConfigValue& axes, const std::string& where) const;

 private:
  const std::map<std::string, std::size_t>& dimensions_;
  std::vector<std::string> axes_;
};

// The table's member of this name. Throws InputError where there is none.
[[nodiscard]] const ConfigValue& member(const ConfigValue& table, const char* key, const std::string& where);

// Adds to the stage, of which the layers and the mesh are known, what its tables decide. REQUIRES: it has 'splits'.
void read_decisions(const ConfigValue& table, const JaxSpecs& specs, const std::string& where, DecidedStage& decided);

}  // namespace meshwright
