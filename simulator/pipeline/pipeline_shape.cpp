// SPDX-License-Identifier: Apache-2.0
#include "simulator/pipeline/pipeline_shape.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"
#include "core/plan/stage_graph.h"

namespace meshwright {

namespace {

// Steps through the schedule tick by tick, every rank one run per tick at most. What is posted in a tick can be read in
// the next: neighbours in the order then do not depend on each other, and a processor overlaps them.
class ShapeBuilder {
 public:
  ShapeBuilder(const Schedule& schedule, const std::vector<int>& rank_of_stage,
               const std::vector<PipelineTimes::Edge>& edges, MessagesLeave leave, const std::vector<int>& after,
               int copies)
      : schedule_(schedule),
        leave_(leave),
        copies_(static_cast<std::size_t>(copies)),
        rank_of_stage_(rank_of_stage),
        after_(after),
        next_(schedule.size(), 0),
        waiting_(schedule.size()) {
    shape_.stages = static_cast<int>(rank_of_stage.size());
    shape_.ranks = static_cast<int>(schedule.size());
    shape_.rank_of_stage = rank_of_stage;
    // Runs (four numbers a stage) and messages (two an edge) are numbered in 16 bits.
    MW_CHECK(shape_.stages <= 16000 && shape_.ranks <= shape_.stages && edges.size() <= 32000,
             "a pipeline of {} stages on {} ranks with {} edges", shape_.stages, shape_.ranks, edges.size());
    MW_CHECK(leave == MessagesLeave::AtOnce || after.size() == rank_of_stage.size(),
             "{} stages, of which {} know what is after them", rank_of_stage.size(), after.size());
    for (const int rank : rank_of_stage) MW_CHECK(0 <= rank && rank < shape_.ranks, "a stage on rank {}", rank);
    count_runs();
    add_edges(edges);
  }

  PipelineShape build() {
    std::size_t left = 0;
    for (const auto& runs : schedule_) left += runs.size();
    shape_.operations.reserve(left);
    shape_.microbatch.reserve(left);
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
        if (next_[rank] < schedule_[rank].size() && ready(schedule_[rank][next_[rank]])) {
          run_next(rank);
          --left;
        }
      // Only now, so that no rank reads in the tick in which a message is posted, whatever the order of the ranks is.
      for (const auto& [message, slot] : posted_) slot_of_[message] = slot;
      posted_.clear();
      MW_CHECK(left < before, "{} runs of a schedule wait for each other for ever", left);
    }
    find_endings();
    return std::move(shape_);
  }

 private:
  void count_runs() {
    std::size_t runs = 0, backwards = 0, split = 0;
    for (std::size_t rank = 0; rank < schedule_.size(); ++rank)
      for (const ScheduledRun& run : schedule_[rank]) {
        MW_CHECK(0 <= run.stage.value && run.stage.value < shape_.stages &&
                     rank_of_stage_[run.stage.value] == static_cast<int>(rank) && run.microbatch.value >= 0,
                 "rank {} runs microbatch {} of stage {}", rank, run.microbatch.value, run.stage.value);
        shape_.microbatches = std::max(shape_.microbatches, run.microbatch.value + 1);
        ++runs;
        backwards += run.pass == Pass::Backward ? 1 : 0;
        split += run.pass == Pass::BackwardInput ? 1 : 0;
      }
    shape_.trains = backwards + split > 0;
    shape_.splits_backward = split > 0;
    microbatches_ = static_cast<std::size_t>(shape_.microbatches);
    const std::size_t all = static_cast<std::size_t>(shape_.stages) * microbatches_, passes = all / copies_;
    MW_CHECK(runs == passes || shape_.trains, "{} runs of {} forwards", runs, passes);
    MW_CHECK(!shape_.trains || (backwards + split == passes && runs == 2 * passes + split),
             "{} runs, {} backwards and {} split ones of {} stages and {} microbatches", runs, backwards, split,
             shape_.stages, shape_.microbatches);
    done_.assign(all, 0);
  }

