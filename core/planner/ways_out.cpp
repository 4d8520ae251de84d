// SPDX-License-Identifier: Apache-2.0
#include "core/planner/ways_out.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <utility>

#include "core/base/divisors.h"
#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/search/stage_space.h"

namespace meshwright {

namespace {

constexpr int kMaxHosts = 4096;
constexpr int kMaxHostDoublings = 4;  // beyond the hosts that hold weights and state alone
constexpr int kFewDevices = 8;        // with at most so many devices, a small request is planned as it is
constexpr int kMaxSimulated = 6;      // plans of a narrow request that are simulated whole

struct Step {
  std::string change;
  PlanRequest request;
};
// Ever larger changes of one sort: the first that fits is the way out.
struct Ladder {
  WayOut::Kind kind;
  std::vector<Step> steps;
  std::optional<std::size_t> way = {};  // the smallest change known to fit, in WaysOut::ways
};

template <class Change>
Step step(const PlanRequest& request, std::string text, const Change& change) {
  Step made{std::move(text), request};
  made.request.goal.front = false;
  made.request.stage_profile.keep = false;
  made.request.stage_profile.file = nullptr;  // of other spans
  made.request.steps = nullptr;               // these searches are not the one that was asked for
  change(made.request);
  return made;
}

// Bytes held throughout the step, whatever the sharding: weights and optimizer state, each counted once.
struct HeldBytes {
  Bytes weights{0.0}, state{0.0};
};

HeldBytes held_by(const PlanRequest& request) {
  const Graph graph = build_step_graph(request.model, request.training_with(1), request.first_schedule());
  HeldBytes held;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Parameter) held.weights += tensor.bytes();
    if (tensor.kind == TensorKind::OptimizerState) held.state += tensor.bytes();
  }
  return held;
}

// Without what the request keeps on the hosts, or may keep there.
HeldBytes on_devices(HeldBytes held, const PlanRequest& request) {
  if (request.search.any_offload) return {};
  if (has(request.training.offload, Offload::Weights)) held.weights = Bytes(0.0);
  if (has(request.training.offload, Offload::Optimizer)) held.state = Bytes(0.0);
  return held;
}

// False: too large by these bytes alone. `of_all`: held_by.
bool may_fit(const HeldBytes& of_all, const PlanRequest& request) {
  const HeldBytes held = on_devices(of_all, request);
  Bytes total(0.0), smallest = request.cluster.groups.front().usable_memory();
  for (const HostGroup& group : request.cluster.groups) {
    total += static_cast<double>(group.devices()) * group.usable_memory();
    smallest = std::min(smallest, group.usable_memory());
  }
  const double devices = request.cluster.devices();
  switch (request.search.method.kind) {
    case Method::Kind::Data:
      return held.weights + held.state <= smallest;
    case Method::Kind::Zero1:
    case Method::Kind::Zero2:
      return held.weights + held.state / devices <= smallest;
    default:
      return held.weights + held.state <= total;
  }
}

std::vector<Ladder> recomputations(const PlanRequest& request) {
  if (!request.trains() || request.any_recompute()) return {};
  const Recompute asked = std::get<Recompute>(request.search.recompute);
  Ladder ladder{WayOut::Kind::Recomputation, {}};
  for (const Recompute more : {Recompute::Selective, Recompute::Full}) {
    if (more == asked || asked == Recompute::Full) continue;
    ladder.steps.push_back(step(request, fmt::format("--recompute {}", name_of(more)), [&](PlanRequest& changed) {
      changed.search.recompute = more;
      changed.search.recompute_layers.clear();
      changed.search.recompute_modules = RecomputeModules::None;
    }));
  }
  const Step each = step(request, "--recompute auto", [](PlanRequest& changed) {
    changed.search.recompute = Auto{};
    changed.search.recompute_layers.clear();
    changed.search.recompute_modules = RecomputeModules::None;
  });
  return {std::move(ladder), {WayOut::Kind::Recomputation, {each}}};
}

