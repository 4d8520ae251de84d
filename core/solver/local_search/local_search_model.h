// SPDX-License-Identifier: Apache-2.0
// What the local search works on: a reduced field laid out for fast rows, and labels with their cost and memory
// kept up to date.
//
// Inside, a forbidden label or pair costs `forbidden`, more than any labels without one can differ by, so that a search
// may pass through such labels and always leaves them.
#pragma once

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/solver/presolve/presolve.h"
#include "core/solver/problem/memory_profile.h"

namespace meshwright::portfolio {

// Lists of any lengths, side by side in one block of memory.
template <class T>
class FlatLists {
 public:
  // `entries`: (list, element); each list keeps their order.
  FlatLists(int lists, const std::vector<std::pair<int, T>>& entries)
      : begin_(lists + 1, 0), elements_(entries.size()) {
    for (const auto& [list, element] : entries) ++begin_[list + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next(begin_);
    for (const auto& [list, element] : entries) elements_[next[list]++] = element;
  }
  [[nodiscard]] std::span<const T> operator[](int list) const {
    return {elements_.data() + begin_[list], elements_.data() + begin_[list + 1]};
  }

 private:
  std::vector<std::size_t> begin_;  // [list], and one past the end
  std::vector<T> elements_;
};

class SearchModel {
 public:
  // A neighbour and the costs of the edge to it: costs[label of the neighbour * own labels + own label].
  struct Neighbour {
    int node;
    const double* costs;
  };
  struct Piece {
    int begin, end;  // rows
    const double* memory;
  };

  explicit SearchModel(const Reduced& reduced);  // keeps a reference
  SearchModel(const SearchModel&) = delete;
  SearchModel& operator=(const SearchModel&) = delete;

  [[nodiscard]] const Reduced& reduced() const { return reduced_; }
  [[nodiscard]] int nodes() const { return static_cast<int>(labels_.size()); }
  [[nodiscard]] int labels(int node) const { return labels_[node]; }
  [[nodiscard]] const double* cost(int node) const { return costs_.data() + first_cost_[node]; }
  [[nodiscard]] std::span<const Neighbour> neighbours(int node) const { return neighbours_[node]; }
  [[nodiscard]] std::span<const Piece> pieces(int node) const { return pieces_[node]; }
  [[nodiscard]] double forbidden() const { return forbidden_; }
  // Whether a sum of costs holds a forbidden one: all others together stay below half of it.
  [[nodiscard]] bool forbids(double cost) const { return cost >= 0.5 * forbidden_; }

 private:
  [[nodiscard]] FlatLists<Neighbour> lay_out_edges();

  const Reduced& reduced_;
  std::vector<int> labels_;
  std::vector<std::size_t> first_cost_;  // [node]
  std::vector<double> costs_, edge_costs_;
  FlatLists<Neighbour> neighbours_{0, {}};
  FlatLists<Piece> pieces_{0, {}};
  double forbidden_ = 1.0;
};

// One label per node with cost and memory. Costs leave out what is forbidden; that is counted.
class Assignment {
 public:
  Assignment(const SearchModel& model, Labels labels);

  void set(Labels labels);
  void change(int node, int label);
  [[nodiscard]] int label(int node) const { return labels_[node]; }
  [[nodiscard]] const Labels& labels() const { return labels_; }
  [[nodiscard]] double cost() const { return cost_; }
  [[nodiscard]] int violations() const { return violations_; }           // forbidden labels and pairs
  [[nodiscard]] const MemoryProfile& memory() const { return memory_; }  // sum beyond the row's limit
  [[nodiscard]] const PressureProfile& pressure() const { return pressure_; }
  void set_steepness(double steepness);  // of the pressure; made anew
  [[nodiscard]] bool feasible() const { return violations_ == 0 && memory_.largest() <= 0.0; }
  // Recomputes all from the labels; what was kept must agree within rounding.
  void refresh();

 private:
  void add(double cost, int sign);
  void add_all();

  const SearchModel& model_;
  Labels labels_;
  double cost_ = 0.0;
  double magnitude_ = 0.0;  // of what was added up: rounding is relative to it
  int violations_ = 0;
  MemoryProfile memory_;
  PressureProfile pressure_;
};

}  // namespace meshwright::portfolio
