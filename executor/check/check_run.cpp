// SPDX-License-Identifier: Apache-2.0
#include "executor/check/check_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/errors.h"
#include "executor/check/graph_interpreter.h"
#include "executor/check/run_reference.h"

namespace meshwright {

namespace {

constexpr double kFloatRounding = 1.0 / (1 << 24);  // u

double depth_of(OpKind kind) {
  switch (kind) {
    case OpKind::Contract:
    case OpKind::Convolution:
    case OpKind::ConvolutionBackwardInput:
    case OpKind::ConvolutionBackwardWeight:
      return 1.0;
    case OpKind::Attention:
    case OpKind::AttentionBackward:
    case OpKind::GroupedAttention:
    case OpKind::GroupedAttentionBackward:
    case OpKind::SelectedAttention:
    case OpKind::SelectedAttentionBackward:
    case OpKind::SelectiveScan:
    case OpKind::SelectiveScanBackward:
    case OpKind::GatedDelta:
    case OpKind::GatedDeltaBackward:
      return 2.0;
    default:
      return 0.0;
  }
}

double norm(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

bool has_updates(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.phase == Phase::Update; });
}

double relative(double difference, double reference) { return reference > 0.0 ? difference / reference : difference; }

}  // namespace

RoundingShape rounding_shape(const Graph& graph) {
  RoundingShape shape;
  std::vector<double> depth(graph.tensors().size(), 0.0);
  for (const Op& op : graph.ops()) {
    // A sum over several axes is one sum of the product of their sizes.
    double sum = 1.0;
    for (const IterationAxis& axis : iteration_space(graph, op).axes)
      if (axis.reduction) sum *= static_cast<double>(axis.size);
    shape.longest_sum = std::max(shape.longest_sum, sum);
    double deepest = 0.0;
    for (const TensorId input : op.inputs) deepest = std::max(deepest, depth[input.index()]);
    deepest += depth_of(op.kind);
    for (const TensorId output : op.outputs) depth[output.index()] = deepest;
    shape.depth = std::max(shape.depth, deepest);
  }
  return shape;
}

bool divides_by_size(Optimizer::Kind kind) {
  return kind == Optimizer::Kind::Adam || kind == Optimizer::Kind::Adafactor;
}

double gradient_error(const RoundingShape& shape) {
  return 2.0 * shape.depth * std::sqrt(shape.longest_sum) * kFloatRounding;
}

double float32_bound(const RoundingShape& shape, const WeightBoundInput& weight) {
  MW_CHECK(weight.norm > 0.0, "a relative bound of a tensor of norm {}", weight.norm);
  const double delta = gradient_error(shape);
  // Each step rounds the weight once more.
  const double stored = weight.steps * kFloatRounding;
  if (!divides_by_size(weight.optimizer.kind))
    return std::sqrt(weight.steps) * weight.distance * delta / weight.norm + stored;
  return weight.steps * weight.optimizer.learning_rate * std::sqrt(4.0 * delta) * std::sqrt(weight.elements) /
             weight.norm +
         stored;
}

double reach_of_adam(int steps, const Attributes& update) {
  return steps * std::max(1.0, (1.0 - update.beta1) / std::sqrt(1.0 - update.beta2));
}

namespace {

// delta in the precision of the run.
double rounding_of_gradients(const Graph& graph, DType precision) {
  const double finer = precision == DType::F64 ? 1.0 / (1 << 29) : 1.0;  // 53 bits instead of 24
  return gradient_error(rounding_shape(graph)) * finer;
}

// Takes `elements` (ascending) out of `values`; those taken.
std::vector<double> take_out(std::vector<double>& values, const std::vector<std::size_t>& elements) {
  std::vector<double> taken, rest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool noise = taken.size() < elements.size() && elements[taken.size()] == i;
    (noise ? taken : rest).push_back(values[i]);
  }
  values = std::move(rest);
  return taken;
}

const Attributes& update_of(const Graph& graph, const std::string& parameter) {
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::AdamUpdate && graph.tensor(op.inputs[0]).name == parameter) return op.attributes;
  throw InternalError(fmt::format("'{}' has gradients that are rounding, but is not updated by Adam", parameter));
}

