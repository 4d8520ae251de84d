// SPDX-License-Identifier: Apache-2.0
// The whole rule of an attention on the host, with what its extra operand says. Internal to the executor.
#pragma once

#include <vector>

#include "executor/ops/attention_call.h"
#include "executor/ops/kernel_table.h"

namespace meshwright {

// The rule with the arrays of a sink, of a mask and of biases; a bias by distance is laid out in `bias`, which must
// live as long as the rule.
template <class T>
kernels::AttentionRule<T> whole_attention_rule(const Operands<T>& o, const kernels::AttentionShape& shape,
                                               std::vector<T>& bias) {
  using Extra = Attributes::Extra;
  kernels::AttentionRule<T> rule = attention_rule<T>(o, shape);
  const Extra extra = o.attributes().extra;
  if (extra == Extra::Sink) rule.sink = o.in(3);
  if (extra == Extra::Mask) {
    const MaskStrides strides = mask_strides(o, shape);
    rule.mask = o.in(3);
    rule.mask_query = strides.query;
    rule.mask_sample = strides.sample;
  }
  if (extra == Extra::RelativeBias || extra == Extra::Alibi) {
    bias.resize(static_cast<std::size_t>(shape.heads() * shape.distances()));
    if (extra == Extra::RelativeBias)
      kernels::relative_bias(o.in(3), {o.in_size(3, 0), !rule.causal}, bias.data(), shape, rule.first_position);
    else
      kernels::alibi_bias(bias.data(), shape, rule.first_position, attention_heads(o));
    rule.distance_bias = bias.data();
  }
  return rule;
}

}  // namespace meshwright
