// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/known_trials.h"

#include <utility>

#include "core/base/text.h"

namespace meshwright {

// One stage has no stage after it, so that none of these runs forwards ahead.
ScheduleKind same_order(ScheduleKind schedule, std::size_t stages) {
  if (stages > 1) return schedule;
  if (schedule == ScheduleKind::EagerOneFOneB) return ScheduleKind::OneFOneB;
  return schedule == ScheduleKind::ZeroBubbleH2 ? ScheduleKind::ZeroBubbleH1 : schedule;
}

namespace {

void add(std::string& key, const ShardingSpec& spec) {
  for (const AxisMask mask : spec.dims) key += static_cast<char>(mask);
  key += '/';
  key += static_cast<char>(spec.partial);
}

void add(std::string& key, const std::string& name) {
  key += '\n';
  key += name;
  key += '\0';
}

// All that the programs of one request's plans differ by: of the cut into layers, what the stages have of it.
std::string key_of(const Plan& plan) {
  std::string key = fmt::format("{} {} {}", plan.graph_fingerprint, plan.training.microbatches,
                                name_of(same_order(plan.schedule, plan.stages.size())));
  for (const StagePlan& stage : plan.stages) {
    key += fmt::format("\n\n{} {} {} {} {}", to_text(stage.submesh), fmt::join(stage.logical_shape, "x"),
                       fmt::join(stage.devices, ","), stage.contexts.rings, stage.contexts.exchanges);
    for (const auto& [other, form] : stage.cross_mesh) key += fmt::format(" {}:{}", other, static_cast<int>(form));
    for (const auto& [name, op] : stage.ops) {
      add(key, name);
      for (const auto& [axis, mask] : op.axes) {
        key += axis;
        key += '=';
        key += static_cast<char>(mask);
      }
      add(key, op.result);
      key += static_cast<char>(op.partial);
    }
    for (const auto& [name, parameter] : stage.parameters) {
      add(key, name);
      add(key, parameter.weight);
      add(key, parameter.state);
      key += parameter.eager ? 'e' : 's';
    }
    for (const auto& [name, spec] : stage.inputs) {
      add(key, name);
      add(key, spec);
    }
    for (const auto& [name, fan_out] : stage.fan_outs) {
      add(key, name);
      add(key, fan_out.copy);
      add(key, fan_out.gradient);
    }
  }
  return key;
}

}  // namespace

class KnownTrials::Trial final : public PlanTrial {
 public:
  // Lowers the plan unless an equal one was.
  Trial(std::shared_ptr<Known> known, const PlanOfGraph& made, const PlanEvaluator& evaluator, std::int64_t& simulated)
      : known_(std::move(known)), made_(made), evaluator_(evaluator), simulated_(simulated) {
    const std::lock_guard lock(known_->mutex);
    if (!known_->lowered) {
      lowered_ = evaluator_.trial(made_);
      known_->peaks = lowered_->peaks;
      known_->on_host = lowered_->on_host;
      known_->beside = lowered_->beside;
      known_->lowered = true;
    }
    peaks = known_->peaks;
    on_host = known_->on_host;
    beside = known_->beside;
  }

  [[nodiscard]] StepOutcome step() override {
    const std::lock_guard lock(known_->mutex);
    if (known_->step) return *known_->step;
    if (!lowered_) lowered_ = evaluator_.trial(made_);
    known_->step = lowered_->step();
    ++simulated_;
    return *known_->step;
  }

 private:
  const std::shared_ptr<Known> known_;
  const PlanOfGraph made_;
  const PlanEvaluator& evaluator_;
  std::unique_ptr<PlanTrial> lowered_;  // nullptr: an equal plan was, before
  std::int64_t& simulated_;
};

std::unique_ptr<PlanTrial> KnownTrials::trial(const PlanOfGraph& made, const PlanEvaluator& evaluator,
                                              std::int64_t& simulated) {
  const std::string key = key_of(made.plan);
  std::shared_ptr<Known> of_key;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Known>& known = known_[key];
    if (!known) known = std::make_shared<Known>();
    of_key = known;
  }
  return std::make_unique<Trial>(std::move(of_key), made, evaluator, simulated);
}

std::int64_t KnownTrials::known() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(known_.size());
}

}  // namespace meshwright
