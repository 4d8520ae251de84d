// SPDX-License-Identifier: Apache-2.0
#include "cli/options/stage_profiles.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/planner/stages/stage_profile_csv.h"

namespace meshwright {

namespace {

constexpr const char* kUse = "--stage-profile";
constexpr const char* kWrite = "--write-stage-profile";

bool is_database(const std::string& path, const char* flag) {
  const bool database = path.ends_with(".db");
  require(database || path.ends_with(".csv"),
          "{}: '{}' ends neither in .csv nor in .db; expected a stage table (.csv) or a profile database (.db).", flag,
          path);
  return database;
}

StageProfileFile read(const std::string& path, const Cluster& cluster) {
  std::vector<StageProfileTable> tables;
  if (is_database(path, kUse))
    tables = ProfileDb(path, ProfileDb::Mode::ReadOnly).stage_profiles();
  else
    tables.push_back(stage_profile_from_csv(read_file(path), path));
  StageProfileFile file(std::move(tables), path);
  file.require_cluster(cluster);
  return file;
}

void expect_storable(const std::string& path, const std::vector<std::string>& others) {
  if (path.empty()) return;
  if (!is_database(path, kWrite)) return expect_writable(path, others);
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    const ProfileDb looked_at(path, ProfileDb::Mode::ReadOnly);
  } else {
    expect_writable(path, {});
  }
}

}  // namespace

void add_stage_profile_options(CLI::App& verb, PlanningOptions& options) {
  verb.add_option(kUse, options.stage_profile,
                  "take measured or stored stage costs from this .csv or .db, written by --write-stage-profile or "
                  "`meshwright run --db`");
  verb.add_option(
      "--stage-profile-mode", options.stage_profile_mode,
      "stages missing from --stage-profile: partly: they are modelled (default); wholly: they are an error");
  verb.add_option("--stage-costs", options.stage_costs,
                  "cost of a stage: composition: its layers are sharded together, with the resharding between them; "
                  "individual: the sum of its layers' separate costs")
      ->capture_default_str();
  verb.add_option(kWrite, options.write_stage_profile, "write the search's stage table to this .csv or .db");
}

StageProfileUse::StageProfileUse(const PlanningOptions& options, const Cluster& cluster, const Costs& costs,
                                 const std::vector<std::string>& others)
    : output_(options.write_stage_profile) {
  require(options.stage_profile_mode.empty() || !options.stage_profile.empty(),
          "--stage-profile-mode: has no effect without --stage-profile; add that, or leave the option out.");
  if (!options.stage_profile_mode.empty())
    mode_ = at_place("--stage-profile-mode", [&] { return stage_profile_mode_from_name(options.stage_profile_mode); });
  costs_ = at_place("--stage-costs", [&] { return stage_cost_source_from_name(options.stage_costs); });
  cost_fingerprint_ =
      fmt::format("meshwright {}, {}", MESHWRIGHT_VERSION,
                  costs.fingerprint.empty() ? "modelled" : fmt::format("profile {}", costs.fingerprint));
  if (!options.stage_profile.empty()) known_ = read(options.stage_profile, cluster);
  expect_storable(output_, others);
}

void StageProfileUse::put_into(PlanRequest& request) const {
  require(request.cluster.expert_load.even() || (!known_ && output_.empty()),
          "--expert-imbalance: stage profiles are of experts with equal loads; leave {} out.", known_ ? kUse : kWrite);
  request.stage_profile = {.costs = costs_,
                           .file = known_ ? &*known_ : nullptr,
                           .mode = mode_,
                           .cost_fingerprint = cost_fingerprint_,
                           .keep = !output_.empty()};
}

void StageProfileUse::store(const PlanningResult& result) const {
  if (output_.empty()) return;
  MW_CHECK(result.stage_profile.has_value(), "the search returned no stage table");
  const StageProfileTable& table = *result.stage_profile;
  if (is_database(output_, kWrite))
    ProfileDb(output_, ProfileDb::Mode::ReadWrite).put_stage_profile(std::nullopt, table);
  else
    write_file(output_, to_csv(table));
  tell(fmt::format("stored {} entries of the stage table in {}", table.entries().size(), output_));
}

}  // namespace meshwright
