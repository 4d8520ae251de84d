// SPDX-License-Identifier: Apache-2.0
// Makes the computations of a program from the functions and regions of an MLIR module.
#pragma once

#include <unordered_map>

#include "core/graph/import/mlir/attributes.h"
#include "core/graph/import/mlir/open_sizes.h"

namespace meshwright::mlir {

// What a name stands for in one computation.
struct Bound {
  int base = -1;            // an instruction; -1: only the elements
  std::int64_t count = 1;   // of the name's results
  std::int64_t first = -1;  // its first element in the tuple `base`; -1: `base` is no tuple of results
  std::map<std::int64_t, int> elements = {};  // instructions, as far as they are read
};

// A computation that is being made.
struct Frame {
  xla::Computation computation;
  std::vector<KnownNumbers> known = {};  // by instruction: what sizes are computed from
  std::unordered_map<std::string_view, Bound> names = {};
};

class Translator {
 public:
  Translator(const SyntaxTree& tree, const std::map<std::string, std::int64_t>& dims, const std::string& place)
      : tree_(tree), dims_(dims), place_(place), context_{tree, place_} {}
  xla::Program translate();

 private:
  // Entry
  [[nodiscard]] const Function& entry() const;
  void read_entry(const Function& function);
  void count_partitions();
  [[nodiscard]] std::string argument_name(const Function& function, const Argument& argument) const;
  [[nodiscard]] std::string name_by_result(const Function& function, std::int64_t result) const;
  void add_aliases(const Function& function, xla::Computation& computation);

  [[nodiscard]] bool has_open_sizes(const Function& function);
  // Functions and regions, each a computation; its number.
  int function(const Function& function, const std::vector<xla::Type>& arguments,
               const std::vector<KnownNumbers>& known);
  int add(Frame& frame);
  void body(Frame& frame, const Region& region);
  int op(Frame& frame, const Op& op);  // the root, if it is a return; else -1

  // Ops with regions and calls
  void call(Frame& frame, const Op& op);
  void loop(Frame& frame, const Op& op);
  void branches(Frame& frame, const Op& op);
  void reducing(Frame& frame, const Op& op);
  void named(Frame& frame, const Op& op);
  // All others
  void plain(Frame& frame, const Op& op);
  void broadcast(Frame& frame, const Op& op);
  void numpy_binary(Frame& frame, const Op& op);
  void complement(Frame& frame, const Op& op);

  // What a region reads from outside: constants to copy, and others to hand in.
  struct Captured {
    std::vector<Use> uses = {};    // of `values`
    std::vector<int> values = {};  // in the frame outside
    std::vector<Use> constants = {};
    std::vector<int> constant_values = {};
  };
  [[nodiscard]] Captured captured(Frame& frame, const Op& op);
  void bind_constants(Frame& inner, const Captured& captured, const Frame& outer);
  void bind(Frame& frame, const Use& use, int instruction);
  [[nodiscard]] int applied(const Op& op, const xla::Type& type);

  // Instructions
  int emit(Frame& frame, xla::Instruction instruction, KnownNumbers known = {});
  int emit(Frame& frame, const Op& op, std::string opcode, xla::Type type, std::vector<int> operands);
  int element(Frame& frame, int tuple, std::int64_t index);
  int parameter(Frame& frame, std::string name, xla::Type type, KnownNumbers known);
  int tuple(Frame& frame, const std::vector<int>& parts, int line);
  int resolve(Frame& frame, const Use& use, int line);
  [[nodiscard]] std::vector<int> resolve_all(Frame& frame, const Op& op);
  void define(Frame& frame, const Op& op, int instruction);
  [[nodiscard]] const xla::Type& type_of(const Frame& frame, int instruction) const {
    return frame.computation.instructions[static_cast<std::size_t>(instruction)].type;
  }
  [[nodiscard]] xla::Type result_type(const Frame& frame, const Op& op, const std::string& opcode,
                                      const std::vector<int>& operands, const xla::Attributes& attributes) const;
  [[nodiscard]] std::string location_name(std::string_view location, int line) const;
  [[noreturn]] void fail(int line, std::string_view sentence) const;

  const SyntaxTree& tree_;
  const std::map<std::string, std::int64_t>& dims_;
  const std::string place_;
  const AttributeContext context_;
  xla::Program program_;
  std::map<std::string_view, const Function*> functions_;
  std::map<std::string, int> made_;       // computations by function, types and known numbers of the arguments
  std::map<const Function*, bool> open_;  // whether sizes in it are open
  std::map<std::string, int> applied_;
  bool by_hand_ = false;  // parts of the module work on single devices' tiles
  int depth_ = 0;
  std::int64_t instructions_left_ = 4'000'000;
  std::int64_t types_left_ = std::int64_t{1} << 23;
};

}  // namespace meshwright::mlir
