// SPDX-License-Identifier: Apache-2.0
// Modules for JAX: the tables that export writes, or one mesh whose axes have names.
#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/meshes/jax_specs.h"
#include "launch/read/meshes/mesh_parts.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

class StageTables {
 public:
  explicit StageTables(ReadingJob& job) : job_(job), meshes_(*job.reading.setup.meshes) {}

  void read() {
    const Setting* stages = job_.settings().take("STAGES");
    const Setting* dims = job_.settings().take("DIMENSIONS");
    require(stages->value.is_list() && !stages->value.items.empty(), "{}: STAGES is no list of stages.", stages->place);
    require(dims != nullptr && dims->value.is_map(), "{}: DIMENSIONS is missing, which says the sizes of the tensors.",
            stages->place);
    read_dimensions(dims->value);
    if (const Setting* without = job_.settings().take("WITHOUT_STATES"); without != nullptr)
      for (const ConfigValue& name : items_of(without->value)) without_states_.push_back(name.text);
    const auto& tables = stages->value.items;
    const auto decided = std::count_if(tables.begin(), tables.end(),
                                       [](const ConfigValue& one) { return one.find("splits") != nullptr; });
    require(decided == 0 || decided == std::ssize(tables),
            "{}: {} of {} stages have 'splits'; give it in all of them, or leave it out to have them searched.",
            stages->place, decided, tables.size());
    // A name stands for the tensor on every stage's mesh: what crosses stages is left to the search.
    for (const ConfigValue& one : tables)
      if (const ConfigValue* received = one.find("received"); received != nullptr)
        for (const std::string& name : names_of(*received)) crossing_.push_back(name);
    for (std::size_t s = 0; s < tables.size(); ++s) stage(tables[s], fmt::format("{}: stage {}", stages->place, s));
    if (decided > 0) return;
    const auto& made = meshes_.stages;
    const bool alike = std::all_of(made.begin(), made.end(), [&](const Method::ManualStage& one) {
      return one.logical_shape == made.front().logical_shape;
    });
    if (alike) return;
    // A spec is forced on the meshes of all stages, of which another may have too few axes or devices for it.
    meshes_.specs.clear();
    job_.assume("shardings within the stages' meshes, which differ, as the search finds them");
  }

 private:
  void stage(const ConfigValue& one, const std::string& where) {
    require(one.is_map(), "{} is no table.", where);
    const std::vector<std::int64_t> mesh = numbers_of(member(one, "mesh", where), where + ": mesh");
    const std::vector<std::int64_t> devices = numbers_of(member(one, "devices", where), where + ": devices");
    const std::vector<std::int64_t> layers = numbers_of(member(one, "layers", where), where + ": layers");
    std::int64_t product = 1;
    for (const std::int64_t size : mesh) product = std::min<std::int64_t>(product * size, kMaxDegree);
    require(product == static_cast<std::int64_t>(devices.size()) && mesh.size() <= 8,
            "{}: a mesh of {} and {} devices.", where, fmt::join(mesh, " x "), devices.size());
    require(layers.size() == 2 && layers[0] <= layers[1] &&
                layers[1] < static_cast<std::int64_t>(meshes_.layer_starts.size()),
            "{}: 'layers' are not the first and the last of the {} in LAYER_STARTS.", where,
            meshes_.layer_starts.size());
    std::vector<std::string> axes;
    for (const ConfigValue& axis : items_of(member(one, "axes", where))) axes.push_back(axis.text);
    require(axes.size() == mesh.size(), "{}: {} axes of a mesh with {}.", where, axes.size(), mesh.size());
    Submesh submesh = submesh_of(product, job_.devices, where);
    if (const ConfigValue* hosts = one.find("hosts"); hosts != nullptr) {
      const std::int64_t over = numbers_of(*hosts, where + ": hosts").front();
      require(over >= 1 && product % over == 0, "{}: {} devices over {} hosts; give a number of hosts that divides.",
              where, product, over);
      submesh.hosts = static_cast<int>(over);
      submesh.devices_per_host = static_cast<int>(product / over);
    }
    meshes_.stages.push_back(
        {static_cast<int>(layers[0]), static_cast<int>(layers[1]), submesh, {mesh.begin(), mesh.end()}, {}});
    const JaxSpecs specs(dimensions_, axes);
    if (one.find("splits") == nullptr) return tensors(one, specs, where);
    DecidedStage& decided = meshes_.decided.emplace_back();
    decided.stage = {.first_layer = static_cast<int>(layers[0]),
                     .last_layer = static_cast<int>(layers[1]),
                     .submesh = submesh,
                     .logical_shape = {mesh.begin(), mesh.end()},
                     .devices = {devices.begin(), devices.end()},
                     .ops = {},
                     .parameters = {},
                     .inputs = {}};
    read_decisions(one, specs, where, decided);
  }

