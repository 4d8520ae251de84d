// SPDX-License-Identifier: Apache-2.0
#include "launch/read/meshes/jax_specs.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/meshes/mesh_parts.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

ShardingSpec JaxSpecs::spec(const std::string& tensor, const ConfigValue& call, const std::string& where) const {
  const auto known = dimensions_.find(tensor);
  require(known != dimensions_.end(), "{}: '{}' is not in DIMENSIONS.", where, tensor);
  const std::string place = where + ": " + tensor;
  require(call.is_map() && last_name(call.text) == "P", "{}: {} is no PartitionSpec.", place, to_text(call));
  require(call.members.size() <= known->second, "{}: a PartitionSpec of {} dimensions, and the tensor has {}.", place,
          call.members.size(), known->second);
  ShardingSpec spec;
  spec.dims.assign(known->second, 0);
  AxisMask used = 0;
  for (std::size_t d = 0; d < call.members.size(); ++d) {
    const ConfigValue& own = call.members[d].second;
    if (own.kind == ConfigValue::Kind::Null) continue;
    spec.dims[d] = mask(own, place);
    require((used & spec.dims[d]) == 0, "{}: a mesh axis splits two dimensions in {}.", place, to_text(call));
    used = static_cast<AxisMask>(used | spec.dims[d]);
  }
  return spec;
}

AxisMask JaxSpecs::mask(const ConfigValue& axes, const std::string& where) const {
  AxisMask made = 0;
  for (const ConfigValue& axis : items_of(axes)) {
    const auto found = std::find(axes_.begin(), axes_.end(), axis.text);
    require(found != axes_.end() && axis.is_scalar(), "{}: '{}' is no axis of the mesh, which has {}.", where,
            to_text(axis), join(axes_, ", "));
    const auto bit = static_cast<AxisMask>(1U << static_cast<unsigned>(found - axes_.begin()));
    require((made & bit) == 0, "{}: the mesh axis '{}' is given twice; give it once.", where, axis.text);
    made = static_cast<AxisMask>(made | bit);
  }
  return made;
}

const ConfigValue& member(const ConfigValue& table, const char* key, const std::string& where) {
  const ConfigValue* found = table.find(key);
  require(found != nullptr, "{}: has no '{}'.", where, key);
  return *found;
}

namespace {

using Rows = std::vector<std::pair<std::string, ConfigValue>>;

// Empty where the table is left out.
const Rows& rows_of(const ConfigValue& stage, const char* key, const std::string& where) {
  static const Rows none;
  const ConfigValue* found = stage.find(key);
  if (found == nullptr) return none;
  require(found->is_map(), "{}: '{}' is no table of names.", where, key);
  return found->members;
}

class Decisions {
 public:
  Decisions(const ConfigValue& table, const JaxSpecs& specs, const std::string& where, DecidedStage& decided)
      : table_(table), specs_(specs), where_(where), decided_(decided) {}

  void read() {
    for (const char* needed : {"parameters", "states", "results", "sums", "received"})
      (void)member(table_, needed, where_);
    operators();
    parameters();
    borders();
  }

 private:
  [[nodiscard]] std::string place(const char* key, const std::string& name) const {
    return fmt::format("{}: '{}': {}", where_, key, name);
  }
  [[nodiscard]] const Rows& rows(const char* key) const { return rows_of(table_, key, where_); }

  OpSharding& operator_of(const char* key, const std::string& name) {
    const auto found = decided_.stage.ops.find(name);
    require(found != decided_.stage.ops.end(), "{}: is not among the stage's 'results'.", place(key, name));
    return found->second;
  }

  void operators() {
    for (const auto& [name, spec] : rows("results"))
      decided_.stage.ops[name].result = specs_.spec(name, spec, place("results", name));
    std::size_t split = 0;
    for (const auto& [name, axes] : rows("splits")) {
      OpSharding& sharding = operator_of("splits", name);
      require(axes.is_map(), "{}: is no table of axes.", place("splits", name));
      for (const auto& [axis, over] : axes.members) sharding.axes[axis] = specs_.mask(over, place("splits", name));
      ++split;
    }
    require(split == decided_.stage.ops.size(),
            "{}: 'splits' says of {} operators how they are split, and 'results' has {}; leave it out to have it "
            "searched.",
            where_, split, decided_.stage.ops.size());
    for (const auto& [name, axes] : rows("sums"))
      operator_of("sums", name).result.partial = specs_.mask(axes, place("sums", name));
    for (const auto& [name, axes] : rows("reads_sums"))
      operator_of("reads_sums", name).partial = specs_.mask(axes, place("reads_sums", name));
  }

  void parameters() {
    for (const auto& [name, spec] : rows("parameters")) {
      const ShardingSpec weight = specs_.spec(name, spec, place("parameters", name));
      decided_.parameters[name] = {weight, weight, false};
    }
    for (const auto& [name, spec] : rows("states")) {
      const auto found = decided_.parameters.find(name);
      require(found != decided_.parameters.end(), "{}: is not among the stage's 'parameters'.", place("states", name));
      found->second.state = specs_.spec(name, spec, place("states", name));
    }
    for (const auto& [key, spec] : rows("readers")) {
      const ShardingSpec weight = specs_.spec(parameter_of(key), spec, place("readers", key));
      decided_.readers[key] = {weight, weight, false};
    }
    for (const auto& [key, spec] : rows("readers_states")) {
      const auto found = decided_.readers.find(key);
      require(found != decided_.readers.end(), "{}: is not among the stage's 'readers'.", place("readers_states", key));
      found->second.state = specs_.spec(parameter_of(key), spec, place("readers_states", key));
    }
    for (const auto& [key, is_one] : rows("eager")) {
      require(is_one.text == "True", "{}: leave the operator out, or give True.", place("eager", key));
      decided_.eager.insert(key);
    }
  }

  void borders() {
    StagePlan& stage = decided_.stage;
    for (const auto& [name, spec] : rows("received"))
      stage.inputs[name] = specs_.spec(name, spec, place("received", name));
    for (const auto& [name, copy] : rows("copies")) {
      const std::string at = place("copies", name);
      FanOut& fan_out = stage.fan_outs[name];
      fan_out.copy = specs_.spec(name, member(copy, "copy", at), at);
      fan_out.gradient = specs_.spec(name, member(copy, "gradient", at), at);
      fan_out.gradient.partial = specs_.mask(member(copy, "sums", at), at);
    }
    for (const auto& [from, form] : rows("messages")) {
      const auto number = whole_number(from);
      require(number && *number >= 0 && *number <= kMaxDegree, "{}: is no number of a stage.", place("messages", from));
      try {
        stage.cross_mesh[static_cast<int>(*number)] = cross_mesh_from_name(form.text);
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", place("messages", from), error.what()));
      }
    }
    if (const ConfigValue* axes = table_.find("rings"); axes != nullptr)
      stage.contexts.rings = specs_.mask(*axes, where_ + ": 'rings'");
    if (const ConfigValue* axes = table_.find("exchanges"); axes != nullptr)
      stage.contexts.exchanges = specs_.mask(*axes, where_ + ": 'exchanges'");
  }

  static std::string parameter_of(const std::string& key) { return key.substr(key.find('/') + 1); }

  const ConfigValue& table_;
  const JaxSpecs& specs_;
  const std::string& where_;
  DecidedStage& decided_;
};

}  // namespace

void read_decisions(const ConfigValue& table, const JaxSpecs& specs, const std::string& where, DecidedStage& decided) {
  Decisions(table, specs, where, decided).read();
}

}  // namespace meshwright
