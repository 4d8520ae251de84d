// SPDX-License-Identifier: Apache-2.0
// meshwright solve: the intra-operator solver alone, on a problem of the contest's format.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/solver/portfolio/portfolio.h"
#include "core/solver/problem/problem_file.h"

namespace meshwright {

namespace {

struct SolveOptions {
  std::string problem, time_limit = "60", threads, seed = "1", output, check;
  bool json = false;
};

constexpr double kMaxTimeLimit = 1e7;  // seconds; four months

double seconds_from_text(const std::string& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() && value > 0.0 && value <= kMaxTimeLimit,
          "--time-limit: '{}' is not a number of seconds from 0 to 10^7; give one such as 60.", text);
  return value;
}

// The answer must be out when the limit is reached: what is left for evaluating and printing it.
double search_limit(double time_limit) { return time_limit - std::min(1.0, 0.02 * time_limit); }

std::string whole(double value) { return std::isfinite(value) ? fmt::format("{:.0f}", value) : "none"; }

// An integer where it is one; null where there is none.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::abs(value) < 9e15 && value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

// A line per new cost or stage, and otherwise one in two seconds.
class ProgressLines {
 public:
  void operator()(const portfolio::Progress& now) {
    const bool news = now.stage != last_.stage || now.cost != last_.cost;
    if (!news && now.elapsed_s < last_.elapsed_s + 2.0) return;
    last_ = now;
    line_(fmt::format("{:.1f} s: {}, cost {}, bound {}", now.elapsed_s, now.stage,
                      now.cost ? whole(*now.cost) : "none yet", whole(now.lower_bound)));
  }

