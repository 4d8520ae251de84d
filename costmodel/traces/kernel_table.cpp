// SPDX-License-Identifier: Apache-2.0
// Each row becomes the call of PyTorch that it would be in a trace, so that both kinds of import make the same ops.
#include "costmodel/traces/kernel_table.h"

#include <cmath>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/traces/torch_ops.h"

namespace meshwright {

namespace {

// "": tensors do not have this type.
const char* torch_name(const std::string& dtype) {
  if (dtype == "bf16") return "c10::BFloat16";
  if (dtype == "f16") return "c10::Half";
  return dtype == "f32" || dtype == "tf32" ? "float" : "";
}

TorchCall call_of_row(const ProductShape& shape, const char* type) {
  if (shape.batch == 1) return {"aten::mm", {{{shape.m, shape.k}, {}, type}, {{shape.k, shape.n}, {}, type}}, {}, true};
  return {"aten::bmm",
          {{{shape.batch, shape.m, shape.k}, {}, type}, {{shape.batch, shape.k, shape.n}, {}, type}},
          {},
          true};
}

TorchCall call_of_row(const AttentionShape& shape, const char* type) {
  const TorchOperand q{{shape.batch, shape.queries, shape.heads, shape.key_width}, {}, type},
      k{{shape.batch, shape.keys, shape.kv_heads, shape.key_width}, {}, type},
      v{{shape.batch, shape.keys, shape.kv_heads, shape.value_width}, {}, type};
  const char* causal = shape.causal ? "True" : "False";
  if (!shape.backward) return {"flash_attn::_flash_attn_forward", {q, k, v}, {"", "", "", "", "", causal}, true};
  return {"flash_attn::_flash_attn_backward", {q, q, k, v}, {"", "", "", "", "", "", "", "", "", "", "", causal}, true};
}

void add_row(const KernelRow& row, TraceRows& rows) {
  const std::int64_t nanoseconds = std::llround(1e9 * row.time.si());
  if (const auto* collective = std::get_if<MeasuredCollective>(&row.kernel))
    return rows.add(TracedCollective{collective->kind, collective->ranks, collective->hosts,
                                     std::llround(collective->size.si()), row.dtype},
                    nanoseconds);
  if (std::holds_alternative<MeasuredPass>(row.kernel))
    return rows.leave_out("passes over memory, whose rows have no shape", nanoseconds);
  const char* type = torch_name(row.dtype);
  if (*type == '\0') return rows.leave_out("kernels of eight bits", nanoseconds);
  const auto* product = std::get_if<ProductShape>(&row.kernel);
  const TorchCall call =
      product != nullptr ? call_of_row(*product, type) : call_of_row(std::get<AttentionShape>(row.kernel), type);
  const std::optional<CallMeaning> meaning = meaning_of(call, row.dtype);
  MW_CHECK(meaning.has_value(), "{}: no meaning of {}", row.place, call.name);
  if (const auto* none = std::get_if<NoRow>(&*meaning)) return rows.leave_out(none->reason, nanoseconds);
  rows.add(std::get<TracedOp>(*meaning), nanoseconds);
}

}  // namespace

TraceImport profile_of_kernels(const std::vector<KernelRow>& rows, const std::string& place) {
  std::set<std::string> devices;
  TraceRows made;
  for (const KernelRow& row : rows) {
    devices.insert(row.device);
    add_row(row, made);
  }
  require(devices.size() <= 1, "{}: a profile is of one device, and the rows are of {}; choose one with --devices.",
          place, join({devices.begin(), devices.end()}, ", "));
  TraceImport profile = made.finish("table of kernels", "", place);
  if (!devices.empty()) profile.device = *devices.begin();
  return profile;
}

}  // namespace meshwright
