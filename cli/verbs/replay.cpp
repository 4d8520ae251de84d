// SPDX-License-Identifier: Apache-2.0
// meshwright replay: plan and simulate from what `meshwright profile` stored, without the hardware.
#include <CLI/CLI.hpp>

#include "cli/documents/search/planning.h"
#include "cli/machine/provenance.h"
#include "cli/verbs/verbs.h"

namespace meshwright {

namespace {

struct ReplayOptions {
  PlanningOptions planning;
  std::string output;
};

void replay(const ReplayOptions& options) {
  const ModelConfig model = model_from_options(options.planning);
  const std::string dtype = options.planning.dtype.empty() ? name_of(model.default_dtype) : options.planning.dtype;
  const ProfileSession session = [&] {
    const ProfileDb db(options.planning.profile.path, ProfileDb::Mode::ReadOnly);
    return profiled_session(db, options.planning.profile.path, dtype);
  }();
  const Cluster cluster = cluster_from_options(options.planning, session.cluster);
  const Costs costs = costs_for(cluster, options.planning.profile, "");
  PlanReport report{.verb = "replay", .output = options.output, .provenance = provenance_line(session)};
  report.extra["measured_on"] = provenance_json(session);
  plan_and_report(options.planning, cluster, costs, report);
}

}  // namespace

void add_replay(CLI::App& app, Context& context) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* verb =
      app.add_subcommand("replay", "Plan and simulate from a profile database, without the profiled hardware.");
  verb->add_option("profiles", options->planning.profile.path,
                   "profile database, as written by `meshwright profile --db`")
      ->required();
  verb->add_option("--profile-as", options->planning.profile.as,
                   "device of the cluster that the measurements stand for (default: the one that was profiled)");
  add_planning_options(*verb, options->planning, GridOptions::Single);
  verb->get_option("--cluster")
      ->description("cluster to plan for: preset or cluster file (default: the one that was profiled)");
  verb->add_option("-o,--output", options->output, "write the plan to this file");
  verb->footer("Example:\n  meshwright replay profiles.db --model mlp --batch 512 --micro-batches 4 --layers 2");
  verb->callback([&context, options] { context.action = [options] { replay(*options); }; });
}

}  // namespace meshwright
