// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/planner/method/method.h"

namespace meshwright {

namespace {

Method make_method(Method::Kind kind, const std::string& text) {
  Method method;
  method.kind = kind;
  method.text = text;
  return method;
}

// What needs no model: its blocks are counted when it is cut.
void expect_split(const Method& method) {
  if (!method.split.uneven()) return;
  const std::string place = fmt::format("method '{}'", method.text);
  require(method.pp > 1, "{}: first=, last= and layout= are of pipeline stages; give pp=2 or more.", place);
  if (method.split.layout.empty()) return;
  require(method.split.first == 0 && method.split.last == 0,
          "{}: a layout names the blocks of all stages; leave first= and last= out.", place);
  const std::size_t stages = stages_of_layout(method.split.layout, place).size();
  require(stages == static_cast<std::size_t>(method.pp) * static_cast<std::size_t>(method.chunks),
          "{}: the layout has {} stages, which are not pp={} x vpp={}; give it as many.", place, stages, method.pp,
          method.chunks);
}

ContextExchange context_from_name(const std::string& name, const std::string& method) {
  std::vector<std::string> known;
  using enum ContextExchange;
  for (const ContextExchange exchange : {AllGather, PointToPoint, AllToAll}) {
    if (name == name_of(exchange)) return exchange;
    known.emplace_back(name_of(exchange));
  }
  throw InputError(fmt::format("method '{}': {}", method,
                               unknown_name("cp-comm", name, known, "Give all-gather, p2p (a ring) or a2a.")));
}

void check_degrees(const Method& method) {
  require(method.chunks == 1 || method.pp > 1,
          "method '{}': vpp={} puts several stages on each of at least 2 pipeline ranks; give pp=2 or more.",
          method.text, method.chunks);
  require(method.context == ContextExchange::AllGather || method.cp > 1,
          "method '{}': cp-comm={} has no effect on whole sequences; give cp=2 or more.", method.text,
          name_of(method.context));
  if (method.etp) {
    require(method.exact && (*method.etp == 1 || *method.etp == method.tp),
            "method '{}': etp={} is neither 1 nor tp={} with exact=1; write exact=1,etp=1 for whole experts.",
            method.text, *method.etp, method.tp);
    require(*method.etp == method.tp || method.ep % method.tp == 0,
            "method '{}': with etp=1 the ep={} ranks of experts hold those of tp={}, which does not divide them.",
            method.text, method.ep, method.tp);
  }
  if (method.folded) {
    require(method.exact && method.cp > 1,
            "method '{}': fold=1 puts experts on the ranks of cp as Megatron-LM does; give exact=1 and cp=2 or more.",
            method.text);
    require(method.ep % method.folded_ranks() == 0,
            "method '{}': with fold=1 the ep={} ranks of experts hold the {} of cp{}, which does not divide them; give "
            "an ep that it divides.",
            method.text, method.ep, method.folded_ranks(), method.etp == 1 ? " x tp" : "");
  }
}

// "tp=8,pp=4" into the method's degrees; `keys` are those it has.
Method with_degrees(Method::Kind kind, const std::string& text, const std::string& settings,
                    const std::vector<std::string>& keys, const std::string& example) {
  Method method = make_method(kind, text);
  std::vector<std::string> given;
  for (const std::string& setting : split(settings, ',')) {
    const auto parts = split(setting, '=');
    require(parts.size() == 2, "method '{}': '{}' is not KEY=NUMBER; write {}{}.", text, setting, example,
            kind == Method::Kind::Megatron || kind == Method::Kind::Expert || kind == Method::Kind::Context
                ? " (dp is what is left)"
                : "");
    const std::string& key = parts[0];
    require(std::find(keys.begin(), keys.end(), key) != keys.end(), "method '{}': unknown key '{}'; {} {}.", text, key,
            keys.size() == 1 ? "the only key is" : "the keys are", join(keys, ", "));
    require(std::find(given.begin(), given.end(), key) == given.end(), "method '{}': '{}' is given twice.", text, key);
    given.push_back(key);
    if (key == "layout") {
      method.split.layout = parts[1];
      continue;
    }
    if (key == "cp-comm") {
      method.context = context_from_name(parts[1], text);
      continue;
    }
    const bool flag = key == "sp" || key == "exact" || key == "fold", level = key == "zero";
    const int value = static_cast<int>(parse_integer(parts[1], "method '" + text + "': " + key, flag || level ? 0 : 1,
                                                     flag    ? 1
                                                     : level ? 3
                                                             : 65536));
    if (flag)
      (key == "sp" ? method.sequence_parallel : key == "exact" ? method.exact : method.folded) = value == 1;
    else if (level)
      method.zero = value;
    else if (key == "etp")
      method.etp = value;
    else if (key == "shard")
      method.shard = value;
    else
      (key == "tp"      ? method.tp
       : key == "pp"    ? method.pp
       : key == "vpp"   ? method.chunks
       : key == "first" ? method.split.first
       : key == "last"  ? method.split.last
       : key == "ep"    ? method.ep
       : key == "cp"    ? method.cp
                        : method.dp) = value;
  }
  expect_split(method);
  check_degrees(method);
  return method;
}

Method logical_axis_rules(const std::string& text, const std::string& settings) {
  Method method = make_method(Method::Kind::Rules, text);
  for (const std::string& setting : split(settings, ',')) {
    const auto parts = split(setting, '=');
    require(parts.size() == 2 && !parts[0].empty(),
            "method '{}': '{}' is not NAME=MESH_AXIS; write rules:batch=0,heads=1,mlp=1.", text, setting);
    const auto axis = static_cast<int>(parse_integer(parts[1], "method '" + text + "': " + parts[0], 0, 7));
    const std::pair<std::string, int> rule{parts[0], axis};
    require(std::find(method.rules.begin(), method.rules.end(), rule) == method.rules.end(),
            "method '{}': '{}' is given twice.", text, setting);
    method.rules.push_back(rule);
  }
  return method;
}

Method specs(const std::string& text, const std::string& path) {
  Method method = make_method(Method::Kind::Specs, text);
  const Json json = read_json_file(path);
  require(json.is_object() && !json.empty(), "{}: an object of tensor names and specs was expected, as {}.", path,
          R"({"blk0.mlp.up": "S0RS1"})");
  for (const auto& item : json.items())
    method.forced[item.key()] =
        spec_from_text(get<std::string>(json, item.key().c_str(), path), path + ": " + item.key());
  return method;
}

// The logical mesh of a manual stage over its submesh.
std::vector<int> manual_shape(const Json& stage, const Submesh& submesh, const std::string& place) {
  const auto shape = get<std::vector<int>>(stage, "logical_shape", place);
  require(!shape.empty() && shape.size() <= 8, "{}: 'logical_shape' has {} axes; give 1 to 8.", place, shape.size());
  // Counted in double: the product of eight sizes may exceed an int.
  double devices = 1;
  for (const int size : shape) {
    require(size >= 1, "{}: 'logical_shape' has a size of {}.", place, size);
    devices *= size;
  }
  const double wanted = static_cast<double>(submesh.hosts) * submesh.devices_per_host;
  require(devices == wanted, "{}: 'logical_shape' has {} devices, 'submesh' {}.", place, devices, wanted);
  return shape;
}

Method::ManualStage manual_stage(const Json& stage, const std::string& place, int first_layer) {
  require(stage.is_object(), "{}: an object was expected, as {}.", place,
          R"({"layers": [0, 3], "submesh": [1, 4], "logical_shape": [1, 4]})");
  for (const auto& [key, value] : stage.items())
    require(key == "layers" || key == "submesh" || key == "logical_shape" || key == "batch_axis",
            "{}: unknown member '{}'; a stage has layers, submesh, logical_shape and, if wanted, batch_axis.", place,
            key);
  const auto layers = get<std::vector<int>>(stage, "layers", place);
  const auto submesh = get<std::vector<int>>(stage, "submesh", place);
  constexpr int kMaxLayer = 1 << 20;
  require(layers.size() == 2 && layers[0] >= 0 && layers[0] <= layers[1] && layers[1] <= kMaxLayer,
          "{}: 'layers' must be [first, last], of 0 to {}.", place, kMaxLayer);
  require((submesh.size() == 2 || submesh.size() == 3) && submesh[0] >= 1 && submesh[1] >= 1,
          "{}: 'submesh' must be [hosts, devices per host], or [hosts, devices per host, group of hosts].", place);
  require(submesh.size() == 2 || submesh[2] >= 0, "{}: 'submesh' names group {}; groups are counted from 0.", place,
          submesh.back());
  require(layers[0] == first_layer, "{}: begins at layer {}, but layer {} comes next.", place, layers[0], first_layer);
  Method::ManualStage made{layers[0], layers[1], {submesh[0], submesh[1], submesh.size() == 3 ? submesh[2] : 0}, {}};
  made.logical_shape = manual_shape(stage, made.submesh, place);
  if (stage.contains("batch_axis")) {
    const int axis = get<int>(stage, "batch_axis", place);
    require(axis >= 0 && axis < static_cast<int>(made.logical_shape.size()),
            "{}: 'batch_axis' is {}, but 'logical_shape' has axes 0..{}.", place, axis, made.logical_shape.size() - 1);
    made.batch_axis = axis;
  }
  return made;
}

Method manual(const std::string& text, const std::string& path) {
  Method method = make_method(Method::Kind::Manual, text);
  const Json json = read_json_file(path);
  const Json& stages = member(json, "stages", path);
  require(stages.is_array() && !stages.empty(), "{}: 'stages' must be a list of at least one stage.", path);
  for (const auto& [key, value] : json.items())
    require(key == "stages", "{}: unknown member '{}'; the file has 'stages' alone.", path, key);
  for (std::size_t s = 0; s < stages.size(); ++s)
    method.stages.push_back(manual_stage(stages[s], fmt::format("{}: stages[{}]", path, s),
                                         s == 0 ? 0 : method.stages.back().last_layer + 1));
  return method;
}

}  // namespace

void add_forced(ForcedSpecs& forced, const std::string& text) {
  // Tensor names hold no '=', specs neither.
  const std::size_t equals = text.rfind('=');
  require(equals != std::string::npos && equals > 0, "'{}' is not TENSOR=SPEC; write blk0.mlp.up=S0RS1.", text);
  const std::string name = text.substr(0, equals);
  require(!forced.contains(name), "'{}' is given twice.", name);
  forced[name] = spec_from_text(text.substr(equals + 1), name);
}

Degrees degrees_of(const Method& method, int devices) {
  MW_CHECK(method.kind == Method::Kind::Megatron, "method '{}' has no degrees", method.text);
  const int taken = method.tp * method.cp * method.pp;
  require(devices % taken == 0, "method '{}': tp={} x cp={} x pp={} does not divide the {} devices.", method.text,
          method.tp, method.cp, method.pp, devices);
  Degrees degrees{.dp = devices / taken, .tp = method.tp, .pp = method.pp, .cp = method.cp, .ep = method.ep};
  degrees.chunks = method.chunks;
  degrees.whole_experts = method.etp == 1 && method.tp > 1;
  degrees.folded_experts = method.folded;
  degrees.sequence_parallel = method.sequence_parallel;
  degrees.zero = method.zero.value_or(0);
  degrees.split = method.split;
  degrees.context = method.context;
  return degrees;
}

Method method_from_text(const std::string& text) {
  using Kind = Method::Kind;
  const std::vector<std::pair<std::string, Kind>> plain = {
      {"pipeshard", Kind::Pipeshard}, {"shard", Kind::Shard}, {"largest", Kind::Largest}, {"data", Kind::Data},
      {"zero1", Kind::Zero1},         {"zero2", Kind::Zero2}, {"zero3", Kind::Zero3},     {"fsdp", Kind::Zero3},
  };
  for (const auto& [name, kind] : plain)
    if (text == name) return make_method(kind, text);
  for (const auto& [name, kind] : plain)
    if (kind >= Kind::Zero1 && kind <= Kind::Zero3 && text.starts_with(name + ":"))
      return with_degrees(kind, text, text.substr(name.size() + 1), {"shard"}, name + ":shard=8");
  const std::size_t colon = text.find(':');
  const std::string head = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  const std::vector<std::pair<std::string, std::string>> examples = {
      {"megatron", "megatron:tp=8,pp=4"}, {"expert", "expert:ep=8"}, {"context", "context:cp=4"}};
  // These names are known: the message says what is missing behind them.
  for (const auto& [name, example] : examples)
    require(head != name || !rest.empty(),
            "method '{}': unknown method without its degrees; write {} (dp is what is left).", text, example);
  require(head != "rules" || !rest.empty(),
          "method '{}': unknown method without its rules; write rules:batch=0,heads=1,mlp=1.", text);
  if (head == "megatron")
    return with_degrees(Kind::Megatron, text, rest,
                        {"dp", "tp", "pp", "vpp", "first", "last", "layout", "ep", "cp", "cp-comm", "sp", "zero",
                         "exact", "etp", "fold"},
                        examples[0].second);
  if (head == "expert") return with_degrees(Kind::Expert, text, rest, {"ep"}, examples[1].second);
  if (head == "context") return with_degrees(Kind::Context, text, rest, {"cp", "cp-comm"}, examples[2].second);
  if (head == "rules" && !rest.empty()) return logical_axis_rules(text, rest);
  if (head == "specs" && !rest.empty()) return specs(text, rest);
  if (head == "manual" && !rest.empty()) return manual(text, rest);
  throw InputError(
      unknown_name("method", text,
                   {"pipeshard", "shard", "largest", "data", "zero1", "zero2", "zero3", "fsdp", "megatron:tp=8,pp=4",
                    "expert:ep=8", "context:cp=4", "rules:batch=0,heads=1", "specs:FILE", "manual:FILE"},
                   "See `meshwright plan --help`."));
}

}  // namespace meshwright
