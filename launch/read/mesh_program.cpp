// SPDX-License-Identifier: Apache-2.0
// Python modules for JAX and Alpa: what they assign and call, of which nothing is executed.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python_config.h"

namespace meshwright {

namespace {

bool imports(const std::string& text, const char* module) {
  for (const char* how : {"import ", "from "})
    if (const std::string line = std::string(how) + module;
        text.starts_with(line) || text.find("\n" + line) != std::string::npos)
      return true;
  return false;
}

std::string last_name(const std::string& called) { return called.substr(called.rfind('.') + 1); }

// All calls within a value, the outer ones first.
void calls_of(const ConfigValue& value, std::vector<const ConfigValue*>& found, int depth = 0) {
  if (depth > kMaxLaunchDepth) return;
  if (value.is_map() && !value.text.empty()) found.push_back(&value);
  for (const ConfigValue& item : value.items) calls_of(item, found, depth + 1);
  for (const auto& [key, member] : value.members) calls_of(member, found, depth + 1);
}

constexpr const char* kMeshCalls[] = {"Mesh",
                                      "make_mesh",
                                      "create_device_mesh",
                                      "PartitionSpec",
                                      "P",
                                      "PipeshardParallel",
                                      "ShardParallel",
                                      "DataParallel",
                                      "Zero2Parallel",
                                      "Zero3Parallel",
                                      "AutoStageOption",
                                      "UniformStageOption",
                                      "ManualStageOption",
                                      "AutoLayerOption",
                                      "ManualLayerOption"};

bool is_mesh_call(const std::string& name) {
  return std::any_of(std::begin(kMeshCalls), std::end(kMeshCalls), [&](const char* known) { return name == known; });
}

bool is_constant_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

}  // namespace

bool is_mesh_program(const std::string& text, const std::string& target) {
  if (target == "jax" || target == "alpa") return true;
  if (!target.empty()) return false;
  const bool meshes = text.find("jax.sharding") != std::string::npos || text.find("make_mesh") != std::string::npos;
  return imports(text, "alpa") || (imports(text, "jax") && meshes);
}

// Constants become settings of their names, calls of meshes and methods settings of theirs ("PipeshardParallel()").
void TextReader::mesh_program(const GivenFile& file) {
  const std::string place = place_of(file);
  set_target(imports(file.text, "alpa") ? "alpa" : "jax");
  text_.program = place;
  text_.variant = "Python";
  // Values by which a name in a call is meant.
  std::map<std::string, ConfigValue> named;
  const std::vector<PythonValue> values = values_from_python(file.text, place);
  for (const PythonValue& one : values)
    if (!one.name.empty()) named[one.name] = one.value;
  const auto resolved = [&](const ConfigValue& value) {
    if (!value.is_scalar() || value.quoted) return value;
    const auto known = named.find(value.text);
    return known == named.end() ? value : known->second;
  };
  for (const PythonValue& one : values) {
    const std::string at = fmt::format("{}:{}", place, one.line);
    if (one.name == "STAGES") {
      text_.settings.add(one.name, one.name, one.value, at);
      continue;
    }
    if (is_constant_name(one.name) && !(one.value.is_map() && !one.value.text.empty()))
      text_.settings.add(one.name, one.name, one.value, at);
    std::vector<const ConfigValue*> calls;
    calls_of(one.value, calls);
    for (const ConfigValue* call : calls) {
      const std::string name = last_name(call->text);
      if (!is_mesh_call(name)) continue;
      if (name == "P" || name == "PartitionSpec") {
        text_.settings.add("(spec)", one.name.empty() ? name : one.name, *call, at);
        continue;
      }
      for (const auto& [key, value] : call->members) {
        ConfigValue own = resolved(value);
        text_.settings.add(name + "." + key, name + " " + key,
                           own.is_map() && !own.text.empty() ? ConfigValue::scalar(own.text, own.line) : own, at);
      }
      text_.settings.add(name + "()", name, ConfigValue::scalar(name, one.line), at);
    }
  }
  // "NAME, NAME = value, value" at the beginning of a line.
  int number = 0;
  for (const std::string& line : split(file.text, '\n')) {
    ++number;
    const std::size_t equal = line.find(" = "), comma = line.find(", ");
    if (equal == std::string::npos || comma == std::string::npos || comma > equal) continue;
    const std::vector<std::string> names = split(line.substr(0, equal), ',');
    std::vector<std::string> parts = split(line.substr(equal + 3), ',');
    if (names.size() != parts.size()) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string name = names[i].substr(std::min(names[i].size(), names[i].find_first_not_of(' ')));
      std::string part = parts[i].substr(std::min(parts[i].size(), parts[i].find_first_not_of(' ')));
      if (!is_constant_name(name)) break;
      const bool quoted =
          part.size() > 1 && (part.front() == '\'' || part.front() == '"') && part.back() == part.front();
      if (quoted) part = part.substr(1, part.size() - 2);
      text_.settings.add(name, name, ConfigValue::scalar(part, number, quoted), fmt::format("{}:{}", place, number));
    }
  }
}

