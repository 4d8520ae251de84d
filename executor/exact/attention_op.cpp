// SPDX-License-Identifier: Apache-2.0
// Attention: of query i and key j a number s_ij that depends on both, on their places, on the mask's number for them
// and, with ALiBi, on the head's; then
//   forward    out_i = sum_j s_ij v_j + z_i^2 c,                        z_i = sum_j s_ij, plus the sink's
//   backward   u_ij = t_ij (dout_i . v_j) + a_i,                        t_ij = s_ij (1 + z_i),
//              dq_i += u_ij k_j, dk_j += u_ij q_i, dv_j += t_ij dout_i  a_i = sum_j s_ij (dout_i . v_j)
// Sums over keys come first and squares after, so that keys may come in blocks, but not be split otherwise.
#include <algorithm>
#include <vector>

#include "executor/exact/residue.h"
#include "executor/exact/treatments.h"
#include "executor/ops/attention_call.h"

namespace meshwright::exact {

namespace {

using Extra = Attributes::Extra;
using AttendingPass = AttentionBlock::Pass;
enum Salt : std::uint64_t { kQuery = 11, kKey, kValue, kScore, kSum, kHead };

void add_to(double& to, Residue value) { to = stored(plus(of_stored(to), value)); }

// An attention, or its backward, to one block of keys.
class BlockOfKeys {
 public:
  BlockOfKeys(const Call& call, const AttentionBlock& block)
      : o_(call),
        block_(block),
        shape_(attention_shape(call)),
        rule_(attention_rule<double>(call, shape_)),
        part_(attention_heads(call)),
        q_(read(call.in(0), call.elements(0))),
        k_(read(call.in(1), shape_.batch * block.count * shape_.kv_heads * shape_.key_dim)),
        v_(read(call.in(2), shape_.batch * block.count * shape_.kv_heads * shape_.value_dim)),
        sums_(static_cast<double*>(block.rows)),
        along_(sums_ + rows()) {
    const Extra extra = call.attributes().extra;
    if (extra == Extra::Sink || extra == Extra::RelativeBias || extra == Extra::Mask)
      extra_ = read(call.in(3), call.elements(3));
    if (block.pass != AttendingPass::Attend) {
      const std::size_t last = call.inputs.size() - 1;
      dout_ = read(call.in(last), call.elements(last));
    }
  }

  void run() {
    if (block_.begins && block_.pass != AttendingPass::Differentiate) std::fill_n(sums_, 2 * rows(), 0.0);
    if (block_.begins) clear_results();
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      for (std::int64_t h = 0; h < shape_.kv_heads; ++h)
        for (std::int64_t g = 0; g < shape_.group; ++g)
          for (std::int64_t i = 0; i < shape_.seq; ++i) row({b, h, g, i});
  }

 private:
  struct Row {
    std::int64_t b, h, g, i;
  };
  [[nodiscard]] std::int64_t rows() const { return shape_.batch * shape_.seq * shape_.heads(); }
  [[nodiscard]] std::int64_t row_number(const Row& r) const {
    return ((r.b * shape_.seq + r.i) * shape_.kv_heads + r.h) * shape_.group + r.g;
  }
  [[nodiscard]] std::int64_t key_number(const Row& r, std::int64_t j) const {
    return (r.b * block_.count + j) * shape_.kv_heads + r.h;
  }
  [[nodiscard]] std::int64_t head(const Row& r) const { return r.h * shape_.group + r.g; }

  void clear_results() const {
    if (block_.pass == AttendingPass::Attend || block_.pass == AttendingPass::Differentiate)
      std::fill_n(o_.out(0), o_.out_elements(0), 0.0);
    const bool makes_extra = block_.pass == AttendingPass::Differentiate && o_.outputs.size() > 3;
    if (makes_extra) std::fill_n(o_.out(3), o_.out_elements(3), 0.0);
  }

  [[nodiscard]] static Residue digest(const Residue* values, std::int64_t width, Salt salt) {
    Residue sum = 0;
    for (std::int64_t d = 0; d < width; ++d)
      sum = plus(sum, times(values[d], plus(scrambled(salt, static_cast<std::uint64_t>(d)), values[d])));
    return sum;
  }

  // The table's row for a query and a key; null without a table.
  [[nodiscard]] std::optional<std::int64_t> table_place(const Row& r, std::int64_t key) const {
    if (o_.attributes().extra != Extra::RelativeBias) return std::nullopt;
    const kernels::RelativeBuckets by{o_.in_size(3, 0), !rule_.causal};
    return kernels::relative_bucket(key - rule_.first_position - r.i, by) * shape_.heads() + head(r);
  }

  [[nodiscard]] std::size_t mask_place(const Row& r, std::int64_t key) const {
    const MaskStrides mask = mask_strides(o_, shape_);
    return static_cast<std::size_t>(r.b * mask.sample + r.i * mask.query + key);
  }

  // s_ij, of the key of number j in the block.
  [[nodiscard]] Residue score(const Row& r, Residue query, std::int64_t j) const {
    const std::int64_t key = block_.first + j, position = rule_.first_position + r.i;
    const std::int64_t ahead = rule_.causal ? 1 : rule_.window;
    if ((rule_.window != 0 && key <= position - rule_.window) || (ahead != 0 && key >= position + ahead)) return 0;
    const Residue of_key = digest(k_.data() + key_number(r, j) * shape_.key_dim, shape_.key_dim, kKey);
    Residue both = plus(times(query, of_key), plus(query, of_key));
    if (o_.attributes().extra == Extra::Mask) both = plus(both, extra_[mask_place(r, key)]);
    if (const auto place = table_place(r, key)) both = plus(both, extra_[static_cast<std::size_t>(*place)]);
    const Residue of_places = scrambled(kScore, static_cast<std::uint64_t>(position), static_cast<std::uint64_t>(key));
    return times(both, plus(of_places, place_of_head(r)));
  }

