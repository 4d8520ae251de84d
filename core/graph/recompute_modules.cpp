// SPDX-License-Identifier: Apache-2.0
#include "core/graph/recompute_modules.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::pair<RecomputeModules, const char*> kRecomputeModules[] = {
    {RecomputeModules::Attention, "core_attn"},
    {RecomputeModules::Norms, "layernorm"},
    {RecomputeModules::ExpertActivations, "moe_act"},
    {RecomputeModules::LatentProjections, "mla_up_proj"},
    {RecomputeModules::FeedForward, "mlp"},
    {RecomputeModules::Mixture, "moe"},
    {RecomputeModules::SharedExperts, "shared_experts"}};

// The parts of an op's name behind its block's: "blk3.moe.shared.up" -> moe, shared, up.
std::vector<std::string> parts_in_block(const Op& op) {
  std::vector<std::string> parts = split(op.name, '.');
  if (!parts.empty()) parts.erase(parts.begin());
  return parts;
}

bool has_dim(const Tensor& tensor, const char* name) {
  return std::any_of(tensor.dims.begin(), tensor.dims.end(), [&](const Dim& dim) { return dim.name == name; });
}

// Element by element, between the products of routed experts.
bool is_expert_activation(const Graph& graph, const Op& op) {
  constexpr std::array kProducts = {OpKind::Contract, OpKind::BiasAdd};
  const Tensor& made = graph.tensor(op.outputs[0]);
  return std::find(kProducts.begin(), kProducts.end(), op.kind) == kProducts.end() && has_dim(made, "expert") &&
         has_dim(made, "mlp");
}

bool is_latent_projection(const std::vector<std::string>& parts) {
  static const std::set<std::string> kProjections = {"q_nope", "q_rope", "q", "k_nope", "k", "v"};
  return kProjections.contains(parts[1]) || (parts[1] == "k_rope" && parts.size() > 2);
}

// Blocks whose keys and values come from one latent vector.
std::set<int> blocks_of_latent_attention(const Graph& graph) {
  std::set<int> blocks;
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Forward && op.name.ends_with(".attn.kv_down")) blocks.insert(op.block);
  return blocks;
}

}  // namespace

std::string name_of(RecomputeModules modules) {
  std::vector<std::string> names;
  for (const auto& [module, name] : kRecomputeModules)
    if (has(modules, module)) names.emplace_back(name);
  return names.empty() ? "none" : join(names, ",");
}

std::optional<RecomputeModules> recompute_module(const std::string& name) {
  for (const auto& [module, known] : kRecomputeModules)
    if (name == known) return module;
  return std::nullopt;
}

RecomputeModules recompute_modules_from_name(const std::string& name) {
  RecomputeModules all = RecomputeModules::None;
  if (name == name_of(all)) return all;
  for (const std::string& text : split(name, ',')) {
    const std::optional<RecomputeModules> known = recompute_module(text);
    require(known.has_value(),
            "unknown module '{}'; expected none, or some of core_attn, layernorm, moe_act, mla_up_proj, mlp, moe and "
            "shared_experts, separated by commas.",
            text);
    require(!has(all, *known), "modules '{}': '{}' is given twice; give it once.", name, text);
    all = all | *known;
  }
  return all;
}

std::map<OpId, RecomputedModule> recomputed_modules(const Graph& graph, RecomputeModules chosen) {
  std::map<OpId, RecomputedModule> found;
  if (chosen == RecomputeModules::None) return found;
  const std::set<int> latent = blocks_of_latent_attention(graph);
  // Outer ones first.
  const auto module_of = [&](const Op& op, const std::vector<std::string>& parts) {
    using M = RecomputeModules;
    const std::string& part = parts.front();
    const bool within = parts.size() > 1 && parts[1] != "residual";
    const bool attends = part == "attn" && within, mixes = part == "moe" && within;
    if (mixes && has(chosen, M::Mixture)) return M::Mixture;
    if (mixes && parts[1].starts_with("shared")) return has(chosen, M::SharedExperts) ? M::SharedExperts : M::None;
    if (mixes && has(chosen, M::ExpertActivations) && is_expert_activation(graph, op)) return M::ExpertActivations;
    if (part == "mlp" && within && has(chosen, M::FeedForward)) return M::FeedForward;
    if (part.starts_with("ln") && has(chosen, M::Norms)) return M::Norms;
    if (attends && has(chosen, M::Attention) && parts[1] == "core") return M::Attention;
    if (attends && has(chosen, M::LatentProjections) && latent.contains(op.block) && is_latent_projection(parts))
      return M::LatentProjections;
    return M::None;
  };
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::Forward || op.block < 0) continue;
    const std::vector<std::string> parts = parts_in_block(op);
    if (parts.empty()) continue;
    const RecomputeModules kind = module_of(op, parts);
    if (kind != RecomputeModules::None) found.emplace(op.id, RecomputedModule{kind, parts.front()});
  }
  return found;
}

RecomputeModules modules_of(const Graph& graph) {
  RecomputeModules all = RecomputeModules::None;
  for (const auto& [module, name] : kRecomputeModules)
    if (!recomputed_modules(graph, module).empty()) all = all | module;
  return all;
}

}  // namespace meshwright