Ladder methods(const PlanRequest& request, WayOut::Kind kind, const std::vector<const char*>& names) {
  Ladder ladder{kind, {}};
  for (const char* name : names)
    ladder.steps.push_back(step(request, fmt::format("--method {}", name),
                                [&](PlanRequest& changed) { changed.search.method = method_from_text(name); }));
  return ladder;
}

std::vector<Ladder> methods(const PlanRequest& request) {
  std::vector<Ladder> ladders;
  std::vector<const char*> next = {"zero1", "zero2", "zero3"};
  switch (request.search.method.kind) {
    case Method::Kind::Pipeshard:
      return {};
    case Method::Kind::Data:
      break;
    case Method::Kind::Zero1:
      next = {"zero2", "zero3"};
      break;
    case Method::Kind::Zero2:
      next = {"zero3"};
      break;
    default:
      next.clear();
  }
  // What is copied between groups may be split over all devices first.
  if (request.search.method.shard)
    next.insert(next.begin(), request.search.method.kind == Method::Kind::Zero1   ? "zero1"
                              : request.search.method.kind == Method::Kind::Zero2 ? "zero2"
                                                                                  : "zero3");
  // A mesh given for one stage suits its method: other methods use its axes for something else.
  ladders.push_back(methods(request, WayOut::Kind::ZeroLevel, next));
  if (request.search.logical_mesh) return ladders;
  if (request.search.method.one_stage() && request.search.method.kind != Method::Kind::Shard)
    ladders.push_back(methods(request, WayOut::Kind::FreerMethod, {"shard"}));
  ladders.push_back(methods(request, WayOut::Kind::FreerMethod, {"pipeshard"}));
  return ladders;
}

// About twice, four and eight times as many, then one sample each, where the search was held to a number.
// Smaller micro-batches hold fewer activations; counts have to divide the batch.
Ladder more_microbatches(const PlanRequest& request) {
  Ladder ladder{WayOut::Kind::MoreMicrobatches, {}};
  const auto* asked = std::get_if<std::int64_t>(&request.search.microbatches);
  if (asked == nullptr) return ladder;
  const std::int64_t batch = request.training.batch;
  std::int64_t last = *asked;
  for (const std::int64_t times : {std::int64_t{2}, std::int64_t{4}, std::int64_t{8}, batch}) {
    std::int64_t count = times == batch ? std::max(batch, last + 1) : std::max(times * *asked, last + 1);
    while (count <= batch && batch % count != 0) ++count;
    if (count > batch) break;
    last = count;
    ladder.steps.push_back(step(request, fmt::format("--micro-batches {}", count),
                                [&](PlanRequest& changed) { changed.search.microbatches = count; }));
  }
  return ladder;
}

Ladder other_schedule(const PlanRequest& request) {
  if (request.first_schedule() != ScheduleKind::GPipe) return {WayOut::Kind::OtherSchedule, {}};
  return {WayOut::Kind::OtherSchedule, {step(request, "--schedule 1f1b", [](PlanRequest& changed) {
            changed.search.schedule = ScheduleKind::OneFOneB;
          })}};
}

Ladder smaller_batches(const PlanRequest& request) {
  Ladder ladder{WayOut::Kind::SmallerBatch, {}};
  for (const std::int64_t part : {2, 4}) {
    const std::int64_t batch = request.training.batch / part;
    const auto* given = std::get_if<std::int64_t>(&request.search.microbatches);
    const std::int64_t microbatches = given != nullptr ? *given : 1;
    if (request.training.batch % part != 0 || batch % microbatches != 0) break;
    ladder.steps.push_back(
        step(request, fmt::format("--batch {}", batch), [&](PlanRequest& changed) { changed.training.batch = batch; }));
  }
  return ladder;
}