// All weights of a tensor, which are taken out: Adafactor scales the moves of all its elements by one number, to which
// those of rounding belong. A step's move has a root mean square of at most the learning rate times the limit, 1.
CheckedTensor compare_moved_by_noise(const CheckInput& input, const std::string& name, const GradientNoise& noise,
                                     std::vector<double>& values, std::vector<double>& expected) {
  const double whole = norm(expected), all = static_cast<double>(values.size());
  const double way = input.options.steps * input.optimizer.learning_rate * std::sqrt(all);
  const CheckedTensor found{
      fmt::format("{}, where its gradient is rounding ({} of {} elements)", name, noise.elements.size(), values.size()),
      relative(distance(values, expected), whole), relative(2.0 * way, whole),
      static_cast<std::int64_t>(noise.elements.size())};
  values.clear();
  expected.clear();
  return found;
}

// The gradients and weights of the elements of `noise`, which are taken out of `values` and `expected`.
std::vector<CheckedTensor> compare_noise(const CheckInput& input, const std::string& name, const GradientNoise& noise,
                                         std::vector<double>& values, std::vector<double>& expected) {
  if (input.optimizer.kind == Optimizer::Kind::Adafactor)
    return {compare_moved_by_noise(input, name, noise, values, expected)};
  const double whole = norm(expected);
  const std::size_t all = values.size(), count = noise.elements.size();
  const std::vector<double>& moments = input.run.second_moments.at(name);
  double largest = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    // The size of the gradient over that of its terms, both told by Adam's second moments.
    const double share = std::sqrt(moments.at(noise.elements[i]) / noise.moments_of_terms[i]);
    largest = std::isnan(share) ? std::numeric_limits<double>::infinity() : std::max(largest, share);
  }
  const std::vector<double> taken = take_out(values, noise.elements), other = take_out(expected, noise.elements);
  const double way =
      reach_of_adam(input.options.steps, update_of(input.reference_graph, name)) * input.optimizer.learning_rate;
  const std::string of = fmt::format("where its gradient is rounding ({} of {} elements)", count, all);
  const auto elements = static_cast<std::int64_t>(count);
  return {{fmt::format("gradient of {}, {}", name, of), largest,
           rounding_of_gradients(input.reference_graph, input.options.precision), elements},
          {fmt::format("{}, {}", name, of), relative(distance(taken, other), whole),
           relative(2.0 * way * std::sqrt(static_cast<double>(count)), whole), elements}};
}

}  // namespace

std::vector<CheckedTensor> compare_runs(const CheckInput& input) {
  const auto& [graph, optimizer, options, run, reference, initial, all_noise] = input;
  const bool exact = options.precision == DType::F64;
  const RoundingShape shape = rounding_shape(graph);
  MW_CHECK(run.weights.size() == reference.weights.size() && run.losses.size() == reference.losses.size(),
           "{} weights and {} losses against {} and {}", run.weights.size(), run.losses.size(),
           reference.weights.size(), reference.losses.size());

  std::vector<CheckedTensor> weights;
  const bool trains = has_updates(graph);
  double largest_bound = 0.0;
  for (const auto& [name, whole] : run.weights) {
    std::vector<double> values = whole, expected = reference.weights.at(name);
    MW_CHECK(values.size() == expected.size(), "'{}' has {} elements against {}", name, values.size(), expected.size());
    if (const auto noise = all_noise.find(name); noise != all_noise.end()) {
      for (CheckedTensor& tensor : compare_noise(input, name, noise->second, values, expected))
        weights.push_back(std::move(tensor));
      if (values.empty()) continue;
    }
    const double size = norm(expected);
    double bound = exact ? kBoundF64 : 0.0;  // in float: of weights that nothing changes
    if (!exact && trains && size > 0.0) {
      const auto before = initial.find(name);
      bound = float32_bound(shape, {optimizer, options.steps, static_cast<double>(values.size()), size,
                                    before == initial.end() ? 0.0 : distance(expected, before->second)});
    }
    largest_bound = std::max(largest_bound, bound);
    weights.push_back({name, relative(distance(values, expected), size), bound});
  }

  const double loss_bound = exact ? kBoundF64 : gradient_error(shape) + shape.depth * largest_bound;
  std::vector<CheckedTensor> checked;
  for (std::size_t step = 0; step < run.losses.size(); ++step) {
    const double expected = reference.losses[step];
    checked.push_back({fmt::format("loss of step {}", step),
                       relative(std::abs(run.losses[step] - expected), std::abs(expected)), loss_bound});
  }
  checked.insert(checked.end(), weights.begin(), weights.end());
  return checked;
}

