// SPDX-License-Identifier: Apache-2.0
// How a training software spends time beyond the arithmetic of its products: what it fuses, what it overlaps, how often
// its host dispatches. Compiled in from software.json; chosen by `--software`.
#pragma once

#include <string>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

struct SoftwareProfile {
  std::string name;                  // "megatron"
  std::string about;                 // one line for people
  bool fused_attention = true;       // one kernel; otherwise the scores are written and read
  bool fused_bias = true;            // adding a bias costs no pass over memory
  bool fused_accumulation = true;    // gradients of weights are added up inside the product
  double pass_factor = 1.0;          // time of a pass over memory over its bytes at the data sheet's bandwidth
  double collective_factor = 1.0;    // time of a collective of activations over the collective's alone
  double gradient_overlap = 0.0;     // share of the gradient synchronisation that the backward pass hides
  Seconds dispatch{0.0};             // of one op
  Seconds dispatch_collective{0.0};  // of one collective
  Seconds dispatch_run{0.0};         // of one pass of one stage, beyond its ops
  Seconds step{0.0};                 // of the host, once per step
};

[[nodiscard]] const std::vector<SoftwareProfile>& software_profiles();
// The time of products in a training step over their time when measured alone in bursts: clocks fall under a steady
// load. By generation of the device; 1 for one that is not known.
[[nodiscard]] double sustained_factor(const std::string& generation);
// Throws InputError with the nearest names.
[[nodiscard]] const SoftwareProfile& find_software_profile(const std::string& name);

}  // namespace meshwright
