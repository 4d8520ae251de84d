// SPDX-License-Identifier: Apache-2.0
#include "launch/advise/advice.h"

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "launch/read/launch_reading.h"

namespace meshwright {

namespace {

using Mask = unsigned;
constexpr LaunchProperty kProperties[] = {
    LaunchProperty::Tensor,  LaunchProperty::Pipeline,  LaunchProperty::Stages,
    LaunchProperty::Context, LaunchProperty::Expert,    LaunchProperty::Sequence,
    LaunchProperty::Zero,    LaunchProperty::Recompute, LaunchProperty::MicroBatch};
Mask bit(LaunchProperty property) { return 1u << static_cast<unsigned>(property); }

void take(LaunchProperty property, Degrees& into, const Degrees& from) {
  switch (property) {
    case LaunchProperty::Tensor:
      into.tp = from.tp;
      return;
    case LaunchProperty::Pipeline:
      into.pp = from.pp;
      return;
    case LaunchProperty::Stages:
      into.chunks = from.chunks;
      into.schedule = from.schedule;
      into.split = from.split;
      return;
    case LaunchProperty::Context:
      into.cp = from.cp;
      into.context = from.context;
      return;
    case LaunchProperty::Expert:
      into.ep = from.ep;
      into.whole_experts = from.whole_experts;
      into.folded_experts = from.folded_experts;
      return;
    case LaunchProperty::Sequence:
      into.sequence_parallel = from.sequence_parallel;
      return;
    case LaunchProperty::Zero:
      into.zero = from.zero;
      return;
    case LaunchProperty::Recompute:
      into.recompute = from.recompute;
      into.recompute_modules = from.recompute_modules;
      return;
    case LaunchProperty::MicroBatch:
      into.micro_batch = from.micro_batch;
      return;
  }
}

class Adviser {
 public:
  Adviser(const LaunchSetup& now, const Degrees& best, const Framework& framework, const LaunchJudge& judge)
      : now_(now), own_(degrees_with_layout(now)), best_(best), framework_(framework), judge_(judge) {
    for (const LaunchProperty property : kProperties)
      if (differs(property)) all_ |= bit(property);
  }

  Advice advise() && {
    Advice advice;
    advice.now = judge_(now_);
    std::vector<LaunchChange> changes;
    for (const LaunchProperty property : kProperties)
      if ((all_ & bit(property)) != 0) changes.push_back(change(property));
    // Those that gain the most by themselves first; of equal ones in the order of the properties.
    std::stable_sort(changes.begin(), changes.end(), [](const LaunchChange& a, const LaunchChange& b) {
      const auto rank = [](const LaunchChange& c) { return c.alone.step ? c.alone.step->si() : 1e300; };
      return std::pair(!c_fits(a), rank(a)) < std::pair(!c_fits(b), rank(b));
    });
    Mask done = 0;
    while (done != all_) {
      const Mask next = next_group(changes, done);
      AdviceRow row;
      for (const LaunchChange& one : changes)
        if ((next & bit(one.property)) != 0) row.changes.push_back(one);
      say(row, with(done), with(done | next));
      done |= next;
      row.after = outcome(done);
      advice.rows.push_back(std::move(row));
    }
    return advice;
  }

 private:
  static bool c_fits(const LaunchChange& c) { return c.alone.fits(); }

  [[nodiscard]] bool differs(LaunchProperty property) const {
    if (property == LaunchProperty::Zero && now_.shard) return true;
    if (property == LaunchProperty::MicroBatch && accumulates()) return own_.micro_batches != best_.micro_batches;
    if (property == LaunchProperty::Recompute && !now_.recompute_layers.empty()) return true;
    if (property == LaunchProperty::Context && own_.cp == 1 && best_.cp == 1) return false;
    if (property == LaunchProperty::Expert && own_.ep == 1 && best_.ep == 1) return false;
    Degrees changed = own_;
    take(property, changed, best_);
    return changed != own_;
  }

  // The job with these properties of the best one; dp and the micro-batches follow, and what has no meaning is as if
  // it were not given.
  [[nodiscard]] LaunchSetup with(Mask mask) const {
    LaunchSetup setup = now_;
    Degrees& d = setup.degrees = own_;
    for (const LaunchProperty property : kProperties)
      if ((mask & bit(property)) != 0) take(property, d, best_);
    if (mask != 0) setup.stage_blocks.clear();
    if ((mask & bit(LaunchProperty::Zero)) != 0) setup.shard.reset();
    if ((mask & bit(LaunchProperty::Recompute)) != 0) setup.recompute_layers.clear();
    const std::int64_t taken = std::int64_t{d.tp} * d.pp * d.cp;
    d.dp = taken > 0 && setup.devices() % taken == 0 ? static_cast<int>(setup.devices() / taken) : 0;
    if (d.pp == 1 && own_.pp != 1) {
      d.chunks = 1;
      d.split = {};
      d.schedule = best_.pp == 1 ? best_.schedule : ScheduleKind::OneFOneB;
    }
    if (d.tp == 1) d.sequence_parallel = false;
    if (framework_.sequences == Framework::Sequences::Always) d.sequence_parallel = d.tp > 1;
    if (d.ep == 1) d.whole_experts = d.folded_experts = false;
    if (std::int64_t{d.dp} * d.cp <= 1) d.zero = 0;
    if (accumulates()) {
      d.micro_batches = (mask & bit(LaunchProperty::MicroBatch)) != 0 ? best_.micro_batches : own_.micro_batches;
      const std::int64_t pieces = d.micro_batches * d.dp;
      d.micro_batch = pieces > 0 && setup.global_batch() % pieces == 0 ? setup.global_batch() / pieces : 0;
    }
    const std::int64_t samples = d.micro_batch * d.dp;
    d.micro_batches = samples > 0 && setup.global_batch() % samples == 0 ? setup.global_batch() / samples : 0;
    return setup;
  }

