// SPDX-License-Identifier: Apache-2.0
#include "cli/options/costs.h"

#include <CLI/CLI.hpp>

#include "cli/options/at_place.h"
#include "core/base/text.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright {

void add_profile_options(CLI::App& verb, ProfileSource& options, const char* help) {
  verb.add_option("--profile", options.path, help);
  verb.add_option(
      "--profile-as", options.as,
      "with --profile: the device of the cluster that its measurements stand for (default: they are refused "
      "unless they were taken on a device of that name)");
}

namespace {

std::string fingerprint(const ProfileDb& db) {
  std::string text;
  for (const OpProfile& op : db.ops())
    text += fmt::format("{} {} {}\n", op.signature, op.concurrency, op.time.median.si());
  for (const CollectiveProfile& c : db.collectives())
    text += fmt::format("{} {} {} {} {}\n", name_of(c.kind), c.ranks, c.hosts, c.size_bytes, c.time.median.si());
  for (const TransferProfile& t : db.transfers())
    text += fmt::format("transfer {} {} {}\n", t.hosts_apart, t.size_bytes, t.time.median.si());
  for (const auto& [name, time] : db.overheads()) text += fmt::format("{} {}\n", name, time.median.si());
  return fmt::format("{:016x}", stable_hash(text));
}

// Products of a type that a device lacks would be priced as the tensors' own.
void expect_rates_of_products(const Cluster& cluster, const SoftwareProfile& software) {
  if (software.product_dtype != "f8") return;
  for (const HostGroup& group : cluster.groups) {
    const DataSheet* sheet = find_data_sheet(group.device.name);
    require(sheet == nullptr || sheet->peak.contains("f8"),
            "--software: {} computes products in 8 bits, for which the data sheet of {} has no rate; choose another "
            "software or device.",
            software.name, group.device.name);
  }
}

}  // namespace

Costs costs_for(const Cluster& cluster, const ProfileSource& profile, const std::string& software) {
  require(profile.as.empty() || (!profile.empty() && software.empty()),
          "--profile-as: says what the measurements of --profile stand for, and {}; leave it out.",
          profile.empty() ? "there are none" : "with --software kernels are those of the named device");
  Costs costs;
  if (!profile.empty()) costs.db = std::make_unique<ProfileDb>(profile.path, ProfileDb::Mode::ReadOnly);
  if (!software.empty()) {
    const SoftwareProfile of = at_place("--software", [&] { return find_software_profile(software); });
    expect_rates_of_products(cluster, of);
    if (costs.db) {
      const std::vector<KernelRow> rows = costs.db->kernels();
      require(!rows.empty(), "{}: holds no kernels, which --software needs; leave --profile or --software out.",
              profile.path);
      costs.kernels = std::make_unique<MeasuredKernels>(rows);
    }
    costs.model = make_physical_cost_model(cluster, of, costs.kernels.get());
    costs.source = costs.db ? fmt::format("physical, as {} spends them, and {}", of.name, profile.path)
                            : fmt::format("physical, as {} spends them", of.name);
    costs.fingerprint = fmt::format("software {} {:016x}", of.name, stable_hash(json_text(to_json(of))));
    if (costs.db) costs.fingerprint += ", " + fingerprint(*costs.db);
    costs.software = of;
    return costs;
  }
  if (!costs.db) {
    costs.model = make_analytic_cost_model(cluster);
    costs.source = "modelled (roofline, alpha-beta)";
    return costs;
  }
  costs.model = at_place(profile.path, [&] { return make_profiled_cost_model(cluster, *costs.db, profile.as); });
  costs.source = fmt::format("{} ({} ops, {} collectives, {} transfers measured)", profile.path, costs.db->ops().size(),
                             costs.db->collectives().size(), costs.db->transfers().size());
  if (!profile.as.empty()) costs.source += ", taken for " + profile.as;
  costs.fingerprint = fingerprint(*costs.db);
  costs.profile_as = profile.as;
  return costs;
}

void expect_software_can(const StepRequest& conditions, const Costs& costs) {
  require(!conditions.overlap || !costs.software || costs.software->overlaps,
          "--overlap: nothing runs beside computation in software profile '{}' (its 'overlaps' is false); leave "
          "--overlap out, or give another --software.",
          costs.software ? costs.software->name : "");
}

void add_software_option(CLI::App& verb, std::string& software, const char* otherwise) {
  std::vector<std::string> names;
  for (const SoftwareProfile& profile : software_profiles()) names.push_back(profile.name);
  verb.add_option(
      "--software", software,
      fmt::format("software whose way to spend time and memory the costs are of: {}, a profile's .json file, or "
                  "{} (default: {})",
                  join(names, ", "), kNoSoftware, otherwise));
}

