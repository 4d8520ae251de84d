// SPDX-License-Identifier: Apache-2.0
// meshwright calibrate: constants of the cost model's terms from measured rows, with their error on rows kept back.
#include <CLI/CLI.hpp>
#include <limits>

#include "cli/documents/figures/errors.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/verbs/calibrate_software.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "costmodel/calibration/fit_kernels.h"

namespace meshwright {

namespace {

constexpr const char* kKernelTerms = "matmul,attention,network,memory";

struct CalibrateOptions {
  std::vector<std::string> rows, logs;
  std::string fit, holdout = "0.3", seed = "1", output;
  std::string software, own_runs, threads;
  bool json = false;
};

// Rows of all files, and what was not used of them.
struct CalibrationRows {
  KernelRows read;
  std::vector<std::string> files;
};

CalibrationRows read_rows(const std::vector<std::string>& files) {
  CalibrationRows all;
  all.files = files;
  for (const std::string& file : files) {
    KernelRows some = read_kernel_rows(CsvTable::read(file));
    std::move(some.rows.begin(), some.rows.end(), std::back_inserter(all.read.rows));
    std::move(some.rejected.begin(), some.rejected.end(), std::back_inserter(all.read.rejected));
    std::move(some.unused.begin(), some.unused.end(), std::back_inserter(all.read.unused));
  }
  return all;
}

double holdout_of(const CalibrateOptions& options) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return number_from_text(options.holdout, "--holdout", -kAny, kAny, "a number; give a share such as 0.3");
}

std::uint64_t seed_of(const CalibrateOptions& options) {
  return static_cast<std::uint64_t>(parse_integer(options.seed, "--seed", 0, 1L << 53));
}

KernelFitOptions fit_options(const CalibrateOptions& options) {
  KernelFitOptions fit;
  fit.terms = split(options.fit.empty() ? kKernelTerms : options.fit, ',');
  fit.holdout = holdout_of(options);
  fit.seed = seed_of(options);
  return fit;
}

SoftwareCalibration software_calibration(const CalibrateOptions& options) {
  return {.rows = options.rows,
          .software = options.software,
          .fit = options.fit.empty() ? std::vector<std::string>{} : split(options.fit, ','),
          .holdout = holdout_of(options),
          .seed = seed_of(options),
          .own_runs = options.own_runs,
          .logs = options.logs,
          .threads = threads_from_text(options.threads),
          .output = options.output,
          .json = options.json};
}

std::string constants_text(const std::vector<FittedConstant>& constants) {
  std::vector<std::string> parts;
  for (const FittedConstant& constant : constants)
    parts.push_back(
        fmt::format("{} {:.4g}{}", constant.name, constant.value, constant.at_bound ? " (at its bound)" : ""));
  return join(parts, ", ");
}

std::string errors_text(const ErrorSummary& errors) {
  if (errors.rows == 0) return "-";
  return fmt::format("{:.1f} / {:.1f} / {:.1f}", 100 * errors.median, 100 * errors.mean, 100 * errors.p90);
}

std::string reasons_text(const char* what, const std::vector<RejectedRow>& rows) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    text += fmt::format("# {}: {}: {}\n", what, rows[i].place, rows[i].reason);
  if (rows.size() > kShown) text += fmt::format("# {}: {} more\n", what, rows.size() - kShown);
  return text;
}

std::string device_table(const KernelFits& fits) {
  TextTable table({{"term", ""}, {"device", ""}, {"kept back", ""}, {"error", "(%)"}, {"near", "(%)"}});
  for (const DeviceErrors& errors : fits.by_device)
    table.add_row({errors.term, errors.device, fmt::format("{}", errors.held_back.rows), errors_text(errors.held_back),
                   errors_text(errors.held_back_near)});
  return table.to_text();
}

std::string document(const CalibrationRows& rows, const KernelFits& fits, const KernelFitOptions& options) {
  TextTable table({{"term", ""},
                   {"device", ""},
                   {"of", ""},
                   {"rows", ""},
                   {"error", "(%)"},
                   {"kept back", ""},
                   {"error", "(%)"},
                   {"near", "(%)"},
                   {"constants", ""}});
  for (const KernelFit& fit : fits.fits)
    table.add_row({fit.term, fit.device, fit.what, fmt::format("{}", fit.fitted.rows), errors_text(fit.fitted),
                   fmt::format("{}", fit.held_back.rows), errors_text(fit.held_back), errors_text(fit.held_back_near),
                   constants_text(fit.constants)});
  return fmt::format("# meshwright {}  calibrate  {} rows of {} files  holdout {}  seed {}\n", MESHWRIGHT_VERSION,
                     rows.read.rows.size(), rows.files.size(), options.holdout, options.seed) +
         "# errors: median / mean / 90th percentile of |predicted / measured - 1|; near: of the rows kept back, with "
         "the fitted rows near in shape\n" +
         table.to_text() + device_table(fits) + reasons_text("wrong", rows.read.rejected) +
         reasons_text("wrong", fits.impossible) + reasons_text("not used", rows.read.unused) +
         reasons_text("not fitted", fits.unused);
}

Json to_json(const std::vector<RejectedRow>& rows) {
  Json list = Json::array();
  for (const RejectedRow& row : rows) list.push_back({{"place", row.place}, {"reason", row.reason}});
  return list;
}