// Launch files of frameworks keep optimizer state alone on the hosts.
Ladder offloads(const PlanRequest& request) {
  Ladder ladder{WayOut::Kind::Offload, {}};
  const auto& groups = request.cluster.groups;
  const bool told = std::all_of(groups.begin(), groups.end(), [](const HostGroup& group) {
    return group.device.host_memory.si() > 0 && group.device.host_bandwidth.si() > 0;
  });
  if (!request.trains() || request.search.any_offload || !told) return ladder;
  std::vector<Offload> parts = {Offload::Optimizer};
  if (request.search.launch_for == nullptr && request.software.empty())
    parts.push_back(Offload::Optimizer | Offload::Activations | Offload::Weights);
  for (const Offload part : parts) {
    const Offload more = request.training.offload | part;
    if (more == request.training.offload) continue;
    ladder.steps.push_back(step(request, fmt::format("--offload {}", name_of(more)),
                                [&](PlanRequest& changed) { changed.training.offload = more; }));
  }
  return ladder;
}

Ladder richer_meshes(const PlanRequest& request) {
  const Method::Kind kind = request.search.method.kind;
  const bool open = (kind == Method::Kind::Pipeshard || kind == Method::Kind::Shard) && !request.search.logical_mesh;
  if (!open || request.search.logical_mesh_space == LogicalMeshSpace::ThreeDimensional)
    return {WayOut::Kind::RicherMeshes, {}};
  return {WayOut::Kind::RicherMeshes,
          {step(request, "--logical-mesh-space three_dimensional",
                [](PlanRequest& changed) { changed.search.logical_mesh_space = LogicalMeshSpace::ThreeDimensional; })}};
}

// The name of the preset of the group's hosts, such as "p3.16xlarge" for the second group of
// "dgx-a100:1+p3.16xlarge:2"; "": the cluster is not named like that.
std::string family_of(const Cluster& cluster, std::size_t group) {
  const std::vector<std::string> parts = split(cluster.name, '+');
  return parts.size() == cluster.groups.size() ? parts[group].substr(0, parts[group].find(':')) : "";
}

// "--cluster p3.16xlarge:3" where that is just the cluster with `hosts` hosts in the group, else in words.
Step with_hosts(const PlanRequest& request, std::size_t group, int hosts) {
  Cluster cluster = request.cluster;
  const int more = hosts - cluster.groups[group].hosts;
  cluster.groups[group].hosts = hosts;
  std::string text = fmt::format("{} more {}{}", more, more == 1 ? "host" : "hosts",
                                 cluster.uniform() ? "" : " of " + cluster.groups[group].device.name);
  std::vector<std::string> parts = split(cluster.name, '+');
  if (const std::string family = family_of(cluster, group); !family.empty())
    parts[group] = fmt::format("{}:{}", family, hosts);
  cluster.name = join(parts, "+");
  try {
    if (to_json(find_cluster(cluster.name)) == to_json(cluster)) text = "--cluster " + cluster.name;
  } catch (const std::runtime_error&) {
    // Not a preset, or not for so many hosts; a file that is not there.
  }
  if (!text.starts_with("--")) cluster.name = fmt::format("{} and {}", request.cluster.name, text);
  return step(request, text, [&](PlanRequest& changed) { changed.cluster = cluster; });
}

std::vector<Ladder> more_hosts(const PlanRequest& request, const HeldBytes& held) {
  // Stages and meshes that are given leave other devices idle.
  if (request.search.method.kind == Method::Kind::Manual || request.search.logical_mesh) return {};
  std::vector<Ladder> ladders;
  for (std::size_t g = 0; g < request.cluster.groups.size(); ++g) {
    const HostGroup& group = request.cluster.groups[g];
    if (family_of(request.cluster, g) == "cpu") continue;  // threads of this machine: there is no second one
    std::set<int> hosts = {group.hosts + 1, 2 * group.hosts};
    if (request.cluster.uniform()) {
      const double host = group.devices_per_host * group.usable_memory().si();
      const double min_hosts = std::ceil((held.weights + held.state).si() / host);
      int power = 1;
      while (power < min_hosts && power < kMaxHosts) power *= 2;
      // Activations may need more hosts than that.
      for (int doublings = 0; power > 2 * group.hosts && doublings < kMaxHostDoublings; ++doublings, power *= 2)
        hosts.insert(power);
    }
    Ladder ladder{WayOut::Kind::MoreDevices, {}};
    for (const int count : hosts)
      if (count <= kMaxHosts) ladder.steps.push_back(with_hosts(request, g, count));
    ladders.push_back(std::move(ladder));
  }
  return ladders;
}