  // Heads that only their numbers tell from each other may be computed in any order.
  [[nodiscard]] Residue place_of_head(const Row& r) const {
    if (o_.attributes().extra != Extra::Alibi) return 0;
    const std::int64_t whole_head = (part_.first_kv_head + r.h) * part_.whole_group + part_.first_group + r.g;
    return scrambled(kHead, static_cast<std::uint64_t>(whole_head));
  }

  [[nodiscard]] Residue sink(const Row& r) const {
    return o_.attributes().extra == Extra::Sink ? extra_[static_cast<std::size_t>(head(r))] : 0;
  }

  void row(const Row& r) {
    const Residue* query = q_.data() + row_number(r) * shape_.key_dim;
    const Residue of_query = digest(query, shape_.key_dim, kQuery);
    double &sum = sums_[row_number(r)], &along = along_[row_number(r)];
    if (block_.pass == AttendingPass::Differentiate)
      return differentiate(r, query, of_query, of_stored(sum), of_stored(along));
    for (std::int64_t j = 0; j < block_.count; ++j) {
      const Residue s = score(r, of_query, j);
      add_to(sum, s);
      if (block_.pass == AttendingPass::Attend)
        add_values(r, s, j);
      else
        add_to(along, times(s, dout_dot_value(r, j)));
    }
    if (!block_.ends) return;
    add_to(sum, times(sink(r), plus(of_query, 1)));
    if (block_.pass != AttendingPass::Attend) return;
    const Residue square = times(of_stored(sum), of_stored(sum));
    for (std::int64_t e = 0; e < shape_.value_dim; ++e)
      add_to(o_.out(0)[row_number(r) * shape_.value_dim + e],
             times(square, scrambled(kSum, static_cast<std::uint64_t>(e))));
  }

  void add_values(const Row& r, Residue s, std::int64_t j) const {
    const Residue* value = v_.data() + key_number(r, j) * shape_.value_dim;
    for (std::int64_t e = 0; e < shape_.value_dim; ++e)
      add_to(o_.out(0)[row_number(r) * shape_.value_dim + e], times(s, value[e]));
  }

  [[nodiscard]] Residue dout_dot_value(const Row& r, std::int64_t j) const {
    const Residue* value = v_.data() + key_number(r, j) * shape_.value_dim;
    const Residue* dout = dout_.data() + row_number(r) * shape_.value_dim;
    Residue sum = 0;
    for (std::int64_t e = 0; e < shape_.value_dim; ++e)
      sum = plus(sum, times(value[e], plus(dout[e], times(dout[e], scrambled(kValue, static_cast<std::uint64_t>(e))))));
    return sum;
  }

  void differentiate(const Row& r, const Residue* query, Residue of_query, Residue sum, Residue along) const {
    const Residue* dout = dout_.data() + row_number(r) * shape_.value_dim;
    for (std::int64_t j = 0; j < block_.count; ++j) {
      const Residue s = score(r, of_query, j);
      if (s == 0) continue;
      const Residue* key = k_.data() + key_number(r, j) * shape_.key_dim;
      const Residue t = times(s, plus(1, sum)), u = plus(times(t, dout_dot_value(r, j)), along);
      for (std::int64_t d = 0; d < shape_.key_dim; ++d) {
        add_to(o_.out(0)[row_number(r) * shape_.key_dim + d], times(u, key[d]));
        add_to(o_.out(1)[key_number(r, j) * shape_.key_dim + d], times(u, query[d]));
      }
      for (std::int64_t e = 0; e < shape_.value_dim; ++e)
        add_to(o_.out(2)[key_number(r, j) * shape_.value_dim + e], times(t, dout[e]));
      if (const auto place = table_place(r, block_.first + j)) add_to(o_.out(3)[*place], u);
    }
    if (o_.attributes().extra == Extra::Sink && block_.begins)
      add_to(o_.out(3)[head(r)], times(plus(along, 1), times(sum, sink(r))));
  }

  const Call& o_;
  const AttentionBlock& block_;
  const kernels::AttentionShape shape_;
  const kernels::AttentionRule<double> rule_;
  const kernels::HeadPart part_;
  const std::vector<Residue> q_, k_, v_;
  std::vector<Residue> extra_, dout_;
  double *sums_, *along_;  // (batch, seq, kv_heads, group): z and a
};

}  // namespace

void attend_block(const Call& call, const AttentionBlock& block) { BlockOfKeys(call, block).run(); }

void attend(const Call& call) {
  std::vector<double> rows(static_cast<std::size_t>(attention_row_sums(call.call)));
  attend_block(call, {AttendingPass::Attend, 0, call.in_size(1, 1), true, true, rows.data()});
}

void attend_backward(const Call& call) {
  std::vector<double> rows(static_cast<std::size_t>(attention_row_sums(call.call)));
  for (const std::size_t gradient : {1, 2}) std::fill_n(call.out(gradient), call.out_elements(gradient), 0.0);
  for (const AttendingPass pass : {AttendingPass::Measure, AttendingPass::Differentiate})
    attend_block(call, {pass, 0, call.in_size(1, 1), true, true, rows.data()});
}

}  // namespace meshwright::exact
