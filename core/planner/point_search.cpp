// SPDX-License-Identifier: Apache-2.0
#include "core/planner/point_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/stage_graph.h"

namespace meshwright {

namespace {

Graph build_graph(const PlanRequest& request, const TrainingOptions& training) {
  return request.schedule == ScheduleKind::Inference ? build_forward_graph(request.model, training)
                                                     : build_training_graph(request.model, training);
}

constexpr std::int64_t kLarge = 2048;          // devices times microbatches of a program that takes long to lower
constexpr std::size_t kMostLowered = 6;        // of one list of candidates
constexpr std::size_t kMostLoweredSmall = 32;  // where programs are not large
constexpr double kTwin = 1e-3;
constexpr double kDoubt = 0.995;     // of the least share seen: the next may be less
constexpr double kExpected = 0.97;   // a whole program's step as a share of its stages' alone, before one was seen
constexpr int kMostMemoryTries = 5;  // how often the prices are asked for smaller plans

}  // namespace

struct PointSearch::Lowered {
  std::shared_ptr<const Graph> graph;
  Plan plan;
  Program program;
  ProgramCheck check;
};

PointSearch::PointSearch(Incumbent& incumbent, const SearchPoint& point)
    : incumbent_(incumbent), request_(incumbent.request), training_(incumbent.request.training) {
  training_.microbatches = point.microbatches;
  if (request_.any_recompute) training_.recompute = Recompute::None;
  graph_ = std::make_shared<const Graph>(build_graph(request_, training_));
  check_forced(*graph_, request_.method.forced);
  check_forced(*graph_, request_.forced);
  check_axes(request_.method, *graph_);
  layers_ = make_layers(*graph_, point.layer_options, point.layers, request_.method);
  if (!request_.recompute_layers.empty()) {
    set_recompute(training_, layers_, *graph_,
                  recompute_of_layers(request_.recompute_layers, training_.recompute, layers_.count));
    graph_ = std::make_shared<const Graph>(build_graph(request_, training_));
    layers_ = assign_layers(*graph_, layer_starts());
  }
  incumbent_.say("{} layers, {} micro-batches: pricing stages", layers_.count, point.microbatches);
  structure_ = std::make_unique<StepStructure>(*graph_, layers_);
  if (request_.any_recompute && request_.schedule != ScheduleKind::Inference) make_variants();
  space_ = stage_space(request_, layers_.count);
  if (request_.batch_axis) {
    std::size_t axes = 0;
    for (const auto& mesh : space_.meshes) axes = std::max(axes, mesh.shape.size());
    require(*request_.batch_axis < static_cast<int>(axes),
            "the batch is to be split over mesh axis {}, but the logical meshes have axes 0..{}; choose one of them.",
            *request_.batch_axis, axes - 1);
  }
  price(request_.method.one_stage() ? request_.cluster.usable_memory() : Bytes(0.0));
  ++incumbent_.result.log.points;
  bound_ = search_->interrupted() ? Seconds(0.0) : search_->lower_bound();
}

PointSearch::~PointSearch() = default;

void PointSearch::make_variants() {
  for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
    TrainingOptions training = training_;
    training.recompute = recompute;
    variants_.push_back({build_graph(request_, training), {}, nullptr});
  }
  for (Variant& variant : variants_) {
    variant.layers = assign_layers(variant.graph, layer_starts());
    variant.structure = std::make_unique<StepStructure>(variant.graph, variant.layers);
  }
}

std::shared_ptr<const Graph> PointSearch::graph_of(const Plan& plan) {
  std::string key = name_of(plan.training.recompute);
  for (const RecomputeRange& range : plan.training.recompute_ranges)
    key += fmt::format(" {}-{} {}", range.first, range.last, name_of(range.recompute));
  auto& graph = graphs_[key];
  if (!graph) graph = std::make_shared<const Graph>(build_graph(request_, plan.training));
  return graph;
}

