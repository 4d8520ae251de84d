// SPDX-License-Identifier: Apache-2.0
// The bound of like devices with all the memory they want, against every split of every op one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "core/base/divisors.h"
#include "core/graph/recomputation.h"
#include "core/planner/bounds/op_groups.h"
#include "core/planner/bounds/work_bound.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::held_bound_test {
namespace {

constexpr double kNever = 1e300;
constexpr const char* kSamples = "batch";

// Into how many parts axes are split, by name; those of samples into those of the whole micro-batch.
using Parts = std::map<std::string, std::int64_t>;

class SlowBound {
 public:
  SlowBound(const Graph& graph, const HostGroup& hosts, const CostModel& costs)
      : graph_(graph), hosts_(hosts), costs_(costs) {
    // Numbers of devices that a submesh may have, and their divisors.
    for (int d = 1; d <= hosts.devices_per_host; ++d) counts_.insert(d);
    for (int h = 1; h <= hosts.hosts; ++h)
      for (const std::int64_t d : divisors(h * hosts.devices_per_host)) counts_.insert(d);
  }

  // For the number of micro-batches that the graph has.
  [[nodiscard]] double step() const {
    double busy = 0.0;
    const auto runs = static_cast<double>(graph_.microbatches);
    for (const Op& op : graph_.ops()) {
      if (op.phase == Phase::Forward) busy += runs * least_of_group(op, 0.0, {});
      if (op.phase == Phase::Update) busy += least_alone(op);
      if (op.phase == Phase::Backward && (!op.forward || is_gradient_sum(graph_, op))) busy += runs * least_alone(op);
    }
    return busy / hosts_.devices();
  }

  // What the devices take together for a forward op and what was made of it, and `weight` times what each of them takes
  // for those of the trunk.
  [[nodiscard]] double least_of_group(const Op& forward, double weight, const std::vector<bool>& trunk) const {
    double least = kNever;
    each_split(forward, [&](const Parts& parts, std::int64_t devices) {
      double all = 0.0, of_trunk = 0.0;
      for (const Op& op : graph_.ops()) {
        const bool derived = op.phase == Phase::Backward && op.forward == forward.id && !is_gradient_sum(graph_, op);
        if (op.id != forward.id && !derived) continue;
        const bool adds = op.kind == OpKind::Accumulate;
        const double own = adds ? accumulation(op, parts, devices) : time(op, parts);
        all += own;
        if (!adds && !trunk.empty() && trunk[op.id.index()]) of_trunk += own;
      }
      least = std::min(least, static_cast<double>(devices) * all + weight * of_trunk);
    });
    return least;
  }

  // What the devices take together for the op, however they share it.
  [[nodiscard]] double least_alone(const Op& op) const {
    double least = kNever;
    each_split(op, [&](const Parts& parts, std::int64_t devices) {
      least = std::min(least, static_cast<double>(devices) * time(op, parts));
    });
    return least;
  }

 private:
  [[nodiscard]] double time(const Op& op, const Parts& parts) const {
    const IterationSpace space = iteration_space(graph_, op);
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : space.axes) {
      const auto split = parts.find(axis.name);
      const std::int64_t by = split == parts.end() ? 1 : split->second;
      sizes.push_back(axis.size % by == 0 ? axis.size / by : 1);
    }
    return costs_.compute(op_work(graph_, op, space, sizes)).time.si();
  }

  // Calls visit(parts, devices) for every split of the op's axes among devices of a stage.
  void each_split(const Op& op, const std::function<void(const Parts&, std::int64_t)>& visit) const {
    const IterationSpace space = iteration_space(graph_, op);
    Parts parts;
    const std::function<void(std::size_t, std::int64_t)> from = [&](std::size_t at, std::int64_t devices) {
      if (devices > hosts_.devices()) return;
      if (at == space.axes.size()) return visit(parts, devices);
      const IterationAxis& axis = space.axes[at];
      for (const std::int64_t by : counts_) {
        if (axis.size % by != 0 || (by > 1 && !axis.splittable)) continue;
        parts[axis.name] = by;
        from(at + 1, devices * by);
      }
      parts.erase(axis.name);
    };
    from(0, 1);
  }

  // Each device adds the whole tile of its gradient to the accumulator, or all add the sum over devices, in parts.
  [[nodiscard]] double accumulation(const Op& op, const Parts& parts, std::int64_t devices) const {
    std::int64_t in_tile = 1, elements = 1;
    for (const Dim& dim : graph_.tensor(op.inputs[1]).dims) {
      const std::int64_t by = parts.contains(dim.name) ? parts.at(dim.name) : 1;
      in_tile *= by;
      elements *= dim.size / by;
    }
    const std::int64_t over = devices / in_tile;
    if (over == 1) return time(op, parts);
    double of_part = 0.0;
    if (elements % over == 0) {
      Parts even = parts;
      std::int64_t left = over;
      for (const Dim& dim : graph_.tensor(op.inputs[1]).dims) {
        std::int64_t& by = even.try_emplace(dim.name, 1).first->second;
        const std::int64_t common = std::gcd(dim.size / by, left);
        by *= common;
        left /= common;
      }
      if (left == 1) of_part = time(op, even);
    }
    return std::min(time(op, parts), std::max(of_part, least_alone(op) / static_cast<double>(devices)));
  }

