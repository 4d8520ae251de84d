// SPDX-License-Identifier: Apache-2.0
// The ILP of sharding_problem.h in GLPK, whose 1-based arrays, global environment and abort-on-misuse do not leave this
// file.
//
// GLPK keeps one environment per thread (it is built with thread-local storage, which is checked), made by the first
// call and freed at the end of each solve: solves on several threads do not meet. A misuse makes GLPK call our hook,
// which jumps out of run_guarded; all frames it jumps over hold no destructors. With integer x, every y is forced to 0
// or 1 by (a)..(c), so only x needs to be declared integer; a forbidden pair has no column at all.
#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <iterator>
#include <set>
#include <string>

#include "core/base/errors.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A mixed-integer program as plain arrays; columns lie in [0, 1], forbidden ones are 0.
struct Ilp {
  struct Row {
    std::string name;
    int type;  // GLP_FX or GLP_UP
    double bound;
  };
  struct Column {
    std::string name;
    double cost;
    bool integer;
    bool allowed;
  };
  std::vector<Row> rows;
  std::vector<Column> columns;
  // Nonzeros; entry 0 is unused because GLPK counts from 1.
  std::vector<int> row_of{0}, column_of{0};
  std::vector<double> coefficient{0.0};

  // Both return GLPK's number of the new row or column.
  int add_row(std::string name, int type, double bound) {
    rows.push_back({std::move(name), type, bound});
    return static_cast<int>(rows.size());
  }
  int add_column(std::string name, std::optional<Seconds> cost, bool integer) {
    columns.push_back({std::move(name), cost ? cost->si() : 0.0, integer, cost.has_value()});
    return static_cast<int>(columns.size());
  }
  void put(int row, int column, double value) {
    row_of.push_back(row);
    column_of.push_back(column);
    coefficient.push_back(value);
  }
};

enum class Outcome { Optimal, Infeasible, Failed };

// No member needs a destructor: GLPK's error hook jumps over it.
struct Session {
  std::jmp_buf on_error;
  char text[256];  // the beginning of what GLPK had to say
  int code;        // glp_intopt's
};

extern "C" {
int keep_glpk_text(void* info, const char* text) {
  auto* session = static_cast<Session*>(info);
  const std::size_t used = std::strlen(session->text), room = sizeof session->text - used - 1;
  std::strncat(session->text, text, room);
  return 1;  // nothing goes to the terminal
}
void leave_glpk(void* info) { std::longjmp(static_cast<Session*>(info)->on_error, 1); }
}

// Only GLPK calls and plain values: an error jumps out of here.
Outcome run(Session& session, const Ilp& ilp, double* values) {
  glp_prob* lp = glp_create_prob();
  glp_set_obj_dir(lp, GLP_MIN);
  const int rows = static_cast<int>(ilp.rows.size()), columns = static_cast<int>(ilp.columns.size());
  glp_add_rows(lp, rows);
  for (int r = 1; r <= rows; ++r) {
    const Ilp::Row& row = ilp.rows[at(r - 1)];
    glp_set_row_name(lp, r, row.name.c_str());
    glp_set_row_bnds(lp, r, row.type, row.bound, row.bound);
  }
  glp_add_cols(lp, columns);
  for (int c = 1; c <= columns; ++c) {
    const Ilp::Column& column = ilp.columns[at(c - 1)];
    glp_set_col_name(lp, c, column.name.c_str());
    glp_set_col_kind(lp, c, column.integer ? GLP_IV : GLP_CV);
    glp_set_col_bnds(lp, c, column.allowed ? GLP_DB : GLP_FX, 0.0, 1.0);
    glp_set_obj_coef(lp, c, column.cost);
  }
  glp_load_matrix(lp, static_cast<int>(ilp.coefficient.size()) - 1, ilp.row_of.data(), ilp.column_of.data(),
                  ilp.coefficient.data());

  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.presolve = GLP_ON;
  options.mip_gap = 0.0;
  options.tol_obj = 1e-10;
  session.code = glp_intopt(lp, &options);
  // Infeasible already as a linear program; infeasible only with integers is a status, below.
  if (session.code == GLP_ENOPFS) return Outcome::Infeasible;
  if (session.code != 0) return Outcome::Failed;
  const int status = glp_mip_status(lp);
  if (status == GLP_NOFEAS) return Outcome::Infeasible;
  if (status != GLP_OPT) return Outcome::Failed;
  for (int c = 1; c <= columns; ++c) values[c - 1] = glp_mip_col_val(lp, c);
  return Outcome::Optimal;
}

