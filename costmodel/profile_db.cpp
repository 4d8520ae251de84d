// SPDX-License-Identifier: Apache-2.0
// The profile database, version 4. Times are seconds, sizes bytes, work floating-point operations; every table is
// STRICT.
//
//   session          id | device | host | libraries | date_utc | command | cluster_json        who measured, on what,
//   when
//     ^  ^  ^  ^  ^
//     |  |  |  |  +-- op_time          signature, concurrency           | flops | bytes | median_s | mad_s | samples
//     |  |  |  +----- collective_time  kind, ranks, hosts, size_bytes   | median_s | mad_s | samples
//     |  |  +-------- transfer_time    hosts_apart, size_bytes          | median_s | mad_s | samples
//     |  +----------- overhead_time    name                             | median_s | mad_s | samples
//     +-------------- run              id | plan_json | predicted_s | measured_s | details_json
//   product_algorithm  device, library, product | algorithm | session   since version 3 (profile_db_products.cpp)
//   kernel_time      kernels that others measured, with kernel_source; since version 4 (profile_db_kernels.cpp)
//   sweep_point      key | result_json                                    a finished point of a sweep
//   stage_profile    stage tables by key, with the session where there is one; since version 2 (profile_db_stages.cpp)
//
// Columns before the bar are the key (the later measurement of one key replaces the earlier). mad_s is the median
// absolute deviation.
//
// While it is being written the file is in WAL mode: readers do not wait, and a commit survives the death of the
// process. On close it returns to a single file in rollback mode, which can be copied and read from a read-only
// directory.
#include "costmodel/profile_db.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/profile_db_handle.h"
#include "costmodel/sqlite.h"

