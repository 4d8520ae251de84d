// SPDX-License-Identifier: Apache-2.0
#include "cli/profiling/import_trace.h"

#include <algorithm>
#include <map>

#include "cli/machine/provenance.h"
#include "cli/terminal/output.h"
#include "core/base/errors.h"
#include "core/base/gzip.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/mesh/device_names.h"
#include "costmodel/measured_kernels.h"
#include "costmodel/traces/chakra_json.h"
#include "costmodel/traces/chakra_trace.h"
#include "costmodel/traces/kineto_trace.h"
#include "costmodel/traces/nccl_tests.h"

namespace meshwright {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 31;  // of a trace that is read whole
constexpr std::size_t kShown = 5;                        // reasons in the text

std::string read_unpacked(const std::string& path) { return read_all(open_unpacked(path, kMaxBytes)); }

// The data sheet of a GPU by the name that its driver reports: of the sheets of its model, the one that has most other
// words of the name.
std::string sheet_of(const std::string& gpu) {
  if (const DataSheet* sheet = find_data_sheet(gpu)) return sheet->name;
  const std::string name = lower_case(gpu);
  std::string best;
  int most = -1;
  for (const DataSheet& sheet : data_sheets()) {
    if (!is_of_model(gpu, sheet.name)) continue;
    int words = 0;
    for (const std::string& word : split(sheet.name, '-'))
      if (name.find(lower_case(word)) != std::string::npos) ++words;
    if (words > most) {
      most = words;
      best = sheet.name;
    }
  }
  return best;
}

TraceImport read_trace(const TraceRequest& request, TraceFormat format, int devices_per_host, RecordedOn on) {
  switch (format) {
    case TraceFormat::Kineto:
      return read_kineto_trace(request.file, devices_per_host, on);
    case TraceFormat::Chakra:
      return read_chakra_trace(read_unpacked(request.file), request.file, devices_per_host);
    case TraceFormat::ChakraJson:
      return read_chakra_trace(chakra_from_json(read_unpacked(request.file), request.file), request.file,
                               devices_per_host);
    case TraceFormat::NcclTests:
      break;
  }
  return read_nccl_tests(read_unpacked(request.file), request.file);
}

// Times of one device say nothing of another's. Devices of cluster files may have any name.
void expect_device_of(const Cluster& cluster, const TraceImport& trace, const TraceRequest& request) {
  const DataSheet* sheet = find_data_sheet(cluster.only().device.name);
  require(trace.device.empty() || sheet == nullptr || is_of_model(trace.device, sheet->name),
          "{}: was recorded on {}, and the devices of --cluster {} are {}; give the cluster of the recorded devices.",
          request.file, printable(trace.device), cluster.name, cluster.only().device.name);
}

// The rows that the cost model of a software reads.
void store_kernels(const TraceRequest& request, ProfileDb& db, ImportedTrace& imported) {
  std::vector<KernelRow> rows = imported.trace.kernels;
  for (KernelRow& row : rows) row.device = imported.sheet;
  const std::vector<std::size_t> odd = outliers(rows);
  for (auto i = odd.rbegin(); i != odd.rend(); ++i) rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(*i));
  imported.outliers = static_cast<int>(odd.size());
  imported.kernels = static_cast<int>(rows.size());
  const std::string source = request.source.empty() ? imported.trace.format + " " + request.file : request.source;
  const std::string licence = request.licence.empty() ? "not stated" : request.licence;
  if (!rows.empty()) (void)db.put_kernels({source, licence}, rows);
}

struct Kind {
  int rows = 0, occurrences = 0;
  Seconds shortest{0.0}, longest{0.0};

  void add(const Measurement& time) {
    shortest = rows == 0 ? time.median : std::min(shortest, time.median);
    longest = std::max(longest, time.median);
    ++rows;
    occurrences += time.samples;
  }
};

std::map<std::string, Kind> kinds_of(const TraceImport& trace) {
  std::map<std::string, Kind> kinds;
  for (const OpProfile& op : trace.ops) kinds[op.signature.substr(0, op.signature.find(' '))].add(op.time);
  for (const CollectiveProfile& collective : trace.collectives) kinds[name_of(collective.kind)].add(collective.time);
  return kinds;
}

