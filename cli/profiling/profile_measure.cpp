// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/profile_measure.h"

#include <algorithm>

#include "cli/machine/other_load.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr double kCommunicationShare = 0.25;  // of a round's budget
// Everything is measured twice, half the budget apart, and the shorter median counts: another program that takes the
// cores for a few seconds spoils one round, seldom both.
constexpr int kRounds = 2;
const Seconds kLongestSample(0.005), kShortestSample(0.0002);

Measurement stored(const MeasuredTime& sampled) { return {sampled.median, sampled.spread, sampled.samples}; }

// Divides a stretch of time evenly over the things still to be measured; what one does not use goes to the others.
class Budget {
 public:
  Budget(Seconds length, std::size_t things, int samples) : end_(now() + length), left_(things), samples_(samples) {}

  [[nodiscard]] Seconds remaining() const { return end_ - now(); }
  void skip() { --left_; }

  // A first single sample tells how many more the share allows; below three the first one stands. `measure_once`
  // returns an optional MeasuredTime; nullopt: it cannot be measured.
  template <class MeasureOnce>
  std::optional<Measurement> spend(MeasureOnce measure_once) {
    const Seconds share = std::max(Seconds(0.0), remaining()) / static_cast<double>(left_);
    --left_;
    const std::optional<MeasuredTime> first =
        measure_once(MeasureOptions{.warmup = 1, .samples = 1, .min_sample = kShortestSample});
    if (!first) return std::nullopt;
    const Seconds sample = std::clamp(share / (samples_ + 2.0), kShortestSample, kLongestSample);
    const double fitting = share / std::max(first->median, sample) - 2.0;  // one warm-up, one spent
    const int samples = static_cast<int>(std::clamp(fitting, 0.0, static_cast<double>(samples_)));
    if (samples < 3) return stored(*first);
    const std::optional<MeasuredTime> more =
        measure_once(MeasureOptions{.warmup = 1, .samples = samples, .min_sample = sample});
    return stored(more ? *more : *first);
  }
  // What can always be measured.
  template <class MeasureOnce>
  Measurement spend_on(MeasureOnce measure_once) {
    return *spend([&](const MeasureOptions& options) -> std::optional<MeasuredTime> { return measure_once(options); });
  }

 private:
  Seconds end_;
  std::size_t left_;
  int samples_;
};

// A line at the beginning, then one every few seconds.
class Ticker {
 public:
  explicit Ticker(Progress& progress) : progress_(progress) {}
  void operator()(const std::string& text) {
    if (now() < next_) return;
    next_ = now() + Seconds(2.0);
    progress_(text);
  }

 private:
  Progress& progress_;
  Seconds next_{0.0};
};

bool is_to_stop(const MeasurementPlan& plan) { return plan.stop && plan.stop(); }

constexpr CollectiveKind kCollectives[] = {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                                           CollectiveKind::AllGather, CollectiveKind::AllToAll};

void measure_communication(const MeasurementPlan& plan, Measurer& measurer, Seconds length, Ticker& tell,
                           Measurements& results) {
  const std::size_t collectives = std::size(kCollectives) * plan.ranks.size() * plan.sizes_bytes.size();
  Budget budget(kCommunicationShare * length, 1 + plan.sizes_bytes.size() + collectives, plan.samples);
  tell("run overhead and transfers");
  results.run_overhead =
      budget.spend_on([&](const MeasureOptions& options) { return measurer.measure_run_overhead(options); });
  for (const std::int64_t size : plan.sizes_bytes) {
    if (is_to_stop(plan)) return;
    const Measurement time =
        budget.spend_on([&](const MeasureOptions& options) { return measurer.measure_transfer(size, options); });
    results.transfers.push_back({false, size, time});
  }
  for (const CollectiveKind kind : kCollectives)
    for (const int ranks : plan.ranks)
      for (const std::int64_t size : plan.sizes_bytes) {
        if (is_to_stop(plan)) return;
        // Every rank scatters or gathers whole elements.
        const std::int64_t divisible = (size + ranks * 8 - 1) / (ranks * 8) * (ranks * 8);
        tell(fmt::format("{} over {} ranks, {}", name_of(kind), ranks,
                         human_bytes(Bytes(static_cast<double>(divisible)))));
        const Measurement time = budget.spend_on([&](const MeasureOptions& options) {
          return measurer.measure_collective(kind, divisible, ranks, options);
        });
        results.collectives.push_back({kind, ranks, 1, divisible, time});
      }
}

// The ops come cheapest first, so the one before tells about how long the next will take.
class Foresight {
 public:
  [[nodiscard]] Seconds estimate(const OpWork& work) const {
    const bool contraction = work.flops.si() > 0.0;
    if (!last_ || contraction != (last_->flops.si() > 0.0)) return Seconds(0.0);
    const double ratio = contraction ? work.flops / last_->flops : work.bytes / last_->bytes;
    return time_ * std::max(1.0, ratio);
  }
  void learn(const OpWork& work, Seconds time) {
    last_ = work;
    time_ = time;
  }

