// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/all_degrees.h"

#include <algorithm>

#include "core/base/divisors.h"
#include "core/planner/method/stage_layout.h"

namespace meshwright {

namespace {

constexpr int kMaxChunks = 16;
constexpr int kMaxContexts = 64;

// Degrees are counted as int.
std::vector<int> small_divisors(std::int64_t number, std::int64_t most) {
  const std::vector<std::int64_t> all = divisors(number, most);
  return {all.begin(), all.end()};
}

class Enumeration {
 public:
  Enumeration(const Framework& framework, const PlanRequest& request)
      : framework_(framework), request_(request), shape_(shape_of(request.model)) {}

  AllDegrees all() && {
    const HostGroup& hosts = request_.cluster.only();
    for (const int tp : small_divisors(request_.cluster.devices(), hosts.devices_per_host))
      for (const int cp : small_divisors(request_.cluster.devices() / tp, shape_.seq > 0 ? kMaxContexts : 1))
        for (const int pp :
             small_divisors(request_.cluster.devices() / (tp * cp), std::max<std::int64_t>(1, shape_.blocks))) {
          Degrees degrees{.dp = request_.cluster.devices() / (tp * cp * pp), .tp = tp, .pp = pp, .cp = cp};
          degrees.sequence_parallel = framework_.sequences != Framework::Sequences::Never && tp > 1;
          for (const ContextExchange exchange : framework_.context_exchanges) {
            // A whole sequence has one form.
            if (cp == 1 && exchange != framework_.context_exchanges.front()) continue;
            degrees.context = exchange;
            with_experts(degrees);
          }
        }
    return std::move(found_);
  }

 private:
  void with_experts(Degrees degrees) {
    with_batch(degrees);
    for (const int ep : small_divisors(shape_.experts, shape_.experts)) {
      if (ep == 1) continue;
      degrees.ep = ep;
      for (const bool whole : {false, true}) {
        // With tp of 1 every expert is whole.
        if (whole && (degrees.tp == 1 || !framework_.whole_experts)) continue;
        degrees.whole_experts = whole;
        for (const bool folded : {false, true}) {
          if (folded && (degrees.cp == 1 || !framework_.whole_experts)) continue;
          degrees.folded_experts = folded;
          with_batch(degrees);
        }
      }
    }
  }

  void with_batch(Degrees degrees) {
    const std::int64_t batch = request_.training.batch;
    if (batch % degrees.dp != 0) return refuse("dp does not divide the batch");
    const std::int64_t samples = batch / degrees.dp;  // of a replica
    for (const std::int64_t micro_batch : divisors(samples, kMaxMicroBatch)) {
      degrees.micro_batch = micro_batch;
      degrees.micro_batches = samples / micro_batch;
      const auto* given = std::get_if<std::int64_t>(&request_.search.microbatches);
      if (given != nullptr && degrees.micro_batches != *given) continue;
      with_schedule(degrees);
    }
  }

  void with_schedule(Degrees degrees) {
    for (const ScheduleKind schedule : framework_.schedules) {
      // As in the free search, dualpipe-v only by name.
      if (request_.any_schedule() ? schedule == ScheduleKind::DualPipeV : schedule != request_.first_schedule())
        continue;
      // Without stages there is one order only: a micro-batch's backward follows its forward.
      if (degrees.pp == 1 && schedule != framework_.schedules.front()) continue;
      degrees.schedule = degrees.pp == 1 ? ScheduleKind::OneFOneB : schedule;
      const auto fixed = traits_of(schedule).chunks;
      if (fixed) {
        degrees.chunks = *fixed;
        with_states(with_place_of_further(degrees));
        continue;
      }
      for (const int chunks : chunk_counts(degrees.pp)) {
        const auto* given = std::get_if<int>(&request_.search.chunks);
        if (chunks < 2 || (given != nullptr && chunks != *given)) continue;
        degrees.chunks = chunks;
        with_states(with_place_of_further(degrees));
      }
    }
  }

  // Modules for further tokens are beside the loss, where the framework parts the blocks alone.
  [[nodiscard]] Degrees with_place_of_further(Degrees degrees) const {
    const std::int64_t stages = degrees.stages();
    const bool parted = degrees.chunks == 1 || shape_.blocks % stages == 0 || (shape_.blocks + 2) % stages == 0;
    if (shape_.further > 0 && degrees.pp > 1 && framework_.splits_ends && parted && shape_.blocks >= stages)
      degrees.split =
          with_further_modules({}, shape_.blocks, degrees.pp, degrees.chunks, static_cast<int>(shape_.further));
    return degrees;
  }

  // Those that part the blocks, or the blocks with the embedding and the loss, into equal stages.
  [[nodiscard]] std::vector<int> chunk_counts(int pp) const {
    std::vector<int> counts;
    for (const std::int64_t parted : {shape_.blocks, shape_.blocks + 2})
      for (const int count : small_divisors(parted / pp, kMaxChunks)) counts.push_back(count);
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
  }

  void with_states(Degrees degrees) {
    const auto& levels = degrees.pp > 1 ? framework_.zero_in_pipes : framework_.zero;
    for (const int zero : levels)
      for (const Recompute recompute : framework_.recompute) {
        if (zero > 0 && degrees.dp * degrees.cp == 1) continue;
        if (!request_.any_recompute() && recompute != std::get<Recompute>(request_.search.recompute)) continue;
        degrees.zero = zero;
        degrees.recompute = recompute;
        note(degrees);
      }
  }

  void note(const Degrees& degrees) {
    ++found_.tried;
    const std::vector<std::string> broken = broken_rules(framework_, shape_, degrees);
    if (broken.empty())
      found_.legal.push_back(degrees);
    else
      ++found_.broken[broken.front()];
  }

  void refuse(const char* why) {
    ++found_.tried;
    ++found_.broken[why];
  }

  const Framework& framework_;
  const PlanRequest& request_;
  const ModelShape shape_;
  AllDegrees found_;
};

}  // namespace

AllDegrees all_degrees(const Framework& framework, const PlanRequest& request) {
  return Enumeration(framework, request).all();
}

}  // namespace meshwright
