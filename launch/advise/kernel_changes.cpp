// SPDX-License-Identifier: Apache-2.0
#include "launch/advise/kernel_changes.h"

#include <map>

namespace meshwright {

namespace {

struct KernelWords {
  std::string attention, loss;  // "": it has no such setting
  std::string dispatch = {};    // before the name of a way to move tokens to experts
};

// By dialect (LaunchSetup), or by target where the file is in the framework's own words.
KernelWords words_of(const LaunchSetup& setup) {
  static const KernelWords kTrainer = {"--attn_implementation flash_attention_2", "--use_liger_kernel True"};
  static const std::map<std::string, KernelWords> kKnown = {
      {"llama-factory", {"flash_attn: fa2", "enable_liger_kernel: true"}},
      {"axolotl", {"attn_implementation: flash_attention_2", "liger_fused_linear_cross_entropy: true"}},
      {"ms-swift", {"--attn_impl flash_attn", "--use_liger_kernel true"}},
      {"automodel", {"model.attn_implementation: flash_attention_2", "loss_fn: FusedLinearCrossEntropy"}},
      {"llm-foundry", {"model.attn_config.attn_impl: flash", ""}},
      {"deepspeed", kTrainer},
      {"accelerate", kTrainer},
      {"maxtext", {"", "num_vocab_tiling=8"}},
      {"megatron", {"--transformer-impl transformer_engine", "", "--moe-token-dispatcher-type "}},
      {"megatron-bridge", {"", "", "model.moe_token_dispatcher_type: "}}};
  const auto found = kKnown.find(setup.dialect.empty() ? setup.target : setup.dialect);
  return found == kKnown.end() ? KernelWords{} : found->second;
}

}  // namespace

std::vector<KernelChange> kernel_changes(const LaunchSetup& now) {
  const KernelWords words = words_of(now);
  std::vector<KernelChange> changes;
  if (now.software_setup.fused_attention == false && !words.attention.empty()) {
    changes.push_back({words.attention, now});
    changes.back().setup.software_setup.fused_attention = true;
  }
  if (now.software_setup.loss_chunks == 1 && !words.loss.empty()) {
    changes.push_back({words.loss, now});
    changes.back().setup.software_setup.loss_chunks = now.target == "maxtext" ? 8 : kFittingLossChunks;
  }
  const int experts = experts_per_token(now.model);
  const TokenDispatch own = now.software_setup.dispatch;
  if (experts == 0 || now.degrees.ep == 1 || words.dispatch.empty()) return changes;
  for (const TokenDispatch other : {TokenDispatch::ToExperts, TokenDispatch::ToHosts}) {
    // Where a file leaves it to its program, that does not gather.
    if (other == own || (other == TokenDispatch::ToExperts && own != TokenDispatch::ToAll)) continue;
    changes.push_back({words.dispatch + megatron_dispatcher(other), now});
    set_dispatch(changes.back().setup.software_setup, other, experts);
  }
  return changes;
}

}  // namespace meshwright
