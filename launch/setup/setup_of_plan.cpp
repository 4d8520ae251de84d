// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/setup_of_plan.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/ranks.h"
#include "core/planner/method/method.h"
#include "launch/setup/stage_degrees.h"

namespace meshwright {

namespace {

// Every refusal of an export ends with these ways out.
template <class... Args>
void refuse_unless(bool told, const LaunchTarget& target, fmt::format_string<Args...> sentence, Args&&... args) {
  if (told) return;
  const std::string way =
      target.framework.empty()
          ? std::string("give a plan without it")
          : fmt::format("give a plan of `meshwright plan --for {}`, or --nearest", target.framework);
  throw InputError(fmt::format("{}: {}; {}.", target.name, fmt::format(sentence, std::forward<Args>(args)...), way));
}

struct StageOps {
  int first, last;  // positions in forward_ops(graph)
};

std::vector<StageOps> ops_of_stages(const Plan& plan, int forward) {
  std::vector<StageOps> of;
  for (const StagePlan& stage : plan.stages) {
    const auto end = static_cast<std::size_t>(stage.last_layer) + 1;
    of.push_back({plan.layer_starts[static_cast<std::size_t>(stage.first_layer)],
                  (end < plan.layer_starts.size() ? plan.layer_starts[end] : forward) - 1});
  }
  return of;
}

// [stage] its blocks, which it has whole and in order, and the stage with the modules for further tokens. What comes
// before the first block is with the first stage, and what comes after the last with the last one.
void read_blocks(LaunchSetup& setup, const Plan& plan, const Graph& graph, const LaunchTarget& target) {
  const std::int64_t further = shape_of(plan.model).further;
  const std::vector<OpId> ops = forward_ops(graph);
  std::vector<int> blocks(plan.stages.size(), 0);
  std::vector<int> stage_of_block;
  const std::vector<StageOps> ranges = ops_of_stages(plan, static_cast<int>(ops.size()));
  for (std::size_t s = 0; s < ranges.size(); ++s)
    for (int at = ranges[s].first; at <= ranges[s].last; ++at) {
      const int block = graph.op(ops[static_cast<std::size_t>(at)]).block;
      if (block < 0) {
        refuse_unless(s == 0 || s + 1 == ranges.size(), target,
                      "stage {} has '{}', which is no part of a block: the embedding is with the first stage and the "
                      "loss with the last",
                      s, graph.op(ops[static_cast<std::size_t>(at)]).name);
        continue;
      }
      if (block == static_cast<int>(stage_of_block.size())) {
        stage_of_block.push_back(static_cast<int>(s));
        if (further > 0 && block > plan.model.layers)
          refuse_unless(stage_of_block[stage_of_block.size() - 2] == static_cast<int>(s), target,
                        "stage {} begins within the modules for further tokens: one stage has all of them", s);
        if (further > 0 && block >= plan.model.layers)
          setup.further_stage = static_cast<int>(s);
        else
          ++blocks[s];
      }
      refuse_unless(block < static_cast<int>(stage_of_block.size()) &&
                        stage_of_block[static_cast<std::size_t>(block)] == static_cast<int>(s),
                    target, "stage {} begins within block {}: stages are whole blocks", s, block);
    }
  if (setup.further_stage == static_cast<int>(ranges.size()) - 1) setup.further_stage.reset();
  setup.stage_blocks = std::move(blocks);
}

// Recomputation of each block, from the ranges of forward ops.
std::vector<Recompute> recompute_of_blocks(const Plan& plan, const Graph& graph, const LaunchTarget& target) {
  const std::vector<OpId> ops = forward_ops(graph);
  std::vector<Recompute> of_op(ops.size(), plan.training.recompute);
  for (const RecomputeRange& range : plan.training.recompute_ranges)
    std::fill(of_op.begin() + range.first, of_op.begin() + range.last + 1, range.recompute);
  std::vector<Recompute> of_block;
  for (std::size_t at = 0; at < ops.size(); ++at) {
    const int block = graph.op(ops[at]).block;
    if (block < 0) continue;
    if (block == static_cast<int>(of_block.size())) of_block.push_back(of_op[at]);
    refuse_unless(of_block[static_cast<std::size_t>(block)] == of_op[at], target,
                  "block {} is recomputed in parts: a block is recomputed in one way", block);
  }
  return of_block;
}

void read_recompute(LaunchSetup& setup, const Plan& plan, const Graph& graph, const LaunchTarget& target) {
  setup.degrees.recompute = plan.training.recompute;
  if (plan.training.recompute_ranges.empty()) return;
  const std::vector<Recompute> blocks = recompute_of_blocks(plan, graph, target);
  if (!blocks.empty() && std::all_of(blocks.begin(), blocks.end(), [&](Recompute r) { return r == blocks.front(); })) {
    setup.degrees.recompute = blocks.front();
    return;
  }
  for (int b = 0; b < static_cast<int>(blocks.size()); ++b) {
    const Recompute own = blocks[static_cast<std::size_t>(b)];
    auto& runs = setup.recompute_layers;
    if (own == setup.degrees.recompute) continue;
    if (!runs.empty() && runs.back().last == b - 1 && runs.back().recompute == own)
      runs.back().last = b;
    else
      runs.push_back({b, b, own});
  }
}

std::optional<Method> method_of(const Plan& plan) {
  try {
    return method_from_text(plan.method);
  } catch (const InputError&) {  // a file that is no longer there
    return std::nullopt;
  }
}

// As the method says them; nullopt: it leaves them to the stages.
std::optional<Degrees> degrees_of_method(const Plan& plan, LaunchSetup& setup) {
  using Kind = Method::Kind;
  const auto method = method_of(plan);
  if (!method) return std::nullopt;
  if (method->kind == Kind::Megatron && method->exact) return degrees_of(*method, plan.cluster.devices());
  if (method->kind < Kind::Data || method->kind > Kind::Zero3) return std::nullopt;
  Degrees degrees{.dp = plan.cluster.devices()};
  degrees.zero = static_cast<int>(method->kind) - static_cast<int>(Kind::Data);
  setup.shard = method->shard;
  return degrees;
}

bool leaves_states_open(const Plan& plan) {
  const auto method = method_of(plan);
  return method && method->kind == Method::Kind::Megatron && !method->zero;
}

Degrees degrees_of_stage_told(const StagePlan& stage, std::size_t s, const Graph& graph, const LaunchTarget& target) {
  const auto found = degrees_of_stage(stage, graph);
  const auto* none = std::get_if<NoDegrees>(&found);
  refuse_unless(none == nullptr, target, "stage {} {}", s, none == nullptr ? "" : none->why);
  return std::get<Degrees>(found);
}

Degrees degrees_of_stages(const Plan& plan, const Graph& graph, const LaunchTarget& target) {
  Degrees first;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Degrees own = degrees_of_stage_told(plan.stages[s], s, graph, target);
    if (s == 0) first = own;
    const auto expect_same = [&](const char* name, auto value, auto of_first) {
      refuse_unless(value == of_first, target, "stage {} has {} {} and stage 0 has {}: one {} holds for the whole job",
                    s, name, value, of_first, name);
    };
    expect_same("tp", own.tp, first.tp);
    expect_same("dp", own.dp, first.dp);
    expect_same("cp", own.cp, first.cp);
    expect_same("ep", own.ep, first.ep);
    expect_same("ZeRO level", own.zero, first.zero);
    expect_same("sequence parallelism of", own.sequence_parallel, first.sequence_parallel);
  }
  first.chunks = plan.schedule == ScheduleKind::Custom ? 1 : chunks_of(plan);
  first.pp = static_cast<int>(plan.stages.size()) / first.chunks;
  return first;
}

// The degrees of every stage, and those of the first for the job; ZeRO and the sequence's split hold for all.
void read_stages(LaunchSetup& setup, const Plan& plan, const Graph& graph, const LaunchTarget& target) {
  const std::vector<Recompute> recompute = recompute_of_blocks(plan, graph, target);
  std::size_t block = 0;
  bool split = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Degrees own = degrees_of_stage_told(plan.stages[s], s, graph, target);
    if (s == 0) setup.degrees = own;
    refuse_unless(own.zero == setup.degrees.zero, target, "stage {} has ZeRO level {} and stage 0 has {}", s, own.zero,
                  setup.degrees.zero);
    split = split || own.sequence_parallel;
    StageSetup& stage = setup.stages.emplace_back();
    stage = {.blocks = setup.stage_blocks[s], .dp = own.dp, .tp = own.tp, .cp = own.cp, .ep = own.ep};
    stage.device = plan.cluster.group(plan.stages[s].submesh.group).device.name;
    for (int b = 0; b < stage.blocks; ++b, ++block) {
      if (b == 0) stage.recompute = recompute[block];
      refuse_unless(recompute[block] == stage.recompute, target,
                    "stage {} recomputes some of its blocks: a stage recomputes all or none", s);
    }
  }
  setup.degrees.sequence_parallel = split;
  setup.degrees.pp = static_cast<int>(plan.stages.size());
}

}  // namespace

