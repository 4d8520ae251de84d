// SPDX-License-Identifier: Apache-2.0
// How a tensor gets from the mesh of one stage to that of another (cross-mesh resharding), where several devices of the
// destination need the same tile. All forms move the same bytes to the same places; they differ in who sends them.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

enum class CrossMesh {
  Send,       // each device gets its whole tile from the source
  Gather,     // the devices of one host that need a tile get a part of it each, and gather the parts among themselves
              // (Megatron-LM's scatter-gather; Alpa's local all-gather)
  Broadcast,  // all devices that need a tile get a part of it each: one copy leaves the source. The parts go from host
              // to host in rings, and are then gathered within the hosts (Zhuang et al.: On optimizing the
              // communication of model parallelism, MLSys 2023, with scatter and all-gather for their pipelined chain)
};

inline constexpr CrossMesh kCrossMeshForms[] = {CrossMesh::Send, CrossMesh::Gather, CrossMesh::Broadcast};

[[nodiscard]] const char* name_of(CrossMesh form);                      // "send", "gather", "broadcast"
[[nodiscard]] CrossMesh cross_mesh_from_name(const std::string& name);  // throws InputError

}  // namespace meshwright