double share(Seconds part, Seconds whole) { return whole > Seconds(0.0) ? part / whole : 0.0; }

using Reasons = std::vector<std::pair<std::string, TraceImport::Work>>;

// The most time first.
Reasons reasons_of(const TraceImport& trace) {
  Reasons reasons(trace.left_out.begin(), trace.left_out.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  return reasons;
}

}  // namespace

std::string shares_line(const TraceImport& trace) {
  const Seconds all = trace.total();
  std::string line = fmt::format("# {} % of {} ms of device time in {} rows", in_percent(share(trace.found.time, all)),
                                 in_milliseconds(all), trace.ops.size() + trace.collectives.size());
  const Reasons reasons = reasons_of(trace);
  Seconds others(0.0);
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (i >= kShown)
      others += reasons[i].second.time;
    else
      line += fmt::format("{}{} {} %", i == 0 ? "; left out: " : ", ", reasons[i].first,
                          in_percent(share(reasons[i].second.time, all)));
  }
  if (reasons.size() > kShown)
    line += fmt::format(", {} others {} %", reasons.size() - kShown, in_percent(share(others, all)));
  return line + "\n";
}

void store_profile(ProfileDb& db, const ProfileSession& session, const TraceImport& trace) {
  db.put_together([&] {
    const std::int64_t id = db.add_session(session);
    for (const OpProfile& op : trace.ops) db.put(id, op);
    for (const CollectiveProfile& collective : trace.collectives) db.put(id, collective);
  });
}

Cluster recorded_cluster(const std::string& name) {
  require(!name.empty(), "--cluster is missing; give the cluster of the recorded GPUs, such as --cluster dgx-h200:1.");
  const Cluster cluster = find_cluster(name);
  require(cluster.uniform(), "--cluster: {} has {} host groups; give a cluster with hosts of the recorded kind only.",
          cluster.name, cluster.groups.size());
  require(!cluster.name.starts_with("cpu:"),
          "--cluster: {} has no GPUs; give a cluster with GPUs of the recorded kind.", cluster.name);
  return cluster;
}

ProfileSession recorded_session(const std::string& device, const std::string& host, const std::string& libraries,
                                const std::string& date_utc, Cluster cluster, const std::string& command) {
  const auto known = [](const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; };
  ProfileSession session;
  session.device = known(device, cluster.only().device.name.c_str());
  session.host = known(host, "an unnamed host");
  session.libraries = known(libraries, "unknown libraries");
  session.date_utc = known(date_utc, "at an unknown time");
  session.command = command;
  cluster.only().device.name = session.device;
  session.cluster = std::move(cluster);
  return session;
}

std::optional<TraceFormat> trace_format(const std::string& file) {
  const ByteSource source = open_unpacked(file);
  const std::string_view first = source();
  const std::size_t begin = first.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || first.starts_with("SQLite format 3")) return std::nullopt;
  // "[1,0]<stdout>: ..." is a line that mpirun has tagged.
  const std::string_view head = first.substr(begin, 40);
  const bool tagged = head.starts_with('[') && head.find("]<std") != std::string_view::npos;
  if (!tagged && (first[begin] == '{' || first[begin] == '['))
    return is_chakra_json(first) ? TraceFormat::ChakraJson : TraceFormat::Kineto;
  const bool text = std::all_of(first.begin(), first.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\x1b';
  });
  // Launchers write much before the first table.
  if (text) return is_nccl_tests(read_unpacked(file)) ? std::optional(TraceFormat::NcclTests) : std::nullopt;
  return is_chakra_trace(first) ? std::optional(TraceFormat::Chakra) : std::nullopt;
}

