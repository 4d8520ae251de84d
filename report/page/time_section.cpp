// SPDX-License-Identifier: Apache-2.0
#include "report/page/time_section.h"

#include <algorithm>
#include <set>
#include <span>

#include "report/page/html.h"

namespace meshwright {

namespace {

constexpr std::size_t kListedOps = 20;

std::int64_t waiting_of(const KindTimes& times) {
  return times[static_cast<std::size_t>(TimeKind::Bubble)] + times[static_cast<std::size_t>(TimeKind::Idle)];
}

std::string bars(const std::vector<AlikeDevices>& rows, SimTime step) {
  std::string text = "<div class=\"bars\">\n";
  for (const AlikeDevices& row : rows) {
    const KindTimes times = kinds_of(row.parts);
    text += fmt::format("<div><b>{}</b><span>{}</span>{}<span class=\"n\">{} % at work</span></div>\n",
                        stage_text(row.stage), devices_text(row.devices), time_bar(times, step),
                        percent_text(1.0 - share_of_step(waiting_of(times), step)));
  }
  return text + "</div>\n";
}

// To the picosecond, in milliseconds: the columns add up to the step.
std::string exact_milliseconds(std::int64_t ps) {
  const std::string sign = ps < 0 ? "-" : "";
  const std::int64_t whole = std::abs(ps) / 1'000'000'000, rest = std::abs(ps) % 1'000'000'000;
  return fmt::format("{}{}.{:09}", sign, grouped(whole), rest);
}

std::string kinds_table(std::span<const AlikeDevices> rows, const KindTimes& all, const StepBreakdown& breakdown) {
  std::vector<HtmlTable::Column> columns = {{"one device, ms", HtmlTable::Align::Text}};
  for (const AlikeDevices& row : rows)
    columns.push_back({fmt::format("{}, {}", stage_text(row.stage), devices_text(row.devices))});
  columns.push_back({"all, %"});
  HtmlTable table("Where the time of a device of each stage goes", columns);
  const double whole = static_cast<double>(breakdown.step.ps) * breakdown.count();
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k] == 0) continue;
    std::vector<std::string> cells = {name_of(static_cast<TimeKind>(k))};
    for (const AlikeDevices& row : rows) cells.push_back(exact_milliseconds(kinds_of(row.parts)[k]));
    cells.push_back(percent_text(whole == 0.0 ? 0.0 : static_cast<double>(all[k]) / whole));
    table.add_row(cells);
  }
  std::vector<std::string> sums = {"step"};
  for (const AlikeDevices& row : rows) sums.push_back(exact_milliseconds(exposed_of(row.parts).ps));
  sums.emplace_back("100.0");
  table.add_row(sums);
  return table.html();
}

// Below each other, no wider than a page on paper or a small screen.
std::string kinds_html(const std::vector<AlikeDevices>& rows, const KindTimes& all, const StepBreakdown& breakdown) {
  constexpr std::size_t kColumns = 4;
  const std::span<const AlikeDevices> left(rows);
  std::string html;
  for (std::size_t begin = 0; begin < rows.size(); begin += kColumns)
    html += kinds_table(left.subspan(begin, std::min(kColumns, rows.size() - begin)), all, breakdown);
  return html;
}

std::string moves_html(const std::vector<AlikeDevices>& rows, const Program& program) {
  HtmlTable table("What moves, exposed and hidden", {{"stage", HtmlTable::Align::Text},
                                                     {"what", HtmlTable::Align::Text},
                                                     {"pass", HtmlTable::Align::Text},
                                                     {"collective", HtmlTable::Align::Text},
                                                     {"mesh axis"},
                                                     {"over devices"},
                                                     {"exposed, ms"},
                                                     {"hidden, ms"}});
  for (const AlikeDevices& row : rows)
    for (const auto& [part, time] : row.parts) {
      const bool collective = is_collective(part.kind);
      if (!collective && part.kind != TimeKind::HostCopy && part.kind != TimeKind::Message) continue;
      if (time.exposed.ps + time.hidden.ps == 0) continue;
      const LogicalMesh& mesh = program.stages[row.stage.index()].mesh;
      table.add_row({fmt::format("{}, {}", stage_text(row.stage), devices_text(row.devices)), name_of(part.kind),
                     name_of(part.pass), collective ? name_of(part.collective) : "",
                     collective ? fmt::format("{}", part.axis) : "",
                     collective ? fmt::format("{}", mesh.axes[static_cast<std::size_t>(part.axis)].size()) : "",
                     milliseconds_text(to_seconds(time.exposed)), milliseconds_text(to_seconds(time.hidden))});
    }
  return table.rows() == 0
             ? ""
             : details_html("Collectives and messages: exposed while a device waits, hidden beside computation",
                            table.html());
}

