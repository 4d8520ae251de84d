// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/torch/program_nodes.h"

#include <set>

#include "core/base/text.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

std::string op_of(const std::string& target) {
  constexpr std::string_view kAten = "torch.ops.aten.";
  if (!target.starts_with(kAten)) return target;
  const std::string rest = target.substr(kAten.size());
  return rest.substr(0, rest.find('.'));
}

std::string rule_of(const std::string& op) {
  if (rules().contains(op)) return op;
  const bool in_place = op.size() > 1 && op.back() == '_' && op[op.size() - 2] != '_';
  const std::string base = in_place ? op.substr(0, op.size() - 1) : std::string();
  return rules().contains(base) ? base : std::string();
}

std::string overwritten_by(const Json& node, const std::string& op, const std::string& place) {
  if (op.empty() || rule_of(op).empty() || rule_of(op) == op) return {};
  for (const Json& input : member(node, "inputs", place)) {
    const Json& argument = member(input, "arg", place);
    if (get<std::string>(input, "name", place) == "self" && argument.is_object() && argument.contains("as_tensor"))
      return get<std::string>(argument["as_tensor"], "name", place);
  }
  return {};
}

bool does_nothing(const std::string& op) {
  return op.starts_with("_assert") || op == "sym_size" || op.starts_with("sym_constrain") ||
         op.starts_with("_operator.");
}

std::string path_of(const Json& node) {
  if (!node.contains("metadata") || !node["metadata"].is_object()) return {};
  const Json& metadata = node["metadata"];
  if (!metadata.contains("nn_module_stack") || !metadata["nn_module_stack"].is_string()) return {};
  const std::vector<std::string> last =
      meshwright::split(meshwright::split(metadata["nn_module_stack"].get<std::string>(), ';').back(), ',');
  return last.size() < 2 ? std::string() : last[1];
}

void collect_names(const Json& argument, std::vector<std::string>& names) {
  if (!argument.is_object()) return;
  for (const char* form : {"as_tensor", "as_sym_int", "as_optional_tensor"})
    if (argument.contains(form)) {
      const Json& held = argument[form];
      for (const char* key : {"name", "as_name"})
        if (held.is_object() && held.contains(key) && held[key].is_string())
          names.push_back(held[key].get<std::string>());
      if (std::string_view(form) == "as_optional_tensor") collect_names(held, names);
    }
  for (const char* form : {"as_tensors", "as_sym_ints", "as_optional_tensors"})
    if (argument.contains(form) && argument[form].is_array())
      for (const Json& held : argument[form]) {
        for (const char* key : {"name", "as_name"})
          if (held.is_object() && held.contains(key) && held[key].is_string())
            names.push_back(held[key].get<std::string>());
        collect_names(held, names);
      }
}

std::vector<std::string> read_by(const Json& node, const std::string& place) {
  std::vector<std::string> names;
  for (const Json& input : member(node, "inputs", place)) collect_names(member(input, "arg", place), names);
  return names;
}

std::vector<std::string> results_of(const Json& node, const std::string& place) {
  std::vector<std::string> names;
  for (const Json& output : member(node, "outputs", place)) collect_names(output, names);
  return names;
}

namespace {

bool is_op_of_views(const std::string& op) {
  static const std::set<std::string> views = {
      "view",     "reshape",  "flatten",    "unflatten", "transpose", "permute",          "t",        "numpy_T",
      "mT",       "slice",    "squeeze",    "expand",    "unsqueeze", "select",           "split",    "unbind",
      "swapaxes", "swapdims", "chunk",      "narrow",    "movedim",   "split_with_sizes", "view_as",  "alias",
      "dropout",  "to",       "contiguous", "detach",    "type_as",   "reshape_as",       "expand_as"};
  return views.contains(op);
}

// A tensor made contiguous that was not.
bool makes_copy(const Json& node, const std::string& op, const Json& declared, const std::string& place) {
  const std::vector<std::string> read = read_by(node, place);
  if (op != "contiguous" || read.empty() || !declared.contains(read[0])) return false;
  const Json& tensor = declared[read[0]];
  if (!tensor.contains("strides") || !tensor["strides"].is_array() || !tensor["sizes"].is_array()) return false;
  std::int64_t dense = 1;
  for (std::size_t d = tensor["sizes"].size(); d-- > 0;) {
    const Json &size = tensor["sizes"][d], &stride = tensor["strides"].at(d);
    if (!size.contains("as_int") || !stride.contains("as_int")) return false;  // not known
    const auto elements = get<std::int64_t>(size, "as_int", place);
    if (elements != 1 && get<std::int64_t>(stride, "as_int", place) != dense) return true;
    dense *= elements;
  }
  return false;
}

}  // namespace

bool is_view(const Json& node, const std::string& op, const Json& declared, const std::string& place) {
  return is_op_of_views(op) && !makes_copy(node, op, declared, place);
}

std::map<std::string, std::string> owners_in(const Json& nodes, const Json& declared, const std::string& place) {
  std::map<std::string, std::string> owners;
  for (const Json& node : nodes) {
    const std::string op = op_of(get<std::string>(node, "target", place));
    const std::vector<std::string> read = read_by(node, place);
    const bool owned = is_view(node, op, declared, place) || !overwritten_by(node, op, place).empty();
    if (read.empty() || !owned) continue;
    const auto known = owners.find(read[0]);
    const std::string owner = known == owners.end() ? read[0] : known->second;
    for (const std::string& result : results_of(node, place)) owners[result] = owner;
  }
  return owners;
}

}  // namespace meshwright::torch
