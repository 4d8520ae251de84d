// SPDX-License-Identifier: Apache-2.0
#include "core/solver/presolve/presolve.h"

#include <memory>

#include "core/solver/presolve/presolve_work.h"

namespace meshwright::portfolio {

namespace {

// Cheap reductions first, as each makes the next one smaller: rows that cannot bind, then all that follows edge by
// edge, then dominance, which compares all pairs of labels; rows are compared with each other only when nothing else
// moves. false: infeasible.
bool reduce(Work& work, const Budget& budget) {
  if (!work.trim_rows(nullptr)) return false;
  while (true) {
    if (!work.settle(budget)) return false;
    if (budget.over()) break;
    if (!work.compare_labels(budget)) return false;
    if (!work.idle()) continue;
    if (!work.trim_rows(&budget)) return false;
    if (work.idle()) return true;
  }
  return work.trim_rows(nullptr);
}

struct Way {
  std::vector<Record> records;
  std::vector<int> now_at;  // [node before]: its index now, -1: gone
  std::function<Labels(const Labels&)> lift_before;
  std::function<std::optional<Labels>(const Labels&)> project_before;

  // Records are played backwards: the last node that went is the first to get its label.
  [[nodiscard]] Labels lift(const Labels& labels) const {
    Labels before(now_at.size(), 0);
    for (std::size_t i = 0; i < now_at.size(); ++i)
      if (now_at[i] >= 0) before[i] = labels[now_at[i]];
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      const int first = record->first < 0 ? 0 : before[record->first];
      const int second = record->second < 0 ? 0 : before[record->second];
      before[record->node] = record->table[first * record->second_labels + second];
    }
    return lift_before(before);
  }

  // Records are played forwards. Only renumberings matter: nodes that are gone have no label in the result.
  [[nodiscard]] std::optional<Labels> project(const Labels& original) const {
    const std::optional<Labels> start = project_before(original);
    if (!start) return std::nullopt;
    Labels before = *start;
    for (const Record& record : records) {
      if (record.kept_as.empty()) continue;  // nothing was renumbered: a node is gone, or its label may stay
      int& label = before[record.node];
      const int partner = record.paired < 0 ? 0 : before[record.paired];
      label = record.kept_as[label * record.paired_labels + partner];
      if (label < 0) return std::nullopt;
    }
    Labels now;
    for (std::size_t i = 0; i < now_at.size(); ++i)
      if (now_at[i] >= 0) now.push_back(before[i]);
    return now;
  }
};

}  // namespace

Reduced Work::finished(const Reduced& from) const {
  Reduced reduced;
  auto way = std::make_shared<Way>();
  way->records = records;
  way->lift_before = from.lift;
  way->project_before = from.project;
  for (const Node& node : nodes) {
    way->now_at.push_back(node.gone ? -1 : static_cast<int>(reduced.field.nodes.size()));
    if (!node.gone) reduced.field.nodes.push_back({node.cost, {}, 0, 0});
  }
  for (const Edge& edge : edges)
    if (!edge.gone) reduced.field.edges.push_back({way->now_at[edge.u], way->now_at[edge.v], edge.cost});
  for (const MemoryPiece& piece : pieces)
    if (piece.begin < piece.end)
      reduced.pieces.push_back({way->now_at[piece.node], piece.begin, piece.end, piece.memory});
  reduced.row_limit = row_limit;
  reduced.row_step = row_step;
  reduced.field.constant = constant;
  reduced.lift = [way](const Labels& labels) { return way->lift(labels); };
  reduced.project = [way](const Labels& labels) { return way->project(labels); };
  return reduced;
}

Reduced presolve(const Reduced& from, const std::vector<std::vector<bool>>& dropped, const Budget& budget) {
  Work work(from, dropped);
  if (!reduce(work, budget)) {
    Reduced none;
    none.infeasible = true;
    return none;
  }
  return work.finished(from);
}

Reduced merge_nodes(const Reduced& from, double max_growth, const Budget& budget) {
  Work work(from, {});
  work.max_entries = work.entries + max_growth;
  // Entries that the reductions free below are room for merging, too.
  const double aim = work.max_entries;
  bool feasible = reduce(work, budget);
  while (feasible && !budget.over() && work.merge_cheapest(aim - work.entries))
    feasible = work.settle(budget) && work.compare_labels(budget) && work.settle(budget);
  if (!feasible || !reduce(work, budget)) {
    Reduced none;
    none.infeasible = true;
    return none;
  }
  return work.finished(from);
}

Reduced presolve(const Field& field, const Budget& budget) { return presolve(unreduced(field), {}, budget); }

}  // namespace meshwright::portfolio
