// SPDX-License-Identifier: Apache-2.0
#include "core/planner/bounds/op_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/divisors.h"
#include "core/base/parallel.h"
#include "core/graph/op_table.h"
#include "core/graph/recomputation.h"

namespace meshwright {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr const char* kSamples = "batch";

bool has_dim(const Tensor& tensor, const std::string& name) {
  return std::any_of(tensor.dims.begin(), tensor.dims.end(), [&](const Dim& dim) { return dim.name == name; });
}

bool is_among(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

bool is_linear_in(const Op& op, TensorId tensor) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] == tensor && (row_of(op.kind).linear_operands >> i & 1u) == 0) return false;
  return true;
}

}  // namespace

// Tries every way to split a group.
class OpGroups::Splitting {
 public:
  Splitting(OpGroups& groups, const Op& forward, const std::vector<OpId>& derived, const std::vector<bool>& trunk)
      : groups_(groups), forward_(forward), trunk_(trunk), space_(iteration_space(groups.graph_, forward)) {
    for (const IterationAxis& axis : space_.axes) sizes_.push_back(axis.size);
    members_.push_back({forward.id, space_, false, {}});
    for (const OpId id : derived) {
      const Op& op = groups.graph_.op(id);
      members_.push_back({id, iteration_space(groups.graph_, op), op.kind == OpKind::Accumulate, {}});
    }
    if (const auto sums = groups.sums_.find(forward.id); sums != groups.sums_.end()) sums_ = sums->second;
  }

  [[nodiscard]] std::vector<Part> run() {
    split(0, 1);
    return std::move(found_);
  }

 private:
  struct Member {
    OpId op;
    IterationSpace space;
    bool accumulates;
    std::map<std::vector<std::int64_t>, double> times;  // by the sizes of a part
  };

  // Into how many parts the axis of this name is split; that of samples into those of the graph.
  [[nodiscard]] std::int64_t parts_of(const std::string& name) const {
    const auto axis = space_.find(name);
    if (!axis) return 1;
    const auto a = static_cast<std::size_t>(*axis);
    return space_.axes[a].size / sizes_[a];
  }
  [[nodiscard]] std::vector<std::int64_t> sizes_in(const IterationSpace& space) const {
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : space.axes) {
      const std::int64_t parts = parts_of(axis.name);
      sizes.push_back(axis.size % parts == 0 ? axis.size / parts : 1);
    }
    return sizes;
  }
  [[nodiscard]] Bytes tile(const Tensor& tensor) const {
    Bytes bytes = tensor.bytes();
    for (const Dim& dim : tensor.dims) bytes = bytes / static_cast<double>(parts_of(dim.name));
    return bytes;
  }

  void split(std::size_t at, std::int64_t parts) {
    if (at == space_.axes.size()) return note(parts);
    const IterationAxis& axis = space_.axes[at];
    if (axis.name == kSamples) {
      for (const std::int64_t samples : divisors(axis.size)) {
        sizes_[at] = samples_ = samples;
        split(at + 1, parts);
      }
      sizes_[at] = axis.size;
      samples_ = 1;
      return;
    }
    split(at + 1, parts);
    for (const std::int64_t count : groups_.parts_.counts()) {
      if (!axis.splittable || parts * count > groups_.hosts_.devices()) break;
      if (count == 1 || axis.size % count != 0) continue;
      sizes_[at] = axis.size / count;
      split(at + 1, parts * count);
    }
    sizes_[at] = axis.size;
  }

  void note(std::int64_t parts) {
    Part part{samples_, parts, collectives(), 0.0, 0.0, {}};
    for (Member& member : members_) {
      const Op& op = groups_.graph_.op(member.op);
      const std::vector<std::int64_t> sizes = sizes_in(member.space);
      const auto [known, is_new] = member.times.try_emplace(sizes, 0.0);
      if (is_new) known->second = groups_.parts_.time_of(op_work(groups_.graph_, op, member.space, sizes));
      const double time = known->second;
      if (member.accumulates) {
        const Tensor& gradient = groups_.graph_.tensor(op.inputs[1]);
        std::int64_t in_tile = 1, elements = 1;
        for (const Dim& dim : gradient.dims) in_tile *= parts_of(dim.name);
        for (const std::int64_t size : sizes) elements *= size;
        part.accumulations.push_back(
            {time, tile(gradient), elements, std::max<std::int64_t>(1, parts / in_tile), op.id});
        continue;
      }
      part.time += time;
      if (member.op == forward_.id) part.forward = time;
      if (trunk_[member.op.index()]) part.trunk += time;
    }
    found_.push_back(std::move(part));
  }

  [[nodiscard]] double collectives() const {
    if (sums_.result == 0.0 && sums_.activation == 0.0) return 0.0;
    const Tensor& result = groups_.graph_.tensor(forward_.outputs[0]);
    const Tensor& activation =
        groups_.graph_.tensor(forward_.inputs[static_cast<std::size_t>(sums_.activation_operand)]);
    const Tensor& parameter =
        groups_.graph_.tensor(forward_.inputs[static_cast<std::size_t>(1 - sums_.activation_operand)]);
    std::int64_t of_result = 1, of_activation = 1;
    for (const IterationAxis& axis : space_.axes) {
      if (axis.name == kSamples) continue;
      if (axis.reduction) of_result *= parts_of(axis.name);
      if (has_dim(parameter, axis.name) && !has_dim(activation, axis.name)) of_activation *= parts_of(axis.name);
    }
    return sums_.result * groups_.reduce_time(tile(result), of_result) +
           sums_.activation * groups_.reduce_time(tile(activation), of_activation);
  }

  OpGroups& groups_;
  const Op& forward_;
  const std::vector<bool>& trunk_;
  IterationSpace space_;
  std::vector<Member> members_;
  Sums sums_;
  std::vector<std::int64_t> sizes_;  // of a part
  std::int64_t samples_ = 1;
  std::vector<Part> found_;
};

