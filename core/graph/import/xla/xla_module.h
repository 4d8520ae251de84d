// SPDX-License-Identifier: Apache-2.0
// A program of XLA's operations, the form that the readers of HLO text and of StableHLO (and MHLO) text both make.
// Names and meaning of operations and attributes are those of HLO (https://openxla.org/xla/operation_semantics); a
// reader of another dialect translates them: "stablehlo.dot_general" is "dot", "stablehlo.broadcast_in_dim" is
// "broadcast".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace meshwright::xla {

// An array, or a tuple of types.
struct Type {
  std::string element;  // HLO's: "f32", "bf16", "s32", "u8", "pred", "token", ...; empty for a tuple
  std::vector<std::int64_t> sizes = {};
  std::vector<Type> parts = {};  // of a tuple
  [[nodiscard]] bool is_tuple() const { return element.empty(); }
  bool operator==(const Type&) const = default;
};

// One per spatial dimension, of a convolution or of a reduction over windows.
struct Window {
  std::vector<std::int64_t> size = {}, stride = {}, before = {}, after = {}, base_dilation = {}, window_dilation = {};
  std::vector<bool> reversed = {};
};

// Unused members keep these values.
struct Attributes {
  std::vector<std::int64_t> dimensions = {};  // of reduce, transpose, broadcast, concatenate, reverse, sort
  std::vector<std::int64_t> lhs_contracting = {}, rhs_contracting = {}, lhs_batch = {}, rhs_batch = {};  // of dot
  std::vector<std::int64_t> start = {}, limit = {}, stride = {};                                         // of slice
  std::vector<std::int64_t> sizes = {};                          // of dynamic-slice
  std::vector<std::int64_t> low = {}, high = {}, interior = {};  // of pad
  // For gather (collapsed_slice_dims, slice sizes in `sizes`) and scatter (inserted_window_dims, update_window_dims,
  // scatter_dims_to_operand_dims).
  std::vector<std::int64_t> offset_dims = {}, collapsed_dims = {}, index_map = {}, operand_batch = {}, index_batch = {};
  std::int64_t index_vector_dim = 0;
  Window window = {};
  std::string dim_labels = {};  // of a convolution: "b01f_01io->b01f"
  std::int64_t feature_groups = 1, batch_groups = 1;
  std::int64_t index = 0;       // the number of a parameter, of a tuple's element; the dimension of an iota
  std::string direction = {};   // of compare: "EQ", "LT", ...
  std::string target = {};      // of custom-call
  std::string backend = {};     // of custom-call: what is handed on to the target, as it stands
  std::string sharding = {};    // as it stands: "{devices=[8,1]<=[8]}"
  std::int64_t group_size = 0;  // devices of one group of a collective, 0: unknown
  std::optional<std::int64_t> trip_count = {};     // of while, where the file says it
  std::optional<std::vector<double>> values = {};  // of constants, all elements or one for all (a splat)
  std::map<std::string, std::string> other = {};   // the rest, as it stands
};

// All of its lists of numbers.
[[nodiscard]] inline auto lists_of(const Attributes& a) {
  return std::array{&a.dimensions,
                    &a.lhs_contracting,
                    &a.rhs_contracting,
                    &a.lhs_batch,
                    &a.rhs_batch,
                    &a.start,
                    &a.limit,
                    &a.stride,
                    &a.sizes,
                    &a.low,
                    &a.high,
                    &a.interior,
                    &a.offset_dims,
                    &a.collapsed_dims,
                    &a.index_map,
                    &a.operand_batch,
                    &a.index_batch,
                    &a.window.size,
                    &a.window.stride,
                    &a.window.before,
                    &a.window.after,
                    &a.window.base_dilation,
                    &a.window.window_dilation};
}

struct Instruction {
  std::string name;
  std::string opcode;
  Type type;
  std::vector<int> operands = {};  // indices in the computation, smaller than its own
  std::vector<int> calls = {};     // indices of computations: to_apply; condition and body; branches
  Attributes attributes = {};
  std::string op_name = {};  // the framework's path: "jit(step)/transformer/layers_0/mlp/dot_general"
  int line = 0;              // in the file
};

struct Computation {
  std::string name;
  std::vector<Instruction> instructions = {};
  std::vector<int> parameters = {};  // instructions, by number
  int root = -1;
};

struct Program {
  std::string name;
  std::vector<Computation> computations = {};  // what calls comes behind what is called: there is no recursion
  int entry = -1;
  std::int64_t partitions = 1;                        // devices that the text was already split for
  std::map<std::int64_t, std::int64_t> aliases = {};  // entry parameter by the result that is written over it
  std::vector<std::string> result_names = {};         // of the entry's results, where the file has them
  bool cut_off = false;                               // the text ended inside a computation
};

}  // namespace meshwright::xla
