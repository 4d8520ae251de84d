// SPDX-License-Identifier: Apache-2.0
// The loops go through the result's outer dimensions one combination at a time, and over its inner run and the node's
// classes at once. A table that lacks the inner run's nodes gives one constant per class of the node; the others give a
// row of the run's length per class.
#include "core/solver/elimination/combine_tables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/errors.h"

// The loops are compiled for wider vectors too; which is taken, the processor says. Sums are of the same terms in the
// same order, so that results do not depend on it. Sanitizers start later than the choice is made.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MESHWRIGHT_WIDE_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MESHWRIGHT_WIDE_VECTORS
#endif

namespace meshwright::elimination {

namespace {

constexpr std::size_t kEntriesBetweenLooks = 4096;  // at the clock

// What is left when `node` is eliminated from tables of these shapes.
Shape result_of(const Domain& domain, int node, const std::vector<std::shared_ptr<const Shape>>& sources) {
  std::set<int> others;
  for (const auto& shape : sources) others.insert(shape->scope.begin(), shape->scope.end());
  others.erase(node);
  Shape result{{others.begin(), others.end()}, {}};
  for (const int other : result.scope) {
    // The result tells two strategies of a node apart where any source does.
    Classes classes = one_class(domain[other]);
    for (const auto& shape : sources)
      if (shape->contains(other)) classes = joint(classes, *shape->classes[shape->position(other)]);
    result.classes.emplace_back(std::move(classes));
  }
  return result;
}

// Rounded sums keep the order of what is added: of strategies that differ in one cost of their own alone, the cheapest
// is at least as good as the others beside everything else. That cost is the one with the most classes; nullptr: there
// is none.
const Shape* own_cost(const std::vector<std::shared_ptr<const Shape>>& sources) {
  const Shape* found = nullptr;
  for (const auto& shape : sources)
    if (shape->scope.size() == 1 && (found == nullptr || shape->classes[0].size() > found->classes[0].size()))
      found = shape.get();
  return found;
}

// How the loops of the combination, whose shape and dimensions are known, go along a table of this shape.
Combination::Source plan_source(const Combination& combination, std::shared_ptr<const Shape> of, bool is_own_cost) {
  const Shape& shape = *of;
  const std::vector<int>& scope = combination.shape->scope;
  Combination::Source source;
  const auto dimension = [&](int node, std::size_t place, const Classes& finer) {
    const std::size_t position = shape.position(node);
    const Classes& own = *shape.classes[position];
    source.as_it_lies = source.as_it_lies && own.size() == finer.size();
    source.size *= finer.size();
    return Combination::Dimension{place, &own, shape.stride(position)};
  };
  source.as_it_lies = shape.scope.front() == combination.node;
  source.own = dimension(combination.node, 0, combination.own);
  for (std::size_t d = 0; d < scope.size(); ++d)
    if (shape.contains(scope[d])) source.others.push_back(dimension(scope[d], d, *combination.shape->classes[d]));
  // A node without strategies has no classes either.
  source.per_class = source.size / std::max<std::size_t>(1, combination.own.size());
  source.spans_inner = !scope.empty() && shape.contains(scope.back());
  // The loops see a table row-major over the nodes that it shares with the result. Stride 0 keeps the pointer where it
  // is.
  for (std::size_t d = 0; d < combination.outer.size(); ++d) {
    std::size_t stride = shape.contains(scope[d]) ? 1 : 0;
    for (std::size_t e = d + 1; e < scope.size(); ++e)
      if (shape.contains(scope[e])) stride *= combination.shape->classes[e].size();
    source.stride.push_back(stride);
  }
  // Classes of the node's own cost, which `own` leaves out, need not be coarser ones of it.
  source.minimum = is_own_cost;
  if (is_own_cost) source.as_it_lies = source.as_it_lies && combination.own.tells_all_apart();
  const auto add_offsets = [&](const Combination::Dimension& of_table, const Classes& finer) {
    std::vector<std::size_t>& offsets = source.offsets.emplace_back();
    for (const int first : finer.first) offsets.push_back(of_table.classes->of[first] * of_table.stride);
  };
  if (!source.as_it_lies && !source.minimum) {
    add_offsets(source.own, combination.own);
    for (const Combination::Dimension& other : source.others)
      add_offsets(other, *combination.shape->classes[other.place]);
  }
  source.shape = std::move(of);
  return source;
}

// A source's costs as the loops go along them: the eliminated node in front, every class of the result's nodes.
void move(const Combination& combination, const Combination::Source& source, const double* cost,
          std::vector<double>& moved) {
  if (source.minimum) {
    moved.assign(source.size, kForbidden);
    for (int p = 0; p < combination.own.of.count(); ++p) {
      double& minimum = moved[combination.own.of[p]];
      minimum = std::min(minimum, cost[source.own.classes->of[p]]);
    }
    return;
  }
  moved.resize(source.size);
  const std::vector<std::vector<std::size_t>>& offsets = source.offsets;
  const std::size_t last = offsets.size() - 1;
  auto to = moved.begin();
  // Nearly all tables are of one node or two.
  if (last == 0) {
    for (const std::size_t offset : offsets.front()) *to++ = cost[offset];
    return;
  }
  if (last == 1) {
    for (const std::size_t row : offsets.front())
      for (const std::size_t offset : offsets.back()) *to++ = cost[row + offset];
    return;
  }
  // An odometer over all dimensions but the last, which is copied as a run.
  std::vector<std::size_t> position(last, 0);
  while (to != moved.end()) {
    const double* from = cost;
    for (std::size_t d = 0; d < last; ++d) from += offsets[d][position[d]];
    for (const std::size_t offset : offsets[last]) *to++ = from[offset];
    for (std::size_t d = last; d-- > 0;) {
      if (++position[d] < offsets[d].size()) break;
      position[d] = 0;
    }
  }
}

// Goes through the outer dimensions. At each position the scratch has the constants and rows of its inner run.
class OuterPositions {
 public:
  OuterPositions(const Combination& combination, const std::vector<const double*>& costs, Scratch& scratch)
      : combination_(combination), scratch_(scratch) {
    const std::size_t count = combination.sources.size();
    if (scratch.moved.size() < count) scratch.moved.resize(count);
    scratch.cost.resize(count);
    for (std::size_t s = 0; s < count; ++s) {
      const Combination::Source& source = combination.sources[s];
      if (!source.as_it_lies) move(combination, source, costs[s], scratch.moved[s]);
      scratch.cost[s] = source.as_it_lies ? costs[s] : scratch.moved[s].data();
    }
    scratch.constants.resize(combination.own.size());
    scratch.position.assign(combination.outer.size(), 0);
    add_up();
  }