namespace {

// A reference that other rounding moves by more than this share of a bound says nothing about a run at the bound, nor
// does one that moves by a share only so many times smaller than the run's.
constexpr double kStable = 0.1, kBeyondRounding = 30.0;
// Relative change of the learning rate: the last places of a step.
constexpr double kNudgeF32 = 1.0 / (1 << 22), kNudgeF64 = 1.0 / (1LL << 50);

// Infinite for a difference that is no number.
double share_of_bound(const CheckedTensor& tensor) {
  if (tensor.difference <= 0.0) return 0.0;
  const double share = tensor.difference / tensor.bound;
  return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
}

const CheckedTensor& worst(const std::vector<CheckedTensor>& checked) {
  return *std::max_element(checked.begin(), checked.end(), [](const CheckedTensor& a, const CheckedTensor& b) {
    return share_of_bound(a) < share_of_bound(b);
  });
}

// One device, so many microbatches.
Graph reference_graph(const CheckedWork& work, std::int64_t microbatches, double learning_rate) {
  TrainingOptions training = work.training;
  training.microbatches = microbatches;
  // Recomputed values are those that were kept: the reference keeps them all.
  training.recompute = Recompute::None;
  training.recompute_ranges.clear();
  training.optimizer.learning_rate = learning_rate;
  return work.trains ? build_training_graph(work.model, training) : build_forward_graph(work.model, training);
}

// Whether a sample's part in the loss depends on the samples beside it (batch norm, scores over a batch): some op
// brings samples together before the loss.
bool mixes_samples(const Graph& graph) {
  const auto has_batch = [&](TensorId id) {
    const auto& dims = graph.tensor(id).dims;
    return std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.name == "batch"; });
  };
  return std::any_of(graph.ops().begin(), graph.ops().end(), [&](const Op& op) {
    if (op.phase != Phase::Forward || graph.tensor(op.outputs.front()).dims.empty()) return false;
    return std::any_of(op.inputs.begin(), op.inputs.end(), has_batch) &&
           std::none_of(op.outputs.begin(), op.outputs.end(), has_batch);
  });
}

// Whether both compute the same of each sample: their tensors differ in the size of the batch alone. A mixture's groups
// of tokens, and with them the capacity of its experts, are cut to the microbatch.
bool alike_per_sample(const Graph& a, const Graph& b) {
  const auto same_dims = [](const Tensor& x, const Tensor& y) {
    return std::equal(x.dims.begin(), x.dims.end(), y.dims.begin(), y.dims.end(), [](const Dim& d, const Dim& e) {
      return d.name == e.name && (d.size == e.size || d.name == "batch");
    });
  };
  for (const Op& op : a.ops()) {
    if (op.phase != Phase::Forward) break;
    const Op& other = b.op(op.id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      if (other.outputs.size() != op.outputs.size() || !same_dims(a.tensor(op.outputs[i]), b.tensor(other.outputs[i])))
        return false;
  }
  return true;
}

// Masks are drawn for each microbatch.
bool drops_out(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Dropout; });
}

// Whether another number of microbatches trains another model.
bool depends_on_microbatches(const CheckedWork& work) {
  const Graph whole = reference_graph(work, 1, 0.0);
  if (mixes_samples(whole) || drops_out(whole)) return true;
  return !alike_per_sample(whole, reference_graph(work, work.training.microbatches, 0.0));
}

// The truth: no microbatches, unless they change what is trained.
Graph reference_graph(const CheckedWork& work, double learning_rate) {
  const bool cut = work.training.microbatches > 1 && depends_on_microbatches(work);
  return reference_graph(work, cut ? work.training.microbatches : 1, learning_rate);
}

// Every weight a few last places larger or smaller than it was: the rounding of all sums comes from that.
// What that adds to each, by name.
using Shifts = std::map<std::string, std::vector<double>>;
Shifts nudge_weights(GraphInterpreter& interpreter, const Graph& graph, double nudge) {
  Shifts shifts;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    std::vector<double> values = interpreter.get(tensor.id);
    const std::vector<double> before = values;
    // One of two neighbours grows, the other shrinks: norms take out what is common to all.
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i % 2 == 0 ? 1.0 + nudge : 1.0 - nudge;
    interpreter.set(tensor.id, values);
    values = interpreter.get(tensor.id);  // as they are stored
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= before[i];
    shifts.emplace(tensor.name, std::move(values));
  }
  return shifts;
}

