// SPDX-License-Identifier: Apache-2.0
// Packs items on hosts so that items that attract each other share hosts. Plain data in and out; the stages are
// translated in placement.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace meshwright {

struct PackingProblem {
  struct Item {
    int hosts, devices;  // `devices` on each of `hosts` different hosts
  };
  // Costs weight * (1 - common hosts / the larger number of hosts) when placed. first < second; negative: repulsion.
  struct Attraction {
    int first, second;
    double weight;
  };
  int devices_per_host = 1;
  int hosts = 1;
  std::vector<Item> items;
  std::vector<Attraction> attractions;  // each pair at most once
};

using Packing = std::vector<std::vector<int>>;  // per item its hosts, told apart by numbers

struct PackingResult {
  std::optional<Packing> packing;  // of minimum cost among those visited, below the limit
  double cost = 0.0;               // of `packing`
  bool exhaustive = false;         // none below the limit costs less (without `packing`: there is none)
};

// Packings that cost less than `limit`. At most `width` states are kept per item: the time is about width * items *
// hosts in use.
[[nodiscard]] PackingResult find_packing(const PackingProblem& problem, double limit, std::size_t width);

// No packing costs less (minus infinity where more attractions overlap than are told apart).
[[nodiscard]] double packing_bound(const PackingProblem& problem);

// Any packing, whatever it costs; nullopt: none exists. Complete: exponential in the number of different sizes at
// worst.
[[nodiscard]] std::optional<Packing> find_any_packing(const PackingProblem& problem);

}  // namespace meshwright
