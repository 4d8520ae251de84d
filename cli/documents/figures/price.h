// SPDX-License-Identifier: Apache-2.0
// What a plan costs in money, in the currency of the prices that the user gives.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/plan.h"

namespace meshwright {

// [host group] the price of one device for one hour; empty: not given.
using DevicePrices = std::vector<double>;
// "2.5" for every device, or "2.5,1.1" by group; "": as the cluster's description has them, or not given. Throws
// InputError naming --price-per-device-hour.
[[nodiscard]] DevicePrices device_prices_from_text(const std::string& text, const Cluster& cluster);

// The price of the devices that the plan's stages run on.
struct PlanPrice {
  double per_hour, per_step, per_million_samples;
};
// REQUIRES: a price for each group of the plan's cluster.
[[nodiscard]] PlanPrice price_of(const Plan& plan, const DevicePrices& prices);

[[nodiscard]] std::string to_text(const PlanPrice& price);  // "0.0068 per step, 26.6 per million samples"
void add_price(Json& json, const PlanPrice& price);         // price_per_hour, ...

}  // namespace meshwright
