// SPDX-License-Identifier: Apache-2.0
// Names that PyTorch's traces give to types and to collectives.
#include <algorithm>
#include <array>
#include <map>

#include "costmodel/traces/torch_ops.h"

namespace meshwright {

namespace {

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, 18> kTypes = {{{"float", DType::F32},
                                              {"Float", DType::F32},
                                              {"float32", DType::F32},
                                              {"c10::BFloat16", DType::BF16},
                                              {"BFloat16", DType::BF16},
                                              {"bfloat16", DType::BF16},
                                              {"c10::Half", DType::F16},
                                              {"Half", DType::F16},
                                              {"half", DType::F16},
                                              {"double", DType::F64},
                                              {"Double", DType::F64},
                                              {"int", DType::I32},
                                              {"Int", DType::I32},
                                              {"long", DType::I32},
                                              {"long int", DType::I32},
                                              {"Long", DType::I32},
                                              {"int64", DType::I32},
                                              {"int32", DType::I32}}};

}  // namespace

std::optional<DType> torch_dtype(std::string_view name) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& type) { return type.name == name; });
  return found == kTypes.end() ? std::nullopt : std::optional(found->dtype);
}

int torch_element_size(std::string_view name) {
  if (name == "Long" || name == "long" || name == "int64" || name == "Double" || name == "double") return 8;
  if (name == "Byte" || name == "Char" || name == "Bool" || name.starts_with("Float8")) return 1;
  const std::optional<DType> type = torch_dtype(name);
  return type ? size_of(*type) : 0;
}

std::optional<CollectiveKind> torch_collective(std::string_view name) {
  static const std::map<std::string_view, CollectiveKind> kinds = {
      {"allreduce", CollectiveKind::AllReduce},
      {"all_reduce", CollectiveKind::AllReduce},
      {"allreduce_coalesced", CollectiveKind::AllReduce},
      {"allgather", CollectiveKind::AllGather},
      {"all_gather", CollectiveKind::AllGather},
      {"_allgather_base", CollectiveKind::AllGather},
      {"allgather_into_tensor_coalesced", CollectiveKind::AllGather},
      {"all_gather_into_tensor_coalesced", CollectiveKind::AllGather},
      {"reduce_scatter", CollectiveKind::ReduceScatter},
      {"_reduce_scatter_base", CollectiveKind::ReduceScatter},
      {"reduce_scatter_tensor_coalesced", CollectiveKind::ReduceScatter},
      {"all_to_all", CollectiveKind::AllToAll},
      {"alltoall", CollectiveKind::AllToAll},
      {"alltoall_base", CollectiveKind::AllToAll},
      {"all_to_allv", CollectiveKind::AllToAll}};
  const auto found = kinds.find(name);
  return found == kinds.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace meshwright