Outcome run_guarded(Session& session, const Ilp& ilp, double* values) {
  if (setjmp(session.on_error) != 0) return Outcome::Failed;
  glp_term_hook(keep_glpk_text, &session);
  glp_error_hook(leave_glpk, &session);
  return run(session, ilp, values);
}

// The values of all columns at the optimum; nullopt: infeasible.
std::optional<std::vector<double>> optimum(const Ilp& ilp) {
  if (glp_config("TLS") == nullptr)
    throw SystemError("this GLPK was built without thread-local storage; install one built with it (Debian's is).");
  Session session{};
  std::vector<double> values(ilp.columns.size(), 0.0);
  const Outcome outcome = run_guarded(session, ilp, values.data());
  glp_free_env();  // with everything in it; after an error nothing else is allowed
  if (outcome == Outcome::Infeasible) return std::nullopt;
  MW_CHECK(outcome == Outcome::Optimal, "GLPK failed with code {}: {}", session.code,
           static_cast<const char*>(session.text));
  return values;
}

// The problem's rows (a)..(d), and what is needed to read a choice off the columns.
struct Model {
  Ilp ilp;
  std::vector<int> first_x;  // per node: number of column x[i,0]
};

void add_nodes(Model& model, const ShardingProblem& problem) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const int a = model.ilp.add_row(fmt::format("a[{}]", i), GLP_FX, 1.0);
    model.first_x.push_back(static_cast<int>(model.ilp.columns.size()) + 1);
    for (std::size_t p = 0; p < problem.nodes[i].cost.size(); ++p)
      model.ilp.put(a, model.ilp.add_column(fmt::format("x[{},{}]", i, p), problem.nodes[i].cost[p], true), 1.0);
  }
}

void add_edge(Model& model, const ShardingProblem& problem, std::size_t k) {
  Ilp& ilp = model.ilp;
  const ShardingProblem::Edge& edge = problem.edges[k];
  const int from_count = static_cast<int>(problem.nodes[at(edge.from)].cost.size());
  const int to_count = static_cast<int>(problem.nodes[at(edge.to)].cost.size());
  const int b = static_cast<int>(ilp.rows.size()) + 1, c = b + from_count;
  for (int p = 0; p < from_count; ++p)
    ilp.put(ilp.add_row(fmt::format("b[{},{}]", k, p), GLP_FX, 0.0), model.first_x[at(edge.from)] + p, -1.0);
  for (int q = 0; q < to_count; ++q)
    ilp.put(ilp.add_row(fmt::format("c[{},{}]", k, q), GLP_FX, 0.0), model.first_x[at(edge.to)] + q, -1.0);
  for (int p = 0; p < from_count; ++p)
    for (int q = 0; q < to_count; ++q) {
      const std::optional<Seconds>& cost = edge.cost[at(p * to_count + q)];
      if (!cost) continue;
      const int y = ilp.add_column(fmt::format("y[{},{},{}]", k, p, q), *cost, false);
      ilp.put(b + p, y, 1.0);
      ilp.put(c + q, y, 1.0);
    }
}

// A row (d) that can bind: a step, and the nodes whose memory counts then.
struct Step {
  int step;
  std::vector<int> live;
};

// The steps at which an interval begins and before whose next such step one ends: the sets of the others are contained
// in these. Empty without a limit.
std::vector<Step> binding_steps(const ShardingProblem& problem) {
  std::vector<Step> steps;
  if (!problem.memory_limit) return steps;
  std::set<int> begins, ends;
  for (const ShardingProblem::Node& node : problem.nodes) {
    if (node.live_begin == node.live_end || node.memory.empty()) continue;
    begins.insert(node.live_begin);
    ends.insert(node.live_end);
  }
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    const auto next = std::next(begin);
    if (next != begins.end() && *ends.upper_bound(*begin) > *next) continue;
    Step step{*begin, {}};
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      const ShardingProblem::Node& node = problem.nodes[i];
      if (node.live_begin <= *begin && *begin < node.live_end && !node.memory.empty())
        step.live.push_back(static_cast<int>(i));
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// In units of the limit, or of the largest size where the limit is smaller: bytes are too far from 1 for GLPK's
// tolerances.
void add_memory(Model& model, const ShardingProblem& problem, const Step& step) {
  double unit = problem.memory_limit->si();
  for (int i : step.live)
    for (Bytes memory : problem.nodes[at(i)].memory) unit = std::max(unit, memory.si());
  if (unit == 0.0) return;
  const int d = model.ilp.add_row(fmt::format("d[{}]", step.step), GLP_UP, problem.memory_limit->si() / unit);
  for (int i : step.live) {
    const std::vector<Bytes>& memory = problem.nodes[at(i)].memory;
    for (std::size_t p = 0; p < memory.size(); ++p)
      if (memory[p] != Bytes(0.0)) model.ilp.put(d, model.first_x[at(i)] + static_cast<int>(p), memory[p].si() / unit);
  }
}

// Costs in seconds are small against GLPK's absolute tolerances; the largest one becomes 10^6.
void scale_costs(Ilp& ilp) {
  double largest = 0.0;
  for (const Ilp::Column& column : ilp.columns) largest = std::max(largest, std::abs(column.cost));
  if (largest == 0.0) return;
  for (Ilp::Column& column : ilp.columns) column.cost *= 1e6 / largest;
}

Model make_model(const ShardingProblem& problem, const std::vector<Step>& steps) {
  Model model;
  add_nodes(model, problem);
  for (std::size_t k = 0; k < problem.edges.size(); ++k) add_edge(model, problem, k);
  for (const Step& step : steps) add_memory(model, problem, step);
  scale_costs(model.ilp);
  return model;
}

ShardingChoice choice_of(const ShardingProblem& problem, const Model& model, const std::vector<double>& values) {
  ShardingChoice choice;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto first = values.begin() + (model.first_x[i] - 1);
    const auto last = first + static_cast<std::ptrdiff_t>(problem.nodes[i].cost.size());
    choice.strategy.push_back(static_cast<int>(std::max_element(first, last) - first));
  }
  return choice;
}

