// SPDX-License-Identifier: Apache-2.0
// Results of elimination steps that were computed before. The blocks of a model repeat, and so do the tables of its
// layers: what was made once of equal tables in the same way is not made again. The costs are the same to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/solver/elimination/elimination_steps.h"

namespace meshwright::elimination {

// For one thread.
class KnownTables {
 public:
  // Two tables with the same number have the same costs.
  struct Numbered {
    int number = -1;
    Costs cost;
  };
  // The number of a table that no step made.
  [[nodiscard]] Numbered given(const Costs& cost);
  // The result of a step. REQUIRES: the steps of all calls are of one KnownSteps.
  [[nodiscard]] Numbered result(const Step& step, const std::vector<const Numbered*>& sources);

  [[nodiscard]] std::size_t combined() const { return combined_; }  // results that were computed
  // Memory for the caller between two calls of `result`.
  [[nodiscard]] Scratch& scratch() { return scratch_; }

 private:
  // Larger results, and those beyond the total, are computed again where they are needed again.
  static constexpr std::size_t kMaxEntries = 1u << 16, kMaxTotal = 1u << 23;

  std::unordered_map<Costs, Numbered> shared_;            // given tables, by where their costs are
  std::unordered_map<std::string_view, Numbered> given_;  // by their costs' bytes
  struct Hash {
    std::size_t operator()(const std::vector<int>& numbers) const;
  };
  std::unordered_map<std::vector<int>, Numbered, Hash> results_;  // by the step's kind and the sources' numbers
  std::vector<int> key_;
  std::vector<const double*> costs_;
  std::size_t total_ = 0, combined_ = 0;
  int numbers_ = 0;
  Scratch scratch_;
};

}  // namespace meshwright::elimination
