// SPDX-License-Identifier: Apache-2.0
#include "costmodel/sheets/data_sheet.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "costmodel/sheets/embedded.h"

namespace meshwright {

namespace {

// By number of devices, which are keys: {"2": 22.5, "8": 135}, in GB/s. Empty where the member is missing.
std::map<int, BytesPerSecond> rates_by_devices(const Json& json, const std::string& key, const std::string& place) {
  std::map<int, BytesPerSecond> rates;
  if (!json.contains(key)) return rates;
  for (const auto& [devices, rate] : json.at(key).items())
    rates.emplace(static_cast<int>(parse_integer(devices, place, 2, 1024)), gigabytes_per_second(rate.get<double>()));
  return rates;
}

DataSheet sheet_from_json(const Json& json, const std::string& place) {
  DataSheet sheet;
  sheet.name = get<std::string>(json, "name", place);
  sheet.aliases = get<std::vector<std::string>>(json, "aliases", place);
  sheet.generation = get<std::string>(json, "generation", place);
  sheet.multiprocessors = get<int>(json, "multiprocessors", place);
  sheet.memory = Bytes(1e9 * get<double>(json, "memory", place));
  sheet.memory_bandwidth = gigabytes_per_second(get<double>(json, "memory_bandwidth", place));
  sheet.link = gigabytes_per_second(get<double>(json, "link", place));
  sheet.network = gigabytes_per_second(get<double>(json, "network", place) / 8);
  sheet.domain = json.value("domain", 1);
  if (json.contains("sustained"))
    for (const auto& [dtype, factor] : json.at("sustained").items())
      sheet.sustained.emplace(dtype, factor.get<double>());
  sheet.rings = rates_by_devices(json, "rings", place);
  sheet.all_to_all = rates_by_devices(json, "all_to_all", place);
  for (const auto& [dtype, rate] : member(json, "peak", place).items())
    sheet.peak.emplace(dtype, teraflops(rate.get<double>()));
  return sheet;
}

}  // namespace

ProductUnit DataSheet::unit(const std::string& dtype) const {
  const auto found = peak.find(dtype);
  std::vector<std::string> known;
  for (const auto& [type, rate] : peak) known.push_back(type);
  require(found != peak.end(), "the data sheet of {} has no peak for {}, only for {}.", name, dtype, join(known, ", "));
  return {found->second, memory_bandwidth, multiprocessors};
}

const std::vector<DataSheet>& data_sheets() {
  static const std::vector<DataSheet> sheets = [] {
    const std::string place = "devices.json";
    std::vector<DataSheet> read;
    const Json file = parse_json(std::string(kDevicesJson), place);
    for (const Json& device : member(file, "devices", place)) read.push_back(sheet_from_json(device, place));
    return read;
  }();
  return sheets;
}

const DataSheet* find_data_sheet(std::string_view name) {
  for (const DataSheet& sheet : data_sheets())
    if (sheet.name == name || std::find(sheet.aliases.begin(), sheet.aliases.end(), name) != sheet.aliases.end())
      return &sheet;
  return nullptr;
}

}  // namespace meshwright
