// SPDX-License-Identifier: Apache-2.0
// Modules for JAX: the tables that export writes, or one mesh whose axes have names.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/meshes/mesh_parts.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

const ConfigValue& member(const ConfigValue& map, const char* key, const std::string& where) {
  const ConfigValue* found = map.find(key);
  require(found != nullptr, "{}: has no '{}'.", where, key);
  return *found;
}

// P('x0', None, ('x1', 'x2')) of a tensor with so many dimensions.
ShardingSpec spec_of(const ConfigValue& call, const std::vector<std::string>& axes, std::size_t dims,
                     const std::string& where) {
  require(call.is_map() && last_name(call.text) == "P", "{}: {} is no PartitionSpec.", where, to_text(call));
  require(call.members.size() <= dims, "{}: a PartitionSpec of {} dimensions, and the tensor has {}.", where,
          call.members.size(), dims);
  ShardingSpec spec;
  spec.dims.assign(dims, 0);
  AxisMask used = 0;
  for (std::size_t d = 0; d < call.members.size(); ++d) {
    const ConfigValue& own = call.members[d].second;
    if (own.kind == ConfigValue::Kind::Null) continue;
    for (const ConfigValue& axis : items_of(own)) {
      const auto found = std::find(axes.begin(), axes.end(), axis.text);
      require(found != axes.end() && axis.is_scalar(), "{}: '{}' is no axis of the mesh, which has {}.", where,
              to_text(axis), join(axes, ", "));
      const auto bit = static_cast<AxisMask>(1U << static_cast<unsigned>(found - axes.begin()));
      require((used & bit) == 0, "{}: the mesh axis '{}' splits two dimensions.", where, axis.text);
      used |= bit;
      spec.dims[d] |= bit;
    }
  }
  return spec;
}

class StageTables {
 public:
  explicit StageTables(ReadingJob& job) : job_(job), meshes_(*job.reading.setup.meshes) {}

  void read() {
    const Setting* stages = job_.settings().take("STAGES");
    const Setting* dims = job_.settings().take("DIMENSIONS");
    require(stages->value.is_list() && !stages->value.items.empty(), "{}: STAGES is no list of stages.", stages->place);
    require(dims != nullptr && dims->value.is_map(), "{}: DIMENSIONS is missing, which says the sizes of the tensors.",
            stages->place);
    dimensions_ = &dims->value;
    if (const Setting* without = job_.settings().take("WITHOUT_STATES"); without != nullptr)
      for (const ConfigValue& name : items_of(without->value)) without_states_.push_back(name.text);
    // A name stands for the tensor on every stage's mesh: what crosses stages is left to the search.
    for (const ConfigValue& one : stages->value.items)
      if (const ConfigValue* received = one.find("received"); received != nullptr)
        for (const ConfigValue& name : received->items) crossing_.push_back(name.text);
    for (std::size_t s = 0; s < stages->value.items.size(); ++s)
      stage(stages->value.items[s], fmt::format("{}: stage {}", stages->place, s));
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
    axes_.clear();
    for (const ConfigValue& axis : items_of(member(one, "axes", where))) axes_.push_back(axis.text);
    require(axes_.size() == mesh.size(), "{}: {} axes of a mesh with {}.", where, axes_.size(), mesh.size());
    meshes_.stages.push_back({static_cast<int>(layers[0]),
                              static_cast<int>(layers[1]),
                              submesh_of(product, job_.devices, where),
                              {mesh.begin(), mesh.end()},
                              {}});
    tensors(one, where);
  }

  void tensors(const ConfigValue& one, const std::string& where) {
    const ConfigValue* sums = one.find("sums");
    const auto is_sum = [&](const std::string& name) {
      return sums != nullptr && std::any_of(sums->items.begin(), sums->items.end(),
                                            [&](const ConfigValue& own) { return own.text == name; });
    };
    for (const auto& [name, spec] : member(one, "results", where).members)
      if (const ShardingSpec own = read_spec(name, spec, where);
          !is_sum(name) && std::find(crossing_.begin(), crossing_.end(), name) == crossing_.end())
        add(name, own, where);
    const ConfigValue* states = one.find("states");
    for (const auto& [name, spec] : member(one, "parameters", where).members) {
      add(name, read_spec(name, spec, where), where);
      const ConfigValue* state = states == nullptr ? nullptr : states->find(name);
      add_states(name, read_spec(name, state == nullptr ? spec : *state, where), where);
    }
  }

  [[nodiscard]] ShardingSpec read_spec(const std::string& name, const ConfigValue& spec,
                                       const std::string& where) const {
    const ConfigValue* dims = dimensions_->find(name);
    require(dims != nullptr && dims->is_list(), "{}: '{}' is not in DIMENSIONS.", where, name);
    // One dimension is read as its own pair.
    const bool alone = dims->items.size() == 2 && dims->items[0].is_scalar();
    return spec_of(spec, axes_, alone ? 1 : dims->items.size(), where + ": " + name);
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
  const ConfigValue* dimensions_ = nullptr;
  std::vector<std::string> axes_ = {}, crossing_ = {}, without_states_ = {};
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
  job.reading.software = "";  // none is known
  job.reading.why_no_advice = "no framework's degrees are known of it";
  if (!s.has("STAGES")) return read_named_mesh(job);
  setup.meshes.emplace();
  need_model(job);
  read_plan_constants(job);
  StageTables(job).read();
  job.degrees().pp = static_cast<int>(setup.meshes->stages.size());
  read_whole_batch(job, s.integer("BATCH"), s.integer("MICRO_BATCHES").value_or(1));
  // The module's functions for its user make meshes, too.
  s.no_effect_where([](const Setting& setting) {
    return setting.key.starts_with("Mesh") || setting.key == "(spec)" || setting.key.starts_with("PartitionSpec");
  });
}

}  // namespace meshwright
