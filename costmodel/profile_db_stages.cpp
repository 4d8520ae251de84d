// SPDX-License-Identifier: Apache-2.0
// The stage tables of the profile database (core/planner/stages/stage_profile.h), since version 2:
//
//   stage_profile_key  id | key_json                                        what the entries depend on
//     ^
//   stage_profile      key_id, layers, submesh, shape, batch axis, option, sharding | seconds | bytes | samples |
//   session
//
// batch_axis -1: batches are held to none; sharding '': the entry is of its option number. The columns of memory
// are NULL together: as modelled. samples and the spreads (mad_s) are NULL together: the times are modelled.
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/profile_db_handle.h"

namespace meshwright {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

const char* const kStageProfileSchema = R"sql(
CREATE TABLE stage_profile_key (id INTEGER PRIMARY KEY, key_json TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE stage_profile (
  key_id INTEGER NOT NULL REFERENCES stage_profile_key,
  first_layer INTEGER NOT NULL, last_layer INTEGER NOT NULL,
  hosts INTEGER NOT NULL, devices_per_host INTEGER NOT NULL, host_group INTEGER NOT NULL,
  logical_shape TEXT NOT NULL, batch_axis INTEGER NOT NULL, option_number INTEGER NOT NULL, sharding TEXT NOT NULL,
  forward_s REAL NOT NULL CHECK (forward_s >= 0), backward_s REAL NOT NULL CHECK (backward_s >= 0),
  step_s REAL NOT NULL CHECK (step_s >= 0),
  resident_bytes REAL, saved_bytes REAL, recomputed_bytes REAL, repeated_bytes REAL, working_bytes REAL,
  boundary_in_bytes REAL NOT NULL, boundary_out_bytes REAL NOT NULL,
  samples INTEGER, forward_mad_s REAL, backward_mad_s REAL, step_mad_s REAL,
  session_id INTEGER REFERENCES session,
  PRIMARY KEY (key_id, first_layer, last_layer, hosts, devices_per_host, host_group, logical_shape, batch_axis,
               option_number, sharding)) STRICT, WITHOUT ROWID;
)sql";

namespace {

constexpr std::int64_t kStagesSince = 2;  // version of the schema

bool has_stage_profiles(Database& db) { return db.integer("PRAGMA user_version") >= kStagesSince; }

std::int64_t id_of_key(Database& db, const std::string& key) {
  // A key is stored once: further tables with it find its number.
  db.prepare("INSERT OR IGNORE INTO stage_profile_key (key_json) VALUES (?1)").bind(key).run();
  Statement row = db.prepare("SELECT id FROM stage_profile_key WHERE key_json = ?1");
  MW_CHECK(row.bind(key).step(), "a key that was written is not there");
  return row.integer();
}

void bind(Statement& row, const StageProfileName& name) {
  const StagePlace& place = name.place;
  row.bind(place.first)
      .bind(place.last)
      .bind(place.submesh.hosts)
      .bind(place.submesh.devices_per_host)
      .bind(place.submesh.group)
      .bind(fmt::format("{}", fmt::join(place.shape, "x")))
      .bind(place.batch_axis.value_or(-1))
      .bind(name.option)
      .bind(name.sharding);
}

void bind(Statement& row, const StageProfile& entry) {
  row.bind(entry.forward.si()).bind(entry.backward.si()).bind(entry.step.si());
  std::optional<double> resident, saved, recomputed, repeated, working;
  if (entry.memory) {
    resident = entry.memory->resident.si();
    saved = entry.memory->saved.si();
    recomputed = entry.memory->recomputed.si();
    repeated = entry.memory->recomputed_at_once.si();
    working = entry.memory->working.si();
  }
  row.bind(resident).bind(saved).bind(recomputed).bind(repeated).bind(working);
  row.bind(entry.boundary_in.si()).bind(entry.boundary_out.si());
  std::optional<int> samples;
  std::optional<double> forward, backward, step;
  if (entry.measured) {
    samples = entry.measured->samples;
    forward = entry.measured->forward_spread.si();
    backward = entry.measured->backward_spread.si();
    step = entry.measured->step_spread.si();
  }
  row.bind(samples).bind(forward).bind(backward).bind(step);
}

int small(std::int64_t value) {
  require(value == static_cast<std::int64_t>(static_cast<int>(value)), "{} is not a number of devices or layers.",
          value);
  return static_cast<int>(value);
}

StageProfileName read_name(Statement& row) {
  StageProfileName name;
  StagePlace& place = name.place;
  place.first = small(row.integer());
  place.last = small(row.integer());
  place.submesh.hosts = small(row.integer());
  place.submesh.devices_per_host = small(row.integer());
  place.submesh.group = small(row.integer());
  for (const std::string& size : split(row.text(), 'x'))
    place.shape.push_back(static_cast<int>(parse_integer(size, "logical_shape", 1, 1 << 20)));
  if (const std::int64_t axis = row.integer(); axis != -1) place.batch_axis = small(axis);
  name.option = small(row.integer());
  name.sharding = row.text();
  return name;
}

StageProfile read_entry(Statement& row) {
  StageProfile entry;
  entry.forward = Seconds(row.real());
  entry.backward = Seconds(row.real());
  entry.step = Seconds(row.real());
  const std::optional<double> resident = row.real_or_null(), saved = row.real_or_null(),
                              recomputed = row.real_or_null(), repeated = row.real_or_null(),
                              working = row.real_or_null();
  require(resident.has_value() == saved.has_value() && saved.has_value() == recomputed.has_value() &&
              recomputed.has_value() == repeated.has_value() && repeated.has_value() == working.has_value(),
          "a stage profile has some of its memory columns but not all.");
  if (resident)
    entry.memory = StageMemory{Bytes(*resident), Bytes(*saved), Bytes(*recomputed), Bytes(*repeated), Bytes(*working)};
  entry.boundary_in = Bytes(row.real());
  entry.boundary_out = Bytes(row.real());
  const std::optional<std::int64_t> samples = row.integer_or_null();
  const std::optional<double> forward = row.real_or_null(), backward = row.real_or_null(), step = row.real_or_null();
  require(samples.has_value() == forward.has_value() && forward.has_value() == backward.has_value() &&
              backward.has_value() == step.has_value(),
          "a stage profile has some of its spread columns but not all.");
  if (samples)
    entry.measured = StageProfile::Measured{small(*samples), Seconds(*forward), Seconds(*backward), Seconds(*step)};
  return entry;
}

// What `read` returns; whatever it refuses in the rows is the file's damage.
template <class Read>
auto of_file(const Database& db, Read read) {
  try {
    return read();
  } catch (const InputError& error) {
    throw InputError(
        fmt::format("{}: the profile database is damaged ({}); restore a copy of it or profile into a new file.",
                    db.path(), error.what()));
  }
}

StageProfileTable read_table(Database& db, std::int64_t id, const std::string& key) {
  Statement row = db.prepare(
      "SELECT first_layer, last_layer, hosts, devices_per_host, host_group, logical_shape, batch_axis, option_number, "
      "sharding, forward_s, backward_s, step_s, resident_bytes, saved_bytes, recomputed_bytes, repeated_bytes, "
      "working_bytes, "
      "boundary_in_bytes, boundary_out_bytes, samples, forward_mad_s, backward_mad_s, step_mad_s "
      "FROM stage_profile WHERE key_id = ?1");
  row.bind(id);
  return of_file(db, [&] {
    StageProfileTable table(stage_profile_key_from_text(key, "stage_profile_key"));
    while (row.step()) {
      const StageProfileName name = read_name(row);
      table.add(name, read_entry(row));
    }
    return table;
  });
}

}  // namespace

void ProfileDb::put_stage_profile(std::optional<std::int64_t> session, const StageProfileTable& table) {
  Database& db = *handle_->db;
  const std::string key = to_text(table.key());
  // What could not be read back is not written.
  static_cast<void>(stage_profile_key_from_text(key, "the stage profile's key"));
  Transaction transaction(db);
  const std::int64_t id = id_of_key(db, key);
  Statement insert = db.prepare(
      "INSERT OR REPLACE INTO stage_profile (key_id, first_layer, last_layer, hosts, devices_per_host, host_group, "
      "logical_shape, batch_axis, option_number, sharding, forward_s, backward_s, step_s, resident_bytes, saved_bytes, "
      "recomputed_bytes, repeated_bytes, working_bytes, boundary_in_bytes, boundary_out_bytes, samples, forward_mad_s, "
      "backward_mad_s, "
      "step_mad_s, session_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
      "?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)");
  for (const auto& [name, entry] : table.entries()) {
    insert.bind(id);
    bind(insert, name);
    bind(insert, entry);
    insert.bind(session).run();
  }
  transaction.commit();
}

std::vector<StageProfileKey> ProfileDb::stage_profile_keys() const {
  std::vector<StageProfileKey> keys;
  if (!has_stage_profiles(*handle_->db)) return keys;
  Statement rows = handle_->db->prepare("SELECT key_json FROM stage_profile_key ORDER BY id");
  while (rows.step())
    keys.push_back(
        of_file(*handle_->db, [&] { return stage_profile_key_from_text(rows.text(), "stage_profile_key"); }));
  return keys;
}

std::optional<StageProfileTable> ProfileDb::stage_profile(const StageProfileKey& key) const {
  if (!has_stage_profiles(*handle_->db)) return std::nullopt;
  const std::string text = to_text(key);
  Statement row = handle_->db->prepare("SELECT id FROM stage_profile_key WHERE key_json = ?1");
  if (!row.bind(text).step()) return std::nullopt;
  return read_table(*handle_->db, row.integer(), text);
}

std::vector<StageProfileTable> ProfileDb::stage_profiles() const {
  std::vector<StageProfileTable> tables;
  if (!has_stage_profiles(*handle_->db)) return tables;
  Statement rows = handle_->db->prepare("SELECT id, key_json FROM stage_profile_key ORDER BY id");
  while (rows.step()) {
    const std::int64_t id = rows.integer();
    tables.push_back(read_table(*handle_->db, id, rows.text()));
  }
  return tables;
}

}  // namespace meshwright
