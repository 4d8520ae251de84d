// SPDX-License-Identifier: Apache-2.0
#include "executor/check/exact_check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "executor/check/graph_interpreter.h"
#include "executor/exact/exact_ops.h"
#include "executor/exact/exact_values.h"
#include "executor/exact/residue.h"
#include "executor/runner/kept_tiles.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

namespace {

enum : std::size_t { kLosses, kGradients, kParameters, kStates };

std::vector<std::uint64_t> residues_of(const GraphInterpreter& interpreter, TensorId id) {
  std::vector<std::uint64_t> found;
  for (const double value : interpreter.get(id)) found.push_back(exact::of_stored(value));
  return found;
}

bool lasts(const Tensor& tensor) {
  return tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState ||
         tensor.kind == TensorKind::StepState;
}

std::vector<std::int64_t> index_of(std::int64_t place, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> index(sizes.size());
  for (std::size_t d = sizes.size(); d > 0; --d) {
    index[d - 1] = place % sizes[d - 1];
    place /= sizes[d - 1];
  }
  return index;
}

// One whole tensor of the reference, against which tiles are held.
class ComparedTensor {
 public:
  ComparedTensor(std::string name, const Tensor& tensor, const std::vector<std::uint64_t>& reference)
      : name_(std::move(name)), reference_(reference), seen_(reference.size(), false) {
    for (const Dim& dim : tensor.dims) sizes_.push_back(dim.size);
    MW_CHECK(static_cast<std::int64_t>(reference.size()) == tensor.elements(), "'{}' has {} elements against {}", name_,
             tensor.elements(), reference.size());
  }

  void compare(const HeldTile& tile, ExactClass& of) {
    ++of.tiles;
    const std::vector<std::int64_t> strides = kernels::row_major_strides(sizes_);
    std::optional<ExactDifference> found;
    for (std::size_t i = 0; i < tile.values.size(); ++i) {
      std::vector<std::int64_t> index = index_of(static_cast<std::int64_t>(i), tile.extent);
      std::int64_t place = 0;
      for (std::size_t d = 0; d < index.size(); ++d) place += (index[d] += tile.offset[d]) * strides[d];
      const std::uint64_t expected = reference_[static_cast<std::size_t>(place)];
      std::optional<std::uint64_t> value;
      if (exact::is_stored(tile.values[i])) value = exact::of_stored(tile.values[i]);
      seen_[static_cast<std::size_t>(place)] = true;
      if (value != expected && !found) found = {name_, tile.device, std::move(index), value, expected};
    }
    note(std::move(found), of);
  }

  // After all tiles.
  void expect_all_seen(ExactClass& of) const {
    const auto missing = std::find(seen_.begin(), seen_.end(), false);
    if (missing == seen_.end()) return;
    const auto place = missing - seen_.begin();
    note(ExactDifference{name_, std::nullopt, index_of(place, sizes_), std::nullopt,
                         reference_[static_cast<std::size_t>(place)]},
         of);
  }

 private:
  static void note(std::optional<ExactDifference> found, ExactClass& of) {
    if (!found) return;
    ++of.different;
    if (!of.first) of.first = std::move(found);
  }

  std::string name_;
  const std::vector<std::uint64_t>& reference_;
  std::vector<std::int64_t> sizes_;
  std::vector<bool> seen_;
};

void compare_losses(const RunResult& run, const ExactReference& reference, ExactClass& of) {
  MW_CHECK(run.losses.size() == reference.losses.size(), "{} losses against {}", run.losses.size(),
           reference.losses.size());
  of.tensors = of.tiles = static_cast<std::int64_t>(run.losses.size());
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    const std::uint64_t value = exact::of_stored(run.losses[step]);
    if (value == reference.losses[step]) continue;
    ++of.different;
    if (!of.first) of.first = {fmt::format("loss of step {}", step), std::nullopt, {}, value, reference.losses[step]};
  }
}

}  // namespace

