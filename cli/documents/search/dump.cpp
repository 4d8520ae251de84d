// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/dump.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "cli/terminal/output.h"
#include "core/base/csv.h"
#include "core/base/text.h"
#include "core/plan/lowering/lower.h"
#include "simulator/program/program_costs.h"
#include "simulator/report/plan_tables.h"

namespace meshwright {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTables[] = {"candidates.csv", "layers.csv",      "stages.csv",    "programs.csv",
                                   "memory.csv",     "collectives.csv", "resharding.csv"};

std::string file_in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }
std::string program_file(std::size_t number) { return fmt::format("program-{}.txt", number); }

// A table that grows row by row.
class CsvText {
 public:
  explicit CsvText(const std::string& columns) : text_(columns + "\n") {}
  template <class... Cells>
  void row(const Cells&... cells) {
    text_ += csv_row({cell(cells)...});
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  static std::string cell(std::string text) { return text; }
  static std::string cell(double value) { return as_text(value); }
  static std::string cell(Seconds time) { return as_text(time.si()); }
  static std::string cell(Flops flops) { return as_text(flops.si()); }
  static std::string cell(Bytes bytes) { return bytes_json(bytes).dump(); }
  template <class Integer>
  requires std::is_integral_v<Integer>
  static std::string cell(Integer value) { return fmt::format("{}", value); }
  template <class Value>
  static std::string cell(const std::optional<Value>& value) {
    return value ? cell(*value) : "";
  }

  std::string text_;
};

std::string candidates_csv(const ConsideredPlans& considered) {
  CsvText table(
      "rank,stages,degrees,layers,micro_batches,schedule,chunks,num_stages,estimated_s,simulated_s,needs_bytes,reason");
  const ConsideredPlan* chosen = considered.chosen();
  std::size_t rank = 0;
  for (const ConsideredPlan* plan : considered.ranked())
    table.row(++rank, stages_text(*plan), plan->degrees,
              plan->layer_starts.empty() ? std::nullopt : std::optional(plan->layer_starts.size()), plan->microbatches,
              name_of(plan->schedule), plan->chunks,
              plan->stages.empty() ? std::nullopt : std::optional(plan->stages.size()), plan->estimated,
              plan->simulated, plan->needs, reason_text(*plan, chosen));
  return table.text();
}

std::string layers_csv(const PredictedPlan& planned) {
  CsvText table(
      "layer,stage,first_op,last_op,ops,forward_flops,backward_flops,parameters,parameter_bytes,result_bytes,"
      "boundary_bytes");
  for (const LayerRow& row : layer_rows(planned.plan, planned.result.graph))
    table.row(row.layer, row.stage, row.first_op, row.last_op, row.ops, row.forward, row.backward, row.parameters,
              row.parameter_bytes, row.result_bytes, row.boundary_bytes);
  return table.text();
}

// The stage table of the plan's cut; the plan's own stages may be of a search that asked for other memory, and stand
// in the place of the table's.
std::string stages_csv(const PredictedPlan& planned, const ConsideredPlan& chosen) {
  std::map<StageProfileName, StageProfile> entries;
  if (planned.result.stage_profile) entries = planned.result.stage_profile->entries();
  std::multimap<StageProfileName, std::size_t> stage_of;
  for (std::size_t s = 0; s < chosen.stages.size(); ++s) {
    entries.insert_or_assign(chosen.stages[s].name, chosen.stages[s].costs);
    stage_of.emplace(chosen.stages[s].name, s);
  }
  CsvText table(
      "stage,first_layer,last_layer,hosts,devices_per_host,host_group,logical_mesh,batch_axis,option,forward_s,"
      "backward_s,step_s,resident_bytes,saved_bytes,recomputed_bytes,repeated_bytes,working_bytes,boundary_in_bytes,"
      "boundary_out_bytes,basis,program_forward_s,program_backward_s,program_update_s,program_peak_bytes");
  for (const auto& [name, costs] : entries) {
    const auto found = stage_of.find(name);
    std::optional<std::size_t> stage;
    std::optional<Seconds> forward, backward, update;
    std::optional<Bytes> peak;
    if (found != stage_of.end()) {
      stage = found->second;
      const StageTimes& times = planned.prediction.stages[*stage];
      forward = times.forward, backward = times.backward, update = times.update;
      peak = stage_peak(planned.loaded.program.stages[*stage], planned.loaded.check.peak_memory);
    }
    const auto& memory = costs.memory;
    const auto bytes = [&memory](Bytes StageMemory::*kind) {
      return memory ? std::optional(*memory.*kind) : std::nullopt;
    };
    const StagePlace& place = name.place;
    table.row(stage, place.first, place.last, place.submesh.hosts, place.submesh.devices_per_host, place.submesh.group,
              fmt::format("{}", fmt::join(place.shape, "x")), place.batch_axis,
              name.sharding.empty() ? fmt::format("{}", name.option) : name.sharding, costs.forward, costs.backward,
              costs.step, bytes(&StageMemory::resident), bytes(&StageMemory::saved), bytes(&StageMemory::recomputed),
              bytes(&StageMemory::recomputed_at_once), bytes(&StageMemory::working), costs.boundary_in,
              costs.boundary_out, costs.measured ? "measured" : "modelled", forward, backward, update, peak);
  }
  return table.text();
}

std::string collectives_csv(const Program& program, const Graph& graph, const CostModel& costs) {
  CsvText table("stage,phase,term,kind,mesh_axis,group_size,group_hosts,runs,count,bytes,seconds");
  for (const CollectiveRow& row : collective_rows(program, graph, costs))
    table.row(row.stage, row.phase, name_of(row.term), name_of(row.kind), row.axis, row.group, row.hosts, row.runs,
              row.count, row.bytes, row.time);
  return table.text();
}

std::string resharding_csv(const Program& program, const Graph& graph) {
  CsvText table("tensor,from_stage,to_stage,from_sharding,to_sharding,messages,between_hosts,copies,bytes,form");
  for (const ReshardingRow& row : resharding_rows(program, graph))
    table.row(row.tensor, row.from, row.to, row.from_sharding, row.to_sharding, row.messages, row.between_hosts,
              row.copies, row.bytes, name_of(row.form));
  return table.text();
}

// What is told of each class of devices that do the same.
void write_programs(const std::string& folder, const PredictedPlan& planned, const Program& program,
                    const CostModel& costs) {
  const ProgramTimes times = program_costs(program, costs).times;
  const std::vector<DeviceClass> classes = device_classes(program, times);
  CsvText programs("program,file,devices,device_numbers,first_stage,instructions,peak_bytes");
  CsvText memory("program,devices,stage,buffer,kind,bytes,live_at_peak,bytes_at_peak");
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const DeviceId first = classes[c].first;
    const std::string numbers = to_text(classes[c].devices);
    programs.row(c, program_file(c), classes[c].devices.size(), numbers, program.stage_of_device[first.index()].value,
                 program.devices[first.index()].size(), planned.loaded.check.peak_memory[first.index()]);
    for (const MemoryRow& row : memory_rows(program, planned.result.graph, first))
      memory.row(c, classes[c].devices.size(), row.stage, row.buffer, row.kind, row.bytes, row.at_peak,
                 row.bytes_at_peak);
    write_file(file_in(folder, program_file(c)),
               fmt::format("# program of device{} {}; peers are those of device {}\n",
                           classes[c].devices.size() == 1 ? "" : "s", numbers, first.value) +
                   program_text(program, times, first));
  }
  write_file(file_in(folder, "programs.csv"), programs.text());
  write_file(file_in(folder, "memory.csv"), memory.text());
  std::error_code error;
  for (std::size_t c = classes.size(); fs::remove(file_in(folder, program_file(c)), error); ++c) {
  }
}

