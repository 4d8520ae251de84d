// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launch/rules/launch_rules.h"
#include "launch/rules/rule_lists.h"

namespace meshwright {

SoftwareSetup told_setup(const LaunchTarget& target, SoftwareSetup setup) {
  const std::string& framework = target.framework;
  if (framework != "megatron" && framework != "torchtitan" && framework != "maxtext") setup.eight_bit_products = false;
  if (setup.fused_attention == false) setup.fused_attention.reset();
  if (target.name != "torchtitan") setup.narrow_states = false;
  if (target.name != "megatron") setup.moment_bits = 32;
  if (framework != "megatron") set_dispatch(setup, TokenDispatch::ToExperts, 0);
  if (framework != "maxtext" || setup.loss_chunks == kFittingLossChunks) setup.loss_chunks = 1;
  return setup;
}

bool tells_loss_scale(const LaunchTarget& target) { return target.own_shardings; }

namespace {

// Recomputation that changes within the job: Megatron-LM recomputes as many blocks of each stage, the first ones.
void megatron_recompute(const LaunchSetup& setup, RuleList& rules) {
  const Degrees& d = setup.degrees;
  const auto say = [&] {
    rules.untold(
        "Megatron-LM recomputes whole the same number of blocks at the start of every stage, or all blocks alike, and "
        "the plan recomputes others");
  };
  std::vector<Recompute> of_block(static_cast<std::size_t>(setup.model.layers), d.recompute);
  for (const LayerRecompute& run : setup.recompute_layers)
    for (int b = run.first; b <= run.last && b < static_cast<int>(of_block.size()); ++b)
      of_block[static_cast<std::size_t>(b)] = run.recompute;
  // A stage of fewer blocks recomputes all of its own.
  std::size_t at = 0;
  bool partial = false;     // a stage that does not recompute all of its blocks
  int most = 0, whole = 0;  // recomputed blocks of such stages, and of the largest that recomputes all
  for (const int own : blocks_of_stages(setup)) {
    int full = 0;
    bool after = false;
    for (int b = 0; b < own && at < of_block.size(); ++b, ++at) {
      if (of_block[at] == Recompute::Selective || (after && of_block[at] == Recompute::Full)) return say();
      if (of_block[at] == Recompute::Full)
        ++full;
      else
        after = true;
    }
    if (full < own && partial && full != most) return say();
    if (full < own) {
      partial = true;
      most = full;
    } else {
      whole = std::max(whole, full);
    }
  }
  if (partial && whole > most) return say();
}

void recompute_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  if (setup.recompute_layers.empty()) return;
  if (target.name == "megatron" || target.name == "megatron-bridge") return megatron_recompute(setup, rules);
  rules.untold(fmt::format("{} recomputes all blocks alike, and the plan some blocks otherwise: {}", target.release,
                           to_text(setup.recompute_layers)));
}

// [framework] the optimizers that its files name.
bool has_optimizer(const std::string& framework, Optimizer::Kind kind) {
  using enum Optimizer::Kind;
  if (framework == "torchtitan") return kind == Adam;
  if (framework == "maxtext") return kind == Adam || kind == Sgd;
  return kind != Adafactor;
}

void offload_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  if (setup.offload == Offload::None) return;
  for (const auto& [part, what] : {std::pair{Offload::Activations, "activations"}, {Offload::Weights, "weights"}})
    rules.expect_told(!has(setup.offload, part),
                      fmt::format("the launch files of {} do not say that {} wait on the host", target.release, what));
  const Degrees& d = setup.degrees;
  rules.expect_told(target.framework != "fsdp" && target.framework != "torchtitan" && target.framework != "nnscaler" &&
                        target.framework != "alpa",
                    target.framework == "nnscaler" || target.framework == "alpa"
                        ? fmt::format("{} keeps optimizer state on the devices, and the plan on the host",
                                      target.framework == "alpa" ? "Alpa" : "nnScaler")
                        : fmt::format("{} offloads weights together with optimizer state, and the plan the state alone",
                                      target.release));
  rules.expect(
      (target.framework != "megatron" && target.framework != "deepspeed") || d.zero > 0 || d.dp * d.cp == 1,
      fmt::format("{} offloads optimizer state only where it is split over the replicas (ZeRO 1)", target.release));
  rules.expect(target.framework != "megatron" || setup.optimizer.kind == Optimizer::Kind::Adam,
               fmt::format("{} offloads the state of Adam alone", target.release));
}

void products_rule(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  rules.expect_told(setup.matmul_dtype.empty() || told_setup(target, {.eight_bit_products = true}).eight_bit_products,
                    fmt::format("the files for {} compute products in the plan's type, and the plan in {}",
                                target.release, setup.matmul_dtype));
}

