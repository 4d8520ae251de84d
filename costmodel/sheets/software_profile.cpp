// SPDX-License-Identifier: Apache-2.0
#include "costmodel/sheets/software_profile.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "costmodel/sheets/embedded.h"

namespace meshwright {

namespace {

constexpr std::array<std::pair<const char*, bool SoftwareProfile::*>, 19> kChoices = {{
    {"fused_attention", &SoftwareProfile::fused_attention},
    {"fused_bias", &SoftwareProfile::fused_bias},
    {"fused_accumulation", &SoftwareProfile::fused_accumulation},
    {"fused_projections", &SoftwareProfile::fused_projections},
    {"scatter_gather", &SoftwareProfile::scatter_gather},
    {"balances_causal", &SoftwareProfile::balances_causal},
    {"pads_vocabulary", &SoftwareProfile::pads_vocabulary},
    {"overlaps", &SoftwareProfile::overlaps},
    {"fused_scaling", &SoftwareProfile::fused_scaling},
    {"fused_activation", &SoftwareProfile::fused_activation},
    {"dropout", &SoftwareProfile::dropout},
    {"weights_from_master", &SoftwareProfile::weights_from_master},
    {"keeps_gathered_stage", &SoftwareProfile::keeps_gathered_stage},
    {"keeps_gathered_inputs", &SoftwareProfile::keeps_gathered_inputs},
    {"keeps_sent", &SoftwareProfile::keeps_sent},
    {"keeps_eight_bit_inputs", &SoftwareProfile::keeps_eight_bit_inputs},
    {"weighs_within_experts", &SoftwareProfile::weighs_within_experts},
    {"selective_by_op", &SoftwareProfile::selective_by_op},
    {"selective_by_cost", &SoftwareProfile::selective_by_cost},
}};

constexpr std::array<std::pair<const char*, double SoftwareProfile::*>, 2> kSpreads = {{
    {"spread", &SoftwareProfile::spread},
    {"memory_spread", &SoftwareProfile::memory_spread},
}};

SoftwareProfile profile_of(const std::string& name, const std::vector<SoftwareProfile>& known,
                           const std::string& place) {
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const SoftwareProfile& profile) { return profile.name == name; });
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  for (const SoftwareProfile& profile : known) names.push_back(profile.name);
  throw InputError(place + unknown_name("software", name, names, "docs/cost-model.md lists all."));
}

// What a profile leaves out is as in the one it is `like`, or else the default of its member.
SoftwareProfile profile_from_json(const Json& json, const std::vector<SoftwareProfile>& known,
                                  const std::string& place) {
  require(json.is_object(), "{}: an object was expected.", place);
  SoftwareProfile profile;
  if (json.contains("like")) profile = profile_of(get<std::string>(json, "like", place), known, place + ": like: ");
  profile.name = get<std::string>(json, "name", place);
  for (const auto& item : json.items()) {
    const std::string key = item.key();
    const Json& value = item.value();
    // `mixtures`: where the numbers of mixtures of experts come from.
    if (key == "name" || key == "format" || key == "like" || key == "mixtures") continue;
    if (key == "fitted") {  // where the numbers come from
      profile.fitted = true;
      if (value.contains("generations"))
        profile.fitted_generations = get<std::vector<std::string>>(value, "generations", place + ": 'fitted'");
      continue;
    }
    if (key == "about") {
      profile.about = get<std::string>(json, "about", place);
      continue;
    }
    if (key == "product_dtype") {
      profile.product_dtype = get<std::string>(json, "product_dtype", place);
      continue;
    }
    if (key == "loss_chunks") {
      profile.loss_chunks =
          value.is_number_integer()
              ? loss_chunks_from_text(value.dump(), place + ": 'loss_chunks'")
              : loss_chunks_from_text(get<std::string>(json, "loss_chunks", place), place + ": 'loss_chunks'");
      continue;
    }
    const auto choice = std::find_if(kChoices.begin(), kChoices.end(), [&](const auto& c) { return key == c.first; });
    if (choice != kChoices.end()) {
      profile.*choice->second = get<bool>(json, choice->first, place);
      continue;
    }
    const auto spread = std::find_if(kSpreads.begin(), kSpreads.end(), [&](const auto& s) { return key == s.first; });
    if (spread != kSpreads.end()) {
      const double given = get<double>(json, spread->first, place);
      require(given >= 0 && given <= 2, "{}: '{}' is {}; give 0 to 2.", place, key, given);
      profile.*spread->second = given;
      continue;
    }
    const std::vector<SoftwareNumber>& numbers = software_numbers();
    const auto number = std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return key == n.key; });
    require(number != numbers.end(), "{}: unknown member '{}' of a software profile; leave it out.", place, key);
    const double given = get<double>(json, number->key, place);
    require(given >= number->low && given <= number->high, "{}: '{}' is {}; give {} to {}.", place, key, given,
            number->low, number->high);
    profile.*number->member = given;
  }
  return profile;
}

