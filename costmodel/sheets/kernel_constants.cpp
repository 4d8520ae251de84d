// SPDX-License-Identifier: Apache-2.0
#include "costmodel/sheets/kernel_constants.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/base/errors.h"
#include "costmodel/sheets/embedded.h"

namespace meshwright {

namespace {

constexpr const char* kFormat = "meshwright-constants 1";

double value_of(const Json& constants, const char* name, double otherwise) {
  return constants.contains(name) ? constants.at(name).get<double>() : otherwise;
}

// How far one device's products are from another's.
double distance(const DataSheet& a, const DataSheet& b) {
  const auto peak = [](const DataSheet& sheet) {
    double most = 0;
    for (const auto& [dtype, rate] : sheet.peak) most = std::max(most, rate.si());
    return most;
  };
  return std::abs(std::log(peak(a) / peak(b)));
}

}  // namespace

const KernelConstants& KernelConstants::shipped() {
  static const KernelConstants constants =
      from_json(parse_json(std::string(kConstantsJson), "constants.json"), "constants.json");
  return constants;
}

KernelConstants KernelConstants::from_json(const Json& json, const std::string& place) {
  const auto format = get<std::string>(json, "format", place);
  require(format == kFormat, "{}: the format is '{}', expected '{}'; write the file by `meshwright calibrate -o`.",
          place, format, kFormat);
  KernelConstants constants;
  for (const Json& set : member(json, "sets", place))
    constants.sets_.push_back({get<std::string>(set, "term", place), get<std::string>(set, "device", place),
                               get<std::string>(set, "of", place), member(set, "constants", place),
                               get<int>(member(set, "fitted", place), "rows", place)});
  return constants;
}

template <class Fits>
const KernelConstants::Set* KernelConstants::find(std::string_view term, const DataSheet& device, bool generation,
                                                  const Fits& fits) const {
  const Set* best = nullptr;
  std::tuple<double, int> best_rank{};
  for (const Set& set : sets_) {
    const DataSheet* sheet = find_data_sheet(set.device);
    if (set.term != term || sheet == nullptr || !fits(set.what)) continue;
    if (sheet->name != device.name && !(generation && sheet->generation == device.generation)) continue;
    // The device's own first, as its distance is 0.
    const std::tuple rank{distance(*sheet, device) + (sheet->name == device.name ? 0.0 : 1e-3), -set.rows};
    if (best != nullptr && rank >= best_rank) continue;
    best = &set;
    best_rank = rank;
  }
  return best;
}

ProductConstants KernelConstants::products(const DataSheet& device, const std::string& dtype) const {
  const Set* set = find("products", device, true, [&](const std::string& what) { return what == dtype; });
  if (set == nullptr && (dtype == "f16" || dtype == "bf16"))
    set = find("products", device, true, [&](const std::string& what) { return what == "f16" || what == "bf16"; });
  const ProductConstants otherwise;
  if (set == nullptr) return otherwise;
  const Json& c = set->constants;
  return {value_of(c, "peak share", otherwise.peak_share),
          value_of(c, "memory share", otherwise.memory_share),
          BytesPerSecond(value_of(c, "cache B/s", otherwise.cache.si())),
          Seconds(value_of(c, "start s", otherwise.start.si())),
          value_of(c, "depth overhead", otherwise.depth_overhead),
          value_of(c, "droop", otherwise.droop)};
}

bool KernelConstants::has_products(const DataSheet& device, const std::string& dtype) const {
  return find("products", device, false, [&](const std::string& what) { return what == dtype; }) != nullptr;
}

AttentionConstants KernelConstants::attention(const DataSheet& device, bool causal) const {
  const std::string mask = causal ? " causal " : " dense ";
  const Set* set =
      find("attention", device, true, [&](const std::string& what) { return what.find(mask) != std::string::npos; });
  const AttentionConstants otherwise;
  if (set == nullptr) return otherwise;
  const Json& c = set->constants;
  return {value_of(c, "peak share", otherwise.peak_share),     value_of(c, "softmax width", otherwise.softmax_width),
          value_of(c, "last wave", otherwise.last_wave),       Seconds(value_of(c, "start s", otherwise.start.si())),
          value_of(c, "memory share", otherwise.memory_share), value_of(c, "prologue", otherwise.prologue),
          value_of(c, "wide heads", otherwise.wide_heads),     value_of(c, "backward", otherwise.backward)};
}

std::optional<CollectiveProtocols> KernelConstants::collectives(const DataSheet& device, CollectiveKind kind) const {
  const std::string name = name_of(kind);
  const Set* set = find("network", device, false,
                        [&](const std::string& what) { return what.starts_with(name + ":") || what == name; });
  if (set == nullptr) return std::nullopt;
  const Json& c = set->constants;
  return CollectiveProtocols{
      Seconds(value_of(c, "low start s", 0)),         Seconds(value_of(c, "low step s", 0)),
      BytesPerSecond(value_of(c, "low rate B/s", 1)), Seconds(value_of(c, "high start s", 0)),
      Seconds(value_of(c, "high step s", 0)),         BytesPerSecond(value_of(c, "high rate B/s", 1)),
      std::log2(value_of(c, "rate per doubling", 1))};
}

}  // namespace meshwright
