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
#include "executor/executor.h"
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
                          {"hidden", {16, 16, 32, 24}},
                          {"heads", {4, 4, 2}},
                          {"seq", {4, 8, 8}},
                          {"vocab", {16, 32, 33, 50}}};
  const Choices gated = with(common, {{"kv_heads", {1, 2, 2}}, {"intermediate", {32, 32, 48}}});
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

// What decides whether a request has a plan is drawn together: degrees, devices, layers and samples.
struct DrawnMethod {
  std::string text, schedule = "1f1b";
  int devices = 4, layers = 2, parts_of_batch = 1;
};

inline DrawnMethod drawn_pipeline(Drawing& draw, DrawnMethod drawn, int groups, bool may_be_single) {
  const bool two_each = draw.once_in(2);
  drawn.schedule = two_each ? draw.any<std::string>({"interleaved", "zb-v", "v-half", "dualpipe-v"})
                            : draw.any<std::string>({"1f1b", "1f1b", "gpipe", "eager-1f1b", "zb-h1", "zb-h2"});
  if (may_be_single && groups == 1) drawn.schedule = "1f1b";
  drawn.layers = groups * (drawn.schedule == "1f1b" || !two_each ? 1 : 2) + static_cast<int>(draw.below(2));
  return drawn;
}

inline DrawnMethod drawn_megatron(Drawing& draw, bool mixes) {
  int tp = draw.any<int>({1, 1, 2, 2, 4}), pp = draw.any<int>({1, 2, 2, 2, 4}), cp = draw.any<int>({1, 1, 1, 2});
  int ep = mixes ? draw.any<int>({1, 2, 2, 4}) : 1, dp = draw.any<int>({1, 1, 2, 3});
  for (int* degree : {&dp, &cp, &ep, &pp, &tp})
    if (tp * pp * cp * ep * dp > 8) *degree = 1;
  DrawnMethod drawn;
  drawn.text = fmt::format("megatron:tp={},pp={}", tp, pp);
  if (ep > 1) drawn.text += fmt::format(",ep={}", ep);
  if (cp > 1) drawn.text += fmt::format(",cp={}", cp) + draw.any<std::string>({"", ",cp-comm=a2a", ",cp-comm=p2p"});
  if (draw.once_in(3)) drawn.text += ",sp=1";
  if (draw.once_in(3)) drawn.text += fmt::format(",zero={}", draw.any<int>({1, 2, 3}));
  if (draw.once_in(4)) drawn.text += ",exact=1";
  if (drawn.text.ends_with("exact=1") && ep > 1 && ep % tp == 0 && draw.once_in(2)) drawn.text += ",etp=1";
  if (drawn.text.find("exact=1") != std::string::npos && cp > 1 && ep > 1 && draw.once_in(2)) drawn.text += ",fold=1";
  drawn.devices = tp * pp * cp * ep * dp;
  drawn.parts_of_batch = ep * dp;
  return drawn_pipeline(draw, drawn, pp, true);
}

inline DrawnMethod drawn_method(Drawing& draw, const std::string& family) {
  const bool mixes = family == "mixtral" || family == "moe" || family == "decoder_moe" || family == "deepseek_v3";
  const std::string kind =
      draw.any<std::string>({"data", "zero1", "zero2", "zero3", "zero", "megatron", "megatron", "megatron", "megatron",
                             "megatron", "context", "pipeshard", "pipeshard", "shard", "largest", "rules",
                             mixes ? "expert" : "megatron", mixes ? "expert" : "context"});
  if (kind == "megatron") return drawn_megatron(draw, mixes);
  DrawnMethod drawn;
  drawn.text = kind;
  drawn.devices = draw.any<int>({2, 3, 4, 4, 5, 6, 7, 8, 8});
  if (kind == "data" || kind.starts_with("zero")) drawn.parts_of_batch = drawn.devices;
  if (kind == "zero") {
    const int shard = draw.any<int>({2, 3, 4}), copies = draw.any<int>({1, 2});
    drawn.devices = drawn.parts_of_batch = shard * copies;
    drawn.text = fmt::format("zero{}:shard={}", draw.any<int>({1, 2, 3}), shard);
  }
  if (kind == "expert" || kind == "context") {
    const int degree = draw.any<int>({2, 2, 4}), copies = draw.any<int>({1, 2});
    drawn.devices = degree * copies;
    drawn.parts_of_batch = kind == "expert" ? drawn.devices : copies;
    drawn.text = fmt::format("{}:{}={}", kind, kind == "expert" ? "ep" : "cp", degree);
    if (kind == "context") drawn.text += draw.any<std::string>({"", ",cp-comm=a2a", ",cp-comm=p2p"});
  }
  if (kind == "shard" || kind == "largest" || kind == "rules" || kind == "pipeshard")
    drawn.devices = draw.any<int>({2, 4, 4, 8});
  if (kind == "rules")
    drawn.text =
        draw.any<std::string>({"rules:batch=0,heads=1,mlp=1,vocab=1", "rules:batch=0,mlp=1", "rules:seq=0,batch=1",
                               "rules:embed=0,batch=1", "rules:vocab=0,batch=1", "rules:batch=0,kv_heads=1"});
  if (kind == "pipeshard") return drawn_pipeline(draw, drawn, drawn.devices > 2 ? draw.any<int>({2, 4}) : 2, false);
  return drawn;
}

