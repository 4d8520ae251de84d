// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/plan_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/planner/search/microbatch_search.h"
#include "core/planner/search/searched_points.h"

namespace meshwright {

namespace {

constexpr int kMaxLayers = 64;
constexpr std::int64_t kMaxHalves = 1 << 20;  // devices times the square of twice the blocks, for a cut of half blocks
constexpr int kFewLayers = 8, kVeryFewDevices = 4;
constexpr int kFewDevices = 16;  // their first plan comes before anyone could ask for it

// --- cuts into layers ---

class LayerSearch {
 public:
  // REQUIRES: `first` was searched, with one number of micro-batches or several.
  LayerSearch(SearchedPoints& searched, const SearchPoint& first)
      : searched_(searched), first_(first), small_(is_small(searched.request())) {}

  // Finer and coarser cuts, at the best number of micro-batches.
  void search_cuts();
  // Small requests: the best cut suits other numbers of micro-batches than the first, and these other cuts.
  void search_around();

 private:
  // What pipelines of another cut have to beat by their stages alone. No prediction is made from its stages, so that
  // those of other pipelines need no costs. nullopt: nobody knows, or a refinement may change the order of plans.
  [[nodiscard]] std::optional<Seconds> to_beat();
  [[nodiscard]] bool may_cut_anew() const;
  [[nodiscard]] int fewest_layers() const;
  [[nodiscard]] int most_layers() const;
  [[nodiscard]] std::vector<int> layer_counts() const;
  [[nodiscard]] std::vector<SearchPoint> other_cuts() const;
  [[nodiscard]] std::optional<SearchPoint> half_blocks() const;
  // The best point with the next smaller and larger numbers of micro-batches, then with other cuts.
  [[nodiscard]] std::vector<SearchPoint> points_around() const;
  [[nodiscard]] std::vector<SearchPoint> cuts_of_fitting() const;
  void step_around();
  [[nodiscard]] const PlanRequest& request() const { return searched_.request(); }
  [[nodiscard]] const PlanIncumbent& incumbent() const { return std::as_const(searched_).incumbent(); }
  [[nodiscard]] bool stopped() { return searched_.context().stopped(); }