SoftwareProfile profile_of_file(const std::string& path) {
  const Json json = read_json_file(path);
  require(json.is_object() && json.contains("format") && json["format"] == "meshwright-software-profile 1",
          "{}: 'format' is not \"meshwright-software-profile 1\"; give a software profile.", path);
  return profile_from_json(json, software_profiles(), path);
}

// Bytes of a parameter that an update moves: gradients and moments in 32 bits, weights there and in 16; or all in 16.
// The two moments are read and written, and are part of them.
constexpr double kWideUpdate = 32.0, kWideMoments = 16.0, kNarrowUpdate = 14.0;

void set_up_states(SoftwareProfile& profile, bool narrow, int moment_bits) {
  profile.moment_share = std::min(moment_bits, narrow ? 16 : 32) / 32.0;
  const double moments = profile.moment_share * kWideMoments;
  const double beside = narrow ? kNarrowUpdate - 0.5 * kWideMoments : kWideUpdate - kWideMoments;
  profile.optimizer_bytes *= (beside + moments) / kWideUpdate;
  if (!narrow) return;
  profile.weights_from_master = false;
  profile.gradient_kept_bytes = profile.gradient_bytes = 2.0;
  profile.gradient_copy_bytes = 0.0;
  profile.optimizer_kept_bytes -= 4.0;  // the copy of the weights
}

// What no runs of the profile had leaves its predictions as uncertain as those of software that has none.
void set_up(SoftwareProfile& profile, const SoftwareSetup& setup) {
  const bool attention = setup.fused_attention && *setup.fused_attention != profile.fused_attention;
  const bool states = setup.narrow_states || setup.moment_bits < 32;
  if (attention || setup.dispatch != TokenDispatch::ToExperts)
    profile.spread = std::max(profile.spread, SoftwareProfile().spread);
  if ((states || attention) && profile.memory_spread > 0.0)  // this program's own is counted, not predicted
    profile.memory_spread = std::max(profile.memory_spread, SoftwareProfile().memory_spread);
  if (setup.eight_bit_products) profile.product_dtype = "f8";
  if (attention) profile.fused_attention = *setup.fused_attention;
  if (states) set_up_states(profile, setup.narrow_states, setup.moment_bits);
  if (setup.loss_chunks != 1) profile.loss_chunks = setup.loss_chunks;
  profile.dispatch = setup.dispatch;
  profile.experts_per_token = setup.experts_per_token;
}

}  // namespace

