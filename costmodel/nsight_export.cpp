// SPDX-License-Identifier: Apache-2.0
// The tables, as far as they are read (times in ns since recording began; names are ids into StringIds):
//
//   NVTX_EVENTS                  start | end | eventType | globalTid | text or textId
//   CUPTI_ACTIVITY_KIND_RUNTIME  start | globalTid | correlationId                                  calls on the host
//   CUPTI_ACTIVITY_KIND_KERNEL   start | end | deviceId | globalPid | correlationId | shortName
//   CUPTI_ACTIVITY_KIND_MEMSET   start | end | deviceId | globalPid | correlationId
//   CUPTI_ACTIVITY_KIND_MEMCPY   the same, and bytes | copyKind | srcDeviceId | dstDeviceId
//   TARGET_INFO_GPU              id | name | smCount; TARGET_INFO_CUDA_DEVICE: gpuId | cudaId | pid
//   TARGET_INFO_SYSTEM_ENV       name | value; META_DATA_EXPORT or EXPORT_META_DATA likewise
//   TARGET_INFO_SESSION_START_TIME  utcEpochNs
//
// globalTid is machine, process and thread from the left, 24 bits for the thread and 24 for the process; globalPid is
// the same with thread 0. correlationId counts within a process.
#include "costmodel/nsight_export.h"

#include <charconv>
#include <map>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/recorded_work.h"
#include "costmodel/sqlite.h"

namespace meshwright {

namespace {

using sqlite::Access;
using sqlite::Database;
using sqlite::Statement;

constexpr sqlite::FileKind kExport = {"database of Nsight Systems", "export the recording again",
                                      "create it from a recording with `nsys export --type sqlite`"};

constexpr int kPushPopRange = 59;                          // eventType
constexpr std::int64_t kDeviceToDevice = 8, kToPeer = 10;  // copyKind
constexpr int kThreadBits = 24;
constexpr double kNanosecond = 1e-9;

constexpr const char* kRanges = "NVTX_EVENTS";
constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kSets = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";

Database open_export(const std::string& path) {
  require(!path.empty(), "the path of the export is empty; give a path.");
  require(sqlite::read_stamp(path, kExport).has_value(), "{}: the file is empty; {}.", path, kExport.when_other);
  return Database(path, Access::ReadOnly, kExport);
}

bool is_of_nccl(const std::string& kernel) {
  return kernel.starts_with("ncclDevKernel") || kernel.starts_with("ncclKernel");
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), db_(open_export(path)) {
    Statement names = db_.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'");
    while (names.step()) columns_[names.text()];
    for (auto& [table, columns] : columns_) {
      Statement rows = db_.prepare("SELECT name FROM pragma_table_info(?1)");
      rows.bind(table);
      while (rows.step()) columns.insert(rows.text());
    }
    expect_known_schema();
  }

  NsightExport read() {
    read_ranges();
    read_kernels();
    read_sets();
    read_copies();
    RecordedTimes times = times_of(ranges_.ranges(), std::move(work_));
    found_.ops = std::move(times.ops);
    found_.collectives = std::move(times.collectives);
    found_.gaps = times.gaps;
    for (const auto& [size, nanoseconds] : transfers_)
      found_.transfers.push_back({false, size, measurement_of(nanoseconds)});
    expect_something();
    found_.device = device();
    found_.host = value_of("TARGET_INFO_SYSTEM_ENV", "Hostname");
    found_.libraries = libraries();
    found_.date_utc = date();
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool has(const std::string& table) const { return columns_.contains(table); }
  [[nodiscard]] bool has(const std::string& table, const std::string& column) const {
    const auto found = columns_.find(table);
    return found != columns_.end() && found->second.contains(column);
  }

  void expect_known_schema() const {
    const bool known = has("StringIds") && (has(kRanges) || has(kKernels) || has(kCalls) || has("TARGET_INFO_GPU"));
    require(known, "{}: not a {} (it has no tables such as StringIds and {}); {}.", path_, kExport.name, kKernels,
            kExport.when_other);
    const std::vector<std::string> activity = {"start", "end", "deviceId", "globalPid", "correlationId"};
    expect_columns("StringIds", {"id", "value"});
    expect_columns(kRanges, {"start", "end", "eventType", "globalTid", "text"});
    expect_columns(kCalls, {"start", "globalTid", "correlationId"});
    expect_columns(kKernels, activity);
    expect_columns(kSets, activity);
    expect_columns(kCopies, activity);
    expect_columns(kCopies, {"bytes", "copyKind"});
  }

  void expect_columns(const std::string& table, const std::vector<std::string>& columns) const {
    if (!has(table)) return;
    for (const std::string& column : columns)
      require(has(table, column),
              "{}: table {} has no column {}; the export's schema is too old. Export the recording again with nsys "
              "2022.4 or newer.",
              path_, table, column);
  }

  [[nodiscard]] Interval interval_of(Statement& row) const {
    constexpr std::int64_t kMax = std::int64_t{1} << 61;  // 73 years: times may count from 1970
    const Interval interval{row.integer(), row.integer()};
    require(0 <= interval.start && interval.start <= interval.end && interval.end <= kMax,
            "{}: an event lasts from {} to {} ns, and a recording begins at 0; {}.", path_, interval.start,
            interval.end, kExport.when_damaged);
    return interval;
  }

  // A range that was open when recording ended has no end; its last kernels may be missing.
  void read_ranges() {
    if (!has(kRanges)) return;
    const bool by_id = has(kRanges, "textId");
    Statement rows = db_.prepare(fmt::format(
        R"(SELECT e.start, e."end", e.globalTid, {} AS label FROM NVTX_EVENTS e {}
           WHERE e.eventType = {} AND e."end" IS NOT NULL ORDER BY e.start, e."end" DESC, e.rowid)",
        by_id ? "COALESCE(e.text, s.value, '')" : "COALESCE(e.text, '')",
        by_id ? "LEFT JOIN StringIds s ON s.id = e.textId" : "", kPushPopRange));
    while (rows.step()) {
      const Interval interval = interval_of(rows);
      const std::int64_t thread = rows.integer();
      const std::string label = rows.text();
      std::optional<MarkedRange> range = range_of(label);
      if (range) require_printable(label, path_ + ": table NVTX_EVENTS");
      if (range)
        ranges_.add(thread, interval, std::move(*range));
      else
        ++foreign_ranges_;
    }
  }

