// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/attention_blocks.h"

#include <algorithm>
#include <vector>

#include "core/base/errors.h"
#include "executor/ops/attention_rule.h"
#include "kernels/cpu/attention/attention_blocks.h"

namespace meshwright {

namespace {

using Extra = Attributes::Extra;
using Pass = AttentionBlock::Pass;

constexpr std::int64_t kNumbersOfRow = 3;  // of RowSums

template <class T>
struct BlockRun {
  Operands<T> o;
  AttentionBlock block;
  kernels::AttentionShape shape = attention_shape(o);
  std::vector<T> bias = {};
  kernels::AttentionCall<T> call = make_call();
  kernels::RowSums<T> rows = row_sums();

  // Keys and values, or their gradients, lie as a block has them; all else as the op has it.
  template <class U, class At>
  [[nodiscard]] kernels::AttentionViews<U> views(At at) const {
    return {kernels::dense_heads<U>(at(0), shape.seq, shape.heads(), shape.key_dim),
            kernels::dense_heads<U>(at(1), block.count, shape.kv_heads, shape.key_dim),
            kernels::dense_heads<U>(at(2), block.count, shape.kv_heads, shape.value_dim)};
  }
  [[nodiscard]] kernels::AttentionCall<T> make_call() {
    return {shape, views<const T>([&](std::size_t i) { return o.in(i); }), whole_attention_rule(o, shape, bias)};
  }
  [[nodiscard]] kernels::RowSums<T> row_sums() const {
    T* first = static_cast<T*>(block.rows);
    const std::int64_t each = attention_row_sums(o.call) / kNumbersOfRow;
    return {first, first + each, first + 2 * each};
  }
  [[nodiscard]] kernels::KeyRange keys() const { return {block.first, block.count}; }
  [[nodiscard]] const T* dout() const { return o.in(o.inputs.size() - 1); }

  void attend() const {
    if (block.begins) {
      kernels::begin_rows(call, rows);
      std::fill_n(o.out(0), o.out_elements(0), T(0));
    }
    kernels::attend(call, keys(), rows, o.out(0));
    if (block.ends) kernels::end_rows(call, rows, o.out(0));
  }

  void measure() const {
    if (block.begins) kernels::begin_rows(call, rows);
    kernels::measure(call, keys(), rows, dout());
    if (!block.ends) return;
    std::vector<double> sink(call.rule.sink != nullptr ? static_cast<std::size_t>(shape.heads()) : 0);
    kernels::end_measure(call, rows, sink.empty() ? nullptr : sink.data());
    for (std::size_t h = 0; h < sink.size(); ++h) o.out(3)[h] = static_cast<T>(sink[h]);
  }

  void differentiate() const {
    const bool relative = o.attributes().extra == Extra::RelativeBias;
    if (block.begins) {
      std::fill_n(o.out(0), o.out_elements(0), T(0));
      if (relative) std::fill_n(o.out(3), o.out_elements(3), T(0));
    }
    std::vector<double> of_bias(relative ? bias.size() : 0);
    const kernels::AttentionGradients<T> gradients{views<T>([&](std::size_t i) { return o.out(i); }), nullptr,
                                                   relative ? of_bias.data() : nullptr};
    kernels::attend_backward(call, keys(), rows, dout(), gradients);
    if (!relative) return;
    std::vector<T> of_table(static_cast<std::size_t>(o.out_elements(3)));
    kernels::relative_bias_gradient(of_bias.data(), {o.in_size(3, 0), !call.rule.causal}, of_table.data(), shape,
                                    call.rule.first_position);
    for (std::size_t i = 0; i < of_table.size(); ++i) o.out(3)[i] += of_table[i];
  }
};

}  // namespace

std::int64_t attention_row_sums(const OpCallPlan& call) {
  const std::vector<int>& q = call.space.inputs[0];
  std::int64_t rows = kNumbersOfRow;
  for (std::size_t d = 0; d + 1 < q.size(); ++d) rows *= call.sizes[static_cast<std::size_t>(q[d])];
  return rows;
}

template <class T>
void run_attention_block(const OpCallPlan& call, const AttentionBlock& block, std::span<void* const> inputs,
                         std::span<void* const> outputs, const OpMoment& moment) {
  const bool forward = block.pass == Pass::Attend;
  MW_CHECK(call.kind == (forward ? OpKind::GroupedAttention : OpKind::GroupedAttentionBackward),
           "a block of keys for {}", name_of(call.kind));
  const BlockRun<T> run{Operands<T>{{call, inputs, outputs, moment}}, block};
  if (forward) return run.attend();
  if (block.pass == Pass::Measure) return run.measure();
  run.differentiate();
}
template void run_attention_block<float>(const OpCallPlan&, const AttentionBlock&, std::span<void* const>,
                                         std::span<void* const>, const OpMoment&);
template void run_attention_block<double>(const OpCallPlan&, const AttentionBlock&, std::span<void* const>,
                                          std::span<void* const>, const OpMoment&);

}  // namespace meshwright
