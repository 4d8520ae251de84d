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

[[nodiscard]] const char* term_name(const KernelRow& row);  // products, attention, network, memory

// Rows of one family do the same work: the same kind of kernel, direction and mask, or the same collective over as many
// hosts. nullopt: passes over memory, whose formula has no shape.
[[nodiscard]] std::optional<std::string> kernel_family(const KernelRow& row);
[[nodiscard]] std::string product_family(const ProductShape& product);        // "products", "batched products"
[[nodiscard]] std::string attention_family(const AttentionShape& attention);  // "attention causal backward"
[[nodiscard]] std::string collective_family(CollectiveKind kind, int hosts);  // "all-reduce over 1 host"
// Whether the time holds what the host does, too (its algorithm says "incl. launch").
[[nodiscard]] bool includes_launch(const KernelRow& row);
// Which of several implementations was measured: the library without its version, its kernel, and "windowed" where the
// mask is a window; of a collective the fabric, too.
[[nodiscard]] std::string implementation(const KernelRow& row);

}  // namespace meshwright
