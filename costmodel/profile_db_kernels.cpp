// SPDX-License-Identifier: Apache-2.0
// Kernels and collectives that others measured and published, since version 4 of the profile database:
//
//   kernel_source  id | source | licence
//     ^
//     +-- kernel_time  term, device, dtype, library, and the shape | time_s | source_id
//
// The shape's columns are those of docs/files.md ("measured kernels"), with sizes in bytes in the place of types; a
// column that the term does not have is 0 or ''. device is the name of a data sheet.
#include "costmodel/profile_db_handle.h"

namespace meshwright {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

const char* const kKernelSchema = R"sql(
CREATE TABLE kernel_source (
  id INTEGER PRIMARY KEY, source TEXT NOT NULL, licence TEXT NOT NULL, UNIQUE (source, licence)) STRICT;
CREATE TABLE kernel_time (
  term TEXT NOT NULL CHECK (term IN ('products', 'attention', 'network', 'memory')),
  device TEXT NOT NULL, dtype TEXT NOT NULL, library TEXT NOT NULL,
  kind TEXT NOT NULL, batch INTEGER NOT NULL, m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL,
  heads INTEGER NOT NULL, kv_heads INTEGER NOT NULL, queries INTEGER NOT NULL, keys INTEGER NOT NULL,
  key_width INTEGER NOT NULL, value_width INTEGER NOT NULL,
  causal INTEGER NOT NULL CHECK (causal IN (0, 1)), backward INTEGER NOT NULL CHECK (backward IN (0, 1)),
  element_bytes REAL NOT NULL, result_bytes REAL NOT NULL,
  ranks INTEGER NOT NULL, hosts INTEGER NOT NULL, fabric TEXT NOT NULL, size_bytes REAL NOT NULL,
  time_s REAL NOT NULL CHECK (time_s > 0),
  source_id INTEGER NOT NULL REFERENCES kernel_source,
  PRIMARY KEY (term, device, dtype, library, kind, batch, m, n, k, heads, kv_heads, queries, keys, key_width,
    value_width, causal, backward, element_bytes, result_bytes, ranks, hosts, fabric, size_bytes)) STRICT, WITHOUT ROWID;
)sql";

