// SPDX-License-Identifier: Apache-2.0
#include "costmodel/measured_kernels.h"

#include <algorithm>
#include <cmath>

#include "costmodel/sheets/kernel_constants.h"

namespace meshwright {

namespace {

constexpr double kShareOfLargest = 0.5;  // rows that an implementation needs to be chosen
constexpr double kOutlier = 10.0;

std::string peak_type(const KernelRow& row) { return row.dtype.substr(0, row.dtype.find('-')); }

std::optional<ProductUnit> unit_of(const KernelRow& row, const DataSheet& sheet) {
  const auto peak = sheet.peak.find(peak_type(row));
  if (peak == sheet.peak.end()) return std::nullopt;
  return ProductUnit{peak->second, sheet.memory_bandwidth, sheet.multiprocessors};
}

// "V100-SXM2" of "V100-SXM2-16GB".
std::string_view name_without_memory(const DataSheet& sheet) {
  const std::string_view name = sheet.name;
  return name.ends_with("GB") ? name.substr(0, name.rfind('-')) : name;
}

// Devices whose names and sheets differ in the size of the memory alone share what was measured of products and
// attention, under the name of the first. (An equal sheet is not enough: boards for PCIe run at less power.)
const std::string& computes_as(const DataSheet& device) {
  for (const DataSheet& sheet : data_sheets())
    if (name_without_memory(sheet) == name_without_memory(device) && sheet.multiprocessors == device.multiprocessors &&
        sheet.memory_bandwidth == device.memory_bandwidth && sheet.peak == device.peak)
      return sheet.name;
  return device.name;
}

std::string device_in_key(const KernelRow& row) {
  const DataSheet* sheet = find_data_sheet(row.device);
  const bool computes = !std::holds_alternative<MeasuredCollective>(row.kernel);
  return sheet != nullptr && computes ? computes_as(*sheet) : row.device;
}

std::string type_in_key(const KernelRow& row) {
  return std::holds_alternative<MeasuredCollective>(row.kernel) ? "" : row.dtype;
}

// Rows that correct one another, before one implementation is chosen.
struct Implementation {
  std::vector<Neighbours::Measured> measured;

  [[nodiscard]] double mean_log_ratio() const {
    double sum = 0.0;
    for (const Neighbours::Measured& one : measured) sum += one.log_ratio;
    return sum / static_cast<double>(measured.size());
  }
};
using Implementations = std::map<std::string, Implementation>;

Implementation& chosen(Implementations& implementations) {
  std::size_t largest = 0;
  for (const auto& [name, one] : implementations) largest = std::max(largest, one.measured.size());
  Implementation* best = nullptr;
  for (auto& [name, one] : implementations) {
    if (static_cast<double>(one.measured.size()) < kShareOfLargest * static_cast<double>(largest)) continue;
    if (best == nullptr || one.mean_log_ratio() < best->mean_log_ratio()) best = &one;
  }
  return *best;
}

struct PlacedRow {
  std::size_t row;
  Neighbours::Measured measured;
};

bool is_off(const Neighbours::Measured& measured, const Correction& others) {
  return std::abs(measured.log_ratio - std::log(others.factor)) > std::log(kOutlier);
}

// One odd row also shifts what its neighbours are held against; so every row under suspicion is held once more against
// the rows that are under none.
void add_outliers(const std::vector<PlacedRow>& placed, std::vector<std::size_t>& found) {
  std::vector<Neighbours::Measured> all, good;
  for (const PlacedRow& one : placed) all.push_back(one.measured);
  const Neighbours neighbours(std::move(all));
  std::vector<const PlacedRow*> suspects;
  for (const PlacedRow& one : placed) {
    if (is_off(one.measured, neighbours.without(one.measured)))
      suspects.push_back(&one);
    else
      good.push_back(one.measured);
  }
  if (suspects.empty()) return;
  const Neighbours good_neighbours(std::move(good));
  for (const PlacedRow* one : suspects)
    if (is_off(one->measured, good_neighbours.at(one->measured.at))) found.push_back(one->row);
}

}  // namespace

std::optional<Seconds> modelled_time(const KernelRow& row) {
  const DataSheet* sheet = find_data_sheet(row.device);
  if (sheet == nullptr) return std::nullopt;
  const KernelConstants& constants = KernelConstants::shipped();
  if (const auto* collective = std::get_if<MeasuredCollective>(&row.kernel)) {
    const auto protocols = constants.collectives(*sheet, collective->kind);
    if (!protocols) return std::nullopt;
    return collective_time(collective->kind, collective->size, collective->ranks, *protocols);
  }
  const std::optional<ProductUnit> unit = unit_of(row, *sheet);
  if (!unit) return std::nullopt;
  if (const auto* product = std::get_if<ProductShape>(&row.kernel))
    return product_time(*product, *unit, constants.products(*sheet, row.dtype));
  if (const auto* attention = std::get_if<AttentionShape>(&row.kernel))
    return attention_time(*attention, *unit, constants.attention(*sheet, attention->causal));
  return std::nullopt;
}

MeasuredKernels::MeasuredKernels(const std::vector<KernelRow>& rows) {
  std::map<Key, Implementations> by_key;
  for (const KernelRow& row : rows) {
    const std::optional<std::string> family = kernel_family(row);
    const std::optional<Seconds> modelled = modelled_time(row);
    if (!family || !modelled || includes_launch(row)) continue;
    by_key[{device_in_key(row), type_in_key(row), *family}][implementation(row)].measured.push_back(
        {*shape_point(row), std::log(row.time / *modelled)});
  }
  for (auto& [key, implementations] : by_key) neighbours_.emplace(key, std::move(chosen(implementations).measured));
}

TimeEstimate MeasuredKernels::corrected(const Key& key, const ShapePoint& point, Seconds modelled) const {
  const auto near = neighbours_.find(key);
  if (near == neighbours_.end()) return {modelled, Basis::Modelled};
  const Correction correction = near->second.at(point);
  return {correction.factor * modelled, correction.basis()};
}

TimeEstimate MeasuredKernels::product(const DataSheet& device, const std::string& dtype, const ProductShape& shape,
                                      Seconds modelled) const {
  return corrected({computes_as(device), dtype, product_family(shape)}, shape_point(shape), modelled);
}

TimeEstimate MeasuredKernels::attention(const DataSheet& device, const std::string& dtype, const AttentionShape& shape,
                                        Seconds modelled) const {
  return corrected({computes_as(device), dtype, attention_family(shape)}, shape_point(shape), modelled);
}

TimeEstimate MeasuredKernels::collective(const DataSheet& device, CollectiveKind kind, Bytes size, int ranks,
                                         Seconds modelled) const {
  if (size <= Bytes(0.0)) return {modelled, Basis::Modelled};
  return corrected({device.name, "", collective_family(kind, 1)}, shape_point(size, ranks), modelled);
}

std::vector<std::size_t> outliers(const std::vector<KernelRow>& rows) {
  using Set = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Set, std::vector<PlacedRow>> sets;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const KernelRow& row = rows[i];
    const std::optional<std::string> family = kernel_family(row);
    const std::optional<Seconds> modelled = modelled_time(row);
    if (family && modelled)
      sets[{row.device, type_in_key(row), *family, implementation(row)}].push_back(
          {i, {*shape_point(row), std::log(row.time / *modelled)}});
  }
  std::vector<std::size_t> found;
  for (const auto& [set, placed] : sets) add_outliers(placed, found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace meshwright
