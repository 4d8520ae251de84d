// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/accumulated_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/xla/data_parts.h"
#include "core/graph/import/xla/xla_summary.h"

namespace meshwright::xla {

namespace {

using Numbers = std::vector<std::int64_t>;

// The content of instructions and computations as text: equal texts compute the same of equal operands.
class Contents {
 public:
  explicit Contents(const Program& program) : program_(program), texts_(program.computations.size()) {}

  [[nodiscard]] std::string of(const Instruction& instruction) {
    const Attributes& a = instruction.attributes;
    std::string text = instruction.opcode + "|" + of(instruction.type);
    for (const Numbers* list : lists_of(a)) text += fmt::format("|{}", fmt::join(*list, ","));
    for (const bool reversed : a.window.reversed) text += reversed ? 'r' : '-';
    text += fmt::format("|{}|{}|{}|{}|{}|{}|{}|{}|{}", a.index_vector_dim, a.dim_labels, a.feature_groups,
                        a.batch_groups, a.index, a.direction, a.target, a.backend, a.trip_count.value_or(-1));
    if (a.values) {
      const auto* bytes = reinterpret_cast<const char*>(a.values->data());
      text += fmt::format("|{:x}", stable_hash({bytes, a.values->size() * sizeof(double)}));
    }
    for (const auto& [key, value] : a.other) text += "|" + key + "=" + value;
    for (const int call : instruction.calls) text += "{" + of_computation(call) + "}";
    return text;
  }

 private:
  static std::string of(const Type& type) {
    if (!type.is_tuple()) return text_of(type);
    std::string text = "(";
    for (const Type& part : type.parts) text += of(part) + ";";
    return text + ")";
  }
  const std::string& of_computation(int index) {
    std::string& text = texts_[static_cast<std::size_t>(index)];
    if (!text.empty()) return text;
    const Computation& computation = program_.computations[static_cast<std::size_t>(index)];
    std::string all;
    for (const Instruction& instruction : computation.instructions)
      all += fmt::format("{}({});", of(instruction), fmt::join(instruction.operands, ","));
    all = fmt::format("{:x}.{}", stable_hash(all), computation.root);
    return texts_[static_cast<std::size_t>(index)] = all;
  }

  const Program& program_;
  std::vector<std::string> texts_;
};

constexpr std::int64_t kOfNone = -1, kOfAll = -2;  // micro-batches

// A factor times a value of the program of one micro-batch.
struct Multiple {
  int value = -1;  // -1: the factor alone
  double factor = 1.0;
};

class Accumulation {
 public:
  Accumulation(const Program& program, const FlatProgram& flat, const Roles& roles, const DataParts& data)
      : program_(program), flat_(flat), roles_(roles), data_(data), contents_(program) {}

  std::optional<AccumulatedProgram> run() {
    made_.flat.turns = flat_.turns;
    for (Turn& turn : made_.flat.turns)
      if (turn.outer >= 0 && data_.turns.contains(turn.outer)) turn.outer = -1;
    values_.resize(flat_.values.size());
    stacks_.resize(flat_.values.size());
    random_.assign(flat_.values.size(), false);
    constant_ = random_;
    parts_.assign(flat_.values.size(), kOfNone);
    for (std::size_t p = 0; p < flat_.parameters.size(); ++p) argument_[flat_.parameters[p]] = p;
    for (std::size_t i = 0; i < flat_.ops.size(); ++i) {
      const bool parameter = flat_.ops[i].instruction->opcode == "parameter";
      if ((!roles_.needed[i] && !parameter) || flat_.ops[i].results.empty()) continue;
      op_ = &flat_.ops[i];
      if (!number(*op_)) return std::nullopt;
    }
    for (const int parameter : flat_.parameters) made_.flat.parameters.push_back(of(parameter).value);
    const Multiple result = unscaled(of(roles_.result));
    if (result.value < 0 || (parts_[static_cast<std::size_t>(roles_.result)] != kOfAll && !data_.of_one_part))
      return std::nullopt;
    made_.result = whole(result, *flat_.values[static_cast<std::size_t>(roles_.result)].type);
    made_.flat.results = {made_.result};
    made_.parts = data_.parts;
    made_.samples = data_.samples;
    made_.of_one_part = data_.of_one_part;
    return std::move(made_);
  }

