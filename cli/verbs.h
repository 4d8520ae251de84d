// SPDX-License-Identifier: Apache-2.0
// The verbs of the command. Each add_* function adds one subcommand with its options; parsing it leaves the work to be
// done in Context::action, which main runs once the whole command line has been understood.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace meshwright {

struct Context {
  std::function<void()> action;
  std::string command_line;         // "meshwright profile --backend cpu ...": provenance of what is measured
  bool quiet = false;               // what went wrong has been said, or another process says it
  std::function<void()> say_error;  // says the exception that is being handled at once, not when the command ends
};

void add_models(CLI::App& app, Context& context);
void add_clusters(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_simulate(CLI::App& app, Context& context);
void add_sweep(CLI::App& app, Context& context);
void add_profile(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_replay(CLI::App& app, Context& context);
void add_run(CLI::App& app, Context& context);
void add_diff(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_solve(CLI::App& app, Context& context);

}  // namespace meshwright
