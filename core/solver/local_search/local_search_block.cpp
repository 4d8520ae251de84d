// SPDX-License-Identifier: Apache-2.0
#include "core/solver/local_search/local_search_block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/solver/local_search/local_search_order.h"

namespace meshwright::portfolio {

namespace {

constexpr double kNegligible = 1e-60;
constexpr double kMaxWeight = 1e-2;       // of memory against what is forbidden, which has to stay the larger
constexpr double kWorkPerQuestion = 2e6;  // table entries between two questions whether to stop: some milliseconds

// Memory that is handed out piecewise and taken back at once.
class Arena {
 public:
  double* take(std::size_t size) {
    while (chunk_ < chunks_.size() && used_ + size > chunks_[chunk_].size()) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) chunks_.emplace_back(std::max<std::size_t>(size, std::size_t{1} << 18));
    double* result = chunks_[chunk_].data() + used_;
    used_ += size;
    return result;
  }
  void clear() { chunk_ = used_ = 0; }

 private:
  std::vector<std::vector<double>> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
};

// Costs over several nodes of the block: dense, the node that is eliminated first runs fastest.
struct Table {
  std::vector<int> scope;  // latest eliminated first
  const double* cost;
};

// One loop of an elimination, over the labels of one node of the result; an operand is a place in a table that moves as
// the loops run.
struct Step {
  int operand;
  std::size_t stride;
};
struct Level {
  std::size_t labels;
  std::vector<Step> steps;    // operands that hold this level's node
  std::vector<int> complete;  // operands whose row is complete here: no inner level's node is in them
  std::vector<double> sum;    // of the rows complete so far
};

double least(const double* a, const double* b, std::size_t n) {
  // Four running minima allow vector instructions. A minimum does not depend on the order.
  double low[4] = {kForbidden, kForbidden, kForbidden, kForbidden};
  std::size_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (std::size_t j = 0; j < 4; ++j) {
      const double value = a[k + j] + b[k + j];
      low[j] = value < low[j] ? value : low[j];
    }
  for (; k < n; ++k) low[0] = std::min(low[0], a[k] + b[k]);
  return std::min(std::min(low[0], low[1]), std::min(low[2], low[3]));
}

double least(const double* a, std::size_t n) { return *std::min_element(a, a + n); }

void add_to(double* sum, const double* row, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) sum[k] += row[k];
}

}  // namespace

struct BlockSolver::Tables {
  explicit Tables(const SearchModel& m) : model(m), position(m.nodes(), -1) {}

  void start(const BlockRequest& request, Random& random);
  void unary_of(int i, const BlockRequest& request, Random& random);
  void keep_fixed(const BlockOrder& order, const Labels& labels);
  void add_pressure(int node, const BlockRequest& request);
  void prune(int i);
  void add_edges(const BlockOrder& order);
  const double* edge_table(int inner, int outer, const double* rows);
  void eliminate(int i, const BlockOrder& order);
  void descend(std::size_t level, const double* base, double*& result);
  void read_off(const BlockOrder& order, const Labels& labels);

  const SearchModel& model;
  std::vector<int> nodes;
  std::vector<int> position;               // [node of the model] in the block, -1: not in it
  std::vector<std::vector<int>> domain;    // [i] labels left
  std::vector<std::vector<double>> unary;  // [i][index in domain]
  std::vector<int> now;                    // [i] index in domain of the label now
  std::vector<std::vector<int>> around;    // [i] neighbours in the block
  std::vector<std::vector<int>> bucket;    // [i] tables in which i is eliminated first
  std::vector<Table> tables;
  std::size_t table_count = 0;
  std::vector<int> choice;  // [i] index in domain
  std::vector<Level> levels;
  std::vector<const double*> operands;
  std::size_t labels_inside = 0, depth = 0;  // of the node being eliminated: its labels, nodes of the result
  std::vector<double> scratch;
  Arena arena;
  std::vector<LabelChange> changes;
  double work = 0.0;
};