  [[nodiscard]] bool launchable(Mask mask) const {
    const LaunchSetup setup = with(mask);
    const Degrees& d = setup.degrees;
    if (d.dp < 1 || d.micro_batches < 1) return false;
    if (mask == all_) return true;
    return broken_rules(framework_, shape_of(setup.model), d).empty();
  }

  LaunchOutcome outcome(Mask mask) {
    const auto known = outcomes_.find(mask);
    if (known != outcomes_.end()) return known->second;
    return outcomes_.emplace(mask, judge_(with(mask))).first->second;
  }

  LaunchChange change(LaunchProperty property) {
    LaunchChange made{property, "", ""};
    made.launchable = launchable(bit(property));
    if (made.launchable) made.alone = outcome(bit(property));
    made.launchable = made.alone.step.has_value();
    return made;
  }

  // The changes of a row in the framework's words, as its file has to change from the row before. Where the batch of a
  // step is a product of settings (samples at once, how often they are accumulated), other degrees change these, too.
  void say(AdviceRow& row, const LaunchSetup& from_setup, const LaunchSetup& to_setup) const {
    const Degrees &before = from_setup.degrees, &after = to_setup.degrees;
    const std::string& words = now_.dialect.empty() ? now_.target : now_.dialect;
    const auto add = [](LaunchChange& change, const std::string& from, const std::string& to) {
      if (from == to) return;
      change.from += (change.from.empty() || from.empty() ? "" : ", ") + from;
      change.to += (change.to.empty() || to.empty() ? "" : ", ") + to;
    };
    const bool tells_stages = words == "torchtitan";
    const std::string cut_from = tells_stages ? torchtitan_stages_text(from_setup) : "";
    const std::string cut_to = tells_stages ? torchtitan_stages_text(to_setup) : "";
    bool names_batch = false;
    for (LaunchChange& change : row.changes) {
      const LaunchProperty property = change.property;
      names_batch = names_batch || property == LaunchProperty::MicroBatch;
      const bool own_words = property == LaunchProperty::Recompute && !now_.own_recompute.empty();
      const std::string from = own_words ? now_.own_recompute : setting_text(words, property, before);
      const std::string to = setting_text(words, property, after);
      const bool cuts = property == LaunchProperty::Stages && cut_from != cut_to;
      // What has no meaning there, as ZeRO of one replica, is said all the same.
      if (from != to || cuts)
        add(change, from, to);
      else
        add(change, setting_text(words, property, own_), setting_text(words, property, best_));
      if (property == LaunchProperty::Zero && now_.shard && words != "maxtext")
        add(change, groups_text(words, before.dp * before.cp, *now_.shard),
            groups_text(words, after.dp * after.cp, after.dp * after.cp));
    }
    add(row.changes.back(), cut_from, cut_to);
    if (words == "maxtext")
      add(row.changes.front(), maxtext_axes_text(from_setup, to_setup), maxtext_axes_text(to_setup, from_setup));
    if (!names_batch)
      add(row.changes.back(), setting_text(words, LaunchProperty::MicroBatch, before),
          setting_text(words, LaunchProperty::MicroBatch, after));
    drop_wordless(row);
  }

  // A change without words follows from those beside it, as experts that lie over the ranks of a context.
  static void drop_wordless(AdviceRow& row) {
    const auto wordless = [](const LaunchChange& change) { return change.from.empty() && change.to.empty(); };
    if (!std::all_of(row.changes.begin(), row.changes.end(), wordless)) std::erase_if(row.changes, wordless);
  }

  // The program is told how often it accumulates, and not how many samples it takes at once.
  [[nodiscard]] bool accumulates() const {
    return (now_.target == "maxtext" && own_.pp == 1 && best_.pp == 1) || now_.dialect == "accelerate-megatron";
  }

  // The smallest group that can be launched. Several of one size: the one after which the step is shortest, among those
  // that fit if any does; the first of equal ones.
  Mask next_group(const std::vector<LaunchChange>& changes, Mask done) {
    std::vector<Mask> left;
    for (const LaunchChange& one : changes)
      if ((done & bit(one.property)) == 0) left.push_back(bit(one.property));
    for (std::size_t size = 1; size <= left.size(); ++size) {
      Mask best = 0;
      LaunchOutcome of_best;
      for (Mask picked = 1; picked < 1u << left.size(); ++picked) {
        if (static_cast<std::size_t>(__builtin_popcount(picked)) != size) continue;
        Mask group = 0;
        for (std::size_t i = 0; i < left.size(); ++i)
          if ((picked >> i & 1u) != 0) group |= left[i];
        if (!launchable(done | group)) continue;
        const LaunchOutcome after = outcome(done | group);
        if (!after.step) continue;
        const bool better = best == 0 || (after.fits() && !of_best.fits()) ||
                            (after.fits() == of_best.fits() && *after.step < *of_best.step);
        if (!better) continue;
        best = group;
        of_best = after;
      }
      if (best != 0) return best;
    }
    return all_ & ~done;
  }

  const LaunchSetup& now_;
  const Degrees own_;
  const Degrees& best_;
  const Framework& framework_;
  const LaunchJudge& judge_;
  Mask all_ = 0;
  std::map<Mask, LaunchOutcome> outcomes_;
};

}  // namespace

Advice advise(const LaunchSetup& now, const Degrees& best, const Framework& framework, const LaunchJudge& judge) {
  return Adviser(now, best, framework, judge).advise();
}

}  // namespace meshwright
