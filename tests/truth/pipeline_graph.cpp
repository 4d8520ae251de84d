// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/pipeline_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "core/base/errors.h"

namespace meshwright {

namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Where things stand in the graph. Classes: per stage the four passes and the update, then the messages of every edge,
// then every stage's ring step; these two once where nothing is shared, else once per replica, as their links differ.
class Numbers {
 public:
  Numbers(const PipelineShape& shape, const PipelineStep& step)
      : shape_(shape),
        replicas_(step.folded ? 1 : step.times.replicas),
        ring_(shape.trains && step.times.replicas > 1 && !step.times.ring_step.empty()),
        shared_(step.nics.has_value()) {}

  static constexpr int kOfStage = 5, kUpdate = 4;  // the others: by Pass

  [[nodiscard]] int replicas() const { return replicas_; }
  [[nodiscard]] bool ring() const { return ring_; }
  [[nodiscard]] int device(int replica, int rank) const { return replica * shape_.ranks + rank; }
  [[nodiscard]] int devices() const { return replicas_ * shape_.ranks; }

  [[nodiscard]] TaskClassId run(int stage, int pass) const { return TaskClassId(kOfStage * stage + pass); }
  [[nodiscard]] TaskClassId message(int replica, int message) const {
    return TaskClassId(kOfStage * shape_.stages + (shared_ ? replica : 0) * messages() + message);
  }
  [[nodiscard]] TaskClassId ring_step(int replica, int stage) const {
    return TaskClassId(kOfStage * shape_.stages + versions() * messages() + (shared_ ? replica : 0) * shape_.stages +
                       stage);
  }
  [[nodiscard]] int classes() const {
    return kOfStage * shape_.stages + versions() * (messages() + (ring_ ? shape_.stages : 0));
  }
  [[nodiscard]] int versions() const { return shared_ ? replicas_ : 1; }
  [[nodiscard]] int messages() const { return 2 * static_cast<int>(shape_.from.size()); }

  [[nodiscard]] StreamId compute(int replica, int rank) const { return StreamId(replica * of_replica() + rank); }
  [[nodiscard]] StreamId channel(int replica, int channel) const {
    return StreamId(replica * of_replica() + shape_.ranks + channel);
  }
  [[nodiscard]] StreamId communication(int replica, int rank) const {
    return StreamId(replica * of_replica() + shape_.ranks + channels() + rank);
  }
  [[nodiscard]] int streams() const { return replicas_ * of_replica(); }

 private:
  [[nodiscard]] int channels() const { return static_cast<int>(shape_.channels.size()); }
  [[nodiscard]] int of_replica() const { return (ring_ ? 2 : 1) * shape_.ranks + channels(); }

  const PipelineShape& shape_;
  int replicas_;
  bool ring_, shared_;
};

// --- Classes and links --------------------------------------------------------------------------

class ClassBuilder {
 public:
  ClassBuilder(TaskGraph& graph, const PipelineShape& shape, const PipelineStep& step)
      : graph_(graph), shape_(shape), times_(step.times), step_(step), numbers_(shape, step) {}

  void build() {
    graph_.classes.assign(index(numbers_.classes()), TaskClass{TaskKind::Join});
    graph_.links = {};
    if (step_.nics) graph_.links.capacity.assign(index(2 * numbers_.devices()), step_.nics->rate);
    for (int stage = 0; stage < shape_.stages; ++stage) add_stage(stage);
    for (int replica = 0; replica < numbers_.versions(); ++replica) {
      for (std::size_t e = 0; e < times_.edges.size(); ++e) add_messages(replica, e);
      for (int stage = 0; numbers_.ring() && stage < shape_.stages; ++stage) {
        const int rank = shape_.rank_of_stage[index(stage)];
        const int next = (replica + 1) % numbers_.replicas();
        add_flow(numbers_.ring_step(replica, stage), TaskKind::Collective, stage, times_.ring_step[index(stage)],
                 numbers_.device(replica, rank), numbers_.device(next, rank));
      }
    }
  }

