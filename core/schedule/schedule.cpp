// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/schedule/schedule_rules.h"

namespace meshwright {

namespace {

constexpr ScheduleKind kKinds[] = {
    ScheduleKind::OneFOneB,    ScheduleKind::GPipe,        ScheduleKind::Inference,    ScheduleKind::EagerOneFOneB,
    ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleH2, ScheduleKind::ZeroBubbleV,
    ScheduleKind::VHalf,       ScheduleKind::DualPipeV,    ScheduleKind::DualPipe,
};

// Forwards that have run before the one that alternates with the first backward.
int forwards_ahead(ScheduleKind kind, int stages_after, int microbatches) {
  switch (kind) {
    case ScheduleKind::OneFOneB:
    case ScheduleKind::ZeroBubbleH1:
      // PipeDream-Flush (D. Narayanan et al., arXiv:2006.09503): one forward for each stage after this one.
      return std::min(stages_after, microbatches);
    case ScheduleKind::EagerOneFOneB:
    case ScheduleKind::ZeroBubbleH2:
      // The smaller of 2 stages_after and microbatches, without an overflow.
      return stages_after < microbatches - stages_after ? 2 * stages_after : microbatches;
    default:
      return microbatches;
  }
}

// In a zero-bubble schedule every rank may keep as many microbatches as the first one has forwards ahead: what the
// later ones do not need for forwards lets their weight gradients wait until nothing else is left to run.
std::vector<int> weight_gradients_late(ScheduleKind kind, const std::vector<int>& stages_after) {
  const int deepest = *std::max_element(stages_after.begin(), stages_after.end());
  std::vector<int> late;
  for (const int after : stages_after) late.push_back((kind == ScheduleKind::ZeroBubbleH2 ? 2 : 1) * (deepest - after));
  return late;
}

Schedule forwards_only(int stages, int microbatches) {
  Schedule schedule(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s)
    for (int m = 0; m < microbatches; ++m)
      schedule[static_cast<std::size_t>(s)].push_back({Pass::Forward, MicrobatchId(m), StageId(s)});
  return schedule;
}

void check_chunks(ScheduleKind kind, int stages, int chunks) {
  const ScheduleTraits traits = traits_of(kind);
  MW_CHECK(traits.chunks ? chunks == *traits.chunks : chunks >= 2, "{} chunks under {}", chunks, name_of(kind));
  MW_CHECK(stages >= 1 && stages % chunks == 0, "{} stages, {} of them on each rank", stages, chunks);
}

}  // namespace

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::OneFOneB:
      return "1f1b";
    case ScheduleKind::GPipe:
      return "gpipe";
    case ScheduleKind::Inference:
      return "inference";
    case ScheduleKind::EagerOneFOneB:
      return "eager-1f1b";
    case ScheduleKind::Interleaved:
      return "interleaved";
    case ScheduleKind::ZeroBubbleH1:
      return "zb-h1";
    case ScheduleKind::ZeroBubbleH2:
      return "zb-h2";
    case ScheduleKind::ZeroBubbleV:
      return "zb-v";
    case ScheduleKind::VHalf:
      return "v-half";
    case ScheduleKind::DualPipeV:
      return "dualpipe-v";
    case ScheduleKind::DualPipe:
      return "dualpipe";
    case ScheduleKind::Custom:
      return "custom";
  }
  throw InternalError("a schedule without a name");
}

ScheduleKind schedule_from_name(const std::string& name) {
  std::vector<std::string> known;
  for (const ScheduleKind kind : kKinds) {
    if (name == name_of(kind)) return kind;
    known.emplace_back(name_of(kind));
  }
  throw InputError(unknown_name("schedule", name, known, "Give one of these."));
}

std::vector<ScheduleKind> all_schedules() { return {std::begin(kKinds), std::end(kKinds)}; }

ScheduleTraits traits_of(ScheduleKind kind) {
  ScheduleTraits traits;
  switch (kind) {
    case ScheduleKind::OneFOneB:
    case ScheduleKind::GPipe:
    case ScheduleKind::EagerOneFOneB:
      break;
    case ScheduleKind::Inference:
      traits.trains = false;
      break;
    case ScheduleKind::Interleaved:
    case ScheduleKind::Custom:
      traits.line = true;
      traits.chunks.reset();
      break;
    case ScheduleKind::ZeroBubbleH1:
    case ScheduleKind::ZeroBubbleH2:
      traits.splits_backward = true;
      break;
    case ScheduleKind::ZeroBubbleV:
    case ScheduleKind::VHalf:
    case ScheduleKind::DualPipeV:
    case ScheduleKind::DualPipe:
      traits.splits_backward = true;
      traits.line = true;
      traits.chunks = 2;
      traits.copies = kind == ScheduleKind::DualPipe ? 2 : 1;
      break;
  }
  return traits;
}

std::optional<std::string> unmet_by(ScheduleKind kind, int ranks, std::int64_t microbatches) {
  if (kind != ScheduleKind::DualPipe) return std::nullopt;
  if (ranks % 2 != 0) return fmt::format("an even number of ranks, and there are {}", ranks);
  if (microbatches % 2 != 0) return fmt::format("an even number of micro-batches, and there are {}", microbatches);
  if (microbatches < 2 * std::int64_t{ranks})
    return fmt::format("at least two micro-batches for each of {} ranks, and there are {}", ranks, microbatches);
  return std::nullopt;
}

