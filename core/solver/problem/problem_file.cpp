// SPDX-License-Identifier: Apache-2.0
#include "core/solver/problem/problem_file.h"

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/base/gzip.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::int64_t kForbids = 1'000'000'000'000'000'000;           // the contest's "infinite" cost
constexpr std::int64_t kLargestExact = std::int64_t{1} << 53;          // of the integers a double holds
constexpr std::int64_t kLargestInt = std::numeric_limits<int>::max();  // of steps and nodes

using Costs = std::vector<std::optional<Seconds>>;

// Everything but the name and the limit is a list of lists of whole numbers.
enum TableKind { Intervals, NodeCosts, Usages, EdgeEnds, EdgeCosts, kTableKinds };
constexpr std::array<const char*, kTableKinds> kTableName = {"problem.nodes.intervals", "problem.nodes.costs",
                                                             "problem.nodes.usages", "problem.edges.nodes",
                                                             "problem.edges.costs"};

// A file's tables as they stand there, each row checked by itself.
struct Tables {
  std::string name;
  std::optional<Bytes> limit;
  std::vector<std::pair<int, int>> intervals, ends;
  std::vector<Costs> node_costs, edge_costs;
  std::vector<std::vector<Bytes>> usages;
};

// Knows where in the file it is: which member of which object, which row of which table. What does not belong there is
// refused at once, so that nothing is kept of it.
class TableReader : public JsonVisitor {
 public:
  explicit TableReader(const std::string& place) : place_(place) {}

  // REQUIRES: the whole text has been visited.
  Tables take() {
    for (const char* member : {"problem", "problem.name", "problem.nodes", "problem.edges"}) require_seen(member);
    for (const char* table : kTableName) require_seen(table);
    return std::move(tables_);
  }

  void begin_object() override {
    if (where_ == Where::Outside)
      where_ = Where::Top;
    else if (member_ == "problem")
      where_ = Where::Problem;
    else if (member_ == "problem.nodes")
      where_ = Where::Nodes;
    else if (member_ == "problem.edges")
      where_ = Where::Edges;
    else
      refuse("an object");
    path_ = member_;
    member_.clear();
  }

  void key(const std::string& name) override {
    const std::string path = path_.empty() ? name : path_ + "." + name;
    const std::vector<std::string> known = members();
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(fmt::format("{}: {}", place_,
                                   unknown_name("member", shortened(path), known,
                                                fmt::format("Known are {}; leave others out.", join(known, ", ")))));
    require(std::find(seen_.begin(), seen_.end(), path) == seen_.end(), "{}: '{}' is given twice; give it once.",
            place_, path);
    seen_.push_back(path);
    member_ = path;
  }

  void end_object() override {
    where_ = where_ == Where::Top ? Where::Done : where_ == Where::Problem ? Where::Top : Where::Problem;
    path_ = where_ == Where::Problem ? "problem" : "";
    member_.clear();
  }

  void begin_array() override {
    if (where_ == Where::Table) {
      where_ = Where::Row;
      row_.clear();
      count(kNumbersPerRow);
      return;
    }
    for (int kind = 0; where_ != Where::Row && kind < kTableKinds; ++kind)
      if (member_ == kTableName[kind]) {
        before_table_ = std::exchange(where_, Where::Table);
        kind_ = static_cast<TableKind>(kind);
        rows_ = 0;
        return;
      }
    refuse("a list");
  }

  void end_array() override {
    if (where_ == Where::Row) {
      keep_row();
      ++rows_;
      where_ = Where::Table;
    } else {
      where_ = before_table_;
      member_.clear();
    }
  }

  void integer(std::int64_t value) override {
    if (where_ == Where::Row) {
      count(1);
      row_.push_back(value);
    } else if (member_ == "problem.usage_limit" && where_ == Where::Problem)
      tables_.limit = Bytes(in_range(value, 0, kLargestExact, [] { return std::string("problem.usage_limit"); }));
    else
      refuse(fmt::format("{}", value));
  }

  void other(const Json& value) override {
    if (member_ != "problem.name" || !value.is_string()) refuse(brief(value));
    tables_.name = value.get<std::string>();
  }

 private:
  enum class Where { Outside, Top, Problem, Nodes, Edges, Table, Row, Done };

