// SPDX-License-Identifier: Apache-2.0
#include "report/page/stages_table.h"

#include "report/page/html.h"

namespace meshwright {

std::string layers_range_text(int first, int last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

std::string stages_table(const std::vector<StageRow>& stages) {
  HtmlTable table("The stages of the plan", {{"stage", HtmlTable::Align::Text},
                                             {"layers", HtmlTable::Align::Text},
                                             {"hosts", HtmlTable::Align::Text},
                                             {"devices", HtmlTable::Align::Text},
                                             {"logical mesh", HtmlTable::Align::Text},
                                             {"forward, ms"},
                                             {"backward, ms"},
                                             {"update, ms"},
                                             {"memory, GiB"},
                                             {"in flight"}});
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageRow& row = stages[s];
    table.add_row({fmt::format("{}", s), row.layers, row.hosts, row.devices, row.mesh, milliseconds_text(row.forward),
                   milliseconds_text(row.backward), milliseconds_text(row.update), gibibytes_text(row.memory),
                   row.in_flight ? fmt::format("{}", *row.in_flight) : ""});
  }
  return table.html();
}

}  // namespace meshwright
