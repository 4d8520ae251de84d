// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/torch/aten_node.h"

#include <cmath>
#include <limits>

#include "core/base/errors.h"

namespace meshwright::torch {

using Numbers = std::vector<std::int64_t>;

const Json* AtenNode::find(const std::string& name, const char* form) const {
  for (const Json& input : member(node, "inputs", b.name)) {
    if (get<std::string>(input, "name", b.name) != name) continue;
    const Json& argument = member(input, "arg", b.name);
    if (argument.is_object() && argument.contains(form)) return &argument[form];
  }
  return nullptr;
}

bool AtenNode::has(const std::string& name) const {
  for (const Json& input : member(node, "inputs", b.name))
    if (get<std::string>(input, "name", b.name) == name) return find(name, "as_none") == nullptr;
  return false;
}

int AtenNode::tensor(const std::string& name) const {
  const Json* found = find(name, "as_tensor");
  if (found == nullptr) b.fail(fmt::format("its tensor '{}' is missing", name));
  return value_of(get<std::string>(*found, "name", b.name));
}

const Json* AtenNode::told_of(const std::string& name) const {
  const Json* found = find(name, "as_tensor");
  if (found == nullptr || declared == nullptr) return nullptr;
  const auto told = declared->find(get<std::string>(*found, "name", b.name));
  return told == declared->end() ? nullptr : &*told;
}

bool AtenNode::is_truth(const std::string& name) const {
  const Json* told = told_of(name);
  return told != nullptr && get<std::int64_t>(*told, "dtype", b.name) == kBoolType;
}

std::vector<int> AtenNode::tensors(const std::string& name) const {
  const Json* found = find(name, "as_tensors");
  if (found == nullptr || !found->is_array()) b.fail(fmt::format("its tensors '{}' are missing", name));
  std::vector<int> values;
  for (const Json& one : *found) values.push_back(value_of(get<std::string>(one, "name", b.name)));
  return values;
}

int AtenNode::operand(const std::string& name) const {
  if (find(name, "as_tensor") != nullptr) return tensor(name);
  if (find(name, "as_sym_int") != nullptr)
    return b.constant({}, true, std::vector<double>{static_cast<double>(integer(name, 0))});
  const bool whole_number = find(name, "as_int") != nullptr || find(name, "as_bool") != nullptr;
  return b.constant({}, whole_number, std::vector<double>{number(name, 0.0)});
}

std::int64_t AtenNode::whole(const Json& value) const {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_object() && value.contains("as_int") && value["as_int"].is_number_integer())
    return value["as_int"].get<std::int64_t>();
  if (value.is_object() && value.contains("as_name") && value["as_name"].is_string())
    return symbol_of(value["as_name"].get<std::string>());
  b.fail("a size is no number");
}

std::int64_t AtenNode::integer(const std::string& name, std::int64_t otherwise) const {
  for (const char* form : {"as_int", "as_sym_int"})
    if (const Json* found = find(name, form)) return whole(*found);
  return otherwise;
}

Numbers AtenNode::integers(const std::string& name) const {
  Numbers values;
  for (const char* form : {"as_ints", "as_sym_ints"})
    if (const Json* found = find(name, form); found != nullptr && found->is_array())
      for (const Json& one : *found) values.push_back(whole(one));
  for (const char* form : {"as_int", "as_sym_int"})
    if (const Json* found = find(name, form)) values.push_back(whole(*found));
  return values;
}

double AtenNode::number(const std::string& name, double otherwise) const {
  if (find(name, "as_sym_int") != nullptr) return static_cast<double>(integer(name, 0));
  b.expect(find(name, "as_sym_float") == nullptr, "a number that sizes tell has no equal here");
  for (const char* form : {"as_float", "as_int", "as_bool"})
    if (const Json* found = find(name, form)) {
      if (found->is_number()) return found->get<double>();
      if (found->is_boolean()) return found->get<bool>() ? 1.0 : 0.0;
      if (found->is_string()) {
        const double infinity = std::numeric_limits<double>::infinity();
        const auto text = found->get<std::string>();
        return text == "NaN" ? std::nan("") : text == "-Infinity" ? -infinity : infinity;
      }
    }
  return otherwise;
}

bool AtenNode::flag(const std::string& name, bool otherwise) const {
  const Json* found = find(name, "as_bool");
  return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

std::string AtenNode::text(const std::string& name, const std::string& otherwise) const {
  const Json* found = find(name, "as_string");
  return found != nullptr && found->is_string() ? found->get<std::string>() : otherwise;
}

}  // namespace meshwright::torch