Json to_json(const CalibrationRows& rows, const KernelFits& fits, const KernelFitOptions& options) {
  Json sets = Json::array();
  for (const KernelFit& fit : fits.fits) {
    Json constants = Json::object(), sensitivities = Json::object();
    for (const FittedConstant& constant : fit.constants) {
      constants[constant.name] = constant.value;
      sensitivities[constant.name] = constant.sensitivity;
    }
    sets.push_back({{"term", fit.term},
                    {"device", fit.device},
                    {"of", fit.what},
                    {"constants", std::move(constants)},
                    {"sensitivities", std::move(sensitivities)},
                    {"fitted", errors_json(fit.fitted)},
                    {"kept_back", errors_json(fit.held_back)},
                    {"kept_back_near", errors_json(fit.held_back_near)}});
  }
  Json devices = Json::array();
  for (const DeviceErrors& errors : fits.by_device)
    devices.push_back({{"term", errors.term},
                       {"device", errors.device},
                       {"kept_back", errors_json(errors.held_back)},
                       {"kept_back_near", errors_json(errors.held_back_near)}});
  return {{"program", "meshwright"},
          {"version", MESHWRIGHT_VERSION},
          {"verb", "calibrate"},
          {"format", "meshwright-constants 1"},
          {"files", rows.files},
          {"terms", options.terms},
          {"holdout", options.holdout},
          {"seed", options.seed},
          {"sets", std::move(sets)},
          {"by_device", std::move(devices)},
          {"wrong", to_json(rows.read.rejected)},
          {"impossible", to_json(fits.impossible)},
          {"not_used", rows.read.unused.size()},
          {"not_fitted", to_json(fits.unused)}};
}

void calibrate(const CalibrateOptions& options) {
  require(!options.rows.empty() || !options.own_runs.empty(), "no rows were given; give a CSV file, or --from-run.");
  require(options.logs.empty() || !options.own_runs.empty(), "--log needs --from-run, whose runs the logs are of.");
  std::vector<std::string> inputs = options.rows;
  inputs.insert(inputs.end(), options.logs.begin(), options.logs.end());
  if (!options.own_runs.empty()) inputs.push_back(options.own_runs);
  expect_writable(options.output, inputs);
  if (!options.own_runs.empty() || holds_runs(options.rows.front())) {
    calibrate_software(software_calibration(options));
    return;
  }
  require(options.software.empty(), "--software needs rows of runs; {} has rows of kernels.", options.rows.front());
  const KernelFitOptions fit = fit_options(options);
  const CalibrationRows rows = read_rows(options.rows);
  const KernelFits fits = fit_kernels(rows.read.rows, fit);
  const Json json = to_json(rows, fits, fit);
  if (!options.output.empty()) write_file(options.output, json_text(json, 1) + "\n");
  if (options.json)
    print(json);
  else
    print(document(rows, fits, fit));
  // What could be done is done and printed; that some rows were wrong still shows in the exit code.
  const std::vector<RejectedRow>& wrong = rows.read.rejected;
  require(wrong.empty(), "{} of {} rows are wrong; the first: {}", wrong.size(), wrong.size() + rows.read.rows.size(),
          wrong.empty() ? "" : wrong.front().reason);
  const std::vector<RejectedRow>& impossible = fits.impossible;
  require(impossible.empty(), "{} sets are left out; the first: {}: {}.", impossible.size(),
          impossible.empty() ? "" : impossible.front().place, impossible.empty() ? "" : impossible.front().reason);
}

}  // namespace

void add_calibrate(CLI::App& app, Context& context) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* verb = app.add_subcommand(
      "calibrate", "Fit the constants of the cost model to measured kernels, or a software's profile to runs.");
  verb->add_option(
      "rows", options->rows,
      "CSV files of measured kernels or of runs (docs/files.md), plain or gzip; with --from-run, runs that "
      "the correction is judged on");
  verb->add_option("--software", options->software,
                   "profile that is fitted to runs: a name, or a file of one (with --from-run, default: of the "
                   "framework)");
  verb->add_option("--from-run", options->own_runs,
                   "CSV file with a few short runs of your own job: corrects at most three numbers of the profile");
  verb->add_option("--log", options->logs,
                   "log of Megatron-LM or torchtitan with the step time of a row of --from-run; one for each row");
  verb->add_option("--fit", options->fit,
                   "separated by commas: of kernels, terms (default: matmul,attention,network,memory); of runs, "
                   "'launch', 'steps' (default) or numbers of the profile");
  verb->add_option("--holdout", options->holdout, "share of the shapes or runs kept back to judge the fit, 0 to 0.9")
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "chooses what is kept back")->capture_default_str();
  verb->add_option("--threads", options->threads,
                   "threads that predict runs (default: all cores); the result does not depend on it");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->add_option("-o,--output", options->output,
                   "write the constants, or the profile, with their errors to this file, as JSON");
  verb->footer(
      "Examples:\n  meshwright calibrate kernels.csv.gz --fit matmul --holdout 0.3 -o constants.json\n  meshwright "
      "calibrate runs.csv --software megatron --fit launch,steps -o profile.json\n  meshwright calibrate --from-run "
      "mine.csv --log one.log --log two.log --log three.log -o profile.json");
  verb->callback([options, &context] { context.action = [options] { calibrate(*options); }; });
}

}  // namespace meshwright
