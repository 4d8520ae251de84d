// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/op_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/base/text_table.h"
#include "simulator/report/measured_breakdown.h"

namespace meshwright {

namespace {

constexpr std::size_t kWorks = 20;  // that are listed
constexpr const char* kOutside = "outside of ops";

using Key = std::tuple<std::string, std::string, std::string>;  // kind, pass, work

void add(std::map<Key, OpTimeRow>& rows, const OpTimeRow& one) {
  const auto [row, is_new] = rows.try_emplace({one.kind, one.pass, one.work}, one);
  if (is_new) return;
  row->second.runs += one.runs;
  row->second.measured += one.measured;
  row->second.predicted += one.predicted;
  row->second.roofline += one.roofline;
}

std::vector<OpTimeRow> longest_first(const std::map<Key, OpTimeRow>& rows) {
  std::vector<OpTimeRow> sorted;
  for (const auto& [key, row] : rows) sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpTimeRow& a, const OpTimeRow& b) { return a.measured > b.measured; });
  return sorted;
}

std::string kind_of(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh) {
  if (op.kind == LocalOp::Kind::Compute) return name_of(op.work.kind);
  if (op.kind == LocalOp::Kind::HostCopy) return "host copy";
  if (!op.is_collective()) return "slice";
  return fmt::format("{} over {} devices", name_of(collective_of(executable, op, mesh).kind),
                     mesh.axes[static_cast<std::size_t>(op.step->axis)].size());
}

// What all devices' Runs of an executable take together, in all recorded steps.
struct RunTotal {
  Seconds time{0.0};
  double runs = 0.0;
};
std::map<std::pair<StageId, Span::Kind>, RunTotal> run_totals(const RunResult& result) {
  std::map<std::pair<StageId, Span::Kind>, RunTotal> totals;
  for (const Timeline& timeline : result.timelines)
    for (const Span& span : timeline.spans) {
      if (!is_compute(span.kind)) continue;
      RunTotal& own = totals[{span.stage, span.kind}];
      own.time += to_seconds(SimTime{span.end.ps - span.begin.ps});
      own.runs += 1.0;
    }
  return totals;
}

}  // namespace

std::vector<OpTimeRow> op_time_rows(const Program& program, const Graph& graph, const Cluster& cluster,
                                    const CostModel& costs, const RunResult& result) {
  MW_CHECK(result.op_times.size() == program.executables.size(), "op times of another program");
  const RunParts parts(program, graph, cluster, costs);
  const double steps = static_cast<double>(result.timelines.size());
  std::map<Key, OpTimeRow> rows;
  Seconds in_ops(0.0), overhead(0.0);
  for (std::size_t e = 0; e < program.executables.size(); ++e) {
    const StageExecutable& executable = program.executables[e];
    const LogicalMesh& mesh = program.stages[executable.stage.index()].mesh;
    const CostModel& own_costs = costs.on(mesh.of.group);
    std::vector<Seconds> times;
    double runs = 0.0;
    for (std::size_t o = 0; o < executable.ops.size(); ++o) {
      const LocalOp& op = executable.ops[o];
      const OpTime& measured = result.op_times[e][o];
      times.push_back(op_cost(executable, op, mesh, costs).time);
      if (measured.runs == 0) continue;
      runs = static_cast<double>(measured.runs) / steps;
      in_ops += measured.total / steps;
      OpTimeRow row{kind_of(executable, op, mesh), "", "", runs, measured.total / steps, runs * times.back()};
      row.pass = name_of(parts.part_of(executable, op).pass);
      if (op.kind == LocalOp::Kind::Compute) {
        row.work = op.work.signature;
        row.roofline = runs * parts.roofline_of(executable, op);
      }
      add(rows, row);
    }
    if (runs > 0.0) overhead += runs * run_overhead(program, executable, mesh, own_costs, times);
  }
  RunTotal all;
  for (const auto& [key, total] : run_totals(result)) {
    all.time += total.time;
    all.runs += total.runs;
  }
  add(rows, {kOutside, "all", "", all.runs / steps, all.time / steps - in_ops, overhead});
  return longest_first(rows);
}

std::vector<OpTimeRow> by_kind(const std::vector<OpTimeRow>& rows) {
  std::map<Key, OpTimeRow> kinds;
  for (OpTimeRow row : rows) {
    row.work.clear();
    add(kinds, row);
  }
  return longest_first(kinds);
}

StepBreakdown time_of_run(const Program& program, const Graph& graph, const Cluster& cluster, const CostModel& costs,
                          const RunResult& result) {
  MeasuredOpTimes times(program.executables.size());
  for (std::size_t e = 0; e < result.op_times.size(); ++e)
    for (const OpTime& op : result.op_times[e])
      times[e].push_back(op.runs == 0 ? Seconds(0.0) : op.total / static_cast<double>(op.runs));
  return measured_breakdown(program, RunParts(program, graph, cluster, costs), result.timeline, times);
}

std::string op_times_text(const std::vector<OpTimeRow>& rows, int devices, Seconds step) {
  const double whole = devices * step.si();
  const auto cells = [&](const OpTimeRow& row, const std::string& name) {
    const auto share_of_measured = [&](Seconds part) {
      return row.measured > Seconds(0.0) && part > Seconds(0.0) ? in_percent(part / row.measured) : std::string("-");
    };
    return std::vector<std::string>{in_percent(whole > 0.0 ? row.measured.si() / whole : 0.0),
                                    fmt::format("{:.0f}", row.runs),
                                    fmt::format("{:.3f}", 1e3 * row.measured.si()),
                                    fmt::format("{:.3f}", 1e3 * row.predicted.si()),
                                    share_of_measured(row.predicted),
                                    share_of_measured(row.roofline),
                                    row.pass,
                                    name};
  };
  const std::vector<TextTable::Column> columns = {
      {"share", "(%)"},       {"runs", ""},        {"measured", "(ms)"}, {"predicted", "(ms)"},
      {"of measured", "(%)"}, {"roofline", "(%)"}, {"pass", ""},         {"op", ""}};
  TextTable kinds(columns), works(columns);
  for (const OpTimeRow& row : by_kind(rows)) kinds.add_row(cells(row, row.kind));
  std::size_t listed = 0;
  for (const OpTimeRow& row : rows)
    if (!row.work.empty() && listed++ < kWorks) works.add_row(cells(row, row.work));
  return "# ops of a step on all devices, beside what was predicted and what FLOPs and bytes take at the device's "
         "peaks\n" +
         kinds.to_text() + "# the works that take the most time\n" + works.to_text();
}

Json op_times_json(const std::vector<OpTimeRow>& rows) {
  Json list = Json::array();
  for (const OpTimeRow& row : rows)
    list.push_back({{"op", row.kind},
                    {"pass", row.pass},
                    {"work", row.work},
                    {"runs", row.runs},
                    {"measured_s", row.measured.si()},
                    {"predicted_s", row.predicted.si()},
                    {"roofline_s", row.roofline.si()}});
  return list;
}

}  // namespace meshwright
