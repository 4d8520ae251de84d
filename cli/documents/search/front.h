// SPDX-License-Identifier: Apache-2.0
// The Pareto front: the plans that no other plan beats in step time, memory and devices at once, as a table, as JSON
// and as plan files.
#pragma once

#include <string>
#include <vector>

#include "cli/documents/figures/price.h"
#include "core/planner/make_plan.h"

namespace meshwright {

// Lines of the document; `folder` ("": none) is where the plans are written.
[[nodiscard]] std::string front_table(const std::vector<FrontPoint>& front, const DevicePrices& prices,
                                      const std::string& folder);
[[nodiscard]] Json front_json(const std::vector<FrontPoint>& front, const DevicePrices& prices,
                              const std::string& folder);

// To be called before the search ("": no folder): throws InputError unless `folder` is new or empty and `output` is in
// another folder, SystemError when it cannot be created.
void expect_new_folder(const std::string& folder, const std::string& output);
// Creates the folder and writes front-1.json, front-2.json, ... into it, in the order of the front.
void write_front(const std::vector<FrontPoint>& front, const std::string& folder);

}  // namespace meshwright