namespace {

constexpr std::int64_t kKernelsSince = 4;  // version of the schema

constexpr const char* kColumns =
    "term, device, dtype, library, kind, batch, m, n, k, heads, kv_heads, queries, keys, key_width, value_width, "
    "causal, backward, element_bytes, result_bytes, ranks, hosts, fabric, size_bytes, time_s";

// A row of kernel_time without what is common to all terms.
struct ShapeColumns {
  std::string term, kind;
  ProductShape product{0, 0, 0, 0, Bytes(0.0), Bytes(0.0)};
  AttentionShape attention{0, 0, 0, 0, 0, 0, 0, false, false, Bytes(0.0)};
  int ranks = 0, hosts = 0;
  std::string fabric;
  Bytes size{0.0};
};

ShapeColumns columns_of(const KernelRow& row) {
  ShapeColumns columns;
  columns.term = term_name(row);
  if (const auto* product = std::get_if<ProductShape>(&row.kernel)) {
    columns.product = *product;
  } else if (const auto* attention = std::get_if<AttentionShape>(&row.kernel)) {
    columns.attention = *attention;
  } else if (const auto* collective = std::get_if<MeasuredCollective>(&row.kernel)) {
    columns.kind = name_of(collective->kind);
    columns.ranks = collective->ranks;
    columns.hosts = collective->hosts;
    columns.fabric = collective->fabric;
    columns.size = collective->size;
  } else {
    const auto& pass = std::get<MeasuredPass>(row.kernel);
    columns.kind = pass.kind;
    columns.size = pass.operand;
  }
  return columns;
}

// Products and attention share the columns batch and element_bytes.
void bind(Statement& insert, const KernelRow& row) {
  const ShapeColumns c = columns_of(row);
  const ProductShape& p = c.product;
  const AttentionShape& a = c.attention;
  insert.bind(c.term).bind(row.device).bind(row.dtype).bind(row.library).bind(c.kind);
  insert.bind(p.batch + a.batch).bind(p.m).bind(p.n).bind(p.k);
  insert.bind(a.heads).bind(a.kv_heads).bind(a.queries).bind(a.keys).bind(a.key_width).bind(a.value_width);
  insert.bind(a.causal ? 1 : 0).bind(a.backward ? 1 : 0);
  insert.bind((p.operand_element + a.element).si()).bind(p.result_element.si());
  insert.bind(c.ranks).bind(c.hosts).bind(c.fabric).bind(c.size.si()).bind(row.time.si());
}

KernelRow read_row(Statement& row, const Database& db) {
  KernelRow kernel;
  const std::string term = row.text();
  kernel.device = row.text();
  kernel.dtype = row.text();
  kernel.library = row.text();
  const std::string kind = row.text();
  ProductShape p;
  AttentionShape a;
  p.batch = a.batch = row.integer();
  for (std::int64_t* size :
       {&p.m, &p.n, &p.k, &a.heads, &a.kv_heads, &a.queries, &a.keys, &a.key_width, &a.value_width})
    *size = row.integer();
  a.causal = row.integer() != 0;
  a.backward = row.integer() != 0;
  p.operand_element = a.element = Bytes(row.real());
  p.result_element = Bytes(row.real());
  MeasuredCollective collective{CollectiveKind::AllReduce, 1, 1, "", Bytes(0.0)};
  collective.ranks = static_cast<int>(row.integer());
  collective.hosts = static_cast<int>(row.integer());
  collective.fabric = row.text();
  collective.size = Bytes(row.real());
  kernel.time = Seconds(row.real());
  kernel.place = db.path();
  if (term == "products") {
    kernel.kernel = p;
  } else if (term == "attention") {
    kernel.kernel = a;
  } else if (term == "memory") {
    kernel.kernel = MeasuredPass{kind, collective.size};
  } else {
    collective.kind = collective_from_name(kind, db.path());
    kernel.kernel = collective;
  }
  return kernel;
}

std::int64_t source_id(Database& db, const KernelSource& source) {
  db.prepare("INSERT OR IGNORE INTO kernel_source (source, licence) VALUES (?1, ?2)")
      .bind(source.source)
      .bind(source.licence)
      .run();
  Statement row = db.prepare("SELECT id FROM kernel_source WHERE source = ?1 AND licence = ?2");
  row.bind(source.source).bind(source.licence);
  if (!row.step()) db.throw_damaged();
  return row.integer();
}

}  // namespace

int ProfileDb::put_kernels(const KernelSource& source, const std::vector<KernelRow>& rows) {
  Database& db = *handle_->db;
  Transaction transaction(db);
  const std::int64_t before = db.integer("SELECT count(*) FROM kernel_time");
  const std::int64_t id = source_id(db, source);
  std::string parameters;
  for (int i = 1; i <= 25; ++i) parameters += fmt::format("{}?{}", i == 1 ? "" : ", ", i);
  Statement insert =
      db.prepare(fmt::format("INSERT OR REPLACE INTO kernel_time ({}, source_id) VALUES ({})", kColumns, parameters));
  for (const KernelRow& row : rows) {
    bind(insert, row);
    insert.bind(id).run();
  }
  const std::int64_t after = db.integer("SELECT count(*) FROM kernel_time");
  transaction.commit();
  return static_cast<int>(after - before);
}

std::vector<KernelRow> ProfileDb::kernels() const {
  Database& db = *handle_->db;
  std::vector<KernelRow> kernels;
  if (db.integer("PRAGMA user_version") < kKernelsSince) return kernels;
  // In the order of the primary key.
  Statement rows = db.prepare(fmt::format("SELECT {} FROM kernel_time", kColumns));
  while (rows.step()) kernels.push_back(read_row(rows, db));
  return kernels;
}

}  // namespace meshwright
