// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/xla_summary.h"

#include <algorithm>
#include <cmath>

namespace meshwright::xla {

namespace {

constexpr int kMaxSteps = 64;  // from a comparison to its constants

const Instruction& at(const Computation& computation, int index) {
  return computation.instructions[static_cast<std::size_t>(index)];
}

bool passes_on(const Instruction& of) {
  for (const char* opcode : {"copy", "convert", "bitcast", "reshape", "broadcast", "opt-barrier"})
    if (of.opcode == opcode) return of.operands.size() == 1;
  return false;
}

// A number in a loop's condition or body: a constant, or an element of the loop's state.
struct Term {
  std::optional<double> number;
  std::int64_t element = -1;
};

// What instruction `index` is, seen through fusions and calls: `frames` holds their callers, innermost last.
struct Frame {
  const Computation* computation;
  const Instruction* caller;  // in the frame before; null of the outermost
};

class Tracer {
 public:
  Tracer(const Program& program, const Computation& outer) : program_(program), frames_{{&outer, nullptr}} {}

  // Moves down to what makes the value; null where that cannot be told.
  const Instruction* origin(int index) {
    for (int steps = 0; steps < kMaxSteps; ++steps) {
      const Computation& here = *frames_.back().computation;
      if (index < 0 || static_cast<std::size_t>(index) >= here.instructions.size()) return nullptr;
      const Instruction& of = at(here, index);
      if (passes_on(of)) {
        index = of.operands[0];
      } else if ((of.opcode == "call" || of.opcode == "fusion") && of.calls.size() == 1) {
        const Computation& called = program_.computations[static_cast<std::size_t>(of.calls[0])];
        frames_.push_back({&called, &of});
        index = called.root;
      } else if (of.opcode == "parameter" && frames_.size() > 1) {
        const auto number = static_cast<std::size_t>(of.attributes.index);
        const Instruction& caller = *frames_.back().caller;
        frames_.pop_back();
        if (number >= caller.operands.size()) return nullptr;
        index = caller.operands[number];
      } else {
        return &of;
      }
    }
    return nullptr;
  }

  [[nodiscard]] const std::vector<Frame>& frames() const { return frames_; }
  void set_frames(std::vector<Frame> frames) { frames_ = std::move(frames); }

  Term term(int index) {
    const std::vector<Frame> before = frames_;
    Term found;
    const Instruction* of = origin(index);
    if (of != nullptr && of->opcode == "constant" && of->attributes.values && of->attributes.values->size() == 1)
      found.number = of->attributes.values->front();
    if (of != nullptr && of->opcode == "get-tuple-element" && !of->operands.empty() && frames_.size() == 1) {
      const Instruction& state = at(*frames_[0].computation, of->operands[0]);
      if (state.opcode == "parameter") found.element = of->attributes.index;
    }
    frames_ = before;
    return found;
  }