OpGroups::OpGroups(const Graph& graph, const HostGroup& hosts, const CostModel& costs, const std::vector<bool>& trunk,
                   bool exposed, int threads)
    : graph_(graph), hosts_(hosts), costs_(costs), parts_(graph, hosts, costs) {
  if (exposed) find_rate();
  if (rate_ > 0.0) find_sums();
  std::map<OpId, std::vector<OpId>> derived;
  for (const Op& op : graph.ops()) {
    if (op.phase == Phase::Forward) derived[op.id];
    if (op.phase == Phase::Backward && op.forward && !is_gradient_sum(graph, op)) derived[*op.forward].push_back(op.id);
  }
  std::map<std::string, int> numbers;
  std::vector<OpId> first;  // [class] of its forward ops
  for (const auto& [forward, others] : derived) {
    std::string key = parts_.key(graph.op(forward)) + (trunk[forward.index()] ? "!" : "");
    for (const OpId id : others) key += "\n" + parts_.key(graph.op(id)) + (trunk[id.index()] ? "!" : "");
    if (const auto sums = sums_.find(forward); sums != sums_.end())
      key += fmt::format("\n{} {} {}", sums->second.result, sums->second.activation, sums->second.activation_operand);
    const auto [known, is_new] = numbers.emplace(std::move(key), static_cast<int>(first.size()));
    class_of_.emplace(forward, known->second);
    if (is_new) first.push_back(forward);
  }
  classes_.resize(first.size());
  for_each_index(first.size(), threads, [&](std::size_t c) {
    const Op& op = graph.op(first[c]);
    classes_[c] = {parts_.samples_of(op), Splitting(*this, op, derived.at(first[c]), trunk).run()};
  });
}

// What has no formula may take less than the formulas say.
void OpGroups::find_rate() {
  constexpr Bytes kLarge(1e15);  // latencies do not count
  double least = kUnbounded;
  for (int outer = 1; outer <= hosts_.hosts; ++outer)
    for (int inner = 1; inner <= hosts_.devices_per_host; ++inner) {
      if (inner * outer == 1) continue;
      const TimeEstimate found = costs_.collective(CollectiveKind::ReduceScatter, kLarge,
                                                   {inner, outer, hosts_.within_host, hosts_.between_hosts});
      if (found.basis != Basis::Modelled) return;
      least = std::min(least, found.time.si() / (kLarge.si() * (1.0 - 1.0 / (inner * outer))));
    }
  if (least < kUnbounded) rate_ = least;
}

// The share of the smallest tensor on the way from a product's result to the first that an op reads which is not linear
// in it; 0: no tensor is sure to be added up. The way is added to `paths`.
double OpGroups::part_of_result(const Op& product, std::vector<std::vector<TensorId>>& paths) const {
  TensorId at = product.outputs[0];
  const Bytes whole = graph_.tensor(at).bytes();
  Bytes smallest = whole;
  std::vector<TensorId> path;
  for (;;) {
    path.push_back(at);
    smallest = std::min(smallest, graph_.tensor(at).bytes());
    std::vector<const Op*> linear;
    bool other = false;
    for (const OpId id : forward_readers_[at.index()]) {
      const Op& op = graph_.op(id);
      if (is_linear_in(op, at))
        linear.push_back(&op);
      else
        other = true;
    }
    if (other) break;
    if (linear.size() != 1 || linear.front()->outputs.size() != 1) return 0.0;
    at = linear.front()->outputs[0];
  }
  paths.push_back(std::move(path));
  return smallest / whole;
}

