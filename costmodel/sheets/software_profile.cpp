// SPDX-License-Identifier: Apache-2.0
#include "costmodel/sheets/software_profile.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "costmodel/sheets/embedded.h"

namespace meshwright {

namespace {

SoftwareProfile profile_from_json(const Json& json, const std::string& place) {
  SoftwareProfile profile;
  profile.name = get<std::string>(json, "name", place);
  profile.about = get<std::string>(json, "about", place);
  profile.fused_attention = get<bool>(json, "fused_attention", place);
  profile.fused_bias = get<bool>(json, "fused_bias", place);
  profile.fused_accumulation = get<bool>(json, "fused_accumulation", place);
  profile.pass_factor = get<double>(json, "pass_factor", place);
  profile.collective_factor = get<double>(json, "collective_factor", place);
  profile.gradient_overlap = get<double>(json, "gradient_overlap", place);
  profile.dispatch = microseconds(get<double>(json, "dispatch_us", place));
  profile.dispatch_collective = microseconds(get<double>(json, "collective_us", place));
  profile.dispatch_run = microseconds(get<double>(json, "run_us", place));
  profile.step = Seconds(1e-3 * get<double>(json, "step_ms", place));
  return profile;
}

}  // namespace

const std::vector<SoftwareProfile>& software_profiles() {
  static const std::vector<SoftwareProfile> profiles = [] {
    const std::string place = "software.json";
    const Json file = parse_json(std::string(kSoftwareJson), place);
    std::vector<SoftwareProfile> read;
    for (const Json& profile : member(file, "profiles", place)) read.push_back(profile_from_json(profile, place));
    return read;
  }();
  return profiles;
}

double sustained_factor(const std::string& generation) {
  static const Json factors =
      member(parse_json(std::string(kSoftwareJson), "software.json"), "sustained", "software.json");
  return factors.contains(generation) ? factors.at(generation).get<double>() : 1.0;
}

const SoftwareProfile& find_software_profile(const std::string& name) {
  const std::vector<SoftwareProfile>& all = software_profiles();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SoftwareProfile& profile) { return profile.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> known;
  for (const SoftwareProfile& profile : all) known.push_back(profile.name);
  throw InputError(unknown_name("software", name, known, "docs/cost-model.md lists all."));
}

}  // namespace meshwright