std::vector<Ladder> all_ladders(const PlanRequest& request, const HeldBytes& held) {
  std::vector<Ladder> ladders = recomputations(request);
  const auto add = [&](std::vector<Ladder> more) { std::move(more.begin(), more.end(), std::back_inserter(ladders)); };
  add(methods(request));
  add({more_microbatches(request), other_schedule(request), smaller_batches(request), offloads(request)});
  add(more_hosts(request, on_devices(held, request)));
  add({richer_meshes(request)});
  for (Ladder& ladder : ladders)
    ladder.steps.erase(std::remove_if(ladder.steps.begin(), ladder.steps.end(),
                                      [&](const Step& s) { return !may_fit(held, s.request); }),
                       ladder.steps.end());
  return ladders;
}

bool is_planned_in_full(const PlanRequest& request) {
  return request.cluster.devices() <= kFewDevices && is_small(request);
}

// Divisors of the batch that leave few samples in a micro-batch; the first leaves the fewest. Methods that split the
// samples need some for every device that does.
std::vector<std::int64_t> many_microbatches(const PlanRequest& request) {
  constexpr std::int64_t kMaxMicrobatches = 1024;
  const Method& method = request.search.method;
  const std::int64_t batch = request.training.batch;
  std::int64_t split = method.one_stage() ? request.cluster.devices() : 1;
  if (method.kind == Method::Kind::Megatron) split = request.cluster.devices() / (method.tp * method.cp * method.pp);
  std::int64_t most = 1, fewer = 1;
  for (const std::int64_t m : divisors(batch, kMaxMicrobatches)) {
    if (m > 1 && batch / m % std::max<std::int64_t>(split, 1) != 0) continue;
    most = m;
    if (4 * m <= batch) fewer = m;
  }
  return fewer == most ? std::vector{most} : std::vector{most, fewer};
}

// Parts of the request's space in which there are plans of little memory, if there are any, the least first:
// micro-batches of few samples, one schedule, and on many hosts stages of whole hosts with tensor parallelism inside
// them. A plan of any of them is a plan of the request.
std::vector<PlanRequest> narrow_requests(const PlanRequest& request) {
  PlanRequest narrow = request;
  narrow.search.schedule = request.first_schedule();
  if (request.search.layers == LayerCount(Auto{})) narrow.search.layers = ModelDefault{};
  constexpr int kFewHosts = 4;
  if (request.search.method.kind == Method::Kind::Pipeshard &&
      std::holds_alternative<SubmeshSpace>(request.search.submeshes) && request.cluster.hosts() > kFewHosts) {
    narrow.search.submeshes = whole_host_submeshes(request.cluster, {1, 2, 4});
    narrow.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;
  }
  if (!is_auto(request.search.microbatches)) return {narrow};
  std::vector<PlanRequest> requests;
  for (const std::int64_t microbatches : many_microbatches(request)) {
    narrow.search.microbatches = microbatches;
    requests.push_back(narrow);
  }
  return requests;
}

// The evaluator of a narrow search, which is to stop when it has simulated so many plans that fit.
class CountingEvaluator : public PlanEvaluator {
 public:
  explicit CountingEvaluator(PlanEvaluator& by) : by_(by) {}
  [[nodiscard]] bool enough() const { return simulated_ >= kMaxSimulated; }

  [[nodiscard]] Seconds step_time(ScheduleKind schedule, int microbatches, const PipelineTimes& times,
                                  int chunks) override {
    return by_.step_time(schedule, microbatches, times, chunks);
  }
  [[nodiscard]] std::unique_ptr<PlanTrial> trial(const PlanOfGraph& made) const override {
    return std::make_unique<Counted>(by_.trial(made), simulated_);
  }
  [[nodiscard]] PlanOutcome outcome(const PlanOfGraph& made) const override { return by_.outcome(made); }
  [[nodiscard]] bool hides_communication() const override { return by_.hides_communication(); }
  [[nodiscard]] int gathers_ahead() const override { return by_.gathers_ahead(); }
  [[nodiscard]] bool steps_run_into_each_other() const override { return by_.steps_run_into_each_other(); }
  [[nodiscard]] std::unique_ptr<PlanEvaluator> plain() const override { return by_.plain(); }
  [[nodiscard]] std::optional<SoftwareMemory> software_memory(const Plan& plan, const Graph& graph) const override {
    return by_.software_memory(plan, graph);
  }