ImportedTrace import_trace(const TraceRequest& request, TraceFormat format) {
  ImportedTrace imported;
  const bool own = !request.cluster.empty() || format != TraceFormat::NcclTests;
  std::optional<Cluster> cluster;
  // Only Kineto's format says how long operators take on processors.
  const bool on_processors = format == TraceFormat::Kineto && request.cluster.starts_with("cpu:");
  if (own) cluster = on_processors ? find_cluster(request.cluster) : recorded_cluster(request.cluster);
  require(
      own || !request.source.empty(),
      "--cluster and --source are missing; give the cluster of the devices, or say where the measurements come from.");
  require(own || !request.licence.empty(), "--licence is missing; give the licence of the measurements, such as MIT.");
  imported.trace = read_trace(request, format, cluster ? cluster->only().devices_per_host : 1,
                              on_processors ? RecordedOn::Processors : RecordedOn::Gpus);
  const TraceImport& trace = imported.trace;
  if (cluster) expect_device_of(*cluster, trace, request);
  const std::string device = !trace.device.empty() || !cluster ? trace.device : cluster->only().device.name;
  imported.sheet = sheet_of(device);
  require(own || !imported.sheet.empty(),
          "{}: no data sheet has a device '{}'; give --cluster to store its own profile.", request.file, device);
  ProfileDb db(request.db, ProfileDb::Mode::ReadWrite);
  if (own) {
    imported.session = recorded_session(trace.device, trace.host, trace.libraries, trace.date_utc, std::move(*cluster),
                                        request.command);
    store_profile(db, *imported.session, trace);
  }
  if (!imported.sheet.empty()) store_kernels(request, db, imported);
  return imported;
}

std::string to_text(const ImportedTrace& imported, const TraceRequest& request) {
  const TraceImport& trace = imported.trace;
  TextTable table({{"op", ""}, {"rows", ""}, {"occurrences", ""}, {"shortest", "(us)"}, {"longest", "(us)"}});
  for (const auto& [name, kind] : kinds_of(trace))
    table.add_row({name, fmt::format("{}", kind.rows), fmt::format("{}", kind.occurrences),
                   fmt::format("{:.2f}", kind.shortest.si() * 1e6), fmt::format("{:.2f}", kind.longest.si() * 1e6)});
  std::string text = fmt::format("# meshwright {}  import  {}", MESHWRIGHT_VERSION, trace.format);
  if (imported.session)
    text += fmt::format("  cluster {}\n{}", imported.session->cluster.name, provenance_line(*imported.session));
  else
    text += fmt::format("  source {}  licence {}\n", request.source, request.licence);
  text += table.to_text() + shares_line(trace);
  if (imported.session)
    text += fmt::format("# {} ops and {} collectives stored in {}\n", trace.ops.size(), trace.collectives.size(),
                        request.db);
  if (imported.sheet.empty())
    text += "# no data sheet has this device: nothing for --software\n";
  else
    text += fmt::format("# {} measured kernels of {} stored in {}, for --software\n", imported.kernels, imported.sheet,
                        request.db);
  if (imported.outliers > 0)
    text += fmt::format("# {} kernels are ten times off what those near in shape say: not for --software\n",
                        imported.outliers);
  return text;
}

Json to_json(const ImportedTrace& imported, const TraceRequest& request) {
  const TraceImport& trace = imported.trace;
  Json kinds = Json::array(), left_out = Json::array();
  for (const auto& [name, kind] : kinds_of(trace))
    kinds.push_back({{"op", name},
                     {"rows", kind.rows},
                     {"occurrences", kind.occurrences},
                     {"shortest_s", kind.shortest.si()},
                     {"longest_s", kind.longest.si()}});
  for (const auto& [reason, work] : reasons_of(trace))
    left_out.push_back({{"reason", reason}, {"count", work.count}, {"time_s", work.time.si()}});
  Json document = {{"program", "meshwright"},
                   {"version", MESHWRIGHT_VERSION},
                   {"verb", "import"},
                   {"format", trace.format},
                   {"file", request.file},
                   {"device", trace.device},
                   {"kinds", std::move(kinds)},
                   {"device_time_s", trace.total().si()},
                   {"found_s", trace.found.time.si()},
                   {"left_out", std::move(left_out)},
                   {"ops", trace.ops.size()},
                   {"collectives", trace.collectives.size()},
                   {"kernels", imported.kernels},
                   {"outliers", imported.outliers},
                   {"data_sheet", imported.sheet},
                   {"db", request.db}};
  if (imported.session) {
    document["measured_on"] = provenance_json(*imported.session);
    document["cluster"] = to_json(imported.session->cluster);
  } else {
    document["source"] = request.source;
    document["licence"] = request.licence;
  }
  return document;
}

}  // namespace meshwright