StageProfileKey PointSearch::key_of(Bytes memory) const {
  StageProfileKey key = stage_profile_key(request_.model, *graph_, training_, request_.cluster, layers_);
  key.numbering = StageProfileKey::Numbering{
      stage_profile_rules(request_.method, request_.forced, request_.batch_axis, request_.any_recompute),
      name_of(request_.schedule), training_.microbatches, memory, request_.cost_fingerprint};
  return key;
}

void PointSearch::price(Bytes memory) {
  memory_ = memory;
  StageCostOptions stage_costs{.known = nullptr, .mode = request_.stage_profile_mode, .costs = request_.stage_costs};
  if (request_.stage_profile != nullptr) {
    known_ = request_.stage_profile->serving(key_of(memory));
    if (known_->empty()) {
      incumbent_.last_key = known_->key();
    } else {
      stage_costs.known = &*known_;
      incumbent_.profile_served = true;
    }
  }
  std::vector<StepVariant> variants;
  if (!variants_.empty())
    variants = {{Recompute::None, structure_.get()},
                {Recompute::Selective, variants_[0].structure.get()},
                {Recompute::Full, variants_[1].structure.get()}};
  const StageSearchOptions options{.microbatches = training_.microbatches,
                                   .schedule = request_.schedule,
                                   .usable_memory = memory,
                                   .rules = [this](const LogicalMesh& mesh) { return rules(mesh); },
                                   .variants = std::move(variants),
                                   .one_stage = request_.method.one_stage(),
                                   .hosts_apart = request_.cluster.hosts() > 1,
                                   .stage_costs = stage_costs,
                                   .threads = request_.threads,
                                   .stop = request_.stop};
  search_ = std::make_unique<StageSearch>(*structure_, request_.cluster, incumbent_.costs, space_.submeshes,
                                          space_.meshes, options);
  ranking_ = std::make_unique<CandidateRanking>(*structure_, *search_, request_.cluster, incumbent_.costs,
                                                incumbent_.evaluator);
  incumbent_.result.log.stages_priced += search_->entries();
  if (search_->interrupted()) incumbent_.result.log.interrupted = true;
}

IntraOpRules PointSearch::rules(const LogicalMesh& mesh) const {
  IntraOpRules found = rules_of(request_.method, mesh.shape());
  if (request_.batch_axis && *request_.batch_axis < mesh.rank() &&
      mesh.axes[static_cast<std::size_t>(*request_.batch_axis)].size() > 1)
    force_batch_axis(found, *request_.batch_axis);
  for (const auto& [name, spec] : request_.forced) found.forced[name] = spec;
  return found;
}

// Where stages are given, of those alone.
StagePrices PointSearch::prices(double memory_share, StageSearch::Keep keep) const {
  if (space_.fixed.empty()) return search_->prices(memory_share, keep);
  return search_->prices(memory_share, keep, [this](int first, int last, const StageSearch::MeshRequest& mesh) {
    return std::any_of(space_.fixed.begin(), space_.fixed.end(), [&](const Method::ManualStage& stage) {
      return stage.first_layer == first && stage.last_layer == last && stage.logical_shape == mesh.shape &&
             stage.batch_axis == mesh.batch_axis &&
             stage.submesh == search_->submeshes()[static_cast<std::size_t>(mesh.submesh)];
    });
  });
}

bool PointSearch::run(ScheduleKind schedule) {
  if (search_->interrupted()) return false;
  if (request_.method.one_stage()) return run_one_stage(schedule);
  return run_pipeline(schedule);
}

CandidateRequest PointSearch::candidate_request(ScheduleKind schedule) const {
  CandidateRequest wanted{.schedule = schedule,
                          .microbatches = training_.microbatches,
                          .samples = training_.batch / training_.microbatches,
                          .objective = request_.objective,
                          .stages = space_.stages,
                          .devices = {},
                          .stop = [this] { return incumbent_.stopped(); }};
  for (const HostGroup& group : request_.cluster.groups) wanted.devices.push_back(group.devices());
  return wanted;
}