  SearchedPoints& searched_;
  const SearchPoint first_;
  const bool small_;
};

std::optional<Seconds> LayerSearch::to_beat() {
  const Goal& goal = request().goal;
  if (goal.objective != Goal::Objective::StepTime || goal.front || !request().search.prune ||
      !is_large(request(), searched_.best().microbatches) || incumbent().near_share() < 1.0)
    return std::nullopt;
  std::optional<Seconds> most;
  for (const ScheduleKind schedule : searched_.schedules()) {
    const auto of =
        meshwright::to_beat({true, searched_.context().evaluator.hides_communication()}, schedule, incumbent());
    if (!of) continue;
    // Each copy of the layers runs a share of the micro-batches, and its stages may take so much longer for one.
    const Seconds limit = static_cast<double>(traits_of(schedule).copies) * *of;
    most = std::max(most.value_or(limit), limit);
  }
  return most;
}

bool LayerSearch::may_cut_anew() const {
  return incumbent().plan() && !request().search.layer_cut.fixes_count() && searches_stages(request());
}

// Among all schedules some suit any number of layers.
int LayerSearch::fewest_layers() const {
  return request().any_schedule() ? 1 : least_layers(request(), request().first_schedule());
}

int LayerSearch::most_layers() const {
  const Graph& graph = *incumbent().best()->graph;
  const bool whole_blocks = first_.layer_cut.cut == LayerOptions::Cut::Uniform;
  return static_cast<int>(whole_blocks ? block_starts(graph).size() : forward_ops(graph).size());
}

// Numbers of layers other than the first's.
std::vector<int> LayerSearch::layer_counts() const {
  const int first = searched_.first_layers();
  std::vector<int> counts{2 * first, first / 2, first / 4};
  // Each number of layers divides few blocks among the stages in its own way.
  const int devices = request().cluster.devices();
  if (devices > 1 && first <= kFewLayers && small_) {
    const int most = 2 * std::max(first, std::min(devices, kFewLayers));
    for (int count = 2; count <= most; ++count)
      if (count != first && std::find(counts.begin(), counts.end(), count) == counts.end()) counts.push_back(count);
  }
  const int least = fewest_layers();
  const int most = std::min(kMaxLayers, most_layers());
  std::erase_if(counts, [&](int count) { return count < least || count > most; });
  return counts;
}

std::vector<SearchPoint> LayerSearch::other_cuts() const {
  const Graph& graph = *incumbent().best()->graph;
  const int first = searched_.first_layers();
  SearchPoint at = first_;
  at.microbatches = searched_.best().microbatches;
  SearchPoint blocks = at, even_count = at;
  std::vector<SearchPoint> cuts;
  for (const int count : layer_counts()) {
    at.layers = count;
    if (searched_.covered() != count) cuts.push_back(at);
  }
  // What layers balance may be given.
  if (first_.layer_cut.cut != LayerOptions::Cut::Default) return cuts;
  blocks.layer_cut.cut = LayerOptions::Cut::Blocks;
  const int block_count = static_cast<int>(block_starts(graph).size());
  if (block_count >= std::max(2, fewest_layers()) && block_count <= kMaxLayers) cuts.push_back(blocks);
  even_count.layers = first;
  even_count.layer_cut.cut = LayerOptions::Cut::EvenCount;
  cuts.push_back(even_count);
  return cuts;
}

// Half blocks part the embedding and the loss from the first and the last stage more evenly. Their spans repeat.
std::optional<SearchPoint> LayerSearch::half_blocks() const {
  const Graph& graph = *incumbent().best()->graph;
  const std::int64_t halves = 2 * std::ssize(block_starts(graph));
  if (halves <= kMaxLayers / 2 || request().cluster.devices() * halves * halves > kMaxHalves || halves > most_layers())
    return std::nullopt;
  SearchPoint at = first_;
  at.microbatches = searched_.best().microbatches;
  at.layers = static_cast<int>(halves);
  return at;
}

void LayerSearch::search_cuts() {
  if (!may_cut_anew()) return;
  const std::vector<SearchPoint> cuts = other_cuts();
  if (!is_large(request(), searched_.best().microbatches)) {
    for (const std::vector<SearchPoint>& round : rounds_of(cuts))
      if (!stopped()) searched_.search_round(round);
  } else {
    for (const SearchPoint& other : cuts) {
      if (stopped()) return;
      searched_.search(other, *searched_.prepare(other, to_beat()));
    }
  }
  const std::optional<SearchPoint> halves = half_blocks();
  if (halves && !stopped())
    searched_.search(*halves, *searched_.prepare(*halves, to_beat()), searched_.near_schedules());
}

std::vector<SearchPoint> LayerSearch::points_around() const {
  const std::vector<std::int64_t> counts = all_microbatch_counts(request());
  const auto own = std::lower_bound(counts.begin(), counts.end(), searched_.best().microbatches);
  std::vector<SearchPoint> around;
  const auto add = [&](std::int64_t count) {
    around.push_back(searched_.best());
    around.back().microbatches = count;
  };
  if (own != counts.begin()) add(own[-1]);
  if (own + 1 != counts.end()) add(own[1]);
  around.push_back(first_);
  around.back().microbatches = searched_.best().microbatches;
  for (const SearchPoint& cut : other_cuts()) around.push_back(cut);
  return around;
}

// One step after the other, each to a better plan.
void LayerSearch::step_around() {
  for (bool better = true; better;) {
    better = false;
    std::vector<SearchPoint> next = points_around();
    std::erase_if(next, [&](const SearchPoint& at) { return searched_.has(at); });
    for (const std::vector<SearchPoint>& round : rounds_of(next)) {
      if (stopped()) return;
      better = searched_.search_round(round);
      if (better) break;
    }
  }
}

// Finer cuts at all numbers of micro-batches of which a program fits; on very few devices all other cuts.
std::vector<SearchPoint> LayerSearch::cuts_of_fitting() const {
  const int finer = 2 * searched_.first_layers();
  std::vector<SearchPoint> cuts;
  for (const int count : layer_counts()) {
    if (count != finer && request().cluster.devices() > kVeryFewDevices) continue;
    for (SearchPoint at : searched_.fitting()) {
      at.layers = count;
      at.layer_cut = first_.layer_cut;
      if (std::find(cuts.begin(), cuts.end(), at) == cuts.end()) cuts.push_back(std::move(at));
    }
  }
  return cuts;
}

void LayerSearch::search_around() {
  if (!is_auto(request().search.microbatches) || !may_cut_anew() || !small_ ||
      request().goal.objective != Goal::Objective::StepTime)
    return;
  step_around();
  // Another cut may make another number of micro-batches the best from which no single step leads on.
  for (std::vector<SearchPoint>& round : rounds_of(cuts_of_fitting())) {
    if (stopped()) return;
    // Those of an earlier round may be known by now.
    std::erase_if(round, [&](const SearchPoint& at) { return searched_.has(at); });
    if (searched_.search_round(round)) step_around();
  }
}

// --- the first plan ---

// Whether there is a request for the first plan, whose search is short whatever the model.
std::optional<PlanRequest> first_request(const PlanRequest& request) {
  using enum Method::Kind;
  const Method::Kind kind = request.search.method.kind;
  const bool free = kind == Pipeshard;
  // What these leave open is not named by a few meshes.
  if (kind == Shard || kind == Specs || (free && !std::holds_alternative<SubmeshSpace>(request.search.submeshes)))
    return std::nullopt;
  PlanRequest plain = request;
  plain.stop = {};
  plain.search.schedule = request.first_schedule();
  if (plain.any_recompute()) plain.search.recompute = Recompute::Full;
  if (free) {
    plain.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;
    plain.search.submeshes = whole_host_submeshes(request.cluster, {1});
  }
  return plain;
}

// A search that was stopped before it found a plan answers with a plain one: the first by cost of pipelines of like
// stages, with tensor parallelism within the hosts and data parallelism between them; or what the method gives.
void find_first_plan(SearchedPoints& searched, SearchPoint at) {
  const PlanRequest& request = searched.request();
  PlanIncumbent& incumbent = searched.incumbent();
  SearchContext& whole = searched.context();
  if (incumbent.plan() || !whole.log.interrupted || request.cluster.devices() <= kFewDevices ||
      request.goal.objective != Goal::Objective::StepTime || !request.trains() || request.stage_profile.file != nullptr)
    return;
  const std::optional<PlanRequest> plain = first_request(request);
  if (!plain) return;
  std::vector<std::int64_t> counts = microbatch_counts(request);
  if (const auto* given = std::get_if<std::int64_t>(&request.search.microbatches)) counts = {*given};
  // Fewer samples in a micro-batch take less memory.
  for (std::size_t c = counts.size() - 1 - (counts.size() - 1) / 4; c < counts.size() && !incumbent.plan(); ++c) {
    at.microbatches = counts[c];
    SearchContext context(*plain, whole.costs, whole.evaluator);
    Point point = prepare_point(context, at);
    point.bounds = {};  // they are of these stages alone
    PointSearch search(context, std::move(point));
    if (searches_stages(*plain))
      search.run_first(plain->first_schedule(), incumbent);
    else
      search.run(plain->first_schedule(), incumbent);
    whole.log.add(context.log);
  }
}

}  // namespace

PlanningResult search_plans(const PlanRequest& request, const CostModel& costs, PlanEvaluator& evaluator,
                            NearPlans* near) {
  SearchedPoints searched(request, costs, evaluator, near);
  SearchPoint first{.layers = std::nullopt, .layer_cut = request.search.layer_cut};
  if (const auto* given = std::get_if<int>(&request.search.layers)) first.layers = *given;
  search_microbatches(searched, first);
  if (is_auto(request.search.layers)) {
    LayerSearch layers(searched, first);
    layers.search_cuts();
    layers.search_around();
  }
  find_first_plan(searched, first);
  return searched.take_result();
}

}  // namespace meshwright
