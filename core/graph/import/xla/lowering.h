// SPDX-License-Identifier: Apache-2.0
// What the rules of XLA's operations work on: the values of a flat program as nodes of a module.
//
// HLO writes every broadcast out. Here a dimension that only repeats has size 1 in its node (a constant of one element
// has no dimensions at all), as the primitive ops broadcast by themselves; it is repeated where an op needs it whole.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/xla/xla_flat.h"

namespace meshwright::xla {

struct Lowered {
  int node = -1;
  primitive::Shape shape = {};  // HLO's, with the batch as primitive::kBatchProbe where it is known to be it
  // Random numbers have no node. Truth values: the part that is true. Numbers: that part times `value`, else 0.
  bool random = false;
  double kept = 0.0, value = 1.0;  // 0: unknown
};

// A value that is waiting for a convolution or a pooling to take its padding.
struct Padded {
  int value;  // of the flat program: what is padded
  std::vector<std::int64_t> low, high;
  double fill;
};

class Lowering {
 public:
  Lowering(const Program& program, const FlatProgram& flat, primitive::Builder& builder)
      : b(builder), program_(program), flat_(flat), values_(flat.values.size()) {}

  primitive::Builder& b;

  // The opcode that a reduction's computation applies to its two numbers; empty: it does more.
  [[nodiscard]] std::string applied(const Instruction& reduction) const;
  // How its computation compares the two numbers that it is given first: "GT", "LT"; empty: it does other things.
  [[nodiscard]] std::string compared(const Instruction& sorting) const;
  [[nodiscard]] const Type& type(int value) const { return *flat_.values[static_cast<std::size_t>(value)].type; }
  [[nodiscard]] bool is_integer(int value) const;
  [[nodiscard]] bool is_complex(int value) const {
    return type(value).element == "c64" || type(value).element == "c128";
  }
  [[nodiscard]] std::optional<double> number(int value) const {
    return flat_.values[static_cast<std::size_t>(value)].number;
  }

  // The value, its padding written out.
  [[nodiscard]] const Lowered& of(int value);
  // Throws InputError where the op has no operand k.
  [[nodiscard]] const Lowered& operand(const FlatOp& op, std::size_t k) { return of(operand_value(op, k)); }
  [[nodiscard]] int operand_value(const FlatOp& op, std::size_t k) const;
  [[nodiscard]] const Padded* padded(int value) const;
  [[nodiscard]] bool is_random(int value) const { return values_[static_cast<std::size_t>(value)].random; }

  // Throws InputError where what was made of a result has not the sizes that the file says, those of the batch aside.
  void expect_sizes(int value) const;

  void set(int value, Lowered lowered) { values_[static_cast<std::size_t>(value)] = std::move(lowered); }
  void set(const FlatOp& op, int node, primitive::Shape shape) { set(op.results[0], {node, std::move(shape)}); }
  void set_padded(int value, Padded padded) { padded_.emplace(value, std::move(padded)); }

  // Size of a dimension in the node: 1 where it only repeats.
  [[nodiscard]] std::int64_t real(const Lowered& x, std::size_t d) const;
  // The node with the dimensions of HLO, repeated ones of size 1.
  [[nodiscard]] int ranked(const Lowered& x);
  // The node with dimension d, or all of them, whole.
  [[nodiscard]] int whole(const Lowered& x, std::size_t d);
  [[nodiscard]] int whole(const Lowered& x);
  // A size of the file at dimension d of a tensor that nothing ties to the batch yet: what it is for any batch.
  [[nodiscard]] std::int64_t lifted(std::int64_t size, std::size_t d) const;
  void learn(const primitive::Shape& sizes_of_file, const primitive::Shape& shape);

  [[nodiscard]] Lowered reshaped(const Lowered& x, const primitive::Shape& to);  // to: sizes of the file
  [[nodiscard]] Lowered transposed(const Lowered& x, const std::vector<std::int64_t>& axes);
  [[nodiscard]] Lowered sliced(const Lowered& x, std::size_t axis, std::int64_t start, std::int64_t stop,
                               std::int64_t step);
  [[nodiscard]] Lowered joined(const std::vector<Lowered>& pieces, std::size_t axis);
  [[nodiscard]] Lowered written_out(const Padded& padded);

 private:
  const Program& program_;
  const FlatProgram& flat_;
  std::vector<Lowered> values_;
  std::map<int, Padded> padded_;
  int depth_ = 0;                               // of slices of pieces
  std::map<std::int64_t, std::int64_t> known_;  // by the file's size of dimension 0
};

// Makes the results of an op; throws InputError.
using Rule = void (*)(Lowering&, const FlatOp&);
// Ops of random numbers: true where one of the operands is random, or the op makes random numbers; it is then done.
[[nodiscard]] bool lower_random(Lowering& l, const FlatOp& op);
// By opcode; a custom-call by "custom-call <target>". Null: the operation has no equal here.
[[nodiscard]] Rule rule_of(const Instruction& instruction);
[[nodiscard]] std::string called(const Instruction& instruction);  // "dot", "custom-call TopK"
// The rules of one file each; null where there is none.
[[nodiscard]] Rule elementwise_rule(const std::string& name);
[[nodiscard]] Rule shape_rule(const std::string& name);
[[nodiscard]] Rule product_rule(const std::string& name);
[[nodiscard]] Rule fourier_rule(const std::string& name);
[[nodiscard]] Rule expert_rule(const std::string& name);
[[nodiscard]] Rule call_rule(const std::string& target);
// Whether each element of a custom call's result is made of those at its place.
[[nodiscard]] bool is_elementwise_call(const std::string& target);
[[nodiscard]] Rule choice_rule(const std::string& name);
// A reduction of numbers with their places (arg max), and one over windows that is a cumulative sum: true where the op
// is such and is done.
[[nodiscard]] bool lower_arg_max(Lowering& l, const FlatOp& op);
[[nodiscard]] bool lower_cumulative_sum(Lowering& l, const FlatOp& op);
// Parts of a mixture that sorts its tokens by expert: rows picked in that order or back from it, a product by expert,
// and a sum over each token's choices, of a product or of a contraction; the same.
[[nodiscard]] bool lower_sorted_rows(Lowering& l, const FlatOp& op, const Lowered& table, const Lowered& indices);
[[nodiscard]] bool lower_product_by_expert(Lowering& l, const FlatOp& op, const Lowered& rows, const Lowered& weight);
[[nodiscard]] bool lower_sum_of_choices(Lowering& l, const FlatOp& op, const Lowered& x);
[[nodiscard]] bool lower_sum_of_choices(Lowering& l, const FlatOp& op, const Lowered& one, const Lowered& two);

}  // namespace meshwright::xla