 private:
  [[nodiscard]] const Multiple& of(int before) const { return values_[static_cast<std::size_t>(before)]; }
  [[nodiscard]] const Type& type(int before) const { return *flat_.values[static_cast<std::size_t>(before)].type; }
  [[nodiscard]] std::optional<double> known(int before) const {
    return flat_.values[static_cast<std::size_t>(before)].number;
  }

  int add(const Instruction& instruction, const std::vector<int>& operands, const std::vector<Type>& types) {
    made_.instructions.push_back(instruction);
    const int turn = op_->turn >= 0 && data_.turns.contains(op_->turn) ? -1 : op_->turn;
    FlatOp op{&made_.instructions.back(), operands, {}, turn};
    const int first = static_cast<int>(made_.flat.values.size());
    for (const Type& made : types) {
      made_.types.push_back(made);
      op.results.push_back(static_cast<int>(made_.flat.values.size()));
      made_.flat.values.push_back({static_cast<int>(made_.flat.ops.size()), &made_.types.back()});
    }
    if (types.size() == 1) made_.instructions.back().type = types[0];
    made_.flat.ops.push_back(std::move(op));
    return first;
  }
  int add(const char* opcode, const std::vector<int>& operands, const Type& made, Attributes attributes = {}) {
    Instruction instruction = *op_->instruction;
    instruction.opcode = opcode;
    instruction.calls.clear();
    instruction.attributes = std::move(attributes);
    return add(instruction, operands, {made});
  }

  // Four times a quarter of a value is that value.
  [[nodiscard]] Multiple unscaled(const Multiple& multiple) const {
    Multiple inner = multiple;
    while (inner.value >= 0 && std::abs(inner.factor - 1.0) > 1e-6) {
      const FlatOp& op = made_.flat.ops[static_cast<std::size_t>(value_at(inner.value).op)];
      const bool product = op.instruction->opcode == "multiply", quotient = op.instruction->opcode == "divide";
      if ((!product && !quotient) || op.operands.size() != 2) return multiple;
      const auto x = value_at(op.operands[0]).number, y = value_at(op.operands[1]).number;
      if (y && *y != 0.0)
        inner = {op.operands[0], product ? inner.factor * *y : inner.factor / *y};
      else if (x && product)
        inner = {op.operands[1], inner.factor * *x};
      else
        return multiple;
    }
    return inner;
  }
  [[nodiscard]] const FlatValue& value_at(int now) const { return made_.flat.values[static_cast<std::size_t>(now)]; }

  // The value that a multiple stands for.
  int whole(const Multiple& multiple, const Type& like) {
    if (multiple.value < 0 || std::abs(multiple.factor - 1.0) > 1e-6) {
      const int factor = add("constant", {}, like, {.values = std::vector<double>{multiple.factor}});
      if (elements_of(like) == 1.0) made_.flat.values[static_cast<std::size_t>(factor)].number = multiple.factor;
      return multiple.value < 0 ? factor : add("multiply", {multiple.value, factor}, like);
    }
    return multiple.value;
  }

  // False: the parts are not computed alike.
  bool number(const FlatOp& op) {
    const Instruction& instruction = *op.instruction;
    if (instruction.opcode == "parameter") return parameter(op), true;
    const auto result = static_cast<std::size_t>(op.results[0]);
    if (const auto part = data_.slices.find(op.results[0]); part != data_.slices.end()) {
      values_[result] = {micro_batch(part->second, type(op.results[0]))};
      parts_[result] = part->second.part;
      return true;
    }
    if (data_.views.contains(op.results[0])) return true;  // the batch as a whole; of use to slices alone
    for (const int operand : op.operands)
      if (data_.views.contains(operand)) return false;
    if (op.results.size() == 1 && known(op.results[0])) {
      values_[result] = {same(op, {})};
      made_.flat.values[static_cast<std::size_t>(of(op.results[0]).value)].number = known(op.results[0]);
      return true;
    }
    if ((instruction.opcode == "convert" || instruction.opcode == "copy") && op.operands.size() == 1 &&
        type(op.operands[0]) == type(op.results[0])) {  // nothing is done
      const auto operand = static_cast<std::size_t>(op.operands[0]);
      values_[result] = values_[operand];
      stacks_[result] = stacks_[operand];
      parts_[result] = parts_[operand];
      random_[result] = random_[operand];
      constant_[result] = constant_[operand];
      return true;
    }
    const std::int64_t part = part_of(op);
    for (const int made : op.results) parts_[static_cast<std::size_t>(made)] = part;
    const std::string& element = type(op.results[0]).element;
    const bool real = element.starts_with("f") || element.starts_with("bf");
    if (op.results.size() == 1 && real && (stacked(op) || summed(op))) return true;
    if (part == kOfAll && !keeps_mean(op)) return false;
    std::vector<int> operands;
    for (const int operand : op.operands) {
      if (of(operand).value < 0) return false;  // a stack that others than its sum read
      operands.push_back(whole(of(operand), type(operand)));
    }
    const int first = same(op, operands);
    for (std::size_t k = 0; k < op.results.size(); ++k)
      values_[static_cast<std::size_t>(op.results[k])] = {first + static_cast<int>(k)};
    return true;
  }