BlockSolver::BlockSolver(const SearchModel& model) : tables_(std::make_unique<Tables>(model)) {}
BlockSolver::~BlockSolver() = default;

// Bucket elimination (Dechter 1999) on the block: a bucket holds the tables whose first eliminated node is its own.
const std::vector<LabelChange>& BlockSolver::solve(const BlockRequest& request, Random& random) {
  Tables& t = *tables_;
  t.start(request, random);
  std::vector<double> sizes;
  for (std::size_t i = 0; i < t.nodes.size(); ++i) sizes.push_back(static_cast<double>(t.domain[i].size()));
  const BlockOrder order = block_order(t.around, sizes, request.max_table, random);
  t.keep_fixed(order, request.now->labels());
  t.add_edges(order);
  bool stopped = false;
  double asked = t.work;
  for (auto i = order.order.begin(); i != order.order.end() && !stopped; ++i) {
    t.eliminate(*i, order);
    if (t.work < asked + kWorkPerQuestion) continue;
    asked = t.work;
    stopped = request.stop && request.stop();
  }
  t.changes.clear();
  // An elimination that was stopped has no result: the labels stay.
  if (!stopped) t.read_off(order, request.now->labels());
  // Only the block's nodes are reset, so that a call costs nothing for the others.
  for (int node : t.nodes) t.position[node] = -1;
  return t.changes;
}

// Vectors keep their memory from call to call: a descent solves thousands of small blocks.
void BlockSolver::Tables::start(const BlockRequest& request, Random& random) {
  nodes = *request.nodes;
  const std::size_t count = nodes.size();
  for (auto* lists : {&domain, &around, &bucket}) lists->resize(std::max(lists->size(), count));
  unary.resize(std::max(unary.size(), count));
  now.resize(count);
  choice.assign(count, 0);
  arena.clear();
  table_count = 0;
  for (std::size_t i = 0; i < count; ++i) position[nodes[i]] = static_cast<int>(i);
  for (int i = 0; i < static_cast<int>(count); ++i) {
    around[i].clear();
    bucket[i].clear();
    unary_of(i, request, random);
    prune(i);
  }
}

// What a node costs alone: its own costs, memory under pressure, and its edges to nodes outside of the block, whose
// labels are fixed.
void BlockSolver::Tables::unary_of(int i, const BlockRequest& request, Random& random) {
  const int node = nodes[i], labels = model.labels(node), label = request.now->labels()[node];
  const double* own = request.costs ? (*request.costs)[node].data() : model.cost(node);
  scratch.assign(own, own + labels);
  if (request.price > 0.0) add_pressure(node, request);
  for (const SearchModel::Neighbour& neighbour : model.neighbours(node)) {
    const int other = position[neighbour.node];
    if (other >= 0)
      around[i].push_back(other);
    else
      add_to(scratch.data(), neighbour.costs + static_cast<std::size_t>(request.now->labels()[neighbour.node]) * labels,
             labels);
  }
  work += static_cast<double>(labels) * static_cast<double>(model.neighbours(node).size() + 1);
  // An exponentially distributed amount of mean `noise`.
  if (request.noise > 0.0)
    for (double& cost : scratch) cost -= request.noise * std::log(1.0 - random.unit());
  domain[i].clear();
  unary[i].clear();
  const std::vector<int>* choices = request.choices ? &(*request.choices)[i] : nullptr;
  for (int k = 0; k < labels; ++k) {
    // The label now is always allowed, so that the labels as they are remain possible.
    if (choices && k != label && std::find(choices->begin(), choices->end(), k) == choices->end()) continue;
    if (k == label) now[i] = static_cast<int>(domain[i].size());
    domain[i].push_back(k);
    unary[i].push_back(scratch[k]);
  }
}