 private:
  class Counted final : public PlanTrial {
   public:
    Counted(std::unique_ptr<PlanTrial> of, std::atomic<int>& simulated) : of_(std::move(of)), simulated_(simulated) {
      peaks = of_->peaks;
      on_host = of_->on_host;
    }
    [[nodiscard]] StepOutcome step() override {
      ++simulated_;
      return of_->step();
    }

   private:
    const std::unique_ptr<PlanTrial> of_;
    std::atomic<int>& simulated_;
  };

  PlanEvaluator& by_;
  mutable std::atomic<int> simulated_ = 0;  // several threads may ask
};

class Explorer {
 public:
  Explorer(const PlanRequest& request, const CostContextOf& cost_context_of, const WaysOutLimits& limits)
      : request_(request), cost_context_of_(cost_context_of), limits_(limits) {}

  // Every ladder's first step before any second, so that the limit cuts all alike. Of large requests the largest change
  // of a ladder comes before that: where it is in vain, all are.
  WaysOut climb(std::vector<Ladder> ladders) {
    for (Ladder& ladder : ladders) {
      if (is_at_end()) return std::move(found_);
      probe(ladder);
    }
    for (std::size_t rung = 0;; ++rung) {
      bool higher = false;
      for (Ladder& ladder : ladders) {
        if (rung >= ladder.steps.size()) continue;
        if (is_at_end()) return std::move(found_);
        higher = true;
        if (try_step(ladder, std::move(ladder.steps[rung])) == Outcome::Fits) ladder.steps.clear();
      }
      if (!higher) return std::move(found_);
    }
  }

 private:
  enum class Outcome { Fits, TooLarge, Unsuitable };

  [[nodiscard]] bool stopped() const { return limits_.stop && limits_.stop(); }
  [[nodiscard]] bool is_at_end() const { return calls_ >= limits_.planning_calls || stopped(); }

  // Tries the last step of a ladder of several. More hosts are not probed: the most take the longest to plan.
  void probe(Ladder& ladder) {
    if (ladder.kind == WayOut::Kind::Recomputation && full_is_in_vain_) {
      // Where no layer's activations fit that are all recomputed, none fit that a few keep.
      give_up(ladder);
      return;
    }
    if (ladder.kind == WayOut::Kind::MoreDevices || ladder.steps.size() < 2 ||
        is_planned_in_full(ladder.steps.back().request))
      return;
    const Outcome outcome = try_step(ladder, ladder.steps.back());
    if (outcome == Outcome::TooLarge) {
      full_is_in_vain_ = full_is_in_vain_ || ladder.kind == WayOut::Kind::Recomputation;
      found_.in_vain.pop_back();  // with the others, in their order
      give_up(ladder);
    } else {
      ladder.steps.pop_back();
    }
  }

  void give_up(Ladder& ladder) {
    for (const Step& left : ladder.steps) found_.in_vain.push_back(left.change);
    ladder.steps.clear();
  }

  // A way that fits takes the place of a larger change of its ladder.
  void note(Ladder& ladder, WayOut way) {
    if (ladder.way) {
      found_.ways[*ladder.way] = std::move(way);
      return;
    }
    ladder.way = found_.ways.size();
    found_.ways.push_back(std::move(way));
  }

