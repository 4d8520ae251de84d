// SPDX-License-Identifier: Apache-2.0
// meshwright import: a recording or a trace made elsewhere becomes a profile; kernels that others measured and
// published are stored beside it.
#include <CLI/CLI.hpp>
#include <map>
#include <span>

#include "cli/machine/provenance.h"
#include "cli/profiling/import_kernels.h"
#include "cli/profiling/import_trace.h"
#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/errors.h"
#include "core/base/text_table.h"
#include "costmodel/nsight_export.h"

namespace meshwright {

namespace {

struct ImportOptions {
  std::vector<std::string> files;
  std::string db, cluster, source, licence, devices;
  bool json = false;
};

void store(const std::string& path, const ProfileSession& session, const NsightExport& recording) {
  ProfileDb db(path, ProfileDb::Mode::ReadWrite);
  db.put_together([&] {
    const std::int64_t id = db.add_session(session);
    for (const OpProfile& op : recording.ops) db.put(id, op);
    for (const CollectiveProfile& collective : recording.collectives) db.put(id, collective);
    for (const TransferProfile& transfer : recording.transfers) db.put(id, transfer);
  });
}

struct RecordedKind {
  int ops = 0, occurrences = 0;
  Seconds shortest{0.0}, longest{0.0};
};

// By what a signature begins with.
std::map<std::string, RecordedKind> summarize(std::span<const OpProfile> ops) {
  std::map<std::string, RecordedKind> kinds;
  for (const OpProfile& op : ops) {
    RecordedKind& kind = kinds[op.signature.substr(0, op.signature.find(' '))];
    kind.shortest = kind.ops == 0 ? op.time.median : std::min(kind.shortest, op.time.median);
    kind.longest = std::max(kind.longest, op.time.median);
    ++kind.ops;
    kind.occurrences += op.time.samples;
  }
  return kinds;
}

Seconds time_of_kernels(const NsightExport& recording) {
  return recording.attributed.time + recording.unattributed.time + recording.unattributed_collectives.time;
}

std::string kernels_line(const char* what, const NsightExport::Kernels& kernels, const NsightExport& recording) {
  if (kernels.count == 0) return "";
  const Seconds all = time_of_kernels(recording);
  return fmt::format("# {} kernel{} {}: {} ms, {} % of the kernels' time\n", kernels.count,
                     kernels.count == 1 ? "" : "s", what, in_milliseconds(kernels.time),
                     in_percent(all > Seconds(0.0) ? kernels.time / all : 0.0));
}

std::string document(const ProfileSession& session, const NsightExport& recording, const std::string& db) {
  TextTable table({{"op", ""}, {"recorded", ""}, {"occurrences", ""}, {"shortest", "(us)"}, {"longest", "(us)"}});
  for (const auto& [name, kind] : summarize(recording.ops))
    table.add_row({name, fmt::format("{}", kind.ops), fmt::format("{}", kind.occurrences),
                   fmt::format("{:.2f}", kind.shortest.si() * 1e6), fmt::format("{:.2f}", kind.longest.si() * 1e6)});
  return fmt::format("# meshwright {}  import  cluster {}\n", MESHWRIGHT_VERSION, session.cluster.name) +
         provenance_line(session) + table.to_text() +
         kernels_line("of ops and collectives", recording.attributed, recording) +
         kernels_line("outside ops, not imported", recording.unattributed, recording) +
         kernels_line("of NCCL without a range that names their size, not imported", recording.unattributed_collectives,
                      recording) +
         fmt::format("# idle between kernels of one op: {} ms, not counted as part of the op\n",
                     in_milliseconds(recording.gaps)) +
         fmt::format("# {} ops, {} collectives and {} transfers stored in {}\n", recording.ops.size(),
                     recording.collectives.size(), recording.transfers.size(), db);
}

Json to_json(const NsightExport::Kernels& kernels) {
  return {{"kernels", kernels.count}, {"time_s", kernels.time.si()}};
}

Json to_json(const ProfileSession& session, const NsightExport& recording, const std::string& db) {
  Json kinds = Json::array();
  for (const auto& [name, kind] : summarize(recording.ops))
    kinds.push_back({{"op", name},
                     {"recorded", kind.ops},
                     {"occurrences", kind.occurrences},
                     {"shortest_s", kind.shortest.si()},
                     {"longest_s", kind.longest.si()}});
  return {{"program", "meshwright"},
          {"version", MESHWRIGHT_VERSION},
          {"verb", "import"},
          {"measured_on", provenance_json(session)},
          {"cluster", to_json(session.cluster)},
          {"kinds", std::move(kinds)},
          {"attributed", to_json(recording.attributed)},
          {"unattributed", to_json(recording.unattributed)},
          {"unattributed_collectives", to_json(recording.unattributed_collectives)},
          {"gaps_s", recording.gaps.si()},
          {"ops", recording.ops.size()},
          {"collectives", recording.collectives.size()},
          {"transfers", recording.transfers.size()},
          {"db", db}};
}

void import_recording(const ImportOptions& options, const std::string& command_line) {
  Cluster cluster = recorded_cluster(options.cluster);
  const NsightExport recording = read_nsight_export(options.files.front());
  const ProfileSession session = recorded_session(recording.device, recording.host, recording.libraries,
                                                  recording.date_utc, std::move(cluster), command_line);
  store(options.db, session, recording);
  if (options.json) return print(to_json(session, recording, options.db));
  print(document(session, recording, options.db));
}

void import_kernels(const ImportOptions& options, const std::string& command_line) {
  const KernelImport request{options.files, options.source,  options.licence, options.devices,
                             options.db,    options.cluster, command_line};
  const ImportedKernels imported = import_kernels(request);
  if (options.json)
    print(to_json(imported, request));
  else
    print(to_text(imported, request));
  // The other rows are stored; that some were wrong still shows in the exit code.
  const std::vector<RejectedRow>& wrong = imported.wrong;
  require(wrong.empty(), "{} of {} rows are wrong; the first: {}", wrong.size(), wrong.size() + imported.rows.size(),
          wrong.empty() ? "" : wrong.front().reason);
}

void import_one_trace(const ImportOptions& options, TraceFormat format, const std::string& command_line) {
  const TraceRequest request{options.files.front(), options.cluster, options.source,
                             options.licence,       options.db,      command_line};
  const ImportedTrace imported = import_trace(request, format);
  if (options.json) return print(to_json(imported, request));
  print(to_text(imported, request));
}

void import_files(const ImportOptions& options, const std::string& command_line) {
  require(!options.db.empty(), "--db is missing; give the profile database to write to, such as --db profiles.db.");
  if (is_kernel_table(options.files.front())) return import_kernels(options, command_line);
  require(options.files.size() == 1, "{} recordings were given; import them one by one.", options.files.size());
  require(options.devices.empty(), "--devices: a recording has one kind of device; leave it out.");
  // Kineto's traces may be of processors.
  const bool processors = options.cluster.starts_with("cpu:");
  if (!options.cluster.empty() && !processors) (void)recorded_cluster(options.cluster);
  const auto format = trace_format(options.files.front());
  if (processors && format != TraceFormat::Kineto) (void)recorded_cluster(options.cluster);
  if (format) return import_one_trace(options, *format, command_line);
  import_recording(options, command_line);
}

}  // namespace

void add_import(CLI::App& app, Context& context) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* verb = app.add_subcommand(
      "import",
      "Import a recording or a trace of another program, or published tables of measured kernels, into a profile "
      "database.");
  verb->add_option("files", options->files,
                   "recording of `meshwright run --graphs off` by `nsys profile --trace=cuda,nvtx`, exported with "
                   "`nsys export --type sqlite`; a trace of PyTorch's profiler, of Chakra or a log of nccl-tests; or "
                   "CSV files of measured kernels (docs/files.md); all of them plain or gzip")
      ->required();
  verb->add_option("--db", options->db, "profile database to write to, required; new measurements replace old ones");
  verb->add_option(
      "--cluster", options->cluster,
      "of a recording or a trace, required: cluster of the recorded GPUs; its rates model whatever was not "
      "recorded; of measured kernels: store them as a profile of its devices as well");
  verb->add_option(
      "--source", options->source,
      "of measured kernels, required, and of nccl-tests without --cluster: who measured them, and where to find "
      "it");
  verb->add_option("--licence", options->licence, "of what has a --source, required: under which it is published");
  verb->add_option("--devices", options->devices,
                   "of measured kernels: import only rows of these devices, separated by commas, such as V100,H100");
  verb->add_flag("--json", options->json, "print the result as JSON");
  verb->footer(
      "Examples:\n"
      "  meshwright import run.sqlite --db profiles.db --cluster dgx-h200:1\n"
      "  meshwright import trace.json.gz --db profiles.db --cluster dgx-h100:1\n"
      "  meshwright import gemm_h100.csv.gz --db kernels.db --source 'example.org/kernels, 2026' --licence MIT");
  verb->callback([&context, options] {
    context.action = [options, line = context.command_line] { import_files(*options, line); };
  });
}

}  // namespace meshwright
