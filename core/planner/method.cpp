// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/planner/make_plan.h"

namespace meshwright {

namespace {

Method megatron(const std::string& text, const std::string& settings) {
  Method method{Method::Kind::Megatron, 0, 1, 1, {}, text};
  std::vector<std::string> given;
  for (const std::string& setting : split(settings, ',')) {
    const auto parts = split(setting, '=');
    require(parts.size() == 2, "method '{}': '{}' is not KEY=NUMBER; write megatron:tp=8,pp=4 (dp is what is left).",
            text, setting);
    require(std::find(given.begin(), given.end(), parts[0]) == given.end(), "method '{}': '{}' is given twice.", text,
            parts[0]);
    given.push_back(parts[0]);
    const int value = static_cast<int>(parse_integer(parts[1], "method '" + text + "': " + parts[0], 1, 65536));
    if (parts[0] == "tp")
      method.tp = value;
    else if (parts[0] == "pp")
      method.pp = value;
    else if (parts[0] == "dp")
      method.dp = value;
    else
      throw InputError(fmt::format("method '{}': unknown key '{}'; the keys are dp, tp and pp.", text, parts[0]));
  }
  return method;
}

Method manual(const std::string& text, const std::string& path) {
  Method method{Method::Kind::Manual, 0, 1, 1, {}, text};
  const Json json = read_json_file(path);
  const Json& stages = member(json, "stages", path);
  require(stages.is_array() && !stages.empty(), "{}: 'stages' must be a list of at least one stage.", path);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::string place = fmt::format("{}: stages[{}]", path, s);
    const auto layers = get<std::vector<int>>(stages[s], "layers", place);
    const auto submesh = get<std::vector<int>>(stages[s], "submesh", place);
    const auto shape = get<std::vector<int>>(stages[s], "logical_shape", place);
    require(layers.size() == 2 && layers[0] >= 0 && layers[0] <= layers[1], "{}: 'layers' must be [first, last].",
            place);
    require(submesh.size() == 2 && submesh[0] >= 1 && submesh[1] >= 1,
            "{}: 'submesh' must be [hosts, devices per host].", place);
    for (const auto& [key, value] : stages[s].items())
      require(key == "layers" || key == "submesh" || key == "logical_shape", "{}: unknown member '{}'.", place, key);
    require(!shape.empty() && shape.size() <= 8, "{}: 'logical_shape' has {} axes; give 1 to 8.", place, shape.size());
    double devices = 1;
    for (const int size : shape) {
      require(size >= 1, "{}: 'logical_shape' has a size of {}.", place, size);
      devices *= size;
    }
    require(devices == static_cast<double>(submesh[0]) * submesh[1],
            "{}: 'logical_shape' has {} devices, 'submesh' {}.", place, devices,
            static_cast<double>(submesh[0]) * submesh[1]);
    const int expected = s == 0 ? 0 : method.stages.back().last_layer + 1;
    require(layers[0] == expected, "{}: begins at layer {}, but layer {} comes next.", place, layers[0], expected);
    method.stages.push_back({layers[0], layers[1], {submesh[0], submesh[1]}, shape});
  }
  return method;
}

}  // namespace

Method method_from_text(const std::string& text) {
  const std::vector<std::pair<std::string, Method::Kind>> plain = {
      {"pipeshard", Method::Kind::Pipeshard}, {"shard", Method::Kind::Shard}, {"data", Method::Kind::Data},
      {"zero2", Method::Kind::Zero2},         {"zero3", Method::Kind::Zero3},
  };
  for (const auto& [name, kind] : plain)
    if (text == name) return {kind, 0, 1, 1, {}, text};
  const std::size_t colon = text.find(':');
  const std::string head = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  require(head != "megatron" || !rest.empty(),
          "method '{}': unknown method without its degrees; write megatron:tp=8,pp=4 (dp is what is left).", text);
  if (head == "megatron") return megatron(text, rest);
  if (head == "manual" && !rest.empty()) return manual(text, rest);
  throw InputError(unknown_name("method", text,
                                {"pipeshard", "shard", "data", "zero2", "zero3", "megatron:tp=8,pp=4", "manual:FILE"},
                                "See `meshwright plan --help`."));
}

}  // namespace meshwright
