// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/stages/stage_profile.h"

namespace meshwright {

namespace {

using Numbering = StageProfileKey::Numbering;

void require_members(const Json& object, const std::vector<std::string>& known, const std::string& place) {
  require(object.is_object(), "{}: an object was expected.", place);
  for (const auto& [key, value] : object.items())
    require(std::find(known.begin(), known.end(), key) != known.end(),
            "{}: unknown member '{}'; the nearest known are {}.", place, key, join(nearest_names(key, known), ", "));
}

std::int64_t positive(const Json& object, const char* key, const std::string& place) {
  const auto value = get<std::int64_t>(object, key, place);
  require(value >= 1, "{}: '{}' is {}; a number from 1 upwards was expected.", place, key, value);
  return value;
}

Json numbering_json(const Numbering& numbering) {
  return {{"rules", numbering.rules},
          {"schedule", numbering.schedule},
          {"micro_batches", numbering.microbatches},
          {"memory_bytes", numbering.memory.si()},
          {"costs", numbering.costs}};
}

Numbering numbering_from_json(const Json& json, const std::string& place) {
  require_members(json, {"rules", "schedule", "micro_batches", "memory_bytes", "costs"}, place);
  Numbering numbering;
  numbering.rules = get<std::string>(json, "rules", place);
  numbering.schedule = get<std::string>(json, "schedule", place);
  numbering.microbatches = positive(json, "micro_batches", place);
  numbering.memory = Bytes(get<double>(json, "memory_bytes", place));
  require(std::isfinite(numbering.memory.si()) && numbering.memory.si() >= 0,
          "{}: 'memory_bytes' is {}; a number from 0 upwards was expected.", place, numbering.memory.si());
  numbering.costs = get<std::string>(json, "costs", place);
  return numbering;
}

std::vector<int> layer_starts_of(const Json& json, const std::string& place) {
  std::vector<int> starts = get<std::vector<int>>(json, "layer_starts", place);
  require(!starts.empty() && starts.front() == 0, "{}: 'layer_starts' begins with the first op of the first layer, 0.",
          place);
  require(std::adjacent_find(starts.begin(), starts.end(), std::greater_equal<>()) == starts.end(),
          "{}: 'layer_starts' must ascend.", place);
  return starts;
}

// What the costs depend on.
Json costed(Cluster cluster) {
  for (HostGroup& group : cluster.groups) group.device.price_per_device_hour = group.device.watts = std::nullopt;
  return to_json(cluster);
}

// What the key says of a training, whoever knows it.
StageProfileKey key_of(const ModelConfig& model, const TrainingOptions& training, const Cluster& cluster) {
  MW_CHECK(training.microbatches >= 1 && training.batch % training.microbatches == 0, "a batch of {} in {}",
           training.batch, training.microbatches);
  StageProfileKey key;
  key.model = model.name;
  // A stage's times depend on the samples of a micro-batch, not on the number of micro-batches.
  key.batch_per_microbatch = training.batch / training.microbatches;
  key.dtype = name_of(training.dtype);
  key.recompute = recompute_text(training);
  key.optimizer = name_of(training.optimizer.kind);
  key.cluster = costed(cluster);
  return key;
}

std::string cut_text(const std::vector<int>& starts) { return fmt::format("{}", fmt::join(starts, ",")); }

}  // namespace

std::string to_text(const StageProfileKey& key) {
  Json json = {{"model", key.model},
               {"graph", key.graph},
               {"layer_starts", key.layer_starts},
               {"batch_per_micro_batch", key.batch_per_microbatch},
               {"dtype", key.dtype},
               {"recompute", key.recompute},
               {"optimizer", key.optimizer},
               {"cluster", key.cluster}};
  if (key.numbering) json["numbering"] = numbering_json(*key.numbering);
  return json_text(json);
}

StageProfileKey stage_profile_key_from_text(const std::string& text, const std::string& place) {
  const Json json = parse_json(text, place);
  require_members(json,
                  {"model", "graph", "layer_starts", "batch_per_micro_batch", "dtype", "recompute", "optimizer",
                   "cluster", "numbering"},
                  place);
  StageProfileKey key;
  key.model = get<std::string>(json, "model", place);
  key.graph = get<std::string>(json, "graph", place);
  key.layer_starts = layer_starts_of(json, place);
  key.batch_per_microbatch = positive(json, "batch_per_micro_batch", place);
  key.dtype = get<std::string>(json, "dtype", place);
  key.recompute = get<std::string>(json, "recompute", place);
  key.optimizer = get<std::string>(json, "optimizer", place);
  // Read and written again: members in another order are the same cluster.
  key.cluster = costed(cluster_from_json(member(json, "cluster", place), place + ": cluster"));
  if (json.contains("numbering")) key.numbering = numbering_from_json(json.at("numbering"), place + ": numbering");
  return key;
}

StageProfileKey stage_profile_key(const ModelConfig& model, const Graph& graph, const TrainingOptions& training,
                                  const Cluster& cluster, const Layers& layers) {
  StageProfileKey key = key_of(model, training, cluster);
  key.graph = fingerprint_of(graph);
  int position = 0;
  for (const auto& ops : layers.forward) {
    key.layer_starts.push_back(position);
    position += static_cast<int>(ops.size());
  }
  return key;
}

StageProfileKey stage_profile_key(const Plan& plan) {
  StageProfileKey key = key_of(plan.model, plan.training, plan.cluster);
  key.graph = plan.graph_fingerprint;
  key.layer_starts = plan.layer_starts;
  return key;
}

std::string stage_profile_rules(const Method& method, const ForcedSpecs& forced, std::optional<int> batch_axis,
                                bool any_recompute) {
  using Kind = Method::Kind;
  std::string text = method.text;
  // Given stages fix which spans are read, not what they cost; the specs of a file are spelled out below.
  if (method.kind == Kind::Manual) text = "pipeshard";
  if (method.kind == Kind::Specs) text = "shard";
  ForcedSpecs all = method.forced;
  for (const auto& [tensor, spec] : forced) all[tensor] = spec;
  for (const auto& [tensor, spec] : all) text += fmt::format("; {}={}", tensor, spec.to_text());
  if (batch_axis) text += fmt::format("; batch axis {}", *batch_axis);
  if (any_recompute) text += "; any recompute";
  return text;
}

std::vector<std::string> key_differences(const StageProfileKey& stored, const StageProfileKey& wanted) {
  std::vector<std::string> found;
  const auto compare = [&](bool same, const char* what, const auto& has, const auto& wants) {
    if (!same) found.push_back(fmt::format("of {}{}, not of {}", what, has, wants));
  };
  const auto text = [&](const char* what, const std::string& has, const std::string& wants) {
    compare(has == wants, what, has, wants);
  };
  if (stored.cluster != wanted.cluster) {
    const auto has = stored.cluster.at("name").get<std::string>(), wants = wanted.cluster.at("name").get<std::string>();
    if (has == wants)
      found.push_back(fmt::format("of another description of cluster {}", has));
    else
      compare(false, "cluster ", has, wants);
  }
  text("model ", stored.model, wanted.model);
  compare(stored.batch_per_microbatch == wanted.batch_per_microbatch,
          "samples per micro-batch: ", stored.batch_per_microbatch, wanted.batch_per_microbatch);
  text("type ", stored.dtype, wanted.dtype);
  text("recompute ", stored.recompute, wanted.recompute);
  text("optimizer ", stored.optimizer, wanted.optimizer);
  compare(stored.layer_starts == wanted.layer_starts, "layers that begin at ops ", cut_text(stored.layer_starts),
          cut_text(wanted.layer_starts));
  // Where the names above differ, the fingerprint says nothing new.
  if (found.empty()) text("graph ", stored.graph, wanted.graph);
  if (!stored.numbering || !wanted.numbering) return found;
  const Numbering &has = *stored.numbering, &wants = *wanted.numbering;
  text("method ", has.rules, wants.rules);
  text("schedule ", has.schedule, wants.schedule);
  compare(has.microbatches == wants.microbatches, "micro-batches: ", has.microbatches, wants.microbatches);
  compare(has.memory == wants.memory, "bytes of memory per device: ", has.memory.si(), wants.memory.si());
  text("costs ", has.costs, wants.costs);
  return found;
}

}  // namespace meshwright