void create(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: cannot be created ({}).", folder, error.message()));
}

}  // namespace

void expect_dump_folder(const std::string& folder, const std::vector<std::string>& others) {
  if (folder.empty()) return;
  std::error_code error;
  const fs::path given(folder);
  const fs::path path = given.has_filename() ? given : given.parent_path();  // "dump/" is "dump"
  if (!fs::exists(path, error)) return expect_writable(path, others);
  require(fs::is_directory(path, error), "--dump: {} is not a folder; give a folder, which may be new.", folder);
  for (const char* table : kTables) expect_writable(file_in(path, table), others);
  expect_writable(file_in(path, program_file(0)), others);
}

void write_dump(const std::string& folder, const PredictedPlan& planned, const ConsideredPlans& considered,
                const CostModel& costs) {
  const ConsideredPlan* chosen = considered.chosen();
  MW_CHECK(chosen != nullptr && chosen->simulated &&
               to_sim_time(*chosen->simulated) == to_sim_time(planned.plan.predicted.step_time) &&
               chosen->stages.size() == planned.plan.stages.size(),
           "the record of the search does not have the plan of {} s", planned.plan.predicted.step_time.si());
  create(folder);
  write_file(file_in(folder, "candidates.csv"), candidates_csv(considered));
  write_file(file_in(folder, "layers.csv"), layers_csv(planned));
  write_file(file_in(folder, "stages.csv"), stages_csv(planned, *chosen));
  // What was searched and predicted may be lowered in part.
  const Graph& graph = planned.result.graph;
  const Program program = lower(planned.plan, graph, costs);
  write_file(file_in(folder, "collectives.csv"), collectives_csv(program, graph, costs));
  write_file(file_in(folder, "resharding.csv"), resharding_csv(program, graph));
  write_programs(folder, planned, program, costs);
}

void write_candidates(const std::string& folder, const ConsideredPlans& considered) {
  create(folder);
  write_file(file_in(folder, "candidates.csv"), candidates_csv(considered));
}

}  // namespace meshwright
