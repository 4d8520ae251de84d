// SPDX-License-Identifier: Apache-2.0
#include "core/solver/elimination/elimination_steps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/solver/elimination/number_hash.h"

namespace meshwright::elimination {

namespace {

constexpr int kKept = 1 << 30;  // position in the order of a node that stays

// Tables that one step adds up, and the nodes of its result.
struct Part {
  std::vector<int> scope;
  std::vector<int> tables;
};

std::vector<int> scope_with(const std::vector<int>& scope, const Shape& shape, int node) {
  std::vector<int> joined;
  std::set_union(scope.begin(), scope.end(), shape.scope.begin(), shape.scope.end(), std::back_inserter(joined));
  std::erase(joined, node);
  return joined;
}

std::size_t hash_of(const std::vector<std::shared_ptr<const Shape>>& given) {
  NumberHash hash;
  for (const auto& shape : given) {
    hash.add(shape->scope);
    for (const SharedClasses& classes : shape->classes) hash.add(static_cast<std::int64_t>(classes.hash()));
  }
  return hash.value();
}

double entries(const Domain& domain, const std::vector<int>& scope) {
  double product = 1.0;
  for (const int node : scope) product *= static_cast<double>(domain[node]);
  return product;
}

// Largest tables first, each into the first part that it fits.
// The mini-bucket heuristic (Dechter and Rish 2003): where the table of all would exceed `max_table`, a node is
// eliminated from several parts apart, which bounds the minimum from below. Every part gets the node's own cost; the
// caller shares it out.
std::vector<Part> parts_of(const Domain& domain, const Steps& steps, int node, std::vector<int> tables,
                           double max_table) {
  std::vector<int> own;
  const auto is_own = [&](int t) { return t < steps.given && steps.shapes[t]->scope.size() == 1; };
  std::copy_if(tables.begin(), tables.end(), std::back_inserter(own), is_own);
  std::erase_if(tables, is_own);
  std::stable_sort(tables.begin(), tables.end(),
                   [&](int a, int b) { return steps.shapes[a]->scope.size() > steps.shapes[b]->scope.size(); });
  std::vector<Part> parts;
  for (const int table : tables) {
    const auto fits = [&](const Part& part) {
      const std::vector<int> joined = scope_with(part.scope, *steps.shapes[table], node);
      return joined.size() == part.scope.size() || entries(domain, joined) <= max_table;
    };
    auto part = std::find_if(parts.begin(), parts.end(), fits);
    if (part == parts.end()) part = parts.insert(part, Part{});
    part->scope = scope_with(part->scope, *steps.shapes[table], node);
    part->tables.push_back(table);
  }
  if (parts.empty()) parts.emplace_back();
  for (Part& part : parts) {
    part.tables.insert(part.tables.end(), own.begin(), own.end());
    std::sort(part.tables.begin(), part.tables.end());
  }
  return parts;
}

}  // namespace

// A table waits at the first of its nodes in the order; a step takes all tables that wait at its node, and its result
// waits at the next.
Steps plan_steps(const Domain& domain, std::vector<std::shared_ptr<const Shape>> given, const std::vector<int>& order,
                 double max_table) {
  IndexedVector<int, int> position(domain.size(), kKept);
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  IndexedVector<int, std::vector<int>> waiting(domain.size());  // [node] tables whose first node it is, ascending
  Steps steps;
  const auto add_table = [&](std::shared_ptr<const Shape> shape) {
    const auto first = std::min_element(shape->scope.begin(), shape->scope.end(),
                                        [&](int a, int b) { return position[a] < position[b]; });
    if (first != shape->scope.end() && position[*first] != kKept) waiting[*first].push_back(steps.shapes.count());
    steps.shapes.push_back(std::move(shape));
    steps.taken_by.push_back(-1);
  };
  for (auto& shape : given) add_table(std::move(shape));
  steps.given = steps.shapes.count();
  for (const int node : order)
    for (Part& part : parts_of(domain, steps, node, std::move(waiting[node]), max_table)) {
      std::vector<std::shared_ptr<const Shape>> shapes;
      for (const int table : part.tables) {
        shapes.push_back(steps.shapes[table]);
        steps.taken_by[table] = static_cast<int>(steps.steps.size());
      }
      steps.steps.push_back({std::move(part.tables), plan_combination(domain, node, shapes)});
      add_table(steps.steps.back().combination.shape);
    }
  return steps;
}

std::size_t KnownSteps::Hash::operator()(const Key& key) const {
  NumberHash hash;
  hash.add(key.first.domain);
  hash.add(static_cast<std::int64_t>(key.first.edges.size()));
  for (const auto& [from, to] : key.first.edges) {
    hash.add(from);
    hash.add(to);
  }
  hash.add(key.second);
  return hash.value();
}

// Nothing is searched or planned under the lock, as it takes long: two threads that ask for the same find the same.
std::shared_ptr<const Steps> KnownSteps::find(const Structure& structure,
                                              const std::vector<std::shared_ptr<const Shape>>& given,
                                              const std::vector<int>& kept) {
  const auto are_given = [&](const std::shared_ptr<const Steps>& steps) {
    return steps->given == static_cast<int>(given.size()) &&
           std::equal(given.begin(), given.end(), steps->shapes.begin(),
                      [](const auto& a, const auto& b) { return a == b || *a == *b; });
  };
  const Key key(structure, kept);
  const std::size_t hash = hash_of(given);
  const Known* known = nullptr;  // stays where it is, and its order as it is
  std::vector<std::shared_ptr<const Steps>> alike;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) {
      known = &found->second;
      const auto [begin, end] = known->steps.equal_range(hash);
      for (auto steps = begin; steps != end; ++steps) alike.push_back(steps->second);
    }
  }
  if (known == nullptr) {
    Known made{find_order(structure, search_for_models(), kept), {}};
    const std::lock_guard lock(mutex_);
    known = &known_.emplace(key, std::move(made)).first->second;
  }
  if (!known->order) return nullptr;
  const auto same = std::find_if(alike.begin(), alike.end(), are_given);
  if (same != alike.end()) return *same;
  auto made = std::make_shared<Steps>(plan_steps(structure.domain, given, known->order->nodes));
  const std::lock_guard lock(mutex_);
  number_kinds(*made);
  auto& all = known_.at(key).steps;
  if (all.size() < kMaxSteps) all.emplace(hash, made);
  return made;
}

// A combination depends on the order of its nodes' numbers, and on which strategies each table tells apart.
void KnownSteps::number_kinds(Steps& steps) {
  const auto number = [](std::map<std::vector<int>, int>& of, std::vector<int> key) {
    const int next = static_cast<int>(of.size());
    return of.try_emplace(std::move(key), next).first->second;
  };
  for (Step& step : steps.steps) {
    std::vector<int> nodes = step.combination.shape->scope;
    nodes.insert(std::lower_bound(nodes.begin(), nodes.end(), step.combination.node), step.combination.node);
    const auto rank = [&](int node) {
      return static_cast<int>(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin());
    };
    std::vector<int> key = {rank(step.combination.node)};
    for (const int source : step.sources) {
      const Shape& shape = *steps.shapes[source];
      key.push_back(static_cast<int>(shape.scope.size()));
      for (std::size_t d = 0; d < shape.scope.size(); ++d) {
        const auto& of = shape.classes[d]->of;
        key.push_back(rank(shape.scope[d]));
        key.push_back(number(classes_, {of.begin(), of.end()}));
      }
    }
    step.kind = number(kinds_, std::move(key));
  }
}

std::size_t KnownSteps::searched() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

}  // namespace meshwright::elimination
