// SPDX-License-Identifier: Apache-2.0
#include "executor/check/run_reference.h"

#include <cmath>
#include <utility>

#include "executor/base/clock.h"
#include "executor/check/graph_interpreter.h"
#include "executor/runner/assemble.h"
#include "executor/runner/kept_tiles.h"

namespace meshwright {

namespace {

// One device doing everything: what the reference's timeline shows.
void add_span(Timeline& timeline, Span::Kind kind, int microbatch, Clock::time_point origin, Clock::time_point begin) {
  timeline.spans.push_back(
      {kind, DeviceId(0), StageId(0), MicrobatchId(microbatch), since(origin, begin), since(origin, Clock::now())});
}

KeptTile whole_tile(const Graph& graph, const GraphInterpreter& interpreter, OpId reader, std::size_t operand,
                    int microbatch) {
  const TensorId id = graph.op(reader).inputs[operand];
  KeptTile tile{reader, DeviceId(0), microbatch, {}, {}, interpreter.get(id)};
  for (const Dim& dim : graph.tensor(id).dims) tile.extent.push_back(dim.size);
  tile.offset.assign(tile.extent.size(), 0);
  return tile;
}

void keep_operands(const Graph& graph, const std::map<OpId, KeptOperand>& kept, Phase phase,
                   const GraphInterpreter& interpreter, int microbatch, RunResult& result) {
  for (const auto& [op, operand] : kept)
    if (graph.op(op).phase == phase)
      place_kept(graph, kept, whole_tile(graph, interpreter, op, operand.operand, microbatch), result);
}

}  // namespace

RunResult run_reference(const Graph& graph, const RunOptions& options, const StepObserver& after_backward,
                        const StartChange& before_first) {
  require_valid(options);
  GraphInterpreter interpreter(graph, options.seed, options.precision, options.given);
  if (before_first) before_first(interpreter);
  const std::map<OpId, KeptOperand> kept = kept_operands(graph, options);
  RunResult result;
  for (int step = 0; step < options.steps; ++step) {
    Timeline timeline;
    double loss = 0.0;
    const Clock::time_point origin = Clock::now();
    // Steps count from 1: Adam divides by 1 - beta^step. Masks of dropout are drawn by it, too.
    const std::int64_t number = options.first_step + step + 1;
    interpreter.clear_accumulators();
    for (int m = 0; m < static_cast<int>(graph.microbatches); ++m) {
      Clock::time_point begin = Clock::now();
      interpreter.load_inputs(options.first_step + step, m);
      interpreter.run(Phase::Forward, number);
      add_span(timeline, Span::Kind::Forward, m, origin, begin);
      if (step + 1 == options.steps) keep_operands(graph, kept, Phase::Forward, interpreter, m, result);
      if (graph.loss) loss += interpreter.get(*graph.loss)[0];
      begin = Clock::now();
      interpreter.run(Phase::Backward, number);
      add_span(timeline, Span::Kind::Backward, m, origin, begin);
    }
    if (after_backward) after_backward(interpreter);
    const Clock::time_point begin = Clock::now();
    interpreter.run(Phase::Update, number, options.learning_rate.factor(number));
    add_span(timeline, Span::Kind::Update, 0, origin, begin);
    if (step + 1 == options.steps) keep_operands(graph, kept, Phase::Update, interpreter, 0, result);
    timeline.end = timeline.spans.back().end;
    result.losses.push_back(loss);
    result.step_times.push_back(to_seconds(timeline.end));
    result.timeline = std::move(timeline);
  }
  if (options.keep_tensors) {
    for (const auto& [id, name] : parameters_of(graph)) result.weights[name] = interpreter.get(id);
    for (const auto& [id, name] : second_moments_of(graph)) result.second_moments[name] = interpreter.get(id);
  }
  if (const auto& scaling = graph.loss_scaling)
    result.loss_scales = {std::ldexp(scaling->first, static_cast<int>(interpreter.get(scaling->state)[0]))};
  result.peak_memory = {interpreter.allocated()};
  return result;
}

}  // namespace meshwright