namespace {

// A tuple; `(8,)` is read as its one item.
std::vector<ConfigValue> items_of(const ConfigValue& value) {
  return value.is_list() ? value.items : std::vector<ConfigValue>{value};
}

std::vector<std::int64_t> numbers_of(const ConfigValue& value, const std::string& where) {
  std::vector<std::int64_t> numbers;
  for (const ConfigValue& item : items_of(value)) {
    const auto number = whole_number(item.text);
    require(number && *number >= 0 && *number <= kMaxDegree, "{}: '{}' is no whole number of at least 0.", where,
            to_text(item));
    numbers.push_back(*number);
  }
  return numbers;
}

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

Submesh submesh_of(std::int64_t devices, const LaunchDevices& all, const std::string& where) {
  const int per_host = all.devices_per_host;
  require(devices >= 1 && devices <= all.devices() && (devices <= per_host || devices % per_host == 0),
          "{}: {} devices are no part of {} x {}.", where, devices, all.hosts, per_host);
  Submesh submesh;
  submesh.hosts = devices <= per_host ? 1 : static_cast<int>(devices) / per_host;
  submesh.devices_per_host = devices <= per_host ? static_cast<int>(devices) : per_host;
  return submesh;
}

// The training of a plan, as plan_constants of write/python_text.h says it.
void read_plan_constants(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  Degrees& d = job.degrees();
  if (const auto name = s.text("SCHEDULE")) d.schedule = schedule_from_name(*name);
  if (const auto name = s.text("DTYPE")) setup.dtype = dtype_from_name(*name);
  if (const auto name = s.text("RECOMPUTE")) {
    if (*name == "none" || *name == "full" || *name == "selective")
      d.recompute = recompute_from_name(*name);
    else
      job.no_plan(fmt::format("{}: recomputation of single layers ({}) is not read", s.where("RECOMPUTE"), *name));
  }
  if (const Setting* given = s.take("OPTIMIZER"); given != nullptr && given->value.is_map()) {
    Optimizer& o = setup.optimizer;
    const auto number = [&](const char* key, double otherwise) {
      const ConfigValue* value = given->value.find(key);
      if (value == nullptr) return otherwise;
      const auto found = real_number(value->text);
      require(found && *found >= 0.0, "{}: '{}' of OPTIMIZER is no number of at least 0.", given->place, key);
      return *found;
    };
    if (const ConfigValue* kind = given->value.find("kind"); kind != nullptr) o.kind = optimizer_from_name(kind->text);
    o.learning_rate = number("learning_rate", o.learning_rate);
    o.weight_decay = number("weight_decay", o.weight_decay);
    o.max_norm = number("max_norm", o.max_norm);
    o.momentum = number("momentum", o.momentum);
    require(o.momentum < 1.0, "{}: a momentum of {}; give one below 1.", given->place, o.momentum);
  }
  if (const Setting* starts = s.take("LAYER_STARTS"); starts != nullptr && starts->value.is_list())
    for (const ConfigValue& one : starts->value.items) setup.meshes->layer_starts.push_back(one.text);
}

// Samples and micro-batches of the whole job; every replica is in the meshes.
void read_whole_batch(ReadingJob& job, std::optional<std::int64_t> batch, std::int64_t micro_batches) {
  LaunchSetup& setup = job.reading.setup;
  if (job.answers.batch) batch = job.answers.batch;
  require(batch.has_value(), "{}: does not say its batch; give --batch.", job.text.program);
  setup.batch = *batch;
  job.degrees().micro_batches = micro_batches;
  job.degrees().micro_batch = std::max<std::int64_t>(1, *batch / micro_batches);
  if (*batch % micro_batches != 0)
    job.no_plan(fmt::format("a batch of {} is not a multiple of {} micro-batches", *batch, micro_batches));
}

void need_model(ReadingJob& job) {
  require(take_given_model(job, std::nullopt),
          "{}: its model is the user's own program; give --model with a built-in model, sizes or a config.json.",
          job.text.program);
}

// --- JAX ---

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
  std::vector<std::string> axes_ = {}, crossing_ = {};
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

// --- Alpa ---

namespace {

std::vector<ConfigValue> list_of(const Setting* setting, const char* what) {
  require(setting != nullptr && setting->value.is_list(), "{} of ManualStageOption is {}.", what,
          setting == nullptr ? "missing" : "no list");
  return setting->value.items;
}

void read_manual_stages(ReadingJob& job) {
  Settings& s = job.settings();
  GivenMeshes& meshes = *job.reading.setup.meshes;
  const Setting* ids = s.take("ManualStageOption.forward_stage_layer_ids");
  const std::vector<ConfigValue> layers = list_of(ids, "forward_stage_layer_ids");
  const std::vector<ConfigValue> physical =
      list_of(s.take("ManualStageOption.submesh_physical_shapes"), "submesh_physical_shapes");
  const std::vector<ConfigValue> logical =
      list_of(s.take("ManualStageOption.submesh_logical_shapes"), "submesh_logical_shapes");
  const Setting* options = s.take("ManualStageOption.submesh_autosharding_option_dicts");
  const std::size_t count = layers.size();
  require(count > 0 && physical.size() == count && logical.size() == count &&
              (options == nullptr || options->value.items.size() == count),
          "{}: ManualStageOption has {} stages, {} submeshes and {} logical shapes; give as many of each.", ids->place,
          count, physical.size(), logical.size());
  std::int64_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string where = fmt::format("{}: stage {}", ids->place, i);
    const std::vector<std::int64_t> own = numbers_of(layers[i], where), hosts = numbers_of(physical[i], where),
                                    shape = numbers_of(logical[i], where);
    for (const std::int64_t layer : own) {
      require(layer == next, "{}: layer {} stands where {} is next; stages are whole runs of layers.", where, layer,
              next);
      ++next;
    }
    require(!own.empty() && hosts.size() == 2 && hosts[0] >= 1 && hosts[1] >= 1 && !shape.empty() && shape.size() <= 2,
            "{}: needs layers, a submesh of hosts and devices, and a logical shape of at most two axes.", where);
    std::int64_t devices = 1;
    for (const std::int64_t size : shape) devices = std::min<std::int64_t>(devices * size, kMaxDegree);
    require(hosts[0] * hosts[1] == devices, "{}: a submesh of {} x {} devices and a logical shape of {}.", where,
            hosts[0], hosts[1], devices);
    (void)submesh_of(devices, job.devices, where);
    Method::ManualStage stage;
    stage.first_layer = static_cast<int>(own.front());
    stage.last_layer = static_cast<int>(own.back());
    stage.submesh.hosts = static_cast<int>(hosts[0]);
    stage.submesh.devices_per_host = static_cast<int>(hosts[1]);
    stage.logical_shape.assign(shape.begin(), shape.end());
    if (options != nullptr)
      if (const ConfigValue* axis = options->value.items[i].find("force_batch_dim_to_mesh_dim"); axis != nullptr) {
        const auto number = whole_number(axis->text);
        require(number && *number >= 0 && *number < static_cast<std::int64_t>(shape.size()),
                "{}: force_batch_dim_to_mesh_dim is '{}', no axis of its mesh.", where, to_text(*axis));
        stage.batch_axis = static_cast<int>(*number);
      }
    meshes.stages.push_back(stage);
  }
  if (!meshes.layer_starts.empty() && static_cast<std::int64_t>(meshes.layer_starts.size()) != next)
    job.broken_without_plan(
        fmt::format("the stages have {} layers, and LAYER_STARTS {}", next, meshes.layer_starts.size()));
  if (meshes.layer_starts.empty())
    job.assume(fmt::format("{} layers of equal work, as AutoLayerOption cuts them", next));
}

}  // namespace