 private:
  void add_stage(int stage) {
    const std::size_t s = index(stage);
    const std::int64_t kept = step_.activations.empty() ? 0 : std::llround(step_.activations[s].si());
    const SimTime weight = shape_.trains && !times_.backward_weight.empty() ? times_.backward_weight[s] : SimTime{0};
    const auto add = [&](int number, TaskKind kind, SimTime duration, std::int64_t begin, std::int64_t end) {
      TaskClass& made = graph_.classes[numbers_.run(stage, number).index()];
      made.kind = kind;
      made.stage = StageId(stage);
      made.duration = duration;
      made.memory_at_begin = begin;
      made.memory_at_end = end;
    };
    add(static_cast<int>(Pass::Forward), TaskKind::Forward, times_.forward[s], kept, shape_.trains ? kept : 0);
    const SimTime backward = shape_.trains ? times_.backward[s] : SimTime{0};
    add(static_cast<int>(Pass::Backward), TaskKind::Backward, backward, 0, -kept);
    add(static_cast<int>(Pass::BackwardInput), TaskKind::BackwardInput, backward - weight, 0, 0);
    add(static_cast<int>(Pass::BackwardWeight), TaskKind::BackwardWeight, weight, 0, -kept);
    add(Numbers::kUpdate, TaskKind::Update, shape_.trains ? times_.update[s] : SimTime{0}, 0, 0);
  }

  void add_messages(int replica, std::size_t e) {
    const PipelineTimes::Edge& edge = times_.edges[e];
    const int from = numbers_.device(replica, shape_.rank_of_stage[index(edge.from)]);
    const int to = numbers_.device(replica, shape_.rank_of_stage[index(edge.to)]);
    const int message = 2 * static_cast<int>(e);
    add_flow(numbers_.message(replica, message), TaskKind::Message, edge.from, edge.forward, from, to);
    add_flow(numbers_.message(replica, message + 1), TaskKind::Message, edge.to, edge.backward, to, from);
  }

  void add_flow(TaskClassId number, TaskKind kind, int stage, SimTime duration, int from, int to) {
    TaskClass& made = graph_.classes[number.index()];
    made.kind = kind;
    made.stage = StageId(stage);
    made.duration = duration;
    if (!step_.nics) return;
    made.latency = std::min(duration, step_.nics->latency);
    made.route = static_cast<int>(graph_.links.routes.size());
    graph_.links.routes.push_back({LinkId(2 * from), LinkId(2 * to + 1)});
  }

  TaskGraph& graph_;
  const PipelineShape& shape_;
  const PipelineTimes& times_;
  const PipelineStep& step_;
  Numbers numbers_;
};

// --- Tasks --------------------------------------------------------------------------------------

class TaskBuilder {
 public:
  TaskBuilder(TaskGraph& graph, const PipelineShape& shape, const PipelineStep& step)
      : graph_(graph),
        shape_(shape),
        numbers_(shape, step),
        ring_steps_(2 * (step.times.replicas - 1)),
        last_run_(index(numbers_.replicas()) * index(shape.stages), TaskId(0)) {}

  void build() {
    const auto replicas = index(numbers_.replicas());
    const auto stages = index(shape_.stages);
    const std::size_t ring = numbers_.ring() ? index(ring_steps_) * stages : 0;
    // An operation is at most a run and a message with a predecessor each.
    std::size_t operations = 2 * stages;
    for (const PipelineShape::Operation& operation : shape_.operations)
      operations +=
          (operation.run != shape_.no_run() ? 1U : 0U) + (operation.posts_to != PipelineShape::kNowhere ? 1U : 0U);
    MW_CHECK(replicas * (operations + ring) <= std::size_t{std::numeric_limits<std::int32_t>::max()},
             "{} tasks in each of {} replicas: fold them", operations + ring, replicas);
    graph_.reserve(replicas * (operations + ring), replicas * (operations + ring + 2 * stages));
    graph_.devices = numbers_.devices();
    add_streams();
    for (int replica = 0; replica < numbers_.replicas(); ++replica) add_runs(replica);
    if (shape_.trains) add_endings();
  }

