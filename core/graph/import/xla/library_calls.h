// SPDX-License-Identifier: Apache-2.0
// Calls of NVIDIA's libraries, which XLA's GPU compiler puts in place of products, convolutions and attention, written
// out again: `__cublas$gemm` is a dot, scaled and added to; `__cublas$lt$matmul` has a bias and an activation behind
// it;
// `__cudnn$convForward` and `__cudnn$convBiasActivationForward` are convolutions; `__cudnn$fmha...` is attention
// (kAttentionCall). Their second result is working memory. What has no such form (products of 8 bits with scales, the
// backwards of convolutions and of attention, ragged or paged attention) stays the call that it is.
//
// What is handed to a library is JSON, plain or as a quoted text; fields by the names of XLA's backend_configs.proto.
#pragma once

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

// Custom calls that stand for the parts of a library's call that HLO has no operation for.
inline constexpr const char* kGeluCall = "gelu_tanh";
// (q, k, v), each (batch, positions, heads, width); `backend`: "mask_type=<0|2> scaling_factor=<s>".
inline constexpr const char* kAttentionCall = "attention";

void expand_library_calls(Program& program);

}  // namespace meshwright::xla
