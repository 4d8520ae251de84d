// SPDX-License-Identifier: Apache-2.0
// Search along the elimination tree, from its roots to its leaves, all partial choices of one length at a time.
//
// A partial choice is bounded by its own cost plus the exact cost of the rest under given multipliers (the messages of
// the elimination), for several multipliers at once. If two partial choices have the same labels where the rest can see
// them, the one that costs no less and leaves no more memory in any row is dropped. What exceeds the width of the
// search is left out, and the least bound left out is kept: nothing left out means that the search is exhaustive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/solver/branch_and_bound/branch_and_bound_dual.h"

namespace meshwright::portfolio {

struct SearchResult {
  std::optional<Labels> labels;  // cheapest found below the cut that keep every row
  double cost = kForbidden;
  double left_out = kForbidden;  // every other choice below the cut costs at least this; infinity: there is none
  // The same of choices left out only because cheaper ones, which break rows that are not watched, hid them.
  double broken = kForbidden;
  std::vector<int> broken_rows;  // some rows that these break
  double work = 0.0;             // about the number of additions that take as long
};

class TreeSearch {
 public:
  // `watched`: the rows whose memory is followed. Keeps references. REQUIRES: at least one set of multipliers.
  TreeSearch(const Reduced& reduced, const EliminationPlan& plan, const std::vector<Multipliers>& multipliers,
             const std::vector<int>& watched);

  [[nodiscard]] SearchResult run(double cut, std::size_t width, const Budget& budget);

 private:
  struct Layer {  // one node is decided
    int node;
    std::vector<std::vector<std::size_t>> scope;  // per bucket of the node, per scope node: its place in the frontier
    std::vector<int> frontier;                    // for the next layers: nodes they look at
    std::vector<std::size_t> carried;             // per frontier node: its place before; the past size: this node
    std::vector<std::pair<std::size_t, std::vector<double>>> memory;  // watched rows the node counts in
    std::vector<double> room;  // per watched row: memory up to this leaves enough for whatever follows
  };
  struct Step {
    std::uint32_t parent;
    std::uint16_t label;
  };
  struct States {                 // side by side
    std::vector<double> numbers;  // bounds per multipliers, cost, memory per watched row
    std::vector<std::uint16_t> frontier;
    std::vector<Step> step;
    [[nodiscard]] std::size_t count() const { return step.size(); }
  };

  void order_layers();
  void measure_rows();
  bool expand(const Layer& layer, const States& from, std::size_t from_frontier, States& to, const Budget& budget);
  void push(const Layer& layer, const States& from, std::size_t state, std::size_t from_frontier, std::uint16_t label,
            States& to);
  void excesses(const Layer& layer, const std::uint16_t* frontier);
  void thin(const Layer& layer, States& states);
  [[nodiscard]] bool dominated(const States& states, std::size_t state, const std::vector<std::size_t>& kept) const;
  void keep_cheapest(const States& states, std::vector<std::size_t>& kept, std::size_t width);
  void select(const std::vector<std::size_t>& kept, std::size_t frontier, States& states) const;
  void finish(const States& last, SearchResult& result) const;
  void note_broken(const Labels& labels, SearchResult& result) const;
  [[nodiscard]] Labels trace(Step last) const;
  [[nodiscard]] double bound(const double* numbers) const;

  const Reduced& reduced_;
  const EliminationPlan& plan_;
  std::vector<std::unique_ptr<Elimination>> relaxed_;  // per multipliers
  std::vector<double> root_;                           // their values
  std::vector<double> base_, charged_;                 // node costs without and with the first multipliers
  std::vector<int> watched_;
  std::vector<double> limit_;  // per watched row
  std::vector<Layer> layers_;
  std::vector<std::vector<Step>> steps_;  // per layer
  std::vector<double> excess_;            // scratch: per multipliers, per label
  std::size_t stride_ = 0;                // numbers per state
  double cut_ = kForbidden, left_out_ = kForbidden, work_ = 0.0;
  std::size_t width_ = 0;
};

}  // namespace meshwright::portfolio
