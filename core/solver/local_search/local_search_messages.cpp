// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_messages.h"

#include <algorithm>
#include <map>
#include <utility>

namespace meshwright::portfolio {

// share_: sequential TRW splits a node's belief over monotonic chains; max(edges before, edges after) chains pass it.
SearchMessages::SearchMessages(const SearchModel& model)
    : model_(model), incoming_(model.nodes()), outgoing_(model.nodes()), belief_(model.nodes()) {
  std::map<std::pair<int, int>, std::size_t> start;  // (from, to)
  std::size_t size = 0;
  for (int i = 0; i < model.nodes(); ++i) {
    int before = 0, after = 0;
    for (const SearchModel::Neighbour& neighbour : model.neighbours(i)) {
      incoming_[i].push_back(start[{neighbour.node, i}] = size);
      size += model.labels(i);
      ++(neighbour.node < i ? before : after);
    }
    share_.push_back(1.0 / std::max(1, std::max(before, after)));
  }
  for (int i = 0; i < model.nodes(); ++i)
    for (const SearchModel::Neighbour& neighbour : model.neighbours(i))
      outgoing_[i].push_back(start[{i, neighbour.node}]);
  values_.assign(size, 0.0);
}

void SearchMessages::pass(const std::vector<std::vector<double>>& costs) {
  for (int i = 0; i < model_.nodes(); ++i) send(i, true, costs[i]);
  for (int i = model_.nodes(); i-- > 0;) send(i, false, costs[i]);
}

// Each message is the least over the own label of the node's share of belief, less what came the other way, plus the
// edge. Messages are shifted to a least value of 0 and capped, so that forbidden pairs cannot make them grow without
// end.
void SearchMessages::send(int node, bool forward, const std::vector<double>& cost) {
  std::vector<double>& belief = belief_[node];
  const auto neighbours = model_.neighbours(node);
  const std::size_t labels = model_.labels(node);
  belief = cost;
  for (std::size_t start : incoming_[node])
    for (std::size_t k = 0; k < labels; ++k) belief[k] += values_[start + k];
  rest_.resize(labels);
  for (std::size_t n = 0; n < neighbours.size(); ++n) {
    const int other = neighbours[n].node;
    if ((other > node) != forward) continue;
    const double* back = values_.data() + incoming_[node][n];
    for (std::size_t k = 0; k < labels; ++k) rest_[k] = share_[node] * belief[k] - back[k];
    // costs[label of the neighbour * labels + label]: the least over the own label is along a row.
    double* out = values_.data() + outgoing_[node][n];
    const double* row = neighbours[n].costs;
    double low = kForbidden;
    for (int q = 0; q < model_.labels(other); ++q, row += labels) {
      double best[4] = {kForbidden, kForbidden, kForbidden, kForbidden};
      std::size_t k = 0;
      for (; k + 4 <= labels; k += 4)
        for (std::size_t j = 0; j < 4; ++j) {
          const double value = rest_[k + j] + row[k + j];
          best[j] = value < best[j] ? value : best[j];
        }
      for (; k < labels; ++k) best[0] = std::min(best[0], rest_[k] + row[k]);
      out[q] = std::min(std::min(best[0], best[1]), std::min(best[2], best[3]));
      low = std::min(low, out[q]);
    }
    for (int q = 0; q < model_.labels(other); ++q) out[q] = std::min(out[q] - low, model_.forbidden());
  }
}

Labels SearchMessages::decode(const std::vector<std::vector<double>>& costs) const {
  Labels labels(model_.nodes(), 0);
  std::vector<double> sum;
  for (int i = 0; i < model_.nodes(); ++i) {
    sum = costs[i];
    const auto neighbours = model_.neighbours(i);
    for (std::size_t n = 0; n < neighbours.size(); ++n) {
      const int other = neighbours[n].node;
      const double* row =
          other < i ? neighbours[n].costs + labels[other] * sum.size() : values_.data() + incoming_[i][n];
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += row[k];
    }
    labels[i] = static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin());
  }
  return labels;
}

}  // namespace meshwright::portfolio