 private:
  const Program& program_;
  std::vector<Frame> frames_;
};

// Element k of a tuple that the computation makes; -1: unknown.
int element_of(const Computation& computation, int tuple, std::int64_t k) {
  const Instruction& of = at(computation, tuple);
  if (of.opcode != "tuple" || k < 0 || static_cast<std::size_t>(k) >= of.operands.size()) return -1;
  return of.operands[static_cast<std::size_t>(k)];
}

std::optional<double> initial(const Program& program, const Computation& caller, const Instruction& loop,
                              const Term& term) {
  if (term.number) return term.number;
  if (loop.operands.size() != 1) return std::nullopt;
  return Tracer(program, caller).term(element_of(caller, loop.operands[0], term.element)).number;
}

// What a turn adds to the element of the state; 0: it stays as it is.
std::optional<double> step_of(const Program& program, const Computation& body, std::int64_t element) {
  Tracer tracer(program, body);
  const int made = body.root < 0 ? -1 : element_of(body, body.root, element);
  if (made < 0) return std::nullopt;
  if (tracer.term(made).element == element) return 0.0;
  const Instruction* sum = tracer.origin(made);
  if (sum == nullptr || sum->opcode != "add" || sum->operands.size() != 2) return std::nullopt;
  for (const std::size_t k : {0u, 1u}) {
    const Term counter = tracer.term(sum->operands[k]), added = tracer.term(sum->operands[1 - k]);
    if (counter.element == element && added.number) return added.number;
  }
  return std::nullopt;
}

const char* const kCollectives[] = {"all-reduce",        "all-gather",         "reduce-scatter",      "all-to-all",
                                    "ragged-all-to-all", "collective-permute", "collective-broadcast"};

void add_collective(const Computation& computation, const Instruction& of, double runs, ProgramSummary& into) {
  if (of.opcode.ends_with("-done") || of.opcode.ends_with("-update")) return;
  std::string kind;
  for (const char* name : kCollectives)
    if (of.opcode == name || of.opcode == std::string(name) + "-start") kind = name;
  if (kind.empty()) return;
  double read = 0.0;
  for (const int operand : of.operands) read += bytes_of(at(computation, operand).type);
  const bool started = of.opcode.ends_with("-start") && of.type.is_tuple() && !of.type.parts.empty();
  const double made =
      started ? bytes_of(of.type.parts.size() > 1 ? of.type.parts[1] : of.type.parts[0]) : bytes_of(of.type);
  CollectiveSummary& found = into.collectives[kind];
  ++found.instructions;
  found.runs += runs;
  found.bytes += runs * std::max(read, made);
}

}  // namespace

bool runs_its_calls(const Instruction& instruction) {
  for (const char* opcode : {"call", "fusion", "while", "conditional", "custom-call", "async-start"})
    if (instruction.opcode == opcode) return true;
  return false;
}

double elements_of(const Type& type) {
  if (type.is_tuple()) return 0.0;
  double product = 1.0;
  for (const std::int64_t size : type.sizes) product *= static_cast<double>(size);
  return product;
}

std::string text_of(const Type& type) {
  std::string text = type.element;
  for (const std::int64_t size : type.sizes) text += "," + std::to_string(size);
  return text;
}

double bytes_of(const Type& type) {
  double bytes = 0.0;
  std::vector<const Type*> open = {&type};
  while (!open.empty()) {
    const Type& of = *open.back();
    open.pop_back();
    for (const Type& part : of.parts) open.push_back(&part);
    if (of.is_tuple() || of.element == "token") continue;
    double bits = 8.0;
    const std::size_t digit = of.element.find_first_of("0123456789");
    if (digit != std::string::npos) bits = std::strtod(of.element.c_str() + digit, nullptr);
    if (of.element.starts_with("f8") || of.element.starts_with("f4") || of.element == "pred")
      bits = of.element.starts_with("f4") ? 4.0 : 8.0;
    bytes += elements_of(of) * bits / 8.0;
  }
  return bytes;
}

double flops_of(const Instruction& instruction, const Type& x, const Type& y) {
  double terms = 1.0;  // that each element of the result sums
  if (instruction.opcode == "dot") {
    for (const std::int64_t d : instruction.attributes.lhs_contracting)
      if (d >= 0 && static_cast<std::size_t>(d) < x.sizes.size())
        terms *= static_cast<double>(x.sizes[static_cast<std::size_t>(d)]);
  } else if (instruction.opcode == "convolution") {
    const std::string& labels = instruction.attributes.dim_labels;
    const std::size_t begin = labels.find('_'), out = labels.find('o', begin == std::string::npos ? 0 : begin);
    if (begin == std::string::npos || out == std::string::npos || out - begin - 1 >= y.sizes.size()) return 0.0;
    terms = elements_of(y) / std::max(1.0, static_cast<double>(y.sizes[out - begin - 1]));
  } else {
    return 0.0;
  }
  return 2.0 * terms * elements_of(instruction.type);
}

std::optional<std::int64_t> trip_count_of(const Program& program, const Computation& caller, const Instruction& loop) {
  if (loop.attributes.trip_count) return loop.attributes.trip_count;
  if (loop.calls.size() != 2) return std::nullopt;
  const Computation& condition = program.computations[static_cast<std::size_t>(loop.calls[0])];
  const Computation& body = program.computations[static_cast<std::size_t>(loop.calls[1])];
  Tracer tracer(program, condition);
  const Instruction* compare = tracer.origin(condition.root);
  if (compare == nullptr || compare->opcode != "compare" || compare->operands.size() != 2) return std::nullopt;
  Term counter = tracer.term(compare->operands[0]), limit = tracer.term(compare->operands[1]);
  std::string direction = compare->attributes.direction;
  if (counter.number) {
    std::swap(counter, limit);
    direction = direction == "GT" ? "LT" : direction == "GE" ? "LE" : direction;
  }
  const std::optional<double> first = initial(program, caller, loop, counter),
                              last = initial(program, caller, loop, limit),
                              step = step_of(program, body, counter.element);
  const bool still = limit.number || step_of(program, body, limit.element) == 0.0;
  if (!last || !step || !still || *step <= 0.0 || (direction != "LT" && direction != "LE" && direction != "NE"))
    return std::nullopt;
  // A counter whose start the loop's caller does not tell starts at 0.
  const double count = std::ceil((*last - first.value_or(0.0) + (direction == "LE" ? 1.0 : 0.0)) / *step);
  if (!(count < 1e15)) return std::nullopt;
  return static_cast<std::int64_t>(std::max(count, 0.0));
}

ProgramSummary summary_of(const Program& program) {
  ProgramSummary summary;
  summary.partitions = program.partitions;
  summary.cut_off = program.cut_off;
  summary.computations = static_cast<std::int64_t>(program.computations.size());
  for (const Computation& computation : program.computations) {
    summary.instructions += static_cast<std::int64_t>(computation.instructions.size());
    for (const Instruction& of : computation.instructions) ++summary.opcodes[of.opcode];
  }
  // Callers stand behind what they call.
  std::vector<double> runs(program.computations.size(), 0.0);
  if (program.entry >= 0) runs[static_cast<std::size_t>(program.entry)] = 1.0;
  if (program.entry < 0) std::fill(runs.begin(), runs.end(), 1.0);
  for (std::size_t c = program.computations.size(); c-- > 0;) {
    const Computation& computation = program.computations[c];
    if (runs[c] == 0.0) continue;
    for (const Instruction& of : computation.instructions) {
      double times = runs[c];
      if (of.opcode == "while") {
        const std::optional<std::int64_t> trips = trip_count_of(program, computation, of);
        if (trips) summary.trip_counts.push_back(*trips);
        if (!trips) ++summary.unknown_loops;
        times *= static_cast<double>(trips.value_or(1));
      }
      if (runs_its_calls(of) && program.entry >= 0)
        for (const int called : of.calls) runs[static_cast<std::size_t>(called)] += times;
      const double flops = of.operands.size() < 2 ? 0.0
                                                  : runs[c] * flops_of(of, at(computation, of.operands[0]).type,
                                                                       at(computation, of.operands[1]).type);
      if (of.opcode == "dot") {
        ++summary.dots;
        summary.dot_flops += flops;
      } else if (of.opcode == "convolution") {
        ++summary.convolutions;
        summary.convolution_flops += flops;
      }
      add_collective(computation, of, runs[c], summary);
    }
  }
  return summary;
}

}  // namespace meshwright::xla