std::optional<PricedPipeline> PointSearch::best_pipeline(const StagePrices& prices, ScheduleKind schedule,
                                                         std::int64_t microbatches) const {
  return fastest_training(prices, {.devices = candidate_request(schedule).devices,
                                   .all_devices = false,
                                   .microbatches = microbatches,
                                   .in_flight = in_flight_of(schedule),
                                   .stages = space_.stages});
}

std::optional<Seconds> PointSearch::predict(const PointSearch& other, std::int64_t microbatches,
                                            ScheduleKind schedule) const {
  if (search_->interrupted() || other.search_->interrupted()) return std::nullopt;
  StagePrices own = this->prices(1.0, StageSearch::Keep::All);
  const StagePrices others = other.prices(1.0, StageSearch::Keep::All);
  MW_CHECK(own.layers() == others.layers(), "points of {} and {} layers", own.layers(), others.layers());
  const double own_samples = 1.0 / static_cast<double>(training_.microbatches);
  const double other_samples = 1.0 / static_cast<double>(other.training_.microbatches);
  const double samples = 1.0 / static_cast<double>(microbatches);
  const double towards = (samples - own_samples) / (other_samples - own_samples);
  // Never less than in proportion to the smaller of the two.
  const auto between = [&](auto from, auto to) {
    const auto& small = own_samples < other_samples ? from : to;
    return std::max((1.0 - towards) * from + towards * to,
                    std::min(1.0, samples / std::min(own_samples, other_samples)) * small);
  };
  for (int slice = 0; slice < static_cast<int>(own.slices().size()); ++slice)
    for (int config = 0; config < own.configs(); ++config) {
      const auto other_config = other.search_->config_of(slice, search_->choice(slice, config));
      for (int first = 0; first < own.layers(); ++first)
        for (int last = first; last < own.layers(); ++last) {
          auto& price = own.at(first, last, slice, config);
          if (!price) continue;
          if (!other_config || !others.at(first, last, slice, *other_config)) {
            price.reset();
            continue;
          }
          const StagePrice& there = *others.at(first, last, slice, *other_config);
          price->time = between(price->time, there.time);
          price->saved = between(price->saved, there.saved);
          price->working = between(price->working, there.working);
        }
    }
  const auto pipeline = best_pipeline(own, schedule, microbatches);
  if (!pipeline) return std::nullopt;
  return pipeline->sum + static_cast<double>(microbatches - 1) * pipeline->slowest;
}

bool PointSearch::run_pipeline(ScheduleKind schedule) {
  double share = 1.0;
  for (int tries = 0; tries < kMostMemoryTries; ++tries) {
    incumbent_.least_excess.reset();
    const bool better = run_memory_share(schedule, share);
    if (better && tries == 0) run_memory_share(schedule, share_left());
    // The prices' memory is an estimate: ask for plans that take as much less as the least hungry one was too large.
    if (better || incumbent_.result.plan || !incumbent_.least_excess || incumbent_.stopped()) {
      if (!incumbent_.result.plan && !incumbent_.stopped()) explain_failure(schedule);
      return better;
    }
    const Bytes usable = request_.cluster.usable_memory_of(0);
    share *= 0.99 * (usable / (usable + *incumbent_.least_excess));
  }
  if (!incumbent_.result.plan) explain_failure(schedule);
  return false;
}

// The prices' memory is an estimate on the large side: how much more they may be given, seeing what the best plan
// takes.
double PointSearch::share_left() const {
  double most = 0.0;
  for (const StagePlan& stage : incumbent_.result.plan->stages)
    most = std::max(most, stage.peak_memory / request_.cluster.group(stage.submesh.group).usable_memory());
  return std::clamp(0.99 / most, 1.0, 1.5);
}

