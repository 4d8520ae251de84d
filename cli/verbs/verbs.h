// SPDX-License-Identifier: Apache-2.0
// The verbs of the command. Each add_* function adds one subcommand with its options; parsing it leaves the work to be
// done in Context::action, which run_command runs once the whole command line has been understood.
#pragma once

#include "cli/terminal/context.h"

namespace CLI {
class App;
}

namespace meshwright {

void add_models(CLI::App& app, Context& context);
void add_clusters(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_simulate(CLI::App& app, Context& context);
void add_sweep(CLI::App& app, Context& context);
void add_profile(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_calibrate(CLI::App& app, Context& context);
void add_validate(CLI::App& app, Context& context);
void add_replay(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_diff(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_read(CLI::App& app, Context& context);
void add_advise(CLI::App& app, Context& context);
void add_solve(CLI::App& app, Context& context);
void add_manual(CLI::App& app, Context& context);  // of all that `app` has when it runs

}  // namespace meshwright