Seconds cost_of(const ShardingProblem& problem, const ShardingChoice& choice) {
  Seconds total(0.0);
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const auto& cost = problem.nodes[i].cost[at(choice.strategy[i])];
    MW_CHECK(cost.has_value(), "GLPK chose the forbidden strategy {} of node {}", choice.strategy[i], i);
    total += *cost;
  }
  for (std::size_t k = 0; k < problem.edges.size(); ++k) {
    const ShardingProblem::Edge& edge = problem.edges[k];
    const std::size_t to_count = problem.nodes[at(edge.to)].cost.size();
    const auto& cost = edge.cost[at(choice.strategy[at(edge.from)]) * to_count + at(choice.strategy[at(edge.to)])];
    MW_CHECK(cost.has_value(), "GLPK chose the forbidden pair ({}, {}) on edge {}", choice.strategy[at(edge.from)],
             choice.strategy[at(edge.to)], k);
    total += *cost;
  }
  return total;
}

// GLPK takes a row as kept when it is exceeded by some 1e-7 of itself. A choice that exceeds the limit by so little is
// cut off exactly: of the nodes live then, at least one must take a strategy smaller than its chosen one. Returns the
// number of cuts.
int cut_off_excess(Model& model, const ShardingProblem& problem, const std::vector<Step>& steps,
                   const ShardingChoice& choice) {
  int cuts = 0;
  for (const Step& step : steps) {
    Bytes used(0.0);
    for (int i : step.live) used += problem.nodes[at(i)].memory[at(choice.strategy[at(i)])];
    if (used <= *problem.memory_limit) continue;
    ++cuts;
    const int row = model.ilp.add_row(fmt::format("d'[{},{}]", step.step, model.ilp.rows.size()), GLP_UP,
                                      static_cast<double>(step.live.size()) - 1.0);
    for (int i : step.live) {
      const std::vector<Bytes>& memory = problem.nodes[at(i)].memory;
      for (std::size_t p = 0; p < memory.size(); ++p)
        if (memory[p] >= memory[at(choice.strategy[at(i)])])
          model.ilp.put(row, model.first_x[at(i)] + static_cast<int>(p), 1.0);
    }
  }
  return cuts;
}

}  // namespace

std::optional<ShardingSolution> solve_by_glpk(const ShardingProblem& problem) {
  require_consistent(problem);
  if (std::any_of(problem.nodes.begin(), problem.nodes.end(), [](const auto& node) { return node.cost.empty(); }))
    return std::nullopt;
  const std::vector<Step> steps = binding_steps(problem);
  Model model = make_model(problem, steps);
  for (;;) {
    const bool nothing_to_choose = model.ilp.columns.empty();
    const auto values = nothing_to_choose ? std::vector<double>() : optimum(model.ilp);
    if (!values) return std::nullopt;
    const ShardingChoice choice = choice_of(problem, model, *values);
    if (cut_off_excess(model, problem, steps, choice) > 0) {
      if (nothing_to_choose) return std::nullopt;
      continue;
    }
    const Seconds cost = cost_of(problem, choice);
    return ShardingSolution{choice, cost, cost, "glpk"};
  }
}

}  // namespace meshwright
