// SPDX-License-Identifier: Apache-2.0
// Labels decided along messages: sequential tree-reweighted message passing (Kolmogorov 2006) on node costs that may
// include prices on memory, and decoding in the order of the nodes.
#pragma once

#include <vector>

#include "core/solver/local_search/local_search_model.h"

namespace meshwright::portfolio {

class SearchMessages {
 public:
  explicit SearchMessages(const SearchModel& model);  // keeps a reference

  // One forward and one backward pass over the nodes. costs[node][label]: what a label costs alone.
  void pass(const std::vector<std::vector<double>>& costs);
  // Each node takes the label that is best given the nodes before it and the messages of those after it.
  [[nodiscard]] Labels decode(const std::vector<std::vector<double>>& costs) const;
  // Own cost plus all incoming messages: lower is better.
  [[nodiscard]] const std::vector<std::vector<double>>& belief() const { return belief_; }

 private:
  void send(int node, bool forward, const std::vector<double>& cost);

  const SearchModel& model_;
  std::vector<std::vector<std::size_t>> incoming_;  // [node][neighbour] where the message to the node starts
  std::vector<std::vector<std::size_t>> outgoing_;
  std::vector<double> values_;
  std::vector<double> share_;  // [node] of its belief that one message passes on
  std::vector<std::vector<double>> belief_;
  std::vector<double> rest_;
};

}  // namespace meshwright::portfolio