// The rise of the exponential penalty if this node alone changes its label. Several nodes that change at once do not
// see each other here; the caller checks the outcome (Assignment). Both bounds keep memory cheaper than what is
// forbidden.
void BlockSolver::Tables::add_pressure(int node, const BlockRequest& request) {
  const PressureProfile& pressure = request.now->pressure();
  const int label = request.now->label(node);
  for (const SearchModel::Piece& piece : model.pieces(node)) {
    const double weight = std::min(request.price / pressure.steepness() * pressure.total(piece.begin, piece.end),
                                   kMaxWeight * model.forbidden());
    if (weight < kNegligible) continue;
    for (int k = 0; k < model.labels(node); ++k)
      scratch[k] += std::min(weight * std::expm1(pressure.steepness() * (piece.memory[k] - piece.memory[label])),
                             model.forbidden() / 8);
  }
}

// Labels that are forbidden given the fixed neighbours go, unless the label now is forbidden as well.
void BlockSolver::Tables::prune(int i) {
  std::vector<int>& labels = domain[i];
  std::vector<double>& costs = unary[i];
  const int kept_label = labels[now[i]];
  if (model.forbids(costs[now[i]])) return;
  std::size_t kept = 0;
  for (std::size_t k = 0; k < labels.size(); ++k) {
    if (model.forbids(costs[k])) continue;
    if (labels[k] == kept_label) now[i] = static_cast<int>(kept);
    labels[kept] = labels[k];
    costs[kept++] = costs[k];
  }
  labels.resize(kept);
  costs.resize(kept);
}

// Nodes that left the block keep their labels: their edges become costs of the neighbours' labels.
void BlockSolver::Tables::keep_fixed(const BlockOrder& order, const Labels& labels) {
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    if (order.rank[i] < 0) {
      choice[i] = now[i];
      continue;
    }
    const int node = nodes[i], all = model.labels(node);
    if (std::none_of(around[i].begin(), around[i].end(), [&](int j) { return order.rank[j] < 0; })) continue;
    for (const SearchModel::Neighbour& neighbour : model.neighbours(node)) {
      const int other = position[neighbour.node];
      if (other < 0 || order.rank[other] >= 0) continue;
      const double* row = neighbour.costs + static_cast<std::size_t>(labels[neighbour.node]) * all;
      for (std::size_t k = 0; k < domain[i].size(); ++k) unary[i][k] += row[domain[i][k]];
    }
    prune(i);
  }
}

void BlockSolver::Tables::add_edges(const BlockOrder& order) {
  for (int i : order.order)
    for (const SearchModel::Neighbour& neighbour : model.neighbours(nodes[i])) {
      const int other = position[neighbour.node];
      // Each edge once, at the end that is eliminated first.
      if (other < 0 || order.rank[other] <= order.rank[i]) continue;
      if (table_count == tables.size()) tables.emplace_back();
      bucket[i].push_back(static_cast<int>(table_count));
      Table& table = tables[table_count++];
      table.scope = {other, i};
      table.cost = edge_table(i, other, neighbour.costs);
    }
}

const double* BlockSolver::Tables::edge_table(int inner, int outer, const double* rows) {
  const std::size_t all = model.labels(nodes[inner]);
  const std::vector<int>&columns = domain[inner], &picked = domain[outer];
  // No label was dropped at either end: the model's own table serves.
  if (columns.size() == all && std::ssize(picked) == model.labels(nodes[outer])) return rows;
  double* const table = arena.take(columns.size() * picked.size());
  double* to = table;
  for (int p : picked) {
    const double* row = rows + p * all;
    for (int q : columns) *to++ = row[q];
  }
  return table;
}

