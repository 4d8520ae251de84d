// SPDX-License-Identifier: Apache-2.0
// Random plans of small models, of every method, schedule and family, and what an exact run of one says.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "executor/check/check_run.h"
#include "executor/check/exact_check.h"
#include "executor/exact/exact_ops.h"
#include "executor/executor.h"
#include "executor/host/host_backend.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {

// Chooses by one sequence of numbers, the same on every machine.
class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  template <class T>
  T any(const std::vector<T>& of) {
    return of[below(of.size())];
  }
  bool once_in(std::size_t times) { return below(times) == 0; }

 private:
  std::mt19937_64 random_;
};

// What a variable of the environment says, or `usual`.
inline std::uint64_t number_given(const char* variable, std::uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::stoull(text);
}

struct DrawnRequest {
  PlanRequest request;
  std::string family, method, schedule, text;
};

inline std::string drawn_model(Drawing& draw, std::string& family) {
  const auto sizes = [&](std::vector<std::pair<const char*, std::vector<int>>> choices) {
    std::string text;
    for (const auto& [name, of] : choices) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, draw.any(of));
    return text;
  };
  using Choices = std::vector<std::pair<const char*, std::vector<int>>>;
  const auto with = [](Choices one, const Choices& more) {
    one.insert(one.end(), more.begin(), more.end());
    return one;
  };
  const Choices common = {{"layers", {1, 2, 3, 4}},
                          {"hidden", {16, 16, 32, 24, 40}},
                          {"heads", {4, 4, 2, 8}},
                          {"seq", {4, 8, 8}},
                          {"vocab", {16, 32, 33, 50}}};
  const Choices gated = with(common, {{"kv_heads", {1, 2, 4}}, {"intermediate", {32, 32, 48}}});
  family = draw.any<std::string>({"gpt",    "gpt",   "gpt2",    "bloom",    "gpt_neox",    "bert",
                                  "llama",  "llama", "mixtral", "mixtral",  "decoder",     "moe",
                                  "t5",     "vit",   "wresnet", "mlp",      "decoder_moe", "deepseek_v3",
                                  "hybrid", "delta", "gemma4",  "two_tower"});
  Choices of = common;
  if (family == "llama" || family == "mixtral" || family.starts_with("decoder")) of = gated;
  if (family == "mixtral") of = with(of, {{"experts", {2, 4, 8}}, {"top_k", {1, 2}}});
  if (family == "decoder") of = with(of, {{"norms", {0, 1}}});
  if (family == "decoder_moe") of = with(of, {{"experts", {2, 4}}, {"top_k", {2}}});
  if (family == "moe") of = with(of, {{"experts", {2, 4}}});
  if (family == "t5") of = with(of, {{"intermediate", {32}}});
  if (family == "mlp") of = {{"layers", {2, 4, 8}}, {"hidden", {8, 16, 20}}};
  if (family == "vit")
    of = {{"layers", {1, 2, 3}}, {"hidden", {16, 32}}, {"heads", {2, 4}},
          {"image", {16}},       {"patch", {4, 8}},    {"classes", {8, 10}}};
  if (family == "wresnet")
    of = {{"layers", {14}}, {"channels", {4}}, {"width", {1, 2}}, {"image", {32}}, {"classes", {8, 10}}};
  if (family == "deepseek_v3")
    of = with(common, {{"intermediate", {32}},
                       {"experts", {4}},
                       {"top_k", {2}},
                       {"dense_layers", {0, 1}},
                       {"q_rank", {16}},
                       {"kv_rank", {8}},
                       {"nope_dim", {8}},
                       {"rope_dim", {4}},
                       {"value_dim", {8}}});
  if (family == "hybrid")
    return family + ":layers=3,hidden=16,heads=4,seq=8,vocab=32,scan_heads=4,scan_head_dim=8,state=4,kinds_0=36";
  if (family == "delta")
    return family +
           ":layers=4,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,delta_heads=2,"
           "delta_value_heads=4,key_dim=8,rotary_dims=4";
  if (family == "gemma4")
    return family +
           ":layers=3,hidden=16,heads=4,kv_heads=2,full_kv_heads=1,head_dim=8,full_head_dim=16,intermediate=32,"
           "seq=8,vocab=32,window=4,layer_embed=8,shared_layers=0,full_every=3";
  if (family == "two_tower")
    return family +
           ":layers=2,hidden=16,heads=4,image=16,patch=4,text_layers=2,text_hidden=8,text_heads=4,seq=8,"
           "vocab=32,embed=8";
  return family + ":" + sizes(of);
}

