// SPDX-License-Identifier: Apache-2.0
// meshwright profile: measure this machine into a profile database. profile_work.h says what is measured,
// profile_measure.h how often, profile_fit.h what becomes of it where a plan needs something that was not measured.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <thread>

#include "cli/options.h"
#include "cli/other_load.h"
#include "cli/profile_measure.h"
#include "cli/provenance.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"

namespace meshwright {

namespace {

struct ProfileOptions {
  std::string backend, db, model, batch, seq, cluster, budget, dtype = "f32", optimizer = "adam",
                                                               micro_batches = "1,2,4";
  bool quick = false, json = false;
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
constexpr std::size_t kQuickSamples = 4;

void expect_cpu(const std::string& backend) {
  require(!backend.empty(), "--backend is missing; give --backend cpu.");
  require(backend != "cuda", "--backend: this build has no CUDA part; it measures --backend cpu.");
  require(backend == "cpu", "--backend: '{}' is not known; this build measures cpu.", backend);
}

Cluster cluster_to_measure(const std::string& name) {
  const std::string here = fmt::format("cpu:{}", std::max(1u, std::thread::hardware_concurrency()));
  Cluster cluster = find_cluster(name.empty() ? here : name);
  require(cluster.name.starts_with("cpu:") && cluster.hosts() == 1,
          "--cluster: {} is not this machine; give cpu:N for N of its threads.", cluster.name);
  return cluster;
}

Seconds budget_of(const ProfileOptions& options) {
  if (options.budget.empty()) return Seconds(options.quick ? 20.0 : 120.0);
  return Seconds(static_cast<double>(count_from_text(options.budget, "--budget", 7 * 24 * 3600)));
}

std::vector<std::shared_ptr<const Graph>> graphs_to_measure(const ProfileOptions& options) {
  TrainingOptions training;
  training.dtype = at_place("--dtype", [&] { return dtype_from_name(options.dtype); });
  training.optimizer.kind = optimizer_from_text(options.optimizer);
  std::vector<std::shared_ptr<const Graph>> graphs;
  if (options.model.empty()) {
    require(options.batch.empty() && options.seq.empty(), "--batch and --seq need a --model.");
    for (std::size_t i = 0; i < (options.quick ? kQuickSamples : std::size(kSamples)); ++i) {
      training.batch = kSamples[i].batch;
      graphs.push_back(std::make_shared<const Graph>(build_training_graph(find_model(kSamples[i].model), training)));
    }
    return graphs;
  }
  PlanningOptions like;
  like.model = options.model;
  like.seq = options.seq;
  const ModelConfig model = model_from_options(like);
  training.batch = options.batch.empty() ? model.default_batch : count_from_text(options.batch, "--batch", 1L << 40);
  for (const std::string& text : split(options.micro_batches, ',')) {
    training.microbatches = count_from_text(text, "--micro-batches", 1L << 20);
    require(training.batch % training.microbatches == 0,
            "--micro-batches: a batch of {} does not divide into {}; give numbers that divide it, as in 1,2,4.",
            training.batch, training.microbatches);
    graphs.push_back(std::make_shared<const Graph>(build_training_graph(model, training)));
  }
  return graphs;
}

std::vector<std::int64_t> message_sizes(bool quick) {
  std::vector<std::int64_t> sizes;
  const std::int64_t largest = quick ? 1 << 22 : 1 << 26;
  for (std::int64_t size = 1 << 10; size <= largest; size *= quick ? 16 : 4) sizes.push_back(size);
  return sizes;
}

void store(ProfileDb& db, const ProfileSession& session, const Measurements& results) {
  const std::int64_t id = db.add_session(session);
  for (const MeasuredOp& op : results.ops) db.put(id, op.profile);
  for (const CollectiveProfile& collective : results.collectives) db.put(id, collective);
  for (const TransferProfile& transfer : results.transfers) db.put(id, transfer);
  db.put_overhead(id, "run", results.run_overhead);
}

struct KindSummary {
  int count = 0;
  Seconds shortest{0.0}, longest{0.0};
  double best_gflops = 0.0, best_gbytes = 0.0;
};

std::map<std::string, KindSummary> summarize(const std::vector<MeasuredOp>& ops) {
  std::map<std::string, KindSummary> kinds;
  for (const auto& [profile, op_kind, dtype] : ops) {
    KindSummary& kind = kinds[name_of(op_kind)];
    const Seconds time = profile.time.median;
    kind.shortest = kind.count == 0 ? time : std::min(kind.shortest, time);
    kind.longest = std::max(kind.longest, time);
    ++kind.count;
    if (time.si() <= 0.0) continue;
    kind.best_gflops = std::max(kind.best_gflops, profile.flops / time.si() / 1e9);
    kind.best_gbytes = std::max(kind.best_gbytes, profile.bytes / time.si() / 1e9);
  }
  return kinds;
}

std::string document(const ProfileSession& session, const Measurements& results, const std::string& db) {
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
  const DeviceKind& device = session.cluster.only().device;
  std::string text = fmt::format("# meshwright {}  profile  cluster {}\n", MESHWRIGHT_VERSION, session.cluster.name) +
                     provenance_line(session) + table.to_text();
  for (const auto& [dtype, peak] : device.peak)
    text += fmt::format("# {} products: best {:.2f} GFLOP/s, the large ones {} % of it\n", dtype, peak.si() / 1e9,
                        in_percent(device.matmul_efficiency));
  const LinkCost& link = session.cluster.only().within_host;
  text += fmt::format("# passes over memory: best {:.2f} GB/s, the large ones {} % of it\n",
                      device.memory_bandwidth.si() / 1e9, in_percent(device.memory_efficiency));
  text += fmt::format("# between devices: {:.2f} us and {:.2f} GB/s; one empty run {:.2f} us\n", link.alpha.si() * 1e6,
                      1e-9 / link.beta.si(), results.run_overhead.median.si() * 1e6);
  text += other_load_line(results.other_load_cores);
  if (results.left_out_for_time > 0)
    text += fmt::format("# {} ops were not measured: the budget was used up; a larger --budget measures them\n",
                        results.left_out_for_time);
  if (results.left_out_for_memory > 0)
    text += fmt::format("# {} ops were not measured: they need too much of this machine's memory\n",
                        results.left_out_for_memory);
  return text + fmt::format("# {} ops, {} collectives, {} transfers stored in {}\n", results.ops.size(),
                            results.collectives.size(), results.transfers.size(), db);
}

Json twin(const ProfileSession& session, const Measurements& results, const std::string& db) {
  Json kinds = Json::array();
  for (const auto& [name, kind] : summarize(results.ops))
    kinds.push_back({{"op", name},
                     {"measured", kind.count},
                     {"shortest_s", kind.shortest.si()},
                     {"longest_s", kind.longest.si()},
                     {"best_gflop_per_s", kind.best_gflops},
                     {"best_gb_per_s", kind.best_gbytes}});
  return {{"program", "meshwright"},
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
}

void profile(const ProfileOptions& options, const std::string& command_line) {
  expect_cpu(options.backend);
  require(!options.db.empty(), "--db is missing; name the file to measure into, as in --db profiles.db.");
  const Cluster cluster = cluster_to_measure(options.cluster);
  const std::vector<std::vector<int>> shapes = logical_shapes(cluster);
  MeasurementPlan plan;
  plan.budget = budget_of(options);
  plan.ops = ops_to_measure(graphs_to_measure(options), shapes);
  plan.ranks = collective_ranks(shapes, cluster.devices());
  plan.sizes_bytes = message_sizes(options.quick);
  plan.concurrency = cluster.devices();
  plan.samples = options.quick ? 3 : 7;
  ProfileDb db(options.db, ProfileDb::Mode::ReadWrite);  // refuses a wrong file before the minutes of measuring

  const Measurements results = [&] {
    Progress progress;
    return measure(plan, progress);
  }();
  Cluster fitted = fit_cluster(cluster, results.ops, results.transfers);
  fitted.only().device.name = describe_device();
  const ProfileSession session = make_session(fitted, command_line);
  store(db, session, results);
  if (options.json) return print(twin(session, results, options.db));
  print(document(session, results, options.db));
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* verb = app.add_subcommand("profile", "Measure ops, collectives and transfers on this machine.");
  verb->add_option("--backend", options->backend, "cpu");
  verb->add_option("--db", options->db, "profile database to write to; later measurements replace earlier ones");
  verb->add_option("--model", options->model,
                   "measure the ops of this model (default: a grid of small and large ones)");
  verb->add_option("--batch", options->batch, "samples per step (default: the model's)");
  verb->add_option("--seq", options->seq, "sequence length (default: the model's)");
  verb->add_option("--micro-batches", options->micro_batches, "numbers of micro-batches that plans may use")
      ->capture_default_str();
  verb->add_option("--dtype", options->dtype, "type of the weights in the plans; it is computed in f32")
      ->capture_default_str();
  verb->add_option("--optimizer", options->optimizer, "adam, momentum or sgd")->capture_default_str();
  verb->add_option("--cluster", options->cluster,
                   "cpu:N, all N threads measuring at once (default: all of this machine)");
  verb->add_option("--budget", options->budget, "seconds to spend (default: 120, with --quick 20)");
  verb->add_flag("--quick", options->quick, "fewer sizes and samples");
  verb->add_flag("--json", options->json, "print the document as JSON");
  verb->footer("Example:\n  meshwright profile --backend cpu --db profiles.db --model mlp --batch 512 --cluster cpu:2");
  verb->callback(
      [&context, options] { context.action = [options, line = context.command_line] { profile(*options, line); }; });
}

}  // namespace meshwright
