// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/elimination_tables.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace meshwright::elimination {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Two strategies are of one class when they are in both.
Classes joint(const Classes& a, const Classes& b) {
  if (a.size() == a.of.size() || b.size() == 1) return a;
  if (b.size() == b.of.size() || a.size() == 1) return b;
  std::vector<int> known(a.size() * b.size(), -1);
  Classes found;
  found.of.reserve(a.of.size());
  for (std::size_t p = 0; p < a.of.size(); ++p) {
    int& same = known[at(a.of[p]) * b.size() + at(b.of[p])];
    if (same < 0) {
      same = static_cast<int>(found.size());
      found.first.push_back(static_cast<int>(p));
    }
    found.of.push_back(same);
  }
  return found;
}

Classes one_class(std::size_t strategies) { return {std::vector<int>(strategies, 0), {0}}; }

// [row]: the first row with the same costs; rows of equal bytes.
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

std::vector<double> transposed(const std::vector<double>& cost, std::size_t rows) {
  const std::size_t columns = cost.size() / rows;
  std::vector<double> turned(cost.size());
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) turned[c * rows + r] = cost[r * columns + c];
  return turned;
}

// One row is left of equal ones, and its strategies are of one class.
void merge_rows(std::vector<double>& cost, Classes& classes) {
  const std::size_t columns = cost.size() / classes.size();
  const Classes rows = equal_rows(cost, classes.size());
  if (rows.size() == classes.size()) return;
  std::vector<double> left;
  left.reserve(rows.size() * columns);
  std::vector<int> first;
  for (const int row : rows.first) {
    left.insert(left.end(), cost.begin() + row * static_cast<std::ptrdiff_t>(columns),
                cost.begin() + (row + 1) * static_cast<std::ptrdiff_t>(columns));
    first.push_back(classes.first[at(row)]);
  }
  for (int& of : classes.of) of = rows.of[at(of)];
  classes.first = std::move(first);
  cost = std::move(left);
}

// The sum of what lies between two nodes.
Table pair_table(int low, int high, const std::vector<const Between*>& edges) {
  Classes rows = one_class(0), columns = one_class(0);
  for (const Between* edge : edges) {
    const bool up = edge->from == low;
    const Classes& of_low = up ? edge->from_classes : edge->to_classes;
    const Classes& of_high = up ? edge->to_classes : edge->from_classes;
    rows = edge == edges.front() ? of_low : joint(rows, of_low);
    columns = edge == edges.front() ? of_high : joint(columns, of_high);
  }
  std::vector<double> cost(rows.size() * columns.size(), 0.0);
  for (const Between* edge : edges) {
    const bool up = edge->from == low;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const std::size_t p = at(up ? rows.first[r] : columns.first[c]), q = at(up ? columns.first[c] : rows.first[r]);
        cost[r * columns.size() + c] +=
            edge->cost[at(edge->from_classes.of[p]) * edge->to_classes.size() + at(edge->to_classes.of[q])];
      }
  }
  return {std::make_shared<Shape>(Shape{{low, high}, {std::move(rows), std::move(columns)}}), std::move(cost)};
}

// What is left when `node` is eliminated from tables of these shapes.
Shape result_of(const Domain& domain, int node, const std::vector<const Shape*>& sources) {
  std::set<int> others;
  for (const Shape* shape : sources) others.insert(shape->scope.begin(), shape->scope.end());
  others.erase(node);
  Shape result{{others.begin(), others.end()}, {}};
  for (const int other : result.scope) {
    Classes classes = one_class(domain[at(other)]);
    for (const Shape* shape : sources)
      if (shape->contains(other)) classes = joint(classes, shape->classes[shape->position(other)]);
    result.classes.push_back(std::move(classes));
  }
  return result;
}

// Rounded sums keep the order of what is added: of strategies that differ in one cost of their own alone, the cheapest
// is at least as good as the others beside everything else. That cost is the one with the most classes; nullptr: there
// is none.
const Shape* own_cost(const std::vector<const Shape*>& sources) {
  const Shape* found = nullptr;
  for (const Shape* shape : sources)
    if (shape->scope.size() == 1 && (found == nullptr || shape->classes[0].size() > found->classes[0].size()))
      found = shape;
  return found;
}

