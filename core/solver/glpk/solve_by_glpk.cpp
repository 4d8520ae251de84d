// SPDX-License-Identifier: Apache-2.0
// The only file that sees GLPK: its 1-based arrays, global environment and abort-on-misuse do not leave it.
//
// GLPK keeps one environment per thread (it is built with thread-local storage, which is checked); the session below
// makes the problem in it and frees it, with everything in it, on every path. A misuse makes GLPK call our hook, which
// jumps back into guard(): no frame between the two holds anything with a destructor, so all storage is made outside
// and GLPK is only called from the plain functions.
#include "core/solver/glpk/solve_by_glpk.h"

#include <glpk.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/solver/glpk/glpk_program.h"

namespace meshwright::portfolio {

namespace {

constexpr double kTolerance = 1e-6;  // of scaled costs
constexpr double kAtZero = 1e-9;     // a column's value that is taken as 0

// Plain data only: see above.
struct Session {
  std::jmp_buf on_error;
  char text[256];  // the beginning of what GLPK had to say
  glp_prob* lp;
  const Program* program;
  const SparseRow* new_row;
  const Budget* budget;
  double* values;  // per column, from 1 on
  double* reduced_costs;
  double gap;  // columns whose reduced cost exceeds it are fixed at 0
  double objective, best_bound;
  int code, status;
  bool has_basis;
};

extern "C" {
int keep_glpk_text(void* info, const char* text) {
  auto* session = static_cast<Session*>(info);
  const std::size_t used = std::strlen(session->text);
  std::strncat(session->text, text, sizeof session->text - used - 1);
  return 1;  // nothing goes to the terminal
}
void leave_glpk(void* info) { std::longjmp(static_cast<Session*>(info)->on_error, 1); }
void watch_glpk(glp_tree* tree, void* info) {
  auto* session = static_cast<Session*>(info);
  const int node = glp_ios_best_node(tree);
  if (node != 0) session->best_bound = glp_ios_node_bound(tree, node);
  if (session->budget->over()) glp_ios_terminate(tree);
}
}

int milliseconds_left(const Budget& budget) { return static_cast<int>(std::clamp(budget.left() * 1e3, 1.0, 2e9)); }

void add_row(Session& session, const SparseRow& row) {
  const int number = glp_add_rows(session.lp, 1);
  glp_set_row_bnds(session.lp, number, row.equal ? GLP_FX : GLP_UP, row.bound, row.bound);
  glp_set_mat_row(session.lp, number, static_cast<int>(row.column.size()) - 1, row.column.data(), row.value.data());
}

void load(Session& session) {
  const Program& program = *session.program;
  session.lp = glp_create_prob();
  glp_set_obj_dir(session.lp, GLP_MIN);
  const int columns = program.cost.count() - 1;
  if (columns > 0) glp_add_cols(session.lp, columns);
  for (int c = 1; c <= columns; ++c) {
    glp_set_col_kind(session.lp, c, c <= program.x_columns ? GLP_IV : GLP_CV);
    glp_set_col_bnds(session.lp, c, GLP_DB, 0.0, 1.0);
    glp_set_obj_coef(session.lp, c, program.cost[c]);
  }
  for (const int c : program.forbidden) glp_set_col_bnds(session.lp, c, GLP_FX, 0.0, 0.0);
  for (const SparseRow& row : program.rows) add_row(session, row);
}

void append(Session& session) { add_row(session, *session.new_row); }

// The linear program. From its second call on it goes on from the basis of the last.
void relax(Session& session) {
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.meth = GLP_DUALP;
  options.tm_lim = milliseconds_left(*session.budget);
  // The presolver would discard the basis of the last call.
  if (!session.has_basis) options.presolve = GLP_ON;
  session.has_basis = true;
  session.code = glp_simplex(session.lp, &options);
  session.status = glp_get_status(session.lp);
  session.objective = glp_get_obj_val(session.lp);
  for (int c = 1; c <= glp_get_num_cols(session.lp); ++c) {
    session.values[c] = glp_get_col_prim(session.lp, c);
    session.reduced_costs[c] = glp_get_col_dual(session.lp, c);
  }
}

void fix_columns(Session& session) {
  // At 0 with a reduced cost above the gap, a column is 0 in every solution below the cut.
  for (int c = 1; c <= session.program->x_columns; ++c)
    if (session.values[c] < kAtZero && session.reduced_costs[c] > session.gap)
      glp_set_col_bnds(session.lp, c, GLP_FX, 0.0, 0.0);
}

// The integer program: from the linear program's basis, or with GLPK's presolver where there is none.
void branch(Session& session) {
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.mip_gap = 0.0;
  options.tol_obj = 1e-10;
  if (!session.has_basis) options.presolve = GLP_ON;
  options.cb_func = watch_glpk;
  options.cb_info = &session;
  options.tm_lim = milliseconds_left(*session.budget);
  session.code = glp_intopt(session.lp, &options);
  session.status = glp_mip_status(session.lp);
  session.objective = glp_mip_obj_val(session.lp);
  for (int c = 1; c <= glp_get_num_cols(session.lp); ++c) session.values[c] = glp_mip_col_val(session.lp, c);
}

bool guard(Session& session, void (*plain)(Session&)) {
  if (setjmp(session.on_error) != 0) return false;
  glp_term_hook(keep_glpk_text, &session);
  glp_error_hook(leave_glpk, &session);
  plain(session);
  return true;
}

class Glpk {
 public:
  Glpk(const Program& program, const Budget& budget)
      : values_(program.cost.size(), 0.0), reduced_costs_(program.cost.size(), 0.0) {
    if (glp_config("TLS") == nullptr)
      throw SystemError("this GLPK was built without thread-local storage; install one built with it (Debian's is).");
    session_.program = &program;
    session_.budget = &budget;
    session_.values = values_.data();
    session_.reduced_costs = reduced_costs_.data();
    call(load);
  }
  ~Glpk() { glp_free_env(); }
  Glpk(const Glpk&) = delete;
  Glpk& operator=(const Glpk&) = delete;