  Outcome try_step(Ladder& ladder, Step tried) {
    const bool in_full = is_planned_in_full(tried.request);
    ++calls_;
    const CostContext context = cost_context_of_(tried.request.cluster);
    try {
      std::optional<Seconds> fastest;
      for (PlanRequest& asked : in_full ? std::vector{tried.request} : narrow_requests(tried.request)) {
        const PlanningResult result = plan(asked, in_full, tried.change, context);
        // What keeps more does not fit either.
        if (!result.plan && result.too_large) break;
        if (result.plan)
          fastest = std::min(fastest.value_or(result.plan->predicted.step_time), result.plan->predicted.step_time);
      }
      if (fastest) {
        note(ladder, {ladder.kind, tried.change, std::move(tried.request), *fastest, !in_full});
        return Outcome::Fits;
      }
      if (stopped()) return Outcome::Unsuitable;
      found_.in_vain.push_back(tried.change);
      return Outcome::TooLarge;
    } catch (const InputError&) {
      return Outcome::Unsuitable;  // the change does not suit this model, method or cluster
    }
  }

  PlanningResult plan(PlanRequest& asked, bool in_full, const std::string& change, const CostContext& context) {
    CountingEvaluator counting(*context.evaluator);
    asked.stop = [&] { return stopped() || (request_.stop && request_.stop()) || (!in_full && counting.enough()); };
    if (request_.progress) asked.progress = [&](const std::string& text) { request_.progress(change + ": " + text); };
    return make_plan(asked, *context.costs, counting);
  }

  const PlanRequest& request_;
  const CostContextOf& cost_context_of_;
  const WaysOutLimits& limits_;
  WaysOut found_;
  int calls_ = 0;
  bool full_is_in_vain_ = false;  // recomputation of every layer
};

// The fastest of each kind, at most `max`; equally fast: the earlier, which changes less.
void keep_best(std::vector<WayOut>& ways, std::size_t max) {
  std::stable_sort(ways.begin(), ways.end(),
                   [](const WayOut& a, const WayOut& b) { return a.per_sample() < b.per_sample(); });
  std::set<WayOut::Kind> kinds;
  ways.erase(
      std::remove_if(ways.begin(), ways.end(), [&](const WayOut& way) { return !kinds.insert(way.kind).second; }),
      ways.end());
  if (ways.size() > max) ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(max), ways.end());
}

}  // namespace

WaysOut find_ways_out(const PlanRequest& request, const PlanningResult& failed, const CostContextOf& cost_context_of,
                      const WaysOutLimits& limits) {
  if (failed.plan || !failed.too_large) return {};
  WaysOut found = Explorer(request, cost_context_of, limits).climb(all_ladders(request, held_by(request)));
  keep_best(found.ways, limits.ways);
  const Seconds before = failed.too_large->step_time / static_cast<double>(request.training.batch);
  if (before.si() > 0.0)
    for (WayOut& way : found.ways) way.slower = (way.per_sample() - before) / before;
  return found;
}

std::string PlanningResult::TooLarge::text() const {
  if (likely)
    return fmt::format("needs {} per device, and no more than {} is likely to fit", human_bytes(needs),
                       human_bytes(usable));
  return fmt::format("needs {} of {}{} per device", human_bytes(needs), human_bytes(usable),
                     of_host ? " of its host's memory" : "");
}

std::string sentence(const PlanningResult& failed, const WaysOut& ways_out) {
  if (!failed.too_large) return failed.reason;
  const PlanningResult::TooLarge& stage = *failed.too_large;
  const std::string text = fmt::format("stage {} of {} (layers {}..{}) {}", stage.stage, stage.stages,
                                       stage.first_layer, stage.last_layer, stage.text());
  if (!ways_out.ways.empty()) {
    std::vector<std::string> ways;
    for (const WayOut& way : ways_out.ways)
      ways.push_back(fmt::format("{} ({}{})", way.change, way.at_most ? "at most " : "",
                                 way.slower ? fmt::format("{:+.1f} %", 100.0 * *way.slower)
                                            : human_seconds(way.per_sample()) + " per sample"));
    return fmt::format("{}; cheapest ways out, with what they change in time per sample: {}", text, join(ways, ", "));
  }
  const std::string memory = fmt::format("it would fit devices with {} usable each", human_bytes(stage.needs));
  if (!ways_out.in_vain.empty())
    return fmt::format("{}; {}; not enough alone: {}", text, memory, join(ways_out.in_vain, ", "));
  return fmt::format("{}; {}; use more or larger devices, or a smaller model", text, memory);
}

}  // namespace meshwright