// The message of node i: for every combination of its neighbours' labels the least over its own labels. Tables are
// dense with i's label fastest, so that the innermost loop runs along contiguous rows; a table is read by adding
// strides, one per loop level, and rows that are complete at an outer level are added up once there.
void BlockSolver::Tables::eliminate(int i, const BlockOrder& order) {
  std::vector<int> scope;
  for (int t : bucket[i])
    for (int j : tables[t].scope)
      if (j != i && std::find(scope.begin(), scope.end(), j) == scope.end()) scope.push_back(j);
  if (scope.empty()) return;
  std::sort(scope.begin(), scope.end(), [&](int a, int b) { return order.rank[a] > order.rank[b]; });

  labels_inside = domain[i].size();
  if (levels.size() < scope.size()) levels.resize(scope.size());
  std::size_t size = 1;
  for (std::size_t d = 0; d < scope.size(); ++d) {
    levels[d].labels = domain[scope[d]].size();
    size *= levels[d].labels;
    levels[d].steps.clear();
    levels[d].complete.clear();
    levels[d].sum.resize(labels_inside);
  }
  operands.clear();
  for (int t : bucket[i]) {
    const Table& table = tables[t];
    // i runs fastest in every table, so the stride of the next node is the number of i's labels.
    std::size_t stride = labels_inside;
    std::size_t last = 0;
    for (std::size_t s = table.scope.size() - 1; s-- > 0;) {
      const auto d = static_cast<std::size_t>(std::find(scope.begin(), scope.end(), table.scope[s]) - scope.begin());
      levels[d].steps.push_back({static_cast<int>(operands.size()), stride});
      stride *= levels[d].labels;
      last = std::max(last, d);
    }
    levels[last].complete.push_back(static_cast<int>(operands.size()));
    operands.push_back(table.cost);
  }
  work += static_cast<double>(size * labels_inside);
  double* const result = arena.take(size);
  double* to = result;
  depth = scope.size();
  descend(0, unary[i].data(), to);
  if (table_count == tables.size()) tables.emplace_back();
  bucket[scope.back()].push_back(static_cast<int>(table_count));
  Table& table = tables[table_count++];
  table.scope = std::move(scope);
  table.cost = result;
}

// Runs over the labels of the result's nodes, outermost first, with the rows complete so far added up in `base`.
void BlockSolver::Tables::descend(std::size_t level, const double* base, double*& result) {
  Level& here = levels[level];
  const bool innermost = level + 1 == depth;
  for (std::size_t p = 0; p < here.labels; ++p) {
    const double* sum = base;
    // The last row is added while the minimum is taken, without a copy.
    if (innermost && here.complete.size() == 1) {
      *result++ = least(base, operands[here.complete[0]], labels_inside);
    } else {
      if (!here.complete.empty()) {
        std::copy(base, base + labels_inside, here.sum.begin());
        for (int o : here.complete) add_to(here.sum.data(), operands[o], labels_inside);
        sum = here.sum.data();
      }
      if (innermost)
        *result++ = least(sum, labels_inside);
      else
        descend(level + 1, sum, result);
    }
    for (const Step& step : here.steps) operands[step.operand] += step.stride;
  }
  // Back to the beginning of the level, for the next label of the outer one.
  for (const Step& step : here.steps) operands[step.operand] -= step.stride * here.labels;
}

// Backwards: every node takes its best label given those eliminated after it.
void BlockSolver::Tables::read_off(const BlockOrder& order, const Labels& labels) {
  for (auto i = order.order.rbegin(); i != order.order.rend(); ++i) {
    std::vector<double>& sum = unary[*i];
    for (int t : bucket[*i]) {
      const Table& table = tables[t];
      std::size_t offset = 0;
      for (std::size_t s = 0; s + 1 < table.scope.size(); ++s)
        offset = offset * domain[table.scope[s]].size() + choice[table.scope[s]];
      add_to(sum.data(), table.cost + offset * sum.size(), sum.size());
    }
    const auto best = std::min_element(sum.begin(), sum.end());
    int& chosen = choice[*i];
    // Among equal labels the present one stays: otherwise the walk would wander among equal costs and forget where it
    // was.
    chosen = sum[now[*i]] <= *best ? now[*i] : static_cast<int>(best - sum.begin());
    const int node = nodes[*i], label = domain[*i][chosen];
    if (label != labels[node]) changes.push_back({node, label});
  }
}

}  // namespace meshwright::portfolio
