// SPDX-License-Identifier: Apache-2.0
// meshwright profile: measure this machine into a profile database. profile_machine.h says on which devices,
// profile_work.h what is measured, profile_measure.h how often, profile_fit.h what becomes of it where a plan needs
// something that was not measured. With --plan what is measured is what ops take in its steps (profile_plan.h).
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <span>

#include "cli/machine/other_load.h"
#include "cli/machine/processes.h"
#include "cli/machine/product_algorithms.h"
#include "cli/machine/provenance.h"
#include "cli/options/options.h"
#include "cli/profiling/profile_machine.h"
#include "cli/profiling/profile_measure.h"
#include "cli/profiling/profile_peers.h"
#include "cli/profiling/profile_plan.h"
#include "cli/terminal/interruption.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/graph/import/find_model.h"

namespace meshwright {

namespace {

struct ProfileOptions {
  ProfiledMachineOptions machine;
  std::vector<std::string> dims;
  std::string db, model, batch, seq, budget, optimizer = "adam", micro_batches = "1,2,4", patience = "30";
  bool quick = false, json = false;
  ProfilePlanOptions steps;  // of --plan
};

// Stand-ins for a model that is not known yet: products and passes over four orders of magnitude.
struct Sample {
  const char* model;
  std::int64_t batch;
};
constexpr Sample kSamples[] = {
    {"mlp:layers=1,hidden=64", 64},    {"gpt:layers=1,hidden=64,heads=4,seq=32,vocab=128", 8},
    {"mlp:layers=1,hidden=256", 128},  {"gpt:layers=1,hidden=256,heads=8,seq=128,vocab=1024", 8},
    {"mlp:layers=1,hidden=1024", 256}, {"gpt:layers=1,hidden=768,heads=12,seq=256,vocab=8192", 8},
};
constexpr Sample kGpuSamples[] = {
    {"mlp:layers=1,hidden=256", 512},   {"gpt:layers=1,hidden=256,heads=4,seq=256,vocab=1024", 16},
    {"mlp:layers=1,hidden=2048", 2048}, {"gpt:layers=1,hidden=1024,heads=16,seq=1024,vocab=51200", 8},
    {"mlp:layers=1,hidden=8192", 8192}, {"gpt:layers=1,hidden=4096,heads=32,seq=2048,vocab=51200", 8},
};
constexpr std::size_t kQuickSamples = 4;

Seconds budget_of(const ProfileOptions& options) {
  if (options.budget.empty()) return Seconds(options.quick ? 20.0 : 120.0);
  return Seconds(static_cast<double>(count_from_text(options.budget, "--budget", 7 * 24 * 3600)));
}

// What a device that has all of a model touches in a step at least: four numbers for each parameter, computed in F32,
// from a small step's to more than any cache holds of one device's.
Bytes step_of(const std::vector<std::shared_ptr<const Graph>>& graphs) {
  const Bytes small = MeasureOptions().step, large = 4.0 * small;
  Bytes most = small;
  for (const std::shared_ptr<const Graph>& graph : graphs)
    most = std::max(most, Bytes(4.0 * sizeof(float) * static_cast<double>(parameter_count(*graph))));
  return std::min(most, large);
}

std::vector<std::shared_ptr<const Graph>> graphs_to_measure(const ProfileOptions& options,
                                                            const ProfiledMachine& machine) {
  TrainingOptions training;
  training.dtype = machine.dtype;
  training.optimizer.kind = optimizer_from_text(options.optimizer);
  std::vector<std::shared_ptr<const Graph>> graphs;
  if (options.model.empty()) {
    require(options.batch.empty() && options.seq.empty(), "--batch and --seq need a --model.");
    const std::span<const Sample> all = machine.gpus ? std::span<const Sample>(kGpuSamples) : kSamples;
    for (const Sample& sample : all.first(options.quick ? kQuickSamples : all.size())) {
      training.batch = sample.batch;
      graphs.push_back(std::make_shared<const Graph>(build_training_graph(find_model(sample.model), training)));
    }
    return graphs;
  }
  PlanningOptions like;
  like.model = options.model;
  like.dims = options.dims;
  like.seq = options.seq;
  const ModelConfig model = model_from_options(like);
  training.batch = options.batch.empty() ? model.default_batch : count_from_text(options.batch, "--batch", 1L << 40);
  for (const std::string& text : split(options.micro_batches, ',')) {
    training.microbatches = count_from_text(text, "--micro-batches", 1L << 20);
    require(training.batch % training.microbatches == 0,
            "--micro-batches: a batch of {} cannot be divided into {} micro-batches; give numbers that divide it, such "
            "as 1,2,4.",
            training.batch, training.microbatches);
    graphs.push_back(std::make_shared<const Graph>(build_training_graph(model, training)));
  }
  return graphs;
}

std::vector<std::int64_t> message_sizes(const ProfiledMachine& machine, bool quick) {
  std::vector<std::int64_t> sizes;
  if (machine.gpus && machine.joined < 2) return sizes;
  // Up to where a message takes what its bytes take: far more of them on GPUs.
  const std::int64_t largest = machine.gpus ? 1 << 28 : quick ? 1 << 22 : 1 << 26;
  for (std::int64_t size = 1 << 10; size <= largest; size *= quick ? 16 : 4) sizes.push_back(size);
  return sizes;
}

void store(ProfileDb& db, std::int64_t id, const ProfileSession& session, const Measurements& results,
           const std::optional<Measurement>& message_work) {
  db.put_together([&] {
    for (const MeasuredOp& op : results.ops) db.put(id, op.profile);
    for (const CollectiveProfile& collective : results.collectives) db.put(id, collective);
    for (const TransferProfile& transfer : results.transfers) db.put(id, transfer);
    db.put_overhead(id, "run", results.run_overhead);
    if (results.launch) db.put_overhead(id, "launch", *results.launch);
    if (message_work) db.put_overhead(id, kMessageWork, *message_work);
    db.finish_session(id, session);
  });
}

// Measures with what an unfinished profile of this machine has left, and keeps each op as soon as it is measured.
Measurements measure_into(ProfileDb& db, std::int64_t id, const ProfileSession& session, MeasurementPlan plan,
                          Measurer& measurer, const std::string& path) {
  for (const OpProfile& op : db.unfinished_ops(session))
    if (op.concurrency == measurer.concurrency()) plan.known.emplace(op.signature, op.time);
  if (!plan.known.empty()) tell(fmt::format("going on with {} ops of an unfinished profile", plan.known.size()));
  std::size_t kept = plan.known.size();
  const Interruption interruption;
  plan.on_op = [&](const OpProfile& op) {
    db.put(id, op);
    ++kept;
  };
  plan.stop = [&] { return interruption.requested(); };
  Progress progress;
  std::optional<Measurements> results = measure(plan, measurer, progress);
  if (!results)
    throw Interrupted(fmt::format(
        "the profile was interrupted with {} of {} ops measured; they are stored in {}, and the same command goes on.",
        std::min(kept, plan.ops.size()), plan.ops.size(), path));
  return std::move(*results);
}

struct KindSummary {
  int count = 0;
  Seconds shortest{0.0}, longest{0.0};
  double best_gflops = 0.0, best_gbytes = 0.0;
};

std::map<std::string, KindSummary> summarize(const std::vector<MeasuredOp>& ops) {
  std::map<std::string, KindSummary> kinds;
  for (const auto& [profile, op_kind, dtype, added] : ops) {
    KindSummary& kind = kinds[name_of(op_kind)];
    const Seconds time = profile.time.median;
    kind.shortest = kind.count == 0 ? time : std::min(kind.shortest, time);
    kind.longest = std::max(kind.longest, time);
    ++kind.count;
    if (added || time.si() <= 0.0) continue;
    kind.best_gflops = std::max(kind.best_gflops, profile.flops / time.si() / 1e9);
    kind.best_gbytes = std::max(kind.best_gbytes, profile.bytes / time.si() / 1e9);
  }
  return kinds;
}

// What was measured of a device and of what joins it to others.
std::string device_lines(const ProfileSession& session, const Measurements& results) {
  const DeviceKind& device = session.cluster.only().device;
  std::string text;
  for (const auto& [dtype, peak] : device.peak)
    text += fmt::format("# {} products: best {:.2f} GFLOP/s; large products reach {} % of it\n", dtype, peak.si() / 1e9,
                        in_percent(device.matmul_efficiency));
  text += fmt::format("# {}: {} {:.2f} GB/s; large passes reach {} % of it\n",
                      results.copy_bandwidth ? "passes over memory, relative to a copy" : "passes over memory",
                      results.copy_bandwidth ? "the copy" : "best", device.memory_bandwidth.si() / 1e9,
                      in_percent(device.memory_efficiency));
  const std::string run = fmt::format("one empty run {:.2f} us", results.run_overhead.median.si() * 1e6);
  const LinkCost& link = session.cluster.only().within_host;
  if (results.transfers.empty())
    text += fmt::format("# between devices: not measured; {}\n", run);
  else
    text += fmt::format("# between devices: {:.2f} us and {:.2f} GB/s; {}\n", link.alpha.si() * 1e6,
                        1e-9 / link.beta.si(), run);
  if (results.launch) text += fmt::format("# one launch {:.2f} us\n", results.launch->median.si() * 1e6);
  return text;
}

std::string document(const ProfileSession& session, const Measurements& results, const ProfiledMachine& machine,
                     const std::string& db) {
  TextTable table({{"op", ""},
                   {"measured", ""},
                   {"shortest", "(us)"},
                   {"longest", "(us)"},
                   {"best", "(GFLOP/s)"},
                   {"best", "(GB/s)"}});
  for (const auto& [name, kind] : summarize(results.ops))
    table.add_row({name, fmt::format("{}", kind.count), fmt::format("{:.2f}", kind.shortest.si() * 1e6),
                   fmt::format("{:.2f}", kind.longest.si() * 1e6), fmt::format("{:.2f}", kind.best_gflops),
                   fmt::format("{:.2f}", kind.best_gbytes)});
  std::string text = fmt::format("# meshwright {}  profile  cluster {}\n", MESHWRIGHT_VERSION, session.cluster.name) +
                     provenance_line(session);
  if (!machine.devices.empty())
    text += fmt::format("# {}, in {}, with a cold L2 cache before every op\n", machine.devices, name_of(machine.dtype));
  if (machine.product_choices != nullptr)
    text += fmt::format("# products: {} algorithms of {} stored for later runs\n",
                        machine.product_choices->all().size(), machine.product_library);
  text += table.to_text() + device_lines(session, results);
  text += other_load_line(results.other_load_cores);
  if (results.left_out_for_time > 0)
    text += fmt::format("# {} ops were not measured because the budget ran out; increase --budget\n",
                        results.left_out_for_time);
  if (results.left_out_for_memory > 0)
    text += fmt::format("# {} ops were not measured because they need more than {} memory\n",
                        results.left_out_for_memory, machine.gpus ? "the GPU's" : "this machine's");
  return text + fmt::format("# {} ops, {} collectives and {} transfers stored in {}\n", results.ops.size(),
                            results.collectives.size(), results.transfers.size(), db);
}

Json to_json(const ProfileSession& session, const Measurements& results, const ProfiledMachine& machine,
             const std::string& db) {
  Json kinds = Json::array();
  for (const auto& [name, kind] : summarize(results.ops))
    kinds.push_back({{"op", name},
                     {"measured", kind.count},
                     {"shortest_s", kind.shortest.si()},
                     {"longest_s", kind.longest.si()},
                     {"best_gflop_per_s", kind.best_gflops},
                     {"best_gb_per_s", kind.best_gbytes}});
  Json json = {{"program", "meshwright"},
               {"version", MESHWRIGHT_VERSION},
               {"verb", "profile"},
               {"measured_on", provenance_json(session)},
               {"cluster", to_json(session.cluster)},
               {"kinds", std::move(kinds)},
               {"run_overhead_s", results.run_overhead.median.si()},
               {"ops", results.ops.size()},
               {"collectives", results.collectives.size()},
               {"transfers", results.transfers.size()},
               {"other_load_cores", results.other_load_cores ? Json(*results.other_load_cores) : Json(nullptr)},
               {"left_out_for_time", results.left_out_for_time},
               {"left_out_for_memory", results.left_out_for_memory},
               {"db", db}};
  if (machine.gpus) json["devices"] = machine.devices;
  if (machine.product_choices != nullptr) json["product_algorithms"] = machine.product_choices->all().size();
  if (results.launch) json["launch_s"] = results.launch->median.si();
  if (results.copy_bandwidth) json["copy_gb_per_s"] = results.copy_bandwidth->si() / 1e9;
  return json;
}

// With --plan, of a plan.
void profile_steps(const ProfileOptions& options, const std::string& command_line) {
  require(options.machine.backend == "cuda",
          "--plan: steps of a plan are recorded on GPUs only; give --backend cuda, or leave the option out.");
  ProfilePlanOptions steps = options.steps;
  steps.db = options.db;
  steps.gpus = options.machine.gpus;
  steps.json = options.json;
  profile_plan(steps, command_line);
}

// The collectives and messages of the processes, in the place of those between threads.
std::optional<Measurement> add_peers(PeersMeasurements between, Measurements& results) {
  results.collectives = std::move(between.collectives);
  results.transfers = std::move(between.transfers);
  return between.message_work;
}

// Ops are measured by the first process on as many threads as its host has processes; the others sleep meanwhile.
ProfiledMachine machine_of_processes(const ProfiledMachineOptions& options, const Peers& peers) {
  require(options.backend == "cpu", "--transport: mpi measures between processes with threads; give --backend cpu.");
  require(options.cluster.empty(), "--cluster: with --transport mpi it is that of the processes; leave it out.");
  ProfiledMachineOptions own = options;
  own.cluster = fmt::format("cpu:{}", cluster_of(find_cluster("cpu:1"), peers).only().devices_per_host);
  ProfiledMachine machine = machine_to_profile(own);
  machine.cluster = cluster_of(machine.cluster, peers);
  machine.joined = 1;
  return machine;
}

// `peers`: the processes between which it is measured; null: devices of this one.
void profile(const ProfileOptions& options, const std::string& command_line, Peers* peers) {
  expect_backend(options.machine);
  require(!options.db.empty(), "--db is missing; give the profile database to write to, such as --db profiles.db.");
  if (!options.steps.plan.empty()) return profile_steps(options, command_line);
  const ProfiledMachine machine =
      peers == nullptr ? machine_to_profile(options.machine) : machine_of_processes(options.machine, *peers);
  const std::vector<std::shared_ptr<const Graph>> graphs = graphs_to_measure(options, machine);
  const PeersPlan between{message_sizes(machine, options.quick), options.quick ? 3 : 7, step_of(graphs)};
  if (peers != nullptr && peers->rank() != 0) {
    static_cast<void>(measure_between(*peers, between));
    return;
  }
  const std::vector<std::vector<int>> shapes = logical_shapes(machine.cluster);
  MeasurementPlan plan;
  plan.budget = budget_of(options);
  plan.ops = ops_to_measure(graphs, shapes);
  plan.step = between.step;
  plan.ranks = collective_ranks(shapes, machine.cluster.devices());
  std::erase_if(plan.ranks, [&](int ranks) { return ranks > machine.joined; });
  if (peers == nullptr) plan.sizes_bytes = message_sizes(machine, options.quick);
  plan.samples = options.quick ? 3 : 7;
  ProfileDb db(options.db, ProfileDb::Mode::ReadWrite);  // refuses a wrong file before the minutes of measuring

  const std::string device = machine.measurer->describe_device();
  if (machine.product_choices != nullptr)
    import_product_algorithms(db, device, machine.product_library, *machine.product_choices);

  ProfileSession session = make_session(machine.cluster, command_line);
  session.device = device;
  session.libraries = machine.measurer->describe_libraries();
  const std::int64_t id = db.begin_session(session);
  Measurements results = measure_into(db, id, session, std::move(plan), *machine.measurer, options.db);
  std::optional<Measurement> message_work;
  if (peers != nullptr) message_work = add_peers(measure_between(*peers, between), results);
  Cluster fitted = fit_cluster(machine.cluster, results.ops, results.transfers, results.copy_bandwidth);
  fitted.only().device.name = device;
  session.cluster = std::move(fitted);
  store(db, id, session, results, message_work);
  if (machine.product_choices != nullptr) {
    tell_refused(machine.product_library, *machine.product_choices);
    store_product_algorithms(db, id, device, machine.product_library, *machine.product_choices);
  }
  if (options.json) return print(to_json(session, results, machine, options.db));
  print(document(session, results, machine, options.db));
}

// Whether processes that were started together do it.
bool together(const ProfileOptions& options) {
  const std::string& transport = options.steps.transport;
  if (!options.steps.plan.empty()) return false;  // whose transports profile_plan knows
  require(transport == "inproc" || transport == "mpi", "--transport: '{}' needs a --plan; expected inproc or mpi.",
          transport);
  require(transport != "mpi" || knows_mpi(),
          "--transport: this build has no MPI support; install libopenmpi-dev and build again, or give --transport "
          "inproc.");
  return transport == "mpi";
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* verb =
      app.add_subcommand("profile", "Measure ops, collectives and transfers on this machine into a profile database.");
  verb->add_option("--backend", options->machine.backend, "what to measure: cpu, or cuda in a build with CUDA");
  verb->add_option("--db", options->db, "profile database to write to, required; new measurements replace old ones");
  verb->add_option("--plan", options->steps.plan,
                   "with --backend cuda: record ops and collectives during training steps of this plan, instead of "
                   "measuring each alone");
  verb->add_option("--model", options->model,
                   "measure the ops of this model (default: ops of several small and large models)");
  verb->add_option("--dim", options->dims,
                   "NAME=SIZE: size of a dimension that the model's file leaves open; repeatable")
      ->allow_extra_args(false);
  verb->add_option("--batch", options->batch, "samples per step (default: the model's)");
  verb->add_option("--seq", options->seq, "sequence length in tokens (default: the model's)");
  verb->add_option("--micro-batches", options->micro_batches, "numbers of micro-batches to measure for")
      ->capture_default_str();
  verb->add_option("--dtype", options->machine.dtype,
                   "type of weights and activations; CPU threads compute in f32 regardless, GPUs in this type "
                   "(default: f32; with --backend cuda: bf16 where the GPU has it, otherwise f16)");
  verb->add_option("--optimizer", options->optimizer, "optimizer: adam, adafactor, momentum or sgd")
      ->capture_default_str();
  verb->add_option("--cluster", options->machine.cluster,
                   "cluster whose shards are measured: cpu:N for N threads of this machine measuring at once (default: "
                   "all threads); with --backend cuda: a cluster of this GPU (default: the preset with it)");
  verb->add_option("--gpus", options->machine.gpus,
                   "with --backend cuda: number of GPUs (default: all); if a host of --cluster has more devices, they "
                   "share GPUs, and transfers between devices on one GPU are measured");
  verb->add_option("--budget", options->budget, "seconds to spend (default: 120; with --quick: 20)");
  verb->add_flag("--quick", options->quick, "measure fewer sizes and take fewer samples of each");
  verb->add_option("--steps", options->steps.steps,
                   "with --plan: number of steps to record, after as many steps without recording")
      ->capture_default_str();
  verb->add_option("--warmup", options->steps.warmup, "with --plan: number of steps before those")
      ->capture_default_str();
  verb->add_option("--transport", options->steps.transport,
                   "between what to measure: inproc (devices of this process), mpi (the processes that were started "
                   "together, one device each, on one host or several), or, with --plan, nccl")
      ->capture_default_str();
  add_patience_option(*verb, options->patience);
  for (const char* flag :
       {"--model", "--batch", "--seq", "--micro-batches", "--dtype", "--optimizer", "--cluster", "--budget", "--quick"})
    verb->get_option("--plan")->excludes(verb->get_option(flag));
  for (const char* flag : {"--steps", "--warmup"}) verb->get_option(flag)->needs(verb->get_option("--plan"));
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer("Example:\n  meshwright profile --backend cpu --db profiles.db --model mlp --batch 512 --cluster cpu:2");
  verb->callback([&context, options] {
    context.action = [&context, options] {
      const Seconds patience = patience_from_text(options->patience);
      if (!together(*options)) return profile(*options, context.command_line, nullptr);
      work_together(context, patience, [&](Peers& peers) { profile(*options, context.command_line, &peers); });
    };
  });
}

}  // namespace meshwright
