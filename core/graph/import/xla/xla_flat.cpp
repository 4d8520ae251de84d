// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/xla_flat.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/base/errors.h"

namespace meshwright::xla {

namespace {

constexpr std::size_t kMaxOps = std::size_t{1} << 19;     // of a flat program
constexpr std::size_t kMaxLeaves = std::size_t{1} << 22;  // handed on by tuples and calls, all together
constexpr std::int64_t kMaxTurns = 1 << 12;               // of one loop
constexpr int kMaxNested = 200;                           // calls in calls
// One loop may have half of what there may be in all; so may loops that are dropped again, together.
constexpr std::size_t kMaxLoopOps = kMaxOps / 2, kMaxLoopLeaves = kMaxLeaves / 2;
constexpr std::size_t kMaxDropped = std::size_t{1} << 24;

using Leaves = std::vector<int>;

void collect(const Type& type, std::vector<const Type*>& into) {
  if (!type.is_tuple()) into.push_back(&type);
  for (const Type& part : type.parts) collect(part, into);
}

std::size_t leaf_count(const Type& type) {
  if (!type.is_tuple()) return 1;
  std::size_t count = 0;
  for (const Type& part : type.parts) count += leaf_count(part);
  return count;
}

// The number that an instruction makes of numbers, where it has one element and is of those that count and compare.
std::optional<double> computed(const Instruction& of, const std::vector<std::optional<double>>& x) {
  const std::string& op = of.opcode;
  const auto number = [](bool value) { return value ? 1.0 : 0.0; };
  if (op == "constant")
    return of.attributes.values && of.attributes.values->size() == 1 ? std::optional(of.attributes.values->front())
                                                                     : std::nullopt;
  if (x.empty() || std::any_of(x.begin(), x.end(), [](const auto& value) { return !value; })) return std::nullopt;
  if (x.size() == 1) {
    for (const char* same : {"copy", "reshape", "bitcast", "broadcast", "transpose", "optimization-barrier"})
      if (op == same) return x[0];
    if (op == "convert") {
      if (of.type.element == "pred") return number(*x[0] != 0.0);
      const bool real = of.type.element.find('f') != std::string::npos;
      return real ? *x[0] : std::trunc(*x[0]);
    }
    if (op == "negate") return -*x[0];
    if (op == "not" && of.type.element == "pred") return number(*x[0] == 0.0);
  }
  if (x.size() == 2) {
    if (op == "add") return *x[0] + *x[1];
    if (op == "subtract") return *x[0] - *x[1];
    if (op == "multiply") return *x[0] * *x[1];
    if (op == "maximum") return std::max(*x[0], *x[1]);
    if (op == "minimum") return std::min(*x[0], *x[1]);
    if (op == "and" && of.type.element == "pred") return number(*x[0] != 0.0 && *x[1] != 0.0);
    if (op == "or" && of.type.element == "pred") return number(*x[0] != 0.0 || *x[1] != 0.0);
    const bool whole = of.type.element.front() == 's' || of.type.element.front() == 'u';
    if (op == "divide" && whole && *x[1] != 0.0) return std::trunc(*x[0] / *x[1]);
    if (op == "remainder" && whole && *x[1] != 0.0) return std::fmod(*x[0], *x[1]);
    if (op == "compare") {
      const std::string& direction = of.attributes.direction;
      if (direction == "LT") return number(*x[0] < *x[1]);
      if (direction == "LE") return number(*x[0] <= *x[1]);
      if (direction == "GT") return number(*x[0] > *x[1]);
      if (direction == "GE") return number(*x[0] >= *x[1]);
      if (direction == "EQ") return number(*x[0] == *x[1]);
      if (direction == "NE") return number(*x[0] != *x[1]);
    }
  }
  if (x.size() == 3 && op == "select") return *x[0] != 0.0 ? x[1] : x[2];
  if (x.size() == 3 && op == "clamp") return std::min(std::max(*x[0], *x[1]), *x[2]);
  return std::nullopt;
}

class Flattener {
 public:
  Flattener(const Program& program, const std::string& place) : program_(program), place_(place) {}

  FlatProgram run() {
    const Computation& entry = program_.computations[static_cast<std::size_t>(program_.entry)];
    std::vector<Leaves> arguments;
    for (const int parameter : entry.parameters) {
      require(parameter >= 0, "{}: computation '{}' lacks a parameter between others; give the whole module.", place_,
              entry.name);
      const Instruction& of = entry.instructions[static_cast<std::size_t>(parameter)];
      arguments.push_back(make(of, {}));
      made_.parameters.insert(made_.parameters.end(), arguments.back().begin(), arguments.back().end());
    }
    made_.results = frame(entry, arguments, 0);
    return std::move(made_);
  }

