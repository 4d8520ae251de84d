// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_kernels/table.h"

#include <algorithm>

#include "core/base/text_table.h"

namespace meshwright::bench {

namespace {

constexpr double kMemoryAim = 0.85, kProductAim = 0.90;
// A kernel that moves less is over before a device is at its full pace; it is shown, and held to no aim.
constexpr double kMinBytes = 32.0 * 1024 * 1024;

struct Verdict {
  int rows = 0, reach = 0;
  double worst = 0.0;
  std::string of;

  void add(double share, double aim, const std::string& name) {
    ++rows;
    reach += share >= aim;
    if (rows > 1 && share >= worst) return;
    worst = share;
    of = name;
  }
};

double share_of_copy(const MemoryRow& row, const Found& found) {
  return row.bytes_per_second() / found.copy_bytes_per_second;
}

template <class Case>
std::string name_of_row(const Case& what) {
  return fmt::format("{} {} of {} in {}", what.kernel, what.shape, what.model, what.type);
}

Verdict memory_verdict(const Found& found) {
  Verdict verdict;
  for (const MemoryRow& row : found.memory)
    if (row.failure.empty() && row.what.bytes >= kMinBytes)
      verdict.add(share_of_copy(row, found), kMemoryAim, name_of_row(row.what));
  return verdict;
}

// `seconds`: of ProductRow, what is set beside the best.
Verdict product_verdict(const Found& found, double ProductRow::*seconds) {
  Verdict verdict;
  for (const ProductRow& row : found.products)
    if (row.failure.empty()) verdict.add(row.best / (row.*seconds), kProductAim, name_of_row(row.what));
  return verdict;
}

// FLOP per second of the best product of such a type; 0 where none was measured.
double best_product(const Found& found, const std::string& type) {
  double best = 0.0;
  for (const ProductRow& row : found.products)
    if (row.failure.empty() && row.what.type == type) best = std::max(best, row.what.flops / row.best);
  return best;
}

std::string percent(double share) { return fmt::format("{:.1f}", 100.0 * share); }
std::string micro(Seconds time) { return fmt::format("{:.2f}", time.si() * 1e6); }
std::string tera(double flops, double seconds) { return fmt::format("{:.4g}", flops / seconds * 1e-12); }

std::string line_of(const Verdict& verdict, const std::string& what, double aim, const std::string& beside) {
  if (verdict.rows == 0) return fmt::format("# {}: no row to judge\n", what);
  return fmt::format("# {}: {} of {} rows reach {:.0f} % of {}; the farthest from it, at {} %: {}\n", what,
                     verdict.reach, verdict.rows, 100.0 * aim, beside, percent(verdict.worst), verdict.of);
}

std::string memory_table(const Found& found) {
  TextTable table({{"model", ""},
                   {"type", ""},
                   {"moves", "(MB)"},
                   {"time", "(us)"},
                   {"spread", "(us)"},
                   {"rate", "(GB/s)"},
                   {"of the copy", "(%)"},
                   {"of one as large", "(%)"},
                   {"kernel, shape, what it moves", ""}});
  for (const MemoryRow& row : found.memory) {
    const std::string name = fmt::format("{}  {}  {}", row.what.kernel, row.what.shape, row.what.moves);
    const std::string moved = fmt::format("{:.4g}", row.what.bytes / 1e6);
    if (!row.failure.empty()) {
      table.add_row({row.what.model, row.what.type, moved, "-", "-", "-", "-", "-", name + ": " + row.failure});
      continue;
    }
    table.add_row({row.what.model, row.what.type, moved, micro(row.time.median), micro(row.time.spread),
                   fmt::format("{:.4g}", row.bytes_per_second() / 1e9), percent(share_of_copy(row, found)),
                   percent(row.copy / row.time.median), name});
  }
  return table.to_text();
}

std::string product_table(const Found& found) {
  TextTable table({{"model", ""},
                   {"type", ""},
                   {"first", "(TFLOPS)"},
                   {"by timing", "(TFLOPS)"},
                   {"best", "(TFLOPS)"},
                   {"algorithms", ""},
                   {"first", "(% of best)"},
                   {"by timing", "(% of best)"},
                   {"product, m x n x k", ""}});
  for (const ProductRow& row : found.products) {
    const std::string name = fmt::format("{}  {}", row.what.kernel, row.what.shape);
    if (!row.failure.empty()) {
      table.add_row({row.what.model, row.what.type, "-", "-", "-", "-", "-", "-", name + ": " + row.failure});
      continue;
    }
    const double flops = row.what.flops;
    table.add_row({row.what.model, row.what.type, tera(flops, row.first), tera(flops, row.timed), tera(flops, row.best),
                   std::to_string(row.algorithms), percent(row.best / row.first), percent(row.best / row.timed), name});
  }
  return table.to_text();
}

std::string compute_table(const Found& found, const std::vector<ComputeRow>& rows) {
  TextTable table({{"model", ""},
                   {"type", ""},
                   {"time", "(us)"},
                   {"spread", "(us)"},
                   {"rate", "(TFLOPS)"},
                   {"of the best product", "(%)"},
                   {"by", ""},
                   {"kernel, shape", ""}});
  for (const ComputeRow& row : rows) {
    const std::string name = fmt::format("{}  {}", row.what.kernel, row.what.shape);
    if (!row.failure.empty()) {
      table.add_row({row.what.model, row.what.type, "-", "-", "-", "-", "-", name + ": " + row.failure});
      continue;
    }
    const double best = best_product(found, row.what.type), seconds = row.time.median.si();
    table.add_row({row.what.model, row.what.type, micro(row.time.median), micro(row.time.spread),
                   tera(row.what.flops, seconds), best > 0.0 ? percent(row.what.flops / seconds / best) : "-", row.by,
                   name});
  }
  return table.to_text();
}

template <class Case>
Json json_of(const Case& what, const std::string& failure) {
  Json json = {{"kernel", what.kernel}, {"model", what.model}, {"type", what.type}, {"shape", what.shape}};
  if (!failure.empty()) json["error"] = failure;
  return json;
}

Json json_of(const Verdict& verdict, double aim) {
  Json json = {{"aim", aim}, {"rows", verdict.rows}, {"reach", verdict.reach}};
  if (verdict.rows > 0) {
    json["worst"] = verdict.worst;
    json["worst_is"] = verdict.of;
  }
  return json;
}

Json compute_json(const Found& found, const std::vector<ComputeRow>& rows) {
  Json list = Json::array();
  for (const ComputeRow& row : rows) {
    Json json = json_of(row.what, row.failure);
    json["flops"] = row.what.flops;
    if (row.failure.empty()) {
      const double rate = row.what.flops / row.time.median.si(), best = best_product(found, row.what.type);
      json["by"] = row.by;
      json["time_s"] = row.time.median.si();
      json["spread_s"] = row.time.spread.si();
      json["flop_per_s"] = rate;
      if (best > 0.0) json["of_best_product"] = rate / best;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string to_text(const Found& found) {
  std::string text = fmt::format("# {}; {}\n", found.device, found.libraries);
  if (!found.clocks_before.empty())
    text += fmt::format("# {} before, {} after\n", found.clocks_before, found.clocks_after);
  text += fmt::format("# a large copy: {:.4g} GB/s, read and written\n", found.copy_bytes_per_second / 1e9);
  if (!found.memory.empty()) {
    text += memory_table(found);
    text += line_of(memory_verdict(found), "what moves 32 MiB or more", kMemoryAim, "the copy's rate");
  }
  if (!found.products.empty()) {
    text += product_table(found);
    text += line_of(product_verdict(found, &ProductRow::first), "products as the library proposes", kProductAim,
                    "its best algorithm");
    text += line_of(product_verdict(found, &ProductRow::timed), "products chosen by timing", kProductAim,
                    "its best algorithm");
  }
  if (!found.convolutions.empty()) text += compute_table(found, found.convolutions);
  if (!found.attention.empty()) text += compute_table(found, found.attention);
  return text;
}

Json to_json(const Found& found) {
  Json memory = Json::array(), products = Json::array();
  for (const MemoryRow& row : found.memory) {
    Json json = json_of(row.what, row.failure);
    json["moves"] = row.what.moves;
    json["bytes"] = row.what.bytes;
    if (row.failure.empty()) {
      json["time_s"] = row.time.median.si();
      json["spread_s"] = row.time.spread.si();
      json["bytes_per_s"] = row.bytes_per_second();
      json["of_copy"] = share_of_copy(row, found);
      json["of_copy_as_large"] = row.copy / row.time.median;
      json["judged"] = row.what.bytes >= kMinBytes;
    }
    memory.push_back(std::move(json));
  }
  for (const ProductRow& row : found.products) {
    Json json = json_of(row.what, row.failure);
    json["flops"] = row.what.flops;
    if (row.failure.empty()) {
      json["first_s"] = row.first;
      json["timed_s"] = row.timed;
      json["best_s"] = row.best;
      json["algorithms"] = row.algorithms;
      json["first_of_best"] = row.best / row.first;
      json["timed_of_best"] = row.best / row.timed;
    }
    products.push_back(std::move(json));
  }
  return {{"device", found.device},
          {"libraries", found.libraries},
          {"clocks_before", found.clocks_before},
          {"clocks_after", found.clocks_after},
          {"copy_bytes_per_s", found.copy_bytes_per_second},
          {"memory", std::move(memory)},
          {"products", std::move(products)},
          {"convolutions", compute_json(found, found.convolutions)},
          {"attention", compute_json(found, found.attention)},
          {"verdicts",
           {{"memory", json_of(memory_verdict(found), kMemoryAim)},
            {"products_first", json_of(product_verdict(found, &ProductRow::first), kProductAim)},
            {"products_timed", json_of(product_verdict(found, &ProductRow::timed), kProductAim)}}}};
}

}  // namespace meshwright::bench
