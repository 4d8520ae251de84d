// SPDX-License-Identifier: Apache-2.0
// The whole rule of an attention on the host, with what its extra operand says. Internal to the executor.
#pragma once

#include <algorithm>
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
    const std::vector<int>&q = o.call.space.inputs[0], &mask = o.call.space.inputs[3];
    const auto has = [&](int axis) { return std::find(mask.begin(), mask.end(), axis) != mask.end(); };
    rule.mask = o.in(3);
    rule.mask_query = has(q[1]) ? shape.kv_seq : 0;
    rule.mask_sample = !has(q[0]) ? 0 : has(q[1]) ? shape.seq * shape.kv_seq : shape.kv_seq;
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
