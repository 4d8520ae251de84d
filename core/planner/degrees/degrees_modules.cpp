// SPDX-License-Identifier: Apache-2.0
#include "core/planner/degrees/degrees_modules.h"

#include <algorithm>
#include <array>

namespace meshwright {

namespace {

// From those that make little again to those that make much.
constexpr std::array kModuleSets = [] {
  using M = RecomputeModules;
  constexpr M cheap = M::Norms | M::ExpertActivations;
  return std::array{M::Norms,
                    cheap,
                    M::LatentProjections,
                    cheap | M::LatentProjections,
                    cheap | M::LatentProjections | M::FeedForward | M::SharedExperts,
                    cheap | M::LatentProjections | M::FeedForward | M::Mixture};
}();

}  // namespace

std::vector<Degrees> with_modules_for_blocks(const Degrees& base, RecomputeModules there) {
  std::vector<Degrees> all;
  Degrees degrees = base;
  degrees.recompute = Recompute::None;
  for (const RecomputeModules set : kModuleSets) {
    degrees.recompute_modules = set & there;
    const bool is_new = std::find(all.begin(), all.end(), degrees) == all.end();
    if (degrees.recompute_modules != RecomputeModules::None && is_new) all.push_back(degrees);
  }
  return all;
}

}  // namespace meshwright
