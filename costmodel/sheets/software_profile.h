// SPDX-License-Identifier: Apache-2.0
// How a training software spends time and memory beyond the arithmetic of its products: what it fuses, what it
// overlaps, how often its host dispatches. Compiled in from software.json; chosen by `--software`.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/software_name.h"

namespace meshwright {

// What can be fitted is a plain number in the unit that its name ends with, or a factor.
struct SoftwareProfile {
  std::string name;   // "megatron"
  std::string about;  // one line for people
  // Fused: in one kernel, where the scores of attention are never in memory; adding a bias costs no pass; gradients of
  // weights are added up inside the product.
  bool fused_attention = true, fused_bias = true, fused_accumulation = true;
  bool fused_scaling = true;      // scaling, shifting and bounding cost no pass: the kernels beside do them on the way
  bool fused_projections = true;  // queries, keys and values are one product, gate and up another
  bool scatter_gather = false;    // what all ranks of a tensor-parallel group hold crosses hosts once
  // A sequence that is split lies so that all devices have the same share of a causal mask (the first piece with the
  // last, and so on); false: neighbouring pieces lie together, and the last device has the most of it.
  bool balances_causal = true;
  bool pads_vocabulary = true;  // to a multiple of 128 on each device; else it is taken as it is
  bool overlaps = true;         // has streams for communication beside computation; false: `--overlap` is refused
  std::string product_dtype;    // of the layers' products, where it is not the tensors' own: "f8", "tf32"

  double sustained = 1.0;           // time of products over the device's sustained factor
  double pass_factor = 1.0;         // time of a pass over memory over its bytes at the data sheet's bandwidth
  double score_factor = 0.85;       // unfused attention: the same of passes over scores, and of its batched products
  double attention_factor = 1.0;    // time of fused attention over what its term says
  double attention_on_newer = 1.0;  // the same on Hopper and later, of kernels that are written for Ampere
  double grouped_factor = 1.0;      // time of the products of several experts over one batched product's
  double convolution_share = 0.0;   // of the peak that convolutions reach; 0: the device's share for products
  double collective_factor = 1.0;   // time of a collective of activations over the collective's alone
  double exchange_factor = 1.0;     // the same of all-to-all, by which tokens travel to experts and back
  double exchange_overlap = 0.0;    // share of it that interleaved passes of other micro-batches hide
  // The share that crosses the network of what tokens send to experts on other hosts: a token with several experts on
  // one host may be sent there once.
  double exchange_between_hosts = 1.0;
  TokenDispatch dispatch = TokenDispatch::ToExperts;  // ToHosts: exchange_between_hosts follows from the numbers
  int experts_per_token = 0;                          // but for ToExperts
  double quantise_passes = 1.8;  // bytes per element of a product's operands, where they become 8-bit
  double loss_factor = 1.0;      // time of passes over logits, relative to pass_factor
  // The same of the pass that adds a micro-batch's gradients, with the passes that copy, check and clear them.
  double accumulation_factor = 1.0;

  double selective_recompute = 0.0;  // fused attention: the share of the forward pass that selective means

  double gradient_bytes = 4.0;    // of an element when gradients are summed over replicas
  double gradient_overlap = 0.0;  // share of that sum that the backward passes hide
  double bucket_mib = 64.0;       // of gradients or parameters that travel together
  double contention = 0.4;        // by which computation slows while parameters are gathered beside it
  double optimizer_bytes = 60.0;  // moved per parameter in one update, with unscaling, clipping and casts

  double network_share = 0.8;  // of the rate between hosts that collectives reach
  double message_share = 0.8;  // of it that messages between stages reach
  double message_us = 20.0;    // start of a message between stages
  double message_gbs = 0.0;    // 1e9 bytes per second that one of them reaches at most; 0: as fast as the link
  double blocking = 0.45;      // share of a message's time that keeps sender and receiver from computing