  [[nodiscard]] std::vector<std::string> members() const {
    if (where_ == Where::Top) return {"problem"};
    if (where_ == Where::Problem) return {"name", "nodes", "edges", "usage_limit"};
    if (where_ == Where::Nodes) return {"intervals", "costs", "usages"};
    return {"nodes", "costs"};
  }

  // A byte or two of a file can become sixteen.
  void count(std::int64_t numbers) {
    require((numbers_ += numbers) <= kMaxNumbers, "{}: the tables hold more than {} numbers; give a smaller problem.",
            place_, kMaxNumbers);
  }

  void require_seen(const char* member) const {
    require(std::find(seen_.begin(), seen_.end(), member) != seen_.end(),
            "{}: '{}' is missing; the file must hold a problem of the contest's format.", place_, member);
  }

  // Throws: at this place something else than `found` was expected.
  [[noreturn]] void refuse(const std::string& found) const {
    std::string where = "the file", expected = "an object with the member 'problem'";
    if (where_ == Where::Table) {
      where = fmt::format("{}[{}]", kTableName[kind_], rows_);
      expected = "a list of whole numbers";
    } else if (where_ == Where::Row) {
      where = fmt::format("{}[{}][{}]", kTableName[kind_], rows_, row_.size());
      expected = "a whole number of at most 64 bits";
    } else if (!member_.empty()) {
      where = member_;
      if (where == "problem.name")
        expected = "a text";
      else if (where == "problem.usage_limit")
        expected = "a whole number of bytes";
      else if (where == "problem" || where == "problem.nodes" || where == "problem.edges")
        expected = "an object";
      else
        expected = "a list of lists of whole numbers";
    }
    throw InputError(fmt::format("{}: {} is {}; {} was expected.", place_, where, found, expected));
  }

  template <class Name>
  double in_range(std::int64_t value, std::int64_t low, std::int64_t high, const Name& name) const {
    require(low <= value && value <= high, "{}: {} is {}; give a whole number of {}..{}.", place_, name(), value, low,
            high);
    return static_cast<double>(value);
  }

  double row_value(std::size_t i, std::int64_t low, std::int64_t high) const {
    return in_range(row_[i], low, high, [&] { return fmt::format("{}[{}][{}]", kTableName[kind_], rows_, i); });
  }

  void keep_row() {
    switch (kind_) {
      case Intervals:
        return tables_.intervals.push_back(pair_of("[begin, end]"));
      case EdgeEnds:
        return tables_.ends.push_back(pair_of("[node, node]"));
      case NodeCosts:
        return tables_.node_costs.push_back(costs());
      case EdgeCosts:
        return tables_.edge_costs.push_back(costs());
      case Usages: {
        std::vector<Bytes> usages;
        usages.reserve(row_.size());
        for (std::size_t i = 0; i < row_.size(); ++i) usages.emplace_back(row_value(i, 0, kLargestExact));
        return tables_.usages.push_back(std::move(usages));
      }
      case kTableKinds:
        break;
    }
  }

  std::pair<int, int> pair_of(const char* what) const {
    require(row_.size() == 2, "{}: {}[{}] has {} numbers; give {}.", place_, kTableName[kind_], rows_, row_.size(),
            what);
    return {static_cast<int>(row_value(0, 0, kLargestInt)), static_cast<int>(row_value(1, 0, kLargestInt))};
  }

  Costs costs() const {
    Costs costs;
    costs.reserve(row_.size());
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (row_[i] >= kForbids)
        costs.emplace_back();
      else
        costs.emplace_back(Seconds(row_value(i, -kLargestExact, kLargestExact)));
    }
    return costs;
  }

  static constexpr std::int64_t kMaxNumbers = std::int64_t{1} << 27, kNumbersPerRow = 2;

  const std::string& place_;
  std::int64_t numbers_ = 0;  // of all tables so far, and what a row takes beside its numbers
  Tables tables_;
  Where where_ = Where::Outside, before_table_ = Where::Outside;
  std::string path_, member_;      // of the object and of its member at hand: "problem.nodes", "problem.nodes.costs"
  std::vector<std::string> seen_;  // every member so far
  TableKind kind_ = Intervals;
  std::size_t rows_ = 0;  // of the table at hand that are complete
  std::vector<std::int64_t> row_;
};