 private:
  // An op with these operands; its results' values.
  Leaves make(const Instruction& of, Leaves operands) {
    spend(1);
    const int op = static_cast<int>(made_.ops.size());
    std::vector<const Type*> types;
    collect(of.type, types);
    Leaves results;
    std::vector<std::optional<double>> numbers;
    for (const int operand : operands) numbers.push_back(made_.values[static_cast<std::size_t>(operand)].number);
    for (const Type* type : types) {
      results.push_back(static_cast<int>(made_.values.size()));
      const bool one = std::all_of(type->sizes.begin(), type->sizes.end(), [](std::int64_t size) { return size == 1; });
      std::optional<double> number;
      if (one && types.size() == 1 && of.calls.empty()) number = computed(of, numbers);
      made_.values.push_back({op, type, number});
    }
    made_.ops.push_back({&of, std::move(operands), results, turn_});
    return results;
  }

  void spend(std::size_t leaves) {
    spent_ += leaves;
    require(made_.ops.size() < kMaxOps && spent_ < kMaxLeaves,
            "{}: with its loops unrolled the program has more than {} instructions; give a model of fewer layers.",
            place_, kMaxOps);
  }

  Leaves frame(const Computation& computation, const std::vector<Leaves>& arguments, int depth) {
    require(depth < kMaxNested, "{}: computation '{}' lies more than {} calls deep; inline some of them.", place_,
            computation.name, kMaxNested);
    std::vector<Leaves> made(computation.instructions.size());
    for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
      const Instruction& of = computation.instructions[i];
      made[i] = value_of(of, made, arguments, depth, computation);
      spend(made[i].size());
    }
    require(computation.root >= 0, "{}: computation '{}' has no result; give the whole module.", place_,
            computation.name);
    return made[static_cast<std::size_t>(computation.root)];
  }

  [[noreturn]] void misfit(const Instruction& of, const char* what) const {
    throw InputError(
        fmt::format("{}:{}: '{}' {}; give the text that XLA printed, unchanged.", place_, of.line, of.name, what));
  }

  Leaves value_of(const Instruction& of, const std::vector<Leaves>& made, const std::vector<Leaves>& arguments,
                  int depth, const Computation& computation) {
    const auto operand = [&](std::size_t k) -> const Leaves& { return made[static_cast<std::size_t>(of.operands[k])]; };
    if (of.opcode == "parameter") {
      const auto number = static_cast<std::size_t>(of.attributes.index);
      if (number >= arguments.size()) misfit(of, "is a parameter that its caller does not give");
      if (arguments[number].size() != leaf_count(of.type)) misfit(of, "has another type than what its caller gives");
      return arguments[number];
    }
    if (of.opcode == "get-tuple-element") {
      if (of.operands.empty()) misfit(of, "takes an element of nothing");
      return element(of, computation, operand(0));
    }
    Leaves all;
    for (std::size_t k = 0; k < of.operands.size(); ++k) all.insert(all.end(), operand(k).begin(), operand(k).end());
    if (of.opcode == "tuple" || of.opcode == "opt-barrier" || of.opcode == "optimization-barrier") {
      if (all.size() != leaf_count(of.type)) misfit(of, "has another type than its operands");
      return all;
    }
    if ((of.opcode == "call" || of.opcode == "fusion" || of.opcode == "async-start") && of.calls.size() == 1) {
      std::vector<Leaves> given;
      for (std::size_t k = 0; k < of.operands.size(); ++k) given.push_back(operand(k));
      return checked(of, frame(called(of, 0), given, depth + 1));
    }
    if (of.opcode == "while" && of.calls.size() == 2) return loop(of, all, depth);
    if (of.opcode == "conditional" && !of.calls.empty()) return branch(of, made, depth);
    return make(of, std::move(all));
  }

  [[nodiscard]] const Computation& called(const Instruction& of, std::size_t k) const {
    return program_.computations[static_cast<std::size_t>(of.calls[k])];
  }

  Leaves checked(const Instruction& of, Leaves results) const {
    if (results.size() != leaf_count(of.type)) misfit(of, "has another type than what it calls makes");
    return results;
  }