bool PointSearch::run_memory_share(ScheduleKind schedule, double share) {
  const StagePrices priced = prices(share);
  const Candidates candidates = ranking_->find(priced, candidate_request(schedule));
  incumbent_.result.log.ranked += candidates.looked_at;
  return lower_candidates(candidates, schedule);
}

// In order of their stages' own times, until the next is no longer expected to win: as a share of that, no whole
// program has taken less than the least seen. Where programs are large, of candidates with as many stages that take the
// same by their stages alone, to a thousandth, one is lowered.
bool PointSearch::lower_candidates(const Candidates& candidates, ScheduleKind schedule) {
  bool better = false;
  const bool by_latency = request_.objective.kind == Objective::Kind::Latency;
  const bool large = request_.cluster.devices() * training_.microbatches > kLarge;
  std::size_t lowered = 0;
  for (const Candidate& candidate : candidates.ranked) {
    if (lowered == (large ? kMostLowered : kMostLoweredSmall) || (lowered > 0 && incumbent_.stopped())) break;
    const Seconds quick = by_latency ? candidate.alone : candidate.step;
    const double least = incumbent_.least_seen ? kDoubt * *incumbent_.least_seen : kExpected;
    if (incumbent_.score && least * quick >= *incumbent_.score && incumbent_.result.plan) break;
    if (!lowered_.emplace(schedule, candidate.pipeline.stages).second) continue;
    auto& alike = quick_[{schedule, candidate.pipeline.stages.size()}];
    const bool twin = large && std::any_of(alike.begin(), alike.end(),
                                           [&](Seconds other) { return std::abs(quick / other - 1.0) < kTwin; });
    if (twin) continue;
    auto program = lower_pipeline(candidate.pipeline, schedule);
    if (!program) continue;
    alike.push_back(quick);
    ++lowered;
    if (judge(std::move(*program), quick)) better = true;
  }
  return better;
}

std::optional<PointSearch::Lowered> PointSearch::lower_pipeline(const PricedPipeline& pipeline, ScheduleKind schedule) {
  auto plan = make(pipeline, schedule);
  if (!plan) {
    if (incumbent_.result.reason.empty())
      incumbent_.result.reason = fmt::format("the stages' submeshes have no place side by side on the {} hosts of {}",
                                             request_.cluster.hosts(), request_.cluster.name);
    return std::nullopt;
  }
  Lowered lowered{graph_of(*plan), std::move(*plan), {}, {}};
  const std::vector<std::string> wrong = check_plan(lowered.plan, *lowered.graph);
  MW_CHECK(wrong.empty(), "the planner made a bad plan: {}", wrong.front());
  lowered.program = lower(lowered.plan, *lowered.graph, incumbent_.costs);
  lowered.check = check_program(lowered.program);
  MW_CHECK(lowered.check.violations.empty(), "the plan lowers to a bad program: {}", lowered.check.violations.front());
  for (std::size_t d = 0; d < lowered.check.peak_memory.size(); ++d) {
    Bytes& peak = lowered.plan.stages[lowered.program.stage_of_device[d].index()].peak_memory;
    peak = std::max(peak, lowered.check.peak_memory[d]);
  }
  lowered.plan.predicted.peak_memory = lowered.check.largest_peak();
  return lowered;
}