  void add_edges(const std::vector<PipelineTimes::Edge>& edges) {
    in_.resize(static_cast<std::size_t>(shape_.stages));
    out_.resize(in_.size());
    std::map<std::pair<int, int>, std::uint16_t> channels;
    std::vector<std::optional<std::uint16_t>> channel_of;
    const auto channel = [&](int from, int to) -> std::optional<std::uint16_t> {
      // Stages of one rank send each other nothing.
      if (from == to) return std::nullopt;
      const auto [entry, added] = channels.emplace(std::pair(from, to), static_cast<std::uint16_t>(channels.size()));
      if (added) shape_.channels.push_back({from, to});
      return entry->second;
    };
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const auto& edge = edges[e];
      MW_CHECK(0 <= edge.from && edge.from < edge.to && edge.to < shape_.stages, "stage {} of {} feeds stage {}",
               edge.from, shape_.stages, edge.to);
      const int from = rank_of_stage_[edge.from], to = rank_of_stage_[edge.to];
      channel_of.push_back(channel(from, to));
      channel_of.push_back(shape_.trains ? channel(to, from) : std::nullopt);
      shape_.from.push_back(edge.from);
      shape_.to.push_back(edge.to);
      // Message 2 e goes down edge e, message 2 e + 1 comes back.
      in_[edge.to].push_back({static_cast<int>(2 * e), edge.from, from == to});
      out_[edge.from].push_back({static_cast<int>(2 * e + 1), edge.to, from == to});
    }
    // The channel after the last one is that of no message.
    const auto none = static_cast<std::uint16_t>(channels.size());
    for (const auto& found : channel_of) shape_.channel_of.push_back(found.value_or(none));
    shape_.channel_of.push_back(none);
    slot_of_.assign(2 * edges.size() * microbatches_, 0);
  }

  // One end of an edge: the message that comes from the stage at the other end. Messages are numbered in pairs, so the
  // one that goes back to that stage is message ^ 1.
  struct End {
    int message;
    int other;
    bool same_rank;
  };

  std::size_t of(int stage, MicrobatchId microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches_ + microbatch.index();
  }
  std::size_t message_of(int message, MicrobatchId microbatch) const {
    return static_cast<std::size_t>(message) * microbatches_ + microbatch.index();
  }
  static unsigned bit(Pass pass) { return 1U << static_cast<unsigned>(pass); }
  static constexpr unsigned kBackwards =
      1U << static_cast<unsigned>(Pass::Backward) | 1U << static_cast<unsigned>(Pass::BackwardInput);

  const std::vector<End>& inputs(const ScheduledRun& run) const {
    return run.pass == Pass::Forward          ? in_[run.stage.value]
           : run.pass == Pass::BackwardWeight ? none_
                                              : out_[run.stage.value];
  }
  const std::vector<End>& outputs(const ScheduledRun& run) const {
    return run.pass == Pass::Forward          ? out_[run.stage.value]
           : run.pass == Pass::BackwardWeight ? none_
                                              : in_[run.stage.value];
  }

  bool ready(const ScheduledRun& run) const {
    const unsigned own = done_[of(run.stage.value, run.microbatch)];
    // A weight's gradient reads what its own stage has; no message brings it.
    if (run.pass == Pass::BackwardWeight) return (own & bit(Pass::BackwardInput)) != 0;
    const bool forward = run.pass == Pass::Forward;
    if (!forward && (own & bit(Pass::Forward)) == 0) return false;
    for (const End& end : inputs(run)) {
      if (end.same_rank) {
        if ((done_[of(end.other, run.microbatch)] & (forward ? bit(Pass::Forward) : kBackwards)) == 0) return false;
      } else if (slot_of_[message_of(end.message, run.microbatch)] == 0) {
        return false;
      }
    }
    return true;
  }

  void append(std::size_t rank, std::uint16_t run, MicrobatchId microbatch, std::uint32_t waits_for) {
    shape_.operations.push_back(
        {static_cast<std::uint16_t>(rank), run, shape_.no_message(), 0, waits_for, PipelineShape::kNowhere});
    shape_.microbatch.push_back(microbatch.value);
  }

  void run_next(std::size_t rank) {
    const ScheduledRun& run = schedule_[rank][next_[rank]++];
    std::uint32_t slot = PipelineShape::kNoWait;
    for (const End& end : inputs(run)) {
      if (end.same_rank) continue;
      // An operation waits for one slot: every further input gets an operation without a run before it.
      if (slot != PipelineShape::kNoWait) append(rank, shape_.no_run(), run.microbatch, slot);
      slot = slot_of_[message_of(end.message, run.microbatch)];
      // Each message has one reader, so its slot can be used again.
      free_slots_.push_back(slot);
    }
    append(rank, PipelineShape::run_number(run.stage.value, run.pass), run.microbatch, slot);
    unsigned char& done = done_[of(run.stage.value, run.microbatch)];
    MW_CHECK((done & bit(run.pass)) == 0, "microbatch {} of stage {} runs a pass twice", run.microbatch.value,
             run.stage.value);
    done = static_cast<unsigned char>(done | bit(run.pass));
    if (leave_ == MessagesLeave::AtOnce) {
      for (const End& end : outputs(run))
        if (!end.same_rank) post(rank, end.message ^ 1, run.microbatch);
      return;
    }
    for (const End& end : outputs(run))
      waiting_[rank].push_back({end.message ^ 1, run.microbatch, tick_of(run, after_[end.other])});
    post_in_step(rank);
  }