  Leaves element(const Instruction& of, const Computation& computation, const Leaves& tuple) {
    const Type& type = computation.instructions[static_cast<std::size_t>(of.operands[0])].type;
    const auto index = static_cast<std::size_t>(of.attributes.index);
    if (!type.is_tuple() || of.attributes.index < 0 || index >= type.parts.size())
      misfit(of, "takes an element that its operand lacks");
    std::vector<std::size_t>& ends = ends_[&type];
    for (std::size_t k = ends.size(); k < type.parts.size(); ++k)
      ends.push_back((k == 0 ? 0 : ends.back()) + leaf_count(type.parts[k]));
    const std::size_t begin = index == 0 ? 0 : ends[index - 1], end = ends[index];
    if (end > tuple.size() || end - begin != leaf_count(of.type)) misfit(of, "takes an element that its operand lacks");
    return {tuple.begin() + static_cast<std::ptrdiff_t>(begin), tuple.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  [[nodiscard]] std::optional<double> number_of(int value) const {
    return made_.values[static_cast<std::size_t>(value)].number;
  }

  // Where a loop takes too many turns, what was made of it is dropped and it stays one instruction: it may be of use to
  // no result that is read.
  struct Mark {
    std::size_t ops, values, turns, spent;
  };
  [[nodiscard]] Mark mark() const { return {made_.ops.size(), made_.values.size(), made_.turns.size(), spent_}; }
  void drop_to(const Mark& mark) {
    dropped_ += made_.ops.size() - mark.ops + spent_ - mark.spent;
    require(dropped_ < kMaxDropped, "{}: its loops take more turns than can be unrolled; give a model of fewer layers.",
            place_);
    made_.ops.resize(mark.ops);
    made_.values.resize(mark.values);
    made_.turns.resize(mark.turns);
    spent_ = mark.spent;
  }

  Leaves loop(const Instruction& of, Leaves state, int depth) {
    const int outer = turn_;
    const Mark begin = mark();
    const Leaves start = state;
    for (std::int64_t turn = 0;; ++turn) {
      spend(state.size() + 1);
      if (turn == kMaxTurns || made_.ops.size() - begin.ops > kMaxLoopOps || spent_ - begin.spent > kMaxLoopLeaves) {
        drop_to(begin);
        turn_ = outer;
        return make(of, start);
      }
      turn_ = outer;
      const Leaves decision = frame(called(of, 0), {state}, depth + 1);
      if (decision.size() != 1) misfit(of, "has a condition that makes no truth value");
      std::optional<double> goes_on = number_of(decision[0]);
      if (!goes_on && of.attributes.trip_count) goes_on = turn < *of.attributes.trip_count ? 1.0 : 0.0;
      if (!goes_on) {
        turn_ = outer;
        return make(of, std::move(state));
      }
      if (*goes_on == 0.0) break;
      turn_ = static_cast<int>(made_.turns.size());
      made_.turns.push_back({fmt::format("{}.{}", of.name, turn), outer});
      state = checked(of, frame(called(of, 1), {state}, depth + 1));
    }
    turn_ = outer;
    return state;
  }

  Leaves branch(const Instruction& of, const std::vector<Leaves>& made, int depth) {
    const Leaves& decision = made[static_cast<std::size_t>(of.operands.empty() ? 0 : of.operands[0])];
    if (of.operands.size() != of.calls.size() + 1 || decision.size() != 1) misfit(of, "lacks the operands of a branch");
    const std::optional<double> chosen = number_of(decision[0]);
    if (chosen) {
      const bool truth = made_.values[static_cast<std::size_t>(decision[0])].type->element == "pred";
      const double last = static_cast<double>(of.calls.size() - 1);
      if (std::isnan(*chosen)) misfit(of, "is decided by what is no number");
      const double index = truth ? (*chosen != 0.0 ? 0.0 : 1.0) : *chosen < 0.0 || *chosen > last ? last : *chosen;
      const auto k = static_cast<std::size_t>(std::min(index, last));
      return checked(of, frame(called(of, k), {made[static_cast<std::size_t>(of.operands[k + 1])]}, depth + 1));
    }
    Leaves all;
    for (const int operand : of.operands)
      all.insert(all.end(), made[static_cast<std::size_t>(operand)].begin(),
                 made[static_cast<std::size_t>(operand)].end());
    return make(of, std::move(all));
  }

  const Program& program_;
  const std::string& place_;
  FlatProgram made_;
  std::size_t spent_ = 0;
  std::size_t dropped_ = 0;                                         // of loops that were not unrolled after all
  std::unordered_map<const Type*, std::vector<std::size_t>> ends_;  // of a tuple's elements, in leaves
  int turn_ = -1;
};

}  // namespace

FlatProgram flattened(const Program& program, const std::string& place) { return Flattener(program, place).run(); }

}  // namespace meshwright::xla