bool PointSearch::judge(Lowered lowered, std::optional<Seconds> quick) {
  PlanningResult& result = incumbent_.result;
  for (const StagePlan& stage : lowered.plan.stages)
    if (stage.peak_memory > request_.cluster.group(stage.submesh.group).usable_memory()) {
      note_too_large(lowered);
      return false;
    }
  const Seconds step = incumbent_.evaluator.step_time(lowered.program, lowered.check);
  ++result.log.simulations;
  lowered.plan.predicted.step_time = step;
  lowered.plan.predicted.lower_bound = std::min(step, bound_);
  Seconds score = step;
  const Objective& objective = request_.objective;
  if (objective.kind != Objective::Kind::StepTime) {
    Plan alone = lowered.plan;
    alone.training.batch /= alone.training.microbatches;
    alone.training.microbatches = 1;
    const Program one = lower(alone, *lowered.graph, incumbent_.costs);
    const Seconds latency = incumbent_.evaluator.step_time(one, check_program(one));
    const double throughput = static_cast<double>(training_.batch) / step.si();
    if (throughput < objective.least_throughput || (objective.most_latency && latency > *objective.most_latency)) {
      if (!result.plan)
        result.reason = fmt::format(
            "the best plan found serves {:.6g} samples/s with {} for a micro-batch, which is not within the limits "
            "asked for",
            throughput, human_seconds(latency));
      return false;
    }
    if (objective.kind == Objective::Kind::Latency) score = latency;
  }
  if (quick) incumbent_.least_seen = std::min(incumbent_.least_seen.value_or(1.0), score / *quick);
  if (request_.front)
    incumbent_.seen.push_back({lowered.plan, static_cast<int>(lowered.program.stage_of_device.size())});
  incumbent_.say("{} layers, {} micro-batches, {}: {} stages, {}; best {}", layers_.count, training_.microbatches,
                 name_of(lowered.plan.schedule), lowered.plan.stages.size(), human_seconds(score),
                 human_seconds(std::min(score, incumbent_.score.value_or(score))));
  if (incumbent_.score && *incumbent_.score <= score) return false;
  incumbent_.score = score;
  result.plan = std::move(lowered.plan);
  result.graph = *lowered.graph;
  result.program = std::move(lowered.program);
  result.check = std::move(lowered.check);
  result.too_large.reset();
  return true;
}

// Remembers why the least hungry of the plans that are too large does not fit.
void PointSearch::note_too_large(const Lowered& lowered) {
  const auto& stages = lowered.plan.stages;
  std::size_t worst = 0;
  const auto excess = [&](std::size_t s) {
    return stages[s].peak_memory - request_.cluster.group(stages[s].submesh.group).usable_memory();
  };
  for (std::size_t s = 1; s < stages.size(); ++s)
    if (excess(s) > excess(worst)) worst = s;
  if (!incumbent_.least_excess || excess(worst) < *incumbent_.least_excess) incumbent_.least_excess = excess(worst);
  PlanningResult& result = incumbent_.result;
  if (result.plan) return;
  const StagePlan& stage = stages[worst];
  const Bytes usable = request_.cluster.group(stage.submesh.group).usable_memory();
  if (result.too_large && result.too_large->needs - result.too_large->usable <= excess(worst)) return;
  result.too_large = PlanningResult::TooLarge{static_cast<int>(worst),
                                              static_cast<int>(stages.size()),
                                              stage.first_layer,
                                              stage.last_layer,
                                              stage.peak_memory,
                                              usable,
                                              incumbent_.evaluator.step_time(lowered.program, lowered.check)};
  result.reason = fmt::format("stage {} of {} (layers {}..{} on {}x{}) needs {} of {} per device", worst, stages.size(),
                              stage.first_layer, stage.last_layer, stage.submesh.hosts, stage.submesh.devices_per_host,
                              human_bytes(stage.peak_memory), human_bytes(usable));
}

// Nothing fits by the prices' estimate, which errs on the large side. The least hungry pipeline is lowered and counted
// exactly: either it fits after all, or the reason names what it lacks.
void PointSearch::explain_failure(ScheduleKind schedule) {
  const auto at_share = [&](double share) { return best_pipeline(prices(share), schedule, training_.microbatches); };
  double low = 1.0, high = 2.0;
  std::optional<PricedPipeline> least = at_share(high);
  for (; !least && high < 1e6; least = at_share(high)) low = high, high *= 4.0;
  if (!least) {
    incumbent_.result.reason =
        search_->reasons().empty()
            ? fmt::format("no way to use the {} devices of {}", request_.cluster.devices(), request_.cluster.name)
            : fmt::format("method '{}': {}", request_.method.text, search_->reasons().front());
    return;
  }
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    if (auto found = at_share(middle)) {
      least = std::move(found);
      high = middle;
    } else {
      low = middle;
    }
  }
  if (auto lowered = lower_pipeline(*least, schedule)) judge(std::move(*lowered));
}

