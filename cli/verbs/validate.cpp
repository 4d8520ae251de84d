// SPDX-License-Identifier: Apache-2.0
// meshwright validate: predictions held against published runs.
#include <CLI/CLI.hpp>

#include "cli/documents/figures/errors.h"
#include "cli/documents/figures/forecast.h"
#include "cli/documents/pages/step_page.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "report/charts/document_charts.h"
#include "report/page/document_pages.h"
#include "validation/validate.h"

namespace meshwright {

namespace {

struct ValidateOptions {
  std::vector<std::string> rows;
  std::string by = "source", software, threads, html, svg;
  bool json = false, each = false;
};

struct Validation {
  PublishedRuns read;
  std::vector<WrongRow> wrong;  // by themselves, or as plans
  std::vector<ValidatedRun> results;
};

Validation run_validation(const ValidateOptions& options) {
  Validation validation;
  validation.read = read_published_runs(options.rows);
  validation.wrong = validation.read.wrong;
  Progress progress;
  const std::size_t runs = validation.read.runs.size();
  validation.results = predict_runs(validation.read.runs, options.software, threads_from_text(options.threads),
                                    [&](std::size_t done) { progress("runs predicted", done, runs); });
  for (const ValidatedRun& result : validation.results)
    if (result.wrong) validation.wrong.push_back({result.run->id, result.run->place, result.reason});
  return validation;
}

SummaryKey key_of(const ValidateOptions& options) {
  require(options.by == "source" || options.by == "group", "--by: '{}' is neither source nor group.", options.by);
  return options.by == "group" ? SummaryKey::Group : SummaryKey::Source;
}

std::string covered_text(const ValidationSummary& summary) {
  return summary.step.rows == 0 ? "-" : fmt::format("{:.0f}", 100.0 * summary.covered / summary.step.rows);
}

std::string each_text(const Validation& validation) {
  TextTable table({{"row", ""},
                   {"software", ""},
                   {"predicted", "(s)"},
                   {"published", "(s)"},
                   {"error", "(%)"},
                   {"90 % from", "(s)"},
                   {"to", "(s)"},
                   {"predicted", "(GiB)"},
                   {"published", "(GiB)"}});
  for (const ValidatedRun& result : validation.results) {
    if (!result.step) continue;
    const PublishedRun& run = *result.run;
    const std::string error = run.step ? fmt::format("{:+.1f}", 100 * (*result.step / *run.step - 1)) : "-";
    table.add_row({run.id, result.software, fmt::format("{:.4g}", result.step->si()),
                   run.step ? fmt::format("{:.4g}", run.step->si()) : "-", error,
                   fmt::format("{:.4g}", result.interval->low.si()), fmt::format("{:.4g}", result.interval->high.si()),
                   in_gibibytes(*result.memory), run.memory ? in_gibibytes(*run.memory) : "-"});
  }
  return table.to_text();
}

std::string validation_document(const Validation& validation, const ValidateOptions& options) {
  TextTable table({{options.by, ""},
                   {"rows", ""},
                   {"step time", "(%)"},
                   {"covered", "(%)"},
                   {"rows", ""},
                   {"memory", "(%)"},
                   {"fit", ""}});
  for (const ValidationSummary& summary : summarize(validation.results, key_of(options))) {
    if (summary.step.rows + summary.memory.rows == 0) continue;
    table.add_row({summary.name, fmt::format("{}", summary.step.rows), errors_with_bias(summary.step),
                   covered_text(summary), fmt::format("{}", summary.memory.rows), errors_with_bias(summary.memory),
                   fmt::format("{} / {} / {}", summary.fits.right, summary.fits.wrongly_too_large,
                               summary.fits.wrongly_fitting)});
  }
  TextTable ranking({{"source", ""}, {"groups", ""}, {"Spearman", ""}, {"regret", "(%)"}, {"largest", "(%)"}});
  for (const RankingSummary& summary : rank_within_groups(validation.results))
    ranking.add_row({summary.name, fmt::format("{}", summary.groups), fmt::format("{:.2f}", summary.spearman),
                     fmt::format("{:.1f}", 100 * summary.mean_regret),
                     fmt::format("{:.1f}", 100 * summary.max_regret)});
  std::map<std::string, int> reasons;
  for (const ValidatedRun& result : validation.results)
    if (!result.step && !result.wrong) ++reasons[result.reason];
  std::string left_out;
  for (const auto& [reason, rows] : reasons) left_out += fmt::format("# left out: {} rows: {}\n", rows, reason);
  for (const WrongRow& row : validation.wrong) left_out += fmt::format("# wrong: {}\n", wrong_row_text(row));
  return fmt::format("# meshwright {}  validate  {} rows\n", MESHWRIGHT_VERSION, validation.read.runs.size()) +
         (options.each ? each_text(validation) : "") +
         "# errors: mean / median / 90th percentile / bias of predicted over published, less 1; covered: in the "
         "interval of 90 %; fit: right / wrongly too large / wrongly fitting\n" +
         table.to_text() +
         "# plans of one group: rank correlation, and what choosing the plan predicted fastest loses\n" +
         ranking.to_text() + left_out;
}

Json validation_json(const Validation& validation, const ValidateOptions& options) {
  const auto or_null = [](const auto& value) { return value ? Json(value->si()) : Json(nullptr); };
  Json rows = Json::array(), summaries = Json::array(), ranking = Json::array();
  for (const ValidatedRun& result : validation.results) {
    const PublishedRun& run = *result.run;
    rows.push_back({{"id", run.id},
                    {"source", run.source},
                    {"group", run.group},
                    {"software", result.software},
                    {"predicted_step_time_s", or_null(result.step)},
                    {"interval_s", interval_json(result.interval)},
                    {"published_step_time_s", or_null(run.step)},
                    {"predicted_bytes", or_null(result.memory)},
                    {"memory_interval_bytes", interval_json(result.memory_interval)},
                    {"published_bytes", or_null(run.memory)},
                    {"fits", result.fits ? Json(*result.fits) : Json(nullptr)},
                    {"fit_probability", result.fit_probability ? Json(*result.fit_probability) : Json(nullptr)},
                    {"assumed", result.assumed},
                    {"reason", result.reason}});
  }
  for (const ValidationSummary& summary : summarize(validation.results, key_of(options)))
    summaries.push_back({{"name", summary.name},
                         {"step_time", errors_json(summary.step)},
                         {"covered", summary.covered},
                         {"memory", errors_json(summary.memory)},
                         {"fits",
                          {{"right", summary.fits.right},
                           {"wrongly_too_large", summary.fits.wrongly_too_large},
                           {"wrongly_fitting", summary.fits.wrongly_fitting}}}});
  for (const RankingSummary& summary : rank_within_groups(validation.results))
    ranking.push_back({{"source", summary.name},
                       {"groups", summary.groups},
                       {"spearman", summary.spearman},
                       {"mean_regret", summary.mean_regret},
                       {"max_regret", summary.max_regret}});
  return {{"program", "meshwright"},
          {"version", MESHWRIGHT_VERSION},
          {"verb", "validate"},
          {"files", options.rows},
          {"rows", std::move(rows)},
          {"summaries", std::move(summaries)},
          {"ranking", std::move(ranking)},
          {"wrong", wrong_rows_json(validation.wrong)}};
}

void validate(const ValidateOptions& options, const std::string& command_line) {
  (void)key_of(options);  // before minutes of work
  expect_writable(options.html, options.rows);
  expect_writable(options.svg, options.rows);
  const Validation validation = run_validation(options);
  const Json json = validation_json(validation, options);
  if (!options.svg.empty()) write_file(options.svg, validation_chart(json).file());
  if (!options.html.empty()) {
    Page page = validation_page(json);
    add_provenance(page, command_line, {});
    write_file(options.html, to_html(page));
  }
  if (options.json)
    print(json);
  else
    print(validation_document(validation, options));
  require(validation.wrong.empty(), "{} of {} rows are wrong; the first: {}", validation.wrong.size(),
          validation.read.runs.size() + validation.read.wrong.size(), first_wrong_row(validation.wrong));
}

}  // namespace

void add_validate(CLI::App& app, Context& context) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* verb = app.add_subcommand("validate", "Hold predictions against published runs.");
  verb->add_option("rows", options->rows, "CSV files of published runs (docs/files.md), plain or gzip")->required();
  verb->add_option("--by", options->by, "summarise by source or by group")->capture_default_str();
  verb->add_option("--software", options->software,
                   "profile of the software that ran all of them (default: that of each row's framework)");
  verb->add_option("--threads", options->threads, "threads (default: all cores); the result does not depend on it");
  verb->add_flag("--each", options->each, "print every row");
  verb->add_option("--html", options->html,
                   "write a report to this HTML file: one file that opens from disk, with predicted against published "
                   "times, errors and "
                   "all runs");
  verb->add_option("--svg", options->svg, "draw predicted against published step times as an SVG picture in this file");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer("Example:\n  meshwright validate runs.csv --by source");
  verb->callback(
      [options, &context] { context.action = [&context, options] { validate(*options, context.command_line); }; });
}

}  // namespace meshwright
