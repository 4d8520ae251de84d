// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/mesh_spans.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/planner/spans/equal_spans.h"
#include "core/planner/spans/memory_fit.h"
#include "core/planner/spans/recompute_levels.h"
#include "core/planner/spans/span_rows.h"

namespace meshwright {

namespace {

// Seconds that filling a whole device's memory costs, in units of the whole model's fastest time on the mesh. Zero
// gives the fastest sharding, the last one practically the smallest.
constexpr std::array<double, 5> kMemoryPrices = {0.0, 0.03, 0.3, 3.0, 100.0};
// In a pipeline, a few microbatches in flight stand for all where bytes have a price.
constexpr double kTypicalInFlight = 4.0;
// Up to so many devices, has_room is not asked: the other shardings cost little to find, and may be cheaper to send to.
constexpr int kFewDevices = 16;

SpanBudget make_budget(const StepStructure& structure, const StageSearchOptions& options) {
  const auto microbatches = static_cast<double>(options.microbatches);
  const double as_one_stage = options.schedule == ScheduleKind::GPipe ? microbatches : 1.0;
  int blocks = 0;
  for (int layer = 0; layer < structure.layers().count; ++layer) blocks += structure.blocks_in(layer);
  return {options.one_stage, microbatches, options.one_stage ? as_one_stage : std::min(kTypicalInFlight, microbatches),
          1.0 / static_cast<double>(std::max(1, blocks)), options.usable_memory};
}

}  // namespace

// The solved spans. Its parts hold references to each other, so that it stays where it is.
struct MeshSpans::State {
  using SpanCostTable = IndexedVector<std::size_t, StepCost>;  // [SpanRows::at]; one_stage: [0]

  const StepStructure& structure_;
  const LogicalMesh mesh_;
  const CostModel& costs_of_ops_;
  const int ways_;  // to recompute; 0: there is no choice
  const bool every_step_weight_, late_weights_;
  const std::optional<Seconds> max_time_;
  const bool only_whole_;
  const SpanBudget budget_;
  LayerClasses layers_;
  SpanSolver solver_;
  RecomputeLevels levels_;
  std::optional<EqualSpans> equal_;  // where all spans are solved

  IndexedVector<int, SpanOption> options_;   // but for the mixture, the last option where there is one
  IndexedVector<int, SpanCostTable> costs_;  // [option]
  IndexedVector<int, IndexedVector<int, Seconds>> min_times_;  // [first][last - first]
  IndexedVector<int, int> lengths_;  // [first] the layers of the longest span with costs, where all are solved
  SpanRows rows_;
  std::optional<LayerMixture> mixture_;
  Seconds bound_{0.0};

  State(const StepStructure& structure, LogicalMesh mesh, const CostModel& costs, const StageSearchOptions& options)
      : structure_(structure),
        mesh_(std::move(mesh)),
        costs_of_ops_(costs.on(mesh_.of.group)),
        ways_(static_cast<int>(options.variants.size())),
        every_step_weight_(options.every_step_weight),
        late_weights_(options.splits_backward),
        max_time_(options.max_time),
        only_whole_(options.only_whole),
        budget_(make_budget(structure, options)),
        layers_(LayerClasses::make(structure, mesh_, costs, options.rules ? options.rules(mesh_) : IntraOpRules{},
                                   options.variants, options.once_per_value, options.known_on_mesh)),
        solver_(structure, mesh_, costs, options.hosts_apart, layers_, budget_, options.eliminations),
        levels_(layers_, budget_, ways_, solver_) {}
  State(const State&) = delete;

  void solve(const StageSearchOptions& options) {
    if (!layers_.impossible() && !options.only_from.empty()) {
      for (int first = 0; first < layers_.layers(); ++first) rows_.add({}, layers_.layers() - first);
      for (const StepWeight weight : options.only_weights) {
        if (weight == StepWeight::Share)
          add_price(0.0);
        else
          options_.push_back({solver_.add_price_of_way(0.0, 0, weight), std::nullopt, 0});
        costs_.push_back(cost_table(options_.back(), options.only_from));
      }
    } else if (!layers_.impossible()) {
      equal_.emplace(layers_);
      add_price(0.0);
      find_min_times();
      find_lengths();
      if (budget_.one_stage)
        fit_one_stage();
      else
        solve_spans(options.max_in_flight);
    }
    wait_for_others();
    // Plans are read off what is solved now; the rest takes much memory.
    solver_.close();
    layers_.forget_costs();
  }