bool PointSearch::run_one_stage(ScheduleKind schedule) {
  MemoryRequest memory(request_.cluster.usable_memory());
  bool better = false;
  for (bool again = true; again;) {
    const StagePrices priced = prices(memory.asked() / request_.cluster.usable_memory());
    const auto pipeline = best_pipeline(priced, schedule, training_.microbatches);
    if (!pipeline) {
      if (!incumbent_.result.plan) explain_failure(schedule);
      break;
    }
    auto lowered = lower_pipeline(*pipeline, schedule);
    if (!lowered) break;
    const StepCost& cost = search_->cost(0, layers_.count - 1, search_->choice(0, pipeline->stages.front().config));
    const Bytes peak = lowered->check.largest_peak();
    const Seconds free = bound_ / static_cast<double>(training_.microbatches);
    const MemoryRequest::Outcome outcome{search_->estimate(cost), peak,
                                         incumbent_.result.plan || peak <= request_.cluster.usable_memory(),
                                         search_->per_microbatch(cost) > (1.0 + 1e-9) * free};
    if (judge(std::move(*lowered))) {
      better = true;
      const Seconds time = search_->per_microbatch(cost);
      incumbent_.result.sharding = {{time, std::min(time, search_->sharding_bound())}};
    }
    again = memory.again(outcome);
    if (again) price(memory.asked());
  }
  return better;
}

std::vector<int> PointSearch::layer_starts() const {
  std::vector<int> starts;
  int position = 0;
  for (const auto& ops : layers_.forward) {
    starts.push_back(position);
    position += static_cast<int>(ops.size());
  }
  return starts;
}

std::optional<Plan> PointSearch::make(const PricedPipeline& pipeline, ScheduleKind schedule) {
  Plan plan;
  plan.model = request_.model;
  plan.training = training_;
  plan.cluster = request_.cluster;
  plan.method = request_.method.text;
  plan.schedule = schedule;
  plan.layer_starts = layer_starts();
  std::vector<Recompute> recompute;  // [layer]
  for (const PricedStage& stage : pipeline.stages) {
    const StageChoice choice = search_->choice(stage.slice, stage.config);
    plan.stages.push_back(search_->plan(stage.first, stage.last, choice));
    const auto own = search_->spans(choice).recompute(stage.first, stage.last, choice.price);
    recompute.insert(recompute.end(), own.begin(), own.end());
  }
  if (!variants_.empty()) set_recompute(plan.training, layers_, *graph_, recompute);
  plan.graph_fingerprint = fmt::format("{:016x}", stable_hash(canonical_text(*graph_of(plan))));
  const auto placed = ranking_->place(pipeline, training_.microbatches);
  if (!placed) return std::nullopt;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].devices = (*placed)[s];
  return plan;
}

// Fewer devices, and less memory: the best pipeline of each.
void PointSearch::widen(ScheduleKind schedule) {
  if (search_->interrupted() || request_.method.one_stage() || !space_.fixed.empty()) return;
  CandidateRequest wanted = candidate_request(schedule);
  for (bool some = true; some && !incumbent_.stopped();) {
    for (const double share : {1.0, 0.7, 0.5, 0.35, 0.25}) {
      const auto pipeline = fastest_training(prices(share), {.devices = wanted.devices,
                                                             .all_devices = false,
                                                             .microbatches = training_.microbatches,
                                                             .in_flight = in_flight_of(schedule)});
      if (!pipeline || incumbent_.stopped()) break;
      if (auto lowered = lower_pipeline(*pipeline, schedule)) judge(std::move(*lowered));
    }
    some = false;
    for (int& count : wanted.devices) {
      count /= 2;
      some = some || count > 0;
    }
  }
}

}  // namespace meshwright