  void call(void (*plain)(Session&)) {
    MW_CHECK(guard(session_, plain), "GLPK failed: {}", static_cast<const char*>(session_.text));
  }
  void add(const std::vector<SparseRow>& rows) {
    for (const SparseRow& row : rows) {
      session_.new_row = &row;
      call(append);
    }
  }
  Session& session() { return session_; }
  [[nodiscard]] const IndexedVector<int, double>& values() const { return values_; }
  // About the last call. Infeasible as a linear program is an error code with the presolver, else a status.
  [[nodiscard]] bool infeasible() const {
    return session_.code == GLP_ENOPFS || (session_.code == 0 && session_.status == GLP_NOFEAS);
  }
  [[nodiscard]] bool optimal() const { return session_.code == 0 && session_.status == GLP_OPT; }

 private:
  Session session_{};
  IndexedVector<int, double> values_, reduced_costs_;
};

enum class Rows { AllAtOnce, WhenExceeded };

// One solve, with the memory rows there from the start or joining when a solution exceeds them.
class GlpkSolve {
 public:
  GlpkSolve(const Reduced& reduced, Rows rows, double cut, const Budget& budget)
      : reduced_(reduced),
        rows_(rows),
        cut_(cut),
        budget_(budget),
        program_(make_program(reduced.field, cut)),
        memory_(reduced, program_) {}

  GlpkResult run() {
    if (budget_.over()) return result_;
    glpk_.emplace(program_, budget_);
    if (rows_ == Rows::AllAtOnce) glpk_->add(memory_.all());
    // Each round ends the search or adds a row that cuts off the labels found.
    while (rows_ == Rows::AllAtOnce || relax_and_fix()) {
      const std::vector<SparseRow> cuts = search();
      if (cuts.empty()) break;
      glpk_->add(cuts);
    }
    return result_;
  }