std::string ops_html(const TimeOfPage& of) {
  if (of.ops == nullptr) return "";
  HtmlTable table("The ops that take the most time", {{"op", HtmlTable::Align::Code},
                                                      {"pass", HtmlTable::Align::Text},
                                                      {"of all devices' time, %"},
                                                      {"runs"},
                                                      {"one, us"},
                                                      {"GFLOP"},
                                                      {"MB"},
                                                      {"of roofline, %"},
                                                      {"cost", HtmlTable::Align::Text}});
  const double whole = to_seconds(of.breakdown.step).si() * of.breakdown.count();
  for (std::size_t i = 0; i < std::min(kListedOps, of.ops->size()); ++i) {
    const TopOp& op = (*of.ops)[i];
    table.add_row({op.others == 0 ? op.name : fmt::format("{} and {} alike", op.name, op.others), name_of(op.part.pass),
                   percent_text(whole == 0.0 ? 0.0 : op.device_time.si() / whole), grouped(op.runs),
                   fmt::format("{:.1f}", 1e6 * op.time.si()), fmt::format("{:.4g}", op.work.flops.si() / 1e9),
                   fmt::format("{:.4g}", op.work.bytes.si() / 1e6), percent_text(op.roofline), name_of(op.basis)});
  }
  return details_html(fmt::format("The {} that take the most time, equal ones together",
                                  counted(static_cast<std::int64_t>(table.rows()), "op")),
                      table.html());
}

}  // namespace