  // The names of a list, or of a table.
  static std::vector<std::string> names_of(const ConfigValue& value) {
    std::vector<std::string> names;
    for (const auto& [name, own] : value.members) names.push_back(name);
    for (const ConfigValue& own : value.items) names.push_back(own.text);
    return names;
  }

  void read_dimensions(const ConfigValue& all) {
    // One dimension is read as its own pair.
    for (const auto& [name, dims] : all.members)
      if (dims.is_list())
        dimensions_[name] = dims.items.size() == 2 && dims.items[0].is_scalar() ? 1 : dims.items.size();
  }

  void tensors(const ConfigValue& one, const JaxSpecs& specs, const std::string& where) {
    const std::vector<std::string> sums =
        one.find("sums") == nullptr ? std::vector<std::string>{} : names_of(*one.find("sums"));
    const auto is_sum = [&](const std::string& name) {
      return std::find(sums.begin(), sums.end(), name) != sums.end();
    };
    for (const auto& [name, spec] : member(one, "results", where).members)
      if (const ShardingSpec own = specs.spec(name, spec, where);
          !is_sum(name) && std::find(crossing_.begin(), crossing_.end(), name) == crossing_.end())
        add(name, own, where);
    const ConfigValue* states = one.find("states");
    for (const auto& [name, spec] : member(one, "parameters", where).members) {
      add(name, specs.spec(name, spec, where), where);
      const ConfigValue* state = states == nullptr ? nullptr : states->find(name);
      add_states(name, specs.spec(name, state == nullptr ? spec : *state, where), where);
    }
  }

  // Those of append_updates (core/graph).
  void add_states(const std::string& name, const ShardingSpec& spec, const std::string& where) {
    if (std::find(without_states_.begin(), without_states_.end(), name) != without_states_.end()) return;
    const LaunchSetup& setup = job_.reading.setup;
    using enum Optimizer::Kind;
    if (setup.dtype == DType::BF16 || setup.dtype == DType::F16) add(name + ".master", spec, where);
    if (setup.optimizer.kind == Momentum) add(name + ".momentum", spec, where);
    if (setup.optimizer.kind != Adam) return;
    add(name + ".adam_m", spec, where);
    add(name + ".adam_v", spec, where);
  }

  void add(const std::string& name, const ShardingSpec& spec, const std::string& where) {
    const auto [known, added] = meshes_.specs.emplace(name, spec);
    if (!added && known->second != spec)
      job_.no_plan(fmt::format("{}: '{}' is split otherwise than on an earlier stage, which is not read", where, name));
  }

  ReadingJob& job_;
  GivenMeshes& meshes_;
  std::map<std::string, std::size_t> dimensions_ = {};
  std::vector<std::string> crossing_ = {}, without_states_ = {};
};

