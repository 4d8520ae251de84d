// SPDX-License-Identifier: Apache-2.0
// The local search's move: the labels of a block of nodes are chosen anew, all at once and as cheaply as possible,
// while the labels around the block stay.
//
// Min-sum elimination over the block, cheapest node first. Where the next table would grow too large, a node leaves the
// block (it keeps its label) until the rest is narrow enough: every other label of the block is then exactly optimal
// given the rest. On graphs that are nearly trees few nodes have to leave. Memory counts by what each node alone would
// add to the pressure, so the sum over a block is only nearly right; the caller judges the outcome.
#pragma once

#include <functional>
#include <memory>

#include "core/solver/local_search/local_search_model.h"

namespace meshwright::portfolio {

struct BlockRequest {
  const std::vector<int>* nodes = nullptr;                  // distinct
  const Assignment* now = nullptr;                          // the labels of all nodes
  double price = 0.0;                                       // of the pressure per its steepness: what memory costs
  const std::vector<std::vector<double>>* costs = nullptr;  // [node][label]: instead of the model's costs of the nodes
  double noise = 0.0;                                       // mean of an exponential amount added to every label's cost
  double max_table = 65536.0;                               // entries looked at to eliminate one node
  std::function<bool()> stop;                               // asked from time to time; then nothing changes
  // [position in nodes]: labels to choose from besides the one now; null: all.
  const std::vector<std::vector<int>>* choices = nullptr;
};

struct LabelChange {
  int node, label;
};

class BlockSolver {
 public:
  explicit BlockSolver(const SearchModel& model);
  ~BlockSolver();

  // The labels that change; valid until the next call. Never costs more than the labels now (by the block's own
  // reckoning).
  const std::vector<LabelChange>& solve(const BlockRequest& request, Random& random);

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace meshwright::portfolio