void software_setup_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  const SoftwareSetup& own = setup.software_setup;
  const SoftwareSetup told = told_setup(target, own);
  const bool maxtext = target.framework == "maxtext", moments = own.moment_bits == told.moment_bits;
  rules.expect_told(own.fused_attention == told.fused_attention,
                    fmt::format("the files for {} attend by a fused kernel, and the plan without; give --attention "
                                "fused",
                                target.release));
  rules.expect_told(own.narrow_states == told.narrow_states,
                    fmt::format("the files for {} keep states in 32 bits, and the plan in 16", target.release));
  rules.expect_told(moments && (own.moment_bits == 32 || setup.degrees.zero > 0),
                    fmt::format("the files for {} keep moments in 32 bits{}, and the plan in {}", target.release,
                                moments ? " without ZeRO" : "", own.moment_bits));
  rules.expect_told(own.dispatch == told.dispatch,
                    fmt::format("the files for {} leave to it how tokens get to experts, and the plan says it; give "
                                "--token-dispatch experts",
                                target.release));
  rules.expect_told(own.loss_chunks == told.loss_chunks,
                    maxtext ? "MaxText takes the loss in a number of chunks, and the plan's is auto; give "
                              "--loss-chunks N"
                            : fmt::format("the files for {} take the loss whole, and the plan in chunks; give "
                                          "--loss-chunks 1",
                                          target.release));
  const std::int64_t tokens = setup.global_batch() * setup.model.seq / setup.devices();
  rules.expect(!maxtext || own.loss_chunks <= 1 || tokens % own.loss_chunks == 0,
               fmt::format("MaxText needs as many tokens in every chunk of the loss: {} on each device, and the plan "
                           "has {} chunks",
                           tokens, own.loss_chunks));
}

}  // namespace

void training_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  const std::string& framework = target.framework;
  const Degrees& d = setup.degrees;
  recompute_rules(target, setup, rules);
  offload_rules(target, setup, rules);
  rules.expect(setup.dtype != DType::F64, fmt::format("{} does not train in f64", target.release));
  rules.expect_told(target.name != "megatron-bridge" || setup.dtype != DType::F32,
                    "Megatron-Bridge's precisions are mixed, in bf16 or f16, and the plan's type is f32; write --to "
                    "megatron");
  rules.expect_told(
      framework != "nnscaler" || setup.dtype == DType::F32 || setup.optimizer.kind == Optimizer::Kind::Adam,
      fmt::format("nnScaler keeps weights in 32 bits beside those in {} only for Adam, and the plan's "
                  "optimizer is {}",
                  name_of(setup.dtype), name_of(setup.optimizer.kind)));
  rules.expect_told(framework != "torchtitan" || setup.dtype != DType::F16,
                    "torchtitan trains in bf16 or f32, and the plan in f16");
  rules.expect(has_optimizer(framework, setup.optimizer.kind),
               fmt::format("the files for {} have no {}", target.release, name_of(setup.optimizer.kind)));
  rules.expect(framework != "maxtext" || d.zero != 1 || setup.optimizer.kind == Optimizer::Kind::Adam,
               fmt::format("MaxText splits optimizer state over `data` only for Adam, and the plan's optimizer is {}",
                           name_of(setup.optimizer.kind)));
  rules.expect(framework != "maxtext" || setup.matmul_dtype != "fp8" || d.pp > 1 || d.micro_batches == 1,
               fmt::format("MaxText accumulates no gradients of products in fp8, and the plan has {} micro-batches; "
                           "nearest 1",
                           d.micro_batches));
  rules.expect(target.name != "accelerate" || d.zero > 0 || d.tp * d.cp == 1,
               "accelerate splits tensors and sequences only where FSDP splits the states, at ZeRO 2 or 3; write --to "
               "fsdp2 otherwise");
  rules.expect_told(setup.optimizer.loss_scale == 0.0 || tells_loss_scale(target),
                    fmt::format("the files for {} leave the scale of the loss to the framework, and the plan begins "
                                "with {:g}; give --loss-scale 0",
                                target.release, setup.optimizer.loss_scale));
  products_rule(target, setup, rules);
  software_setup_rules(target, setup, rules);
  rules.expect_told(!setup.shard || framework == "torchtitan" || framework == "fsdp" ||
                        (((framework == "megatron" && !target.own_stages) || framework == "nnscaler") && d.zero == 1) ||
                        (framework == "maxtext" && d.zero == 3),
                    fmt::format("{} splits states over all replicas, and the plan over groups of {}", target.release,
                                setup.shard.value_or(0)));
}

void own_sharding_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  if (setup.target == "alpa") {
    offload_rules(target, setup, rules);
    products_rule(target, setup, rules);
    software_setup_rules(target, setup, rules);
    rules.expect_told(
        setup.degrees.schedule == ScheduleKind::OneFOneB || setup.degrees.schedule == ScheduleKind::GPipe ||
            setup.degrees.schedule == ScheduleKind::EagerOneFOneB || setup.degrees.schedule == ScheduleKind::Inference,
        fmt::format("Alpa has the schedules 1f1b, 1f1b_overlap_friendly (eager-1f1b), gpipe and "
                    "inference, and the plan {}",
                    name_of(setup.degrees.schedule)));
    rules.expect(setup.degrees.recompute != Recompute::Selective, "Alpa recomputes all layers or none");
  }
}

}  // namespace meshwright
