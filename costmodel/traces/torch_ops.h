// SPDX-License-Identifier: Apache-2.0
// Which op of ours a call of PyTorch is, from the name of the operator and the shapes, types and values of its
// operands, as its profiler and its execution traces record them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "costmodel/traces/trace_rows.h"

namespace meshwright {

struct TorchOperand {
  std::vector<std::int64_t> dims;               // of a tensor
  std::vector<std::vector<std::int64_t>> list;  // of a list of tensors: the dims of each
  std::string type;                             // "float", "c10::BFloat16"; "Scalar" and the like for what is no tensor
};

struct TorchCall {
  std::string name;  // "aten::mm"
  std::vector<TorchOperand> operands;
  std::vector<std::string> values;  // of what is no tensor, as text; "" for tensors; none where they were not recorded
  bool has_shapes = false;
};

// Why a call that is known finds no row: "aten::mm without shapes".
struct NoRow {
  std::string reason;
};
using CallMeaning = std::variant<TracedOp, NoRow>;

// nullopt: not an op that is known by itself; the call around it may be. Where one call is two of our ops in two
// kernels, the name of `kernel` says which of them.
[[nodiscard]] std::optional<CallMeaning> meaning_of(const TorchCall& call, std::string_view kernel);

// Whether meaning_of may answer for an operator of this name.
[[nodiscard]] bool is_known_call(std::string_view name);

// The type of a tensor; nullopt: none of ours.
[[nodiscard]] std::optional<DType> torch_dtype(std::string_view name);
// The type of a collective, "Float", "BFloat16", ...: bytes of an element, 0 for a type that is not known.
[[nodiscard]] int torch_element_size(std::string_view name);

// What a collective of torch.distributed is to us: "allreduce", "_allgather_base", ... nullopt: none of ours.
[[nodiscard]] std::optional<CollectiveKind> torch_collective(std::string_view name);

}  // namespace meshwright
