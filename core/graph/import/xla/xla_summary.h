// SPDX-License-Identifier: Apache-2.0
// What a program does as it stands, without a model being made of it: its work and its collectives, on one device.
// Bodies of loops count as often as they run; branches count all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

struct CollectiveSummary {
  std::int64_t instructions = 0;  // in the file
  double runs = 0.0;
  double bytes = 0.0;  // of all runs; of one: the larger one of operands and result
};

struct ProgramSummary {
  std::int64_t computations = 0, instructions = 0;
  std::map<std::string, std::int64_t> opcodes;
  std::int64_t dots = 0, convolutions = 0;  // instructions
  double dot_flops = 0.0, convolution_flops = 0.0;
  std::vector<std::int64_t> trip_counts;                 // of the loops that the entry reaches, outer ones first
  std::int64_t unknown_loops = 0;                        // whose trip counts the file does not tell: they count once
  std::map<std::string, CollectiveSummary> collectives;  // "all-gather", ...
  std::int64_t partitions = 1;
  bool cut_off = false;
};
[[nodiscard]] ProgramSummary summary_of(const Program& program);

// How often a while runs: as the file says, or as its condition compares a counter with a constant.
[[nodiscard]] std::optional<std::int64_t> trip_count_of(const Program& program, const Computation& caller,
                                                        const Instruction& loop);

// 0 where the type is no array. Sizes beyond 2^62 throw InputError.
[[nodiscard]] double elements_of(const Type& type);
[[nodiscard]] std::string text_of(const Type& type);  // of an array: "f32,16,2048"
[[nodiscard]] double bytes_of(const Type& type);      // of all parts
// Multiplications and additions of a dot or a convolution of x and y; 0 of other instructions.
[[nodiscard]] double flops_of(const Instruction& instruction, const Type& x, const Type& y);

// Instructions whose called computations run as often as they do (not those of reductions, which run per element).
[[nodiscard]] bool runs_its_calls(const Instruction& instruction);

}  // namespace meshwright::xla
