// SPDX-License-Identifier: Apache-2.0
// The memory that a training software needs on the fullest device of a plan: as that software keeps tensors, not as
// this program's executor does. docs/memory.md has the rules.
#pragma once

#include <vector>

#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/plan/plan.h"
#include "costmodel/sheets/software_profile.h"

namespace meshwright {

// What one device holds, in bytes as the software asks its allocator for them.
struct FrameworkMemory {
  Bytes weights{0.0}, gradients{0.0}, optimizer{0.0};
  Bytes gathered{0.0};     // ZeRO-3: whole weights and gradients of the layers at work
  Bytes activations{0.0};  // kept from forward to backward passes, with what one pass needs beside them
  Bytes allocator{0.0};    // what the allocator cannot use
  Bytes driver{0.0};       // outside of the allocator: the driver's context, libraries, communicators

  [[nodiscard]] Bytes allocated() const { return weights + gradients + optimizer + gathered + activations + allocator; }
  [[nodiscard]] Bytes with_driver() const { return allocated() + driver; }
};

// Whether framework_memory speaks of this plan: it trains, keeps activations on its devices, which are all alike, and
// the profile's memory is not this program's own (memory_spread 0), which check_program counts to the byte.
[[nodiscard]] bool knows_memory(const SoftwareProfile& software, const Plan& plan);

// What the allocator can have of a device's memory: all but 2 GiB for the driver, libraries and communicators, as far
// as an allocator under pressure cannot have theirs.
[[nodiscard]] Bytes allocator_room(Bytes device);
// Whether a device of this memory holds what the allocator needs, as predicted.
[[nodiscard]] bool fits_on(Bytes allocated, Bytes device);
// What may be predicted for a plan that fits four times in five: log(predicted / true) is normal with the profile's
// memory_spread.
[[nodiscard]] Bytes safe_room(Bytes device, const SoftwareProfile& software);

// What one stage keeps of one micro-batch on each of its devices.
struct KeptActivations {
  Bytes kept{0.0};     // from its forward to its backward pass
  Bytes working{0.0};  // while its backward pass runs: the layer that it recomputes
  Bytes logits{0.0};   // from the last forward op to the first backward op
};

// [stage]. REQUIRES: check_plan(plan, graph) is empty.
[[nodiscard]] std::vector<KeptActivations> kept_activations(const Plan& plan, const Graph& graph,
                                                            const SoftwareProfile& software);
// The memory of the rank with the largest sum. REQUIRES: as kept_activations; a schedule that trains.
[[nodiscard]] FrameworkMemory framework_memory(const Plan& plan, const Graph& graph, const SoftwareProfile& software);

}  // namespace meshwright
