// SPDX-License-Identifier: Apache-2.0
// meshwright run: run a plan on this machine and set what was measured beside what was predicted.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "cli/documents/figures/report.h"
#include "cli/documents/run/exact_run.h"
#include "cli/documents/run/measured_run.h"
#include "cli/documents/run/run_data.h"
#include "cli/documents/run/run_page.h"
#include "cli/documents/run/run_state.h"
#include "cli/documents/step/reuse.h"
#include "cli/machine/machine.h"
#include "cli/machine/other_load.h"
#include "cli/machine/processes.h"
#include "cli/machine/product_algorithms.h"
#include "cli/machine/provenance.h"
#include "cli/options/options.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/planner/make_plan.h"
#include "core/planner/stages/measured_stages.h"
#include "executor/check/check_run.h"
#include "executor/exact/exact_ops.h"
#include "executor/executor.h"
#include "executor/measure/profiler.h"
#include "executor/ops/gpu_lacks.h"

namespace meshwright {

namespace {

struct RunVerbOptions {
  std::string plan, trace, db, html;
  ProfileSource profile;
  MachineOptions machine;
  std::string steps = "3", warmup = "1", seed = "1";
  ReuseOptions reuse;
  RunDataOptions data;
  RunStateOptions state;
  std::string patience = "30";
  bool check = false, exact = false, json = false, report = false;
};

constexpr int kMaxDevices = 64;
constexpr long kMaxSteps = 1'000'000;
constexpr int kMaxRecordedSteps = 100;  // whose stages' times are kept for the database
constexpr double kMemoryShare = 0.9;    // of this machine's memory: other programs and libraries take theirs

// The plan's own figures, or those of the profile when one is given; a changed plan has none of its own, nor has one of
// a step under conditions that the executor does not make. No interval is
// known of devices that share GPUs.
void add_prediction(MeasuredRun& run, const Costs& costs) {
  if (run.machine.shares_gpus()) {
    std::optional<Occupancy> occupancy;
    if (costs.db) occupancy.emplace(*costs.db);
    const Prediction prediction =
        predict_shared(run.loaded.program, *costs.model, run.machine.gpu_of_device, occupancy ? &*occupancy : nullptr);
    run.predicted = prediction.step;
    run.predicted_stages = prediction.stages;
    run.prediction_source = costs.source + ", sharing GPUs";
    return;
  }
  if (costs.db || run.reuse.changed() || !run.plan.conditions.empty()) {
    const Prediction prediction = predict(run.loaded.program, *costs.model);
    run.predicted = prediction.step;
    run.predicted_stages = prediction.stages;
    run.prediction_source = costs.source;
  } else {
    run.predicted = run.plan.predicted.step_time;
    for (const StagePlan& stage : run.plan.stages)
      run.predicted_stages.push_back({stage.forward, stage.backward, stage.update});
    run.prediction_source = "the plan";
  }
  run.interval = forecast_of(run.plan, *run.loaded.graph, run.loaded.program, nullptr, costs, run.predicted).step;
}

// The best product that a profile measured on one thread of this machine, in the type that it computes in. The rate of
// a thread in the cluster's description is that of no processor in particular.
std::optional<FlopsPerSecond> measured_peak(const MeasuredRun& run, const ProfileDb* db) {
  std::optional<FlopsPerSecond> best;
  if (db == nullptr || run.machine.gpus > 0) return best;
  for (const ProfileSession& session : db->sessions()) {
    if (session.device != run.machine.device) continue;
    for (const HostGroup& group : session.cluster.groups) {
      const auto peak = group.device.peak.find(name_of(run.machine.numbers));
      if (peak != group.device.peak.end()) best = best ? std::max(*best, peak->second) : peak->second;
    }
  }
  return best;
}

// The pools count what check_program counts, byte for byte.
void check_memory(const MeasuredRun& run) {
  const std::vector<Bytes>&counted = run.result.peak_memory, &predicted = run.loaded.check.peak_memory;
  for (std::size_t d = 0; d < counted.size(); ++d)
    MW_CHECK(counted[d] == predicted[d], "device {} held {} bytes at its peak, {} were predicted", d, counted[d].si(),
             predicted[d].si());
}

CheckedWork work_of(const Plan& plan) { return {plan.model, plan.training, plan.schedule != ScheduleKind::Inference}; }

RunCheck check(const MeasuredRun& run) {
  check_memory(run);
  Progress progress;
  progress("reference: the same steps on one device");
  RunCheck checked{check_run(work_of(run.plan), run.options, run.result), {}, 0.0};
  const auto share = [](const CheckedTensor& tensor) {
    return tensor.bound > 0.0 ? tensor.difference / tensor.bound : 0.0;
  };
  checked.worst = checked.all.front();
  for (const CheckedTensor& tensor : checked.all) {
    checked.largest_difference = std::max(checked.largest_difference, tensor.difference);
    if (share(tensor) > share(checked.worst)) checked.worst = tensor;
  }
  return checked;
}

// What the threads of this process allocate together. Buffers that live throughout are counted one by one; what comes
// and goes is mostly activations, of the plan's type.
Bytes memory_of_run(const MeasuredRun& run) {
  const Program& program = run.loaded.program;
  std::vector<Bytes> kept(program.stages.size(), Bytes(0.0));  // on one device of each rank, by its first stage
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent)
      kept[program.first_of_rank(buffer.stage).index()] +=
          Bytes(static_cast<double>(buffer.local.elements() * run.machine.size_of(buffer.local.dtype)));
  const DType planned = run.plan.training.dtype;
  const double wider = static_cast<double>(run.machine.size_of(planned)) / static_cast<double>(size_of(planned));
  Bytes total(0.0);
  for (std::size_t d = 0; d < program.devices.size(); ++d)
    if (run.machine.backend->runs_here(DeviceId(static_cast<int>(d))))
      total += kept[program.stage_of_device[d].index()] +
               wider * (run.loaded.check.peak_memory[d] - program.persistent_bytes[d]);
  return total;
}

// What lies on the host beside the GPUs of this process.
Bytes state_on_host(const MeasuredRun& run) {
  Bytes total(0.0);
  for (std::size_t d = 0; d < run.loaded.program.host_bytes.size(); ++d)
    if (run.machine.backend->runs_here(DeviceId(static_cast<int>(d)))) total += run.loaded.program.host_bytes[d];
  return total;
}

// Checked before the run: a process that takes more memory than there is does not fail, it is killed, maybe with
// others.
void expect_enough_memory(const MeasuredRun& run, const std::string& path, bool with_check, const Peers* peers) {
  const double processes = peers == nullptr ? 1.0 : peers->size_on_host();  // which take about as much each
  Bytes needed = processes * (run.machine.gpus == 0 ? memory_of_run(run) : state_on_host(run));
  if (with_check) needed = std::max(needed, memory_of_reference(work_of(run.plan), run.options.precision));
  const Bytes there = kMemoryShare * memory_of_this_machine();
  if (needed > there)
    throw SystemError(
        fmt::format("{}: running this plan needs {}, but this machine has {} available; plan for a smaller --batch, a "
                    "smaller model, or fewer devices.",
                    path, human_bytes(needed), human_bytes(there)));
}

// True in one process, whatever runs.
bool speaks(const Peers* peers) { return peers == nullptr || peers->rank() == 0; }

void say(const Peers* peers, const std::string& what) {
  if (speaks(peers)) Progress()(what);
}

// The plan's program, on what the options say.
void load(MeasuredRun& run, const RunVerbOptions& options, Peers* peers) {
  run.made = read_plan(options.plan);
  run.plan = reuse_plan(run.made, options.plan, options.reuse);
  MachineOptions machine = options.machine;
  machine.check = options.check;
  machine.exact = options.exact;
  if (options.exact) machine.precision = "f64";  // in which residues lie
  run.machine = find_machine(machine, run.plan.cluster.devices(), peers);
  if (peers != nullptr) {
    run.places = process_places(run.plan.cluster, *peers);
    expect_hosts_of_plan(run.plan.cluster, run.places, options.plan);
  }
  require(run.plan.cluster.devices() <= kMaxDevices * run.machine.processes,
          "{}: the plan has {} devices, but one process runs at most {} threads; plan for fewer with --nodes and "
          "--devices-per-node, or start more processes.",
          options.plan, run.plan.cluster.devices(), kMaxDevices);
}

// --exact: nothing is measured or predicted.
void run_exactly(const RunVerbOptions& options, Peers* peers) {
  MeasuredRun run;
  load(run, options, peers);
  const int steps = static_cast<int>(count_from_text(options.steps, "--steps", kMaxSteps));
  run.options = exact_options(steps, seed_from_text(options.seed));
  const Costs costs = costs_for(run.plan.cluster, options.profile, run.plan.software);
  run.loaded = load_plan_of(options.plan, run.plan, *costs.model);
  run.reuse = reuse_of(run.made, run.plan, run.loaded, *costs.model);
  exact::expect_treated(*run.loaded.graph);
  expect_enough_memory(run, options.plan, speaks(peers), peers);
  say(peers, fmt::format("running {} steps on {} over integers modulo a prime", steps, run.machine.devices));
  run.result = run_program(*run.loaded.graph, run.loaded.program, run.loaded.check, run.options, *run.machine.backend);
  if (!speaks(peers)) return;
  check_memory(run);
  say(peers, "reference: the same steps on one device");
  const ExactReference reference = exact_reference(graph_of_reference(work_of(run.plan)), steps, run.options.seed);
  const ExactRun found{run.made,
                       run.plan,
                       run.reuse,
                       run.machine.devices,
                       steps,
                       run.options.seed,
                       compare_exactly(*run.loaded.graph, run.result, reference)};
  expect_equal(found);
  if (options.json) return print(to_json(found));
  print(to_text(found));
}

// `db`: of --db, where it gives algorithms; else null.
MeasuredRun execute(const RunVerbOptions& options, const ProfileDb* db, Peers* peers) {
  MeasuredRun run;
  load(run, options, peers);
  run.warmup = static_cast<int>(parse_integer(options.warmup, "--warmup", 0, kMaxSteps));
  run.options.steps = run.warmup + static_cast<int>(count_from_text(options.steps, "--steps", kMaxSteps));
  if (!options.db.empty() || options.report)
    run.options.recorded_steps = std::min(kMaxRecordedSteps, run.options.steps - run.warmup);
  run.options.op_times = options.report;
  run.options.seed = seed_from_text(options.seed);
  run.options.keep_tensors = options.check || !options.data.save_weights.empty();
  run.options.precision = run.machine.numbers;
  const Costs costs =
      costs_for(run.plan.cluster, options.profile, options.profile.empty() ? run.plan.software : std::string{});
  take_product_algorithms(run.machine, {costs.db.get(), db});
  run.loaded = load_plan_of(options.plan, run.plan, *costs.model);
  if (run.machine.gpus > 0) expect_gpu_computes(*run.loaded.graph, options.plan);
  run.reuse = reuse_of(run.made, run.plan, run.loaded, *costs.model);
  const RunData data(options.data, run.plan.model, *run.loaded.graph, run.options);
  RunState state(options.state, run.plan, *run.loaded.graph, run.options, peers);
  for (const std::string& sentence : state.passed_over()) say(peers, sentence);  // also where the result is JSON
  add_prediction(run, costs);
  run.measured_peak = measured_peak(run, costs.db.get());
  expect_enough_memory(run, options.plan, options.check && speaks(peers), peers);
  run.gpu_needs = gpu_memory_needs(run.machine, *run.loaded.graph, run.loaded.program);
  expect_enough_gpu_memory(run.machine, run.gpu_needs, options.plan);

  say(peers, fmt::format("running {} steps on {}", run.options.steps, run.machine.devices));
  const SoftwareSetup software = software_name_from_text(run.plan.software).setup;
  if (software.eight_bit_products)
    say(peers, fmt::format("the plan is priced with products of 8 bits; they run in {}", name_of(run.machine.numbers)));
  if (software.narrow_states || software.moment_bits < 32)
    say(peers, "the plan is priced with states in fewer bits; they are kept as any plan's");
  if (software.fused_attention == false)
    say(peers, "the plan is priced with scores of attention in memory; a fused kernel runs it");
  if (software.loss_chunks != 1) say(peers, "the plan is priced with a loss in chunks of tokens; it runs whole");
  const OtherLoad others;
  state.tell_steps(run.options, run.plan, run.predicted);
  run.result = run_program(*run.loaded.graph, run.loaded.program, run.loaded.check, run.options, *run.machine.backend);
  if (!speaks(peers)) return run;
  run.asked = run.options.steps;
  const int done = static_cast<int>(run.result.step_times.size());
  run.why_ended = state.end(run.options, done, options.plan);
  run.warmup = std::min(run.warmup, done - 1);  // a run that was stopped that early is told by its last step
  run.product_algorithms = count_usable_algorithms(run.machine);
  if (peers == nullptr) run.other_load_cores = others.cores();  // these would not be told from our other processes
  run.measured = median({run.result.step_times.begin() + run.warmup, run.result.step_times.end()});
  run.fastest = *std::min_element(run.result.step_times.begin() + run.warmup, run.result.step_times.end());
  run.measured_stages = mean_stage_times(run.result.timeline, run.loaded.program, 1);
  run.time = time_of_run(run.loaded.program, *run.loaded.graph, run.plan.cluster, *costs.model, run.result);
  if (options.report)
    run.op_times = op_time_rows(run.loaded.program, *run.loaded.graph, run.plan.cluster, *costs.model, run.result);
  if (options.check) run.checked = check(run);
  run.data_lines = state.lines() + data.read() + data.write(run.result, run.machine.numbers);
  return run;
}

// `peers`: the processes that do it together, or null. The result is why the run ended before its last step, if it did.
std::optional<std::string> run_plan(const RunVerbOptions& options, const std::string& command_line, Peers* peers) {
  if (options.exact) {
    run_exactly(options, peers);
    return std::nullopt;
  }
  if (speaks(peers)) {
    std::vector<std::string> files = {options.plan, options.profile.path, options.db, options.reuse.schedule_csv};
    expect_writable(options.trace, files);
    files.push_back(options.trace);
    expect_writable(options.html, files);
  }
  std::optional<ProfileDb> db;
  if (!options.db.empty() && speaks(peers))
    db.emplace(options.db, ProfileDb::Mode::ReadWrite);  // refuses a wrong file before the run
  // Not what others do not read: all processes take the same algorithms.
  const MeasuredRun run = execute(options, db && peers == nullptr ? &*db : nullptr, peers);
  if (!speaks(peers)) return std::nullopt;
  const RunFiles files{options.trace, options.db, options.html};
  const Json json = to_json(run, files);
  if (!options.trace.empty())
    write_file(options.trace,
               to_chrome_trace(run.result.timeline,
                               fmt::format("{} on {}, measured", run.plan.model.name, run.machine.devices)));
  if (!options.html.empty()) write_run_page(run, files, {options.html, options.profile, command_line});
  if (db) {
    const std::int64_t session = db->add_session(make_session(run.plan.cluster, command_line));
    db->put_run(session, json_text(to_json(run.plan)), run.predicted, run.measured, json_text(json));
    if (run.measures_stages())
      db->put_stage_profile(session, measured_stages(run.plan, *run.loaded.graph, run.result.timelines));
  }
  options.json ? print(json) : print(to_text(run, files));
  return run.why_ended;
}

// What --exact neither measures nor reads.
void expect_alone(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_single_name();
    constexpr const char* kKnown[] = {"plan",         "exact", "steps",   "seed",          "transport",
                                      "json",         "batch", "seq",     "micro-batches", "schedule",
                                      "schedule-csv", "help",  "patience"};
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
    require(option->count() == 0 || known,
            "--exact: it computes over integers modulo a prime, on threads, with values of its own, and measures "
            "nothing; leave out --{}.",
            name);
  }
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto options = std::make_shared<RunVerbOptions>();
  CLI::App* verb = app.add_subcommand("run", "Run a plan on threads or GPUs of this machine.");
  verb->add_option("plan", options->plan, "plan file, as written by `meshwright plan -o`")->required();
  add_reuse_options(*verb, options->reuse, false);
  verb->add_option("--steps", options->steps, "number of training steps to measure")->capture_default_str();
  verb->add_option("--warmup", options->warmup, "number of training steps before the measured ones")
      ->capture_default_str();
  verb->add_flag("--check", options->check,
                 "compare losses and weights with a reference: the same steps on one device without a plan");
  verb->add_flag("--exact", options->exact,
                 "compute over the integers modulo a prime instead of in numbers, and compare every tensor of every "
                 "device with one device alone, to the bit");
  verb->add_option("--precision", options->machine.precision,
                   "arithmetic: f32 (fast kernels) or f64 (reference kernels); with --backend cuda also plan (each "
                   "tensor in the plan's type), bf16 or f16 (default: f32 on cpu, plan on cuda)");
  verb->add_option("--seed", options->seed, "seed of the initial weights and the samples")->capture_default_str();
  verb->add_option("--backend", options->machine.backend, "where devices of the plan run: cpu (threads) or cuda (GPUs)")
      ->capture_default_str();
  verb->add_option("--gpus", options->machine.gpus,
                   "with --backend cuda: number of GPUs; devices of the plan share them when there are fewer (default: "
                   "one per device of the plan, at most all)");
  verb->add_option("--graphs", options->machine.graphs,
                   "with --backend cuda: auto: capture the step as a CUDA graph and replay it where possible; off: "
                   "issue every op by itself under its name, as a recording with nsys needs")
      ->capture_default_str();
  verb->add_option("--transport", options->machine.transport,
                   "how devices communicate: inproc (one process), mpi (processes started together by mpirun or srun, "
                   "on one host or several), nccl (one process, NCCL collectives between GPUs) or mpi+nccl")
      ->capture_default_str();
  add_patience_option(*verb, options->patience);
  add_run_data_options(*verb, options->data);
  add_run_state_options(*verb, options->state);
  add_profile_options(*verb, options->profile,
                      "profile database for the prediction (default: the plan's own figures); with --backend cuda also "
                      "the product algorithms stored for this GPU");
  verb->add_option("--trace", options->trace, "write a Chrome/Perfetto trace of the last step to this file");
  verb->add_option("--html", options->html, kRunHtmlHelp);
  verb->add_option("--db", options->db,
                   "store the run and its stage times in this profile database, for `meshwright plan --stage-profile`; "
                   "with --backend cuda also use the product algorithms stored there");
  verb->add_flag("--report", options->report,
                 "print the measured time of each kind of op beside what was predicted and the roofline; steps are "
                 "then issued op by op");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer(
      "Examples:\n  meshwright run plan.json --steps 5 --check --precision f64\n  mpirun -n 2 meshwright run plan.json "
      "--transport mpi --check");
  verb->callback([&context, options, verb] {
    if (options->exact) expect_alone(*verb);
    context.action = [&context, options] {
      const Seconds patience = patience_from_text(options->patience);
      std::optional<std::string> why_ended;
      if (!joins_processes(options->machine) || !knows_mpi())
        why_ended = run_plan(*options, context.command_line, nullptr);  // which says that this build has no MPI part
      else
        work_together(context, patience,
                      [&](Peers& peers) { why_ended = run_plan(*options, context.command_line, &peers); });
      if (why_ended) throw Interrupted(*why_ended);
    };
  });
}

}  // namespace meshwright