  [[nodiscard]] int options() const { return costs_.count(); }
  [[nodiscard]] const StepCost& cost(int first, int last, int option) const {
    return costs_[option][budget_.one_stage ? 0 : rows_.at(first, last)];
  }
  [[nodiscard]] Seconds min_time(int first, int last) const { return min_times_[first][last - first]; }
  [[nodiscard]] bool has_costs(int first, int last) const {
    if (lengths_.empty()) return true;
    return last - first < lengths_[first] && (!only_whole_ || last - first + 1 == layers_.layers());
  }
  [[nodiscard]] std::int64_t spans_with_costs() const {
    if (budget_.one_stage) return 1;
    const std::int64_t layers = layers_.layers();
    if (lengths_.empty()) return layers * (layers + 1) / 2;
    return only_whole_ ? lengths_[0] == layers : std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0});
  }

  // The sharding of a span under an option, layer by layer.
  struct Sharding {
    std::vector<InOutStates> states;
    std::vector<int> variants;
    std::vector<const ShardingChoice*> choices;
  };
  [[nodiscard]] Sharding sharding(int first, int last, int option) {
    Sharding found;
    if (mixture_ && option + 1 == options()) {
      found = {mixture_->states, mixture_->variants, {}};
      for (const ShardingChoice& choice : mixture_->choices) found.choices.push_back(&choice);
      return found;
    }
    const SpanOption& of = options_[option];
    SpanSharding solved = solver_.sharding(of.price, first, last, levels_.variants(of, first, last));
    found.states = std::move(solved.states);
    for (const LayerSolution* layer : solved.layers) {
      found.variants.push_back(layer->variant);
      found.choices.push_back(&layer->choice);
    }
    return found;
  }

  void add_price(double price) {
    const int number = options_.count();
    options_.push_back({solver_.add_price(
        price, levels_.has(number) ? LayerMatrices::Variants::All : LayerMatrices::Variants::Cheapest)});
  }

  // A pass that computes for less time than it moves parameters waits for them, and one that is issued more slowly than
  // it computes for the host.
  void wait_for_others() {
    const Seconds run = costs_of_ops_.host_times().run;
    for (SpanCostTable& table : costs_)
      for (StepCost& cost : table) {
        const auto wait = [&](Seconds& pass, Seconds moved, Seconds host) {
          if (pass > Seconds(0.0)) pass = costs_of_ops_.beside_host(std::max(pass, moved), run + host);
        };
        wait(cost.forward, cost.moved_forward, cost.host_forward);
        wait(cost.backward, cost.moved_backward, cost.host_backward);
      }
  }

  struct Options {
    std::vector<SpanOption> options;
    IndexedVector<int, SpanCostTable> costs;  // [option]
    void add(Options more) {
      options.insert(options.end(), more.options.begin(), more.options.end());
      for (SpanCostTable& of : more.costs) costs.push_back(std::move(of));
    }
  };
  void add_option(const SpanOption& option, Options& to) {
    to.options.push_back(option);
    to.costs.push_back(cost_table(option));
  }

  // The sharding of every span at the prices that a search with this way alone would have: in units of its own time.
  void add_way(int way, Options& to) {
    const Seconds whole = levels_.min_time(way);
    for (std::size_t p = 1; p < kMemoryPrices.size(); ++p) {
      const double price = kMemoryPrices[p] * whole.si() / budget_.usable_memory.si();
      add_option({solver_.add_price_of_way(price, way), std::nullopt, way}, to);
      solver_.forget_problems();
    }
  }

  // Without a price, and without a cost for receiving what enters.
  void find_min_times() {
    const int end = layers_.layers();
    IndexedVector<int, BorderPaths> from;  // [first]
    for (int first = 0; first < (budget_.one_stage ? 1 : end); ++first) {
      // One pass from `first` to the end gives the times of all spans that begin at `first`.
      const auto [twin, length] = equal_->twin_of(first);
      BorderPaths& paths =
          from.emplace_back(length > 0 ? from[twin] : solver_.paths(0, first, first - 1, SpanSolver::Entering::Free));
      paths.shorten(static_cast<std::size_t>(length));
      solver_.extend(paths, 0, first, end - 1);
      IndexedVector<int, Seconds>& times = min_times_.emplace_back();
      for (std::size_t at = 0; at < paths.layers(); ++at) times.push_back(min_cost(paths.costs_after(at)));
    }
    bound_ = min_time(0, end - 1);
  }

  // More layers take no less time, so that the spans with costs are the shortest.
  void find_lengths() {
    const int end = layers_.layers();
    for (const IndexedVector<int, Seconds>& times : min_times_) {
      int& length = lengths_.emplace_back(times.count());
      while (length > 0 && max_time_ && times[length - 1] > *max_time_) --length;
      if (only_whole_ && length < end) length = 0;
    }
    for (int first = 0; first < lengths_.count(); ++first) rows_.add(equal_->twin_of(first), lengths_[first]);
  }

  void fit_one_stage() {
    MemoryFit fit = fit_memory(layers_, budget_, solver_, bound_);
    bound_ = fit.bound;
    mixture_ = std::move(fit.mixture);
    // The options of the fit take the place of the price 0, which was only a start.
    options_.clear();
    for (int price = 0; price < static_cast<int>(fit.costs.size()); ++price) options_.push_back({price});
    for (const StepCost& cost : fit.costs) costs_.push_back({cost});
    if (mixture_) costs_.push_back({mixture_->cost});
  }

  // The sharding of every span without a memory price where what is done once per step has this weight, each layer
  // recomputed in this way; unless some option is the same for all spans.
  void add_weight(StepWeight weight, int way, Options& to) {
    const SpanOption option{solver_.add_price_of_way(0.0, way, weight), std::nullopt, way};
    SpanCostTable table = cost_table(option);
    solver_.forget_problems();
    const auto same_cost = [](const StepCost& a, const StepCost& b) {
      return a.forward == b.forward && a.backward == b.backward && a.weights == b.weights && a.step == b.step &&
             a.saved == b.saved;
    };
    const auto same = [&](const SpanCostTable& other) {
      return std::equal(table.begin(), table.end(), other.begin(), same_cost);
    };
    const auto known = [&](const IndexedVector<int, SpanCostTable>& tables) {
      return std::any_of(tables.begin(), tables.end(), same);
    };
    const bool is_known = ways_ == 0 ? known(costs_) || known(to.costs) : way == 0 && same(costs_.front());
    if (is_known) return solver_.drop_last_price();
    to.options.push_back(option);
    to.costs.push_back(std::move(table));
  }

  // Every span at every price; the options of recompute levels follow those of the prices.
  void solve_spans(std::optional<double> max_in_flight) {
    costs_.push_back(cost_table(options_.front()));
    // No span has costs: its shardings are of no use.
    if (std::all_of(lengths_.begin(), lengths_.end(), [](int length) { return length == 0; })) return;
    Options levels;
    if (!has_room(max_in_flight)) find_smaller(levels);
    for (int way = 0; way < (layers_.has_variants() ? ways_ : 1) && every_step_weight_ && mesh_.devices() > 1; ++way) {
      add_weight(StepWeight::Least, way, levels);
      if (budget_.microbatches > 1.0) add_weight(StepWeight::Whole, way, levels);
      if (late_weights_) add_weight(StepWeight::Late, way, levels);
    }
    for (const SpanOption& level : levels.options) options_.push_back(level);
    for (SpanCostTable& costs : levels.costs) costs_.push_back(std::move(costs));
  }

  // Shardings that cost time to save memory.
  void find_smaller(Options& levels) {
    for (const SpanOption& level : levels_.options(0)) add_option(level, levels);
    solver_.forget_problems();  // what plans need of them is solved
    // One device has nothing to trade but what it recomputes, which levels offer.
    if (mesh_.devices() > 1) {
      const Seconds whole = min_time(0, layers_.layers() - 1);
      // A way that takes as long as all of them has the same prices: its problems are at hand there.
      std::vector<int> alike, others;
      for (int way = 0; way < ways_ && layers_.has_variants(); ++way)
        (levels_.min_time(way) == whole ? alike : others).push_back(way);
      std::vector<Options> of_way(static_cast<std::size_t>(ways_));
      for (std::size_t p = 1; p < kMemoryPrices.size(); ++p) {
        add_price(kMemoryPrices[p] * whole.si() / budget_.usable_memory.si());
        costs_.push_back(cost_table(options_.back()));
        const int price = options_.back().price;
        for (const SpanOption& level : levels_.options(price)) add_option(level, levels);
        for (const int way : alike) {
          solver_.know_way(price, way);
          add_option({price, std::nullopt, way, true}, of_way[static_cast<std::size_t>(way)]);
        }
        solver_.forget_problems();
      }
      for (const int way : others) add_way(way, of_way[static_cast<std::size_t>(way)]);
      for (Options& own : of_way) levels.add(std::move(own));
    }
  }

  [[nodiscard]] SpanCostTable cost_table(const SpanOption& option) {
    const int end = layers_.layers();
    SpanCostTable table(rows_.size());
    if (only_whole_) {
      if (lengths_[0] == end) table[rows_.at(0, end - 1)] = whole_cost(option);
      return table;
    }
    IndexedVector<int, RecomputeLevels::SpansFrom> from;  // [first]
    for (int first = 0; first < end; ++first) {
      const EqualSpans::Twin twin = equal_->twin_of(first);
      // Equal spans take equally long: where the twin's end, these do.
      const int known = std::min(twin.length, lengths_[first]);
      const RecomputeLevels::SpansFrom& spans = from.emplace_back(
          levels_.spans_from(option, first, known, known > 0 ? &from[twin.first] : nullptr, first + lengths_[first]));
      write_row(spans.costs, first, first + known, table);
    }
    return table;
  }
  // The costs of the spans that begin at `first`, from that to `last` on.
  void write_row(const std::vector<StepCost>& costs, int first, int last, SpanCostTable& table) const {
    for (const StepCost& cost : costs) table[rows_.at(first, last++)] = cost;
  }
  [[nodiscard]] StepCost whole_cost(const SpanOption& option) {
    const int end = layers_.layers();
    return levels_.spans_from(option, 0, end - 1).costs.front();
  }
  [[nodiscard]] SpanCostTable cost_table(const SpanOption& option, const std::vector<int>& from) {
    SpanCostTable table(rows_.size());
    for (const int first : from) write_row(levels_.spans_from(option, first).costs, first, first, table);
    return table;
  }

  [[nodiscard]] std::optional<int> way(int option) const {
    if (ways_ == 0 || (mixture_ && option + 1 == options())) return std::nullopt;
    const SpanOption& of = options_[option];
    // Without a price nothing is recomputed: the option is also that of the first way.
    if (of.price == 0 && !of.level && !of.way && !budget_.one_stage) return 0;
    return of.way ? of.way : levels_.way(of);
  }

  // Whether the fastest sharding of all layers takes at most half of the memory in every schedule. Then no stage of
  // them lacks memory, and shardings that cost time to save it are of no use.
  [[nodiscard]] bool has_room(std::optional<double> max_in_flight) {
    if (!max_in_flight || mesh_.devices() <= kFewDevices) return false;
    const StepCost whole = whole_cost(options_.front());
    const Bytes needed = whole.resident + *max_in_flight * whole.saved + whole.working + whole.recomputed_at_once;
    return needed <= 0.5 * budget_.usable_memory;
  }
};