 private:
  Progress line_;
  portfolio::Progress last_{0.0, std::nullopt, 0.0, ""};
};

// Why there is no answer, and what would have to be different.
std::string reason(const ShardingProblem& problem, const portfolio::Result& result, double time_limit) {
  const double limit = problem.memory_limit ? problem.memory_limit->si() : portfolio::kForbidden;
  const std::string least =
      result.least_peak ? fmt::format("; the smallest peak found is {:.0f} bytes", *result.least_peak) : std::string();
  const std::string within =
      problem.memory_limit ? fmt::format(" within the usage limit of {:.0f} bytes", limit) : std::string();
  if (!result.proven_infeasible)
    return fmt::format("no solution{} was found in {} s{}; give a longer --time-limit.", within, time_limit, least);
  if (result.least_peak_bound > limit)
    return fmt::format(
        "no solution stays within the usage limit of {:.0f} bytes: every one needs at least {:.0f} bytes{}; raise the "
        "limit.",
        limit, std::ceil(result.least_peak_bound), least);
  if (problem.memory_limit)
    return fmt::format("every solution{} uses a forbidden strategy or pair{}; raise the limit, or allow more pairs.",
                       within, least);
  return "every solution uses a forbidden strategy or pair; allow more pairs.";
}

Json header_json(const ProblemFile& file) {
  return {
      {"program", "meshwright"}, {"version", MESHWRIGHT_VERSION},          {"verb", "solve"},
      {"problem", file.name},    {"num_nodes", file.problem.nodes.size()}, {"num_edges", file.problem.edges.size()}};
}

// The name is the user's: quoted and escaped, it can neither end the line nor steer a terminal.
std::string header_line(const ProblemFile& file) {
  return fmt::format("# meshwright {}  solve  {}\n", MESHWRIGHT_VERSION, json_text(shortened(file.name, 200)));
}

// What is common to a solved and a checked choice.
struct Answer {
  ShardingChoice choice;
  Evaluation evaluation;
};

Json usage_limit_json(const ShardingProblem& problem) {
  return problem.memory_limit ? number(problem.memory_limit->si()) : Json(nullptr);
}

std::string usage_limit_text(const ShardingProblem& problem) {
  return problem.memory_limit ? whole(problem.memory_limit->si()) : "none";
}

std::string document(const ProblemFile& file, const Answer& answer, const portfolio::Result& result) {
  TextTable table({{"nodes", ""},
                   {"edges", ""},
                   {"cost", ""},
                   {"lower bound", ""},
                   {"gap", "(%)"},
                   {"peak memory", "(bytes)"},
                   {"usage limit", "(bytes)"},
                   {"method", ""}});
  table.add_row({fmt::format("{}", file.problem.nodes.size()), fmt::format("{}", file.problem.edges.size()),
                 whole(answer.evaluation.total().si()), whole(std::floor(result.lower_bound)),
                 std::isfinite(result.gap()) ? fmt::format("{:.4f}", 100.0 * result.gap()) : "none",
                 whole(answer.evaluation.peak_memory.si()), usage_limit_text(file.problem), result.method});
  return header_line(file) + table.to_text() + (result.gap() <= 0.0 ? "# proven optimal\n" : "# not proven optimal\n") +
         solution_line(answer.choice) + "\n";
}

Json to_json(const ProblemFile& file, const Answer& answer, const portfolio::Result& result,
             const portfolio::Options& options, double time_limit) {
  Json json = header_json(file);
  json["cost"] = number(answer.evaluation.total().si());
  json["lower_bound"] = number(result.lower_bound);
  json["gap"] = number(result.gap());
  json["peak_memory_bytes"] = number(answer.evaluation.peak_memory.si());
  json["usage_limit"] = usage_limit_json(file.problem);
  json["method"] = result.method;
  json["proven"] = result.gap() <= 0.0;
  json["time_limit_s"] = time_limit;
  json["threads"] = options.threads;
  json["seed"] = options.seed;
  json["elapsed_s"] = options.budget.used();
  json["choice"] = answer.choice.strategy;
  return json;
}

// The portfolio's answer as the evaluator, which shares nothing with it, sees it.
Answer verified(const ShardingProblem& problem, const portfolio::Result& result) {
  Answer answer{{*result.labels}, {}};
  answer.evaluation = evaluate(problem, answer.choice);
  const double cost = answer.evaluation.total().si(), close = 1e-9 * std::max(1.0, std::abs(cost));
  MW_CHECK(answer.evaluation.violations.empty(), "the answer is not allowed: {}",
           answer.evaluation.violations.empty() ? "" : answer.evaluation.violations.front());
  MW_CHECK(std::abs(cost - result.cost) <= close, "the answer costs {}, not {}", cost, result.cost);
  MW_CHECK(result.lower_bound <= cost + close, "the answer costs {}, less than the lower bound {}", cost,
           result.lower_bound);
  return answer;
}

portfolio::Options portfolio_options(const SolveOptions& options, double time_limit, Seconds start) {
  portfolio::Options asked;
  asked.budget = {search_limit(time_limit), [start] { return (now() - start).si(); }};
  asked.threads = threads_from_text(options.threads);
  asked.seed = seed_from_text(options.seed);
  asked.on_progress = [lines = std::make_shared<ProgressLines>()](const portfolio::Progress& p) { (*lines)(p); };
  return asked;
}

// Throws NoFeasiblePlan when reading alone takes the time.
ProblemFile read_within(const std::string& path, const portfolio::Budget& budget) {
  const ByteSource bytes = open_unpacked(path);
  const ByteSource in_time = [&] {
    if (budget.over())
      throw NoFeasiblePlan(fmt::format("{}: reading the problem took all of --time-limit; give more seconds.", path));
    return bytes();
  };
  return read_problem(in_time, path);
}

void solve_problem(const SolveOptions& options) {
  const Seconds start = now();  // reading counts: the limit is the command's, not the search's
  const double time_limit = seconds_from_text(options.time_limit);
  portfolio::Options asked = portfolio_options(options, time_limit, start);
  expect_writable(options.output, {options.problem});
  const ProblemFile file = read_within(options.problem, asked.budget);
  portfolio::Result result;
  {
    const portfolio::Field field = portfolio::make_field(file.problem);
    result = portfolio::solve(field, asked);
  }
  asked.on_progress = nullptr;  // ends its line
  if (!result.labels)
    throw NoFeasiblePlan(fmt::format("{}: {}", options.problem, reason(file.problem, result, time_limit)));
  const Answer answer = verified(file.problem, result);
  if (!options.output.empty()) write_file(options.output, solution_line(answer.choice) + "\n");
  if (options.json)
    print(to_json(file, answer, result, asked, time_limit));
  else
    print(document(file, answer, result));
  tell(fmt::format("solving took {:.3f} s", asked.budget.used()));
}

void check_solution(const SolveOptions& options) {
  const ProblemFile file = read_problem_file(options.problem);
  const ShardingChoice choice = read_solution_file(options.check);
  const Evaluation evaluation = evaluate(file.problem, choice);
  const std::size_t violations = evaluation.violations.size();
  require(violations == 0, "{}: {}{}; this is not a feasible solution of the problem.", options.check,
          violations == 0 ? "" : evaluation.violations.front(),
          violations <= 1 ? "" : fmt::format(" (and {} more)", violations - 1));
  if (options.json) {
    Json json = header_json(file);
    json["cost"] = number(evaluation.total().si());
    json["peak_memory_bytes"] = number(evaluation.peak_memory.si());
    json["usage_limit"] = usage_limit_json(file.problem);
    json["feasible"] = true;
    return print(json);
  }
  print(header_line(file) + fmt::format("# {} is feasible: cost {}, peak memory {} bytes, usage limit {} bytes\n",
                                        options.check, whole(evaluation.total().si()),
                                        whole(evaluation.peak_memory.si()), usage_limit_text(file.problem)));
}

}  // namespace

void add_solve(CLI::App& app, Context& context) {
  auto options = std::make_shared<SolveOptions>();
  CLI::App* verb =
      app.add_subcommand("solve", "Solve a problem of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism.");
  verb->add_option("problem", options->problem, "problem file: JSON, gzip'd or plain")->required();
  verb->add_option("--time-limit", options->time_limit, "seconds that the whole command may take")
      ->capture_default_str();
  verb->add_option("--threads", options->threads, "threads of the search (default: all)");
  verb->add_option("--seed", options->seed, "seed of the local search")->capture_default_str();
  verb->add_option("-o,--output", options->output, "write the solution to this file");
  verb->add_option("--check", options->check, "check and evaluate the solution in this file instead of solving")
      ->excludes("--output")
      ->excludes("--time-limit")
      ->excludes("--threads")
      ->excludes("--seed");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer(
      "The last line printed is the solution: the strategy of each node.\n"
      "Example:\n  meshwright solve problem.json.gz --time-limit 60 -o solution.json\n"
      "  meshwright solve problem.json.gz --check solution.json");
  verb->callback([&context, options] {
    context.action = [options] { options->check.empty() ? solve_problem(*options) : check_solution(*options); };
  });
}

}  // namespace meshwright
