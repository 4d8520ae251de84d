// SPDX-License-Identifier: Apache-2.0
#include "launch/rules/launch_rules.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/rules/rule_lists.h"
#include "launch/setup/launch_target.h"

namespace meshwright {

std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  if (value % unit == 0) return "";
  const std::int64_t below = value / unit * unit;
  return below == 0 ? fmt::format("; nearest {}", unit) : fmt::format("; nearest {} or {}", below, below + unit);
}

namespace {

void devices_rule(const LaunchSetup& setup, RuleList& rules) {
  const Degrees& d = setup.degrees;
  const int taken = d.tp * d.pp * d.cp;
  if (setup.devices() % taken != 0)
    rules.broken(fmt::format("{} x {} = {} devices are not a multiple of tp x pp x cp = {} x {} x {} = {}{}",
                             setup.hosts, setup.devices_per_host, setup.devices(), d.tp, d.pp, d.cp, taken,
                             nearest_multiples(setup.devices(), taken)));
  else if (taken * d.dp != setup.devices())
    rules.broken(fmt::format("tp x pp x cp x dp = {} x {} x {} x {} = {} is not the number of devices, {}", d.tp, d.pp,
                             d.cp, d.dp, taken * d.dp, setup.devices()));
}

void batch_rule(const LaunchSetup& setup, RuleList& rules) {
  const Degrees& d = setup.degrees;
  const std::int64_t unit = d.micro_batch * d.dp;
  if (!setup.batch || unit < 1) return;
  if (*setup.batch % unit != 0)
    rules.broken(fmt::format("gbs {} is not a multiple of mbs x dp = {} x {}{}", *setup.batch, d.micro_batch, d.dp,
                             nearest_multiples(*setup.batch, unit)));
  else if (*setup.batch != unit * d.micro_batches)
    rules.broken(fmt::format("gbs {} is not mbs x dp x micro-batches = {} x {} x {} = {}", *setup.batch, d.micro_batch,
                             d.dp, d.micro_batches, unit * d.micro_batches));
}

// The value of the degree that a sentence begins with, to be changed; nullptr: it begins with none.
int* degree_named(const std::string& sentence, Degrees& degrees) {
  const std::string text = sentence.starts_with("2 ") ? sentence.substr(2) : sentence;
  for (const auto& [name, value] : {std::pair<const char*, int*>{"tp=", &degrees.tp},
                                    {"pp=", &degrees.pp},
                                    {"cp=", &degrees.cp},
                                    {"ep=", &degrees.ep}})
    if (text.starts_with(name)) return value;
  return nullptr;
}

// The nearest values of that degree, below and above, with which fewer rules are broken.
std::string nearest_degrees(const Framework& framework, const LaunchSetup& setup, const std::string& sentence,
                            std::size_t broken) {
  const ModelShape shape = shape_of(setup.model);
  const auto legal = [&](int value) {
    Degrees other = setup.degrees;
    *degree_named(sentence, other) = value;
    const int taken = other.tp * other.pp * other.cp;
    if (setup.devices() % taken != 0) return false;
    other.dp = setup.devices() / taken;
    return broken_rules(framework, shape, other).size() < broken;
  };
  Degrees own = setup.degrees;
  const int value = *degree_named(sentence, own);
  std::string nearest;
  for (int below = value - 1; below >= 1; --below)
    if (legal(below)) {
      nearest = fmt::format("; nearest {}", below);
      break;
    }
  for (int above = value + 1; above <= setup.devices(); ++above)
    if (legal(above)) return nearest + fmt::format("{} {}", nearest.empty() ? "; nearest" : " or", above);
  return nearest;
}

void degree_rules(const LaunchTarget& target, const LaunchSetup& setup, RuleList& rules) {
  const Framework& framework = find_framework(target.framework);
  Degrees degrees = setup.degrees;
  // Without stages there is one order only.
  if (degrees.pp == 1 && !traits_of(degrees.schedule).splits_backward) degrees.schedule = ScheduleKind::OneFOneB;
  rules.expect_told(degrees.pp > 1 || !traits_of(degrees.schedule).splits_backward || !framework.has(degrees.schedule),
                    fmt::format("{} runs whole backwards where there is one stage, and the plan has schedule {}",
                                target.release, name_of(degrees.schedule)));
  const std::vector<std::string> broken = broken_rules(framework, shape_of(setup.model), degrees);
  Framework told = framework;
  told.splits_ends = true;
  const std::vector<std::string> asserted = broken_rules(told, shape_of(setup.model), degrees);
  for (const std::string& sentence : broken) {
    Degrees own = degrees;
    if (std::find(asserted.begin(), asserted.end(), sentence) == asserted.end())
      rules.untold(sentence);
    else if (degree_named(sentence, own) == nullptr)
      rules.broken(sentence);
    else
      rules.broken(sentence + nearest_degrees(framework, setup, sentence, broken.size()));
  }
}

// What Megatron-LM asserts besides, or drops.
void megatron_rules(const LaunchSetup& setup, RuleList& rules) {
  const Degrees& d = setup.degrees;
  const std::int64_t stages = d.stages(), blocks = setup.model.layers;
  if (d.pp > 1 && setup.stage_blocks.empty() && !d.split.uneven() && blocks >= stages)
    rules.expect(blocks % stages == 0 || (blocks + 2) % stages == 0,
                 fmt::format("{} layers are not a multiple of pp x vpp = {} x {}{}, or a layout that names every stage",
                             blocks, d.pp, d.chunks, nearest_multiples(blocks, stages)));
  rules.expect(!setup.overlap_weights || (setup.overlap_gradients && d.zero > 0),
               "weights are gathered beside computation only where gradients are reduced beside it, and states split "
               "(ZeRO 1)");
  rules.expect(!setup.overlap_tensor_parallel || d.sequence_parallel,
               "tensor-parallel communication is overlapped only where the sequence is split over tp (sp=1)");
  rules.expect(shape_of(setup.model).experts == 0 || d.tp == 1 || d.sequence_parallel,
               fmt::format("experts with tp={} need the sequence split over tp, as by sp=1", d.tp));
}

void stage_rules(const LaunchSetup& setup, RuleList& rules) {
  if (setup.stage_blocks.empty()) return;
  const std::size_t stages =
      setup.stages.empty() ? static_cast<std::size_t>(setup.degrees.stages()) : setup.stages.size();
  if (setup.stage_blocks.size() != stages)
    rules.broken(fmt::format("{} stages are named, and pp x vpp = {} x {} is {}", setup.stage_blocks.size(),
                             setup.degrees.pp, setup.degrees.chunks, stages));
  std::int64_t blocks = 0;
  for (const int own : setup.stage_blocks) blocks += own;
  if (blocks != setup.model.layers)
    rules.broken(fmt::format("the stages have {} blocks together, and the model has {}", blocks, setup.model.layers));
}

void shard_rule(const LaunchSetup& setup, RuleList& rules) {
  if (!setup.shard) return;
  const int replicas = setup.degrees.dp * setup.degrees.cp;
  if (*setup.shard < 1 || replicas % *setup.shard != 0)
    rules.broken(fmt::format("groups of {} replicas do not divide the {} of dp x cp{}", *setup.shard, replicas,
                             nearest_multiples(replicas, std::max(1, *setup.shard))));
}

}  // namespace