  [[nodiscard]] std::int64_t part_of(const FlatOp& op) const {
    std::int64_t part = kOfNone;
    for (const int operand : op.operands) {
      const std::int64_t other = parts_[static_cast<std::size_t>(operand)];
      if (other != kOfNone) part = part == kOfNone || part == other ? other : kOfAll;
    }
    return part;
  }
  // Whether an op of the mean over all micro-batches, whose value is that of one, is the mean of what it makes of each.
  [[nodiscard]] bool keeps_mean(const FlatOp& op) const {
    int means = 0;
    for (const int operand : op.operands) {
      const std::int64_t part = parts_[static_cast<std::size_t>(operand)];
      if (part >= 0 || (part == kOfAll && std::abs(of(operand).factor - 1.0) > 1e-6)) return false;
      means += part == kOfAll ? 1 : 0;
    }
    const std::string& opcode = op.instruction->opcode;
    for (const char* linear : {"add", "subtract", "negate", "reshape", "convert", "copy", "bitcast", "broadcast"})
      if (opcode == linear) return true;
    return (opcode == "multiply" && means == 1) ||
           (opcode == "divide" && means == 1 && parts_[static_cast<std::size_t>(op.operands[1])] == kOfNone);
  }

  void parameter(const FlatOp& op) {
    std::vector<Type> types;
    for (const int result : op.results) {
      Type one = type(result);
      if (const auto cut = data_.rows.find(result); cut != data_.rows.end()) one = cut->second;
      types.push_back(std::move(one));
    }
    const int first = add(*op.instruction, {}, types);
    for (std::size_t k = 0; k < op.results.size(); ++k) {
      const int result = op.results[k];
      values_[static_cast<std::size_t>(result)] = {first + static_cast<int>(k)};
      const auto found = argument_.find(result);
      random_[static_cast<std::size_t>(result)] = found != argument_.end() && roles_.roles[found->second] == Role::Key;
      if (random_[static_cast<std::size_t>(result)])
        (void)seen_.emplace("random " + text_of(type(result)), first + static_cast<int>(k));
    }
  }

  // The first op that computes the same.
  int same(const FlatOp& op, const std::vector<int>& operands) {
    bool random = !op.operands.empty(), any = false, constant = true;
    for (const int operand : op.operands) {
      const auto k = static_cast<std::size_t>(operand);
      any = any || random_[k];
      constant = constant && (constant_[k] || known(operand));
      random = random && (constant_[k] || known(operand) || random_[k]);
    }
    random = random && any;
    for (const int result : op.results) {
      random_[static_cast<std::size_t>(result)] = random;
      constant_[static_cast<std::size_t>(result)] = constant;
    }
    std::string key = fmt::format("{}({})", contents_.of(*op.instruction), fmt::join(operands, ","));
    if (const auto number = op.results.size() == 1 ? known(op.results[0]) : std::nullopt)
      key = fmt::format("number {} {}", text_of(type(op.results[0])), *number);
    // Each micro-batch draws numbers of its own, which are as random as those of another.
    const std::string& element = type(op.results[0]).element;
    if (random && op.results.size() == 1 && (element.starts_with("u") || element.starts_with("s")))
      key = "random " + text_of(type(op.results[0]));
    const auto [at, added] = seen_.emplace(std::move(key), 0);
    if (!added) return at->second;
    std::vector<Type> types;
    for (const int result : op.results) types.push_back(type(result));
    const int first = add(*op.instruction, operands, types);
    return at->second = first;
  }