 private:
  [[nodiscard]] double unscaled(double objective) const {
    // The program has nothing above the cut, so it bounds no cost beyond that.
    return std::min(cut_, (objective - kTolerance) / program_.scale + reduced_.field.constant);
  }
  void raise_bound(double bound) { result_.lower_bound = std::max(result_.lower_bound, bound); }
  void conclude_infeasible() {
    result_.lower_bound = kForbidden;
    result_.complete = true;
  }

  // The linear program with every memory row that its solution exceeds; then columns that no solution below the cut
  // has are fixed. false: infeasible or out of time.
  bool relax_and_fix() {
    Session& session = glpk_->session();
    for (;;) {
      glpk_->call(relax);
      if (glpk_->infeasible()) conclude_infeasible();
      if (!glpk_->optimal() || budget_.over()) return false;
      session.best_bound = session.objective;
      raise_bound(unscaled(session.best_bound));
      const std::vector<SparseRow> rows = memory_.exceeded(glpk_->values());
      if (rows.empty()) break;
      glpk_->add(rows);
    }
    if (cut_ == kForbidden) return true;
    session.gap = (cut_ - reduced_.field.constant) * program_.scale - session.best_bound + kTolerance;
    glpk_->call(fix_columns);
    glpk_->call(relax);
    return true;
  }

  // The integer program. Returns a row that cuts off the labels found where they break a memory row; none: the search
  // is at its end.
  std::vector<SparseRow> search() {
    Session& session = glpk_->session();
    glpk_->call(branch);
    if (glpk_->infeasible()) {
      conclude_infeasible();
      return {};
    }
    // With the presolver on, node bounds are those of another program.
    if (rows_ == Rows::WhenExceeded) raise_bound(unscaled(session.best_bound));
    if (!glpk_->optimal() && session.status != GLP_FEAS) return {};
    const Labels labels = labels_of(reduced_.field, program_, glpk_->values());
    std::vector<SparseRow> cuts = memory_.cut_off(labels);
    if (!cuts.empty()) return glpk_->optimal() ? cuts : std::vector<SparseRow>();
    result_.labels = labels;
    if (glpk_->optimal()) {
      result_.complete = true;
      raise_bound(unscaled(session.objective));
    }
    return {};
  }

  const Reduced& reduced_;
  const Rows rows_;
  const double cut_;
  const Budget& budget_;
  const Program program_;
  MemoryRows memory_;
  std::optional<Glpk> glpk_;
  GlpkResult result_;
};

}  // namespace

GlpkResult solve_by_lazy_glpk(const Reduced& reduced, double cut, const Budget& budget) {
  return GlpkSolve(reduced, Rows::WhenExceeded, cut, budget).run();
}

}  // namespace meshwright::portfolio

namespace meshwright {

std::optional<ShardingSolution> solve_by_glpk(const ShardingProblem& problem) {
  require_consistent(problem);
  if (std::any_of(problem.nodes.begin(), problem.nodes.end(), [](const auto& node) { return node.cost.empty(); }))
    return std::nullopt;
  ShardingSolution solution;
  solution.method = "glpk";
  if (problem.nodes.empty()) return solution;  // GLPK takes no program without columns
  const portfolio::Reduced whole = portfolio::unreduced(portfolio::make_field(problem));
  portfolio::GlpkResult found =
      portfolio::GlpkSolve(whole, portfolio::Rows::AllAtOnce, portfolio::kForbidden, portfolio::Budget{}).run();
  MW_CHECK(found.complete, "GLPK ended before it had proven its solution");
  if (!found.labels) return std::nullopt;
  solution.choice.strategy = std::move(*found.labels);
  const Evaluation evaluation = evaluate(problem, solution.choice);
  MW_CHECK(evaluation.violations.empty(), "GLPK's choice breaks the problem: {}",
           evaluation.violations.empty() ? "" : evaluation.violations.front());
  solution.cost = solution.lower_bound = evaluation.total();
  return solution;
}

}  // namespace meshwright