 private:
  void add_streams() {
    graph_.streams.reserve(index(numbers_.streams()));
    for (int replica = 0; replica < numbers_.replicas(); ++replica) {
      const auto add = [&](Stream::Kind kind, int rank, int peer) {
        graph_.streams.push_back(
            {kind, DeviceId(numbers_.device(replica, rank)), DeviceId(numbers_.device(replica, peer))});
      };
      for (int rank = 0; rank < shape_.ranks; ++rank) add(Stream::Kind::Compute, rank, rank);
      for (const auto& channel : shape_.channels) add(Stream::Kind::Channel, channel.from, channel.to);
      for (int rank = 0; numbers_.ring() && rank < shape_.ranks; ++rank) add(Stream::Kind::Communication, rank, rank);
    }
  }

  void add_runs(int replica) {
    const std::uint16_t no_run = shape_.no_run();
    std::vector<TaskId> in_slot(shape_.slots, TaskId(0));
    std::vector<TaskId> latest(index(shape_.ranks), TaskId(0));  // [rank]
    std::vector<TaskId> waits;
    for (std::size_t o = 0; o < shape_.operations.size(); ++o) {
      const PipelineShape::Operation& operation = shape_.operations[o];
      const MicrobatchId microbatch(shape_.microbatch[o]);
      if (operation.waits_for != PipelineShape::kNoWait) waits.push_back(in_slot[operation.waits_for]);
      if (operation.run != no_run) {
        const int stage = operation.run / 4, pass = operation.run % 4;
        const TaskId task =
            graph_.add(numbers_.run(stage, pass), numbers_.compute(replica, operation.rank), microbatch, waits);
        latest[operation.rank] = task;
        waits.clear();
        if ((operation.mark & PipelineShape::kLast) != 0) last_run(replica, stage) = task;
      }
      if (operation.posts_to == PipelineShape::kNowhere) continue;
      in_slot[operation.posts_to] = graph_.add(numbers_.message(replica, operation.message),
                                               numbers_.channel(replica, shape_.channel_of[operation.message]),
                                               microbatch, {&latest[operation.rank], 1});
    }
  }

  void add_endings() {
    const int replicas = numbers_.replicas();
    const std::size_t ends = replicas > 1 ? 2 : 1;                          // of a step, in different replicas
    std::vector<TaskId> sent(index(replicas), TaskId(0)), received = sent;  // [replica] in the latest step
    for (const int stage : shape_.endings) {
      for (int k = 0; numbers_.ring() && k < ring_steps_; ++k) {
        for (int replica = 0; replica < replicas; ++replica) {
          const int next = (replica + 1) % replicas, previous = (replica + replicas - 1) % replicas;
          // The gradients here and there; then what came in the step before.
          const std::array<TaskId, 2> gradients = {last_run(replica, stage), last_run(next, stage)};
          const std::span<const TaskId> waits =
              k == 0 ? std::span(gradients).first(ends) : std::span(received).subspan(index(previous), 1);
          sent[index(replica)] =
              graph_.add(numbers_.ring_step(replica, stage),
                         numbers_.communication(replica, shape_.rank_of_stage[index(stage)]), MicrobatchId(0), waits);
        }
        received = sent;
      }
      for (int replica = 0; replica < replicas; ++replica) {
        const std::array<TaskId, 2> waits = {sent[index(replica)], sent[index((replica + replicas - 1) % replicas)]};
        graph_.add(numbers_.run(stage, Numbers::kUpdate), numbers_.compute(replica, shape_.rank_of_stage[index(stage)]),
                   MicrobatchId(0), std::span(waits).first(numbers_.ring() ? ends : 0));
      }
    }
  }

  TaskId& last_run(int replica, int stage) { return last_run_[index(replica) * index(shape_.stages) + index(stage)]; }

  TaskGraph& graph_;
  const PipelineShape& shape_;
  Numbers numbers_;
  int ring_steps_;
  std::vector<TaskId> last_run_;  // [replica, stage]
};

void check_step(const PipelineShape& shape, const PipelineStep& step) {
  check_times(shape, step.times);
  MW_CHECK(step.activations.empty() || step.activations.size() == index(shape.stages), "activations of {} stages of {}",
           step.activations.size(), shape.stages);
}

}  // namespace

TaskGraph pipeline_graph(const PipelineShape& shape, const PipelineStep& step) {
  check_step(shape, step);
  TaskGraph graph;
  ClassBuilder(graph, shape, step).build();
  TaskBuilder(graph, shape, step).build();
  return graph;
}

}  // namespace meshwright
