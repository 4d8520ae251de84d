// SPDX-License-Identifier: Apache-2.0
// SQLite behind RAII: a Database, its Statements, one checker. Only sqlite.cpp includes sqlite3.h.
//
// Failures throw SystemError with the path, the call and SQLite's message; a file that is damaged, no database, or
// without the tables that a statement names throws InputError. Not for several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace meshwright::sqlite {

class Database;

// What sentences about a file call it, and what they advise.
struct FileKind {
  const char* name;
  const char* when_damaged;
  const char* when_other;  // not an SQLite file
};
inline constexpr FileKind kProfileDatabase = {"profile database", "restore a copy of it or profile into a new file",
                                              "give another path"};

class Statement {
 public:
  // Binds the parameters ?1, ?2, ... in order.
  Statement& bind(std::int64_t value);
  Statement& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
  Statement& bind(double value);
  Statement& bind(const std::string& value);
  Statement& bind(std::nullopt_t);  // NULL
  template <class Value>
  Statement& bind(const std::optional<Value>& value) {
    return value ? bind(*value) : bind(std::nullopt);
  }

  // Whether there is a row to read; past the last one, false.
  [[nodiscard]] bool step();
  // Runs a statement that returns no rows, after which it can be bound and run anew. REQUIRES: it returns none.
  void run();

  // Reads the columns of the row from left to right. Throws InputError where a number was expected and there is a text;
  // NULL is 0 or "".
  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] double real();
  [[nodiscard]] std::string text();
  [[nodiscard]] std::optional<std::int64_t> integer_or_null();
  [[nodiscard]] std::optional<double> real_or_null();

 private:
  friend class Database;
  Statement(Database& database, const std::string& sql);
  void check_bind(int code) const;
  [[nodiscard]] bool next_is_null() const;
  [[noreturn]] void refuse_column(const char* expected) const;

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database& database_;
  std::string sql_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int next_column_ = 0;
};

enum class Access {
  ReadOnly,
  Immutable,  // reads the file as if it were read-only for all: no locks, no side files, no write-ahead log
  ReadWrite,  // creates the file when it is missing
};

class Database {
 public:
  Database(const std::string& path, Access access, const FileKind& kind = kProfileDatabase);

  [[nodiscard]] Statement prepare(const std::string& sql) { return Statement(*this, sql); }
  void run(const std::string& sql);                              // one or several statements, no parameters
  [[nodiscard]] std::int64_t integer(const std::string& query);  // the first column of the only row
  [[nodiscard]] std::string text(const std::string& query);
  [[nodiscard]] std::int64_t last_insert_id() const;
  [[nodiscard]] const std::string& path() const { return path_; }

  [[noreturn]] void throw_damaged() const;  // says what SQLite says
  [[noreturn]] void throw_damaged(const std::string& reason) const;
  // Throws unless `code` is SQLITE_OK, SQLITE_ROW or SQLITE_DONE; `call` is what was tried.
  void check(int code, const std::string& call) const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  [[nodiscard]] std::string message() const;

  std::string path_;
  FileKind kind_;
  std::unique_ptr<sqlite3, Close> connection_;

  friend class Statement;
};

// Begins at once with the write lock; rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

// The fields of a database file's first page that SQLite reserves for programs, read without opening it as a database
// (which could write to it). Empty for a file of no bytes. Throws InputError when it is not an SQLite file.
struct FileStamp {
  std::uint32_t application_id;
  std::int32_t user_version;
  bool wal;  // the file is in WAL mode: what it holds may be continued in a log beside it
};
[[nodiscard]] std::optional<FileStamp> read_stamp(const std::string& path, const FileKind& kind = kProfileDatabase);

}  // namespace meshwright::sqlite
