// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/step/breakdown_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "cli/terminal/output.h"
#include "core/base/text_table.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

constexpr std::size_t kOps = 20;   // that are listed
constexpr double kSmall = 0.0005;  // of the step: less has no row

double share(std::int64_t part, double whole) { return whole == 0.0 ? 0.0 : static_cast<double>(part) / whole; }

// [stage] the sum over its devices, each of which is of the first stage that it has.
struct StageTotal {
  TimeParts parts;
  std::int64_t devices = 0;
};
std::map<StageId, StageTotal> totals_of_stages(const StepBreakdown& step) {
  std::map<StageId, StageTotal> totals;
  for (const DeviceBreakdown& device : step.devices) {
    StageTotal& own = totals[device.stage];
    add_parts(own.parts, device.parts, device.count);
    own.devices += device.count;
  }
  return totals;
}

using Kinds = std::array<std::int64_t, kTimeKinds>;
Kinds by_kind(const TimeParts& parts) {
  Kinds sums{};
  for (const auto& [part, time] : parts) sums[static_cast<std::size_t>(part.kind)] += time.exposed.ps;
  return sums;
}

std::string kinds_table(const StepBreakdown& step) {
  const std::map<StageId, StageTotal> totals = totals_of_stages(step);
  const Kinds all = by_kind(step.of_all());
  std::vector<TextTable::Column> columns = {{"stage", ""}};
  for (int k = 0; k < kTimeKinds; ++k)
    if (all[static_cast<std::size_t>(k)] > 0) columns.push_back({name_of(static_cast<TimeKind>(k)), "(%)"});
  TextTable table(columns);
  const auto row = [&](std::string name, const Kinds& sums, std::int64_t devices) {
    std::vector<std::string> cells = {std::move(name)};
    const double whole = static_cast<double>(devices) * static_cast<double>(step.step.ps);
    for (int k = 0; k < kTimeKinds; ++k)
      if (all[static_cast<std::size_t>(k)] > 0)
        cells.push_back(in_percent(share(sums[static_cast<std::size_t>(k)], whole)));
    table.add_row(std::move(cells));
  };
  for (const auto& [stage, total] : totals) row(fmt::format("{}", stage.value), by_kind(total.parts), total.devices);
  if (totals.size() > 1) row("all", all, step.count());
  return table.to_text();
}

std::string passes_table(const StepBreakdown& step) {
  TextTable table({{"stage", ""}, {"forward", "(%)"}, {"recompute", "(%)"}, {"backward", "(%)"}, {"update", "(%)"}});
  for (const auto& [stage, total] : totals_of_stages(step)) {
    std::map<TimePass, std::int64_t> sums;
    for (const auto& [part, time] : total.parts) sums[part.pass] += time.exposed.ps;
    const double whole = static_cast<double>(total.devices) * static_cast<double>(step.step.ps);
    table.add_row({fmt::format("{}", stage.value), in_percent(share(sums[TimePass::Forward], whole)),
                   in_percent(share(sums[TimePass::Recompute], whole)),
                   in_percent(share(sums[TimePass::Backward], whole)),
                   in_percent(share(sums[TimePass::Update], whole))});
  }
  return table.to_text();
}

// "all-reduce over 8 devices (axis 1)"
std::string collective_text(const TimePart& part, const LogicalMesh& mesh) {
  return fmt::format("{} over {} devices (axis {})", name_of(part.collective),
                     mesh.axes[static_cast<std::size_t>(part.axis)].size(), part.axis);
}

std::string moves_table(const StepBreakdown& step, const Program& program) {
  TextTable table(
      {{"stage", ""}, {"exposed", "(%)"}, {"hidden", "(%)"}, {"pass", ""}, {"what", ""}, {"collective", ""}});
  std::size_t listed = 0, small = 0;
  for (const auto& [stage, total] : totals_of_stages(step)) {
    const double whole = static_cast<double>(total.devices) * static_cast<double>(step.step.ps);
    for (const auto& [part, time] : total.parts) {
      const bool moves = is_collective(part.kind) || part.kind == TimeKind::HostCopy || part.kind == TimeKind::Message;
      if (!moves || time.exposed.ps + time.hidden.ps == 0) continue;
      if (share(time.exposed.ps + time.hidden.ps, whole) < kSmall) {
        ++small;
        continue;
      }
      ++listed;
      table.add_row({fmt::format("{}", stage.value), in_percent(share(time.exposed.ps, whole)),
                     in_percent(share(time.hidden.ps, whole)), part.pass == TimePass::None ? "-" : name_of(part.pass),
                     name_of(part.kind),
                     is_collective(part.kind) ? collective_text(part, program.stages[stage.index()].mesh) : "-"});
    }
  }
  if (listed + small == 0) return "";
  const std::string rest =
      small == 0 ? "" : fmt::format(" ({} of less than {} % each are left out)", small, 100.0 * kSmall);
  return fmt::format("# what moves{}: exposed while a device waits for it, hidden beside computation\n", rest) +
         (listed == 0 ? "" : table.to_text());
}

