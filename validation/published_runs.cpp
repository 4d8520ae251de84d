// SPDX-License-Identifier: Apache-2.0
#include "validation/published_runs.h"

#include <array>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMany = 100'000'000;

std::optional<bool> flag(const CsvTable::Row& row, std::string_view column) {
  const auto value = row.integer(column, 0, 1);
  if (!value) return std::nullopt;
  return *value == 1;
}

// What is not published is nullopt; negative times and times of no length are wrong.
std::optional<double> positive(const CsvTable::Row& row, std::string_view column) {
  const auto value = row.number(column);
  require(!value || *value > 0, "{} is {}; give a positive number, or none.", row.place(column), *value);
  return value;
}

// The year and month of a release that follows a section sign: "26.04" in "report §26.04 Container"; "" where none
// does.
std::string release_of(std::string_view where) {
  constexpr std::string_view kSection = "\u00a7";
  for (std::size_t at = where.find(kSection); at != where.npos; at = where.find(kSection, at + 1)) {
    const std::string_view text = where.substr(at + kSection.size(), 5);
    const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
    if (text.size() == 5 && digit(0) && digit(1) && text[2] == '.' && digit(3) && digit(4)) return std::string(text);
  }
  return {};
}

PublishedRun run_from_row(const CsvTable::Row& row) {
  const auto text = [&](std::string_view column) { return std::string(row.text(column)); };
  const auto count = [&](std::string_view column) { return row.integer(column, 1, kMany); };
  PublishedRun run;
  run.id = text("row_id");
  run.source = text("source_id");
  run.group = text("group");
  run.place = row.place();
  run.release = release_of(row.text("where"));
  run.device = text("gpu");
  run.interconnect = text("interconnect");
  run.framework = text("framework");
  run.model = text("model");
  run.arch = lower_case(text("arch"));
  run.attention = lower_case(text("attn_impl"));
  run.precision = lower_case(text("precision"));
  run.recompute = lower_case(text("recompute"));
  run.schedule = lower_case(text("schedule"));
  run.zero = lower_case(text("zero"));
  run.status = lower_case(text("status"));
  run.device_memory_gb = positive(row, "gpu_mem_gb");
  run.devices = count("n_gpus");
  run.devices_per_host = count("gpus_per_node");
  run.layers = count("layers");
  run.hidden = count("hidden");
  run.heads = count("heads");
  run.kv_heads = count("kv_heads");
  run.ffn = count("ffn");
  run.seq = count("seq");
  run.vocab = count("vocab");
  run.experts = row.integer("experts", 0, kMany);
  run.top_k = row.integer("topk", 0, kMany);
  run.gated = flag(row, "gated_mlp");
  run.sequence_parallel = flag(row, "seq_par");
  run.tp = count("tp");
  run.pp = count("pp");
  run.vpp = count("vpp");
  run.dp = count("dp");
  run.cp = count("cp");
  run.ep = count("ep");
  run.micro_batch = count("micro_batch");
  run.micro_batches = count("num_micro");
  run.global_batch = count("global_batch");
  if (const auto step = positive(row, "iteration_s")) run.step = Seconds(*step);
  if (const auto memory = positive(row, "memory_gb")) {
    // Allocators and drivers count in GiB, whatever the tables call it.
    const std::string kind = lower_case(row.text("memory_kind"));
    if (kind.find("sum over") == std::string::npos) run.memory = gibibytes(*memory);
    run.memory_by_driver = kind.find("nvidia-smi") != std::string::npos || kind.find("gpu memory") != std::string::npos;
  }
  const std::string notes = lower_case(row.text("notes"));
  run.partly_trained = row.text("notes").find("LoRA") != std::string_view::npos;
  run.not_compiled = notes.find("no compile") != std::string::npos;
  run.overlaps_tensor_parallel = notes.find("async tp") != std::string::npos;
  run.out_of_memory = run.status == "oom";
  return run;
}

}  // namespace

std::optional<std::string> PublishedRun::why_not_a_run() const {
  static const std::vector<std::string> kArchitectures = {"gpt", "llama", "moe"};
  if (std::find(kArchitectures.begin(), kArchitectures.end(), arch) == kArchitectures.end())
    return fmt::format("architecture '{}' is not made from these columns, only gpt, llama and moe", arch);
  const std::array<std::pair<const char*, bool>, 6> needed = {{{"n_gpus", devices.has_value()},
                                                               {"layers", layers.has_value()},
                                                               {"hidden", hidden.has_value()},
                                                               {"heads", heads.has_value()},
                                                               {"seq", seq.has_value()},
                                                               {"tp", tp.has_value()}}};
  for (const auto& [column, given] : needed)
    if (!given) return fmt::format("{} is not stated", column);
  if (!global_batch && !(micro_batch && micro_batches)) return std::string("the batch is not stated");
  if (!step && !memory && !out_of_memory) return std::string("neither a time nor the memory of a device is published");
  return std::nullopt;
}

namespace {
// nullopt: `table` has every column that a run needs.
std::optional<std::string> why_no_runs(const CsvTable& table) {
  for (const char* column : {"row_id", "gpu", "n_gpus", "layers", "hidden", "seq", "tp"})
    if (!table.has(column))
      return fmt::format(
          "the column '{}' is missing; give a table of published runs with the columns of docs/files.md.", column);
  return std::nullopt;
}
}  // namespace

PublishedRuns read_published_runs(const CsvTable& table) {
  if (const auto reason = why_no_runs(table)) throw InputError(fmt::format("{}: {}", table.place(), *reason));
  PublishedRuns read;
  for (const CsvTable::Row& row : table.rows()) {
    try {
      read.runs.push_back(run_from_row(row));
    } catch (const InputError& error) {
      read.wrong.push_back({std::string(row.text("row_id")), row.place(), error.what()});
    }
  }
  return read;
}

PublishedRuns read_published_runs(const std::vector<std::string>& files) {
  PublishedRuns all;
  for (const std::string& file : files) {
    const CsvTable table = CsvTable::read(file);
    if (const auto reason = files.size() > 1 ? why_no_runs(table) : std::nullopt) {
      all.wrong.push_back({"", file, *reason});
      continue;
    }
    PublishedRuns some = read_published_runs(table);
    std::move(some.runs.begin(), some.runs.end(), std::back_inserter(all.runs));
    std::move(some.wrong.begin(), some.wrong.end(), std::back_inserter(all.wrong));
  }
  return all;
}

}  // namespace meshwright