LaunchSetup setup_of(const Plan& plan, const Graph& graph, const LaunchTarget& target) {
  LaunchSetup setup;
  setup.target = target.name;
  setup.release = target.release;
  setup.model = plan.model;
  const HostGroup& hosts = plan.cluster.group(0);
  setup.hosts = plan.cluster.hosts();
  setup.devices_per_host = hosts.devices_per_host;
  setup.device = hosts.device.name;
  setup.dtype = plan.training.dtype;
  setup.software_setup = software_name_from_text(plan.software).setup;
  if (std::exchange(setup.software_setup.eight_bit_products, false)) setup.matmul_dtype = "fp8";
  setup.optimizer = plan.training.optimizer;
  setup.offload = plan.training.offload;
  setup.batch = plan.training.batch;
  refuse_unless(
      traits_of(plan.schedule).copies == 1, target,
      "the plan has schedule {}, under which every stage is on the devices of two, and {} has no such schedule",
      name_of(plan.schedule), target.release);
  refuse_unless(target.own_shardings || plan.training.loss == LossReduction::Mean, target,
                "the plan's loss is the {} of the samples', and the files for {} take the mean",
                name_of(plan.training.loss), target.release);
  if (target.own_shardings) {
    setup.degrees.schedule = plan.schedule;
    setup.degrees.recompute = plan.training.recompute;
    setup.degrees.recompute_modules = plan.training.recompute_modules;
    refuse_unless(
        (plan.training.recompute_ranges.empty() && plan.training.recompute_modules == RecomputeModules::None) ||
            target.framework.empty(),
        target, "the plan recomputes some layers otherwise than others, and {} all layers or none", target.release);
    setup.degrees.micro_batches = plan.training.microbatches;
    setup.degrees.micro_batch = plan.training.batch / plan.training.microbatches;
    return setup;
  }
  refuse_unless(plan.schedule != ScheduleKind::Inference, target,
                "the plan serves a model, and launch files train one");
  read_blocks(setup, plan, graph, target);
  if (target.own_stages) {
    (void)degrees_of_method(plan, setup);  // groups of replicas, which no mesh can be told
    read_stages(setup, plan, graph, target);
  } else {
    require(plan.cluster.uniform(),
            "{}: {} has {} kinds of hosts, and one set of degrees needs one kind; write --to flagscale, or jax.",
            target.name, plan.cluster.name, plan.cluster.groups.size());
    const auto told = degrees_of_method(plan, setup);
    setup.degrees = told ? *told : degrees_of_stages(plan, graph, target);
    // A method without zero= leaves states to the search, which may have split them.
    if (told && leaves_states_open(plan)) setup.degrees.zero = degrees_of_stages(plan, graph, target).zero;
    // Where files name the blocks of every stage, they are all there is to say.
    const Framework& framework = find_framework(target.framework);
    if (framework.uneven_stages && !framework.splits_ends) setup.degrees.split = {};
  }
  setup.degrees.schedule = plan.schedule;
  setup.degrees.recompute_modules = plan.training.recompute_modules;
  // Without stages there is one order only.
  if (setup.degrees.pp == 1 && plan.schedule == ScheduleKind::GPipe) setup.degrees.schedule = ScheduleKind::OneFOneB;
  setup.degrees.micro_batches = plan.training.microbatches;
  setup.degrees.micro_batch = plan.training.batch / plan.training.microbatches / setup.degrees.dp;
  if (!target.own_stages) read_recompute(setup, plan, graph, target);
  if (shape_of(plan.model).further > 0) setup.degrees = degrees_with_layout(setup);
  setup.overlap_gradients = setup.degrees.dp * setup.degrees.cp > 1;
  setup.overlap_weights = setup.overlap_gradients && setup.degrees.zero > 0;
  return setup;
}

}  // namespace meshwright
