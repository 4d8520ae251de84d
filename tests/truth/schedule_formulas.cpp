// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/schedule_formulas.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

void check_shape(ScheduleKind kind, int ranks, int chunks, int microbatches) {
  const ScheduleTraits traits = traits_of(kind);
  MW_CHECK(ranks >= 1 && microbatches >= 1, "{} ranks and {} microbatches", ranks, microbatches);
  MW_CHECK(traits.chunks ? chunks == *traits.chunks : chunks >= 2, "{} chunks under {}", chunks, name_of(kind));
}

// The bubble and the rank bubble, in picoseconds.
struct Bubbles {
  std::int64_t step, rank;
};

std::optional<Bubbles> bubbles(ScheduleKind kind, int ranks, int microbatches, const PassTimes& times) {
  const std::int64_t p = ranks, m = microbatches;
  const std::int64_t f = times.forward.ps, i = times.backward_input.ps, w = times.backward_weight.ps;
  switch (kind) {
    case ScheduleKind::Inference:
      return Bubbles{(p - 1) * f, 0};
    case ScheduleKind::OneFOneB:
    case ScheduleKind::GPipe:
    case ScheduleKind::EagerOneFOneB:
      return Bubbles{(p - 1) * (f + i + w), (p - 1) * (f + i + w)};
    case ScheduleKind::Interleaved:
      if (m % p != 0) return std::nullopt;
      return Bubbles{(p - 1) * (f + i + w), (p - 1) * (f + i + w)};
    case ScheduleKind::ZeroBubbleH1:
      if (m < p) return std::nullopt;
      return Bubbles{(p - 1) * std::max({f, i, f + i - w}), (p - 1) * std::max(i, f + i - w)};
    case ScheduleKind::ZeroBubbleH2:
      if (m < 2 * p - 1) return std::nullopt;
      return Bubbles{(p - 1) * std::max({f, i - f, f + i - 2 * w}),
                     (p - 1) * std::max({std::int64_t{0}, i - f, f + i - 2 * w})};
    case ScheduleKind::ZeroBubbleV:
      if (m < 2 * p - 1 || f != i || w > f) return std::nullopt;
      return Bubbles{(p - 1) * std::max(f, 2 * (f - w)), 2 * (p - 1) * (f - w)};
    case ScheduleKind::VHalf: {
      if (m < 2 * p - 1 || f != i || f != w) return std::nullopt;
      const std::int64_t passes = p == 1 ? 0 : p % 2 == 0 ? 3 * p - 5 : (13 * (p - 1) - 2) / 4;
      return Bubbles{passes * f, p == 2 ? 0 : passes * f};
    }
    case ScheduleKind::DualPipeV:
      if (m < 2 * p || w > i || i > f || f > i + w) return std::nullopt;
      return Bubbles{(p - 1) * (f + i - w), (p - 1) * (f + i - w)};
    case ScheduleKind::DualPipe:
      if (m < 2 * p || w > i || i > f || f > i + w) return std::nullopt;
      return Bubbles{(p / 2 - 1) * (f + i - w), (p / 2 - 1) * (f + i - w)};
    case ScheduleKind::Custom:
      break;  // no rule
  }
  throw InternalError("a schedule without a rule for its bubble");
}

}  // namespace

std::optional<SimTime> bubble(ScheduleKind kind, int ranks, int chunks, int microbatches, const PassTimes& times) {
  check_shape(kind, ranks, chunks, microbatches);
  const std::optional<Bubbles> found = bubbles(kind, ranks, microbatches, times);
  if (!found) return std::nullopt;
  return SimTime{found->step};
}

SimTime published_dualpipe_bubble(int ranks, SimTime forward_and_backward, const PassTimes& times) {
  const std::int64_t backward = times.backward_input.ps + times.backward_weight.ps;
  return SimTime{(ranks - 1) * (forward_and_backward.ps + backward - 3 * times.backward_weight.ps)};
}

std::optional<SimTime> rank_bubble(ScheduleKind kind, int ranks, int chunks, int microbatches, const PassTimes& times) {
  check_shape(kind, ranks, chunks, microbatches);
  const std::optional<Bubbles> found = bubbles(kind, ranks, microbatches, times);
  if (!found) return std::nullopt;
  return SimTime{found->rank};
}

std::optional<std::vector<int>> in_flight_of_ranks(ScheduleKind kind, int ranks, int chunks, int microbatches) {
  check_shape(kind, ranks, chunks, microbatches);
  if (kind == ScheduleKind::Interleaved && microbatches % ranks != 0) return std::nullopt;
  if (kind == ScheduleKind::VHalf && microbatches < 2 * ranks - 1) return std::nullopt;
  std::vector<int> most;
  for (int r = 0; r < ranks; ++r) {
    switch (kind) {
      case ScheduleKind::Interleaved:
        most.push_back(std::min(chunks * microbatches, 2 * (ranks - 1 - r) + (chunks - 1) * ranks + 1));
        break;
      case ScheduleKind::ZeroBubbleV:
        most.push_back(std::min({2 * ranks, microbatches + r + 1, 2 * microbatches}));
        break;
      case ScheduleKind::DualPipeV:
        most.push_back(std::min({2 * ranks + 1, microbatches + r + 1, 2 * microbatches}));
        break;
      case ScheduleKind::DualPipe:
        most.push_back(ranks + 1);
        break;
      case ScheduleKind::VHalf:
        most.push_back(ranks + (ranks % 2 == 0 ? 2 : 1));
        break;
      default:
        most.push_back(in_flight(kind, ranks - 1 - r, microbatches, ranks - 1));
    }
  }
  return most;
}

}  // namespace meshwright