  // The rows of one micro-batch in the form of a slice.
  int micro_batch(const Slice& slice, const Type& like) {
    std::string key = fmt::format("data {} {}", slice.parameter, text_of(like));
    for (const Slice::Range& range : slice.ranges) key += fmt::format(" {}+{}", range.from, range.size);
    const auto [at, added] = seen_.emplace(std::move(key), 0);
    if (!added) return at->second;
    int value = of(slice.parameter).value;
    Type now = *made_.flat.values[static_cast<std::size_t>(value)].type;
    Attributes cut;
    for (std::size_t d = 0; d < now.sizes.size(); ++d) {
      cut.start.push_back(slice.ranges[d].from);
      cut.limit.push_back(slice.ranges[d].from + slice.ranges[d].size);
    }
    Type smaller = now;
    for (std::size_t d = 0; d < now.sizes.size(); ++d) smaller.sizes[d] = cut.limit[d] - cut.start[d];
    if (smaller != now) value = add("slice", {value}, smaller, cut);
    if (smaller.element != like.element) value = add("convert", {value}, {like.element, smaller.sizes});
    if (smaller.sizes != like.sizes) value = add("reshape", {value}, like);
    return at->second = value;
  }

  // --- what becomes of the micro-batches' losses ---

  // One-element results side by side.
  bool stacked(const FlatOp& op) {
    const std::string& opcode = op.instruction->opcode;
    const auto result = static_cast<std::size_t>(op.results[0]);
    const double count = elements_of(type(op.results[0]));
    const auto stack_of = [&](int before) -> std::vector<Multiple> {
      const std::vector<Multiple>& stack = stacks_[static_cast<std::size_t>(before)];
      if (!stack.empty()) return stack;
      const FlatOp& from = flat_.ops[static_cast<std::size_t>(flat_.values[static_cast<std::size_t>(before)].op)];
      const double size = elements_of(type(before));
      const bool one = from.instruction->opcode == "broadcast" && from.operands.size() == 1 && known(from.operands[0]);
      const auto& values = from.instruction->attributes.values;
      const bool splat = from.instruction->opcode == "constant" && values && !values->empty() &&
                         std::all_of(values->begin(), values->end(), [&](double v) { return v == values->front(); });
      if ((!one && !splat) || size > 4096.0) return {};
      return std::vector<Multiple>(static_cast<std::size_t>(size),
                                   {-1, one ? *known(from.operands[0]) : values->front()});
    };
    if (opcode == "dynamic-update-slice" && op.operands.size() >= 3 && elements_of(type(op.operands[1])) == 1.0) {
      std::vector<Multiple> stack = stack_of(op.operands[0]);
      double at = 0.0;
      const Numbers& sizes = type(op.operands[0]).sizes;
      for (std::size_t d = 0; d < sizes.size() && d + 2 < op.operands.size(); ++d) {
        const auto start = known(op.operands[d + 2]);
        if (!start && sizes[d] != 1) return false;
        at = at * static_cast<double>(sizes[d]) +
             std::clamp(start.value_or(0.0), 0.0, static_cast<double>(sizes[d]) - 1.0);
      }
      if (stack.empty() || !(at < static_cast<double>(stack.size()))) return false;
      const auto number = known(op.operands[1]);
      stack[static_cast<std::size_t>(at)] = number ? Multiple{-1, *number} : of(op.operands[1]);
      if (!number && of(op.operands[1]).value < 0) return false;
      stacks_[result] = std::move(stack);
      values_[result] = {-1, 0.0};
      return true;
    }
    if (opcode == "concatenate" && count == static_cast<double>(op.operands.size()) && count > 1.0) {
      std::vector<Multiple> stack;
      for (const int operand : op.operands) stack.push_back(of(operand));
      for (const Multiple& each : stack)
        if (each.value < 0 || each.value != stack[0].value) return false;
      stacks_[result] = std::move(stack);
      values_[result] = {-1, 0.0};
      return true;
    }
    const bool moves = opcode == "reshape" || opcode == "convert" || opcode == "copy" || opcode == "bitcast";
    if (moves && op.operands.size() == 1 && !stacks_[static_cast<std::size_t>(op.operands[0])].empty()) {
      stacks_[result] = stacks_[static_cast<std::size_t>(op.operands[0])];
      values_[result] = {-1, 0.0};
      return true;
    }
    if (opcode == "reduce" && op.operands.size() == 2 && count == 1.0 &&
        !stacks_[static_cast<std::size_t>(op.operands[0])].empty() && known(op.operands[1]) == 0.0 && adds(op)) {
      Multiple sum{-1, 0.0};
      for (const Multiple& each : stacks_[static_cast<std::size_t>(op.operands[0])]) {
        if (each.value < 0 && each.factor == 0.0) continue;
        if (sum.value >= 0 && each.value != sum.value) return false;
        sum = {each.value, sum.factor + each.factor};
      }
      if (sum.value < 0) return false;
      values_[result] = sum;
      return true;
    }
    return false;
  }
  [[nodiscard]] bool adds(const FlatOp& op) const {
    if (op.instruction->calls.empty()) return false;
    const Computation& called = program_.computations[static_cast<std::size_t>(op.instruction->calls.back())];
    return called.parameters.size() == 2 && called.root >= 0 &&
           called.instructions[static_cast<std::size_t>(called.root)].opcode == "add";
  }