std::vector<std::string> broken_model_rules(const LaunchSetup& setup) {
  const LaunchTarget& target = find_launch_target(setup.target);
  RuleList rules;
  if (!target.own_shardings) model_rules(target, setup, rules);
  return rules.all();
}

void expect_model_told(const std::string& target, const ModelConfig& model) {
  LaunchSetup setup;
  setup.target = target;
  setup.model = model;
  const std::vector<std::string> broken = broken_model_rules(setup);
  require(broken.empty(), "{}: {}; give another framework, as megatron, or jax, which takes every model.", target,
          join(broken, "; "));
}

namespace {

RuleList rules_of(const LaunchSetup& setup) {
  const LaunchTarget& target = find_launch_target(setup.target);
  RuleList rules;
  if (target.own_shardings) {
    own_sharding_rules(target, setup, rules);
    return rules;
  }
  if (target.own_stages) {
    flagscale_rules(setup, rules);
  } else {
    devices_rule(setup, rules);
    batch_rule(setup, rules);
    degree_rules(target, setup, rules);
    shard_rule(setup, rules);
    if (target.framework == "megatron") megatron_rules(setup, rules);
  }
  stage_rules(setup, rules);
  model_rules(target, setup, rules);
  training_rules(target, setup, rules);
  return rules;
}

}  // namespace

std::vector<std::string> broken_launch_rules(const LaunchSetup& setup) { return rules_of(setup).all(); }
std::vector<std::string> broken_assertions(const LaunchSetup& setup) { return rules_of(setup).asserted(); }

}  // namespace meshwright