// What users call the axes of one mesh.
int* degree_of_axis(Degrees& d, std::string name, bool& sharded) {
  name = lower_case(name);
  sharded = sharded || name == "fsdp";
  for (const char* own : {"data", "dp", "batch", "fsdp", "replica", "x"})
    if (name == own) return &d.dp;
  for (const char* own : {"model", "tensor", "tp", "mp", "mdl", "y"})
    if (name == own) return &d.tp;
  for (const char* own : {"context", "cp", "sequence", "seq", "sp"})
    if (name == own) return &d.cp;
  for (const char* own : {"stage", "pp", "pipe", "pipeline"})
    if (name == own) return &d.pp;
  for (const char* own : {"expert", "ep"})
    if (name == own) return &d.ep;
  return nullptr;
}

// Mesh(devices, ('data', 'model')), jax.make_mesh((2, 4), ('data', 'model')).
void read_named_mesh(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const Setting* shape = s.take("make_mesh.#0");
  const Setting* axes = s.take("make_mesh.#1");
  if (shape == nullptr) shape = s.take("make_mesh.axis_shapes");
  if (axes == nullptr) axes = s.take("make_mesh.axis_names");
  if (shape == nullptr) shape = s.take("create_device_mesh.#0");
  if (shape == nullptr) shape = s.take("create_device_mesh.mesh_shape");
  if (axes == nullptr) axes = s.take("Mesh.#1");
  if (axes == nullptr) axes = s.take("Mesh.axis_names");
  require(shape != nullptr && axes != nullptr,
          "{}: has no mesh whose shape and axes are written out, as jax.make_mesh((2, 4), ('data', 'model')).",
          job.text.program);
  const std::vector<std::int64_t> sizes = numbers_of(shape->value, shape->place + ": the mesh's shape");
  const std::vector<ConfigValue> names = items_of(axes->value);
  require(sizes.size() == names.size(), "{}: {} sizes and {} axes of a mesh.", shape->place, sizes.size(),
          names.size());
  bool sharded = false;
  std::int64_t all = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(sizes[i] >= 1, "{}: the mesh axis '{}' has no devices.", shape->place, names[i].text);
    int* degree = degree_of_axis(d, names[i].text, sharded);
    require(degree != nullptr,
            "{}: '{}' is no mesh axis of a known meaning; those of data, fsdp, model, context, stage and expert are "
            "known.",
            axes->place, to_text(names[i]));
    *degree = as_degree(std::min<std::int64_t>(std::int64_t{*degree} * sizes[i], kMaxDegree));
    all = std::min<std::int64_t>(all * sizes[i], kMaxDegree);
  }
  d.dp *= d.ep;
  d.zero = sharded && d.dp > 1 ? 3 : 0;
  if (all != job.devices.devices())
    job.broken_without_plan(
        fmt::format("a mesh of {} is not the {} devices", fmt::join(sizes, " x "), job.devices.devices()));
  job.assume("weights and results split over the axes of the mesh as tensor and data parallelism split them");
  need_model(job);
  d.schedule = ScheduleKind::GPipe;
  if (job.reading.why_no_plan.empty()) share_batch(job, job.answers.micro_batch.value_or(1), std::nullopt);
}

}  // namespace

void read_jax(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  job.reading.software = "";  // none is known, unless the file names one
  job.reading.why_no_advice = "no framework's degrees are known of it";
  if (!s.has("STAGES")) return read_named_mesh(job);
  setup.meshes.emplace();
  need_model(job);
  read_plan_constants(job);
  StageTables(job).read();
  if (setup.meshes->decided.empty() && !setup.meshes->recompute_ranges.empty())
    job.no_plan("recomputation of single layers is read where the stages have 'splits'");
  job.degrees().pp = static_cast<int>(setup.meshes->stages.size());
  read_whole_batch(job, s.integer("BATCH"), s.integer("MICRO_BATCHES").value_or(1));
  // The module's functions for its user make meshes, too.
  s.no_effect_where([](const Setting& setting) {
    return setting.key.starts_with("Mesh") || setting.key == "(spec)" || setting.key.starts_with("PartitionSpec");
  });
}

}  // namespace meshwright
