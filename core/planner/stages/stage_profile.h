// SPDX-License-Identifier: Apache-2.0
// The stage table as data that outlives its search: what every span of layers costs on every mesh, modelled or
// measured, to be stored (stage_profile_csv.h, costmodel/profile_db.h), brought back, and put in the place of modelled
// costs. Alpa's profile results, result[(i, j, s, c), m].
//
//   table = key + entries;  key   = everything that the entries depend on
//                           entry = place (layers i..j, submesh, logical shape, batch axis), option -> seconds, bytes
//
// Option numbers are those of one search (StageSearch: a memory price each) and mean nothing under another model, cut,
// cluster, method or cost model: all of these stand in the key. A stage that was run was run with one sharding: its
// entry bears that sharding's fingerprint in the place of a number, and holds under every method and cost model.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/planner/intra_op/layer_model.h"
#include "core/planner/method/method.h"

namespace meshwright {

// Layers first..last on one logical mesh. `batch_axis`: batches are held to that mesh axis (hold_batch_to_axis).
struct StagePlace {
  int first, last;
  Submesh submesh;
  std::vector<int> shape;
  std::optional<int> batch_axis = std::nullopt;
  auto operator<=>(const StagePlace&) const = default;
};
// "layers 3..5 on 1x4 as 2x2"; further ", batch on axis 0" where that is so.
[[nodiscard]] std::string to_text(const StagePlace& place);

struct StageProfileName {
  StagePlace place;
  int option = 0;             // 0 where `sharding` is given
  std::string sharding = {};  // sharding_fingerprint; "": the entry is of `option`
  auto operator<=>(const StageProfileName&) const = default;
};
[[nodiscard]] std::string to_text(const StageProfileName& name);  // "layers 3..5 on 1x4 as 2x2, option 0"

// How the stage's ops, parameters and inputs are split: hash of a canonical text, in hex.
[[nodiscard]] std::string sharding_fingerprint(const StagePlan& stage);

// Per device, as in StepCost.
struct StageMemory {
  Bytes resident{0.0}, saved{0.0}, recomputed{0.0}, recomputed_at_once{0.0}, working{0.0};
  bool operator==(const StageMemory&) const = default;
};

struct StageProfile {
  Seconds forward{0.0}, backward{0.0};  // per microbatch
  Seconds step{0.0};                    // once per step
  std::optional<StageMemory> memory;    // nullopt: as it is modelled
  // Whole tensors that cross into the span and out of it, per microbatch, forward; their gradients go back.
  Bytes boundary_in{0.0}, boundary_out{0.0};
  struct Measured {
    int samples = 1;                                                      // the times are their medians
    Seconds forward_spread{0.0}, backward_spread{0.0}, step_spread{0.0};  // median absolute deviations
    bool operator==(const Measured&) const = default;
  };
  std::optional<Measured> measured;  // nullopt: modelled

