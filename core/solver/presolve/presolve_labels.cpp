// SPDX-License-Identifier: Apache-2.0
// Dominance: a label that another one replaces without loss, whatever the neighbours' labels are, is dropped.
#include <algorithm>
#include <utility>

#include "core/solver/presolve/presolve_work.h"

namespace meshwright::portfolio {

namespace {

// A forbidden pair in the label that would replace, and in the label to be replaced: their difference must decide for
// the right one, so they are two different huge numbers.
constexpr double kNever = 1e300, kNeverMind = 1e301;

class Comparison {
 public:
  Comparison(const Work& work, int node) : work_(work), node_(node), count_(work.labels(node)) {
    for (int edge : work.nodes[node].edges) {
      const TableView view(work, edge, node);
      Table table;
      table.width = view.other_labels;
      table.cost.reserve(count_ * table.width);
      for (int own = 0; own < count_; ++own) {
        int cheapest = 0;
        for (int other = 0; other < view.other_labels; ++other) {
          const double cost = view.cost(own, other);
          table.cost.push_back(std::min(cost, kNever));
          if (cost < view.cost(own, cheapest)) cheapest = other;
        }
        table.cheapest.push_back(cheapest);
      }
      tables_.push_back(std::move(table));
    }
  }

  // Whether `a` costs no more and takes no more memory than `b` whatever the neighbours' labels are.
  [[nodiscard]] bool replaces(int a, int b, double& work_done) {
    for (int piece : work_.nodes[node_].pieces)
      if (work_.pieces[piece].memory[a] > work_.pieces[piece].memory[b]) return false;
    const double own = work_.nodes[node_].cost[a] - work_.nodes[node_].cost[b];
    // Where `b` has its cheapest partners is where `a` has it hardest: most pairs fail here.
    double least = own;
    for (const Table& table : tables_) {
      const std::size_t x = table.cheapest[b];
      least += table.cost[a * table.width + x] - table.cost[b * table.width + x];
    }
    work_done += static_cast<double>(tables_.size()) + 1.0;
    if (least > 0.0) return false;
    double most = own;
    for (const Table& table : tables_) {
      const double* row_a = table.cost.data() + a * table.width;
      const double* row_b = table.cost.data() + b * table.width;
      double worst = -kNeverMind;
      for (std::size_t x = 0; x < table.width; ++x)
        worst = std::max(worst, row_a[x] - (row_b[x] == kNever ? kNeverMind : row_b[x]));
      work_done += static_cast<double>(table.width);
      most += worst;
    }
    return most <= 0.0;
  }

 private:
  struct Table {
    std::vector<double> cost;  // [own label][other label], forbidden: kNever
    std::vector<std::size_t> cheapest;
    std::size_t width;
  };
  const Work& work_;
  int node_, count_;
  std::vector<Table> tables_;
};

// Each label against every other, in a fixed order: of two equal labels the first stays.
bool compare_labels_of(Work& work, int node, double& work_done) {
  const int count = work.labels(node);
  if (count < 2) return true;
  Comparison comparison(work, node);
  std::vector<bool> keep(count, true);
  std::vector<int> instead(count, -1);
  bool dropped = false;
  for (int b = 0; b < count; ++b)
    for (int a = 0; a < count && keep[b]; ++a)
      if (a != b && keep[a] && comparison.replaces(a, b, work_done)) {
        keep[b] = false;
        instead[b] = a;
        dropped = true;
      }
  return !dropped || work.keep_labels(node, keep, instead);
}

}  // namespace

bool Work::compare_labels(const Budget& budget) {
  constexpr double max_work = 4e8;  // of one round: about half a second
  double work_done = 0.0;
  for (std::size_t i = 0; i < nodes.size() && work_done < max_work; ++i) {
    if (nodes[i].gone || !nodes[i].compare_labels) continue;
    if (i % 256 == 0 && budget.over()) return true;
    nodes[i].compare_labels = false;
    if (!compare_labels_of(*this, static_cast<int>(i), work_done)) return false;
  }
  return true;
}

}  // namespace meshwright::portfolio
