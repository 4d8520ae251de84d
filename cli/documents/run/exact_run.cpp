// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/run/exact_run.h"

#include "cli/documents/figures/report.h"
#include "core/base/errors.h"
#include "core/base/text_table.h"
#include "executor/exact/residue.h"

namespace meshwright {

void expect_equal(const ExactRun& run) {
  std::vector<std::string> found;
  for (const ExactClass& of : run.check.classes)
    if (of.first)
      found.push_back(
          fmt::format("{} differ ({} of {} tiles; first {})", of.name, of.different, of.tiles, to_text(*of.first)));
    else
      found.push_back(fmt::format("{} are equal", of.name));
  if (run.check.equal()) return;
  throw InternalError(fmt::format("the run and one device disagree over the integers modulo {}: {}", exact::kPrime,
                                  fmt::join(found, "; ")));
}

std::string to_text(const ExactRun& run) {
  std::string text = header_lines("run", run.plan) + to_text(run.reuse, "run");
  text += fmt::format("# {} steps on {}, over the integers modulo {}, seed {}\n", run.steps, run.devices, exact::kPrime,
                      run.seed);
  TextTable table({{"compared", ""}, {"tensors", ""}, {"tiles", ""}, {"different", ""}});
  for (const ExactClass& of : run.check.classes)
    table.add_row(
        {of.name, fmt::format("{}", of.tensors), fmt::format("{}", of.tiles), fmt::format("{}", of.different)});
  return text + table.to_text() + "# every number on every device is that of one device alone\n";
}

Json to_json(const ExactRun& run) {
  Json json = header_json("run", run.plan);
  add_reuse(json, run.made, run.reuse);
  json["prime"] = exact::kPrime;
  json["steps"] = run.steps;
  json["seed"] = run.seed;
  for (const ExactClass& of : run.check.classes)
    json["compared"].push_back(
        {{"what", of.name}, {"tensors", of.tensors}, {"tiles", of.tiles}, {"different", of.different}});
  return json;
}

}  // namespace meshwright
