// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs/calibrate_software.h"

#include <set>

#include "cli/documents/figures/errors.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "costmodel/sheets/data_sheet.h"
#include "validation/fit_software.h"
#include "validation/run_log.h"

namespace meshwright {

namespace {

// Three short runs determine no more than three numbers, and these are where machines differ most.
constexpr int kMaxNumbersOfOwnRuns = 3;
// A few runs share errors that other runs do not have: each counts for less than one of many.
constexpr double kCornerOfOwnRuns = 0.1;
const std::vector<std::string> kNumbersOfOwnRuns = {"sustained", "dispatch_us", "network_share", "collective_factor"};

void read_logs(const std::vector<std::string>& logs, std::vector<PublishedRun>& runs) {
  require(logs.empty() || logs.size() == runs.size(), "--log: {} logs for {} runs; give one for each, in their order.",
          logs.size(), runs.size());
  for (std::size_t i = 0; i < logs.size(); ++i) runs[i].step = step_of_log(read_file(logs[i]), runs[i], logs[i]);
}

// What is fitted, and what else it is judged on.
struct CalibrationRuns {
  PublishedRuns read;   // the runs fitted
  PublishedRuns other;  // with own runs
  PreparedRuns fitted, judged;
  [[nodiscard]] std::vector<WrongRow> wrong() const {
    std::vector<WrongRow> all;
    for (const auto* some : {&read.wrong, &other.wrong, &fitted.wrong, &judged.wrong})
      all.insert(all.end(), some->begin(), some->end());
    return all;
  }
};

Json record_json(const ErrorsOfFit& errors) {
  return {{"before", errors_json(errors.before)}, {"after", errors_json(errors.after)}, {"covered", errors.covered}};
}

// Where the numbers come from; it travels with the profile.
Json record_of(const SoftwareFit& fit, const SoftwareCalibration& calibration, const CalibrationRuns& runs) {
  std::set<std::string> generations;
  for (const PreparedRun& run : runs.fitted.runs)
    if (const DataSheet* sheet = find_data_sheet(run.request.plan.cluster.only().device.name))
      generations.insert(sheet->generation);
  Json numbers = Json::object(), not_fitted = Json::object();
  for (const FittedNumber& number : fit.numbers)
    numbers[number.key] = {{"before", number.start},
                           {"after", number.value},
                           {"sensitivity", number.sensitivity},
                           {"at_bound", number.at_bound}};
  for (const auto& [key, reason] : fit.not_fitted) not_fitted[key] = reason;
  return {{"version", MESHWRIGHT_VERSION},     {"seed", calibration.seed},
          {"holdout", calibration.holdout},    {"numbers", std::move(numbers)},
          {"generations", generations},        {"not_fitted", std::move(not_fitted)},
          {"fitted", record_json(fit.fitted)}, {"kept_back", record_json(fit.kept_back)}};
}

std::string fit_document(const SoftwareFit& fit, const SoftwareCalibration& calibration, const CalibrationRuns& runs) {
  TextTable numbers({{"number", ""}, {"before", ""}, {"after", ""}, {"sensitivity", ""}});
  for (const FittedNumber& number : fit.numbers)
    numbers.add_row({number.key, fmt::format("{:.4g}", number.start),
                     fmt::format("{:.4g}{}", number.value, number.at_bound ? " (at its bound)" : ""),
                     fmt::format("{:.3f}", number.sensitivity)});
  TextTable errors({{"", ""}, {"rows", ""}, {"before", "(%)"}, {"after", "(%)"}, {"covered", "(%)"}});
  const bool own = !calibration.own_runs.empty();
  const auto add = [&](const char* name, const ErrorsOfFit& of) {
    const int rows = of.after.rows;
    if (rows > 0)
      errors.add_row({name, fmt::format("{}", rows), errors_with_bias(of.before), errors_with_bias(of.after),
                      fmt::format("{:.0f}", 100.0 * of.covered / rows)});
  };
  add(own ? "own runs" : "fitted", fit.fitted);
  add(own ? "other rows" : "kept back", fit.kept_back);
  std::string notes;
  for (const auto& [key, reason] : fit.not_fitted) notes += fmt::format("# not fitted: {}: {}\n", key, reason);
  std::map<std::string, int> left_out;
  for (const PreparedRuns* some : {&runs.fitted, &runs.judged})
    for (const auto& [run, reason] : some->left_out) ++left_out[reason];
  for (const auto& [reason, rows] : left_out) notes += fmt::format("# left out: {} rows: {}\n", rows, reason);
  for (const WrongRow& row : runs.wrong()) notes += fmt::format("# wrong: {}\n", wrong_row_text(row));
  return fmt::format("# meshwright {}  calibrate  software {}  holdout {}  seed {}\n", MESHWRIGHT_VERSION,
                     fit.profile.name, calibration.holdout, calibration.seed) +
         "# sensitivity: change of log(step) with log(number); errors: mean / median / 90th percentile / bias of "
         "predicted over published, less 1; covered: in the interval of 90 % after the fit\n" +
         numbers.to_text() + errors.to_text() +
         fmt::format(
             "# spread {:.3f}: deviation of the errors' logarithms beyond what each run's own uncertain parts "
             "explain\n",
             fit.profile.spread) +
         notes;
}

SoftwareProfile profile_of(const SoftwareCalibration& calibration, const CalibrationRuns& runs) {
  if (!calibration.software.empty()) return find_software_profile(calibration.software);
  require(!runs.fitted.runs.empty(), "no row can be predicted; give --software and rows of runs with their times.");
  const std::string name = runs.fitted.runs.front().request.software.name;
  for (const PreparedRun& run : runs.fitted.runs)
    require(run.request.software.name == name, "the rows are of '{}' and of '{}'; give --software.", name,
            run.request.software.name);
  return find_software_profile(name);
}

}  // namespace

bool holds_runs(const std::string& file) {
  const CsvTable table = CsvTable::read(file);
  return table.has("row_id") && table.has("tp");
}

void calibrate_software(const SoftwareCalibration& calibration) {
  const bool own = !calibration.own_runs.empty();
  CalibrationRuns runs;
  SoftwareFitOptions options{.numbers = calibration.fit,
                             .holdout = calibration.holdout,
                             .seed = calibration.seed,
                             .threads = calibration.threads};
  if (own) {
    runs.read = read_published_runs(std::vector{calibration.own_runs});
    read_logs(calibration.logs, runs.read.runs);
    runs.other = read_published_runs(calibration.rows);
    runs.judged = prepare_runs(runs.other.runs, calibration.software, calibration.threads);
    options.max_numbers = kMaxNumbersOfOwnRuns;
    options.corner = kCornerOfOwnRuns;
    options.only_if_contradicted = true;
    options.holdout = 0.0;
    if (options.numbers.empty()) options.numbers = kNumbersOfOwnRuns;
  } else {
    require(!calibration.software.empty(), "rows of runs were given; say with --software whose profile is fitted.");
    runs.read = read_published_runs(calibration.rows);
    if (options.numbers.empty()) options.numbers = {"steps"};
  }
  runs.fitted = prepare_runs(runs.read.runs, calibration.software, calibration.threads);
  const SoftwareProfile start = profile_of(calibration, runs);
  SoftwareFit fit = fit_software(runs.fitted.runs, start, options);
  if (own) fit.kept_back = errors_on(runs.judged.runs, start, fit, calibration.threads);
  Json profile = to_json(fit.profile);
  profile["fitted"] = record_of(fit, calibration, runs);
  if (!calibration.output.empty()) write_file(calibration.output, json_text(profile, 1) + "\n");
  const std::vector<WrongRow> wrong = runs.wrong();
  if (calibration.json) {
    print(Json{{"program", "meshwright"},
               {"version", MESHWRIGHT_VERSION},
               {"verb", "calibrate"},
               {"files", calibration.rows},
               {"profile", std::move(profile)},
               {"wrong", wrong_rows_json(wrong)}});
  } else {
    print(fit_document(fit, calibration, runs));
  }
  require(wrong.empty(), "{} of {} rows are wrong; the first: {}", wrong.size(),
          runs.read.runs.size() + runs.other.runs.size() + runs.read.wrong.size() + runs.other.wrong.size(),
          first_wrong_row(wrong));
}

}  // namespace meshwright
