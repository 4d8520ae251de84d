// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/profile_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/documents/figures/report.h"
#include "cli/machine/machine.h"
#include "cli/machine/product_algorithms.h"
#include "cli/machine/provenance.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/planner/make_plan.h"
#include "costmodel/recorded_steps.h"
#include "executor/executor.h"

namespace meshwright {

namespace {

constexpr long kMaxSteps = 10'000;       // before those that are recorded
constexpr long kMaxRecorded = 1'000;     // their recordings are kept in memory
constexpr std::size_t kNamedOthers = 3;  // kernels of no op

// The contents of the document and of its JSON form. Times are per device and step unless a comment says otherwise.
struct PlanProfile {
  Plan plan;
  ProfileSession session;
  std::string devices, recorder;
  int gpus = 0;  // each is a device of the plan
  int warmup = 0, steps = 0;
  Seconds plain{0.0}, recorded{0.0};  // medians of a step
  RecordedSteps found;
  Seconds whole{0.0};  // of all devices and recorded steps

  [[nodiscard]] Seconds mean(Seconds of_all) const { return (1.0 / gpus / steps) * of_all; }
  [[nodiscard]] double share(Seconds of_all) const { return of_all / whole; }
  [[nodiscard]] Seconds idle() const {
    Seconds left = whole;
    for (const auto& [device, busy] : found.busy) left -= busy;
    return left;
  }
};

// The longest time first.
template <class Kinds>
auto by_time(const Kinds& kinds) {
  std::vector<std::pair<std::string, typename Kinds::mapped_type>> rows(kinds.begin(), kinds.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  return rows;
}

RecordedSteps::Work all_others(const RecordedSteps& found) {
  RecordedSteps::Work all;
  for (const auto& [name, work] : found.of_no_range) {
    all.count += work.count;
    all.time += work.time;
  }
  return all;
}

Machine machine_for(const ProfilePlanOptions& options, const Plan& plan) {
  require(plan.cluster.uniform(), "{}: the plan is for {} host groups; record a plan for hosts of one kind.",
          options.plan, plan.cluster.groups.size());
  require(!options.transport.starts_with("mpi"),
          "--transport: steps are recorded in one process; give inproc or nccl.");
  MachineOptions wanted;
  wanted.backend = "cuda";
  wanted.transport = options.transport;
  wanted.gpus = options.gpus;
  Machine machine = find_machine(wanted, plan.cluster.devices(), nullptr);
  require(machine.is_that_of(plan.cluster),
          "{}: the plan is for {}, but this machine has {}; make a plan for these GPUs.", options.plan,
          plan.cluster.name, machine.device);
  require(!machine.shares_gpus(),
          "{}: {} would share GPUs, which distorts the times of their ops; plan for as many devices as GPUs, with "
          "--devices-per-node {}.",
          options.plan, machine.devices, machine.gpus);
  return machine;
}

WorkRecorder& recorder_of(const Machine& machine) {
  WorkRecorder* const recorder = machine.backend->recorder();
  require(recorder != nullptr, "--plan: this build has no CUPTI support; configure it with -DMESHWRIGHT_CUPTI=ON.");
  // Before minutes of work: whether it may.
  recorder->start();
  (void)recorder->stop();
  return *recorder;
}

void expect_ops(const RecordedSteps& found) {
  if (!found.times.ops.empty() || !found.times.collectives.empty()) return;
  throw SystemError(
      fmt::format("none of the {} recorded kernels and copies belongs to an op; import a recording of Nsight Systems "
                  "instead (`meshwright import`).",
                  all_others(found).count));
}

ProfileSession session_of(const Machine& machine, const std::string& recorder, Cluster cluster,
                          const std::string& command_line) {
  cluster.only().device.name = machine.device;
  ProfileSession session = make_session(cluster, command_line);
  session.device = machine.device;
  session.libraries = fmt::format("{}; {}", machine.libraries, recorder);
  return session;
}

void store(ProfileDb& db, const ProfileSession& session, const RecordedSteps& found) {
  db.put_together([&] {
    const std::int64_t id = db.add_session(session);
    for (const OpProfile& op : found.times.ops) db.put(id, op);
    for (const CollectiveProfile& collective : found.times.collectives) db.put(id, collective);
    for (const TransferProfile& transfer : found.transfers) db.put(id, transfer);
  });
}

// The run, and what is known after it.
void record(PlanProfile& profiled, const Machine& machine, const ProfilePlanOptions& options,
            const std::string& command_line) {
  profiled.session = session_of(machine, profiled.recorder, profiled.plan.cluster, command_line);
  const Costs costs = costs_for(profiled.plan.cluster, {}, "");
  const LoadedPlan loaded = load_plan_of(options.plan, profiled.plan, *costs.model);
  expect_enough_gpu_memory(machine, gpu_memory_needs(machine, *loaded.graph, loaded.program), options.plan);

  RunOptions run;
  run.precision = machine.numbers;
  run.steps = profiled.warmup + 2 * profiled.steps;
  run.steps_with_work = profiled.steps;
  run.keep_tensors = false;
  Progress progress;
  progress(fmt::format("running {} steps on {}, recording the last {}", run.steps, machine.devices, profiled.steps));
  const RunResult result = run_program(*loaded.graph, loaded.program, loaded.check, run, *machine.backend);

  const std::vector<Seconds>& times = result.step_times;
  const auto first_recorded = times.end() - profiled.steps;
  profiled.plain = median({times.begin() + profiled.warmup, first_recorded});
  profiled.recorded = median({first_recorded, times.end()});
  profiled.found = recorded_steps(result.work);
  expect_ops(profiled.found);
  for (auto step = first_recorded; step != times.end(); ++step)
    profiled.whole += static_cast<double>(profiled.gpus) * *step;
}

// --- the document ---

std::string table_of(const PlanProfile& profiled) {
  TextTable table({{"op", ""}, {"different", ""}, {"in a step", ""}, {"time", "(ms)"}, {"share", "(%)"}});
  const auto in_a_step = [&](std::int64_t all) {
    return fmt::format("{:.6g}", static_cast<double>(all) / profiled.steps);
  };
  const auto add = [&](const std::string& name, const std::string& different, const std::string& count, Seconds all) {
    table.add_row({name, different, count, in_milliseconds(profiled.mean(all)), in_percent(profiled.share(all))});
  };
  for (const auto& [name, kind] : by_time(profiled.found.times.kinds))
    add(name, fmt::format("{}", kind.different), in_a_step(kind.occurrences), kind.time);
  const RecordedSteps::Work others = all_others(profiled.found);
  add("(no op)", fmt::format("{}", profiled.found.of_no_range.size()), in_a_step(others.count), others.time);
  add("(idle)", "", "", profiled.idle());
  return table.to_text();
}

std::string document(const PlanProfile& profiled, const std::string& db) {
  std::string text = header_lines("profile", profiled.plan) + provenance_line(profiled.session);
  text += fmt::format("# {}: {} steps recorded by {}, after {} without recording; times are per device and step\n",
                      profiled.devices, profiled.steps, profiled.recorder, profiled.warmup + profiled.steps);
  text += table_of(profiled);
  const auto others = by_time(profiled.found.of_no_range);
  for (std::size_t i = 0; i < std::min(kNamedOthers, others.size()); ++i)
    text += fmt::format("# outside ops: {} ms in {} of '{}'\n", in_milliseconds(profiled.mean(others[i].second.time)),
                        others[i].second.count, others[i].first);
  text += fmt::format("# idle between kernels of one op: {} ms, not counted as part of the op\n",
                      in_milliseconds(profiled.mean(profiled.found.times.gaps)));
  text += fmt::format("# step time {} ms with recording, {} ms without (medians of {}): recording costs {:+.1f} %\n",
                      in_milliseconds(profiled.recorded), in_milliseconds(profiled.plain), profiled.steps,
                      100 * ((profiled.recorded - profiled.plain) / profiled.plain));
  return text + fmt::format("# {} ops, {} collectives and {} transfers stored in {}\n", profiled.found.times.ops.size(),
                            profiled.found.times.collectives.size(), profiled.found.transfers.size(), db);
}

// Occurrences and totals are of all devices and recorded steps.
Json to_json(const PlanProfile& profiled, const std::string& db) {
  Json json = header_json("profile", profiled.plan);
  Json kinds = Json::array(), others = Json::array(), busy = Json::array();
  for (const auto& [name, kind] : by_time(profiled.found.times.kinds))
    kinds.push_back({{"op", name},
                     {"different", kind.different},
                     {"occurrences", kind.occurrences},
                     {"total_s", kind.time.si()},
                     {"share", profiled.share(kind.time)}});
  for (const auto& [name, work] : by_time(profiled.found.of_no_range))
    others.push_back({{"name", name}, {"count", work.count}, {"total_s", work.time.si()}});
  for (const auto& [device, time] : profiled.found.busy) busy.push_back({{"gpu", device}, {"busy_s", time.si()}});
  json["measured_on"] = provenance_json(profiled.session);
  json["devices"] = profiled.devices;
  json["recorder"] = profiled.recorder;
  json["warmup"] = profiled.warmup;
  json["steps"] = profiled.steps;
  json["kinds"] = std::move(kinds);
  json["of_no_op"] = std::move(others);
  json["gpus"] = std::move(busy);
  json["idle"] = profiled.share(profiled.idle());
  json["total_gaps_s"] = profiled.found.times.gaps.si();
  json["recorded_step_time_s"] = profiled.recorded.si();
  json["measured_step_time_s"] = profiled.plain.si();
  json["ops"] = profiled.found.times.ops.size();
  json["collectives"] = profiled.found.times.collectives.size();
  json["transfers"] = profiled.found.transfers.size();
  json["db"] = db;
  return json;
}

}  // namespace

void profile_plan(const ProfilePlanOptions& options, const std::string& command_line) {
  PlanProfile profiled;
  profiled.warmup = static_cast<int>(parse_integer(options.warmup, "--warmup", 0, kMaxSteps));
  profiled.steps = static_cast<int>(count_from_text(options.steps, "--steps", kMaxRecorded));
  profiled.plan = read_plan(options.plan);
  const Machine machine = machine_for(options, profiled.plan);
  profiled.devices = machine.devices;
  profiled.gpus = machine.gpus;
  profiled.recorder = recorder_of(machine).describe();
  ProfileDb db(options.db, ProfileDb::Mode::ReadWrite);  // refuses a wrong file before the run
  take_product_algorithms(machine, {&db});
  record(profiled, machine, options, command_line);
  (void)count_usable_algorithms(machine);
  store(db, profiled.session, profiled.found);
  if (options.json) return print(to_json(profiled, options.db));
  print(document(profiled, options.db));
}

}  // namespace meshwright
