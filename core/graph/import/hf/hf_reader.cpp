// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf/hf_reader.h"

#include <cmath>
#include <vector>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_class_defaults.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMax = 1'000'000'000;

std::int64_t whole(const Json& value, const char* key, std::int64_t minimum, const std::string& place) {
  const auto expected = fmt::format("a whole number from {} to {} was expected", minimum, kMax);
  require(value.is_number_integer(), "{}: '{}' is {}; {}.", place, key, brief(value), expected);
  const bool beyond = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMax);
  require(!beyond && value.get<std::int64_t>() >= minimum && value.get<std::int64_t>() <= kMax, "{}: '{}' is {}; {}.",
          place, key, brief(value), expected);
  return value.get<std::int64_t>();
}

}  // namespace

HfReader::HfReader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  require(object.is_object(), "{}: an object was expected, as in Hugging Face's config.json.", place_);
  const auto type = object.find("model_type");
  if (type != object.end() && type->is_string()) defaults_ = hf_class_defaults(type->get<std::string>(), object);
}

HfReader HfReader::part(const char* key) const {
  if (const auto known = used_->parts.find(key); known != used_->parts.end()) return *known->second;
  HfReader found(at(key), fmt::format("{}: {}", place_, key));
  // What this type's class gives its part comes before what the part's own type has.
  for (const Json* defaults : defaults_)
    if (const auto given = defaults->find(key); given != defaults->end())
      found.defaults_.insert(found.defaults_.begin(), &*given);
  used_->parts.insert_or_assign(key, std::make_shared<const HfReader>(found));
  return found;
}

HfReader HfReader::part_or_empty(const char* key) const {
  static const Json empty = Json::object();
  return has(key) ? part(key) : HfReader(empty, fmt::format("{}: {}", place_, key));
}

HfReader HfReader::with_defaults(const Json& defaults) const {
  HfReader same = *this;
  same.defaults_.push_back(&defaults);
  return same;
}

// A member that is null says nothing.
std::vector<std::string> HfReader::unread() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_.items()) {
    if (value.is_null()) continue;
    if (const auto part = used_->parts.find(key); part != used_->parts.end()) {
      for (const std::string& name : part->second->unread()) names.push_back(fmt::format("{}.{}", key, name));
    } else if (!used_->keys.contains(key)) {
      names.push_back(key);
    }
  }
  return names;
}

const Json* HfReader::left_out(const char* key) const {
  if (object_.contains(key)) return nullptr;
  for (const Json* defaults : defaults_)
    if (const auto found = defaults->find(key); found != defaults->end()) return &*found;
  return nullptr;
}

bool HfReader::has(const char* key) const {
  used_->keys.insert(key);
  if (const auto own = object_.find(key); own != object_.end()) return !own->is_null();
  return left_out(key) != nullptr;
}
const Json& HfReader::at(const char* key) const {
  const Json* found = left_out(key);
  return found != nullptr ? *found : object_.at(key);
}

Json HfReader::aside(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() ? Json() : *found;
}

const char* HfReader::first_of(std::initializer_list<const char*> keys) const {
  for (const bool own : {true, false})
    for (const char* key : keys)
      if (has(key) && (!own || left_out(key) == nullptr)) return key;
  return nullptr;
}

std::int64_t HfReader::size(std::initializer_list<const char*> keys) const {
  if (const char* key = first_of(keys)) return whole(at(key), key, 1, place_);
  std::vector<std::string> quoted;
  for (const char* key : keys) quoted.push_back(fmt::format("'{}'", key));
  throw InputError(
      fmt::format("{}: {} is missing; take the file as its publisher has it.", place_, join(quoted, " or ")));
}

std::int64_t HfReader::size_or(std::initializer_list<const char*> keys, std::int64_t otherwise,
                               std::int64_t minimum) const {
  const char* key = first_of(keys);
  return key == nullptr ? otherwise : whole(at(key), key, minimum, place_);
}

double HfReader::positive_or(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  require(value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0.0,
          "{}: '{}' is {}; a positive number was expected.", place_, key, brief(value));
  return value.get<double>();
}

bool HfReader::flag_or(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  require(at(key).is_boolean(), "{}: '{}' is {}; true or false was expected.", place_, key, brief(at(key)));
  return at(key).get<bool>();
}

std::string HfReader::text_or(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  require(at(key).is_string(), "{}: '{}' is {}; a text was expected.", place_, key, brief(at(key)));
  return at(key).get<std::string>();
}

void HfReader::refuse(const char* key) const {
  require(!flag_or(key, false), "{}: '{}' is true, which is not supported; models of this family without it are.",
          place_, key);
}

}  // namespace meshwright