// How the walk, whose shape and dimensions are known, goes along a table of this shape.
Walk::Source plan_source(const Walk& walk, int node, const Shape& shape) {
  const std::vector<int>& scope = walk.shape->scope;
  Walk::Source source{{}, shape.scope.front() == node, false, !scope.empty() && shape.contains(scope.back()), 1, 1, {}};
  const auto add = [&](int of, const Classes& finer) {
    const std::size_t position = shape.position(of), stride = shape.stride(position);
    const Classes& own = shape.classes[position];
    std::vector<std::size_t>& offsets = source.offsets.emplace_back();
    for (const int first : finer.first) offsets.push_back(at(own.of[at(first)]) * stride);
    source.as_it_lies = source.as_it_lies && own.size() == finer.size();
    source.size *= finer.size();
  };
  add(node, walk.own);
  for (std::size_t d = 0; d < scope.size(); ++d)
    if (shape.contains(scope[d])) add(scope[d], walk.shape->classes[d]);
  source.per_class = source.size / walk.own.size();
  for (std::size_t d = 0; d < walk.outer.size(); ++d) {
    std::size_t stride = shape.contains(scope[d]) ? 1 : 0;
    for (std::size_t e = d + 1; e < scope.size(); ++e)
      if (shape.contains(scope[e])) stride *= walk.shape->classes[e].size();
    source.stride.push_back(stride);
  }
  return source;
}

// A source's costs as the walk goes along them: the eliminated node in front, every class of the result's.
std::vector<double> moved(const Walk::Source& source, const Classes& own, const Table& table) {
  std::vector<double> cost(source.size, kForbidden);
  if (source.least) {
    for (std::size_t p = 0; p < own.of.size(); ++p) {
      double& least = cost[at(own.of[p])];
      least = std::min(least, table.cost[at(table.shape->classes.front().of[p])]);
    }
    return cost;
  }
  const std::size_t last = source.offsets.size() - 1;
  std::vector<std::size_t> position(last, 0);
  for (auto to = cost.begin(); to != cost.end();) {
    const double* from = table.cost.data();
    for (std::size_t d = 0; d < last; ++d) from += source.offsets[d][position[d]];
    for (const std::size_t offset : source.offsets[last]) *to++ = from[offset];
    for (std::size_t d = last; d-- > 0;) {
      if (++position[d] < source.offsets[d].size()) break;
      position[d] = 0;
    }
  }
  return cost;
}

// Rows of tables that span the inner run, one per class of the eliminated node.
struct Rows {
  const double* first;
  std::size_t apart;
};

// best[j]: the least of itself and, for every class, of its constant plus the j-th of its rows, added in their order.
template <std::size_t N>
void keep_least(const std::vector<double>& constants, const Rows* rows, std::size_t count, double* __restrict best) {
  for (std::size_t own = 0; own < constants.size(); ++own)
    for (std::size_t j = 0; j < count; ++j) {
      double sum = constants[own];
      for (std::size_t n = 0; n < N; ++n) sum += rows[n].first[own * rows[n].apart + j];
      best[j] = sum < best[j] ? sum : best[j];
    }
}

void keep_least(const std::vector<double>& constants, const std::vector<Rows>& rows, std::size_t count, double* best) {
  switch (rows.size()) {
    case 0:
      return keep_least<0>(constants, rows.data(), count, best);
    case 1:
      return keep_least<1>(constants, rows.data(), count, best);
    case 2:
      return keep_least<2>(constants, rows.data(), count, best);
    case 3:
      return keep_least<3>(constants, rows.data(), count, best);
    default:
      break;
  }
  std::vector<double> sum(count);
  for (std::size_t own = 0; own < constants.size(); ++own) {
    std::fill(sum.begin(), sum.end(), constants[own]);
    for (const Rows& row : rows)
      for (std::size_t j = 0; j < count; ++j) sum[j] += row.first[own * row.apart + j];
    for (std::size_t j = 0; j < count; ++j) best[j] = sum[j] < best[j] ? sum[j] : best[j];
  }
}

}  // namespace