MeshSpans::MeshSpans(const StepStructure& structure, LogicalMesh mesh, const CostModel& costs,
                     const StageSearchOptions& options)
    : state_(std::make_unique<State>(structure, std::move(mesh), costs, options)) {
  state_->solve(options);
}
MeshSpans::~MeshSpans() = default;
MeshSpans::MeshSpans(MeshSpans&&) noexcept = default;

const LogicalMesh& MeshSpans::mesh() const { return state_->mesh_; }
const std::optional<std::string>& MeshSpans::impossible() const { return state_->layers_.impossible(); }
int MeshSpans::options() const { return state_->options(); }
const StepCost& MeshSpans::cost(int first, int last, int option) const { return state_->cost(first, last, option); }
bool MeshSpans::has_costs(int first, int last) const { return state_->has_costs(first, last); }
std::int64_t MeshSpans::spans_with_costs() const { return state_->spans_with_costs(); }
Seconds MeshSpans::min_time(int first, int last) const { return state_->min_time(first, last); }
Seconds MeshSpans::bound() const { return state_->bound_; }

std::vector<int> MeshSpans::span_marks() const { return state_->equal_->marks(); }

std::optional<int> MeshSpans::way(int option) const { return state_->way(option); }

StagePlan MeshSpans::plan(int first, int last, int option) const {
  StagePlan stage{first, last, state_->mesh_.of, state_->mesh_.shape(), {}, {}, {}, {}};
  stage.contexts = state_->mesh_.contexts;
  const State::Sharding sharding = state_->sharding(first, last, option);
  const StepStructure& structure = state_->structure_;
  const std::vector<TensorId> tensors = structure.crossing(first);
  const auto in = static_cast<std::size_t>(sharding.states.front().first);
  const std::vector<ShardingSpec>& specs = state_->layers_.model(first).in_border().states[in];
  // Tensors that only later stages read go past this one.
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (structure.is_read(tensors[t], first, last)) stage.inputs[structure.graph().tensor(tensors[t]).name] = specs[t];
  for (int layer = first; layer <= last; ++layer)
    state_->layers_.model(layer).write_decisions(*sharding.choices[layer - first], structure, layer, stage);
  const StepCost& cost = this->cost(first, last, option);
  stage.forward = cost.forward;
  stage.backward = cost.backward;
  stage.update = cost.step;
  return stage;
}

std::vector<Recompute> MeshSpans::recompute(int first, int last, int option) const {
  std::vector<Recompute> found;
  if (state_->ways_ == 0) return found;
  const std::vector<int> variants = state_->sharding(first, last, option).variants;
  for (int layer = first; layer <= last; ++layer)
    found.push_back(state_->layers_.recompute(layer, variants[layer - first]));
  return found;
}

const std::vector<ShardingSpec>& MeshSpans::entering(int first, int last, int option) const {
  const int in = state_->sharding(first, last, option).states.front().first;
  return state_->layers_.model(first).in_border().states[in];
}

const std::vector<ShardingSpec>& MeshSpans::leaving(int first, int last, int option) const {
  const int out = state_->sharding(first, last, option).states.back().second;
  return state_->layers_.model(last).out_border().states[out];
}

}  // namespace meshwright
