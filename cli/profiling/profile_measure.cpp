// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/profile_measure.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/machine/other_load.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr double kCommunicationShare = 0.25;  // of a round's budget
// Everything is measured three times, a third of the budget apart, and the middle median counts: another program that
// takes the cores for a few seconds spoils one round, seldom two. The shortest would be that of a moment in which the
// machine is faster than in a step.
constexpr int kRounds = 3;
const Seconds kLongestSample(0.002), kShortestSample(0.0002);

Measurement stored(const MeasuredTime& sampled) { return {sampled.median, sampled.spread, sampled.samples}; }

// Divides a stretch of time evenly over the things still to be measured; what one does not use goes to the others.
class Budget {
 public:
  Budget(Seconds length, std::size_t things, const MeasurementPlan& plan)
      : end_(now() + length), left_(things), samples_(plan.samples), step_(plan.step) {}

  [[nodiscard]] Seconds remaining() const { return end_ - now(); }
  void skip() { --left_; }

  // A first single sample tells how many more the share allows; below three the first one stands. `measure_once`
  // returns an optional MeasuredTime; nullopt: it cannot be measured.
  template <class MeasureOnce>
  std::optional<Measurement> spend(MeasureOnce measure_once) {
    const Seconds until = now() + std::max(Seconds(0.0), remaining()) / static_cast<double>(left_);
    --left_;
    const std::optional<MeasuredTime> first =
        measure_once(MeasureOptions{.warmup = 1, .samples = 1, .min_sample = kShortestSample, .step = step_});
    if (!first) return std::nullopt;
    const Seconds share = until - now();  // what making the operands has left of it
    const Seconds sample = std::clamp(share / (samples_ + 2.0), kShortestSample, kLongestSample);
    const double fitting = share / std::max(first->median, sample) - 2.0;  // a warm-up, and one to count repetitions
    const int samples = static_cast<int>(std::clamp(fitting, 0.0, static_cast<double>(samples_)));
    if (samples < 3) return stored(*first);
    const std::optional<MeasuredTime> more =
        measure_once(MeasureOptions{.warmup = 1, .samples = samples, .min_sample = sample, .step = step_});
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
  Bytes step_;
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
  Budget budget(kCommunicationShare * length, 1 + plan.sizes_bytes.size() + collectives, plan);
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

// On any processor: where its operands lie makes little difference, and filling memory with them costs a share of the
// budget.
bool computes_longer_than_it_reads(const OpWork& work) {
  constexpr double kFlopsPerByte = 16.0;
  return work.flops.si() > kFlopsPerByte * work.bytes.si();
}

// In the first round, what is known need not be measured, and what is measured is told.
void measure_ops(const MeasurementPlan& plan, Measurer& measurer, Seconds length, Ticker& tell, bool first,
                 Measurements& results) {
  Budget budget(length, plan.ops.size(), plan);
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
    const std::optional<Measurement> time = budget.spend([&](MeasureOptions options) {
      if (computes_longer_than_it_reads(item.work)) options.step = MeasureOptions().step;
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

// The median; the shorter of two. REQUIRES: at least one.
Measurement middle_of(std::vector<Measurement> times) {
  std::sort(times.begin(), times.end(), [](const Measurement& a, const Measurement& b) { return a.median < b.median; });
  return times[(times.size() - 1) / 2];
}

// The middle time of all rounds for each measurement; what one round lacks comes from the others.
Measurements middle_of(const std::vector<Measurements>& rounds) {
  const auto middle = [&](auto time_of) {
    std::vector<Measurement> times;
    for (const Measurements& round : rounds) times.push_back(time_of(round));
    return middle_of(std::move(times));
  };
  Measurements result = rounds.front();
  result.run_overhead = middle([](const Measurements& round) { return round.run_overhead; });
  if (result.launch) result.launch = middle([](const Measurements& round) { return *round.launch; });
  for (std::size_t i = 0; i < result.transfers.size(); ++i)
    result.transfers[i].time = middle([i](const Measurements& round) { return round.transfers[i].time; });
  for (std::size_t i = 0; i < result.collectives.size(); ++i)
    result.collectives[i].time = middle([i](const Measurements& round) { return round.collectives[i].time; });
  std::map<std::string, std::vector<Measurement>> times;  // of ops, by signature
  result.ops.clear();
  for (const Measurements& round : rounds) {
    if (round.copy_bandwidth) result.copy_bandwidth = std::max(result.copy_bandwidth, round.copy_bandwidth);
    result.left_out_for_time = std::min(result.left_out_for_time, round.left_out_for_time);
    for (const MeasuredOp& op : round.ops) {
      std::vector<Measurement>& of_op = times[op.profile.signature];
      if (of_op.empty()) result.ops.push_back(op);
      of_op.push_back(op.profile.time);
    }
  }
  for (MeasuredOp& op : result.ops) op.profile.time = middle_of(times.at(op.profile.signature));
  return result;
}

}  // namespace

std::optional<Measurements> measure(const MeasurementPlan& plan, Measurer& measurer, Progress& progress) {
  Ticker tell(progress);
  const OtherLoad others;
  const Seconds end = now() + plan.budget;
  std::vector<Measurements> rounds;
  for (int round = 0; round < kRounds; ++round) {
    Measurements results;
    const Seconds round_end = now() + (end - now()) / static_cast<double>(kRounds - round);
    measure_device(plan, measurer, results);
    measure_communication(plan, measurer, round_end - now(), tell, results);
    measure_ops(plan, measurer, round_end - now(), tell, round == 0, results);
    if (is_to_stop(plan)) return std::nullopt;
    rounds.push_back(std::move(results));
  }
  Measurements middle = middle_of(rounds);
  middle.other_load_cores = others.cores();
  return middle;
}

}  // namespace meshwright