void read_alpa(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  setup.meshes.emplace();
  need_model(job);
  job.degrees().schedule = ScheduleKind::OneFOneB;
  if (const auto schedule = s.text("PipeshardParallel.pipeline_schedule"))
    job.degrees().schedule = schedule_from_name(*schedule);
  read_plan_constants(job);
  for (const char* layer : {"AutoLayerOption.remat_mode", "AutoLayerOption.remat_layer"})
    if (const auto mode = s.text(layer); mode && !s.has("RECOMPUTE"))
      job.degrees().recompute = *mode == "none" || *mode == "False" ? Recompute::None : Recompute::Full;
  const auto micro = s.integer("PipeshardParallel.num_micro_batches");
  const auto told = s.integer("MICRO_BATCHES");
  if (micro && told && *micro != *told)
    job.broken_without_plan(fmt::format("num_micro_batches is {}, and MICRO_BATCHES {}", *micro, *told));
  read_whole_batch(job, s.integer("BATCH"), micro.value_or(told.value_or(1)));
  if (s.has("ManualStageOption()")) {
    read_manual_stages(job);
  } else if (s.has("PipeshardParallel()") || s.text("PipeshardParallel.stage_option").value_or("auto") != "manual") {
    job.no_plan("its stages are for Alpa to choose as it runs; `meshwright plan --for alpa` searches as it does");
  }
  job.degrees().pp = std::max<int>(1, static_cast<int>(setup.meshes->stages.size()));
  job.reading.why_no_advice = "its stages have meshes of their own";
  s.no_effect_where([](const Setting& setting) {
    return setting.key.ends_with("()") || setting.key.starts_with("AutoLayerOption.layer_num") ||
           setting.key.starts_with("ManualLayerOption") || setting.key == "STAGE_OPTION" ||
           setting.key == "PipeshardParallel.layer_option" || setting.key == "PipeshardParallel.stage_option";
  });
}

}  // namespace meshwright