inline std::string drawn_method(Drawing& draw, const std::string& family) {
  const bool mixes = family == "mixtral" || family == "moe" || family == "decoder_moe" || family == "deepseek_v3";
  const std::string kind =
      draw.any<std::string>({"data", "zero1", "zero2", "zero3", "zero", "megatron", "megatron", "megatron", "megatron",
                             "context", "pipeshard", "shard", "largest", "rules", mixes ? "expert" : "megatron"});
  if (kind == "zero") return fmt::format("zero{}:shard={}", draw.any<int>({1, 2, 3}), draw.any<int>({2, 3, 4}));
  if (kind == "expert") return fmt::format("expert:ep={}", draw.any<int>({2, 4}));
  if (kind == "context")
    return fmt::format("context:cp={}{}", draw.any<int>({2, 4}),
                       draw.any<std::string>({"", ",cp-comm=a2a", ",cp-comm=p2p"}));
  if (kind == "rules")
    return draw.any<std::string>({"rules:batch=0,heads=1,mlp=1,vocab=1", "rules:batch=0,mlp=1", "rules:seq=0,batch=1",
                                  "rules:embed=0,batch=1", "rules:vocab=0,batch=1", "rules:batch=0,kv_heads=1"});
  if (kind != "megatron") return kind;
  std::string text;
  const auto add = [&](const char* name, const std::vector<int>& of, std::size_t times) {
    if (draw.once_in(times)) text += fmt::format("{}{}={}", text.empty() ? "megatron:" : ",", name, draw.any(of));
  };
  add("tp", {2, 2, 4}, 2);
  add("pp", {2, 2, 4}, 2);
  if (text.empty()) add("tp", {2, 4}, 1);
  if (text.find("pp=") != std::string::npos) add("vpp", {2}, 4);
  if (mixes) add("ep", {2, 4}, 2);
  if (draw.once_in(4)) {
    add("cp", {2}, 1);
    if (draw.once_in(2)) text += draw.any<std::string>({",cp-comm=a2a", ",cp-comm=p2p"});
  }
  add("sp", {1}, 3);
  add("zero", {1, 2, 3}, 3);
  if (draw.once_in(4)) {
    add("exact", {1}, 1);
    if (mixes) add("etp", {1}, 3);
    if (mixes) add("fold", {1}, 3);
  }
  return text;
}

inline DrawnRequest drawn_request(Drawing& draw) {
  DrawnRequest drawn;
  const std::string model = drawn_model(draw, drawn.family);
  drawn.method = drawn_method(draw, drawn.family);
  const std::string cluster = fmt::format("cpu:{}", draw.any<int>({2, 3, 4, 4, 6, 8, 8}));
  const int microbatches = draw.any<int>({1, 2, 2, 4, 4, 8});
  const std::int64_t batch = draw.any<int>({8, 16, 24});
  drawn.text = fmt::format("--model {} --cluster {} --batch {} --micro-batches {} --method {}", model, cluster, batch,
                           microbatches, drawn.method);
  PlanRequest& request = drawn.request;
  request = ask(model, cluster, drawn.method, batch, microbatches);
  request.training.dtype = draw.any<DType>({DType::F32, DType::F32, DType::F64});
  request.training.optimizer.kind =
      draw.any<Optimizer::Kind>({Optimizer::Kind::Adam, Optimizer::Kind::Adam, Optimizer::Kind::Momentum,
                                 Optimizer::Kind::Sgd, Optimizer::Kind::Adafactor});
  request.training.optimizer.learning_rate = 0.125;
  if (draw.once_in(3)) request.training.optimizer.max_norm = 0.5;
  request.training.loss = draw.any<LossReduction>(
      {LossReduction::Mean, LossReduction::Mean, LossReduction::Sum, LossReduction::TokenWeighted});
  request.search.recompute =
      draw.any<Recompute>({Recompute::None, Recompute::None, Recompute::Full, Recompute::Selective});
  if (draw.once_in(8)) {
    request.training.offload = draw.any<Offload>({Offload::Optimizer, Offload::Activations, Offload::Weights});
    request.cluster.only().device.host_memory = Bytes(1e9);
    request.cluster.only().device.host_bandwidth = BytesPerSecond(1e10);
  }
  if (!request.search.method.one_stage()) {
    request.search.layers = draw.any<int>({2, 2, 3, 4});
    request.search.schedule = draw.any<ScheduleKind>(
        {ScheduleKind::OneFOneB, ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::EagerOneFOneB,
         ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleH2, ScheduleKind::ZeroBubbleV, ScheduleKind::VHalf,
         ScheduleKind::DualPipeV, ScheduleKind::Interleaved});
    if (draw.once_in(3))
      request.search.cross_mesh = draw.any<CrossMesh>({CrossMesh::Gather, CrossMesh::Broadcast});
    drawn.schedule = name_of(std::get<ScheduleKind>(request.search.schedule));
  }
  return drawn;
}

struct DrawnPlan : DrawnRequest {
  Planned planned;
  [[nodiscard]] bool has_pipeline() const { return planned.program.stages.size() > 1; }
};

// nullopt: the request asks for what there is no plan for.
inline std::optional<DrawnPlan> drawn_plan(Drawing& draw) {
  try {
    DrawnRequest drawn = drawn_request(draw);
    Planned found = planned(drawn.request);
    if (!found.plan) return std::nullopt;
    return DrawnPlan{std::move(drawn), std::move(found)};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

constexpr int kExactSteps = 2;  // the second reads what the first has updated

inline ExactReference reference_of(const DrawnPlan& drawn, std::uint64_t seed) {
  return exact_reference(graph_of_reference({drawn.request.model, drawn.planned.plan->training, true}), kExactSteps,
                         seed);
}

inline RunResult run_exactly(const Graph& graph, const Program& program, const ProgramCheck& check,
                             std::uint64_t seed) {
  HostBackend backend(DType::F64, {exact::run_op, exact::run_attention_block});
  return run_program(graph, program, check, exact_options(kExactSteps, seed), backend);
}

// The first difference, in words; empty: there is none.
inline std::string difference_in(const ExactCheck& check) {
  for (const ExactClass& of : check.classes)
    if (of.first) return fmt::format("{}: {}", of.name, to_text(*of.first));
  return "";
}

}  // namespace meshwright
