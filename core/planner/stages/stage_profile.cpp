// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/stage_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

std::string to_text(const StagePlace& place) {
  return fmt::format("layers {}..{} on {} as {}{}", place.first, place.last, to_text(place.submesh),
                     fmt::join(place.shape, "x"),
                     place.batch_axis ? fmt::format(", batch on axis {}", *place.batch_axis) : "");
}

std::string to_text(const StageProfileName& name) {
  return name.sharding.empty() ? fmt::format("{}, option {}", to_text(name.place), name.option)
                               : fmt::format("{}, sharding {}", to_text(name.place), name.sharding);
}

std::string sharding_fingerprint(const StagePlan& stage) {
  // The plan's maps are sorted by name, so equal shardings give equal texts.
  std::string text;
  for (const auto& [name, op] : stage.ops) {
    text += fmt::format("op {}", name);
    // An axis that splits nothing may be there with 0 or be left out: both give the same text.
    for (const auto& [axis, mask] : op.axes)
      if (mask != 0) text += fmt::format(" {}={}", axis, mask);
    text += fmt::format(" -> {} partial {}\n", op.result.to_text(), op.partial);
  }
  for (const auto& [name, parameter] : stage.parameters)
    text += fmt::format("parameter {} {} {} {}\n", name, parameter.weight.to_text(), parameter.state.to_text(),
                        parameter.eager);
  for (const auto& [name, spec] : stage.inputs) text += fmt::format("input {} {}\n", name, spec.to_text());
  for (const auto& [name, fan_out] : stage.fan_outs)
    text += fmt::format("fan-out {} {} {}\n", name, fan_out.copy.to_text(), fan_out.gradient.to_text());
  return fmt::format("{:016x}", stable_hash(text));
}

// --- one entry ---

StepCost StageProfile::over(const StepCost& modelled) const {
  // What no entry stores, as the bytes held between the halves of a backward, stays as modelled.
  StepCost cost = modelled;
  cost.forward = forward;
  cost.backward = backward;
  cost.step = step;
  if (!memory) return cost;
  cost.resident = memory->resident;
  cost.saved = memory->saved;
  cost.recomputed = memory->recomputed;
  cost.recomputed_at_once = memory->recomputed_at_once;
  cost.working = memory->working;
  return cost;
}

StageProfile modelled_profile(const StepCost& cost, const StageBoundary& boundary) {
  StageProfile profile;
  profile.forward = cost.forward;
  profile.backward = cost.backward;
  profile.step = cost.step;
  profile.memory = {cost.resident, cost.saved, cost.recomputed, cost.recomputed_at_once, cost.working};
  profile.boundary_in = boundary.in;
  profile.boundary_out = boundary.out;
  return profile;
}

StageBoundary stage_boundary(const StepStructure& structure, int first, int last) {
  StageBoundary boundary;
  const Graph& graph = structure.graph();
  if (first > 0)
    for (const TensorId tensor : structure.crossing(first))
      if (structure.is_read(tensor, first, last)) boundary.in += graph.tensor(tensor).bytes();
  if (last + 1 == structure.layers().count) return boundary;
  for (const TensorId tensor : structure.crossing(last + 1)) {
    const auto maker = graph.tensor(tensor).producer;
    MW_CHECK(maker.has_value(), "'{}' crosses layers and no op makes it", graph.tensor(tensor).name);
    // Tensors of earlier stages only pass by.
    if (structure.layers().layer_of_op[maker->index()] >= first) boundary.out += graph.tensor(tensor).bytes();
  }
  return boundary;
}

// --- the table ---

namespace {

void require_sound(const StageProfileName& name, const StageProfile& entry, std::size_t layers) {
  const StagePlace& place = name.place;
  require(place.first >= 0 && place.first <= place.last && place.last < static_cast<int>(layers),
          "stage profile: {}: the key has the layers 0..{}; give spans of these.", to_text(place),
          static_cast<int>(layers) - 1);
  // The product has a cap, so that wrong sizes cannot overflow.
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  std::int64_t devices = 1;
  for (const int size : place.shape) devices = std::min(kMany, devices * std::max(1, size));
  const std::int64_t held = std::int64_t{place.submesh.hosts} * place.submesh.devices_per_host;
  const bool mesh = !place.shape.empty() && devices == held && place.submesh.group >= 0 &&
                    std::all_of(place.shape.begin(), place.shape.end(), [](int size) { return size >= 1; });
  require(mesh, "stage profile: {}: the logical shape has other devices than the submesh; give one of as many.",
          to_text(place));
  require(!place.batch_axis || (*place.batch_axis >= 0 && *place.batch_axis < static_cast<int>(place.shape.size())),
          "stage profile: {}: the mesh has the axes 0..{}; choose the batch axis from these.", to_text(place),
          place.shape.size() - 1);
  std::vector<std::pair<const char*, double>> numbers = {{"forward", entry.forward.si()},
                                                         {"backward", entry.backward.si()},
                                                         {"step", entry.step.si()},
                                                         {"boundary in", entry.boundary_in.si()},
                                                         {"boundary out", entry.boundary_out.si()}};
  if (entry.memory)
    numbers.insert(numbers.end(), {{"resident", entry.memory->resident.si()},
                                   {"saved", entry.memory->saved.si()},
                                   {"recomputed", entry.memory->recomputed.si()},
                                   {"repeated", entry.memory->recomputed_at_once.si()},
                                   {"working", entry.memory->working.si()}});
  if (entry.measured)
    numbers.insert(numbers.end(), {{"forward spread", entry.measured->forward_spread.si()},
                                   {"backward spread", entry.measured->backward_spread.si()},
                                   {"step spread", entry.measured->step_spread.si()}});
  for (const auto& [what, value] : numbers)
    require(std::isfinite(value) && value >= 0.0, "stage profile: {}: {} is {}; a number from 0 upwards was expected.",
            to_text(name), what, value);
  require(!entry.measured || entry.measured->samples >= 1, "stage profile: {}: {} samples; at least 1 was expected.",
          to_text(name), entry.measured ? entry.measured->samples : 0);
}

}  // namespace