  // false: that was the last position.
  // The last outer dimension runs fastest, as in the result.
  bool next() {
    for (std::size_t d = combination_.outer.size(); d-- > 0;) {
      const bool wraps = ++scratch_.position[d] == combination_.outer[d];
      for (std::size_t s = 0; s < scratch_.cost.size(); ++s) {
        const std::size_t stride = combination_.sources[s].stride[d];
        if (wraps)
          scratch_.cost[s] -= stride * (combination_.outer[d] - 1);
        else
          scratch_.cost[s] += stride;
      }
      if (!wraps) {
        add_up();
        return true;
      }
      scratch_.position[d] = 0;
    }
    return false;
  }

 private:
  void add_up() {
    std::vector<double>& constants = scratch_.constants;
    std::fill(constants.begin(), constants.end(), 0.0);
    scratch_.rows.clear();
    for (std::size_t s = 0; s < scratch_.cost.size(); ++s) {
      const double* cost = scratch_.cost[s];
      const std::size_t apart = combination_.sources[s].per_class;
      if (combination_.sources[s].spans_inner)
        scratch_.rows.push_back({s, cost, apart});
      else
        for (std::size_t own = 0; own < constants.size(); ++own) constants[own] += cost[own * apart];
    }
  }

  const Combination& combination_;
  Scratch& scratch_;
};

using Rows = Scratch::Rows;

// best[j]: the least of itself and, for every class, of its constant plus the j-th of its rows, added in their order.
// Classes with a forbidden constant are skipped: their sums are infinite.
template <std::size_t N>
[[gnu::always_inline]] inline void keep_minimum(const std::vector<double>& constants, const Rows* rows,
                                                std::size_t count, double* __restrict best) {
  for (std::size_t own = 0; own < constants.size(); ++own) {
    if (constants[own] == kForbidden) continue;
    for (std::size_t j = 0; j < count; ++j) {
      double sum = constants[own];
      for (std::size_t n = 0; n < N; ++n) sum += rows[n].first[own * rows[n].apart + j];
      best[j] = sum < best[j] ? sum : best[j];
    }
  }
}

// sum[j]: the constant of a class plus the j-th of its rows.
void add_rows(std::size_t own, const std::vector<Rows>& rows, std::size_t count, double* __restrict sum) {
  for (const Rows& row : rows) {
    const double* cost = row.first + own * row.apart;
    for (std::size_t j = 0; j < count; ++j) sum[j] += cost[j];
  }
}

MESHWRIGHT_WIDE_VECTORS void keep_minimum(Scratch& scratch, std::size_t count, double* best) {
  const std::vector<double>& constants = scratch.constants;
  // The usual numbers of rows have loops of their own, in which the compiler knows N.
  switch (scratch.rows.size()) {
    case 0:
      return keep_minimum<0>(constants, scratch.rows.data(), count, best);
    case 1:
      return keep_minimum<1>(constants, scratch.rows.data(), count, best);
    case 2:
      return keep_minimum<2>(constants, scratch.rows.data(), count, best);
    case 3:
      return keep_minimum<3>(constants, scratch.rows.data(), count, best);
    default:
      break;
  }
  std::vector<double>& sum = scratch.sum;
  for (std::size_t own = 0; own < constants.size(); ++own) {
    if (constants[own] == kForbidden) continue;
    sum.assign(count, constants[own]);
    add_rows(own, scratch.rows, count, sum.data());
    for (std::size_t j = 0; j < count; ++j) best[j] = sum[j] < best[j] ? sum[j] : best[j];
  }
}

}  // namespace

std::size_t Combination::entries() const {
  std::size_t count = inner;
  for (const std::size_t size : outer) count *= size;
  return count;
}

Combination plan_combination(const Domain& domain, int node, const std::vector<std::shared_ptr<const Shape>>& sources) {
  const Shape* alone = sources.size() > 1 ? own_cost(sources) : nullptr;
  Combination combination;
  combination.node = node;
  combination.shape = std::make_shared<const Shape>(result_of(domain, node, sources));
  combination.own = one_class(domain[node]);
  for (const auto& shape : sources)
    if (shape.get() != alone) combination.own = joint(combination.own, *shape->classes[shape->position(node)]);

  // The inner run may take in further dimensions as long as every table has all of them or none: they are contiguous
  // then.
  const std::vector<int>& scope = combination.shape->scope;
  const auto same_tables = [&](int a, int b) {
    return std::all_of(sources.begin(), sources.end(),
                       [&](const auto& shape) { return shape->contains(a) == shape->contains(b); });
  };
  std::size_t first_inner = scope.empty() ? 0 : scope.size() - 1;
  while (first_inner > 0 && same_tables(scope[first_inner - 1], scope[first_inner])) --first_inner;
  for (std::size_t d = 0; d < scope.size(); ++d) {
    if (d < first_inner)
      combination.outer.push_back(combination.shape->classes[d].size());
    else
      combination.inner *= combination.shape->classes[d].size();
  }
  for (const auto& shape : sources)
    combination.sources.push_back(plan_source(combination, shape, shape.get() == alone));
  return combination;
}

bool combine(const Combination& combination, const std::vector<const double*>& costs, double* result, Scratch& scratch,
             const portfolio::Budget& budget) {
  std::fill(result, result + combination.entries(), kForbidden);
  std::size_t since_look = 0;
  OuterPositions outer(combination, costs, scratch);
  do {
    keep_minimum(scratch, combination.inner, result);
    result += combination.inner;
    since_look += combination.inner;
    if (since_look < kEntriesBetweenLooks) continue;
    since_look = 0;
    if (budget.over()) return false;
  } while (outer.next());
  return true;
}

int best_strategy(const Combination& combination, const std::vector<const double*>& costs, const ShardingChoice& choice,
                  Scratch& scratch) {
  const std::vector<int>& scope = combination.shape->scope;
  const auto strategy_of = [&](std::size_t place) { return choice.strategy[scope[place]]; };
  std::vector<double>& sum = scratch.sum;
  sum.assign(combination.own.of.size(), 0.0);
  for (std::size_t s = 0; s < costs.size(); ++s) add_costs(combination.sources[s], costs[s], strategy_of, sum.data());
  return static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin());
}