  // These times, and this memory where it is known.
  [[nodiscard]] StepCost over(const StepCost& modelled) const;
  bool operator==(const StageProfile&) const = default;
};

struct StageBoundary {
  Bytes in{0.0}, out{0.0};
};
// Bytes of the tensors made before `first` that layers first..last read, and of those made in first..last that later
// layers read.
[[nodiscard]] StageBoundary stage_boundary(const StepStructure& structure, int first, int last);
[[nodiscard]] StageProfile modelled_profile(const StepCost& cost, const StageBoundary& boundary);

struct StageProfileKey {
  std::string model;  // its name, for people
  std::string graph;  // Plan::graph_fingerprint
  std::vector<int> layer_starts;
  std::int64_t batch_per_microbatch = 1;
  std::string dtype, recompute, optimizer;  // names, for people: the graph's fingerprint covers them
  Json cluster;                             // to_json(Cluster)
  // What the option numbers depend on besides.
  struct Numbering {
    std::string rules;  // stage_profile_rules
    std::string schedule;
    std::int64_t microbatches = 1;
    Bytes memory{0.0};  // usable per device, as the search is told; 0: of every device what its kind has
    std::string costs;  // fingerprint of the cost model
    bool operator==(const Numbering&) const = default;
  };
  std::optional<Numbering> numbering;  // nullopt: every entry bears a sharding's fingerprint
  bool operator==(const StageProfileKey&) const = default;
};
[[nodiscard]] std::string to_text(const StageProfileKey& key);  // canonical JSON, one line
// Throws InputError naming `place` for what is no such text; unknown members are refused.
[[nodiscard]] StageProfileKey stage_profile_key_from_text(const std::string& text, const std::string& place);
// Without numbering; of the graph as the training options make it.
[[nodiscard]] StageProfileKey stage_profile_key(const ModelConfig& model, const Graph& graph,
                                                const TrainingOptions& training, const Cluster& cluster,
                                                const Layers& layers);
[[nodiscard]] StageProfileKey stage_profile_key(const Plan& plan);  // the same, without numbering
// What a search chooses from, as one canonical text: the method without what fixes its stages, the forced specs, the
// batch axis, whether each layer's recomputation is chosen.
[[nodiscard]] std::string stage_profile_rules(const Method& method, const ForcedSpecs& forced,
                                              std::optional<int> batch_axis, bool any_recompute = false);
// What keeps entries under `stored` from serving `wanted`: "of cluster p3.16xlarge:2, not of p3.16xlarge:8", the
// plainest first; none: nothing. Entries without numbering serve every numbering.
[[nodiscard]] std::vector<std::string> key_differences(const StageProfileKey& stored, const StageProfileKey& wanted);

// How a span without an entry is treated.
enum class StageProfileMode {
  Partly,  // it costs what is modelled
  Wholly,  // InputError that names it
};
[[nodiscard]] StageProfileMode stage_profile_mode_from_name(const std::string& name);  // "partly", "wholly"

// Where the costs of spans of several layers come from.
enum class StageCostSource {
  Composition,  // the best shardings of the whole span
  Individual,   // Alpa's one-dimensional profiles: single layers, added up (stage_costs.h)
};
[[nodiscard]] StageCostSource stage_cost_source_from_name(const std::string& name);  // "composition", "individual"

class StageProfileTable {
 public:
  explicit StageProfileTable(StageProfileKey key) : key_(std::move(key)) {}

  // Throws InputError for an entry that is there already, and for times and bytes that are negative or not finite.
  void add(const StageProfileName& name, const StageProfile& entry);

  [[nodiscard]] const StageProfileKey& key() const { return key_; }
  [[nodiscard]] const std::map<StageProfileName, StageProfile>& entries() const { return entries_; }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  // The entry of the option's sharding, where one was measured, else of the option's number; nullptr: none. `sharding`
  // (sharding_fingerprint of the option's stage) is called only where it decides.
  [[nodiscard]] const StageProfile* find(const StagePlace& place, int option,
                                         const std::function<std::string()>& sharding) const;
  [[nodiscard]] const StageProfile* find(const StagePlace& place, int option) const;  // by number alone

  // What the option costs: as found, over `modelled`. Wholly: throws InputError for an option that is missing, or whose
  // memory is.
  [[nodiscard]] StepCost cost(const StagePlace& place, int option, const std::function<std::string()>& sharding,
                              const StepCost& modelled, StageProfileMode mode) const;

 private:
  StageProfileKey key_;
  std::map<StageProfileName, StageProfile> entries_;
};

// Tables from one file.
class StageProfileFile {
 public:
  // `place` ("table.csv") names the file in errors. Throws InputError when there is no entry in any of them.
  StageProfileFile(std::vector<StageProfileTable> tables, std::string place);
  // Throws InputError unless one of the tables is of this cluster.
  void require_cluster(const Cluster& cluster) const;
  // The entries of all tables that serve `key`, under `key`; empty when there is none.
  [[nodiscard]] StageProfileTable serving(const StageProfileKey& key) const;
  // For the search that found none of its keys served: a sentence with what the nearest table differs in.
  [[nodiscard]] std::string why_unused(const StageProfileKey& key) const;
  [[nodiscard]] std::size_t entries() const;

 private:
  std::vector<StageProfileTable> tables_;
  std::string place_;
};

}  // namespace meshwright
