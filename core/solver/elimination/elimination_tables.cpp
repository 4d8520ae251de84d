// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/elimination_tables.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/solver/elimination/number_hash.h"

namespace meshwright::elimination {

namespace {

// [row]: the first row with the same costs; rows of equal bytes.
// Compared as bytes: exact, and a hash of the row is enough to find its equals among thousands.
Classes equal_rows(const std::vector<double>& cost, std::size_t rows) {
  const std::size_t columns = cost.size() / rows;
  std::unordered_map<std::string_view, int> known;
  Classes found;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::string_view row(reinterpret_cast<const char*>(cost.data() + r * columns), columns * sizeof(double));
    const auto [same, is_new] = known.try_emplace(row, static_cast<int>(found.size()));
    if (is_new) found.first.push_back(static_cast<int>(r));
    found.of.push_back(same->second);
  }
  return found;
}

// Keeps one of equal rows; the strategies of all of them become one class.
void merge_rows(std::vector<double>& cost, SharedClasses& shared) {
  const std::size_t columns = cost.size() / shared.size();
  const Classes rows = equal_rows(cost, shared.size());
  if (rows.size() == shared.size()) return;
  Classes classes = *shared;
  std::vector<double> left;
  left.reserve(rows.size() * columns);
  IndexedVector<int, int> first;
  for (const int row : rows.first) {
    left.insert(left.end(), cost.begin() + row * static_cast<std::ptrdiff_t>(columns),
                cost.begin() + (row + 1) * static_cast<std::ptrdiff_t>(columns));
    first.push_back(classes.first[row]);
  }
  // From strategy to class, from class to class of equal rows.
  for (int& of : classes.of) of = rows.of[of];
  classes.first = std::move(first);
  shared = std::move(classes);
  cost = std::move(left);
}

// The sum of all edges between two nodes.
// Edges between the same two nodes may tell strategies apart differently; the sum tells apart what any of them does.
Table pair_table(int low, int high, const std::vector<const Edge*>& edges) {
  const auto of_low = [&](const Edge* edge) -> const SharedClasses& {
    return edge->from == low ? edge->between->from_classes : edge->between->to_classes;
  };
  const auto of_high = [&](const Edge* edge) -> const SharedClasses& {
    return edge->from == low ? edge->between->to_classes : edge->between->from_classes;
  };
  SharedClasses rows = of_low(edges.front()), columns = of_high(edges.front());
  for (std::size_t e = 1; e < edges.size(); ++e) {
    rows = joint(*rows, *of_low(edges[e]));
    columns = joint(*columns, *of_high(edges[e]));
  }
  std::vector<double> cost(rows.size() * columns.size(), 0.0);
  for (const Edge* edge : edges) {
    const Between& between = *edge->between;
    const bool up = edge->from == low;
    auto sum = cost.begin();
    // The strategies of a class cost the same in every edge, so the first stands for all.
    for (const int r : rows->first)
      for (const int c : columns->first) {
        const int from = between.from_classes->of[up ? r : c], to = between.to_classes->of[up ? c : r];
        *sum++ += between.cost[from * between.to_classes->first.count() + to];
      }
  }
  return {std::make_shared<Shape>(Shape{{low, high}, {std::move(rows), std::move(columns)}}),
          std::make_shared<const std::vector<double>>(std::move(cost))};
}

}  // namespace

SharedClasses::SharedClasses(Classes classes) {
  NumberHash hash;
  hash.add(classes.of);
  held_ = std::make_shared<const Held>(Held{std::move(classes), hash.value()});
}

Classes make_classes(std::vector<int> of) {
  Classes made{IndexedVector<int, int>(std::move(of)), {}};
  // Classes are numbered by their first strategies: a new class has the next number.
  for (int p = 0; p < made.of.count(); ++p)
    if (made.of[p] == made.first.count()) made.first.push_back(p);
  return made;
}

Classes single_strategies(std::size_t count) {
  Classes made;
  made.of.resize(count);
  std::iota(made.of.begin(), made.of.end(), 0);
  made.first = made.of;
  return made;
}

Classes one_class(std::size_t strategies) { return {IndexedVector<int, int>(strategies, 0), {0}}; }