void require_equal_counts(const Tables& tables, const std::string& place) {
  const std::size_t nodes = tables.intervals.size();
  require(nodes > 0, "{}: problem.nodes.intervals is empty; give at least one node.", place);
  require(tables.node_costs.size() == nodes && tables.usages.size() == nodes,
          "{}: problem.nodes has {} intervals, {} costs and {} usages; give each node one of each.", place, nodes,
          tables.node_costs.size(), tables.usages.size());
  require(tables.edge_costs.size() == tables.ends.size(),
          "{}: problem.edges has {} nodes and {} costs; give each edge one of each.", place, tables.ends.size(),
          tables.edge_costs.size());
}

ShardingProblem::Node take_node(Tables& tables, std::size_t i, const std::string& place) {
  const auto [begin, end] = tables.intervals[i];
  require(begin <= end, "{}: problem.nodes.intervals[{}] is [{}, {}], which ends before it begins; swap the two.",
          place, i, begin, end);
  require(!tables.node_costs[i].empty(), "{}: problem.nodes.costs[{}] is empty; give node {} at least one strategy.",
          place, i, i);
  require(tables.node_costs[i].size() == tables.usages[i].size(),
          "{}: node {} has {} costs but {} usages; give each strategy one of each.", place, i,
          tables.node_costs[i].size(), tables.usages[i].size());
  return {fmt::format("node {}", i), {}, std::move(tables.node_costs[i]), std::move(tables.usages[i]), begin, end};
}

// An edge from a node to itself: both ends take the same strategy.
void add_diagonal(const Costs& table, ShardingProblem::Node& node) {
  const std::size_t count = node.cost.size();
  for (std::size_t p = 0; p < count; ++p) {
    const std::optional<Seconds>& extra = table[p * count + p];
    node.cost[p] = node.cost[p] && extra ? std::optional(*node.cost[p] + *extra) : std::nullopt;
  }
}

void take_edge(Tables& tables, std::size_t e, const std::string& place, ShardingProblem& problem) {
  const auto [from, to] = tables.ends[e];
  const std::size_t nodes = problem.nodes.size();
  for (const int end : {from, to})
    require(static_cast<std::size_t>(end) < nodes,
            "{}: problem.edges.nodes[{}] names node {}, but nodes are 0..{}; give one of these.", place, e, end,
            nodes - 1);
  auto &u = problem.nodes[from], &v = problem.nodes[to];
  require(
      tables.edge_costs[e].size() == u.cost.size() * v.cost.size(),
      "{}: problem.edges.costs[{}] has {} costs, but its nodes {} and {} have {} x {} strategies; give one per pair.",
      place, e, tables.edge_costs[e].size(), from, to, u.cost.size(), v.cost.size());
  if (from == to)
    add_diagonal(tables.edge_costs[e], u);
  else
    problem.edges.push_back({from, to, std::move(tables.edge_costs[e])});
}

ProblemFile assemble(Tables tables, const std::string& place) {
  require_equal_counts(tables, place);
  ProblemFile file{std::move(tables.name), {}};
  file.problem.memory_limit = tables.limit;
  file.problem.nodes.reserve(tables.intervals.size());
  for (std::size_t i = 0; i < tables.intervals.size(); ++i) file.problem.nodes.push_back(take_node(tables, i, place));
  file.problem.edges.reserve(tables.ends.size());
  for (std::size_t e = 0; e < tables.ends.size(); ++e) take_edge(tables, e, place, file.problem);
  return file;
}

}  // namespace

ProblemFile read_problem(const ByteSource& source, const std::string& place) {
  TableReader reader(place);
  visit_json(source, reader, place);
  return assemble(reader.take(), place);
}

ProblemFile read_problem_file(const std::string& path) { return read_problem(open_unpacked(path), path); }

ProblemFile parse_problem_file(std::string_view bytes, const std::string& place) {
  return read_problem(unpacked(bytes, place), place);
}

std::string solution_line(const ShardingChoice& choice) {
  return fmt::format("[{}]", fmt::join(choice.strategy, ", "));
}

ShardingChoice read_solution_file(const std::string& path) {
  const Json list = read_json_file(path);
  require(list.is_array(), "{}: a list was expected, one strategy per node, as in [0, 3, 1].", path);
  ShardingChoice choice;
  for (const Json& strategy : list) {
    try {
      choice.strategy.push_back(exact_integer<int>(strategy));
    } catch (const InputError&) {
      throw InputError(
          fmt::format("{}: [{}] is {}; give the number of a strategy.", path, choice.strategy.size(), brief(strategy)));
    }
  }
  return choice;
}

}  // namespace meshwright
