// SPDX-License-Identifier: Apache-2.0
// Which algorithm of a library each product takes on a kind of device, since version 3 of the profile database:
//
//   product_algorithm  device, library, product | algorithm | session
//
// product and algorithm are words of kernels (kernels/cuda/products/product_choices.h), which look at them when they
// use them.
#include "costmodel/profile_db_handle.h"

namespace meshwright {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

const char* const kProductAlgorithmSchema = R"sql(
CREATE TABLE product_algorithm (
  device TEXT NOT NULL, library TEXT NOT NULL, product TEXT NOT NULL, algorithm TEXT NOT NULL,
  session_id INTEGER NOT NULL REFERENCES session,
  PRIMARY KEY (device, library, product)) STRICT, WITHOUT ROWID;
)sql";

namespace {

constexpr std::int64_t kProductsSince = 3;  // version of the schema

}  // namespace

void ProfileDb::put_product_algorithms(std::int64_t session, const std::string& device, const std::string& library,
                                       const std::map<std::string, std::string>& algorithms) {
  Database& db = *handle_->db;
  Transaction transaction(db);
  Statement insert = db.prepare(
      "INSERT OR REPLACE INTO product_algorithm (device, library, product, algorithm, session_id) VALUES (?1, ?2, ?3, "
      "?4, ?5)");
  for (const auto& [product, algorithm] : algorithms)
    insert.bind(device).bind(library).bind(product).bind(algorithm).bind(session).run();
  transaction.commit();
}

std::map<std::string, std::string> ProfileDb::product_algorithms(const std::string& device,
                                                                 const std::string& library) const {
  std::map<std::string, std::string> algorithms;
  Database& db = *handle_->db;
  if (db.integer("PRAGMA user_version") < kProductsSince) return algorithms;
  Statement rows = db.prepare(
      "SELECT product, algorithm FROM product_algorithm WHERE device = ?1 AND library = ?2 ORDER BY product");
  rows.bind(device).bind(library);
  while (rows.step()) {
    std::string product = rows.text();
    algorithms.emplace(std::move(product), rows.text());
  }
  return algorithms;
}

}  // namespace meshwright
