// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/pages/step_page.h"

#include <map>
#include <vector>

#include "core/base/sha256.h"
#include "report/page/answer.h"
#include "report/page/html.h"
#include "report/page/sharding_section.h"
#include "report/page/step_sections.h"

namespace meshwright {

std::string html_line(const std::string& path) {
  return fmt::format("# report written to {}; open it in a browser\n", path);
}

Json with_devices_together(Json document) {
  const auto list = document.find("devices");
  if (list == document.end()) return document;
  std::map<std::string, std::size_t> known;  // by all that is said of them
  std::vector<std::vector<int>> numbers;
  Json groups = Json::array();
  for (Json device : *list) {
    const int number = device.at("device").get<int>();
    device.erase("device");
    const auto [same, is_new] = known.try_emplace(device.dump(), numbers.size());
    if (is_new) {
      numbers.emplace_back();
      groups.push_back(std::move(device));
    }
    numbers[same->second].push_back(number);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) groups[i]["devices"] = ranges_json(numbers[i]);
  *list = std::move(groups);
  return document;
}

StepOfPage step_of_page(const Plan& plan, const SimulatedPlan& simulated, const Breakdown& breakdown) {
  return {.plan = plan,
          .program = simulated.loaded.program,
          .graph = *simulated.loaded.graph,
          .step = simulated.step,
          .prediction = simulated.prediction,
          .folded = simulated.alike(),
          .breakdown = breakdown.step,
          .ops = breakdown.ops,
          .fits = stage_fits(plan, simulated.loaded.program, simulated.loaded.check)};
}

void add_step_page(Page& page, const Plan& plan, const SimulatedPlan& simulated, const Breakdown& breakdown) {
  add_answer(page, plan);
  add_step_sections(page, step_of_page(plan, simulated, breakdown));
}

void add_sharding(Page& page, const Plan& plan, const Graph& graph, const Costs& costs) {
  const std::vector<Explanation> found = explain_plan(plan, graph, *costs.model, "");
  if (auto section = sharding_section(page, found, plan, graph)) page.sections.push_back(*std::move(section));
}

namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

void add_provenance(Page& page, const std::string& command_line, const ProfileSource& profile) {
  const Json& document = page.document;
  std::vector<std::pair<std::string, std::string>> rows = {{"Command", command_line},
                                                           {"Version", document.at("version").get<std::string>()},
                                                           {"Costs", document.value("costs", "")},
                                                           {"Intervals", document.value("interval_basis", "")}};
  if (!profile.empty()) {
    rows.emplace_back("Database", profile.path);
    rows.emplace_back("SHA-256 of it", hex(sha256(read_file(profile.path, kMaxFileBytes))));
  }
  if (document.contains("seed")) rows.emplace_back("Seed", document.at("seed").dump());
  if (document.contains("search")) rows.emplace_back("Search", document.at("search").get<std::string>());
  std::erase_if(rows, [](const auto& row) { return row.second.empty(); });
  const char* const lead = page.verb == "run"
                               ? "The same command runs the same steps; what is measured differs from run to run."
                               : "The same command with the same version and database writes the same page.";
  page.sections.push_back(provenance_section(lead, rows));
}

}  // namespace meshwright
