// SPDX-License-Identifier: Apache-2.0
#include "core/solver/bound/bound_messages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

namespace {

constexpr double kRounding = 0x1p-52;

// least[y] = min(least[y], add + row[y]). Elementwise, so that the wider instructions change nothing in the result.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]]
#endif
void lower(double* __restrict least, const double* __restrict row, double add, std::size_t count) {
  for (std::size_t y = 0; y < count; ++y) {
    const double value = add + row[y];
    least[y] = value < least[y] ? value : least[y];
  }
}

}  // namespace

Messages::Messages(const Field& field) : field_(field), least_(field.edges.size(), 0.0) {
  auto shape = std::make_shared<Shape>();
  shape->first_label.assign(field.nodes.size() + 1, 0);
  shape->forward.resize(field.nodes.size());
  shape->backward.resize(field.nodes.size());
  shape->transposed.resize(field.edges.size());
  for (std::size_t i = 0; i < field.nodes.size(); ++i)
    shape->first_label[i + 1] = shape->first_label[i] + field.nodes[i].cost.size();
  std::size_t begin = 0;
  for (std::size_t e = 0; e < field.edges.size(); ++e) {
    const Field::Edge& edge = field.edges[e];
    const std::size_t u = edge.u, v = edge.v;
    const std::size_t rows = field.nodes[u].cost.size(), columns = field.nodes[v].cost.size();
    shape->transposed[e] = transposed(edge.cost, rows);
    const std::size_t to_v = begin, to_u = begin + columns;
    begin += columns + rows;
    (u < v ? shape->forward : shape->backward)[u].push_back({v, to_v, to_u, edge.cost.data(), columns, e});
    (u < v ? shape->backward : shape->forward)[v].push_back({u, to_u, to_v, shape->transposed[e].data(), rows, e});
  }
  message_.assign(begin, 0.0);
  for (std::size_t i = 0; i < field.nodes.size(); ++i)
    shape->share.push_back(
        1.0 / static_cast<double>(std::max({shape->forward[i].size(), shape->backward[i].size(), std::size_t{1}})));
  shape_ = std::move(shape);
}

// Gives the edge its share of the node's total and takes out the least of the table for every label of `to`. Returns by
// how much rounding may have spoilt the edge's least value.
// The message is lowered until its least entry is 0; what is taken off is the edge's part of the bound. Returns how far
// rounding may have raised that part.
double Messages::send(const Link& link, const double* total, std::size_t labels, double share) {
  double* out = message_.data() + link.out;
  const double* in = message_.data() + link.in;
  std::fill_n(out, link.width, kForbidden);
  double size = 0.0;
  for (std::size_t x = 0; x < labels; ++x) {
    if (total[x] == kForbidden) continue;
    const double add = share * total[x] - in[x];
    size = std::max(size, std::abs(share * total[x]) + std::abs(in[x]));
    lower(out, link.table + x * link.width, add, link.width);
  }
  double least = kForbidden, most = 0.0;
  for (std::size_t y = 0; y < link.width; ++y) {
    if (out[y] == kForbidden) continue;
    least = std::min(least, out[y]);
    most = std::max(most, std::abs(out[y]));
  }
  least_[link.edge] = least;
  if (least == kForbidden) return 0.0;
  for (std::size_t y = 0; y < link.width; ++y) out[y] -= least;
  return 4.0 * kRounding * (size + most);
}

