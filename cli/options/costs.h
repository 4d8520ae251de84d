// SPDX-License-Identifier: Apache-2.0
// Options that say whose costs hold: measured ones of a profile database, the cluster's description, a software's way
// to spend time and memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/planner/make_plan.h"
#include "costmodel/cost_models.h"
#include "costmodel/measured_kernels.h"
#include "simulator/what_if/step_request.h"

namespace CLI {
class App;
}

namespace meshwright {

// Where measured costs come from.
struct ProfileSource {
  std::string path;  // "": nowhere
  std::string as;    // the device that takes them; "": the one they were taken on
  [[nodiscard]] bool empty() const { return path.empty(); }
};
// --profile and --profile-as; `help` is of the former.
void add_profile_options(CLI::App& verb, ProfileSource& options, const char* help);
inline constexpr const char* kProfileHelp =
    "profile database to take measured costs from; what it lacks is modelled (default: all modelled)";

// Where costs come from: the cluster's description, or first a profile database.
struct Costs {
  std::unique_ptr<ProfileDb> db;             // unset: no --profile
  std::optional<SoftwareProfile> software;   // of --software
  std::unique_ptr<MeasuredKernels> kernels;  // of `db`, with --software
  std::unique_ptr<CostModel> model;
  std::string source;  // for people: "modelled (roofline, alpha-beta)", "h.db (412 ops, 36 collectives, 9 transfers)"
  std::string fingerprint;  // of everything measured; "" without a profile
  std::string profile_as;   // as of ProfileSource
};
// `software`: a profile's name or file, or "" for none. With both, the database's kernels and the software's terms.
[[nodiscard]] Costs costs_for(const Cluster& cluster, const ProfileSource& profile, const std::string& software);
// What --software calls costs that are of no software in particular.
inline constexpr const char* kNoSoftware = "none";
// Throws InputError naming the option and the profile where the software has no way to run a step so.
void expect_software_can(const StepRequest& conditions, const Costs& costs);
// "--software"; `otherwise` completes "(default: ...)".
void add_software_option(CLI::App& verb, std::string& software, const char* otherwise);
// How a software is set up, of "--matmul-dtype", "--states", "--attention", "--token-dispatch" and
// "--loss-chunks"; "": as its name says.
struct SoftwareSetupOptions {
  std::string matmul_dtype, states, attention, token_dispatch, loss_chunks;
};
void add_software_setup_options(CLI::App& verb, SoftwareSetupOptions& options);
// The name of `software` with it. Throws InputError for values that are none, and where anything is set up of no
// software: its profile says what that costs. Without "--token-dispatch", which depends on the model.
[[nodiscard]] std::string with_setup(const std::string& software, const SoftwareSetupOptions& options);
// The name of `software` with what "--token-dispatch" says. Throws as with_setup does, and for a model whose tokens
// have no number of experts.
[[nodiscard]] std::string with_token_dispatch(const std::string& software, const std::string& dispatch,
                                              const ModelConfig& model);
// Throws InputError where `software` computes products in 8 bits or keeps states in 16, and tensors are not of 16.
void expect_setup_of(const std::string& software, DType dtype);

}  // namespace meshwright
