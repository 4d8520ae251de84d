// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/front.h"

#include <filesystem>

#include "cli/documents/figures/report.h"
#include "cli/terminal/output.h"
#include "core/base/text_table.h"

namespace meshwright {

namespace {

std::string plan_file(const std::string& folder, std::size_t number) {
  return (std::filesystem::path(folder) / fmt::format("front-{}.json", number)).string();
}

}  // namespace

std::string front_table(const std::vector<FrontPoint>& front, const DevicePrices& prices, const std::string& folder) {
  std::vector<TextTable::Column> columns = {{"front", ""}, {"step", "(ms)"}, {"memory", "(GiB)"}, {"devices", ""}};
  if (!prices.empty()) columns.insert(columns.end(), {{"price", "(per step)"}, {"price", "(10^6 samples)"}});
  columns.insert(columns.end(),
                 {{"stages", ""}, {"layers", ""}, {"micro-batches", ""}, {"schedule", ""}, {"recompute", ""}});
  TextTable table(columns);
  for (std::size_t i = 0; i < front.size(); ++i) {
    const Plan& plan = front[i].plan;
    std::vector<std::string> row = {fmt::format("{}", i + 1), in_milliseconds(plan.predicted.step_time),
                                    in_gibibytes(plan.predicted.peak_memory), fmt::format("{}", front[i].devices)};
    if (!prices.empty()) {
      const PlanPrice price = price_of(plan, prices);
      row.insert(row.end(), {fmt::format("{:.6g}", price.per_step), fmt::format("{:.6g}", price.per_million_samples)});
    }
    row.insert(row.end(),
               {fmt::format("{}", plan.stages.size()), fmt::format("{}", plan.layer_starts.size()),
                fmt::format("{}", plan.training.microbatches), name_of(plan.schedule), recompute_text(plan.training)});
    table.add_row(row);
  }
  const std::string where =
      folder.empty() || front.empty()
          ? ""
          : fmt::format("# plans written to {} ... {}\n", plan_file(folder, 1), plan_file(folder, front.size()));
  return table.to_text() + where;
}

Json front_json(const std::vector<FrontPoint>& front, const DevicePrices& prices, const std::string& folder) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < front.size(); ++i) {
    const Plan& plan = front[i].plan;
    Json row = {{"step_time_s", plan.predicted.step_time.si()},
                {"peak_memory_bytes", bytes_json(plan.predicted.peak_memory)},
                {"num_devices", front[i].devices},
                {"num_stages", plan.stages.size()},
                {"num_layers", plan.layer_starts.size()},
                {"num_micro_batches", plan.training.microbatches},
                {"schedule", name_of(plan.schedule)},
                {"recompute", recompute_text(plan.training)}};
    if (!prices.empty()) add_price(row, price_of(plan, prices));
    if (!folder.empty()) row["output"] = plan_file(folder, i + 1);
    rows.push_back(std::move(row));
  }
  return rows;
}

void expect_new_folder(const std::string& folder, const std::string& output) {
  namespace fs = std::filesystem;
  if (folder.empty()) return;
  std::error_code error;
  const fs::path given(folder);
  const fs::path path = given.has_filename() ? given : given.parent_path();  // "front/" is "front"
  const auto location = [](const fs::path& file) {
    std::error_code unknown;
    const fs::path found = fs::weakly_canonical(fs::absolute(file, unknown), unknown);
    return unknown ? file : found;
  };
  require(output.empty() || (location(output) != location(path) && location(output).parent_path() != location(path)),
          "--pareto-dir: -o {} would be written into the same folder; give another folder.", output);
  if (fs::exists(path, error)) {
    require(fs::is_directory(path, error) && fs::is_empty(path, error),
            "--pareto-dir: {} already exists and is not an empty folder; give a new or empty one.", folder);
    expect_writable(plan_file(folder, 1), {});
  } else {
    expect_writable(path, {});
  }
}

void write_front(const std::vector<FrontPoint>& front, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: cannot be created ({}).", folder, error.message()));
  for (std::size_t i = 0; i < front.size(); ++i)
    write_file(plan_file(folder, i + 1), json_text(to_json(front[i].plan), 1) + "\n");
}

}  // namespace meshwright
