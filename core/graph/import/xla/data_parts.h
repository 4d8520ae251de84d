// SPDX-License-Identifier: Apache-2.0
// Which slices of the arguments of data are micro-batches: each reads every N-th part of the batch, by numbers that the
// file tells.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/graph/import/xla/xla_roles.h"

namespace meshwright::xla {

// What one slice has of an argument, apart from which micro-batch it is.
struct Slice {
  struct Range {
    std::int64_t from, size;
  };
  int parameter;              // a value
  std::int64_t part;          // which of the micro-batches
  std::vector<Range> ranges;  // of the dimensions of the argument's rows, that of samples first
};

struct DataParts {
  std::map<int, Slice> slices;  // by their values
  std::set<int> views;          // values that have the whole batch in another form, and the arguments themselves
  std::map<int, Type> rows;     // an argument's type with the samples of one micro-batch
  std::set<int> turns;          // of the loop over micro-batches
  std::int64_t parts = 0, samples = 0;
  bool of_one_part = false;  // only one micro-batch is read at all, in a loop
};

[[nodiscard]] std::optional<DataParts> data_parts(const FlatProgram& flat, const Roles& roles);

}  // namespace meshwright::xla