  [[nodiscard]] std::optional<MarkedRange> range_of(const std::string& text) const {
    try {
      return range_from_text(text);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", path_, error.what()));
    }
  }

  // Every row of an activity table with the call that launched it, where that was recorded (else NULLs), and `more`
  // columns: rowid, start, end, deviceId, globalPid, the call's globalTid and start, ...
  [[nodiscard]] Statement activities(const char* table, const std::string& more) {
    const bool calls = has(kCalls);
    return db_.prepare(
        fmt::format(R"(SELECT a.rowid, a.start, a."end", a.deviceId, a.globalPid, {0}, {1} FROM {2} a {3})",
                    calls ? "r.globalTid, r.start" : "NULL, NULL", more, table,
                    calls ? fmt::format("LEFT JOIN {0} r ON r.correlationId = a.correlationId AND "
                                        "r.globalTid >> {1} = a.globalPid >> {1}",
                                        kCalls, kThreadBits)
                          : ""));
  }

  struct Activity {
    Interval interval;
    std::int64_t device;               // and process
    std::optional<std::size_t> range;  // that it was launched in
  };
  // Calls `each(activity, row)` for each row once: one that several calls claim belongs to the first of them.
  template <class Each>
  void for_each_activity(const char* table, const std::string& more, Each each) {
    if (!has(table)) return;
    Statement row = activities(table, more);
    std::optional<std::int64_t> last;
    while (row.step()) {
      const std::int64_t id = row.integer();
      if (last == id) continue;
      last = id;
      Activity activity;
      activity.interval = interval_of(row);
      const std::int64_t device = row.integer(), process = row.integer();
      activity.device = devices_.try_emplace({process, device}, std::ssize(devices_)).first->second;
      const std::optional<std::int64_t> thread = row.integer_or_null(), call = row.integer_or_null();
      if (thread && call) activity.range = ranges_.innermost(*thread, *call);
      if (activity.range) work_.push_back({*activity.range, activity.device, activity.interval});
      each(activity, row);
    }
  }

  void read_kernels() {
    const bool named = has(kKernels, "shortName");
    std::map<std::int64_t, bool> of_nccl;  // by name
    for_each_activity(kKernels, named ? "a.shortName" : "NULL", [&](const Activity& activity, Statement& row) {
      const std::int64_t id = row.integer();
      NsightExport::Kernels* kernels = &found_.attributed;
      if (!activity.range) {
        const auto [known, is_new] = of_nccl.try_emplace(id, false);
        if (is_new) known->second = is_of_nccl(name_of_string(id));
        kernels = known->second ? &found_.unattributed_collectives : &found_.unattributed;
      }
      ++kernels->count;
      kernels->time += Seconds(kNanosecond * static_cast<double>(activity.interval.end - activity.interval.start));
    });
  }

  [[nodiscard]] std::string name_of_string(std::int64_t id) {
    Statement name = db_.prepare("SELECT value FROM StringIds WHERE id = ?1");
    return name.bind(id).step() ? name.text() : "";
  }

  void read_sets() {
    for_each_activity(kSets, "NULL", [](const Activity&, Statement&) {});
  }

  void read_copies() {
    const bool ends = has(kCopies, "srcDeviceId") && has(kCopies, "dstDeviceId");
    const std::string more =
        ends ? "a.copyKind, a.bytes, a.srcDeviceId, a.dstDeviceId" : "a.copyKind, a.bytes, NULL, NULL";
    for_each_activity(kCopies, more, [&](const Activity& activity, Statement& row) {
      const std::int64_t kind = row.integer(), bytes = row.integer();
      const std::optional<std::int64_t> from = row.integer_or_null(), to = row.integer_or_null();
      require(bytes >= 0, "{}: a copy has {} bytes; {}.", path_, bytes, kExport.when_damaged);
      const bool apart = kind == kToPeer || (kind == kDeviceToDevice && from && to && *from != *to);
      if (!activity.range && apart) transfers_[bytes].push_back(activity.interval.end - activity.interval.start);
    });
  }