inline DrawnRequest drawn_request(Drawing& draw) {
  DrawnRequest drawn;
  const std::string model = drawn_model(draw, drawn.family);
  const DrawnMethod method = drawn_method(draw, drawn.family);
  const int microbatches = draw.any<int>({1, 2, 2, 4, 4, 6});
  const std::int64_t batch = microbatches * method.parts_of_batch * draw.any<int>({1, 2});
  drawn.method = method.text;
  PlanRequest& request = drawn.request;
  request = ask(model, fmt::format("cpu:{}", method.devices), method.text, batch, microbatches);
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
  if (draw.once_in(6)) {
    request.training.offload = draw.any<Offload>({Offload::Optimizer, Offload::Activations, Offload::Weights});
    request.cluster.only().device.host_memory = Bytes(1e9);
    request.cluster.only().device.host_bandwidth = BytesPerSecond(1e10);
  }
  std::string more;
  if (!request.search.method.one_stage()) {
    drawn.schedule = method.schedule;
    request.search.layers = method.layers;
    request.search.schedule = schedule_from_name(method.schedule);
    more = fmt::format(" --layers {} --schedule {}", method.layers, method.schedule);
    if (draw.once_in(3)) request.search.cross_mesh = draw.any<CrossMesh>({CrossMesh::Gather, CrossMesh::Broadcast});
    // Small steps are fastest in one stage: pipelines have to be asked for.
    if (method.text == "pipeshard") {
      const int stages = std::max(1, std::min(method.layers, method.devices));
      int each = method.devices / stages;
      while (method.devices % each != 0) --each;
      request.search.submeshes = std::vector<Submesh>{{1, each}};
      more += fmt::format(" --submesh-space manual:1x{}", each);
    }
  }
  drawn.text = fmt::format(
      "--model {} --cluster cpu:{} --batch {} --micro-batches {} --method {}{} --optimizer {} --max-norm {} --loss {} "
      "--recompute {} --offload {} --dtype {}",
      model, method.devices, batch, microbatches, method.text, more, name_of(request.training.optimizer.kind),
      request.training.optimizer.max_norm, name_of(request.training.loss),
      name_of(std::get<Recompute>(request.search.recompute)), name_of(request.training.offload),
      name_of(request.training.dtype));
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
    if (!found.plan && std::getenv("EXACT_WHY"))
      fmt::print("REFUSED {} {}: {}\n", drawn.text, drawn.schedule, found.reason);
    if (!found.plan) return std::nullopt;
    return DrawnPlan{std::move(drawn), std::move(found)};
  } catch (const InputError& error) {
    if (std::getenv("EXACT_WHY")) fmt::print("REFUSED {}\n", error.what());
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
  return run_program(graph, program, check, exact_options(kExactSteps, seed), *exact_backend());
}

// The first difference, in words; empty: there is none.
inline std::string difference_in(const ExactCheck& check) {
  for (const ExactClass& of : check.classes)
    if (of.first) return fmt::format("{}: {}", of.name, to_text(*of.first));
  return "";
}

}  // namespace meshwright
