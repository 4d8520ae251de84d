// SPDX-License-Identifier: Apache-2.0
// How many hosts a training run needs: the smallest number that meets a deadline, the fastest within a price, or with
// both limits the cheapest that meets them.
//
// A run of T tokens takes ceil(T / (batch * seq)) steps. Every number of hosts has a plan of its own, and neither its
// time nor its price is monotone in their number: batches and layers divide by some numbers and not by others. So the
// powers of two, and the whole cluster, are planned, and the gap beside the answer is bisected as if they were monotone
// there. What was planned is part of the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

// What the devices of one host cost; of unknown ones nothing is said.
struct HostRates {
  std::optional<double> price_per_hour = {};  // in any currency
  std::optional<double> watts = {};
};

// A training run on so many hosts, all of them paid for and powered from its first step to its last.
struct RunCost {
  std::int64_t steps = 0;
  Seconds time{0.0};
  std::optional<double> price = {};
  std::optional<double> kilowatt_hours = {};
};
// `tokens_per_step`: batch times sequence. REQUIRES: both numbers of tokens are positive.
[[nodiscard]] RunCost run_cost(double tokens, std::int64_t tokens_per_step, Seconds step, int hosts,
                               const HostRates& rates);

struct SizeRequest {
  int max_hosts = 1;
  double tokens = 0.0;
  std::int64_t tokens_per_step = 1;
  HostRates rates = {};
  // The deadline alone: the smallest; the price alone or neither: the fastest; both: the cheapest.
  std::optional<Seconds> deadline = {};
  std::optional<double> max_price = {};  // REQUIRES: a price in `rates`
  bool every_power = false;              // plan all powers of two, also those that the answer does not need
};

// A number of hosts that was looked at.
struct SizedPlan {
  int hosts = 1;
  std::optional<Seconds> step = {};  // nullopt: it was ruled out by its bound, or no plan fits
  std::optional<RunCost> cost = {};  // of the plan; of one that was ruled out no run costs less
  // No plan can meet the deadline or the price, or with both be cheaper than another; it is planned only to say what
  // can be met.
  bool ruled_out = false;
  std::string why = {};  // without a step: "stage 0 needs 21 GiB ..."
  bool within = false;   // meets the deadline and the price
  bool front = false;    // no other plan is as fast at the same price (hosts, where it is unknown) or less
};

struct SizeSearch {
  std::vector<SizedPlan> sizes = {};  // by hosts
  std::optional<int> chosen = {};     // hosts; nullopt: none is within
  std::optional<int> fastest = {};    // hosts of the fastest plan; nullopt: no size has a plan
  std::optional<int> cheapest = {};   // of the cheapest one; nullopt: no prices, or no plan
  // With both limits, where none is within both: the fastest within the price, and the cheapest within the deadline.
  std::optional<int> fastest_in_price = {}, cheapest_in_time = {};  // hosts; nullopt: none
  std::optional<int> scaling_ends = {};  // the fastest plan's hosts, where larger sizes were planned and none is faster
  bool interrupted = false;

  // REQUIRES: it was looked at.
  [[nodiscard]] const SizedPlan& at(int hosts) const;
};

// What is asked of a number of hosts.
struct SizePlanner {
  struct Answer {
    std::optional<Seconds> step = {};  // nullopt: no plan fits
    std::string why = {};
  };
  std::function<Answer(int hosts)> plan;
  std::function<Seconds(int hosts)> bound;  // no plan's step takes less; 0: nothing is known
  // Called after plan(hosts) where its plan would be the answer if no other followed.
  std::function<void(int hosts)> keep = {};
  std::function<bool()> stop = {};  // true: no more sizes; a size that is being planned is dropped
};

// REQUIRES: max_hosts >= 1.
[[nodiscard]] SizeSearch search_sizes(const SizeRequest& request, const SizePlanner& planner);

}  // namespace meshwright