void combine_back(const Combination& combination, const std::vector<const double*>& costs, const double* outside,
                  double* minimum, const std::vector<double*>& reach, Scratch& scratch) {
  for (const Combination::Source& source : combination.sources)
    MW_CHECK(source.as_it_lies, "the way back needs tables whose first node is eliminated first");
  const std::size_t count = combination.inner;
  OuterPositions outer(combination, costs, scratch);
  do {
    for (std::size_t own = 0; own < scratch.constants.size(); ++own) {
      if (scratch.constants[own] == kForbidden) continue;
      scratch.sum.assign(count, scratch.constants[own]);
      add_rows(own, scratch.rows, count, scratch.sum.data());
      for (std::size_t j = 0; j < count; ++j) scratch.sum[j] += outside[j];
      const double least = *std::min_element(scratch.sum.begin(), scratch.sum.end());
      minimum[own] = std::min(minimum[own], least);
      for (std::size_t s = 0; s < reach.size(); ++s) {
        if (reach[s] == nullptr) continue;
        const Combination::Source& source = combination.sources[s];
        // `reach` has the layout of the costs, so the loop's pointer gives the offset.
        double* to = reach[s] + (scratch.cost[s] - costs[s]) + own * source.per_class;
        if (source.spans_inner)
          for (std::size_t j = 0; j < count; ++j) to[j] = std::min(to[j], scratch.sum[j]);
        else
          *to = std::min(*to, least);
      }
    }
    outside += count;
  } while (outer.next());
}

}  // namespace meshwright::elimination