namespace meshwright {

namespace {

using sqlite::Access;
using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

constexpr std::uint32_t kApplicationId = 0x4D575250;  // "MWRP"
constexpr std::int64_t kOldestVersion = 1;

constexpr const char* kSchema = R"sql(
CREATE TABLE session (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL, host TEXT NOT NULL, libraries TEXT NOT NULL, date_utc TEXT NOT NULL, command TEXT NOT NULL,
  cluster_json TEXT NOT NULL) STRICT;
CREATE TABLE op_time (
  signature TEXT NOT NULL, concurrency INTEGER NOT NULL CHECK (concurrency >= 1),
  flops REAL NOT NULL, bytes REAL NOT NULL,
  median_s REAL NOT NULL CHECK (median_s >= 0), mad_s REAL NOT NULL CHECK (mad_s >= 0), samples INTEGER NOT NULL,
  session_id INTEGER NOT NULL REFERENCES session,
  PRIMARY KEY (signature, concurrency)) STRICT, WITHOUT ROWID;
CREATE TABLE collective_time (
  kind TEXT NOT NULL CHECK (kind IN ('all-reduce', 'reduce-scatter', 'all-gather', 'all-to-all')),
  ranks INTEGER NOT NULL CHECK (ranks >= 1), hosts INTEGER NOT NULL CHECK (hosts >= 1), size_bytes INTEGER NOT NULL,
  median_s REAL NOT NULL CHECK (median_s >= 0), mad_s REAL NOT NULL CHECK (mad_s >= 0), samples INTEGER NOT NULL,
  session_id INTEGER NOT NULL REFERENCES session,
  PRIMARY KEY (kind, ranks, hosts, size_bytes)) STRICT, WITHOUT ROWID;
CREATE TABLE transfer_time (
  hosts_apart INTEGER NOT NULL CHECK (hosts_apart IN (0, 1)), size_bytes INTEGER NOT NULL,
  median_s REAL NOT NULL CHECK (median_s >= 0), mad_s REAL NOT NULL CHECK (mad_s >= 0), samples INTEGER NOT NULL,
  session_id INTEGER NOT NULL REFERENCES session,
  PRIMARY KEY (hosts_apart, size_bytes)) STRICT, WITHOUT ROWID;
CREATE TABLE overhead_time (
  name TEXT NOT NULL PRIMARY KEY,
  median_s REAL NOT NULL CHECK (median_s >= 0), mad_s REAL NOT NULL CHECK (mad_s >= 0), samples INTEGER NOT NULL,
  session_id INTEGER NOT NULL REFERENCES session) STRICT, WITHOUT ROWID;
CREATE TABLE run (
  id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL REFERENCES session,
  plan_json TEXT NOT NULL, predicted_s REAL NOT NULL, measured_s REAL NOT NULL, details_json TEXT NOT NULL) STRICT;
CREATE TABLE sweep_point (key TEXT NOT NULL PRIMARY KEY, result_json TEXT NOT NULL) STRICT, WITHOUT ROWID;
)sql";

void require_ours(const std::string& path, std::uint32_t application_id, std::int64_t version) {
  require(application_id == kApplicationId,
          "{}: the SQLite database belongs to another program (application id {:#x}); give another path.", path,
          application_id);
  require(version <= ProfileDb::kSchemaVersion,
          "{}: the profile database has version {} of a newer meshwright; this program reads versions up to {}. Use "
          "the newer program, or another path.",
          path, version, ProfileDb::kSchemaVersion);
  require(version >= kOldestVersion,
          "{}: the profile database has version {}; this program reads versions {} to {}. Profile into a new file.",
          path, version, kOldestVersion, ProfileDb::kSchemaVersion);
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// A file left in WAL mode without its log (copied, say) cannot be locked in a directory that cannot be written; nobody
// writes to it while it has no log, so it can be read as it is.
Access access_to_read(const std::string& path, const sqlite::FileStamp& stamp) {
  return stamp.wal && !exists(path + "-wal") ? Access::Immutable : Access::ReadOnly;
}

void check_pages(Database& db) {
  std::string verdict = db.text("PRAGMA quick_check(1)");
  std::replace(verdict.begin(), verdict.end(), '\n', ' ');
  require(verdict == "ok", "{}: the profile database is damaged ({}); restore a copy of it or profile into a new file.",
          db.path(), verdict);
}

std::unique_ptr<Database> open_to_read(const std::string& path) {
  if (!exists(path))
    throw SystemError(fmt::format(
        "{}: the profile database does not exist; create it with `meshwright profile --backend cpu --db {}`.", path,
        path));
  const std::optional<sqlite::FileStamp> stamp = sqlite::read_stamp(path);
  require(stamp.has_value(), "{}: the file is empty; fill it with `meshwright profile --backend cpu --db {}`.", path,
          path);
  require_ours(path, stamp->application_id, stamp->user_version);
  auto db = std::make_unique<Database>(path, access_to_read(path, *stamp));
  check_pages(*db);
  return db;
}

// Everything that could be refused is looked at before the file is opened for writing.
std::unique_ptr<Database> open_to_write(const std::string& path) {
  const std::optional<sqlite::FileStamp> stamp = exists(path) ? sqlite::read_stamp(path) : std::nullopt;
  // After a crash in rollback mode only a writer can put the pages back; before that they may look damaged.
  const bool unfinished = exists(path + "-journal");
  if (stamp) {
    require_ours(path, stamp->application_id, stamp->user_version);
    if (!unfinished) {
      Database before(path, access_to_read(path, *stamp));
      check_pages(before);
    }
  }
  auto db = std::make_unique<Database>(path, Access::ReadWrite);
  if (unfinished) check_pages(*db);
  return db;
}

// Leaves the file with this version's tables, whatever older version it had, or as it is when it is not ours.
void create_or_migrate(Database& db) {
  Transaction transaction(db);
  const bool fresh = db.integer("SELECT count(*) FROM sqlite_schema") == 0;
  // Another process may have made the file since it was looked at.
  if (!fresh)
    require_ours(db.path(), static_cast<std::uint32_t>(db.integer("PRAGMA application_id")),
                 db.integer("PRAGMA user_version"));
  const std::int64_t version = fresh ? 0 : db.integer("PRAGMA user_version");
  if (fresh) db.run(kSchema);
  if (version < 2) db.run(kStageProfileSchema);
  if (version < 3) db.run(kProductAlgorithmSchema);
  if (version < 4) db.run(kKernelSchema);
  if (version < ProfileDb::kSchemaVersion) {
    db.run(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, ProfileDb::kSchemaVersion));
  }
  transaction.commit();
}

Statement& bind(Statement& statement, const Measurement& time) {
  return statement.bind(time.median.si()).bind(time.spread.si()).bind(time.samples);
}

// What a measured row may hold. SQLite's own checks let infinities and sizes below 0 pass, and whoever opens the file
// with another program may drop them.
struct RowLimits {
  static constexpr double kMaxSeconds = 86400.0;  // a day; no op, message or launch takes as long
  static constexpr double kMaxAmount = 1e30;      // flops or bytes of an op
  static constexpr std::int64_t kMaxCount = 1 << 24;
  static constexpr std::int64_t kMaxBytes = std::int64_t{1} << 53;
};

// Reads the columns of one row and refuses what no measurement is, naming database, table, row and column.
class RowReader {
 public:
  RowReader(Statement& row, const Database& db, const char* table) : row_(row), db_(db), table_(table) {}

