// SPDX-License-Identifier: Apache-2.0
// The name of the software that a plan is priced for: a profile, and how it is set up otherwise than the profile says.
#pragma once

#include <optional>
#include <string>

namespace meshwright {

// The last product and the loss take the tokens in as many chunks as leave the logits of one no more elements than its
// hidden states have (Hsu et al., Liger Kernel, arXiv:2410.10989).
inline constexpr int kFittingLossChunks = 0;

// How tokens get to experts of other devices.
enum class TokenDispatch {
  ToExperts,  // one copy to each of a token's experts, or as the profile has it
  ToHosts,    // one copy to each host that has some of them, which hands it on (DeepEP, HybridEP)
  ToAll       // every device gathers the tokens of all and takes its own (Megatron-Core's `allgather`)
};

struct SoftwareSetup {
  bool eight_bit_products = false;  // of the layers
  // Weights, gradients and moments are kept in the plan's own type of 16 bits, and none of them in 32.
  bool narrow_states = false;
  int moment_bits = 32;                      // the optimizer's moments are of no more: 32, 16 or 8
  std::optional<bool> fused_attention = {};  // in one kernel, whose scores are never in memory
  TokenDispatch dispatch = TokenDispatch::ToExperts;
  int experts_per_token = 0;  // but for ToExperts
  int loss_chunks = 1;        // 1: logits are whole
  bool operator==(const SoftwareSetup&) const = default;
};
// REQUIRES: `experts_per_token` is positive but for ToExperts.
void set_dispatch(SoftwareSetup& setup, TokenDispatch dispatch, int experts_per_token);

// "torchtitan", "deepspeed+unfused-attention", "nemo+host-dispatch=8",
// "my.json+fp8+16-bit-states+8-bit-moments+loss-chunks=8".
struct SoftwareName {
  std::string profile;  // of software_profiles(), or a profile's file
  SoftwareSetup setup = {};
};
// Throws InputError for a number of chunks or experts that is none.
[[nodiscard]] SoftwareName software_name_from_text(const std::string& text);
[[nodiscard]] std::string to_text(const SoftwareName& name);

// "auto" or a number; 1 leaves the loss whole. Throws InputError naming `place`.
[[nodiscard]] int loss_chunks_from_text(const std::string& text, const std::string& place);

}  // namespace meshwright
