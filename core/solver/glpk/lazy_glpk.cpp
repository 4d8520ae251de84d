// SPDX-License-Identifier: Apache-2.0
// GLPK keeps one environment per thread; the session below makes the problem in it and frees it, with everything in
// it, on every path. A misuse makes GLPK call our hook, which jumps back into guard(): no frame between the two holds
// anything with a destructor, so all storage is made outside and GLPK is only called from the plain functions.
//
// GLPK counts from 1: entry 0 of every array handed to it is unused.
#include "core/solver/glpk/lazy_glpk.h"

#include <glpk.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "core/base/errors.h"
#include "core/solver/glpk/lazy_glpk_program.h"

namespace meshwright::portfolio {

namespace {

constexpr double kTolerance = 1e-6;  // of scaled costs

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Plain data only: see above.
struct Session {
  std::jmp_buf on_error;
  char text[256];
  glp_prob* lp;
  const Program* program;
  const SparseRow* new_row;
  const Budget* budget;
  double* values;  // per column, from 1 on
  double* reduced_costs;
  double gap;  // columns whose reduced cost exceeds it are fixed at 0
  double objective, best_bound;
  int code, status;
  bool fresh;  // no basis yet
};

extern "C" {
int keep_lazy_glpk_text(void* info, const char* text) {
  auto* session = static_cast<Session*>(info);
  const std::size_t used = std::strlen(session->text);
  std::strncat(session->text, text, sizeof session->text - used - 1);
  return 1;  // nothing goes to the terminal
}
void leave_lazy_glpk(void* info) { std::longjmp(static_cast<Session*>(info)->on_error, 1); }
void watch_lazy_glpk(glp_tree* tree, void* info) {
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
  const int columns = static_cast<int>(program.cost.size()) - 1;
  session.fresh = true;
  glp_add_cols(session.lp, columns);
  for (int c = 1; c <= columns; ++c) {
    glp_set_col_kind(session.lp, c, c <= program.x_columns ? GLP_IV : GLP_CV);
    glp_set_col_bnds(session.lp, c, GLP_DB, 0.0, 1.0);
    glp_set_obj_coef(session.lp, c, program.cost[at(c)]);
  }
  for (const SparseRow& row : program.rows) add_row(session, row);
}

void append(Session& session) { add_row(session, *session.new_row); }

void relax(Session& session) {
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.meth = GLP_DUALP;
  options.tm_lim = milliseconds_left(*session.budget);
  if (session.fresh) options.presolve = GLP_ON;
  session.fresh = false;
  session.code = glp_simplex(session.lp, &options);
  session.status = glp_get_status(session.lp);
  session.objective = glp_get_obj_val(session.lp);
  for (int c = 1; c <= glp_get_num_cols(session.lp); ++c) {
    session.values[c] = glp_get_col_prim(session.lp, c);
    session.reduced_costs[c] = glp_get_col_dual(session.lp, c);
  }
}

void fix_columns(Session& session) {
  for (int c = 1; c <= session.program->x_columns; ++c)
    if (session.values[c] < 1e-9 && session.reduced_costs[c] > session.gap)
      glp_set_col_bnds(session.lp, c, GLP_FX, 0.0, 0.0);
}

void branch(Session& session) {
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.tol_obj = 1e-10;
  options.cb_func = watch_lazy_glpk;
  options.cb_info = &session;
  options.tm_lim = milliseconds_left(*session.budget);
  session.code = glp_intopt(session.lp, &options);
  session.status = glp_mip_status(session.lp);
  session.objective = glp_mip_obj_val(session.lp);
  for (int c = 1; c <= glp_get_num_cols(session.lp); ++c) session.values[c] = glp_mip_col_val(session.lp, c);
}

bool guard(Session& session, void (*plain)(Session&)) {
  if (setjmp(session.on_error) != 0) return false;
  glp_term_hook(keep_lazy_glpk_text, &session);
  glp_error_hook(leave_lazy_glpk, &session);
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
  void add(const SparseRow& row) {
    session_.new_row = &row;
    call(append);
  }
  Session& session() { return session_; }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  Session session_{};
  std::vector<double> values_, reduced_costs_;
};

// The linear program with every memory row that its solution exceeds. false: infeasible or out of time.
bool relax_until_kept(Glpk& glpk, LazyRows& memory, const Budget& budget, bool& infeasible, double& bound) {
  Session& session = glpk.session();
  for (;;) {
    glpk.call(relax);
    infeasible = session.code == GLP_ENOPFS || (session.code == 0 && session.status == GLP_NOFEAS);
    if (session.code != 0 || session.status != GLP_OPT || budget.over()) return false;
    bound = session.objective;
    const std::vector<SparseRow> rows = memory.exceeded(glpk.values());
    if (rows.empty()) return true;
    for (const SparseRow& row : rows) glpk.add(row);
  }
}

}  // namespace

LazyGlpk solve_by_lazy_glpk(const Reduced& reduced, double cut, const Budget& budget) {
  LazyGlpk result;
  const Program program = make_program(reduced.field, cut);
  if (budget.over()) return result;
  Glpk glpk(program, budget);
  Session& session = glpk.session();
  LazyRows memory(reduced, program);
  const auto unscaled = [&](double objective) {
    return std::min(cut, (objective - kTolerance) / program.scale + reduced.field.constant);
  };
  for (;;) {
    bool infeasible = false;
    double bound = -kForbidden;
    const bool relaxed = relax_until_kept(glpk, memory, budget, infeasible, bound);
    if (bound != -kForbidden) result.lower_bound = std::max(result.lower_bound, unscaled(bound));
    if (infeasible) {
      result.lower_bound = kForbidden;
      result.complete = true;
    }
    if (!relaxed) return result;
    if (cut != kForbidden) {
      session.gap = (cut - reduced.field.constant) * program.scale - bound + kTolerance;
      glpk.call(fix_columns);
      glpk.call(relax);
    }
    session.best_bound = bound;
    glpk.call(branch);
    if (session.code == 0 && session.status == GLP_NOFEAS) {
      result.lower_bound = kForbidden;
      result.complete = true;
      return result;
    }
    result.lower_bound = std::max(result.lower_bound, unscaled(session.best_bound));
    const bool solved = session.code == 0 && session.status == GLP_OPT;
    if (!solved && session.status != GLP_FEAS) return result;
    const Labels labels = labels_of(reduced.field, program, glpk.values());
    const std::vector<SparseRow> cuts = memory.cut_off(labels);
    if (cuts.empty()) result.labels = labels;
    if (cuts.empty() && solved) {
      result.complete = true;
      result.lower_bound = std::max(result.lower_bound, unscaled(session.objective));
    }
    if (cuts.empty() || !solved) return result;
    for (const SparseRow& row : cuts) glpk.add(row);
  }
}

}  // namespace meshwright::portfolio