namespace {

constexpr std::size_t kRowsInFull = 48;  // of more, some of each stage are shown

// The first row of each stage, and those that wait the least and the most.
std::vector<AlikeDevices> shown_rows(const std::vector<AlikeDevices>& rows) {
  if (rows.size() <= kRowsInFull) return rows;
  const auto waits = [&](std::size_t row) { return waiting_of(kinds_of(rows[row].parts)); };
  std::vector<AlikeDevices> shown;
  for (std::size_t first = 0, next = 0; first < rows.size() && shown.size() < kRowsInFull; first = next) {
    std::size_t least = first, most = first;
    for (next = first; next < rows.size() && rows[next].stage == rows[first].stage; ++next) {
      if (waits(next) < waits(least)) least = next;
      if (waits(next) > waits(most)) most = next;
    }
    for (const std::size_t row : std::set<std::size_t>{first, least, most}) shown.push_back(rows[row]);
  }
  return shown;
}

struct Rows {
  std::vector<AlikeDevices> all, shown;
};
Rows rows_of(const TimeOfPage& of) {
  Rows rows{alike_devices(of), {}};
  rows.shown = shown_rows(rows.all);
  return rows;
}

// Bars and tables.
std::string time_html(const TimeOfPage& of, const std::vector<AlikeDevices>& rows) {
  const KindTimes all = kinds_of(of.breakdown.of_all());
  return legend_of(all) + bars(rows, of.breakdown.step) +
         details_html("As a table, to the picosecond", kinds_html(rows, all, of.breakdown)) +
         moves_html(rows, of.program) + ops_html(of);
}

std::string time_lead(const TimeOfPage& of, const Rows& rows) {
  const StepBreakdown& breakdown = of.breakdown;
  const KindTimes all = kinds_of(breakdown.of_all());
  const double whole = static_cast<double>(breakdown.step.ps) * breakdown.count();
  const auto share = [&](std::int64_t ps) {
    return percent_text(whole == 0.0 ? 0.0 : static_cast<double>(ps) / whole);
  };
  const auto most = static_cast<std::size_t>(std::max_element(all.begin(), all.end()) - all.begin());
  const auto busiest =
      std::min_element(rows.shown.begin(), rows.shown.end(), [](const AlikeDevices& a, const AlikeDevices& b) {
        return waiting_of(kinds_of(a.parts)) < waiting_of(kinds_of(b.parts));
      });
  std::string lead = fmt::format(
      "Each bar is one device and adds up to the step of {}. Of all devices' time {} % goes into {}, and {} % is "
      "bubble and idle.",
      time_text(to_seconds(breakdown.step)), share(all[most]), name_of(static_cast<TimeKind>(most)),
      share(waiting_of(all)));
  if (rows.shown.size() > 1)
    lead += fmt::format(" Stage {} ({}) waits least and sets the pace.", busiest->stage.value,
                        devices_text(busiest->devices));
  if (rows.shown.size() < rows.all.size())
    lead +=
        fmt::format(" Of {} that differ, the first of each stage and those that wait the least and the most are shown.",
                    counted(static_cast<std::int64_t>(rows.all.size()), "row"));
  return lead;
}

// The kinds of the two steps beside each other, on average over all devices.
std::string compared_html(const StepBreakdown& measured, const StepBreakdown& predicted) {
  const KindTimes of_measured = kinds_of(measured.of_all()), of_predicted = kinds_of(predicted.of_all());
  HtmlTable table("Where the time goes, measured beside predicted", {{"mean of all devices", HtmlTable::Align::Text},
                                                                     {"measured, ms"},
                                                                     {"predicted, ms"},
                                                                     {"predicted less measured, ms"},
                                                                     {"of the measured step, %"}});
  const auto row = [&](const std::string& name, std::int64_t in_measured, std::int64_t in_predicted) {
    const Seconds a = to_seconds(SimTime{in_measured}) / measured.count(),
                  b = to_seconds(SimTime{in_predicted}) / predicted.count();
    table.add_row({name, milliseconds_text(a), milliseconds_text(b), milliseconds_text(b - a),
                   percent_text(measured.step.ps == 0 ? 0.0 : (b - a) / to_seconds(measured.step))});
  };
  for (std::size_t k = 0; k < of_measured.size(); ++k)
    if (of_measured[k] != 0 || of_predicted[k] != 0)
      row(name_of(static_cast<TimeKind>(k)), of_measured[k], of_predicted[k]);
  row("step", measured.step.ps * measured.count(), predicted.step.ps * predicted.count());
  return table.html();
}

std::string op_times_html(const Json& op_times) {
  HtmlTable table("The ops that took the most time", {{"op", HtmlTable::Align::Text},
                                                      {"pass", HtmlTable::Align::Text},
                                                      {"work", HtmlTable::Align::Code},
                                                      {"runs"},
                                                      {"measured, ms"},
                                                      {"predicted, ms"},
                                                      {"roofline, ms"}});
  for (const Json& row : op_times) {
    if (table.rows() == kListedOps) break;
    const auto milliseconds = [&](const char* name) { return milliseconds_text(Seconds(row.at(name).get<double>())); };
    table.add_row({row.at("op").get<std::string>(), row.at("pass").get<std::string>(),
                   row.at("work").get<std::string>(), fmt::format("{:.0f}", row.at("runs").get<double>()),
                   milliseconds("measured_s"), milliseconds("predicted_s"), milliseconds("roofline_s")});
  }
  return details_html("The ops that took the most time, on all devices together", table.html());
}

}  // namespace

PageSection time_section(const TimeOfPage& of) {
  const Rows rows = rows_of(of);
  return {"time", "Where the time goes", time_lead(of, rows), hatch_html() + time_html(of, rows.shown)};
}

PageSection measured_time_section(const TimeOfPage& measured, const TimeOfPage* predicted, const Json& op_times) {
  const Rows rows = rows_of(measured);
  PageSection section{"time", "Where the time goes", "The last step, as it was measured. " + time_lead(measured, rows),
                      hatch_html() + time_html(measured, rows.shown)};
  section.lead += op_times.is_array()
                      ? " Passes are split by the measured times of their ops."
                      : " The times of passes and messages are measured; within a pass time is split as its ops would "
                        "cost. `run --report` measures each op.";
  if (op_times.is_array()) section.html += op_times_html(op_times);
  if (predicted == nullptr) return section;
  section.html += compared_html(measured.breakdown, predicted->breakdown) +
                  details_html("The predicted step, taken apart", time_html(*predicted, rows_of(*predicted).shown));
  return section;
}

}  // namespace meshwright