// The same training with sums in another order (where the batch can be cut freely) and steps longer by a rounding.
// Where it cannot, or if `nudged`, the weights begin a rounding off. In float, whose bounds may be below that, it is
// taken off again.
RunResult run_with_other_rounding(const CheckedWork& work, const RunOptions& options, bool nudged) {
  // The smallest number above one that divides the batch.
  std::int64_t microbatches = std::min<std::int64_t>(2, work.training.batch);
  while (work.training.batch % microbatches != 0) ++microbatches;
  const bool mixes = depends_on_microbatches(work);
  if (mixes) microbatches = work.training.microbatches;
  const double nudge = options.precision == DType::F64 ? kNudgeF64 : kNudgeF32;
  const Graph graph = reference_graph(work, microbatches, work.training.optimizer.learning_rate * (1.0 + nudge));
  if (!work.trains || (!mixes && !nudged)) return run_reference(graph, options);
  Shifts shifts;
  RunResult run = run_reference(
      graph, options, {}, [&](GraphInterpreter& interpreter) { shifts = nudge_weights(interpreter, graph, nudge); });
  if (options.precision == DType::F64) return run;
  for (auto& [name, values] : run.weights) {
    const std::vector<double>& shift = shifts.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= shift[i];
  }
  return run;
}

void expect_finite(const RunResult& reference) {
  constexpr const char* kAdvice = "plan with a lower --learning-rate, or check fewer steps";
  for (std::size_t step = 0; step < reference.losses.size(); ++step)
    require(std::isfinite(reference.losses[step]),
            "the training diverges on one device as well (the loss of step {} is {}); {}.", step,
            reference.losses[step], kAdvice);
  for (const auto& [name, values] : reference.weights)
    require(std::isfinite(norm(values)), "the training diverges on one device as well ('{}' has no finite norm); {}.",
            name, kAdvice);
}

}  // namespace

Graph graph_of_reference(const CheckedWork& work) {
  return reference_graph(work, work.training.optimizer.learning_rate);
}

Bytes memory_of_reference(const CheckedWork& work, DType precision) {
  const Graph graph = graph_of_reference(work);
  Bytes total(0.0);
  for (const Tensor& tensor : graph.tensors())
    total +=
        Bytes(static_cast<double>(tensor.elements()) * size_of(tensor.dtype == DType::I32 ? DType::I32 : precision));
  return total;
}

std::vector<CheckedTensor> check_run(const CheckedWork& work, const RunOptions& options, const RunResult& run) {
  const Optimizer& optimizer = work.training.optimizer;
  const Graph graph = reference_graph(work, optimizer.learning_rate);
  std::optional<GradientNoiseFinder> finder;
  const bool whole = graph.microbatches == 1;  // rounding is told from gradients of the whole batch only
  if (work.trains && whole && divides_by_size(optimizer.kind))
    finder.emplace(graph, rounding_of_gradients(graph, options.precision));
  const RunResult reference = run_reference(graph, options, [&](const GraphInterpreter& interpreter) {
    if (finder) finder->note(interpreter);
  });
  expect_finite(reference);
  std::map<std::string, std::vector<double>> initial;
  if (work.trains && !divides_by_size(optimizer.kind) && options.precision == DType::F32) {
    RunOptions one_step = options;
    one_step.steps = 1;
    initial = run_reference(reference_graph(work, 0.0), one_step).weights;  // a step of length 0
  }
  const auto noise = finder ? finder->found() : std::map<std::string, GradientNoise>();
  std::vector<CheckedTensor> checked = compare_runs({graph, optimizer, options, run, reference, initial, noise});
  const CheckedTensor& run_worst = worst(checked);
  if (share_of_bound(run_worst) <= 1.0) return checked;

  // The run is beyond a bound. Whether that is a fault depends on how far other rounding moves the reference.
  const auto moved_by_rounding = [&](bool nudged) {
    const RunResult other = run_with_other_rounding(work, options, nudged);
    return worst(compare_runs({graph, optimizer, options, other, reference, initial, noise}));
  };
  const auto expect_beyond = [&](const CheckedTensor& moved, double stable) {
    const double share = share_of_bound(moved);
    require(
        share <= stable && share_of_bound(run_worst) > kBeyondRounding * share,
        "this training cannot be checked: it amplifies rounding (on one device alone, another order of summation "
        "changes '{}' by {:.3g} of itself, and the run was to agree to {:.3g}); plan with a lower --learning-rate, or "
        "check fewer steps.",
        moved.name, moved.difference, moved.bound);
  };
  expect_beyond(moved_by_rounding(false), kStable);
  // What a single sample leaves where its terms cancel is the same in any order of samples, and Adafactor divides by
  // it.
  constexpr double kAny = std::numeric_limits<double>::infinity();
  if (options.precision == DType::F64) expect_beyond(moved_by_rounding(true), kAny);
  throw InternalError(
      fmt::format("the run and one device disagree in '{}': relative difference {:.3g}, bound {:.3g} ({})",
                  run_worst.name, run_worst.difference, run_worst.bound, name_of(options.precision)));
}

}  // namespace meshwright