// The coarsest classes that are finer than both.
Classes joint(const Classes& a, const Classes& b) {
  // If one of them refines the other trivially, it is the result.
  if (a.tells_all_apart() || b.size() == 1) return a;
  if (b.tells_all_apart() || a.size() == 1) return b;
  IndexedVector<int, int> known(a.size() * b.size(), -1);  // [class of a * classes of b + class of b]
  Classes found;
  found.of.reserve(a.of.size());
  for (int p = 0; p < a.of.count(); ++p) {
    int& same = known[a.of[p] * b.first.count() + b.of[p]];
    if (same < 0) {
      same = found.first.count();
      found.first.push_back(p);
    }
    found.of.push_back(same);
  }
  return found;
}

bool Shape::contains(int node) const { return std::binary_search(scope.begin(), scope.end(), node); }

std::size_t Shape::position(int node) const {
  return std::lower_bound(scope.begin(), scope.end(), node) - scope.begin();
}

std::size_t Shape::stride(std::size_t position) const {
  std::size_t stride = 1;
  for (std::size_t d = position + 1; d < scope.size(); ++d) stride *= classes[d].size();
  return stride;
}

void merge_equal(Between& between) {
  if (between.cost.empty()) return;
  // One round is enough: without duplicate columns different rows are still different.
  merge_rows(between.cost, between.from_classes);
  std::vector<double> turned = portfolio::transposed(between.cost, between.from_classes.size());
  merge_rows(turned, between.to_classes);
  between.cost = portfolio::transposed(turned, between.to_classes.size());
}

std::vector<Table> make_tables(const std::vector<Costs>& nodes, const std::vector<Edge>& edges) {
  std::vector<Table> tables;
  std::map<std::size_t, SharedClasses> apart;  // by the number of strategies
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto own = apart.find(nodes[i]->size());
    if (own == apart.end()) own = apart.emplace(nodes[i]->size(), single_strategies(nodes[i]->size())).first;
    tables.push_back({std::make_shared<Shape>(Shape{{static_cast<int>(i)}, {own->second}}), nodes[i]});
  }
  std::vector<std::pair<std::pair<int, int>, std::size_t>> by_ends;
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const auto [low, high] = std::minmax(edges[k].from, edges[k].to);
    by_ends.push_back({{low, high}, k});
  }
  // Parallel edges follow one another in their given order, so that sums are rounded the same way on every run.
  std::sort(by_ends.begin(), by_ends.end());
  std::map<std::vector<std::pair<const Between*, bool>>, int> made_of;  // [costs, direction] the table made of them
  for (std::size_t n = 0; n < by_ends.size();) {
    const auto [low, high] = by_ends[n].first;
    std::vector<const Edge*> same;
    std::vector<std::pair<const Between*, bool>> costs;
    for (; n < by_ends.size() && by_ends[n].first == std::pair(low, high); ++n) {
      same.push_back(&edges[by_ends[n].second]);
      costs.emplace_back(same.back()->between.get(), same.back()->from == low);
    }
    const auto [twin, is_new] = made_of.try_emplace(std::move(costs), static_cast<int>(tables.size()));
    if (is_new) {
      tables.push_back(pair_table(low, high, same));
      continue;
    }
    const Table& like = tables[twin->second];
    tables.push_back({std::make_shared<Shape>(Shape{{low, high}, like.shape->classes}), like.cost});
  }
  return tables;
}

std::vector<Table> tables_of(const portfolio::Field& field) {
  std::vector<Costs> nodes;
  for (const portfolio::Field::Node& node : field.nodes)
    nodes.push_back(std::make_shared<const std::vector<double>>(node.cost));
  std::vector<Edge> edges;
  for (const portfolio::Field::Edge& edge : field.edges) {
    Between between{single_strategies(field.labels(edge.u)), single_strategies(field.labels(edge.v)), edge.cost};
    merge_equal(between);
    edges.push_back({edge.u, edge.v, std::make_shared<const Between>(std::move(between))});
  }
  return make_tables(nodes, edges);
}

std::vector<Table> tables_of(const ShardingProblem& problem) { return tables_of(portfolio::make_field(problem)); }

Structure structure_of(const std::vector<Table>& given) {
  Structure structure;
  // Tables of single nodes come first and in order: the index in `domain` is the node.
  for (const Table& table : given)
    if (table.shape->scope.size() == 1)
      structure.domain.push_back(table.cost->size());
    else
      structure.edges.emplace_back(table.shape->scope.front(), table.shape->scope.back());
  return structure;
}

}  // namespace meshwright::elimination