 private:
  std::optional<OpWork> last_;
  Seconds time_{0.0};
};

// Little enough to need no share of the budget.
void measure_device(const MeasurementPlan& plan, Measurer& measurer, Measurements& results) {
  results.copy_bandwidth = measurer.measure_copy();  // lets the clocks rise
  if (const std::optional<MeasuredTime> launch =
          measurer.measure_launch({.warmup = 1, .samples = plan.samples, .min_sample = kLongestSample}))
    results.launch = stored(*launch);
}

// In the first round, what is known need not be measured, and what is measured is told.
void measure_ops(const MeasurementPlan& plan, Measurer& measurer, Seconds length, Ticker& tell, bool first,
                 Measurements& results) {
  Budget budget(length, plan.ops.size(), plan.samples);
  const Bytes most = measurer.memory_for_operands();
  Foresight foresight;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (is_to_stop(plan)) return;
    const OpToMeasure& item = plan.ops[i];
    OpProfile profile{item.work.signature, measurer.concurrency(), item.work.flops.si(), item.work.bytes.si(), {}};
    if (const auto known = plan.known.find(item.work.signature); first && known != plan.known.end()) {
      profile.time = known->second;
      results.ops.push_back({std::move(profile), item.work.kind, item.work.dtype, false});
      budget.skip();
      continue;
    }
    const bool too_large = measurer.concurrency() * item.work.bytes > most;
    const bool too_long = i > 0 && 2.0 * foresight.estimate(item.work) > budget.remaining();
    if (too_large || too_long) {
      ++(too_large ? results.left_out_for_memory : results.left_out_for_time);
      budget.skip();
      continue;
    }
    tell(fmt::format("op {}/{}: {}", i + 1, plan.ops.size(), item.work.signature));
    bool added = false;
    const std::optional<Measurement> time = budget.spend([&](const MeasureOptions& options) {
      const std::optional<MeasuredTime> sampled =
          measurer.measure_op(*item.graph, item.graph->op(item.op), item.local_sizes, options);
      added = sampled && sampled->added;
      return sampled;
    });
    if (!time) {
      ++results.left_out_for_memory;
      continue;
    }
    if (!added) foresight.learn(item.work, time->median);
    profile.time = *time;
    if (first && plan.on_op) plan.on_op(profile);
    results.ops.push_back({std::move(profile), item.work.kind, item.work.dtype, added});
  }
}

void keep_calmer(Measurement& known, const Measurement& other) {
  if (other.median < known.median) known = other;
}

// The shorter time of two rounds for each measurement; measurements that one round lacks come from the other.
void keep_calmest(Measurements& known, Measurements other) {
  keep_calmer(known.run_overhead, other.run_overhead);
  if (known.launch && other.launch) keep_calmer(*known.launch, *other.launch);
  if (known.copy_bandwidth) known.copy_bandwidth = std::max(known.copy_bandwidth, other.copy_bandwidth);
  for (std::size_t i = 0; i < known.transfers.size(); ++i)
    keep_calmer(known.transfers[i].time, other.transfers[i].time);
  for (std::size_t i = 0; i < known.collectives.size(); ++i)
    keep_calmer(known.collectives[i].time, other.collectives[i].time);
  for (auto& op : other.ops) {
    const auto same = std::find_if(known.ops.begin(), known.ops.end(),
                                   [&](const auto& k) { return k.profile.signature == op.profile.signature; });
    if (same == known.ops.end())
      known.ops.push_back(std::move(op));
    else
      keep_calmer(same->profile.time, op.profile.time);
  }
  known.left_out_for_time = std::min(known.left_out_for_time, other.left_out_for_time);
}

}  // namespace

std::optional<Measurements> measure(const MeasurementPlan& plan, Measurer& measurer, Progress& progress) {
  Ticker tell(progress);
  const OtherLoad others;
  const Seconds end = now() + plan.budget;
  std::optional<Measurements> calmest;
  for (int round = 0; round < kRounds; ++round) {
    Measurements results;
    const Seconds round_end = now() + (end - now()) / static_cast<double>(kRounds - round);
    measure_device(plan, measurer, results);
    measure_communication(plan, measurer, round_end - now(), tell, results);
    measure_ops(plan, measurer, round_end - now(), tell, round == 0, results);
    if (is_to_stop(plan)) return std::nullopt;
    if (calmest)
      keep_calmest(*calmest, std::move(results));
    else
      calmest = std::move(results);
  }
  calmest->other_load_cores = others.cores();
  return calmest;
}

}  // namespace meshwright