const std::vector<SoftwareNumber>& software_numbers() {
  using P = SoftwareProfile;
  static const std::vector<SoftwareNumber> numbers = {
      {"sustained", &P::sustained, 0.5, 2.0},
      {"pass_factor", &P::pass_factor, 0.2, 5.0},
      {"score_factor", &P::score_factor, 0.2, 5.0},
      {"attention_factor", &P::attention_factor, 0.2, 5.0},
      {"attention_on_newer", &P::attention_on_newer, 0.5, 4.0},
      {"grouped_factor", &P::grouped_factor, 0.5, 5.0},
      {"convolution_share", &P::convolution_share, 0.0, 1.0},
      {"collective_factor", &P::collective_factor, 0.0, 5.0},
      {"exchange_factor", &P::exchange_factor, 0.0, 5.0},
      {"exchange_between_hosts", &P::exchange_between_hosts, 0.05, 1.0},
      {"exchange_overlap", &P::exchange_overlap, 0.0, 1.0},
      {"quantise_passes", &P::quantise_passes, 0.0, 10.0},
      {"loss_factor", &P::loss_factor, 0.1, 10.0},
      {"accumulation_factor", &P::accumulation_factor, 0.1, 30.0},
      {"selective_recompute", &P::selective_recompute, 0.0, 1.0},
      {"gradient_bytes", &P::gradient_bytes, 1.0, 8.0},
      {"gradient_overlap", &P::gradient_overlap, 0.0, 1.0},
      {"bucket_mib", &P::bucket_mib, 1.0, 1e6},
      {"contention", &P::contention, 0.0, 2.0},
      {"optimizer_bytes", &P::optimizer_bytes, 4.0, 400.0},
      {"network_share", &P::network_share, 0.05, 1.5},
      {"message_share", &P::message_share, 0.05, 1.5},
      {"message_us", &P::message_us, 0.0, 1e4},
      {"message_gbs", &P::message_gbs, 0.0, 1e5},
      {"blocking", &P::blocking, 0.0, 1.0},
      {"dispatch_us", &P::dispatch_us, 0.0, 1e4},
      {"dispatch_collective_us", &P::dispatch_collective_us, 0.0, 1e5},
      {"dispatch_peer_us", &P::dispatch_peer_us, 0.0, 1e5},
      {"dispatch_tokens_us", &P::dispatch_tokens_us, 0.0, 1e5},
      {"dispatch_run_us", &P::dispatch_run_us, 0.0, 1e6},
      {"step_ms", &P::step_ms, 0.0, 1e4},
      {"gradient_kept_bytes", &P::gradient_kept_bytes, 1.0, 12.0},
      {"gradient_copy_bytes", &P::gradient_copy_bytes, 0.0, 8.0},
      {"optimizer_kept_bytes", &P::optimizer_kept_bytes, 4.0, 24.0},
      {"moment_share", &P::moment_share, 0.05, 1.0},
      {"logit_kept_bytes", &P::logit_kept_bytes, 2.0, 24.0},
      {"attention_copies", &P::attention_copies, 0.0, 8.0},
      {"gathered_layers", &P::gathered_layers, 1.0, 4.0},
      {"allocator_factor", &P::allocator_factor, 1.0, 1.5},
      {"driver_gib", &P::driver_gib, 0.0, 16.0},
  };
  return numbers;
}

const std::vector<SoftwareProfile>& software_profiles() {
  static const std::vector<SoftwareProfile> profiles = [] {
    const std::string place = "software.json";
    const Json file = parse_json(std::string(kSoftwareJson), place);
    std::vector<SoftwareProfile> read;
    for (const Json& profile : member(file, "profiles", place)) read.push_back(profile_from_json(profile, read, place));
    return read;
  }();
  return profiles;
}

SoftwareProfile find_software_profile(const std::string& name) {
  SoftwareName of = software_name_from_text(name);
  SoftwareProfile profile =
      of.profile.ends_with(".json") ? profile_of_file(of.profile) : profile_of(of.profile, software_profiles(), "");
  of.profile = profile.name;
  set_up(profile, of.setup);
  profile.name = to_text(of);
  return profile;
}

Json to_json(const SoftwareProfile& profile) {
  Json json = {{"format", "meshwright-software-profile 1"}, {"name", profile.name}, {"about", profile.about}};
  if (!profile.product_dtype.empty()) json["product_dtype"] = profile.product_dtype;
  if (profile.loss_chunks != 1)
    json["loss_chunks"] = profile.loss_chunks == kFittingLossChunks ? Json("auto") : Json(profile.loss_chunks);
  for (const auto& [key, choice] : kChoices) json[key] = profile.*choice;
  for (const SoftwareNumber& number : software_numbers()) json[number.key] = profile.*number.member;
  for (const auto& [key, spread] : kSpreads) json[key] = profile.*spread;
  return json;
}

double sustained_factor(const std::string& generation) {
  static const Json factors =
      member(parse_json(std::string(kSoftwareJson), "software.json"), "sustained", "software.json");
  return factors.contains(generation) ? factors.at(generation).get<double>() : 1.0;
}

}  // namespace meshwright