  double dispatch_us = 0.0;             // of the host, per op
  double dispatch_collective_us = 0.0;  // per collective
  double dispatch_peer_us = 0.0;        // per member of a collective beyond two: all wait for the last to dispatch
  // Per move of tokens to their experts or back: the host routes, permutes and waits for the counts of each expert.
  double dispatch_tokens_us = 0.0;
  double dispatch_run_us = 0.0;  // per pass of a stage, beyond its ops
  double step_ms = 0.0;          // per step

  // Memory (costmodel/framework_memory.h).
  // A function and the gate it feeds are one kernel, with what scales, shifts and bounds on the way, and keeps what it
  // reads.
  bool fused_activation = true;
  bool dropout = false;                 // of residual sums and of unfused attention: masks are kept
  bool weights_from_master = false;     // ZeRO-3 gathers from the master copy; no 16-bit copy is split besides
  bool keeps_gathered_stage = false;    // ZeRO-3 in a pipeline: a stage's weights and gradients stay whole
  bool keeps_gathered_inputs = false;   // products keep what sequence parallelism gathered for them
  bool keeps_sent = false;              // a stage keeps what it sent until its backward pass
  bool keeps_eight_bit_inputs = false;  // products of 8 bits keep the operands that they quantised, and no others
  bool weighs_within_experts = false;   // a token's results are only added up, so that none is kept for its weight
  bool selective_by_op = false;    // selective recomputation keeps the results of attention and of every second product
  bool selective_by_cost = false;  // it drops what norms and activation functions compute
  double gradient_kept_bytes = 4.0;    // per parameter; at least the weights' own
  double gradient_copy_bytes = 0.0;    // 32-bit copy beside: bf16: the sum over micro-batches; fp16: split like states
  double optimizer_kept_bytes = 12.0;  // per parameter of 16 bits: master copy and moments in 32 bits
  double moment_share = 1.0;           // of the moments' 32 bits
  double logit_kept_bytes = 10.0;      // of each logit until its gradient is computed: itself, in 32 bits, its softmax
  int loss_chunks = 1;                 // of the last product and the loss; kFittingLossChunks: as many as fit
  double attention_copies = 0.0;       // of queries, keys and values, which layouts and rotations keep besides
  double gathered_layers = 2.0;        // of ZeRO-3, whole at once
  double allocator_factor = 1.03;      // of what is asked for, with what fragments and small buffers add
  double driver_gib = 8.0;  // where the driver is asked: beside that its context, communicators and cached blocks

  // Whether its numbers were fitted to published runs, and the generations of their devices ("ampere"; empty: not
  // known). The file's member `fitted` records more.
  bool fitted = false;
  std::vector<std::string> fitted_generations;

  // Deviation of log(predicted / measured) that the calibration of these numbers left, beyond what runs themselves
  // leave uncertain; measured, not fitted. The default is that of software which no runs were held against
  // (docs/cost-model.md).
  double spread = 0.13;
  // The same of the memory on the fullest device (docs/memory.md). 0: this program's own, counted to the byte.
  double memory_spread = 0.18;
};

// A number of a profile, and the range that is physical.
struct SoftwareNumber {
  const char* key;
  double SoftwareProfile::*member;
  double low, high;
};
[[nodiscard]] const std::vector<SoftwareNumber>& software_numbers();

[[nodiscard]] const std::vector<SoftwareProfile>& software_profiles();
// By name, or a file of one profile (name ending in ".json"), set up as the rest of a SoftwareName says: it quantises
// the operands of 8-bit products by `quantise_passes`. With another attention or other states than its runs had, its
// spreads are at least those of software that no runs were held against. Throws InputError with the nearest names, for
// a file of another format, and for numbers out of their range.
[[nodiscard]] SoftwareProfile find_software_profile(const std::string& name);
// As a file of one profile has it.
[[nodiscard]] Json to_json(const SoftwareProfile& profile);

// The time of products in a training step over their time when measured alone in bursts: clocks fall under a steady
// load. By generation of the device; 1 for one that is not known.
[[nodiscard]] double sustained_factor(const std::string& generation);

}  // namespace meshwright
