// SPDX-License-Identifier: Apache-2.0
#include "costmodel/sqlite.h"

#include <sqlite3.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright::sqlite {

namespace {

constexpr int kBusyTimeoutMs = 5000;

// A plain relative name could be taken for one of SQLite's special ones (":memory:", "file:...").
std::string plain(const std::string& path) { return path.starts_with('/') ? path : "./" + path; }

std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : plain(path)) {
    // These have a meaning in a URI.
    if (c == '?' || c == '#' || c == '%')
      uri += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      uri += c;
  }
  return uri + "?immutable=1";
}

}  // namespace

// --- Database ---

void Database::Close::operator()(sqlite3* connection) const { sqlite3_close(connection); }

Database::Database(const std::string& path, Access access, const FileKind& kind) : path_(path), kind_(kind) {
  const bool immutable = access == Access::Immutable;
  const std::string name = immutable ? immutable_uri(path) : plain(path);
  int flags = access == Access::ReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (immutable) flags |= SQLITE_OPEN_URI;
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &connection, flags, nullptr);
  connection_.reset(connection);  // also after a failure: it carries the message
  check(code, "open");
  check(sqlite3_busy_timeout(connection, kBusyTimeoutMs), "busy_timeout");
}

void Database::throw_damaged() const { throw_damaged(message()); }

void Database::throw_damaged(const std::string& reason) const {
  throw InputError(fmt::format("{}: the {} is damaged ({}); {}.", path_, kind_.name, reason, kind_.when_damaged));
}

// SQLite quotes whole statements of a schema.
std::string Database::message() const {
  constexpr std::size_t kQuoted = 160;
  return shortened(printable(sqlite3_errmsg(connection_.get())), kQuoted);
}

void Database::check(int code, const std::string& call) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  // Extended codes have the primary one in their lower 8 bits.
  const int primary = code & 0xff;
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) throw_damaged();
  if (primary == SQLITE_BUSY)
    throw SystemError(fmt::format(
        "{}: another process has locked the database; try again when it has finished, or give another file.", path_));
  throw SystemError(fmt::format("{}: SQLite: {} failed: {} (code {}).", path_, call,
                                connection_ ? message() : sqlite3_errstr(code), code));
}

void Database::run(const std::string& sql) {
  check(sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr), sql.substr(0, sql.find('\n')));
}

std::int64_t Database::integer(const std::string& query) {
  Statement statement = prepare(query);
  MW_CHECK(statement.step(), "'{}' returned no row", query);
  return statement.integer();
}

std::string Database::text(const std::string& query) {
  Statement statement = prepare(query);
  MW_CHECK(statement.step(), "'{}' returned no row", query);
  return statement.text();
}

std::int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(connection_.get()); }

// --- Statement ---

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(Database& database, const std::string& sql) : database_(database), sql_(sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(database.connection_.get(), sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr);
  statement_.reset(statement);
  // Our statements are fixed texts: if one is an error, the file is not as this program made it.
  if (code == SQLITE_ERROR) database.throw_damaged();
  database.check(code, "prepare " + shortened(printable(sql)));
}

void Statement::check_bind(int code) const { database_.check(code, fmt::format("bind ?{} of {}", bound_, sql_)); }

Statement& Statement::bind(std::int64_t value) {
  check_bind(sqlite3_bind_int64(statement_.get(), ++bound_, value));
  return *this;
}

Statement& Statement::bind(double value) {
  check_bind(sqlite3_bind_double(statement_.get(), ++bound_, value));
  return *this;
}

Statement& Statement::bind(const std::string& value) {
  check_bind(
      sqlite3_bind_text64(statement_.get(), ++bound_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(std::nullopt_t) {
  check_bind(sqlite3_bind_null(statement_.get(), ++bound_));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  database_.check(code, shortened(printable(sql_)));
  next_column_ = 0;
  return code == SQLITE_ROW;
}

void Statement::run() {
  const bool row = step();
  MW_CHECK(!row, "'{}' returned a row", sql_);
  // So that it can be bound and run again.
  database_.check(sqlite3_reset(statement_.get()), "reset " + sql_);
  bound_ = 0;
}

// SQLite would make 0 of a text, and a whole number of a fraction.
std::int64_t Statement::integer() {
  const int type = sqlite3_column_type(statement_.get(), next_column_);
  if (type != SQLITE_INTEGER && type != SQLITE_NULL) refuse_column("a whole number");
  return sqlite3_column_int64(statement_.get(), next_column_++);
}

double Statement::real() {
  const int type = sqlite3_column_type(statement_.get(), next_column_);
  if (type == SQLITE_TEXT || type == SQLITE_BLOB) refuse_column("a number");
  return sqlite3_column_double(statement_.get(), next_column_++);
}

void Statement::refuse_column(const char* expected) const {
  const char* name = sqlite3_column_name(statement_.get(), next_column_);
  database_.throw_damaged(
      fmt::format("a row has no value of the right type in column '{}': {} was expected", name ? name : "?", expected));
}

bool Statement::next_is_null() const { return sqlite3_column_type(statement_.get(), next_column_) == SQLITE_NULL; }

std::optional<std::int64_t> Statement::integer_or_null() {
  const bool null = next_is_null();
  const std::int64_t value = integer();
  return null ? std::nullopt : std::optional(value);
}

std::optional<double> Statement::real_or_null() {
  const bool null = next_is_null();
  const double value = real();
  return null ? std::nullopt : std::optional(value);
}

std::string Statement::text() {
  const int column = next_column_++;
  // Before sqlite3_column_bytes, which counts what this call may have converted.
  const unsigned char* bytes = sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

// --- Transaction ---

// IMMEDIATE takes the write lock at once: to ask for it later could fail in the middle.
Transaction::Transaction(Database& database) : database_(database) { database_.run("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const std::exception&) {
    // The failure that brought us here is already on its way; SQLite rolls back when the connection closes.
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

// --- FileStamp ---

// The 100-byte header of the file format: "SQLite format 3\0", user_version at 60, application_id at 68, both
// big-endian.
std::optional<FileStamp> read_stamp(const std::string& path, const FileKind& kind) {
  std::array<char, 100> header{};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SystemError(fmt::format("{}: cannot be opened ({}).", path, std::strerror(errno)));
  file.read(header.data(), header.size());
  const std::streamsize bytes = file.gcount();
  if (file.bad() || (bytes == 0 && !file.eof()))
    throw SystemError(fmt::format("{}: cannot be read ({}).", path, std::strerror(errno)));
  if (bytes == 0) return std::nullopt;

  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  require(
      bytes == static_cast<std::streamsize>(header.size()) && std::string_view(header.data(), kMagic.size()) == kMagic,
      "{}: not a {} (not an SQLite file); {}.", path, kind.name, kind.when_other);
  const auto is_known = [](char version) { return version == 1 || version == 2; };
  require(is_known(header[18]) && is_known(header[19]),
          "{}: this SQLite cannot write the file's format; the file is damaged or belongs to another program.", path);
  const auto big_endian = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(header[at + i]);
    return value;
  };
  return FileStamp{big_endian(68), static_cast<std::int32_t>(big_endian(60)), header[18] == 2 || header[19] == 2};
}

}  // namespace meshwright::sqlite