Classes make_classes(std::vector<int> of) {
  Classes found{std::move(of), {}};
  for (std::size_t p = 0; p < found.of.size(); ++p)
    if (at(found.of[p]) == found.first.size()) found.first.push_back(static_cast<int>(p));
  return found;
}

Classes single_strategies(std::size_t count) {
  Classes found;
  found.of.resize(count);
  std::iota(found.of.begin(), found.of.end(), 0);
  found.first = found.of;
  return found;
}

bool Shape::contains(int node) const { return std::binary_search(scope.begin(), scope.end(), node); }

std::size_t Shape::position(int node) const {
  return static_cast<std::size_t>(std::lower_bound(scope.begin(), scope.end(), node) - scope.begin());
}

std::size_t Shape::stride(std::size_t position) const {
  std::size_t stride = 1;
  for (std::size_t d = position + 1; d < scope.size(); ++d) stride *= classes[d].size();
  return stride;
}

void merge_equal(Between& edge) {
  if (edge.cost.empty()) return;
  merge_rows(edge.cost, edge.from_classes);
  std::vector<double> turned = transposed(edge.cost, edge.from_classes.size());
  merge_rows(turned, edge.to_classes);
  edge.cost = transposed(turned, edge.to_classes.size());
}

std::vector<Table> make_tables(const std::vector<std::vector<double>>& nodes, const std::vector<Between>& edges) {
  std::vector<Table> tables;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    tables.push_back(
        {std::make_shared<Shape>(Shape{{static_cast<int>(i)}, {single_strategies(nodes[i].size())}}), nodes[i]});
  std::vector<std::pair<std::pair<int, int>, std::size_t>> by_ends;
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const auto [low, high] = std::minmax(edges[k].from, edges[k].to);
    by_ends.push_back({{low, high}, k});
  }
  std::sort(by_ends.begin(), by_ends.end());
  for (std::size_t n = 0; n < by_ends.size();) {
    const auto ends = by_ends[n].first;
    std::vector<const Between*> same;
    for (; n < by_ends.size() && by_ends[n].first == ends; ++n) same.push_back(&edges[by_ends[n].second]);
    tables.push_back(pair_table(ends.first, ends.second, same));
  }
  return tables;
}

std::vector<Table> tables_of(const ShardingProblem& problem) {
  const auto values = [](const std::vector<std::optional<Seconds>>& costs) {
    std::vector<double> found;
    found.reserve(costs.size());
    for (const auto& cost : costs) found.push_back(cost ? cost->si() : kForbidden);
    return found;
  };
  std::vector<std::vector<double>> nodes;
  for (const ShardingProblem::Node& node : problem.nodes) nodes.push_back(values(node.cost));
  std::vector<Between> edges;
  for (const ShardingProblem::Edge& edge : problem.edges) {
    edges.push_back({edge.from, edge.to, single_strategies(nodes[at(edge.from)].size()),
                     single_strategies(nodes[at(edge.to)].size()), values(edge.cost)});
    merge_equal(edges.back());
  }
  return make_tables(nodes, edges);
}

Domain domain_of(const std::vector<Table>& given) {
  Domain domain;
  for (const Table& table : given)
    if (table.shape->scope.size() == 1) domain.push_back(table.cost.size());
  return domain;
}