void StageProfileTable::add(const StageProfileName& name, const StageProfile& entry) {
  require_sound(name, entry, key_.layer_starts.size());
  require(!name.sharding.empty() || key_.numbering.has_value(),
          "stage profile: {}: the key says nothing of option numbers; give the sharding's fingerprint.", to_text(name));
  require(name.sharding.empty() || (name.option == 0 && !name.place.batch_axis),
          "stage profile: {}: a sharding stands for its option and its batch axis; leave these out.", to_text(name));
  require(entries_.emplace(name, entry).second, "stage profile: {} stands there twice; give every entry once.",
          to_text(name));
}

const StageProfile* StageProfileTable::find(const StagePlace& place, int option) const {
  const auto at = entries_.find({place, option, ""});
  return at == entries_.end() ? nullptr : &at->second;
}

const StageProfile* StageProfileTable::find(const StagePlace& place, int option,
                                            const std::function<std::string()>& sharding) const {
  StagePlace bare = place;
  bare.batch_axis.reset();
  // The shardings of a place come after its option 0 and before its option 1.
  const auto at = entries_.upper_bound({bare, 0, ""});
  if (at != entries_.end() && at->first.place == bare && at->first.option == 0) {
    const auto known = entries_.find({bare, 0, sharding()});
    if (known != entries_.end()) return &known->second;
  }
  return find(place, option);
}

StepCost StageProfileTable::cost(const StagePlace& place, int option, const std::function<std::string()>& sharding,
                                 const StepCost& modelled, StageProfileMode mode) const {
  const StageProfile* known = find(place, option, sharding);
  if (mode == StageProfileMode::Wholly) {
    const std::string name = to_text(StageProfileName{place, option, ""});
    require(known != nullptr,
            "stage profile: {} is missing; add it, or take what is there with --stage-profile-mode partly.", name);
    require(known->memory.has_value(),
            "stage profile: {} has times, but no memory; add it, or take what is there with --stage-profile-mode "
            "partly.",
            name);
  }
  return known ? known->over(modelled) : modelled;
}

// --- tables of one file ---

StageProfileFile::StageProfileFile(std::vector<StageProfileTable> tables, std::string place)
    : tables_(std::move(tables)), place_(std::move(place)) {
  require(entries() > 0,
          "{}: holds no stage profiles; `meshwright plan ... --write-stage-profile {}` exports them, `meshwright run "
          "PLAN --db {}` those of a plan for this machine.",
          place_, place_, place_);
}

std::size_t StageProfileFile::entries() const {
  std::size_t count = 0;
  for (const StageProfileTable& table : tables_) count += table.entries().size();
  return count;
}

void StageProfileFile::require_cluster(const Cluster& cluster) const {
  const Json wanted = to_json(cluster);
  std::vector<std::string> names;
  for (const StageProfileTable& table : tables_) {
    const Json& stored = table.key().cluster;
    if (stored == wanted) return;
    const std::string name = stored.at("name").get<std::string>();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  // The name alone would not tell the two clusters apart.
  const bool renamed = std::find(names.begin(), names.end(), cluster.name) != names.end();
  throw InputError(fmt::format(
      "{}: holds stage profiles of {}cluster {}, not of {}; plan for that cluster, or export profiles of this one with "
      "--write-stage-profile.",
      place_, renamed ? "another description of " : "", join(names, ", "),
      renamed ? "the one to plan for" : cluster.name));
}

StageProfileTable StageProfileFile::serving(const StageProfileKey& key) const {
  StageProfileTable found(key);
  for (const StageProfileTable& table : tables_) {
    if (!key_differences(table.key(), key).empty()) continue;
    for (const auto& [name, entry] : table.entries()) found.add(name, entry);
  }
  return found;
}

std::string StageProfileFile::why_unused(const StageProfileKey& key) const {
  // The table with the fewest differences is most likely the one that was meant.
  std::vector<std::string> fewest;
  for (const StageProfileTable& table : tables_) {
    const std::vector<std::string> differences = key_differences(table.key(), key);
    if (fewest.empty() || differences.size() < fewest.size()) fewest = differences;
  }
  MW_CHECK(!fewest.empty(), "{}: there are stage profiles for this search", place_);
  return fmt::format(
      "{}: holds stage profiles {}; export profiles of this search with --write-stage-profile, or leave "
      "--stage-profile out.",
      place_, fewest.front());
}

StageProfileMode stage_profile_mode_from_name(const std::string& name) {
  if (name == "partly") return StageProfileMode::Partly;
  if (name == "wholly") return StageProfileMode::Wholly;
  throw InputError(fmt::format("unknown name '{}'; expected partly or wholly.", name));
}

StageCostSource stage_cost_source_from_name(const std::string& name) {
  if (name == "composition") return StageCostSource::Composition;
  if (name == "individual") return StageCostSource::Individual;
  throw InputError(fmt::format("unknown name '{}'; expected composition or individual.", name));
}

}  // namespace meshwright