ExactReference exact_reference(const Graph& graph, int steps, std::uint64_t seed) {
  exact::expect_treated(graph);
  const RunOptions options = exact_options(steps, seed);
  GraphInterpreter one(graph, seed, options.precision, options.given,
                       {exact::run_op, exact::run_attention_block, false});
  ExactReference found;
  for (int step = 0; step < steps; ++step) {
    one.clear_accumulators();
    std::uint64_t loss = 0;
    for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
      one.load_inputs(step, m);
      one.run(Phase::Forward, step + 1);
      if (graph.loss) loss = exact::plus(loss, residues_of(one, *graph.loss)[0]);
      one.run(Phase::Backward, step + 1);
    }
    one.run(Phase::Update, step + 1);
    found.losses.push_back(loss);
  }
  for (const auto& [op, operand] : kept_operands(graph, options))
    if (!operand.parameter.empty())
      found.gradients[operand.parameter] = residues_of(one, graph.op(op).inputs[operand.operand]);
  for (const Tensor& tensor : graph.tensors())
    if (lasts(tensor)) found.states[tensor.name] = residues_of(one, tensor.id);
  return found;
}

std::string to_text(const ExactDifference& difference) {
  const std::string place = difference.index.empty() ? "" : fmt::format(" at ({})", fmt::join(difference.index, ", "));
  if (!difference.run && !difference.device)
    return fmt::format("'{}'{} is held by no device", difference.tensor, place);
  const std::string device = difference.device ? fmt::format(" on device {}", difference.device->value) : "";
  if (!difference.run) return fmt::format("'{}'{}{} was never written", difference.tensor, place, device);
  return fmt::format("'{}'{}{} is {}, but {} on one device alone", difference.tensor, place, device, *difference.run,
                     difference.reference);
}

bool ExactCheck::equal() const {
  return std::all_of(classes.begin(), classes.end(), [](const ExactClass& of) { return of.different == 0; });
}

std::unique_ptr<Backend> exact_backend() {
  return std::make_unique<HostBackend>(DType::F64, HostOps{exact::run_op, exact::run_attention_block, true});
}

RunOptions exact_options(int steps, std::uint64_t seed) {
  RunOptions options{.steps = steps, .seed = seed, .precision = DType::F64, .keep_tensors = false};
  options.given = exact::exact_values(seed);
  options.keep_gradients = options.keep_held = true;
  return options;
}

ExactCheck compare_exactly(const Graph& graph, const RunResult& run, const ExactReference& reference) {
  ExactCheck check;
  for (const char* name : {"losses", "gradients", "parameters", "optimizer states"})
    check.classes.emplace_back().name = name;
  compare_losses(run, reference, check.classes[kLosses]);
  // In the order of the graph's tensors, so that the first difference is the same in every run.
  std::map<std::pair<std::size_t, TensorId>, ComparedTensor> compared;
  const auto add = [&](std::size_t kind, const Tensor& tensor,
                       const std::map<std::string, std::vector<std::uint64_t>>& of) {
    const auto known = of.find(tensor.name);
    if (known == of.end()) return;
    const std::string name = kind == kGradients ? "gradient of " + tensor.name : tensor.name;
    compared.emplace(std::pair(kind, tensor.id), ComparedTensor(name, tensor, known->second));
    ++check.classes[kind].tensors;
  };
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind == TensorKind::Parameter) add(kGradients, tensor, reference.gradients);
    if (lasts(tensor)) add(tensor.kind == TensorKind::Parameter ? kParameters : kStates, tensor, reference.states);
  }
  MW_CHECK(compared.size() == reference.gradients.size() + reference.states.size(),
           "the graph has {} tensors to compare, one device has {}", compared.size(),
           reference.gradients.size() + reference.states.size());
  std::vector<const HeldTile*> tiles;
  for (const HeldTile& tile : run.held) tiles.push_back(&tile);
  std::stable_sort(tiles.begin(), tiles.end(), [](const HeldTile* a, const HeldTile* b) {
    return std::pair(a->tensor, a->device) < std::pair(b->tensor, b->device);
  });
  for (const HeldTile* tile : tiles) {
    const Tensor& tensor = graph.tensor(tile->tensor);
    const std::size_t kind = tile->is_gradient                      ? kGradients
                             : tensor.kind == TensorKind::Parameter ? kParameters
                                                                    : kStates;
    compared.at({kind, tile->tensor}).compare(*tile, check.classes[kind]);
  }
  for (auto& [key, tensor] : compared) tensor.expect_all_seen(check.classes[key.first]);
  return check;
}

}  // namespace meshwright