Walk plan_walk(const Domain& domain, int node, const std::vector<const Shape*>& sources) {
  const Shape* alone = own_cost(sources);
  Walk walk;
  walk.shape = std::make_shared<const Shape>(result_of(domain, node, sources));
  walk.own = one_class(domain[at(node)]);
  for (const Shape* shape : sources)
    if (shape != alone) walk.own = joint(walk.own, shape->classes[shape->position(node)]);

  // The inner run may take in further dimensions as long as every table has all of them or none: they are contiguous
  // then.
  const std::vector<int>& scope = walk.shape->scope;
  const auto same_tables = [&](int a, int b) {
    return std::all_of(sources.begin(), sources.end(),
                       [&](const Shape* shape) { return shape->contains(a) == shape->contains(b); });
  };
  std::size_t first_inner = scope.empty() ? 0 : scope.size() - 1;
  while (first_inner > 0 && same_tables(scope[first_inner - 1], scope[first_inner])) --first_inner;
  for (std::size_t d = 0; d < scope.size(); ++d) {
    if (d < first_inner)
      walk.outer.push_back(walk.shape->classes[d].size());
    else
      walk.inner *= walk.shape->classes[d].size();
  }
  for (const Shape* shape : sources) {
    Walk::Source source = plan_source(walk, node, *shape);
    source.least = shape == alone;
    // Classes of the cost that is left out of `own` need not be coarser ones of it.
    if (source.least) source.as_it_lies = source.as_it_lies && source.size == domain[at(node)];
    walk.sources.push_back(std::move(source));
  }
  return walk;
}

Table eliminate(const Walk& walk, const std::vector<const Table*>& sources) {
  struct Operand {
    std::vector<double> moved;  // own copy when the costs do not lie as they are walked along
    const double* cost;
  };
  std::vector<Operand> operands(sources.size());
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const Walk::Source& source = walk.sources[s];
    if (!source.as_it_lies) operands[s].moved = moved(source, walk.own, *sources[s]);
    operands[s].cost = source.as_it_lies ? sources[s]->cost.data() : operands[s].moved.data();
  }
  std::size_t outer_count = 1;
  for (const std::size_t size : walk.outer) outer_count *= size;
  Table result{walk.shape, std::vector<double>(outer_count * walk.inner, kForbidden)};
  std::vector<double> constants(walk.own.size());
  std::vector<Rows> rows;
  std::vector<std::size_t> position(walk.outer.size(), 0);

  for (std::size_t outer = 0; outer < outer_count; ++outer) {
    std::fill(constants.begin(), constants.end(), 0.0);
    rows.clear();
    for (std::size_t s = 0; s < operands.size(); ++s) {
      const Rows of{operands[s].cost, walk.sources[s].per_class};
      if (walk.sources[s].spans_inner)
        rows.push_back(of);
      else
        for (std::size_t own = 0; own < constants.size(); ++own) constants[own] += of.first[own * of.apart];
    }
    keep_least(constants, rows, walk.inner, result.cost.data() + outer * walk.inner);
    for (std::size_t d = walk.outer.size(); d-- > 0;) {
      const bool wraps = ++position[d] == walk.outer[d];
      for (std::size_t s = 0; s < operands.size(); ++s) {
        const std::size_t stride = walk.sources[s].stride[d];
        if (wraps)
          operands[s].cost -= stride * (walk.outer[d] - 1);
        else
          operands[s].cost += stride;
      }
      if (!wraps) break;
      position[d] = 0;
    }
  }
  return result;
}

int best_strategy(const Domain& domain, int node, const std::vector<const Table*>& sources,
                  const ShardingChoice& choice) {
  std::vector<double> cost(domain[at(node)], 0.0);
  for (const Table* table : sources) {
    const Shape& shape = *table->shape;
    std::size_t base = 0, stride = 1, own_stride = 1;
    const Classes* own = nullptr;
    for (std::size_t d = shape.scope.size(); d-- > 0;) {
      const Classes& classes = shape.classes[d];
      if (shape.scope[d] == node) {
        own = &classes;
        own_stride = stride;
      } else {
        base += stride * at(classes.of[at(choice.strategy[at(shape.scope[d])])]);
      }
      stride *= classes.size();
    }
    for (std::size_t p = 0; p < cost.size(); ++p) cost[p] += table->cost[base + at(own->of[p]) * own_stride];
  }
  return static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
}

}  // namespace meshwright::elimination