  const Graph& graph_;
  const HostGroup& hosts_;
  const CostModel& costs_;
  std::set<std::int64_t> counts_;
};

// On devices that spend their time on launching ops, and on slower ones.
TEST(OpGroups, HaveTheSharesThatAreBestForAnyWeightOfTheTrunk) {
  int several = 0;
  for (const char* model : {"mlp:layers=1,hidden=48", "gpt:layers=1,hidden=24,heads=4,seq=6,vocab=36"})
    for (const double slow : {1.0, 1e-2, 1e-4}) {
      PlanRequest request = ask(model, "p3.16xlarge:1", "pipeshard", 12, std::int64_t{2});
      HostGroup& hosts = request.cluster.only();
      hosts.hosts = 2;
      hosts.devices_per_host = 3;
      for (auto& [dtype, peak] : hosts.device.peak) peak = slow * peak;
      hosts.device.memory_bandwidth = slow * hosts.device.memory_bandwidth;
      const auto costs = make_analytic_cost_model(request.cluster);
      const Graph graph = build_step_graph(request.model, request.training_with(2), request.first_schedule());
      std::vector<bool> trunk;
      for (const Op& op : graph.ops()) trunk.push_back(op.id.value % 3 != 0);
      OpGroups groups(graph, hosts, *costs, trunk, false, 1);
      const SlowBound slow_bound(graph, hosts, *costs);
      for (const Op& op : graph.ops()) {
        if (op.phase != Phase::Forward) continue;
        const std::vector<OpGroups::Share> shares = groups.shares(groups.class_of().at(op.id), 2);
        several += shares.size() > 1 ? 1 : 0;
        // What making the result again takes is never more than any way to run the forward op.
        for (const OpGroups::Share& share : shares)
          EXPECT_NEAR(share.forward / slow_bound.least_alone(op), 1.0, 1e-9) << model << " " << op.name << " " << slow;
        for (const double weight : {0.0, 0.3, 1.0, 2.0, 5.0, 20.0, 1000.0}) {
          double least = kNever;
          for (const OpGroups::Share& share : shares) least = std::min(least, share.together + weight * share.trunk);
          EXPECT_NEAR(least / slow_bound.least_of_group(op, weight, trunk), 1.0, 1e-9)
              << model << " " << op.name << " " << weight << " " << slow;
        }
      }
    }
  EXPECT_GT(several, 10);
}

// Conditions of the step may hide all communication, so that no collective counts.
TEST(WorkBound, IsTheLeastOverAllSplitsOfAllOpsWhereMemoryIsAmple) {
  int split = 0;
  for (const auto& [hosts, devices] : {std::pair{1, 1}, {1, 4}, {2, 3}})
    for (const char* model : {"mlp:layers=1,hidden=48", "gpt:layers=1,hidden=24,heads=4,seq=6,vocab=36"})
      for (const double slow : {1.0, 1e-4})
        for (const std::int64_t number : {1, 2, 6}) {
          PlanRequest request = ask(model, "p3.16xlarge:1", "pipeshard", 12, number);
          request.conditions["overlap"] = "true";
          HostGroup& group = request.cluster.only();
          group.hosts = hosts;
          group.devices_per_host = devices;
          group.device.memory = Bytes(1e15);
          for (auto& [dtype, peak] : group.device.peak) peak = slow * peak;
          group.device.memory_bandwidth = slow * group.device.memory_bandwidth;
          const auto costs = make_analytic_cost_model(request.cluster);
          const Graph graph = build_step_graph(request.model, request.training_with(number), request.first_schedule());
          const double wanted = SlowBound(graph, group, *costs).step();
          EXPECT_NEAR(work_bound(request, *costs).si() / wanted, 1.0, 2e-6)
              << hosts << " x " << devices << ", " << model << ", " << number << " micro-batches, " << slow;
          split += hosts * devices > 1 ? 1 : 0;
        }
  EXPECT_EQ(split, 24);
}

// With hardly more memory than what stays there takes, what waits for its backward has next to no room: where nothing
// is made again, few micro-batches can be under way at a time.
TEST(WorkBound, IsFarLargerInLittleMemoryWhereNothingIsRecomputed) {
  PlanRequest request =
      ask("gpt:layers=4,hidden=64,heads=4,seq=64,vocab=64", "p3.16xlarge:1", "pipeshard", 64, std::int64_t{64});
  HostGroup& hosts = request.cluster.only();
  const Graph graph = build_step_graph(request.model, request.training_with(64), request.first_schedule());
  Bytes stays(0.0);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState ||
        tensor.kind == TensorKind::Accumulator)
      stays += tensor.bytes();
  const double usable_share = hosts.usable_memory() / hosts.device.memory;
  hosts.device.memory = 1.001 / (hosts.devices() * usable_share) * stays;
  const auto costs = make_analytic_cost_model(request.cluster);
  request.search.recompute = Recompute::None;
  const Seconds none = work_bound(request, *costs);
  request.search.recompute = Auto{};
  EXPECT_GT(none, 2.0 * work_bound(request, *costs));
}

}  // namespace
}  // namespace meshwright::held_bound_test
