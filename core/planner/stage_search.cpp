// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stage_search.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <thread>

#include "core/base/errors.h"
#include "core/planner/method.h"

namespace meshwright {

namespace {

// Calls work(i) for i in [0, count) on `threads` threads; the first exception in order of i is rethrown.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> errors(count);
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(loop);
  loop();
  for (std::thread& thread : pool) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

int max_successors(const StageSearchOptions& options, Bytes peak, Bytes initial, Bytes intermediate) {
  switch (options.schedule) {
    case ScheduleKind::OneFOneB:
      return max_successors_1f1b(options.usable_memory, peak, initial, intermediate);
    case ScheduleKind::GPipe:
      return max_successors_fixed(options.usable_memory, peak, initial, intermediate, options.microbatches);
    case ScheduleKind::Inference:
      return max_successors_fixed(options.usable_memory, peak, initial, intermediate, 1);
  }
  MW_CHECK(false, "unknown schedule");
}

// The options with the request's own constraint after the method's.
StageSearchOptions options_for(const StageSearch::MeshRequest& request, const StageSearchOptions& options) {
  if (!request.batch_axis) return options;
  StageSearchOptions own = options;
  own.rules = [before = options.rules, axis = *request.batch_axis](const LogicalMesh& mesh) {
    IntraOpRules rules = before ? before(mesh) : IntraOpRules{};
    hold_batch_to_axis(rules, mesh.shape(), axis);
    return rules;
  };
  return own;
}

constexpr int kNoLimit = 1 << 20;

}  // namespace

StageSearch::StageSearch(const StepStructure& structure, const Cluster& cluster, const CostModel& costs,
                         std::vector<Submesh> submeshes, const std::vector<MeshRequest>& wanted,
                         const StageSearchOptions& options)
    : structure_(structure), options_(options), table_(structure.layers().count, std::move(submeshes)) {
  std::vector<std::optional<MeshSpans>> spans(wanted.size());
  // The largest meshes have the most strategies; starting with them keeps the threads evenly busy.
  std::vector<std::size_t> order(wanted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  in_parallel(wanted.size(), options.threads, [&](std::size_t i) {
    const MeshRequest& request = wanted[order[i]];
    const Submesh& submesh = table_.submeshes[static_cast<std::size_t>(request.submesh)];
    spans[order[i]].emplace(structure, make_logical_mesh(cluster, submesh, request.shape), costs,
                            options_for(request, options));
  });
  const int layers = table_.layers;
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    meshes_.push_back(std::move(*spans[w]));
    const MeshSpans& mesh = meshes_.back();
    if (mesh.impossible()) {
      reasons_.push_back(*mesh.impossible());
      continue;
    }
    for (int first = 0; first < (options.one_stage ? 1 : layers); ++first)
      for (int last = options.one_stage ? layers - 1 : first; last < layers; ++last)
        for (int price = 0; price < mesh.prices(); ++price) {
          const StepCost& cost = mesh.cost(first, last, price);
          const Seconds time = per_microbatch(cost);
          const int id = static_cast<int>(choices_.size());
          choices_.push_back({static_cast<int>(w), price, cost});
          const int successors = max_successors(options, temporary(cost, first, last), cost.resident, cost.saved);
          if (successors < 0) continue;
          auto& cell = table_.at(first, last, wanted[w].submesh);
          const bool dominated = std::any_of(cell.begin(), cell.end(), [&](const StageOption& other) {
            // Options of other logical meshes stay: a method may ask for one mesh alone.
            return choice(other.id).mesh == static_cast<int>(w) && other.time <= time &&
                   other.max_successors >= successors;
          });
          if (!dominated) cell.push_back({time, successors, id});
        }
  }
}

Bytes StageSearch::temporary(const StepCost& cost, int first, int last) const {
  int blocks = 0;
  for (int layer = first; layer <= last; ++layer) blocks += structure_.blocks_in(layer);
  return cost.working + cost.recomputed / static_cast<double>(std::max(1, blocks));
}

Bytes StageSearch::estimate(const StepCost& cost, int first, int last) const {
  const double in_flight = options_.schedule == ScheduleKind::GPipe ? static_cast<double>(options_.microbatches) : 1.0;
  return cost.resident + in_flight * cost.saved + temporary(cost, first, last);
}

StagePlan StageSearch::plan(int first, int last, const StageChoice& choice) const {
  return meshes_[static_cast<std::size_t>(choice.mesh)].plan(first, last, choice.price);
}

StageTable StageSearch::without_memory_limits() const {
  StageTable free = table_;
  for (auto& cell : free.options) cell.clear();
  std::size_t id = 0;
  for (const MeshSpans& mesh : meshes_) {
    if (mesh.impossible()) continue;
    const auto submesh =
        std::find(free.submeshes.begin(), free.submeshes.end(), mesh.mesh().of) - free.submeshes.begin();
    for (int first = 0; first < (options_.one_stage ? 1 : free.layers); ++first)
      for (int last = options_.one_stage ? free.layers - 1 : first; last < free.layers; ++last)
        for (int price = 0; price < mesh.prices(); ++price, ++id) {
          const StepCost& cost = choices_[id].cost;
          free.at(first, last, static_cast<int>(submesh))
              .push_back({Seconds((cost.resident + cost.saved).si()), kNoLimit, static_cast<int>(id)});
        }
  }
  return free;
}

Seconds StageSearch::sharding_bound() const {
  std::optional<Seconds> least;
  for (const MeshSpans& mesh : meshes_)
    if (!mesh.impossible()) least = std::min(least.value_or(mesh.bound()), mesh.bound());
  MW_CHECK(least.has_value(), "no mesh can hold the model's ops");
  return *least;
}

Seconds StageSearch::lower_bound(int devices) const {
  if (options_.one_stage) {
    std::optional<Seconds> fastest;
    for (const MeshSpans& mesh : meshes_)
      if (!mesh.impossible())
        fastest = std::min(fastest.value_or(mesh.least(0, table_.layers - 1)), mesh.least(0, table_.layers - 1));
    return static_cast<double>(options_.microbatches) * *fastest;
  }
  const int layers = table_.layers;
  const double nothing = std::numeric_limits<double>::infinity();
  const auto at = [&](int layer, int used) { return static_cast<std::size_t>(layer * (devices + 1) + used); };
  // From layer i on with d devices left: least bottleneck time, and least device-seconds.
  std::vector<double> bottleneck(static_cast<std::size_t>((layers + 1) * (devices + 1)), nothing), area = bottleneck;
  for (int d = 0; d <= devices; ++d) bottleneck[at(layers, d)] = area[at(layers, d)] = 0;
  for (int first = layers - 1; first >= 0; --first)
    for (int last = first; last < layers; ++last)
      for (std::size_t s = 0; s < table_.submeshes.size(); ++s) {
        double fastest = nothing;
        for (const MeshSpans& mesh : meshes_)
          if (!mesh.impossible() && mesh.mesh().of == table_.submeshes[s])
            fastest = std::min(fastest, mesh.least(first, last).si());
        const int size = table_.submeshes[s].devices();
        for (int d = size; d <= devices; ++d) {
          double& best = bottleneck[at(first, d)];
          best = std::min(best, std::max(fastest, bottleneck[at(last + 1, d - size)]));
          double& least = area[at(first, d)];
          least = std::min(least, fastest * size + area[at(last + 1, d - size)]);
        }
      }
  const double per_microbatch = std::max(bottleneck[at(0, devices)], area[at(0, devices)] / devices);
  return Seconds(static_cast<double>(options_.microbatches) * per_microbatch);
}

}  // namespace meshwright
