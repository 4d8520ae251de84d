// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/step/reuse.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/documents/figures/report.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/plan/ranks.h"
#include "core/schedule/check_schedule.h"
#include "core/schedule/schedule_csv.h"

namespace meshwright {

namespace {

constexpr long kMaxSamples = 1L << 40;
constexpr long kMaxMicrobatches = 1L << 16;
constexpr long kMaxTokens = 10'000'000;

std::optional<std::int64_t> given(const std::string& text, const char* flag, long high) {
  return text.empty() ? std::nullopt : std::optional<std::int64_t>(count_from_text(text, flag, high));
}

std::string samples(const Plan& plan) { return fmt::format("batch {}", plan.training.batch); }
std::string tokens(const Plan& plan) { return fmt::format("seq {}", plan.model.seq); }
std::string parts(const Plan& plan) { return fmt::format("{} micro-batches", plan.training.microbatches); }
std::string schedule(const Plan& plan) { return fmt::format("schedule {}", name_of(plan.schedule)); }
std::string cluster(const Plan& plan) { return fmt::format("cluster {}", plan.cluster.name); }

}  // namespace

void add_reuse_options(CLI::App& verb, ReuseOptions& options, bool cluster) {
  verb.add_option("--batch", options.batch, "samples per step (default: the plan's)");
  verb.add_option("--seq", options.seq, "sequence length in tokens (default: the plan's)");
  verb.add_option("--micro-batches", options.micro_batches, "number of micro-batches (default: the plan's)");
  verb.add_option("--schedule", options.schedule,
                  "schedule (default: the plan's); a plan with one stage per rank takes 1f1b, gpipe, eager-1f1b, zb-h1 "
                  "or zb-h2; one with two stages per rank in a V takes zb-v, v-half or dualpipe-v");
  verb.add_option("--schedule-csv", options.schedule_csv,
                  "schedule from this CSV file: a row per rank, a cell per tick, in PyTorch's format");
  if (cluster)
    verb.add_option("--cluster", options.cluster,
                    "another cluster of the same shape, as a preset or a file (default: the plan's)");
}

namespace {

// As the plan would run it: with as many micro-batches as it is used with.
Schedule schedule_of_file(const std::string& file, const Plan& made, const PlanChanges& changes) {
  Schedule runs = schedule_from_csv(read_file(file), file);
  Plan used = made;
  used.training.microbatches = changes.microbatches.value_or(made.training.microbatches);
  const int microbatches = shape_of(runs).microbatches;
  require(microbatches == used.training.microbatches,
          "{} schedules {} micro-batches, but the plan has {}; give a schedule for as many, or --micro-batches {}.",
          file, microbatches, used.training.microbatches, microbatches);
  const std::optional<std::string> wrong = wrong_runs(runs, used, file);
  require(!wrong, "{}; give a schedule for the stages of this plan.", wrong.value_or(""));
  return runs;
}

}  // namespace

Plan reuse_plan(const Plan& made, const std::string& path, const ReuseOptions& options) {
  PlanChanges changes;
  changes.batch = given(options.batch, "--batch", kMaxSamples);
  changes.seq = given(options.seq, "--seq", kMaxTokens);
  changes.microbatches = given(options.micro_batches, "--micro-batches", kMaxMicrobatches);
  if (!options.schedule.empty()) {
    changes.schedule = at_place("--schedule", [&] { return schedule_from_name(options.schedule); });
    PlanChanges alone;
    alone.schedule = changes.schedule;
    at_place("--schedule", [&] { return adapt_plan(made, alone); });
  }
  if (!options.schedule_csv.empty()) {
    require(options.schedule.empty(), "--schedule-csv: --schedule names a schedule too; leave one of them out.");
    changes.runs = schedule_of_file(options.schedule_csv, made, changes);
  }
  if (!options.cluster.empty()) {
    changes.cluster = at_place("--cluster", [&] { return find_cluster(options.cluster); });
    PlanChanges alone;
    alone.cluster = changes.cluster;
    at_place("--cluster", [&] { return adapt_plan(made, alone); });
  }
  // What the plan has already is no change: its own prediction holds.
  if (changes.batch == made.training.batch) changes.batch.reset();
  if (changes.seq == made.model.seq) changes.seq.reset();
  if (changes.microbatches == made.training.microbatches) changes.microbatches.reset();
  if (changes.schedule == made.schedule) changes.schedule.reset();
  if (changes.cluster && to_json(*changes.cluster) == to_json(made.cluster)) changes.cluster.reset();
  if (!changes.any()) return made;
  return at_place(path, [&] { return adapt_soundly(made, changes); });
}

bool Reuse::all_fit() const {
  return std::all_of(fits.begin(), fits.end(), [](const StageFit& fit) { return fit.fits(); });
}

Reuse reuse_of(const Plan& made, const Plan& used, const LoadedPlan& loaded, const CostModel& costs) {
  Reuse reuse;
  reuse.made_for = {samples(made), parts(made)};
  if (made.model.seq > 0) reuse.made_for.push_back(tokens(made));
  for (const auto text : {samples, parts, tokens})
    if (text(made) != text(used)) reuse.used_with.push_back(text(used));
  const auto add = [&](const auto& text) {
    reuse.made_for.push_back(text(made));
    reuse.used_with.push_back(text(used));
  };
  if (made.schedule != used.schedule || made.runs != used.runs) add(schedule);
  if (to_json(made.cluster) != to_json(used.cluster)) add(cluster);
  if (!reuse.changed()) return reuse;
  reuse.fits = stage_fits(used, loaded.program, loaded.check);
  if (!reuse.all_fit()) reuse.microbatches_that_fit = fewest_microbatches_that_fit(used, costs);
  return reuse;
}

std::string to_text(const Reuse& reuse, const std::string& verb) {
  if (!reuse.changed()) return "";
  std::string text =
      fmt::format("# plan made for {}, {} with {}\n", join(reuse.made_for, ", "), verb, join(reuse.used_with, ", "));
  TextTable table({{"stage", ""}, {"needs", "(GiB)"}, {"usable", "(GiB)"}, {"in-flight", ""}, {"fits", ""}});
  for (std::size_t s = 0; s < reuse.fits.size(); ++s) {
    const StageFit& fit = reuse.fits[s];
    table.add_row({fmt::format("{}", s), in_gibibytes(fit.needs), in_gibibytes(fit.usable),
                   fmt::format("{}", fit.in_flight), fit.fits() ? "yes" : "no"});
  }
  text += table.to_text();
  if (reuse.all_fit()) return text;
  return text + (reuse.microbatches_that_fit
                     ? fmt::format("# it fits in memory with --micro-batches {}\n", *reuse.microbatches_that_fit)
                     : "# it does not fit with any larger number of micro-batches\n");
}

void add_reuse(Json& json, const Plan& made, const Reuse& reuse) {
  if (!reuse.changed()) return;
  Json& before = json["made_for"] = {{"batch", made.training.batch},
                                     {"num_micro_batches", made.training.microbatches},
                                     {"schedule", name_of(made.schedule)},
                                     {"cluster", made.cluster.name}};
  if (made.model.seq > 0) before["seq"] = made.model.seq;
  Json& fits = json["fit"] = Json::array();
  for (std::size_t s = 0; s < reuse.fits.size(); ++s)
    fits.push_back({{"stage", s},
                    {"needs_bytes", bytes_json(reuse.fits[s].needs)},
                    {"usable_bytes", bytes_json(reuse.fits[s].usable)},
                    {"in_flight", reuse.fits[s].in_flight},
                    {"fits", reuse.fits[s].fits()}});
  if (!reuse.all_fit())
    json["fits_with_micro_batches"] = reuse.microbatches_that_fit ? Json(*reuse.microbatches_that_fit) : Json(nullptr);
}

}  // namespace meshwright
