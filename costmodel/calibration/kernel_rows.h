// SPDX-License-Identifier: Apache-2.0
// Measured kernels and collectives as rows of a CSV file, in the columns of docs/files.md ("measured kernels").
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/csv.h"
#include "core/sharding/cost_model.h"
#include "costmodel/terms/attention.h"
#include "costmodel/terms/products.h"

namespace meshwright {

struct MeasuredCollective {
  CollectiveKind kind;
  int ranks = 1, hosts = 1;
  std::string fabric;  // as the row states it
  Bytes size{0.0};     // as nccl-tests counts it
};
// A pass over memory: elementwise, norm, softmax, optimizer.
struct MeasuredPass {
  std::string kind;  // "layernorm backward"
  Bytes operand{0.0};
};

struct KernelRow {
  std::string device;  // of a data sheet, or as the row states it
  std::string dtype;   // f32, tf32, f16, bf16, f8
  std::string library;
  std::variant<ProductShape, AttentionShape, MeasuredCollective, MeasuredPass> kernel;
  Seconds time{0.0};
  std::string place;
};

struct RejectedRow {
  std::string place, reason;
};
struct KernelRows {
  std::vector<KernelRow> rows;
  std::vector<RejectedRow> rejected;  // rows that are wrong (a negative time) ...
  std::vector<RejectedRow> unused;    // ... and rows of a kind that no term predicts
};

// Throws InputError when the table lacks one of the columns device, op, dtype and time_us; a row that is wrong is
// rejected with the reason, and the others are read.
[[nodiscard]] KernelRows read_kernel_rows(const CsvTable& table);

// The group of shapes that a row belongs to: a fit that keeps rows back keeps whole groups back, so that it is judged
// on shapes it has not seen. Products: the two sizes of the weight; attention: heads and their width; collectives: kind
// and size; passes: their size.
[[nodiscard]] std::string shape_group(const KernelRow& row);

}  // namespace meshwright