// A node's total is shared evenly among the edges ahead of it, which take it along in their messages; what no edge
// takes stays at the node and is added to the bound there. `spoilt` collects the rounding of all sums, so that the
// bound holds in spite of it.
double Messages::pass(bool forward, const std::vector<double>& extra, Visit& visit) {
  const std::size_t count = field_.nodes.size();
  visit.total.resize(label_count());
  visit.cheapest.resize(count);
  double bound = field_.constant, spoilt = 0.0, size = std::abs(field_.constant);
  for (std::size_t step = 0; step < count; ++step) {
    const std::size_t i = forward ? step : count - 1 - step;
    const std::size_t labels = field_.nodes[i].cost.size(), first = shape_->first_label[i];
    const std::vector<Link>&ahead = forward ? shape_->forward[i] : shape_->backward[i],
          &behind = forward ? shape_->backward[i] : shape_->forward[i];
    double* total = visit.total.data() + first;
    for (std::size_t x = 0; x < labels; ++x) total[x] = field_.nodes[i].cost[x] + extra[first + x];
    for (const auto* links : {&ahead, &behind})
      for (const Link& link : *links)
        for (std::size_t x = 0; x < labels; ++x) total[x] += message_[link.in + x];
    const double* cheapest = std::min_element(total, total + labels);
    visit.cheapest[i] = static_cast<int>(cheapest - total);
    if (*cheapest == kForbidden) return kForbidden;
    const double share = shape_->share[i], left = 1.0 - share * static_cast<double>(ahead.size());
    const double kept = left > kRounding * 16 ? left * *cheapest : 0.0;
    double largest = 0.0;
    for (std::size_t x = 0; x < labels; ++x)
      if (total[x] < kForbidden) largest = std::max(largest, std::abs(total[x]));
    spoilt += kRounding * largest * static_cast<double>(4 + ahead.size() + behind.size());
    bound += kept;
    size += std::abs(kept);
    for (const Link& link : ahead) {
      spoilt += send(link, total, labels, share);
      bound += least_[link.edge];
      size += std::abs(least_[link.edge]);
    }
    if (bound == kForbidden) return kForbidden;
  }
  // Every edge is ahead of one of its ends, so all edges are counted.
  spoilt += kRounding * size * 2.0;
  return bound - spoilt;
}

// Both ends of an edge take what they hold cheapest; the edge's reparametrised cost of that pair is 0 where they agree.
std::vector<double> Messages::disagreement(const Visit& visit) const {
  std::vector<double> sum(field_.nodes.size(), 0.0);
  for (std::size_t i = 0; i < sum.size(); ++i)
    for (const Link& link : shape_->backward[i]) {
      const std::size_t x = visit.cheapest[i], y = visit.cheapest[link.to];
      const double cost = shape_->share[i] * visit.total[shape_->first_label[i] + x] - message_[link.in + x] +
                          link.table[x * link.width + y] - message_[link.out + y] - least_[link.edge];
      sum[i] += cost;
      sum[link.to] += cost;
    }
  return sum;
}

// What a pair adds: the value of the edge's table reparametrised by its last message, and what its label adds at the
// end that heard the message, whose total holds all the rest.
std::size_t Messages::forbid_pairs(const Visit& visit, double room, Field& field) const {
  std::size_t forbidden = 0;
  for (std::size_t i = 0; i < field_.nodes.size(); ++i)
    for (const Link& link : shape_->backward[i]) {
      const double* total = visit.total.data() + shape_->first_label[i];
      const double* heard = visit.total.data() + shape_->first_label[link.to];
      const double least_heard = heard[visit.cheapest[link.to]];
      const double* out = message_.data() + link.out;
      const double* in = message_.data() + link.in;
      Field::Edge& edge = field.edges[link.edge];
      const std::size_t labels = field_.nodes[i].cost.size();
      const bool from_u = edge.u == static_cast<int>(i);
      for (std::size_t x = 0; x < labels; ++x)
        for (std::size_t y = 0; y < link.width; ++y) {
          double& cost = edge.cost[from_u ? x * link.width + y : y * labels + x];
          const double table = shape_->share[i] * total[x] - in[x] + cost - out[y] - least_[link.edge];
          if (cost == kForbidden || table + (heard[y] - least_heard) <= room) continue;
          cost = kForbidden;
          ++forbidden;
        }
    }
  return forbidden;
}

}  // namespace meshwright::portfolio