void add_software_setup_options(CLI::App& verb, SoftwareSetupOptions& options) {
  verb.add_option("--matmul-dtype", options.matmul_dtype,
                  "with --software: type that the layers' products are priced in: fp8, whose operands are quantised "
                  "first (default: the software's)");
  verb.add_option("--states", options.states,
                  "with --software: how it keeps what it trains: 16-bit, weights, gradients and moments without copies "
                  "of 32 bits, 16-bit-moments or 8-bit-moments, separated by commas (default: the software's)");
  verb.add_option("--attention", options.attention,
                  "with --software: fused, in one kernel that keeps no scores in memory, or unfused (default: the "
                  "software's)");
  verb.add_option("--token-dispatch", options.token_dispatch,
                  "with --software: how tokens get to experts of other devices: experts, a copy to each; hosts, a copy "
                  "to each host that has some of them, as DeepEP and HybridEP do; or all, every device gathers the "
                  "tokens of all (default: the software's)");
  verb.add_option(
      "--loss-chunks", options.loss_chunks,
      "with --software: chunks of tokens that the last product and the loss take one by one, so that the "
      "logits of one alone are in memory: a number, or auto for as many as fused kernels take (default: 1)");
}

namespace {

// Whether it is given, of a software.
bool is_set_up(const std::string& software, const char* flag, const std::string& value, const char* why) {
  require(value.empty() || (!software.empty() && software != kNoSoftware),
          "{}: {} is part of a software's profile; add --software.", flag, why);
  return !value.empty();
}

TokenDispatch token_dispatch_from_text(const std::string& text) {
  if (text == "experts") return TokenDispatch::ToExperts;
  if (text == "hosts") return TokenDispatch::ToHosts;
  require(text == "all", "--token-dispatch: '{}' is not known; expected experts, hosts or all.", text);
  return TokenDispatch::ToAll;
}

}  // namespace

std::string with_token_dispatch(const std::string& software, const std::string& dispatch, const ModelConfig& model) {
  if (!is_set_up(software, "--token-dispatch", dispatch, "how tokens get to experts")) return software;
  const int experts = experts_per_token(model);
  require(experts > 0, "--token-dispatch: {} has no experts of which every token gets some; leave it out.", model.name);
  SoftwareName name = software_name_from_text(software);
  set_dispatch(name.setup, token_dispatch_from_text(dispatch), experts);
  return to_text(name);
}

std::string with_setup(const std::string& software, const SoftwareSetupOptions& options) {
  const auto given = [&](const char* flag, const std::string& value, const char* why) {
    return is_set_up(software, flag, value, why);
  };
  SoftwareName name = software_name_from_text(software);
  if (given("--matmul-dtype", options.matmul_dtype, "what quantising the operands costs")) {
    require(options.matmul_dtype == "fp8",
            "--matmul-dtype: '{}' is not a type that products are priced in; expected fp8.", options.matmul_dtype);
    name.setup.eight_bit_products = true;
  }
  if (given("--states", options.states, "what is kept of each parameter")) {
    name.setup.narrow_states = false;
    name.setup.moment_bits = 32;
    for (const std::string& word : split(options.states, ',')) {
      require(word == "16-bit" || word == "16-bit-moments" || word == "8-bit-moments",
              "--states: '{}' is not known; expected 16-bit, 16-bit-moments or 8-bit-moments.", word);
      if (word == "16-bit")
        name.setup.narrow_states = true;
      else
        name.setup.moment_bits = word == "16-bit-moments" ? 16 : 8;
    }
  }
  if (given("--attention", options.attention, "what scores in memory cost")) {
    require(options.attention == "fused" || options.attention == "unfused",
            "--attention: '{}' is not known; expected fused or unfused.", options.attention);
    name.setup.fused_attention = options.attention == "fused";
    // As it is set up anyway: one name for one way.
    const SoftwareProfile own = at_place("--software", [&] { return find_software_profile(name.profile); });
    if (own.fused_attention == *name.setup.fused_attention) name.setup.fused_attention.reset();
  }
  if (given("--loss-chunks", options.loss_chunks, "how a loss keeps its logits"))
    name.setup.loss_chunks = loss_chunks_from_text(options.loss_chunks, "--loss-chunks");
  return to_text(name);
}

void expect_setup_of(const std::string& software, DType dtype) {
  const SoftwareSetup setup = software_name_from_text(software).setup;
  require(!setup.eight_bit_products || size_of(dtype) == 2,
          "--matmul-dtype: products of 8 bits are of 16-bit tensors, and these are {}; give --dtype bf16 or f16.",
          name_of(dtype));
  require(!setup.narrow_states || size_of(dtype) == 2,
          "--states: states of 16 bits are of 16-bit tensors, and these are {}; give --dtype bf16 or f16.",
          name_of(dtype));
}

}  // namespace meshwright
