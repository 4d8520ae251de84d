// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/figures/price.h"

#include <limits>
#include <set>

#include "cli/options/options.h"
#include "core/base/text.h"

namespace meshwright {

DevicePrices device_prices_from_text(const std::string& text, const Cluster& cluster) {
  constexpr const char* kFlag = "--price-per-device-hour";
  DevicePrices prices;
  if (text.empty()) {
    for (const HostGroup& group : cluster.groups) {
      if (!group.device.price_per_device_hour) return {};
      prices.push_back(*group.device.price_per_device_hour);
    }
    return prices;
  }
  for (const std::string& part : split(text, ','))
    prices.push_back(number_from_text(part, kFlag, 0.0, std::numeric_limits<double>::infinity(),
                                      "a number from 0 upwards; give one such as 2.5"));
  if (prices.size() == 1) prices.resize(cluster.groups.size(), prices.front());
  require(prices.size() == cluster.groups.size(),
          "{}: {} prices were given, but {} has {} host group(s); give one price for all, or one per group.", kFlag,
          prices.size(), cluster.name, cluster.groups.size());
  return prices;
}

PlanPrice price_of(const Plan& plan, const DevicePrices& prices) {
  MW_CHECK(prices.size() == plan.cluster.groups.size(), "{} prices for {} groups", prices.size(),
           plan.cluster.groups.size());
  std::set<int> devices;
  for (const StagePlan& stage : plan.stages) devices.insert(stage.devices.begin(), stage.devices.end());
  PlanPrice price{};
  for (const int device : devices)
    price.per_hour += prices[static_cast<std::size_t>(plan.cluster.group_of_device(device))];
  price.per_step = price.per_hour * plan.predicted.step_time.si() / 3600.0;
  price.per_million_samples = price.per_step / static_cast<double>(plan.training.batch) * 1e6;
  return price;
}

std::string to_text(const PlanPrice& price) {
  return fmt::format("{:.6g} per step, {:.6g} per million samples", price.per_step, price.per_million_samples);
}

void add_price(Json& json, const PlanPrice& price) {
  json["price_per_hour"] = price.per_hour;
  json["price_per_step"] = price.per_step;
  json["price_per_million_samples"] = price.per_million_samples;
}

}  // namespace meshwright