  [[nodiscard]] std::string key_text(const char* column) {
    std::string value = row_.text();
    add_key(column, value);
    return value;
  }
  [[nodiscard]] std::int64_t key_integer(const char* column, std::int64_t low, std::int64_t high) {
    const std::int64_t value = row_.integer();
    add_key(column, fmt::format("{}", value));
    if (value < low || value > high) refuse(column, fmt::format("{}", value), fmt::format("{} to {}", low, high));
    return value;
  }
  [[nodiscard]] double real(const char* column, double high) {
    const double value = row_.real();
    if (!(value >= 0.0 && value <= high)) refuse(column, fmt::format("{}", value), fmt::format("0 to {}", high));
    return value;
  }
  [[nodiscard]] Measurement measurement() {
    const Seconds median(real("median_s", RowLimits::kMaxSeconds)), spread(real("mad_s", RowLimits::kMaxSeconds));
    const std::int64_t samples = row_.integer();
    if (samples < 0 || samples > std::numeric_limits<int>::max())
      refuse("samples", fmt::format("{}", samples), fmt::format("0 to {}", std::numeric_limits<int>::max()));
    return {median, spread, static_cast<int>(samples)};
  }

 private:
  void add_key(const char* column, const std::string& value) {
    key_ += fmt::format("{}{} {}", key_.empty() ? "" : ", ", column, shortened(printable(value), 60));
  }
  [[noreturn]] void refuse(const char* column, const std::string& value, const std::string& expected) const {
    throw InputError(
        fmt::format("{}: table {}, row with {}: {} is {}; a number from {} was expected. Delete the row, or profile "
                    "into a new file.",
                    db_.path(), table_, key_, column, value, expected));
  }

