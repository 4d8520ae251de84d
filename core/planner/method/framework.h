// SPDX-License-Identifier: Apache-2.0
// What training frameworks can launch: one set of degrees for the whole job, and what each framework asserts of them.
//
// Rules are those of the sources of Megatron-LM core 0.20, torchtitan 0.2.2 and later, DeepSpeed 0.19, PyTorch FSDP2
// under accelerate 1.x, and MaxText of 2026: of their argument checks, those that a plan can break.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/models.h"
#include "core/planner/method/stage_split.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// The sizes of a model that degrees have to divide. 0: the model has none.
struct ModelShape {
  std::int64_t blocks = 0, heads = 0, kv_heads = 0, experts = 0, seq = 0;
  std::int64_t further = 0;  // modules behind the blocks that predict further tokens
  bool tied = false;         // one tensor is the embedding and the last product
};
[[nodiscard]] ModelShape shape_of(const ModelConfig& model);

// How attention brings queries to the keys of other devices where cp splits the sequence: keys and values are gathered,
// travel around a ring, or all-to-alls give each device some heads of the whole sequence.
enum class ContextExchange { AllGather, PointToPoint, AllToAll };
[[nodiscard]] const char* name_of(ContextExchange exchange);  // "all-gather", "p2p", "a2a"

// Degrees in the frameworks' own count: dp x tp x pp x cp is the number of devices, and the ep groups lie within dp,
// with whole experts within dp x tp, and folded within these and cp.
struct Degrees {
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  int chunks = 1;               // stages of each pipeline rank ("virtual pipeline")
  bool whole_experts = false;   // an expert lies on one device, though tp is above 1
  bool folded_experts = false;  // ep groups take in the ranks of cp
  bool sequence_parallel = false;
  int zero = 0;  // 0 to 3
  ContextExchange context = ContextExchange::AllGather;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Recompute recompute = Recompute::None;
  RecomputeModules recompute_modules = RecomputeModules::None;  // of every block, where `recompute` is None
  std::int64_t micro_batch = 1, micro_batches = 1;              // samples of one replica; their number per step
  StageSplit split = {};                                        // of the blocks among the stages

  [[nodiscard]] int stages() const { return pp * chunks; }
  bool operator==(const Degrees&) const = default;
};
// "none", "full", "selective", or modules: "layernorm,moe_act".
[[nodiscard]] std::string recompute_text(const Degrees& degrees);
// "megatron:tp=8,pp=4,vpp=2,sp=1,zero=1,exact=1": what method_from_text reads.
[[nodiscard]] std::string method_text(const Degrees& degrees);
// The same and what the method does not say: "..., interleaved, recompute full, 64 micro-batches of 1".
[[nodiscard]] std::string text_of(const Degrees& degrees);

struct Framework {
  std::string name;      // "megatron"
  std::string release;   // whose rules these are
  std::string software;  // the profile of its costs where none is asked for; "": none is known
  std::vector<ScheduleKind> schedules;
  std::vector<Recompute> recompute;
  bool recomputes_modules = false;
  std::vector<int> zero = {};                   // levels of plans without pipeline stages
  std::vector<int> zero_in_pipes = {};          // levels of plans with several stages
  bool uneven_stages = false;                   // stages may differ in their number of blocks
  bool splits_ends = false;                     // StageSplit: it can be told what the stages at the ends, or all, have
  bool divides_kv_heads = false;                // tp must divide them: keys and values are never copied
  bool tensor_powers = false;                   // tp is a power of two
  std::optional<int> max_tensor_in_pipes = {};  // of plans with several stages; nullopt: any
  bool tensors = true;                          // tp may be above 1
  bool pipelines = true, contexts = true, experts = true, whole_experts = false;
  std::vector<ContextExchange> context_exchanges = {ContextExchange::AllGather};
  bool tied_in_pipes = true;  // the embedding may be tied in a pipeline
  enum class Sequences { Never, Either, Always } sequences = Sequences::Never;  // split over tp, between its products
  bool even_sequences = false;     // 2 cp x tp divides the sequence, whatever is split
  bool even_microbatches = false;  // pp divides the number of micro-batches
  // Modules that predict further tokens: it has none, none in a pipeline, or puts them where a layout of the stages
  // says.
  enum class FurtherTokens { Never, OneStage, ByLayout } further = FurtherTokens::Never;
  std::vector<int> zero_with_experts = {0, 1, 2, 3};  // of the levels above, those that ep or cp may be above 1 with
  // Every stage may have its own mesh and shardings: the free search is what it launches, of its schedules.
  bool own_meshes = false;

  [[nodiscard]] bool has(ScheduleKind schedule) const;
  [[nodiscard]] bool has(Recompute recomputation) const;
  [[nodiscard]] bool has(ContextExchange exchange) const;
};

// megatron, torchtitan, deepspeed, fsdp, maxtext, alpa. Throws InputError with the nearest names.
[[nodiscard]] const Framework& find_framework(const std::string& name);
[[nodiscard]] std::vector<std::string> framework_names();

// Throws InputError where the framework has no modules that predict further tokens, and the model has.
void expect_further_tokens(const Framework& framework, const ModelConfig& model);

// All rules of the framework that the degrees break, as sentences with their numbers: "tp=6 does not divide the 32
// heads". Empty: it launches them. REQUIRES: the framework has no own meshes.
[[nodiscard]] std::vector<std::string> broken_rules(const Framework& framework, const ModelShape& shape,
                                                    const Degrees& degrees);

}  // namespace meshwright
