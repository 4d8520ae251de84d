// SPDX-License-Identifier: Apache-2.0
// Sequential tree-reweighted message passing on a pairwise field (Kolmogorov, "Convergent tree-reweighted message
// passing for energy minimization", 2006), for the sources of bound.h only.
//
// Any messages give an equivalent field (a reparametrisation), so the bound that a pass returns is valid for any
// messages, up to the rounding of the pass itself, for which it is lowered.
#pragma once

#include <memory>
#include <vector>

#include "core/solver/problem/field.h"

namespace meshwright::portfolio {

class Messages {
 public:
  // Keeps a reference. Copies share all but the messages.
  explicit Messages(const Field& field);

  // What the last visit of a node found; `total`: its cost, `extra` and the messages of all neighbours.
  struct Visit {
    std::vector<double> total;  // [label of all nodes]
    std::vector<int> cheapest;  // [node]
  };
  // Visits all nodes in order, or in reverse order. `extra`: added to the node costs, [label of all nodes]; infinity
  // takes a label out. Returns a lower bound of the field with the extra costs; infinity: a node has no label left, and
  // the pass went no further.
  double pass(bool forward, const std::vector<double>& extra, Visit& visit);

  // After a backward pass that found `visit`: forbids the pairs in `field`, a copy of the field the messages are of,
  // for which more than `room` is added to the bound before that pass. Returns how many.
  std::size_t forbid_pairs(const Visit& visit, double room, Field& field) const;

  // [node]: the reparametrised cost of its edges if every node takes its cheapest label. The bound is not tight where
  // this is above 0.
  [[nodiscard]] std::vector<double> disagreement(const Visit& visit) const;

  [[nodiscard]] std::size_t first_label(std::size_t node) const { return shape_->first_label[node]; }
  [[nodiscard]] std::size_t label_count() const { return shape_->first_label.back(); }

 private:
  // One direction of an edge: how `to` hears from `from`.
  struct Link {
    std::size_t to;
    std::size_t out, in;  // where the messages from -> to and to -> from begin in message_
    const double* table;  // [label of from][label of to]
    std::size_t width;    // labels of `to`
    std::size_t edge;
  };
  struct Shape {
    std::vector<std::size_t> first_label;              // [node], and one past the last
    std::vector<std::vector<Link>> forward, backward;  // [node]: to later nodes, to earlier nodes
    std::vector<std::vector<double>> transposed;       // [edge]
    std::vector<double> share;                         // [node]: of its total that each edge of one direction takes
  };
  double send(const Link& link, const double* total, std::size_t labels, double share);

  const Field& field_;
  std::shared_ptr<const Shape> shape_;
  std::vector<double> message_;
  std::vector<double> least_;  // [edge]: least value of its reparametrised table, as of the last message
};

}  // namespace meshwright::portfolio