  // Sums, products with numbers and quotients of one-element results.
  bool summed(const FlatOp& op) {
    const std::string& opcode = op.instruction->opcode;
    if (elements_of(type(op.results[0])) != 1.0) return false;
    const auto set = [&](Multiple multiple) {
      values_[static_cast<std::size_t>(op.results[0])] = multiple;
      return true;
    };
    if (op.operands.size() == 1) {
      const Multiple x = of(op.operands[0]);
      if (x.value < 0 || x.factor == 1.0) return false;
      for (const char* linear : {"reshape", "convert", "copy", "bitcast", "broadcast"})
        if (opcode == linear && elements_of(type(op.operands[0])) == 1.0) return set({same(op, {x.value}), x.factor});
      return false;
    }
    if (op.operands.size() != 2) return false;
    const Multiple x = of(op.operands[0]), y = of(op.operands[1]);
    const auto a = known(op.operands[0]), b = known(op.operands[1]);
    if (opcode == "add" && a == 0.0 && y.value >= 0) return set(y);
    if (opcode == "add" && b == 0.0 && x.value >= 0) return set(x);
    if (opcode == "add" && !a && !b && x.value >= 0 && x.value == y.value) return set({x.value, x.factor + y.factor});
    if (opcode == "multiply" && a && y.value >= 0 && y.factor != 1.0) return set({y.value, *a * y.factor});
    if (opcode == "multiply" && b && x.value >= 0 && x.factor != 1.0) return set({x.value, *b * x.factor});
    if (opcode == "divide" && b && *b != 0.0 && x.value >= 0 && x.factor != 1.0) return set({x.value, x.factor / *b});
    if (opcode == "divide" && !a && !b && x.value >= 0 && y.value >= 0 && (x.factor != 1.0 || y.factor != 1.0))
      return set({same(op, {x.value, y.value}), x.factor / y.factor});
    return false;
  }

  const Program& program_;
  const FlatProgram& flat_;
  const Roles& roles_;
  const DataParts& data_;
  Contents contents_;
  AccumulatedProgram made_;
  std::vector<Multiple> values_;               // [value before]
  std::vector<std::vector<Multiple>> stacks_;  // [value before] the elements of several losses side by side
  std::vector<std::int64_t> parts_;            // [value before] the micro-batch that it is made of
  std::vector<bool> random_;                   // [value before] made of keys and numbers alone
  std::vector<bool> constant_;                 // [value before] made of no argument
  std::unordered_map<std::string, int> seen_;  // the first result of ops, by what they compute
  std::map<int, std::size_t> argument_;
  const FlatOp* op_ = nullptr;
};

}  // namespace

std::optional<AccumulatedProgram> of_one_micro_batch(const Program& program, const FlatProgram& flat,
                                                     const Roles& roles) {
  const std::optional<DataParts> data = data_parts(flat, roles);
  if (!data) return std::nullopt;
  return Accumulation(program, flat, roles, *data).run();
}

}  // namespace meshwright::xla