void OpGroups::find_sums() {
  forward_readers_.resize(graph_.tensors().size());
  for (const Op& op : graph_.ops())
    if (op.phase == Phase::Forward)
      for (const TensorId input : op.inputs) forward_readers_[input.index()].push_back(op.id);
  std::map<OpId, TensorId> gradient_of;  // that of a product's activation, made by the product's own backward
  for (const Op& op : graph_.ops()) {
    if (op.phase != Phase::Backward || op.kind != OpKind::Contract || !op.forward || is_recomputation(graph_, op))
      continue;
    const std::optional<TensorId> of = graph_.tensor(op.outputs[0]).gradient_of;
    if (of && is_among(graph_.op(*op.forward).inputs, *of)) gradient_of.emplace(*op.forward, op.outputs[0]);
  }
  std::vector<std::vector<TensorId>> paths;
  std::vector<OpId> path_of;
  std::vector<int> readers(graph_.tensors().size(), 0), passing(readers);
  for (const Op& op : graph_.ops()) {
    if (op.phase != Phase::Forward || op.kind != OpKind::Contract || op.inputs.size() != 2) continue;
    const auto is_parameter = [&](std::size_t i) { return graph_.tensor(op.inputs[i]).kind == TensorKind::Parameter; };
    if (is_parameter(0) == is_parameter(1)) continue;
    Sums sums;
    sums.activation_operand = is_parameter(0) ? 1 : 0;
    sums.result = part_of_result(op, paths);
    if (sums.result > 0.0) path_of.push_back(op.id);
    if (const auto gradient = gradient_of.find(op.id); gradient != gradient_of.end()) {
      sums.activation = graph_.tensor(gradient->second).bytes() /
                        graph_.tensor(op.inputs[static_cast<std::size_t>(sums.activation_operand)]).bytes();
      ++readers[op.inputs[static_cast<std::size_t>(sums.activation_operand)].index()];
    }
    sums_.emplace(op.id, sums);
  }
  for (const auto& path : paths)
    for (const TensorId tensor : path) ++passing[tensor.index()];
  for (std::size_t p = 0; p < paths.size(); ++p) {
    int most = 1;
    for (const TensorId tensor : paths[p]) most = std::max(most, passing[tensor.index()]);
    sums_.at(path_of[p]).result /= most;
  }
  for (auto& [id, sums] : sums_)
    if (sums.activation > 0.0)
      sums.activation /= readers[graph_.op(id).inputs[static_cast<std::size_t>(sums.activation_operand)].index()];
}

double OpGroups::accumulate_time(OpId id, std::int64_t elements) {
  const auto [known, is_new] = accumulate_times_.try_emplace({id, elements}, 0.0);
  if (!is_new) return known->second;
  const Op& op = graph_.op(id);
  const IterationSpace space = iteration_space(graph_, op);
  std::vector<std::int64_t> sizes;
  std::int64_t all = 1;
  for (const IterationAxis& axis : space.axes) {
    sizes.push_back(axis.size);
    all *= axis.size;
  }
  if (elements == 0 || all % elements != 0) return 0.0;
  std::int64_t parts = all / elements;
  for (std::int64_t& size : sizes) {
    const std::int64_t common = std::gcd(size, parts);
    size /= common;
    parts /= common;
  }
  if (parts == 1) known->second = parts_.time_of(op_work(graph_, op, space, sizes));
  return known->second;
}

// The least time that the devices sharing an op without samples take together.
double OpGroups::least_of(OpId id) {
  double least = kUnbounded;
  for (const OpPart& part : parts_.of(graph_.op(id)).all)
    least = std::min(least, static_cast<double>(part.parts) * part.time);
  return least;
}

std::vector<OpGroups::Share> OpGroups::shares(int of_class, std::int64_t microbatches) {
  const Class& of = classes_[static_cast<std::size_t>(of_class)];
  const std::int64_t samples = of.samples.of_samples ? of.samples.samples * graph_.microbatches / microbatches : 1;
  std::vector<Share> all, best;
  double forward = kUnbounded;
  for (const Part& part : of.parts) {
    const auto devices = parts_.devices(of.samples, {part.samples, part.parts, part.time}, samples);
    if (!devices) continue;
    double time = part.time;
    for (const Accumulation& sum : part.accumulations) {
      const std::int64_t over = samples / part.samples * sum.in_samples;
      double before = over == 1 ? kUnbounded : reduce_time(sum.gradient, over);
      if (over > 1) {
        const double even = sum.elements % over == 0 ? accumulate_time(sum.op, sum.elements / over) : 0.0;
        before += std::max(even, least_of(sum.op) / static_cast<double>(*devices));
      }
      time += std::min(sum.time, before);
    }
    const auto each = static_cast<double>(*devices);
    forward = std::min(forward, each * part.forward);
    all.push_back({each * time, part.trunk, 0.0});
  }
  std::sort(all.begin(), all.end(), [](const Share& a, const Share& b) {
    return a.together != b.together ? a.together < b.together : a.trunk < b.trunk;
  });
  // The lower left hull.
  for (const Share& share : all) {
    if (!best.empty() && share.trunk >= best.back().trunk) continue;
    while (best.size() > 1) {
      const Share &last = best.back(), &before = best[best.size() - 2];
      if ((last.together - before.together) * (before.trunk - share.trunk) <
          (share.together - before.together) * (before.trunk - last.trunk))
        break;
      best.pop_back();
    }
    best.push_back(share);
  }
  for (Share& share : best) share.forward = forward;
  return best;
}

}  // namespace meshwright