std::string ops_table(const Breakdown& breakdown) {
  TextTable table({{"share", "(%)"},
                   {"runs", ""},
                   {"time", "(us)"},
                   {"GFLOP", ""},
                   {"MB", ""},
                   {"roofline", "(%)"},
                   {"costs", ""},
                   {"pass", ""},
                   {"op", ""}});
  const double whole = to_seconds(breakdown.step.step).si() * breakdown.step.count();
  for (std::size_t i = 0; i < std::min(kOps, breakdown.ops.size()); ++i) {
    const TopOp& op = breakdown.ops[i];
    table.add_row({in_percent(whole == 0.0 ? 0.0 : op.device_time.si() / whole), fmt::format("{}", op.runs),
                   fmt::format("{:.1f}", 1e6 * op.time.si()), fmt::format("{:.4g}", op.work.flops.si() / 1e9),
                   fmt::format("{:.4g}", op.work.bytes.si() / 1e6), in_percent(op.roofline), name_of(op.basis),
                   name_of(op.part.pass),
                   op.others == 0 ? op.name : fmt::format("{} and {} alike", op.name, op.others)});
  }
  return "# the ops that take the most time, equal ones together; roofline: what FLOPs and bytes take at the device's "
         "peaks\n" +
         table.to_text();
}

Json parts_json(const TimeParts& parts, const LogicalMesh& mesh) {
  Json list = Json::array();
  for (const auto& [part, time] : parts) {
    if (time.exposed.ps == 0 && time.hidden.ps == 0) continue;
    Json& own = list.emplace_back(Json{{"what", name_of(part.kind)}, {"exposed_ps", time.exposed.ps}});
    if (part.pass != TimePass::None) own["pass"] = name_of(part.pass);
    if (time.hidden.ps > 0) own["hidden_ps"] = time.hidden.ps;
    if (!is_collective(part.kind)) continue;
    own["collective"] = name_of(part.collective);
    own["axis"] = part.axis;
    own["axis_devices"] = mesh.axes[static_cast<std::size_t>(part.axis)].size();
  }
  return list;
}

}  // namespace

std::string breakdown_text(const Breakdown& breakdown, const Program& program) {
  return "# where each device's time goes\n" + kinds_table(breakdown.step) + "# and in which pass\n" +
         passes_table(breakdown.step) + moves_table(breakdown.step, program) + ops_table(breakdown);
}

std::string measured_breakdown_text(const StepBreakdown& step, const Program& program) {
  return fmt::format("# where each device's time went in the last step, of {} ms\n",
                     in_milliseconds(to_seconds(step.step))) +
         kinds_table(step) + "# and in which pass\n" + passes_table(step) + moves_table(step, program);
}

void add_time(Json& json, const StepBreakdown& step, const Program& program, const FoldedDevices* folded) {
  Json& time = json["time"];
  time["step_ps"] = step.step.ps;
  Json& groups = time["devices"] = Json::array();
  std::map<std::pair<StageId, std::string>, std::size_t> known;  // by all that is said of them
  std::vector<std::vector<int>> numbers;
  for (const DeviceBreakdown& device : step.devices) {
    Json parts = parts_json(device.parts, program.stages[device.stage.index()].mesh);
    const auto [same, is_new] = known.try_emplace({device.stage, parts.dump()}, numbers.size());
    if (is_new) {
      numbers.emplace_back();
      groups.push_back({{"stage", device.stage.value}, {"parts", std::move(parts)}});
    }
    std::vector<int>& own = numbers[same->second];
    if (folded == nullptr) {
      own.push_back(device.device.value);
      continue;
    }
    for (std::size_t d = 0; d < folded->representative.size(); ++d)
      if (folded->representative[d] == device.device) own.push_back(static_cast<int>(d));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::sort(numbers[i].begin(), numbers[i].end());
    groups[i]["devices"] = ranges_json(numbers[i]);
  }
}

void add_breakdown(Json& json, const Breakdown& breakdown, const Program& program, const FoldedDevices* folded) {
  add_time(json, breakdown.step, program, folded);
  Json& ops = json["top_ops"] = Json::array();
  for (std::size_t i = 0; i < std::min(kOps, breakdown.ops.size()); ++i) {
    const TopOp& op = breakdown.ops[i];
    ops.push_back({{"op", op.name},
                   {"alike", op.others},
                   {"pass", name_of(op.part.pass)},
                   {"what", name_of(op.part.kind)},
                   {"work", op.work.signature},
                   {"flops", op.work.flops.si()},
                   {"bytes", op.work.bytes.si()},
                   {"time_s", op.time.si()},
                   {"basis", name_of(op.basis)},
                   {"roofline_share", op.roofline},
                   {"runs", op.runs},
                   {"device_time_s", op.device_time.si()}});
  }
}

}  // namespace meshwright