  Statement& row_;
  const Database& db_;
  const char* table_;
  std::string key_;  // "ranks 2, hosts 1"
};

std::vector<OpProfile> read_ops(Database& db, const std::string& where, const std::vector<std::string>& values) {
  Statement rows = db.prepare(
      fmt::format("SELECT signature, concurrency, flops, bytes, median_s, mad_s, samples FROM op_time {} ORDER BY "
                  "signature, concurrency",
                  where));
  for (const std::string& value : values) rows.bind(value);
  std::vector<OpProfile> ops;
  while (rows.step()) {
    RowReader row(rows, db, "op_time");
    OpProfile op;
    op.signature = row.key_text("signature");
    op.concurrency = static_cast<int>(row.key_integer("concurrency", 1, RowLimits::kMaxCount));
    op.flops = row.real("flops", RowLimits::kMaxAmount);
    op.bytes = row.real("bytes", RowLimits::kMaxAmount);
    op.time = row.measurement();
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace

CollectiveKind collective_from_name(const std::string& name, const std::string& path) {
  for (const auto kind :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
    if (name == name_of(kind)) return kind;
  throw InputError(
      fmt::format("{}: the profile database is damaged (it has a collective '{}'); restore a copy of it or profile "
                  "into a new file.",
                  path, name));
}

ProfileDb::ProfileDb(const std::string& path, Mode mode) {
  require(!path.empty(), "the path of the profile database is empty; give a path.");
  const bool writes = mode == Mode::ReadWrite;
  handle_ = std::make_unique<Handle>(Handle{mode, writes ? open_to_write(path) : open_to_read(path)});
  if (!writes) return;
  Database& db = *handle_->db;
  create_or_migrate(db);
  db.run("PRAGMA foreign_keys = ON");
  // Where the file system cannot do WAL, SQLite stays in rollback mode: slower, equally safe.
  static_cast<void>(db.text("PRAGMA journal_mode = WAL"));
  // In WAL mode this still keeps every commit when the process dies; only a power failure may cost the last ones.
  db.run("PRAGMA synchronous = NORMAL");
}

ProfileDb::~ProfileDb() {
  if (handle_->mode != Mode::ReadWrite) return;
  try {
    // Folds the log back into the file. Refused while others have the file open: then the last of them does it.
    handle_->db->run("PRAGMA busy_timeout = 0; PRAGMA journal_mode = DELETE");
  } catch (const std::exception&) {
    // Everything is committed either way.
  }
}

void ProfileDb::put_together(const std::function<void()>& write) {
  Transaction transaction(*handle_->db);
  write();
  transaction.commit();
}

namespace {

constexpr const char* kUnfinished = ", unfinished";  // after the date

// What could not be read back is not written.
std::string cluster_text(const Cluster& cluster) {
  const Json json = to_json(cluster);
  static_cast<void>(cluster_from_json(json, "the session's cluster"));
  return json_text(json);
}

}  // namespace

std::int64_t ProfileDb::begin_session(ProfileSession session) {
  session.date_utc += kUnfinished;
  return add_session(session);
}

void ProfileDb::finish_session(std::int64_t id, const ProfileSession& session) {
  handle_->db->prepare("UPDATE session SET date_utc = ?1, cluster_json = ?2 WHERE id = ?3")
      .bind(session.date_utc)
      .bind(cluster_text(session.cluster))
      .bind(id)
      .run();
}

std::vector<OpProfile> ProfileDb::unfinished_ops(const ProfileSession& like) const {
  return read_ops(*handle_->db,
                  fmt::format("WHERE session_id IN (SELECT id FROM session WHERE date_utc LIKE '%{}' AND "
                              "device = ?1 AND host = ?2 AND libraries = ?3)",
                              kUnfinished),
                  {like.device, like.host, like.libraries});
}

std::int64_t ProfileDb::add_session(const ProfileSession& session) {
  handle_->db
      ->prepare(
          "INSERT INTO session (device, host, libraries, date_utc, command, cluster_json) VALUES (?1, ?2, ?3, ?4, ?5, "
          "?6)")
      .bind(session.device)
      .bind(session.host)
      .bind(session.libraries)
      .bind(session.date_utc)
      .bind(session.command)
      .bind(cluster_text(session.cluster))
      .run();
  return handle_->db->last_insert_id();
}

void ProfileDb::put(std::int64_t session, const OpProfile& op) {
  Statement insert = handle_->db->prepare(
      "INSERT OR REPLACE INTO op_time (signature, concurrency, flops, bytes, median_s, mad_s, samples, session_id) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  insert.bind(op.signature).bind(op.concurrency).bind(op.flops).bind(op.bytes);
  bind(insert, op.time).bind(session).run();
}

void ProfileDb::put(std::int64_t session, const CollectiveProfile& collective) {
  Statement insert = handle_->db->prepare(
      "INSERT OR REPLACE INTO collective_time (kind, ranks, hosts, size_bytes, median_s, mad_s, samples, session_id) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  insert.bind(std::string(name_of(collective.kind)))
      .bind(collective.ranks)
      .bind(collective.hosts)
      .bind(collective.size_bytes);
  bind(insert, collective.time).bind(session).run();
}

void ProfileDb::put(std::int64_t session, const TransferProfile& transfer) {
  Statement insert = handle_->db->prepare(
      "INSERT OR REPLACE INTO transfer_time (hosts_apart, size_bytes, median_s, mad_s, samples, session_id) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  insert.bind(transfer.hosts_apart ? 1 : 0).bind(transfer.size_bytes);
  bind(insert, transfer.time).bind(session).run();
}

void ProfileDb::put_overhead(std::int64_t session, const std::string& name, const Measurement& time) {
  Statement insert = handle_->db->prepare(
      "INSERT OR REPLACE INTO overhead_time (name, median_s, mad_s, samples, session_id) VALUES (?1, ?2, ?3, ?4, ?5)");
  insert.bind(name);
  bind(insert, time).bind(session).run();
}

std::vector<ProfileSession> ProfileDb::sessions() const {
  Statement rows = handle_->db->prepare(
      "SELECT id, device, host, libraries, date_utc, command, cluster_json FROM session ORDER BY id");
  std::vector<ProfileSession> sessions;
  while (rows.step()) {
    const std::string place = fmt::format("{}: cluster of session {}", handle_->db->path(), rows.integer());
    ProfileSession session;
    session.device = rows.text();
    session.host = rows.text();
    session.libraries = rows.text();
    session.date_utc = rows.text();
    session.command = rows.text();
    session.cluster = cluster_from_json(parse_json(rows.text(), place), place);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

std::vector<std::string> ProfileDb::measured_devices() const {
  Statement rows = handle_->db->prepare(
      "SELECT id, cluster_json FROM session WHERE id IN (SELECT session_id FROM op_time UNION SELECT session_id FROM "
      "collective_time UNION SELECT session_id FROM transfer_time UNION SELECT session_id FROM overhead_time)");
  std::set<std::string> devices;
  while (rows.step()) {
    const std::string place = fmt::format("{}: cluster of session {}", handle_->db->path(), rows.integer());
    for (const HostGroup& group : cluster_from_json(parse_json(rows.text(), place), place).groups)
      devices.insert(group.device.name);
  }
  return {devices.begin(), devices.end()};
}

std::vector<OpProfile> ProfileDb::ops() const { return read_ops(*handle_->db, "", {}); }

std::vector<CollectiveProfile> ProfileDb::collectives() const {
  Statement rows = handle_->db->prepare(
      "SELECT kind, ranks, hosts, size_bytes, median_s, mad_s, samples FROM collective_time ORDER BY kind, ranks, "
      "hosts, size_bytes");
  std::vector<CollectiveProfile> collectives;
  while (rows.step()) {
    RowReader row(rows, *handle_->db, "collective_time");
    CollectiveProfile collective;
    collective.kind = collective_from_name(row.key_text("kind"), handle_->db->path());
    collective.ranks = static_cast<int>(row.key_integer("ranks", 1, RowLimits::kMaxCount));
    collective.hosts = static_cast<int>(row.key_integer("hosts", 1, collective.ranks));
    collective.size_bytes = row.key_integer("size_bytes", 1, RowLimits::kMaxBytes);
    collective.time = row.measurement();
    collectives.push_back(collective);
  }
  return collectives;
}

std::vector<TransferProfile> ProfileDb::transfers() const {
  Statement rows = handle_->db->prepare(
      "SELECT hosts_apart, size_bytes, median_s, mad_s, samples FROM transfer_time ORDER BY hosts_apart, size_bytes");
  std::vector<TransferProfile> transfers;
  while (rows.step()) {
    RowReader row(rows, *handle_->db, "transfer_time");
    TransferProfile transfer;
    transfer.hosts_apart = row.key_integer("hosts_apart", 0, 1) != 0;
    transfer.size_bytes = row.key_integer("size_bytes", 1, RowLimits::kMaxBytes);
    transfer.time = row.measurement();
    transfers.push_back(transfer);
  }
  return transfers;
}

std::map<std::string, Measurement> ProfileDb::overheads() const {
  Statement rows = handle_->db->prepare("SELECT name, median_s, mad_s, samples FROM overhead_time ORDER BY name");
  std::map<std::string, Measurement> overheads;
  while (rows.step()) {
    RowReader row(rows, *handle_->db, "overhead_time");
    std::string name = row.key_text("name");
    overheads.emplace(std::move(name), row.measurement());
  }
  return overheads;
}

std::optional<std::string> ProfileDb::sweep_result(const std::string& key) const {
  Statement row = handle_->db->prepare("SELECT result_json FROM sweep_point WHERE key = ?1");
  if (!row.bind(key).step()) return std::nullopt;
  return row.text();
}

void ProfileDb::put_sweep_point(const SweepPoint& point) {
  handle_->db->prepare("INSERT OR REPLACE INTO sweep_point (key, result_json) VALUES (?1, ?2)")
      .bind(point.key)
      .bind(point.result)
      .run();
}

void ProfileDb::put_run(std::int64_t session, const std::string& plan_json, Seconds predicted, Seconds measured,
                        const std::string& details) {
  handle_->db
      ->prepare(
          "INSERT INTO run (session_id, plan_json, predicted_s, measured_s, details_json) VALUES (?1, ?2, ?3, ?4, ?5)")
      .bind(session)
      .bind(plan_json)
      .bind(predicted.si())
      .bind(measured.si())
      .bind(details)
      .run();
}

std::vector<ProfileRun> ProfileDb::runs() const {
  Statement rows =
      handle_->db->prepare("SELECT session_id, plan_json, predicted_s, measured_s, details_json FROM run ORDER BY id");
  std::vector<ProfileRun> runs;
  while (rows.step()) {
    ProfileRun run;
    run.session = rows.integer();
    run.plan_json = rows.text();
    run.predicted = Seconds(rows.real());
    run.measured = Seconds(rows.real());
    run.details = rows.text();
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace meshwright