  // Posts the messages that are read before, or in, the tick of the rank's next run. 1F1B sends a message only then:
  // this is the order in which the lowered program posts them (core/plan/lowering/message_ticks.h).
  void post_in_step(std::size_t rank) {
    const auto& runs = schedule_[rank];
    const bool ended = next_[rank] == runs.size();
    const int tick = ended ? 0 : tick_of(runs[next_[rank]], after_[runs[next_[rank]].stage.value]);
    std::vector<Waiting>& all = waiting_[rank];
    std::size_t kept = 0;
    for (const Waiting& one : all) {
      if (ended || one.read <= tick) {
        post(rank, one.message, one.microbatch);
      } else {
        all[kept++] = one;
      }
    }
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
  }

  void post(std::size_t rank, int message, MicrobatchId microbatch) {
    // The slot that was freed last is used again first, so that few are touched.
    std::uint32_t slot = shape_.slots;
    if (free_slots_.empty()) {
      ++shape_.slots;
    } else {
      slot = free_slots_.back();
      free_slots_.pop_back();
    }
    // An operation posts at most one message, and of its own microbatch: the task graph made from this shape says which
    // microbatch a message belongs to. Any other message gets an operation without a run.
    if (shape_.operations.back().posts_to != PipelineShape::kNowhere || shape_.microbatch.back() != microbatch.value)
      append(rank, shape_.no_run(), microbatch, PipelineShape::kNoWait);
    shape_.operations.back().message = static_cast<std::uint16_t>(message);
    shape_.operations.back().posts_to = slot;
    posted_.emplace_back(message_of(message, microbatch), slot);
  }

  void find_endings() {
    IndexedVector<int, bool> seen(in_.size(), false);
    IndexedVector<int, std::size_t> last(in_.size(), 0);
    for (std::size_t o = 0; o < shape_.operations.size(); ++o) {
      PipelineShape::Operation& operation = shape_.operations[o];
      if (operation.run == shape_.no_run()) continue;
      const int stage = operation.run / 4;
      if (!seen[stage]) operation.mark |= PipelineShape::kFirst;
      seen[stage] = true;
      last[stage] = o;
    }
    for (int s = 0; s < shape_.stages; ++s) {
      shape_.operations[last[s]].mark |= PipelineShape::kLast;
      shape_.endings.push_back(s);
    }
    // In the order in which stages end: the rings of one rank's stages follow each other in it.
    std::sort(shape_.endings.begin(), shape_.endings.end(), [&](int a, int b) { return last[a] < last[b]; });
  }

  struct Waiting {
    int message;
    MicrobatchId microbatch;
    int read;  // tick
  };

  const Schedule& schedule_;
  const MessagesLeave leave_;
  const std::size_t copies_;
  const IndexedVector<int, int> rank_of_stage_, after_;  // [stage]
  PipelineShape shape_;
  IndexedVector<int, std::vector<End>> in_, out_;  // [stage]
  const std::vector<End> none_;
  std::size_t microbatches_ = 0;
  std::vector<std::size_t> next_;              // [rank] number of its next run
  std::vector<std::vector<Waiting>> waiting_;  // [rank]
  std::vector<unsigned char> done_;            // [stage, microbatch] passes
  std::vector<std::uint32_t> slot_of_;         // [message, microbatch] 0: not posted
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::pair<std::size_t, std::uint32_t>> posted_;  // in this tick
};

}  // namespace

PipelineShape pipeline_shape(const Schedule& schedule, const std::vector<int>& rank_of_stage,
                             const std::vector<PipelineTimes::Edge>& edges, MessagesLeave leave,
                             const std::vector<int>& after, int copies) {
  return ShapeBuilder(schedule, rank_of_stage, edges, leave, after, copies).build();
}

PipelineShape pipeline_shape(ScheduleKind kind, int stages, int microbatches,
                             const std::vector<PipelineTimes::Edge>& edges, int chunks) {
  const std::vector<int> after = stages_after_of(stages, edges);
  const MessagesLeave leave = kind == ScheduleKind::OneFOneB ? MessagesLeave::InStep : MessagesLeave::AtOnce;
  return pipeline_shape(make_schedule(kind, after, microbatches, chunks), ranks_of_stages(kind, stages, chunks), edges,
                        leave, after, traits_of(kind).copies);
}

std::vector<int> stages_after_of(int stages, const std::vector<PipelineTimes::Edge>& edges) {
  std::vector<std::vector<int>> feeds(static_cast<std::size_t>(stages));
  for (const auto& edge : edges) {
    MW_CHECK(0 <= edge.from && edge.from < edge.to && edge.to < stages, "stage {} of {} feeds stage {}", edge.from,
             stages, edge.to);
    feeds[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  }
  return stages_after(feeds);
}

}  // namespace meshwright