Schedule make_schedule(ScheduleKind kind, const std::vector<int>& stages_after, int microbatches, int chunks) {
  MW_CHECK(!stages_after.empty() && microbatches >= 1, "a schedule of {} stages and {} microbatches",
           stages_after.size(), microbatches);
  const int stages = static_cast<int>(stages_after.size());
  const ScheduleTraits traits = traits_of(kind);
  check_chunks(kind, stages, chunks);
  if (traits.line)
    MW_CHECK(stages_after == line_of(stages, traits.copies), "{} of stages that form no line", name_of(kind));
  if (const auto unmet = unmet_by(kind, stages / chunks, microbatches))
    throw InternalError(fmt::format("{} needs {}", name_of(kind), *unmet));

  std::vector<int> ahead;
  for (const int after : stages_after) {
    MW_CHECK(after >= 0, "{} stages after one", after);
    ahead.push_back(forwards_ahead(kind, after, microbatches));
  }
  switch (kind) {
    case ScheduleKind::Inference:
      return forwards_only(stages, microbatches);
    case ScheduleKind::OneFOneB:
    case ScheduleKind::GPipe:
    case ScheduleKind::EagerOneFOneB:
      return alternating(ahead, microbatches);
    case ScheduleKind::ZeroBubbleH1:
    case ScheduleKind::ZeroBubbleH2:
      return alternating_split(ahead, weight_gradients_late(kind, stages_after), microbatches);
    case ScheduleKind::Interleaved:
      return interleaved(stages / chunks, chunks, microbatches);
    case ScheduleKind::ZeroBubbleV:
      return zero_bubble_v(stages / chunks, microbatches);
    case ScheduleKind::VHalf:
      return v_half(stages / chunks, microbatches);
    case ScheduleKind::DualPipeV:
      return dual_pipe_v(stages / chunks, microbatches);
    case ScheduleKind::DualPipe:
      return dual_pipe(stages / chunks, microbatches);
    case ScheduleKind::Custom:
      break;  // given, not made
  }
  throw InternalError("a schedule without a rule");
}

Schedule alternating(const std::vector<int>& ahead, int microbatches) {
  Schedule schedule;
  for (const int before : ahead) {
    const StageId stage(static_cast<int>(schedule.size()));
    std::vector<ScheduledRun>& runs = schedule.emplace_back();
    for (int m = 0; m < before; ++m) runs.push_back({Pass::Forward, MicrobatchId(m), stage});
    // Backwards run in microbatch order under every schedule, so gradients are summed in one order and the weights come
    // out the same to the last bit.
    for (int m = 0; m < microbatches; ++m) {
      if (before + m < microbatches) runs.push_back({Pass::Forward, MicrobatchId(before + m), stage});
      runs.push_back({Pass::Backward, MicrobatchId(m), stage});
    }
  }
  return schedule;
}

std::vector<int> line_of(int stages, int copies) {
  MW_CHECK(stages >= 1 && copies >= 1 && stages % copies == 0, "{} lines of {} stages", copies, stages);
  const int each = stages / copies;
  std::vector<int> after;
  for (int s = 0; s < stages; ++s) after.push_back(each - 1 - s % each);
  return after;
}

Feeds line_feeds(int stages, int copies) {
  const std::vector<int> after = line_of(stages, copies);
  Feeds feeds(after.size());
  for (std::size_t s = 0; s < feeds.size(); ++s)
    if (after[s] > 0) feeds[s] = {static_cast<int>(s) + 1};
  return feeds;
}

std::vector<int> ranks_of_stages(ScheduleKind kind, int stages, int chunks) {
  check_chunks(kind, stages, chunks);
  const int ranks = stages / chunks;
  const bool turns = kind == ScheduleKind::ZeroBubbleV || kind == ScheduleKind::VHalf ||
                     kind == ScheduleKind::DualPipeV || kind == ScheduleKind::DualPipe;
  std::vector<int> rank_of;
  // In a V the second chunks come back over the ranks.
  for (int s = 0; s < stages; ++s) rank_of.push_back(turns && s >= ranks ? stages - 1 - s : s % ranks);
  return rank_of;
}

MicrobatchRange microbatches_of(ScheduleKind kind, int stage, int stages, int microbatches) {
  const int copies = traits_of(kind).copies, count = microbatches / copies;
  return {stage / (stages / copies) * count, count};
}

int in_flight(ScheduleKind kind, int stages_after, int microbatches, std::optional<int> deepest) {
  MW_CHECK(stages_after >= 0, "{} stages after one", stages_after);
  MW_CHECK(!traits_of(kind).line, "what is in flight under {} depends on the rank: see max_in_flight", name_of(kind));
  if (kind == ScheduleKind::Inference) return 1;
  // The weight gradients of a zero-bubble schedule wait as long as a stage with the most after it would keep.
  int after = stages_after;
  if (traits_of(kind).splits_backward) {
    MW_CHECK(deepest && *deepest >= stages_after, "{} needs the most stages after any stage", name_of(kind));
    after = *deepest;
  }
  const int ahead = forwards_ahead(kind, after, microbatches);
  // The forward that alternates with the first backward is in flight as well.
  return ahead < microbatches ? ahead + 1 : microbatches;
}

std::vector<int> max_in_flight(const Schedule& schedule) {
  std::vector<int> largest_of_ranks;
  for (const auto& runs : schedule) {
    int now = 0, largest = 0;
    bool trains = false;
    for (const ScheduledRun& run : runs) {
      if (run.pass == Pass::Forward) largest = std::max(largest, ++now);
      // Activations stay until the weights' gradients have read them.
      if (run.pass == Pass::Backward || run.pass == Pass::BackwardWeight) --now;
      trains = trains || run.pass != Pass::Forward;
    }
    // Forwards alone keep nothing.
    largest_of_ranks.push_back(trains ? largest : std::min(largest, 1));
  }
  return largest_of_ranks;
}

}  // namespace meshwright