  void expect_something() const {
    if (!found_.ops.empty() || !found_.collectives.empty() || !found_.transfers.empty()) return;
    const NsightExport::Kernels &ops = found_.unattributed, &nccl = found_.unattributed_collectives;
    throw InputError(
        fmt::format("{}: the export holds {} kernels ({}) and {} NVTX ranges of other programs, but no kernel launched "
                    "in a range that names its op ('mw:op ...') or collective, and no copy between devices; record "
                    "`meshwright run --graphs off` with `nsys profile --trace=cuda,nvtx`.",
                    path_, ops.count + nccl.count, human_seconds(ops.time + nccl.time), foreign_ranges_));
  }

  // --- Where it was recorded ---

  [[nodiscard]] std::string value_of(const std::string& table, const std::string& name) {
    if (!has(table, "name") || !has(table, "value")) return "";
    Statement row = db_.prepare(fmt::format("SELECT value FROM {} WHERE name = ?1 ORDER BY rowid LIMIT 1", table));
    return row.bind(name).step() ? name_in(row, table) : "";
  }

  // A text that reports will show.
  [[nodiscard]] std::string name_in(Statement& row, const std::string& table) const {
    std::string name = row.text();
    require_printable(name, fmt::format("{}: table {}", path_, table));
    return name;
  }

  [[nodiscard]] std::string device() {
    if (!has("TARGET_INFO_GPU", "id") || !has("TARGET_INFO_GPU", "name")) return "";
    const std::string select = fmt::format("SELECT DISTINCT g.name, {} FROM TARGET_INFO_GPU g",
                                           has("TARGET_INFO_GPU", "smCount") ? "g.smCount" : "NULL");
    std::vector<std::string> names;
    // A process numbers the GPUs that it sees; this says which those are.
    if (has(kKernels) && has("TARGET_INFO_CUDA_DEVICE", "gpuId") && has("TARGET_INFO_CUDA_DEVICE", "cudaId") &&
        has("TARGET_INFO_CUDA_DEVICE", "pid"))
      names = gpu_names(select + fmt::format(" JOIN TARGET_INFO_CUDA_DEVICE d ON d.gpuId = g.id"
                                             " JOIN (SELECT DISTINCT deviceId, globalPid >> {0} & {1} AS pid FROM {2})"
                                             " k ON k.deviceId = d.cudaId AND k.pid = d.pid",
                                             kThreadBits, (1 << kThreadBits) - 1, kKernels));
    if (names.empty()) names = gpu_names(select);
    require(names.size() <= 1, "{}: the recording mixes different GPUs ({}); record a run on GPUs of one kind.", path_,
            join(names, " and "));
    return names.empty() ? "" : names.front();
  }

  [[nodiscard]] std::vector<std::string> gpu_names(const std::string& query) {
    std::vector<std::string> names;
    Statement rows = db_.prepare(query + " ORDER BY 1, 2");
    while (rows.step()) {
      names.push_back(name_in(rows, "TARGET_INFO_GPU"));
      if (const auto count = rows.integer_or_null()) names.back() += fmt::format(", {} multiprocessors", *count);
    }
    return names;
  }

  // "13000" is CUDA's way to write 13.0.
  [[nodiscard]] std::string libraries() {
    std::vector<std::string> parts;
    std::string driver = value_of("TARGET_INFO_SYSTEM_ENV", "CudaDriverVersion");
    int number = 0;
    const auto [end, error] = std::from_chars(driver.data(), driver.data() + driver.size(), number);
    if (error == std::errc() && end == driver.data() + driver.size())
      driver = fmt::format("{}.{}", number / 1000, number % 1000 / 10);
    if (!driver.empty()) parts.push_back("CUDA driver " + driver);
    for (const char* table : {"META_DATA_EXPORT", "EXPORT_META_DATA"})
      if (const std::string version = value_of(table, "EXPORT_PRODUCT_VERSION"); !version.empty())
        parts.push_back("Nsight Systems " + version);
    return join(parts, "; ");
  }

  [[nodiscard]] std::string date() {
    if (!has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")) return "";
    Statement row = db_.prepare(
        "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', utcEpochNs / 1000000000, 'unixepoch') FROM "
        "TARGET_INFO_SESSION_START_TIME");
    return row.step() ? name_in(row, "TARGET_INFO_SESSION_START_TIME") : "";
  }

  std::string path_;
  Database db_;
  std::map<std::string, std::set<std::string>> columns_;  // of every table
  NsightExport found_;
  RangeTree ranges_;
  std::vector<AttributedWork> work_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> devices_;  // number of (process, device)
  std::map<std::int64_t, std::vector<std::int64_t>> transfers_;            // ns, by bytes
  std::int64_t foreign_ranges_ = 0;
};

}  // namespace

NsightExport read_nsight_export(const std::string& path) { return Reader(path).read(); }

}  // namespace meshwright
